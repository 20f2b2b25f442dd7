package search

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"lockstep"
	"lockstep/batched"
	"lockstep/golden/policies"
	"lockstep/internal/defaults"
	"lockstep/internal/generate"
	"lockstep/internal/simtest"
	"lockstep/routefile"
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
		r, err := routefile.Loader{}.Read(
			bytes.NewReader(generate.Route(5, i)), fmt.Sprintf("r%d.csv", i),
		)
		if err != nil {
			t.Fatal(err)
		}
		rows := 107 + 2*i
		for _, column := range []*[]float64{
			&r.TargetLataccel, &r.RollLataccel, &r.VEgo, &r.AEgo, &r.SteerCommand,
		} {
			*column = (*column)[:rows]
		}
		routes = append(routes, r)
	}
	return sim, routes
}

// drivenBy are results of a policy on routes, with the actions.
func drivenBy(
	t *testing.T, sim lockstep.Simulator, routes []*lockstep.Route, p lockstep.Policy,
) []lockstep.Result {
	t.Helper()
	results := make([]lockstep.Result, len(routes))
	var jobs []lockstep.Job
	for _, r := range routes {
		jobs = append(jobs, lockstep.Job{Route: r, Policy: p})
	}
	for i, r := range sim.Simulate(t.Context(), jobs, lockstep.Options{
		Shortcuts:  lockstep.CostOnly,
		Trajectory: true,
	}) {
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
	plan := Receding{Rounds: 2, Window: 5, Horizon: 8}
	table, err := plan.Run(t.Context(), sim, routes, lockstep.Zero{}, quiet)
	if err != nil {
		t.Fatal(err)
	}
	was, is := drivenBy(t, sim, routes, lockstep.Zero{}), drivenBy(t, sim, routes, table)
	const known = "table_d399ee1a" // longer ahead than TestPlannedTogether
	if table.Name != known {
		t.Errorf("the plan is %s, want %s", table, known)
	}
	for i, r := range routes {
		if was, is := was[i].Costs.Total, is[i].Costs.Total; !(is < was) || is < Floor(r) {
			t.Errorf("route %s: from %v to %v, above a floor of %v", r.Name, was, is, Floor(r))
		}
	}
	again, err := plan.Run(t.Context(), sim, routes, lockstep.Zero{}, quiet)
	if err != nil || again.Name != table.Name {
		t.Errorf("the same plan again is %v, not %v (%v)", again, table, err)
	}
	if _, err := plan.Run(t.Context(), sim, []*lockstep.Route{routes[0], routes[0]},
		lockstep.Zero{}, quiet); err == nil ||
		err.Error() != "two routes are named r0: a table could not tell them apart" {
		t.Error(err)
	}
	plan.Horizon = 4
	if _, err := plan.Run(t.Context(), sim, routes, lockstep.Zero{}, quiet); err == nil ||
		!strings.HasPrefix(err.Error(), "window 5, horizon 4: want") {
		t.Error(err)
	}
}

// TestPlannedTogether: what is planned for a route is the same whichever routes as long as it are
// planned beside it: numbers of one are nowhere taken for another's. It is the table that it was
// when this was written, whose name comes of all its actions: no constant, order or index of a
// search may change but on purpose.
func TestPlannedTogether(t *testing.T) {
	sim, _ := shortRoutes(t)
	for name, search := range map[string]struct {
		run   planRun
		rows  int // the longest of the routes says how far ahead is planned
		table string
	}{
		"receding": {
			(&Receding{Rounds: 2, Window: 2, Horizon: 4}).Run, 106, "table_ab5106dc",
		},
		"aim": {
			(&Aim{Noise: lockstep.ExpectedNoise, Seeds: 1, Rounds: 1}).Run, 106, "table_a4339da7",
		},
		"aim, seeded": {
			(&Aim{Noise: lockstep.SeededNoise, Seeds: 2, Rounds: 2, Seed: 3}).Run, 106,
			"table_7b935bf2",
		},
		"aim, more knots than are nudged apart": {
			(&Aim{Noise: lockstep.ExpectedNoise, Seeds: 1, Rounds: 1}).Run, 196, "table_e1ed9a62",
		},
	} {
		routes := equalRoutes(t, search.rows)
		together, err := search.run(t.Context(), sim, routes, lockstep.DefaultPID(), quiet)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range routes {
			alone, err := search.run(
				t.Context(), sim, []*lockstep.Route{r}, lockstep.DefaultPID(), quiet)
			if err != nil {
				t.Fatal(err)
			}
			a, b := alone.Actions[r.Name], together.Actions[r.Name]
			if err := simtest.Same("actions", b, a); err != nil {
				t.Errorf("%s, route %s among others: %v", name, r.Name, err)
			}
		}
		if together.Name != search.table {
			t.Errorf("%s: it finds %s, want %s", name, together, search.table)
		}
	}
}

// equalRoutes are three of one length.
func equalRoutes(t *testing.T, rows int) (routes []*lockstep.Route) {
	t.Helper()
	for i := range 2 {
		r, err := routefile.Loader{}.Read(
			bytes.NewReader(generate.Route(5, i)), fmt.Sprintf("r%d.csv", i),
		)
		if err != nil {
			t.Fatal(err)
		}
		routes = append(routes, r.First(rows))
	}
	third := *routes[0]
	third.Name, third.Seed, third.Draws = "r2", routes[0].Seed+1, nil
	third.TargetLataccel = slices.Clone(third.TargetLataccel)
	slices.Reverse(third.TargetLataccel[lockstep.ControlStartIdx:])
	return append(routes, &third)
}

// TestPlanOfNothing: where nothing is tried, what is planned is to the last bit what the
// policy does, whatever it remembers, in windows of any size, and with the targets for aims.
func TestPlanOfNothing(t *testing.T) {
	sim, routes := shortRoutes(t)
	routes = routes[:1]
	network, err := policies.Network()
	if err != nil {
		t.Fatal(err)
	}
	own := lockstep.Custom{Name: "own", New: func() lockstep.Controller { return &custom{} }}
	for _, p := range []lockstep.Policy{lockstep.DefaultPID(), policies.PIDFF(), network, own} {
		want := drivenBy(t, sim, routes, p)
		for _, run := range []planRun{
			(&Receding{Window: 1, Horizon: 2}).run, (&Receding{Window: 4, Horizon: 5}).run,
			(&Aim{Seeds: 1}).run,
		} {
			table, err := run(t.Context(), sim, routes, p, quiet)
			if err != nil {
				t.Fatal(err)
			}
			for i, r := range routes {
				actions := want[i].Trajectory.Action[lockstep.ControlStartIdx:]
				if !slices.Equal(table.Actions[r.Name][:len(actions)], actions) {
					t.Errorf(
						"route %s, %s noise: %v\nwant what %s does: %v", r.Name, table.Noise,
						table.Actions[r.Name][:len(actions)], p, actions,
					)
				}
			}
		}
	}
}

type planRun = func(context.Context, lockstep.StepSimulator, []*lockstep.Route, lockstep.Policy,
	func(int)) (*lockstep.Table, error)

// TestPlanIsHonest: a plan under noise that is not the route's does before a step what it
// did, when the draws from that step on are others; a plan that knows the draws does not.
func TestPlanIsHonest(t *testing.T) {
	sim, routes := shortRoutes(t)
	routes = routes[:1]
	const changed = 3 // the first step with another draw, of those that cost
	for _, c := range []struct {
		noise lockstep.NoiseKind
		run   planRun
	}{
		{lockstep.SeededNoise, (&Aim{Noise: lockstep.SeededNoise, Seeds: 2, Rounds: 1}).Run},
		{lockstep.ExpectedNoise, (&Aim{Noise: lockstep.ExpectedNoise, Seeds: 1, Rounds: 1}).Run},
		{lockstep.RouteNoise, (&Receding{Rounds: 1, Window: 1, Horizon: 4}).Run},
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
			table, err := c.run(t.Context(), sim, others, lockstep.DefaultPID(), quiet)
			if err != nil {
				t.Fatal(err)
			}
			if table.Noise != c.noise {
				t.Errorf("a table of %s noise, want %s", table.Noise, c.noise)
			}
			tables = append(tables, table)
		}
		for _, r := range routes {
			a, b := tables[0].Actions[r.Name], tables[1].Actions[r.Name]
			// The action at the step itself is taken before its draw.
			if same := slices.Equal(a[:changed+1],
				b[:changed+1]); same != (c.noise != lockstep.RouteNoise) ||
				slices.Equal(a, b) {
				t.Errorf(
					"route %s, %s noise: %v\nand with other draws from step %d on: %v", r.Name,
					c.noise, a[:8], changed, b[:8],
				)
			}
		}
	}
}

// TestAim: aims that are found cost less than the targets do, under draws that the search
// has not seen; the same aims are found again; and a policy that follows nothing goes on so.
func TestAim(t *testing.T) {
	sim, _ := shortRoutes(t)
	r, err := routefile.Loader{}.Read(bytes.NewReader(generate.Route(5, 0)), "long.csv")
	if err != nil {
		t.Fatal(err)
	}
	routes := []*lockstep.Route{r}
	for _, column := range []*[]float64{
		&r.TargetLataccel, &r.RollLataccel, &r.VEgo, &r.AEgo, &r.SteerCommand,
	} {
		*column = (*column)[:190] // more knots than are nudged apart
	}
	aim := Aim{Noise: lockstep.SeededNoise, Seeds: 4, Rounds: 1, Seed: 1}
	ran := 0
	table, err := aim.Run(
		t.Context(), sim, routes, lockstep.DefaultPID(), func(rollouts int) { ran = rollouts },
	)
	if err != nil {
		t.Fatal(err)
	}
	if ran != aim.Rollouts() {
		t.Errorf("%d rollouts, want %d", ran, aim.Rollouts())
	}
	const known = "table_e8564ac7" // more knots than TestPlannedTogether's
	if table.Name != known {
		t.Errorf("the search finds %s, want %s", table, known)
	}
	was, is := drivenBy(t, sim, routes, lockstep.DefaultPID())[0].Costs.Total, drivenBy(t, sim,
		routes, table)[0].Costs.Total
	if !(is < 0.9*was) || is < Floor(r) {
		t.Errorf("from %v to %v, above a floor of %v", was, is, Floor(r))
	}
	if again, err := aim.Run(t.Context(), sim, routes, lockstep.DefaultPID(), quiet); err != nil ||
		again.Name != table.Name {
		t.Errorf("the same search again finds %v, not %v (%v)", again, table, err)
	}
	table, err = aim.Run(t.Context(), sim, routes, lockstep.Zero{}, quiet)
	if err != nil || slices.Max(table.Actions[r.Name]) != 0 ||
		slices.Min(table.Actions[r.Name]) != 0 {
		t.Errorf("zero aimed at something does %v (%v)", table, err)
	}
	if _, err := aim.Run(t.Context(), sim, []*lockstep.Route{r, r}, lockstep.Zero{},
		quiet); err == nil ||
		err.Error() != "two routes are named long: a table could not tell them apart" {
		t.Error(err)
	}
	if err := (&Aim{Noise: lockstep.ExpectedNoise, Seeds: 2, Rounds: 1}).Check(); err == nil ||
		err.Error() != "2 seeds go with seeded noise, not with expected" {
		t.Error(err)
	}
}

// TestAimQuadratic: where lataccels are linear in the offsets, the quadratic function is
// least where the total cost of what they are on average is; each knot is known by the steps
// about it alone, since others are nudged in the same rollout. The mean cost has all drives.
func TestAimQuadratic(t *testing.T) {
	const n, knots = 120, 16
	random := rand.New(rand.NewPCG(1, 1))
	numbers := func(n int) []float64 {
		all := make([]float64, n)
		for i := range all {
			all[i] = random.NormFloat64()
		}
		return all
	}
	r := &lockstep.Route{TargetLataccel: numbers(lockstep.ControlStartIdx + n)}
	drives := []drive{{lataccel: numbers(n)}, {lataccel: numbers(n)}}
	// The planner's own sum of costs, in another order; no simulator's.
	if got, want := meanCost(r, drives), (total(costing(r), drives[0].lataccel)+total(costing(r),
		drives[1].lataccel))/2; math.Abs(got-want) > 1e-9*want {
		t.Errorf("a mean cost of %v, want %v", got, want)
	}
	var slopes [knots][]float64
	nudged := [][]drive{{{lataccel: numbers(n)}}}
	for range apart {
		nudged = append(nudged, []drive{{lataccel: slices.Clone(nudged[0][0].lataccel)}})
	}
	for k := range slopes {
		slopes[k] = make([]float64, n)
		for h := max(0, k*knotSteps-ahead); h < min(n, (k+apart)*knotSteps-ahead); h++ {
			slopes[k][h] = random.NormFloat64()
			nudged[1+k%apart][0].lataccel[h] += aimNudge * slopes[k][h]
		}
	}
	at := func(offsets []float64) float64 {
		way := make([]float64, n)
		for h := range way {
			way[h] = (drives[0].lataccel[h] + drives[1].lataccel[h]) / 2
			for k, o := range offsets {
				way[h] += o * slopes[k][h]
			}
		}
		return total(costing(r), way)
	}
	least := aimQuadratic(r, nudged, drives).least(0)
	if len(least) != knots {
		t.Fatalf("%d offsets, want %d", len(least), knots)
	}
	cost := at(least)
	for k := range least {
		for _, d := range []float64{-1e-3, 1e-3} {
			other := slices.Clone(least)
			if other[k] += d; !(at(other) > cost) {
				t.Errorf("the offset of knot %d is not where the cost is least", k)
			}
		}
	}
}

// TestAimedAt: targets move by what lies between two knots' offsets where the steps cost, by parts
// of eight, and nowhere else.
func TestAimedAt(t *testing.T) {
	r := &lockstep.Route{TargetLataccel: make([]float64, lockstep.ControlStartIdx+20)}
	for i := range r.TargetLataccel {
		r.TargetLataccel[i] = float64(i)
	}
	aimed := aimedAt(r, []float64{16, -8, 24, 8})
	for i, got := range aimed.TargetLataccel {
		want := float64(i)
		switch h := float64(i - lockstep.ControlStartIdx); {
		case h >= 16:
			want += 24 - 2*(h-16)
		case h >= 8:
			want += -8 + 4*(h-8)
		case h >= 0:
			want += 16 - 3*h
		}
		if got != want || r.TargetLataccel[i] != float64(i) {
			t.Errorf("row %d: %v, want %v; the route itself has %v", i, got, want,
				r.TargetLataccel[i])
		}
	}
}

// TestPlanNeverWorse: what is chosen costs no more than the policy alone; both are rolled
// out again.
func TestPlanNeverWorse(t *testing.T) {
	sim, routes := shortRoutes(t)
	better := 0
	plan := Receding{Rounds: 2, Window: 1, Horizon: 5}
	d, err := plan.depart(t.Context(), sim, routes, lockstep.DefaultPID())
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
				t.Errorf(
					"route %s, step %d: chosen for %v, costs %v, the policy alone %v", r.Name, at,
					chosen[i].cost, cost, alone,
				)
			}
			if cost < alone {
				better++
			}
		}
		if err := d.drive(t.Context(), at, 1); err != nil {
			t.Fatal(err)
		}
	}
	if better == 0 {
		t.Error("nothing better was ever found")
	}
}

// TestAimNeverWorse: a round keeps what costs least under its own noise, what it begins with among
// it, and so ends with no more; and some find nothing.
func TestAimNeverWorse(t *testing.T) {
	sim, routes := shortRoutes(t)
	for _, noise := range []lockstep.NoiseKind{lockstep.ExpectedNoise, lockstep.SeededNoise} {
		s := &aiming{
			Aim: &Aim{Noise: noise, Seeds: 1, Seed: 1}, sim: sim, routes: routes,
			policy: lockstep.DefaultPID(), ran: func(int) {},
		}
		for _, r := range routes {
			s.offsets = append(s.offsets, make([]float64, aimKnots(costing(r))))
		}
		stays, betters := 0, 0
		for round := range 6 {
			cost := func() (costs []float64) {
				drives, err := s.sweep(t.Context(), s.seeded(round), 1, s.kept())
				if err != nil {
					t.Fatal(err)
				}
				for i, r := range routes {
					costs = append(costs, meanCost(r, drives[i][0]))
				}
				return costs
			}
			before, was := cost(), fmt.Sprint(s.offsets)
			if err := s.round(t.Context(), round); err != nil {
				t.Fatal(err)
			}
			for i, after := range cost() {
				switch {
				case after > before[i]:
					t.Errorf("%v noise, round %d, route %d: from %v to %v, offsets from %v to %v",
						noise, round, i, before[i], after, was, s.offsets)
				case after == before[i]:
					stays++
				default:
					betters++
				}
			}
		}
		if stays == 0 || betters == 0 {
			t.Errorf("%v noise: %d rounds find nothing, %d something", noise, stays, betters)
		}
	}
}

// backwards answers in the order in which the last job is the first.
type backwards struct{ lockstep.StepSimulator }

func (b backwards) Simulate(
	ctx context.Context, jobs []lockstep.Job, opts lockstep.Options,
) iter.Seq2[int, lockstep.Result] {
	results := make([]lockstep.Result, len(jobs))
	for i, r := range b.StepSimulator.Simulate(ctx, jobs, opts) {
		results[i] = r
	}
	return slices.Backward(results)
}

// TestAnyOrder: in which order an engine ends its rollouts changes no plan, from a policy that is
// no engine's own, either.
func TestAnyOrder(t *testing.T) {
	sim, routes := shortRoutes(t)
	own := lockstep.Custom{Name: "own", New: func() lockstep.Controller { return &custom{} }}
	for name, run := range map[string]planRun{
		"receding": (&Receding{Rounds: 1, Window: 4, Horizon: 4}).Run,
		"aim":      (&Aim{Noise: lockstep.SeededNoise, Seeds: 2, Rounds: 1}).Run,
	} {
		var tables []string
		for _, sim := range []lockstep.StepSimulator{sim, backwards{sim}} {
			table, err := run(t.Context(), sim, routes, own, quiet)
			if err != nil {
				t.Fatal(err)
			}
			tables = append(tables, table.Name)
		}
		if tables[0] != tables[1] {
			t.Errorf("%s finds %s, and %s of an engine that ends backwards", name, tables[0],
				tables[1])
		}
	}
}

// TestPlanGoesOn: a step begins with what the step before it has planned, and the policy's action
// behind that, and what it plans costs no more, also where it finds nothing.
func TestPlanGoesOn(t *testing.T) {
	sim, routes := shortRoutes(t)
	defer func(was []float64) { dampings = was }(dampings)
	some, none := dampings, []float64{1e30, 1e30, 1e30, 1e30}
	plan := Receding{Rounds: 1, Window: 1, Horizon: 5}
	f := &failing{StepSimulator: sim, fails: -1}
	d, err := plan.depart(t.Context(), f, routes, lockstep.DefaultPID())
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	for at := range 3 {
		shot, err := d.cars.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		known := min(at, 1) * (plan.Horizon - 1) // steps that were planned before
		// cost is what is planned and the policy behind it, and what that costs.
		cost := func() (commands, costs []float64) {
			free, err := d.policyTrial(t.Context(), shot, at, plan.Horizon)
			if err != nil {
				t.Fatal(err)
			}
			var offsets [][][]float64
			for i, table := range d.tables {
				offset := plus(table[at:at+plan.Horizon], -1, free.free[i])
				clear(offset[known:])
				offsets = append(offsets, [][]float64{offset})
			}
			is, err := d.try(t.Context(), shot, at, free, offsets)
			if err != nil {
				t.Fatal(err)
			}
			return f.rolled[len(f.rolled)-1], []float64{is.cost(0, 0), is.cost(1, 0)}
		}
		for _, dampings = range [][]float64{none, some} {
			begin, before := cost()
			f.rolled, f.spoils = nil, 0
			if &dampings[0] == &none[0] {
				f.spoils = 3 // behind the policy alone, and what was planned with its nudges
			}
			if err := d.window(t.Context(), at, plan.Horizon); err != nil {
				t.Fatal(err)
			}
			f.spoils = 0
			tried := f.rolled[1]
			each := len(tried) / len(begin)
			for k, u := range begin {
				if tried[k*each] != u {
					t.Errorf("step %d, route %d: it begins with %v, want %v", at+k/2, k%2,
						tried[k*each], u)
				}
			}
			known = plan.Horizon
			_, after := cost()
			for i := range routes {
				if !(after[i] <= before[i]*(1+1e-12)) { // differences of actions round
					t.Errorf("step %d, route %d: what is planned costs %v, and before %v", at, i,
						after[i], before[i])
				}
			}
		}
		if err := d.drive(t.Context(), at, 1); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNudges: wherever a policy steers, at a limit, too, each nudge changes what is done at its own
// knot, by as much as derivatives are found by, and nothing at the others.
func TestNudges(t *testing.T) {
	sim, routes := shortRoutes(t)
	for i, r := range routes {
		long := *r
		for _, c := range []*[]float64{
			&long.TargetLataccel, &long.RollLataccel, &long.VEgo, &long.AEgo, &long.SteerCommand,
		} {
			*c = slices.Concat(*c, *c)
		}
		routes[i] = &long
	}
	actions := map[string][]float64{}
	for i, r := range routes {
		for h := range lockstep.TableSteps {
			u := []float64{lockstep.SteerMin, 0, 1.5, lockstep.SteerMax}[(h+i)%4]
			actions[r.Name] = append(actions[r.Name], u)
		}
	}
	table, err := lockstep.NewTable(actions)
	if err != nil {
		t.Fatal(err)
	}
	const horizon = 16
	plan := Receding{Rounds: 1, Window: 1, Horizon: horizon}
	f := &failing{StepSimulator: sim, fails: -1}
	d, err := plan.depart(t.Context(), f, routes, table)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	if err := d.window(t.Context(), 0, horizon); err != nil {
		t.Fatal(err)
	}
	knots := knotsOf(horizon)
	m := len(routes) * (1 + len(knots))
	if len(f.rolled) != 3 || len(f.rolled[1]) != horizon*m {
		t.Fatalf("%d rolls, want the policy's, that of %d candidates, and the dampings'",
			len(f.rolled), m)
	}
	for i, r := range routes {
		for l, h := range knots {
			row := f.rolled[1][h*m+i*(1+len(knots)):][:1+len(knots)]
			for k, u := range row {
				d := math.Abs(u - actions[r.Name][h])
				// The action and its nudge are added, which rounds.
				if want := nudge * map[bool]float64{true: 1}[k == l+1]; math.Abs(d-want) > 1e-15 {
					t.Errorf("route %s, candidate %d: %v is done at knot %d, where the policy "+
						"does %v",
						r.Name, k, u, l, actions[r.Name][h])
				}
			}
		}
	}
}

// TestPlanner: each noise has its planner, and what is not said is as documented. What a plan
// computes for a route follows from its windows, rounds, knots and dampings.
func TestPlanner(t *testing.T) {
	rounds := 7
	p := PlannerOptions{Window: new(25), Horizon: new(50), Seeds: new(9), Seed: new(uint64(11))}
	q := p
	q.Rounds = &rounds
	for _, c := range []struct {
		p     PlannerOptions
		noise lockstep.NoiseKind
		want  Planner
	}{
		{PlannerOptions{}, lockstep.RouteNoise, &Receding{Rounds: 2, Window: 5, Horizon: 24}},
		{PlannerOptions{}, lockstep.SeededNoise,
			&Aim{Noise: lockstep.SeededNoise, Seeds: 24, Rounds: 3, Seed: 1}},
		{p, lockstep.RouteNoise, &Receding{Rounds: 2, Window: 25, Horizon: 50}},
		{p, lockstep.SeededNoise, &Aim{Noise: lockstep.SeededNoise, Seeds: 9, Rounds: 3, Seed: 11}},
		{p, lockstep.ExpectedNoise,
			&Aim{Noise: lockstep.ExpectedNoise, Seeds: 1, Rounds: 3, Seed: 11}},
		{q, lockstep.RouteNoise, &Receding{Rounds: 7, Window: 25, Horizon: 50}},
		{q, lockstep.SeededNoise, &Aim{Noise: lockstep.SeededNoise, Seeds: 9, Rounds: 7, Seed: 11}},
		{q, lockstep.ExpectedNoise,
			&Aim{Noise: lockstep.ExpectedNoise, Seeds: 1, Rounds: 7, Seed: 11}},
	} {
		if got := c.p.Planner(c.noise); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%v noise: %+v, want %+v", c.noise, got, c.want)
		}
	}
	for name, p := range map[string]PlannerOptions{
		"window": {Window: new(5)}, "horizon": {Horizon: new(24)}, "seeds": {Seeds: new(24)},
		"seed": {Seed: new(uint64(1))},
	} {
		with := lockstep.RouteNoise
		if strings.HasPrefix(name, "seed") {
			with = lockstep.SeededNoise
		}
		for k := lockstep.RouteNoise; k <= lockstep.ExpectedNoise; k++ {
			if got, of := p.Unheeded(k); k != with && (got != name || of != with) {
				t.Errorf("%s with %v noise: %q goes with %v", name, k, got, of)
			}
		}
		if got, _ := p.Unheeded(lockstep.ExpectedNoise, with); got != "" {
			t.Errorf("%s is not heeded with one noise of two", name)
		}
	}
	for _, c := range []struct {
		plan            Receding
		rollouts, steps int
	}{
		// 400 steps cost. A candidate is the policy alone; in each round those before, and four
		// dampings; and one for each of 1, 1, 8 and 8 knots.
		{Receding{Rounds: 1, Window: 1, Horizon: 1}, 2 + 400*(1+1*6)*1/400, 400},
		{Receding{Rounds: 3, Window: 7, Horizon: 9}, 2 + 58*(1+3*6)*9/400, 58},
		{Receding{Rounds: 2, Window: 25, Horizon: 50}, 2 + 16*(1+2*13)*50/400, 16},
		{Receding{Rounds: 1, Window: 50, Horizon: 50}, 2 + 8*(1+1*13)*50/400, 8},
	} {
		long := &lockstep.Route{TargetLataccel: make([]float64, 600)}
		short := &lockstep.Route{TargetLataccel: make([]float64, 120)}
		steps := c.plan.Steps([]*lockstep.Route{short, long, short})
		if got := c.plan.Rollouts(); got != c.rollouts || steps != c.steps ||
			c.plan.Check() != nil {
			t.Errorf("%+v: %d rollouts in %d steps (%v), want %d in %d", c.plan, got, steps,
				c.plan.Check(), c.rollouts, c.steps)
		}
	}
	for want, p := range map[string]Planner{
		"0 rounds: want 1 at least": &Receding{Window: 1, Horizon: 1},
		"window 0, horizon 4: want a window of 1 step or more, and no horizon below it": &Receding{
			Rounds: 1, Horizon: 4},
		"window 5, horizon 4: want a window of 1 step or more, and no horizon below it": &Receding{
			Rounds: 1, Window: 5, Horizon: 4},
		"0 rounds and 1 seeds: want 1 at least": &Aim{Seeds: 1},
		"1 rounds and 0 seeds: want 1 at least": &Aim{Rounds: 1},
		"2 seeds go with seeded noise, not with expected": &Aim{
			Noise: lockstep.ExpectedNoise, Rounds: 1, Seeds: 2},
	} {
		if err := p.Check(); err == nil || err.Error() != want {
			t.Errorf("%+v: %v, want %q", p, err, want)
		}
	}
}

// TestPlannerSeed: a plan's seed has all its bits.
func TestPlannerSeed(t *testing.T) {
	seed := uint64(1<<63 | 1<<40 | 7)
	p := PlannerOptions{Seed: &seed}
	if aim, ok := p.Planner(lockstep.SeededNoise).(*Aim); !ok || aim.Seed != seed {
		t.Errorf("%+v, want an Aim of seed %d", aim, seed)
	}
}

// TestTrial: a candidate costs what it comes to, and its actions' price.
func TestTrial(t *testing.T) {
	trial := &trial{
		from:   &lockstep.Snapshot{},
		offset: make([][][]float64, 2),
		costs:  make([]float64, 2*3),
	}
	for route := range trial.offset {
		trial.free = append(trial.free, []float64{0.25, 0.5})
		trial.from.Rollouts = append(
			trial.from.Rollouts, lockstep.RolloutState{Action: []float64{7, 1}},
		)
		for candidate := range 3 {
			trial.offset[route] = append(
				trial.offset[route], []float64{0.25, 0.5 * float64(candidate)},
			)
		}
	}
	for i := range trial.costs {
		trial.costs[i] = float64(int(1) << i)
	}
	for route := range 2 {
		for candidate := range 3 {
			change := 0.5 * float64(candidate)
			want := price*(0.25+change*change) + float64(int(1)<<(3*route+candidate))
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
	if got := newQuadratic(2).least(0.1); !slices.Equal(got, []float64{0, 0}) {
		t.Errorf("%v where it is flat, want none", got)
	}
	diagonal := newQuadratic(2)
	diagonal.add(2, 1, []float64{1, 0})  // 2·(1+x)²
	diagonal.add(3, -4, []float64{0, 2}) // 3·(2y-4)²
	got, mean := diagonal.least(0.5), float64(2+12)/2
	for k, want := range []float64{-2 / (2 + 0.5*mean), 24 / (12 + 0.5*mean)} {
		// A solver's result, beside one worked out by hand; no simulator's.
		if !(math.Abs(got[k]-want) <= 1e-12) {
			t.Errorf("with a damping of half of the mean: %v, want %v at %d", got, want, k)
		}
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
	less := math.Nextafter(2, 0)
	if c.better([]float64{3}, less); c.cost != less {
		t.Errorf("a cost that is less by its last bit does not replace 2: %v", c)
	}
	if c.better([]float64{4}, 2); c.cost != less {
		t.Errorf("a cost that is more by its last bit replaces %v: %v", less, c)
	}
}

// TestKept ends searches before each of their steps, and lets them go on: what they find is to the
// last bit what an undisturbed one finds, and no step is taken twice.
func TestKept(t *testing.T) {
	sim, routes := shortRoutes(t)
	many := slices.Clone(routes)
	for i := range atOnce - 1 { // so that some are searched behind the others
		other := *routes[i%2]
		other.Name = fmt.Sprintf("%s-%d", other.Name, i)
		other.Seed += uint32(i)
		many = append(many, &other)
	}
	for _, c := range []struct {
		planner Planner
		routes  []*lockstep.Route
		steps   int // that are kept
	}{
		{&Receding{Rounds: 1, Window: 2, Horizon: 4}, routes, 5}, // 7 and 9 steps cost
		{&Aim{Noise: lockstep.SeededNoise, Seeds: 2, Rounds: 1}, many, 2 * 2},
	} {
		want, err := c.planner.Run(t.Context(), sim, c.routes, lockstep.DefaultPID(), quiet)
		if err != nil {
			t.Fatal(err)
		}
		kept := map[[2]int][][]float64{}
		ended := errors.New("ended")
		var table *lockstep.Table
		err = ended
		for runs := 0; err == ended; runs++ {
			if runs > c.steps {
				t.Fatalf("%T: it does not end", c.planner)
			}
			computed := 0
			c.planner.KeptBy(
				func(step, first, n int, choose func() ([][]float64, error)) ([][]float64, error) {
					at := [2]int{step, first}
					if there, ok := kept[at]; ok {
						return there, nil
					}
					if computed++; computed > 1 {
						return nil, ended
					}
					chosen, err := choose()
					if len(chosen) != n || step >= c.planner.Steps(c.routes) ||
						first+n > len(c.routes) {
						t.Errorf("%T: step %d of %d, routes from %d on: %d of %d", c.planner, step,
							c.planner.Steps(c.routes), first, len(chosen), n)
					}
					for _, numbers := range chosen {
						kept[at] = append(kept[at], slices.Clone(numbers))
					}
					return chosen, err
				},
			)
			told := 0
			table, err = c.planner.Run(
				t.Context(), sim, c.routes, lockstep.DefaultPID(), func(n int) { told = n },
			)
			if err == nil && told != c.planner.Rollouts()*len(c.routes) {
				t.Errorf("%T: progress ends at %d", c.planner, told)
			}
		}
		if err != nil || !reflect.DeepEqual(table, want) || len(kept) != c.steps {
			t.Errorf(
				"%T: %v in %d steps, %v; want %v in %d", c.planner, table, len(kept), err, want,
				c.steps,
			)
		}
		chosen := kept[[2]int{}]
		few := slices.Clone(chosen)
		few[0] = few[0][1:]
		for what, other := range map[string][][]float64{
			"too few numbers": few, "a route too many": append(slices.Clip(chosen), chosen[0]),
			"a route too few": chosen[1:], "none": nil,
		} {
			kept[[2]int{}] = other
			_, err = c.planner.Run(t.Context(), sim, c.routes, lockstep.DefaultPID(), quiet)
			simtest.Refused(t, fmt.Sprintf("%T, with %s", c.planner, what), err,
				"step 0 of the search is not kept as it was chosen")
		}
	}
}
