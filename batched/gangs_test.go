package batched_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"lockstep"
	"lockstep/internal/simtest"
)

// counting steers each route by its target, the step and how many routes it steers, and fails one
// route at a step.
type counting struct {
	routes int
	fails  int // the step
	closed *int
}

func (c *counting) Update(s *lockstep.BatchStep) error {
	for k := range s.Steer {
		if s.Running[k] {
			s.Steer[k] = math.Mod(float64(c.routes)*s.TargetLataccel[k]-s.CurrentLataccel[k], 1)
		}
	}
	if s.Step == c.fails {
		s.Err[0] = errBroken
	}
	return nil
}

func (c *counting) Close() error { *c.closed++; return nil }

// TestGangs: step by step, the rollouts of a batch controller have one controller of all of their
// routes, made once, which is closed once; they come to what they do otherwise where what steers
// them is the same, and one that fails leaves the others alone.
func TestGangs(t *testing.T) {
	sample := jobs(t, 106, 110, 104, 110, 107, 103)
	s := breakingSimulator(t, 2, &calls{})
	made, closed := map[string]int{}, 0
	batch := func(name string, fails int) *lockstep.Batch {
		return &lockstep.Batch{
			Name: name,
			New: func(routes []*lockstep.Route) (lockstep.BatchController, error) {
				made[name] += 10 + len(routes)
				return &counting{len(routes), fails, &closed}, nil
			},
		}
	}
	first, second := batch("first", 0), batch("second", 105)
	for i, policy := range []lockstep.Policy{first, second, first, second, nil, first} {
		sample[i].Policy = policy
	}
	opts := lockstep.Options{Shortcuts: lockstep.CostOnly, Trajectory: true}
	p, err := s.Reset(t.Context(), sample, opts)
	if err != nil {
		t.Fatal(err)
	}
	// Of those that are steered no command counts.
	seen := steppedToEnd(t, p, []float64{9, 9, 9, 9, 0.25, 9})
	if made["first"] != 13 || made["second"] != 12 || len(made) != 2 {
		t.Errorf("controllers are made for %v routes, plus 10 each, want 13 and 12", made)
	}
	results, err := p.Results(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if (r.Err != nil) != (i == 1) || i == 1 && !errors.Is(r.Err, errBroken) {
			t.Errorf("rollout %d: %v", i, r.Err)
		}
	}
	for range 2 {
		if err := p.Close(); err != nil || closed != 2 {
			t.Errorf("%v, %d controllers are closed, want 2", err, closed)
		}
	}
	// The same controllers, for as many routes, in one go: a custom one for each.
	for i := range sample {
		routes := map[lockstep.Policy]int{first: 3, second: 2}[sample[i].Policy]
		sample[i].Policy = lockstep.Custom{Name: "own", New: func() lockstep.Controller {
			return alone{routes, i == 4}
		}}
	}
	for i, r := range s.Simulate(t.Context(), sample, opts) {
		if i == 1 {
			continue
		}
		n := sample[i].Route.Len() - lockstep.ContextLength
		if err := simtest.Same("lataccels", seen[i][:n],
			r.Trajectory.Lataccel[lockstep.ContextLength:]); err != nil || r.Err != nil {
			t.Errorf("rollout %d: %v, %v", i, err, r.Err)
		}
	}
}

// steppedToEnd gives the same commands at each step, and returns the lataccels of each rollout.
func steppedToEnd(t *testing.T, p lockstep.Stepper, commands []float64) [][]float64 {
	t.Helper()
	now, seen := make([]float64, len(commands)), make([][]float64, len(commands))
	for !p.Done() {
		if err := p.Step(t.Context(), slices.Clone(commands), now); err != nil {
			t.Fatal(err)
		}
		for i, x := range now {
			seen[i] = append(seen[i], x)
		}
	}
	return seen
}

// alone is counting's controller of one route.
type alone struct {
	routes int
	steady bool
}

func (c alone) Update(
	target, current float64, _ lockstep.State, _ lockstep.FuturePlan,
) float64 {
	if c.steady {
		return 0.25
	}
	return math.Mod(float64(c.routes)*target-current, 1)
}

// TestNoToken: a lataccel that is no number, wherever in what the network sees first, fails the
// rollout at that step.
func TestNoToken(t *testing.T) {
	s := breakingSimulator(t, 1, &calls{})
	for k := range lockstep.ContextLength {
		sample := jobs(t, 104, 104)
		sample[1].Route.TargetLataccel = slices.Clone(sample[1].Route.TargetLataccel)
		sample[1].Route.TargetLataccel[k] = math.NaN()
		for i, r := range s.Simulate(t.Context(), sample, lockstep.Options{
			Shortcuts: lockstep.AllSteps,
		}) {
			if i == 0 && r.Err != nil || i == 1 && (r.Err == nil ||
				!strings.HasSuffix(r.Err.Error(), "step 20: lataccel NaN has no token")) {
				t.Errorf("row %d is no number: rollout %d: %v", k, i, r.Err)
			}
		}
	}
}
