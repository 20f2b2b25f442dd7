package search

import "lockstep"

// Floor is a bound of a route's total cost: no trajectory costs less, whatever the car
// can do. It is the cost of L = (A·I + B·DᵀD)⁻¹·A·T over the steps that cost, with
// A = 5000/n, B = 10000/(n-1), targets T and first differences D.
func Floor(r *lockstep.Route) float64 {
	target := r.TargetLataccel[lockstep.ControlStartIdx:min(r.Len(), lockstep.CostEndIdx)]
	n := len(target)
	a, b := 5000/float64(n), 10000/float64(n-1)
	if n < 2 {
		return 0
	}
	// The matrix is tridiagonal: -b beside a diagonal of a+2b, which is a+b at its ends.
	diagonal, x := make([]float64, n), make([]float64, n)
	for i := range n {
		diagonal[i] = a + 2*b
		if i == 0 || i == n-1 {
			diagonal[i] = a + b
		}
		x[i] = a * target[i]
		if i > 0 {
			f := b / diagonal[i-1]
			diagonal[i] -= float64(f * b)
			x[i] += float64(f * x[i-1])
		}
	}
	for i := n - 1; i >= 0; i-- {
		if i < n-1 {
			x[i] += float64(b * x[i+1])
		}
		x[i] /= diagonal[i]
	}
	cost := 0.0
	for i := range n {
		e := target[i] - x[i]
		cost += float64(a * e * e)
		if i > 0 {
			d := x[i] - x[i-1]
			cost += float64(b * d * d)
		}
	}
	return cost
}
