// Package policies steers many rollouts in step: the batched engines' arithmetic of
// the kinds of policies that are more than a line. It shares nothing with package
// reference, to which it is held; what computes a network's products is the engine's.
package policies

import (
	"lockstep"
)

// FeedForward is a lockstep.PIDFF that steers one rollout.
type FeedForward struct {
	gains  lockstep.PIDFF
	Memory [3]float64 // integral, error, command
}

// NewFeedForward begins a rollout.
func NewFeedForward(gains lockstep.PIDFF) *FeedForward { return &FeedForward{gains: gains} }

// Command is the answer at a step, before which the lataccel is current.
func (f *FeedForward) Command(r *lockstep.Route, step int, current float64) float64 {
	g, target := &f.gains, r.TargetLataccel
	t := target[step]
	e := t - current
	integral := float64(f.Memory[0]*(1-g.Leak)) + e
	d := e - f.Memory[1]

	ff := float64(g.FF[0] * (t - r.RollLataccel[step]))
	for k, band := range lockstep.PlanBands() {
		// Row 0 of the plan is that of the next step.
		from, to := step+1+band[0], min(step+1+band[1], step+lockstep.FuturePlanSteps, len(target))
		if from >= to {
			break
		}
		sum := 0.0
		for i := from; i < to; i++ {
			sum += target[i]
		}
		mean := sum / float64(to-from)
		ff += float64(g.FF[k+1] * (mean - t))
	}
	v := r.VEgo[step]
	if v < 5 {
		v = 5
	}
	ff = float64(ff * (1 + float64(g.FFV*(20/v-1))))

	u := float64(g.P*e) + float64(g.I*integral)
	u += float64(g.D * d)
	u += ff
	u = f.Memory[2] + float64((1-g.Smooth)*(u-f.Memory[2]))
	f.Memory = [3]float64{integral, e, steer(u)}
	return f.Memory[2]
}

// TableAction is what a table of actions answers at a step.
func TableAction(actions []float64, step int) float64 {
	switch i := step - lockstep.ControlStartIdx; {
	case i < 0:
		return 0
	case i < len(actions):
		return actions[i]
	}
	return actions[len(actions)-1]
}

// steer clips a command; NaN stays NaN.
func steer(u float64) float64 {
	if u < lockstep.SteerMin {
		return lockstep.SteerMin
	}
	if u > lockstep.SteerMax {
		return lockstep.SteerMax
	}
	return u
}

// StepCost is the part of the total cost that a step has, from ControlStartIdx on, of
// a route of so many rows, with the lataccels after the step and after the one before.
// Its negative is the reward.
func StepCost(rows, step int, target, lataccel, before float64) float64 {
	n := float64(min(rows, lockstep.CostEndIdx) - lockstep.ControlStartIdx)
	e := target - lataccel
	square := e * e
	cost := 5000 / n * square
	if step == lockstep.ControlStartIdx {
		return cost
	}
	jerk := (lataccel - before) / 0.1
	square = jerk * jerk
	jerkCost := 100 / (n - 1) * square
	return float64(cost) + float64(jerkCost)
}
