package onnxruntime

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"lockstep"
	"lockstep/internal/policies"
	"lockstep/internal/stepping"
)

// Reset puts rollouts of the jobs at step ContextLength.
func (s *Simulator) Reset(ctx context.Context, jobs []lockstep.Job, opts lockstep.Options) (lockstep.Stepper, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := stepping.Check(jobs, opts); err != nil {
		return nil, err
	}
	jobs = slices.Clone(jobs)
	p := &stepped{size: chunkSize(len(jobs), s.config.Workers, s.config.Chunk), errs: make([]error, len(jobs))}
	for range min(s.config.Workers, (len(jobs)+p.size-1)/p.size) {
		w := s.newWorker(opts, nil)
		w.commanded = true
		w.failed = func(index, _ int, err error) { p.errs[index] = err }
		p.workers = append(p.workers, w)
	}
	for from := 0; from < len(jobs); from += p.size {
		w := p.workers[len(p.chunks)%len(p.workers)]
		c := newChunk(w, jobs, from, min(from+p.size, len(jobs)))
		p.chunks, p.groups = append(p.chunks, c), append(p.groups, newControllers(c))
	}
	for i, err := range p.errs {
		if err != nil {
			return nil, errors.Join(fmt.Errorf("job %d: %w", i, jobs[i].Failed(0, err)), p.Close())
		}
	}
	stepper := stepping.New(p, s, jobs, opts)
	// One that nobody closed is closed when it is garbage: what a session pins must not be.
	runtime.AddCleanup(stepper, func(p *stepped) { p.Close() }, p)
	return stepper, nil
}

// stepped are the rollouts of a Stepper, in chunks of one size, which the workers share
// in turns.
type stepped struct {
	size    int
	chunks  []*chunk
	groups  [][]controllers // of each chunk
	workers []*worker
	errs    []error // of each rollout
}

// at is where a rollout is.
func (p *stepped) at(i int) (c *chunk, slot int) { return p.chunks[i/p.size], i % p.size }

func (p *stepped) Step(step int, running []int, commands []float64, fail func(rollout int, err error)) {
	for _, c := range p.chunks {
		c.live = c.live[:0]
		clear(c.running)
	}
	for _, i := range running {
		c, slot := p.at(i)
		c.live, c.running[slot] = append(c.live, slot), true
		if c.slots[slot].job.Policy == nil {
			c.command[slot] = commands[i]
		}
	}
	var busy sync.WaitGroup
	for k := range p.workers {
		busy.Go(func() {
			for n := k; n < len(p.chunks); n += len(p.workers) {
				if len(p.chunks[n].live) > 0 {
					p.chunks[n].advance(p.groups[n], step)
				}
			}
		})
	}
	busy.Wait()
	for _, i := range running {
		if err := p.errs[i]; err != nil {
			fail(i, err)
		}
	}
}

func (p *stepped) Histories(i int) (lataccel, action []float64) {
	c, slot := p.at(i)
	return c.slots[slot].lataccel, c.slots[slot].action
}

// A rememberer is controllers whose memory is numbers, which a snapshot keeps.
type rememberer interface {
	memory(slot int) []float64 // nil if the slot is another's
	remember(slot int, m []float64)
}

func (p *stepped) Memory(i int) ([]float64, error) {
	c, slot := p.at(i)
	switch c.slots[slot].job.Policy.(type) {
	case lockstep.Custom, *lockstep.Batch:
		return nil, errors.New("what the controller remembers cannot be kept: steer the rollout from outside, by a job without a policy")
	}
	for _, g := range p.groups[i/p.size] {
		if r, ok := g.(rememberer); ok && r.memory(slot) != nil {
			return r.memory(slot), nil
		}
	}
	return nil, nil
}

func (p *stepped) Restore(i, _ int, lataccel, action, memory []float64) error {
	c, slot := p.at(i)
	p.errs[i] = nil
	s := &c.slots[slot]
	for k, x := range lataccel {
		s.act(k, action[k])
		s.move(k, x)
	}
	c.current[slot] = lataccel[len(lataccel)-1]
	for _, g := range p.groups[i/p.size] {
		if r, ok := g.(rememberer); ok && r.memory(slot) != nil {
			r.remember(slot, memory)
		}
	}
	return nil
}

func (p *stepped) Result(i int) lockstep.Result {
	c, slot := p.at(i)
	return c.result(slot)
}

func (p *stepped) Cost(i, step int) float64 {
	c, slot := p.at(i)
	s := &c.slots[slot]
	return policies.StepCost(s.route.Len(), step, s.target[step], s.lataccel[step], s.lataccel[step-1])
}

// Close ends the use of the controllers, and gives the sessions back.
func (p *stepped) Close() error {
	for _, groups := range p.groups {
		for _, g := range groups {
			g.close()
		}
	}
	for _, w := range p.workers {
		w.close()
	}
	p.groups, p.workers = nil, nil
	return nil
}
