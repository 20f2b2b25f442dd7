//go:build cgo

package main

import (
	"context"
	"iter"
	"strings"
	"testing"
	"time"

	"lockstep"
)

// broken is an engine whose every step panics.
type broken struct{ lockstep.Stepper }

func (broken) Name() string              { return "broken" }
func (broken) Profile() lockstep.Profile { return lockstep.Profile{} }
func (broken) Simulate(context.Context, []lockstep.Job, lockstep.Options) iter.Seq2[int, lockstep.Result] {
	panic("in Simulate")
}
func (broken) Step(context.Context, []float64, []float64) error { panic("in Step") }
func (broken) Close() error                                     { return nil }

func TestPanicInARun(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r := &run{ended: make(chan struct{}), cancel: cancel}
	go r.simulate(ctx, &simulator{Simulator: broken{}}, lockstep.Options{})
	<-r.ended
	if _, err := results(r, struct{ Rows int }{}, nil); err == nil || !strings.Contains(err.Error(), "in Simulate") {
		t.Errorf("the error is %v, want the panic's", err)
	}
}

func TestPanicInAStep(t *testing.T) {
	for _, n := range []int{1, inline + 1} { // in the caller's thread, and in another
		ctx, cancel := context.WithCancel(t.Context())
		r := &roll{n: n, stepper: broken{}, ctx: ctx, cancel: cancel}
		status := r.start(make([]float64, n), make([]float64, n))
		for status == stepPending {
			status = r.wait(time.Second)
		}
		if status != stepFailed || !strings.Contains(r.err.Error(), "in Step") {
			t.Errorf("%d rollouts: status %d, error %v, want the panic's", n, status, r.err)
		}
	}
}
