package main

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// A heeded flag: with more words a command says what it does not say without them. With says "*"
// it says anything else, with a file it leaves one. Or a test shows it, or no result can.
type heeded struct {
	more, says, file, test, why string
}

// checked is why no line shows what an export is checked on: the controller is the same.
const checked = "a controller is checked with it, and none is written that is not equal"

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
	"no-cache":    {why: "the same routes, from a cache or not: tests of routecache"},
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
		"trace-values": {test: "TestCompareTraces"},
		"stats":        {more: "--stats", says: "set-up"},
		"debug":        {test: "TestRolloutText"},
		"out":          {more: "--out kept", file: "kept/plan.json"},
	}},
	"eval": {"--data_path R --report e.html", "test_controller", map[string]heeded{
		"test_controller":     {more: "--test_controller zero", says: "test      zero"},
		"baseline_controller": {more: "--baseline_controller zero", says: "baseline  zero"},
		"csv":                 {more: "--csv e.csv", file: "e.csv"},
		"parquet":             {more: "--parquet e.parquet", file: "e.parquet"},
		"out":                 {more: "--out evaluated", file: "evaluated/plan.json"},
	}},
	"compare": {"reference batched --data_path R", "controller", map[string]heeded{
		"seed_prefix":  {more: "--seed_prefix other", says: "*"},
		"inexact":      {more: "--inexact --keep k", says: "--keep keeps what engines do"},
		"budget":       {more: "--budget 3", says: "--budget 3: want 0"},
		"only":         {more: "--only none", says: "no rollout has such a name"},
		"keep":         {test: "TestCompareKeep"},
		"numpy1":       {why: "both sides have the rule, from where rollout takes it"},
		"allow-absent": {test: "TestCompareStatus"},
	}},
	"replay": {"../../CASE --engines reference", "", map[string]heeded{
		"model_path":   {test: "TestCompareReplay"},
		"engines":      {test: "TestCompareReplay"},
		"report":       {test: "TestCompareReplay"},
		"json":         {test: "TestCompareJSON"},
		"allow-absent": {test: "TestCompareReplay"},
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
			"seed":    {more: "--noise expected --seed 2", says: "*"},
			"out":     {more: "--out planned", file: "planned/plan.json"},
			"table":   {more: "--table b.json", file: "b.json"},
		}},
	"export": {"c.py --out x.py", "", map[string]heeded{
		"model_path":  {why: checked},
		"data_path":   {why: checked},
		"own":         {why: checked},
		"num_segs":    {why: checked},
		"profile":     {why: checked},
		"seed_prefix": {why: checked},
		"engine":      {why: checked},
		"kernels":     {why: checked},
		"out":         {test: "TestStandardOutput"},
		"unchecked":   {test: "TestStandardOutput"},
	}},
	"shard plan": {"--data_path R --out S --shards 1", "controller", map[string]heeded{
		"out":         {more: "--out S2", file: "S2/plan.json"},
		"engine":      {more: "--engine reference --out S3", says: "*"},
		"seed_prefix": {more: "--seed_prefix other --out S4", says: "*"},
		"num_segs":    {more: "--num_segs 0", says: "a plan of no rollouts"},
		"kernels":     {more: "--kernels go", says: "a plan has none to choose"},
		"shards":      {more: "--shards 0", says: "0 shards"},
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
}

// times are what another run of the same words may say otherwise.
var times = regexp.MustCompile(`[0-9][0-9.e+-]* ?(s|ms|steps/s|rollouts/s)\b|"seconds":[0-9.e-]+`)

// TestFlags: each flag of these commands is heeded: a line says with which words a command says
// what it does not say without, or what else shows it. A flag that is new has no line, and fails,
// and so does a command.
func TestFlags(t *testing.T) {
	kase, err := filepath.Abs("../../parity/testdata/regressions/costs-route-of-101-rows.json")
	if err != nil {
		t.Fatal(err)
	}
	tests := sources(t)
	ownCache(t)
	if err := os.WriteFile("c.py", []byte("class Controller: pass\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"R/a.csv", "R/b.csv"} {
		shortRoute(t, mkdir(t, name), 105, nil)
	}
	for _, words := range []string{
		"plan --data_path R --out S --shards 1", "plan --data_path R --out M --shards 1",
		"run --out M --index 0",
	} {
		if status, said := say(t, "shard "+words); status != exitOK {
			t.Fatal(words, said)
		}
	}
	var helped bool
	parser, err := newParser(&environment{}, &helped)
	if err != nil {
		t.Fatal(err)
	}
	others := strings.Fields("demo envs mutants gate verify watch generate fetch doctor version")
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
			line, ok := lines[flag.Name]
			t.Run(name+" --"+flag.Name, func(t *testing.T) {
				words := words
				if family := flag.Tag.Get("family"); family == "classic" {
					line, ok = environmentFlags[flag.Name]
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
				line.check(t, ok, words, flag, tests)
			})
		}
	}
}

// check holds a flag to its line.
func (h heeded) check(t *testing.T, ok bool, words string, flag *kong.Flag, tests string) {
	t.Helper()
	switch {
	case !ok:
		t.Error("this test has no line of it")
	case h.why != "":
	case h.test != "":
		if !strings.Contains(tests, "func "+h.test+"(") {
			t.Errorf("there is no %s", h.test)
		}
	case h.file != "":
		say(t, words+" "+h.more)
		if _, err := os.Stat(h.file); err != nil {
			t.Errorf("%s %s: %v", words, h.more, err)
		}
	default:
		status, said := say(t, words+" "+h.more)
		if h.says != "*" && !strings.Contains(said, h.says) {
			t.Errorf("%s %s: exit %d, %s; want %s", words, h.more, status, said, h.says)
		}
		if status == exitUsage && h.says != "*" {
			return
		}
		_, without := say(t, words)
		if h.says == "*" {
			_, again := say(t, words)
			said, without = times.ReplaceAllString(said, ""), times.ReplaceAllString(without, "")
			if times.ReplaceAllString(again, "") != without {
				t.Errorf("%s: twice it says\n%s\nand\n%s", words, without, again)
			}
		}
		if said == without || strings.Contains(without, h.says) {
			t.Errorf("%s: without %s it says the same: %s", words, h.more, without)
		}
	}
}

// say runs a command line, and returns what it says.
func say(t *testing.T, words string) (status int, said string) {
	t.Helper()
	status, stdout, stderr := lockstepRun(t.Context(), strings.Fields(words)...)
	return status, stdout + stderr
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
