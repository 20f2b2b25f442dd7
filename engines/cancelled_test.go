package engines

import (
	"context"
	"errors"
	"testing"

	"lockstep"
	"lockstep/internal/policytest"
	"lockstep/internal/simtest"
)

// TestCancelled: where the time was over before a call, every engine says context.Canceled, and
// nothing of why somebody ended it; rollouts in step are then where they were, and go on.
func TestCancelled(t *testing.T) {
	route := cutRoute(policyRoutes(t, 1)[0], lockstep.MinRows+4)
	steered := []lockstep.Job{{Route: route}, {Route: route, Policy: lockstep.DefaultPID()}}
	learning := []lockstep.Job{
		{Route: route, Policy: policytest.Network(t)},
		{Route: route, Policy: policytest.Network(t)},
	}
	opts := lockstep.Options{Shortcuts: lockstep.CostOnly, Trajectory: true}
	everyEngine(t, func(t *testing.T, s, reference lockstep.Implementation) {
		ctx, cancel := context.WithCancelCause(context.Background())
		why := errors.New("somebody has no time")
		cancel(why)
		var begun *lockstep.Snapshot
		begin := func(s lockstep.Implementation) lockstep.Stepper {
			p, err := s.Reset(context.Background(), steered, opts)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { p.Close() })
			begun = snap(t, p)
			through(t, p, len(steered), lockstep.ControlStartIdx+1)
			return p
		}
		p, want := begin(s), begin(reference)
		shot := snap(t, p)
		numbers := make([]float64, len(steered))
		calls := map[string]func() error{
			"Reset":    func() error { _, err := s.Reset(ctx, steered, opts); return err },
			"Step":     func() error { return p.Step(ctx, numbers, numbers) },
			"Roll":     func() error { return p.Roll(ctx, numbers, numbers, nil) },
			"Observe":  func() error { return p.Observe(ctx, make([]float32, 2*256)) },
			"Results":  func() error { _, err := p.Results(ctx); return err },
			"Snapshot": func() error { _, err := p.Snapshot(ctx); return err },
			"Restore":  func() error { return p.Restore(ctx, begun) },
			"Fork": func() error {
				_, err := p.Fork(ctx, shot, []int{1}, lockstep.Noise{Kind: lockstep.RouteNoise})
				return err
			},
			"Collect": func() error {
				e, err := s.Collect(ctx, learning)
				if err != nil {
					return err
				}
				if e.Steps(0)+e.Steps(1) != 0 {
					t.Errorf("%d steps are collected", e.Steps(0)+e.Steps(1))
				}
				return errors.Join(e.Results[0].Err, e.Results[1].Err)
			},
		}
		for _, jobs := range [][]lockstep.Job{steered[1:], learning} {
			calls["Simulate "+jobs[0].Policy.String()] = func() (err error) {
				n := 0
				for _, r := range s.Simulate(ctx, jobs, opts) {
					if n++; !errors.Is(r.Err, context.Canceled) {
						t.Errorf("a result of a cancelled run: %+v", r)
					}
					err = r.Err
				}
				if n != len(jobs) {
					t.Errorf("%d results of %d jobs", n, len(jobs))
				}
				return err
			}
		}
		for name, call := range calls {
			if err := call(); !errors.Is(err, context.Canceled) || errors.Is(err, why) {
				t.Errorf("%s: %v, want %v", name, err, context.Canceled)
			}
		}
		for _, p := range []lockstep.Stepper{p, want} {
			through(t, p, len(steered), route.Len())
		}
		sameEnds(t, p, want)
	})
}

// sameEnds holds what rollouts have come to.
func sameEnds(t *testing.T, p, want lockstep.Stepper) {
	t.Helper()
	a, b := snap(t, p), snap(t, want)
	for i := range b.Rollouts {
		if err := simtest.SameBits(
			"lataccels", a.Rollouts[i].Lataccel, b.Rollouts[i].Lataccel); err != nil {
			t.Errorf("rollout %d: %v", i, err)
		}
	}
}
