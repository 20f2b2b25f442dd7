package policies

import (
	"lockstep"
)

// Rollout is what a network sees of one that it steers.
type Rollout struct {
	Route    *lockstep.Route
	Sampling *lockstep.Sampling // nil for the mean

	// Histories, by step; those up to the step before are read. Actions count from
	// ControlStartIdx on.
	Lataccel, Action []float64
}

// Acted is what a network computed of one rollout at its last step.
type Acted struct {
	Observation []float32
	Actor       []float32
	Softplus    [2]float32
	Variate     float32 // of the Beta distribution
	Raw         float64
	Command     float64
}

// Networks are rollouts that one network steers.
type Networks struct {
	Network  *lockstep.Network
	rollouts []Rollout
	plans    []*plan
	acted    []Acted
	in, out  []float32 // of the rollouts that run
	places   []int
}

// Add adds a rollout and returns its number.
func (g *Networks) Add(r Rollout) int {
	var p *plan
	for i := range g.rollouts { // those of a route often come together
		if g.rollouts[i].Route == r.Route {
			p = g.plans[i]
		}
	}
	if p == nil {
		p = newPlan(r.Route)
	}
	g.rollouts, g.plans = append(g.rollouts, r), append(g.plans, p)
	g.acted = append(g.acted, Acted{
		Observation: make([]float32, lockstep.ObservationSize), Actor: make([]float32, lockstep.ActorSize),
	})
	return len(g.rollouts) - 1
}

// Acted is what was computed of a rollout at the last step.
func (g *Networks) Acted(rollout int) *Acted { return &g.acted[rollout] }

// Act computes the commands of the rollouts that run, which Acted then tells. The
// products are forward's: of n observations, one after the other, n outputs. Fail is
// called for a rollout that cannot be steered.
func (g *Networks) Act(step int, running func(rollout int) bool, forward func(in, out []float32, n int) error, fail func(rollout int, err error)) error {
	g.in, g.places = g.in[:0], g.places[:0]
	for i := range g.rollouts {
		if !running(i) {
			continue
		}
		if step < lockstep.ControlStartIdx {
			g.acted[i].Command = 0
			continue
		}
		r := &g.rollouts[i]
		if err := g.plans[i].observe(g.acted[i].Observation, r.Route, step, r.Lataccel, r.Action); err != nil {
			fail(i, err)
			continue
		}
		g.in, g.places = append(g.in, g.acted[i].Observation...), append(g.places, i)
	}
	n := len(g.places)
	if n == 0 {
		return nil
	}
	if cap(g.out) < n*lockstep.ActorSize {
		g.out = make([]float32, len(g.rollouts)*lockstep.ActorSize)
	}
	g.out = g.out[:n*lockstep.ActorSize]
	if err := forward(g.in, g.out, n); err != nil {
		return err
	}
	for k, i := range g.places {
		g.act(i, step, g.out[k*lockstep.ActorSize:][:lockstep.ActorSize])
	}
	return nil
}

// act turns the network's output into a command.
func (g *Networks) act(i, step int, output []float32) {
	r, a := &g.rollouts[i], &g.acted[i]
	copy(a.Actor, output)
	a.Softplus = [2]float32{softplus(output[0]), softplus(output[1])}
	if s := r.Sampling; s != nil {
		a.Variate = betaVariate(a.Softplus, s.Seed, s.ID, step)
		a.Raw = 2*float64(a.Variate) - 1
	} else {
		a.Raw = meanAction(a.Softplus)
		a.Variate = float32((a.Raw + 1) / 2)
	}
	change := float64(a.Raw * g.Network.Scale)
	if change > lockstep.MaxChange {
		change = lockstep.MaxChange
	} else if change < -lockstep.MaxChange {
		change = -lockstep.MaxChange
	}
	a.Command = change
	if step > lockstep.ControlStartIdx {
		a.Command = r.Action[step-1] + change
	}
	a.Command = steer(a.Command)
}

// Observe computes observations of collected rollouts: see lockstep.Collector.
func Observe(e *lockstep.Experience, places []lockstep.Place, into []float32) error {
	places, err := e.Places(places, into)
	if err != nil {
		return err
	}
	const from = lockstep.ControlStartIdx
	var lataccel, action [lockstep.CostEndIdx]float64
	plans := map[*lockstep.Route]*plan{}
	held := -1 // the rollout whose histories these are
	for i, at := range places {
		r := e.Jobs[at.Rollout].Route
		if held != at.Rollout {
			held = at.Rollout
			copy(lataccel[:from], r.TargetLataccel)
			copy(lataccel[from:], e.Lataccel[held*lockstep.ExperienceSteps:][:lockstep.ExperienceSteps])
			copy(action[from:], e.Action[held*lockstep.ExperienceSteps:][:lockstep.ExperienceSteps])
			if plans[r] == nil {
				plans[r] = newPlan(r)
			}
		}
		if err := plans[r].observe(into[i*lockstep.ObservationSize:][:lockstep.ObservationSize], r, from+at.Step, lataccel[:], action[:]); err != nil {
			return e.Jobs[held].Failed(from+at.Step, err)
		}
	}
	return nil
}
