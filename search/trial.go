package search

import (
	"context"
	"slices"

	"lockstep"
)

// trial is what candidates come to, equally many for each route, each under some seeds.
type trial struct {
	*drives
	from      *lockstep.Snapshot
	at        int
	free      [][]float64   // (routes, seeds), (horizon): actions of the policy alone
	offset    [][][]float64 // (routes, candidates, horizon)
	costs     []float64     // (routes, candidates, seeds)
	lataccels []float64     // (horizon, routes, candidates, seeds)
}

// policyTrial rolls the policy on by itself.
func (d *drives) policyTrial(ctx context.Context, shot *lockstep.Snapshot, at, horizon int) (*trial, error) {
	m := len(d.routes) * d.Seeds
	t := &trial{drives: d, from: shot, at: at, costs: make([]float64, m), lataccels: make([]float64, horizon*m)}
	jobs := make([]lockstep.Job, m)
	part := *shot
	part.Rollouts = make([]lockstep.RolloutState, m)
	noise := d.noise(at, m, d.Seeds)
	for n := range m {
		i := n / d.Seeds
		jobs[n] = lockstep.Job{Route: d.routes[i], Policy: d.policy}
		noise.Apply(&jobs[n], n)
		part.Rollouts[n] = shot.Rollouts[i]
		part.Rollouts[n].Policy = d.memory[i]
	}
	stepper, err := d.sim.Reset(ctx, jobs, coarse)
	if err != nil {
		return nil, err
	}
	defer stepper.Close()
	if err := stepper.Restore(ctx, &part); err != nil {
		return nil, err
	}
	if err := stepper.(lockstep.Planner).Roll(ctx, make([]float64, horizon*m), t.costs, t.lataccels); err != nil {
		return nil, err
	}
	end, err := stepper.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	for n := range m {
		actions := make([]float64, horizon)
		done := end.Rollouts[n].Action
		copy(actions, done[min(len(done), shot.Step):])
		t.free = append(t.free, actions)
	}
	for range d.routes {
		t.offset = append(t.offset, [][]float64{make([]float64, horizon)})
	}
	return t, nil
}

// mean are the actions of the policy and an offset, on average over the seeds: to the last
// bit what they are where all are the same.
func (t *trial) mean(route int, offset []float64) []float64 {
	mean := make([]float64, len(offset))
	for h := range mean {
		first := t.action(route, 0, offset, h)
		for s := range t.Seeds {
			mean[h] += (t.action(route, s, offset, h) - first) / float64(t.Seeds)
		}
		mean[h] += first
	}
	return mean
}

// action is that of the policy and an offset under a seed.
func (t *trial) action(route, seed int, offset []float64, h int) float64 {
	return steer(t.free[route*t.Seeds+seed][h] + offset[h])
}

// try rolls on the policy's actions and offsets.
func (d *drives) try(ctx context.Context, shot *lockstep.Snapshot, at int, free *trial, offset [][][]float64) (*trial, error) {
	t := &trial{drives: d, from: shot, at: at, free: free.free, offset: offset}
	each, horizon := len(offset[0])*d.Seeds, len(offset[0][0])
	m := len(offset) * each
	t.costs, t.lataccels = make([]float64, m), make([]float64, horizon*m)
	index, commands := make([]int, m), make([]float64, horizon*m)
	for n := range m {
		i, k, s := n/each, n%each/d.Seeds, n%d.Seeds
		index[n] = i
		for h := range horizon {
			commands[h*m+n] = t.action(i, s, offset[i][k], h)
		}
	}
	candidates, err := d.cars.Fork(ctx, shot, index, d.noise(at, m, d.Seeds))
	if err != nil {
		return nil, err
	}
	defer candidates.Close()
	return t, candidates.Roll(ctx, commands, t.costs, t.lataccels)
}

// cost is what a candidate comes to, over all seeds, and its actions' price.
func (t *trial) cost(route, candidate int) float64 {
	sum := 0.0
	for s, c := range t.costs[(route*len(t.offset[route])+candidate)*t.Seeds:][:t.Seeds] {
		past := t.from.Rollouts[route].Action
		last := past[len(past)-1]
		for h := range t.offset[route][candidate] {
			u := t.action(route, s, t.offset[route][candidate], h)
			sum += float64(t.price() * (u - last) * (u - last))
			last = u
		}
		sum += c
	}
	return sum
}

// lataccel is that of a route's candidate under a seed at a step of the horizon.
func (t *trial) lataccel(h, route, candidate, seed int) float64 {
	return t.lataccels[h*len(t.costs)+(route*len(t.offset[route])+candidate)*t.Seeds+seed]
}

// offsets are those to add that would cost least, were the lataccels linear in them, for
// each damping. The trial is of an offset, and of that with a hat at each knot.
func (t *trial) offsets(route int, knots []int, hats [][]float64) (list [][]float64) {
	q := newQuadratic(len(knots))
	r, from, offset := t.routes[route], &t.from.Rollouts[route], t.offset[route]
	n := float64(costing(r))
	a, b := 5000/n, 10000/(n-1)
	slope, before := make([]float64, len(knots)), make([]float64, len(knots))
	for s := range t.Seeds {
		clear(before)
		last := from.Lataccel[len(from.Lataccel)-1]
		for h := range min(len(offset[0]), costing(r)-t.at) {
			lataccel := t.lataccel(h, route, 0, s)
			for k, knot := range knots {
				slope[k] = (t.lataccel(h, route, 1+k, s) - lataccel) / (offset[1+k][knot] - offset[0][knot])
				before[k] = slope[k] - before[k]
			}
			q.add(a, lataccel-r.TargetLataccel[lockstep.ControlStartIdx+t.at+h], slope)
			if t.at+h > 0 {
				q.add(b, lataccel-last, before)
			}
			copy(before, slope)
			last = lataccel
		}
		t.addPrice(q, route, s, hats)
	}
	for _, damping := range dampings {
		list = append(list, q.least(damping))
	}
	return list
}

// addPrice adds what changes of the actions cost under a seed.
func (t *trial) addPrice(q *quadratic, route, seed int, hats [][]float64) {
	past := t.from.Rollouts[route].Action
	last := past[len(past)-1]
	change := make([]float64, len(hats))
	for h := range hats[0] {
		for k, hat := range hats {
			change[k] = hat[h]
			if h > 0 {
				change[k] -= hat[h-1]
			}
		}
		u := t.action(route, seed, t.offset[route][0], h)
		q.add(t.price(), u-last, change)
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
