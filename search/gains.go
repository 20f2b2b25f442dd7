// Package search finds policies by trying them out: gains for all routes, and tables
// of actions for one. It knows simulators by their interfaces alone.
package search

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"lockstep"
)

// Gains is a search over the gains of one kind of policy by the cross-entropy method:
// a population is drawn from independent normal distributions, and the next ones are
// those of its best quarter. Its state is data, so that a search goes on where it was
// left, with the numbers that it would have drawn. Make it by NewGains.
type Gains struct {
	Kind       string       `json:"kind"`
	Seed       uint64       `json:"seed"`
	Population int          `json:"population"`
	Mean       []float64    `json:"mean"`
	Sigma      []float64    `json:"sigma"`
	Best       []float64    `json:"best"`
	BestCost   *float64     `json:"best_objective"` // nil before the first generation
	History    []Generation `json:"history"`
}

// Generation is what one came to.
type Generation struct {
	Best   float64 `json:"best"`   // objective of the best candidate so far
	Mean   float64 `json:"mean"`   // of the distribution's mean
	Median float64 `json:"median"` // of the population
}

// space is where a search over a kind's gains begins, how wide, and what bounds it.
type space struct{ start, width, low, high []float64 }

var free = math.Inf(1)

var spaces = map[lockstep.Kind]space{
	lockstep.KindPID: {
		start: lockstep.DefaultPID.Gains(), width: []float64{0.1, 0.05, 0.08},
		low: []float64{-free, -free, -free}, high: []float64{free, free, free},
	},
	lockstep.KindPIDFF: {
		start: append(lockstep.DefaultPID.Gains(), 0, 0, 0, 0, 0, 0.1, 0.02),
		width: []float64{0.1, 0.05, 0.08, 0.15, 0.15, 0.15, 0.15, 0.2, 0.2, 0.03},
		low:   []float64{-free, -free, -free, -free, -free, -free, -free, -free, 0, 0},
		high:  []float64{free, free, free, free, free, free, free, free, 0.95, 0.5},
	},
}

// narrowest is the part of its first width below which no distribution becomes.
const narrowest = 0.04

// NewGains begins a search over a kind's gains at the default PID controller.
func NewGains(kind lockstep.Kind, population int, seed uint64) (*Gains, error) {
	s, ok := spaces[kind]
	if !ok {
		return nil, fmt.Errorf("gains of %s cannot be searched: want pid or pidff", kind)
	}
	if population < 8 || population > 100_000 {
		return nil, fmt.Errorf("a population of %d: want 8 to 100000", population)
	}
	return &Gains{
		Kind: kind.String(), Seed: seed, Population: population,
		Mean: slices.Clone(s.start), Sigma: slices.Clone(s.width), Best: slices.Clone(s.start),
	}, nil
}

// Check refuses a state that no search of this program can have left.
func (g *Gains) Check() error {
	kind, ok := lockstep.KindOf(g.Kind)
	s, searched := spaces[kind]
	if !ok || !searched {
		return fmt.Errorf("gains of %.30q cannot be searched: want pid or pidff", g.Kind)
	}
	for _, column := range [][]float64{g.Mean, g.Sigma, g.Best} {
		if len(column) != len(s.start) {
			return fmt.Errorf("%d gains, want the %d of %s", len(column), len(s.start), kind)
		}
	}
	if g.Population < 8 || g.Population > 100_000 || (g.BestCost == nil) != (len(g.History) == 0) {
		return errors.New("it is not the state of a search")
	}
	return nil
}

// Policy is the best one so far.
func (g *Gains) Policy() lockstep.Native { return g.policy(g.Best) }

func (g *Gains) policy(gains []float64) lockstep.Native {
	kind, _ := lockstep.KindOf(g.Kind)
	p, err := kind.New(gains)
	if err != nil {
		panic(err) // Check saw to it
	}
	return p
}

// Ask are the candidates of the next generation: the best so far, the mean, and as
// many as are drawn.
func (g *Gains) Ask() []lockstep.Policy {
	kind, _ := lockstep.KindOf(g.Kind)
	s := spaces[kind]
	random := rand.New(rand.NewPCG(g.Seed, uint64(len(g.History))))
	all := []lockstep.Policy{g.policy(g.Best), g.policy(g.Mean)}
	for len(all) < g.Population {
		gains := make([]float64, len(g.Mean))
		for i := range gains {
			x := g.Mean[i] + float64(g.Sigma[i]*random.NormFloat64())
			gains[i] = min(max(x, s.low[i]), s.high[i])
		}
		all = append(all, g.policy(gains))
	}
	return all
}

// Tell says what the candidates of Ask came to, their objectives.
func (g *Gains) Tell(candidates []lockstep.Policy, objectives []float64) {
	kind, _ := lockstep.KindOf(g.Kind)
	order := make([]int, len(candidates))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return compare(objectives[a], objectives[b]) })
	elite := order[:max(2, len(order)/4)]
	for i := range g.Mean {
		var sum, squares float64
		for _, k := range elite {
			sum += lockstep.GainsOf(candidates[k])[i]
		}
		mean := sum / float64(len(elite))
		for _, k := range elite {
			d := lockstep.GainsOf(candidates[k])[i] - mean
			squares += float64(d * d)
		}
		g.Mean[i] = mean
		g.Sigma[i] = max(math.Sqrt(squares/float64(len(elite))), narrowest*spaces[kind].width[i])
	}
	if best := order[0]; g.BestCost == nil || compare(objectives[best], *g.BestCost) < 0 {
		cost := objectives[best]
		g.Best, g.BestCost = lockstep.GainsOf(candidates[best]), &cost
	}
	g.History = append(g.History, Generation{Best: *g.BestCost, Mean: objectives[1], Median: objectives[order[len(order)/2]]})
}

// compare orders objectives; NaN is worse than any.
func compare(a, b float64) int {
	switch {
	case a < b || b != b && a == a:
		return -1
	case b < a || a != a && b == b:
		return 1
	}
	return 0
}

// GeometricMean is the objective: a mean of costs would be ruled by the few routes on
// which no controller of the kind does well. A cost that is not a number makes it the
// largest that a state can hold.
func GeometricMean(costs []float64) float64 {
	sum := 0.0
	for _, c := range costs {
		sum += math.Log(c)
	}
	if mean := math.Exp(sum / float64(len(costs))); mean < math.MaxFloat64 {
		return mean
	}
	return math.MaxFloat64
}
