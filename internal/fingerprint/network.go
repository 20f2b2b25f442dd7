package fingerprint

import (
	"fmt"

	"lockstep/internal/f32"
	"lockstep/internal/onnx"
)

// Network is the ONNX file that asks ONNX Runtime all rows of a probe at once, nil if the
// probe is not of it: the input x and the output y are the rows one after the other, of
// shape (1, n), and each row is a node of its own, of shape (1, row), as with the weights
// of a network.
func (p *Probe) Network() []byte {
	if p.operator == "" {
		return nil
	}
	split := onnx.Node{
		OpType:     "Split",
		Inputs:     []string{"x"},
		Attributes: []onnx.Attribute{{Name: "axis", Int: 1}},
	}
	join := onnx.Node{
		OpType:     "Concat",
		Outputs:    []string{"y"},
		Attributes: []onnx.Attribute{{Name: "axis", Int: 1}},
	}
	var constants []onnx.Tensor
	constant := func(name string, row []float32) string {
		constants = append(
			constants,
			onnx.Tensor{
				Name: name,
				Type: onnx.Float,
				Dims: []int64{int64(len(row))},
				Raw:  bitsOf(row),
			},
		)
		return name
	}
	var rows []onnx.Node
	var n int64
	for i, v := range p.Rows {
		x, y := fmt.Sprint("x", i), fmt.Sprint("y", i)
		node := onnx.Node{
			OpType:     p.operator,
			Inputs:     []string{x},
			Outputs:    []string{y},
			Attributes: []onnx.Attribute{{Name: "axis", Int: -1}},
		}
		if v.Args["weight"] != nil {
			node.Inputs = append(
				node.Inputs, constant(fmt.Sprint("weight", i), v.Float32s("weight")),
				constant(fmt.Sprint("bias", i), v.Float32s("bias")),
			)
			node.Attributes = append(
				node.Attributes,
				onnx.Attribute{Name: "epsilon", Float: f32.Epsilon},
			)
		}
		split.Outputs, join.Inputs = append(split.Outputs, x), append(join.Inputs, y)
		rows = append(rows, node)
		n += int64(len(v.Float32s("x")))
	}
	value := func(name string) []onnx.Value {
		return []onnx.Value{{Name: name, Type: onnx.Float, Dims: []int64{1, n}}}
	}
	m := onnx.Model{Opset: 17, Graph: onnx.Graph{
		Nodes:        append(append([]onnx.Node{split}, rows...), join),
		Initializers: constants,
		Inputs:       value("x"),
		Outputs:      value("y"),
	}}
	return m.Encode(8, nil)
}
