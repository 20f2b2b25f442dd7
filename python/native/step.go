//go:build cgo

package native

import (
	"context"
	"fmt"
	"time"

	"lockstep"
	"lockstep/internal/snapshot"
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

	// What the rollouts did, in the form from which observations are made, and steps that
	// are not in it yet: commands and lataccels.
	experience *lockstep.Experience
	unwritten  []float64
	places     []lockstep.Place
	rows       []float32

	ran []bool // which rollouts the last step of episodes computed
}

type resetRequest struct {
	Routes    int64
	Positions []int
	Step      int // the first that Python steers
	Draws     int // how many are given for each rollout, 0 for the route's own
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
	r := &roll{turn: newTurn(), n: len(picked), simulator: s, jobs: make([]lockstep.Job, len(picked))}
	for i, route := range picked {
		r.jobs[i].Route = route
		if q.Draws > 0 {
			r.jobs[i].Draws = append([]float64(nil), draws[i*q.Draws:][:q.Draws]...)
		}
	}
	r.experience = newExperience(r.jobs)
	if r.stepper, err = s.Reset(context.Background(), r.jobs, lockstep.Options{Shortcuts: lockstep.CostOnly}); err != nil {
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

// newExperience is that of rollouts without a network.
func newExperience(jobs []lockstep.Job) *lockstep.Experience {
	n := len(jobs) * lockstep.ExperienceSteps
	return &lockstep.Experience{
		Jobs: jobs, Results: make([]lockstep.Result, len(jobs)),
		Lataccel: make([]float64, n), Action: make([]float64, n),
	}
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
	start := time.Now()
	err = r.stepper.Step(ctx, commands, lataccels)
	r.spent += time.Since(start)
	if err != nil {
		return err
	}
	if index >= lockstep.ControlStartIdx {
		r.unwritten = append(append(r.unwritten, commands...), lataccels...)
	}
	return nil
}

// write enters the steps since it was last called into the experience, for one rollout
// after the other: each has memory of its own, which a step alone would touch for one number.
func (r *roll) write() {
	steps := len(r.unwritten) / (2 * max(r.n, 1))
	first := r.stepper.Index() - lockstep.ControlStartIdx - steps
	for i := range r.n {
		for k := range min(steps, lockstep.ExperienceSteps-first) {
			at, row := i*lockstep.ExperienceSteps+first+k, r.unwritten[2*r.n*k:]
			r.experience.Action[at] = min(max(row[i], lockstep.SteerMin), lockstep.SteerMax)
			r.experience.Lataccel[at] = row[r.n+i]
		}
	}
	r.unwritten = r.unwritten[:0]
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
	if err == nil {
		r.unseen = false
		err = r.remember(ctx)
	}
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
	a := whyAnswer{Step: r.stepper.Index(), Done: r.stepper.Done(), Spent: r.spent.Seconds(), Errors: map[int]*failure{}}
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
	const size = lockstep.ObservationSize
	out, err := floats[float32](buffer, size*r.n)
	if err != nil {
		return nil, err
	}
	rows, err := r.observe(t)
	if err != nil {
		return nil, err
	}
	clear(out)
	for k, p := range r.places {
		copy(out[p.Rollout*size:], rows[k*size:][:size])
	}
	return nothing{}, nil
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

// observe computes the observations of the rollouts that run: one row for each of the
// places, which it sets. They are overwritten by the next.
func (r *roll) observe(ctx context.Context) ([]float32, error) {
	if err := r.sync(ctx); err != nil {
		return nil, err
	}
	index := r.stepper.Index()
	if index < lockstep.ControlStartIdx {
		return nil, usagef("step %d: there are observations from step %d on", index, lockstep.ControlStartIdx)
	}
	r.write()
	r.places = r.places[:0]
	for i := range r.n {
		if r.stepper.Running(i) {
			r.places = append(r.places, lockstep.Place{Rollout: i, Step: index - lockstep.ControlStartIdx})
		}
	}
	if r.rows == nil {
		r.rows = make([]float32, r.n*lockstep.ObservationSize)
	}
	rows := r.rows[:len(r.places)*lockstep.ObservationSize]
	if len(rows) == 0 {
		return rows, nil
	}
	return rows, r.simulator.Observe(r.experience, r.places, rows)
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
	if data, err := snapshot.Marshal(s); err == nil {
		a.Bytes = len(data)
	}
	return a
}

// snapshotBytes writes a snapshot down.
func snapshotBytes(_ *task, s *lockstep.Snapshot, _ nothing, buffer []byte) (any, error) {
	data, err := snapshot.Marshal(s)
	if err == nil && copy(buffer, data) != len(data) {
		err = fmt.Errorf("a buffer of %d bytes for %d", len(buffer), len(data))
	}
	return nothing{}, err
}

func readSnapshot(_ *task, _ int64, _, buffer []byte) (any, error) {
	s, err := snapshot.Unmarshal(buffer)
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
	r.take(s)
	return nothing{}, nil
}

// remember brings what the rollouts did from the device.
func (r *roll) remember(ctx context.Context) error {
	s, err := r.stepper.Snapshot(ctx)
	if err == nil {
		r.take(s)
	}
	return err
}

// take makes the experience that of a snapshot.
func (r *roll) take(s *lockstep.Snapshot) {
	r.experience, r.unwritten = newExperience(r.jobs), nil
	for i := range s.Rollouts {
		state := &s.Rollouts[i]
		for step := lockstep.ControlStartIdx; step < min(len(state.Lataccel), lockstep.CostEndIdx); step++ {
			at := i*lockstep.ExperienceSteps + step - lockstep.ControlStartIdx
			r.experience.Lataccel[at], r.experience.Action[at] = state.Lataccel[step], state.Action[step]
		}
	}
}

type forkRequest struct {
	Snapshot int64
	Index    []int
	Noise    string
	Seeds    []uint32
}

// fork begins candidates from a snapshot of the rollouts.
func fork(t *task, r *roll, q forkRequest, _ []byte) (any, error) {
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
