package search

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"lockstep"
)

// TestRamps: knots are where the documentation says, what is linear in steps and ends at 0 is
// given back whole, and a hat is 1 at its own knot and 0 at all others.
func TestRamps(t *testing.T) {
	for _, c := range []struct {
		horizon int
		want    []int
	}{
		{1, []int{0}}, {10, []int{0}}, {11, []int{0, 2}}, {13, []int{0, 2, 4}},
		{50, []int{0, 2, 4, 7, 11, 16, 23, 32}}, {53, []int{0, 2, 4, 7, 11, 16, 23, 32, 44}},
	} {
		knots := knotsOf(c.horizon)
		if !slices.Equal(knots, c.want) {
			t.Fatalf("knots of a horizon of %d: %v, want %v", c.horizon, knots, c.want)
		}
		var values []float64
		for _, k := range knots {
			values = append(values, float64(k-c.horizon))
		}
		line := ramps(c.horizon, knots, values)
		for h, got := range line {
			// A planner's own weights, which round; no simulator's.
			if want := float64(h - c.horizon); math.Abs(got-want) > 1e-12*float64(c.horizon) {
				t.Errorf("horizon %d: %v at %d, want %v", c.horizon, got, h, want)
			}
		}
		hats := hatsOf(c.horizon, knots)
		for k, hat := range hats {
			for l, knot := range knots {
				if want := map[bool]float64{true: 1}[k == l]; len(hat) != c.horizon ||
					hat[knot] != want {
					t.Errorf("horizon %d: hat %d of %d is %v at knot %d", c.horizon, k, len(hats),
						hat[knot], l)
				}
			}
		}
		if len(hats) != len(knots) {
			t.Errorf("horizon %d: %d hats for %d knots", c.horizon, len(hats), len(knots))
		}
	}
}

// TestOffsets: where lataccels are linear in the offsets, those that are found without damping
// cost least, the actions' price included: for each route of several, at the steps where the cost
// begins, later, and where the horizon ends behind them. Damping shortens them.
func TestOffsets(t *testing.T) {
	defer func(was []float64) { dampings = was }(dampings)
	dampings = []float64{0, 0.5, 5}
	const horizon, routes = 14, 3
	knots := knotsOf(horizon)
	hats := hatsOf(horizon, knots)
	random := rand.New(rand.NewPCG(2, 2))
	numbers := func(n int, size float64) []float64 {
		all := make([]float64, n)
		for i := range all {
			all[i] = size * random.NormFloat64()
		}
		return all
	}
	for _, c := range []struct{ n, at int }{{40, 0}, {40, 9}, {40, 26}, {40, 33}} {
		free := &trial{at: c.at, from: &lockstep.Snapshot{}}
		slopes := make([][][]float64, routes) // (routes, knots, horizon)
		each := 1 + len(knots)
		free.costs = make([]float64, routes*each)
		free.lataccels = make([]float64, horizon*len(free.costs))
		for i := range routes {
			r := &lockstep.Route{TargetLataccel: numbers(lockstep.ControlStartIdx+c.n, 1)}
			free.routes = append(free.routes, r)
			free.free = append(free.free, numbers(horizon, 0.1))
			free.from.Rollouts = append(free.from.Rollouts, lockstep.RolloutState{
				Action: numbers(3, 0.1), Lataccel: numbers(3, 1),
			})
			offset := [][]float64{numbers(horizon, 0.1)}
			for _, hat := range hats {
				nudged := plus(offset[0], nudge*float64(1-2*(len(offset)%2)), hat) // either way
				offset = append(offset, nudged)
				slopes[i] = append(slopes[i], numbers(horizon, 1))
			}
			free.offset = append(free.offset, offset)
			for h, lataccel := range numbers(horizon, 1) {
				for k := range each {
					x := lataccel
					if k > 0 {
						x += slopes[i][k-1][h] * (offset[k][knots[k-1]] - offset[0][knots[k-1]])
					}
					free.lataccels[(h*routes+i)*each+k] = x
				}
			}
		}
		for i, r := range free.routes {
			steps := min(horizon, c.n-c.at)
			cost := func(theta []float64) float64 {
				last := free.from.Rollouts[i].Lataccel[2]
				sum, action := 0.0, free.from.Rollouts[i].Action[2]
				for h := range horizon {
					x, u := free.lataccels[(h*routes+i)*each], free.free[i][h]+free.offset[i][0][h]
					for k, o := range theta {
						x += slopes[i][k][h] * o
						u += hats[k][h] * o
					}
					sum += price * (u - action) * (u - action)
					action = u
					if h >= steps {
						continue
					}
					target := r.TargetLataccel[lockstep.ControlStartIdx+c.at+h]
					sum += 5000 / float64(c.n) * (x - target) * (x - target)
					if c.at+h > 0 {
						sum += 10000 / float64(c.n-1) * (x - last) * (x - last)
					}
					last = x
				}
				return sum
			}
			list := free.offsets(i, knots, hats)
			least := cost(list[0])
			for k := range knots {
				for _, d := range []float64{-1e-3, 1e-3} {
					other := slices.Clone(list[0])
					if other[k] += d; !(cost(other) > least) {
						t.Errorf("step %d, route %d: the offset of knot %d is not where the cost "+
							"is least", c.at, i, k)
					}
				}
			}
			for k := range dampings[1:] {
				if !(dot(list[k+1], list[k+1]) < dot(list[k], list[k])) {
					t.Errorf("step %d, route %d: a damping of %v does not shorten %v: %v", c.at, i,
						dampings[k+1], list[k], list[k+1])
				}
			}
		}
	}
}

// TestActions: what a candidate does is what the policy does and its offset, within the limits.
func TestActions(t *testing.T) {
	trial := &trial{free: [][]float64{{9}, {0.5, 1.5, -1.5, 1.5, 0}}}
	got := trial.actions(1, []float64{0.25, 0.75, -0.75, -3.75, 0})
	if want := []float64{0.75, 2, -2, -2, 0}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
