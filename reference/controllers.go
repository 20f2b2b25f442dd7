package reference

import (
	"fmt"

	"lockstep"
)

// newController makes the controller of one rollout.
func newController(policy lockstep.Policy) (lockstep.Controller, error) {
	switch p := policy.(type) {
	case lockstep.Zero:
		return zero{}, nil
	case lockstep.PID:
		return &pid{p: p.P, i: p.I, d: p.D}, nil
	case lockstep.Custom:
		return p.New(), nil
	}
	return nil, fmt.Errorf("no controller of type %T", policy)
}

// zero always outputs zero.
type zero struct{}

func (zero) Update(_, _ float64, _ lockstep.State, _ lockstep.FuturePlan) float64 { return 0 }

// pid is a simple PID controller.
type pid struct {
	p, i, d       float64
	errorIntegral float64
	prevError     float64
}

func (c *pid) Update(targetLataccel, currentLataccel float64, _ lockstep.State, _ lockstep.FuturePlan) float64 {
	e := targetLataccel - currentLataccel
	c.errorIntegral += e
	errorDiff := e - c.prevError
	c.prevError = e
	return float64(c.p*e) + float64(c.i*c.errorIntegral) + float64(c.d*errorDiff)
}
