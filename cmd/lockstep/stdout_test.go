package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"lockstep/internal/assets"
	"lockstep/internal/defaults"
	"lockstep/internal/generate"
	"lockstep/parity"
	"lockstep/parity/mutants"
	"lockstep/parity/verdict"
)

// full is a writer without room.
type full struct{ room int }

func (f *full) Write(p []byte) (int, error) {
	if f.room -= len(p); f.room < 0 {
		return 0, errors.New("no space left on device")
	}
	return len(p), nil
}

// leaves are the commands there are, by their words.
func leaves(t *testing.T) (all []string) {
	parser, err := newParser(&environment{stdout: &stickyWriter{}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var walk func(node *kong.Node, path string)
	walk = func(node *kong.Node, path string) {
		for _, child := range node.Children {
			walk(child, strings.TrimSpace(path+" "+child.Name))
		}
		if len(node.Children) == 0 {
			all = append(all, path)
		}
	}
	walk(parser.Model.Node, "")
	return all
}

// TestStandardOutput: what nobody could read is no success, in any command, neither of
// its work nor of its help. What a command prints in its quickest run is in the table;
// gate and mutants compile the program first.
func TestStandardOutput(t *testing.T) {
	quickest := quickestRuns(t)
	const want = "lockstep: standard output: no space left on device\n"
	for _, command := range leaves(t) {
		args, ok := quickest[command]
		if !ok {
			t.Errorf("%s: say here what its quickest run is", command)
			continue
		}
		runs := [][]string{{"--help"}}
		if args != nil {
			runs = append(runs, args)
		}
		for _, args := range runs {
			var stderr bytes.Buffer
			ctx, stop := context.WithCancel(t.Context())
			status := run(
				ctx, append(strings.Fields(command), args...), &stickyWriter{w: &full{}, end: stop},
				&stderr,
			)
			stop()
			text := stderr.String()
			for _, notice := range []string{
				"using the project's own network",
				"using generated routes",
				"without --upstream",
				"the engine onnxruntime is not measured",
			} {
				if i := strings.Index(text, "lockstep: "+notice); i >= 0 {
					text = text[:i] + text[i+strings.IndexByte(text[i:], '\n')+1:]
				}
			}
			if status != exitUsage || text != want {
				t.Errorf("%s %v: exit %d, %q; want 2 and %q", command, args, status, text, want)
			}
		}
	}
}

// TestJSONAlone: with --json each line of any command's standard output is an object, and nothing
// else is there, whatever other flag is given; and it ends with the status that it has without.
func TestJSONAlone(t *testing.T) {
	quickest := quickestRuns(t)
	short := "step123.csv"
	shortRoute(t, short, 130, nil)
	failing := mkdir(t, filepath.Join("failing", "a.csv"))
	shortRoute(t, filepath.Join("failing", "b.csv"), 102, nil)
	if err := os.WriteFile(failing, []byte("no route\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	more := map[string][]string{
		"rollout": {
			"--stats", "--debug", "--trace new.trace", "--pid 1,0,0 --pid 2,0,0", "--out kept",
			"--data_path failing", "--data_path failing --stats",
			"--env CartPole-v1 --steps 5", "--env CartPole-v1 --steps 5 --stats",
		},
		"compare": {
			"reference --data_path " + short + " --allow-absent --inexact",
			"a.trace b.trace --report r.html",
			"--env CartPole-v1 --steps 5",
		},
		"bench": {"--env CartPole-v1 --steps 20 --python none --repetitions 1"},
	}
	plant(t, "logits")
	if status, _, stderr := lockstepRun(t.Context(), "shard", "run", "--out", "shards", "--index",
		"0"); status != exitOK {
		t.Fatal(stderr)
	}
	for _, command := range leaves(t) {
		if quickest[command] == nil || !slices.ContainsFunc(leafFlags(t, command),
			func(f *kong.Flag) bool { return f.Name == "json" }) {
			continue
		}
		runs := [][]string{quickest[command]}
		for _, words := range more[command] {
			args := strings.Fields(words)
			if command == "rollout" && !strings.Contains(words, "_path") &&
				!strings.Contains(words, "--env") {
				args = append(args, quickest[command]...)
			}
			runs = append(runs, args)
		}
		for _, args := range runs {
			args = append(strings.Fields(command), args...)
			plain, _, _ := lockstepRun(t.Context(), args...)
			status, stdout, stderr := lockstepRun(t.Context(), append(args, "--json")...)
			lines := 0
			for line := range strings.Lines(stdout) {
				if lines++; json.Unmarshal([]byte(line), new(map[string]any)) != nil {
					t.Errorf("%q --json: standard output has %q", args, line)
				}
			}
			if lines == 0 || status != plain {
				t.Errorf("%q --json: %d lines, exit %d, without %d: %s", args, lines, status, plain,
					stderr)
			}
		}
	}
}

// TestJSONForms: a value that has no form in JSON is an error of the output, unless that has one
// already.
func TestJSONForms(t *testing.T) {
	for room, want := range map[int]string{99: "unsupported value: NaN", 4: "no space left"} {
		env := &environment{stdout: &stickyWriter{w: &full{room}}}
		if env.json("four"); room == 99 && env.stdout.err != nil {
			t.Error(env.stdout.err)
		}
		env.json(math.NaN())
		if err := fmt.Sprint(env.stdout.err); !strings.Contains(err, want) {
			t.Errorf("with room for %d bytes: %s, want %s", room, err, want)
		}
	}
}

// TestMegabytes: of a download whole megabytes are counted; none is known of what has no length.
func TestMegabytes(t *testing.T) {
	for n, want := range map[int64]int{-1: 0, 0: 0, 1<<20 - 1: 0, 1 << 20: 1, 7<<30 + 5: 7 << 10} {
		if got := megabytes(n); got != want {
			t.Errorf("%d bytes are %d MB, want %d", n, got, want)
		}
	}
}

// noCase is a case that is as small as can be.
type noCase struct{}

func (noCase) Save(string) error { return nil }
func (noCase) Replay() string    { return "lockstep replay nothing" }

// TestKeptTold: which case is kept is said beside objects of JSON, and among lines of text.
func TestKeptTold(t *testing.T) {
	for _, asJSON := range []bool{false, true} {
		var out, errs bytes.Buffer
		p := &comparisons{
			env: &environment{
				ctx: t.Context(), stdout: &stickyWriter{w: &out}, stderr: &errs,
			},
			output: &outputFlags{JSON: asJSON},
		}
		err := p.kept(noCase{}, "1 of 2", nil)
		said, silent := out.String(), errs.String()
		if asJSON {
			said, silent = silent, said
		}
		if want := "kept: 1 of 2; replay: lockstep replay nothing\n"; err != nil || said != want ||
			silent != "" {
			t.Errorf("JSON %v: %q and %q, %v; want %q", asJSON, out.String(), errs.String(), err,
				want)
		}
	}
}

// fullCase is a case for which there is no room.
type fullCase struct{ noCase }

func (fullCase) Save(string) error { return errors.New("no space left on device") }

// TestKeptEach: each engine that differs has its case, and a case that cannot be kept ends the
// comparison.
func TestKeptEach(t *testing.T) {
	all := []opened[string]{{name: "a"}, {name: "b"}, {name: "same"}, {name: "c"}}
	for _, small := range []smallest{noCase{}, fullCase{}} {
		var out, shrunk bytes.Buffer
		p := &comparisons{
			env:    &environment{ctx: t.Context(), stdout: &stickyWriter{w: &out}},
			output: &outputFlags{}, keep: "kept",
		}
		err := hold(p, verdict.Comparison{}, all, func(string, string) (*parity.Report, error) {
			r := &parity.Report{
				Exact: true, Steps: 1, Compared: map[string]int{"action": 1},
				Rollouts: []parity.Verdict{{Steps: 1, Equal: true}},
			}
			if len(p.list) != 1 {
				r.First = &parity.Divergence{Stage: "action"}
			}
			return r, nil
		}, func(want string, got opened[string]) (smallest, string, error) {
			shrunk.WriteString(got.name)
			return small, "1 of 2", nil
		})
		kept, want, status := strings.Count(out.String(), "kept: 1 of 2; replay: "), "bc", ""
		if small == (fullCase{}) {
			want, status = "b", "--keep: no space left on device"
		}
		if shrunk.String() != want || (err == nil) != (kept == 2) ||
			err != nil && err.Error() != status {
			t.Errorf("kept of %s, %d, %v; want of %s, %s\n%s", &shrunk, kept, err, want, status,
				&out)
		}
	}
}

// TestHeldProfiles: sides have two profiles if each of them has one.
func TestHeldProfiles(t *testing.T) {
	for i, first := range []opened[string]{{name: "a", profile: "x"}, {name: "b"}} {
		p := &comparisons{
			env:    &environment{ctx: t.Context(), stdout: &stickyWriter{w: io.Discard}},
			output: &outputFlags{},
		}
		all := []opened[string]{first, {name: "c"}, {name: "d", profile: "y"}, {name: "e"}}
		err := hold(p, verdict.Comparison{}, all, func(string, string) (*parity.Report, error) {
			return &parity.Report{}, nil
		}, nil)
		var got []int
		for _, c := range p.list {
			got = append(got, len(c.Profiles))
		}
		if want := [][]int{{0, 2, 0}, {0, 0, 0}}[i]; err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v profiles, %v; want %v", first.name, got, err, want)
		}
	}
}

// quickestRuns are flags with which commands print something in their quickest run, and makes what
// they are of; of those with nil none is quick.
func quickestRuns(t *testing.T) (quickest map[string][]string) {
	t.Helper()
	root, err := mutants.FindRoot(".")
	if err != nil {
		t.Fatal(err)
	}
	ownCache(t)
	if err := generate.Write(t.Context(), "routes",
		generate.Options{NumRoutes: 1, Progress: func(int) {}}); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join("fetched", assets.Routes), 0o777); err != nil {
		t.Fatal(err)
	}
	own, _, err := defaults.Keep()
	if err != nil {
		t.Fatal(err)
	}
	short := filepath.Join("routes", "short.csv")
	shortRoute(t, short, 102, nil)
	data := []string{"--data_path", short, "--no-cache", "--engine", "reference"}
	if status, _, stderr := lockstepRun(t.Context(), "shard", "plan", "--out", "shards",
		"--shards", "1", "--data_path", short, "--engine", "reference"); status != exitOK {
		t.Fatal(stderr)
	}
	for _, name := range []string{"a.trace", "b.trace"} {
		if status, _, stderr := lockstepRun(t.Context(),
			append([]string{"rollout", "--trace", name}, data[:3]...)...); status != exitOK {
			t.Fatal(stderr)
		}
	}
	quickest = map[string][]string{
		"demo":    {},
		"rollout": data,
		"envs":    {},
		"eval":    data,
		"compare": {"a.trace", "b.trace"},
		"replay":  {"--engines", "reference"},
		"mutants": nil,
		"gate":    nil,
		"verify":  nil, // it wants a Python
		"tune":    append([]string{"--population", "8", "--generations", "1"}, data...),
		"plan":    append([]string{"--rounds", "1", "--horizon", "10"}, data...),
		"export":  {"pid", "--out", "pid.py", "--unchecked"},
		"watch":   {"shards"},
		"shard plan": {
			"--out", "again", "--shards", "1", "--data_path", short, "--engine", "reference",
		},
		"shard run":   {"--out", "shards", "--index", "0"},
		"shard merge": {"--out", "shards"},
		"generate":    {"--num_routes", "1", "--out", "more"},
		"bench": {
			"--jobs", "1", "--repetitions", "1", "--model_path", own, "--data_path", short,
		},
		"fetch":   {"data", "--out", "fetched"},
		"doctor":  {},
		"version": {},
	}
	cases, err := filepath.Glob(filepath.Join(root, "parity", "testdata", "regressions", "*.json"))
	if err != nil || len(cases) == 0 {
		t.Fatal(err, "no cases")
	}
	quickest["replay"] = append(quickest["replay"], cases[0])
	return quickest
}

// TestStandardOutputClosed runs the program as a shell does, with a standard output that
// is closed, that nobody reads any more, and that is full.
func TestStandardOutputClosed(t *testing.T) {
	lockstep := program(t)
	for script, want := range map[string]string{
		`"$0" envs >&-`: "file already closed",
		`(sleep 0.2; "$0" envs; echo $? >&2) | true`: "broken pipe",
		`"$0" envs >/dev/full`:                       "no space left on device",
	} {
		if strings.Contains(script, "/dev/full") {
			if _, err := os.Stat("/dev/full"); err != nil {
				continue
			}
		}
		if strings.Contains(script, ">&-") && !canTellClosed {
			continue
		}
		var stderr bytes.Buffer
		command := exec.Command("sh", "-c", script, lockstep)
		command.Stderr = &stderr
		err := command.Run()
		if text := stderr.String(); !strings.HasPrefix(text, "lockstep: standard output: ") ||
			!strings.Contains(text, want) ||
			err == nil && !strings.HasSuffix(text, "\n2\n") {
			t.Errorf("%s: %v, %q; want 2 and %q", script, err, text, want)
		}
	}
}
