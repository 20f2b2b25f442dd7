package gpu

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"lockstep"
	"lockstep/gpu/driver"
)

// TestStepper drives rollouts by hand and holds them to the reference.
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

	p, err := s.Reset(ctx, jobs, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, err := p.Step(ctx, []float64{0}); !contains(err, "1 commands for 3 jobs") {
		t.Errorf("too few commands: %v", err)
	}
	controller := &weave{}
	var end []float64
	for !p.Done() {
		step := p.Index()
		commands := []float64{0, math.NaN(), 0} // the second is the device's own
		if p.Running(0) {
			route := jobs[0].Route
			commands[0] = controller.Update(route.TargetLataccel[step], p.Lataccel(0), route.State(step), route.FuturePlan(step))
		}
		running := []bool{p.Running(0), p.Running(1), p.Running(2)}
		lataccels, err := p.Step(ctx, commands)
		if err != nil {
			t.Fatal(err)
		}
		for j := range jobs {
			if running[j] && !same64(lataccels[j], want[j].steps[step-lockstep.ContextLength].Lataccel) {
				t.Fatalf("job %d, step %d: lataccel %v, want %v", j, step, lataccels[j], want[j].steps[step-lockstep.ContextLength].Lataccel)
			}
			if !running[j] && !same64(lataccels[j], end[j]) {
				t.Errorf("job %d, step %d: lataccel %v after the end, want %v", j, step, lataccels[j], end[j])
			}
		}
		end = lataccels
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
	if _, err := p.Step(ctx, make([]float64, 3)); !contains(err, "all rollouts have ended") {
		t.Errorf("a step after the end: %v", err)
	}
}

// TestSnapshot draws places to keep and to return to: what follows a Restore is
// what followed the Snapshot, whatever happened in between.
func TestSnapshot(t *testing.T) {
	s := newSimulator(t, Config{})
	ctx := context.Background()
	jobs := []lockstep.Job{
		{Route: shorten(routes()[0], 104), Policy: lockstep.DefaultPID},
		{Route: shorten(routes()[1], 103)},
	}
	const first, last = 98, 104
	command := func(step, run int) []float64 {
		return []float64{0, math.Sin(float64(step)*0.7 + float64(run))}
	}
	p, err := s.Reset(ctx, jobs, lockstep.Options{Shortcuts: lockstep.CostOnly})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for p.Index() < first {
		if _, err := p.Step(ctx, command(p.Index(), 0)); err != nil {
			t.Fatal(err)
		}
	}
	origin, err := p.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer origin.Release()
	rapid.Check(t, func(t *rapid.T) {
		if err := p.Restore(origin); err != nil {
			t.Fatalf("%v", err)
		}
		at := rapid.IntRange(first, last-1).Draw(t, "snapshot before step")
		detour := rapid.IntRange(0, last-at).Draw(t, "steps of the detour")
		for p.Index() < at {
			if _, err := p.Step(ctx, command(p.Index(), 0)); err != nil {
				t.Fatalf("%v", err)
			}
		}
		kept, err := p.Snapshot()
		if err != nil {
			t.Fatalf("%v", err)
		}
		defer kept.Release()
		finish := func() (all [][]float64, result []lockstep.Result) {
			for !p.Done() {
				l, err := p.Step(ctx, command(p.Index(), 0))
				if err != nil {
					t.Fatalf("%v", err)
				}
				all = append(all, l)
			}
			result, err := p.Results(ctx)
			if err != nil {
				t.Fatalf("%v", err)
			}
			return all, result
		}
		want, result := finish()
		restore := func() {
			if err := p.Restore(kept); err != nil {
				t.Fatalf("%v", err)
			}
			if p.Index() != at {
				t.Fatalf("at step %d after a Restore, want %d", p.Index(), at)
			}
		}
		restore()
		for range detour {
			if _, err := p.Step(ctx, command(p.Index(), 1)); err != nil {
				t.Fatalf("%v", err)
			}
		}
		restore()
		got, again := finish()
		for i := range want {
			for j := range want[i] {
				if !same64(got[i][j], want[i][j]) {
					t.Fatalf("job %d, step %d: lataccel %v after a Restore, want %v", j, at+i, got[i][j], want[i][j])
				}
			}
		}
		for j := range result {
			if d := resultDifference(again[j], result[j]); d != "" {
				t.Fatalf("job %d: %s", j, d)
			}
		}
	})
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
		{[]lockstep.Job{{Route: route}, {}}, "job 1, route : no route"},
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
	p, err := s.Reset(ctx, []lockstep.Job{{Route: route}, {Route: route, Observe: func(step *lockstep.Step) {
		seen = step.Index
		if step.Index == 30 {
			panic("seen enough")
		}
	}}}, lockstep.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for p.Index() < 33 {
		lataccels, err := p.Step(ctx, []float64{0, 0})
		if err != nil {
			t.Fatal(err)
		}
		if step := p.Index() - 1; math.IsNaN(lataccels[1]) != (step >= 30) || math.IsNaN(lataccels[0]) {
			t.Errorf("step %d: lataccels %v", step, lataccels)
		}
	}
	if step, err := p.Err(1); step != 30 || !contains(err, "seen enough") || seen != 30 {
		t.Errorf("job 1: step %d, error %v; its observer last saw step %d", step, err, seen)
	}
	results, err := p.Results(ctx)
	if err != nil || !contains(results[0].Err, "the rollout is at step 33 of 102") || !contains(results[1].Err, "seen enough") {
		t.Errorf("results %v, %v", results, err)
	}
	kept, err := p.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	other, err := s.Reset(ctx, []lockstep.Job{{Route: route}}, lockstep.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := other.Restore(kept); !contains(err, "of other rollouts") {
		t.Errorf("another's snapshot: %v", err)
	}
	kept.Release()
	kept.Release()
	if err := p.Restore(kept); !contains(err, "released") {
		t.Errorf("a released snapshot: %v", err)
	}
}
