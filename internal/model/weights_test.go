package model

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"lockstep/internal/assets/assetstest"
	"lockstep/internal/defaults"
	"lockstep/internal/fileio"
	"lockstep/internal/onnx"
	"lockstep/internal/simtest"
)

// load returns the bytes of the project's own network, whose graph is the official one's.
func load(testing.TB) []byte { return defaults.Model() }

// factor is the name of the constant by which the product is made that has a result's name.
func factor(t *testing.T, data []byte, result string) string {
	t.Helper()
	return input(t, data, result, 1)
}

// input is the name of an input of the node that has a result's name.
func input(t *testing.T, data []byte, result string, i int) string {
	t.Helper()
	m, err := onnx.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range m.Graph.Nodes {
		if slices.Contains(n.Outputs, result) {
			return n.Inputs[i]
		}
	}
	t.Fatalf("nothing computes %s", result)
	return ""
}

func TestLoad(t *testing.T) {
	own := filepath.Join(t.TempDir(), "own.onnx")
	if err := os.WriteFile(own, load(t), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Run("own", func(t *testing.T) {
		holdSizes(t, own)
		if notice, foreign := Foreign(own); !foreign || !strings.HasPrefix(
			notice, own+" is not the challenge's network, whatever its name (SHA-256 ",
		) {
			t.Errorf("it is foreign: %v, %q", foreign, notice)
		}
		if notice, foreign := Foreign(own + "x"); foreign || notice != "" {
			t.Errorf("what is not there is foreign: %q", notice)
		}
	})
	t.Run("official", func(t *testing.T) {
		path := assetstest.Model(t)
		if w := holdSizes(t, path); w.SHA256 != OfficialSHA256 {
			t.Errorf("SHA-256 %s, want %s", w.SHA256, OfficialSHA256)
		}
		if notice, foreign := Foreign(path); foreign {
			t.Error(notice)
		}
	})
}

func holdSizes(t *testing.T, path string) *Weights {
	t.Helper()
	w, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if sum, err := fileio.SHA256(path); err != nil || w.SHA256 != sum {
		t.Errorf("SHA-256 %s, %v; want %s", w.SHA256, err, sum)
	}
	sizes := map[string][2]int{
		"StateEmbedding":    {len(w.StateEmbedding), 4 * 64},
		"StateBias":         {len(w.StateBias), 64},
		"TokenEmbedding":    {len(w.TokenEmbedding), 1024 * 64},
		"PositionEmbedding": {len(w.PositionEmbedding), 20 * 128},
		"FinalNorm.Weight":  {len(w.FinalNorm.Weight), 128},
		"FinalNorm.Bias":    {len(w.FinalNorm.Bias), 128},
		"Head":              {len(w.Head), 128 * 1024},
	}
	for i, l := range w.Layers {
		for name, size := range map[string][2]int{
			"AttentionNorm.Weight": {len(l.AttentionNorm.Weight), 128},
			"AttentionNorm.Bias":   {len(l.AttentionNorm.Bias), 128},
			"QKV":                  {len(l.QKV), 128 * 384},
			"Projection":           {len(l.Projection), 128 * 128},
			"MLPNorm.Weight":       {len(l.MLPNorm.Weight), 128},
			"MLPNorm.Bias":         {len(l.MLPNorm.Bias), 128},
			"FC":                   {len(l.FC), 128 * 512},
			"Out":                  {len(l.Out), 512 * 128},
		} {
			sizes[fmt.Sprintf("layer %d, %s", i, name)] = size
		}
	}
	for name, size := range sizes {
		if size[0] != size[1] {
			t.Errorf("%s has %d values, want %d", name, size[0], size[1])
		}
	}
	return w
}

// TestLoadPlaces changes one initializer at a time and sees that just the weights
// that are named after it change.
func TestLoadPlaces(t *testing.T) {
	data := load(t)
	for name, pick := range map[string]func(*Weights) float32{
		"/wt_embedding/MatMul_output_0":    func(w *Weights) float32 { return w.StateEmbedding[0] },
		"transformer.wt_embedding.bias":    func(w *Weights) float32 { return w.StateBias[0] },
		"transformer.wt2_embedding.weight": func(w *Weights) float32 { return w.TokenEmbedding[0] },
		"transformer.wp_embedding.weight": func(w *Weights) float32 {
			return w.PositionEmbedding[0]
		},
		"transformer.h.0.attn.layer_norm.weight": func(w *Weights) float32 {
			return w.Layers[0].AttentionNorm.Weight[0]
		},
		"transformer.h.1.attn.layer_norm.bias": func(w *Weights) float32 {
			return w.Layers[1].AttentionNorm.Bias[0]
		},
		"transformer.h.2.mlp.layer_norm.weight": func(w *Weights) float32 {
			return w.Layers[2].MLPNorm.Weight[0]
		},
		"transformer.h.3.mlp.layer_norm.bias": func(w *Weights) float32 {
			return w.Layers[3].MLPNorm.Bias[0]
		},
		"/h.0/attn/c_attn/MatMul_output_0": func(w *Weights) float32 { return w.Layers[0].QKV[0] },
		"/h.1/attn/c_proj/MatMul_output_0": func(w *Weights) float32 {
			return w.Layers[1].Projection[0]
		},
		"/h.2/mlp/c_fc/MatMul_output_0":   func(w *Weights) float32 { return w.Layers[2].FC[0] },
		"/h.3/mlp/c_proj/MatMul_output_0": func(w *Weights) float32 { return w.Layers[3].Out[0] },
		"transformer.layer_norm_f.weight": func(w *Weights) float32 {
			return w.FinalNorm.Weight[0]
		},
		"transformer.layer_norm_f.bias": func(w *Weights) float32 { return w.FinalNorm.Bias[0] },
		"output":                        func(w *Weights) float32 { return w.Head[0] },
	} {
		if name == "output" || strings.HasPrefix(name, "/") { // a product's result
			name = factor(t, data, name)
		}
		w, err := Parse(edit(data, initializer(name, replace(9, func(raw []byte) []byte {
			return append(binary.LittleEndian.AppendUint32(nil, math.Float32bits(42)), raw[4:]...)
		}))))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if got := pick(w); got != 42 {
			t.Errorf("%s: the weight is %v, want 42", name, got)
		} else if w.SHA256 == OfficialSHA256 {
			t.Errorf("%s: another file has the official SHA-256", name)
		}
	}
}

// A change returns the encoding of a field that stands in the place of one with
// the given contents: the same, another, several or none.
type change func(number protowire.Number, contents, raw []byte) []byte

// rewrite applies a change to each length-delimited field of a message.
func rewrite(message []byte, c change) []byte {
	out := make([]byte, 0, len(message)+64)
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeField(message)
		if n < 0 {
			panic(protowire.ParseError(n))
		}
		raw := message[:n]
		message = message[n:]
		if kind == protowire.BytesType {
			_, _, tag := protowire.ConsumeTag(raw)
			contents, _ := protowire.ConsumeBytes(raw[tag:])
			raw = c(number, contents, raw)
		}
		out = append(out, raw...)
	}
	return out
}

func encode(number protowire.Number, contents []byte) []byte {
	b := make([]byte, 0, len(contents)+16)
	return protowire.AppendBytes(protowire.AppendTag(b, number, protowire.BytesType), contents)
}

// edit changes the fields of a model's graph.
func edit(data []byte, c change) []byte {
	return rewrite(data, func(number protowire.Number, contents, raw []byte) []byte {
		if number != 7 {
			return raw
		}
		return encode(7, rewrite(contents, c))
	})
}

// replace changes the contents of one field of a message.
func replace(field protowire.Number, f func([]byte) []byte) change {
	return func(number protowire.Number, contents, raw []byte) []byte {
		if number != field {
			return raw
		}
		return encode(number, f(contents))
	}
}

// text is the first field of the given number.
func text(message []byte, field protowire.Number) (first string) {
	rewrite(message, func(number protowire.Number, contents, raw []byte) []byte {
		if number == field && first == "" {
			first = string(contents)
		}
		return raw
	})
	return first
}

// in applies a change inside those fields of the graph that have the given name.
func in(field, nameField protowire.Number, name string, c change) change {
	return func(number protowire.Number, contents, raw []byte) []byte {
		if number != field || text(contents, nameField) != name {
			return raw
		}
		return encode(number, rewrite(contents, c))
	}
}

func initializer(name string, c change) change { return in(5, 8, name, c) }
func node(output string, c change) change      { return in(1, 2, output, c) }

// drop leaves a field of the graph out.
func drop(field, nameField protowire.Number, name string) change {
	return func(number protowire.Number, contents, raw []byte) []byte {
		if number == field && text(contents, nameField) == name {
			return nil
		}
		return raw
	}
}

// named adds a constant again, by another name.
func named(constant, name string) change {
	return func(number protowire.Number, contents, raw []byte) []byte {
		if number != 5 || text(contents, 8) != constant {
			return raw
		}
		return slices.Concat(raw, encode(5, rewrite(contents,
			replace(8, func([]byte) []byte { return []byte(name) }))))
	}
}

// scalar sets a varint field of an initializer: protocol buffers take the last.
func scalar(name string, field protowire.Number, value uint64) change {
	return func(number protowire.Number, contents, raw []byte) []byte {
		if number != 5 || text(contents, 8) != name {
			return raw
		}
		contents = protowire.AppendVarint(
			protowire.AppendTag(bytes.Clone(contents), field, protowire.VarintType), value,
		)
		return encode(number, contents)
	}
}

// TestDamagedTensor damages every tensor in every way; each error names it.
func TestDamagedTensor(t *testing.T) {
	data := load(t)
	m, err := onnx.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(m.Graph.Initializers); n != 40 {
		t.Errorf("%d tensors, want 40", n)
	}
	for _, tensor := range m.Graph.Initializers {
		name := tensor.Name
		kind := "float (1)"
		if tensor.Type == onnx.Bool {
			kind = "bool (9)"
		}
		for _, c := range []struct {
			name   string
			change change
			want   string
		}{
			{"missing", drop(5, 8, name), fmt.Sprintf("no tensor %q", name)},
			{"one dimension more", scalar(name, 1, 1),
				fmt.Sprintf("tensor %q: shape %v, want %v", name,
					append(slices.Clone(tensor.Dims), 1), tensor.Dims)},
			{"double", scalar(name, 2, 11),
				fmt.Sprintf("tensor %q: element type 11, want %s", name, kind)},
			{"one byte less", initializer(name,
				replace(9, func(raw []byte) []byte { return raw[1:] })), fmt.Sprintf(
				"tensor %q: %d bytes of data do not fit shape %v", name, len(tensor.Raw)-1,
				tensor.Dims,
			)},
			{"data elsewhere", scalar(name, 14, 1), fmt.Sprintf("not an ONNX model, or a "+
				"damaged one: tensor %q: its elements are stored in another file", name)},
		} {
			if _, err := Parse(edit(data, c.change)); err == nil ||
				!strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("%s, %s: %v, want %s", name, c.name, err, c.want)
			}
		}
	}
}

// TestMask flips elements of the mask on both sides of the diagonal.
func TestMask(t *testing.T) {
	data := load(t)
	const name = "transformer.h.0.attn.bias"
	for i := 0; i < Context*Context; i += 19 {
		flip := initializer(name, replace(9, func(raw []byte) []byte {
			raw = bytes.Clone(raw)
			raw[i] ^= 1
			return raw
		}))
		want := fmt.Sprintf(
			"tensor %q: the attention mask is not causal at (%d, %d)", name, i/Context, i%Context,
		)
		if _, err := Parse(edit(data, flip)); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// swap exchanges two texts wherever they are a node's input or output.
func swap(a, b string) change {
	other := func(contents []byte) []byte {
		switch string(contents) {
		case a:
			return []byte(b)
		case b:
			return []byte(a)
		}
		return contents
	}
	return func(number protowire.Number, contents, raw []byte) []byte {
		if number != 1 {
			return raw
		}
		return encode(
			1,
			rewrite(contents, func(number protowire.Number, contents, raw []byte) []byte {
				if number > 2 {
					return raw
				}
				return encode(number, other(contents))
			}),
		)
	}
}

// TestOtherGraph changes what is computed, with all tensors in place.
func TestOtherGraph(t *testing.T) {
	data := load(t)
	same := edit(data, func(_ protowire.Number, _, raw []byte) []byte { return raw })
	if err := simtest.Same("what the editor leaves alone", same, data); err != nil {
		t.Fatal(err)
	}
	const structure = "the weights fit, but the graph computes something else than tinyphysics"
	var tanh string
	rewrite(load(t), replace(7, func(graph []byte) []byte {
		rewrite(graph, func(number protowire.Number, contents, raw []byte) []byte {
			if number == 1 && text(contents, 4) == "Tanh" {
				tanh = text(contents, 2)
			}
			return raw
		})
		return nil
	}))
	inlineConstant := func(name string, raw []byte) change {
		return node(name, replace(5, func(attribute []byte) []byte {
			return rewrite(attribute, replace(5, func(tensor []byte) []byte {
				return rewrite(tensor, replace(9, func([]byte) []byte { return raw }))
			}))
		}))
	}
	for _, c := range []struct {
		name string
		data []byte
		want string
	}{
		{"another activation", edit(data,
			node(tanh, replace(4, func([]byte) []byte { return []byte("Erf") }))), structure},
		{"an operator of another domain",
			edit(data, node(tanh, func(number protowire.Number, contents, raw []byte) []byte {
				if number == 4 {
					return slices.Concat(raw, encode(7, []byte("ai.example")))
				}
				return raw
			})), structure},
		{
			"another epsilon",
			edit(data,
				inlineConstant("/h.0/attn/layer_norm/Constant_1_output_0",
					[]byte{172, 197, 39, 56})),
			structure,
		},
		{"another axis", edit(data,
			node("/h.0/attn/Split_output_0", replace(5, func(attribute []byte) []byte {
				return protowire.AppendVarint(protowire.AppendTag(bytes.Clone(attribute), 3,
					protowire.VarintType), 1)
			}))), structure},
		{"crossed wires", edit(data, node("/h.0/attn/layer_norm/Sub_output_0", swapInputs())),
			structure},
		{"a missing node", edit(data, drop(1, 2, tanh)), structure},
		{
			"crossed layer norms",
			edit(data,
				swap("transformer.h.0.mlp.layer_norm.weight",
					"transformer.h.3.mlp.layer_norm.weight")),
			"tensor \"transformer.h.0.mlp.layer_norm.weight\" is not used where it belongs",
		},
		{
			"weight for bias",
			edit(data, swap("transformer.layer_norm_f.weight", "transformer.layer_norm_f.bias")),
			"tensor \"transformer.layer_norm_f.weight\" is not used where it belongs",
		},
		{
			"renamed products",
			edit(data, swap("/h.1/mlp/c_fc/MatMul_output_0", "/h.2/mlp/c_fc/MatMul_output_0")),
			fmt.Sprintf("tensor %q is not used where it belongs",
				factor(t, data, "/h.2/mlp/c_fc/MatMul_output_0")),
		},
		{
			"a constant named as what the head is multiplied with",
			edit(data, named("transformer.layer_norm_f.bias", input(t, data, "output", 0))),
			fmt.Sprintf("tensor %q is not used where it belongs", factor(t, data, "output")),
		},
		{"no product", edit(data, swap("/h.1/mlp/c_fc/MatMul_output_0", "other")), "no matrix " +
			"product /h.1/mlp/c_fc/MatMul_output_0"},
		{"no head", edit(data, node("output",
			replace(
				4, func([]byte) []byte { return []byte("Gemm") },
			))), "no matrix product output"},
		{"other operator set", slices.Concat(data, encode(8, []byte("\x10\x12"))), "operator " +
			"set 18, want 14"},
		{"no input", edit(data, drop(11, 1, "states")), "no input named states"},
		{"no tokens", edit(data, drop(11, 1, "tokens")), "no input named tokens"},
		{"no output", edit(data, drop(12, 1, "output")), "no output named output"},
		{"untyped input", edit(data, in(11, 1, "tokens", drop(2, 9, ""))), "input tokens: " +
			"element type 0 and shape [], want type 7 and shape [-1 20]"},
		{"foreign", encode(7, encode(1, encode(4, []byte("Add")))), "operator set 0, want 14"},
		{"no protocol buffer", []byte("t,vEgo,aEgo\n"), "not an ONNX model, or a damaged one"},
		{"empty", nil, "not an ONNX model: it holds no graph"},
	} {
		if _, err := Parse(c.data); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
}

// swapInputs exchanges a node's first two inputs.
func swapInputs() change {
	var first []byte
	return func(number protowire.Number, contents, raw []byte) []byte {
		switch {
		case number != 1:
			return raw
		case first == nil:
			first = raw
			return nil
		default:
			return slices.Concat(raw, first)
		}
	}
}

func TestLoadErrors(t *testing.T) {
	dir := t.TempDir()
	none, text := filepath.Join(dir, "none.onnx"), filepath.Join(dir, "text.onnx")
	if err := os.WriteFile(text, []byte("hello"), 0o666); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		none: "open " + none + ": no such file or directory",
		text: text + ": not an ONNX model, or a damaged one: ",
		dir:  "read " + dir + ": a folder, not a network",
	} {
		if _, err := Load(path); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
