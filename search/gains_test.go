package search

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"testing"

	"lockstep"
	"lockstep/internal/assets/assetstest"
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

func run(g *Gains, generations int) {
	for range generations {
		candidates := g.Ask()
		objectives := make([]float64, len(candidates))
		for i, p := range candidates {
			objectives[i] = objective(p)
			if i == 5 {
				objectives[i] = math.NaN()
			}
		}
		g.Tell(candidates, objectives)
	}
}

// TestGains: the search finds a minimum, never loses its best, and is the same whether
// or not it was written down and read in between.
func TestGains(t *testing.T) {
	for _, kind := range []lockstep.Kind{lockstep.KindPID, lockstep.KindPIDFF} {
		whole, err := NewGains(kind, 60, 7)
		if err != nil {
			t.Fatal(err)
		}
		run(whole, 40)
		if start := objective(whole.policy(spaces[kind].start)); !(*whole.BestCost < 0.1*start) {
			t.Errorf("%s: from %v to %v only", kind, start, *whole.BestCost)
		}
		if objective(whole.Policy()) != *whole.BestCost {
			t.Errorf("%s: the best policy costs %v, its cost is %v", kind, objective(whole.Policy()), *whole.BestCost)
		}
		for i := 1; i < len(whole.History); i++ {
			if whole.History[i].Best > whole.History[i-1].Best {
				t.Errorf("%s: generation %d lost the best", kind, i)
			}
		}
		half, _ := NewGains(kind, 60, 7)
		run(half, 15)
		data, err := json.Marshal(half)
		if err != nil {
			t.Fatal(err)
		}
		read := &Gains{}
		if err := json.Unmarshal(data, read); err != nil || read.Check() != nil {
			t.Fatal(err, read.Check())
		}
		run(read, 25)
		if !reflect.DeepEqual(read, whole) {
			t.Errorf("%s: interrupted it comes to %v, in one go to %v", kind, *read.BestCost, *whole.BestCost)
		}
	}
	if _, err := NewGains(lockstep.KindTable, 60, 7); err == nil {
		t.Error("a search over the gains of a table")
	}
	if (&Gains{Kind: "pid", Population: 60, Mean: []float64{1}}).Check() == nil {
		t.Error("a state with one gain")
	}
}

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
