package gpu

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"lockstep"
	"lockstep/gpu/driver"
)

// A Stepper runs rollouts one step at a time, for controllers that live on the
// host. All state stays on the device: a step uploads a command for each job and
// downloads its lataccel. Jobs with the policies Zero and PID are steered by the
// device, which ignores their commands.
//
// A Stepper is for one goroutine at a time. After any error of Step, Snapshot or
// Restore but the context's, and after another run's failure on the same device,
// it is lost.
type Stepper struct {
	batch *batch
	step  int
	jobs  []stepped
	trace []byte // of the last step
}

// stepped is a job of a Stepper.
type stepped struct {
	lataccel float64
	err      error
	failed   int // step
}

// Reset puts rollouts of the jobs on the device, at step ContextLength. Either
// all of them have a teacher or none has. Close frees the memory.
func (s *Simulator) Reset(ctx context.Context, jobs []lockstep.Job, opts lockstep.Options) (*Stepper, error) {
	k := kind{commands: true, trajectory: opts.Trajectory}
	var tasks []*task
	for i := range jobs {
		t := &task{job: &jobs[i], index: i}
		if err := t.check(opts.Shortcuts, true); err != nil {
			name := ""
			if t.job.Route != nil {
				name = t.job.Route.Name
			}
			return nil, fmt.Errorf("job %d, route %s: %w", i, name, err)
		}
		if i > 0 && k.teacher != (t.job.Teacher != nil) {
			return nil, fmt.Errorf("job %d, route %s: either all jobs have a teacher or none has", i, t.job.Route.Name)
		}
		k.teacher = t.job.Teacher != nil
		k.draws = k.draws || t.job.Draws != nil
		k.traced = k.traced || t.job.Observe != nil
		tasks = append(tasks, t)
	}
	if len(tasks) == 0 {
		return nil, errors.New("no jobs")
	}
	p, err := s.reset(ctx, tasks, k, opts.Shortcuts)
	if err != nil {
		return nil, err
	}
	if n := len(p.jobs); n < len(jobs) {
		p.Close()
		return nil, fmt.Errorf("%d of %d rollouts fit the device's memory: %w", n, len(jobs), driver.ErrOutOfMemory)
	}
	return p, nil
}

// reset takes as many of the tasks as fit.
func (s *Simulator) reset(ctx context.Context, tasks []*task, k kind, shortcuts lockstep.Shortcuts) (*Stepper, error) {
	p := &Stepper{step: lockstep.ContextLength}
	err := s.use(ctx, nil, func(c *connection) (err error) {
		if p.batch, err = s.load(c, tasks, k, shortcuts); err != nil {
			return err
		}
		return s.synchronize(context.WithoutCancel(ctx), c, 0)
	})
	if err != nil {
		return nil, err
	}
	for _, t := range p.batch.tasks {
		p.jobs = append(p.jobs, stepped{lataccel: t.job.Route.TargetLataccel[lockstep.ContextLength-1]})
	}
	return p, nil
}

// Close frees the device's memory.
func (p *Stepper) Close() { p.batch.release() }

// Index is the step that Step computes next.
func (p *Stepper) Index() int { return p.step }

// Running tells whether a job has not ended and not failed.
func (p *Stepper) Running(job int) bool {
	return p.jobs[job].err == nil && p.step < p.batch.tasks[job].end
}

// Done tells whether no job runs.
func (p *Stepper) Done() bool {
	for j := range p.jobs {
		if p.Running(j) {
			return false
		}
	}
	return true
}

// Lataccel is a job's lataccel in m/s², after the last step.
func (p *Stepper) Lataccel(job int) float64 { return p.jobs[job].lataccel }

// Err is why a job failed, and at which step, or nil.
func (p *Stepper) Err(job int) (int, error) { return p.jobs[job].failed, p.jobs[job].err }

// Step computes one step with a command for each job, which is clipped to
// [SteerMin, SteerMax], and returns their lataccels in m/s². The last one is
// repeated for a job that has ended, and NaN is that of a job that failed.
func (p *Stepper) Step(ctx context.Context, commands []float64) ([]float64, error) {
	b := p.batch
	if len(commands) != len(p.jobs) {
		return nil, fmt.Errorf("%d commands for %d jobs", len(commands), len(p.jobs))
	}
	if p.step >= b.shape.stride {
		return nil, fmt.Errorf("step %d: all rollouts have ended", p.step)
	}
	err := b.simulator.use(ctx, b.on, func(c *connection) error {
		b.aim(p.step)
		copy(up[float64](b, b.at.commands, len(commands)), commands)
		if err := c.Upload(b.device(b.at.commands), b.buffer.host[b.at.commands:b.at.routes]); err != nil {
			return err
		}
		if err := b.launch(); err != nil {
			return err
		}
		// A step is short, so that a context's end can wait for it; the device
		// would be lost otherwise.
		if err := b.fetch(context.WithoutCancel(ctx), b.at.trace, b.at.costs); err != nil {
			return err
		}
		for j, status := range b.statuses() {
			s := &p.jobs[j]
			if s.err != nil {
				continue
			}
			if s.err = status.err(); s.err != nil {
				s.failed = int(status.Step)
			} else {
				s.lataccel = status.Value
			}
		}
		if b.shape.traced {
			p.trace = append(p.trace[:0], b.down(b.at.trace, b.at.status)...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	p.observe()
	p.step++
	out := make([]float64, len(p.jobs))
	for j, s := range p.jobs {
		out[j] = s.lataccel
		if s.err != nil {
			out[j] = math.NaN()
		}
	}
	return out, nil
}

// observe shows the step to the observers. One that panics fails its job.
func (p *Stepper) observe() {
	if !p.batch.shape.traced {
		return
	}
	records := view[traceBlock](p.trace, len(p.jobs))
	for j := range p.jobs {
		if job := p.batch.tasks[j].job; job.Observe != nil && p.Running(j) {
			if err := observe(job, p.step, &records[j]); err != nil {
				p.fail(j, err)
			}
		}
	}
}

// fail ends a job.
func (p *Stepper) fail(j int, err error) { p.jobs[j].err, p.jobs[j].failed = err, p.step }

// Results are those of the jobs that have ended. The others' have an error.
func (p *Stepper) Results(ctx context.Context) ([]lockstep.Result, error) {
	b := p.batch
	results := make([]lockstep.Result, len(p.jobs))
	err := b.simulator.use(ctx, b.on, func(c *connection) error {
		if err := b.fetch(context.WithoutCancel(ctx), b.at.status, b.shape.downEnd(b.at)); err != nil {
			return err
		}
		for j := range results {
			switch s := p.jobs[j]; {
			case s.err != nil:
				results[j].Err = fmt.Errorf("route %s, step %d: %w", b.tasks[j].job.Route.Name, s.failed, s.err)
			case p.Running(j):
				results[j].Err = fmt.Errorf("route %s: the rollout is at step %d of %d", b.tasks[j].job.Route.Name, p.step, b.tasks[j].end)
			default:
				results[j] = b.result(j)
			}
		}
		return nil
	})
	return results, err
}

// A Snapshot is the state of a Stepper's rollouts after some step, in the
// device's memory.
type Snapshot struct {
	of     *Stepper
	step   int
	jobs   []stepped
	device driver.Pointer
}

// Snapshot keeps the rollouts' state for Restore. Release frees its memory.
func (p *Stepper) Snapshot() (*Snapshot, error) {
	b := p.batch
	s := &Snapshot{of: p, step: p.step, jobs: slices.Clone(p.jobs)}
	ctx := context.Background()
	err := b.simulator.use(ctx, b.on, func(c *connection) (err error) {
		if s.device, err = c.Allocate(b.at.stateEnd - b.at.status); err != nil {
			return err
		}
		if err := c.Copy(s.device, b.device(b.at.status), b.at.stateEnd-b.at.status); err != nil {
			return err
		}
		return b.simulator.synchronize(ctx, c, 0)
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Restore takes the rollouts back to where they were when the snapshot was made.
func (p *Stepper) Restore(s *Snapshot) error {
	b := p.batch
	if s.of != p {
		return errors.New("the snapshot is of other rollouts")
	}
	if s.device == 0 {
		return errors.New("the snapshot has been released")
	}
	ctx := context.Background()
	err := b.simulator.use(ctx, b.on, func(c *connection) error {
		if err := c.Copy(b.device(b.at.status), s.device, b.at.stateEnd-b.at.status); err != nil {
			return err
		}
		return b.simulator.synchronize(ctx, c, 0)
	})
	if err != nil {
		return err
	}
	p.step, p.jobs = s.step, slices.Clone(s.jobs)
	return nil
}

// Release frees the snapshot's memory.
func (s *Snapshot) Release() {
	if s.device != 0 {
		b := s.of.batch
		b.simulator.use(context.Background(), b.on, func(c *connection) error { return c.Release(s.device) })
		s.device = 0
	}
}
