//go:build cgo

package native

import (
	"context"
	"fmt"
	"slices"
	"unsafe"

	"lockstep"
	"lockstep/classic"
	"lockstep/cmd/internal/archive"
	"lockstep/engines"
	gpuclassic "lockstep/gpu/classic"
)

// environments are classic control environments in step.
type environments struct {
	classic.Vector
	turn
	answer  classic.Transition
	actions []int32 // of a step of rows
	err     error   // of the last step
}

// What Python calls of them.
func init() {
	enter(map[string]method{
		"environments":          makeEnvironments,
		"environments_begin":    of(beginEnvironments),
		"environments_state":    of(states),
		"environments_set":      of(setStates),
		"environments_why":      of(whyEnvironments),
		"environments_run":      of(runEnvironments),
		"environments_totals":   of(totals),
		"environments_elapsed":  of(elapsed),
		"environments_device":   of(runOnDevice),
		"environments_snapshot": of(snapshotEnvironments),
		"environments_restore":  of(restoreEnvironments),
		"environments_fork":     of(forkEnvironments),
		"environments_bytes":    of(placeBytes),
		"environments_read":     readPlace,
	})
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
	States       int       `json:"states"` // values of a state
	GPU          *int      `json:"gpu"`    // number of that whose memory they share with the caller
}

// makeEnvironments makes a task's environments.
func makeEnvironments(_ *task, _ int64, request, _ []byte) (any, error) {
	var q struct {
		Environment, Autoreset, Engine string
		Num, Workers                   int
		Options                        map[string]string
		NumPy1                         bool
		Stream                         uintptr // on the GPU
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
	e, err := engines.Classic().Open(q.Engine, q.Workers)
	if err == nil && e.Name() == "gpu" { // in the memory that the caller works in, too
		e, err = gpuclassic.OnGPUOf(q.Stream)
	}
	if err != nil {
		return nil, usage(err)
	}
	v, err := e.Make(t)
	if err != nil {
		return nil, usage(err)
	}
	a := environmentsAnswer{
		Handle:       put(&environments{turn: newTurn(), Vector: v}),
		Engine:       e.Name(),
		Actions:      t.Actions,
		Limit:        t.Limit,
		Observations: len(t.Observation),
		Low:          t.Low,
		High:         t.High,
		Shared:       t.Shared,
		States:       len(t.State),
	}
	if d, ok := v.(classic.DeviceRunner); ok {
		if number, shared := d.Place(); shared {
			a.GPU = &number
		}
	}
	return a, nil
}

// device is the environments as those of a device whose memory is the caller's.
func (e *environments) device() (classic.DeviceRunner, error) {
	if d, ok := e.Vector.(classic.DeviceRunner); ok {
		if _, shared := d.Place(); shared {
			return d, nil
		}
	}
	return nil, usagef("these environments have no arrays on a GPU: use engine=\"gpu\"")
}

// order is of what is on the device.
func (e *environments) order() (lockstep.DeviceOrder, error) { return e.device() }

// runOnDevice runs steps whose record stays on the device, and answers its addresses. The buffer
// has the network, if there is one; a table is at an address on the device.
func runOnDevice(t *task, e *environments, q struct {
	runRequest
	Address uintptr // of a table
}, buffer []byte) (any, error) {
	d, err := e.device()
	if err != nil {
		return nil, err
	}
	names := q.Record
	q.Record = nil
	policy, _, err := e.laidOut(q.runRequest, buffer)
	if err != nil {
		return nil, err
	}
	where, err := d.RunOnDevice(t, policy, q.Address, q.Steps, names)
	return where, usage(err)
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
			return nil, usagef(
				"state: environment %d computes with %s: give an array of that type", i, want,
			)
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

// rows is what a step as NumPy has it is given and answers: addresses of arrays, and whether
// the actions are int64, where the environment has integers.
type rows struct {
	actions      unsafe.Pointer // (N), int64, or int32 or float32
	wide         int64          // 1: int64
	observations unsafe.Pointer // (N, D), float32
	rewards      unsafe.Pointer // (N), float64
	terminated   unsafe.Pointer // (N), bool
	truncated    unsafe.Pointer // (N), bool
	final        unsafe.Pointer // (D, N), float32
}

// stepRows is a step of arrays of NumPy's.
func (e *environments) stepRows(memory unsafe.Pointer) (err error) {
	if err := e.acquire(context.Background()); err != nil {
		return err
	}
	defer e.release()
	defer func() { e.err = err }()
	defer recovered(&err)
	m := (*rows)(memory)
	t, n := e.Task(), e.Task().Num
	d := len(t.Observation)
	var a classic.Actions
	switch {
	case t.Actions == 0:
		a.Continuous = unsafe.Slice((*float32)(m.actions), n)
	case m.wide == 0:
		a.Discrete = unsafe.Slice((*int32)(m.actions), n)
	default:
		if e.actions == nil {
			e.actions = make([]int32, n)
		}
		for i, x := range unsafe.Slice((*int64)(m.actions), n) {
			e.actions[i] = int32(min(max(x, -1), 1<<30)) // what is none stays none
		}
		a.Discrete = e.actions
	}
	r := &classic.Transition{
		Rewards:    unsafe.Slice((*float64)(m.rewards), n),
		Terminated: unsafe.Slice((*bool)(m.terminated), n),
		Truncated:  unsafe.Slice((*bool)(m.truncated), n),
	}
	if t.Autoreset == classic.SameStep {
		r.Final = unsafe.Slice((*float32)(m.final), n*d)
	}
	to := unsafe.Slice((*float32)(m.observations), n*d)
	if fast, ok := e.Vector.(classic.RowStepper); ok {
		return fast.StepRows(a, r, to)
	}
	r.Observations = make([]float32, n*d)
	if err := e.Step(a, r); err != nil {
		return err
	}
	for k := range d {
		for i := range n {
			to[i*d+k] = r.Observations[k*n+i]
		}
	}
	return nil
}

// runRequest is a run of steps, by one of its policies. The buffer has, in this order, what is
// asked for or given: states, rewards (float64), observations, final observations (float32),
// actions, weights and biases, noise (float32), both flags; what is recorded is (steps, …).
type runRequest struct {
	Steps   int
	Uniform *uint64
	Sizes   []int // of a network
	Noise   int
	Seed    uint64
	Table   bool
	Record  []string
}

// A cursor gives a buffer out.
type cursor struct {
	buffer []byte
	err    error
}

func next[T any](c *cursor, n int) []T {
	var x T
	bytes := n * int(unsafe.Sizeof(x))
	if n == 0 || c.err != nil {
		return nil
	}
	if n < 0 || bytes > len(c.buffer) {
		c.err = fmt.Errorf("a buffer that lacks %d bytes", bytes-len(c.buffer))
		return nil
	}
	out := unsafe.Slice((*T)(unsafe.Pointer(&c.buffer[0])), n)
	c.buffer = c.buffer[bytes:]
	return out
}

// runEnvironments runs steps in one call.
func runEnvironments(t *task, e *environments, q runRequest, buffer []byte) (any, error) {
	if q.Steps < 1 {
		return nil, usagef("steps: %d, want 1 or more", q.Steps)
	}
	policy, record, err := e.laidOut(q, buffer)
	if err != nil {
		return nil, err
	}
	return nothing{}, usage(e.Run(t, policy, q.Steps, record))
}

// laidOut is the policy and the record that a request's buffer holds.
func (e *environments) laidOut(q runRequest, buffer []byte) (
	policy classic.Policy, record []classic.Transition, err error,
) {
	task, c := e.Task(), &cursor{buffer: buffer}
	n, asked := task.Num, func(name string) int {
		if slices.Contains(q.Record, name) {
			return q.Steps * task.Num
		}
		return 0
	}
	actions := asked("actions")
	if q.Table {
		actions = q.Steps * n
	}
	d, s := len(task.Observation), len(task.State)
	states, rewards := next[float64](c, asked("states")*s), next[float64](c, asked("rewards"))
	observations, final := next[float32](c, asked("observations")*d),
		next[float32](c, asked("final_observations")*d)
	given := next[int32](c, actions)
	if len(q.Sizes) > 0 {
		policy.Network = &classic.Perceptron{Seed: q.Seed}
		for i := 1; i < len(q.Sizes); i++ {
			l := classic.Layer{
				Weights: next[float32](c, q.Sizes[i-1]*q.Sizes[i]),
				Bias:    next[float32](c, q.Sizes[i]),
			}
			policy.Network.Layers = append(policy.Network.Layers, l)
		}
		policy.Network.Noise = next[float32](c, q.Noise)
	}
	terminated, truncated := next[bool](c, asked("terminated")), next[bool](c, asked("truncated"))
	if c.err == nil && len(c.buffer) > 0 {
		c.err = fmt.Errorf("a buffer with %d bytes more than asked for", len(c.buffer))
	}
	policy.Uniform = q.Uniform
	for k := range q.Steps {
		r := classic.Transition{
			States:       part(states, k, n*s),
			Rewards:      part(rewards, k, n),
			Observations: part(observations, k, n*d),
			Final:        part(final, k, n*d),
			Terminated:   part(terminated, k, n),
			Truncated:    part(truncated, k, n),
		}
		var chosen classic.Actions
		if row := part(given, k, n); task.Actions > 0 {
			chosen.Discrete = row
		} else if row != nil {
			chosen.Continuous = unsafe.Slice((*float32)(unsafe.Pointer(&row[0])), n)
		}
		if q.Table {
			policy.Recorded = append(policy.Recorded, chosen)
		} else {
			r.Actions = chosen
		}
		record = append(record, r)
	}
	if len(q.Record) == 0 {
		record = nil
	}
	return policy, record, c.err
}

// part is row k of rows of n, nil of none.
func part[T any](all []T, k, n int) []T {
	if len(all) == 0 {
		return nil
	}
	return all[k*n : (k+1)*n : (k+1)*n]
}

// totals writes rewards and episodes of each environment, and answers the steps of all.
func totals(_ *task, e *environments, _ nothing, buffer []byte) (any, error) {
	c, n := &cursor{buffer: buffer}, e.Task().Num
	rewards, episodes := next[float64](c, n), next[int64](c, n)
	all := e.Totals()
	copy(rewards, all.Rewards)
	copy(episodes, all.Episodes)
	return map[string]any{"steps": all.Steps, "stats": e.Stats()}, c.err
}

// elapsed writes how many steps each episode has had, int32: 0 after a reset.
func elapsed(_ *task, e *environments, _ nothing, buffer []byte) (any, error) {
	s, err := e.Snapshot()
	if err != nil {
		return nil, usage(err)
	}
	c := &cursor{buffer: buffer}
	copy(next[int32](c, len(s.Elapsed)), s.Elapsed)
	return nothing{}, c.err
}

type placeAnswer struct {
	Handle int64 `json:"handle"`
	Num    int   `json:"num"`
	Steps  int64 `json:"steps"`
}

func describePlace(s *classic.Snapshot) (any, error) {
	return placeAnswer{Handle: put(s), Num: len(s.Elapsed), Steps: s.Steps}, nil
}

// snapshotEnvironments is where the environments are.
func snapshotEnvironments(_ *task, e *environments, _ nothing, _ []byte) (any, error) {
	s, err := e.Snapshot()
	if err != nil {
		return nil, usage(err)
	}
	return describePlace(s)
}

// restoreEnvironments has them go on from a snapshot, and writes the observations, (D, N).
func restoreEnvironments(
	_ *task, e *environments, q struct{ Snapshot int64 }, buffer []byte,
) (any, error) {
	s, err := get[*classic.Snapshot](q.Snapshot)
	if err != nil {
		return nil, err
	}
	if err := e.Restore(s); err != nil {
		return nil, usage(err)
	}
	observations, err := floats[float32](buffer, len(e.Task().Observation)*e.Task().Num)
	e.Observe(observations, nil)
	return nothing{}, err
}

// placeBytes writes a snapshot down, if the buffer has room, and answers how many bytes it has.
func placeBytes(_ *task, s *classic.Snapshot, _ nothing, buffer []byte) (any, error) {
	data, err := archive.Marshal(s)
	copy(buffer, data)
	return len(data), err
}

func readPlace(_ *task, _ int64, _, buffer []byte) (any, error) {
	s, err := archive.Unmarshal(buffer)
	if err != nil {
		return nil, usage(err)
	}
	return describePlace(s)
}

// forkEnvironments is a snapshot of some of a snapshot's environments.
func forkEnvironments(_ *task, e *environments, q struct {
	Snapshot int64
	Index    []int
}, _ []byte) (any, error) {
	s, err := get[*classic.Snapshot](q.Snapshot)
	if err != nil {
		return nil, err
	}
	forked, err := s.Fork(e.Task(), q.Index)
	if err != nil {
		return nil, usage(err)
	}
	return describePlace(forked)
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
