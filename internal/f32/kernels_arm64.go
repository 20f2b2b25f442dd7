//go:build !noasm

package f32

// assembly is the one set of arm64: every CPU that Go runs on has NEON.
func assembly() []*Kernels { return []*Kernels{setNEON} }

var setNEON = &Kernels{
	Name: "neon",
	MatMul: tiled(
		band{rows: 6, tiles: []tile{{1, matMul6x1NEON}}, whole: true},
		band{rows: 5, tiles: []tile{{1, matMul5x1NEON}}},
		band{rows: 2, tiles: []tile{{2, matMul2x2NEON}}},
		band{rows: 1, tiles: []tile{{4, matMul1x4NEON}, {1, matMul1x1NEON}}},
	),
	LayerNorm:     normalise(layerNormNEON),
	Gelu:          gelus(geluNEON),
	Exp512:        withNumber("Exp512", exp512NEON),
	Exp256:        withNumber("Exp256", exp256NEON),
	ExpNumPy:      withNumber("ExpNumPy", expNumPyNEON),
	ExpNumPyFused: withNumber("ExpNumPyFused", expNumPyFusedNEON),

	Softmax512: causal("Softmax512", softmax512NEON),
	Softmax256: causal("Softmax256", softmax256NEON),
	Softmax4:   causal("Softmax4", softmax4NEON),
	Transpose:  transposing(transposeNEON),
	Divide:     withNumber("Divide", divideNEON),
	Add:        added(addNEON),
	Max:        greatest(maxNEON),
	Peak:       peak(peakNEON, 24*4),
}
