package onnxruntime

import (
	"math"
	"slices"
	"testing"

	"lockstep"
	"lockstep/golden/vectors"
)

// TestVectors holds what surrounds the network to inputs on which plausible
// alternatives give other bits.
func TestVectors(t *testing.T) {
	for operation, fused := range map[string]bool{"exp-numpy-U": false, "exp-numpy-F": true} {
		vectors.Map(t, operation, func(y, x []float32) {
			copy(y, x)
			expRow(y, 0, fused)
		})
	}
	for name, softmax := range softmaxes() {
		t.Run(name, func(t *testing.T) {
			for operation, fused := range map[string]bool{"softmax-numpy-U": false, "softmax-numpy-F": true} {
				vectors.Hold(t, operation, func(v vectors.Vector) any {
					probs := make([]float32, lockstep.VocabSize)
					softmax(v.Float32s("x"), probs, make([]float64, lockstep.VocabSize), fused)
					return probs
				})
			}
		})
	}
	running := func(v vectors.Vector) []float64 {
		var total float64
		sums := make([]float64, lockstep.VocabSize)
		for i, p := range v.Float32s("p") {
			total += float64(p)
			sums[i] = total
		}
		return sums
	}
	vectors.Hold(t, "cdf", func(v vectors.Vector) any {
		cdf := running(v)
		divide(cdf)
		return cdf
	})
	vectors.Hold(t, "choice", func(v vectors.Vector) any { return []int64{int64(choose(running(v), v.Float64("u")))} })
	vectors.Hold(t, "decode", func(v vectors.Vector) any { return []float64{bins[v.Int("token")]} })
	vectors.Hold(t, "encode", func(v vectors.Vector) any { return []int64{encode(v.Float64("x"))} })
	vectors.Hold(t, "clip", func(v vectors.Vector) any {
		current := v.Float64("current")
		return []float64{clip(v.Float64("x"), current-lockstep.MaxAccDelta, current+lockstep.MaxAccDelta)}
	})
	vectors.Hold(t, "sum", func(v vectors.Vector) any { return []float64{sum(v.Float64s("x"))} })
	vectors.Hold(t, "sum32", func(v vectors.Vector) any { return []float32{sum(v.Float32s("x"))} })
	vectors.Hold(t, "costs", func(v vectors.Vector) any {
		c := costs(v.Float64s("target"), v.Float64s("lataccel"), make([]float64, 400))
		return []float64{c.Lataccel, c.Jerk, c.Total}
	})
	vectors.Hold(t, "pid", func(v vectors.Vector) any {
		g, answers := v.Float64s("gains"), []float64{}
		c := &chunk{slots: []slot{{}, {target: v.Float64s("target")}}, running: []bool{false, true}, current: make([]float64, 2), command: make([]float64, 2)}
		var p pids
		p.add(0, lockstep.DefaultPID)
		p.add(1, lockstep.PID{P: g[0], I: g[1], D: g[2]})
		for step, lataccel := range v.Float64s("lataccel") {
			c.current[1] = lataccel
			p.update(c, step)
			answers = append(answers, c.command[1])
		}
		return answers
	})
}

// TestVectorsLibrary holds ONNX Runtime's own operators to the vectors of its
// profile, whose results this repository computed without it.
func TestVectorsLibrary(t *testing.T) {
	profile := newSimulator(t, Config{}).Profile()
	run := func(x []float32, node func(b *builder)) any {
		var b builder
		node(&b)
		y, err := runRow(probeModel(17, b.nodes[0], int64(len(x)), b.constants...), x)
		if err != nil {
			t.Fatal(err)
		}
		return slices.Clone(y)
	}
	// product is a row with a matrix of equal columns.
	product := func(operator string, a attributes) func(v vectors.Vector) any {
		return func(v vectors.Vector) any {
			n := int64(len(v.Float32s("a")))
			y := run(v.Float32s("a"), func(b *builder) {
				var matrix []float32
				for _, x := range v.Float32s("b") {
					matrix = append(matrix, slices.Repeat([]float32{x}, int(n))...)
				}
				b.node(operator, "y", a, "x", constant(b, "b", matrix, n, n))
			}).([]float32)
			return y[len(y)-1:]
		}
	}
	vectors.Hold(t, "product", product("MatMul", nil))
	vectors.Hold(t, "attention-output", product("MatMul", nil))
	vectors.Hold(t, "product-panels", product(fusedMatMul, alpha(0.5)))
	vectors.Hold(t, "score", product(fusedMatMul, alpha(scoreScale)))
	norm := map[lockstep.LayerNorm]string{
		lockstep.LayerNorm130: "layer-norm-1.30", lockstep.LayerNorm127: "layer-norm-1.27", lockstep.LayerNorm123: "layer-norm-1.23",
	}[profile.LayerNorm]
	vectors.Hold(t, norm, func(v vectors.Vector) any {
		return run(v.Float32s("x"), func(b *builder) {
			b.node("LayerNormalization", "y", attributes{{Name: "axis", Int: -1}, {Name: "epsilon", Float: epsilon}}, "x",
				constant(b, "weight", v.Float32s("weight"), 128), constant(b, "bias", v.Float32s("bias"), 128))
		})
	})
	softmax := map[lockstep.Softmax]string{lockstep.SoftmaxAVX512: "softmax-avx512", lockstep.SoftmaxAVX2: "softmax-avx2"}[profile.Softmax]
	vectors.Hold(t, softmax, func(v vectors.Vector) any {
		x := slices.Clone(v.Float32s("x"))
		for i := int(v.Int("n")); i < len(x); i++ {
			x[i] = float32(math.Inf(-1))
		}
		return run(x, func(b *builder) { b.node("Softmax", "y", axis(-1), "x") })
	})
	vectors.Map(t, "tanh", func(y, x []float32) {
		copy(y, run(slices.Clone(x), func(b *builder) { b.node("Tanh", "y", nil, "x") }).([]float32))
	})
}
