package gpu

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"lockstep"
	"lockstep/gpu/internal/driver"
	"lockstep/internal/stepping"
)

// Elsewhere is the device.
func (r *rollouts) Elsewhere() stepping.Elsewhere { return r }

// Fork begins candidates. The snapshot goes up once; each candidate copies what it goes
// on from when its first launch begins.
func (r *rollouts) Fork(
	ctx context.Context, jobs []lockstep.Job, opts lockstep.Options, shot *lockstep.Snapshot,
	index []int, noise lockstep.Noise,
) (lockstep.Stepper, error) {
	s := r.batch.simulator
	k := kind{commands: true, policies: true, trajectory: opts.Trajectory, past: shot}
	var tasks []*task
	part := *shot
	part.Rollouts = make([]lockstep.RolloutState, len(index))
	for i, origin := range index {
		t := &task{
			job:    &jobs[i],
			end:    jobs[i].End(opts.Shortcuts),
			origin: origin,
			seed:   r.tasks[origin].seed,
		}
		switch noise.Kind {
		case lockstep.SeededNoise:
			seed := noise.Seeds[i] // the list is the caller's, and a fork of this one asks again
			t.seed, t.job.Expected = &seed, false
		case lockstep.ExpectedNoise:
			t.job.Expected = true
		}
		k.draws = k.draws || t.noise() == givenDraws
		tasks = append(tasks, t)
		part.Rollouts[i] = shot.Rollouts[origin]
	}
	p, err := s.reset(ctx, tasks, k, opts)
	if err != nil {
		return nil, err
	}
	if n := len(p.engine.tasks); n < len(jobs) {
		return nil, errors.Join(
			p.Close(),
			fmt.Errorf(
				"%d of %d candidates fit the device's memory: %w", n, len(jobs),
				driver.ErrOutOfMemory,
			),
		)
	}
	p.Enter(&part)
	return p, nil
}

// CanRoll reports whether nothing on the host wants to be asked at each step.
func (r *rollouts) CanRoll() bool {
	return len(r.controllers) == 0 && r.unmade == nil && !r.batch.shape.traced
}

// Roll computes steps in one launch: commands and costs go up, and how the rollouts stand
// and stood after each step comes down.
func (r *rollouts) Roll(step int, commands, costs, lataccels []float64) error {
	b := r.batch
	ctx := context.Background()
	return b.simulator.use(ctx, b.on, func(c *connection) error {
		const float = unsafe.Sizeof(float64(0))
		var all arrays
		up, partial := all.place(len(commands), float), all.place(len(costs), float)
		path := all.place(len(commands), float)
		room, err := c.take(all.end, all.end)
		if err != nil {
			return err
		}
		copy(view[float64](room.host[up:], len(commands)), commands)
		copy(view[float64](room.host[partial:], len(costs)), costs)
		if err := c.Upload(room.device, room.host[:path]); err != nil {
			return err
		}
		b.aim(step)
		k, own := &b.block, b.block.Commands
		defer func() { k.Commands, k.Partial, k.Path = own, 0, 0 }()
		k.End = int64(step + len(commands)/len(costs))
		k.Commands, k.Partial = room.device+driver.Pointer(up), room.device+driver.Pointer(partial)
		k.Path = room.device + driver.Pointer(path)
		r.begun, r.restored = true, 0
		if err := b.launch(true); err != nil {
			return err
		}
		if err := c.Download(room.host[partial:], room.device+driver.Pointer(partial)); err != nil {
			return err
		}
		if err := b.fetch(ctx, b.at.status, b.at.costs); err != nil {
			return err
		}
		b.last = slices.Clone(b.statuses())
		after := view[float64](room.host[path:], len(commands))
		for j, t := range r.tasks {
			for s := step; s < min(int(k.End), t.end); s++ {
				r.lataccel[j][s] = after[(s-step)*len(r.tasks)+j]
			}
		}
		copy(costs, view[float64](room.host[partial:], len(costs)))
		copy(lataccels, after)
		return c.give(room)
	})
}
