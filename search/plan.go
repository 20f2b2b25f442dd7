package search

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"lockstep"
)

// Plan is a search over tables of actions, one route's apart from another's: from a
// snapshot, candidates that differ from the table by a smooth offset are rolled on and
// the best kept, round by round; then the rollout goes on by some steps with it, and so
// on to the end. With OwnNoise what is found knows the draws; with the others the
// rollout meets draws that no candidate has seen.
type Plan struct {
	Noise      lockstep.NoiseKind
	Candidates int // tried together, for each route
	Seeds      int // each candidate is rolled under so many; 1 unless the noise is seeded
	Rounds     int
	Window     int // steps that the rollout goes on by
	Horizon    int // steps that a candidate is rolled on
	Seed       uint64
}

// Check refuses what is no plan.
func (p *Plan) Check() error {
	switch {
	case p.Candidates < 4 || p.Rounds < 1 || p.Seeds < 1:
		return fmt.Errorf("%d candidates, %d rounds and %d seeds: want 4, 1 and 1 at least", p.Candidates, p.Rounds, p.Seeds)
	case p.Window < 1 || p.Horizon < p.Window:
		return fmt.Errorf("a window of %d steps and a horizon of %d: want 1 at least, and no shorter a horizon", p.Window, p.Horizon)
	case p.Seeds > 1 && p.Noise != lockstep.SeededNoise:
		return fmt.Errorf("%d seeds go with seeded noise, not with %s", p.Seeds, p.Noise)
	}
	return nil
}

const (
	knotSteps  = 4    // between the knots of an offset
	firstSigma = 0.12 // of an offset at its knots, in units of the steer command
)

// Run plans from a table of actions for each of the routes, which have different names.
// Progress is told of the steps that are planned, of TableSteps.
func (p *Plan) Run(ctx context.Context, sim lockstep.StepSimulator, routes []*lockstep.Route, start map[string][]float64, progress func(step int)) (*lockstep.Table, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	jobs := make([]lockstep.Job, len(routes))
	tables := make([][]float64, len(routes))
	longest := 0
	for i, r := range routes {
		jobs[i] = lockstep.Job{Route: r}
		tables[i] = slices.Clone(start[r.Name])
		if len(tables[i]) != lockstep.TableSteps {
			return nil, fmt.Errorf("route %s: %d actions to begin with, want %d", r.Name, len(tables[i]), lockstep.TableSteps)
		}
		longest = max(longest, min(r.Len(), lockstep.CostEndIdx)-lockstep.ControlStartIdx)
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
	warmup := make([]float64, (lockstep.ControlStartIdx-lockstep.ContextLength)*len(routes))
	costs := make([]float64, len(routes))
	if err := planner.Roll(ctx, warmup, costs, nil); err != nil {
		return nil, err
	}
	for at := 0; at < longest; at += p.Window {
		horizon := min(p.Horizon, longest-at)
		if err := p.improve(ctx, planner, tables, at, horizon); err != nil {
			return nil, err
		}
		window := min(p.Window, longest-at)
		commands := make([]float64, 0, window*len(routes))
		for h := range window {
			for i := range routes {
				commands = append(commands, tables[i][at+h])
			}
		}
		if err := planner.Roll(ctx, commands, costs, nil); err != nil {
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

// offset is a search over one route's offsets at knots.
type offset struct {
	mean, sigma []float64
	random      *rand.Rand
	best        []float64 // actions from at on
	cost        float64
	tried       [][]float64 // knots of each candidate
	actions     [][]float64 // and its actions
}

// improve betters the tables from at on, over a horizon, as seen from where the
// rollouts are.
func (p *Plan) improve(ctx context.Context, planner lockstep.Planner, tables [][]float64, at, horizon int) error {
	shot, err := planner.Snapshot(ctx)
	if err != nil {
		return err
	}
	searches := make([]*offset, len(tables))
	for i, table := range tables {
		knots := (horizon-1)/knotSteps + 2
		searches[i] = &offset{
			mean: make([]float64, knots), sigma: slices.Repeat([]float64{firstSigma}, knots),
			random: rand.New(rand.NewPCG(p.Seed, uint64(at)<<32|uint64(i))),
			best:   slices.Clone(table[at : at+horizon]), cost: math.Inf(1),
		}
	}
	for range p.Rounds {
		for i, s := range searches {
			s.draw(p.Candidates, tables[i][at:at+horizon])
		}
		costs, err := p.try(ctx, planner, shot, searches, at, horizon)
		if err != nil {
			return err
		}
		for i, s := range searches {
			s.learn(costs[i*p.Candidates : (i+1)*p.Candidates])
		}
	}
	for i, s := range searches {
		copy(tables[i][at:], s.best)
	}
	return nil
}

// draw makes candidates: the best so far, the mean, and offsets of the table.
func (s *offset) draw(candidates int, table []float64) {
	s.tried, s.actions = s.tried[:0], s.actions[:0]
	for k := range candidates {
		knots := slices.Clone(s.mean)
		if k > 1 {
			for j := range knots {
				knots[j] += float64(s.sigma[j] * s.random.NormFloat64())
			}
		}
		actions := make([]float64, len(table))
		for h := range actions {
			j, part := h/knotSteps, float64(h%knotSteps)/knotSteps
			x := table[h] + float64(knots[j]*(1-part)) + float64(knots[j+1]*part)
			actions[h] = min(max(x, lockstep.SteerMin), lockstep.SteerMax)
		}
		if k == 0 {
			actions = s.best
		}
		s.tried, s.actions = append(s.tried, knots), append(s.actions, actions)
	}
}

// learn fits the next round to the best quarter.
func (s *offset) learn(costs []float64) {
	order := make([]int, len(costs))
	for k := range order {
		order[k] = k
	}
	slices.SortStableFunc(order, func(a, b int) int { return compare(costs[a], costs[b]) })
	s.best, s.cost = s.actions[order[0]], costs[order[0]]
	elite := slices.DeleteFunc(order[:max(2, len(order)/4)], func(k int) bool { return k == 0 }) // whose knots are others
	if len(elite) == 0 {
		return
	}
	for j := range s.mean {
		sum, squares := 0.0, 0.0
		for _, k := range elite {
			sum += s.tried[k][j]
		}
		s.mean[j] = sum / float64(len(elite))
		for _, k := range elite {
			d := s.tried[k][j] - s.mean[j]
			squares += float64(d * d)
		}
		s.sigma[j] = max(math.Sqrt(squares/float64(len(elite))), firstSigma/20)
	}
}

// try rolls all candidates of all routes on together; the costs are of each route's
// candidates, over the seeds.
func (p *Plan) try(ctx context.Context, planner lockstep.Planner, shot *lockstep.Snapshot, searches []*offset, at, horizon int) ([]float64, error) {
	m := len(searches) * p.Candidates * p.Seeds
	index := make([]int, m)
	noise := lockstep.Noise{Kind: p.Noise}
	commands, costs := make([]float64, horizon*m), make([]float64, m)
	for n := range m {
		i, k := n/(p.Candidates*p.Seeds), n/p.Seeds%p.Candidates
		index[n] = i
		if p.Noise == lockstep.SeededNoise { // the same for all candidates of a step
			noise.Seeds = append(noise.Seeds, uint32(p.Seed)*1_000_003+uint32(at*p.Seeds+n%p.Seeds))
		}
		for h, u := range searches[i].actions[k] {
			commands[h*m+n] = u
		}
	}
	candidates, err := planner.Fork(ctx, shot, index, noise)
	if err != nil {
		return nil, err
	}
	defer candidates.Close()
	if err := candidates.Roll(ctx, commands, costs, nil); err != nil {
		return nil, err
	}
	sums := make([]float64, len(searches)*p.Candidates)
	for n, c := range costs {
		sums[n/p.Seeds] += c
	}
	return sums, nil
}
