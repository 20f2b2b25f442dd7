// Package search finds policies by trying them out: gains for all routes, and tables
// of actions for one. It knows simulators by their interfaces alone.
package search

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"lockstep"
)

// Gains is a search over the gains of one kind of policy by the cross-entropy method:
// a population is drawn from independent normal distributions, and the next ones are
// those of its best quarter. It follows from its kind, population and seed, and from
// what candidates come to: told the same results, it asks for the same candidates. Make
// it by NewGains.
type Gains struct {
	Best    lockstep.Native   // the best policy so far
	Results []lockstep.Result // of the best, by route; none before the first generation
	History []Generation

	kind        lockstep.Kind
	space       space
	population  int
	seed        uint64
	mean, sigma []float64
	objective   float64 // of Best
}

// Generation is what one came to, as objectives.
type Generation struct {
	Best   float64 // of the best candidate so far
	Mean   float64 // of the distribution's mean
	Median float64 // of the population
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
	g := &Gains{
		kind: kind, space: s, population: population, seed: seed,
		mean: slices.Clone(s.start), sigma: slices.Clone(s.width), objective: math.Inf(1),
	}
	g.Best = g.policy(s.start)
	return g, nil
}

// Next tries the next generation. A sweep rolls each candidate out on all routes; its
// results are those of the first candidate on all routes, then those of the second.
func (g *Gains) Next(sweep func(candidates []lockstep.Policy) ([]lockstep.Result, error)) error {
	candidates := g.candidates()
	results, err := sweep(candidates)
	if err != nil {
		return err
	}
	routes := len(results) / len(candidates)
	of := func(k int) []lockstep.Result { return results[k*routes : (k+1)*routes] }
	objectives := make([]float64, len(candidates))
	for k := range candidates {
		objectives[k] = GeometricMean(totals(of(k)))
	}
	if best := g.learn(candidates, objectives); best >= 0 {
		g.Best, g.Results = candidates[best].(lockstep.Native), slices.Clone(of(best))
	}
	return nil
}

// totals are the total costs of rollouts; one that failed has none.
func totals(results []lockstep.Result) []float64 {
	costs := make([]float64, len(results))
	for i, r := range results {
		if costs[i] = r.Costs.Total; r.Err != nil {
			costs[i] = math.NaN()
		}
	}
	return costs
}

func (g *Gains) policy(gains []float64) lockstep.Native {
	p, err := g.kind.New(gains)
	if err != nil {
		panic(err) // there are as many as the kind has
	}
	return p
}

// candidates are those of the next generation: the best so far, the mean, and as many
// as are drawn.
func (g *Gains) candidates() []lockstep.Policy {
	random := rand.New(rand.NewPCG(g.seed, uint64(len(g.History))))
	all := []lockstep.Policy{g.Best, g.policy(g.mean)}
	for len(all) < g.population {
		gains := make([]float64, len(g.mean))
		for i := range gains {
			x := g.mean[i] + float64(g.sigma[i]*random.NormFloat64())
			gains[i] = min(max(x, g.space.low[i]), g.space.high[i])
		}
		all = append(all, g.policy(gains))
	}
	return all
}

// learn fits the distribution to the best quarter of the candidates, and returns the
// number of the one that is better than any before, or -1.
func (g *Gains) learn(candidates []lockstep.Policy, objectives []float64) (better int) {
	order := make([]int, len(candidates))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return compare(objectives[a], objectives[b]) })
	elite := order[:max(2, len(order)/4)]
	for i := range g.mean {
		var sum, squares float64
		for _, k := range elite {
			sum += lockstep.GainsOf(candidates[k])[i]
		}
		mean := sum / float64(len(elite))
		for _, k := range elite {
			d := lockstep.GainsOf(candidates[k])[i] - mean
			squares += float64(d * d)
		}
		g.mean[i] = mean
		g.sigma[i] = max(math.Sqrt(squares/float64(len(elite))), narrowest*g.space.width[i])
	}
	better = -1
	if best := order[0]; len(g.History) == 0 || compare(objectives[best], g.objective) < 0 {
		better, g.objective = best, objectives[best]
	}
	g.History = append(g.History, Generation{Best: g.objective, Mean: objectives[1], Median: objectives[order[len(order)/2]]})
	return better
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
// largest number.
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
