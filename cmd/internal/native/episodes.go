//go:build cgo

package native

import (
	"context"
	"math"
	"reflect"
	"unsafe"

	"lockstep"
)

// episodes are rollouts as environments: where a step finds what it is given, and
// writes what it answers. Environments may be other rollouts', too. Python makes it, by the
// names of the fields (python/lockstep/envs.py): each is a word, an address or a number.
type episodes struct {
	environment unsafe.Pointer // of each rollout, int64; -1 if it has gone on to other rollouts
	commands    unsafe.Pointer // float64, room for each rollout
	lataccels   unsafe.Pointer // float64, of each rollout
	actions     unsafe.Pointer // float64, of each environment
	rewards     unsafe.Pointer // float64, of each environment
	ended       unsafe.Pointer // bool, of each environment
	// float32, (environments, ObservationSize+1), the last a clock; nil for none
	observations unsafe.Pointer
	num          int64 // environments
}

// episodesFields are the names of the words of episodes, in order: with them Python makes one.
func episodesFields(*task, nothing) (any, error) {
	var names []string
	for _, field := range reflect.VisibleFields(reflect.TypeFor[episodes]()) {
		names = append(names, field.Name)
	}
	return names, nil
}

// episodeNow is episode, as soon as calls of other threads are over.
func (r *roll) episodeNow(memory unsafe.Pointer) error {
	ctx := context.Background()
	if err := r.acquire(ctx); err != nil {
		return err
	}
	defer r.release()
	return r.episode(ctx, memory)
}

// episode computes a step of environments, with rewards, ends and observations.
func (r *roll) episode(ctx context.Context, memory unsafe.Pointer) (err error) {
	defer func() { r.err = err }()
	defer recovered(&err)
	m := (*episodes)(memory)
	environment := unsafe.Slice((*int64)(m.environment), r.n)
	commands, lataccels := unsafe.Slice((*float64)(m.commands), r.n),
		unsafe.Slice((*float64)(m.lataccels), r.n)
	actions, rewards := unsafe.Slice((*float64)(m.actions), m.num),
		unsafe.Slice((*float64)(m.rewards), m.num)
	ended := unsafe.Slice((*bool)(m.ended), m.num)
	step := r.stepper.Index()
	if r.ran == nil {
		r.ran = make([]bool, r.n)
	}
	for i, e := range environment {
		// A rollout that nobody asks for is ended by a command that is none.
		r.ran[i], commands[i] = e >= 0 && r.stepper.Running(i), math.NaN()
		if r.ran[i] {
			commands[i] = actions[e]
		}
	}
	if err := r.stepIn(ctx, commands, lataccels); err != nil {
		return err
	}
	for i, e := range environment {
		if !r.ran[i] {
			continue
		}
		if err := r.stepper.Err(i); err != nil {
			return err
		}
		rewards[e] = -r.stepper.Cost(i)
		ended[e] = step+1 == min(r.jobs[i].Route.Len(), lockstep.CostEndIdx)
	}
	if m.observations == nil {
		return nil
	}
	const width = lockstep.ObservationSize + 1
	return r.show(ctx, environment, unsafe.Slice((*float32)(m.observations), m.num*width))
}

// show writes observations and clocks of environments: 0 and 1 after the end.
func (r *roll) show(ctx context.Context, environment []int64, into []float32) error {
	const size = lockstep.ObservationSize
	if r.rows == nil {
		r.rows = make([]float32, r.n*size)
	}
	if err := r.observe(ctx, r.rows); err != nil {
		return err
	}
	step := r.stepper.Index()
	for i, e := range environment {
		if e < 0 {
			continue
		}
		end := min(r.jobs[i].Route.Len(), lockstep.CostEndIdx)
		row := into[int(e)*(size+1):][:size+1]
		copy(row, r.rows[i*size:][:size])
		row[size] = float32(
			float64(min(step, end)-lockstep.ControlStartIdx) /
				float64(end-lockstep.ControlStartIdx),
		)
	}
	return nil
}

// showEpisodes is show of episodes that begin: the buffer is theirs.
func showEpisodes(t *task, r *roll, _ nothing, buffer []byte) (any, error) {
	m := (*episodes)(unsafe.Pointer(&buffer[0]))
	const width = lockstep.ObservationSize + 1
	return nothing{}, r.show(
		t, unsafe.Slice((*int64)(m.environment), r.n),
		unsafe.Slice((*float32)(m.observations), m.num*width),
	)
}

// stepEpisodes is episode for many rollouts.
func stepEpisodes(t *task, r *roll, _ nothing, buffer []byte) (any, error) {
	return nothing{}, r.episode(t, unsafe.Pointer(&buffer[0]))
}
