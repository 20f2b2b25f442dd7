package onnxruntime

import (
	"math"
	"slices"
	"testing"

	"lockstep"
	"lockstep/golden/vectors"
	"lockstep/internal/onnx"
)

// TestVectors holds ONNX Runtime's own operators to the vectors of its
// profile, whose results this repository computed without it.
func TestVectors(t *testing.T) {
	profile := newSimulator(t, Config{}).Profile()
	run := func(x []float32, node func(b *builder)) any {
		var b builder
		node(&b)
		y, err := runRow(oneNode(b.nodes[0], int64(len(x)), b.constants...), x, len(x))
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
		lockstep.LayerNorm130: "layer-norm-1.30", lockstep.LayerNorm127: "layer-norm-1.27",
		lockstep.LayerNorm123:    "layer-norm-1.23",
		lockstep.LayerNorm130ARM: "layer-norm-1.30arm",
	}[profile.LayerNorm]
	vectors.Hold(t, norm, func(v vectors.Vector) any {
		return run(v.Float32s("x"), func(b *builder) {
			b.node(
				"LayerNormalization", "y",
				attributes{{Name: "axis", Int: -1}, {Name: "epsilon", Float: epsilon}}, "x",
				constant(b, "weight", v.Float32s("weight"), 128),
				constant(b, "bias", v.Float32s("bias"), 128),
			)
		})
	})
	softmax := map[lockstep.Softmax]string{
		lockstep.SoftmaxAVX512: "softmax-avx512", lockstep.SoftmaxAVX2: "softmax-avx2",
		lockstep.SoftmaxNEON: "softmax-neon",
	}[profile.Softmax]
	vectors.Hold(t, softmax, func(v vectors.Vector) any {
		x := slices.Clone(v.Float32s("x"))
		for i := int(v.Int("n")); i < len(x); i++ {
			x[i] = float32(math.Inf(-1))
		}
		return run(x, func(b *builder) { b.node("Softmax", "y", axis(-1), "x") })
	})
	vectors.Map(t, "tanh", func(y, x []float32) {
		copy(
			y, run(slices.Clone(x), func(b *builder) { b.node("Tanh", "y", nil, "x") }).([]float32),
		)
	})
}

// oneNode is a model of one node, with the input x and the output y.
func oneNode(node onnx.Node, n int64, constants ...onnx.Tensor) []byte {
	node.Outputs = []string{"y"}
	value := func(name string) []onnx.Value {
		return []onnx.Value{{Name: name, Type: onnx.Float, Dims: []int64{1, n}}}
	}
	m := onnx.Model{
		Opset: 17,
		Graph: onnx.Graph{
			Nodes:        []onnx.Node{node},
			Initializers: constants,
			Inputs:       value("x"),
			Outputs:      value("y"),
		},
	}
	return m.Encode(8, nil)
}
