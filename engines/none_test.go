package engines

import (
	"testing"

	"lockstep"
	"lockstep/internal/policytest"
	"lockstep/internal/simtest"
)

// TestNone: where a list is empty an engine does nothing and says nothing, or says that it wants
// something; as the first call, and behind others.
func TestNone(t *testing.T) {
	route := cutRoute(policyRoutes(t, 1)[0], lockstep.MinRows+1)
	some := []lockstep.Job{{Route: route, Policy: policytest.Network(t)}}
	everyEngine(t, func(t *testing.T, s, _ lockstep.Implementation) {
		for range 2 {
			collectsNone(t, s, some)
			for range s.Simulate(t.Context(), nil, lockstep.Options{}) {
				t.Error("a result of no job")
			}
			_, err := s.Reset(t.Context(), nil, lockstep.Options{})
			simtest.Refused(t, "a stepper of no jobs", err, "no jobs")
			rollsNone(t, s, []lockstep.Job{{Route: route}})
		}
	})
}

// collectsNone collects no rollouts, and observes no places of none and of some.
func collectsNone(t *testing.T, s lockstep.Implementation, some []lockstep.Job) {
	t.Helper()
	for _, jobs := range [][]lockstep.Job{nil, some} {
		e, err := s.Collect(t.Context(), jobs)
		if err != nil || len(e.Results) != len(jobs) {
			t.Fatalf("%d jobs: %v, %v", len(jobs), e, err)
		}
		if err := s.Observe(e, []lockstep.Place{}, nil); err != nil {
			t.Errorf("no places of %d rollouts: %v", len(jobs), err)
		}
		simtest.Refused(t, "a row for none", s.Observe(e, []lockstep.Place{}, make([]float32, 1)),
			"room for 1 numbers of observations")
		if d, ok := s.(lockstep.DeviceCollector); ok {
			there, err := d.CollectOnDevice(t.Context(), jobs)
			if err != nil {
				t.Fatalf("%d jobs on the device: %v", len(jobs), err)
			}
			if err := there.Observe(nil, 0); err != nil {
				t.Errorf("no places of %d rollouts on the device: %v", len(jobs), err)
			}
			if err := there.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// rollsNone rolls no steps and forks no candidates, at the begin and at the end.
func rollsNone(t *testing.T, s lockstep.Implementation, jobs []lockstep.Job) {
	t.Helper()
	ctx := t.Context()
	p, err := s.Reset(ctx, jobs, lockstep.Options{Shortcuts: lockstep.CostOnly})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for {
		costs, index, lataccel := []float64{3}, p.Index(), p.Lataccel(0)
		if err := p.Roll(ctx, nil, costs, nil); err != nil || costs[0] != 3 ||
			p.Index() != index || p.Lataccel(0) != lataccel {
			t.Errorf("no steps from %d: step %d, cost %v, lataccel %v, %v", index, p.Index(),
				costs[0], p.Lataccel(0), err)
		}
		shot, err := p.Snapshot(ctx)
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.Fork(ctx, shot, nil, lockstep.Noise{Kind: lockstep.RouteNoise})
		simtest.Refused(t, "a fork of no candidates", err, "no candidates")
		if p.Done() {
			return
		}
		for !p.Done() {
			if err := p.Step(ctx, []float64{0}, []float64{0}); err != nil {
				t.Fatal(err)
			}
		}
	}
}
