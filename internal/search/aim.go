package search

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"lockstep"
)

// Aim is a search for what a policy should be told to follow in place of a route's targets,
// so that what it does comes nearest to these. The policy answers what happens, as ever;
// the aims make up for what can be foreseen of its errors. They are the targets and
// offsets, linear between knots. In each round the policy is rolled out with nudged
// offsets, which gives the derivatives of the lataccels, of which the cost is a quadratic
// function, and so the offsets that would be best (Gauss and Newton), for several dampings
// (Levenberg). What costs least on average over the round's seeds is kept, the offsets
// before among it.
//
// No draw of a route's own is used. Derivatives are those of expected values, which are
// smooth; lataccels and costs are averages over the seeds. What is found are the actions of
// the policy with its aims under the route's own draws: each follows from what has happened.
type Aim struct {
	keeping
	Noise lockstep.NoiseKind // SeededNoise or ExpectedNoise
	// each round rolls out under so many others; 1 unless the noise is seeded
	Seeds  int
	Rounds int
	Seed   uint64 // of seeded noise
}

const (
	knotSteps = 8   // between two knots. Nearer ones follow the seeds' noise
	apart     = 10  // knots from one that is nudged to the next that is in the same rollout
	ahead     = 32  // steps before a knot at which a policy begins to answer a nudge there
	aimNudge  = 0.1 // m/s²
	atOnce    = 16  // routes
)

// aimKnots is how many knots there are for so many steps, the last at or behind their end.
func aimKnots(steps []float64) int { return (len(steps)+knotSteps-1)/knotSteps + 1 }

// aimDampings are what is added to the curvature, as parts of its mean.
var aimDampings = []float64{0.03, 0.3}

// Check refuses what is no search.
func (a *Aim) Check() error {
	switch {
	case a.Rounds < 1 || a.Seeds < 1:
		return fmt.Errorf("%d rounds and %d seeds: want 1 at least", a.Rounds, a.Seeds)
	case a.Seeds > 1 && a.Noise != lockstep.SeededNoise:
		return fmt.Errorf("%d seeds go with seeded noise, not with %s", a.Seeds, a.Noise)
	}
	return nil
}

// Steps is how many rounds there are, and the last step, the actions.
func (a *Aim) Steps([]*lockstep.Route) int { return a.Rounds + 1 }

// Rollouts is how much a search computes for a route, as a number of rollouts.
func (a *Aim) Rollouts() int { return 1 + a.Rounds*(1+apart+a.Seeds*(1+len(aimDampings))) }

// Run searches for each of the routes. Progress is told of the rollouts that are done.
func (a *Aim) Run(
	ctx context.Context, sim lockstep.StepSimulator, routes []*lockstep.Route, from lockstep.Policy,
	progress func(rollouts int),
) (*lockstep.Table, error) {
	if err := a.Check(); err != nil {
		return nil, err
	}
	return a.run(ctx, sim, routes, from, progress)
}

func (a *Aim) run(
	ctx context.Context, sim lockstep.StepSimulator, routes []*lockstep.Route, from lockstep.Policy,
	progress func(rollouts int),
) (*lockstep.Table, error) {
	if err := distinct(routes); err != nil {
		return nil, err
	}
	actions := map[string][]float64{}
	done, first := 0, 0
	for some := range slices.Chunk(routes, atOnce) {
		s := &aiming{
			Aim:    a,
			sim:    sim,
			routes: some,
			policy: from,
			ran:    func(n int) { done += n; progress(done) },
		}
		tables, err := s.search(ctx, first)
		if err != nil {
			return nil, err
		}
		for i, r := range some {
			actions[r.Name] = tables[i]
		}
		first += len(some)
		done = first * a.Rollouts() // also where a step was kept, and nothing ran
		progress(done)
	}
	table, err := lockstep.NewTable(actions)
	if err == nil {
		table.Noise = a.Noise
	}
	return table, err
}

// aiming is a search for some routes' aims.
type aiming struct {
	*Aim
	sim     lockstep.Simulator
	routes  []*lockstep.Route
	policy  lockstep.Policy
	offsets [][]float64 // of each route: at its knots, m/s²
	ran     func(rollouts int)
}

// search takes the steps of the search for the routes, of which the first has a number, and
// returns their actions.
func (s *aiming) search(ctx context.Context, first int) (tables [][]float64, err error) {
	for _, r := range s.routes {
		s.offsets = append(s.offsets, make([]float64, aimKnots(costing(r))))
		tables = append(tables, make([]float64, lockstep.TableSteps))
	}
	for round := range s.Rounds {
		err := s.step(round, first, s.offsets, func() error { return s.round(ctx, round) })
		if err != nil {
			return nil, err
		}
	}
	err = s.step(s.Rounds, first, tables, func() error {
		drives, err := s.sweep(ctx, lockstep.Noise{Kind: lockstep.RouteNoise}, 1, s.kept())
		if err != nil {
			return err
		}
		for i := range tables {
			copy(tables[i], drives[i][0][0].action)
		}
		return nil
	})
	return tables, err
}

// sweep rolls the policy out with some offsets of each route, each under all seeds of the
// noise, of which there are so many. What comes back is by route, offsets, and seed.
func (s *aiming) sweep(
	ctx context.Context, noise lockstep.Noise, seeds int, offsets [][][]float64,
) ([][][]drive, error) {
	var jobs []lockstep.Job
	var places []*drive // of the jobs
	all := make([][][]drive, len(s.routes))
	for i, r := range s.routes {
		for _, o := range offsets[i] {
			aimed, drives := aimedAt(r, o), make([]drive, seeds)
			for k := range drives {
				job := lockstep.Job{Route: aimed, Policy: s.policy}
				noise.Apply(&job, k)
				jobs, places = append(jobs, job), append(places, &drives[k])
			}
			all[i] = append(all[i], drives)
		}
	}
	for i, result := range s.sim.Simulate(ctx, jobs, lockstep.Options{
		Shortcuts:  lockstep.CostOnly,
		Trajectory: true,
	}) {
		if result.Err != nil {
			return nil, result.Err
		}
		t := result.Trajectory
		*places[i] = drive{
			t.Lataccel[lockstep.ControlStartIdx:], t.Action[lockstep.ControlStartIdx:],
		}
		s.ran(1)
	}
	return all, nil
}

// drive is what a rollout did in the steps that cost.
type drive struct{ lataccel, action []float64 }

// aimedAt is a route with other targets where it costs.
func aimedAt(r *lockstep.Route, offsets []float64) *lockstep.Route {
	aimed := *r
	aimed.TargetLataccel = slices.Clone(r.TargetLataccel)
	for h := range costing(&aimed) {
		k, part := h/knotSteps, float64(h%knotSteps)/knotSteps
		aimed.TargetLataccel[lockstep.ControlStartIdx+h] += float64(offsets[k]*(1-part)) +
			float64(offsets[k+1]*part)
	}
	return &aimed
}

// kept are the offsets that are kept, alone.
func (s *aiming) kept() (offsets [][][]float64) {
	for _, o := range s.offsets {
		offsets = append(offsets, [][]float64{o})
	}
	return offsets
}

// round betters the offsets.
func (s *aiming) round(ctx context.Context, round int) error {
	nudged := s.kept()
	for i, o := range s.offsets {
		for first := range apart {
			other := slices.Clone(o)
			for k := first; k < len(other); k += apart {
				other[k] += aimNudge
			}
			nudged[i] = append(nudged[i], other)
		}
	}
	expected, err := s.sweep(ctx, lockstep.Noise{Kind: lockstep.ExpectedNoise}, 1, nudged)
	if err != nil {
		return err
	}
	noise := s.seeded(round)
	now, err := s.sweep(ctx, noise, s.Seeds, s.kept())
	if err != nil {
		return err
	}
	tried := make([][][]float64, len(s.routes))
	for i, r := range s.routes {
		q := aimQuadratic(r, expected[i], now[i][0])
		for _, damping := range aimDampings {
			tried[i] = append(tried[i], plus(s.offsets[i], 1, q.least(damping)))
		}
	}
	then, err := s.sweep(ctx, noise, s.Seeds, tried)
	if err != nil {
		return err
	}
	for i, r := range s.routes {
		best := choice{s.offsets[i], meanCost(r, now[i][0])}
		for k, offsets := range tried[i] {
			best.better(offsets, meanCost(r, then[i][k]))
		}
		copy(s.offsets[i], best.offset)
	}
	return nil
}

// seeded is the noise of a round.
func (s *aiming) seeded(round int) lockstep.Noise {
	noise := lockstep.Noise{Kind: s.Noise}
	random := rand.New(rand.NewPCG(s.Seed, uint64(round)))
	for range s.Seeds {
		if s.Noise == lockstep.SeededNoise {
			noise.Seeds = append(noise.Seeds, random.Uint32())
		}
	}
	return noise
}

// aimQuadratic is the total cost as a function of changes of the offsets. Nudged are the
// drives with the offsets, and with those nudged; drives are those under some seeds.
func aimQuadratic(r *lockstep.Route, nudged [][]drive, drives []drive) *quadratic {
	target := costing(r)
	knots := aimKnots(target)
	a, b := coefficients(len(target))
	q := newQuadratic(knots)
	slope, change, last := make([]float64, knots), make([]float64, knots), 0.0
	for h := range target {
		mean := 0.0
		for _, d := range drives {
			mean += d.lataccel[h] / float64(len(drives))
		}
		copy(change, slope)
		clear(slope)
		// The knots that h can tell of, as many as there are rollouts, one in each.
		first := (h+ahead)/knotSteps - apart + 1
		for k := max(first, 0); k < min(first+apart, knots); k++ {
			slope[k] = (nudged[1+k%apart][0].lataccel[h] - nudged[0][0].lataccel[h]) / aimNudge
		}
		q.add(a, mean-target[h], slope)
		if h > 0 {
			for k := range change {
				change[k] = slope[k] - change[k]
			}
			q.add(b, mean-last, change)
		}
		last = mean
	}
	return q
}

// meanCost is the total cost of drives on a route, on average.
func meanCost(r *lockstep.Route, drives []drive) float64 {
	target := costing(r)
	a, b := coefficients(len(target))
	sum := 0.0
	for _, d := range drives {
		for h, x := range d.lataccel[:len(target)] {
			sum += float64(a * (x - target[h]) * (x - target[h]))
			if h > 0 {
				sum += float64(b * (x - d.lataccel[h-1]) * (x - d.lataccel[h-1]))
			}
		}
	}
	return sum / float64(len(drives))
}
