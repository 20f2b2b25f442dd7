package reference

import (
	"context"
	"fmt"
	"slices"

	"lockstep"
	"lockstep/internal/guard"
	"lockstep/internal/stepping"
)

// Reset puts rollouts of the jobs at step ContextLength.
func (s *Simulator) Reset(
	ctx context.Context, jobs []lockstep.Job, opts lockstep.Options,
) (lockstep.Stepper, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if s.closed.Load() {
		return nil, lockstep.ErrClosed
	}
	if err := stepping.Check(jobs, opts); err != nil {
		return nil, err
	}
	jobs = slices.Clone(jobs)
	m := newTinyPhysicsModel(s.parameters, s.profile, s.kernels, opts.Shortcuts)
	r := &rollouts{opts: opts}
	for i := range jobs {
		o := &rollout{
			tinyPhysicsSimulator: newTinyPhysicsSimulator(m, &jobs[i], opts.Shortcuts),
			job:                  &jobs[i],
			done:                 func() error { return nil },
		}
		o.random = m.random
		r.all = append(r.all, o)
		var err error
		if jobs[i].Policy == nil {
			o.controller = &commanded{}
		} else if ended := guard.Do(func() {
			o.controller, o.done, err = newController(&jobs[i], s.kernels)
		}); ended != nil {
			err = ended
		}
		if err != nil {
			r.Close(stepping.Unheard)
			return nil, fmt.Errorf("job %d: %w", i, jobs[i].Failed(0, err))
		}
	}
	return stepping.New(r, s, s.model, jobs, opts), nil
}

// rollouts are those of a Stepper. They take turns at one model.
type rollouts struct {
	all  []*rollout
	opts lockstep.Options
}

// rollout is one of them.
type rollout struct {
	*tinyPhysicsSimulator
	job    *lockstep.Job
	random *Random
	done   func() error // ends the controller's use
}

func (r *rollouts) Step(
	_ int, running []int, commands []float64, fail func(rollout int, err error),
) {
	guard.Each(len(running), func(k int) {
		t := r.all[running[k]]
		t.simModel.random = t.random
		if c, ok := t.controller.(*commanded); ok {
			c.command = commands[running[k]]
		}
		if err := t.step(); err != nil {
			guard.Fail(err)
		}
	}, func(k int, err error) { fail(running[k], err) })
}

func (r *rollouts) Observe(_ context.Context, step int, running []int, into []float32) error {
	for _, i := range running {
		t, o := r.all[i], into[i*lockstep.ObservationSize:][:lockstep.ObservationSize]
		err := observe(o, t.data, step, t.currentLataccelHistory, t.actionHistory)
		if err != nil {
			return t.job.Failed(step, err)
		}
	}
	return nil
}

func (r *rollouts) Histories(i int) (lataccel, action []float64) {
	return r.all[i].currentLataccelHistory, r.all[i].actionHistory
}

func (r *rollouts) Memory(i int) ([]float64, error) {
	c, ok := r.all[i].controller.(rememberer)
	if !ok {
		return nil, fmt.Errorf(
			"what the controller remembers cannot be kept: steer the rollout from outside, by a " +
				"job without a policy",
		)
	}
	return c.memory(), nil
}

func (r *rollouts) Restore(i, step int, lataccel, action, memory []float64) error {
	t := r.all[i]
	if c, ok := t.controller.(rememberer); ok {
		c.remember(memory)
	}
	t.reset()
	t.random = t.simModel.random
	for ; t.stepIdx < step; t.stepIdx++ {
		t.stateHistory = append(t.stateHistory, t.data.State(t.stepIdx))
		t.targetLataccelHistory = append(t.targetLataccelHistory, t.data.TargetLataccel[t.stepIdx])
		t.random.Random()
	}
	t.currentLataccelHistory = append(t.currentLataccelHistory[:0], lataccel...)
	t.actionHistory = append(t.actionHistory[:0], action...)
	t.currentLataccel = lataccel[step-1]
	return nil
}

func (r *rollouts) Result(i int) lockstep.Result { return r.all[i].result(r.opts) }

func (r *rollouts) Cost(i, step int) float64 {
	return stepCost(r.all[i].data, step, r.all[i].currentLataccelHistory)
}

// Elsewhere is nowhere.
func (r *rollouts) Elsewhere() stepping.Elsewhere { return nil }

// Close ends the controllers' use.
func (r *rollouts) Close(unclosed func(rollout int, err error)) error {
	for i, o := range r.all {
		done := o.done
		o.done = func() error { return nil }
		if ended := guard.Do(func() {
			if err := done(); err != nil {
				guard.Fail(err)
			}
		}); ended != nil {
			unclosed(i, ended)
		}
	}
	return nil
}
