package gpu

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"lockstep"
	"lockstep/gpu/internal/driver"
	"lockstep/internal/stepping"
)

// Reset puts rollouts of the jobs on the device, at step ContextLength. All state
// stays there: a step uploads a command for each job and downloads its lataccel.
// Jobs with native policies are steered by the device. After another run's failure on
// the same device the rollouts are lost.
func (s *Simulator) Reset(
	ctx context.Context, jobs []lockstep.Job, opts lockstep.Options,
) (lockstep.Stepper, error) {
	if err := stepping.Check(jobs, opts); err != nil {
		return nil, err
	}
	jobs = slices.Clone(jobs)
	k := kind{commands: true, trajectory: opts.Trajectory, teacher: jobs[0].Teacher != nil}
	var tasks []*task
	for i := range jobs {
		t := &task{job: &jobs[i], end: jobs[i].End(opts.Shortcuts)}
		k.draws = k.draws || t.job.Draws != nil
		k.traced = k.traced || t.job.Observe != nil
		k.policies = k.policies || beyondPID(t.job)
		tasks = append(tasks, t)
	}
	p, err := s.reset(ctx, tasks, k, opts)
	if err != nil {
		return nil, err
	}
	if n := len(p.engine.tasks); n < len(jobs) {
		return nil, errors.Join(
			p.engine.Close(stepping.Unheard),
			fmt.Errorf(
				"%d of %d rollouts fit the device's memory: %w", n, len(jobs),
				driver.ErrOutOfMemory,
			),
		)
	}
	for j, err := range p.engine.unmade {
		if err != nil {
			return nil, errors.Join(
				p.engine.Close(stepping.Unheard),
				fmt.Errorf("job %d: %w", j, jobs[j].Failed(0, err)),
			)
		}
	}
	return p, nil
}

// stepper is a lockstep.Stepper whose rollouts are on the device.
type stepper struct {
	*stepping.Stepper
	engine *rollouts
}

// reset takes as many of the tasks as fit.
func (s *Simulator) reset(
	ctx context.Context, tasks []*task, k kind, opts lockstep.Options,
) (*stepper, error) {
	r := &rollouts{}
	err := s.use(ctx, nil, func(c *connection) (err error) {
		if r.batch, err = s.load(c, tasks, k, opts.Shortcuts); err != nil {
			return err
		}
		return s.synchronize(context.WithoutCancel(ctx), c, 0)
	})
	if err != nil {
		return nil, err
	}
	r.tasks = r.batch.tasks
	r.start = lockstep.ContextLength
	if k.past != nil {
		r.start, r.restored = k.past.Step, k.past.Step
	}
	n := len(r.tasks)
	r.lataccel, r.action = make([][]float64, n), make([][]float64, n)
	r.command, r.running, r.memory = make([]float64, n), make([]bool, n), make([]memoryBlock, n)
	jobs := make([]lockstep.Job, n)
	for j, t := range r.tasks {
		jobs[j] = *t.job
		r.lataccel[j], r.action[j] = make([]float64, t.end), make([]float64, t.end)
		lataccel, action := t.job.Route.TargetLataccel[:lockstep.ContextLength],
			t.job.Route.SteerCommand[:lockstep.ContextLength]
		if k.past != nil {
			lataccel, action = k.past.Rollouts[t.origin].Lataccel, k.past.Rollouts[t.origin].Action
		}
		copy(r.lataccel[j], lataccel)
		copy(r.action[j], action)
	}
	r.controllers = r.makeControllers()
	return &stepper{stepping.New(r, s, s.model, jobs, opts), r}, nil
}

var _ lockstep.DeviceStepper = (*stepper)(nil)

// StepOnDevice computes a step with commands and lataccels in the device's memory.
func (s *stepper) StepOnDevice(commands, lataccels uintptr) error {
	if err := s.Open(); err != nil {
		return err
	}
	if r := s.engine; len(r.controllers) > 0 || r.unmade != nil || r.batch.shape.traced {
		return errors.New(
			"a rollout has a controller or an observer on the host: step with the commands there",
		)
	}
	if lataccels == 0 {
		lataccels = s.DeviceLataccels()
	}
	return s.StepUnseen(func(step int) error {
		return s.engine.launchAt(step, driver.Pointer(commands), driver.Pointer(lataccels))
	})
}

// DeviceLataccels is where StepOnDevice writes lataccels if it is not told.
func (s *stepper) DeviceLataccels() uintptr {
	b := s.engine.batch
	return uintptr(b.device(b.at.now))
}

// ObserveOnDevice computes an observation of each rollout, with nothing from the host.
func (s *stepper) ObserveOnDevice(into uintptr) (uintptr, error) {
	if err := s.Open(); err != nil {
		return 0, err
	}
	const from, size = lockstep.ControlStartIdx, 4 * lockstep.ObservationSize
	step, r := s.Index(), s.engine
	if step < from {
		return 0, fmt.Errorf("step %d: there are observations from step %d on", step, from)
	}
	at := driver.Pointer(into)
	if err := r.begin(); err != nil {
		return 0, err
	}
	err := r.use(context.Background(), func(c *connection) error {
		if err := r.observe(c, step, &at); err != nil {
			return err
		}
		for j := range r.tasks { // of some failures the host alone knows
			if s.Err(j) == nil {
				continue
			}
			if err := c.Fill(at+driver.Pointer(size*j), 0, size); err != nil {
				return err
			}
		}
		return nil
	})
	return uintptr(at), err
}

// observe has the device compute an observation of each rollout at a step, into an array of
// the rollouts' own if no other is given.
func (r *rollouts) observe(c *connection, step int, into *driver.Pointer) (err error) {
	const from, size = lockstep.ControlStartIdx, 4 * lockstep.ObservationSize
	if *into == 0 {
		if r.observations == 0 {
			if r.observations, err = c.Allocate(int64(size * len(r.tasks))); err != nil {
				return err
			}
		}
		*into = r.observations
	}
	l := r.batch.block
	k := observingBlock{
		Step: int64(step), End: math.MaxInt64, Job: l.Job, Status: l.Status, Routes: l.Routes,
		RollLataccel: l.RollLataccel, VEgo: l.VEgo, AEgo: l.AEgo, Target: l.Target,
		Lataccel: l.Lataccel + 8*from, Action: l.Action + 8*from, Stride: l.Stride,
		Inputs: lockstep.ObservationSize, Out: *into,
	}
	if lockstep.Shortcuts(l.Shortcuts)&lockstep.StopAtCostEnd != 0 {
		k.End = lockstep.CostEndIdx
	}
	parameters := viewBytes([]observingBlock{k})
	return c.Launch("lockstep_observe", len(r.tasks), observeThreads, 0, parameters)
}

// use has the device that the rollouts are on.
func (r *rollouts) use(ctx context.Context, f func(*connection) error) error {
	return r.batch.simulator.use(ctx, r.batch.on, f)
}

// begin has the device put in its place what was before the first step, where none has been: draws,
// and histories of candidates.
func (r *rollouts) begin() error {
	if r.begun {
		return nil
	}
	return r.launch(r.start, r.start, nil)
}

// Observe computes observations on the device, and brings them.
func (r *rollouts) Observe(ctx context.Context, step int, running []int, into []float32) error {
	if err := r.begin(); err != nil {
		return err
	}
	const size = lockstep.ObservationSize
	all := make([]float32, len(into))
	err := r.use(context.WithoutCancel(ctx), func(c *connection) error {
		at := driver.Pointer(0)
		if err := r.observe(c, step, &at); err != nil {
			return err
		}
		if err := c.Download(viewBytes(all), at); err != nil {
			return err
		}
		return r.batch.simulator.synchronize(ctx, c, int64(len(r.tasks)))
	})
	if err != nil {
		return err
	}
	for _, j := range running {
		row := all[size*j:][:size]
		if k := slices.IndexFunc(row, func(x float32) bool { return x != x }); k >= 0 {
			return r.tasks[j].job.Failed(step, notObserved(nil, k))
		}
		copy(into[size*j:], row)
	}
	return nil
}

// Follow has the device wait for a stream.
func (s *stepper) Follow(stream uintptr) error {
	b := s.engine.batch
	return b.simulator.use(
		context.Background(), b.on, func(c *connection) error { return c.Follow(stream) },
	)
}

// Precede has a stream wait for the device.
func (s *stepper) Precede(stream uintptr) error {
	b := s.engine.batch
	return b.simulator.use(
		context.Background(), b.on, func(c *connection) error { return c.Precede(stream) },
	)
}

// Sync waits for the device and learns what failed.
func (s *stepper) Sync(ctx context.Context) error { return s.Fetch(ctx) }

// rollouts are those of a Stepper.
type rollouts struct {
	batch       *batch
	tasks       []*task
	controllers []*hosted
	unmade      []error // why jobs have no controller, by job; nil if all have
	command     []float64

	// What the host knows of them: lataccels of every step that it computed; actions
	// and memory of the last Fetch.
	lataccel, action [][]float64
	memory           []memoryBlock

	observations driver.Pointer // room for them on the device, or 0

	start    int    // the step at which they begin
	begun    bool   // the device has what was before, and the draws
	restored int    // the step that Restore has gone back to, if no launch came after it
	running  []bool // at the step that is computed
	fail     func(rollout int, err error)
}

// Step computes a step on the device. Its failure is that of all rollouts.
func (r *rollouts) Step(
	step int, running []int, commands []float64, fail func(rollout int, err error),
) {
	r.restored, r.fail = 0, fail
	clear(r.running)
	for _, j := range running {
		r.running[j] = true
		r.command[j] = commands[j]
		if r.unmade != nil && r.unmade[j] != nil {
			r.failJob(j, r.unmade[j])
		}
	}
	for _, c := range r.controllers {
		c.update(r, step)
	}
	var trace []byte
	err := r.launch(step, step+1, &trace)
	var records []traceBlock
	if trace != nil {
		records = view[traceBlock](trace, len(r.tasks))
	}
	for j, t := range r.tasks {
		switch {
		case !r.running[j]:
		case err != nil:
			r.failJob(j, err)
		default:
			status := r.batch.last[j]
			if failed := status.err(t.job.Policy); failed != nil {
				r.failJob(j, failed)
				continue
			}
			r.lataccel[j][step] = status.Value
			if t.job.Observe != nil {
				if failed := observe(t.job, step, &records[j]); failed != nil {
					r.failJob(j, failed)
				}
			}
		}
	}
}

// failJob ends a rollout of the step that is computed. The device does not know, and
// computes it to its end.
func (r *rollouts) failJob(j int, err error) {
	r.running[j] = false
	r.fail(j, err)
}

// launch runs steps on the device and downloads how the rollouts stand. A step is
// short, so that nobody's context need be able to end it; the device would be lost.
func (r *rollouts) launch(from, to int, trace *[]byte) error {
	b := r.batch
	ctx := context.Background()
	return b.simulator.use(ctx, b.on, func(c *connection) error {
		b.aim(from)
		b.block.End = int64(to)
		copy(up[float64](b, b.at.commands, len(r.command)), r.command)
		if err := c.Upload(b.device(b.at.commands),
			b.buffer.host[b.at.commands:b.at.routes]); err != nil {
			return err
		}
		if err := b.launch(b.shape.policies); err != nil {
			return err
		}
		begin := b.at.status
		if trace != nil && b.shape.traced {
			begin = b.at.trace
		}
		if err := b.fetch(ctx, begin, b.at.costs); err != nil {
			return err
		}
		r.begun = true
		b.last = slices.Clone(b.statuses())
		if trace != nil && b.shape.traced {
			*trace = slices.Clone(b.down(b.at.trace, b.at.status))
		}
		return nil
	})
}

// launchAt has the device compute a step, with commands and lataccels in its memory, and
// waits for nothing.
func (r *rollouts) launchAt(step int, commands, lataccels driver.Pointer) error {
	b := r.batch
	return b.simulator.use(context.Background(), b.on, func(*connection) error {
		b.aim(step) // the shape of a launch by commands has one step, so that this ends it, too
		b.block.Commands, b.block.Now = commands, lataccels
		defer func() { b.block.Commands, b.block.Now = b.device(b.at.commands), 0 }()
		r.begun, r.restored = true, 0
		return b.launch(b.shape.policies)
	})
}

// Failure is a rollout's, as of the last launch whose status came down.
func (r *rollouts) Failure(j int) (step int, err error) {
	status := r.batch.last[j]
	return int(status.Step), status.err(r.tasks[j].job.Policy)
}

// Fetch brings histories, memory and costs from the device.
func (r *rollouts) Fetch(ctx context.Context) error {
	if r.restored > 0 {
		if err := r.launch(r.restored, r.restored, nil); err != nil {
			return err
		}
		r.restored = 0
	}
	if !r.begun {
		return nil
	}
	b := r.batch
	return b.simulator.use(ctx, b.on, func(*connection) error {
		if err := b.fetch(context.WithoutCancel(ctx), b.at.status, b.at.stateEnd); err != nil {
			return err
		}
		lataccel := view[float64](b.down(b.at.lataccel, b.at.action), b.shape.jobs*b.shape.stride)
		action := view[float64](b.down(b.at.action, b.at.memory), b.shape.jobs*b.shape.stride)
		copy(r.memory, view[memoryBlock](b.down(b.at.memory, b.at.stateEnd), b.shape.jobs))
		for j := range r.tasks {
			copy(r.lataccel[j], lataccel[j*b.shape.stride:])
			copy(r.action[j], action[j*b.shape.stride:])
		}
		b.last = slices.Clone(b.statuses())
		b.finished = slices.Clone(view[costsBlock](b.down(b.at.costs, b.at.lataccel), b.shape.jobs))
		return nil
	})
}

func (r *rollouts) Histories(j int) (lataccel, action []float64) {
	return r.lataccel[j], r.action[j]
}

func (r *rollouts) Memory(j int) ([]float64, error) {
	switch policy := r.tasks[j].job.Policy.(type) {
	case nil:
		return nil, nil
	case lockstep.Native:
		return slices.Clone(r.memory[j][:len(policy.Kind().Info().Memory)]), nil
	}
	return nil, errors.New(
		"what the controller remembers cannot be kept: steer the rollout from outside, by a job " +
			"without a policy",
	)
}

// Restore uploads a rollout's histories and memory; a launch of no step then has the
// device take them up, and compute the costs of what has ended.
func (r *rollouts) Restore(j, step int, lataccel, action, memory []float64) error {
	if err := r.begin(); err != nil {
		return err
	}
	b := r.batch
	ctx := context.Background()
	r.restored = max(r.restored, step)
	copy(r.lataccel[j], lataccel)
	copy(r.action[j], action)
	r.memory[j] = memoryBlock{}
	copy(r.memory[j][:], memory)
	return b.simulator.use(ctx, b.on, func(c *connection) error {
		at := func(offset int64, size int64) driver.Pointer {
			return b.device(offset + int64(j)*size)
		}
		history := int64(8 * b.shape.stride)
		status := []statusBlock{{}} // it has not failed
		remembered := []memoryBlock{r.memory[j]}
		for _, u := range []struct {
			to   driver.Pointer
			data []byte
		}{
			{at(b.at.lataccel, history), viewBytes(lataccel)},
			{at(b.at.action, history), viewBytes(action)},
			{at(b.at.memory, int64(len(viewBytes(remembered)))), viewBytes(remembered)},
			{at(b.at.status, int64(len(viewBytes(status)))), viewBytes(status)},
		} {
			if err := c.Upload(u.to, u.data); err != nil {
				return err
			}
		}
		return b.simulator.synchronize(ctx, c, 0)
	})
}

// Result is that of the last Fetch.
func (r *rollouts) Result(j int) lockstep.Result {
	c := r.batch.finished[j]
	result := lockstep.Result{
		Costs: lockstep.Costs{Lataccel: c.Lataccel, Jerk: c.Jerk, Total: c.Total},
	}
	if r.batch.shape.trajectory {
		result.Trajectory = &lockstep.Trajectory{
			Target:   slices.Clone(r.tasks[j].job.Route.TargetLataccel[:r.tasks[j].end]),
			Lataccel: slices.Clone(r.lataccel[j]),
			Action:   slices.Clone(r.action[j]),
		}
	}
	return result
}

// Cost is the part of the total cost that a step has: 50·100/n·e² + 100/(n-1)·j² over
// the n steps that cost, the first without a jerk.
func (r *rollouts) Cost(j, step int) float64 {
	route := r.tasks[j].job.Route
	n := float64(min(route.Len(), lockstep.CostEndIdx) - lockstep.ControlStartIdx)
	e := route.TargetLataccel[step] - r.lataccel[j][step]
	cost := float64(lockstep.LatAccelCostMultiplier * 100 / n * float64(e*e))
	if step > lockstep.ControlStartIdx {
		d := (r.lataccel[j][step] - r.lataccel[j][step-1]) / lockstep.DelT
		cost += float64(100 / (n - 1) * float64(d*d))
	}
	return cost
}

// Close ends the controllers' use and frees the device's memory.
func (r *rollouts) Close(unclosed func(rollout int, err error)) error {
	for _, c := range r.controllers {
		if err := c.Close(); err != nil {
			unclosed(c.jobs[0], err)
		}
	}
	if r.observations != 0 {
		r.batch.simulator.use(
			context.Background(), r.batch.on,
			func(c *connection) error { return c.Release(r.observations) },
		)
	}
	r.batch.release()
	return nil
}
