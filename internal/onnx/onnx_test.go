package onnx_test

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"

	"lockstep/internal/assets/assetstest"
	"lockstep/internal/fuzzing"
	"lockstep/internal/model"
	"lockstep/internal/onnx"
)

func TestMain(m *testing.M) { os.Exit(fuzzing.Main(m)) }

// message encodes fields of a protocol buffer: number, value, number, value...
// A []int64 is packed, an []any repeats its field for each element.
func message(fields ...any) (b []byte) {
	for i := 0; i < len(fields); i += 2 {
		number := protowire.Number(fields[i].(int))
		switch v := fields[i+1].(type) {
		case int:
			b = protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType),
				uint64(v))
		case float32:
			b = protowire.AppendFixed32(protowire.AppendTag(b, number, protowire.Fixed32Type),
				math.Float32bits(v))
		case float64:
			b = protowire.AppendFixed64(protowire.AppendTag(b, number, protowire.Fixed64Type),
				math.Float64bits(v))
		case string:
			b = protowire.AppendString(protowire.AppendTag(b, number, protowire.BytesType), v)
		case []byte:
			b = protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), v)
		case []int64:
			var packed []byte
			for _, x := range v {
				packed = protowire.AppendVarint(packed, uint64(x))
			}
			b = protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), packed)
		case []any:
			for _, x := range v {
				b = append(b, message(fields[i], x)...)
			}
		default:
			panic(fmt.Sprintf("field %d: %T", number, v))
		}
	}
	return b
}

func tensor(name string, elementType int, dims []int64, raw string) []byte {
	return message(1, dims, 2, elementType, 8, name, 9, raw)
}

// value encodes a ValueInfoProto; a negative dimension is a named one.
func value(name string, elementType int, dims ...int) []byte {
	var shape []any
	for _, d := range dims {
		if d < 0 {
			shape = append(shape, message(2, "batch"))
		} else {
			shape = append(shape, message(1, d))
		}
	}
	return message(1, name, 2, message(1, message(1, elementType, 2, message(1, shape))))
}

func node(op string, inputs, outputs []any, attributes ...any) []byte {
	return message(1, inputs, 2, outputs, 3, "name", 4, op, 5, attributes)
}

// small is a model with something of every kind.
func small() []byte {
	graph := message(
		1,
		node(
			"Constant", nil, []any{"two"},
			message(1, "value", 5, tensor("", 1, nil, "\x00\x00\x00\x40"), 20, 4),
		),
		1,
		node(
			"Split", []any{"x", "w"}, []any{"a", "b"}, message(1, "axis", 3, -1, 20, 2),
			message(1, "epsilon", 2, float32(1e-5), 20, 1), message(1, "mode", 4, "linear", 20, 3),
		),
		1,
		message(
			1, "a", 2, "y", 4, "ReduceMean", 5, message(1, "axes", 8, []any{-1, 2}, 20, 7), 7,
			"ai.example",
		),
		2,
		"main_graph",
		5,
		tensor("w", 1, []int64{2, 1}, "\x00\x00\x80\x3f\x00\x00\x80\xbf"),
		5,
		message(1, []any{3}, 2, 9, 8, "mask", 9, "\x01\x00\x01"),
		11,
		value("x", 1, -1, 20),
		12,
		value("y", 7),
		13,
		value("a", 1, 5), // value_info, not used
	)
	return message(
		1, 7, 2, "pytorch", 7, graph, 8, message(1, "ai.example", 2, 3), 8, message(2, 14), 99,
		float32(0), 98, "later", 97, 0.5,
	)
}

func TestParse(t *testing.T) {
	got, err := onnx.Parse(small())
	if err != nil {
		t.Fatal(err)
	}
	want := &onnx.Model{
		Opset: 14,
		Graph: onnx.Graph{
			Nodes: []onnx.Node{
				{
					OpType:  "Constant",
					Outputs: []string{"two"},
					Attributes: []onnx.Attribute{
						{
							Name:   "value",
							Tensor: &onnx.Tensor{Type: onnx.Float, Raw: []byte("\x00\x00\x00\x40")},
						},
					},
				},
				{
					OpType:  "Split",
					Inputs:  []string{"x", "w"},
					Outputs: []string{"a", "b"},
					Attributes: []onnx.Attribute{
						{Name: "axis", Int: -1},
						{Name: "epsilon", Float: 1e-5},
						{Name: "mode", String: []byte("linear")},
					},
				},
				{
					OpType:     "ai.example.ReduceMean",
					Inputs:     []string{"a"},
					Outputs:    []string{"y"},
					Attributes: []onnx.Attribute{{Name: "axes", Ints: []int64{-1, 2}}},
				},
			},
			Initializers: []onnx.Tensor{
				{
					Name: "w",
					Type: onnx.Float,
					Dims: []int64{2, 1},
					Raw:  []byte("\x00\x00\x80\x3f\x00\x00\x80\xbf"),
				},
				{Name: "mask", Type: onnx.Bool, Dims: []int64{3}, Raw: []byte("\x01\x00\x01")},
			},
			Inputs:  []onnx.Value{{Name: "x", Type: onnx.Float, Dims: []int64{-1, 20}}},
			Outputs: []onnx.Value{{Name: "y", Type: onnx.Int64}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	w, ok := got.Graph.Initializer("w")
	floats, err := w.Float32s()
	if !ok || err != nil || !slices.Equal(floats, []float32{1, -1}) {
		t.Errorf("w is %v, %v; want [1 -1]", floats, err)
	}
	mask, ok := got.Graph.Initializer("mask")
	bools, err := mask.Bools()
	if !ok || err != nil || !slices.Equal(bools, []bool{true, false, true}) {
		t.Errorf("mask is %v, %v; want [true false true]", bools, err)
	}
	if _, ok := got.Graph.Initializer("two"); ok {
		t.Error("the output of a node is found among the initializers")
	}
}

// TestPieces: a list of integers is read whole in whatever pieces a file has it.
func TestPieces(t *testing.T) {
	want := []int64{-1, 2, 3}
	for name, pieces := range map[string][]any{
		"one":             {8, want},
		"one by one":      {8, []any{-1, 2, 3}},
		"two":             {8, want[:1], 8, want[1:]},
		"one and others":  {8, -1, 8, want[1:]},
		"others and one":  {8, want[:2], 8, 3},
		"one, none, rest": {8, want[:1], 8, []int64{}, 8, want[1:]},
	} {
		list := message(append([]any{1, "axes"}, pieces...)...)
		m, err := onnx.Parse(message(7, message(1, node("Squeeze", nil, nil, list))))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if got := m.Graph.Nodes[0].Attributes[0].Ints; !slices.Equal(got, want) {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
}

func TestParseErrors(t *testing.T) {
	graph := func(fields ...any) []byte { return message(7, message(fields...)) }
	const damaged = "not an ONNX model, or a damaged one: "
	for _, c := range []struct {
		name string
		data []byte
		want string
	}{
		{"nothing", nil, "not an ONNX model: it holds no graph"},
		{"no graph", message(1, 7, 8, message(2, 14)), "not an ONNX model: it holds no graph"},
		{"text", []byte("t,vEgo,aEgo\n"), damaged},
		{"field number 0", []byte{0}, damaged},
		{"open group", []byte{0x3b}, damaged},
		{"endless varint", []byte("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), damaged},
		{"length beyond the end", []byte("\x3a\xff\xff\xff\x7f"), damaged},
		{"damaged node", graph(1, "\xff"), damaged},
		{"damaged attribute", graph(1, message(5, "\xff")), damaged},
		{"damaged inline constant", graph(1, message(5, message(5, "\xff"))), damaged},
		{"damaged ints", graph(1, message(5, message(8, "\xff"))), damaged},
		{"damaged initializer", graph(5, "\xff"), damaged},
		{"damaged dims", graph(5, message(1, "\xff")), damaged},
		{"damaged input", graph(11, "\xff"), damaged},
		{"damaged output type", graph(12, message(2, "\xff")), damaged},
		{
			"damaged output shape",
			graph(12, message(2, message(1, message(2, message(1, "\xff"))))),
			damaged,
		},
		{"two of a name", graph(5, message(8, "w"), 5, message(8, "v"), 5, message(8, "w")),
			damaged + `two tensors are named "w"`},
		{"float_data", graph(5, message(8, "w", 4, "\x00\x00\x80\x3f")),
			damaged + "tensor \"w\": its elements are not stored as raw data"},
		{"external data", graph(5, message(8, "w", 13, message(1, "location", 2, "/etc/passwd"))),
			damaged + "tensor \"w\": its elements are stored in another file"},
	} {
		if _, err := onnx.Parse(c.data); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
}

// TestMetadata: each key has its own value, and the last of a key counts.
func TestMetadata(t *testing.T) {
	data := small()
	for _, entry := range [][2]string{{"a", "1"}, {"b", "2"}, {"a", "3"}} {
		data = append(data, message(14, message(1, entry[0], 2, entry[1]))...)
	}
	m, err := onnx.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]string{"a": "3", "b": "2"}, m.Metadata); d != "" {
		t.Error(d)
	}
}

// TestEmpty: a tensor of a dimension without elements has none.
func TestEmpty(t *testing.T) {
	for _, dims := range [][]int64{{0}, {3, 0}, {0, math.MaxInt32}} {
		x := onnx.Tensor{Type: onnx.Bool, Dims: dims}
		if got, err := x.Bools(); err != nil || len(got) != 0 {
			t.Errorf("%v: %v, %v", dims, got, err)
		}
	}
}

func TestTensorErrors(t *testing.T) {
	for _, c := range []struct {
		tensor onnx.Tensor
		want   string
	}{
		{onnx.Tensor{Type: onnx.Int64}, "tensor \"w\": element type 7, want %s"},
		{onnx.Tensor{Dims: []int64{2}, Raw: make([]byte, 7)}, "tensor \"w\": 7 bytes of data do " +
			"not fit shape [2]"},
		{onnx.Tensor{Dims: []int64{2}, Raw: make([]byte, 9)}, "tensor \"w\": 9 bytes of data do " +
			"not fit shape [2]"},
		{onnx.Tensor{Dims: []int64{-1}}, "tensor \"w\": 0 bytes of data do not fit shape [-1]"},
		{onnx.Tensor{Dims: []int64{-1, -4}, Raw: make([]byte, 16)}, "tensor \"w\": 16 bytes of " +
			"data do not fit shape [-1 -4]"},
		{onnx.Tensor{Dims: []int64{1 << 32, 1 << 32}}, "tensor \"w\": 0 bytes of data do not " +
			"fit shape [4294967296 4294967296]"},
		{onnx.Tensor{Dims: []int64{1 << 16, 1 << 16}}, "tensor \"w\": 0 bytes of data do not " +
			"fit shape [65536 65536]"},
		{onnx.Tensor{Dims: []int64{1 << 30, 1 << 30, 16}}, "tensor \"w\": 0 bytes of data do " +
			"not fit shape [1073741824 1073741824 16]"},
		{onnx.Tensor{Dims: []int64{0, 1 << 31}}, "tensor \"w\": 0 bytes of data do not " +
			"fit shape [0 2147483648]"},
		{onnx.Tensor{Dims: []int64{1 << 16, 1 << 15, 0}}, "tensor \"w\": 0 bytes of data do not " +
			"fit shape [65536 32768 0]"},
		{onnx.Tensor{}, "tensor \"w\": 0 bytes of data do not fit shape []"},
	} {
		c.tensor.Name = "w"
		for elementType, want := range map[int]string{
			onnx.Float: "float (1)",
			onnx.Bool:  "bool (9)",
		} {
			x := c.tensor
			if x.Type == 0 {
				x.Type = elementType
			}
			var err error
			if elementType == onnx.Float {
				_, err = x.Float32s()
			} else {
				_, err = x.Bools()
			}
			if strings.Contains(c.want, "%s") {
				want = fmt.Sprintf(c.want, want)
			} else {
				want = c.want
			}
			if err == nil || err.Error() != want {
				t.Errorf("%v, want %s", err, want)
			}
		}
	}
}

// anyGraph draws a graph whose nodes read inputs, initializers and the outputs
// of earlier nodes.
func anyGraph(t *rapid.T) *onnx.Graph {
	g := &onnx.Graph{
		Inputs: []onnx.Value{{Name: "in0"}, {Name: "in1"}},
		Initializers: []onnx.Tensor{
			{Name: "w0", Type: onnx.Float, Raw: []byte{1, 2, 3, 4}},
			{Name: "w1"},
		},
	}
	values := []string{"in0", "in1", "w0", "w1"}
	for i := range rapid.IntRange(1, 6).Draw(t, "nodes") {
		n := onnx.Node{
			OpType:  rapid.SampledFrom([]string{"Add", "MatMul", "Constant"}).Draw(t, "op"),
			Inputs:  rapid.SliceOfN(rapid.SampledFrom(values), 1, 3).Draw(t, "inputs"),
			Outputs: []string{fmt.Sprint("v", i)},
			Attributes: []onnx.Attribute{
				{Name: "axis", Int: rapid.Int64().Draw(t, "axis")},
				{Name: "perm", Ints: rapid.SliceOf(rapid.Int64()).Draw(t, "perm")},
				{
					Name: "value",
					Tensor: &onnx.Tensor{
						Type: onnx.Float,
						Dims: []int64{1},
						Raw:  []byte{byte(i), 0, 0, 0},
					},
				},
			},
		}
		g.Nodes = append(g.Nodes, n)
		values = append(values, n.Outputs...)
	}
	for range 2 {
		output := rapid.SampledFrom(values[4:]).Draw(t, "output")
		g.Outputs = append(g.Outputs, onnx.Value{Name: output})
	}
	return g
}

// copyGraph copies a graph and renames its values.
func copyGraph(g *onnx.Graph, rename func(string) string) *onnx.Graph {
	renameAll := func(names []string) (out []string) {
		for _, name := range names {
			out = append(out, rename(name))
		}
		return out
	}
	c := &onnx.Graph{
		Inputs:       slices.Clone(g.Inputs),
		Outputs:      slices.Clone(g.Outputs),
		Initializers: slices.Clone(g.Initializers),
	}
	for i := range c.Inputs {
		c.Inputs[i].Name = rename(c.Inputs[i].Name)
	}
	for i := range c.Outputs {
		c.Outputs[i].Name = rename(c.Outputs[i].Name)
	}
	for i := range c.Initializers {
		c.Initializers[i].Name = rename(c.Initializers[i].Name)
	}
	for _, n := range g.Nodes {
		n.Inputs, n.Outputs, n.Attributes = renameAll(n.Inputs), renameAll(n.Outputs),
			slices.Clone(n.Attributes)
		for i, a := range n.Attributes {
			n.Attributes[i].Ints, n.Attributes[i].String = slices.Clone(a.Ints),
				slices.Clone(a.String)
			if a.Tensor != nil {
				tensor := *a.Tensor
				tensor.Dims, tensor.Raw = slices.Clone(tensor.Dims), slices.Clone(tensor.Raw)
				n.Attributes[i].Tensor = &tensor
			}
		}
		c.Nodes = append(c.Nodes, n)
	}
	return c
}

func same(name string) string { return name }

func TestStructureSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := anyGraph(t)
		names := map[string]string{}
		c := copyGraph(g, func(name string) string {
			if names[name] == "" {
				names[name] = fmt.Sprintf("%d%s", len(names), rapid.String().Draw(t, "name"))
			}
			return names[name]
		})
		was := copyGraph(g, same)
		slices.Reverse(c.Initializers)
		for i := range c.Initializers {
			c.Initializers[i].Raw = rapid.SliceOf(rapid.Byte()).Draw(t, "raw")
		}
		for i := range c.Nodes {
			slices.Reverse(c.Nodes[i].Attributes)
		}
		before := copyGraph(c, same)
		if g.Structure() != c.Structure() {
			t.Fatal("other names, weights or order of attributes give another structure")
		}
		if d := cmp.Diff(before, c) + cmp.Diff(was, g); d != "" {
			t.Fatalf("who asked for the structure has another graph: %s", d)
		}
	})
}

func TestStructureDiffers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := anyGraph(t)
		c := copyGraph(g, same)
		n := &c.Nodes[rapid.IntRange(0, len(c.Nodes)-1).Draw(t, "node")]
		input := rapid.IntRange(0, len(n.Inputs)-1).Draw(t, "input")
		axis, perm, constant := &n.Attributes[0], &n.Attributes[1], n.Attributes[2].Tensor
		changes := []struct {
			name   string
			change func()
		}{
			{"operator", func() { n.OpType += "x" }},
			{
				"another input",
				func() { // to another initializer of as little use it would be a change of names
					if n.Inputs[input] == "in0" {
						n.Inputs[input] = "in1"
					} else {
						n.Inputs[input] = "in0"
					}
				},
			},
			{"one input more", func() { n.Inputs = append(n.Inputs, n.Inputs[0]) }},
			{"one output more", func() { n.Outputs = append(n.Outputs, "more") }},
			{"one node more", func() {
				c.Nodes = append(
					c.Nodes,
					onnx.Node{
						OpType:  "Identity",
						Inputs:  []string{"in0"},
						Outputs: []string{"out"},
					},
				)
			}},
			{"one node less", func() { c.Nodes = c.Nodes[1:] }},
			{"another output", func() {
				c.Outputs[rapid.IntRange(0, 1).Draw(t, "which")].Name = "in0"
			}},
			{"one input of the graph more", func() {
				c.Inputs = append(c.Inputs, onnx.Value{Name: "in2"})
			}},
			{"one attribute less", func() { n.Attributes = n.Attributes[1:] }},
			{"attribute's name", func() { axis.Name = "axes" }},
			{"integer", func() { axis.Int ^= 1 << rapid.IntRange(0, 63).Draw(t, "bit") }},
			{"float", func() { axis.Float = math.Float32frombits(1) }},
			{"zero's sign", func() { axis.Float = float32(math.Copysign(0, -1)) }},
			{"string", func() { axis.String = []byte{0} }},
			{"integers", func() { perm.Ints = append(perm.Ints, 0) }},
			{"the last integer", func() {
				if len(perm.Ints) == 0 {
					perm.Ints = []int64{0}
				}
				perm.Ints[len(perm.Ints)-1] ^= 1 << rapid.IntRange(0, 63).Draw(t, "bit")
			}},
			{"constant", func() { constant.Raw[1] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit") }},
			{"constant's type", func() { constant.Type = onnx.Int64 }},
			{"constant's shape", func() { constant.Dims = nil }},
			{"no constant", func() { n.Attributes[2].Tensor = nil }},
		}
		change := rapid.SampledFrom(changes).Draw(t, "change")
		change.change()
		if g.Structure() == c.Structure() {
			t.Fatalf("%s: the structure is the same", change.name)
		}
	})
}

// TestStructureBytes: what is hashed, by hand, in an order that does not depend on that of
// attributes. Hashes of networks that are known stand elsewhere.
func TestStructureBytes(t *testing.T) {
	g := onnx.Graph{
		Inputs: []onnx.Value{{Name: "x"}},
		Nodes: []onnx.Node{
			{
				OpType: "Add", Inputs: []string{"x", "w"}, Outputs: []string{"y"},
				Attributes: []onnx.Attribute{
					{
						Name: "b",
						Tensor: &onnx.Tensor{
							Name: "t", Type: onnx.Bool, Dims: []int64{1, 2}, Raw: []byte{3, 4},
						},
					},
					{Name: "a", Float: 1, Int: -5, String: []byte("text"), Ints: []int64{6}},
				},
			},
			{OpType: "Neg", Inputs: []string{"y"}, Outputs: []string{"z"}},
		},
		Outputs: []onnx.Value{{Name: "z"}, {Name: "x"}},
	}
	h := sha256.New()
	for _, part := range []any{
		0,                          // x
		3, "Add", 2, 1, 2, 0, 1, 2, // x, w and y
		1, "a", 0x3f800000, -5, 4, "text", 1, 6,
		1, "b", 0, 0, 0, 0, 9, 2, 1, 2, 2, "\x03\x04",
		3, "Neg", 1, 1, 0, 2, 3, // y and z
		3, 0, // z, x
	} {
		switch part := part.(type) {
		case int:
			binary.Write(h, binary.LittleEndian, int64(part))
		case string:
			io.WriteString(h, part)
		}
	}
	if got, want := g.Structure(), fmt.Sprintf("%x", h.Sum(nil)); got != want {
		t.Errorf("%s, by hand %s", got, want)
	}
}

// TestStructureWiring: the same operators in another order, or joined otherwise.
func TestStructureWiring(t *testing.T) {
	sub := func(a, b, out string) onnx.Node {
		return onnx.Node{OpType: "Sub", Inputs: []string{a, b}, Outputs: []string{out}}
	}
	seen := map[string]string{}
	for name, nodes := range map[string][]onnx.Node{
		"(a-b)-a":          {sub("a", "b", "x"), sub("x", "a", "y")},
		"(b-a)-a":          {sub("b", "a", "x"), sub("x", "a", "y")},
		"(a-b)-b":          {sub("a", "b", "x"), sub("x", "b", "y")},
		"a-(a-b)":          {sub("a", "b", "x"), sub("a", "x", "y")},
		"a-b, left beside": {sub("a", "a", "x"), sub("a", "b", "y")},
		"a-c":              {sub("a", "b", "x"), sub("a", "c", "y")},
		"a-b alone":        {sub("a", "b", "y")},
		"a-c alone":        {sub("a", "c", "y")},
	} {
		for _, outputs := range []string{"y", "a", "y a", "y b", "b y"} {
			g := onnx.Graph{Nodes: nodes, Inputs: []onnx.Value{{Name: "a"}, {Name: "b"}}}
			for _, output := range strings.Fields(outputs) {
				g.Outputs = append(g.Outputs, onnx.Value{Name: output})
			}
			if other, ok := seen[g.Structure()]; ok {
				t.Errorf("%s and %s have the same structure", name+" to "+outputs, other)
			}
			seen[g.Structure()] = name + " to " + outputs
		}
	}
	for bit := range 64 { // of an attribute
		for name, a := range map[string]onnx.Attribute{
			"an integer": {Int: 1 << bit}, "the last of integers": {Ints: []int64{1, 1 << bit}},
		} {
			n := sub("a", "b", "y")
			n.Attributes = []onnx.Attribute{a}
			g := onnx.Graph{Nodes: []onnx.Node{n}}
			if other, ok := seen[g.Structure()]; ok {
				t.Errorf("bit %d of %s and %s have the same structure", bit, name, other)
			}
			seen[g.Structure()] = fmt.Sprintf("bit %d of %s", bit, name)
		}
	}
}

// TestTruncated cuts the official model at many places. Where what is left is
// read at all, it is not taken for the network.
func TestTruncated(t *testing.T) {
	data, err := os.ReadFile(assetstest.Model(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := model.Parse(data); err != nil {
		t.Fatal(err)
	}
	var cuts []int
	for n := 0; n < len(data); n += 997 {
		cuts = append(cuts, n)
	}
	for n := len(data) - 200; n < len(data); n++ {
		cuts = append(cuts, n)
	}
	start, graph := graphOf(t, data)
	for _, n := range cuts {
		if m, err := onnx.Parse(data[:n]); err == nil {
			if _, err := model.Parse(data[:n]); err == nil {
				t.Errorf("the first %d of %d bytes pass for the network", n, len(data))
			}
		} else if m != nil {
			t.Errorf("cut at %d: a model and an error", n)
		}
		// The same with a length that fits, so that the cut is inside a node, an
		// initializer or a shape.
		if n < start || n >= start+len(graph) || n < len(data)-200 && n%4 > 0 {
			continue
		}
		if _, err := model.Parse(message(7, graph[:n-start], 8, message(2, 14))); err == nil {
			t.Errorf(
				"the first %d of %d bytes of the graph pass for the network", n-start, len(graph),
			)
		}
	}
}

// graphOf finds the graph in a model's bytes.
func graphOf(t *testing.T, data []byte) (start int, graph []byte) {
	for at := 0; at < len(data); {
		number, kind, n := protowire.ConsumeTag(data[at:])
		at += n
		if number == 7 {
			graph, n = protowire.ConsumeBytes(data[at:])
			return at + n - len(graph), graph
		}
		at += protowire.ConsumeFieldValue(number, kind, data[at:])
	}
	t.Fatal("no graph")
	return 0, nil
}

// TestParseAllocates: what a file of many tiny fields costs is bounded by its
// length.
func TestParseAllocates(t *testing.T) {
	const fields = 1 << 16
	for name, c := range map[string]struct {
		data []byte
		want string // what is wrong
	}{
		"nodes":        {data: message(7, []byte(strings.Repeat("\x0a\x00", fields)))},
		"initializers": {data: message(7, []byte(strings.Repeat("\x2a\x00", fields)))},
		"outputs":      {data: message(7, []byte(strings.Repeat("\x62\x00", fields)))},
		"inputs":       {data: message(7, message(1, []byte(strings.Repeat("\x0a\x00", fields))))},
		"absurd shape": {data: message(7, message(5, message(1, []int64{1 << 40, 1 << 40})))},
		"8 dimensions": {data: message(7,
			message(5, message(1, []byte(strings.Repeat("\x01", 8)))))},
		"dimensions": {
			message(7, message(5, message(1, []byte(strings.Repeat("\x01", 2*fields))))),
			"not an ONNX model, or a damaged one: a shape of 131072 or more dimensions, at most " +
				"8 are supported",
		},
		"an input's dimensions": {
			message(7, message(11, message(2,
				message(1, message(2, []byte(strings.Repeat("\x0a\x00", fields))))))),
			"not an ONNX model, or a damaged one: a shape of 9 or more dimensions, at most 8 " +
				"are supported",
		},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got := ""
		if _, err := onnx.Parse(c.data); err != nil {
			got = err.Error()
		}
		runtime.ReadMemStats(&after)
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if got, limit := after.TotalAlloc-before.TotalAlloc,
			uint64(400*len(c.data)+1<<16); got > limit {
			t.Errorf(
				"%s: %d bytes allocated for a file of %d, want at most %d", name, got, len(c.data),
				limit,
			)
		}
	}
}

// FuzzParse looks for bytes that crash the parser, or whose meaning does.
func FuzzParse(f *testing.F) {
	f.Add([]byte{})
	f.Add(small())
	f.Add(message(7, message(1, node("Add", []any{"a", "a"}, []any{"a"})), 8, message(2, 14)))
	f.Add(
		message(7, message(5, message(1, []int64{1 << 31, -1}, 2, onnx.Float, 8, "w", 9, "\x00"))),
	)
	f.Add(message(7, message(11, value("x", 1, -1), 12, value("x", 7, 0, 1))))
	f.Fuzz(func(t *testing.T, data []byte) {
		defer fuzzing.Ended()
		m, err := onnx.Parse(data)
		if _, err := model.Parse(data); err == nil {
			t.Fatal("passes for the network")
		}
		if err != nil {
			return
		}
		if g := copyGraph(&m.Graph, same); g.Structure() != m.Graph.Structure() {
			t.Fatal("a copy has another structure")
		}
		for i := range m.Graph.Initializers {
			tensor := &m.Graph.Initializers[i]
			if floats, err := tensor.Float32s(); err == nil && len(floats)*4 != len(tensor.Raw) {
				t.Fatalf("%d floats of %d bytes", len(floats), len(tensor.Raw))
			}
			if bools, err := tensor.Bools(); err == nil && len(bools) != len(tensor.Raw) {
				t.Fatalf("%d bools of %d bytes", len(bools), len(tensor.Raw))
			}
			if found, ok := m.Graph.Initializer(tensor.Name); !ok || found.Name != tensor.Name {
				t.Fatalf("initializer %q is not found", tensor.Name)
			}
		}
	})
}
