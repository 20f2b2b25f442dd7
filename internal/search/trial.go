package search

import (
	"context"
	"slices"

	"lockstep"
)

// trial is what candidates come to, equally many for each route.
type trial struct {
	from      *lockstep.Snapshot
	routes    []*lockstep.Route
	at        int
	free      [][]float64   // (routes, horizon): actions of the policy alone
	offset    [][][]float64 // (routes, candidates, horizon)
	costs     []float64     // (routes, candidates)
	lataccels []float64     // (horizon, routes, candidates)
}

// policyTrial rolls the policy on by itself.
func (d *drives) policyTrial(
	ctx context.Context, shot *lockstep.Snapshot, at, horizon int,
) (*trial, error) {
	m := len(d.routes)
	t := &trial{
		routes:    d.routes,
		from:      shot,
		at:        at,
		costs:     make([]float64, m),
		lataccels: make([]float64, horizon*m),
	}
	jobs := make([]lockstep.Job, m)
	part := *shot
	part.Rollouts = slices.Clone(shot.Rollouts)
	for i, r := range d.routes {
		jobs[i] = lockstep.Job{Route: r, Policy: d.policy}
		part.Rollouts[i].Policy = d.memory[i]
	}
	stepper, err := d.sim.Reset(ctx, jobs, coarse)
	if err != nil {
		return nil, err
	}
	defer stepper.Close()
	if err := stepper.Restore(ctx, &part); err != nil {
		return nil, err
	}
	if err := stepper.Roll(ctx, make([]float64, horizon*m), t.costs, t.lataccels); err != nil {
		return nil, err
	}
	end, err := stepper.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	for i := range d.routes {
		actions := make([]float64, horizon)
		done := end.Rollouts[i].Action
		copy(actions, done[min(len(done), shot.Step):])
		t.free = append(t.free, actions)
		t.offset = append(t.offset, [][]float64{make([]float64, horizon)})
	}
	return t, nil
}

// actions are those of the policy and an offset.
func (t *trial) actions(route int, offset []float64) []float64 {
	sum := make([]float64, len(offset))
	for h := range sum {
		sum[h] = t.action(route, offset, h)
	}
	return sum
}

func (t *trial) action(route int, offset []float64, h int) float64 {
	return steer(t.free[route][h] + offset[h])
}

// try rolls on the policy's actions and offsets.
func (d *drives) try(
	ctx context.Context, shot *lockstep.Snapshot, at int, free *trial, offset [][][]float64,
) (*trial, error) {
	t := &trial{routes: d.routes, from: shot, at: at, free: free.free, offset: offset}
	each, horizon := len(offset[0]), len(offset[0][0])
	m := len(offset) * each
	t.costs, t.lataccels = make([]float64, m), make([]float64, horizon*m)
	index, commands := make([]int, m), make([]float64, horizon*m)
	for n := range m {
		i, k := n/each, n%each
		index[n] = i
		for h := range horizon {
			commands[h*m+n] = t.action(i, offset[i][k], h)
		}
	}
	candidates, err := d.cars.Fork(ctx, shot, index, lockstep.Noise{Kind: lockstep.RouteNoise})
	if err != nil {
		return nil, err
	}
	defer candidates.Close()
	return t, candidates.Roll(ctx, commands, t.costs, t.lataccels)
}

// cost is what a candidate comes to, and its actions' price.
func (t *trial) cost(route, candidate int) float64 {
	sum, last := 0.0, t.lastAction(route)
	for _, u := range t.actions(route, t.offset[route][candidate]) {
		sum += float64(price * (u - last) * (u - last))
		last = u
	}
	return sum + t.costs[route*len(t.offset[route])+candidate]
}

// lastAction is the one before the trial.
func (t *trial) lastAction(route int) float64 {
	past := t.from.Rollouts[route].Action
	return past[len(past)-1]
}

// lataccel is that of a route's candidate at a step of the horizon.
func (t *trial) lataccel(h, route, candidate int) float64 {
	return t.lataccels[h*len(t.costs)+route*len(t.offset[route])+candidate]
}

// offsets are those to add that would cost least, were the lataccels linear in them, for
// each damping. The trial is of an offset, and of that with a hat at each knot.
func (t *trial) offsets(route int, knots []int, hats [][]float64) (list [][]float64) {
	q := newQuadratic(len(knots))
	from, offset := &t.from.Rollouts[route], t.offset[route]
	target := costing(t.routes[route])
	a, b := coefficients(len(target))
	slope, before := make([]float64, len(knots)), make([]float64, len(knots))
	last := from.Lataccel[len(from.Lataccel)-1]
	for h := range min(len(offset[0]), len(target)-t.at) {
		lataccel := t.lataccel(h, route, 0)
		for k, knot := range knots {
			slope[k] = (t.lataccel(h, route,
				1+k) - lataccel) / (offset[1+k][knot] - offset[0][knot])
			before[k] = slope[k] - before[k]
		}
		q.add(a, lataccel-target[t.at+h], slope)
		if t.at+h > 0 {
			q.add(b, lataccel-last, before)
		}
		copy(before, slope)
		last = lataccel
	}
	t.addPrice(q, route, hats)
	for _, damping := range dampings {
		list = append(list, q.least(damping))
	}
	return list
}

// addPrice adds what changes of the actions cost.
func (t *trial) addPrice(q *quadratic, route int, hats [][]float64) {
	last := t.lastAction(route)
	change := make([]float64, len(hats))
	for h, u := range t.actions(route, t.offset[route][0]) {
		for k, hat := range hats {
			change[k] = hat[h]
			if h > 0 {
				change[k] -= hat[h-1]
			}
		}
		q.add(price, u-last, change)
		last = u
	}
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

// least is where the function is least, its curvature raised by a part of its mean; 0 where
// it is flat everywhere.
func (q *quadratic) least(damping float64) []float64 {
	mean := 0.0
	for k := range q.curvature {
		mean += q.curvature[k][k] / float64(len(q.curvature))
	}
	if mean == 0 {
		return make([]float64, len(q.curvature))
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
