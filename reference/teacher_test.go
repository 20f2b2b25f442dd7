package reference

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"lockstep"
	"lockstep/internal/assets/assetstest"
	"lockstep/internal/simtest"
)

// teacher is a trajectory of any values, beyond what a rollout can reach.
func teacher(route *lockstep.Route) *lockstep.Trajectory {
	random := rand.New(rand.NewPCG(1, uint64(route.Seed)))
	t := &lockstep.Trajectory{Target: route.TargetLataccel}
	for range route.Len() {
		t.Lataccel = append(t.Lataccel, 12*random.Float64()-6)
		t.Action = append(t.Action, 6*random.Float64()-3)
	}
	return t
}

// TestTeacher: every step computes from the teacher's histories, shows what it
// computed, and leaves the teacher's values in the histories.
func TestTeacher(t *testing.T) {
	profile := HostProfile()
	s, route := load(t, profile), assetstest.Route(t, "04744", profile)
	taught := teacher(route)
	tokenizer := NewLataccelTokenizer()
	var seen []float64 // by the controller
	job := lockstep.Job{
		Route:   route,
		Teacher: taught,
		Policy: lockstep.Custom{Name: "watch", New: func() lockstep.Controller {
			return controllerFunc(func(_, current float64) float64 {
				seen = append(seen, current)
				return 5
			})
		}},
	}
	network := 0
	for _, shortcuts := range []lockstep.Shortcuts{lockstep.AllSteps, lockstep.CostOnly} {
		seen = nil
		before := func(step, k int) float64 { // the lataccel in the history k steps earlier
			if step -= k; step >= lockstep.ContextLength {
				return taught.Lataccel[step]
			}
			return route.TargetLataccel[step]
		}
		job.Observe = func(step *lockstep.Step) {
			i := step.Index
			action, lataccel := 2.0, clip(step.Prediction, before(i, 1)-0.5, before(i, 1)+0.5)
			if i < lockstep.ControlStartIdx {
				action, lataccel = clip(route.SteerCommand[i], -2, 2), route.TargetLataccel[i]
			}
			if step.Action != action || step.Lataccel != lataccel {
				t.Errorf(
					"step %d: action %v, lataccel %v; computed from the teacher's they are %v, %v",
					i, step.Action, step.Lataccel, action, lataccel,
				)
			}
			if step.Logits == nil {
				return
			}
			network++
			for k := range lockstep.ContextLength {
				if want := tokenizer.Encode(before(i,
					lockstep.ContextLength-k)); step.Tokens[k] != want {
					t.Errorf("step %d: token %d is %d, want %d", i, k, step.Tokens[k], want)
				}
				want := route.SteerCommand[:lockstep.ContextLength]
				if j := i - lockstep.ContextLength + 1 + k; j >= lockstep.ContextLength {
					want = taught.Action[j:]
				} else {
					want = want[j:]
				}
				if got := step.States[4*k]; got != float32(want[0]) {
					t.Errorf(
						"step %d: action %v enters the network, want %v", i, got, float32(want[0]),
					)
				}
			}
		}
		got := simulate(t, s, job, shortcuts)
		n := len(got.Trajectory.Lataccel)
		if err := errors.Join(simtest.Same("lataccel", got.Trajectory.Lataccel[20:],
			taught.Lataccel[20:n]), simtest.Same(
			"action", got.Trajectory.Action[20:], taught.Action[20:n],
		)); err != nil {
			t.Errorf("reference, from step 20 on, against the teacher: %v", err)
		}
		for i, current := range seen {
			if want := before(lockstep.ContextLength+i, 1); current != want {
				t.Errorf(
					"step %d: the controller sees lataccel %v, want %v", lockstep.ContextLength+i,
					current, want,
				)
			}
		}
		if len(seen) != n-lockstep.ContextLength {
			t.Errorf("%d steps, want %d", len(seen), n-lockstep.ContextLength)
		}
	}
	if want := route.Len() - 20 + 400; network != want {
		t.Errorf("the network ran at %d steps, want %d", network, want)
	}
}

// TestTeacherOwn: a rollout under its own trajectory is that rollout.
func TestTeacherOwn(t *testing.T) {
	profile := HostProfile()
	s, route := load(t, profile), assetstest.Route(t, "00002", profile)
	job := lockstep.Job{Route: route, Policy: lockstep.DefaultPID()}
	free := simulate(t, s, job, lockstep.FullTrajectory)
	job.Teacher = free.Trajectory
	if got := simulate(t, s, job, lockstep.FullTrajectory); got.Costs != free.Costs {
		t.Errorf("costs %v, want %v", got.Costs, free.Costs)
	} else if err := simtest.Same(
		"lataccel", got.Trajectory.Lataccel, free.Trajectory.Lataccel,
	); err != nil {
		t.Errorf("reference, taught by itself: %v", err)
	}
	job.Teacher = &lockstep.Trajectory{
		Lataccel: free.Trajectory.Lataccel,
		Action:   free.Trajectory.Action[:300],
	}
	for _, r := range s.Simulate(context.Background(), []lockstep.Job{job}, lockstep.Options{}) {
		const want = "route 00002, controller pid, step 0: the teacher has 600 lataccels and " +
			"300 actions, want 600 of each"
		if r.Err == nil || r.Err.Error() != want {
			t.Errorf("error %v, want %s", r.Err, want)
		}
	}
}

type controllerFunc func(target, current float64) float64

func (f controllerFunc) Update(
	target, current float64, _ lockstep.State, _ lockstep.FuturePlan,
) float64 {
	return f(target, current)
}
