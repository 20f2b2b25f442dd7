package search

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"lockstep"
	"lockstep/batched"
	"lockstep/defaults"
	"lockstep/generate"
)

// TestPlan: a plan that knows the draws betters the table that it began with, by the
// cost that a rollout of the table has, on each route and within the floor; the same
// plan is found again.
func TestPlan(t *testing.T) {
	model, _, err := defaults.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	sim, err := batched.New(batched.Config{ModelPath: model})
	if err != nil {
		t.Fatal(err)
	}
	var routes []*lockstep.Route
	for i := range 2 {
		r, err := lockstep.Loader{}.Read(bytes.NewReader(generate.Route(5, i)), fmt.Sprintf("r%d.csv", i))
		if err != nil {
			t.Fatal(err)
		}
		rows := 112 + 3*i
		for _, column := range []*[]float64{&r.TargetLataccel, &r.RollLataccel, &r.VEgo, &r.AEgo, &r.SteerCommand} {
			*column = (*column)[:rows]
		}
		routes = append(routes, r)
	}
	totals := func(p lockstep.Policy) (costs []float64) {
		costs = make([]float64, len(routes))
		var jobs []lockstep.Job
		for _, r := range routes {
			jobs = append(jobs, lockstep.Job{Route: r, Policy: p})
		}
		for i, r := range sim.Simulate(context.Background(), jobs, lockstep.Options{Shortcuts: lockstep.CostOnly}) {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
			costs[i] = r.Costs.Total
		}
		return costs
	}
	plan := Plan{Noise: lockstep.OwnNoise, Seeds: 1, Rounds: 2, Window: 5, Horizon: 8, Seed: 3}
	table, err := plan.Run(context.Background(), sim, routes, lockstep.Zero{}, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	was, is := totals(lockstep.Zero{}), totals(table)
	for i, r := range routes {
		if !(is[i] < was[i]) || is[i] < Floor(r) {
			t.Errorf("route %s: from %v to %v, above a floor of %v", r.Name, was[i], is[i], Floor(r))
		}
	}
	again, err := plan.Run(context.Background(), sim, routes, lockstep.Zero{}, func(int) {})
	if err != nil || again.Name != table.Name {
		t.Errorf("the same plan again is %v, not %v (%v)", again, table, err)
	}
	for _, kind := range []lockstep.NoiseKind{lockstep.SeededNoise, lockstep.ExpectedNoise} {
		plan := Plan{Noise: kind, Seeds: 1, Rounds: 1, Window: 5, Horizon: 6}
		other, err := plan.Run(context.Background(), sim, routes, lockstep.Zero{}, func(int) {})
		if err != nil || other.Name == table.Name {
			t.Errorf("%s noise: %v, %v", kind, other, err)
		}
	}
	if _, err := plan.Run(context.Background(), sim, []*lockstep.Route{routes[0], routes[0]}, lockstep.Zero{}, func(int) {}); err == nil || err.Error() != "two routes are named r0: a table could not tell them apart" {
		t.Error(err)
	}
	plan.Horizon = 4
	if _, err := plan.Run(context.Background(), sim, routes, lockstep.Zero{}, func(int) {}); err == nil || !strings.HasPrefix(err.Error(), "a window of 5 steps and a horizon of 4") {
		t.Error(err)
	}
}

// TestQuadratic: the sum is least where its derivatives say so, but for what the solver
// rounds; nothing here is the simulator's.
func TestQuadratic(t *testing.T) {
	q := newQuadratic(2)
	q.add(2, 1, []float64{1, 0})  // 2·(1+x)²
	q.add(3, -4, []float64{1, 2}) // 3·(x+2y-4)²
	if got := q.least(0); math.Abs(got[0]+1) > 1e-12 || math.Abs(got[1]-2.5) > 1e-12 {
		t.Errorf("%v, want -1 and 2.5", got)
	}
	if got := q.least(1e9); math.Abs(got[0]) > 1e-6 || math.Abs(got[1]) > 1e-6 {
		t.Errorf("%v with all damping, want none", got)
	}
}
