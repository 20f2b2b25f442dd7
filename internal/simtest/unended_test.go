package simtest

import (
	"context"
	"testing"
)

// TestUnended: contexts that are made of one, and functions, are counted until they are given back.
func TestUnended(t *testing.T) {
	u := NewUnended()
	child, cancel := context.WithCancel(u)
	stop := context.AfterFunc(u, func() { t.Error("it has ended") })
	if n := u.Waiting.Load(); n != 2 || child.Err() != nil {
		t.Errorf("%d wait, want 2: %v", n, child.Err())
	}
	cancel()
	cancel()
	if n := u.Waiting.Load(); n != 1 {
		t.Errorf("%d wait, want the function", n)
	}
	if stop(); u.Waiting.Load() != 0 || u.Err() != nil {
		t.Errorf("%d wait, want none: %v", u.Waiting.Load(), u.Err())
	}
}
