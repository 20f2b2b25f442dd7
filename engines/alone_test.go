package engines

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"lockstep"
	"lockstep/internal/simtest"
)

// TestSeenAlone: a network that sees one number, of any source or the difference of any two, each
// at its first place and at its last, is driven as the reference drives it: where all is finite,
// and where a column of its route has a NaN that comes to be current, or is 80 steps old: each
// network two of those eight in turn, if not the whole.
func TestSeenAlone(t *testing.T) {
	routes := routesWithNaN(t)
	var jobs []lockstep.Job
	whole := simtest.Whole(t)
	for k, text := range pairsSeen() {
		sees, err := lockstep.ParseSees([]string{text})
		if err != nil {
			t.Fatal(err)
		}
		layer := lockstep.Layer{
			Inputs: 1, Outputs: 2, Weights: []float32{1, -1}, Bias: []float32{0.5, 0.25},
		}
		n, err := lockstep.NewSeeing(sees, []lockstep.Layer{layer}, 0.25)
		if err != nil {
			t.Fatal(err)
		}
		for i, route := range routes {
			if whole || i == 0 || (i+k+k/8)%4 == 0 {
				jobs = append(jobs, lockstep.Job{Route: route, Policy: n})
			}
		}
	}
	opts := lockstep.Options{Shortcuts: lockstep.CostOnly, Trajectory: true}
	c := config(t)
	want := make([]lockstep.Result, len(jobs))
	failed := 0
	for i, r := range Reference().ForTest(t, c).Simulate(t.Context(), jobs, opts) {
		want[i] = r
		if r.Err != nil {
			failed++
		}
	}
	if failed == 0 || failed == len(jobs) {
		t.Errorf("%d of %d fail", failed, len(jobs))
	}
	for _, e := range Others() {
		t.Run(e.Name, func(t *testing.T) {
			for i, r := range e.ForTest(t, c).Simulate(t.Context(), jobs, opts) {
				name := fmt.Sprintf("%v, route %s", jobs[i].Policy.(*lockstep.Network).Sees,
					jobs[i].Route.Name)
				if fmt.Sprint(r.Err) != fmt.Sprint(want[i].Err) {
					t.Errorf("%s: %v, want %v", name, r.Err, want[i].Err)
				} else if r.Err == nil {
					if err := simtest.Same(
						"lataccel", r.Trajectory.Lataccel, want[i].Trajectory.Lataccel,
					); err != nil {
						t.Errorf("%s: %v", name, err)
					}
				}
			}
		})
	}
}

// routesWithNaN are one where all is finite, and others in which one number of a column is none.
func routesWithNaN(t *testing.T) (routes []*lockstep.Route) {
	plain := cutRoute(policyRoutes(t, 1)[0], lockstep.MinRows+2)
	for _, row := range []int{
		plain.Len(), lockstep.ControlStartIdx + 1, lockstep.ContextLength + 1,
	} {
		for column := range 4 {
			r := *plain
			for _, c := range r.Columns() {
				*c = slices.Clone(*c)
			}
			if row < plain.Len() {
				(*r.Columns()[column])[row] = math.NaN()
			} else if column > 0 {
				continue // all finite, once
			}
			r.Name = fmt.Sprintf("column %d, row %d", column, row)
			routes = append(routes, &r)
		}
	}
	return routes
}

// pairsSeen are texts of lockstep.Seen.
func pairsSeen() (all []string) {
	places := map[string][2]int{
		"observation": {0, 255}, "action": {-80, -1}, "lataccel": {-80, -1},
		"target": {-80, 49}, "roll": {-80, 49}, "v": {-80, 49}, "a": {-80, 49},
	}
	for of, at := range places {
		for k := range at {
			one := fmt.Sprintf("%s[%d]", of, at[k])
			all = append(all, one)
			for less, lessAt := range places {
				all = append(all, fmt.Sprintf("%s-%s[%d]", one, less, lessAt[1-k]))
			}
		}
	}
	slices.Sort(all)
	return all
}
