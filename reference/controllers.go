package reference

import (
	"fmt"

	"lockstep"
	"lockstep/internal/guard"
)

// newController makes the controller of one rollout. The function ends its use.
func newController(policy lockstep.Policy, route *lockstep.Route) (lockstep.Controller, func() error, error) {
	none := func() error { return nil }
	switch p := policy.(type) {
	case lockstep.Zero:
		return zero{}, none, nil
	case lockstep.PID:
		return &pid{p: p.P, i: p.I, d: p.D}, none, nil
	case lockstep.Custom:
		return p.New(), none, nil
	case *lockstep.Batch:
		c, err := p.New([]*lockstep.Route{route})
		if err != nil {
			return nil, none, err
		}
		step := lockstep.NewBatchStep(1)
		step.Step, step.Running[0] = lockstep.ContextLength-1, true
		return &batchOfOne{controller: c, step: step}, c.Close, nil
	}
	return nil, none, fmt.Errorf("no controller of type %T", policy)
}

// batchOfOne is a batch controller that steers one route.
type batchOfOne struct {
	controller lockstep.BatchController
	step       *lockstep.BatchStep
}

func (b *batchOfOne) Update(targetLataccel, currentLataccel float64, state lockstep.State, plan lockstep.FuturePlan) float64 {
	s := b.step
	s.Step++
	s.TargetLataccel[0], s.CurrentLataccel[0], s.State[0], s.Plan[0] = targetLataccel, currentLataccel, state, plan
	if err := b.controller.Update(s); err != nil {
		guard.Fail(err)
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

// pid is a simple PID controller.
type pid struct {
	p, i, d       float64
	errorIntegral float64
	prevError     float64
}

func (c *pid) memory() []float64    { return []float64{c.errorIntegral, c.prevError} }
func (c *pid) remember(m []float64) { c.errorIntegral, c.prevError = m[0], m[1] }

func (c *pid) Update(targetLataccel, currentLataccel float64, _ lockstep.State, _ lockstep.FuturePlan) float64 {
	e := targetLataccel - currentLataccel
	c.errorIntegral += e
	errorDiff := e - c.prevError
	c.prevError = e
	return float64(c.p*e) + float64(c.i*c.errorIntegral) + float64(c.d*errorDiff)
}
