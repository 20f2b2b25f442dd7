package onnx

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// A Patch changes a model. What it does not mention, names and types and
// versions included, stays as it is, byte for byte.
type Patch struct {
	// Remove names values whose producing nodes go.
	Remove []string

	// Nodes are added. An operator of another domain than the default one is
	// written domain.Operator, as in com.microsoft.FusedMatMul.
	Nodes        []Node
	Initializers []Tensor

	// Outputs replace the graph's outputs of the same names.
	Outputs []Value

	// Imports are versions of further operator sets, by domain.
	Imports map[string]int64
}

// Apply returns the bytes of the changed model, its nodes in execution order.
// Nodes and constants on which no output depends any more are left out.
func (p *Patch) Apply(data []byte) ([]byte, error) {
	if _, err := Parse(data); err != nil {
		return nil, err
	}
	g := patched{}
	var rest []byte // of the model, without its graph
	err := rawFields(data, func(number protowire.Number, raw, value []byte) error {
		if number == 7 {
			return g.read(value, p)
		}
		rest = append(rest, raw...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i := range p.Nodes {
		if err := g.add(p.Nodes[i], appendBytes(nil, 1, encodeNode(&p.Nodes[i]))); err != nil {
			return nil, err
		}
	}
	for i := range p.Initializers {
		g.constants = append(
			g.constants,
			rawConstant{
				p.Initializers[i].Name, appendBytes(nil, 5, encodeTensor(&p.Initializers[i])),
			},
		)
	}
	if err := g.finish(); err != nil {
		return nil, err
	}
	return appendImports(appendBytes(rest, 7, g.out), p.Imports), nil
}

// patched is a graph in the making.
type patched struct {
	out       []byte // encoded fields
	outputs   []string
	nodes     []rawNode
	producer  map[string]int // node that computes a value
	constants []rawConstant
}

type rawNode struct {
	Node
	raw   []byte
	state int // untouched, being placed, placed
}

type rawConstant struct {
	name string
	raw  []byte
}

// read takes a graph apart, leaving out what the patch removes or replaces.
func (g *patched) read(data []byte, p *Patch) error {
	g.producer = map[string]int{}
	removed := map[string]bool{}
	err := rawFields(data, func(number protowire.Number, raw, value []byte) error {
		switch number {
		case 1:
			n, err := parseNode(value)
			if err != nil {
				return err
			}
			for _, name := range n.Outputs {
				if slices.Contains(p.Remove, name) {
					removed[name] = true
					return nil
				}
			}
			return g.add(n, raw)
		case 5:
			t, err := parseTensor(value)
			g.constants = append(g.constants, rawConstant{t.Name, raw})
			return err
		case 12:
			v, err := parseValue(value)
			if err != nil {
				return err
			}
			g.outputs = append(g.outputs, v.Name)
			for i := range p.Outputs {
				if p.Outputs[i].Name == v.Name {
					raw = appendBytes(nil, 12, encodeValue(&p.Outputs[i]))
				}
			}
		}
		g.out = append(g.out, raw...)
		return nil
	})
	for _, name := range p.Remove {
		if err == nil && !removed[name] {
			err = fmt.Errorf("no node computes %s", name)
		}
	}
	return err
}

func (g *patched) add(n Node, raw []byte) error {
	for _, name := range n.Outputs {
		if _, ok := g.producer[name]; ok {
			return fmt.Errorf("two nodes compute %s", name)
		}
		g.producer[name] = len(g.nodes)
	}
	g.nodes = append(g.nodes, rawNode{Node: n, raw: raw})
	return nil
}

// finish writes the nodes and constants that the outputs depend on.
func (g *patched) finish() error {
	used := map[string]bool{}
	var place func(name string) error
	place = func(name string) error {
		used[name] = true
		i, ok := g.producer[name]
		if !ok {
			return nil // an input, a constant, or left out
		}
		n := &g.nodes[i]
		switch n.state {
		case 1:
			return fmt.Errorf("%s depends on itself", name)
		case 2:
			return nil
		}
		n.state = 1
		for _, in := range n.Inputs {
			if err := place(in); err != nil {
				return err
			}
		}
		n.state = 2
		g.out = append(g.out, n.raw...)
		return nil
	}
	for _, name := range g.outputs {
		if err := place(name); err != nil {
			return err
		}
	}
	for _, c := range g.constants {
		if used[c.name] {
			g.out = append(g.out, c.raw...)
		}
	}
	return nil
}

// Encode returns the bytes of a model in the given version of the format, with
// the given versions of further operator sets, by domain.
func (m *Model) Encode(irVersion int64, imports map[string]int64) []byte {
	var g []byte
	for i := range m.Graph.Nodes {
		g = appendBytes(g, 1, encodeNode(&m.Graph.Nodes[i]))
	}
	g = appendBytes(g, 2, []byte("graph"))
	for i := range m.Graph.Initializers {
		g = appendBytes(g, 5, encodeTensor(&m.Graph.Initializers[i]))
	}
	for i := range m.Graph.Inputs {
		g = appendBytes(g, 11, encodeValue(&m.Graph.Inputs[i]))
	}
	for i := range m.Graph.Outputs {
		g = appendBytes(g, 12, encodeValue(&m.Graph.Outputs[i]))
	}
	out := appendVarint(nil, 1, uint64(irVersion))
	out = appendBytes(out, 7, g)
	out = appendBytes(out, 8, appendVarint(appendBytes(nil, 1, nil), 2, uint64(m.Opset)))
	out = appendImports(out, imports)
	for _, key := range slices.Sorted(maps.Keys(m.Metadata)) {
		out = appendBytes(
			out, 14, appendBytes(appendBytes(nil, 1, []byte(key)), 2, []byte(m.Metadata[key])),
		)
	}
	return out
}

func appendImports(b []byte, imports map[string]int64) []byte {
	for _, domain := range slices.Sorted(maps.Keys(imports)) {
		b = appendBytes(
			b, 8, appendVarint(appendBytes(nil, 1, []byte(domain)), 2, uint64(imports[domain])),
		)
	}
	return b
}

func encodeNode(n *Node) (b []byte) {
	for _, name := range n.Inputs {
		b = appendBytes(b, 1, []byte(name))
	}
	for _, name := range n.Outputs {
		b = appendBytes(b, 2, []byte(name))
	}
	operator := n.OpType
	if dot := strings.LastIndexByte(operator, '.'); dot >= 0 {
		b = appendBytes(b, 7, []byte(operator[:dot]))
		operator = operator[dot+1:]
	}
	b = appendBytes(b, 4, []byte(operator))
	for i := range n.Attributes {
		b = appendBytes(b, 5, encodeAttribute(&n.Attributes[i]))
	}
	return b
}

// encodeAttribute takes an attribute's type from the field that is set; one that
// is zero in all fields is the integer 0.
func encodeAttribute(a *Attribute) []byte {
	b := appendBytes(nil, 1, []byte(a.Name))
	kind := uint64(2)
	switch {
	case a.Float != 0:
		kind = 1
		b = protowire.AppendFixed32(
			protowire.AppendTag(b, 2, protowire.Fixed32Type), math.Float32bits(a.Float),
		)
	case a.String != nil:
		kind = 3
		b = appendBytes(b, 4, a.String)
	case a.Tensor != nil:
		kind = 4
		b = appendBytes(b, 5, encodeTensor(a.Tensor))
	case a.Ints != nil:
		kind = 7
		for _, v := range a.Ints {
			b = appendVarint(b, 8, uint64(v))
		}
	default:
		b = appendVarint(b, 3, uint64(a.Int))
	}
	return appendVarint(b, 20, kind)
}

func encodeTensor(t *Tensor) (b []byte) {
	for _, d := range t.Dims {
		b = appendVarint(b, 1, uint64(d))
	}
	b = appendVarint(b, 2, uint64(t.Type))
	b = appendBytes(b, 8, []byte(t.Name))
	return appendBytes(b, 9, t.Raw)
}

// encodeValue writes a free dimension as one without size.
func encodeValue(v *Value) []byte {
	var shape []byte
	for _, d := range v.Dims {
		var dim []byte
		if d >= 0 {
			dim = appendVarint(nil, 1, uint64(d))
		}
		shape = appendBytes(shape, 1, dim)
	}
	tensor := appendBytes(appendVarint(nil, 1, uint64(v.Type)), 2, shape)
	return appendBytes(appendBytes(nil, 1, []byte(v.Name)), 2, appendBytes(nil, 1, tensor))
}

func appendVarint(b []byte, number protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), v)
}

func appendBytes(b []byte, number protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), v)
}

// rawFields calls visit with each field of a message as it is encoded and, for a
// length-delimited one, with its contents.
func rawFields(data []byte, visit func(number protowire.Number, raw, value []byte) error) error {
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeField(data)
		if n < 0 {
			return protowire.ParseError(n)
		}
		var value []byte
		if kind == protowire.BytesType {
			_, _, tag := protowire.ConsumeTag(data)
			value, _ = protowire.ConsumeBytes(data[tag:])
		}
		if err := visit(number, data[:n:n], value); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}
