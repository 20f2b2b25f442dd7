package search

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
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
	holdUnknowing(t, sim, routes)
	plan.Horizon = 4
	if _, err := plan.Run(context.Background(), sim, routes, lockstep.Zero{}, func(int) {}); err == nil || !strings.HasPrefix(err.Error(), "a window of 5 steps and a horizon of 4") {
		t.Error(err)
	}
}

// holdUnknowing sees that before it meets a draw of the route's own a plan follows from
// none, unless it may.
func holdUnknowing(t *testing.T, sim lockstep.StepSimulator, routes []*lockstep.Route) {
	t.Helper()
	other := *routes[0]
	other.Seed, other.Draws = routes[0].Seed+1, nil
	for _, kind := range []lockstep.NoiseKind{lockstep.OwnNoise, lockstep.SeededNoise, lockstep.ExpectedNoise} {
		plan := Plan{Noise: kind, Seeds: 1, Rounds: 1, Window: 5, Horizon: 8}
		if kind == lockstep.SeededNoise {
			plan.Seeds = 2
		}
		var actions [2][]float64
		for i, r := range []*lockstep.Route{routes[0], &other} {
			table, err := plan.Run(context.Background(), sim, []*lockstep.Route{r}, lockstep.DefaultPID, func(int) {})
			if err != nil {
				t.Fatal(err)
			}
			actions[i] = table.Actions[r.Name]
		}
		first, later := slices.Equal(actions[0][:plan.Window], actions[1][:plan.Window]), slices.Equal(actions[0], actions[1])
		if first != (kind != lockstep.OwnNoise) || later {
			t.Errorf("%s noise: with other draws of the route's the actions are %v and %v", kind, actions[0][:12], actions[1][:12])
		}
	}
}

// TestTrial: a candidate costs what it comes to under each seed, and its actions' price.
func TestTrial(t *testing.T) {
	trial := &trial{seeds: 2, actions: make([][][]float64, 2), costs: make([]float64, 2*3*2)}
	for route := range trial.actions {
		for candidate := range 3 {
			trial.actions[route] = append(trial.actions[route], []float64{0.5, float64(candidate)})
		}
	}
	for i := range trial.costs {
		trial.costs[i] = float64(int(1) << i)
	}
	from := &lockstep.RolloutState{Action: []float64{7, 1}}
	for route := range 2 {
		for candidate := range 3 {
			change := float64(candidate) - 0.5
			first := 2 * (3*route + candidate)
			want := price*2*(0.25+change*change) + float64(int(3)<<first)
			if got := trial.cost(route, candidate, from); got != want {
				t.Errorf("route %d, candidate %d: %v, want %v", route, candidate, got, want)
			}
		}
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
