package reference

import (
	"context"

	"lockstep"
)

// Collect rolls jobs out that networks drive, and keeps what training needs.
func (s *Simulator) Collect(
	ctx context.Context, jobs []lockstep.Job,
) (*lockstep.Experience, error) {
	e, err := lockstep.NewExperience(jobs)
	if err != nil {
		return nil, err
	}
	m := newTinyPhysicsModel(s.parameters, s.profile, s.kernels, lockstep.CostOnly)
	for i := range jobs {
		first := i * lockstep.ExperienceSteps
		e.Results[i] = s.run(
			ctx, m, &jobs[i], lockstep.Options{Shortcuts: lockstep.CostOnly},
			func(t *tinyPhysicsSimulator) {
				if t.stepIdx < lockstep.ControlStartIdx {
					return
				}
				at, n := first+t.stepIdx-lockstep.ControlStartIdx, t.controller.(*network)
				e.Raw[at], e.Softplus[2*at], e.Softplus[2*at+1] = n.variate, n.softplus[0],
					n.softplus[1]
				e.Reward[at] = float32(-stepCost(t.data, t.stepIdx, t.currentLataccelHistory))
				e.Lataccel[at], e.Action[at] = t.currentLataccelHistory[t.stepIdx],
					t.actionHistory[t.stepIdx]
			},
		)
		if e.Results[i].Err != nil {
			e.Clear(i)
		}
	}
	return e, nil
}

// Observe computes observations of collected rollouts.
func (s *Simulator) Observe(e *lockstep.Experience, places []lockstep.Place, into []float32) error {
	places, err := e.Places(places, into)
	if err != nil {
		return err
	}
	var lataccel, action []float64 // of the rollout that was last observed
	for i, p := range places {
		if i == 0 || p.Rollout != places[i-1].Rollout {
			r, n := e.Jobs[p.Rollout].Route, e.Steps(p.Rollout)
			lataccel = append(lataccel[:0], r.TargetLataccel[:lockstep.ControlStartIdx]...)
			action = append(action[:0], r.SteerCommand[:lockstep.ControlStartIdx]...)
			lataccel = append(lataccel, e.Lataccel[p.Rollout*lockstep.ExperienceSteps:][:n]...)
			action = append(action, e.Action[p.Rollout*lockstep.ExperienceSteps:][:n]...)
		}
		n := e.Jobs[p.Rollout].Policy.(*lockstep.Network)
		o, step := into[i*n.Inputs():][:n.Inputs()], lockstep.ControlStartIdx+p.Step
		if err := see(o, n, e.Jobs[p.Rollout].Route, step, lataccel, action); err != nil {
			return e.Jobs[p.Rollout].Failed(lockstep.ControlStartIdx+p.Step, err)
		}
	}
	return nil
}

// stepCost is the part of the total cost that a step has, from ControlStartIdx on: of
// the error, and except at the first step of the jerk. Its negative is the reward.
func stepCost(r *lockstep.Route, t int, lataccel []float64) float64 {
	n := float64(min(r.Len(), lockstep.CostEndIdx) - lockstep.ControlStartIdx)
	e := r.TargetLataccel[t] - lataccel[t]
	cost := lockstep.LatAccelCostMultiplier * 100 / n * float64(e*e)
	if t > lockstep.ControlStartIdx {
		j := (lataccel[t] - lataccel[t-1]) / lockstep.DelT
		cost = float64(cost) + float64(100/(n-1)*float64(j*j))
	}
	return cost
}
