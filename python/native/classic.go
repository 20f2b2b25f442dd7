//go:build cgo

package native

import (
	"context"
	"unsafe"

	"lockstep/classic"
	"lockstep/engines"
)

// environments are classic control environments in step.
type environments struct {
	classic.Vector
	turn
	answer classic.Transition
	err    error // of the last step
}

type environmentsAnswer struct {
	Handle       int64     `json:"handle"`
	Engine       string    `json:"engine"`
	Actions      int       `json:"actions"` // 0: a float32
	Limit        float32   `json:"limit"`   // of that
	Observations int       `json:"observations"`
	Low          []float64 `json:"low"` // of a reset's draws
	High         []float64 `json:"high"`
	Shared       bool      `json:"shared"`
}

// makeEnvironments makes a task's environments.
func makeEnvironments(_ *task, _ int64, request, _ []byte) (any, error) {
	var q struct {
		Environment, Autoreset, Engine string
		Num, Workers                   int
		Options                        map[string]string
		NumPy1                         bool
	}
	if err := parse(request, &q); err != nil {
		return nil, err
	}
	t, err := classic.Make(q.Environment, q.Num, q.Options)
	if err != nil {
		return nil, usage(err)
	}
	t.NumPy1 = q.NumPy1
	if t.Autoreset, err = classic.ParseAutoreset(q.Autoreset); err != nil {
		return nil, usage(err)
	}
	if q.Engine == engines.Auto {
		q.Engine = ""
	}
	e, err := engines.Classic.Open(q.Engine, q.Workers)
	if err != nil {
		return nil, usage(err)
	}
	v, err := e.Make(t)
	if err != nil {
		return nil, usage(err)
	}
	return environmentsAnswer{
		Handle: put(&environments{turn: newTurn(), Vector: v}), Engine: e.Name(), Actions: t.Actions, Limit: t.Limit,
		Observations: len(t.Observation), Low: t.Low, High: t.High, Shared: t.Shared,
	}, nil
}

func (e *environments) Close() error { return e.last(e.Vector.Close) }

// begin resets environments, and writes the observations of all.
func (e *environments) begin(r classic.Reset, observations []float32) error {
	if err := e.Reset(r); err != nil {
		return usage(err)
	}
	e.Observe(observations, nil)
	return nil
}

func beginEnvironments(_ *task, e *environments, r classic.Reset, buffer []byte) (any, error) {
	observations, err := floats[float32](buffer, len(e.Task().Observation)*e.Task().Num)
	if err != nil {
		return nil, err
	}
	return nothing{}, e.begin(r, observations)
}

// states writes the environments' states, (S, N).
func states(_ *task, e *environments, _ nothing, buffer []byte) (any, error) {
	out, err := floats[float64](buffer, len(e.Task().State)*e.Task().Num)
	if err == nil {
		e.Observe(nil, out)
	}
	return nothing{}, err
}

// setStates puts the environments into states, (S, N), and leaves all else as it is, which is
// what setting Gymnasium's attribute state does. Single says that they were float32: NumPy
// computes a step in the type of the state. MountainCarContinuous has float64 after a reset and
// float32 from its first step on, Acrobot appends either to float64, all others have float64.
func setStates(_ *task, e *environments, q struct{ Single bool }, buffer []byte) (any, error) {
	in, err := floats[float64](buffer, len(e.Task().State)*e.Task().Num)
	if err != nil {
		return nil, err
	}
	s, err := e.Snapshot()
	if err != nil {
		return nil, usage(err)
	}
	for i, elapsed := range s.Elapsed {
		dynamics := e.Task().Dynamics
		single := dynamics == classic.MountainCarContinuous && elapsed > 0
		if dynamics != classic.Acrobot && single != q.Single {
			want := map[bool]string{true: "float32, as after a step", false: "float64"}[single]
			return nil, usagef("state: environment %d computes with %s: give an array of that type", i, want)
		}
	}
	copy(s.States, in)
	if err := e.Restore(s); err != nil {
		return nil, usagef("state: %w", err)
	}
	return nothing{}, nil
}

// whyEnvironments is the error of the last step.
func whyEnvironments(_ *task, e *environments, _ nothing, _ []byte) (any, error) {
	return nothing{}, usage(e.err)
}

// step is one step. The memory has, for N environments with D observations each, rewards
// float64 (N), actions of 4 bytes (N), observations and final ones float32 (D, N), and
// both flags (N).
func (e *environments) step(memory unsafe.Pointer) (err error) {
	if err := e.acquire(context.Background()); err != nil {
		return err
	}
	defer e.release()
	defer func() { e.err = err }()
	defer recovered(&err)
	t, n := e.Task(), e.Task().Num
	d := len(t.Observation)
	next := func(bytes int) unsafe.Pointer {
		p := memory
		memory = unsafe.Add(memory, bytes)
		return p
	}
	r := &e.answer
	r.Rewards = unsafe.Slice((*float64)(next(8*n)), n)
	var a classic.Actions
	if actions := next(4 * n); t.Actions > 0 {
		a.Discrete = unsafe.Slice((*int32)(actions), n)
	} else {
		a.Continuous = unsafe.Slice((*float32)(actions), n)
	}
	r.Observations = unsafe.Slice((*float32)(next(4*n*d)), n*d)
	if final := next(4 * n * d); t.Autoreset == classic.SameStep {
		r.Final = unsafe.Slice((*float32)(final), n*d)
	}
	r.Terminated = unsafe.Slice((*bool)(next(n)), n)
	r.Truncated = unsafe.Slice((*bool)(next(n)), n)
	return e.Step(a, r)
}
