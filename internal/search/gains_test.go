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
	for i, g := range lockstep.GainsOf(p) {
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
