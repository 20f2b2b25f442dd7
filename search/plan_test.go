package search

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"lockstep"
	"lockstep/batched"
	"lockstep/defaults"
	"lockstep/generate"
	"lockstep/golden/policies"
)

// shortRoutes are two of different lengths, with an engine and the project's own network.
func shortRoutes(t *testing.T) (lockstep.StepSimulator, []*lockstep.Route) {
	t.Helper()
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
		rows := 107 + 2*i
		for _, column := range []*[]float64{&r.TargetLataccel, &r.RollLataccel, &r.VEgo, &r.AEgo, &r.SteerCommand} {
			*column = (*column)[:rows]
		}
		routes = append(routes, r)
	}
	return sim, routes
}

// drivenBy are results of a policy on routes, with the actions.
func drivenBy(t *testing.T, sim lockstep.Simulator, routes []*lockstep.Route, p lockstep.Policy) []lockstep.Result {
	t.Helper()
	results := make([]lockstep.Result, len(routes))
	var jobs []lockstep.Job
	for _, r := range routes {
		jobs = append(jobs, lockstep.Job{Route: r, Policy: p})
	}
	for i, r := range sim.Simulate(t.Context(), jobs, lockstep.Options{Shortcuts: lockstep.CostOnly, Trajectory: true}) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		results[i] = r
	}
	return results
}

func quiet(int) {}

// TestPlan: a plan that knows the draws betters the policy that it began with, by the
// cost that a rollout of the table has, on each route and within the floor; the same
// plan is found again.
func TestPlan(t *testing.T) {
	sim, routes := shortRoutes(t)
	plan := Plan{Noise: lockstep.OwnNoise, Seeds: 1, Rounds: 2, Window: 5, Horizon: 8, Seed: 3}
	table, err := plan.Run(t.Context(), sim, routes, lockstep.Zero{}, quiet)
	if err != nil {
		t.Fatal(err)
	}
	was, is := drivenBy(t, sim, routes, lockstep.Zero{}), drivenBy(t, sim, routes, table)
	for i, r := range routes {
		if was, is := was[i].Costs.Total, is[i].Costs.Total; !(is < was) || is < Floor(r) {
			t.Errorf("route %s: from %v to %v, above a floor of %v", r.Name, was, is, Floor(r))
		}
	}
	again, err := plan.Run(t.Context(), sim, routes, lockstep.Zero{}, quiet)
	if err != nil || again.Name != table.Name {
		t.Errorf("the same plan again is %v, not %v (%v)", again, table, err)
	}
	if _, err := plan.Run(t.Context(), sim, []*lockstep.Route{routes[0], routes[0]}, lockstep.Zero{}, quiet); err == nil || err.Error() != "two routes are named r0: a table could not tell them apart" {
		t.Error(err)
	}
	plan.Horizon = 4
	if _, err := plan.Run(t.Context(), sim, routes, lockstep.Zero{}, quiet); err == nil || !strings.HasPrefix(err.Error(), "a window of 5 steps and a horizon of 4") {
		t.Error(err)
	}
}

// TestPlanOfNothing: where nothing is tried, what is planned is to the last bit what the
// policy does, whatever it remembers; of one that is asked anew at each step under any
// noise, of one that knows the draws also by windows.
func TestPlanOfNothing(t *testing.T) {
	sim, routes := shortRoutes(t)
	routes = routes[:1]
	network, err := policies.Network()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []lockstep.Policy{lockstep.DefaultPID, policies.PIDFF, network} {
		want := drivenBy(t, sim, routes, p)
		for _, plan := range []Plan{
			{Noise: lockstep.SeededNoise, Seeds: 3, Window: 1, Horizon: 2},
			{Noise: lockstep.ExpectedNoise, Seeds: 1, Window: 1, Horizon: 1},
			{Noise: lockstep.OwnNoise, Seeds: 1, Window: 4, Horizon: 5},
		} {
			table, err := plan.run(t.Context(), sim, routes, p, quiet)
			if err != nil {
				t.Fatal(err)
			}
			for i, r := range routes {
				actions := want[i].Trajectory.Action[lockstep.ControlStartIdx:]
				if !slices.Equal(table.Actions[r.Name][:len(actions)], actions) {
					t.Errorf("route %s, %s noise: %v\nwant what %s does: %v", r.Name, plan.Noise, table.Actions[r.Name][:len(actions)], p, actions)
				}
			}
		}
	}
}

// TestPlanIsHonest: a plan with noise that is not the route's does before a step what it
// did, when the draws from that step on are others; a plan that knows the draws does not.
func TestPlanIsHonest(t *testing.T) {
	sim, routes := shortRoutes(t)
	routes = routes[:1]
	const changed = 3 // the first step with another draw, of those that cost
	for _, plan := range []Plan{
		{Noise: lockstep.SeededNoise, Seeds: 2, Rounds: 1, Window: 1, Horizon: 4},
		{Noise: lockstep.ExpectedNoise, Seeds: 1, Rounds: 1, Window: 3, Horizon: 4}, // of which changed is a multiple
		{Noise: lockstep.OwnNoise, Seeds: 1, Rounds: 1, Window: 1, Horizon: 4},
	} {
		var tables []*lockstep.Table
		for _, future := range []float64{0, 0.5} {
			others := slices.Clone(routes)
			for i, r := range routes {
				other := *r
				other.Draws = lockstep.Draws(r.Seed, r.Len()-lockstep.ContextLength)
				for k, u := range other.Draws {
					if k >= lockstep.ControlStartIdx+changed-lockstep.ContextLength {
						other.Draws[k] = math.Mod(u+future, 1)
					}
				}
				others[i] = &other
			}
			table, err := plan.Run(t.Context(), sim, others, lockstep.DefaultPID, quiet)
			if err != nil {
				t.Fatal(err)
			}
			tables = append(tables, table)
		}
		for _, r := range routes {
			a, b := tables[0].Actions[r.Name], tables[1].Actions[r.Name]
			// The action at the step itself is taken before its draw.
			if same := slices.Equal(a[:changed+1], b[:changed+1]); same != (plan.Noise != lockstep.OwnNoise) || slices.Equal(a, b) {
				t.Errorf("route %s, %s noise, windows of %d: %v\nand with other draws from step %d on: %v", r.Name, plan.Noise, plan.Window, a[:8], changed, b[:8])
			}
		}
	}
}

// TestPlanNeverWorse: what is chosen costs no more than the policy alone, on average over
// the seeds; both are rolled out again.
func TestPlanNeverWorse(t *testing.T) {
	sim, routes := shortRoutes(t)
	better := 0
	for _, plan := range []Plan{
		{Noise: lockstep.SeededNoise, Seeds: 3, Rounds: 1, Window: 1, Horizon: 5},
		{Noise: lockstep.ExpectedNoise, Seeds: 1, Rounds: 2, Window: 1, Horizon: 5},
	} {
		d, err := plan.depart(t.Context(), sim, routes, lockstep.DefaultPID)
		if err != nil {
			t.Fatal(err)
		}
		defer d.close()
		for at := range 3 {
			chosen, err := d.plan(t.Context(), at, plan.Horizon)
			if err != nil {
				t.Fatal(err)
			}
			shot, err := d.cars.Snapshot(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			free, err := d.policyTrial(t.Context(), shot, at, plan.Horizon)
			if err != nil {
				t.Fatal(err)
			}
			var offsets [][][]float64
			for _, c := range chosen {
				offsets = append(offsets, [][]float64{c.offset})
			}
			again, err := d.try(t.Context(), shot, at, free, offsets)
			if err != nil {
				t.Fatal(err)
			}
			for i, r := range routes {
				cost, alone := again.cost(i, 0), free.cost(i, 0)
				if cost != chosen[i].cost || cost > alone {
					t.Errorf("route %s, %s noise, step %d: chosen for %v, costs %v, the policy alone %v", r.Name, plan.Noise, at, chosen[i].cost, cost, alone)
				}
				if cost < alone {
					better++
				}
			}
			if err := d.drive(t.Context(), at, 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	if better == 0 {
		t.Error("nothing better was ever found")
	}
}

// TestTrial: a candidate costs what it comes to under each seed, and its actions' price.
func TestTrial(t *testing.T) {
	plan := &Plan{Noise: lockstep.SeededNoise, Seeds: 2}
	trial := &trial{
		drives: &drives{Plan: plan}, from: &lockstep.Snapshot{}, free: make([][]float64, 2*2),
		offset: make([][][]float64, 2), costs: make([]float64, 2*3*2),
	}
	for n := range trial.free {
		trial.free[n] = []float64{0.25, 0.5 * float64(n%2)}
	}
	for route := range trial.offset {
		trial.from.Rollouts = append(trial.from.Rollouts, lockstep.RolloutState{Action: []float64{7, 1}})
		for candidate := range 3 {
			trial.offset[route] = append(trial.offset[route], []float64{0.25, 0.5 * float64(candidate)})
		}
	}
	for i := range trial.costs {
		trial.costs[i] = float64(int(1) << i)
	}
	for route := range 2 {
		for candidate := range 3 {
			change := 0.5*float64(candidate) - 0.5 // without a seed's 0.5 more
			first := 2 * (3*route + candidate)
			want := plan.price()*(2*0.25+change*change+(change+0.5)*(change+0.5)) + float64(int(3)<<first)
			if got := trial.cost(route, candidate); got != want {
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

// TestBetter: what costs as much, more, or nobody knows what, replaces nothing.
func TestBetter(t *testing.T) {
	c := choice{cost: 3}
	for _, cost := range []float64{3, 4, math.Inf(1), math.NaN()} {
		if c.better([]float64{1}, cost); c.offset != nil {
			t.Errorf("a cost of %v replaces one of 3", cost)
		}
	}
	if c.better([]float64{2}, 2); c.cost != 2 || c.offset[0] != 2 {
		t.Errorf("a cost of 2 does not replace one of 3: %v", c)
	}
}
