// Package search finds policies by trying them out: gains for all routes, and tables
// of actions for one. It knows simulators by their interfaces alone.
package search

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"lockstep"
)

// Gains is a search over the gains of one kind of policy: the cross-entropy method with a
// full covariance and a step size of its own, as CMA-ES has them (Hansen, The CMA
// Evolution Strategy: A Tutorial, arXiv:1604.00772, with Cholesky's factor for the root). A
// population is drawn from a normal distribution, which then moves towards its better
// half. The search follows from its kind, population and seed, and from what candidates
// come to: told the same results, it asks for the same candidates. Make it by NewGains.
type Gains struct {
	Best    lockstep.Native   // the best policy so far
	Results []lockstep.Result // of the best, by route; none before the first generation
	History []Generation

	kind       lockstep.Kind
	gains      []lockstep.Gain
	population int
	seed       uint64
	objective  float64 // of Best

	// The distribution of the gains is mean + width·step·N(0, C), by element.
	mean  []float64
	step  float64
	c     [][]float64
	drawn []float64 // p_σ, the path of the mean, in what was drawn from N(0, 1)
	path  []float64 // p_c, the same in what was drawn from N(0, C)
}

// Generation is what one came to, as objectives.
type Generation struct {
	Best   float64 // of the best candidate so far
	Mean   float64 // of the distribution's mean
	Median float64 // of the population
}

// Kinds are the names of the kinds whose gains can be searched.
func Kinds() (names []string) {
	for _, k := range lockstep.Kinds() {
		if len(k.Gains) > 0 {
			names = append(names, k.Name)
		}
	}
	return names
}

// NewGains begins a search over a kind's gains.
func NewGains(kind lockstep.Kind, population int, seed uint64) (*Gains, error) {
	gains := kind.Info().Gains
	if len(gains) == 0 {
		return nil, fmt.Errorf(
			"%s has no gains to search: want one of %s", kind, strings.Join(Kinds(), ", "),
		)
	}
	if population < 8 || population > 100_000 {
		return nil, fmt.Errorf("a population of %d: want 8 to 100000", population)
	}
	n := len(gains)
	g := &Gains{
		kind: kind, gains: gains, population: population, seed: seed, objective: math.Inf(1),
		step: 1, drawn: make([]float64, n), path: make([]float64, n),
	}
	for i, gain := range gains {
		g.mean = append(g.mean, gain.Start)
		g.c = append(g.c, make([]float64, n))
		g.c[i][i] = 1
	}
	g.Best = g.policy(g.mean)
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

// candidates are those of the next generation: the mean, and as many as are drawn.
func (g *Gains) candidates() []lockstep.Policy {
	random := rand.New(rand.NewPCG(g.seed, uint64(len(g.History))))
	a := factor(g.c)
	all := []lockstep.Policy{g.policy(g.mean)}
	z := make([]float64, len(g.mean))
	for len(all) < g.population {
		for i := range z {
			z[i] = random.NormFloat64()
		}
		gains := make([]float64, len(z))
		for i := range gains {
			x := g.mean[i] + float64(g.gains[i].Width*g.step*dot(a[i], z))
			gains[i] = min(max(x, g.gains[i].Low), g.gains[i].High)
		}
		all = append(all, g.policy(gains))
	}
	return all
}

// learn adapts the distribution, and returns the number of the candidate that is better
// than any before, or -1.
func (g *Gains) learn(candidates []lockstep.Policy, objectives []float64) (better int) {
	order := make([]int, len(candidates))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(
		order, func(a, b int) int { return compare(objectives[a], objectives[b]) },
	)
	better = -1
	if best := order[0]; len(g.History) == 0 || compare(objectives[best], g.objective) < 0 {
		better, g.objective = best, objectives[best]
	}
	g.History = append(
		g.History,
		Generation{Best: g.objective, Mean: objectives[0], Median: objectives[order[len(order)/2]]},
	)

	var steps [][]float64 // of what was drawn, in widths and step sizes, the best first
	for _, k := range order {
		if k == 0 {
			continue // the mean
		}
		y := make([]float64, len(g.mean))
		for i, x := range candidates[k].(lockstep.Native).Gains() {
			y[i] = (x - g.mean[i]) / (g.gains[i].Width * g.step)
		}
		steps = append(steps, y)
	}
	g.adapt(steps)
	return better
}

// adapt moves the distribution by steps, of which the better half counts.
func (g *Gains) adapt(steps [][]float64) {
	n := float64(len(g.mean))
	weights, sum, squares := make([]float64, len(steps)/2), 0.0, 0.0
	for k := range weights {
		weights[k] = math.Log(float64(len(steps)+1)/2) - math.Log(float64(k+1))
		sum += weights[k]
	}
	for k := range weights {
		weights[k] /= sum
		squares += float64(weights[k] * weights[k])
	}
	mu := 1 / squares
	cs := (mu + 2) / (n + mu + 5)
	damping := 1 + 2*max(0, math.Sqrt((mu-1)/(n+1))-1) + cs
	cc := (4 + mu/n) / (n + 4 + 2*mu/n)
	c1 := 2 / (float64((n+1.3)*(n+1.3)) + mu)
	cm := min(1-c1, 2*(mu-2+1/mu)/(float64((n+2)*(n+2))+mu))

	move := make([]float64, len(g.mean))
	for k, w := range weights {
		for i, y := range steps[k] {
			move[i] += float64(w * y)
		}
	}
	for i, z := range solve(factor(g.c), move) {
		g.drawn[i] = float64((1-cs)*g.drawn[i]) + float64(math.Sqrt(cs*(2-cs)*mu)*z)
	}
	length := math.Sqrt(
		dot(g.drawn, g.drawn),
	) / (math.Sqrt(n) * (1 - 1/(4*n) + 1/(21*n*n))) // 1 is that of a random walk
	follow := 1.0
	if length >= 1.4+2/(n+1) {
		follow = 0 // while the step size is far too small
	}
	for i, y := range move {
		g.mean[i] += float64(g.gains[i].Width * g.step * y)
		g.path[i] = float64((1-cc)*g.path[i]) + float64(follow*math.Sqrt(cc*(2-cc)*mu)*y)
	}
	keep := 1 - c1 - cm + float64((1-follow)*c1*cc*(2-cc))
	for i, row := range g.c {
		for j := range row {
			row[j] = float64(keep*row[j]) + float64(c1*g.path[i]*g.path[j])
			for k, w := range weights {
				row[j] += float64(cm * w * steps[k][i] * steps[k][j])
			}
		}
	}
	g.step *= math.Exp(min(1, cs/damping*(length-1)))
}

// factor is the lower triangle A of C = A·Aᵀ, positive definite (Cholesky).
func factor(c [][]float64) [][]float64 {
	a := make([][]float64, len(c))
	for i, row := range c {
		a[i] = make([]float64, i+1)
		for j := range i {
			a[i][j] = (row[j] - dot(a[j][:j], a[i])) / a[j][j]
		}
		a[i][i] = math.Sqrt(row[i] - dot(a[i][:i], a[i]))
	}
	return a
}

// solve is A⁻¹·y.
func solve(a [][]float64, y []float64) []float64 {
	x := make([]float64, len(y))
	for i := range x {
		x[i] = (y[i] - dot(a[i][:i], x)) / a[i][i]
	}
	return x
}

// solveTransposed is (Aᵀ)⁻¹·y.
func solveTransposed(a [][]float64, y []float64) []float64 {
	x := slices.Clone(y)
	for i := len(x) - 1; i >= 0; i-- {
		for k := i + 1; k < len(x); k++ {
			x[i] -= float64(a[k][i] * x[k])
		}
		x[i] /= a[i][i]
	}
	return x
}

// dot is Σ a·b over the elements of a.
func dot(a, b []float64) float64 {
	sum := 0.0
	for i, x := range a {
		sum += float64(x * b[i])
	}
	return sum
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
