//go:build cgo

package native

import (
	"context"
	"fmt"
	"time"

	"lockstep"
	"lockstep/engines"
	"lockstep/snapshotfile"
)

// roll is rollouts that Python steers, one step at a time.
type roll struct {
	turn
	n         int
	simulator *simulator
	jobs      []lockstep.Job
	stepper   lockstep.Stepper
	err       error         // of the last step
	unseen    bool          // there were steps on the device of which the host knows nothing
	spent     time.Duration // in the engine's steps

	rows []float32 // observations for environments
	ran  []bool    // which rollouts the last step of episodes computed
}

type resetRequest struct {
	Routes    int64
	Positions []int
	Step      int  // the first that Python steers
	Draws     int  // how many are given for each rollout, 0 for the route's own
	Whole     bool // to the routes' ends, not to where costs end
}

type resetAnswer struct {
	Handle    int64   `json:"handle"`
	Lataccels uintptr `json:"lataccels"` // on the device, see lockstep.DeviceStepper; 0 without one
}

// reset begins rollouts and goes on with them to a step, up to which the recorded
// commands steer. The buffer has their draws, if any are given.
func reset(t *task, s *simulator, q resetRequest, buffer []byte) (any, error) {
	picked, err := pick(q.Routes, q.Positions)
	if err != nil {
		return nil, err
	}
	draws, err := floats[float64](buffer, q.Draws*len(picked))
	if err != nil {
		return nil, err
	}
	r := &roll{
		turn:      newTurn(),
		n:         len(picked),
		simulator: s,
		jobs:      make([]lockstep.Job, len(picked)),
	}
	for i, route := range picked {
		r.jobs[i].Route = route
		if q.Draws > 0 {
			r.jobs[i].Draws = append([]float64(nil), draws[i*q.Draws:][:q.Draws]...)
		}
	}
	options := lockstep.Options{Shortcuts: lockstep.CostOnly}
	if q.Whole {
		options.Shortcuts = lockstep.FullTrajectory
	}
	if r.stepper, err = s.Reset(context.Background(), r.jobs, options); err != nil {
		return nil, usage(err)
	}
	commands, lataccels := make([]float64, r.n), make([]float64, r.n)
	for r.stepper.Index() < q.Step && !r.stepper.Done() {
		err := t.Err()
		if err == nil {
			err = r.stepper.Step(t, commands, lataccels)
		}
		if err != nil {
			r.stepper.Close()
			return nil, err
		}
	}
	a := resetAnswer{Handle: put(r)}
	if d, ok := r.stepper.(lockstep.DeviceStepper); ok {
		a.Lataccels = d.DeviceLataccels()
	}
	return a, nil
}

func (r *roll) Close() error { return r.last(r.stepper.Close) }

// step computes a step, as soon as calls of other threads are over.
func (r *roll) step(commands, lataccels []float64) error {
	ctx := context.Background()
	if err := r.acquire(ctx); err != nil {
		return err
	}
	defer r.release()
	return r.stepIn(ctx, commands, lataccels)
}

func (r *roll) stepIn(ctx context.Context, commands, lataccels []float64) (err error) {
	defer func() { r.err = err }()
	defer recovered(&err)
	index := r.stepper.Index()
	if r.stepper.Done() {
		return usagef("the rollouts have ended, at step %d: reset", index)
	}
	if err := r.sync(ctx); err != nil {
		return err
	}
	running := int64(0) // who has ended is not computed
	for i := range r.n {
		if r.stepper.Running(i) {
			running++
		}
	}
	start := time.Now()
	err = r.stepper.Step(ctx, commands, lataccels)
	r.spent += time.Since(start)
	r.simulator.counts.Rolled(start, 0, running)
	return err
}

// stepOnDevice begins a step with commands and lataccels at addresses of the device's
// memory.
func (r *roll) stepOnDevice(commands, lataccels uintptr) (err error) {
	if err := r.acquire(context.Background()); err != nil {
		return err
	}
	defer r.release()
	defer func() { r.err = err }()
	defer recovered(&err)
	d, err := r.device()
	if err != nil {
		return err
	}
	if r.stepper.Done() {
		return usagef("the rollouts have ended, at step %d: reset", r.stepper.Index())
	}
	r.unseen = true
	return d.StepOnDevice(commands, lataccels)
}

func (r *roll) device() (lockstep.DeviceStepper, error) {
	d, ok := r.stepper.(lockstep.DeviceStepper)
	if !ok {
		return nil, usagef("the %s engine has no steps on a device", r.simulator.Name())
	}
	return d, nil
}

// sync learns what steps on the device have come to.
func (r *roll) sync(ctx context.Context) error {
	if !r.unseen {
		return nil
	}
	d, err := r.device()
	if err == nil {
		err = d.Sync(ctx)
	}
	r.unseen = err != nil
	return err
}

// synchronize waits for steps on the device. The buffer receives the lataccels.
func synchronize(t *task, r *roll, _ nothing, buffer []byte) (any, error) {
	lataccels, err := floats[float64](buffer, r.n)
	if err == nil {
		err = r.sync(t)
	}
	if err != nil {
		return nil, err
	}
	for i := range lataccels {
		lataccels[i] = r.stepper.Lataccel(i)
	}
	return nothing{}, nil
}

type streamRequest struct{ Stream uintptr }

// ordered is an object whose work on a device can be ordered with the caller's.
type ordered interface {
	order() (lockstep.DeviceOrder, error)
}

func (r *roll) order() (lockstep.DeviceOrder, error) { return r.device() }

// follow has what is begun from now on wait for a stream of the device.
func follow(_ *task, o ordered, q streamRequest, _ []byte) (any, error) {
	d, err := o.order()
	if err == nil {
		err = d.Follow(q.Stream)
	}
	return nothing{}, err
}

// precede has a stream of the device wait for what was begun so far.
func precede(_ *task, o ordered, q streamRequest, _ []byte) (any, error) {
	d, err := o.order()
	if err == nil {
		err = d.Precede(q.Stream)
	}
	return nothing{}, err
}

// step is stepIn for many rollouts: the buffer has commands, then lataccels.
func step(t *task, r *roll, _ nothing, buffer []byte) (any, error) {
	both, err := floats[float64](buffer, 2*r.n)
	if err != nil {
		return nil, err
	}
	return nothing{}, r.stepIn(t, both[:r.n], both[r.n:])
}

type whyAnswer struct {
	Step   int              `json:"step"`
	Done   bool             `json:"done"`
	Spent  float64          `json:"spent"`  // seconds in the engine's steps
	Error  *failure         `json:"error"`  // of the last step
	Errors map[int]*failure `json:"errors"` // of rollouts
}

// why says where the rollouts are, and what failed.
func why(t *task, r *roll, _ nothing, _ []byte) (any, error) {
	if r.err == nil {
		if err := r.sync(t); err != nil {
			return nil, err
		}
	}
	a := whyAnswer{
		Step:   r.stepper.Index(),
		Done:   r.stepper.Done(),
		Spent:  r.spent.Seconds(),
		Errors: map[int]*failure{},
	}
	if r.err != nil {
		a.Error = describe(r.err)
	}
	for i := range r.n {
		if err := r.stepper.Err(i); err != nil {
			a.Errors[i] = describe(err)
		}
	}
	return a, nil
}

// costs writes three costs for each rollout, NaN where one has not ended.
func costs(t *task, r *roll, _ nothing, buffer []byte) (any, error) {
	out, err := floats[float64](buffer, 3*r.n)
	if err != nil {
		return nil, err
	}
	results, err := r.stepper.Results(t)
	if err != nil {
		return nil, err
	}
	for i, result := range results {
		put3(out[3*i:], result)
	}
	return nothing{}, nil
}

// features writes the observation of each rollout at the next step; 0 for one that has
// ended or failed.
func features(t *task, r *roll, _ nothing, buffer []byte) (any, error) {
	out, err := floats[float32](buffer, lockstep.ObservationSize*r.n)
	if err != nil {
		return nil, err
	}
	return nothing{}, r.observe(t, out)
}

type intoRequest struct{ Into uintptr }

type addressAnswer struct {
	Address uintptr `json:"address"`
}

// deviceFeatures is features in the device's memory, at an address there, or in an array of
// the rollouts' own if that is 0. It answers where, and waits for nothing.
func deviceFeatures(_ *task, r *roll, q intoRequest, _ []byte) (any, error) {
	d, err := r.device()
	if err != nil {
		return nil, err
	}
	at, err := d.ObserveOnDevice(q.Into)
	return addressAnswer{at}, err
}

// observe computes the observations of the rollouts.
func (r *roll) observe(ctx context.Context, into []float32) error {
	if err := r.sync(ctx); err != nil {
		return err
	}
	if index := r.stepper.Index(); index < lockstep.ControlStartIdx {
		return usagef(
			"step %d: there are observations from step %d on", index, lockstep.ControlStartIdx,
		)
	}
	return r.stepper.Observe(ctx, into)
}

// A snapshot belongs to no rollouts.
func takeSnapshot(t *task, r *roll, _ nothing, _ []byte) (any, error) {
	s, err := r.stepper.Snapshot(t)
	if err != nil {
		return nil, err
	}
	return describeSnapshot(s), nil
}

type snapshotAnswer struct {
	Handle int64    `json:"handle"`
	Step   int      `json:"step"`
	Routes []string `json:"routes"`
	Bytes  int      `json:"bytes"` // that it has when written down
}

func describeSnapshot(s *lockstep.Snapshot) snapshotAnswer {
	a := snapshotAnswer{Handle: put(s), Step: s.Step}
	for i := range s.Rollouts {
		a.Routes = append(a.Routes, s.Rollouts[i].Route)
	}
	if data, err := snapshotfile.Marshal(s); err == nil {
		a.Bytes = len(data)
	}
	return a
}

// snapshotBytes writes a snapshot down.
func snapshotBytes(_ *task, s *lockstep.Snapshot, _ nothing, buffer []byte) (any, error) {
	data, err := snapshotfile.Marshal(s)
	if err == nil && copy(buffer, data) != len(data) {
		err = fmt.Errorf("a buffer of %d bytes for %d", len(buffer), len(data))
	}
	return nothing{}, err
}

func readSnapshot(_ *task, _ int64, _, buffer []byte) (any, error) {
	s, err := snapshotfile.Unmarshal(buffer)
	if err != nil {
		return nil, usage(err)
	}
	return describeSnapshot(s), nil
}

// restore puts rollouts back to where they were in a snapshot.
func restore(t *task, r *roll, q struct{ Snapshot int64 }, _ []byte) (any, error) {
	s, err := get[*lockstep.Snapshot](q.Snapshot)
	if err != nil {
		return nil, err
	}
	if err := r.stepper.Restore(t, s); err != nil {
		return nil, usage(err)
	}
	r.unseen = false
	return nothing{}, nil
}

type forkRequest struct {
	Snapshot int64
	Index    []int
	Noise    string
	Seeds    []uint32
}

// fork begins candidates from a snapshot of the rollouts.
func fork(t *task, r *roll, q forkRequest, _ []byte) (_ any, err error) {
	done, err := r.simulator.use(t)
	if err != nil {
		return nil, errSimulatorClosed
	}
	defer func() { err = done(err) }()
	s, err := get[*lockstep.Snapshot](q.Snapshot)
	if err != nil {
		return nil, err
	}
	kind, err := lockstep.ParseNoise(q.Noise)
	if err != nil {
		return nil, usage(err)
	}
	forked, err := r.stepper.Fork(t, s, q.Index, lockstep.Noise{Kind: kind, Seeds: q.Seeds})
	if err != nil {
		return nil, usage(err)
	}
	return resetAnswer{Handle: put(&forks{turn: newTurn(), n: len(q.Index), Stepper: forked})}, nil
}

// slopes writes how the next lataccels depend on what they are computed from. The buffer has the
// actions, then room for the lataccels and for engines.Variables numbers of each rollout.
func slopes(t *task, r *roll, q struct {
	Snapshot int64
	Nudges   engines.Nudges
}, buffer []byte) (_ any, err error) {
	done, err := r.simulator.use(t)
	if err != nil {
		return nil, errSimulatorClosed
	}
	defer func() { err = done(err) }()
	s, err := get[*lockstep.Snapshot](q.Snapshot)
	if err != nil {
		return nil, err
	}
	all, err := floats[float64](buffer, r.n*(2+engines.Variables))
	if err != nil {
		return nil, err
	}
	found, err := engines.NextSlopes(t, r.simulator, r.jobs, s, all[:r.n], q.Nudges)
	if err != nil {
		return nil, usage(err)
	}
	copy(all[r.n:], found.Lataccel)
	copy(all[2*r.n:], found.By)
	return nothing{}, nil
}

// forks are candidates that were begun from a snapshot.
type forks struct {
	turn
	lockstep.Stepper
	n int
}

func (f *forks) Close() error { return f.last(f.Stepper.Close) }

// advance rolls candidates on. The buffer has the commands, then room for the costs and,
// if asked for, the trajectories.
func advance(t *task, f *forks, q struct {
	Steps      int
	Trajectory bool
}, buffer []byte) (any, error) {
	n, more := q.Steps*f.n, 0
	if q.Trajectory {
		more = n
	}
	all, err := floats[float64](buffer, n+f.n+more)
	if err != nil {
		return nil, err
	}
	var lataccels []float64
	if q.Trajectory {
		lataccels = all[n+f.n:]
	}
	clear(all[n : n+f.n])
	err = f.Roll(t, all[:n], all[n:n+f.n], lataccels)
	if err != nil && f.Done() {
		err = usage(err)
	}
	return nothing{}, err
}

// at is the step that candidates compute next.
func at(_ *task, f *forks, _ nothing, _ []byte) (any, error) { return f.Index(), nil }
