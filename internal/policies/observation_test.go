package policies

import (
	"math"
	"math/rand/v2"
	"testing"

	"lockstep"
	"lockstep/internal/simtest"
)

func randomRoute(random *rand.Rand, rows int) *lockstep.Route {
	r := &lockstep.Route{}
	for _, column := range r.Columns() {
		for range rows {
			*column = append(*column, 3*random.NormFloat64())
		}
	}
	return r
}

// TestPreview: at any step a preview shows what a plan of the whole route does, where the route
// ends, too.
func TestPreview(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 3))
	const rows = lockstep.ControlStartIdx + 70
	r := randomRoute(random, rows)
	lataccel, action := randomRoute(random, rows).TargetLataccel, randomRoute(random, rows).VEgo
	whole := wholePlan(r)
	for step := lockstep.ControlStartIdx; step < rows; step++ {
		want := make([]float32, lockstep.ObservationSize)
		got := make([]float32, lockstep.ObservationSize)
		if err := whole.observe(want, r, step, lataccel[:step], action[:step]); err != nil {
			t.Fatal(err)
		}
		if err := ObserveAt(got, r, step, lataccel[:step], action[:step]); err != nil {
			t.Fatal(err)
		}
		if err := simtest.Same("an observation", got, want); err != nil {
			t.Errorf("step %d: %v", step, err)
		}
	}
}

// TestLimits: what is clipped is what is beyond a limit, and no number stays none.
func TestLimits(t *testing.T) {
	nan := math.NaN()
	for _, x := range []float64{
		-9, -5.5, -5, -2.5, -2, -1, 0, 1, 2, 2.5, 5, 5.5, 9, math.Inf(1), math.Inf(-1),
	} {
		if got, want := steer(x), min(max(x, -2), 2); got != want {
			t.Errorf("steer(%v) = %v, want %v", x, got, want)
		}
		if got, want := limit(float32(x)), float32(min(max(x, -5), 5)); got != want {
			t.Errorf("limit(%v) = %v, want %v", x, got, want)
		}
	}
	if x, y := steer(nan), limit(float32(nan)); x == x || y == y {
		t.Errorf("no number becomes %v and %v", x, y)
	}
}

// TestTableAction: a table answers 0 before its first step, and its last answer behind its last.
func TestTableAction(t *testing.T) {
	for step, want := range map[int]float64{
		0: 0, 99: 0, 100: 1, 101: 2, 102: 3, 103: 3, 900: 3,
	} {
		if got := TableAction([]float64{1, 2, 3}, step); got != want {
			t.Errorf("step %d: %v, want %v", step, got, want)
		}
	}
}

// TestStepCost: the parts of all steps are the total cost, of routes that end before the cost does,
// and of those that go on behind it.
func TestStepCost(t *testing.T) {
	random := rand.New(rand.NewPCG(4, 4))
	for _, rows := range []int{102, 140, 499, 500, 501, 560} {
		r := randomRoute(random, rows)
		end := min(rows, lockstep.CostEndIdx)
		lataccel, sum := r.VEgo, 0.0
		square, jerk := 0.0, 0.0
		for step := lockstep.ControlStartIdx; step < end; step++ {
			sum += StepCost(rows, step, r.TargetLataccel[step], lataccel[step], lataccel[step-1])
			square += math.Pow(r.TargetLataccel[step]-lataccel[step], 2)
			if step > lockstep.ControlStartIdx {
				jerk += math.Pow((lataccel[step]-lataccel[step-1])/0.1, 2)
			}
		}
		n := float64(end - lockstep.ControlStartIdx)
		want := square/n*100*50 + jerk/(n-1)*100
		if !(math.Abs(sum-want) <= 1e-12*want) { // a sum in another order
			t.Errorf("%d rows: %v, want %v", rows, sum, want)
		}
	}
}
