package engines

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"lockstep"
)

// constant steers by 0.5, and remembers nothing that could be asked for.
type constant struct{}

func (constant) Update(_, _ float64, _ lockstep.State, _ lockstep.FuturePlan) float64 {
	return 0.5
}

// constants is the same of several rollouts.
type constants struct{}

func (constants) Update(s *lockstep.BatchStep) error {
	for i := range s.Steer {
		s.Steer[i] = 0.5
	}
	return nil
}

func (constants) Close() error { return nil }

// TestUnkept: a rollout whose controller may remember what no snapshot has is not kept: the error
// names it, in every engine in the same words, and it goes on.
func TestUnkept(t *testing.T) {
	route := cutRoute(policyRoutes(t, 1)[0], lockstep.MinRows+4)
	policies := []lockstep.Policy{
		lockstep.Custom{Name: "constant", New: func() lockstep.Controller { return constant{} }},
		&lockstep.Batch{
			Name: "constants",
			New: func([]*lockstep.Route) (lockstep.BatchController, error) {
				return constants{}, nil
			},
		},
	}
	everyEngine(t, func(t *testing.T, s, _ lockstep.Implementation) {
		for _, policy := range policies {
			jobs := []lockstep.Job{{Route: route}, {Route: route, Policy: policy}}
			p, err := s.Reset(t.Context(), jobs, lockstep.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			through(t, p, len(jobs), lockstep.ControlStartIdx+1)
			want := fmt.Sprintf("route %s, controller %s, step 101: what the controller remembers "+
				"cannot be kept: steer the rollout from outside, by a job without a policy",
				route.Name, policy)
			if _, err := p.Snapshot(t.Context()); err == nil || err.Error() != want {
				t.Errorf("%s: %v, want %s", policy, err, want)
			}
			through(t, p, len(jobs), route.Len())
			if !p.Done() || p.Err(1) != nil {
				t.Errorf("%s: it does not end: %v", policy, p.Err(1))
			}
		}
	})
}

// TestObserveNaN: what a network would see as NaN is an error that names rollout, step and number,
// and the same in every engine; behind it there is none.
func TestObserveNaN(t *testing.T) {
	routes := policyRoutes(t, 3)
	jobs := []lockstep.Job{{Route: routes[1]}, {Route: cutRoute(routes[2], 110)}}
	jobs[1].Route.AEgo = slices.Clone(jobs[1].Route.AEgo)
	jobs[1].Route.AEgo[103] = math.NaN() // planned, then seen, and fails the step
	everyEngine(t, func(t *testing.T, s, reference lockstep.Implementation) {
		begin := func(s lockstep.Implementation) lockstep.Stepper {
			p, err := s.Reset(t.Context(), jobs, lockstep.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { p.Close() })
			return p
		}
		p, want := begin(s), begin(reference)
		into := make([]float32, len(jobs)*lockstep.ObservationSize)
		failed := 0
		for step := lockstep.ControlStartIdx; step < 107; step++ {
			through(t, p, len(jobs), step)
			through(t, want, len(jobs), step)
			got, told := p.Observe(t.Context(), into), want.Observe(t.Context(), into)
			if (got == nil) != (told == nil) || got != nil && (got.Error() != told.Error() ||
				!strings.Contains(got.Error(), jobs[1].Route.Name)) {
				t.Errorf("step %d: %v, want %v, of %s", step, got, told, jobs[1].Route.Name)
			}
			if told != nil {
				failed++
			}
		}
		if failed != 4 {
			t.Errorf("%d of 7 observations are refused, want 4", failed)
		}
	})
}
