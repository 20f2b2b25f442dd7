package onnxruntime

import (
	"context"

	"lockstep"
	"lockstep/internal/policies"
)

var _ lockstep.Collector = (*Simulator)(nil)

// Collect rolls jobs out that networks drive, and keeps what training needs.
func (s *Simulator) Collect(ctx context.Context, jobs []lockstep.Job) (*lockstep.Experience, error) {
	e, err := lockstep.NewExperience(jobs)
	if err != nil {
		return nil, err
	}
	record := func(s *slot, a *policies.Acted, step int) {
		at := s.index*lockstep.ExperienceSteps + step - lockstep.ControlStartIdx
		e.Raw[at], e.Softplus[2*at], e.Softplus[2*at+1] = a.Variate, a.Softplus[0], a.Softplus[1]
		e.Reward[at] = float32(-policies.StepCost(s.route.Len(), step, s.target[step], s.lataccel[step], s.lataccel[step-1]))
		e.Lataccel[at], e.Action[at] = s.lataccel[step], s.action[step]
	}
	for i, result := range s.simulate(ctx, jobs, lockstep.Options{Shortcuts: lockstep.CostOnly}, record) {
		if e.Results[i] = result; result.Err != nil {
			e.Clear(i)
		}
	}
	return e, nil
}

// Observe computes observations of collected rollouts.
func (s *Simulator) Observe(e *lockstep.Experience, places []lockstep.Place, into []float32) error {
	return policies.Observe(e, places, into)
}
