package policyfile

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"lockstep"
	"lockstep/internal/onnx"
)

// The names of a network's file: obs [n,256] to logits [n,2], and the metadata that may say
// the scale of its actions, and what it observes: a text of lockstep.Seen in each line, as
// many as obs has columns.
const (
	inputName  = "obs"
	outputName = "logits"
	scaleKey   = "action_scale"
	seesKey    = "observation"
)

// Network reads a network from the bytes of an ONNX model: layers that are Gemm, or
// MatMul and Add, with Relu or Tanh between them, and all weights as initializers.
func Network(data []byte) (*lockstep.Network, error) {
	m, err := onnx.Parse(data)
	if err != nil {
		return nil, err
	}
	scale := float64(lockstep.DefaultScale)
	if text, ok := m.Metadata[scaleKey]; ok {
		if scale, err = strconv.ParseFloat(text, 64); err != nil {
			return nil, fmt.Errorf("metadata %s: %.30q is not a number", scaleKey, text)
		}
	}
	var sees []lockstep.Seen
	if text, ok := m.Metadata[seesKey]; ok {
		if sees, err = lockstep.ParseSees(strings.Split(strings.TrimSpace(text),
			"\n")); err != nil {
			return nil, fmt.Errorf("metadata %s: %w", seesKey, err)
		}
	}
	r := reader{graph: &m.Graph}
	if err := r.ends((&lockstep.Network{Sees: sees}).Inputs()); err != nil {
		return nil, err
	}
	for i := range m.Graph.Nodes {
		n := &m.Graph.Nodes[i]
		if err := r.node(n); err != nil {
			return nil, fmt.Errorf("node %d (%.30q): %w", i, n.OpType, err)
		}
	}
	if r.value != m.Graph.Outputs[0].Name || r.open {
		return nil, fmt.Errorf(
			"output %.60q is not that of the last layer", m.Graph.Outputs[0].Name,
		)
	}
	if r.bent {
		return nil, fmt.Errorf("a Relu or Tanh after the last layer, want none")
	}
	return lockstep.NewSeeing(sees, r.layers, scale)
}

// reader walks along the one chain that a network's graph is.
type reader struct {
	graph  *onnx.Graph
	value  string // computed last
	layers []lockstep.Layer
	open   bool // the last layer has no bias yet
	bent   bool // the last node was a Relu or Tanh
}

// ends checks input, of so many numbers, and output.
func (r *reader) ends(inputs int) error {
	for _, e := range []struct {
		kind, name string
		values     []onnx.Value
		size       int64
	}{
		{"input", inputName, r.graph.Inputs, int64(inputs)},
		{"output", outputName, r.graph.Outputs, lockstep.ActorSize},
	} {
		// An older exporter lists the initializers among the inputs.
		values := slices.DeleteFunc(slices.Clone(e.values), func(v onnx.Value) bool {
			_, ok := r.graph.Initializer(v.Name)
			return ok
		})
		if len(values) != 1 {
			return fmt.Errorf("%d %ss, want one: %s [n,%d]", len(values), e.kind, e.name, e.size)
		}
		v := values[0]
		if e.kind == "input" && v.Name != e.name {
			return fmt.Errorf("input %.60q, want %s [n,%d]", v.Name, e.name, e.size)
		}
		if v.Type != onnx.Float || len(v.Dims) != 2 || v.Dims[1] != e.size {
			return fmt.Errorf(
				"%s %.60q: element type %d and shape %v, want float (%d) and [n,%d]", e.kind,
				v.Name, v.Type, v.Dims, onnx.Float, e.size,
			)
		}
		if e.kind == "input" {
			r.value = v.Name
		}
	}
	return nil
}

// operators are those that layers are made of.
var operators = []string{"Gemm", "MatMul", "Add", "Relu", "Tanh"}

func (r *reader) node(n *onnx.Node) error {
	if !slices.Contains(operators, n.OpType) {
		return fmt.Errorf("operator not supported: want Gemm, MatMul, Add, Relu and Tanh")
	}
	if len(n.Outputs) != 1 {
		return fmt.Errorf("%d outputs, want 1", len(n.Outputs))
	}
	if err := r.follow(n); err != nil {
		return err
	}
	r.bent = n.OpType == "Relu" || n.OpType == "Tanh"
	r.value = n.Outputs[0]
	return nil
}

// follow reads a node whose input is what was computed last.
func (r *reader) follow(n *onnx.Node) error {
	at := slices.Index(n.Inputs, r.value)
	if at < 0 || at > 0 && n.OpType != "Add" {
		return fmt.Errorf("it does not follow %.60q: want a chain of layers", r.value)
	}
	if r.open && n.OpType != "Add" {
		return fmt.Errorf("a layer without a bias before it")
	}
	switch n.OpType {
	case "Gemm":
		return r.gemm(n)
	case "MatMul":
		if len(n.Inputs) != 2 {
			return fmt.Errorf("%d inputs, want 2", len(n.Inputs))
		}
		return r.weights(n.Inputs[1], false)
	case "Add":
		if !r.open || len(n.Inputs) != 2 {
			return fmt.Errorf("it does not follow a MatMul")
		}
		return r.bias(n.Inputs[1-at])
	}
	if len(r.layers) == 0 || r.bent { // of Relu and Tanh
		return fmt.Errorf("it does not come directly after a layer")
	}
	r.layers[len(r.layers)-1].Tanh = n.OpType == "Tanh"
	return nil
}

// gemm reads a layer that is one node.
func (r *reader) gemm(n *onnx.Node) error {
	if len(n.Inputs) != 3 {
		return fmt.Errorf("%d inputs, want 3: a layer has a bias", len(n.Inputs))
	}
	transposed := false
	for _, a := range n.Attributes {
		switch {
		case a.Name == "transB" && (a.Int == 0 || a.Int == 1):
			transposed = a.Int == 1
		case a.Name == "transA" && a.Int == 0:
		case (a.Name == "alpha" || a.Name == "beta") && a.Float == 1:
		default:
			return fmt.Errorf("attribute %.30q has a value that is not supported", a.Name)
		}
	}
	if err := r.weights(n.Inputs[1], transposed); err != nil {
		return err
	}
	return r.bias(n.Inputs[2])
}

// weights begins a layer with the weights of an initializer (in, out), or (out, in)
// if it is transposed.
func (r *reader) weights(name string, transposed bool) error {
	if len(r.layers) > 0 && !r.bent {
		return fmt.Errorf("no Relu or Tanh between two layers")
	}
	values, dims, err := r.floats(name)
	if err != nil {
		return err
	}
	if len(dims) != 2 {
		return fmt.Errorf("weights %.60q: shape %v, want two dimensions", name, dims)
	}
	inputs, outputs := int(dims[0]), int(dims[1])
	if transposed {
		inputs, outputs = outputs, inputs
	} else {
		rows := make([]float32, len(values))
		for k := range inputs {
			for o := range outputs {
				rows[o*inputs+k] = values[k*outputs+o]
			}
		}
		values = rows
	}
	r.layers = append(r.layers, lockstep.Layer{Inputs: inputs, Outputs: outputs, Weights: values})
	r.open = true
	return nil
}

// bias ends a layer with the bias of an initializer (out) or (1, out).
func (r *reader) bias(name string) error {
	values, dims, err := r.floats(name)
	if err != nil {
		return err
	}
	l := &r.layers[len(r.layers)-1]
	if len(values) != l.Outputs || len(dims) == 0 || dims[len(dims)-1] != int64(l.Outputs) {
		return fmt.Errorf("bias %.60q: shape %v, want [%d]", name, dims, l.Outputs)
	}
	l.Bias, r.open = values, false
	return nil
}

func (r *reader) floats(name string) ([]float32, []int64, error) {
	t, ok := r.graph.Initializer(name)
	if !ok {
		return nil, nil, fmt.Errorf(
			"%.60q is not an initializer: weights must be in the file", name,
		)
	}
	values, err := t.Float32s()
	return values, t.Dims, err
}

// Encode is the ONNX model of a network, with whose bits ONNX Runtime computes it:
// MatMul, Add and Relu or Tanh, all weights as initializers.
func Encode(n *lockstep.Network) []byte {
	var g onnx.Graph
	value := inputName
	node := func(operator, output string, inputs ...string) {
		g.Nodes = append(
			g.Nodes, onnx.Node{OpType: operator, Inputs: inputs, Outputs: []string{output}},
		)
		value = output
	}
	constant := func(name string, values []float32, dims ...int64) string {
		raw, _ := binary.Append(nil, binary.LittleEndian, values)
		g.Initializers = append(
			g.Initializers, onnx.Tensor{Name: name, Type: onnx.Float, Dims: dims, Raw: raw},
		)
		return name
	}
	for i, l := range n.Layers {
		name := strconv.Itoa(i)
		columns := make([]float32, len(l.Weights)) // (in, out)
		for o := range l.Outputs {
			for k := range l.Inputs {
				columns[k*l.Outputs+o] = l.Weights[o*l.Inputs+k]
			}
		}
		node(
			"MatMul", "product"+name, value,
			constant("weight"+name, columns, int64(l.Inputs), int64(l.Outputs)),
		)
		if i == len(n.Layers)-1 {
			node("Add", outputName, value, constant("bias"+name, l.Bias, int64(l.Outputs)))
		} else {
			node("Add", "sum"+name, value, constant("bias"+name, l.Bias, int64(l.Outputs)))
			bend := "Relu"
			if l.Tanh {
				bend = "Tanh"
			}
			node(bend, "hidden"+name, value)
		}
	}
	g.Inputs = []onnx.Value{
		{Name: inputName, Type: onnx.Float, Dims: []int64{-1, int64(n.Inputs())}},
	}
	g.Outputs = []onnx.Value{
		{Name: outputName, Type: onnx.Float, Dims: []int64{-1, lockstep.ActorSize}},
	}
	about := map[string]string{scaleKey: strconv.FormatFloat(n.Scale, 'g', -1, 64)}
	if n.Sees != nil {
		about[seesKey] = strings.Join(texts(n.Sees), "\n")
	}
	m := onnx.Model{Opset: 17, Graph: g, Metadata: about}
	return m.Encode(8, nil)
}

func texts(all []lockstep.Seen) (texts []string) {
	for _, s := range all {
		texts = append(texts, s.String())
	}
	return texts
}
