package engines

import (
	"context"
	"fmt"
	"math"
	"slices"

	"lockstep"
)

// What Slopes are by: the command of the step; roll lataccel, v ego and a ego of its row; then
// the lataccels that the simulator's network sees, and then the commands before this one, both
// in the order of time.
const (
	ByAction       = 0
	ByRoll         = 1
	BySpeed        = 2
	ByAcceleration = 3
	ByLataccels    = 4                                    // lockstep.ContextLength of them
	ByPastActions  = ByLataccels + lockstep.ContextLength // lockstep.ContextLength - 1 of them
	Variables      = ByPastActions + lockstep.ContextLength - 1
)

// Nudges are by how much variables are raised and lowered. The network sees lataccels as
// tokens, 0.0098 m/s² wide, so that less than that may change nothing.
type Nudges struct{ Action, Roll, Speed, Acceleration, Lataccel float64 }

// DefaultNudges are some tokens, and a car's small changes.
func DefaultNudges() Nudges {
	return Nudges{Action: 0.1, Roll: 0.1, Speed: 0.5, Acceleration: 0.1, Lataccel: 0.1}
}

// of is a variable's nudge.
func (n Nudges) of(variable int) float64 {
	switch {
	case variable == ByRoll:
		return n.Roll
	case variable == BySpeed:
		return n.Speed
	case variable == ByAcceleration:
		return n.Acceleration
	case variable >= ByLataccels && variable < ByPastActions:
		return n.Lataccel
	}
	return n.Action
}

// Slopes are how the lataccel after a step depends on what it is computed from.
type Slopes struct {
	Lataccel []float64 // the expected one, (rollouts)
	By       []float64 // (rollouts, Variables), central differences
}

// atOnce bounds how many candidates are computed together.
const atOnce = 2048

// NextSlopes computes slopes of a snapshot's rollouts, from lockstep.ControlStartIdx on, with a
// command for each. Expected values are compared, of which each bit is the engine's: no draw is
// used.
// Commands are raised and lowered within their bounds.
func NextSlopes(ctx context.Context, s lockstep.StepSimulator, jobs []lockstep.Job,
	shot *lockstep.Snapshot, actions []float64, by Nudges) (*Slopes, error) {
	if len(shot.Rollouts) != len(jobs) || len(actions) != len(jobs) {
		return nil, fmt.Errorf("%d jobs, a snapshot of %d rollouts and %d commands, want as many",
			len(jobs), len(shot.Rollouts), len(actions))
	}
	if shot.Step < lockstep.ControlStartIdx {
		return nil, fmt.Errorf("the snapshot is of step %d, before which recorded commands steer: "+
			"want %d at least", shot.Step, lockstep.ControlStartIdx)
	}
	for _, x := range []float64{by.Action, by.Roll, by.Speed, by.Acceleration, by.Lataccel} {
		if !(x > 0) || math.IsInf(x, 0) {
			return nil, fmt.Errorf("a nudge of %v, want a number above 0", x)
		}
	}
	n := len(jobs)
	out := &Slopes{Lataccel: make([]float64, n), By: make([]float64, n*Variables)}
	const each = 1 + 2*Variables
	for from := 0; from < n; from += atOnce / each {
		c := nudged{shot: *shot}
		c.shot.Rollouts = nil
		for i := from; i < min(n, from+atOnce/each); i++ {
			r := &shot.Rollouts[i]
			if r.Err != "" || len(r.Lataccel) != shot.Step || shot.Step >= jobs[i].Route.Len() {
				return nil, fmt.Errorf(
					"rollout %d of route %.60q has no step %d", i, r.Route, shot.Step,
				)
			}
			if !(math.Abs(actions[i]) <= lockstep.SteerMax) {
				return nil, fmt.Errorf(
					"command %d is %v, want one within ±%v", i, actions[i], lockstep.SteerMax,
				)
			}
			c.vary(&jobs[i], r, actions[i], by)
		}
		lataccels, err := c.step(ctx, s)
		if err != nil {
			return nil, err
		}
		for k := 0; k < len(lataccels); k += each {
			i := from + k/each
			out.Lataccel[i] = lataccels[k]
			for v := range Variables {
				low, high := k+1+2*v, k+2+2*v
				if c.at[high] == c.at[low] {
					return nil, fmt.Errorf("rollout %d: variable %d is %v, which a nudge of %v "+
						"does not change: want a larger one", i, v, c.at[low], by.of(v))
				}
				out.By[i*Variables+v] = (lataccels[high] - lataccels[low]) /
					(c.at[high] - c.at[low])
			}
		}
	}
	return out, nil
}

// nudged are rollouts at a step, each with one number raised or lowered.
type nudged struct {
	jobs    []lockstep.Job
	shot    lockstep.Snapshot
	actions []float64
	at      []float64 // the number that is another
}

// vary adds a rollout as it is, and for each variable with that lowered and raised.
func (c *nudged) vary(job *lockstep.Job, r *lockstep.RolloutState, action float64, by Nudges) {
	t := c.shot.Step
	plain := lockstep.RolloutState{Route: r.Route, Lataccel: r.Lataccel, Action: r.Action}
	add := func(route *lockstep.Route, state lockstep.RolloutState, action, at float64) {
		c.jobs = append(c.jobs, lockstep.Job{Route: route, Draws: job.Draws, Expected: true})
		c.shot.Rollouts = append(c.shot.Rollouts, state)
		c.actions, c.at = append(c.actions, action), append(c.at, at)
	}
	add(job.Route, plain, action, 0)
	for v := range Variables {
		for _, sign := range []float64{-1, 1} {
			nudge, route, state := sign*by.of(v), *job.Route, plain
			changed := func(all []float64, i int, limit float64) ([]float64, float64) {
				all = slices.Clone(all)
				all[i] = min(max(all[i]+nudge, -limit), limit)
				return all, all[i]
			}
			u, at := action, 0.0
			switch {
			case v == ByAction:
				u = min(max(action+nudge, lockstep.SteerMin), lockstep.SteerMax)
				at = u
			case v == ByRoll:
				route.RollLataccel, at = changed(route.RollLataccel, t, math.Inf(1))
			case v == BySpeed:
				route.VEgo, at = changed(route.VEgo, t, math.Inf(1))
			case v == ByAcceleration:
				route.AEgo, at = changed(route.AEgo, t, math.Inf(1))
			case v < ByPastActions:
				i := t - lockstep.ContextLength + v - ByLataccels
				state.Lataccel, at = changed(r.Lataccel, i, math.Inf(1))
			default:
				i := t - (lockstep.ContextLength - 1) + v - ByPastActions
				state.Action, at = changed(r.Action, i, lockstep.SteerMax)
			}
			add(&route, state, u, at)
		}
	}
}

// step computes the step.
func (c *nudged) step(ctx context.Context, s lockstep.StepSimulator) ([]float64, error) {
	// Not to the end of the costs, behind which there are steps, too.
	p, err := s.Reset(ctx, c.jobs, lockstep.Options{Shortcuts: lockstep.FullTrajectory})
	if err != nil {
		return nil, err
	}
	defer p.Close()
	if err := p.Restore(ctx, &c.shot); err != nil {
		return nil, err
	}
	lataccels := make([]float64, len(c.jobs))
	if err := p.Step(ctx, c.actions, lataccels); err != nil {
		return nil, err
	}
	for i := range lataccels {
		if err := p.Err(i); err != nil {
			return nil, err
		}
	}
	return lataccels, nil
}
