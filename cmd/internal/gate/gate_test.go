package gate

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/engines"
	"lockstep/internal/kernelhash"
	"lockstep/internal/want"
	"lockstep/parity"
	"lockstep/parity/mutants"
	"lockstep/parity/tinyphysics"
	"lockstep/parity/verdict"
)

// TestMain: with GATE_TEST_SCRIPT the test program takes the place of lockstep. It
// prints the lines of that file, of which one may be an exit status, or a signal.
func TestMain(m *testing.M) {
	script := os.Getenv("GATE_TEST_SCRIPT")
	if script == "" {
		os.Exit(m.Run())
	}
	f, err := os.Open(script)
	if err != nil {
		panic(err)
	}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		switch word, number, _ := strings.Cut(lines.Text(), " "); word {
		case "exit":
			var status int
			fmt.Sscan(number, &status)
			os.Exit(status)
		case "die":
			if self, err := os.FindProcess(os.Getpid()); err == nil {
				self.Kill()
			}
			time.Sleep(time.Minute)
		case "hang":
			time.Sleep(time.Minute)
		case "stderr":
			fmt.Fprintln(os.Stderr, number)
		default:
			fmt.Println(lines.Text())
		}
	}
}

func line(c verdict.Comparison) string {
	data, err := json.Marshal(verdict.JSONLine{Comparison: &c})
	if err != nil {
		panic(err)
	}
	return string(data)
}

func announce(n int) string { return fmt.Sprintf(`{"summary":{"comparisons":%d}}`, n) }

// comparison is one of two rollouts, of which the second differs in the stage, if one
// is given.
func comparison(stages ...string) verdict.Comparison {
	r := &parity.Report{
		Exact: true, Steps: 1160, Compared: map[string]int{tinyphysics.Logits: 1160,
			tinyphysics.Lataccel: 1160},
		Rollouts: []parity.Verdict{
			{
				Rollout: "route 00000, controller pid",
				Key:     []string{"00000", "pid"},
				Steps:   580,
				Equal:   true,
			},
			{
				Rollout: "route 00002, controller pid",
				Key:     []string{"00002", "pid"},
				Steps:   580,
				Equal:   true,
			},
		},
	}
	for _, s := range stages {
		r.Rollouts[1].Equal, r.Rollouts[1].Findings, r.Rollouts[1].First = false, 1,
			&parity.Finding{
				Step:  123,
				Stage: s,
			}
		r.Findings = append(
			r.Findings,
			parity.StageFindings{
				Stage:    s,
				Findings: 1,
				Rollouts: 1,
				Rollout:  "route 00002, controller pid",
				Key:      []string{"00002", "pid"},
				Step:     123,
			},
		)
		r.First = &parity.Divergence{
			Rollout: "route 00002, controller pid",
			Key:     []string{"00002", "pid"},
			Step:    123,
			Stage:   s,
			Index:   7,
			Want:    "1 (3f800000)",
			Got:     "1.0000001 (3f800001)",
			ULPs:    1,
		}
	}
	return verdict.Comparison{Kind: "goldens", Want: "ort1.30", Got: "onnxruntime", Report: r}
}

// TestParity: what lockstep compare prints, and how it ends, decides; whatever is odd
// is a failure.
func TestParity(t *testing.T) {
	absent := verdict.Comparison{
		Kind:   "goldens",
		Want:   "ort1.30",
		Got:    "gpu",
		NotRun: "no device",
		Lacks:  want.GPU.Name,
	}
	for name, c := range map[string]struct {
		script  []string
		require []string
		outcome string
		why     string
		passed  int
	}{
		"equal": {script: []string{line(comparison()), announce(1)},
			outcome: verdict.Passed, passed: 2},
		"different": {
			script:  []string{line(comparison(tinyphysics.Logits)), announce(1), "exit 1"},
			outcome: verdict.Failed,
			why:     "1 of 2 cases failed",
			passed:  1,
		},
		"different, exit 0": {
			script:  []string{line(comparison(tinyphysics.Logits)), announce(1)},
			outcome: verdict.Failed,
			why:     "status 0, although a comparison failed",
		},
		"equal, exit 1": {script: []string{line(comparison()), announce(1), "exit 1"},
			outcome: verdict.Failed, why: "status 1, and no comparison says why"},
		"usage": {script: []string{"stderr no such flag", "exit 2"},
			outcome: verdict.Failed, why: "no such flag"},
		"no regression kept": {script: []string{
			"stderr lockstep: parity/testdata/regressions: no case in it",
			"exit 2",
		}, outcome: verdict.Failed, why: "before its last line: " +
			"lockstep: parity/testdata/regressions: no case in it"},
		"crash": {script: []string{line(comparison()), "die"},
			outcome: verdict.Failed, why: "it crashed: signal: killed"},
		"crash after the end": {script: []string{line(comparison()), announce(1), "die"},
			outcome: verdict.Failed, why: "it crashed"},
		"hang": {script: []string{line(comparison()), announce(1), "hang"},
			outcome: verdict.Failed, why: "did not end within"},
		"cut off": {script: []string{line(comparison())}, outcome: verdict.Failed,
			why: "before its last line"},
		"one is missing": {script: []string{line(comparison()), announce(2)},
			outcome: verdict.Failed, why: "printed 1 comparisons of 2"},
		"no JSON": {script: []string{"panic: oops"}, outcome: verdict.Failed,
			why: `printed "panic: oops"`},
		"no comparison": {script: []string{`{}`, announce(0)}, outcome: verdict.Failed,
			why: "which is no comparison"},
		"nothing": {script: []string{announce(0)}, outcome: verdict.Failed, why: "no case was run"},
		"an empty report": {
			script: []string{
				line(verdict.Comparison{Kind: "goldens", Want: "w", Got: "g",
					Report: &parity.Report{}}),
				announce(1),
				"exit 2",
			},
			outcome: verdict.Failed, why: "1 of 1 cases failed",
		},
		"not run": {script: []string{line(comparison()), line(absent), announce(2)},
			outcome: verdict.Passed, passed: 2},
		"absent, exit 2": {
			script: []string{
				line(absent),
				announce(1),
				"stderr lockstep: nothing was compared",
				"exit 2",
			},
			outcome: verdict.Failed,
			why:     "no case was run: no device",
		},
		"nothing but that": {script: []string{line(absent), announce(1)},
			outcome: verdict.Failed, why: "no case was run: no device"},
		"not run, required": {script: []string{line(comparison()), line(absent), announce(2)},
			require: []string{want.GPU.Name}, outcome: verdict.Failed, why: "1 of 3 cases failed",
			passed: 2},
		"another required": {script: []string{line(comparison()), line(absent), announce(2)},
			require: []string{want.Python.Name}, outcome: verdict.Passed, passed: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := t.TempDir()
			script := filepath.Join(root, "script")
			write(t, root, "script", strings.Join(c.script, "\n"))
			g := &run{
				Config:  Config{Root: root},
				program: []string{os.Args[0]},
				env:     append(os.Environ(), "GATE_TEST_SCRIPT="+script),
			}
			limit := time.Minute
			if name == "hang" {
				limit = time.Second
			}
			s := step{
				name: "parity",
				run: func(ctx context.Context, k *verdict.Check) error {
					return g.compare(ctx, k, "compare", "goldens")
				},
			}
			got := s.execute(t.Context(), limit, c.require)
			if got.Outcome != c.outcome || !strings.Contains(got.Why, c.why) ||
				c.passed > 0 && got.Count(verdict.Passed) != c.passed {
				t.Errorf(
					"%s, %d passed, because %q; want %s, %d, because %q", got.Outcome,
					got.Count(verdict.Passed), got.Why, c.outcome, c.passed, c.why,
				)
			}
			if got.Command != "lockstep compare goldens" {
				t.Errorf("command %q", got.Command)
			}
		})
	}
}

// TestUnlessAbsent: what is not required and not there leaves the check out, all else
// does not.
func TestUnlessAbsent(t *testing.T) {
	absent := verdict.CheckCase{Outcome: verdict.NotRun, Lacks: want.GPU.Name, Message: "no device"}
	for _, c := range []struct {
		cases   []verdict.CheckCase
		require []string
		err     error
		outcome string
	}{
		{[]verdict.CheckCase{absent, absent}, nil, nil, verdict.NotRun},
		{[]verdict.CheckCase{absent, absent}, []string{want.GPU.Name}, nil, verdict.Failed},
		{[]verdict.CheckCase{absent}, nil, errors.New("a crash"), verdict.Failed},
		{[]verdict.CheckCase{absent, {Outcome: verdict.NotRun, Message: "for no reason"}}, nil,
			nil, verdict.Failed},
		{[]verdict.CheckCase{absent, {Outcome: verdict.NotApplicable}}, nil, nil, verdict.Failed},
		{[]verdict.CheckCase{absent, {Outcome: verdict.Failed}}, nil, nil, verdict.Failed},
		{[]verdict.CheckCase{absent, {Outcome: verdict.Passed}}, nil, nil, verdict.Passed},
		{nil, nil, nil, verdict.Failed},
	} {
		g := &run{Config: Config{Require: c.require}}
		s := step{run: func(_ context.Context, k *verdict.Check) error {
			k.Cases = slices.Clone(c.cases)
			return g.unlessAbsent(k, c.err)
		}}
		if got := s.execute(t.Context(), time.Minute, c.require); got.Outcome != c.outcome {
			t.Errorf(
				"%+v, required %v, error %v: %s because %q, want %s", c.cases, c.require, c.err,
				got.Outcome, got.Why, c.outcome,
			)
		}
	}
}

// TestParityUnbuilt: a program that does not build has compared nothing, and why is said.
func TestParityUnbuilt(t *testing.T) {
	g := &run{Config: Config{Root: t.TempDir()}, env: os.Environ()}
	s := step{
		name: "parity",
		run:  func(ctx context.Context, k *verdict.Check) error { return g.compare(ctx, k) },
	}
	for _, want := range []string{"the check build has failed", "go build ended with status 1"} {
		if got := s.execute(t.Context(), time.Minute, nil); got.Outcome != verdict.Failed ||
			!strings.Contains(got.Why, "no program to run: "+want) {
			t.Errorf("%+v, want %q", got, want)
		}
		if err := g.build(t.Context(), &verdict.Check{}); err == nil {
			t.Error("an empty folder builds")
		}
	}
}

func passing(_ context.Context, c *verdict.Check) error {
	c.Cases = append(c.Cases, verdict.CheckCase{Class: "a", Name: "b", Outcome: verdict.Passed})
	return nil
}

// TestExecute: whatever goes wrong in a check is a failure of it.
func TestExecute(t *testing.T) {
	for name, c := range map[string]struct {
		run     func(context.Context, *verdict.Check) error
		outcome string
		why     string
	}{
		"passes": {run: passing, outcome: verdict.Passed},
		"panics": {run: func(context.Context, *verdict.Check) error { panic("oops") },
			outcome: verdict.Failed, why: "panic: oops"},
		"panics later": {run: func(ctx context.Context, c *verdict.Check) error {
			passing(ctx, c)
			return []error{nil}[len(c.Cases)]
		}, outcome: verdict.Failed, why: "panic: runtime error: index out of range"},
		"fails": {run: func(ctx context.Context, c *verdict.Check) error {
			passing(ctx, c)
			return errors.New("why not")
		}, outcome: verdict.Failed, why: "why not"},
		"nothing": {run: func(context.Context, *verdict.Check) error { return nil },
			outcome: verdict.Failed, why: "no case was run"},
		"hangs": {run: func(ctx context.Context, c *verdict.Check) error {
			passing(ctx, c)
			<-ctx.Done()
			return nil
		}, outcome: verdict.Failed, why: "did not end within"},
		"leaves": {run: func(context.Context, *verdict.Check) error {
			return leaving("not today")
		}, outcome: verdict.NotRun, why: "not today"},
		"skips all": {run: func(_ context.Context, c *verdict.Check) error {
			c.Cases = []verdict.CheckCase{{Outcome: verdict.NotRun, Message: "no CPU"}}
			return nil
		}, outcome: verdict.Failed, why: "no case was run: no CPU"},
	} {
		t.Run(name, func(t *testing.T) {
			limit := time.Minute
			if name == "hangs" {
				limit = 10 * time.Millisecond
			}
			s := step{name: name, run: c.run}
			if got := s.execute(t.Context(), limit, nil); got.Outcome != c.outcome ||
				!strings.HasPrefix(got.Why, c.why) && !strings.Contains(got.Why, c.why) {
				t.Errorf(
					"%s because %q, want %s because %q", got.Outcome, got.Why, c.outcome, c.why,
				)
			}
		})
	}
}

// Checks that pass, fail, and are left out, for runs of these alone.
var (
	fine = step{name: "fine", run: passing}
	bad  = step{
		name: "bad",
		run:  func(context.Context, *verdict.Check) error { return errors.New("no") },
	}
	left = step{
		name: "left",
		run:  func(context.Context, *verdict.Check) error { return leaving("not now") },
	}
)

func only(steps ...step) func(*run) []step { return func(*run) []step { return steps } }

// TestRun: one failed check blocks, nothing run blocks, documentation alone is short.
func TestRun(t *testing.T) {
	root := repository(t)
	for _, c := range []struct {
		steps   func(*run) []step
		passed  bool
		verdict string
	}{
		{only(fine, left), true, "passed: 1 checks"},
		{only(fine, bad, left), false, "blocked: 1 of 2 checks failed"},
		{only(bad, bad, fine), false, "blocked: 2 of 3 checks failed"},
		{only(left), false, "blocked: no check was run"},
		{only(), false, "blocked: no check was run"},
	} {
		var out strings.Builder
		r, err := Run(
			t.Context(),
			Config{
				Root:      root,
				Base:      "base",
				KeepGoing: true,
				Limit:     time.Minute,
				Out:       &out,
				steps:     c.steps,
			},
		)
		if err != nil || r.Passed != c.passed || r.Verdict != c.verdict {
			t.Errorf("%+v, %v; want %v, %s", r, err, c.passed, c.verdict)
		}
		if data, err := json.Marshal(r); err != nil || bytes.Contains(data, []byte("null")) {
			t.Errorf("a list that is null, %v: %s", err, data)
		}
		told := "every engine is checked: nothing differs from base\n"
		for i := range r.Checks {
			var line strings.Builder
			r.Checks[i].WriteText(&line)
			told += line.String()
		}
		if out.String() != told {
			t.Errorf("%q is told, want %q", out.String(), told)
		}
	}
	firstFailureEnds(t, root)
	interrupted(t, root)
	whatDiffersDecides(t, root)
}

// firstFailureEnds: without KeepGoing the first check that fails ends those beside it, too.
func firstFailureEnds(t *testing.T, root string) {
	t.Helper()
	long := step{
		name:   "long",
		beside: true,
		run: func(ctx context.Context, c *verdict.Check) error {
			<-ctx.Done()
			return ctx.Err()
		},
	}
	r, err := Run(
		t.Context(),
		Config{
			Root:  root,
			Limit: time.Minute,
			Out:   io.Discard,
			steps: only(fine, long, bad, fine, bad),
		},
	)
	if err != nil || r.Passed || r.Verdict != "blocked: 1 of 2 checks failed" {
		t.Fatalf("%+v, %v", r, err)
	}
	for i, want := range []string{
		verdict.Passed, verdict.NotRun, verdict.Failed, verdict.NotRun, verdict.NotRun,
	} {
		if c := r.Checks[i]; c.Outcome != want ||
			want == verdict.NotRun && !strings.Contains(c.Why, "the check bad has failed") {
			t.Errorf("check %d, %s: %s because %q, want %s", i, c.Name, c.Outcome, c.Why, want)
		}
	}
}

// interrupted: no verdict is given.
func interrupted(t *testing.T, root string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	stop := step{
		name: "stop",
		run:  func(context.Context, *verdict.Check) error { cancel(); return nil },
	}
	if r, err := Run(ctx, Config{Root: root, Limit: time.Minute, Out: io.Discard,
		steps: only(fine, stop, fine)}); !errors.Is(err, context.Canceled) ||
		r != nil {
		t.Errorf("interrupted: %+v, %v", r, err)
	}
}

// whatDiffersDecides: where documentation alone does, one check runs; with a file of Go more, all
// that is missing here is found missing.
func whatDiffersDecides(t *testing.T, root string) {
	t.Helper()
	write(t, root, "README.md", "second")
	r, err := Run(t.Context(), Config{
		Root:  root,
		Base:  "base",
		Limit: time.Minute,
		Out:   io.Discard,
	})
	if err != nil || !r.Passed ||
		r.Verdict != "passed: only documentation differs, nothing was compared" ||
		len(r.Checks) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	write(t, root, "reference/gpt.go", "package reference")
	r, err = Run(
		t.Context(),
		Config{
			Root:      root,
			Base:      "base",
			All:       true,
			KeepGoing: true,
			Limit:     time.Minute,
			Out:       io.Discard,
		},
	)
	if err != nil || r.Passed || len(r.Checks) < 8 {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, c := range r.Checks {
		if c.Outcome == verdict.Passed {
			t.Errorf("%s passed in a folder without a program", c.Name)
		}
	}
}

// TestPlan: what runs for which change.
func TestPlan(t *testing.T) {
	all := []string{"build", "sharp"}
	for _, target := range targets {
		all = append(all, target.name)
	}
	for _, engine := range engines.CheckedNames() {
		all = append(all, "goldens/"+engine)
	}
	all = append(all, "engines", "regressions", "tests", "hardware", "mutation", "mutants")
	names := func(change verdict.Change, everything bool) (names []string) {
		g := &run{Config: Config{All: everything}, change: change}
		for _, s := range g.plan() {
			names = append(names, s.name)
		}
		return names
	}
	if got := names(verdict.Change{Documentation: true}, false); !slices.Equal(
		got, []string{"documentation"},
	) {
		t.Errorf("documentation: %v", got)
	}
	if got := names(verdict.Change{Documentation: true, Packages: []string{"docs"}},
		false); !slices.Equal(got, []string{"documentation", "tests"}) {
		t.Errorf("documentation that tests read: %v", got)
	}
	if got := names(verdict.Change{Everything: true, Engines: testEngines}, false); !slices.Equal(
		got, all,
	) {
		t.Errorf("everything: %v", got)
	}
	if got := names(verdict.Change{Engines: []string{"gpu"}}, false); !slices.Equal(got, all) {
		t.Errorf("gpu: %v", got)
	}
	if got := names(verdict.Change{}, false); !slices.Equal(got, all) {
		t.Errorf("tools: %v", got)
	}
	if err := new(run).mutants(t.Context(), &verdict.Check{}); !errors.As(err, new(leaving)) {
		t.Errorf("tools: faults are planted, %v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end() // so that what would be planted is told, and not planted
	for _, g := range []*run{
		{Config: Config{All: true, Root: "../../.."}, change: verdict.Change{Engines: testEngines}},
		{Config: Config{All: true, Root: "../../.."}},
		{Config: Config{Root: "../../.."}, change: verdict.Change{Engines: testEngines}},
	} {
		var k verdict.Check
		if err := g.mutants(ended, &k); !errors.Is(err, context.Canceled) ||
			strings.HasPrefix(k.Note, "a sample, ") == g.All {
			t.Errorf("all is asked for: %v; planted are %q, %v", g.All, k.Note, err)
		}
	}
	if got := names(verdict.Change{}, true); !slices.Equal(got, all) {
		t.Errorf("tools, with --all: %v", got)
	}
}

// TestComparing: a check of engines runs if one of them has changed, and no test has made
// its comparisons.
func TestComparing(t *testing.T) {
	at := func(name, outcome string) []verdict.CheckCase {
		return []verdict.CheckCase{{Class: "a/parity", Name: name, Outcome: outcome}}
	}
	for _, c := range []struct {
		changed []string
		tested  []verdict.CheckCase
		all     bool
		left    string
	}{
		{[]string{"twin"}, nil, false, ""},
		{[]string{"other"}, nil, false, "no engine of it has changed"},
		{nil, nil, true, ""},
		{[]string{"twin"}, at("TestAll/set/twin/route", verdict.Passed), false, "TestAll has " +
			"made these comparisons: log"},
		{[]string{"twin"}, at("TestAll/set/twin", verdict.Passed), false, "TestAll has made " +
			"these comparisons: log"},
		{[]string{"twin"}, at("TestAll/set/twin/route", verdict.NotRun), false, ""},
		{[]string{"twin"}, at("TestAll/set/twins/route", verdict.Passed), false, ""},
		{[]string{"twin"}, at("TestOther/set/twin/route", verdict.Passed), false, ""},
	} {
		g := &run{
			Config: Config{All: c.all, Tested: []string{"log"}},
			change: verdict.Change{Engines: c.changed},
			tested: c.tested,
		}
		err := g.comparing(passing, []string{"twin", "last"}, "a/parity", "TestAll", "twin")(
			t.Context(), &verdict.Check{},
		)
		if leave := (leaving)(""); c.left == "" && err != nil ||
			c.left != "" && (!errors.As(err, &leave) || !strings.HasPrefix(leave.Error(), c.left)) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestTested: what logs tell takes the place of the tests, and what is required must be in
// them. A log of another revision, of fewer tests or of too few packages is refused.
func TestTested(t *testing.T) {
	root := t.TempDir()
	write(t, root, "go.mod", "module a\n\ngo 1.26\n")
	write(t, root, "a_test.go", "package a\n")
	write(
		t, root, "b/b_test.go",
		"package b\n\nimport \"testing\"\n\nfunc TestVectors(t *testing.T) {}\n",
	)
	command(t, root, "init", "--quiet")
	commit(t, root)
	head, err := git(t.Context(), root, "rev-parse", "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	logs := t.TempDir()
	origin := func(revision, only string) string {
		return fmt.Sprintf("{\"Action\":\"origin\",\"Revision\":%q,\"Only\":%q}\n", revision, only)
	}
	const (
		first = `{"Action":"pass","Package":"a","Test":"TestA"}
{"Action":"output","Package":"a","Test":"TestB","Output":"not run for want of assets: none"}
{"Action":"skip","Package":"a","Test":"TestB"}
{"Action":"pass","Package":"a"}
`
		b = `{"Action":"skip","Package":"a/b"}` + "\n"
	)
	write(t, logs, "log", origin(head, "")+first+b)
	write(t, logs, "later", origin(head, "")+`{"Action":"pass","Package":"a","Test":"TestB"}`)
	write(t, logs, "half", origin(head, "")+first)
	write(t, logs, "begun", origin(head, "")+first+`{"Action":"start","Package":"a/b"}`)
	write(t, logs, "old", origin(strings.Repeat("0", 40), "")+first+b)
	write(t, logs, "only", origin(head, "g00002/pid")+first+b)
	write(t, logs, "any", first+b)
	steps := func(g *run) []step {
		return []step{{name: "sharp", run: g.sharp}, {name: "tests", run: g.tests}}
	}
	for _, c := range []struct {
		logs    []string
		require []string
		passed  int
		verdict string // or a part of the error
	}{
		{[]string{"log"}, nil, 1, "passed: 1 checks"},
		{[]string{"log"}, []string{want.Assets.Name}, 1, "blocked: 1 of 1 checks failed"},
		{[]string{"log", "later"}, []string{want.Assets.Name}, 2, "passed: 1 checks"},
		{[]string{"half"}, nil, 0, "the change may concern a/b, and no log has it"},
		{[]string{"begun"}, nil, 0, "the change may concern a/b, and no log has it"},
		{[]string{"old"}, nil, 0, "it is of revision 000000000000"},
		{[]string{"log", "old"}, nil, 0, "it is of revision 000000000000"},
		{[]string{"only"}, nil, 0, "LOCKSTEP_ONLY was"},
		{[]string{"any"}, nil, 0, "does not say of which revision"},
		{[]string{"none"}, nil, 0, "no such file"},
	} {
		files := []string{}
		for _, log := range c.logs {
			files = append(files, filepath.Join(logs, log))
		}
		config := Config{
			Root:    root,
			Tested:  files,
			Require: c.require,
			Limit:   time.Minute,
			Out:     io.Discard,
			steps:   steps,
		}
		r, err := Run(t.Context(), config)
		if c.passed == 0 {
			if err == nil || !strings.Contains(err.Error(), c.verdict) {
				t.Errorf("%v: %v, want %q", c.logs, err, c.verdict)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if r.Verdict != c.verdict || r.Checks[1].Count(verdict.Passed) != c.passed ||
			r.Checks[0].Outcome != verdict.NotRun {
			t.Errorf("%v, %v: %+v", c.logs, c.require, r)
		}
	}

	// The sharp tests of packages that no log has run.
	g := &run{
		Config: Config{Root: root, Tested: []string{"half"}},
		env:    os.Environ(),
		logged: map[string]bool{"a": true},
	}
	s := step{run: g.sharp}
	if c := s.execute(t.Context(), time.Minute, nil); c.Outcome != verdict.Passed ||
		len(c.Cases) != 1 ||
		c.Cases[0].Name != "TestVectors" {
		t.Errorf("%+v", c)
	}
}

// TestConcerned: the tests of every package that a change may concern are run, but for those that
// other checks run; of documentation all.
func TestConcerned(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	for _, c := range []struct {
		change verdict.Change
		want   string // what is run, or why nothing is
	}{
		{verdict.Change{Packages: []string{".", "a", "b/c"}},
			"go test -count=1 -skip=^(" + compared + "|" + sharp + ")$ ./. ./a ./b/c"},
		{verdict.Change{Packages: []string{everyPackage}},
			"go test -count=1 -skip=^(" + compared + "|" + sharp + ")$ ./..."},
		{verdict.Change{Packages: []string{"docs"}, Documentation: true},
			"go test -count=1 -skip=^$ ./docs"},
		{verdict.Change{}, "no package's tests may be concerned"},
	} {
		g, k := &run{Config: Config{Root: t.TempDir()}, change: c.change}, verdict.Check{}
		err := g.tests(ended, &k) // which has its words, and is not begun
		if k.Command != c.want && (k.Command != "" || err == nil || err.Error() != c.want) {
			t.Errorf("%+v: %q, %v, want %q", c.change, k.Command, err, c.want)
		}
	}
}

// TestSharp: the tests that find most faults are found wherever they are.
func TestSharp(t *testing.T) {
	packages, err := having(
		filepath.Join("..", "..", ".."), regexp.MustCompile(`(?m)^func (`+sharp+`)\(`),
	)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"./gpu/internal/module", "./gpu/classic", "./gpu/internal/kernels", "./gpu", "./reference",
		"./batched", "./batched/onnxruntime",
	} {
		if !slices.Contains(packages, want) {
			t.Errorf("%s is not among %v", want, packages)
		}
	}
	root := t.TempDir()
	write(t, root, "go.mod", "module a\n\ngo 1.26\n")
	write(
		t,
		root,
		"a/a_test.go",
		"package a\n\nimport \"testing\"\n\nfunc TestVectors(t *testing.T) { t.Error(\"one "+
			"bit\") }\n\nfunc TestLong(t *testing.T) {}\n",
	)
	g := &run{Config: Config{Root: root}, env: append(os.Environ(), "GOFLAGS=")}
	s := step{run: g.sharp}
	if c := s.execute(t.Context(), time.Minute, nil); c.Outcome != verdict.Failed ||
		len(c.Cases) != 1 ||
		c.Cases[0].Name != "TestVectors" {
		t.Errorf("%+v", c)
	}
}

// TestSample: first faults in files that have changed, then as many of each engine that
// has, and all of them in the course of some commits.
func TestSample(t *testing.T) {
	all, err := mutants.All()
	if err != nil {
		t.Fatal(err)
	}
	engines := func(faults []mutants.Fault) map[string]int {
		n := map[string]int{}
		for _, f := range faults {
			if f.Test != "" {
				n["tests"]++
			} else {
				n[f.Engine]++
			}
		}
		return n
	}
	planted := map[string]bool{}
	for commit := range 400 {
		change := verdict.Change{
			Head:       fmt.Sprint(commit),
			Everything: true,
			Engines:    []string{"reference", "batched", "onnxruntime", "emulated", "gpu"},
		}
		got := sample(all, change)
		if again := sample(all, change); !reflect.DeepEqual(got, again) {
			t.Fatalf("the sample of a commit is %v, and then %v", got, again)
		}
		if d := cmp.Diff(map[string]int{"reference": 2, "batched": 2, "onnxruntime": 2,
			"emulated": 2, "tests": 2}, engines(got)); d != "" {
			t.Fatalf("commit %d (-want +got):\n%s", commit, d)
		}
		for _, f := range got {
			planted[f.Name] = true
		}
	}
	if len(planted) != len(all) {
		t.Errorf("400 commits plant %d of %d faults", len(planted), len(all))
	}
	if d := cmp.Diff(map[string]int{"emulated": sampleSize},
		engines(sample(all, verdict.Change{Engines: []string{"emulated", "gpu"}}))); d != "" {
		t.Errorf("gpu (-want +got):\n%s", d)
	}
	const file = "batched/rollout.go"
	isTouched := func(f mutants.Fault) bool {
		return slices.ContainsFunc(f.Edits, func(e mutants.Edit) bool { return e.File == file })
	}
	touched := 0
	for _, f := range all {
		if isTouched(f) {
			touched++
		}
	}
	if touched == 0 || touched >= sampleSize {
		t.Fatalf("%d faults in %s, want some, fewer than %d", touched, file, sampleSize)
	}
	if got := sample(all, verdict.Change{Files: []string{file}}); len(got) != touched ||
		!isTouched(got[0]) {
		t.Errorf("%s: %d faults, want %d", file, len(got), touched)
	}
	if got := sample(all, verdict.Change{Files: []string{file}, Engines: []string{"batched"}}); len(
		got,
	) != sampleSize ||
		!isTouched(got[touched-1]) ||
		isTouched(got[touched]) {
		t.Errorf(
			"%s, batched: %d faults, want %d, the first %d in the file", file, len(got), sampleSize,
			touched,
		)
	}
	if got := sample(all, verdict.Change{}); len(got) != 0 {
		t.Errorf("no change: %d faults", len(got))
	}
}

// TestSampleAlone: none is left out, wherever the draw puts it.
func TestSampleAlone(t *testing.T) {
	all, err := mutants.All()
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range all {
		alone := verdict.Change{Everything: true, Engines: []string{f.Engine}}
		if got := sample(all[i:i+1], alone); len(got) != 1 || got[0].Name != f.Name {
			t.Errorf("%s, alone: %v", f.Name, got)
		}
	}
}

// TestBoth: what runs beside the others runs at the same time, and all are in order.
func TestBoth(t *testing.T) {
	met := make(chan bool)
	meet := func(ctx context.Context, c *verdict.Check) error {
		select {
		case met <- true:
		case <-met:
		case <-ctx.Done():
			return errors.New("alone")
		}
		c.Cases = append(c.Cases, verdict.CheckCase{Name: "a", Outcome: verdict.Passed})
		return nil
	}
	var out strings.Builder
	g := &run{Config: Config{Limit: time.Minute, Out: &out}}
	checks := g.both(
		t.Context(),
		[]step{
			{name: "a", run: meet}, {name: "b", beside: true, run: meet}, {name: "c", run: meet},
			{name: "d", beside: true, run: meet},
		},
	)
	var names []string
	for _, c := range checks {
		names = append(names, c.Name+" "+c.Outcome)
	}
	if want := []string{"a passed", "b passed", "c passed", "d passed"}; !slices.Equal(
		names, want,
	) ||
		strings.Count(out.String(), "\n") != 4 {
		t.Errorf("%v, want %v; told %q", names, want, out.String())
	}
}

// TestTarget: every target is in the Makefile; one that fails says what it printed.
func TestTarget(t *testing.T) {
	data, err := os.ReadFile("../../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range targets {
		if !strings.Contains(string(data), "\n"+target.name+":") {
			t.Errorf("the Makefile has no target %s", target.name)
		}
	}
	root := t.TempDir()
	write(t, root, "Makefile", "good:\n\t@echo fine; echo 'not run: a part'; echo fine\n"+
		"less:\n\t@echo 'SKIPPED [2] python/tests/a.py:4: no torch'\n"+
		"bad:\n\t@echo spoilt; exit 1\nnone:\n\t@echo 'not run: no emulator'\n")
	g := &run{Config: Config{Root: root}, env: os.Environ()}
	var c verdict.Check
	if err := g.target(t.Context(), &c, "good", nil); err != nil || c.Count(verdict.Passed) != 1 ||
		c.Command != "make good" {
		t.Errorf("%v, %+v", err, c)
	}
	c = verdict.Check{}
	if err := g.target(t.Context(), &c, "less", nil); err != nil || c.Count(verdict.NotRun) != 2 ||
		c.Cases[2].Message != "python/tests/a.py:4: no torch" {
		t.Errorf("%v, %+v", err, c)
	}
	c = verdict.Check{}
	if err := g.target(t.Context(), &c, "none", nil); err == nil ||
		err.Error() != leaving("no emulator").Error() ||
		len(c.Cases) != 0 {
		t.Errorf("%v, %+v", err, c)
	}
	c = verdict.Check{}
	if err := g.target(t.Context(), &c, "bad", nil); err == nil ||
		!strings.HasPrefix(c.Output, "spoilt\n") ||
		len(c.Cases) != 0 {
		t.Errorf("%v, %+v", err, c)
	}
}

// TestTargetTests: of a target that runs tests, those that are left out are told, and one that
// has run nothing of a package which must pass fails.
func TestTargetTests(t *testing.T) {
	const (
		start = `{"Action":"start","Package":"lockstep/a"}`
		pass  = `{"Action":"pass","Package":"lockstep/a","Test":"TestA"}`
		none  = `{"Action":"output","Package":"lockstep/a","Output":"testing: warning: no tests ` +
			`to run\n"}`
		end  = `{"Action":"pass","Package":"lockstep/a"}`
		says = `{"Action":"output","Package":"lockstep/a","Test":"TestA","Output":"a.go:1: not ` +
			`run for want of assets: no model\n"}`
		skip = `{"Action":"skip","Package":"lockstep/a","Test":"TestA"}`
		half = `{"Action":"output","Package":"lockstep/a","Test":"TestA","Output":"not run for ` +
			`want of assets: no model\n"}`
		fail = `{"Action":"fail","Package":"lockstep/a","Test":"TestA"}`
	)
	b := func(line string) string { return strings.ReplaceAll(line, "/a", "/b") }
	for name, c := range map[string]struct {
		lines   []string
		require []string
		outcome string
		why     string // or a part of the failed case's message
	}{
		"passed": {lines: []string{start, pass, end}, outcome: verdict.Passed},
		"no tests": {lines: []string{start, none, end}, outcome: verdict.Failed,
			why: "none of its tests was run"},
		"none in a second run": {lines: []string{start, pass, end, start, none, end},
			outcome: verdict.Failed, why: "none of its tests was run"},
		"none in a third run": {
			lines: []string{b(start), b(pass), b(end), b(start), b(pass), b(end), start, pass, end,
				start, none, end},
			outcome: verdict.Failed, why: "none of its tests was run",
		},
		"another package": {lines: []string{b(pass)},
			outcome: verdict.Failed, why: "go test was not run in it"},
		"nothing": {lines: nil, outcome: verdict.Failed, why: "go test was not run in it"},
		"skipped without a want": {lines: []string{start, skip, end}, outcome: verdict.Failed,
			why: "none of its tests was run"},
		"skipped": {lines: []string{start, says, skip, end},
			outcome: verdict.NotRun, why: "no model; not required"},
		"skipped, required": {
			lines:   []string{start, strings.ReplaceAll(pass, "TestA", "TestB"), says, skip, end},
			require: []string{want.Assets.Name},
			outcome: verdict.Failed,
			why:     "assets is required",
		},
		"skipped, not required": {
			lines:   []string{start, strings.ReplaceAll(pass, "TestA", "TestB"), says, skip, end},
			outcome: verdict.Passed,
		},
		"half, required": {lines: []string{start, half, pass, end},
			require: []string{want.Assets.Name}, outcome: verdict.Failed,
			why: "assets is required"},
		"failed": {lines: []string{start, fail}, outcome: verdict.Failed,
			why: "1 of 1 cases failed"},
		"no event": {lines: []string{`{"`}, outcome: verdict.Failed,
			why: "go test -json printed"},
	} {
		root := t.TempDir()
		write(t, root, "events", strings.Join(c.lines, "\n")+"\n")
		write(t, root, "Makefile", "some:\n\t@echo \"$(TESTFLAGS)\" > flags; cat events\n")
		g := &run{Config: Config{Root: root, Require: c.require}, env: os.Environ()}
		s := step{name: "some", run: func(ctx context.Context, k *verdict.Check) error {
			return g.target(ctx, k, "some", []string{"a"})
		}}
		got := s.execute(t.Context(), time.Minute, c.require)
		said := got.Why
		for _, k := range got.Cases {
			if k.Outcome == verdict.Failed {
				said += "\n" + k.Message
			}
		}
		if got.Outcome != c.outcome || !strings.Contains(said, c.why) {
			t.Errorf(
				"%s: %s because %q, want %s because %q\n%+v", name, got.Outcome, said, c.outcome,
				c.why, got.Cases,
			)
		}
		if flags, err := os.ReadFile(filepath.Join(root, "flags")); err != nil ||
			string(flags) != "-json\n" {
			t.Errorf("%s: flags %q, %v", name, flags, err)
		}
	}
}

// TestTargetFewer: a target that has fewer cases where not everything has changed says so; all
// that decides how many is in the Makefile.
func TestTargetFewer(t *testing.T) {
	data, err := os.ReadFile("../../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for name, less := range fewer {
		recipe, defaults, many := name+":\n\t@echo", "", ""
		for word := range strings.FieldsSeq(less) {
			variable, _, _ := strings.Cut(word, "=")
			if !strings.Contains(string(data), "\n"+name+": "+variable+" ?= ") {
				t.Errorf("%s: the Makefile has no default for %s", name, variable)
			}
			recipe += " " + variable + "=$(" + variable + ")"
			defaults += name + ": " + variable + " ?= all\n"
			many += variable + "=all "
		}
		root := t.TempDir()
		write(t, root, "Makefile", recipe+" > of\n"+defaults)
		for _, c := range []struct {
			g    *run
			want string
		}{
			{&run{change: verdict.Change{Packages: []string{"batched"}}}, less},
			{&run{change: verdict.Change{Packages: []string{everyPackage}}}, many},
			{&run{Config: Config{All: true}}, many},
		} {
			c.g.Root, c.g.env = root, os.Environ()
			var k verdict.Check
			if err := c.g.target(t.Context(), &k, name, nil); err != nil {
				t.Fatal(err)
			}
			of, err := os.ReadFile(filepath.Join(root, "of"))
			want := strings.TrimSpace(c.want)
			if got := strings.TrimSpace(string(of)); err != nil || got != want ||
				(k.Note == less) != (want == less) {
				t.Errorf("%s: %s, %v, and the note %q; want %s", name, got, err, k.Note, want)
			}
		}
	}
}

// TestTargetFlags: the targets whose tests must pass hand TESTFLAGS to every go test.
func TestTargetFlags(t *testing.T) {
	data, err := os.ReadFile("../../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(data), "\\\n", "")
	makes := map[string][]string{ // instead of running tests itself
		"classic-ci":    {"test-classic"},
		"test-compiled": {"test-compiled-ptx", "test-compiled-sass"},
	}
	for _, target := range targets {
		if target.passing == "" {
			continue
		}
		names := makes[target.name]
		if names == nil {
			names = []string{target.name}
		}
		for _, name := range names {
			_, recipe, _ := strings.Cut(text, "\n"+name+":")
			recipe, _, _ = strings.Cut(recipe, "\n\n")
			recipe = strings.ReplaceAll(recipe, "$(ONE_GOLDEN)", "$(GO) test $(TESTFLAGS)")
			if n := strings.Count(recipe, "$(GO) test "); n == 0 ||
				n != strings.Count(recipe, "$(TESTFLAGS)") {
				t.Errorf("%s: %d times go test, %d times with TESTFLAGS", name, n,
					strings.Count(recipe, "$(TESTFLAGS)"))
			}
		}
	}
	if !strings.Contains(
		text,
		"\nONE_GOLDEN := LOCKSTEP_ONLY=g00002/pid $(GO) test $(TESTFLAGS) ",
	) {
		t.Error("ONE_GOLDEN does not take TESTFLAGS")
	}
}

// TestEnvironment: what would make tests do less is left out, what is required is in.
func TestEnvironment(t *testing.T) {
	t.Setenv("LOCKSTEP_ONLY", "00000/pid")
	for _, w := range want.All {
		t.Setenv(w.Variable(), "")
	}
	t.Setenv("LOCKSTEP_REQUIRE_PYTHON", "1")
	t.Setenv("LOCKSTEP_REQUIRE_GPU", "0")
	if got := Required(); !slices.Equal(got, []string{want.Python.Name}) {
		t.Errorf("required: %v", got)
	}
	env := environment([]string{want.GPU.Name})
	if slices.ContainsFunc(
		env,
		func(v string) bool { return strings.HasPrefix(v, "LOCKSTEP_ONLY=") },
	) {
		t.Error("LOCKSTEP_ONLY is still set")
	}
	if env[len(env)-1] != "LOCKSTEP_REQUIRE_GPU=1" {
		t.Errorf("the environment ends with %s", env[len(env)-1])
	}
	all := environment(want.Names())
	for _, w := range want.All { // what comes last counts
		i := slices.IndexFunc(all[len(env)-1:], func(v string) bool {
			return v == w.Variable()+"=1"
		})
		if i < 0 {
			t.Errorf("%s is required, and the environment ends with %q", w.Name, all[len(env)-1:])
		}
	}
}

// TestHardware: evidence is a run of these very kernels on a GPU that found nothing.
func TestHardware(t *testing.T) {
	root := t.TempDir()
	kernels := filepath.Join(root, "gpu", "internal", "kernels")
	folder := filepath.Join(root, "gpu", "hardware", "H200")
	hold := func(name string, require bool, outcome, why string) {
		t.Helper()
		g := &run{Config: Config{Root: root, RequireHardware: require}}
		s := step{name: "hardware", run: g.hardware}
		if got := s.execute(t.Context(), time.Minute, nil); got.Outcome != outcome ||
			!strings.Contains(got.Why, why) {
			t.Errorf(
				"%s: %s because %q, want %s because %q", name, got.Outcome, got.Why, outcome, why,
			)
		}
	}
	write := func(dir, name, text string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(dir, 0o777),
			os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	write(kernels, "rollout.cu", "first")
	write(filepath.Join(root, "gpu", "internal", "module"), "manifest.json", "first")
	hold("nothing", true, verdict.Failed, "no recorded run")
	hash, err := kernelhash.Sources(os.DirFS(kernels))
	if err != nil {
		t.Fatal(err)
	}
	answered, err := answer(t.Context(), hash)
	if err != nil {
		t.Fatal(err)
	}
	evidence := func(device, challenge string) {
		t.Helper()
		passed := func(tests ...string) (text string) {
			for _, test := range append(tests, "") { // the last is the program's
				text += fmt.Sprintf("{\"Action\":\"pass\",\"Test\":%q}\n", test)
			}
			return text
		}
		said := ""
		for key, value := range map[string]string{
			"device": device, "driver": "CUDA 13.0", "kernels": hash, "challenge": challenge,
			"module": fmt.Sprintf("%x", sha256.Sum256([]byte("first"))),
		} {
			said += fmt.Sprintf("{\"Action\":\"attr\",\"Key\":%q,\"Value\":%q}\n", key, value)
		}
		write(folder, "gpu.json", said+passed("TestGoldens/p/blocks/g", "TestChallenge"))
		write(folder, "cuda.json", passed("TestMemory"))
		for _, tool := range []string{"memcheck", "racecheck", "initcheck", "synccheck"} {
			write(folder, tool+".json", passed("TestShort"))
		}
	}
	evidence("NVIDIA H200", answered)
	hold("a run", true, verdict.Passed, "")
	other, err := answer(t.Context(), strings.Repeat("0a", 32))
	if err != nil || other == answered {
		t.Fatalf("two challenges have the answer %s, %v", answered, err)
	}
	evidence("NVIDIA H200", other)
	hold("with the answer of other kernels", false, verdict.Failed, "")
	evidence("NVIDIA H200", answered)
	write(filepath.Join(root, "gpu", "internal", "module"), "manifest.json", "second")
	hold("compiled otherwise", true, verdict.Failed, "no recorded run of these kernels, ")
	write(filepath.Join(root, "gpu", "internal", "module"), "manifest.json", "first")
	hold("as it was", true, verdict.Passed, "")
	write(kernels, "rollout.cu", "second")
	hold("of other kernels", true, verdict.Failed, "no recorded run of these kernels, ")
	hold("not required", false, verdict.NotRun, "not required")
	evidence("stand-in", answered)
	hold("a stand-in", false, verdict.Failed, "stand-in is not a GPU")
	g := &run{Config: Config{Root: filepath.Join("..", "..", "..")}}
	if err := g.hardware(t.Context(), &verdict.Check{}); err != nil &&
		!errors.As(err, new(leaving)) {
		t.Errorf("what is committed: %v", err)
	}
}

func TestComparisonOutcome(t *testing.T) {
	flips := comparison()
	flips.Report.Exact, flips.Report.Flips.Explained = false, 3
	of := func(a, b string) verdict.Comparison {
		c := comparison()
		c.Identities = []string{a, b}
		return c
	}
	for _, c := range []struct {
		comparison verdict.Comparison
		outcome    string
		cases      int // and of these failed
		failed     int
	}{
		{comparison(), verdict.Equal, 2, 0},
		{comparison(tinyphysics.CDF), verdict.Different, 2, 1},
		{of("one", "other"), verdict.Equal, 2, 0},
		{of("one", "one"), verdict.Failed, 1, 1}, // under two names
		{flips, verdict.Different, 3, 1},         // over the budget of none
		{verdict.Comparison{}, verdict.Failed, 1, 1},
		{verdict.Comparison{Differs: "costs"}, verdict.Different, 1, 1},
		{verdict.Comparison{Error: "broken", Report: comparison().Report}, verdict.Failed, 1, 1},
		{verdict.Comparison{NotRun: "no GPU"}, verdict.NotRun, 1, 0},
		{verdict.Comparison{NotApplicable: "another profile"}, verdict.NotApplicable, 1, 0},
	} {
		check := verdict.Check{Cases: c.comparison.Cases()}
		if got := c.comparison.Outcome(); got != c.outcome || len(check.Cases) != c.cases ||
			check.Count(verdict.Failed) != c.failed {
			t.Errorf(
				"%s with %d cases, %d failed; want %s, %d, %d", got, len(check.Cases),
				check.Count(verdict.Failed), c.outcome, c.cases, c.failed,
			)
		}
		if (c.outcome == verdict.Equal) != (c.comparison.Why() == "") {
			t.Errorf("%s: why %q", c.outcome, c.comparison.Why())
		}
	}
}
