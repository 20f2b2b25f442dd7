package main

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lockstep"
	"lockstep/internal/assets"
	"lockstep/internal/defaults"
	"lockstep/policyfile"
)

// TestBadFiles gives commands files that they cannot use, and policies that are none:
// one line that says what and where, exit status 2, and nothing written.
func TestBadFiles(t *testing.T) {
	ownCache(t)
	if _, _, err := defaults.Keep(); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir("routes", 0o777); err != nil {
		t.Fatal(err)
	}
	route := filepath.Join("routes", "a.csv")
	shortRoute(t, route, 102, nil)
	for name, text := range map[string]string{
		"gains.txt":    "0.1,0.1,0.1\n\n0.1,x,0\n",
		"gains.json":   `{"policy":"pid","gains":[0.1,null,0]}`,
		"short.json":   `{"policy":"table","actions":{"a":[1,2]}}`,
		"nan.onnx":     nanNetwork(t),
		"nothing.json": `{}`,
		"policy.onnx":  "not a network",
	} {
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	rollout := []string{"rollout", "--engine", "reference", "--own"}
	tune := []string{"tune", "--engine", "reference", "--own"}
	plan := []string{"plan", "--engine", "reference", "--own"}
	export := []string{"export", "--unchecked"}
	with := func(command []string, args ...string) []string {
		return append(slices.Clone(command), args...)
	}
	before := folder(t)
	for _, test := range []struct {
		args []string
		want string
	}{
		{with(rollout, "--pid-grid", "gains.txt"), "--pid-grid gains.txt:3: "},
		{with(rollout, "--controller", "gains.json"), "gains.json: not a policy: " +
			"gains[1] is no finite number"},
		{with(rollout, "--controller", "short.json"), `short.json: route "a": 2 actions, want 400`},
		{with(rollout, "--controller", "nan.onnx"), "nan.onnx: layer 0: weight [0][0] is NaN"},
		{with(rollout, "--controller", "nothing.json"), "nothing.json"},
		{with(rollout, "--controller", "policy.onnx"), "policy.onnx"},
		{with(rollout, "--controller", "pid_0.1_nan_0"), "--controller"},
		{with(rollout, "--trace", "none/a.trace"), "--trace none/a.trace: no such file"},
		{with(rollout, "--trace", "routes"), "--trace routes: is a folder"},
		{[]string{"rollout", "--engine", "reference", "--data_path", "routes", "--trace", route},
			"is an input (--data_path), and would be lost"},
		// The project's own of the one are not those of the other.
		{[]string{"rollout", "--model_path", "none.onnx", "--data_path", "own"}, "none.onnx"},
		{[]string{"rollout", "--model_path", "own", "--data_path", "none.csv"}, "none.csv"},
		{[]string{"eval", "--data_path", "routes", "--csv", "c", "--parquet", "./c"},
			"--csv and --parquet: both would be"},
		{with(tune, "--gains", "none/g.json"), "--gains none/g.json: no such file"},
		{with(tune, "--gains", "g", "--python", "g"), "--gains and --python: both would be g"},
		{with(tune, "--population", "3"), "a population of 3"},
		{with(plan, "--from", "short.json"), "short.json"},
		{with(plan, "--noise", "loud"), "loud"},
		{with(plan, "--window", "0"), "window 0, horizon 24"},
		{with(plan, "--noise", "seeded", "--seeds", "0"), "3 rounds and 0 seeds: want 1 at least"},
		{with(plan, "--table", "none/p.json"), "--table none/p.json: no such file"},
		{with(plan, "--from", "gains.json", "--table", "gains.json"), "--table: gains.json is " +
			"an input (--from), and would be lost"},
		{with(export, "policy.onnx", "--out", "p.py"), "policy.onnx"},
		{with(export, "pid_1_2", "--out", "p.py"), "pid_1_2"},
		{with(export, "nan.onnx", "--out", "p.py"), "nan.onnx: layer 0: weight [0][0] is NaN"},
		{with(export, "gains.json", "--out", "p.py"), "gains.json"},
		{with(export, "pid", "--out", "none/p.py"), "--out none/p.py: no such file"},
	} {
		status, stdout, stderr := lockstepRun(t.Context(), test.args...)
		if status != exitUsage || stdout != "" || strings.Count(stderr, "\n") != 1 ||
			!strings.HasPrefix(stderr, "lockstep: ") ||
			!strings.Contains(stderr, test.want) {
			t.Errorf(
				"%v: exit %d, %q, %q; want 2 and one line with %q", test.args, status, stdout,
				stderr, test.want,
			)
		}
		if after := folder(t); !slices.Equal(after, before) {
			t.Fatalf("%v: the folder holds %v, and held %v", test.args, after, before)
		}
	}
}

// TestAssetsAreInputs: the network and the routes that a command takes where none are named are its
// inputs, which no output of it takes the place of.
func TestAssetsAreInputs(t *testing.T) {
	ownCache(t)
	model, _, err := defaults.Keep()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(model)
	if err != nil {
		t.Fatal(err)
	}
	route := mkdir(t, filepath.Join("assets", assets.Routes, "a.csv"))
	shortRoute(t, route, 102, nil)
	capital := filepath.Join(filepath.Dir(route), "B.CSV")
	shortRoute(t, capital, 102, nil)
	network := filepath.Join("assets", assets.Model)
	if err := os.WriteFile(network, text, 0o666); err != nil {
		t.Fatal(err)
	}
	t.Setenv("LOCKSTEP_ASSETS", "assets")
	for _, args := range []string{
		"eval --csv " + route, "eval --csv " + capital, "eval --report " + network,
		"rollout --trace " + route,
		"tune --gains " + route, "tune --python " + network, "plan --table " + route,
		"export pid --out " + network, "verify c.py --out " + route,
	} {
		status, _, stderr := lockstepRun(t.Context(), strings.Fields(args)...)
		words := strings.Fields(args)
		if want := words[len(words)-1] + " is an input"; status != exitUsage ||
			!strings.Contains(stderr, want) || !strings.Contains(stderr, "would be lost") {
			t.Errorf("%s: exit %d, %s; want %s", args, status, stderr, want)
		}
	}
}

// nanNetwork is the file of a network with a weight that is NaN.
func nanNetwork(t *testing.T) string {
	t.Helper()
	l := lockstep.Layer{
		Inputs:  lockstep.ObservationSize,
		Outputs: lockstep.ActorSize,
		Bias:    make([]float32, lockstep.ActorSize),
	}
	l.Weights = make([]float32, l.Inputs*l.Outputs)
	n, err := lockstep.NewNetwork([]lockstep.Layer{l}, lockstep.DefaultScale)
	if err != nil {
		t.Fatal(err)
	}
	l.Weights[0] = float32(math.NaN())
	n.Layers = []lockstep.Layer{l}
	return string(policyfile.Encode(n))
}

// folder are the files under the working folder.
func folder(t *testing.T) (files []string) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, _ os.DirEntry, err error) error {
		files = append(files, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestSamePath: a file, or a folder, is the same by each of its names, and so is one that does not
// exist; a device is no file. A file that is there is a route of its folder if it has a route's
// ending.
func TestSamePath(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Mkdir("folder", 0o777))
	for _, name := range []string{"a", "b", "folder/a"} {
		must(os.WriteFile(name, nil, 0o666))
	}
	must(os.Link("a", "hard"))
	must(os.Symlink("a", "soft"))
	must(os.Symlink("folder", "way"))
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"a", "a", true}, {"a", "./folder/../a", true}, {"a", filepath.Join(dir, "a"), true},
		{"a", "hard", true}, {"a", "soft", true}, {"hard", "soft", true},
		{"folder", "way", true}, {"folder/a", "way/a", true},
		{"none", "none", true}, {"none", filepath.Join(dir, "none"), true},
		{"a", "b", false}, {"a", "folder/a", false}, {"a", "none", false}, {"none", "a", false},
		{"none", "nothing", false}, {"folder", "a", false},
		{os.DevNull, os.DevNull, false}, {"a", "nothing/../a", false},
	} {
		if got := samePath(c.a, c.b); got != c.same {
			t.Errorf("%s and %s are one: %t, want %t", c.a, c.b, got, c.same)
		}
	}
	for _, name := range []string{"folder/a.csv", "folder/B.CSV", "a.csv"} {
		must(os.WriteFile(name, nil, 0o666))
	}
	for name, want := range map[string]bool{
		"folder/a.csv": true, "folder/B.CSV": true, "way/a.csv": true, "folder/a": false,
		"folder/new.csv": false, "folder/new": false, "a.csv": false,
	} {
		if got := inFolder(name, "folder"); got != want {
			t.Errorf("%s is a route of the folder: %t, want %t", name, got, want)
		}
	}
}
