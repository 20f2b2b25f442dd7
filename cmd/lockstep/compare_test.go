package main

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockstep"
	"lockstep/cmd/internal/report"
	"lockstep/engines"
	"lockstep/internal/assets"
	"lockstep/internal/assets/assetstest"
	"lockstep/internal/defaults"
	"lockstep/internal/installed"
	"lockstep/internal/want"
	"lockstep/parity"
	"lockstep/parity/branches"
	"lockstep/parity/schema"
	"lockstep/parity/tinyphysics"
	"lockstep/parity/trace"
	"lockstep/parity/verdict"
	"lockstep/reference"
	"lockstep/routefile"
)

// TestMain: with LOCKSTEP_TEST_ENGINES the test program is lockstep with those
// engines.
func TestMain(m *testing.M) {
	// What the Python of this machine has, tests of package installed ask.
	if os.Getenv(installed.Variable) == "" {
		os.Setenv(installed.Variable, installed.Pins)
	}
	if names := os.Getenv("LOCKSTEP_TEST_ENGINES"); names != "" {
		engines.Replace(testEngines(names))
		os.Exit(run(context.Background(), os.Args[1:], &stickyWriter{w: os.Stdout}, os.Stderr))
	}
	own, err := os.MkdirTemp("", "lockstep-tests-*") // where no other program leaves anything
	if err != nil {
		panic(err)
	}
	for _, name := range []string{"TMPDIR", "TMP", "TEMP"} {
		os.Setenv(name, own)
	}
	status := m.Run()
	for _, found := range leftovers.found {
		fmt.Fprintln(os.Stderr, "FAIL:", found)
		status = 1
	}
	os.RemoveAll(own)
	os.Exit(status)
}

// planted is the reference by another name, with a fault in a step.
type planted struct {
	lockstep.Implementation
	fault, name string
	closed      sync.Once
}

// plantedOpen counts the planted engines that are open: none is when a command has ended.
var plantedOpen atomic.Int64

// plantedWith is what the last of them was opened with.
var plantedWith engines.Config

func newPlanted(c engines.Config, fault, name string) (*planted, error) {
	plantedWith = c
	r, err := reference.New(c.Model, c.Profile)
	if err == nil {
		plantedOpen.Add(1)
	}
	return &planted{Implementation: r, fault: fault, name: name}, err
}

func (p *planted) Close() error {
	p.closed.Do(func() { plantedOpen.Add(-1) })
	return p.Implementation.Close()
}

func (p *planted) Name() string {
	if p.name != "" {
		return p.name
	}
	return "twin"
}

func (p *planted) Profile() lockstep.Profile {
	profile := p.Implementation.Profile()
	if p.fault == "profile" {
		profile.Exp = (profile.Exp + 1) % lockstep.ExpC
	}
	return profile
}

func (p *planted) About() lockstep.About {
	about := lockstep.About{Inside: "a fault"}
	if p.fault == "unknown" {
		about.Unproven = errors.New("nobody knows")
	}
	return about
}

// wrapper is the reference by another name.
type wrapper struct{ *reference.Simulator }

func (wrapper) Name() string { return "twin" }

// Simulate flips the last bit of what the fault names at step 123, after it was
// computed.
func (p *planted) Simulate(
	ctx context.Context, jobs []lockstep.Job, opts lockstep.Options,
) iter.Seq2[int, lockstep.Result] {
	if p.fault == "crash" {
		os.Stderr.WriteString("fatal error: unexpected signal\n")
		os.Exit(9)
	}
	if p.fault != "delegates" { // what it is for a test is no wrapper, but an engine like others
		if p.fault != "silent" {
			lockstep.Computes(ctx, p)
		}
		ctx, _ = lockstep.WithComputing(ctx) // so that nobody hears the reference in it
	}
	jobs = slices.Clone(jobs)
	for i := range jobs {
		observe := jobs[i].Observe
		if observe == nil {
			continue
		}
		jobs[i].Observe = func(s *lockstep.Step) {
			if s.Index == 123 && s.Logits != nil {
				c := *s
				switch s = &c; p.fault {
				case "logits":
					c.Logits = slices.Clone(s.Logits)
					c.Logits[7] = math.Float32frombits(math.Float32bits(c.Logits[7]) ^ 1)
				case "sample":
					c.Sample ^= 1
				}
			}
			observe(s)
		}
	}
	return func(yield func(int, lockstep.Result) bool) {
		for i, r := range p.Implementation.Simulate(ctx, jobs, opts) {
			switch {
			case p.fault == "costs" && i == 1:
				r.Costs.Jerk = math.Nextafter(r.Costs.Jerk, 0)
			case p.fault == "none" && i == 1:
				continue
			}
			if !yield(i, r) {
				return
			}
		}
	}
}

// testEngines are the reference and others of those names: equal, absent, or the
// fault that is planted in it.
func testEngines(names string) []engines.Engine {
	list := []engines.Engine{*engines.Reference()}
	if names == "itself" { // the twin under the reference's name
		list[0].New = func(c engines.Config) (lockstep.Implementation, error) {
			return newPlanted(c, names, "reference")
		}
	}
	for fault := range strings.SplitSeq(names, ",") {
		var missing, broken error
		device := &want.Want{
			Name: want.GPU.Name,
			What: "a device",
			Find: func() (string, error) { return "", errors.New("no device") },
		}
		switch fault {
		case "absent", "absent-lacks":
			missing = errors.New("no device")
		case "denied": // it is here all the same
			missing, device.Find = errors.New(
				"no device",
			), func() (string, error) { return "/dev/twin", nil }
		case "broken":
			broken = errors.New("it does not open")
		}
		list = append(
			list,
			engines.Engine{
				Name:      "twin",
				Folder:    "twin",
				Want:      device,
				ByLibrary: true,
				Lacks: func(lockstep.Profile) error {
					if strings.Contains(fault, "lacks") {
						return errors.New("it has no such form")
					}
					return nil
				},
				Missing: func() error { return missing },
				New: func(c engines.Config) (lockstep.Implementation, error) {
					if broken != nil {
						return nil, broken
					}
					if fault == "embeds" {
						r, err := reference.New(c.Model, c.Profile)
						return wrapper{r}, err
					}
					return newPlanted(c, fault, "")
				},
			},
		)
	}
	return list
}

// plant sets the engines of a test.
func plant(t *testing.T, names string) {
	t.Helper()
	restore := engines.Replace(testEngines(names))
	t.Cleanup(func() {
		restore()
		if n := plantedOpen.Load(); n != 0 {
			t.Errorf("%s: %d engines are open when all commands have ended", names, n)
			plantedOpen.Store(0)
		}
	})
}

// shortInputs are flags for the project's own network and two routes of 130 rows.
func shortInputs(t *testing.T) []string {
	t.Helper()
	dir := t.TempDir()
	model, _, err := defaults.Write(filepath.Join(dir, "own"))
	if err != nil {
		t.Fatal(err)
	}
	routes := filepath.Join(dir, "routes")
	for name, target := range map[string]string{"a": "0.5", "b": "-0.25"} {
		shortRoute(
			t, mkdir(t, filepath.Join(routes, name+".csv")), 130,
			func(text string) string { return strings.ReplaceAll(text, ",0.5,", ","+target+",") },
		)
	}
	return []string{"--model_path", model, "--data_path", routes}
}

const goldenDefault = "../../golden/testdata/default"

// TestCompareEngines: what is printed and the exit status, for engines that are equal,
// differ, or cannot run.
func TestCompareEngines(t *testing.T) {
	inputs := shortInputs(t)
	for name, c := range map[string]struct {
		twin   string
		args   string
		status int
		want   []string
	}{
		"equal": {"equal", "", exitOK, []string{"equal           twin against " +
			"reference, tinyphysics-default.onnx: 2 of 2 rollouts equal, 220 steps\n"}},
		"gains": {"equal", "--only a/*,0 --pid 1,0,0 --pid 2,0,0", exitUsage,
			[]string{"no rollout has such a name"}},
		"some gains": {"equal", "--only b/pid_2_0_0 --pid 1,0,0 --pid 2,0,0", exitOK,
			[]string{"1 of 1 rollouts equal"}},
		"different": {"logits", "", exitParity, []string{
			"different       twin against reference",
			"route a, controller pid, step 123, stage logits, index 7: want ",
			", 1 ulp apart",
			" --only a/pid\n",
			"2 findings in logits, in 2 of 2 rollouts",
		}},
		"two": {"equal,logits", "", exitParity, []string{
			"\nequal           twin against", "\ndifferent       twin against",
		}},
		"a token": {"sample", "", exitParity,
			[]string{"step 123, stage sample", "from the nearest edge of the CDF"}},
		"inexact": {"logits", "--inexact", exitOK, []string{"0 of 2 rollouts equal, " +
			"220 steps, 0 tokens differ and are explained"}},
		"inexact token": {"sample", "--inexact --budget 100", exitParity,
			[]string{"unexplained: "}},
		"absent": {"absent", "", exitUsage, []string{
			"not applicable  twin against reference, tinyphysics-default.onnx: twin: no device",
			"nothing was compared",
		}},
		"absent, by name": {"absent", "reference twin", exitUsage, []string{"not run         " +
			"twin against reference, tinyphysics-default.onnx: twin: no device"}},
		"absent, allowed": {"absent,equal", "--allow-absent", exitOK, []string{
			"not run         twin",
			"equal           twin",
		}},
		"nothing but absent": {"absent", "--allow-absent", exitUsage, []string{
			"not run         twin",
			"nothing was compared",
		}},
		"denied": {"denied", "--allow-absent", exitUsage, []string{"failed          " +
			"twin against reference, tinyphysics-default.onnx: twin: a device is here " +
			"(/dev/twin), but what needs it says: no device"}},
		"broken": {"broken", "--allow-absent", exitUsage, []string{"failed          " +
			"twin against reference, tinyphysics-default.onnx: twin: it does not open"}},
		"another profile": {"profile", "--profile ort1.30-avx2-expU-sinfma-csv2", exitUsage,
			[]string{"not applicable  twin against reference, tinyphysics-default.onnx: twin: " +
				"it computes with profile ort1.30-avx2-expF-sinfma-csv2 on this machine"}},
		"unknown profile":  {"unknown", "", exitUsage, []string{"parity is not claimed"}},
		"unknown, inexact": {"unknown", "--inexact", exitOK, []string{"equal           twin"}},
		"one engine": {"equal", "reference", exitOK, []string{"equal           twin " +
			"against reference"}},
		"the other way": {"equal", "twin reference", exitOK, []string{"equal           " +
			"reference against twin"}},
		"itself": {"itself", "reference twin", exitUsage, []string{"both sides are " +
			"*main.planted: a fault: nothing is proved"}},
		"embedded": {"embeds", "", exitUsage, []string{
			"failed          twin against reference",
			": *reference.Simulator: the specification, kernels ",
			" computes on both sides, whatever they are called: that they are equal proves nothing",
		}},
		"delegated": {"delegates", "reference twin", exitUsage, []string{
			"failed          twin against reference",
			" computes on both sides",
		}},
		"hidden": {"silent", "", exitUsage, []string{"twin does not say what " +
			"computes its rollouts: an engine's Simulate calls lockstep.Computes"}},
		"unknown engine": {"equal", "reference warp", exitUsage, []string{"warp: no such " +
			"file or directory: want a trace, or an engine: reference, twin"}},
		"twice": {"equal", "twin twin", exitUsage, []string{"engine twin is named twice"}},
		"only": {"equal", "--only nothing", exitUsage,
			[]string{`--only "nothing": no rollout has such a name`}},
		"bad pattern": {"equal", "--only [", exitUsage,
			[]string{`--only "[": syntax error in pattern`}},
		"budget": {"equal", "--budget 3", exitUsage, []string{"--budget 3: want 0 " +
			"or more, and --inexact with it"}},
		"model of one's own": {"equal", "--own", exitUsage, []string{"--own is the project's " +
			"network, and --model_path another: for the project's routes with that, --data_path " +
			"own"}},
	} {
		t.Run(name, func(t *testing.T) {
			plant(t, c.twin)
			args := append(append([]string{"compare"}, inputs...), strings.Fields(c.args)...)
			status, stdout, stderr := lockstepRun(t.Context(), args...)
			if status != c.status {
				t.Errorf("exit %d, want %d", status, c.status)
			}
			for _, want := range c.want {
				if !strings.Contains(stdout+stderr, want) {
					t.Errorf("%q is not in\n%s%s", want, stdout, stderr)
				}
			}
			if n := strings.Count(stdout, "both sides have profile"); n > 1 {
				t.Errorf("it says %d times which profile both sides have", n)
			}
		})
	}
}

// TestCompareBadRoute: where a route cannot be read the others are not equal without it.
func TestCompareBadRoute(t *testing.T) {
	plant(t, "equal")
	inputs := shortInputs(t)
	if err := os.WriteFile(filepath.Join(inputs[3], "c.csv"), []byte("none"), 0o666); err != nil {
		t.Fatal(err)
	}
	if status, stdout, stderr := lockstepRun(t.Context(),
		append([]string{"compare"}, inputs...)...); status != exitUsage ||
		!strings.Contains(stderr, "c.csv") {
		t.Errorf("exit %d\n%s%s", status, stdout, stderr)
	}
}

// TestDifferences: each bit of each number of a rollout is one that can differ, wherever the
// rollout stands; what failed for one alone differs, and what failed for both does not.
func TestDifferences(t *testing.T) {
	made := func() (runs []report.Run) {
		for range 2 {
			var run report.Run
			for range 3 {
				var r report.RouteResult
				r.Costs = lockstep.Costs{Lataccel: 1, Jerk: 2, Total: 3}
				r.Trajectory = &lockstep.Trajectory{
					Lataccel: []float64{4, math.NaN(), 0}, Action: []float64{6, 7, 8},
				}
				run.Routes = append(run.Routes, r)
			}
			runs = append(runs, run)
		}
		return runs
	}
	flip := func(x *float64) { *x = math.Float64frombits(math.Float64bits(*x) ^ 1<<63) }
	for name, change := range map[string]func(r *report.RouteResult){
		"lataccel cost": func(r *report.RouteResult) { flip(&r.Costs.Lataccel) },
		"jerk cost":     func(r *report.RouteResult) { flip(&r.Costs.Jerk) },
		"total cost":    func(r *report.RouteResult) { flip(&r.Costs.Total) },
		"first":         func(r *report.RouteResult) { flip(&r.Trajectory.Lataccel[0]) },
		"last":          func(r *report.RouteResult) { flip(&r.Trajectory.Lataccel[2]) },
		"first action":  func(r *report.RouteResult) { flip(&r.Trajectory.Action[0]) },
		"last action":   func(r *report.RouteResult) { flip(&r.Trajectory.Action[2]) },
		"failure":       func(r *report.RouteResult) { *r = report.RouteResult{}; r.Err = io.EOF },
		"end":           func(r *report.RouteResult) { r.Err = io.EOF },
	} {
		for k := range 2 {
			for i := range 3 {
				a, b := made(), made()
				change(&a[k].Routes[i])
				if n := differences(a, b) + differences(b, a); n != 2 {
					t.Errorf("%s of rollout %d, %d differs, and is counted %d times", name, k, i, n)
				}
				if change(&b[k].Routes[i]); differences(a, b) != 0 {
					t.Errorf("%s of rollout %d, %d is counted where both are the same", name, k, i)
				}
				failed := report.RouteResult{Result: lockstep.Result{Err: io.EOF}}
				for _, runs := range [][]report.Run{a, b} {
					runs[k].Routes[(i+2)%3] = failed
				}
				if change(&b[k].Routes[(i+1)%3]); differences(a, b) != 1 {
					t.Errorf("%s of rollout %d, %d is not counted beside one that failed for both",
						name, k, (i+1)%3)
				}
			}
		}
	}
}

// TestRace: demo counts the rollouts that an engine computes otherwise.
func TestRace(t *testing.T) {
	inputs := shortInputs(t)
	ref, err := reference.New(inputs[1], reference.HostProfile())
	if err != nil {
		t.Fatal(err)
	}
	s := &simulation{simulator: ref}
	for _, name := range []string{"a", "b"} {
		route, err := routefile.Loader{}.Load(filepath.Join(inputs[3], name+".csv"))
		if err != nil {
			t.Fatal(err)
		}
		s.routes = append(s.routes, route)
	}
	var stdout strings.Builder
	env := &environment{ctx: t.Context(), stdout: &stickyWriter{w: &stdout}, stderr: io.Discard}
	runs, different, err := s.race(
		env,
		[]lockstep.Implementation{
			ref, &planted{Implementation: ref, fault: "equal"},
			&planted{Implementation: ref, fault: "costs"},
			&planted{Implementation: ref, fault: "none"},
		},
	)
	if err != nil || different != 2 || len(runs) != 2 ||
		!strings.Contains(stdout.String(), "every lataccel, action and cost equal") ||
		!strings.Contains(stdout.String(), "1 rollouts differ") {
		t.Errorf("%d differ, %v:\n%s", different, err, &stdout)
	}
	pid, _ := runs[0].Costs()
	zero, _ := runs[1].Costs()
	if costs := regexp.MustCompile(` +` + reference.FormatCost(reference.MeanCosts(pid).Total) +
		` +` + reference.FormatCost(reference.MeanCosts(zero).Total) + ` +–`); !costs.MatchString(
		stdout.String()) || runs[0].Controller != "pid" || runs[1].Controller != "zero" {
		t.Errorf("%v is not in\n%s", costs, &stdout)
	}
	s.simulator = &planted{Implementation: ref, fault: "none"}
	if r := s.simulate(env, s.jobs([]lockstep.Policy{lockstep.Zero{}}),
		lockstep.Options{}); r[0].Err != nil ||
		r[1].Err == nil {
		t.Errorf("errors %v and %v, want one of the rollout that has no result", r[0].Err, r[1].Err)
	}
	var stop context.CancelFunc
	env.ctx, stop = context.WithTimeout(t.Context(), 0)
	defer stop()
	for _, r := range s.simulate(
		env, s.jobs([]lockstep.Policy{lockstep.Zero{}}), lockstep.Options{},
	) {
		if !errors.Is(r.Err, context.DeadlineExceeded) {
			t.Errorf("error %v, want the one that ended the run", r.Err)
		}
	}
}

// TestRaceRates: how many rollouts an engine does in a second is of all of them.
func TestRaceRates(t *testing.T) {
	s := searched(t)
	synctest.Test(t, func(t *testing.T) { // in which a second is one
		var out strings.Builder
		env := &environment{ctx: t.Context(), stdout: &stickyWriter{w: &out}, stderr: io.Discard}
		all := []lockstep.Implementation{slow{s.simulator, 4 * time.Second}}
		if _, _, err := s.race(env, all); err != nil || !strings.Contains(out.String(), " 1.5 ") {
			t.Errorf("%v, %s; want 1.5 of 6 in 4 s", err, &out)
		}
	})
}

// lackingCase is a case whose comparisons fail for want of something.
type lackingCase struct{}

func (lackingCase) Replay() string { return "" }
func (lackingCase) Compare(context.Context, string, string) (*parity.Report, error) {
	return nil, lacking("gone")
}
func (lackingCase) Run(context.Context, string) ([]parity.CaseResult, error) {
	return nil, lacking("gone")
}
func (lackingCase) Check([]parity.CaseResult) (*parity.Report, error) { return nil, nil }

// TestLackingLater: what does not open is left out; what opens, and fails for want of something
// when it runs, is a failure.
func TestLackingLater(t *testing.T) {
	env := &environment{ctx: t.Context(), stdout: &stickyWriter{w: io.Discard}, stderr: io.Discard}
	p := &comparisons{env: env, output: &outputFlags{AllowAbsent: true}}
	all := []opened[string]{
		{name: "first"}, {name: "absent", err: lacking("none")}, {name: "other"},
	}
	if err := replay(p, lackingCase{}, "case.json", []parity.CaseResult{{}}, all); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{verdict.Failed, verdict.NotRun, verdict.Failed} {
		if c := p.list[i]; c.Outcome() != want {
			t.Errorf("%s is %s, want %s", c.Title(), c.Outcome(), want)
		}
	}
}

// TestCompareStatus: what could not be compared counts for more than what differs, and
// what was not run only where that is allowed.
func TestCompareStatus(t *testing.T) {
	equal := verdict.Comparison{
		Report: &parity.Report{
			Exact:    true,
			Steps:    1,
			Compared: map[string]int{"lataccel": 1},
			Rollouts: []parity.Verdict{{Steps: 1, Equal: true}},
		},
	}
	differs, broken, absent, other := verdict.Comparison{Differs: "x"}, verdict.Comparison{
		Error: "x",
	}, verdict.Comparison{NotRun: "x"}, verdict.Comparison{NotApplicable: "x"}
	for _, c := range []struct {
		list    []verdict.Comparison
		status  int
		allowed int // with --allow-absent
	}{
		{[]verdict.Comparison{equal, equal}, exitOK, exitOK},
		{[]verdict.Comparison{equal, other}, exitOK, exitOK},
		{[]verdict.Comparison{equal, absent}, exitUsage, exitOK},
		{[]verdict.Comparison{equal, differs, absent}, exitUsage, exitParity},
		{[]verdict.Comparison{equal, differs}, exitParity, exitParity},
		{[]verdict.Comparison{differs, broken}, exitUsage, exitUsage},
		{[]verdict.Comparison{absent}, exitUsage, exitUsage},
		{[]verdict.Comparison{other}, exitUsage, exitUsage},
		{nil, exitUsage, exitUsage},
	} {
		for i, want := range []int{c.status, c.allowed} {
			env := &environment{
				ctx:    t.Context(),
				stdout: &stickyWriter{w: io.Discard},
				stderr: io.Discard,
			}
			p := &comparisons{env: env, output: &outputFlags{AllowAbsent: i == 1}, list: c.list}
			err := p.end()
			got := exitUsage // of any error
			var status exitStatus
			if err == nil {
				got = exitOK
			} else if errors.As(err, &status) {
				got = int(status)
			}
			if got != want {
				t.Errorf("%+v, absent allowed %v: exit %d, want %d", c.list, i == 1, got, want)
			}
		}
	}
}

// TestProfilesTold: of which profiles both sides are is said before the first comparison that was
// made of them, and again once they are others.
func TestProfilesTold(t *testing.T) {
	var out strings.Builder
	p := &comparisons{
		env:    &environment{ctx: t.Context(), stdout: &stickyWriter{w: &out}},
		output: &outputFlags{},
	}
	made := &parity.Report{
		Exact: true, Steps: 1, Compared: map[string]int{"action": 1},
		Rollouts: []parity.Verdict{{Steps: 1, Equal: true}},
	}
	for i, c := range []struct {
		profiles []string
		report   *parity.Report
		want     string
	}{
		{[]string{"x", "x"}, nil, "failed  "}, {nil, made, "equal  "},
		{[]string{"x", "x"}, made, "both sides have profile x\nequal  "},
		{[]string{"x", "x"}, made, "equal  "}, {nil, made, "equal  "},
		{[]string{"x", "x"}, made, "equal  "},
		{[]string{"y", "y"}, made, "both sides have profile y\nequal  "},
	} {
		out.Reset()
		err := errors.New("it was not made")
		if c.report != nil {
			err = nil
		}
		k := verdict.Comparison{Profiles: c.profiles}
		if err := p.made(k, c.report, err); err != nil || !strings.HasPrefix(out.String(), c.want) {
			t.Errorf("comparison %d: %v, %s, want %s", i, err, &out, c.want)
		}
	}
}

// TestCompareReplayCommand runs the command that a divergence prints.
func TestCompareReplayCommand(t *testing.T) {
	plant(t, "logits")
	inputs := shortInputs(t)
	routes := inputs[len(inputs)-1]
	// beside b a name that --only would take for a pattern, and which matches b alone
	if err := os.Rename(
		filepath.Join(routes, "a.csv"), filepath.Join(routes, `[b]*?\.csv`),
	); err != nil {
		t.Fatal(err)
	}
	_, stdout, _ := lockstepRun(
		t.Context(),
		append(
			append([]string{"compare"}, inputs...), "--num_segs=3", "--pid", "1,0,0", "--pid=2,0,0",
			"--only", "*/*_1_*", "--report", filepath.Join(t.TempDir(), "r.html"),
		)...)
	_, command, ok := strings.Cut(stdout, "replay: lockstep ")
	if !ok {
		t.Fatalf("no command in %s", stdout)
	}
	command, _, _ = strings.Cut(command, "\n")
	if want := "compare " + strings.Join(inputs, " ") + " --num_segs=3 --pid 1,0,0 --pid=2,0,0 " +
		`--only '\[b]\*\?\\/pid_1_0_0'`; command != want {
		t.Errorf("%q, want %q", command, want)
	}
	words := strings.Fields(strings.ReplaceAll(command, "'", ""))
	status, again, _ := lockstepRun(t.Context(), words...)
	if status != exitParity || !strings.Contains(again, "0 of 1 rollouts equal") {
		t.Errorf("exit %d, %s", status, again)
	}
}

// TestCompareJSON: lines of comparisons, then a summary; and a report of the same.
func TestCompareJSON(t *testing.T) {
	plant(t, "equal,logits,absent")
	page := filepath.Join(t.TempDir(), "report.html")
	args := append(
		append([]string{"compare"}, shortInputs(t)...), "--num_segs", "1", "--json",
		"--allow-absent", "--report", page,
	)
	status, stdout, stderr := lockstepRun(t.Context(), args...)
	if status != exitParity || stderr != "" {
		t.Errorf("exit %d, stderr %s", status, stderr)
	}
	var outcomes []string
	var summary *verdict.Summary
	for line := range strings.Lines(stdout) {
		var l verdict.JSONLine
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		if summary != nil {
			t.Error("a line after the summary")
		}
		if summary = l.Summary; summary == nil {
			outcomes = append(outcomes, l.Comparison.Outcome())
		}
	}
	if want := []string{verdict.Equal, verdict.Different, verdict.NotRun}; !slices.Equal(
		outcomes, want,
	) {
		t.Errorf("outcomes %v, want %v", outcomes, want)
	}
	if want := (verdict.Summary{Comparisons: 3, Equal: 1, Different: 1,
		NotRun: 1}); summary == nil ||
		*summary != want {
		t.Errorf("summary %+v, want %+v", summary, want)
	}
	html, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"1 of 2 comparisons differ",
		"route a, controller pid, step 123, stage logits, index 7",
		"<svg",
	} {
		if !strings.Contains(string(html), want) {
			t.Errorf("the report lacks %q", want)
		}
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := os.Remove(page); err != nil {
		t.Fatal(err)
	}
	if status, _, _ := lockstepRun(cancelled, args...); status != exitInterrupted {
		t.Errorf("interrupted: exit %d, want 130", status)
	}
	if _, err := os.Stat(page); err == nil {
		t.Error("an interrupted comparison left a report")
	}
}

// TestCompareBeside: the routes of recordings are found in the folder beside them.
func TestCompareBeside(t *testing.T) {
	t.Setenv("LOCKSTEP_ASSETS", t.TempDir())
	status, stdout, stderr := lockstepRun(
		t.Context(), "compare", "../../golden/testdata/hard", "reference", "--only",
		"hard-shortest/pid_3_0_0",
	)
	const want = "reference against ort1.30-avx512-expU-sinfma-csv2, project's network: " +
		"1 of 1 rollouts equal, 81 steps"
	if status != exitOK || !strings.Contains(stdout, want) {
		t.Errorf("exit %d, want %q\n%s%s", status, want, stdout, stderr)
	}
}

// TestCompareGoldens holds engines to recordings of the project's own network: equal ones in all
// profiles, others in one.
func TestCompareGoldens(t *testing.T) {
	set := filepath.Join(goldenDefault, "ort1.30-avx2-expU-sinfma-csv2")
	for _, c := range []struct {
		twin   string
		args   string
		status int
		want   []string
	}{
		{"equal", "", exitOK, []string{"equal           reference against " +
			"ort1.30-avx2-expU-sinfma-csv2, project's network: 1 of 1 rollouts equal, 580 steps\n",
			"equal           twin against ort1.30"}},
		{"logits", "", exitParity, []string{"equal           reference", "different       twin",
			"step 123, stage logits", "replay: lockstep compare " + set + " --only " +
				"g00002/pid"}},
		{"logits", "reference", exitOK, []string{"equal           reference"}},
		{"profile", "", exitOK, []string{"not applicable  twin"}},
		{"lacks", "", exitOK, []string{"not applicable  twin", "twin: it has no such form"}},
		{"absent", "twin", exitUsage, []string{"not run         twin"}},
		{"absent-lacks", "twin", exitUsage, []string{"not run         twin"}},
	} {
		plant(t, c.twin)
		folder := set
		if c.twin == "equal" {
			folder = goldenDefault
		}
		args := append([]string{"compare", folder}, strings.Fields(c.args)...)
		status, stdout, stderr := lockstepRun(t.Context(), append(args, "--only", "g00002/pid")...)
		if status != c.status {
			t.Errorf("%s %s: exit %d, want %d\n%s", c.twin, c.args, status, c.status, stderr)
		}
		for _, want := range c.want {
			if !strings.Contains(stdout, want) {
				t.Errorf("%s %s: %q is not in\n%s", c.twin, c.args, want, stdout)
			}
		}
	}

	refuses(t, "another controller than recorded", "--controller does not go with recordings",
		"compare", goldenDefault, "--controller", "zero")

	// Where the official network is absent, its recordings are not run.
	t.Setenv("LOCKSTEP_ASSETS", t.TempDir())
	plant(t, "equal")
	for _, args := range [][]string{
		{"goldens"}, {"../../golden/testdata"}, {"goldens", "reference"},
	} {
		args := append([]string{"compare", "--only", "0000?/zero"}, args...)
		if status, stdout, stderr := lockstepRun(t.Context(), args...); status != exitUsage ||
			!strings.Contains(
				stdout,
				"not run         reference against ort1.30-avx2-expU-sinfma-csv2, network "+
					"5beca7f0: the network of SHA-256 ",
			) {
			t.Errorf("%q: exit %d\n%s%s", args, status, stdout, stderr)
		}
	}

	// A recording that is not the one of the provenance is none.
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(set)); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "g00002.zero.npz"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "g00002.pid.npz"), data, 0o666); err != nil {
		t.Fatal(err)
	}
	if status, stdout, _ := lockstepRun(t.Context(), "compare", dir, "--only",
		"g00002/pid"); status != exitUsage ||
		!strings.Contains(stdout, "g00002.pid.npz has SHA-256 ") {
		t.Errorf("another recording: exit %d\n%s", status, stdout)
	}
	if status, _, stderr := lockstepRun(t.Context(), "compare", t.TempDir()); status != exitUsage ||
		!strings.Contains(stderr, "no recordings") {
		t.Errorf("an empty folder: exit %d, %s", status, stderr)
	}
}

// TestCompareReplay repeats cases that are kept.
func TestCompareReplay(t *testing.T) {
	const file = "../../parity/testdata/regressions/lataccel-clipped-at-every-step.json"
	plant(t, "equal")
	status, stdout, stderr := lockstepRun(t.Context(), "replay", file)
	if status != exitOK ||
		!strings.Contains(
			stdout,
			"equal           reference against kept results, lataccel-clipped-at-every-step: ",
		) ||
		!strings.Contains(
			stdout, "equal           twin against reference, lataccel-clipped-at-every-step: ",
		) {
		t.Errorf("exit %d\n%s%s", status, stdout, stderr)
	}
	kept, err := tinyphysics.LoadCase(file)
	if err != nil {
		t.Fatal(err)
	}
	kept.Results[0].Hash ^= 1
	kept.Workers, kept.Chunk = 3, 5
	dir := t.TempDir()
	if err := kept.Save(dir); err != nil {
		t.Fatal(err)
	}
	lockstepRun(t.Context(), "replay", dir)
	opened := reflect.ValueOf(plantedWith)
	for i := range opened.NumField() { // what a case says of an engine, whatever that may be
		name := opened.Type().Field(i).Name
		if says := reflect.ValueOf(*kept).FieldByName(name); says.IsValid() && name != "Model" &&
			!says.Equal(opened.Field(i)) {
			t.Errorf("the case has %s %v, and is repeated with %v", name, says, opened.Field(i))
		}
	}
	status, stdout, _ = lockstepRun(
		t.Context(), "replay", dir, "--engines", "reference", "--report",
		filepath.Join(dir, "r.html"),
	)
	if status != exitParity ||
		!strings.Contains(stdout, "different       reference against kept results") ||
		!strings.Contains(stdout, "replay: lockstep replay "+kept.Path) {
		t.Errorf("another result: exit %d\n%s", status, stdout)
	}
	kept.Results = nil
	if err := kept.Save(dir); err != nil {
		t.Fatal(err)
	}
	status, stdout, _ = lockstepRun(t.Context(), "replay", dir, "--engines", "reference")
	if status != exitUsage || !strings.Contains(stdout, "not applicable  reference against kept "+
		"results") || !strings.Contains(stdout, "no results are kept with the case") {
		t.Errorf("no results: exit %d\n%s", status, stdout)
	}
	replaysWithout(t, file)
	for args, want := range map[string]string{
		filepath.Join(dir, "none.json"): "no such file",
		t.TempDir():                     "no case in it",
		t.TempDir() + " --allow-absent": "no case in it",
		file + " --engines warp":        `engine "warp" is not known`,
	} {
		if status, _, stderr := lockstepRun(t.Context(),
			append([]string{"replay"}, strings.Fields(args)...)...); status != exitUsage ||
			!strings.Contains(stderr, want) {
			t.Errorf("%s: exit %d, %s; want %s", args, status, stderr, want)
		}
	}
}

// replaysWithout: an engine that is not here is missed where it was asked for by its name.
func replaysWithout(t *testing.T, file string) {
	t.Helper()
	plant(t, "absent")
	for names, want := range map[string]string{
		"": "not applicable  twin against", "reference,twin": "not run         twin against",
	} {
		args := []string{"replay", file}
		if names != "" {
			args = append(args, "--engines", names)
		}
		if status, stdout, _ := lockstepRun(t.Context(), args...); (status == exitOK) !=
			(names == "") || !strings.Contains(stdout, want) {
			t.Errorf("%q: exit %d, %s, want %s", args, status, stdout, want)
		}
	}
}

// record writes a trace of two routes.
func record(t *testing.T, inputs []string, file string, args ...string) {
	t.Helper()
	args = append(
		append([]string{"rollout", "--trace", file, "--no-cache"}, inputs...),
		append([]string{"--engine"}, args...)...)
	if status, _, stderr := lockstepRun(t.Context(), args...); status != exitOK {
		t.Fatalf("%q: exit %d, %s", args, status, stderr)
	}
}

// TestCompareTraces compares traces with each other and with engines.
func TestCompareTraces(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	plant(t, "logits")
	inputs := shortInputs(t)
	record(t, inputs, path("a.trace"), "reference")
	record(t, inputs, path("full.trace"), "reference", "--trace-values")
	record(t, inputs, path("planted.trace"), "twin", "--trace-values")
	record(t, inputs, path("pid.trace"), "reference", "--pid", "0.3,0.05,-0.1", "--pid", "1,0,0")
	record(
		t, inputs, path("expF.trace"), "reference", "--profile", "ort1.23-avx2-expF-sinfma-csv2",
		"--trace-values",
	)
	header := recordedHeader(t, path("a.trace"))
	ownTraces(t, path, header)
	whole, err := os.ReadFile(path("a.trace"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path("cut.trace"), whole[:len(whole)-40], 0o666); err != nil {
		t.Fatal(err)
	}

	for _, c := range []struct {
		args   string
		status int
		want   string
	}{
		{"a.trace full.trace", exitOK, "2 of 2 rollouts equal, 220 steps"},
		{"a.trace a.trace", exitUsage, "are one file: nothing would be proved"},
		{"blank.trace reference", exitUsage, ": nothing was compared\n"},
		{"a.trace planted.trace", exitParity, "step 123, stage logits"},
		{"full.trace planted.trace", exitParity, "step 123, stage logits, index 7"},
		{"a.trace reference", exitOK, "reference against " + path("a.trace")},
		{"twin a.trace", exitParity, path("a.trace") + " against twin"},
		{"pid.trace reference", exitOK, "4 of 4 rollouts equal"},
		{"mine.trace reference", exitOK, "1 of 1 rollouts equal, 110 steps, not compared: " +
			"action, tokens, states, logits, probs, cdf, draw, prediction"},
		{"other.trace reference", exitParity, "step 20, stage sample"},
		// though it says that it has none of the warm-up's
		{"warm.trace reference", exitParity, "step 20, stage sample"},
		{"expF.trace reference", exitOK, "2 of 2 rollouts equal"}, // in the trace's profile
		{"full.trace expF.trace", exitParity, "stage logits"},
		{"expF.trace reference --profile " + profile, exitParity, "stage logits"},
		{"a.trace pid.trace", exitParity, "no such rollout"},
		{"route.trace reference", exitUsage, `route "99999" is not under `},
		{"policy.trace reference", exitUsage,
			`controller "mpc" is not known: give it with --controller`},
		{"misnamed.trace reference", exitUsage,
			`controller "pid_3.0_0_0" is recorded by another name than engines have: want ` +
				"pid_3_0_0"},
		{"nobody.trace reference", exitUsage, "a rollout without a controller's name"},
		{"model.trace reference", exitUsage, "name the right one with --model_path"},
		{"model.trace a.trace", exitUsage, "is of the network"},
		{"cut.trace reference", exitUsage, "cut off"},
		{"none.trace reference", exitUsage, "no such file"},
		{"onnxruntime a.trace", exitUsage, "want a trace, or an engine: reference, twin"},
		{"a.trace", exitUsage, "a.trace with one engine, or with one trace"},
		{"a.trace full.trace reference", exitUsage, "a.trace with one engine, or with one "},
		{"a.trace reference --num_segs 1", exitUsage, "--num_segs does not go with traces"},
		{"a.trace reference --controller zero", exitUsage, "no rollout of it is of zero"},
		{"pid.trace reference --pid 1,0,0 --pid 1,0,1", exitUsage,
			"no rollout of it is of pid_1_0_1"},
		{"pid.trace reference --pid 1,0,0", exitOK, "4 of 4 rollouts equal"},
	} {
		args := []string{"compare"}
		if strings.Count(c.args, ".trace") < 2 { // else there are no routes to be named
			args = append(args, inputs...)
		}
		for _, word := range strings.Fields(c.args) {
			if strings.HasSuffix(word, ".trace") {
				word = path(word)
			}
			args = append(args, word)
		}
		status, stdout, stderr := lockstepRun(t.Context(), args...)
		if status != c.status || !strings.Contains(stdout+stderr, c.want) {
			t.Errorf(
				"%s: exit %d, want %d and %q\n%s%s", c.args, status, c.status, c.want, stdout,
				stderr,
			)
		}
	}
	refusesOthers(t, "compare", path("a.trace")+" "+path("full.trace"),
		"inexact budget report json allow-absent env")
	profilesFirst(t, path, header.Profile)
	plant(t, "absent")
	args := append(
		append([]string{"compare"}, inputs...), path("a.trace"), "twin", "--allow-absent",
	)
	if status, stdout, stderr := lockstepRun(t.Context(), args...); status != exitUsage ||
		!strings.Contains(stdout, "not run         twin") ||
		!strings.Contains(stderr, "nothing was compared") {
		t.Errorf("an absent engine: exit %d\n%s%s", status, stdout, stderr)
	}
	page := path("report.html")
	if status, _, _ := lockstepRun(t.Context(), "compare", path("full.trace"),
		path("planted.trace"), "--report", page, "--json"); status != exitParity {
		t.Errorf("exit %d", status)
	}
	if html, err := os.ReadFile(page); err != nil ||
		!strings.Contains(string(html), "bits wanted") {
		t.Errorf("the report: %v", err)
	}
}

// recordedHeader is the header of a trace of two routes, which has all of both.
func recordedHeader(t *testing.T, path string) trace.Header {
	t.Helper()
	f, err := trace.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if len(f.Rollouts) != 2 || f.Header.Engine != "reference" || len(f.Header.ModelSHA256) != 64 ||
		f.Rollouts[0].Digests.Len() != 110 ||
		f.Rollouts[0].End.Outcome == nil {
		t.Errorf("%d rollouts, %+v", len(f.Rollouts), f.Header)
	}
	return f.Header
}

// ownTraces writes traces as a user has them, of the first rollout of full.trace: names, tokens and
// lataccels, no more.
func ownTraces(t *testing.T, path func(string) string, header trace.Header) {
	t.Helper()
	f, err := trace.Open(path("full.trace"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	full := f.Rollouts[0]
	mine := trace.Header{Schema: header.Schema}
	skipped := mine
	skipped.Shortcuts = tinyphysics.Words(lockstep.SkipWarmup)
	elsewhere := header
	elsewhere.ModelSHA256 = strings.Repeat("0", 64)
	stages := header.Schema.Set(tinyphysics.Sample, tinyphysics.Lataccel)
	for _, c := range []struct {
		name          string
		header        trace.Header
		route, policy string
		stages        schema.StageSet
		outcome       []float64
	}{
		{"mine.trace", mine, "a", "pid", stages, full.End.Outcome},
		{"other.trace", mine, "b", "pid", stages, full.End.Outcome},
		{"warm.trace", skipped, "b", "pid", stages, full.End.Outcome},
		{"route.trace", mine, "99999", "pid", stages, full.End.Outcome},
		{"policy.trace", mine, "a", "mpc", stages, full.End.Outcome},
		{"misnamed.trace", mine, "a", "pid_3.0_0_0", stages, full.End.Outcome},
		{"nobody.trace", mine, "a", "", stages, full.End.Outcome},
		{"blank.trace", mine, "a", "pid", 0, nil},
		{"model.trace", elsewhere, "a", "pid", 0, nil},
	} {
		arrays := tinyphysics.Arrays()
		err := trace.WriteFile(path(c.name), c.header, arrays, func(w *trace.Writer) error {
			r := w.Begin(trace.Rollout{Key: []string{c.route, c.policy}})
			for i := range full.Digests.Len() {
				s, err := f.Step(full, i)
				if err != nil {
					return err
				}
				s.Has &= c.stages
				clear(s.Data)
				r.Observe(s)
			}
			r.End(c.outcome, nil)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// profilesFirst: of which profiles the sides are stands before what they come to.
func profilesFirst(t *testing.T, path func(string) string, profile string) {
	t.Helper()
	full, expF := path("full.trace"), path("expF.trace")
	for other, wants := range map[string][]string{
		expF: {
			"two profiles: " + full + " has " + profile + ", " + expF + " has ",
			", and bits differ where these do\ndifferent  ",
		},
		path("a.trace"): {"both sides have profile " + profile + "\nequal  "},
	} {
		_, stdout, _ := lockstepRun(t.Context(), "compare", full, other)
		if !strings.HasPrefix(stdout, wants[0]) ||
			!strings.Contains(stdout, wants[len(wants)-1]) {
			t.Errorf("%s: %s, want %q", other, stdout, wants)
		}
	}
}

// TestRolloutTraceFile: what a trace needs, and that none is left half done.
func TestRolloutTraceFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.trace")
	for args, want := range map[string]string{
		"--trace-values": "--trace-values goes with --trace",
		"--trace " + filepath.Join(dir, "none", "a.trace"): "--trace " + filepath.Join(dir,
			"none", "a.trace") + ": ",
	} {
		args := append([]string{"rollout", "--own", "--num_segs", "1"}, strings.Fields(args)...)
		if status, _, stderr := lockstepRun(t.Context(), args...); status != exitUsage ||
			!strings.Contains(stderr, want) {
			t.Errorf("%q: exit %d, %s; want %s", args, status, stderr, want)
		}
	}
	ctx := &countdown{t.Context(), 150} // in the second route
	if status, _, stderr := lockstepRun(ctx,
		append([]string{"rollout", "--trace", file},
			shortInputs(t)...)...); status != exitInterrupted ||
		!strings.Contains(stderr, "interrupted; 1 of 2") {
		t.Errorf("exit %d, %s", status, stderr)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

// TestCompareBatched: the flags as users give them, on the real engines.
func TestCompareONNXRuntime(t *testing.T) {
	assetstest.Model(t)
	want.ONNXRuntime.Need(t)
	status, stdout, stderr := lockstepRun(
		t.Context(), "compare", "reference", "onnxruntime", "--data_path",
		assetstest.RoutePath(t, "00000"), "--pid", "0.3,0.05,-0.1",
	)
	if status != exitOK ||
		!strings.Contains(
			stdout,
			"equal           onnxruntime against reference, "+assets.Model+": 1 of 1 rollouts "+
				"equal",
		) {
		t.Errorf("exit %d\n%s%s", status, stdout, stderr)
	}
}

// sourceTree makes a folder that passes for this module's source, in a git checkout with
// one commit, tagged base: with the goldens and cases of this one, and tests that pass.
func sourceTree(t *testing.T) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	write := func(file, text string) {
		path := filepath.Join(root, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module lockstep\n\ngo 1.26\n")
	write("a.go", "package lockstep\n")
	write("a_test.go", "package lockstep\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) {}\n")
	write("twin/twin.go", "package twin\n")
	write(
		"twin/twin_test.go", "package twin\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) {}\n",
	)
	write("README.md", "first\n")
	// Every target passes, and so does a test of each package that some of them must have run.
	write("Makefile", `%:
	@for folder in fuzz generate reference reference/classic batched batched/classic parity \
		parity/trace batched/onnxruntime internal/routecache cmd/lockstep gpu gpu/classic \
		gpu/internal/driver/cuda; do \
		echo '{"Action":"pass","Package":"lockstep/'$$folder'","Test":"TestA"}'; done
`)
	const set = "golden/testdata/default/ort1.30-avx2-expU-sinfma-csv2"
	for file, shorten := range map[string]func(string) string{
		set + "/g00002.zero.npz": nil,
		set + "/g00002.pid.npz":  nil,
		set + "/provenance.json": func(text string) string {
			var p map[string]any
			if err := json.Unmarshal([]byte(text), &p); err != nil {
				t.Fatal(err)
			}
			p["recordings"] = slices.DeleteFunc(p["recordings"].([]any),
				func(r any) bool { return r.(map[string]any)["route"] != "g00002" })
			short, err := json.Marshal(p)
			if err != nil {
				t.Fatal(err)
			}
			return string(short)
		},
		"parity/testdata/regressions/lataccel-clipped-at-every-step.json": nil,
		"gpu/internal/module/manifest.json":                               nil,
	} {
		data, err := os.ReadFile(filepath.Join("..", "..", file))
		if err != nil {
			t.Fatal(err)
		}
		text := string(data)
		if shorten != nil {
			text = shorten(text)
		}
		write(file, text)
	}
	write("parity/p.go", "package parity\n")
	write("golden/g.go", "package golden\n")
	for _, args := range [][]string{
		{"init", "--quiet"}, {"add", "--all"}, {"commit", "--quiet", "-m", "first"},
		{"tag", "base"},
	} {
		c := exec.Command(
			"git",
			append(
				[]string{
					"-c", "user.name=a", "-c", "user.email=a@example.org", "-c",
					"commit.gpgsign=false",
				},
				args...)...)
		c.Dir, c.Env = root, append(
			os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		)
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v\n%s", args[0], err, out)
		}
	}
	return root
}

// TestCompareKeep: a difference shrinks, is kept, and shows again when it is replayed.
func TestCompareKeep(t *testing.T) {
	plant(t, "logits")
	dir := t.TempDir()
	status, stdout, stderr := lockstepRun(
		t.Context(),
		append(
			append([]string{"compare"}, shortInputs(t)...), "--pid", "1,0,0", "--pid", "2,0,0",
			"--keep", dir,
		)...)
	if status != exitParity ||
		!strings.Contains(
			stdout, "kept: 1 of 4 rollouts, 124 rows, stage logits; replay: lockstep replay "+dir,
		) {
		t.Fatalf("exit %d\n%s%s", status, stdout, stderr)
	}
	files, err := filepath.Glob(filepath.Join(dir, "logits-twin-*.json"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	status, stdout, _ = lockstepRun(t.Context(), "replay", dir)
	if status != exitParity ||
		!strings.Contains(stdout, "equal           reference against kept results") ||
		!strings.Contains(stdout, "different       twin against reference") {
		t.Errorf("exit %d\n%s", status, stdout)
	}
	plant(t, "equal")
	if status, stdout, _ = lockstepRun(t.Context(), "replay", files[0]); status != exitOK {
		t.Errorf("mended: exit %d\n%s", status, stdout)
	}
	if status, _, stderr := lockstepRun(t.Context(), "compare", "goldens", "--keep",
		dir); status != exitUsage ||
		!strings.Contains(stderr, "--keep keeps what engines do") {
		t.Errorf("exit %d, %s", status, stderr)
	}
}

// TestHoldable: a case has a controller's gains, if these make it, or else its actions, and no job
// with a teacher; a controller that fails is in none.
func TestHoldable(t *testing.T) {
	s := searched(t)
	pid, failing := lockstep.PID{P: 1}, lockstep.PID{P: math.NaN()}
	table := &lockstep.Table{Actions: map[string][]float64{
		s.routes[0].Name: slices.Repeat([]float64{0.1}, lockstep.TableSteps),
	}}
	custom := func(gains lockstep.PID) lockstep.Policy {
		return lockstep.Custom{
			Name: "mine", New: func() lockstep.Controller { return reference.NewPID(gains) },
		}
	}
	jobs := (&simulation{routes: s.routes[:1]}).jobs([]lockstep.Policy{
		table, pid, lockstep.Zero{}, custom(pid),
	})
	jobs[2].Teacher = &lockstep.Trajectory{}
	held, err := holdable(t.Context(), jobs, s.simulator)
	if err != nil || len(held) != 3 || held[1].Policy != lockstep.Policy(pid) {
		t.Fatalf("%+v, %v", held, err)
	}
	k, err := tinyphysics.NewCase(held, lockstep.AllSteps)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"script", "pid", "script"} {
		if kind := k.Batch[i].Policy.Kind; kind != want {
			t.Errorf("job %d has a %s, want a %s", i, kind, want)
		}
	}
	if n := len(jobs[0].Policy.(*lockstep.Table).Actions); n != 1 {
		t.Error("the jobs that were given are others now")
	}
	jobs[3].Policy = custom(failing)
	if _, err := holdable(t.Context(), jobs, s.simulator); err == nil {
		t.Error("a controller that fails is held")
	}
}

// TestGate runs the gate as a user does, on a module with engines that are equal, that
// differ, and that crash.
func TestGate(t *testing.T) {
	root := sourceTree(t)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	gateProgram = []string{program}
	t.Cleanup(func() { gateProgram = nil })
	out := filepath.Join(t.TempDir(), "gate")
	t.Chdir(root)
	t.Setenv("LOCKSTEP_ASSETS", t.TempDir()) // the project's own network alone
	for _, w := range want.All {
		t.Setenv(w.Variable(), "")
	}
	edit := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(root, file), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}

	edit("README.md", "second\n")
	if status, stdout, r := gated(t, out, "logits"); status != exitOK ||
		!strings.HasPrefix(stdout, "documentation only\n      README.md\n") ||
		len(r.Checks) != 1 {
		t.Errorf("documentation: exit %d\n%s", status, stdout)
	}

	edit("twin/twin.go", "package twin\n\n// changed\n")
	if status, stdout, r := gated(t, out, "equal"); status != exitOK || len(r.Checks) != 27 {
		t.Errorf("equal engines: exit %d, %d checks\n%s", status, len(r.Checks), stdout)
	}
	// The same without what is required.
	_, stdout, r := gated(t, out, "absent", "--require", "gpu", "--require-hardware")
	if got, want := failed(r), []string{"goldens/twin", "engines", "regressions",
		"hardware"}; !slices.Equal(got, want) {
		t.Errorf("no GPU, but required: %v failed, want %v\n%s", got, want, stdout)
	}

	blamed := []string{"goldens/twin", "engines", "regressions"}
	_, stdout, r = gated(t, out, "logits")
	if got := failed(r); !slices.Equal(got, blamed) {
		t.Errorf("failed: %v, want %v\n%s", got, blamed, stdout)
	}
	reportedDifference(t, out)

	_, stdout, r = gated(t, out, "crash")
	if got := failed(r); !slices.Equal(got, blamed) ||
		!strings.Contains(
			stdout, "ended with status 9 before its last line: fatal error: unexpected signal",
		) {
		t.Errorf("a crash: %v failed, want %v\n%s", got, blamed, stdout)
	}

	interruptedGate(t, out)
	refusedGates(t)
}

// gated runs the gate with such an engine as twin, and holds its status and what it writes to one
// verdict.
func gated(t *testing.T, out, twin string, args ...string) (
	status int, stdout string, r verdict.GateResult,
) {
	t.Helper()
	plant(t, twin)
	t.Setenv("LOCKSTEP_TEST_ENGINES", twin)
	status, stdout, stderr := lockstepRun(
		t.Context(),
		append([]string{"gate", "--base", "base", "--keep-going", "--out", out}, args...)...)
	data, err := os.ReadFile(filepath.Join(out, verdict.JSONName))
	if err != nil {
		t.Fatalf("exit %d, %v\n%s%s", status, err, stdout, stderr)
	}
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	var suites struct {
		Failures int `xml:"failures,attr"`
		Errors   int `xml:"errors,attr"`
	}
	if data, err = os.ReadFile(filepath.Join(out, verdict.JUnitName)); err != nil {
		t.Fatal(err)
	} else if err := xml.Unmarshal(data, &suites); err != nil {
		t.Error(err)
	}
	if r.Passed != (status == exitOK) || r.Passed != (suites.Failures+suites.Errors == 0) {
		t.Errorf("exit %d, passed %v, %+v in the XML", status, r.Passed, suites)
	}
	html, err := os.ReadFile(filepath.Join(out, verdict.HTMLName))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{stdout, string(html)} {
		if !strings.Contains(text, r.Verdict) {
			t.Errorf("%q is not in %.200s", r.Verdict, text)
		}
	}
	return status, stdout, r
}

// failed are the checks that failed.
func failed(r verdict.GateResult) (names []string) {
	for _, c := range r.Checks {
		if c.Outcome == verdict.Failed {
			names = append(names, c.Name)
		}
	}
	return names
}

// reportedDifference: the report counts the findings, and shows where engines part.
func reportedDifference(t *testing.T, out string) {
	t.Helper()
	html, err := os.ReadFile(filepath.Join(out, verdict.HTMLName))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`<td class="bad" title="2 findings">✗ 2</td>`, // of the logits of two recordings
		"route g00002, controller zero, step 123, stage logits", "route hard-steps, controller " +
			"pid_3_0_0, step 123, stage logits, index 7",
		"bits wanted", "lateral acceleration", "cumulative probability", "lockstep compare " +
			"golden/testdata twin --only g00002/zero",
	} {
		if !strings.Contains(string(html), want) {
			t.Errorf("the report lacks %s", want)
		}
	}
}

// interruptedGate: it leaves no verdict, and none of the last time.
func interruptedGate(t *testing.T, out string) {
	t.Helper()
	plant(t, "equal")
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	status, _, stderr := lockstepRun(cancelled, "gate", "--out", out)
	if status != exitInterrupted || !strings.Contains(stderr, "nothing is written") {
		t.Errorf("interrupted: exit %d, %s", status, stderr)
	}
	if entries, err := os.ReadDir(out); err != nil || len(entries) != 0 {
		t.Errorf("interrupted: left %v, %v", entries, err)
	}
}

// refusedGates: what the gate does not take, and a folder that is not the program's source.
func refusedGates(t *testing.T) {
	t.Helper()
	for args, want := range map[string]string{
		"--require luck": `--require must be one of "` + strings.Join(want.Names(),
			`","`) + `" but got "luck"`,
		"--limit=-1s": "--limit -1s: want more than 0",
		"--limit=0s":  "--limit 0s: want more than 0",
	} {
		if status, _, stderr := lockstepRun(t.Context(),
			append([]string{"gate"}, strings.Fields(args)...)...); status != exitUsage ||
			!strings.Contains(stderr, want) {
			t.Errorf("%s: exit %d, %s", args, status, stderr)
		}
	}
	t.Chdir(t.TempDir())
	if status, _, stderr := lockstepRun(t.Context(), "gate"); status != exitUsage ||
		!strings.Contains(stderr, "is not inside lockstep's source") {
		t.Errorf("elsewhere: exit %d, %s", status, stderr)
	}
}

// TestCompareBesideFolders: an engine's name means the engine, also in the repository's
// root, where a folder has it too.
func TestCompareBesideFolders(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "reference"), 0o777); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	status, stdout, stderr := lockstepRun(
		t.Context(), "compare", "reference", "batched", "--own", "--num_segs", "1",
	)
	if status != exitOK {
		t.Errorf("exit %d, %s%s", status, stdout, stderr)
	}
	// What is compared unless somebody says what goes through all of the specification.
	n := len(branches.TinyPhysics())
	if want := fmt.Sprintf("exercised %d of %[1]d branches of the specification; the draw "+
		"nearest to an edge of the CDF is 0 from it, at route hard-edges", n); !strings.Contains(
		stdout,
		want,
	) {
		t.Errorf("%q is not in\n%s", want, stdout)
	}
}
