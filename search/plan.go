package search

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"lockstep"
)

// Plan is a search over tables of actions, one route's apart from another's, with a
// receding horizon. From a snapshot candidates are rolled on over the horizon: with the
// table's actions as they are, and with a hat added at each of some knots. That gives
// the derivatives of the lataccels, of which the cost is a quadratic function, and so
// the offsets that would be best (Gauss and Newton), for several dampings (Levenberg). The best
// that is found by trying these is kept. Then the rollout goes on by some steps, and so
// on to the end.
//
// With OwnNoise what is found knows the draws. With the others the rollout meets draws
// that no candidate has seen, nor the policy with whose actions the plan begins.
type Plan struct {
	Noise   lockstep.NoiseKind
	Seeds   int // each candidate is rolled on under so many; 1 unless the noise is seeded
	Rounds  int
	Window  int    // steps that the rollout goes on by
	Horizon int    // steps that a candidate is rolled on
	Seed    uint64 // of seeded noise
}

// Check refuses what is no plan.
func (p *Plan) Check() error {
	switch {
	case p.Rounds < 1 || p.Seeds < 1:
		return fmt.Errorf("%d rounds and %d seeds: want 1 at least", p.Rounds, p.Seeds)
	case p.Window < 1 || p.Horizon < p.Window:
		return fmt.Errorf("a window of %d steps and a horizon of %d: want 1 at least, and no shorter a horizon", p.Window, p.Horizon)
	case p.Seeds > 1 && p.Noise != lockstep.SeededNoise:
		return fmt.Errorf("%d seeds go with seeded noise, not with %s", p.Seeds, p.Noise)
	}
	return nil
}

// Rollouts is how much a plan computes for a route, as a number of rollouts of all steps
// that cost.
func (p *Plan) Rollouts() int {
	windows := (lockstep.TableSteps + p.Window - 1) / p.Window
	candidates := (1 + len(knotsOf(p.Horizon)) + len(dampings)) * p.Rounds * p.Seeds
	return 2 + windows*candidates*p.Horizon/lockstep.TableSteps
}

const (
	nudge = 0.1 // of an action, by which derivatives are found
	delay = 8   // steps until most of what an action does is seen

	// price is that of a change of the action, squared: about what the jerk costs that it
	// makes, twice. Rough actions are none that the network knows, and worth nothing.
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

// bend adds an offset, given at the knots, to actions.
func bend(actions []float64, knots []int, offset []float64) []float64 {
	knots, offset = append(slices.Clip(knots), len(actions)), append(slices.Clip(offset), 0)
	bent := make([]float64, len(actions))
	k := 0
	for h, u := range actions {
		if h == knots[k+1] {
			k++
		}
		part := float64(h-knots[k]) / float64(knots[k+1]-knots[k])
		x := float64(offset[k]*(1-part)) + float64(offset[k+1]*part)
		bent[h] = min(max(u+x, lockstep.SteerMin), lockstep.SteerMax)
	}
	return bent
}

// hat is an offset at one knot.
func hat(knots []int, k int, size float64) []float64 {
	offset := make([]float64, len(knots))
	offset[k] = size
	return offset
}

// nudgeAt is a hat's size where an action is nudged: towards 0, so that no limit is met.
func nudgeAt(action float64) float64 { return -math.Copysign(nudge, action) }

// Run plans for each of the routes, which have different names, from a policy's actions.
// Progress is told of the steps that are planned, of TableSteps.
func (p *Plan) Run(ctx context.Context, sim lockstep.StepSimulator, routes []*lockstep.Route, from lockstep.Policy, progress func(step int)) (*lockstep.Table, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	tables, err := p.begin(ctx, sim, routes, from)
	if err != nil {
		return nil, err
	}
	jobs := make([]lockstep.Job, len(routes))
	longest := 0
	for i, r := range routes {
		jobs[i] = lockstep.Job{Route: r}
		longest = max(longest, costing(r))
	}
	stepper, err := sim.Reset(ctx, jobs, lockstep.Options{Shortcuts: lockstep.CostOnly})
	if err != nil {
		return nil, err
	}
	defer stepper.Close()
	planner, ok := stepper.(lockstep.Planner)
	if !ok {
		return nil, fmt.Errorf("engine %s does not plan", sim.Name())
	}
	partial := make([]float64, len(routes))
	warmup := make([]float64, (lockstep.ControlStartIdx-lockstep.ContextLength)*len(routes))
	if err := planner.Roll(ctx, warmup, partial, nil); err != nil {
		return nil, err
	}
	for at := 0; at < longest; at += p.Window {
		horizon, window := min(p.Horizon, longest-at), min(p.Window, longest-at)
		if err := p.improve(ctx, planner, routes, tables, at, horizon); err != nil {
			return nil, err
		}
		var commands []float64
		for h := range window {
			for _, table := range tables {
				commands = append(commands, table[at+h])
			}
		}
		if err := planner.Roll(ctx, commands, partial, nil); err != nil {
			return nil, err
		}
		progress(at + window)
	}
	actions := map[string][]float64{}
	for i, r := range routes {
		if err := planner.Err(i); err != nil {
			return nil, err
		}
		actions[r.Name] = tables[i]
	}
	return lockstep.NewTable(actions)
}

// costing is the number of a route's steps that cost.
func costing(r *lockstep.Route) int {
	return min(r.Len(), lockstep.CostEndIdx) - lockstep.ControlStartIdx
}

// begin are the actions that a policy takes on the routes under the plan's noise: those
// under the routes' own would tell of draws that are to come.
func (p *Plan) begin(ctx context.Context, sim lockstep.Simulator, routes []*lockstep.Route, from lockstep.Policy) ([][]float64, error) {
	jobs, tables := make([]lockstep.Job, len(routes)), make([][]float64, len(routes))
	noise := lockstep.Noise{Kind: p.Noise}
	names := map[string]bool{}
	for i, r := range routes {
		if names[r.Name] {
			return nil, fmt.Errorf("two routes are named %s: a table could not tell them apart", r.Name)
		}
		names[r.Name] = true
		jobs[i] = lockstep.Job{Route: r, Policy: from}
		noise.Seeds = append(noise.Seeds, p.seed(-1, i))
		noise.Apply(&jobs[i], i)
	}
	for i, result := range sim.Simulate(ctx, jobs, lockstep.Options{Shortcuts: lockstep.CostOnly, Trajectory: true}) {
		if result.Err != nil {
			return nil, result.Err
		}
		tables[i] = make([]float64, lockstep.TableSteps)
		copy(tables[i], result.Trajectory.Action[lockstep.ControlStartIdx:])
	}
	return tables, nil
}

// seed is that of the k-th draws at a step.
func (p *Plan) seed(at, k int) uint32 {
	return uint32(rand.New(rand.NewPCG(p.Seed, uint64(at)<<32|uint64(k))).Uint64())
}

// improve betters the tables from at on, over a horizon, as seen from where the
// rollouts are.
func (p *Plan) improve(ctx context.Context, planner lockstep.Planner, routes []*lockstep.Route, tables [][]float64, at, horizon int) error {
	shot, err := planner.Snapshot(ctx)
	if err != nil {
		return err
	}
	knots := knotsOf(horizon)
	for range p.Rounds {
		nudged, offset := make([][][]float64, len(routes)), make([][][]float64, len(routes))
		for i, table := range tables {
			actions := table[at : at+horizon]
			nudged[i] = [][]float64{actions}
			for k, h := range knots {
				nudged[i] = append(nudged[i], bend(actions, knots, hat(knots, k, nudgeAt(actions[h]))))
			}
		}
		was, err := p.try(ctx, planner, shot, at, nudged)
		if err != nil {
			return err
		}
		for i, r := range routes {
			for _, o := range was.offsets(r, i, at, &shot.Rollouts[i], knots) {
				offset[i] = append(offset[i], bend(nudged[i][0], knots, o))
			}
		}
		is, err := p.try(ctx, planner, shot, at, offset)
		if err != nil {
			return err
		}
		for i, table := range tables {
			best, cost := nudged[i][0], was.cost(i, 0, &shot.Rollouts[i])
			for k, actions := range offset[i] {
				if c := is.cost(i, k, &shot.Rollouts[i]); compare(c, cost) < 0 {
					best, cost = actions, c
				}
			}
			copy(table[at:], best)
		}
	}
	return nil
}

// trial is what candidates come to, equally many for each route, each under some seeds.
type trial struct {
	actions   [][][]float64 // (routes, candidates, horizon)
	seeds     int
	costs     []float64 // (routes, candidates, seeds)
	lataccels []float64 // (horizon, routes, candidates, seeds)
}

// try rolls candidates on.
func (p *Plan) try(ctx context.Context, planner lockstep.Planner, shot *lockstep.Snapshot, at int, actions [][][]float64) (*trial, error) {
	t := &trial{actions: actions, seeds: p.Seeds}
	each, horizon := len(actions[0])*p.Seeds, len(actions[0][0])
	m := len(actions) * each
	t.costs, t.lataccels = make([]float64, m), make([]float64, horizon*m)
	index, commands := make([]int, m), make([]float64, horizon*m)
	noise := lockstep.Noise{Kind: p.Noise}
	for n := range m {
		index[n] = n / each
		if p.Noise == lockstep.SeededNoise { // the same for all candidates of a step
			noise.Seeds = append(noise.Seeds, p.seed(at, n%p.Seeds))
		}
		for h, u := range actions[n/each][n%each/p.Seeds] {
			commands[h*m+n] = u
		}
	}
	candidates, err := planner.Fork(ctx, shot, index, noise)
	if err != nil {
		return nil, err
	}
	defer candidates.Close()
	return t, candidates.Roll(ctx, commands, t.costs, t.lataccels)
}

// cost is what a candidate comes to from a state on, over all seeds, and its actions' price.
func (t *trial) cost(route, candidate int, from *lockstep.RolloutState) float64 {
	sum := 0.0
	last := from.Action[len(from.Action)-1]
	for _, u := range t.actions[route][candidate] {
		sum += float64(price * (u - last) * (u - last) * float64(t.seeds))
		last = u
	}
	for _, c := range t.costs[(route*len(t.actions[route])+candidate)*t.seeds:][:t.seeds] {
		sum += c
	}
	return sum
}

// lataccel is that of a route's candidate under a seed at a step of the horizon.
func (t *trial) lataccel(h, route, candidate, seed int) float64 {
	return t.lataccels[h*len(t.costs)+(route*len(t.actions[route])+candidate)*t.seeds+seed]
}

// offsets are those that would cost least, were the lataccels linear in them, for each
// damping. The trial is of actions as they are, and with a hat at each knot.
func (t *trial) offsets(r *lockstep.Route, route, at int, from *lockstep.RolloutState, knots []int) (list [][]float64) {
	q := newQuadratic(len(knots))
	n := float64(costing(r))
	a, b := 5000/n, 10000/(n-1)
	actions := t.actions[route][0]
	slope, before := make([]float64, len(knots)), make([]float64, len(knots))
	for s := range t.seeds {
		clear(before)
		last := from.Lataccel[len(from.Lataccel)-1]
		for h := range min(len(actions), costing(r)-at) {
			lataccel := t.lataccel(h, route, 0, s)
			for k, knot := range knots {
				slope[k] = (t.lataccel(h, route, 1+k, s) - lataccel) / nudgeAt(actions[knot])
				before[k] = slope[k] - before[k]
			}
			q.add(a, lataccel-r.TargetLataccel[lockstep.ControlStartIdx+at+h], slope)
			if at+h > 0 {
				q.add(b, lataccel-last, before)
			}
			copy(before, slope)
			last = lataccel
		}
	}
	hats := make([][]float64, len(knots))
	for k := range knots {
		hats[k] = bend(make([]float64, len(actions)), knots, hat(knots, k, 1))
	}
	clear(before)
	last := from.Action[len(from.Action)-1]
	for h, u := range actions {
		for k := range knots {
			before[k] = hats[k][h] - before[k]
		}
		q.add(price*float64(t.seeds), u-last, before)
		for k := range knots {
			before[k] = hats[k][h]
		}
		last = u
	}
	for _, damping := range dampings {
		list = append(list, q.least(damping))
	}
	return list
}

// quadratic is a sum of weight·(x + slope·θ)², as a function of θ.
type quadratic struct {
	gradient  []float64
	curvature [][]float64 // lower triangle
}

func newQuadratic(n int) *quadratic {
	q := &quadratic{gradient: make([]float64, n), curvature: make([][]float64, n)}
	for k := range n {
		q.curvature[k] = make([]float64, k+1)
	}
	return q
}

func (q *quadratic) add(weight, x float64, slope []float64) {
	for k, s := range slope {
		q.gradient[k] += float64(weight * x * s)
		for l := range k + 1 {
			q.curvature[k][l] += float64(weight * s * slope[l])
		}
	}
}

// least is where the function is least, its curvature raised by a part of its mean.
func (q *quadratic) least(damping float64) []float64 {
	mean := 0.0
	for k := range q.curvature {
		mean += q.curvature[k][k] / float64(len(q.curvature))
	}
	raised := make([][]float64, len(q.curvature))
	for k := range raised {
		raised[k] = slices.Clone(q.curvature[k])
		raised[k][k] += float64(damping * mean)
	}
	f := factor(raised)
	theta := solveTransposed(f, solve(f, q.gradient))
	for k := range theta {
		theta[k] = -theta[k]
	}
	return theta
}
