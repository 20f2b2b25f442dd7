package onnx_test

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"lockstep/internal/assets/assetstest"
	"lockstep/internal/model"
	"lockstep/internal/onnx"
	"lockstep/internal/simtest"
)

// TestEncode: a model's bytes are the fields that the format has for it, each with its number.
func TestEncode(t *testing.T) {
	attributes := []onnx.Attribute{
		{Name: "float", Float: 0.5}, {Name: "int", Int: 3}, {Name: "string", String: []byte("s")},
		{Name: "tensor", Tensor: &onnx.Tensor{Name: "t", Type: onnx.Bool, Raw: []byte{1}}},
		{Name: "ints", Ints: []int64{4, 5}}, {Name: "zero"},
	}
	m := onnx.Model{Opset: 17, Metadata: map[string]string{"key": "value"}, Graph: onnx.Graph{
		Nodes: []onnx.Node{{
			OpType: "com.example.Op", Inputs: []string{"x"}, Outputs: []string{"y"},
			Attributes: attributes,
		}},
		Initializers: []onnx.Tensor{{Name: "w", Type: onnx.Int64, Dims: []int64{0}}},
		Inputs:       []onnx.Value{{Name: "x", Type: onnx.Float, Dims: []int64{-1, 2}}},
		Outputs:      []onnx.Value{{Name: "y", Type: onnx.Float, Dims: []int64{3}}},
	}}
	shaped := func(name string, dims ...any) []byte {
		return message(1, name, 2, message(1, message(1, 1, 2, message(1, dims))))
	}
	operator := message(
		1, "x", 2, "y", 7, "com.example", 4, "Op",
		5, message(1, "float", 2, float32(0.5), 20, 1),
		5, message(1, "int", 3, 3, 20, 2),
		5, message(1, "string", 4, "s", 20, 3),
		5, message(1, "tensor", 5, message(2, 9, 8, "t", 9, "\x01"), 20, 4),
		5, message(1, "ints", 8, []any{4, 5}, 20, 7),
		5, message(1, "zero", 3, 0, 20, 2),
	)
	graph := message(
		1, operator, 2, "graph", 5, message(1, 0, 2, 7, 8, "w", 9, ""),
		11, shaped("x", "", message(1, 2)), 12, shaped("y", message(1, 3)),
	)
	want := message(
		1, 8, 7, graph, 8, message(1, "", 2, 17), 8, message(1, "com.example", 2, 1),
		14, message(1, "key", 2, "value"),
	)
	got := m.Encode(8, map[string]int64{"com.example": 1})
	if err := simtest.Same("the file", got, want); err != nil {
		t.Errorf("%v\n%q\n%q", err, got, want)
	}
}

// tiny is a model of three nodes, of which the last is unused.
func tiny() *onnx.Model {
	value := func(name string, dims ...int64) onnx.Value {
		return onnx.Value{Name: name, Type: onnx.Float, Dims: dims}
	}
	return &onnx.Model{Opset: 17, Graph: onnx.Graph{
		Nodes: []onnx.Node{
			{
				OpType:  "com.microsoft.FusedMatMul",
				Inputs:  []string{"x", "w"},
				Outputs: []string{"a"},
				Attributes: []onnx.Attribute{
					{Name: "alpha", Float: 0.5}, {Name: "transB", Int: -1 << 40}, {Name: "transA"},
				},
			},
			{
				OpType:     "Transpose",
				Inputs:     []string{"a"},
				Outputs:    []string{"y"},
				Attributes: []onnx.Attribute{{Name: "perm", Ints: []int64{1, 0}}},
			},
			{OpType: "Constant", Outputs: []string{"c"}, Attributes: []onnx.Attribute{
				{
					Name: "value",
					Tensor: &onnx.Tensor{
						Name: "t",
						Type: onnx.Int64,
						Dims: []int64{1},
						Raw:  make([]byte, 8),
					},
				},
				{Name: "note", String: []byte("unused")},
			}},
		},
		Initializers: []onnx.Tensor{
			{Name: "w", Type: onnx.Float, Dims: []int64{2, 2}, Raw: []byte("0123456789abcdef")},
			{Name: "unused", Type: onnx.Float, Dims: []int64{1}, Raw: []byte("0123")},
		},
		Inputs:  []onnx.Value{value("x", -1, 2, 0), value("z", 1<<40)},
		Outputs: []onnx.Value{value("a", 7), value("y", 2, -1)},
	}, Metadata: map[string]string{"first": "1", "second": "2", "third": "3"}}
}

func TestEncodeParse(t *testing.T) {
	want := tiny()
	want.Metadata = map[string]string{"a": "1", "b": "2", "c": "3", "d": "4"}
	imports := map[string]int64{"com.microsoft": 1, "e": 2, "f": 3, "g": 4}
	data := want.Encode(8, imports)
	// The version is that of the default operators, whatever others have.
	none := onnx.Model{Graph: want.Graph}
	if m, err := onnx.Parse(none.Encode(8, imports)); err != nil || m.Opset != 0 {
		t.Errorf("no version of the default operators is read as another's: %+v, %v", m, err)
	}
	got, err := onnx.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for range 10 { // a map has another order each time
		if err := simtest.Same("the file", want.Encode(8, imports), data); err != nil {
			t.Fatalf("one model has several forms: %v", err)
		}
	}
	for _, field := range []string{"\x3a\x0dcom.microsoft", "\"\x0bFusedMatMul"} {
		if !bytes.Contains(data, []byte(field)) {
			t.Errorf("no node has the field %q", field)
		}
	}
}

func TestPatch(t *testing.T) {
	of := tiny()
	of.Graph.Outputs = append([]onnx.Value{{Name: "x", Dims: []int64{}}}, of.Graph.Outputs...)
	data := of.Encode(8, nil)
	p := onnx.Patch{
		Remove: []string{"a"},
		Nodes: []onnx.Node{ // in no order
			{OpType: "Add", Inputs: []string{"l", "b", "k"}, Outputs: []string{"a"}},
			{OpType: "Identity", Inputs: []string{"x"}, Outputs: []string{"b"}},
			{OpType: "Identity", Inputs: []string{"x"}, Outputs: []string{"d"}},
		},
		Initializers: []onnx.Tensor{
			{Name: "k", Type: onnx.Float, Dims: []int64{1}, Raw: []byte("4567")},
			{Name: "unused too", Type: onnx.Float, Dims: []int64{1}, Raw: []byte("cdef")},
			{Name: "l", Type: onnx.Float, Dims: []int64{1}, Raw: []byte("89ab")},
		},
		Outputs: []onnx.Value{
			{Name: "a", Type: onnx.Float, Dims: []int64{5}},
			{Name: "y", Type: onnx.Float, Dims: []int64{3, 3}},
		},
		Imports: map[string]int64{"com.microsoft": 1},
	}
	out, err := p.Apply(data)
	if err != nil {
		t.Fatal(err)
	}
	m, err := onnx.Parse(out)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, n := range m.Graph.Nodes {
		names = append(names, n.Outputs...)
	}
	if want := []string{"b", "a", "y"}; !slices.Equal(names, want) {
		t.Errorf("nodes compute %v, want %v", names, want)
	}
	used := []onnx.Tensor{p.Initializers[0], p.Initializers[2]}
	if d := cmp.Diff(used, m.Graph.Initializers); d != "" {
		t.Errorf("constants: %s", d)
	}
	x := onnx.Value{Name: "x"}
	if d := cmp.Diff(append([]onnx.Value{x}, p.Outputs...), m.Graph.Outputs); d != "" {
		t.Error(d)
	}
	if m.Opset != 17 || !strings.Contains(string(out), "com.microsoft") {
		t.Errorf("operator set %d, want 17 and com.microsoft", m.Opset)
	}

	for want, p := range map[string]onnx.Patch{
		"no node computes q": {Remove: []string{"q"}},
		"two nodes compute a": {Nodes: []onnx.Node{{OpType: "Identity", Inputs: []string{"x"},
			Outputs: []string{"a"}}}},
		"depends on itself": {Remove: []string{"a"},
			Nodes: []onnx.Node{{OpType: "Identity", Inputs: []string{"y"},
				Outputs: []string{"a"}}}},
	} {
		if _, err := p.Apply(data); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// TestPatchUsed: without a patch what outputs depend on stays as it is, and only that.
func TestPatchUsed(t *testing.T) {
	want := tiny()
	out, err := new(onnx.Patch).Apply(want.Encode(8, nil))
	if err != nil {
		t.Fatal(err)
	}
	got, err := onnx.Parse(out)
	if err != nil {
		t.Fatal(err)
	}
	want.Graph.Nodes, want.Graph.Initializers = want.Graph.Nodes[:2], want.Graph.Initializers[:1]
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// TestPatchNothing changes nothing of the real model.
func TestPatchNothing(t *testing.T) {
	data, err := os.ReadFile(assetstest.Model(t))
	if err != nil {
		t.Fatal(err)
	}
	out, err := new(onnx.Patch).Apply(data)
	if err != nil {
		t.Fatal(err)
	}
	want, err := model.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	// Nodes come in another order, so that the structure is not the same; the
	// constants are, and the nodes are but for those that nothing depends on.
	before, _ := onnx.Parse(data)
	after, err := onnx.Parse(out)
	if err != nil {
		t.Fatal(err)
	}
	nodes := map[string]onnx.Node{}
	for _, n := range before.Graph.Nodes {
		nodes[n.Outputs[0]] = n
	}
	for _, n := range after.Graph.Nodes {
		if d := cmp.Diff(nodes[n.Outputs[0]], n); d != "" {
			t.Error(d)
		}
	}
	if lost := len(before.Graph.Nodes) - len(after.Graph.Nodes); lost < 0 || lost > 40 {
		t.Errorf("%d of %d nodes are left", len(after.Graph.Nodes), len(before.Graph.Nodes))
	}
	head, ok := after.Graph.Initializer("onnx::MatMul_570")
	if !ok {
		t.Fatal("the head is gone")
	}
	values, err := head.Float32s()
	if err := errors.Join(err, simtest.Same("the head", values, want.Head)); err != nil {
		t.Error(err)
	}
}

// TestPatchHostile applies a patch to damaged bytes, which must not panic.
func TestPatchHostile(t *testing.T) {
	data := tiny().Encode(8, nil)
	p := onnx.Patch{Remove: []string{"a"}, Outputs: []onnx.Value{{Name: "y"}}}
	rapid.Check(t, func(t *rapid.T) {
		damaged := slices.Clone(data)
		for range rapid.IntRange(1, 8).Draw(t, "changes") {
			damaged[rapid.IntRange(0, len(damaged)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
		}
		p.Apply(damaged[:rapid.IntRange(0, len(damaged)).Draw(t, "length")])
	})
}
