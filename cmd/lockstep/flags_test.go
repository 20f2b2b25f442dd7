package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"lockstep/internal/simtest"
	"lockstep/internal/want"
)

// A heeded flag: with more words a command says what it does not say without them. With says "*"
// it says anything else, or ends otherwise; with a file it leaves one, or one of more than twice
// the size where the words before leave one without the flag. Or a test gives the flag and shows
// what it does, or no result can.
type heeded struct {
	more, says, file, test, why string
	words, before               string // other words of the command, and some beside them
	planted                     string // the engines that there are: see testEngines
}

// cached is what a line says of a flag with which no route goes to the cache.
const cached = "no route is in the cache"

// everywhere are lines of flags that many commands have, unless the command has its own. What a
// command refuses of a flag shows that it has read it, and passed it on to what refuses it.
var everywhere = map[string]heeded{
	"model_path":  {more: "--model_path none.onnx", says: "none.onnx"},
	"data_path":   {more: "--data_path none.csv", says: "none.csv"},
	"own":         {more: "--own --model_path x.onnx", says: "--own is the project's network"},
	"num_segs":    {more: "--num_segs 0", says: "--num_segs 0: want 1 or more"},
	"workers":     {why: "the same bits on any number of cores: TestOptions of engines"},
	"profile":     {more: "--profile none", says: `profile "none"`},
	"seed_prefix": {more: "--seed_prefix other", says: "*"},
	"no-cache":    {more: "--no-cache", says: cached},
	"engine":      {more: "--engine gpu --kernels go", says: "engine"},
	"kernels":     {more: "--kernels none", says: "--kernels: "},
	"timeout":     {more: "C --timeout 0s", says: "--timeout 0s: want more than 0s"},
	"memory":      {more: "C --memory=-1", says: "--memory -1: want 0 or more"},
	"sandbox":     {why: "TestSandbox of pycontroller: it takes a Python with NumPy"},
	"pid":         {more: "--pid 1,2", says: "--pid "},
	"pid-grid": {more: "--pid-grid none.txt",
		says: "--pid-grid open none.txt"},
	"controller": {more: "--controller mpc", says: `--controller "mpc": want one of`},
	"report":     {more: "--report r.html", file: "r.html"},
	"json":       {more: "--json", says: `{"`},
}

// environmentFlags are those of classic control, where --env is given.
var environmentFlags = map[string]heeded{
	"env":       {more: "--env CartPole-v1", says: "CartPole-v1"},
	"num-envs":  {more: "--num-envs=-1", says: "-1"},
	"steps":     {more: "--steps 31", says: "*"},
	"policy":    {more: "--policy none.npz", says: "none.npz"},
	"env-seed":  {more: "--env-seed 7", says: "*"},
	"option":    {more: "--option none=1", says: "none"},
	"autoreset": {more: "--autoreset none", says: "none"},
	"numpy1":    {more: "--numpy1", says: "*"},
}

// commandFlags are the words of each command, and its own flags. C is its flag of a controller, if
// that is no argument.
var commandFlags = map[string]struct {
	words, c string
	flags    map[string]heeded
}{
	"rollout": {"--data_path R", "controller", map[string]heeded{
		"trace":        {more: "--trace t.trace", file: "t.trace"},
		"trace-values": {before: "--trace v.trace", more: "--trace-values", file: "v.trace"},
		"stats":        {more: "--stats", says: "set-up"},
		"debug": {words: "rollout --data_path R/a.csv", more: "--debug",
			says: "Target lataccel"},
		"no-cache": {why: "each run of these tests has it: TestCache"},
		"out":      {more: "--out kept", file: "kept/plan.json"},
	}},
	"eval": {"--data_path R --report e.html", "test_controller", map[string]heeded{
		"test_controller":     {more: "--test_controller zero", says: "test      zero"},
		"baseline_controller": {more: "--baseline_controller zero", says: "baseline  zero"},
		"csv":                 {more: "--csv e.csv", file: "e.csv"},
		"parquet":             {more: "--parquet e.parquet", file: "e.parquet"},
		"out":                 {more: "--out evaluated", file: "evaluated/plan.json"},
	}},
	"compare": {"reference batched --data_path R", "controller", map[string]heeded{
		"seed_prefix": {more: "--seed_prefix other", says: "*"},
		"inexact": {words: "compare --data_path L", planted: "logits", more: "--inexact",
			says: "are explained"},
		"budget": {more: "--budget 3", says: "--budget 3: want 0"},
		"only":   {more: "--only none", says: "no rollout has such a name"},
		"keep":   {test: "TestCompareKeep"},
		"numpy1": {why: "both sides have the rule, from where rollout takes it"},
		"allow-absent": {words: "compare --data_path R/a.csv", planted: "absent,equal",
			more: "--allow-absent", says: "not run"},
	}},
	"replay": {"../../CASE --engines reference", "", map[string]heeded{
		"engines": {more: "--engines batched", says: "batched"},
		"allow-absent": {words: "replay absent.json ../../CASE --engines reference",
			more: "--allow-absent", says: "*"},
	}},
	"tune": {"--data_path R --kind pid --population 8 --generations 1 --gains g.json", "",
		map[string]heeded{
			"kind":        {more: "--kind pidff", says: "pidff"},
			"population":  {more: "--population 7", says: "a population of 7"},
			"generations": {more: "--generations 2", says: "generation  2"},
			"budget":      {more: "--budget 1ns", says: "--budget 1ns"},
			"seed":        {more: "--seed 2", says: "*"},
			"out":         {more: "--out tuned", file: "tuned/plan.json"},
			"gains":       {more: "--gains h.json", file: "h.json"},
			"python":      {more: "--python h.py", file: "h.py"},
		}},
	"plan": {"--data_path R --noise expected --rounds 1 --table a.json", "from",
		map[string]heeded{
			"from":    {more: "--from zero", says: "from zero to"},
			"noise":   {more: "--noise own", says: "own noise"},
			"rounds":  {more: "--rounds 2", says: "*"},
			"window":  {more: "--noise route --window 0", says: "window"},
			"horizon": {more: "--noise route --horizon 0", says: "horizon"},
			"seeds":   {more: "--noise seeded --seeds 0", says: "seeds"},
			"seed":    {before: "--noise seeded --seeds 2", more: "--seed 2", says: "*"},
			"out":     {more: "--out planned", file: "planned/plan.json"},
			"table":   {more: "--table b.json", file: "b.json"},
		}},
	"export": {"pid --out x.py", "", map[string]heeded{
		"seed_prefix": {why: "a controller is checked on any draws"},
		"no-cache":    {why: "a controller is checked on the same routes"},
		"num_segs":    {more: "--num_segs 0", says: "--num_segs 0: want 1"},
		"timeout":     {more: "--timeout 0s", says: "--timeout 0s: want more than 0s"},
		"memory":      {more: "--memory=-1", says: "--memory -1: want 0 or more"},
		"out":         {more: "--unchecked --out y.py", file: "y.py"},
		"unchecked":   {more: "--unchecked", says: "not checked"},
	}},
	"shard plan": {"--data_path R --out S --shards 1", "controller", map[string]heeded{
		"out":         {more: "--out S2", file: "S2/plan.json"},
		"engine":      {more: "--engine reference --out S3", says: "*"},
		"seed_prefix": {more: "--seed_prefix other --out S4", says: "*"},
		"num_segs":    {more: "--num_segs 0", says: "a plan of no rollouts"},
		"kernels":     {more: "--kernels go", says: "a plan has none to choose"},
		"shards":      {more: "--shards 0", says: "0 shards"},
		"no-cache":    {why: "nothing of a plan goes to the cache"},
	}},
	"shard run": {"--out S --index 0", "", map[string]heeded{
		"out":   {more: "--out none", says: "none"},
		"index": {more: "--index 7", says: "shard 7: the plan has 1"},
	}},
	"shard merge": {"--out M", "", map[string]heeded{
		"out": {more: "--out none", says: "none"},
	}},
	"bench": {"--data_path R/a.csv --jobs 1", "", map[string]heeded{
		"jobs":        {more: "--jobs 0", says: "--jobs 0"},
		"repetitions": {more: "--repetitions 0", says: "--repetitions 0"},
		"upstream":    {more: "--upstream none", says: "none is no checkout"},
		"python":      {test: "TestBenchEnv"},
		"kernels":     {more: "--kernels none", says: `"none"`},
		"json":        {test: "TestBenchOwn"},
	}},
	"demo": {"", "", map[string]heeded{"report": {test: "TestStandardOutput"}}},
	"generate": {"--num_routes 1 --out G", "", map[string]heeded{
		"num_routes": {more: "--num_routes 2 --out G2", file: "G2/g00001.csv"},
		"seed":       {more: "--seed 2 --out G3", says: "of seed 2"},
		"out":        {more: "--out G4", file: "G4"},
	}},
	"fetch": {"model", "", map[string]heeded{
		"revision": {why: "it wants the network: tests of internal/fetch"},
		"out":      {more: "--out c.py", says: "c.py: not a directory"},
	}},
	"version": {"", "", nil},
	"watch":   {"S", "", map[string]heeded{"once": {test: "TestKeep"}}},
	"doctor":  {"", "", map[string]heeded{"fingerprint": {test: "TestFingerprint"}}},
	"verify": {"c.py --data_path R", "", map[string]heeded{
		"seed_prefix": {why: "a score has the seeds of its routes: TestVerifyCheckOfOtherFlags"},
		"no-cache":    {why: "a score is of the same routes, from a cache or not"},
		"out":         {test: "TestVerify"},
		"check":       {more: "--check none.json", says: "none.json"},
	}},
}

// times are what another run of the same words may say otherwise.
var times = regexp.MustCompile(
	`[0-9][0-9.e+-]* ?(s|ms|steps/s|rollouts/s)\b|"seconds":[0-9.e-]+|export-[0-9]+`)

// flagFiles makes a folder with what commands of these tests are given the present one. It returns
// a case.
func flagFiles(t *testing.T) string {
	t.Helper()
	kase, err := filepath.Abs("../../parity/testdata/regressions/costs-route-of-101-rows.json")
	if err != nil {
		t.Fatal(err)
	}
	ownCache(t)
	if err := os.WriteFile("c.py", []byte("class Controller: pass\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	for name, rows := range map[string]int{"R/a.csv": 105, "R/b.csv": 105, "L/c.csv": 130} {
		shortRoute(t, mkdir(t, name), rows, nil)
	}
	text, err := os.ReadFile(kase)
	if err != nil {
		t.Fatal(err)
	}
	text = regexp.MustCompile(`("model_sha256": ")....`).ReplaceAll(text, []byte("${1}0000"))
	if err := os.WriteFile("absent.json", text, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, words := range []string{
		"plan --data_path R --out S --shards 1", "plan --data_path R --out M --shards 1",
		"run --out M --index 0",
	} {
		if status, said := say(t, "shard "+words); status != exitOK {
			t.Fatal(words, said)
		}
	}
	return kase
}

// TestFlags: each flag of these commands is heeded: a line says with which words a command says
// what it does not say without, or what else shows it. A flag that is new has no line, and fails,
// and so does a command.
func TestFlags(t *testing.T) {
	f := &flagged{sources(t), map[string]string{}}
	kase := flagFiles(t)
	var helped bool
	parser, err := newParser(&environment{}, &helped)
	if err != nil {
		t.Fatal(err)
	}
	others := strings.Fields("envs mutants gate") // of which the last two are the project's own
	for _, leaf := range parser.Model.Leaves(false) {
		name := strings.TrimPrefix(leaf.Path(), "lockstep ")
		name, _, _ = strings.Cut(name, " <")
		name, _, _ = strings.Cut(name, " [")
		c, ok := commandFlags[name]
		if !ok {
			if !slices.Contains(others, name) {
				t.Errorf("%s: this test does not know the command", name)
			}
			continue
		}
		lines := maps.Clone(everywhere)
		maps.Copy(lines, c.flags)
		words := name + " " + strings.ReplaceAll(c.words, "../../CASE", kase)
		for _, flag := range leaf.Flags {
			line := lines[flag.Name]
			t.Run(name+" --"+flag.Name, func(t *testing.T) {
				words := words
				if family := flag.Tag.Get("family"); family == "classic" {
					line = environmentFlags[flag.Name]
					if own, has := c.flags[flag.Name]; has {
						line = own
					} else if name == "bench" {
						line = heeded{test: "TestBenchEnv"}
					}
					words = name + " --env Pendulum-v1 --num-envs 2 --steps 30"
				}
				if rest, python := strings.CutPrefix(line.more, "C "); python && c.c != "" {
					line.more = "--" + c.c + " c.py " + rest
				} else if python { // it is an argument
					line.more = rest
				}
				if line.words != "" {
					words = strings.ReplaceAll(line.words, "../../CASE", kase)
				}
				if line.planted != "" {
					plant(t, line.planted)
				}
				f.check(t, line, strings.TrimSpace(words+" "+line.before), flag)
			})
		}
	}
}

// refusesOthers: of a command's flags, with these words, each is refused that is none of those
// that are heeded. It is refused for the flag, and not for what it has.
func refusesOthers(t *testing.T, command, words, heeded string) {
	t.Helper()
	values := map[string]string{
		"num_segs": "1", "workers": "1", "budget": "1", "memory": "1", "timeout": "1s",
		"limit": "1s", "engine": "reference", "kernels": "go", "require": "gpu", "profile": "pins",
		"num-envs": "1", "steps": "1", "env-seed": "1", "option": "a=b", "pid": "1,2,3",
	}
	for _, flag := range leafFlags(t, command) {
		if slices.Contains(strings.Fields(heeded), flag.Name) {
			continue
		}
		more := "--" + flag.Name
		if !flag.IsBool() {
			more += "=" + cmp.Or(values[flag.Name], "x")
		}
		args := strings.Fields(command + " " + words + " " + more)
		status, _, said := lockstepRun(t.Context(), args...)
		if status != exitUsage || !strings.Contains(said, "--"+flag.Name) ||
			!strings.Contains(said, "does not go with") && !strings.Contains(said, "goes with") {
			t.Errorf("%s %s %s: exit %d, %s", command, words, more, status, said)
		}
	}
}

// TestUnheeded: what would be passed over beside another flag, or beside what says itself what it
// is of, is refused: all but a few flags.
func TestUnheeded(t *testing.T) {
	refusesOthers(t, "verify", "--check none", "check out model_path data_path own workers "+
		"no-cache engine kernels timeout sandbox memory")
	refusesOthers(t, "export", "pid --out none/x.py --unchecked", "out unchecked")
	refusesOthers(t, "gate", "--packages", "packages base")
	refusesOthers(t, "mutants", "--json", "json only engines out report")
	refusesOthers(t, "compare", goldenDefault, "model_path data_path workers inexact budget only "+
		"report json allow-absent env")
}

// TestRequired: what a gate requires is named once, however often it is asked for.
func TestRequired(t *testing.T) {
	for _, w := range want.All {
		t.Setenv(w.Variable(), "")
	}
	t.Setenv(want.Python.Variable(), "1")
	c := gateCommand{Require: []string{"gpu", want.Python.Name, "assets", "gpu"}}
	all := []string{"assets", "gpu", want.Python.Name}
	if got := c.required(); !slices.Equal(got, all) {
		t.Errorf("%q are required, want %q", got, all)
	}
}

// anotherRun are flags with values of which a folder of another run is refused, whatever command
// keeps it; sameRun are those that are not of a run's identity, and why.
var anotherRun = map[string]string{
	"data_path": "L", "num_segs": "1", "seed_prefix": "other", "kernels": "go",
	"profile": "ort1.30-avx2-expU-sinfma-csvexact", "engine": "batched", "controller": "zero",
	"pid": "1,0,0", "pid-grid": "grid.txt", "test_controller": "zero",
	"baseline_controller": "zero", "kind": "pidff", "population": "9", "generations": "2",
	"seed": "2", "from": "zero", "noise": "own", "rounds": "2", "window": "1", "horizon": "3",
	"seeds": "3", "shards": "2",
}

var sameRun = map[string]string{
	"model_path": "there is one network here, of which a plan has the hash: TestInputs of runs",
	"own":        "it is the network and the routes that are here",
	"workers":    "the same bits", "no-cache": "the same routes",
	"timeout": "the same answers of a controller, or no result that is kept",
	"memory":  "likewise", "sandbox": "likewise",
	"budget": "when a search pauses",
	"out":    "the folder itself", "table": "a file", "gains": "a file", "python": "a file",
	"report": "a file", "csv": "a file", "parquet": "a file", "trace": "not with --out",
	"trace-values": "not with --out", "debug": "not with --out", "json": "what is printed",
	"stats": "what is printed",
}

// TestKeptFlags: each flag of what a kept run computes is of its identity, from the command to the
// folder: with another value the folder is refused. A flag that is new is in neither list, and
// fails.
func TestKeptFlags(t *testing.T) {
	flagFiles(t)
	if err := os.WriteFile("grid.txt", []byte("1,0,0\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	for name, words := range keepers {
		words += " --out " + keptIn(name)
		if status, said := say(t, words); status != exitOK {
			t.Fatal(words, said)
		}
		for _, flag := range leafFlags(t, name) {
			value, another := anotherRun[flag.Name]
			switch {
			case flag.Tag.Get("family") == "classic": // TestRolloutEnvFlags
			case another == (sameRun[flag.Name] != ""):
				t.Errorf("%s --%s: this test does not know if it is of a run", name, flag.Name)
			case another && !(name == "shard plan" && flag.Name == "kernels"): // has none to choose
				status, said := say(t, words+" --"+flag.Name+" "+value)
				if status != exitUsage || !strings.Contains(said, "is of another run: ") {
					t.Errorf("%s --%s %s goes on in its folder: %s", words, flag.Name, value, said)
				}
			}
		}
	}
}

// keepers are commands that keep a run in a folder.
var keepers = map[string]string{
	"rollout": "rollout --data_path R",
	"eval":    "eval --data_path R --engine reference",
	"tune":    "tune --data_path R --engine reference --kind pid --population 8 --generations 1",
	"plan": "plan --data_path R --engine reference --noise route,seeded --rounds 1 --window 2 " +
		"--horizon 2 --seeds 1",
	"shard plan": "shard plan --data_path R --engine reference --shards 1",
}

func keptIn(name string) string { return "kept-" + strings.ReplaceAll(name, " ", "-") }

// TestFoldersApart: the folder of each command's run is refused by every other command that keeps
// one, of whatever family, and nothing in it is changed.
func TestFoldersApart(t *testing.T) {
	flagFiles(t)
	all := maps.Clone(keepers)
	all["rollout --env"] = "rollout --env CartPole-v1 --steps 5"
	for name, words := range all {
		if status, said := say(t, words+" --out "+keptIn(name)); status != exitOK {
			t.Fatal(words, said)
		}
	}
	for whose := range all {
		before := simtest.OnDisk(t, keptIn(whose))
		for name, words := range all {
			if name == whose {
				continue
			}
			status, said := say(t, words+" --out "+keptIn(whose))
			if status != exitUsage || !strings.Contains(said, " is of another run") {
				t.Errorf("%s goes on in the folder of %s: exit %d, %s", name, whose, status, said)
			}
			if after := simtest.OnDisk(t, keptIn(whose)); !maps.Equal(before, after) {
				t.Errorf("%s is refused, and the folder of %s holds\n%q, held\n%q", name, whose,
					after, before)
			}
		}
	}
}

// leafFlags are those of a command.
func leafFlags(t *testing.T, name string) []*kong.Flag {
	t.Helper()
	var helped bool
	parser, err := newParser(&environment{}, &helped)
	if err != nil {
		t.Fatal(err)
	}
	for _, leaf := range parser.Model.Leaves(false) {
		if strings.HasPrefix(strings.TrimPrefix(leaf.Path(), "lockstep ")+" ", name+" ") {
			return leaf.Flags
		}
	}
	t.Fatalf("no command %s", name)
	return nil
}

// flagged is what is known of commands: their tests, and what they say without a flag.
type flagged struct {
	tests   string
	without map[string]string
}

// check holds a flag to its line.
func (f *flagged) check(t *testing.T, h heeded, words string, flag *kong.Flag) {
	t.Helper()
	switch {
	case h == heeded{}:
		t.Error("this test has no line of it")
	case h.why != "":
	case h.test != "":
		_, body, _ := strings.Cut(f.tests, "func "+h.test+"(")
		body, _, _ = strings.Cut(body, "\nfunc ")
		all := h.test == "TestStandardOutput" && flag.Tag.Get("io") == "out" // which gives these
		if body == "" || !all && !strings.Contains(body, "--"+flag.Name) {
			t.Errorf("there is no %s, or it does not give the flag", h.test)
		}
	case h.file != "":
		h.leaves(t, words)
	case h.says == cached:
		h.caches(t, words)
	default:
		status, said := say(t, words+" "+h.more)
		if h.says != "*" && !strings.Contains(said, h.says) {
			t.Errorf("%s %s: exit %d, %s; want %s", words, h.more, status, said, h.says)
		}
		if status == exitUsage && h.says != "*" {
			return
		}
		said, without := times.ReplaceAllString(said, ""), f.said(t, h.planted, words)
		if said == without || strings.Contains(without, h.says) {
			t.Errorf("%s: without %s it says the same: %s", words, h.more, without)
		}
	}
}

// said is what a command says without a flag, but for times: twice the same.
func (f *flagged) said(t *testing.T, planted, words string) string {
	t.Helper()
	key := planted + " " + words
	if f.without[key] == "" {
		_, first := say(t, words)
		_, again := say(t, words)
		f.without[key] = times.ReplaceAllString(first, "")
		if times.ReplaceAllString(again, "") != f.without[key] {
			t.Errorf("%s: twice it says\n%s\nand\n%s", words, first, again)
		}
	}
	return f.without[key]
}

// leaves holds a command to leave a file, or a larger one than without the flag.
func (h heeded) leaves(t *testing.T, words string) {
	t.Helper()
	var before []byte
	os.RemoveAll(h.file)
	if h.before != "" {
		say(t, words)
		before, _ = os.ReadFile(h.file)
	}
	_, said := say(t, words+" "+h.more)
	_, err := os.Stat(h.file)
	after, _ := os.ReadFile(h.file)
	if err != nil || h.before != "" && len(after) < 2*len(before) {
		t.Errorf("%s %s: %v, %s", words, h.more, err, said)
	}
}

// caches holds a command to put routes into the cache without the flag alone.
func (h heeded) caches(t *testing.T, words string) {
	t.Helper()
	dir := filepath.Join(os.Getenv("XDG_CACHE_HOME"), "lockstep", "routes")
	for more, want := range map[string]bool{h.more: false, "": true} {
		os.RemoveAll(dir)
		_, said := say(t, words+" "+more)
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s %s: routes are in the cache: %v; %s", words, more, err == nil, said)
		}
	}
}

// say runs a command line, and returns what it says.
func say(t *testing.T, words string) (status int, said string) {
	t.Helper()
	status, stdout, stderr := lockstepRun(t.Context(), strings.Fields(words)...)
	return status, fmt.Sprint(stdout, stderr, "exit status ", status)
}

// sources are this package's tests.
func sources(t *testing.T) (text string) {
	t.Helper()
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text += string(b)
	}
	return text
}

// TestPythonFlags: what a Python controller may take is what each command that has one was told, in
// megabytes; a shard is told by its plan, of how long it may take, too.
func TestPythonFlags(t *testing.T) {
	want.Python.Need(t)
	flagFiles(t)
	const armed = "import os, resource, time\n" +
		"if os.path.exists(os.path.join(os.path.dirname(__file__), 'armed')):\n    "
	class := "\n\nclass Controller:\n    def update(self, *_):\n        return 0.0\n"
	for file, text := range map[string]string{
		"c.py": "raise ValueError(f'{resource.getrlimit(resource.RLIMIT_DATA)}')",
		"d.py": "time.sleep(60)",
	} {
		if err := os.WriteFile(file, []byte(armed+text+class), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range commandFlags {
		flags := leafFlags(t, name)
		if !slices.ContainsFunc(flags, func(f *kong.Flag) bool { return f.Name == "memory" }) {
			continue
		}
		for flag, says := range map[string]string{
			"c.py --memory 1500": "(1572864000, ", "d.py --timeout 35s": "no answer within 35ms",
		} {
			if flag[0] == 'd' && name != "shard plan" { // TestFlags has the others
				continue
			}
			words := name + " " + c.words
			switch {
			case c.c != "":
				words += " --" + c.c + " " + flag
			case name == "export":
				words = name + " " + flag + " --out x.py"
			default: // it is an argument
				words = name + " " + flag + strings.TrimPrefix(c.words, "c.py")
			}
			if name == "shard plan" {
				words += " --out S-" + flag[:1]
				if status, said := say(t, words); status != exitOK {
					t.Errorf("%s: %s", words, said)
				}
				words = "shard run --index 0 --out S-" + flag[:1]
				inputs := filepath.Join("S-"+flag[:1], "inputs.json")
				text, err := os.ReadFile(inputs)
				if flag[0] == 'd' { // which need not be waited for
					told := strings.Replace(string(text), `"timeout": 35000000000`,
						`"timeout": 35000000`, 1)
					err = errors.Join(err, os.WriteFile(inputs, []byte(told), 0o666))
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if err := os.WriteFile("armed", nil, 0o666); err != nil {
				t.Fatal(err)
			}
			if status, said := say(t, words); status == exitOK || !strings.Contains(said, says) {
				t.Errorf("%s: exit %d, want %q in\n%s", words, status, says, said)
			}
			if err := os.Remove("armed"); err != nil {
				t.Fatal(err)
			}
		}
	}
}
