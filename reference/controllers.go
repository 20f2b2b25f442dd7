package reference

import (
	"errors"
	"fmt"

	"lockstep"
	"lockstep/internal/f32"
	"lockstep/internal/guard"
)

// errNotMade: a policy's New gave nil, and no error.
var errNotMade = errors.New("the policy made no controller")

// newController makes the controller of one rollout. The function ends its use.
func newController(
	job *lockstep.Job, kernels *f32.Kernels,
) (lockstep.Controller, func() error, error) {
	none := func() error { return nil }
	switch p := job.Policy.(type) {
	case lockstep.Zero:
		return zero{}, none, nil
	case lockstep.PID:
		return NewPID(p), none, nil
	case lockstep.PIDFF:
		return &pidff{PIDFF: p}, none, nil
	case *lockstep.Network:
		return newNetwork(p, job.Sampling, kernels), none, nil
	case *lockstep.Table:
		return table{p.Actions[job.Route.Name]}, none, nil
	case lockstep.Custom:
		c := p.New()
		if guard.Nobody(c) {
			return nil, none, errNotMade
		}
		return c, none, nil
	case *lockstep.Batch:
		c, err := p.New([]*lockstep.Route{job.Route})
		if err == nil && guard.Nobody(c) {
			err = errNotMade
		}
		if err != nil {
			return nil, none, err
		}
		step := lockstep.NewBatchStep(1)
		step.Step = lockstep.ContextLength - 1
		return &batchOfOne{controller: c, step: step}, c.Close, nil
	}
	return nil, none, fmt.Errorf("no controller of type %T", job.Policy)
}

// batchOfOne is a batch controller that steers one route.
type batchOfOne struct {
	controller lockstep.BatchController
	step       *lockstep.BatchStep
}

func (b *batchOfOne) Update(
	targetLataccel, currentLataccel float64, state lockstep.State, plan lockstep.FuturePlan,
) float64 {
	b.step.Step++
	s := *b.step // the controller may put other arrays into its own
	s.TargetLataccel[0], s.CurrentLataccel[0], s.State[0], s.Plan[0] = targetLataccel,
		currentLataccel, state, plan
	s.Running[0], s.Err[0] = true, nil
	if err := b.controller.Update(&s); err != nil {
		guard.Fail(err)
	}
	if len(s.Steer) != 1 || len(s.Err) != 1 {
		guard.Fail(fmt.Errorf(
			"the controller answers with %d commands and %d errors, want 1 of each", len(s.Steer),
			len(s.Err)))
	}
	if s.Err[0] != nil {
		guard.Fail(s.Err[0])
	}
	return s.Steer[0]
}

// A rememberer is a controller whose memory is numbers, which a snapshot keeps.
type rememberer interface {
	memory() []float64
	remember([]float64)
}

// commanded answers what it is told.
type commanded struct{ command float64 }

func (c *commanded) memory() []float64  { return nil }
func (c *commanded) remember([]float64) {}

func (c *commanded) Update(_, _ float64, _ lockstep.State, _ lockstep.FuturePlan) float64 {
	return c.command
}

// zero always outputs zero.
type zero struct{}

func (zero) memory() []float64  { return nil }
func (zero) remember([]float64) {}

func (zero) Update(_, _ float64, _ lockstep.State, _ lockstep.FuturePlan) float64 { return 0 }

// NewPID makes the PID controller of one rollout.
func NewPID(gains lockstep.PID) lockstep.Controller {
	return &pid{p: gains.P, i: gains.I, d: gains.D}
}

// pid is a simple PID controller.
type pid struct {
	p, i, d       float64
	errorIntegral float64
	prevError     float64
}

func (c *pid) memory() []float64    { return []float64{c.errorIntegral, c.prevError} }
func (c *pid) remember(m []float64) { c.errorIntegral, c.prevError = m[0], m[1] }

func (c *pid) Update(
	targetLataccel, currentLataccel float64, _ lockstep.State, _ lockstep.FuturePlan,
) float64 {
	e := targetLataccel - currentLataccel
	c.errorIntegral += e
	errorDiff := e - c.prevError
	c.prevError = e
	return float64(c.p*e) + float64(c.i*c.errorIntegral) + float64(c.d*errorDiff)
}

// pidff is a PID controller with feed-forward from the plan.
type pidff struct {
	lockstep.PIDFF
	errorIntegral float64
	prevError     float64
	prevCommand   float64
}

func (c *pidff) memory() []float64 { return []float64{c.errorIntegral, c.prevError, c.prevCommand} }
func (c *pidff) remember(m []float64) {
	c.errorIntegral, c.prevError, c.prevCommand = m[0], m[1], m[2]
}

func (c *pidff) Update(
	target, current float64, state lockstep.State, plan lockstep.FuturePlan,
) float64 {
	e := target - current
	c.errorIntegral = float64(c.errorIntegral*(1-c.Leak)) + e
	errorDiff := e - c.prevError
	c.prevError = e

	ff := float64(c.FF[0] * (target - state.RollLataccel))
	for k, band := range lockstep.PlanBands() {
		rows := plan.Lataccel[min(band[0], len(plan.Lataccel)):min(band[1], len(plan.Lataccel))]
		if len(rows) == 0 {
			continue
		}
		sum := 0.0
		for _, x := range rows {
			sum += x
		}
		ff += float64(c.FF[k+1] * (sum/float64(len(rows)) - target))
	}
	ff = float64(ff * (1 + float64(c.FFV*(20/max(state.VEgo, 5)-1))))

	u := ((float64(c.P*e) + float64(c.I*c.errorIntegral)) + float64(c.D*errorDiff)) + ff
	u = c.prevCommand + float64((1-c.Smooth)*(u-c.prevCommand))
	c.prevCommand = clip(u, lockstep.SteerMin, lockstep.SteerMax)
	return c.prevCommand
}

// table answers what it holds for a route. It is a function of the step.
type table struct{ actions []float64 }

func (table) memory() []float64  { return nil }
func (table) remember([]float64) {}

// Update is not how a table is asked.
func (table) Update(_, _ float64, _ lockstep.State, _ lockstep.FuturePlan) float64 {
	panic("a table answers by the step")
}

func (c table) at(step int) float64 {
	if step < lockstep.ControlStartIdx {
		return 0
	}
	return c.actions[min(step-lockstep.ControlStartIdx, lockstep.TableSteps-1)]
}
