package onnxruntime

import (
	"encoding/binary"
	"fmt"
	"math"

	"lockstep/internal/model"
	"lockstep/internal/onnx"
)

// Graph says how the network is put to ONNX Runtime. Only the last of its 20
// output positions is used, so that much of it can be left out. Every graph here
// keeps every bit of that position.
//
// What looks like the natural pruning does not, a single query row with a plain
// product of weights and values: for one row ONNX Runtime multiplies and adds
// where it otherwise fuses.
type Graph int

const (
	// GraphRebuilt is made of the model's weights anew. It computes what
	// GraphOneRow does, with positions outermost, in shape (20, batch, 128):
	// then the products inside attention read queries, keys and values as they
	// lie, which saves most transpositions.
	GraphRebuilt Graph = iota
	// GraphOneRow is the model with one query row in the last block, whose
	// product of weights and values is doubled and projection halved: exact
	// scalings, with which ONNX Runtime fuses.
	GraphOneRow
	// GraphTwoRows is the model with the last two query rows in the last
	// block's attention, and one row from its projection on.
	GraphTwoRows
	// GraphHead is the model without the other positions' final norm and head.
	GraphHead
	// GraphFull is the model as it is.
	GraphFull

	// graphUnscaled is GraphOneRow without the scalings. It changes bits and
	// serves the tests, which must see that.
	graphUnscaled
)

func (g Graph) String() string {
	return [...]string{"rebuilt", "one row", "two rows", "head", "full", "unscaled"}[g]
}

// network is a model that sessions are made of.
type network struct {
	data           []byte
	positions      int  // of its output: 20, or 1 for the last
	positionsFirst bool // inputs have shape (20, batch, ·), not (batch, 20, ·)
}

// newNetwork makes a network of a model. Any graph but GraphFull is refused for
// all models but the one that is known.
func newNetwork(data []byte, g Graph) (network, error) {
	if g == GraphFull {
		return network{data: data, positions: model.Context}, nil
	}
	weights, err := model.Parse(data)
	if err != nil {
		return network{}, err
	}
	if g == GraphRebuilt {
		return network{data: rebuild(weights), positions: 1, positionsFirst: true}, nil
	}
	data, err = prune(data, g)
	return network{data: data, positions: 1}, err
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
	b.nodes = append(b.nodes, onnx.Node{OpType: operator, Inputs: inputs, Outputs: []string{output}, Attributes: a})
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

// rebuild makes the model that GraphRebuilt describes.
func rebuild(w *model.Weights) []byte {
	const rows, width = model.Context, model.Width
	b := &builder{}
	t := b.product("state_product", "states", w.StateEmbedding, model.StateSize, model.Half)
	t = b.node("Add", "state", nil, constant(b, "state_bias", w.StateBias, model.Half), t)
	e := b.node("Gather", "token", axis(0), constant(b, "token_embedding", w.TokenEmbedding, model.Vocabulary, model.Half), "tokens")
	x := b.node("Concat", "embedding", axis(-1), t, e)
	x = b.node("Add", "positioned", nil, x, constant(b, "position_embedding", w.PositionEmbedding, rows, 1, width))
	for i, l := range w.Layers {
		name := func(s string) string { return fmt.Sprintf("%d_%s", i, s) }
		x = b.attention(name, l, x, i == model.LayerCount-1)
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
		Outputs: []onnx.Value{{Name: "output", Type: onnx.Float, Dims: []int64{1, -1, model.Vocabulary}}},
	}}
	return m.Encode(8, map[string]int64{"com.microsoft": 1})
}

func (b *builder) norm(name, x string, n model.Norm) string {
	return b.node("LayerNormalization", name, attributes{{Name: "axis", Int: -1}, {Name: "epsilon", Float: epsilon}},
		x, constant(b, name+"_weight", n.Weight, model.Width), constant(b, name+"_bias", n.Bias, model.Width))
}

func (b *builder) product(name, x string, factor []float32, k, n int64) string {
	return b.node("MatMul", name, nil, x, constant(b, name+"_factor", factor, k, n))
}

// attention adds a layer's attention to x: to all of its rows, or in the last layer to
// the last, which is all that is left of x then.
func (b *builder) attention(name func(string) string, l model.Layer, x string, last bool) string {
	const rows, heads, size, width = model.Context, model.Heads, model.HeadSize, model.Width
	n := b.norm(name("attention_norm"), x, l.AttentionNorm)
	queries := n
	if last {
		row := b.ints("last", rows-1)
		queries = b.node("Gather", name("query_norm"), axis(0), n, row)
		x = b.node("Gather", name("query_input"), axis(0), x, row)
	}
	split := func(part, x string, from int) string {
		y := b.product(name(part), x, columns(l.QKV, 3*width, from, from+width), width, width)
		return b.node("Reshape", name(part+"_heads"), nil, y, b.ints("heads", 0, -1, heads, size))
	}
	q, k, v := split("q", queries, 0), split("k", n, width), split("v", n, 2*width)
	scores := b.node(fusedMatMul, name("scores"), attributes{
		{Name: "alpha", Float: scoreScale}, {Name: "transB", Int: 1},
		{Name: "transBatchA", Int: 1}, {Name: "transBatchB", Int: 1},
	}, q, k)
	if !last { // the last position sees all others
		mask := make([]float32, rows*rows) // 0, or -∞ where the key is later
		for i := range mask {
			if i%rows > i/rows {
				mask[i] = float32(math.Inf(-1))
			}
		}
		scores = b.node("Add", name("masked"), nil, scores, constant(b, "mask", mask, rows, rows))
	}
	weights := b.node("Softmax", name("weights"), axis(-1), scores)
	scale := float32(1)
	if last {
		scale = 2
	}
	a := b.node(fusedMatMul, name("attention"), attributes{{Name: "alpha", Float: scale}, {Name: "transBatchB", Int: 1}}, weights, v)
	if last {
		a = b.node("Reshape", name("attention_row"), nil, a, b.ints("one_row", 1, -1, width))
		a = b.node(fusedMatMul, name("projection"), alpha(0.5), a, constant(b, name("projection_factor"), l.Projection, width, width))
	} else {
		a = b.node("Transpose", name("attention_rows"), perm(2, 0, 1, 3), a)
		a = b.node("Reshape", name("attention_joined"), nil, a, b.ints("rows", rows, -1, width))
		a = b.product(name("projection"), a, l.Projection, width, width)
	}
	return b.node("Add", name("attended"), nil, x, a)
}

// perceptron adds a layer's perceptron to x.
func (b *builder) perceptron(name func(string) string, l model.Layer, x string) string {
	f := b.product(name("fc"), b.norm(name("mlp_norm"), x, l.MLPNorm), l.FC, model.Width, model.Hidden)
	c := b.node("Mul", name("square"), nil, f, f)
	c = b.node("Mul", name("cube"), nil, f, c)
	c = b.node("Mul", name("scaled_cube"), nil, b.scalar("gelu_cubic", geluCubic), c)
	c = b.node("Add", name("polynomial"), nil, f, c)
	c = b.node("Mul", name("argument"), nil, b.scalar("gelu_scale", geluScale), c)
	c = b.node("Tanh", name("tanh"), nil, c)
	c = b.node("Add", name("one_plus"), nil, b.scalar("one", 1), c)
	c = b.node("Mul", name("gelu"), nil, f, c)
	c = b.node(fusedMatMul, name("out"), alpha(0.5), c, constant(b, name("out_factor"), l.Out, model.Hidden, model.Width))
	return b.node("Add", name("done"), nil, x, c)
}
