package lockstep_test

import (
	"fmt"
	"math"
	"testing"

	"lockstep"
	"lockstep/internal/goldentest"
)

func TestFuturePlan(t *testing.T) {
	r := &lockstep.Route{}
	for i, column := range r.Columns() {
		for row := range 120 {
			*column = append(*column, float64(1000*i+row))
		}
	}
	for _, c := range []struct{ step, length int }{
		{0, 49}, {70, 49}, {71, 48}, {118, 1}, {119, 0},
	} {
		p := r.FuturePlan(c.step)
		for _, column := range [][]float64{p.Lataccel, p.RollLataccel, p.VEgo, p.AEgo} {
			if len(column) != c.length {
				t.Errorf("step %d: %d values, want %d", c.step, len(column), c.length)
			}
		}
		if c.length > 0 && p.Lataccel[0] != r.TargetLataccel[c.step+1] {
			t.Errorf(
				"step %d: the plan starts with %v, want the next row's %v", c.step, p.Lataccel[0],
				r.TargetLataccel[c.step+1],
			)
		}
	}
}

// TestRouteSHA256: routes that differ in any bit, or in where a column ends, are told apart, and
// routes of two names are not.
func TestRouteSHA256(t *testing.T) {
	of := map[string]string{} // which route, by hash
	hold := func(name string, edit func(r *lockstep.Route)) {
		t.Helper()
		r := rows(3)
		for i, column := range r.Columns() {
			(*column)[1] = float64(i + 1)
		}
		edit(r)
		sum := r.SHA256()
		if other, taken := of[sum]; taken || len(sum) != 64 {
			t.Errorf("%s has the hash %s of %s", name, sum, other)
		}
		of[sum] = name
	}
	hold("the route", func(*lockstep.Route) {})
	for i := range 5 {
		for row := range 3 {
			hold(fmt.Sprintf("one with -0 or -%d in column %d", i+1, i), func(r *lockstep.Route) {
				x := &(*r.Columns()[i])[row]
				*x = math.Float64frombits(math.Float64bits(*x) ^ 1<<63)
			})
		}
		hold(fmt.Sprintf("one with less of column %d", i), func(r *lockstep.Route) {
			c := r.Columns()[i]
			*c = (*c)[:2]
		})
		hold(fmt.Sprintf("one whose column %d has a row of the next", i), func(r *lockstep.Route) {
			c, next := r.Columns()[i], r.Columns()[(i+1)%5]
			*c, *next = append(*c, (*next)[0]), (*next)[1:]
		})
	}
	for _, lengths := range [][5]int{{3, 3, 3, 3, 3}, {3, 3, 3, 2, 5}, {2, 3, 5, 2, 4}} {
		hold(fmt.Sprint("one of zeros, of lengths ", lengths), func(r *lockstep.Route) {
			for i, column := range r.Columns() {
				*column = make([]float64, lengths[i])
			}
		})
	}
	r := rows(3)
	before := r.SHA256()
	if r.Name, r.Seed = "other", 9; r.SHA256() != before {
		t.Error("a route of another name has other columns")
	}
}

func TestSeedPython(t *testing.T) {
	seeds := goldentest.Array[int64](t, "seed")
	for i, path := range goldentest.Strings(t, "seed_text") {
		if got := lockstep.Seed(path); int64(got) != seeds[i] {
			t.Errorf("Seed(%q) = %d, Python has %d", path, got, seeds[i])
		}
	}
}
