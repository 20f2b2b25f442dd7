// Package onnx reads the part of the ONNX format that a small transformer
// uses: nodes, their attributes, initializers and the shapes of inputs and
// outputs. It reads hostile bytes without panicking, and what it allocates is
// bounded by the file's length: constants are not copied.
package onnx

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// Element types of a tensor (TensorProto.DataType).
const (
	Float = 1
	Int64 = 7
	Bool  = 9
)

// Model is an ONNX model.
type Model struct {
	Opset    int64 // version of the default operator set
	Graph    Graph
	Metadata map[string]string
}

// Graph is a model's graph; nodes come in execution order.
type Graph struct {
	Nodes           []Node
	Initializers    []Tensor
	Inputs, Outputs []Value
}

// Node is one operation. An operator of another domain than the default one is
// named domain.Operator.
type Node struct {
	OpType          string
	Inputs, Outputs []string
	Attributes      []Attribute
}

// Attribute is one parameter of a node. Which field holds the value follows
// from the operator.
type Attribute struct {
	Name   string
	Float  float32
	Int    int64
	String []byte
	Tensor *Tensor
	Ints   []int64
}

// Tensor is a constant. Raw holds its elements in little-endian order and
// aliases the bytes that were parsed.
type Tensor struct {
	Name string
	Type int
	Dims []int64
	Raw  []byte
}

// Value describes an input or an output of the graph. A dimension is its size,
// or -1 if it is free.
type Value struct {
	Name string
	Type int
	Dims []int64
}

// Initializer finds a constant by its name.
func (g *Graph) Initializer(name string) (*Tensor, bool) {
	for i := range g.Initializers {
		if g.Initializers[i].Name == name {
			return &g.Initializers[i], true
		}
	}
	return nil, false
}

// Float32s returns the elements of a float tensor.
func (t *Tensor) Float32s() ([]float32, error) {
	if t.Type != Float {
		return nil, fmt.Errorf(
			"tensor %.60q: element type %d, want float (%d)", t.Name, t.Type, Float,
		)
	}
	if n, ok := t.elements(); !ok || uint64(len(t.Raw)) != 4*n {
		return nil, fmt.Errorf(
			"tensor %.60q: %d bytes of data do not fit shape %v", t.Name, len(t.Raw), t.Dims,
		)
	}
	out := make([]float32, len(t.Raw)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(t.Raw[4*i:]))
	}
	return out, nil
}

// Bools returns the elements of a bool tensor.
func (t *Tensor) Bools() ([]bool, error) {
	if t.Type != Bool {
		return nil, fmt.Errorf(
			"tensor %.60q: element type %d, want bool (%d)", t.Name, t.Type, Bool,
		)
	}
	if n, ok := t.elements(); !ok || uint64(len(t.Raw)) != n {
		return nil, fmt.Errorf(
			"tensor %.60q: %d bytes of data do not fit shape %v", t.Name, len(t.Raw), t.Dims,
		)
	}
	out := make([]bool, len(t.Raw))
	for i, b := range t.Raw {
		out[i] = b != 0
	}
	return out, nil
}

// elements is the product of the dimensions, false if it is absurd.
func (t *Tensor) elements() (uint64, bool) {
	n := uint64(1)
	for _, d := range t.Dims {
		if d < 0 || d > math.MaxInt32 || n > math.MaxInt32 {
			return 0, false
		}
		n *= uint64(d)
	}
	return n, true
}

// Parse reads a model.
func Parse(data []byte) (*Model, error) {
	m := &Model{}
	seen := false
	err := fields(data, func(f field) (err error) {
		switch f.number {
		case 7:
			seen = true
			m.Graph, err = parseGraph(f.bytes)
		case 8:
			var domain string
			var version int64
			err = fields(f.bytes, func(f field) error {
				switch f.number {
				case 1:
					domain = string(f.bytes)
				case 2:
					version = int64(f.varint)
				}
				return nil
			})
			if domain == "" {
				m.Opset = version
			}
		case 14:
			var key, value string
			err = fields(f.bytes, func(f field) error {
				switch f.number {
				case 1:
					key = string(f.bytes)
				case 2:
					value = string(f.bytes)
				}
				return nil
			})
			if m.Metadata == nil {
				m.Metadata = map[string]string{}
			}
			m.Metadata[key] = value
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("not an ONNX model, or a damaged one: %w", err)
	}
	if !seen {
		return nil, errors.New("not an ONNX model: it holds no graph")
	}
	return m, nil
}

func parseGraph(data []byte) (g Graph, err error) {
	constants := map[string]bool{}
	err = fields(data, func(f field) error {
		switch f.number {
		case 1:
			n, err := parseNode(f.bytes)
			g.Nodes = append(g.Nodes, n)
			return err
		case 5:
			t, err := parseTensor(f.bytes)
			if t.Name != "" {
				if err == nil && constants[t.Name] { // some programs take the first, some the last
					err = fmt.Errorf("two tensors are named %.60q", t.Name)
				}
				constants[t.Name] = true
			}
			g.Initializers = append(g.Initializers, t)
			return err
		case 11:
			v, err := parseValue(f.bytes)
			g.Inputs = append(g.Inputs, v)
			return err
		case 12:
			v, err := parseValue(f.bytes)
			g.Outputs = append(g.Outputs, v)
			return err
		}
		return nil
	})
	return g, err
}

func parseNode(data []byte) (n Node, err error) {
	var domain string
	err = fields(data, func(f field) error {
		switch f.number {
		case 1:
			n.Inputs = append(n.Inputs, string(f.bytes))
		case 2:
			n.Outputs = append(n.Outputs, string(f.bytes))
		case 4:
			n.OpType = string(f.bytes)
		case 5:
			a, err := parseAttribute(f.bytes)
			n.Attributes = append(n.Attributes, a)
			return err
		case 7:
			domain = string(f.bytes)
		}
		return nil
	})
	if domain != "" {
		n.OpType = domain + "." + n.OpType
	}
	return n, err
}

func parseAttribute(data []byte) (a Attribute, err error) {
	err = fields(data, func(f field) error {
		switch f.number {
		case 1:
			a.Name = string(f.bytes)
		case 2:
			a.Float = math.Float32frombits(uint32(f.varint))
		case 3:
			a.Int = int64(f.varint)
		case 4:
			a.String = f.bytes
		case 5:
			t, err := parseTensor(f.bytes)
			a.Tensor = &t
			return err
		case 8:
			a.Ints, err = f.appendInt64s(a.Ints)
			return err
		}
		return nil
	})
	return a, err
}

func parseTensor(data []byte) (t Tensor, err error) {
	err = fields(data, func(f field) error {
		switch f.number {
		case 1:
			if t.Dims, err = f.appendInt64s(t.Dims); err != nil {
				return err
			}
			return checkDims(t.Dims)
		case 2:
			t.Type = int(f.varint)
		case 8:
			t.Name = string(f.bytes)
		case 9:
			t.Raw = f.bytes
		case 4, 5, 6, 7, 10, 11:
			return fmt.Errorf("tensor %.60q: its elements are not stored as raw data", t.Name)
		case 13, 14:
			return fmt.Errorf("tensor %.60q: its elements are stored in another file", t.Name)
		}
		return nil
	})
	return t, err
}

// maxDims is more than any operator here makes use of.
const maxDims = 8

func checkDims(dims []int64) error {
	if len(dims) > maxDims {
		return fmt.Errorf(
			"a shape of %d or more dimensions, at most %d are supported", len(dims), maxDims,
		)
	}
	return nil
}

func parseValue(data []byte) (v Value, err error) {
	err = fields(data, func(f field) error {
		switch f.number {
		case 1:
			v.Name = string(f.bytes)
		case 2: // TypeProto
			return fields(f.bytes, func(f field) error {
				if f.number != 1 {
					return nil
				}
				return fields(f.bytes, func(f field) error { // TypeProto.Tensor
					switch f.number {
					case 1:
						v.Type = int(f.varint)
					case 2:
						return fields(f.bytes, func(f field) error { // TensorShapeProto
							if f.number != 1 {
								return nil
							}
							size := int64(-1)
							err := fields(f.bytes, func(f field) error {
								if f.number == 1 {
									size = int64(f.varint)
								}
								return nil
							})
							if v.Dims = append(v.Dims, size); err != nil {
								return err
							}
							return checkDims(v.Dims)
						})
					}
					return nil
				})
			})
		}
		return nil
	})
	return v, err
}

// A field is one field of a protocol buffer message: bytes for a length-
// delimited one, varint for all others.
type field struct {
	number protowire.Number
	bytes  []byte
	varint uint64
	packed bool
}

// fields calls visit for each field of a message.
func fields(data []byte, visit func(field) error) error {
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return protowire.ParseError(n)
		}
		data = data[n:]
		f := field{number: number}
		switch kind {
		case protowire.VarintType:
			f.varint, n = protowire.ConsumeVarint(data)
		case protowire.Fixed32Type:
			var v uint32
			v, n = protowire.ConsumeFixed32(data)
			f.varint = uint64(v)
		case protowire.Fixed64Type:
			f.varint, n = protowire.ConsumeFixed64(data)
		case protowire.BytesType:
			f.bytes, n = protowire.ConsumeBytes(data)
			f.packed = true
		default:
			n = protowire.ConsumeFieldValue(number, kind, data)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		data = data[n:]
		if err := visit(f); err != nil {
			return err
		}
	}
	return nil
}

// appendInt64s appends one element of a repeated int64, or several packed ones.
func (f field) appendInt64s(to []int64) ([]int64, error) {
	if !f.packed {
		return append(to, int64(f.varint)), nil
	}
	for data := f.bytes; len(data) > 0; {
		v, n := protowire.ConsumeVarint(data)
		if n < 0 {
			return to, protowire.ParseError(n)
		}
		to = append(to, int64(v))
		data = data[n:]
	}
	return slices.Clip(to), nil
}
