package lockstep_test

import (
	"fmt"
	"math"
	"testing"

	"lockstep"
	"lockstep/internal/goldentest"
	"lockstep/internal/simtest"
)

// TestFuturePlan: at every step a controller sees the row of the step, and of each column the rows
// behind it, in their order, with no room to write into. Every engine takes both from here, so that
// none is a yardstick for them.
func TestFuturePlan(t *testing.T) {
	const rows = 120
	r := &lockstep.Route{}
	for i, column := range r.Columns() {
		for row := range rows {
			*column = append(*column, float64(1000*i+row)+0.1) // which is no float32
		}
	}
	for step := range rows {
		want := lockstep.State{RollLataccel: float64(step) + 0.1,
			VEgo: float64(1000+step) + 0.1, AEgo: float64(2000+step) + 0.1}
		if got := r.State(step); got != want {
			t.Errorf("step %d: state %+v, want %+v", step, got, want)
		}
		p := r.FuturePlan(step)
		for name, of := range map[string]struct{ got, column []float64 }{
			"roll": {p.RollLataccel, r.RollLataccel}, "v ego": {p.VEgo, r.VEgo},
			"a ego": {p.AEgo, r.AEgo}, "target": {p.Lataccel, r.TargetLataccel},
		} {
			want := of.column[step+1 : min(step+lockstep.FuturePlanSteps, rows)]
			if err := simtest.Same(name+" plan", of.got, want); err != nil {
				t.Errorf("step %d: %v", step, err)
			}
			if cap(of.got) != len(of.got) {
				t.Errorf("step %d: the %s plan has room for %d behind its %d", step, name,
					cap(of.got), len(of.got))
			}
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
			hold(fmt.Sprintf("one with the next number in column %d", i), func(r *lockstep.Route) {
				x := &(*r.Columns()[i])[row]
				*x = math.Float64frombits(math.Float64bits(*x) ^ 1)
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
