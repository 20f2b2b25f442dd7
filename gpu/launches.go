package gpu

import (
	"bytes"
	"fmt"
	"time"

	"lockstep"
	"lockstep/internal/guard"
)

// outcome is what a task came to.
type outcome struct {
	task   *task
	result lockstep.Result
	step   int // at which it failed
	err    error
}

// report gives a task's result to the caller.
func (r *run) report(t *task, result lockstep.Result) {
	if t.done || r.stopped {
		return
	}
	t.done = true
	r.stopped = !r.yield(t.index, result)
}

// fail ends a task with an error; the step is left out if it is negative.
func (r *run) fail(t *task, step int, err error) {
	name, at := "", ""
	if t.job.Route != nil {
		name = t.job.Route.Name
	}
	if step >= 0 {
		at = fmt.Sprintf(", step %d", step)
	}
	r.report(
		t,
		lockstep.Result{
			Err: fmt.Errorf("route %s, controller %v%s: %w", name, t.job.Policy, at, err),
		},
	)
}

func (r *run) failAll(tasks []*task, step int, err error) {
	for _, t := range tasks {
		r.fail(t, step, err)
	}
}

// launches runs a group whose controllers are on the device.
func (r *run) launches(g *group) {
	for tasks := g.tasks; len(tasks) > 0 && !r.stopped; {
		outcomes, err := r.launch(tasks, g.kind)
		if err != nil {
			r.failed = err
			r.failAll(tasks, -1, err)
			return
		}
		tasks = tasks[len(outcomes):]
		for _, o := range outcomes {
			if o.err != nil {
				r.fail(o.task, o.step, o.err)
			} else {
				r.report(o.task, o.result)
			}
		}
	}
}

// launch runs as many of the tasks as fit the device's memory: in one launch,
// or if the traces of a single one do not, in several.
func (r *run) launch(tasks []*task, k kind) ([]outcome, error) {
	var b *batch
	var trace []byte
	var outcomes []outcome
	begin := time.Now()
	err := r.use(r.ctx, nil, func(c *connection) (err error) {
		if b, err = r.load(c, tasks, k, r.opts.Shortcuts); err != nil {
			return err
		}
		for _, t := range b.tasks {
			outcomes = append(outcomes, outcome{task: t})
		}
		b.aim(lockstep.ContextLength)
		if err := b.launch(k.policies); err != nil {
			return err
		}
		trace, err = r.collect(b, k, outcomes)
		return err
	})
	if err != nil {
		return nil, err
	}
	defer b.release()
	for {
		if r.config.Timed {
			r.statsMutex.Lock()
			r.wall += time.Since(begin)
			r.statsMutex.Unlock()
		}
		for j := range outcomes {
			r.replay(b, trace, j, &outcomes[j])
		}
		if int(b.block.End) == b.shape.stride {
			return outcomes, nil
		}
		begin = time.Now()
		err := r.use(r.ctx, b.on, func(c *connection) (err error) {
			b.aim(int(b.block.End))
			if err := b.launch(k.policies); err != nil {
				return err
			}
			trace, err = r.collect(b, k, outcomes)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
}

// collect ends a launch. What observers are to see is copied, since they are called when
// others may have the device and its buffers.
func (r *run) collect(b *batch, k kind, outcomes []outcome) (trace []byte, err error) {
	last := int(b.block.End) == b.shape.stride
	to := b.at.lataccel
	if last {
		to = b.shape.downEnd(b.at)
	}
	from := b.at.trace
	if k.kept && !k.traced {
		from = b.at.status
	}
	if err := b.fetch(r.ctx, from, to); err != nil {
		return nil, err
	}
	trace = bytes.Clone(b.down(b.at.trace, b.at.status))
	statuses := b.statuses()
	for j := range outcomes {
		o := &outcomes[j]
		if o.err == nil {
			o.err, o.step = statuses[j].err(o.task.job.Policy), int(statuses[j].Step)
		}
		if !last || o.err != nil {
			continue
		}
		o.result = b.result(j)
		r.tally(statuses[j])
		if k.kept {
			if err := r.kept.record(b, j); err != nil {
				return nil, err
			}
		} else if k.training {
			b.record(r.training, j)
		}
	}
	return trace, nil
}

// replay shows a task's observer the steps of the last launch.
func (r *run) replay(b *batch, trace []byte, j int, o *outcome) {
	if !b.shape.traced {
		return
	}
	end := min(int(b.block.End), o.task.end)
	if o.err != nil {
		end = min(end, o.step)
	}
	records := view[traceBlock](trace, b.shape.jobs*b.shape.steps)[j*b.shape.steps:]
	for step := int(b.block.First); step < end; step++ {
		err := r.ctx.Err() // an observer may have ended it
		if err == nil {
			err = observe(o.task.job, step, &records[step-int(b.block.First)])
		}
		if err != nil {
			o.err, o.step = err, step
			return
		}
	}
}

// observe shows a job's observer one step.
func observe(job *lockstep.Job, step int, t *traceBlock) error {
	s := lockstep.Step{
		Index:      step,
		Action:     t.Action,
		Draw:       t.Draw,
		Sample:     int(t.Sample),
		Prediction: t.Prediction,
		Lataccel:   t.Lataccel,
	}
	if t.Network != 0 {
		s.Tokens, s.States, s.Logits, s.Probs, s.CDF = t.Tokens[:], t.States[:], t.Logits[:],
			t.Probs[:], t.CDF[:]
	}
	if n, ok := job.Policy.(*lockstep.Network); ok && step >= lockstep.ControlStartIdx {
		s.Observation, s.Actor, s.Raw = t.Observation[:n.Inputs()], t.Actor[:], t.Raw
	}
	return guard.Do(func() { job.Observe(&s) })
}
