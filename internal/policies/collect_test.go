package policies

import (
	"context"
	"errors"
	"iter"
	"math"
	"testing"

	"lockstep"
	"lockstep/internal/simtest"
)

// TestCollectFailed: of a rollout that failed nothing is left to train with, whatever its engine
// wrote, and of its neighbours all is.
func TestCollectFailed(t *testing.T) {
	n, err := lockstep.NewNetwork([]lockstep.Layer{{
		Inputs: lockstep.ObservationSize, Outputs: lockstep.ActorSize,
		Weights: make([]float32, lockstep.ObservationSize*lockstep.ActorSize),
		Bias:    make([]float32, lockstep.ActorSize),
	}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	r := &lockstep.Route{Name: "a"}
	for _, column := range r.Columns() {
		*column = make([]float64, lockstep.MinRows)
	}
	jobs := []lockstep.Job{{Route: r, Policy: n}, {Route: r, Policy: n}, {Route: r, Policy: n}}
	broken := errors.New("no")
	simulate := func(_ context.Context, jobs []lockstep.Job, _ lockstep.Options,
		training *lockstep.Experience) iter.Seq2[int, lockstep.Result] {
		return func(yield func(int, lockstep.Result) bool) {
			for i := range training.Raw {
				training.Raw[i] = 1
			}
			for _, i := range []int{2, 1, 0} {
				result := lockstep.Result{Costs: lockstep.Costs{Total: float64(i)}}
				if i == 1 {
					result.Err = broken
				}
				yield(i, result)
			}
		}
	}
	e, err := Collect(t.Context(), simulate, jobs)
	if err != nil {
		t.Fatal(err)
	}
	want := make([]float32, 3*lockstep.ExperienceSteps)
	for i := range want {
		if i/lockstep.ExperienceSteps != 1 {
			want[i] = 1
		}
	}
	if err := simtest.Same("raw actions", e.Raw, want); err != nil {
		t.Error(err)
	}
	for i, result := range e.Results {
		if result.Costs.Total != float64(i) || (result.Err == broken) != (i == 1) {
			t.Errorf("rollout %d came to %+v", i, result)
		}
	}
}

// TestActLimits: a command changes by as much as the network says, up to a bound on either side,
// and by that bound beyond.
func TestActLimits(t *testing.T) {
	for _, output := range [][]float32{{3, -3}, {-3, 3}} {
		for _, part := range []float64{0.5, 0.999, 1, 1.001, 1.05, 1.2, 7} {
			n := &lockstep.Network{Scale: 1}
			a := NewActor(n, &lockstep.Job{Route: &lockstep.Route{TargetLataccel: []float64{0},
				RollLataccel: []float64{0}, VEgo: []float64{0}, AEgo: []float64{0}}})
			action := make([]float64, lockstep.ControlStartIdx+1)
			a.Act(lockstep.ControlStartIdx, output, action)
			n.Scale = part * lockstep.MaxChange / math.Abs(a.Raw)
			change := min(max(a.Raw*n.Scale, -lockstep.MaxChange), lockstep.MaxChange)
			action[lockstep.ControlStartIdx] = 0.25
			for step, from := range map[int]float64{
				lockstep.ControlStartIdx: 0, lockstep.ControlStartIdx + 1: 0.25,
			} {
				if got := a.Act(step, output, action); got != from+change {
					t.Errorf("step %d: raw %v, scaled to %v times the bound, commands %v, want %v",
						step, a.Raw, part, got, from+change)
				}
			}
		}
	}
}
