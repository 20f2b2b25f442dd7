package search

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"lockstep"
)

// objective is least at known gains.
func objective(p lockstep.Policy) float64 {
	sum := 0.0
	for i, g := range p.(lockstep.Native).Gains() {
		d := g - 0.02*float64(i+1)
		sum += d * d
	}
	return sum
}

// run searches on, on one route: candidate 5 fails.
func run(t *testing.T, g *Gains, generations int) {
	for range generations {
		err := g.Next(func(candidates []lockstep.Policy) (results []lockstep.Result, err error) {
			for i, p := range candidates {
				r := lockstep.Result{Costs: lockstep.Costs{Total: objective(p)}}
				if i == 5 {
					r = lockstep.Result{Err: errors.New("it fails")}
				}
				results = append(results, r)
			}
			return results, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestGains: the search finds a minimum, never loses its best, knows what the best came
// to, and is the same whenever it is told the same, also after a sweep that was not
// finished.
func TestGains(t *testing.T) {
	for _, kind := range []lockstep.Kind{lockstep.KindPID, lockstep.KindPIDFF} {
		whole, err := NewGains(kind, 60, 7)
		if err != nil {
			t.Fatal(err)
		}
		start := objective(whole.Best)
		run(t, whole, 40)
		if best := objective(whole.Best); !(best < 0.1*start) ||
			whole.Results[0].Costs.Total != best {
			t.Errorf("%s: from %v to %v only, with %v", kind, start, best, whole.Results)
		}
		for i := 1; i < len(whole.History); i++ {
			if whole.History[i].Best > whole.History[i-1].Best {
				t.Errorf("%s: generation %d lost the best", kind, i)
			}
		}
		again, _ := NewGains(kind, 60, 7)
		run(t, again, 15)
		broken := errors.New("interrupted")
		if err := again.Next(func([]lockstep.Policy) ([]lockstep.Result, error) {
			return nil, broken
		}); err != broken {
			t.Error(err)
		}
		run(t, again, 25)
		if !reflect.DeepEqual(again, whole) {
			t.Errorf(
				"%s: interrupted it comes to %v, in one go to %v", kind, again.Best, whole.Best,
			)
		}
	}
	if _, err := NewGains(lockstep.KindTable, 60, 7); err == nil {
		t.Error("a search over the gains of a table")
	}
	if _, err := NewGains(lockstep.KindPID, 7, 7); err == nil {
		t.Error("a population of 7")
	}
}

// TestKeepsBest: a generation that is as good or worse replaces nothing, whatever came first.
func TestKeepsBest(t *testing.T) {
	g, err := NewGains(lockstep.KindPID, 8, 1)
	if err != nil {
		t.Fatal(err)
	}
	var best lockstep.Native
	var least float64
	for generation, total := range []float64{4, 4, 5, math.NaN(), 3} {
		var candidates []lockstep.Policy
		if err := g.Next(func(c []lockstep.Policy) (results []lockstep.Result, err error) {
			candidates = c
			for k := range c {
				cost := lockstep.Costs{Total: total + float64((k+2)%8)} // the least is 6's
				results = append(results, lockstep.Result{Costs: cost})
			}
			return results, nil
		}); err != nil {
			t.Fatal(err)
		}
		if generation == 0 || total < 4 {
			best, least = candidates[6].(lockstep.Native), total
		}
		if g.Best != best || g.Results[0].Costs.Total != least {
			t.Errorf("generation %d, of %v: the best is %v with %v, want %v", generation, total,
				g.Best, g.Results, best)
		}
	}
}

// TestDrawn: candidates are drawn about the mean, with the widths, the step size and the
// covariance of the distribution, and within the gains' limits.
func TestDrawn(t *testing.T) {
	const population = 20_000
	g, err := NewGains(lockstep.KindPID, population, 1)
	if err != nil {
		t.Fatal(err)
	}
	g.step, g.c = 0.25, [][]float64{{4, -1.5, 0.5}, {-1.5, 1, 0.25}, {0.5, 0.25, 0.5}}
	for i := range g.gains {
		g.mean[i], g.gains[i].Low, g.gains[i].High = float64(i+1), -100, 100
	}
	drawn := func() (all [][]float64) {
		for _, p := range g.candidates()[1:] {
			all = append(all, p.(lockstep.Native).Gains())
		}
		return all
	}
	var mean [3]float64
	var c [3][3]float64
	for _, gains := range drawn() {
		for i, x := range gains {
			y := (x - g.mean[i]) / (g.gains[i].Width * g.step)
			mean[i] += y / population
			for j, x := range gains {
				c[i][j] += y * (x - g.mean[j]) / (g.gains[j].Width * g.step) / population
			}
		}
	}
	for i := range c {
		for j, x := range c[i] { // of so many: five times what they differ by
			if d := math.Abs(x - g.c[i][j]); !(d <= 5*math.Sqrt(2.0/population)*4) ||
				!(math.Abs(mean[i]) <= 5*math.Sqrt(4.0/population)) {
				t.Errorf("mean %v, covariance %v, want 0 and %v", mean, c, g.c)
			}
		}
	}
	seen := map[float64]string{} // no generation of any seed draws what another has drawn
	for _, seed := range []uint64{1, 2, 1 + 1<<32} {
		for generation := range 3 {
			g.seed, g.History = seed, make([]Generation, generation)
			name := fmt.Sprintf("generation %d of seed %d", generation, seed)
			for _, gains := range drawn()[:100] {
				if other := seen[gains[0]]; other != "" {
					t.Fatalf("%s draws %v, and so does %s", name, gains, other)
				}
				seen[gains[0]] = name
			}
		}
	}
	for i := range g.gains {
		g.gains[i].Low, g.gains[i].High = g.mean[i]-0.01, g.mean[i]+0.02
	}
	for _, gains := range drawn() {
		for i, x := range gains {
			if x < g.gains[i].Low || x > g.gains[i].High {
				t.Fatalf("gain %d is %v, want %v to %v", i, x, g.gains[i].Low, g.gains[i].High)
			}
		}
	}
}

// TestKinds: the kinds that can be searched are those that have gains, and errors name them.
func TestKinds(t *testing.T) {
	names := Kinds()
	for i, k := range lockstep.Kinds() {
		_, err := NewGains(lockstep.Kind(i), 8, 1)
		if can := len(k.Gains) > 0; can != (err == nil) || can != slices.Contains(names, k.Name) {
			t.Errorf("%s has %d gains: %v, and the kinds are %q", k.Name, len(k.Gains), err, names)
		}
		if want := fmt.Sprintf("%s has no gains to search: want one of %s", k.Name,
			strings.Join(names, ", ")); err != nil && err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for _, n := range []int{7, 8, 100_000, 100_001} {
		_, err := NewGains(lockstep.KindPID, n, 1)
		if (err == nil) != (n >= 8 && n <= 100_000) ||
			err != nil && err.Error() != fmt.Sprintf("a population of %d: want 8 to 100000", n) {
			t.Errorf("a population of %d: %v", n, err)
		}
	}
}

// TestGeometricMean: each cost counts, and one that is no number is the worst.
func TestGeometricMean(t *testing.T) {
	failed := errors.New("it failed")
	got := totals([]lockstep.Result{
		{Costs: lockstep.Costs{Total: 0.1}}, {Err: failed}, {Costs: lockstep.Costs{Total: 0.3}},
		{Err: failed, Costs: lockstep.Costs{Total: 0.2}},
	})
	if got[0] != 0.1 || got[1] == got[1] || got[2] != 0.3 || got[3] == got[3] {
		t.Errorf("totals are %v, want none of those that failed", got)
	}
	for _, c := range []struct {
		costs []float64
		want  float64
	}{
		{[]float64{16, 1, 1, 1}, 2}, {[]float64{1, 16, 1, 1}, 2}, {[]float64{1, 1, 1, 16}, 2},
		{[]float64{8}, 8},
		{[]float64{1, math.NaN()}, math.MaxFloat64}, {[]float64{math.Inf(1), 1}, math.MaxFloat64},
	} {
		// The objective goes through logarithms, which round: no simulator's bits are compared
		// here.
		if got := GeometricMean(c.costs); math.Abs(got-c.want) > 1e-15*c.want {
			t.Errorf("%v: %v, want %v", c.costs, got, c.want)
		}
	}
}
