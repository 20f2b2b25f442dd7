//go:build cgo

package native

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockstep"
)

// A device has one rollout, and notes what it is told; each call ends with its error.
type device struct {
	lockstep.DeviceStepper
	told  []string
	err   error
	takes time.Duration // a step of the host
}

func (d *device) tell(format string, args ...any) error {
	d.told = append(d.told, fmt.Sprintf(format, args...))
	return d.err
}

func (d *device) Index() int                      { return lockstep.ControlStartIdx }
func (d *device) Done() bool                      { return false }
func (d *device) Running(int) bool                { return true }
func (d *device) Lataccel(int) float64            { return 0.5 }
func (d *device) Err(int) error                   { return nil }
func (d *device) Follow(stream uintptr) error     { return d.tell("follow %d", stream) }
func (d *device) Precede(stream uintptr) error    { return d.tell("precede %d", stream) }
func (d *device) Sync(context.Context) error      { return d.tell("sync") }
func (d *device) StepOnDevice(_, _ uintptr) error { return d.tell("step") }

func (d *device) Step(context.Context, []float64, []float64) error {
	time.Sleep(d.takes)
	return d.err
}

// TestOnDevice: the host learns what steps on the device have come to once, before it looks at
// them or goes on, and again if it failed; work is ordered with the caller's as it was asked for.
func TestOnDevice(t *testing.T) {
	lost := errors.New("the device is lost")
	task, buffer := begin("", 0, "", nil), make([]byte, 8)
	for name, call := range map[string]func(r *roll) error{
		"synchronize": func(r *roll) error {
			_, err := synchronize(task, r, nothing{}, buffer)
			return err
		},
		"why": func(r *roll) error {
			_, err := why(task, r, nothing{}, nil)
			return err
		},
		"step": func(r *roll) error { return r.step(make([]float64, 1), make([]float64, 1)) },
	} {
		d := &device{}
		r := &roll{turn: newTurn(), n: 1, stepper: d, simulator: newSimulator(nil)}
		hold := func(err, wantErr error, want ...string) {
			t.Helper()
			if !errors.Is(err, wantErr) || !slices.Equal(d.told, want) {
				t.Errorf("%s: %q, %v; want %q, %v", name, d.told, err, want, wantErr)
			}
			d.told = nil
		}
		hold(call(r), nil)
		hold(r.stepOnDevice(0, 0), nil, "step")
		d.err = lost
		hold(call(r), lost, "sync")
		r.err, d.err = nil, nil
		hold(call(r), nil, "sync")
		hold(call(r), nil)
	}
	for _, err := range []error{nil, lost} {
		d := &device{err: err}
		r := &roll{stepper: d}
		_, followed := follow(task, r, streamRequest{7}, nil)
		_, preceded := precede(task, r, streamRequest{8}, nil)
		if want := []string{"follow 7", "precede 8"}; !slices.Equal(d.told, want) ||
			!errors.Is(followed, err) || !errors.Is(preceded, err) {
			t.Errorf("%q, %v, %v; want %q, %v", d.told, followed, preceded, want, err)
		}
	}
	here := &roll{stepper: broken{}, simulator: newSimulator(named{})}
	_, followed := follow(task, here, streamRequest{}, nil)
	_, preceded := precede(task, here, streamRequest{}, nil)
	for name, err := range map[string]error{"follow": followed, "precede": preceded} {
		if err == nil ||
			!strings.Contains(err.Error(), "the named engine has no steps on a device") {
			t.Errorf("%s of rollouts of the host: %v", name, err)
		}
	}
}

// named is an engine that does nothing.
type named struct{ lockstep.Implementation }

func (named) Name() string { return "named" }

// TestSpent: the time that is told is that of all steps.
func TestSpent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &device{takes: time.Second}
		r := &roll{turn: newTurn(), n: 1, stepper: d, simulator: newSimulator(nil)}
		for range 3 {
			if err := r.step(make([]float64, 1), make([]float64, 1)); err != nil {
				t.Fatal(err)
			}
		}
		answer, err := why(begin("", 0, "", nil), r, nothing{}, nil)
		if err != nil || answer.(whyAnswer).Spent != 3 {
			t.Errorf("%+v, %v; want 3 s", answer, err)
		}
	})
}

// rolled are candidates that cannot be rolled on.
type rolled struct {
	lockstep.Stepper
	done bool
}

func (r rolled) Done() bool { return r.done }

func (r rolled) Roll(context.Context, []float64, []float64, []float64) error {
	return errors.New("they are not")
}

// TestAdvance: candidates that have ended are the caller's mistake, what fails before is not.
func TestAdvance(t *testing.T) {
	for done, want := range map[bool]string{true: "ValueError", false: "SimulationError"} {
		_, err := advance(begin("", 0, "", nil), &forks{Stepper: rolled{done: done}, n: 1}, struct {
			Steps      int
			Trajectory bool
		}{Steps: 1}, make([]byte, 16))
		if err == nil || describe(err).Type != want {
			t.Errorf("ended %v: %v, want a %s", done, err, want)
		}
	}
}
