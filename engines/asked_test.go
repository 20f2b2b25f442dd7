package engines

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"lockstep"
	"lockstep/internal/simtest"
)

// TestAskedAfterRoll: whatever a stepper is asked, the answers after some steps in one go are
// those of the reference after the same steps one by one, of a rollout that fails, too.
func TestAskedAfterRoll(t *testing.T) {
	c := config(t)
	var jobs []lockstep.Job
	for i, route := range policyRoutes(t, 3) {
		jobs = append(jobs, lockstep.Job{Route: cutRoute(route, 103+2*i)})
	}
	jobs[1].Route.AEgo = slices.Clone(jobs[1].Route.AEgo)
	jobs[1].Route.AEgo[101] = math.NaN()
	opts := lockstep.Options{Shortcuts: lockstep.SkipWarmup}
	m := len(jobs)
	for _, e := range Checked() {
		t.Run(e.Name, func(t *testing.T) {
			got, err := e.ForTest(t, c).Reset(t.Context(), jobs, opts)
			if err != nil {
				t.Fatal(err)
			}
			defer got.Close()
			want, err := Reference().ForTest(t, c).Reset(t.Context(), jobs, opts)
			if err != nil {
				t.Fatal(err)
			}
			defer want.Close()
			for _, steps := range []int{79, 1, 2, 1, 4} {
				commands := make([]float64, steps*m)
				for i := range commands {
					commands[i] = math.Sin(float64(steps + i))
				}
				if err := got.Roll(t.Context(), commands, make([]float64, m), nil); err != nil {
					t.Fatal(err)
				}
				now := make([]float64, m)
				for s := range steps {
					if err := want.Step(t.Context(), commands[s*m:(s+1)*m], now); err != nil {
						t.Fatal(err)
					}
				}
				if got.Index() != want.Index() || got.Done() != want.Done() {
					t.Fatalf("%d steps lead to %d, done %t; want %d, %t", steps, got.Index(),
						got.Done(), want.Index(), want.Done())
				}
				for i := range m {
					mine, theirs := asked(got, i), asked(want, i)
					const what = "running, failed, lataccel, cost"
					if err := simtest.Same(what, mine, theirs); err != nil {
						t.Errorf("rollout %d, %d steps to %d: %v", i, steps, got.Index(), err)
					}
					if g, w := fmt.Sprint(got.Err(i)), fmt.Sprint(want.Err(i)); g != w {
						t.Errorf("rollout %d, %d steps to %d: it has failed with %s, want %s", i,
							steps, got.Index(), g, w)
					}
				}
				if _, err := got.Snapshot(t.Context()); err != nil { // more is known from here on
					t.Fatal(err)
				}
			}
			if !got.Done() {
				t.Errorf("it ends behind step %d", got.Index())
			}
		})
	}
}

// asked is what a stepper says of a rollout, as numbers.
func asked(p lockstep.Stepper, i int) []float64 {
	number := map[bool]float64{true: 1}
	return []float64{number[p.Running(i)], number[p.Err(i) != nil], p.Lataccel(i), p.Cost(i)}
}
