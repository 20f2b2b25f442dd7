//go:build cgo

package main

import (
	"context"
	"time"

	"lockstep"
)

// roll is rollouts that Python steers, one step at a time.
type roll struct {
	n       int
	stepper lockstep.Stepper
	ctx     context.Context
	cancel  context.CancelFunc
	pending chan error // of the step that is being computed; nil without
	err     error
}

// inline is the most rollouts whose step is computed while Python waits in one call.
// Steps of more may take so long that they are waited for in turns, so that Python
// sees a signal.
const inline = 256

// start computes a step, or begins to.
func (r *roll) start(commands, lataccels []float64) int {
	if r.pending != nil {
		return stepPending
	}
	if r.n <= inline {
		r.err = r.step(commands, lataccels)
		return r.status()
	}
	done := make(chan error, 1)
	r.pending = done
	go func() { done <- r.step(commands, lataccels) }()
	return stepPending
}

func (r *roll) wait(timeout time.Duration) int {
	if r.pending == nil {
		return r.status()
	}
	select {
	case r.err = <-r.pending:
		r.pending = nil
		return r.status()
	case <-time.After(timeout):
		return stepPending
	}
}

func (r *roll) status() int {
	if r.err != nil {
		return stepFailed
	}
	return stepDone
}

func (r *roll) step(commands, lataccels []float64) (err error) {
	defer guard(&err)
	return r.stepper.Step(r.ctx, commands, lataccels)
}

// Close waits for a step that is being computed.
func (r *roll) Close() error {
	r.cancel()
	if r.pending != nil {
		<-r.pending
	}
	return r.stepper.Close()
}
