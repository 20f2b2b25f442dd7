//go:build !noasm

package f32

import "unsafe"

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
	LayerNormARM:  normalise(inFours(layerNormARMNEON)),
	Gelu:          gelus(geluNEON),
	Exp512:        withNumber("Exp512", exp512NEON),
	Exp256:        withNumber("Exp256", exp256NEON),
	ExpNumPy:      withNumber("ExpNumPy", expNumPyNEON),
	ExpNumPyFused: withNumber("ExpNumPyFused", expNumPyFusedNEON),
	ExpLibrary:    withNumber("ExpLibrary", expLibraryNEON),

	Softmax512: causal("Softmax512", softmax512NEON),
	Softmax256: causal("Softmax256", softmax256NEON),
	Softmax4:   causal("Softmax4", softmax4NEON),
	Transpose:  transposing(transposeNEON),
	Divide:     withNumber("Divide", divideNEON),
	Add:        added(addNEON),
	Max:        greatest(maxNEON),
	Peak:       peak(peakNEON, 24*4),
}

// inFours leaves the rows beyond a multiple of four to plain Go.
func inFours(
	run func(rows, n int, y, x, weight, bias *float32),
) func(rows, n int, y, x, weight, bias *float32) {
	return func(rows, n int, y, x, weight, bias *float32) {
		whole := rows &^ 3
		run(whole, n, y, x, weight, bias)
		LayerNorm130ARM(
			unsafe.Slice(y, rows*n)[whole*n:], unsafe.Slice(x, rows*n)[whole*n:],
			unsafe.Slice(weight, n), unsafe.Slice(bias, n),
		)
	}
}
