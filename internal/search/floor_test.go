package search

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"lockstep"
	"lockstep/internal/assets/assetstest"
)

// TestFloor: the official routes' floors are known.
func TestFloor(t *testing.T) {
	want := []string{"5.317", "3.059", "0.918", "0.890", "218.390", "165.157"}
	for i, name := range assetstest.RouteNames {
		r := assetstest.Route(t, name, lockstep.Profile{})
		if got := fmt.Sprintf("%.3f", Floor(r)); got != want[i] {
			t.Errorf("route %s: %s, want %s", name, got, want[i])
		}
	}
}

// TestWeights: any trajectory costs the floor and what its deviations from the best way
// weigh, where the best way is found by trying: after each step anew, from where it is.
func TestWeights(t *testing.T) {
	for _, n := range []int{1, 2, 7} {
		random := rand.New(rand.NewPCG(1, uint64(n)))
		r := &lockstep.Route{TargetLataccel: make([]float64, lockstep.ControlStartIdx+n)}
		for i := range r.TargetLataccel {
			r.TargetLataccel[i] = random.NormFloat64()
		}
		target, way := costing(r), make([]float64, n)
		for i := range way {
			way[i] = random.NormFloat64()
		}
		sum := Floor(r)
		for i, w := range weights(n) {
			d := way[i] - best(target, way[:i])
			sum += w * d * d
		}
		// Sums of a few numbers in another order; no simulator's.
		if want := total(target, way); !(math.Abs(sum-want) <= 1e-9*want) {
			t.Errorf("%d steps: %v, want %v", n, sum, want)
		}
		for i := range way { // whose cost is summed in another order than the floor
			way[i] = best(target, way[:i])
		}
		if want := total(target, way); !(math.Abs(Floor(r)-want) <= 1e-12*(1+want)) {
			t.Errorf("%d steps: the floor is %v, and the best way costs %v", n, Floor(r), want)
		}
	}
}

// total is the total cost of lataccels.
func total(target, way []float64) float64 {
	n, cost := float64(len(way)), 0.0
	for i, x := range way {
		cost += 50 * 100 * (target[i] - x) * (target[i] - x) / n
		if i > 0 {
			jerk := (x - way[i-1]) / 0.1
			cost += 100 * jerk * jerk / (n - 1)
		}
	}
	return cost
}

// best is the next lataccel of the way that costs least and begins with some. One step after
// the other is put where the total cost, a parabola, is least, until none moves.
func best(target, begin []float64) float64 {
	way := make([]float64, len(target))
	copy(way, begin)
	for range 500 {
		for i := len(begin); i < len(way); i++ {
			x, cost := way[i], [3]float64{}
			for k := range cost {
				way[i] = x + float64(k) - 1
				cost[k] = total(target, way)
			}
			way[i] = x + (cost[0]-cost[2])/(cost[0]-2*cost[1]+cost[2])/2
		}
	}
	return way[len(begin)]
}

// TestUnforeseen: a draw between two bins costs their variance, by its step's weight; before
// the steps that cost, behind them, and where a lataccel is clipped, nothing.
func TestUnforeseen(t *testing.T) {
	r := &lockstep.Route{TargetLataccel: make([]float64, lockstep.ControlStartIdx+2)}
	u := NewUnforeseen(r)
	probs := make([]float32, lockstep.VocabSize)
	const low, high = 500, 503
	probs[low], probs[high] = 0.375, 0.125 // their sum is 1 but for what rounds in the network
	bin := func(k int) float64 { return -5 + 10*float64(k)/1023 }
	distance := bin(high) - bin(low)
	one := 0.75 * 0.25 * distance * distance
	w := weights(2)
	for _, c := range []struct {
		step     int
		lataccel float64
		want     float64
	}{
		{99, bin(low), 0},
		{100, bin(low) + 0.5 + distance, w[0] * one},
		{101, 0, w[0] * one}, // both are clipped to the same
		{102, 0, w[0] * one},
	} {
		u.Observe(&lockstep.Step{Index: c.step, Probs: probs, Lataccel: c.lataccel})
		// An estimate's sums, in another order; no simulator's.
		if !(math.Abs(u.Cost-c.want) <= 1e-12) {
			t.Errorf("after step %d: %v, want %v", c.step, u.Cost, c.want)
		}
	}
	u = NewUnforeseen(r)
	u.Observe(&lockstep.Step{Index: 101, Probs: probs})
	if want := w[1] * one; !(math.Abs(u.Cost-want) <= 1e-12) {
		t.Errorf("the last step: %v, want %v", u.Cost, want)
	}
	u = NewUnforeseen(r) // a bin is clipped, and the other half as far from it as without
	u.Observe(&lockstep.Step{Index: 99, Probs: probs, Lataccel: bin(high) + 0.5 - distance/2})
	u.Observe(&lockstep.Step{Index: 100, Probs: probs})
	if want := w[0] * one / 4; !(math.Abs(u.Cost-want) <= 1e-12) {
		t.Errorf("a bin is clipped: %v, want %v", u.Cost, want)
	}
	// Where a lataccel is clipped follows from that of the step before, also where that one costs
	// nothing: from 4 m/s² on all bins here are clipped to the same.
	for _, first := range []int{99, 100} {
		u = NewUnforeseen(r)
		u.Observe(&lockstep.Step{Index: first, Probs: probs, Lataccel: 4})
		before := u.Cost
		u.Observe(&lockstep.Step{Index: first + 1, Probs: probs})
		if u.Cost != before {
			t.Errorf("step %d, from 4 m/s²: it adds %v, want 0", first+1, u.Cost-before)
		}
	}
}
