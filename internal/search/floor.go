package search

import (
	"math"

	"lockstep"
)

// weights say what a deviation costs: that of the lataccels from the best way, squared,
// steps that cost in a row. They are the pivots of the floor's matrix, eliminated from its
// end, and follow from the number of steps alone:
//
//	w[n-1] = A + B,  w[i] = A + 2B - B²/w[i+1],  w[0] = A + B - B²/w[1]
//
// with A = 5000/n and B = 10000/(n-1). For each step, whatever came before it, there is a
// lataccel best[i] = (A·T + what is ahead + B·L[i-1])/w[i], and any trajectory L costs
//
//	floor + Σ w[i]·(L[i] - best[i])².
func weights(n int) []float64 {
	a, b := coefficients(n)
	w := make([]float64, n)
	for i := n - 1; i >= 0; i-- {
		w[i] = a
		if i > 0 {
			w[i] += b
		}
		if i < n-1 {
			w[i] += b - float64(b*b)/w[i+1]
		}
	}
	return w
}

// coefficients are those of a squared error and of a squared difference between two
// lataccels in the total cost of a route on which n steps cost.
func coefficients(n int) (a, b float64) {
	if n < 2 {
		return 5000 / float64(n), 0
	}
	return 5000 / float64(n), 10000 / float64(n-1)
}

// costing are the targets of the steps that cost.
func costing(r *lockstep.Route) []float64 {
	return r.TargetLataccel[lockstep.ControlStartIdx:min(r.Len(), lockstep.CostEndIdx)]
}

// Floor is a bound of a route's total cost: no trajectory costs less, whatever the car
// can do. It is the cost of L = (A·I + B·DᵀD)⁻¹·A·T over the steps that cost, with
// A = 5000/n, B = 10000/(n-1), targets T and first differences D.
func Floor(r *lockstep.Route) float64 {
	target := costing(r)
	a, b := coefficients(len(target))
	w := weights(len(target))
	ahead := make([]float64, len(target)) // the equations' right side
	for i := len(target) - 1; i >= 0; i-- {
		ahead[i] = float64(a * target[i])
		if i < len(target)-1 {
			ahead[i] += float64(b/w[i+1]) * ahead[i+1]
		}
	}
	cost, last := 0.0, 0.0
	for i := range target {
		x := ahead[i] / w[i]
		if i > 0 {
			x = (ahead[i] + float64(b*last)) / w[i]
			cost += float64(b * (x - last) * (x - last))
		}
		cost += float64(a * (target[i] - x) * (target[i] - x))
		last = x
	}
	return cost
}

// Unforeseen is what the network's own draws add to a rollout's cost, whatever steers it
// without knowing them. A lataccel is drawn from a distribution of which actions move the
// mean; were that always the best one, the expected total cost would be
//
//	floor + Σ w[i]·v[i],
//
// where v is the variance of the lataccel at a step, as everything before it is known; see
// weights (and of stochastic control, certainty equivalence: Åström, Introduction to
// Stochastic Control Theory, 1970, chapter 8). No controller is expected to cost less on
// states like those of the rollout. Observe is the observer of its job.
type Unforeseen struct {
	Cost float64 // Σ w·v, of the steps seen so far

	weights []float64
	last    float64 // lataccel
}

// NewUnforeseen is that of a rollout of a route.
func NewUnforeseen(r *lockstep.Route) *Unforeseen {
	return &Unforeseen{weights: weights(len(costing(r)))}
}

// Observe adds a step.
func (u *Unforeseen) Observe(s *lockstep.Step) {
	if i := s.Index - lockstep.ControlStartIdx; i >= 0 && i < len(u.weights) {
		u.Cost += float64(u.weights[i] * variance(s.Probs, u.last))
	}
	u.last = s.Lataccel
}

// variance is that of the lataccel after one that was last, drawn from a distribution over
// the bins, and clipped like the simulator's.
func variance(probs []float32, last float64) float64 {
	const width = (lockstep.LataccelMax - lockstep.LataccelMin) / (lockstep.VocabSize - 1)
	sum, mean, square := 0.0, 0.0, 0.0
	for k, p := range probs {
		x := lockstep.LataccelMin + float64(
			width*float64(k),
		) - last // from last, so that squares are small
		x = math.Min(math.Max(x, -lockstep.MaxAccDelta), lockstep.MaxAccDelta)
		sum += float64(p)
		mean += float64(float64(p) * x)
		square += float64(float64(p) * x * x)
	}
	mean /= sum
	return square/sum - float64(mean*mean)
}
