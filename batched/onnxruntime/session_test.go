//go:build cgo

package onnxruntime

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"testing"
	"time"

	"lockstep"
	"lockstep/internal/fingerprint"
)

// closed ends a session, which then holds nothing more of the library's.
func closed(t *testing.T, s *session) {
	t.Helper()
	s.close()
	if !reflect.ValueOf(s.ort).Elem().Field(0).Elem().IsZero() {
		t.Error("of a session that is closed what computes is not freed")
	}
	for n, b := range s.bindings {
		if b != nil {
			freed(t, fmt.Sprint("a session that is closed, of ", n), b, 3)
		}
	}
}

// freed: a binding that was closed, of so many tensors, holds nothing more of the library's.
func freed(t *testing.T, what string, b *binding, tensors int) {
	t.Helper()
	if len(b.tensors) != tensors {
		t.Errorf("%s: %d tensors are bound, want %d", what, len(b.tensors), tensors)
	}
	for _, held := range b.tensors {
		if !reflect.ValueOf(held).Elem().IsZero() {
			t.Errorf("%s: a tensor is not freed", what)
		}
	}
	if !reflect.ValueOf(b.ort).Elem().IsZero() {
		t.Errorf("%s: what binds them is not freed", what)
	}
}

// foreign is a small network with other inputs and outputs than the sessions'.
func foreign(t *testing.T) network {
	t.Helper()
	asked, err := fingerprint.Probes()
	if err != nil {
		t.Fatal(err)
	}
	return network{data: asked[0].Network(), positions: 1}
}

// TestBindFails: what cannot be bound is an error, and freed again.
func TestBindFails(t *testing.T) {
	newSimulator(t, Config{}) // which loads the library
	s, err := openSession(foreign(t), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, s)
	for n, tensors := range map[int]int{1: 3, 2: 0} { // without its inputs; beyond its room
		b, err := s.bind(n)
		if err == nil {
			t.Fatalf("%d sequences are bound to what has no room for them", n)
		}
		freed(t, fmt.Sprint("a binding that fails, of ", n), b, tensors)
	}
	if err := s.run(1); err == nil || s.bindings[1] != nil {
		t.Errorf("a network without the inputs computes: %v", err)
	}
}

// TestOneThread: a session computes on the thread that calls it, and makes none.
func TestOneThread(t *testing.T) {
	newSimulator(t, Config{})
	threads := func() int {
		all, err := os.ReadDir("/proc/self/task")
		if err != nil {
			t.Skip("threads are not counted here")
		}
		return len(all)
	}
	const sessions = 16
	before, n := threads(), foreign(t)
	for range sessions {
		s, err := openSession(n, 1)
		if err != nil {
			t.Fatal(err)
		}
		defer closed(t, s)
	}
	if more := threads() - before; more >= sessions {
		t.Errorf("%d sessions have made %d threads", sessions, more)
	}
}

// TestPool: a session has one user at a time, is used again, whichever way it is given back, and
// is freed when the pool is closed and nobody uses it any more.
func TestPool(t *testing.T) {
	newSimulator(t, Config{})
	n := foreign(t)
	p := &pool{capacity: 1}
	count := func(when string, open, free int) {
		t.Helper()
		if p.open != open || len(p.free) != free {
			t.Errorf("%s %d sessions are open, %d of them free; want %d and %d", when, p.open,
				len(p.free), open, free)
		}
	}
	for range 2 {
		if _, err := p.get(network{data: []byte("none"), positions: 1}); err == nil {
			t.Fatal("a session of no network")
		}
		count("without a network", 0, 0)
	}
	get := func() *backend {
		t.Helper()
		b, err := open(p, n)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	b, other := get(), get()
	first, second := b.session, other.session
	count("with two", 2, 0)
	collected := make(chan struct{})
	runtime.AddCleanup(b, func(c chan struct{}) { close(c) }, collected)
	for range 2 {
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		count("after one", 2, 1)
	}
	b = nil
	for gone := false; !gone; runtime.GC() {
		select {
		case <-collected:
			gone = true
		case <-time.After(time.Millisecond):
		}
	}
	time.Sleep(time.Millisecond) // for what else is done when it is garbage
	p.mutex.Lock()
	count("when it is garbage", 2, 1)
	p.mutex.Unlock()
	if b = get(); b.session != first {
		t.Error("a session that is free is not used again")
	}
	count("with both again", 2, 0)
	b.Close()
	for range 2 {
		p.close()
		count("closed", 1, 0)
		if _, err := p.get(n); !errors.Is(err, lockstep.ErrClosed) {
			t.Errorf("of a pool that is closed: %v", err)
		}
	}
	other.Close()
	count("closed, and the last given back", 0, 0)
	for _, s := range []*session{first, second} {
		if !reflect.ValueOf(s.ort).Elem().Field(0).Elem().IsZero() {
			t.Error("of a pool that is closed a session is not")
		}
	}
}
