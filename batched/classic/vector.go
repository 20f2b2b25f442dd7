package classic

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"lockstep/classic"
)

// Batched makes environments that are computed column by column.
type Batched struct {
	Workers int // that step blocks; 0: as many as there are cores
	kernels *kernels
}

func (Batched) Name() string { return "batched" }

// Cuts are how many environments its work is cut into, for tests of its edges.
func (Batched) Cuts() []int { return []int{padded, blockSize} }

// Make returns the task's environments.
func (e Batched) Make(t classic.Task) (classic.Vector, error) {
	if err := t.Check(); err != nil {
		return nil, err
	}
	k := e.kernels
	if k == nil {
		k = best
	}
	v := &vector{task: t, workers: e.Workers, uncounted: uncountedFrom(0)}
	if v.workers < 1 {
		v.workers = runtime.GOMAXPROCS(0)
	}
	size := blockSize
	if t.Shared {
		size = t.Num // its resets go from one environment to the next
	}
	for first := 0; first < t.Num; first += size {
		v.blocks = append(v.blocks, newBlock(&v.task, k, first, min(size, t.Num-first)))
	}
	return v, nil
}

type vector struct {
	task      classic.Task
	workers   int
	blocks    []*block
	seeded    bool
	shared    generator // of all environments, with its bounds
	low, high []float64
	steps     int64 // since the last reset of all
	uncounted int   // steps after which a count of an episode's could come to the largest int32
	ended     []bool
}

func (v *vector) Task() classic.Task { return v.task }

func (v *vector) Stats() string { return "" }

func (v *vector) Close() error { return nil }

func (v *vector) Reset(r classic.Reset) error {
	if err := v.task.CheckReset(r, v.seeded); err != nil {
		return err
	}
	low, high := v.task.Bounds(r)
	v.seeded = true
	for _, b := range v.blocks {
		for i := range b.count {
			env := b.first + i
			if r.Mask != nil && !r.Mask[env] || v.task.Shared {
				continue
			}
			switch {
			case r.Seeds != nil:
				b.generators[i] = seeded(uint64(r.Seeds[env]))
			case !r.Continue:
				b.generators[i] = seeded(uint64(r.Seed) + uint64(env))
			}
			b.restart(i, low, high)
		}
		b.pending = b.pending[:0]
		if r.Mask == nil {
			b.wordsOf = 0
			clear(b.totals)
			clear(b.episodes)
		}
	}
	if v.task.Shared {
		if !r.Continue {
			v.shared = seeded(uint64(r.Seed))
		}
		v.low, v.high = low, high
		all := make([]int, v.task.Num)
		for i := range all {
			all[i] = i
		}
		v.draw(all)
	}
	if r.Mask == nil {
		v.steps = 0
	}
	return nil
}

// draw resets environments from the shared generator, value by value.
func (v *vector) draw(which []int) {
	b := v.blocks[0]
	for k := range v.task.State {
		for _, i := range which {
			b.row(k)[i] = v.shared.uniform(v.low[k], v.high[k]-v.low[k])
		}
	}
	for _, i := range which {
		b.fresh(i)
	}
}

// allEnded are the flags of all environments.
func (v *vector) allEnded() []bool {
	if v.task.Autoreset != classic.NextStep && v.task.Autoreset != classic.Disabled {
		return nil
	}
	v.ended = v.ended[:0]
	for _, b := range v.blocks {
		v.ended = append(v.ended, b.ended[:b.count]...)
	}
	return v.ended
}

func (v *vector) Step(actions classic.Actions, t *classic.Transition) error {
	if err := v.task.CheckTransition(t); err != nil {
		return err
	}
	if err := v.task.CheckStep(actions, v.seeded, v.allEnded()); err != nil {
		return err
	}
	v.stepInto(actions, t, nil)
	return nil
}

// StepRows is Step that writes the observations to rows, too.
func (v *vector) StepRows(actions classic.Actions, t *classic.Transition, rows []float32) error {
	if want := v.task.Num * len(v.task.Observation); len(rows) != want {
		return fmt.Errorf(
			"%s: rows have %d values: %d environments have %d", v.task.Name, len(rows), v.task.Num,
			want,
		)
	}
	if err := v.task.CheckTransition(t); err != nil {
		return err
	}
	if err := v.task.CheckStep(actions, v.seeded, v.allEnded()); err != nil {
		return err
	}
	v.stepInto(actions, t, rows)
	return nil
}

// uncountedFrom is for how many steps no count comes to the largest int32, the largest being this.
func uncountedFrom(count int32) int { return math.MaxInt32 - 1 - int(count) }

// count takes back what is counted beyond classic.MostSteps, if within so many steps a count could
// come to the largest int32: that is the limit where there is none.
func (v *vector) count(steps int) {
	if v.uncounted < steps {
		v.uncounted = uncountedFrom(classic.MostSteps)
		for _, b := range v.blocks {
			for i, n := range b.steps {
				b.steps[i] = min(n, classic.MostSteps)
			}
		}
	}
	v.uncounted -= steps
}

func (v *vector) stepInto(actions classic.Actions, t *classic.Transition, rows []float32) {
	v.count(1)
	v.each(func(b *block) {
		b.take(actions)
		v.step(b)
		b.answer(t, v.task.Num)
		if rows != nil {
			d := len(v.task.Observation)
			b.turned(rows[b.first*d : (b.first+b.count)*d])
		}
	})
	v.steps++
}

// turned writes the observations row by row.
func (b *block) turned(rows []float32) {
	d := len(b.task.Observation)
	if d == 4 {
		x, y, z, w := b.observed(0), b.observed(1), b.observed(2), b.observed(3)
		for i := 0; len(rows) >= 4; i, rows = i+1, rows[4:] {
			rows[0], rows[1], rows[2], rows[3] = x[i], y[i], z[i], w[i]
		}
		return
	}
	for k := range d {
		for i, x := range b.observed(k)[:b.count] {
			rows[i*d+k] = x
		}
	}
}

// step is one step of a block.
func (v *vector) step(b *block) {
	b.step()
	if v.task.Shared {
		v.draw(b.pending)
		b.settle()
	}
}

// each runs f on all blocks, some at a time where that pays.
func (v *vector) each(f func(b *block)) {
	workers := min(v.workers, len(v.blocks)/4)
	if workers < 2 {
		for _, b := range v.blocks {
			f(b)
		}
		return
	}
	v.parallel(workers, f)
}

func (v *vector) parallel(workers int, f func(b *block)) {
	var next atomic.Int64
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(v.blocks) {
					return
				}
				f(v.blocks[i])
			}
		})
	}
	all.Wait()
}

// stretch is how many steps a block goes on alone.
const stretch = 1024

func (v *vector) Run(
	ctx context.Context, policy classic.Policy, steps int, record []classic.Transition,
) error {
	if err := v.task.CheckRun(policy, steps, record); err != nil {
		return err
	}
	if err := v.task.CheckReady(v.seeded, nil); err != nil {
		return err
	}
	if policy.Recorded != nil || v.task.Autoreset == classic.Disabled {
		return v.runChecked(ctx, policy, steps, record)
	}
	for done := 0; done < steps; {
		if err := ctx.Err(); err != nil {
			return err
		}
		end := min(done+stretch, steps)
		v.count(end - done)
		v.parallel(min(v.workers, len(v.blocks)), func(b *block) {
			for s := done; s < end; s++ {
				b.act(policy, v.steps+int64(s-done))
				v.step(b)
				if record != nil {
					b.answer(&record[s], v.task.Num)
				}
			}
		})
		v.steps += int64(end - done)
		done = end
	}
	return nil
}

// runChecked goes step by step, since a step can be refused.
func (v *vector) runChecked(
	ctx context.Context, policy classic.Policy, steps int, record []classic.Transition,
) error {
	chosen := classic.Actions{}
	for s := range steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		actions := chosen
		if policy.Recorded != nil {
			actions = policy.Recorded[s]
		} else {
			if err := v.task.CheckReady(v.seeded, v.allEnded()); err != nil {
				return fmt.Errorf("step %d: %w", s, err)
			}
			chosen = classic.Actions{Discrete: chosen.Discrete[:0],
				Continuous: chosen.Continuous[:0]}
			for _, b := range v.blocks {
				b.act(policy, v.steps)
				if v.task.Actions > 0 {
					chosen.Discrete = append(chosen.Discrete, b.actions[:b.count]...)
				} else {
					chosen.Continuous = append(chosen.Continuous, b.forces[:b.count]...)
				}
			}
			actions = chosen
			if v.task.Actions > 0 {
				actions.Continuous = nil
			} else {
				actions.Discrete = nil
			}
		}
		var t *classic.Transition
		if record != nil {
			t = &record[s]
		}
		if err := v.Step(actions, t); err != nil {
			return fmt.Errorf("step %d: %w", s, err)
		}
	}
	return nil
}

// answer fills the block's part of the buffers that are there.
func (b *block) answer(t *classic.Transition, num int) {
	if t == nil {
		return
	}
	put(t.Actions.Discrete, b.actions, b, 1, num)
	put(t.Actions.Continuous, b.forces, b, 1, num)
	put(t.States, b.states, b, len(b.task.State), num)
	put(t.Observations, b.observations, b, len(b.task.Observation), num)
	put(t.Rewards, b.rewards, b, 1, num)
	put(t.Terminated, b.terminations, b, 1, num)
	put(t.Truncated, b.truncations, b, 1, num)
	if t.Final == nil || b.task.Autoreset != classic.SameStep {
		return
	}
	for i := range b.count {
		if b.terminations[i] || b.truncations[i] {
			for k := range b.task.Observation {
				t.Final[k*num+b.first+i] = b.final[k*b.n+i]
			}
		}
	}
}

// put copies a block's columns into those of all environments.
func put[T any](to, from []T, b *block, columns, num int) {
	if len(to) == 0 {
		return
	}
	for k := range columns {
		copy(to[k*num+b.first:k*num+b.first+b.count], from[k*b.n:])
	}
}

func (v *vector) Observe(observations []float32, states []float64) {
	for _, b := range v.blocks {
		put(observations, b.observations, b, len(v.task.Observation), v.task.Num)
		put(states, b.states, b, len(v.task.State), v.task.Num)
	}
}

func (v *vector) Snapshot() (*classic.Snapshot, error) {
	if err := v.task.CheckReady(v.seeded, nil); err != nil {
		return nil, err
	}
	s := classic.NewSnapshot(v.task)
	s.Steps = v.steps
	v.Observe(s.Observations, s.States)
	store := func(g *generator, n, i int) {
		for k, word := range [4]uint64{g.hi, g.lo, g.incHi, g.incLo} {
			s.Generators[k*n+i] = word
		}
	}
	for _, b := range v.blocks {
		put(s.Ended, b.ended, b, 1, v.task.Num)
		put(s.Rewards, b.totals, b, 1, v.task.Num)
		put(s.Episodes, b.episodes, b, 1, v.task.Num)
		for i := range b.count {
			s.Elapsed[b.first+i] = min(b.steps[i], classic.MostSteps)
			if !v.task.Shared {
				store(&b.generators[i], v.task.Num, b.first+i)
			}
		}
	}
	if v.task.Shared {
		store(&v.shared, 1, 0)
	}
	return s, nil
}

func (v *vector) Restore(s *classic.Snapshot) error {
	if err := v.task.CheckSnapshot(s); err != nil {
		return err
	}
	if err := v.task.CheckReady(v.seeded, nil); err != nil {
		return err
	}
	v.steps, v.uncounted = s.Steps, uncountedFrom(slices.Max(s.Elapsed))
	load := func(n, i int) generator {
		return generator{
			s.Generators[i], s.Generators[n+i], s.Generators[2*n+i], s.Generators[3*n+i],
		}
	}
	if v.task.Shared {
		v.shared = load(1, 0)
	}
	for _, b := range v.blocks {
		for k := range v.task.State {
			copy(b.row(k)[:b.count], s.States[k*v.task.Num+b.first:])
		}
		for k := range v.task.Observation {
			copy(b.observed(k)[:b.count], s.Observations[k*v.task.Num+b.first:])
		}
		copy(b.steps[:b.count], s.Elapsed[b.first:])
		copy(b.totals[:b.count], s.Rewards[b.first:])
		copy(b.episodes[:b.count], s.Episodes[b.first:])
		for i := range b.count {
			if !v.task.Shared {
				b.generators[i] = load(v.task.Num, b.first+i)
			}
		}
		b.resume(s.Ended[b.first:])
	}
	return nil
}

func (v *vector) Totals() classic.Totals {
	t := classic.Totals{Steps: v.steps * int64(v.task.Num)}
	for _, b := range v.blocks {
		t.Rewards = append(t.Rewards, b.totals[:b.count]...)
		t.Episodes = append(t.Episodes, b.episodes[:b.count]...)
	}
	return t
}
