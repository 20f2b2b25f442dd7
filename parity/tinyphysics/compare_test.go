package tinyphysics

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"lockstep"
	"lockstep/internal/simtest"
	"lockstep/parity"
	"lockstep/parity/schema"
	"lockstep/parity/trace"
	"lockstep/parity/verdict"
)

// tester is a testing.TB or a rapid.T.
type tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// compare compares at all steps.
func compare(
	t tester, want, got parity.Side, jobs []lockstep.Job, opts parity.CompareOptions,
) *parity.Report {
	t.Helper()
	report, err := Compare(context.Background(), want, got, jobs, lockstep.AllSteps, opts)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := json.Marshal(report); err != nil {
		t.Fatalf("the report has no JSON form: %v", err)
	}
	return report
}

// record writes a simulator's trace and opens it.
func record(
	t testing.TB, sim lockstep.Simulator, jobs []lockstep.Job, shortcuts lockstep.Shortcuts,
	full schema.StageSet,
) *trace.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), sim.Name()+".trace")
	if err := recordTo(context.Background(), sim, jobs, shortcuts, trace.Header{}, full,
		path); err != nil {
		t.Fatal(err)
	}
	f, err := trace.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// TestLacking: what a recording has not is counted, stage by stage, and an input of a name
// that nobody knows is not passed over.
func TestLacking(t *testing.T) {
	jobs, a := toyJobs(3, 140), &toy{name: "a"}
	f := record(t, a, jobs, lockstep.AllSteps, 0)
	var fewer schema.Digests
	for i := range f.Rollouts[1].Digests.Len() {
		s := f.Rollouts[1].Digests.At(i)
		if i > 0 {
			s.Has &^= view.Set(Logits)
		}
		fewer.Append(s)
	}
	f.Rollouts[1].Digests = fewer
	f.Rollouts[2].End.Outcome = nil
	r := compare(t, parity.Traced(f), Live(a), jobs, parity.CompareOptions{})
	if want := map[string]int{Logits: 119, Costs: 1}; r.Err() != nil ||
		!maps.Equal(r.Lacking, want) {
		t.Errorf("lacking %v, want %v; %v", r.Lacking, want, r.Err())
	}
	c := verdict.Comparison{Report: r}
	if got, want := c.Extent(), "3 of 3 rollouts equal, 360 steps, not compared: 119 of logits, "+
		"1 of costs"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	broken := &toy{name: "b", fail: func(route string, step int) error {
		if route == "00001" && step == 111 {
			return errors.New("it broke")
		}
		return nil
	}}
	c.Report = compare(t, Live(broken), Live(broken), jobs, parity.CompareOptions{})
	if got, want := c.Extent(), "3 of 3 rollouts equal, 331 steps, 1 end with an error on both "+
		"sides: it broke"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	f.Rollouts[0].Inputs = map[string]string{"row": "140"}
	for side, c := range map[string][2]parity.Side{
		"want": {parity.Traced(f), Live(a)}, "got": {Live(a), parity.Traced(f)},
		"both": {parity.Traced(f), parity.Traced(f)},
	} {
		r = compare(t, c[0], c[1], jobs, parity.CompareOptions{})
		if want := `stage route: want inputs of the names a_ego, `; r.First == nil ||
			!strings.Contains(r.First.Error(), want) ||
			!strings.Contains(r.First.Error(), `got one named "row"`) {
			t.Errorf("%s: %v, want %s", side, r.Err(), want)
		}
	}
}

func TestCompareEqual(t *testing.T) {
	jobs := toyJobs(5, 140)
	a, b := &toy{name: "a"}, &toy{name: "b"}
	for name, c := range map[string]struct{ want, got parity.Side }{
		"live":     {Live(a), Live(b)},
		"parallel": {parallel(a, 4), parallel(b, 3)},
		"recorded": {parity.Traced(record(t, a, jobs, lockstep.AllSteps, 0)), Live(b)},
		"recorded in got": {Live(a),
			parity.Traced(record(t, b, jobs, lockstep.AllSteps, everything))},
		"both recorded": {parity.Traced(record(t, a, jobs, lockstep.AllSteps, 0)),
			parity.Traced(record(t, b, jobs, lockstep.AllSteps, everything))},
	} {
		t.Run(name, func(t *testing.T) {
			for _, inexact := range []bool{false, true} {
				r := compare(t, c.want, c.got, jobs, parity.CompareOptions{Inexact: inexact})
				if err := r.Err(); err != nil || r.Equal() != 5 || r.Steps != 5*120 ||
					r.Forced != 0 ||
					r.Unjudged != 0 ||
					len(r.Findings) != 0 {
					t.Errorf("%v; %d equal, %d steps", err, r.Equal(), r.Steps)
				}
				for _, stage := range stages[:10] {
					if r.Compared[stage] != 600 {
						t.Errorf("stage %s: %d compared", stage, r.Compared[stage])
					}
				}
				if r.Compared[Costs] != 5 {
					t.Errorf("%d costs compared", r.Compared[Costs])
				}
				for _, v := range r.Rollouts {
					if v.WantHash != v.GotHash || v.Steps != 120 {
						t.Errorf("%+v", v)
					}
				}
			}
		})
	}
}

// TestCompareLocates flips a bit of a stage of a step of one of many routes, once. It
// must be found there, described in full, and nothing else must be named.
func TestCompareLocates(t *testing.T) {
	jobs := toyJobs(3, 118)
	a := &toy{name: "a"}
	recordedWant := parity.Traced(record(t, a, jobs, lockstep.AllSteps, view.Set(CDF)))
	rapid.Check(t, func(t *rapid.T) {
		stage := rapid.SampledFrom(stages).Draw(t, "stage")
		at := rapid.IntRange(20, 117).Draw(t, "step")
		job := rapid.IntRange(0, len(jobs)-1).Draw(t, "job")
		index, bit := rapid.IntRange(0, 1023).Draw(t, "index"), rapid.IntRange(0, 63).Draw(t, "bit")
		if stage == Costs {
			at = -1
		}
		planted := 0
		b := &toy{name: "b", plant: func(route string, step int, s string, x *lockstep.Step) {
			if route == jobs[job].Route.Name && step == at && s == stage {
				flipBit(x, stage, index, bit)
				planted++
			}
		}}
		for name, want := range map[string]parity.Side{"live": Live(a), "recorded": recordedWant} {
			planted = 0
			r := compare(
				t, want, Live(b), jobs,
				parity.CompareOptions{
					Replay: func(t *parity.RolloutTask) string { return "replay " + t.Key[0] },
				},
			)
			d := r.First
			if planted == 0 || r.OK() || d == nil {
				t.Fatalf("%s: nothing is found: %v", name, r.Err())
			}
			locates(t, name, r, jobs[job].Route.Name, stage, at)
			findsOne(t, name, r, len(jobs), job, stage, at)
			plots(t, name, r, stage)
		}
	})
}

// locates holds the first difference to the place of the bit that was flipped.
func locates(t *rapid.T, name string, r *parity.Report, route, stage string, at int) {
	t.Helper()
	d := r.First
	if d.Key[0] != route || d.Step != at || d.Stage != stage ||
		d.Key[1] != "pid" ||
		d.Replay != "replay "+d.Key[0] ||
		d.Unrepeated {
		t.Fatalf(
			"%s: %+v, want stage %v at step %d of %s", name, d, stage, at,
			route,
		)
	}
	isArray := stage != Costs && view.Arrays().Has(view.Index(stage))
	if d.Index < 0 && (name == "live" || !isArray || stage == CDF) {
		t.Fatalf("%s: no index: %v", name, d)
	}
	if known := d.Index >= 0; known && isArray && d.Values != 1 {
		t.Fatalf("%s: %d values differ, want 1: %v", name, d.Values, d)
	}
}

// findsOne holds a report to one finding, in one rollout.
func findsOne(
	t *rapid.T, name string, r *parity.Report, jobs, job int, stage string, at int,
) {
	t.Helper()
	if len(r.Findings) != 1 || r.Findings[0].Findings != 1 || r.Findings[0].Rollouts != 1 ||
		r.Equal() != jobs-1 ||
		len(r.Others) != 0 {
		t.Fatalf("%s: faults %+v, %d equal", name, r.Findings, r.Equal())
	}
	if v := r.Rollouts[job]; v.Equal || v.First == nil ||
		*v.First != (parity.Finding{Step: at, Stage: stage}) ||
		v.Findings != 1 ||
		!v.Forced && stage != Costs {
		t.Fatalf("%s: %+v", name, v)
	}
}

// plots holds a report to its pictures, and to what explains another choice of a token.
func plots(t *rapid.T, name string, r *parity.Report, stage string) {
	t.Helper()
	d := r.First
	if r.Plot == nil || len(r.Plot.Charts[0].Lines) != 3 ||
		len(r.Plot.Charts[0].Lines[0].Values) != 98 ||
		len(r.Plot.Charts[0].Lines[1].Values) != 98 ||
		len(r.Plot.Charts[0].Lines[2].Values) != 98 {
		t.Fatalf("%s: plot %+v", name, r.Plot)
	}
	if stage == Sample &&
		(d.Explanation == nil || d.Explanation.Why == "" || len(r.Plot.Charts) != 3 ||
			len(r.Plot.Charts[2].Lines[0].Values) == 0) {
		t.Fatalf("%s: choice %+v", name, d.Explanation)
	}
}

// TestCompareIndependent: two faults at different places are both found, though the
// first changes all that follows.
func TestCompareIndependent(t *testing.T) {
	jobs := toyJobs(3, 160)
	a := &toy{name: "a"}
	b := &toy{name: "b", plant: func(route string, step int, stage string, s *lockstep.Step) {
		switch {
		case stage == Sample && step == 103 && route == "00001":
			s.Sample ^= 512
		case stage == Probs && step >= 150 && route != "00000":
			s.Probs[3] = math.Nextafter32(s.Probs[3], 1)
		}
	}}
	for name, got := range map[string]parity.Side{
		"both live":    Live(b),
		"got recorded": parity.Traced(record(t, b, jobs, lockstep.AllSteps, 0)),
	} {
		twoFaults(t, name, compare(t, Live(a), got, jobs, parity.CompareOptions{}))
	}
	// Between recordings nothing can be forced, and the report says so.
	r := compare(
		t, parity.Traced(record(t, a, jobs, lockstep.AllSteps, 0)),
		parity.Traced(record(t, b, jobs, lockstep.AllSteps, 0)), nil, parity.CompareOptions{},
	)
	if r.Unjudged == 0 || r.Forced != 0 || len(r.Findings) != 2 || r.Findings[0].Step != 103 ||
		r.Findings[1].Rollouts == 0 {
		t.Errorf("%d unjudged, faults %+v", r.Unjudged, r.Findings)
	}
	simtest.Refused(t, "between recordings", r.Err(),
		"steps of different histories were not judged")
}

// twoFaults: both are findings, the first is the one that stands first, and the error names it.
func twoFaults(t *testing.T, name string, r *parity.Report) {
	t.Helper()
	if len(r.Findings) != 2 || !is(r.Findings[0], Sample, 1, 1, "00001", 103) ||
		!is(r.Findings[1], Probs, 20, 2, "00001", 150) {
		t.Errorf("%s: %+v", name, r.Findings)
	}
	if r.Unjudged != 0 || r.Forced != 2*140 || r.First.Stage != Sample || len(r.Others) != 1 ||
		r.Others[0].Stage != Probs {
		t.Errorf(
			"%s: %d unjudged, %d forced, first %v, others %v", name, r.Unjudged, r.Forced,
			r.First, r.Others,
		)
	}
	for _, want := range []string{
		"route 00001, controller pid, step 103, stage sample, index 0: want ",
		"1 finding in sample, in 1 of 3 rollouts; 20 findings in probs, in 2 of 3 rollouts",
	} {
		simtest.Refused(t, name, r.Err(), want)
	}
	var d *parity.Divergence
	if !errors.As(r.Err(), &d) || d != r.First {
		t.Errorf("%s: no parity.Divergence in %v", name, r.Err())
	}
}

// TestCompareHistory: an engine whose own history goes wrong shows it only while it is
// not forced. That fault is kept.
func TestCompareHistory(t *testing.T) {
	jobs := toyJobs(1, 130)
	forced := false
	b := &toy{name: "b"}
	b.plant = func(route string, step int, stage string, s *lockstep.Step) {
		if stage == Tokens && step == 110 && !forced {
			s.Tokens[0] ^= 1
		}
	}
	spy := &wrapped{
		Simulator: b,
		jobs:      func(jobs []lockstep.Job) { forced = jobs[0].Teacher != nil },
	}
	r := compare(t, Live(&toy{name: "a"}), Live(spy), jobs, parity.CompareOptions{})
	if r.First == nil || r.First.Stage != Tokens || r.First.Step != 110 || r.First.Forced ||
		r.First.Unrepeated ||
		r.First.Index != 0 {
		t.Errorf("%+v", r.First)
	}
}

// wrapped sees the jobs of a simulator before it runs them.
type wrapped struct {
	lockstep.Simulator
	jobs func(jobs []lockstep.Job)
}

func (w *wrapped) Simulate(
	ctx context.Context, jobs []lockstep.Job, opts lockstep.Options,
) iter.Seq2[int, lockstep.Result] {
	w.jobs(jobs)
	return w.Simulator.Simulate(ctx, jobs, opts)
}

// TestCompareSteps: what is missing or too much, on whichever side.
func TestCompareSteps(t *testing.T) {
	jobs := toyJobs(3, 125)
	broke := func(what string) func(string, int) error {
		return func(route string, step int) error {
			if route == "00001" && step == 111 {
				return errors.New(what)
			}
			return nil
		}
	}
	a := &toy{name: "a"}
	shortFile := record(t, a, jobs, lockstep.AllSteps, 0)
	var hundred schema.Digests
	for i := range 100 {
		hundred.Append(shortFile.Rollouts[1].Digests.At(i))
	}
	shortFile.Rollouts[1].Digests = hundred
	short := parity.Traced(shortFile)
	whole := parity.Traced(record(t, a, jobs, lockstep.AllSteps, 0))
	lacking := parity.Traced(record(t, a, jobs[:2], lockstep.AllSteps, 0))
	failed := parity.Traced(
		record(t, &toy{name: "b", fail: broke("x")}, jobs, lockstep.AllSteps, 0),
	)
	longFile := record(t, a, jobs, lockstep.AllSteps, 0)
	longFile.Rollouts[2].Digests.Append(known(125, 0, lockstep.Step{}))
	long := parity.Traced(longFile)
	gap := &toy{
		name:     "b",
		leaveOut: func(route string, step int) bool { return route == "00001" && step == 105 },
	}
	for name, c := range map[string]struct {
		want, got parity.Side
		report    string // "" is none
	}{
		"got fails": {Live(a), Live(&toy{name: "b", fail: broke("it broke")}),
			`route 00001, controller pid, step 111, stage steps: want no error, got the error ` +
				`"it broke"`},
		"want fails": {Live(&toy{name: "b", fail: broke("it broke")}), Live(a),
			`route 00001, controller pid, step 111, stage steps: want the error "it broke", got ` +
				`step 111`},
		"both fail": {Live(&toy{name: "a", fail: broke("it broke")}),
			Live(&toy{name: "b", fail: broke("otherwise")}), ""},
		"recorded error":      {failed, Live(a), `stage steps: want the error "x", got step 111`},
		"both fail, recorded": {failed, Live(&toy{name: "b", fail: broke("y")}), ""},
		"short": {short, Live(a), "route 00001, controller pid, step 120, stage " +
			"steps: want 100 steps, got one more"},
		"got short": {Live(a), short, "route 00001, controller pid, step 120, stage " +
			"steps: want one more, got 100 steps"},
		"long": {long, Live(a), "route 00002, controller pid, step 125, stage " +
			"steps: want 106 steps, got 105"},
		"lacking": {lacking, Live(a), "route 00002, controller pid, step 20, stage " +
			"steps: want no such rollout, got step 20"},
		"got lacking": {Live(a), lacking, "route 00002, controller pid, step 20, stage " +
			"steps: want step 20, got no such rollout"},
		"recorded, lacking": {whole, lacking, "stage steps: want no error, got no such rollout"},
		"lacking, recorded": {lacking, long, "route 00002, controller pid, step 20, stage " +
			"steps: want no such rollout, got step 20"},
		"a step not shown": {Live(a), Live(gap), "route 00001, controller pid, step 106, " +
			"stage steps: want step 105 next, got step 106"},
		"want's step is gone": {Live(gap), Live(a), "route 00001, controller pid, step 105, " +
			"stage steps: want step 106 next, got step 105"},
	} {
		var js []lockstep.Job
		if c.want.Info().Live || c.got.Info().Live {
			js = jobs
		}
		r := compare(t, c.want, c.got, js, parity.CompareOptions{})
		switch {
		case c.report == "" && (r.Err() != nil || r.Equal() != 3):
			t.Errorf("%s: %v, %d equal; want 3", name, r.Err(), r.Equal())
		case c.report != "" && (r.First == nil || !strings.Contains(r.First.Error(), c.report) ||
			r.Equal() != 2):
			t.Errorf("%s: %v, %d equal; want %s, 2 equal", name, r.First, r.Equal(), c.report)
		}
	}
}

// TestCompareFailsOnce: an engine that failed, and did not when it was repeated.
func TestCompareFailsOnce(t *testing.T) {
	for _, inexact := range []bool{false, true} {
		runs := 0
		b := &toy{name: "b", plant: low, fail: func(_ string, step int) error {
			if step == 20 {
				runs++
			}
			if runs == 1 && step == 111 {
				return errors.New("it broke")
			}
			return nil
		}}
		r := compare(
			t, Live(&toy{name: "a", plant: low}), Live(b), toyJobs(1, 120),
			parity.CompareOptions{Inexact: inexact},
		)
		if runs < 2 || len(r.Findings) != 1 ||
			!is(r.Findings[0], schema.Extent, 1, 1, "00000", 111) ||
			!strings.Contains(r.First.Error(), "it broke") {
			t.Errorf("%d runs: %+v, %v", runs, r.Findings, r.First)
		}
	}
}

// TestCompareMisuse: comparisons that cannot be made are errors, and engines that
// do not keep the contract as well.
func TestCompareMisuse(t *testing.T) {
	jobs := toyJobs(2, 101)
	a := Live(&toy{name: "a"})
	file := func(h schema.Hash) parity.Side {
		path := filepath.Join(t.TempDir(), h.String())
		if err := recordTo(context.Background(), &toy{name: "a"}, jobs, lockstep.AllSteps,
			trace.Header{Digest: h}, 0, path); err != nil {
			t.Fatal(err)
		}
		f, err := trace.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return parity.Traced(f)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for name, c := range map[string]struct {
		ctx       context.Context
		want, got parity.Side
		jobs      []lockstep.Job
		err       string
	}{
		"no jobs":  {nil, a, a, nil, "a live engine is compared on jobs, and none are given"},
		"no route": {nil, a, a, []lockstep.Job{{}}, "a job without a route"},
		"short route": {nil, a, a, []lockstep.Job{{Route: &lockstep.Route{Name: "r"}}},
			"route r: 0 steer commands, want 100 at least"},
		"digests": {nil, file(schema.XXH64), file(schema.SHA256), nil, "holds digests of " +
			"kind sha256, not xxh64"},
		"cancelled": {ended, a, a, jobs, "context canceled"},
		"two results": {nil, a, Live(&toy{name: "b",
			yield: func(int) []int { return []int{0} }}), jobs, "rollout 0 has two results"},
		"another result": {nil, a, Live(&toy{name: "b",
			yield: func(i int) []int { return []int{i + 1} }}), jobs, "a result of rollout 2, " +
			"there are 2"},
	} {
		ctx := c.ctx
		if ctx == nil {
			ctx = context.Background()
		}
		if _, err := Compare(ctx, c.want, c.got, c.jobs, lockstep.AllSteps,
			parity.CompareOptions{}); err == nil ||
			!strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, want %s", name, err, c.err)
		}
	}
	// A result that never comes is that rollout's divergence.
	r := compare(
		t, a, Live(&toy{name: "b", yield: func(i int) []int { return []int{0}[:1-i] }}), jobs,
		parity.CompareOptions{},
	)
	if r.First == nil || r.First.Key[0] != "00001" ||
		!strings.Contains(r.First.Error(), "the engine gave no result") {
		t.Errorf("%v", r.First)
	}
	if err := compare(t, a, a, []lockstep.Job{}, parity.CompareOptions{}).Err(); err == nil ||
		err.Error() != "nothing was compared" {
		t.Errorf("no jobs: %v", err)
	}
	broken := Live(
		&toy{name: "broken", fail: func(string, int) error { return errors.New("out of fuel") }},
	)
	if err := compare(t, broken, broken, jobs, parity.CompareOptions{}).Err(); err == nil ||
		!strings.HasPrefix(err.Error(), "nothing was compared, both sides failed: ") ||
		!strings.HasSuffix(err.Error(), "out of fuel") {
		t.Errorf("both sides fail at once: %v", err)
	}
}

// TestCompareRoutes: a recording of another route of the same name.
func TestCompareRoutes(t *testing.T) {
	jobs := toyJobs(2, 101)
	file := record(t, &toy{name: "a"}, jobs, lockstep.AllSteps, 0)
	for name, c := range map[string]struct {
		change func(r *lockstep.Route)
		want   string
	}{
		"column": {func(r *lockstep.Route) { r.VEgo[70] = math.Nextafter(r.VEgo[70], 9) },
			"stage route: want v_ego of hash "},
		"seed": {func(r *lockstep.Route) { r.Seed = 77 }, "stage route: want seed 77, got 1"},
	} {
		changed := toyJobs(2, 101)
		c.change(changed[1].Route)
		r := compare(
			t, Live(&toy{name: "a"}), parity.Traced(file), changed, parity.CompareOptions{},
		)
		if len(r.Findings) != 1 || !is(r.Findings[0], Route, 1, 1, "00001", -1) ||
			!strings.Contains(r.First.Error(), c.want) {
			t.Errorf("%s: %+v, %v", name, r.Findings, r.First)
		}
	}
}

// TestCompareMissingStages: a live engine must show every stage, a recording need not. One that not
// every rollout has must be shown where the other engine shows it.
func TestCompareMissingStages(t *testing.T) {
	jobs := toyJobs(1, 120)
	a := &toy{name: "a"}
	drops := map[string]func(s *lockstep.Step){
		Observation: func(s *lockstep.Step) { s.Observation = nil },
		Actor:       func(s *lockstep.Step) { s.Actor = nil },
		Tokens:      func(s *lockstep.Step) { s.Tokens = nil },
		States:      func(s *lockstep.Step) { s.States = nil },
		Logits:      func(s *lockstep.Step) { s.Logits = nil },
		Probs:       func(s *lockstep.Step) { s.Probs = nil },
		CDF:         func(s *lockstep.Step) { s.CDF = nil },
	}
	acts := func(_ string, step int, stage string, s *lockstep.Step) {
		if stage == Action && step >= lockstep.ControlStartIdx {
			s.Observation, s.Actor, s.Raw = make([]float32, lockstep.ObservationSize),
				make([]float32, lockstep.ActorSize), 0.5
		}
	}
	arrays := 0
	for _, g := range view.Stages {
		if !g.IsArray() {
			continue
		}
		arrays++
		shows := &toy{name: "a"}
		if g.Optional {
			shows.plant = acts
		}
		if drops[g.Name] == nil {
			t.Fatalf("nobody knows how to leave out stage %s", g.Name)
		}
		lacksStage(t, g, shows, &observed{Simulator: shows, change: drops[g.Name]}, jobs)
	}
	if arrays != len(drops) {
		t.Errorf("%d arrays, %d ways to leave one out", arrays, len(drops))
	}
	// With SkipWarmup there is nothing before step 100, and it is not missed.
	r, err := Compare(
		context.Background(), Live(a), Live(&toy{name: "b"}), jobs, lockstep.CostOnly,
		parity.CompareOptions{},
	)
	if err != nil || r.Err() != nil || r.Compared[Logits] != 20 || r.Compared[Action] != 100 {
		t.Errorf("%v, %v, %v", err, r.Err(), r.Compared)
	}
	pastTheEnd(t, a)
}

// lacksStage: what lacks a stage in every step is found as an engine, whichever side it is, and
// is not as a recording. Where both lack it, that is found unless not every rollout has it.
func lacksStage(
	t *testing.T, g schema.Stage, a, lacks lockstep.Simulator, jobs []lockstep.Job,
) {
	t.Helper()
	stage, first := g.Name, lockstep.ContextLength
	if g.Optional {
		first = lockstep.ControlStartIdx // where a network begins to act
	}
	for says, sides := range map[string][2]lockstep.Simulator{
		"got no value": {a, lacks}, "want no value": {lacks, a},
	} {
		r := compare(t, Live(sides[0]), Live(sides[1]), jobs, parity.CompareOptions{})
		if len(r.Findings) != 1 || r.Findings[0].Stage != stage || r.Findings[0].Step != first ||
			!strings.Contains(r.First.Error(), says) ||
			r.First.Unrepeated {
			t.Errorf("%s: %+v, %v, want %q", stage, r.Findings, r.First, says)
		}
	}
	r := compare(t, Live(lacks), Live(lacks), jobs, parity.CompareOptions{})
	if g.Optional && r.Err() != nil ||
		!g.Optional && (len(r.Findings) != 1 || r.Findings[0].Stage != stage) {
		t.Errorf("%s missing on both sides: %+v", stage, r.Findings)
	}
	recorded := parity.Traced(record(t, lacks, jobs, lockstep.AllSteps, 0))
	r = compare(t, recorded, Live(a), jobs, parity.CompareOptions{})
	if r.Err() != nil || r.Compared[stage] != 0 {
		t.Errorf("%s not recorded: %v, %d compared", stage, r.Err(), r.Compared[stage])
	}
}

// TestTaughtJobs: a side is forced onto the other's trajectory beside a teacher of the job's own,
// which both follow, and nothing but the fault is found.
func TestTaughtJobs(t *testing.T) {
	jobs := toyJobs(2, 200)
	for i := range jobs {
		own := &lockstep.Trajectory{Target: jobs[i].Route.TargetLataccel}
		for k := range 200 {
			own.Lataccel = append(own.Lataccel, math.Sin(float64(k+i)))
			own.Action = append(own.Action, math.Cos(float64(k-i)))
		}
		jobs[i].Teacher = own
	}
	for _, stage := range []string{Logits, Sample, Lataccel, Action} {
		faulty := &toy{name: "faulty", plant: func(_ string, step int, at string,
			s *lockstep.Step) {
			switch {
			case step != 123 || at != stage:
			case stage == Logits:
				s.Logits[7]++
			case stage == Sample:
				s.Sample--
			case stage == Lataccel:
				s.Lataccel++
			case stage == Action:
				s.Action++
			}
		}}
		r := compare(t, Live(&toy{name: "toy"}), Live(faulty), jobs, parity.CompareOptions{})
		if len(r.Findings) != 1 || r.Findings[0].Stage != stage || r.Findings[0].Step != 123 ||
			r.Findings[0].Findings != 2 || r.Forced == 0 {
			t.Errorf("%s: %+v, %d steps forced", stage, r.Findings, r.Forced)
		}
	}
}

// pastTheEnd: steps after the last that costs, which a recording has, are not missed, and counted;
// those that a recording does not have are.
func pastTheEnd(t *testing.T, a lockstep.Simulator) {
	t.Helper()
	long := toyJobs(2, 510)
	r, err := Compare(
		context.Background(), parity.Traced(record(t, a, long, lockstep.AllSteps, 0)), Live(a),
		long, lockstep.CostOnly, parity.CompareOptions{},
	)
	if err != nil || r.Err() != nil || r.Steps != 960 || r.Past != 20 {
		t.Errorf("%v, %v, %d steps, %d past the end", err, r.Err(), r.Steps, r.Past)
	}
	past := verdict.Comparison{Report: r}
	if got, want := past.Extent(), "2 of 2 rollouts equal, 960 steps, 20 steps past the end not "+
		"compared"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	r = compare(
		t, parity.Traced(record(t, a, long, lockstep.CostOnly, 0)), Live(a), long,
		parity.CompareOptions{},
	)
	if r.First == nil || r.First.Stage != schema.Extent || r.First.Step != 500 {
		t.Errorf("%v", r.First)
	}
}

// observed changes what a simulator's observers see.
type observed struct {
	lockstep.Simulator
	change func(s *lockstep.Step)
}

func (o *observed) Simulate(
	ctx context.Context, jobs []lockstep.Job, opts lockstep.Options,
) iter.Seq2[int, lockstep.Result] {
	own := slices.Clone(jobs)
	for i := range own {
		observe := own[i].Observe
		own[i].Observe = func(s *lockstep.Step) {
			c := *s
			o.change(&c)
			observe(&c)
		}
	}
	return o.Simulator.Simulate(ctx, own, opts)
}

// TestCompareUnrepeated: an engine that went wrong once and not again.
func TestCompareUnrepeated(t *testing.T) {
	jobs := toyJobs(2, 120)
	b := &toy{
		name:  "b",
		runs:  map[string]int{},
		noisy: func(_ string, run int) bool { return run > 1 },
		plant: func(route string, step int, stage string, s *lockstep.Step) {
			if route == "00001" && step == 104 && stage == Logits {
				s.Logits[5]++
			}
		},
	}
	r := compare(t, Live(&toy{name: "a"}), Live(b), jobs, parity.CompareOptions{})
	if d := r.First; d == nil || d.Stage != Logits || d.Step != 104 || d.Key[0] != "00001" ||
		!d.Unrepeated ||
		!strings.Contains(d.Error(), "does not always compute the same") {
		t.Errorf("%+v", d)
	}
}

// TestCompareTwins: jobs of the same route and controller are told apart by their order.
func TestCompareTwins(t *testing.T) {
	jobs := toyJobs(1, 110)
	twin := toyJobs(1, 110)[0]
	twin.Draws = lockstep.Draws(99, 90)
	jobs = append(jobs, twin, jobs[0])
	a := &toy{name: "a"}
	f := parity.Traced(record(t, a, jobs, lockstep.AllSteps, 0))
	if r := compare(t, f, Live(a), jobs, parity.CompareOptions{}); r.Err() != nil ||
		r.Equal() != 3 {
		t.Errorf("%v, %d equal", r.Err(), r.Equal())
	}
	jobs[0], jobs[1] = jobs[1], jobs[0]
	if r := compare(t, f, Live(a), jobs, parity.CompareOptions{}); r.Equal() != 1 ||
		r.First.Stage != Draw ||
		r.First.Step != 20 ||
		r.Findings[0].Findings != 180 {
		t.Errorf("%d equal, %v, %+v", r.Equal(), r.First, r.Findings)
	}
}

// TestCompareMultiples: a key may be in a recording any number of times. Of each key as many
// rollouts are equal as both sides have, and each that one side has beyond is one that the other
// lacks.
func TestCompareMultiples(t *testing.T) {
	const most = 3
	jobs, a := toyJobs(2, 110), &toy{name: "a"}
	times := func(n int) []lockstep.Job { // between two others
		return slices.Concat(jobs[:1], slices.Repeat(jobs[1:], n), jobs[:1])
	}
	var recordings []parity.Side
	for n := range most + 1 {
		recordings = append(recordings, parity.Traced(record(t, a, times(n), lockstep.AllSteps, 0)))
	}
	hold := func(name string, want, got parity.Side, jobs []lockstep.Job, both, all int) {
		t.Helper()
		r := compare(t, want, got, jobs, parity.CompareOptions{})
		if r.Equal() != 2+both || len(r.Rollouts) != 2+all || (r.Err() == nil) != (both == all) {
			t.Errorf("%s: %d of %d equal, %v; want %d of %d", name, r.Equal(), len(r.Rollouts),
				r.Err(), 2+both, 2+all)
		}
		if err := r.Err(); err != nil && !strings.Contains(err.Error(), "no such rollout") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for n, want := range recordings {
		for m, got := range recordings {
			hold(fmt.Sprintf("recordings, %d and %d times", n, m), want, got, nil, min(n, m),
				max(n, m))
			if m >= n { // an engine computes what it is asked for, and nothing else
				hold(fmt.Sprintf("a recording, %d times, and an engine, %d times", n, m), want,
					Live(a), times(m), n, m)
			}
		}
	}
}

// TestComparePartial: a trace with samples and lataccels only. The fault is named where
// it first shows.
func TestComparePartial(t *testing.T) {
	jobs := toyJobs(2, 130)
	b := &toy{name: "b", plant: func(route string, step int, stage string, s *lockstep.Step) {
		if route == "00001" && step == 115 && stage == CDF {
			for i := range s.CDF {
				s.CDF[i] = float64(i+1) / 1024
			}
		}
	}}
	part := func(sim lockstep.Simulator) parity.Side {
		var b bytes.Buffer
		w, err := trace.NewWriter(&b, trace.Header{Schema: view.Schema}, 0)
		if err != nil {
			t.Fatal(err)
		}
		own := slices.Clone(jobs)
		writers := make([]*trace.RolloutWriter, len(jobs))
		for i := range own {
			writers[i] = w.Begin(trace.Rollout{Key: []string{jobs[i].Route.Name, "pid"}})
			own[i].Observe = func(s *lockstep.Step) {
				writers[i].Observe(known(s.Index, view.Set(Sample, Lataccel), *s))
			}
		}
		for i, r := range sim.Simulate(
			t.Context(), own, lockstep.Options{Shortcuts: lockstep.AllSteps},
		) {
			writers[i].End(Outcome(r.Costs), r.Err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		f, err := trace.NewFile(bytes.NewReader(b.Bytes()), "part.trace")
		if err != nil {
			t.Fatal(err)
		}
		return parity.Traced(f)
	}
	if r := compare(t, Live(&toy{name: "a"}), part(&toy{name: "a"}), jobs,
		parity.CompareOptions{}); r.Err() != nil ||
		r.Compared[Sample] != 220 ||
		r.Compared[Logits] != 0 {
		t.Errorf("%v, %v", r.Err(), r.Compared)
	}
	// It lacks actions, so that nothing can be forced.
	for _, c := range []struct{ want, got parity.Side }{
		{Live(&toy{name: "a"}), part(b)}, {part(b), Live(&toy{name: "a"})},
		{part(&toy{name: "a"}), part(b)},
	} {
		r := compare(t, c.want, c.got, jobs, parity.CompareOptions{})
		if len(r.Findings) != 1 || !is(r.Findings[0], Sample, 1, 1, "00001", 115) ||
			r.Unjudged == 0 ||
			r.First.Index != 0 {
			t.Errorf("%+v, %d unjudged", r.Findings, r.Unjudged)
		}
	}
}

// swapped runs a simulator's jobs with another policy.
type swapped struct {
	lockstep.Simulator
	policy lockstep.Policy
}

func (s *swapped) Simulate(
	ctx context.Context, jobs []lockstep.Job, opts lockstep.Options,
) iter.Seq2[int, lockstep.Result] {
	own := slices.Clone(jobs)
	for i := range own {
		own[i].Policy = s.policy
	}
	return s.Simulator.Simulate(ctx, own, opts)
}

// TestCompareClip: a lataccel that differs only since it is clipped against another one
// is not at fault.
func TestCompareClip(t *testing.T) {
	both := func(_ string, step int, stage string, s *lockstep.Step) {
		if stage == Sample && step > 110 {
			s.Sample = 900
		}
	}
	b := &toy{name: "b", plant: func(route string, step int, stage string, s *lockstep.Step) {
		both(route, step, stage, s)
		if stage == Lataccel && step == 110 {
			s.Lataccel -= 0.25
		}
	}}
	r := compare(
		t, Live(&toy{name: "a", plant: both}), Live(b), toyJobs(1, 120), parity.CompareOptions{},
	)
	if len(r.Findings) != 1 || !is(r.Findings[0], Lataccel, 1, 1, "00000", 110) {
		t.Errorf("%+v", r.Findings)
	}
}

// TestCompareForcedStates: the states of a forced step hold the teacher's action, so
// that they are judged though the action is at fault.
func TestCompareForcedStates(t *testing.T) {
	b := &toy{name: "b", plant: func(route string, step int, stage string, s *lockstep.Step) {
		switch {
		case stage == Action && step >= 105:
			s.Action++
		case stage == States && step >= 110:
			s.States[7]++
		}
	}}
	r := compare(t, Live(&toy{name: "a"}), Live(b), toyJobs(1, 120), parity.CompareOptions{})
	if len(r.Findings) != 2 || !is(r.Findings[0], Action, 15, 1, "00000", 105) ||
		!is(r.Findings[1], States, 10, 1, "00000", 110) {
		t.Errorf("%+v", r.Findings)
	}
	if len(r.Others) != 1 || !r.Others[0].Forced || r.Others[0].Index != 7 {
		t.Errorf("%+v", r.Others)
	}
}

// TestCompareDeclared: what a network declared to see is named as it declared it, whatever its
// length, and not as the 256 numbers of most networks; a trace keeps it whose length is another.
func TestCompareDeclared(t *testing.T) {
	for _, size := range []int{2, lockstep.ObservationSize} {
		sees := make([]lockstep.Seen, size)
		for i := range sees {
			sees[i] = lockstep.Seen{Of: lockstep.SourceRoll, At: i % 50, Unit: 8}
		}
		network, err := lockstep.NewSeeing(sees, []lockstep.Layer{{
			Inputs: size, Outputs: lockstep.ActorSize, Weights: make([]float32, 2*size),
			Bias: make([]float32, lockstep.ActorSize),
		}}, lockstep.DefaultScale)
		if err != nil {
			t.Fatal(err)
		}
		jobs := toyJobs(1, 110)
		jobs[0].Policy = network
		shows := func(x float32) *toy {
			plant := func(_ string, step int, stage string, s *lockstep.Step) {
				if stage == Action {
					s.Observation, s.Actor = make([]float32, size), make([]float32, 2)
					if step == 105 {
						s.Observation[1] = x
					}
				}
			}
			return &toy{name: "toy", plant: plant}
		}
		want, got := shows(0), shows(1)
		file := record(t, want, jobs, lockstep.AllSteps, everything)
		for name, c := range map[string]struct {
			want, got parity.Side
			jobs      []lockstep.Job
			place     string
		}{
			"live":     {Live(want), Live(got), jobs, "index 1 (roll[1]/8)"},
			"recorded": {parity.Traced(file), Live(got), jobs, ""},
			"both recorded": {
				parity.Traced(file),
				parity.Traced(record(t, got, jobs, lockstep.AllSteps, everything)), nil, "",
			},
		} {
			r := compare(t, c.want, c.got, c.jobs, parity.CompareOptions{})
			if r.First == nil || r.First.Stage != Observation || r.First.Step != 105 ||
				!strings.HasSuffix(r.First.Place(), c.place) {
				t.Errorf("%d numbers, %s: %v", size, name, r.First)
				continue
			}
			if name == "both recorded" && r.First.Element != "" {
				t.Errorf("%d numbers: named %q", size, r.First.Element)
			}
		}
		var steps [2]*schema.Step
		for i := range steps {
			numbers := make([]float32, size)
			numbers[1] = float32(i)
			steps[i] = known(105, everything, lockstep.Step{Observation: numbers})
			steps[i].Sum(schema.XXH64)
		}
		d := parity.DifferStep(&view.Schema, steps[0], steps[1])
		if d == nil || (d.Element == "") != (size == 2) {
			t.Errorf("%d numbers, without a rollout: %v", size, d)
		}
	}
}
