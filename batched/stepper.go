package batched

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"lockstep"
	"lockstep/internal/policies"
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
	each := (len(jobs) + s.config.Workers - 1) / s.config.Workers
	shape := s.fastest(each)
	shape.chunk = min(shape.chunk, max(each, 1))
	p := &stepped{opts: opts, gangs: map[*lockstep.Batch]*gang{}, chunk: shape.chunk}
	for i := range jobs {
		job := &jobs[i]
		create := begin
		if job.Policy == nil { // commands steer it
			create = newRollout
		}
		r, err := create(job, i, opts.Shortcuts)
		if err != nil {
			return nil, fmt.Errorf("job %d: %w", i, job.Failed(0, err))
		}
		if b, ok := job.Policy.(*lockstep.Batch); ok {
			if p.gangs[b] == nil {
				p.gangs[b] = &gang{policy: b}
			}
			p.gangs[b].rollouts = append(p.gangs[b].rollouts, r)
		}
		p.rollouts = append(p.rollouts, r)
	}
	for _, r := range p.rollouts {
		if b, ok := r.job.Policy.(*lockstep.Batch); ok {
			if err := p.gangs[b].make(); err != nil {
				return nil, errors.Join(
					p.Close(stepping.Unheard),
					fmt.Errorf("job %d: %w", r.index, r.job.Failed(0, err)),
				)
			}
		}
	}
	for range min(s.config.Workers, len(jobs)) {
		w, err := s.newWorker(shape, opts.Shortcuts, nil)
		if err != nil {
			return nil, errors.Join(err, p.Close(stepping.Unheard))
		}
		p.workers = append(p.workers, w)
	}
	return stepping.New(p, s, s.model, jobs, opts), nil
}

// stepped are the rollouts of a Stepper.
type stepped struct {
	opts     lockstep.Options
	rollouts []*rollout
	gangs    map[*lockstep.Batch]*gang
	workers  []*worker
	chunk    int // the most rollouts of one pass
}

func (p *stepped) Step(
	_ int, running []int, commands []float64, fail func(rollout int, err error),
) {
	for _, g := range p.gangs {
		// Of those that had failed at a snapshot that was restored the books alone know.
		if slices.ContainsFunc(g.rollouts, func(r *rollout) bool {
			_, runs := slices.BinarySearch(running, r.index)
			return runs
		}) {
			g.ask()
		}
	}
	var all []*rollout
	for _, i := range running {
		r := p.rollouts[i]
		if r.job.Policy == nil {
			r.command = commands[i]
		}
		if r.err == nil {
			all = append(all, r)
		}
	}
	advance := func(k int) {
		part := all[k*len(all)/len(p.workers) : (k+1)*len(all)/len(p.workers)]
		for chunk := range slices.Chunk(part, p.chunk) {
			p.workers[k].advance(chunk)
		}
	}
	var busy sync.WaitGroup
	for k := 1; k < len(p.workers); k++ {
		busy.Go(func() { advance(k) })
	}
	advance(
		0,
	) // here, where the caller's thread is: to hand it over costs as much as a call from Python
	busy.Wait()
	for _, i := range running {
		if err := p.rollouts[i].err; err != nil {
			fail(i, err)
		}
	}
}

func (p *stepped) Observe(_ context.Context, step int, running []int, into []float32) error {
	for _, i := range running {
		r, o := p.rollouts[i], into[i*lockstep.ObservationSize:][:lockstep.ObservationSize]
		if err := policies.ObserveAt(o, r.job.Route, step, r.lataccel, r.action); err != nil {
			return r.job.Failed(step, err)
		}
	}
	return nil
}

func (p *stepped) Histories(i int) (lataccel, action []float64) {
	return p.rollouts[i].lataccel, p.rollouts[i].action
}

func (p *stepped) Memory(i int) ([]float64, error) {
	r := p.rollouts[i]
	switch c := r.controller.(type) {
	case rememberer:
		return c.memory(), nil
	case nil:
		if r.job.Policy == nil {
			return nil, nil
		}
	}
	return nil, errors.New(
		"what the controller remembers cannot be kept: steer the rollout from outside, by a job " +
			"without a policy",
	)
}

func (p *stepped) Restore(i, _ int, lataccel, action, memory []float64) error {
	r := p.rollouts[i]
	r.err = nil
	r.enter(lataccel, action)
	if c, ok := r.controller.(rememberer); ok {
		c.remember(memory)
	}
	return nil
}

func (p *stepped) Result(i int) lockstep.Result { return p.rollouts[i].result(p.opts.Trajectory) }

func (p *stepped) Cost(i, step int) float64 {
	r := p.rollouts[i]
	return policies.StepCost(
		r.job.Route.Len(), step, r.target[step], r.lataccel[step], r.lataccel[step-1],
	)
}

// Elsewhere is nowhere.
func (p *stepped) Elsewhere() stepping.Elsewhere { return nil }

// Close ends the use of batch controllers.
func (p *stepped) Close(unclosed func(rollout int, err error)) error {
	for _, g := range p.gangs {
		if err := g.close(); err != nil {
			unclosed(g.rollouts[0].index, err)
		}
	}
	var err error
	for _, w := range p.workers {
		err = errors.Join(err, w.close())
	}
	p.workers = nil
	return err
}
