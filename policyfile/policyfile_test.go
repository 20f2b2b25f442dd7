package policyfile_test

import (
	"encoding/base64"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"lockstep"
	"lockstep/internal/onnx"
	"lockstep/internal/policytest"
	"lockstep/policyfile"
)

// network is one of random weights.
func network(t *testing.T, widths ...int) *lockstep.Network {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	numbers := func(n int) []float32 {
		out := make([]float32, n)
		for i := range out {
			out[i] = random.Float32() - 0.5
		}
		return out
	}
	var layers []lockstep.Layer
	inputs := lockstep.ObservationSize
	for _, n := range append(widths, lockstep.ActorSize) {
		layers = append(
			layers,
			lockstep.Layer{
				Inputs:  inputs,
				Outputs: n,
				Weights: numbers(inputs * n),
				Bias:    numbers(n),
			},
		)
		inputs = n
	}
	n, err := lockstep.NewNetwork(layers, 0.3)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestWriteLoad: a policy is the same after it was written.
func TestWriteLoad(t *testing.T) {
	actions := make([]float64, lockstep.TableSteps)
	actions[1], actions[2], actions[3] = math.Copysign(0, -1), math.Nextafter(1, 2),
		math.SmallestNonzeroFloat64
	table, err := lockstep.NewTable(
		map[string][]float64{"00000": actions, "b": make([]float64, lockstep.TableSteps)},
	)
	if err != nil {
		t.Fatal(err)
	}
	noisy, err := lockstep.NewTable(map[string][]float64{"00000": actions})
	if err != nil {
		t.Fatal(err)
	}
	noisy.Noise = lockstep.ExpectedNoise
	knowing, seeded := *noisy, *noisy
	knowing.Noise, seeded.Noise = lockstep.RouteNoise, lockstep.SeededNoise
	declared := policytest.Declared(1)
	wide, err := lockstep.NewSeeing(declared.Sees, declared.Layers, 0.7)
	if err != nil {
		t.Fatal(err)
	}
	for file, p := range map[string]lockstep.Native{
		"g.onnx": wide,
		"a.json": lockstep.PIDFF{P: 0.3, FF: [4]float64{1, 2, 3, 4}, Leak: 1e-9},
		"b.json": table,
		"f.json": noisy,
		"h.json": &knowing,
		"i.json": &seeded,
		"c.onnx": network(t, 5, 256, 3),
		"d.onnx": network(t),
		"e.onnx": policytest.Declared(1),
	} {
		path := filepath.Join(t.TempDir(), file)
		if err := policyfile.Write(path, p); err != nil {
			t.Fatal(err)
		}
		if read, err := policyfile.Load(path); err != nil || !reflect.DeepEqual(read, p) ||
			read.String() != p.String() {
			t.Errorf("%v reads back as %v, %v", p, read, err)
		}
	}
}

// TestGemm: layers in the other two forms are read as the same network.
func TestGemm(t *testing.T) {
	n := network(t, 4)
	for _, transposed := range []int64{0, 1} {
		data := edit(t, n, func(g *onnx.Graph) { gemm(g, transposed) })
		if read, err := policyfile.Network(data); err != nil || read.Name != n.Name {
			t.Errorf("transB %d: %v, %v", transposed, read, err)
		}
	}
}

// gemm makes MatMul and Add one.
func gemm(g *onnx.Graph, transposed int64) {
	var nodes []onnx.Node
	for _, n := range g.Nodes {
		if n.OpType != "Add" {
			nodes = append(nodes, n)
			continue
		}
		product := &nodes[len(nodes)-1]
		*product = onnx.Node{
			OpType:  "Gemm",
			Inputs:  []string{product.Inputs[0], product.Inputs[1], n.Inputs[1]},
			Outputs: n.Outputs,
			Attributes: []onnx.Attribute{
				{Name: "alpha", Float: 1}, {Name: "beta", Float: 1},
				{Name: "transB", Int: transposed},
			},
		}
	}
	g.Nodes = nodes
	for i := range g.Initializers {
		if t := &g.Initializers[i]; transposed == 1 && len(t.Dims) == 2 {
			rows, columns := int(t.Dims[0]), int(t.Dims[1])
			raw := make([]byte, 0, len(t.Raw))
			for c := range columns {
				for r := range rows {
					raw = append(raw, t.Raw[4*(r*columns+c):][:4]...)
				}
			}
			t.Dims, t.Raw = []int64{t.Dims[1], t.Dims[0]}, raw
		}
	}
}

func edit(t *testing.T, n *lockstep.Network, f func(*onnx.Graph)) []byte {
	t.Helper()
	m, err := onnx.Parse(policyfile.Encode(n))
	if err != nil {
		t.Fatal(err)
	}
	f(&m.Graph)
	return m.Encode(8, nil)
}

// TestNetworkErrors: what does not fit is refused by name.
func TestNetworkErrors(t *testing.T) {
	nan := []byte{0, 0, 0xc0, 0x7f}
	for want, f := range map[string]func(g *onnx.Graph){
		`input "observation", want obs [n,256]`: func(g *onnx.Graph) {
			g.Inputs[0].Name = "observation"
		},
		`input "obs": element type 1 and shape [-1 255], want float (1) and [n,256]`: func(
			g *onnx.Graph,
		) {
			g.Inputs[0].Dims[1] = 255
		},
		`output "logits": element type 1 and shape [-1 3]`: func(g *onnx.Graph) {
			g.Outputs[0].Dims[1] = 3
		},
		`node 2 ("Elu"): operator not supported`: func(g *onnx.Graph) {
			g.Nodes[2].OpType = "Elu"
		},
		`node 0 ("LSTM"): operator not supported`: func(g *onnx.Graph) {
			g.Nodes[0].OpType = "LSTM"
			g.Nodes[0].Outputs = append(g.Nodes[0].Outputs, "hidden", "cell")
		},
		`node 5 ("Tanh"): it does not follow "logits"`: func(g *onnx.Graph) {
			g.Nodes = append(g.Nodes, onnx.Node{OpType: "Tanh", Inputs: []string{"sum1"},
				Outputs: []string{"more"}})
		},
		`node 2 ("MatMul"): no Relu or Tanh between two layers`: func(g *onnx.Graph) {
			g.Nodes[2].OpType, g.Nodes[2].Inputs = "Add", []string{"sum0", "bias0"}
			g.Nodes = slices.Delete(g.Nodes, 2, 3)
			g.Nodes[2].Inputs[0] = "sum0"
		},
		`node 1 ("Relu"): a layer without a bias before it`: func(g *onnx.Graph) {
			g.Nodes[1].OpType, g.Nodes[1].Inputs = "Relu", []string{"product0"}
		},
		`node 3 ("MatMul"): it does not follow "hidden0"`: func(g *onnx.Graph) {
			g.Nodes[3].Inputs[0] = "sum0"
		},
		`node 0 ("MatMul"): it does not follow "obs"`: func(g *onnx.Graph) {
			slices.Reverse(g.Nodes[0].Inputs)
		},
		`"weight0" is not an initializer: weights must be in`: func(g *onnx.Graph) {
			g.Initializers[0].Name = "other"
		},
		`layer 0: weight [0][0] is NaN`: func(g *onnx.Graph) { copy(g.Initializers[0].Raw, nan) },
		`layer 0: 255 inputs and 4 outputs, want 256`: func(g *onnx.Graph) {
			i := &g.Initializers[0]
			i.Dims[0], i.Raw = 255, i.Raw[16:]
		},
		`bias "bias0": shape [3], want [4]`: func(g *onnx.Graph) {
			i := &g.Initializers[1]
			i.Dims[0], i.Raw = 3, i.Raw[4:]
		},
		`output "logits" is not that of the last layer`: func(g *onnx.Graph) {
			g.Nodes = g.Nodes[:4]
		},
		`tensor "weight0": element type 7, want float`: func(g *onnx.Graph) {
			g.Initializers[0].Type = onnx.Int64
		},
		`0 outputs, want one: logits [n,2]`: func(g *onnx.Graph) { g.Outputs = nil },
		`node 0 ("Gemm"): 2 inputs, want 3: a layer has a bias`: func(g *onnx.Graph) {
			gemm(g, 0)
			g.Nodes[0].Inputs = g.Nodes[0].Inputs[:2]
		},
		`node 0 ("Gemm"): attribute "alpha" has a value that is not`: func(g *onnx.Graph) {
			gemm(g, 0)
			g.Nodes[0].Attributes[0].Float = 2
		},
		`node 0 ("Gemm"): attribute "beta" has a value that is not`: func(g *onnx.Graph) {
			gemm(g, 0)
			g.Nodes[0].Attributes[0] = onnx.Attribute{Name: "beta"}
		},
		`node 0 ("Gemm"): attribute "transB" has a value that is not`: func(g *onnx.Graph) {
			gemm(g, 0)
			g.Nodes[0].Attributes[0] = onnx.Attribute{Name: "transB", Int: 2}
		},
		`node 0 ("Gemm"): attribute "broadcast" has a value that is not`: func(g *onnx.Graph) {
			gemm(g, 0)
			g.Nodes[0].Attributes[0] = onnx.Attribute{Name: "broadcast"}
		},
		`node 0 ("Gemm"): attribute "transA" has`: func(g *onnx.Graph) {
			gemm(g, 0)
			g.Nodes[0].Attributes[0] = onnx.Attribute{Name: "transA", Int: 1}
		},
		`node 0 ("Gemm"): it does not follow "obs": want a chain`: func(g *onnx.Graph) {
			gemm(g, 0)
			slices.Reverse(g.Nodes[0].Inputs)
		},
		`node 2 ("Add"): it does not follow a MatMul`: func(g *onnx.Graph) {
			g.Nodes[2].OpType, g.Nodes[2].Inputs = "Add", []string{"sum0", "bias0"}
		},
		`node 1 ("Add"): it does not follow a MatMul`: func(g *onnx.Graph) {
			n := &g.Nodes[1]
			n.Inputs = append(n.Inputs, "bias0")
		},
		`node 0 ("Relu"): it does not come directly after a layer`: func(g *onnx.Graph) {
			g.Nodes[0].OpType = "Relu"
		},
		`node 3 ("Relu"): it does not come directly after a layer`: func(g *onnx.Graph) {
			g.Nodes[3].OpType = "Relu"
		},
		`bias "bias0": shape [2 2], want [4]`: func(g *onnx.Graph) {
			g.Initializers[1].Dims = []int64{2, 2}
		},
		`bias "bias0": shape [4 1], want [4]`: func(g *onnx.Graph) {
			g.Initializers[1].Dims = []int64{4, 1}
		},
		`output "weight0" is not that of the last layer`: func(g *onnx.Graph) {
			g.Outputs = append([]onnx.Value{{Name: "weight0"}}, g.Outputs...)
		},
		`bias "bias0": shape [], want [4]`: func(g *onnx.Graph) {
			i := &g.Initializers[1]
			i.Dims, i.Raw = nil, i.Raw[:4]
		},
		`input "obs": element type 7`: func(g *onnx.Graph) { g.Inputs[0].Type = onnx.Int64 },
		`input "obs": element type 1 and shape [-1 256 1]`: func(g *onnx.Graph) {
			g.Inputs[0].Dims = append(g.Inputs[0].Dims, 1)
		},
		`output "product1" is not that of the last layer`: func(g *onnx.Graph) {
			g.Nodes = g.Nodes[:4]
			g.Outputs[0].Name = "product1"
		},
		`node 0 ("MatMul"): 2 outputs, want 1`: func(g *onnx.Graph) {
			g.Nodes[0].Outputs = append(g.Nodes[0].Outputs, "more")
		},
		`node 0 ("MatMul"): 3 inputs, want 2`: func(g *onnx.Graph) {
			g.Nodes[0].Inputs = append(g.Nodes[0].Inputs, "bias0")
		},
		`weights "weight0": shape [1024], want two dimensions`: func(g *onnx.Graph) {
			g.Initializers[0].Dims = []int64{1024}
		},
		`node 0 ("Gemm"): "weight0" is not an initializer`: func(g *onnx.Graph) {
			gemm(g, 0)
			g.Initializers[0].Name = "other"
		},
		`node 1 ("Add"): "bias0" is not an initializer`: func(g *onnx.Graph) {
			g.Initializers[1].Name = "other"
		},
		`a Relu or Tanh after the last layer, want none`: func(g *onnx.Graph) {
			g.Nodes[4].Outputs[0] = "sum1"
			g.Nodes = append(g.Nodes, onnx.Node{OpType: "Tanh", Inputs: []string{"sum1"},
				Outputs: []string{"logits"}})
		},
	} {
		refused(t, edit(t, network(t, 4), f), want)
	}
	for want, text := range map[string][2]string{
		`metadata action_scale: "wide" is not a number`:        {"action_scale", "wide"},
		`metadata observation: observation "speed": want such`: {"observation", "speed"},
	} {
		m, err := onnx.Parse(policyfile.Encode(network(t, 4)))
		if err != nil {
			t.Fatal(err)
		}
		m.Metadata[text[0]] = text[1]
		refused(t, m.Encode(8, nil), want)
	}
}

func refused(t *testing.T, data []byte, want string) {
	t.Helper()
	if _, err := policyfile.Network(data); err == nil || !strings.Contains(err.Error(), want) ||
		strings.Contains(err.Error(), "\n") {
		t.Errorf("%v, want …%s…", err, want)
	}
}

// TestForms: what other programs write, and means the same.
func TestForms(t *testing.T) {
	n := network(t, 1)
	for name, f := range map[string]func(g *onnx.Graph){
		"a bias of one row":       func(g *onnx.Graph) { g.Initializers[3].Dims = []int64{1, 2} },
		"bias before the product": func(g *onnx.Graph) { slices.Reverse(g.Nodes[1].Inputs) },
		"transA of 0": func(g *onnx.Graph) {
			gemm(g, 0)
			g.Nodes[0].Attributes = append(g.Nodes[0].Attributes, onnx.Attribute{Name: "transA"})
		},
	} {
		if read, err := policyfile.Network(edit(t, n, f)); err != nil || read.Name != n.Name {
			t.Errorf("%s: %v, %v", name, read, err)
		}
	}
	scalar := func(g *onnx.Graph) { g.Initializers[1].Dims = nil }
	if _, err := policyfile.Network(edit(t, n, scalar)); err == nil ||
		!strings.Contains(err.Error(), `bias "bias0": shape [], want [1]`) {
		t.Error(err)
	}
	fine, err := lockstep.NewNetwork(n.Layers, 0.12345678901234567)
	if err != nil {
		t.Fatal(err)
	}
	if read, err := policyfile.Network(policyfile.Encode(fine)); err != nil ||
		read.Scale != fine.Scale {
		t.Errorf("a scale of %v is read as %v, %v", fine.Scale, read, err)
	}
	// What a network sees, in lines that end as files do.
	sees, err := lockstep.ParseSees([]string{"target[0]", "v[0]/10"})
	if err != nil {
		t.Fatal(err)
	}
	two := []lockstep.Layer{{
		Inputs: 2, Outputs: 2, Weights: []float32{1, 2, 3, 4}, Bias: []float32{5, 6},
	}}
	seeing, err := lockstep.NewSeeing(sees, two, 0.25)
	if err != nil {
		t.Fatal(err)
	}
	m, err := onnx.Parse(policyfile.Encode(seeing))
	if err != nil {
		t.Fatal(err)
	}
	for key, text := range m.Metadata {
		if strings.Contains(text, "target[0]\n") {
			m.Metadata[key] = "\n" + text + "\n"
		}
	}
	if read, err := policyfile.Network(m.Encode(8, nil)); err != nil || read.Name != seeing.Name {
		t.Errorf("what it sees ends with a line's end: %v, %v", read, err)
	}
}

// TestEncoded: a network's file says that it is of IR version 8 and operator set 17, which any ONNX
// Runtime of a profile reads; a file of another program that says no scale has the default one.
func TestEncoded(t *testing.T) {
	n := network(t, 1)
	m, err := onnx.Parse(policyfile.Encode(n))
	if data := policyfile.Encode(n); err != nil || m.Opset != 17 || data[0] != 1<<3 ||
		data[1] != 8 {
		t.Errorf("operator set %d, first bytes %v, want 17 and [8 8] (%v)", m.Opset, data[:2], err)
	}
	m.Metadata = nil
	read, err := policyfile.Network(m.Encode(8, nil))
	if err != nil || read.Scale != 0.25 {
		t.Errorf("without a scale: %v, %v", read, err)
	}
}

// exported is what a controller has of a network: its file, and what it sees.
func exported(t *testing.T, n *lockstep.Network) (read *lockstep.Network, sees string) {
	t.Helper()
	source, err := policyfile.Export(n)
	if err != nil {
		t.Fatal(err)
	}
	value := func(name string) string {
		_, after, ok := strings.Cut(string(source), "\n"+name+` = "`)
		value, _, closed := strings.Cut(after, `"`)
		if !ok || !closed {
			t.Fatalf("no %s in what is exported", name)
		}
		return value
	}
	data, err := base64.StdEncoding.DecodeString(value("MODEL"))
	if err == nil {
		read, err = policyfile.Network(data)
	}
	if err != nil {
		t.Fatal(err)
	}
	return read, value("SEES")
}

// TestExportNetwork: a controller has its network whole, and the words of what it sees.
func TestExportNetwork(t *testing.T) {
	declared := policytest.Declared(1)
	var words []string
	for _, s := range declared.Sees {
		words = append(words, s.String())
	}
	for want, n := range map[string]*lockstep.Network{
		"":                       network(t, 3),
		strings.Join(words, " "): declared,
	} {
		if read, sees := exported(t, n); !reflect.DeepEqual(read, n) || sees != want {
			t.Errorf("%v is exported as %v, which sees %q, want %q", n, read, sees, want)
		}
	}
}

// TestExport: a controller has the numbers to their last digit.
func TestExport(t *testing.T) {
	const fine = 0.12345678901234567
	n, err := lockstep.NewNetwork(network(t).Layers, fine)
	if err != nil {
		t.Fatal(err)
	}
	for want, p := range map[string]lockstep.Native{
		"(0.12345678901234566, -1e-09, 3)": lockstep.PID{P: fine, I: -1e-9, D: 3},
		"(-0, 0, 1e+300)":                  lockstep.PID{P: math.Copysign(0, -1), D: 1e300},
		"SCALE = 0.12345678901234566":      n,
	} {
		if source, err := policyfile.Export(p); err != nil ||
			strings.Count(string(source), want) != 1 {
			t.Errorf("%s is not in what is exported once: %v", want, err)
		}
	}
	if _, err := policyfile.Export(lockstep.Zero{}); err == nil ||
		!strings.Contains(err.Error(), "a policy of kind zero is not exported") {
		t.Error(err)
	}
}

// TestGrid: lines of gains, and what is none.
func TestGrid(t *testing.T) {
	grid := func(text string) ([]lockstep.Policy, string, error) {
		path := filepath.Join(t.TempDir(), "grid.txt")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		policies, err := policyfile.Grid(path)
		return policies, path, err
	}
	want := []lockstep.Policy{lockstep.PID{P: 1, I: 2, D: 3}, lockstep.PID{P: 0.5, D: -1}}
	for _, end := range []string{"", "\n"} {
		got, _, err := grid("\ufeff# gains\r\n1,2,3\r\n\n  \n#\n0.5,0,-1" + end)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%v, %v, want %v, where the last line ends in %q", got, err, want, end)
		}
	}
	for text, want := range map[string]string{
		"#\n\n":    ": no gains; want P,I,D",
		"#\n1,2\n": ":2: ",
	} {
		if _, path, err := grid(text); err == nil || !strings.HasPrefix(err.Error(), path+want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	if _, err := policyfile.Grid(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a grid that is not there is read")
	}
	for name, want := range map[string]bool{
		"a.onnx": true,
		"a.json": true,
		"a":      false,
		"":       false,
		"a.txt":  false,
		"onnx":   false,
	} {
		if policyfile.IsFile(name) != want {
			t.Errorf("IsFile(%q) is %v", name, !want)
		}
	}
}

// TestLoadErrors: an error names the file and the place in it, and is one line.
func TestLoadErrors(t *testing.T) {
	for text, want := range map[string]string{
		``:          "line 1: not a policy",
		"\n\n":      "line 1: not a policy",
		"\n\n\n{\n": "line 4: not a policy: unexpected EOF",
		"{\n\"policy\": \"pid\",\n\"gains\": [1,\nx]\n}\n":  "line 4: not a policy: invalid",
		`{"policy": "pid", "gains": [null, 1]}`:             "not a policy: gains[0] is no finite",
		"{\n\"policy\": \"pid\",\n\"gains\": [1,\n x]\n}\n": "line 4: not a policy: invalid",
		"{\n\"policy\": \"pid\n\"}\n":                       "line 2: not a policy: invalid",
		"{\n\"policy\": 3,\n\"gains\": [1]\n}\n":            "line 2: not a policy: json: cannot",
		"{\n\"policy\": \"pid\",\n\"gains\": [\n\n":         "line 3: not a policy: unexpected EOF",
		`{"policy": "pid", "gains": [1, 2, "x"]}`:           "not a policy: gains[2] is no finite",
		`{"policy": "pid", "gains": [1, null, 2]}`:          "not a policy: gains[1] is no finite",
		`{"policy": "pid", "gains": [1, 1e999, 2]}`:         "not a policy: gains[1] is no finite",
		`{"policy": "table", "actions": {"b": ["1"], "a": [2, null]}}`: `not a policy: ` +
			`actions["a"][1] is no finite number`,
		`{"policy": "mpc"}`:                          `no kind of policy "mpc"`,
		`{"policy": "pid", "gains": [1, 2]}`:         "pid: 2 gains, want 3 (P,I,D)",
		`{"policy": "pid", "p": 1}`:                  `unknown field "p"`,
		`{"policy": "network"}`:                      "comes from a file (.onnx)",
		`{"policy": "table"}`:                        "a table has actions by route",
		`{"policy": "table", "actions": {"a": [1]}}`: `route "a": 1 actions, want 400`,
		`{"policy": "zero", "actions": {"a": [1]}}`: "a policy of kind zero has no " +
			"actions and no noise",
		`{"policy": "pid", "gains": [1, 2, 3], "noise": "own"}`: "a policy of kind pid has no " +
			"actions and no noise",
		`{"policy": "table", "noise": "loud", "actions": {"a": [` + strings.Repeat("0,",
			lockstep.TableSteps-1) + `0]}}`: `noise "loud": want route, seeded or expected`,
		`{"policy": "table", "gains": [1], "actions": {"a": [1]}}`: "a table has actions by " +
			"route, and no gains",
		`{"policy": "zero"} {}`: "more than one policy in a file",
	} {
		path := filepath.Join(t.TempDir(), "policy.json")
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := policyfile.Load(path); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.HasPrefix(err.Error(), path+": ") ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want …%s…", text, err, want)
		}
	}
}
