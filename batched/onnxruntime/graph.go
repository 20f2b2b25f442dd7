package onnxruntime

import (
	"encoding/binary"
	"fmt"
	"math"

	"lockstep/internal/model"
	"lockstep/internal/onnx"
)

// network is a model that sessions are made of.
type network struct {
	data           []byte
	positions      int  // of its output: 20, or 1 for the last
	positionsFirst bool // inputs have shape (20, batch, ·), not (batch, 20, ·)
}

// lastPosition makes a network that computes only what the last of the model's 20 positions
// depends on, which is all that a rollout uses, with every bit of it. It refuses any graph but
// tinyphysics', whatever its weights.
//
// The graph is made of the model's weights anew, with positions outermost, in shape
// (20, batch, 128): then the products inside attention read queries, keys and values as they lie,
// which saves most transpositions. The last block has one query row. For one row ONNX Runtime
// multiplies and adds where it otherwise fuses, which changes bits. So that product of weights and
// values is given the factor 2, with which ONNX Runtime fuses, and the projection behind it the
// factor ½; both are exact.
func lastPosition(data []byte) (network, error) {
	weights, err := model.Parse(data)
	if err != nil {
		return network{}, err
	}
	return network{data: rebuild(weights, 2), positions: 1, positionsFirst: true}, nil
}

const (
	scoreScale = 0x1.6a09e6p-3  // float32(1/√32)
	epsilon    = 0x1.4f8b58p-17 // of layer normalisation, float32(1e-5)

	// Of the tanh form of GELU, ½·f·(1 + tanh(√(2/π)·(f + 0.044715·f³))).
	geluCubic = 0x1.6e4e26p-5
	geluScale = 0x1.988454p-1

	fusedMatMul = "com.microsoft.FusedMatMul"
)

// builder collects nodes and constants.
type builder struct {
	nodes     []onnx.Node
	constants []onnx.Tensor
}

type attributes = []onnx.Attribute

// node adds a node and returns the name of its output.
func (b *builder) node(operator, output string, a attributes, inputs ...string) string {
	b.nodes = append(
		b.nodes,
		onnx.Node{OpType: operator, Inputs: inputs, Outputs: []string{output}, Attributes: a},
	)
	return output
}

func axis(i int64) attributes { return attributes{{Name: "axis", Int: i}} }

func perm(order ...int64) attributes { return attributes{{Name: "perm", Ints: order}} }

func alpha(x float32) attributes { return attributes{{Name: "alpha", Float: x}} }

// constant adds a constant, unless there is one of that name, and returns its
// name.
func constant[T float32 | int64](b *builder, name string, values []T, dims ...int64) string {
	for i := range b.constants {
		if b.constants[i].Name == name {
			return name
		}
	}
	t := onnx.Tensor{Name: name, Type: onnx.Float, Dims: dims}
	if _, ok := any(values).([]int64); ok {
		t.Type = onnx.Int64
	}
	t.Raw, _ = binary.Append(nil, binary.LittleEndian, values)
	b.constants = append(b.constants, t)
	return name
}

func (b *builder) ints(name string, values ...int64) string {
	return constant(b, name, values, int64(len(values)))
}

func (b *builder) scalar(name string, x float32) string { return constant(b, name, []float32{x}) }

// columns returns some columns of a matrix of a row length.
func columns(matrix []float32, stride, from, to int) []float32 {
	out := make([]float32, 0, len(matrix)/stride*(to-from))
	for ; len(matrix) > 0; matrix = matrix[stride:] {
		out = append(out, matrix[from:to]...)
	}
	return out
}

// rebuild makes the model that lastPosition describes. Scale is the factor in the last block; with
// 1 the bits are others.
func rebuild(w *model.Weights, scale float32) []byte {
	const rows, width = model.Context, model.Width
	b := &builder{}
	t := b.product("state_product", "states", w.StateEmbedding, model.StateSize, model.Half)
	t = b.node("Add", "state", nil, constant(b, "state_bias", w.StateBias, model.Half), t)
	e := b.node(
		"Gather", "token", axis(0),
		constant(b, "token_embedding", w.TokenEmbedding, model.Vocabulary, model.Half), "tokens",
	)
	x := b.node("Concat", "embedding", axis(-1), t, e)
	x = b.node(
		"Add", "positioned", nil, x,
		constant(b, "position_embedding", w.PositionEmbedding, rows, 1, width),
	)
	for i, l := range w.Layers {
		name := func(s string) string { return fmt.Sprintf("%d_%s", i, s) }
		if i < model.LayerCount-1 {
			x = b.attention(name, l, x)
		} else {
			x = b.lastAttention(name, l, x, scale)
		}
		x = b.perceptron(name, l, x)
	}
	b.product("output", b.norm("final_norm", x, w.FinalNorm), w.Head, width, model.Vocabulary)

	m := onnx.Model{Opset: 17, Graph: onnx.Graph{
		Nodes:        b.nodes,
		Initializers: b.constants,
		Inputs: []onnx.Value{
			{Name: "states", Type: onnx.Float, Dims: []int64{rows, -1, model.StateSize}},
			{Name: "tokens", Type: onnx.Int64, Dims: []int64{rows, -1}},
		},
		Outputs: []onnx.Value{
			{Name: "output", Type: onnx.Float, Dims: []int64{1, -1, model.Vocabulary}},
		},
	}}
	return m.Encode(8, map[string]int64{"com.microsoft": 1})
}

func (b *builder) norm(name, x string, n model.Norm) string {
	return b.node(
		"LayerNormalization", name,
		attributes{{Name: "axis", Int: -1}, {Name: "epsilon", Float: epsilon}}, x,
		constant(b, name+"_weight", n.Weight, model.Width),
		constant(b, name+"_bias", n.Bias, model.Width),
	)
}

func (b *builder) product(name, x string, factor []float32, k, n int64) string {
	return b.node("MatMul", name, nil, x, constant(b, name+"_factor", factor, k, n))
}

// attention adds a layer's attention to x.
func (b *builder) attention(name func(string) string, l model.Layer, x string) string {
	const rows, width = model.Context, model.Width
	n := b.norm(name("attention_norm"), x, l.AttentionNorm)
	mask := make([]float32, rows*rows) // 0, or -∞ where the key is later
	for i := range mask {
		if i%rows > i/rows {
			mask[i] = float32(math.Inf(-1))
		}
	}
	scores := b.node(
		"Add", name("masked"), nil, b.scores(name, l, n, n), constant(b, "mask", mask, rows, rows),
	)
	a := b.weighted(name, l, scores, n, 1)
	a = b.node("Transpose", name("attention_rows"), perm(2, 0, 1, 3), a)
	a = b.node("Reshape", name("attention_joined"), nil, a, b.ints("rows", rows, -1, width))
	a = b.product(name("projection"), a, l.Projection, width, width)
	return b.node("Add", name("attended"), nil, x, a)
}

// lastAttention adds a layer's attention to the last row of x, which sees all others, and leaves
// out the other rows.
func (b *builder) lastAttention(
	name func(string) string, l model.Layer, x string, scale float32,
) string {
	const width = model.Width
	n := b.norm(name("attention_norm"), x, l.AttentionNorm)
	row := b.ints("last", model.Context-1)
	query := b.node("Gather", name("query_norm"), axis(0), n, row)
	a := b.weighted(name, l, b.scores(name, l, query, n), n, scale)
	a = b.node("Reshape", name("attention_row"), nil, a, b.ints("one_row", 1, -1, width))
	factor := constant(b, name("projection_factor"), l.Projection, width, width)
	a = b.node(fusedMatMul, name("projection"), alpha(1/scale), a, factor)
	return b.node(
		"Add", name("attended"), nil, b.node("Gather", name("query_input"), axis(0), x, row), a,
	)
}

// scores are those of some rows' queries with all rows' keys.
func (b *builder) scores(name func(string) string, l model.Layer, queries, n string) string {
	q, k := b.heads(name, "q", l, queries, 0), b.heads(name, "k", l, n, model.Width)
	return b.node(fusedMatMul, name("scores"), attributes{
		{Name: "alpha", Float: scoreScale}, {Name: "transB", Int: 1},
		{Name: "transBatchA", Int: 1}, {Name: "transBatchB", Int: 1},
	}, q, k)
}

// weighted are the sums of the values of all rows, weighted by the softmax of scores, times scale.
func (b *builder) weighted(
	name func(string) string, l model.Layer, scores, n string, scale float32,
) string {
	weights, v := b.node("Softmax", name("weights"), axis(-1), scores),
		b.heads(name, "v", l, n, 2*model.Width)
	return b.node(fusedMatMul, name("attention"), attributes{
		{Name: "alpha", Float: scale}, {Name: "transBatchB", Int: 1},
	}, weights, v)
}

// heads are the queries, keys or values of x, the columns from the one given, head by head.
func (b *builder) heads(
	name func(string) string, part string, l model.Layer, x string, from int,
) string {
	const width = model.Width
	y := b.product(name(part), x, columns(l.QKV, 3*width, from, from+width), width, width)
	return b.node(
		"Reshape", name(part+"_heads"), nil, y, b.ints("heads", 0, -1, model.Heads, model.HeadSize),
	)
}

// perceptron adds a layer's perceptron to x.
func (b *builder) perceptron(name func(string) string, l model.Layer, x string) string {
	f := b.product(
		name("fc"), b.norm(name("mlp_norm"), x, l.MLPNorm), l.FC, model.Width, model.Hidden,
	)
	c := b.node("Mul", name("square"), nil, f, f)
	c = b.node("Mul", name("cube"), nil, f, c)
	c = b.node("Mul", name("scaled_cube"), nil, b.scalar("gelu_cubic", geluCubic), c)
	c = b.node("Add", name("polynomial"), nil, f, c)
	c = b.node("Mul", name("argument"), nil, b.scalar("gelu_scale", geluScale), c)
	c = b.node("Tanh", name("tanh"), nil, c)
	c = b.node("Add", name("one_plus"), nil, b.scalar("one", 1), c)
	c = b.node("Mul", name("gelu"), nil, f, c)
	c = b.node(
		fusedMatMul, name("out"), alpha(0.5), c,
		constant(b, name("out_factor"), l.Out, model.Hidden, model.Width),
	)
	return b.node("Add", name("done"), nil, x, c)
}
