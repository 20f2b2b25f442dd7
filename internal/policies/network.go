package policies

import (
	"context"
	"iter"

	"lockstep"
)

// Actor is a lockstep.Network that steers one rollout, and what it computed at its last
// step. Between Observe and Act the engine computes the network.
type Actor struct {
	Network  *lockstep.Network
	route    *lockstep.Route
	sampling *lockstep.Sampling
	plan     *plan
	view     *view

	Observation []float32
	Output      [lockstep.ActorSize]float32
	Softplus    [2]float32
	Variate     float32 // of the Beta distribution
	Raw         float64
}

// NewActor begins a rollout.
func NewActor(n *lockstep.Network, job *lockstep.Job) *Actor {
	return &Actor{
		Network: n, route: job.Route, sampling: job.Sampling, plan: wholePlan(job.Route),
		view: newView(n, job.Route), Observation: make([]float32, n.Inputs()),
	}
}

// Observe computes the observation at a step from ControlStartIdx on. The histories
// reach to the step before.
func (a *Actor) Observe(step int, lataccel, action []float64) error {
	return a.view.observe(a.Observation, a.plan, step, lataccel, action)
}

// Act is the command that follows from the network's output.
func (a *Actor) Act(step int, output []float32, action []float64) float64 {
	copy(a.Output[:], output)
	a.Softplus = [2]float32{softplus(output[0]), softplus(output[1])}
	if s := a.sampling; s != nil {
		a.Variate = betaVariate(a.Softplus, s.Seed, s.ID, step)
		a.Raw = 2*float64(a.Variate) - 1
	} else {
		a.Raw = meanAction(a.Softplus)
		a.Variate = float32((a.Raw + 1) / 2)
	}
	change := float64(a.Raw * a.Network.Scale)
	if change > lockstep.MaxChange {
		change = lockstep.MaxChange
	} else if change < -lockstep.MaxChange {
		change = -lockstep.MaxChange
	}
	if step == lockstep.ControlStartIdx {
		return steer(change)
	}
	return steer(action[step-1] + change)
}

// Show enters the actor's stages into a step that observers see.
func (a *Actor) Show(s *lockstep.Step) {
	s.Observation, s.Actor, s.Raw = a.Observation, a.Output[:], a.Raw
}

// Record enters what the actor leaves for training at a step, with its histories.
func (a *Actor) Record(e *lockstep.Experience, rollout, step int, lataccel, action []float64) {
	at := rollout*lockstep.ExperienceSteps + step - lockstep.ControlStartIdx
	e.Raw[at], e.Softplus[2*at], e.Softplus[2*at+1] = a.Variate, a.Softplus[0], a.Softplus[1]
	e.Reward[at] = float32(-StepCost(
		a.route.Len(), step, a.route.TargetLataccel[step], lataccel[step], lataccel[step-1],
	))
	e.Lataccel[at], e.Action[at] = lataccel[step], action[step]
}

// Simulate is an engine's way of rolling jobs out. Of each step it records into training,
// unless that is nil.
type Simulate func(ctx context.Context, jobs []lockstep.Job, opts lockstep.Options,
	training *lockstep.Experience) iter.Seq2[int, lockstep.Result]

// Collect rolls jobs out that networks drive: see lockstep.Collector.
func Collect(ctx context.Context, simulate Simulate,
	jobs []lockstep.Job) (*lockstep.Experience, error) {
	e, err := lockstep.NewExperience(jobs)
	if err != nil {
		return nil, err
	}
	for i, result := range simulate(ctx, jobs, lockstep.Options{Shortcuts: lockstep.CostOnly}, e) {
		if e.Results[i] = result; result.Err != nil {
			e.Clear(i)
		}
	}
	return e, nil
}

// ObserveAt writes what a network sees at one step of a rollout, whose histories reach to the
// step before.
func ObserveAt(o []float32, r *lockstep.Route, step int, lataccel, action []float64) error {
	return preview(r, step).observe(o, r, step, lataccel, action)
}

// Observe computes observations of collected rollouts: see lockstep.Collector.
func Observe(e *lockstep.Experience, places []lockstep.Place, into []float32) error {
	places, err := e.Places(places, into)
	if err != nil {
		return err
	}
	const from = lockstep.ControlStartIdx
	size, back := e.Inputs(), lockstep.SeenBack // at least as far as what is not declared
	// around the step, from which an observation is made
	var lataccel, action [lockstep.CostEndIdx]float64
	few := len(places) <= len(e.Jobs) // so that whole plans do not pay
	plans := map[*lockstep.Route]*plan{}
	var v *view
	for i, at := range places {
		r, t, own := e.Jobs[at.Rollout].Route, from+at.Step, at.Rollout*lockstep.ExperienceSteps
		begin := t - back
		if begin < from {
			copy(lataccel[begin:from], r.TargetLataccel[begin:from])
		}
		begin = max(begin, from)
		copy(lataccel[begin:t], e.Lataccel[own+begin-from:own+at.Step])
		copy(action[begin:t], e.Action[own+begin-from:own+at.Step])
		p := plans[r]
		switch {
		case few:
			p = preview(r, t)
		case p == nil:
			p = wholePlan(r)
			plans[r] = p
		}
		if v == nil || v.route != r { // their networks see the same
			v = newView(e.Jobs[at.Rollout].Policy.(*lockstep.Network), r)
		}
		if err := v.observe(into[i*size:][:size], p, t, lataccel[:], action[:]); err != nil {
			return e.Jobs[at.Rollout].Failed(t, err)
		}
	}
	return nil
}
