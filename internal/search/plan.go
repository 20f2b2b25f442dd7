package search

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"lockstep"
)

// Receding is a search over tables of actions, one route's apart from another's, that knows
// the routes' draws, with a receding horizon. From where the rollouts are, the policy that
// the plan begins with goes on over the horizon by itself: what it does is the first
// candidate. The others add to its actions: what the last plan came to, that and a hat at
// each of some knots, which gives the derivatives of the lataccels, of which the cost is
// a quadratic function, and so the offsets that would be best (Gauss and Newton), for
// several dampings (Levenberg). What costs least is kept, so never what costs more than the
// policy. Then the rollouts go on by a window, and so on to the end.
type Receding struct {
	keeping
	Rounds  int
	Window  int // steps that the rollouts go on by
	Horizon int // steps that a candidate is rolled on
}

// Check refuses numbers with which nothing is searched.
func (p *Receding) Check() error {
	switch {
	case p.Rounds < 1:
		return fmt.Errorf("%d rounds: want 1 at least", p.Rounds)
	case p.Window < 1 || p.Horizon < p.Window:
		return fmt.Errorf(
			"window %d, horizon %d: want a window of 1 step or more, and no horizon below it",
			p.Window, p.Horizon,
		)
	}
	return nil
}

// Steps is how many windows there are.
func (p *Receding) Steps(routes []*lockstep.Route) int {
	return (longest(routes) + p.Window - 1) / p.Window
}

// longest is the most steps that cost on a route.
func longest(routes []*lockstep.Route) (steps int) {
	for _, r := range routes {
		steps = max(steps, len(costing(r)))
	}
	return steps
}

// Rollouts is how much a plan computes for a route, as a number of rollouts of all steps
// that cost.
func (p *Receding) Rollouts() int {
	windows := (lockstep.TableSteps + p.Window - 1) / p.Window
	candidates := 1 + p.Rounds*(1+len(knotsOf(p.Horizon))+len(dampings))
	return 2 + windows*candidates*p.Horizon/lockstep.TableSteps
}

const (
	nudge = 0.1 // of an action, by which derivatives are found
	delay = 8   // steps until most of what an action does is seen

	// price is the penalty on the squared change of the action. It is about twice the cost
	// of the jerk that the change makes: the network has not learnt how a car answers rough
	// actions, so what it predicts for them is worth nothing.
	price = 50
)

// dampings are what is added to the curvature, as parts of its mean.
var dampings = []float64{0.003, 0.03, 0.3, 3}

// knotsOf are the steps of a horizon at which an offset is chosen. Between them it is
// linear, and it is 0 again where the horizon ends. They lie the denser the nearer, and
// end where an action would show too late.
func knotsOf(horizon int) []int {
	knots := []int{0}
	for at := 2; at < horizon-delay; at += 2 + at/3 {
		knots = append(knots, at)
	}
	return knots
}

// ramps are the values over a horizon of what is linear between knots.
func ramps(horizon int, knots []int, values []float64) []float64 {
	knots, values = append(slices.Clip(knots), horizon), append(slices.Clip(values), 0)
	all := make([]float64, horizon)
	k := 0
	for h := range all {
		if h == knots[k+1] {
			k++
		}
		part := float64(h-knots[k]) / float64(knots[k+1]-knots[k])
		all[h] = float64(values[k]*(1-part)) + float64(values[k+1]*part)
	}
	return all
}

// hatsOf are 1 at a knot and 0 at the others.
func hatsOf(horizon int, knots []int) (hats [][]float64) {
	for k := range knots {
		values := make([]float64, len(knots))
		values[k] = 1
		hats = append(hats, ramps(horizon, knots, values))
	}
	return hats
}

// plus is a + size·b.
func plus(a []float64, size float64, b []float64) []float64 {
	sum := make([]float64, len(a))
	for i, x := range a {
		sum[i] = x + float64(size*b[i])
	}
	return sum
}

func steer(u float64) float64 { return min(max(u, lockstep.SteerMin), lockstep.SteerMax) }

// Run plans for each of the routes, which have different names, from a policy. Progress
// is told of what is planned, in rollouts.
func (p *Receding) Run(
	ctx context.Context, sim lockstep.StepSimulator, routes []*lockstep.Route, from lockstep.Policy,
	progress func(rollouts int),
) (*lockstep.Table, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	return p.run(ctx, sim, routes, from, progress)
}

func (p *Receding) run(
	ctx context.Context, sim lockstep.StepSimulator, routes []*lockstep.Route, from lockstep.Policy,
	progress func(rollouts int),
) (*lockstep.Table, error) {
	if err := distinct(routes); err != nil {
		return nil, err
	}
	longest := longest(routes)
	d, err := p.depart(ctx, sim, routes, from)
	if err != nil {
		return nil, err
	}
	defer d.close()
	for at := 0; at < longest; at += p.Window {
		if err := d.window(ctx, at, min(p.Horizon, longest-at)); err != nil {
			return nil, err
		}
		if err := d.drive(ctx, at, min(p.Window, longest-at)); err != nil {
			return nil, err
		}
		progress(len(routes) * p.Rollouts() * min(at+p.Window, longest) / longest)
	}
	actions := map[string][]float64{}
	for i, r := range routes {
		if err := d.cars.Err(i); err != nil {
			return nil, err
		}
		actions[r.Name] = d.tables[i]
	}
	table, err := lockstep.NewTable(actions)
	if err == nil {
		table.Noise = lockstep.RouteNoise
	}
	return table, err
}

// distinct refuses routes of the same name.
func distinct(routes []*lockstep.Route) error {
	names := map[string]bool{}
	for _, r := range routes {
		if names[r.Name] {
			return fmt.Errorf("two routes are named %s: a table could not tell them apart", r.Name)
		}
		names[r.Name] = true
	}
	return nil
}

// drives are the rollouts of a plan: the cars, steered by what is planned, with the
// routes' own draws; and a passenger in each, who steers nothing, but remembers what the
// policy would that had seen what has happened.
type drives struct {
	*Receding
	sim       lockstep.StepSimulator
	routes    []*lockstep.Route
	policy    lockstep.Native
	cars      lockstep.Stepper
	passenger lockstep.Stepper
	memory    [][]float64 // of the passengers, at the cars' step
	tables    [][]float64 // of each route: what was done, and what is planned
	planned   int         // steps, of TableSteps
}

var coarse = lockstep.Options{Shortcuts: lockstep.CostOnly}

// depart begins the rollouts, and brings them to where the cost begins.
func (p *Receding) depart(
	ctx context.Context, sim lockstep.StepSimulator, routes []*lockstep.Route, from lockstep.Policy,
) (*drives, error) {
	d := &drives{Receding: p, sim: sim, routes: routes}
	var err error
	if d.policy, err = native(ctx, sim, routes, from); err != nil {
		return nil, err
	}
	cars, passengers := make([]lockstep.Job, len(routes)), make([]lockstep.Job, len(routes))
	for i, r := range routes {
		cars[i], passengers[i] = lockstep.Job{Route: r}, lockstep.Job{Route: r, Policy: d.policy}
		d.tables, d.memory = append(d.tables, make([]float64, lockstep.TableSteps)),
			append(d.memory, nil)
	}
	if d.passenger, err = sim.Reset(ctx, passengers, coarse); err != nil {
		return nil, err
	}
	if d.cars, err = sim.Reset(ctx, cars, coarse); err != nil {
		return nil, errors.Join(err, d.passenger.Close())
	}
	none := make([]float64, len(routes))
	for err == nil && d.cars.Index() < lockstep.ControlStartIdx {
		err = errors.Join(
			d.cars.Step(ctx, none, make([]float64, len(routes))),
			d.passenger.Step(ctx, none, make([]float64, len(routes))),
		)
	}
	if err == nil {
		err = d.remember(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

func (d *drives) close() error { return errors.Join(d.cars.Close(), d.passenger.Close()) }

// native is a policy that an engine can compute from anywhere on a route. A policy that is
// not native runs once over each route, and the table of its actions takes its place.
func native(
	ctx context.Context, sim lockstep.Simulator, routes []*lockstep.Route, from lockstep.Policy,
) (lockstep.Native, error) {
	if n, ok := from.(lockstep.Native); ok {
		return n, nil
	}
	jobs, actions := make([]lockstep.Job, len(routes)), map[string][]float64{}
	for i, r := range routes {
		jobs[i] = lockstep.Job{Route: r, Policy: from}
	}
	for i, result := range sim.Simulate(ctx, jobs, lockstep.Options{
		Shortcuts:  lockstep.CostOnly,
		Trajectory: true,
	}) {
		if result.Err != nil {
			return nil, result.Err
		}
		table := make([]float64, lockstep.TableSteps)
		copy(table, result.Trajectory.Action[lockstep.ControlStartIdx:])
		actions[routes[i].Name] = table
	}
	return lockstep.NewTable(actions)
}

// remember asks the passengers for what they remember.
func (d *drives) remember(ctx context.Context) error {
	shot, err := d.passenger.Snapshot(ctx)
	if err != nil {
		return err
	}
	for i := range d.memory {
		d.memory[i] = shot.Rollouts[i].Policy
	}
	return nil
}

// drive has the cars go on as planned, and the passengers see it.
func (d *drives) drive(ctx context.Context, at, window int) error {
	n := len(d.routes)
	var commands []float64
	for h := range window {
		for _, table := range d.tables {
			commands = append(commands, table[at+h])
		}
	}
	if err := d.cars.Roll(ctx, commands, make([]float64, n), nil); err != nil {
		return err
	}
	end, err := d.cars.Snapshot(ctx)
	if err != nil {
		return err
	}
	for h := range window {
		seen := *end
		seen.Step = lockstep.ControlStartIdx + at + h
		seen.Rollouts = slices.Clone(end.Rollouts)
		for i := range seen.Rollouts {
			r := &seen.Rollouts[i]
			to := min(seen.Step, len(r.Lataccel))
			r.Lataccel, r.Action, r.Policy = r.Lataccel[:to], r.Action[:to], d.memory[i]
		}
		if err := d.passenger.Restore(ctx, &seen); err != nil {
			return err
		}
		if err := d.passenger.Step(ctx, make([]float64, n), make([]float64, n)); err != nil {
			return err
		}
		if err := d.remember(ctx); err != nil {
			return err
		}
	}
	return nil
}

// window plans from a step on, as a step of the search that may be kept.
func (d *drives) window(ctx context.Context, at, horizon int) error {
	var chosen [][]float64
	for _, table := range d.tables {
		chosen = append(chosen, table[at:at+horizon])
	}
	err := d.step(at/d.Window, 0, chosen, func() error {
		_, err := d.plan(ctx, at, horizon)
		return err
	})
	d.planned = at + horizon
	return err
}

// plan betters the tables from a step on, over a horizon, as seen from where the cars are.
// It returns what is chosen for each route.
func (d *drives) plan(ctx context.Context, at, horizon int) ([]choice, error) {
	shot, err := d.cars.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	free, err := d.policyTrial(ctx, shot, at, horizon)
	if err != nil {
		return nil, err
	}
	knots := knotsOf(horizon)
	hats := hatsOf(horizon, knots)
	best := make([]choice, len(d.routes))
	tried := make([][][]float64, len(d.routes)) // (routes, candidates, horizon): offsets
	for i := range d.routes {
		best[i] = choice{make([]float64, horizon), free.cost(i, 0)}
		last := plus(d.tables[i][at:at+horizon], -1, free.actions(i, best[i].offset))
		clear(last[min(max(d.planned-at, 0), horizon):])
		tried[i] = [][]float64{last}
	}
	for range d.Rounds {
		for i := range d.routes {
			now := free.actions(i, tried[i][0])
			for k, h := range knots {
				tried[i] = append(
					tried[i], plus(tried[i][0], -math.Copysign(nudge, now[h]), hats[k]),
				)
			}
		}
		was, err := d.try(ctx, shot, at, free, tried)
		if err != nil {
			return nil, err
		}
		next := make([][][]float64, len(d.routes))
		for i := range d.routes {
			best[i].better(tried[i][0], was.cost(i, 0))
			for _, values := range was.offsets(i, knots, hats) {
				next[i] = append(next[i], plus(tried[i][0], 1, ramps(horizon, knots, values)))
			}
		}
		is, err := d.try(ctx, shot, at, free, next)
		if err != nil {
			return nil, err
		}
		for i := range d.routes {
			for k, offset := range next[i] {
				best[i].better(offset, is.cost(i, k))
			}
			tried[i] = [][]float64{best[i].offset}
		}
	}
	for i := range d.routes {
		copy(d.tables[i][at:], free.actions(i, best[i].offset))
	}
	return best, nil
}

// choice is an offset and what it costs.
type choice struct {
	offset []float64
	cost   float64
}

func (c *choice) better(offset []float64, cost float64) {
	if compare(cost, c.cost) < 0 {
		*c = choice{offset, cost}
	}
}
