package simtest

import (
	"context"
	"sync/atomic"
)

// Unended is a context that has not ended, and counts what waits for its end: what is left waiting
// by a call that has returned stays in memory as long as its caller's context lives.
type Unended struct {
	context.Context
	end chan struct{}

	Waiting atomic.Int32
}

// NewUnended makes one.
func NewUnended() *Unended {
	return &Unended{Context: context.Background(), end: make(chan struct{})}
}

// Done is never closed.
func (u *Unended) Done() <-chan struct{} { return u.end }

// AfterFunc is what package context asks, which else keeps a goroutine waiting.
func (u *Unended) AfterFunc(func()) (stop func() bool) {
	u.Waiting.Add(1)
	return func() bool {
		u.Waiting.Add(-1)
		return true
	}
}
