package lockstep_test

import (
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

func TestSeedPython(t *testing.T) {
	seeds := goldentest.Array[int64](t, "seed")
	for i, path := range goldentest.Strings(t, "seed_text") {
		if got := lockstep.Seed(path); int64(got) != seeds[i] {
			t.Errorf("Seed(%q) = %d, Python has %d", path, got, seeds[i])
		}
	}
}
