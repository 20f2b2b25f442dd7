package conformance

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"lockstep"
	"lockstep/golden/vectors"
	"lockstep/internal/defaults"
	"lockstep/internal/guard"
	"lockstep/internal/simtest"
	"lockstep/reference"
)

// TestBins: a token stands for what it stands for in Python's vectors.
func TestBins(t *testing.T) {
	vectors.Hold(t, "decode", func(v vectors.Vector) any {
		return []float64{bin(int(v.Int("token")))}
	})
}

// TestChoice: a token is the one whose part of the distribution the draw falls in, from its lower
// end on and up to but without the upper one, and stands for its bin; what else is wrong is told.
func TestChoice(t *testing.T) {
	t.Parallel()
	right := func(sample int, draw float64) *lockstep.Step {
		s := &lockstep.Step{
			Index: 50, Tokens: make([]int64, 20), States: make([]float32, 80),
			Logits: make([]float32, 1024), Probs: make([]float32, 1024),
			CDF: make([]float64, 1024), Draw: draw, Sample: sample, Prediction: bin(sample),
		}
		for i := range s.CDF {
			s.CDF[i] = float64(i+1) / 1024
		}
		for i := range 20 {
			s.States[4*i] = float32(i)
		}
		return s
	}
	actions := make([]float64, 20)
	for i := range actions {
		actions[i] = float64(i)
	}
	for _, c := range []struct {
		sample int
		draw   float64
		change func(s *lockstep.Step)
		says   string
	}{
		{0, 0, nil, ""}, {1, 1. / 1024, nil, ""}, {1023, math.Nextafter(1, 0), nil, ""},
		{500, 500.5 / 1024, nil, ""}, {0, math.Nextafter(1./1024, 0), nil, ""},
		{0, 1. / 1024, nil, "sample 0 is not where"}, {2, 1. / 1024, nil, "sample 2 is not where"},
		{1, math.Nextafter(1./1024, 0), nil, "sample 1 is not where"},
		{-1, 0, nil, "sample -1 is not where"}, {1024, 0.5, nil, "sample 1024 is not where"},
		{1023, 1, nil, "sample 1023 is not where"}, {5, math.NaN(), nil, "sample 5 is not where"},
		{7, 7.5 / 1024, func(s *lockstep.Step) { s.Prediction = bin(8) }, "sample 7 stands for"},
		{7, 7.5 / 1024, func(s *lockstep.Step) { s.CDF[1023] = 2 }, "cdf does not rise to 1"},
		{7, 7.5 / 1024, func(s *lockstep.Step) { s.CDF[1] = 0 }, "cdf does not rise to 1"},
		{7, 7.5 / 1024, func(s *lockstep.Step) { s.States[76] = 3 }, "action 19 of the states is"},
		{7, 7.5 / 1024, func(s *lockstep.Step) { s.States[0] = 3 }, "action 0 of the states is 3"},
		{7, 7.5 / 1024, func(s *lockstep.Step) { s.Probs = nil }, "stage probs is missing"},
	} {
		s := right(c.sample, c.draw)
		if c.change != nil {
			c.change(s)
		}
		err := wrongChoice(s, exposed(s)[0], actions)
		if (err == nil) != (c.says == "") || !strings.Contains(fmt.Sprint(err), c.says) {
			if c.says != "" || err != nil {
				t.Errorf("sample %d of draw %v: %v, want %q", c.sample, c.draw, err, c.says)
			}
		}
	}
}

// TestCostsFollow: the total is that of lataccel and jerk, and a route of 101 rows has no jerk.
func TestCostsFollow(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		costs lockstep.Costs
		end   int
		right bool
	}{
		{lockstep.Costs{Lataccel: 2, Jerk: 3, Total: 103}, 102, true},
		{lockstep.Costs{Lataccel: 2, Jerk: 3, Total: 103}, 101, false},
		{lockstep.Costs{Lataccel: 2, Jerk: 3, Total: 97}, 102, false},
		{lockstep.Costs{Lataccel: 2, Jerk: nan, Total: nan}, 101, true},
		{lockstep.Costs{Lataccel: nan, Jerk: nan, Total: nan}, 101, false},
		{lockstep.Costs{Lataccel: nan, Jerk: 3, Total: nan}, 102, false},
		{lockstep.Costs{Lataccel: 2, Jerk: nan, Total: 100}, 101, false},
		{lockstep.Costs{Lataccel: 2, Jerk: 0, Total: 100}, 101, false},
		{lockstep.Costs{Lataccel: 2, Jerk: nan, Total: nan}, 102, true}, // others hold it
	} {
		if err := wrongCosts(c.costs, c.end); (err == nil) != c.right {
			t.Errorf("costs %v of %d rows: %v", c.costs, c.end, err)
		}
	}
}

// TestWatched: a batch controller is to be asked for one step after the other, before it is closed,
// with an element for each route of its own, and for those routes that go on.
func TestWatched(t *testing.T) {
	routes := []*lockstep.Route{
		{Name: "a", TargetLataccel: make([]float64, 22)},
		{Name: "b", TargetLataccel: make([]float64, 21)},
	}
	step := func(at int, running ...bool) *lockstep.BatchStep {
		b := lockstep.NewBatchStep(len(running))
		b.Step, b.Running = at, running
		return b
	}
	var few []*lockstep.BatchStep
	for _, less := range []func(b *lockstep.BatchStep){
		func(b *lockstep.BatchStep) { b.Running = b.Running[1:] },
		func(b *lockstep.BatchStep) { b.TargetLataccel = b.TargetLataccel[1:] },
		func(b *lockstep.BatchStep) { b.CurrentLataccel = b.CurrentLataccel[1:] },
		func(b *lockstep.BatchStep) { b.State = b.State[1:] },
		func(b *lockstep.BatchStep) { b.Plan = b.Plan[1:] },
		func(b *lockstep.BatchStep) { b.Steer = b.Steer[1:] },
		func(b *lockstep.BatchStep) { b.Err = b.Err[1:] },
	} {
		b := step(20, true, true)
		less(b)
		few = append(few, b)
	}
	watch := func() *watched {
		w := &watched{next: lockstep.ContextLength, routes: routes}
		for range routes {
			w.each = append(w.each, custom("one", func(int) float64 { return 0.5 }).New())
		}
		return w
	}
	for _, b := range append(few, step(20, true, true, true)) {
		err := watch().Update(b)
		simtest.Refused(t, "another length", err, "step 20: not all slices have an element")
	}
	both, one := step(20, true, true), step(21, true, false)
	for name, c := range map[string]struct {
		steps []*lockstep.BatchStep
		close bool // before the last
		says  string
	}{
		"one step late": {[]*lockstep.BatchStep{one}, false, "step 21, want step 20 next"},
		"a step twice":  {[]*lockstep.BatchStep{both, both}, false, "step 20, want step 21 next"},
		"closed":        {[]*lockstep.BatchStep{both, one}, true, "step 21 after Close"},
		"ended, and runs": {
			[]*lockstep.BatchStep{both, step(21, true, true)}, false,
			"step 21 of route b: Running is true, want false",
		},
		"runs, and ended": {
			[]*lockstep.BatchStep{step(20, true, false)}, false,
			"step 20 of route b: Running is false, want true",
		},
	} {
		w := watch()
		var err error
		for i, b := range c.steps {
			if c.close && i == len(c.steps)-1 {
				w.Close()
			}
			err = w.Update(b)
		}
		simtest.Refused(t, name, err, c.says)
		if again := w.Update(one); again != err {
			t.Errorf("%s: then it says %v, and first %v", name, again, err)
		}
	}
	w := watch()
	one.Steer[1] = 7
	if err := errors.Join(w.Update(both), w.Update(one)); err != nil ||
		both.Steer[0] != 0.5 || both.Steer[1] != 0.5 || one.Steer[0] != 0.5 || one.Steer[1] != 7 {
		t.Errorf("%v; it answers %v and %v", err, both.Steer, one.Steer)
	}
}

// TestTenErrors: a check ends after the tenth thing that is wrong, or where it cannot go on.
func TestTenErrors(t *testing.T) {
	said := 0
	s := &suite{}
	errs, _ := s.perform(check{check: func(s *suite) {
		for said = range 20 {
			s.errorf("wrong %d", said)
		}
	}})
	if len(errs) != 10 || said != 9 || errs[9].Error() != "wrong 9" {
		t.Errorf("%d errors, the last %v, %d were said", len(errs), errs[len(errs)-1], said+1)
	}
	errs, _ = s.perform(check{check: func(s *suite) {
		s.errorf("wrong")
		s.fatalf("at once: %w", errOutOfFuel)
	}})
	if len(errs) != 2 || !errors.Is(errs[1], errOutOfFuel) {
		t.Errorf("%v, want two errors", errs)
	}
	if err := guard.Do(func() { must(1, errOutOfFuel) }); err != errOutOfFuel {
		t.Errorf("what must be there, and is not: %v", err)
	}
	if got := firstLine(errors.New("a\nb")); got != "a" {
		t.Errorf("the first line is %q", got)
	}
}

// TestInputs: what checks give a simulator is awkward: answers and targets beyond all bounds, at
// them and beside them, on both sides, and teachers of which none is another's.
func TestInputs(t *testing.T) {
	t.Parallel()
	s, err := newSuite(&wrapper{profile: reference.HostProfile}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(s.routes); n != defaults.NumRoutes {
		t.Errorf("%d routes, want all %d", n, defaults.NumRoutes)
	}
	is := func(what string, all []float64, low, high float64, among ...float64) {
		t.Helper()
		bits := map[uint64]bool{}
		for _, x := range all {
			if bits[math.Float64bits(x)] = true; !(low <= x && x <= high) {
				t.Errorf("%s: %v, want none beyond %v and %v", what, x, low, high)
			}
		}
		for _, x := range among {
			if !bits[math.Float64bits(x)] {
				t.Errorf("%s: %v is not among them", what, x)
			}
		}
	}
	var answers []float64
	for _, j := range s.extreme() {
		c := j.Policy.(lockstep.Custom).New()
		answers = append(answers, c.Update(0, 0, lockstep.State{}, lockstep.FuturePlan{}))
	}
	inf, zero := math.Inf(1), math.Copysign(0, -1)
	is("answers", answers, -inf, inf, inf, -inf, 1e300, -1e300, 2, -2, math.Nextafter(2, 3),
		math.Nextafter(2, 0), zero, math.SmallestNonzeroFloat64)
	wild := s.wild()
	is("targets", wild.TargetLataccel, -1e300, 7, 5, -5, 7, -1e300, 0, zero)
	is("commands", wild.SteerCommand[:lockstep.ControlStartIdx], -7, 3, 3, -7, 0.1)
	if !math.IsNaN(wild.SteerCommand[lockstep.ControlStartIdx]) {
		t.Error("a command is recorded of a step that is steered")
	}
	jobs := s.schooled()
	for i, j := range jobs {
		is("taught lataccels", j.Teacher.Lataccel, -4, 4)
		is("taught actions", j.Teacher.Action, -1.9, 1.9)
		for _, x := range [][]float64{j.Teacher.Lataccel, j.Teacher.Action} {
			if len(x) <= j.Route.Len() || slices.Min(x) > -1.5 || slices.Max(x) < 1.5 {
				t.Errorf("job %d is taught %d values from %v to %v", i, len(x), slices.Min(x),
					slices.Max(x))
			}
		}
		before := jobs[max(i-1, 0)].Teacher // who is as far as this one is a step later or before
		if i > 0 && (before.Lataccel[1] != j.Teacher.Lataccel[0] ||
			before.Action[0] != j.Teacher.Action[1]) {
			t.Errorf("job %d has the teacher of job %d", i, i-1)
		}
	}
	if d := alike(s.some()); d != "" {
		t.Error(d)
	}
}

// alike says which jobs have one route, or as many rows.
func alike(jobs []lockstep.Job) string {
	for i, j := range jobs {
		for _, other := range jobs[:i] {
			if other.Route.Len() == j.Route.Len() || other.Route.Name == j.Route.Name {
				return fmt.Sprintf("two jobs of %s, or of %d rows", j.Route.Name, j.Route.Len())
			}
		}
	}
	return ""
}
