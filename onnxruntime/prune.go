package onnxruntime

import (
	"fmt"

	"lockstep/internal/model"
	"lockstep/internal/onnx"
)

// Values of the exported graph's last block.
const (
	lastInput      = "/h.2/Add_1_output_0" // residual stream, (batch, 20, 128)
	lastNorm       = "/h.3/attn/layer_norm/Add_1_output_0"
	lastProjection = "/h.3/attn/c_proj/MatMul_output_0"
	lastAttention  = "/h.3/Add_output_0" // residual stream after attention
	lastMLP        = "/h.3/mlp/c_proj/MatMul_output_0"
	lastOutput     = "/h.3/Add_1_output_0" // residual stream after the block
)

// prune changes the model whose weights are given into one whose output has the
// last position only, of shape (batch, 1, 1024). All that does not have to do
// with that stays as it is.
func prune(data []byte, g Graph) ([]byte, error) {
	weights, err := model.Parse(data)
	if err != nil {
		return nil, err
	}
	m, err := onnx.Parse(data)
	if err != nil {
		return nil, err
	}
	b := &builder{}
	p := onnx.Patch{Outputs: []onnx.Value{{Name: "output", Type: onnx.Float, Dims: []int64{-1, 1, model.Vocabulary}}}}
	if g == GraphHead {
		p.Remove = []string{lastOutput}
		all := b.node("Add", "all_positions", nil, lastAttention, lastMLP)
		b.node("Gather", lastOutput, axis(1), all, b.ints("last", model.Context-1))
	} else {
		projection, err := factor(&m.Graph, lastProjection)
		if err != nil {
			return nil, err
		}
		p.Remove = []string{lastAttention}
		p.Imports = map[string]int64{"com.microsoft": 1}
		b.lastAttention(g, weights.Layers[model.LayerCount-1].QKV, projection)
	}
	p.Nodes, p.Initializers = b.nodes, b.constants
	return p.Apply(data)
}

// lastAttention adds the last block's attention for the last position.
func (b *builder) lastAttention(g Graph, qkv []float32, projection string) {
	const rows, heads, size, width = model.Context, model.Heads, model.HeadSize, model.Width
	last := b.ints("last", rows-1)
	queryRows, queryIndices := int64(1), last
	if g == GraphTwoRows {
		queryRows, queryIndices = 2, b.ints("last_two", rows-2, rows-1)
	}
	split := func(name, x string, n int64, from int, order ...int64) string {
		y := b.node("MatMul", name, nil, x, constant(b, name+"_factor", columns(qkv, 3*width, from, from+width), width, width))
		y = b.node("Reshape", name+"_heads", nil, y, b.ints(name+"_shape", 0, n, heads, size))
		return b.node("Transpose", name+"_transposed", perm(order...), y)
	}
	query := b.node("Gather", "query_norm", axis(1), lastNorm, queryIndices)
	q := split("q", query, queryRows, 0, 0, 2, 1, 3)
	k := split("k", lastNorm, rows, width, 0, 2, 3, 1)
	v := split("v", lastNorm, rows, 2*width, 0, 2, 1, 3)

	// The last position sees all others, so that no mask is needed; of two rows
	// the first is not used.
	scores := b.node(fusedMatMul, "scores", alpha(scoreScale), q, k)
	weights := b.node("Softmax", "weights", axis(-1), scores)
	var a string
	switch g {
	case GraphOneRow:
		a = b.node(fusedMatMul, "attention", alpha(2), weights, v)
	case GraphTwoRows:
		a = b.node("MatMul", "attention_two", nil, weights, v)
		a = b.node("Gather", "attention", axis(2), a, b.ints("second", 1))
	default:
		a = b.node("MatMul", "attention", nil, weights, v)
	}
	a = b.node("Reshape", "attention_row", nil, a, b.ints("row_shape", 0, 1, width))
	if g == GraphOneRow {
		a = b.node(fusedMatMul, "projected", alpha(0.5), a, projection)
	} else {
		a = b.node("MatMul", "projected", nil, a, projection)
	}
	b.node("Add", lastAttention, nil, b.node("Gather", "input_row", axis(1), lastInput, last), a)
}

// factor is the name of the constant right factor of a product.
func factor(g *onnx.Graph, product string) (string, error) {
	for _, n := range g.Nodes {
		if n.OpType == "MatMul" && len(n.Inputs) == 2 && n.Outputs[0] == product {
			return n.Inputs[1], nil
		}
	}
	return "", fmt.Errorf("no matrix product %s", product)
}
