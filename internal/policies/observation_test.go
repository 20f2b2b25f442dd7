package policies

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
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

// TestAct: the command is the one before and the change, which its scale widens and MaxChange
// bounds, and at the first step that counts the change alone.
func TestAct(t *testing.T) {
	outputs := []float32{-30, -1, -0.25, 0, 0.25, 1, 30}
	for _, scale := range []float64{0.1, lockstep.DefaultScale, 0.5, 0.75, 3} {
		for _, before := range []float64{-2, -1.9, 0, 0.3, 2} {
			for _, a := range outputs {
				for _, b := range outputs {
					action := slices.Repeat([]float64{before}, 102)
					one := &Actor{Network: &lockstep.Network{Scale: scale}}
					first := one.Act(lockstep.ControlStartIdx, []float32{a, b}, action)
					then := one.Act(lockstep.ControlStartIdx+1, []float32{a, b}, action)
					raw := meanAction([2]float32{softplus(a), softplus(b)})
					change := min(max(raw*scale, -0.5), 0.5)
					want := min(max(before+change, -2), 2)
					if one.Raw != raw || first != change || then != want {
						t.Errorf("scale %v, %v before, outputs %v and %v: raw %v, first %v, then "+
							"%v, want %v, %v and %v",
							scale, before, a, b, one.Raw, first, then, raw, change, want)
					}
				}
			}
		}
	}
}

// TestTableAction: a table answers 0 before its first step, and its last answer behind its last.
func TestTableAction(t *testing.T) {
	for step, want := range map[int]float64{
		0: 0, 99: 0, 100: 1.1, 101: 2.1, 102: 3.1, 103: 3.1, 900: 3.1,
	} {
		if got := TableAction([]float64{1.1, 2.1, 3.1}, step); got != want {
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

// TestObserve: what a network saw at any places of collected rollouts, in any order and number, is
// what it sees of each by itself: of the step before, of another rollout, or of another route
// nothing is left.
func TestObserve(t *testing.T) {
	declared, err := lockstep.ParseSees([]string{
		"lataccel[-80]", "lataccel[-21]", "lataccel[-1]-lataccel[-2]", "action[-80]", "action[-22]",
		"action[-1]", "observation[36]", "observation[255]", "target[49]", "v[-80]", "a[0]-roll[1]",
	})
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(5, 5))
	routes := []*lockstep.Route{
		randomRoute(random, 141), randomRoute(random, 300), randomRoute(random, 520),
		randomRoute(random, 300), // as long as another, and of its name
	}
	for _, sees := range [][]lockstep.Seen{nil, declared} {
		network := &lockstep.Network{Sees: sees}
		var jobs []lockstep.Job
		for _, r := range []int{1, 0, 3, 2, 1} { // a route twice
			jobs = append(jobs, lockstep.Job{Route: routes[r], Policy: network})
		}
		e, err := lockstep.NewExperience(jobs)
		if err != nil {
			t.Fatal(err)
		}
		for i := range jobs {
			for k := range e.Steps(i) {
				at := i*lockstep.ExperienceSteps + k
				e.Lataccel[at], e.Action[at] = 3*random.NormFloat64(), random.NormFloat64()
			}
		}
		seen := func(at lockstep.Place) []float32 { // by itself, of the whole histories
			r, own := jobs[at.Rollout].Route, at.Rollout*lockstep.ExperienceSteps
			lataccel := append(slices.Clone(r.TargetLataccel[:lockstep.ControlStartIdx]),
				e.Lataccel[own:own+at.Step]...)
			action := append(make([]float64, lockstep.ControlStartIdx),
				e.Action[own:own+at.Step]...)
			row := make([]float32, network.Inputs())
			if err := newView(network, r).observe(row, wholePlan(r),
				lockstep.ControlStartIdx+at.Step, lataccel, action); err != nil {
				t.Fatal(err)
			}
			return row
		}
		for what, places := range orders(e, random) {
			size := network.Inputs()
			into := make([]float32, len(places)*size)
			if err := Observe(e, places, into); err != nil {
				t.Fatal(err)
			}
			for i, at := range places {
				if err := simtest.Same("what it saw", into[i*size:][:size], seen(at)); err != nil {
					t.Errorf("%d inputs, %s, row %d of %d, %+v: %v",
						size, what, i, len(places), at, err)
					break
				}
			}
		}
	}
}

// TestObserveNaN: what is seen and is NaN is an error of its own rollout and step.
func TestObserveNaN(t *testing.T) {
	random := rand.New(rand.NewPCG(6, 6))
	var jobs []lockstep.Job
	for i := range 3 {
		r := randomRoute(random, lockstep.ControlStartIdx+3)
		r.Name = fmt.Sprint("r", i)
		jobs = append(jobs, lockstep.Job{Route: r, Policy: &lockstep.Network{Name: "n"}})
	}
	e, err := lockstep.NewExperience(jobs)
	if err != nil {
		t.Fatal(err)
	}
	e.Lataccel[lockstep.ExperienceSteps] = math.NaN() // of rollout 1, which the next step sees
	const want = "route r1, controller n, step 101: observation[1] (lataccel) is NaN"
	err = Observe(e, nil, make([]float32, 9*lockstep.ObservationSize))
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// orders are places of collected rollouts, about each step from which on something is another: a
// few, as many as there are rollouts, and more.
func orders(e *lockstep.Experience, random *rand.Rand) map[string][]lockstep.Place {
	var forward []lockstep.Place
	for i := range e.Jobs {
		for _, step := range []int{0, 1, 2, 19, 20, 21, 40, 79, 80, 81, 100, 199, 398, 399} {
			if step < e.Steps(i) {
				forward = append(forward, lockstep.Place{Rollout: i, Step: step})
			}
		}
	}
	backward := slices.Clone(forward)
	slices.Reverse(backward)
	byStep := slices.Clone(forward)
	slices.SortStableFunc(byStep, func(a, b lockstep.Place) int { return b.Step - a.Step })
	mixed := slices.Repeat(forward, 2)
	random.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
	all := map[string][]lockstep.Place{
		"forward": forward, "backward": backward, "the last steps first": byStep, "mixed": mixed,
	}
	for _, n := range []int{1, len(e.Jobs), len(e.Jobs) + 1} {
		for from := 0; from+n <= len(mixed); from += n {
			all[fmt.Sprintf("%d from %d", n, from)] = mixed[from : from+n]
		}
	}
	return all
}
