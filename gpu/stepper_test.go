package gpu

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"lockstep"
	"lockstep/gpu/driver"
)

// TestStepper drives rollouts by hand, with a snapshot on the way that goes to other
// rollouts of the same jobs, and holds all to the reference.
func TestStepper(t *testing.T) {
	s := newSimulator(t, Config{})
	ref := newReference(t, s.Profile())
	ctx := context.Background()
	jobs := []lockstep.Job{
		{Route: shorten(routes()[0], 107), Policy: weavePolicy},
		{Route: shorten(routes()[1], 103), Policy: lockstep.DefaultPID},
		{Route: shorten(routes()[2], 105)},
	}
	opts := lockstep.Options{Shortcuts: lockstep.CostOnly, Trajectory: true}
	asReference := append([]lockstep.Job(nil), jobs...)
	asReference[2].Policy = lockstep.Zero{}
	want := traces(t, ref, asReference, opts)
	p := reset(t, s, jobs, opts)
	commands, lataccels := []float64{math.NaN(), math.NaN(), 0}, make([]float64, 3)
	for !p.Done() {
		step := p.Index()
		running := []bool{p.Running(0), p.Running(1), p.Running(2)}
		before := slices.Clone(lataccels)
		if err := p.Step(ctx, commands, lataccels); err != nil {
			t.Fatal(err)
		}
		for j := range jobs {
			if running[j] && !same64(lataccels[j], want[j].steps[step-lockstep.ContextLength].Lataccel) {
				t.Fatalf("job %d, step %d: lataccel %v, want %v", j, step, lataccels[j], want[j].steps[step-lockstep.ContextLength].Lataccel)
			}
			if !running[j] && !same64(lataccels[j], before[j]) {
				t.Errorf("job %d, step %d: lataccel %v after the end, want %v", j, step, lataccels[j], before[j])
			}
		}
	}
	got, err := p.Results(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for j := range jobs {
		if d := resultDifference(got[j], want[j].result); d != "" {
			t.Errorf("job %d: %s", j, d)
		}
	}
	if err := p.Step(ctx, commands, lataccels); !contains(err, "all rollouts have ended") {
		t.Errorf("a step after the end: %v", err)
	}
}

// reset makes a Stepper that ends with the test.
func reset(t *testing.T, s *Simulator, jobs []lockstep.Job, opts lockstep.Options) lockstep.Stepper {
	t.Helper()
	p, err := s.Reset(context.Background(), jobs, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// TestSnapshot goes back to snapshots before the control, in it, where one rollout
// has ended, and at the end, in these rollouts and in others that are fresh: what
// follows is what followed before, and costs of what had ended are there.
func TestSnapshot(t *testing.T) {
	s := newSimulator(t, Config{})
	ctx := context.Background()
	jobs := []lockstep.Job{{Route: shorten(routes()[0], 105), Policy: lockstep.DefaultPID}, {Route: shorten(routes()[1], 102)}}
	opts := lockstep.Options{Shortcuts: lockstep.CostOnly, Trajectory: true}
	command := func(step, run int) []float64 { return []float64{0, math.Sin(float64(step)*0.7 + float64(run))} }
	through := func(p lockstep.Stepper, to, run int) {
		lataccels := make([]float64, 2)
		for p.Index() < to && !p.Done() {
			if err := p.Step(ctx, command(p.Index(), run), lataccels); err != nil {
				t.Fatal(err)
			}
		}
	}
	p := reset(t, s, jobs, opts)
	shots := map[int]*lockstep.Snapshot{}
	for _, at := range []int{20, 60, 101, 103, 105} {
		through(p, at, 0)
		shot, err := p.Snapshot(ctx)
		if err != nil {
			t.Fatal(err)
		}
		shots[at] = shot
	}
	want, err := p.Results(ctx)
	if err != nil || want[0].Err != nil || want[1].Err != nil {
		t.Fatal(err, want)
	}
	for at, shot := range shots {
		for name, q := range map[string]lockstep.Stepper{"the same": p, "fresh": reset(t, s, jobs, opts)} {
			for run := range 2 { // a detour first
				if err := q.Restore(ctx, shot); err != nil {
					t.Fatal(err)
				}
				through(q, 1000, 1-run)
			}
			got, err := q.Results(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for j := range got {
				if d := resultDifference(got[j], want[j]); d != "" {
					t.Errorf("from a snapshot before step %d, %s rollouts, job %d: %s", at, name, j, d)
				}
			}
		}
	}
}

// TestStepperFaults uses a Stepper as it must not be used.
func TestStepperFaults(t *testing.T) {
	s := newSimulator(t, Config{})
	ctx := context.Background()
	route := shorten(routes()[0], 102)
	taught := &lockstep.Trajectory{Lataccel: make([]float64, 102), Action: make([]float64, 102)}
	for _, c := range []struct {
		jobs []lockstep.Job
		want string
	}{
		{nil, "no jobs"},
		{[]lockstep.Job{{Route: route}, {}}, "job 1: route , step 0: no route"},
		{[]lockstep.Job{{Route: route}, {Route: route, Teacher: taught}}, "either all jobs have a teacher or none has"},
		{[]lockstep.Job{{Route: route, Draws: make([]float64, 2)}}, "2 draws are given, want 82"},
	} {
		if _, err := s.Reset(ctx, c.jobs, lockstep.Options{}); !contains(err, c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("error %v, want one line with %q", err, c.want)
		}
	}
	s.config.MemoryLimit = 24 << 10
	many := make([]lockstep.Job, 20)
	for i := range many {
		many[i] = lockstep.Job{Route: route}
	}
	if _, err := s.Reset(ctx, many, lockstep.Options{}); !errors.Is(err, driver.ErrOutOfMemory) || !contains(err, "of 20 rollouts fit") {
		t.Errorf("too many rollouts: %v", err)
	}
	s.config.MemoryLimit = 0

	seen := 0
	p := reset(t, s, []lockstep.Job{{Route: route}, {Route: route, Observe: func(step *lockstep.Step) {
		seen = step.Index
		if step.Index == 30 {
			panic("seen enough")
		}
	}}}, lockstep.Options{Shortcuts: lockstep.SkipWarmup})
	lataccels := make([]float64, 2)
	for p.Index() < 33 {
		if err := p.Step(ctx, []float64{0, 0}, lataccels); err != nil {
			t.Fatal(err)
		}
		if step := p.Index() - 1; math.IsNaN(lataccels[1]) != (step >= 30) || math.IsNaN(lataccels[0]) {
			t.Errorf("step %d: lataccels %v", step, lataccels)
		}
	}
	if err := p.Err(1); !contains(err, "step 30: panic: seen enough") || seen != 30 {
		t.Errorf("job 1: error %v; its observer last saw step %d", err, seen)
	}
	results, err := p.Results(ctx)
	if err != nil || !contains(results[0].Err, "the rollout goes on to step 101") || !contains(results[1].Err, "seen enough") {
		t.Errorf("results %v, %v", results, err)
	}
}
