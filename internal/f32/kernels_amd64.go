//go:build !noasm

package f32

import "golang.org/x/sys/cpu"

// assembly returns the sets that this CPU, and its operating system, supports.
func assembly() []*Kernels {
	var sets []*Kernels
	if !cpu.X86.HasAVX2 || !cpu.X86.HasFMA {
		return sets
	}
	if cpu.X86.HasAVX512F {
		sets = append(sets, setAVX512)
	}
	return append(sets, setAVX2)
}

var setAVX2 = &Kernels{
	Name: "avx2",
	MatMul: tiled(
		band{rows: 3, tiles: []tile{{2, matMul3x2AVX2}}},
		band{rows: 2, tiles: []tile{{2, matMul2x2AVX2}}},
		band{rows: 5, tiles: []tile{{1, matMul5x1AVX2}}},
		band{rows: 1, tiles: []tile{{4, matMul1x4AVX2}, {1, matMul1x1AVX2}}},
	),
	LayerNorm:     normalise(layerNormAVX2),
	Gelu:          gelus(geluAVX2),
	Exp512:        withNumber("Exp512", exp512AVX2),
	Exp256:        withNumber("Exp256", exp256AVX2),
	ExpNumPy:      withNumber("ExpNumPy", expNumPyAVX2),
	ExpNumPyFused: withNumber("ExpNumPyFused", expNumPyFusedAVX2),

	Softmax512:   causal("Softmax512", softmax512AVX2),
	Softmax256:   causal("Softmax256", softmax256AVX2),
	Softmax4:     causal("Softmax4", fours(exp256AVX2)),
	LayerNormARM: LayerNorm130ARM,
	ExpLibrary:   expLibrary,
	Transpose:    transposing(transposeAVX2),
	Divide:       withNumber("Divide", divideAVX2),
	Add:          added(addAVX2),
	Max:          greatest(maxAVX2),
	Peak:         peak(peakAVX2, 12*8),
}

var setAVX512 = &Kernels{
	Name: "avx512",
	MatMul: tiled(
		band{rows: 6, tiles: []tile{{4, matMul6x4AVX512}}, whole: true},
		band{rows: 5, tiles: []tile{{4, matMul5x4AVX512}}},
		band{rows: 10, tiles: []tile{{2, matMul10x2AVX512}, {1, matMul10x1AVX512}}},
		band{rows: 2, tiles: []tile{{4, matMul2x4AVX512}}},
		band{
			rows:  1,
			tiles: []tile{{8, matMul1x8AVX512}, {4, matMul1x4AVX512}, {1, matMul1x1AVX512}},
		},
	),
	LayerNorm:     normalise(layerNormAVX2), // its lanes are those of AVX2
	Gelu:          gelus(geluAVX512),
	Exp512:        withNumber("Exp512", exp512AVX512),
	Exp256:        withNumber("Exp256", exp256AVX512),
	ExpNumPy:      withNumber("ExpNumPy", expNumPyAVX512),
	ExpNumPyFused: withNumber("ExpNumPyFused", expNumPyFusedAVX512),

	Softmax512:   causal("Softmax512", softmax512AVX512),
	Softmax256:   causal("Softmax256", softmax256AVX512),
	Softmax4:     causal("Softmax4", fours(exp256AVX512)),
	LayerNormARM: LayerNorm130ARM,
	ExpLibrary:   expLibrary,
	Transpose:    transposing(transposeAVX2),
	Divide:       withNumber("Divide", divideAVX512),
	Add:          added(addAVX512),
	Max:          greatest(maxAVX512),
	Peak:         peak(peakAVX512, 12*16),
}
