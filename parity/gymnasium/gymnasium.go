// Package gymnasium shows Gymnasium's classic control environments to package parity: a
// Schema of a task's environments in step, and an engine's environments as rollouts.
package gymnasium

import (
	"context"
	"fmt"
	"iter"
	"unsafe"

	"lockstep/classic"
	"lockstep/parity"
	"lockstep/parity/schema"
)

// step is a step of all environments: what it answers, and where it leaves them.
type step struct {
	answer classic.Transition
	place  *classic.Snapshot
}

// NewView is the schema of a task's environments. A reset is part of the step that makes
// it. Arrays are column by column, the last axis being the environments.
func NewView(t classic.Task) *schema.View[*step] {
	same, last := schema.Same, func(stage string) schema.Input { return schema.Last(1, stage) }
	each := make([]schema.Element, t.Num)
	names := make([]string, t.Num)
	for i := range each {
		names[i] = fmt.Sprintf("environment %d", i)
		each[i] = schema.Element{Name: names[i], Count: 1}
	}
	stage := func(name string, rows int, from ...schema.Input) schema.Stage {
		return schema.Stage{Name: name, Shape: []int{rows, t.Num}, Elements: each, From: from}
	}
	taught := func(s schema.Stage) schema.Stage { s.Teach = true; return s }
	begin := []schema.Input{same("action"), last("state"), last("elapsed"), last("ended")}
	flags := []schema.Input{same("terminated"), same("truncated")}
	with := func(a []schema.Input, b ...schema.Input) []schema.Input {
		return append(a[:len(a):len(a)], b...)
	}

	fields := []schema.Field[*step]{
		schema.Array(
			stage("action", 1, last("observation")),
			func(s *step) []int32 { return s.answer.Actions.Discrete },
		),
		schema.Array(
			stage("terminated", 1, begin...),
			func(s *step) []uint8 { return as[uint8](s.answer.Terminated) },
		),
		schema.Array(
			stage("truncated", 1, last("elapsed"), last("ended")),
			func(s *step) []uint8 { return as[uint8](s.answer.Truncated) },
		),
		schema.Array(
			stage("reward", 1, with(begin, same("terminated"))...),
			func(s *step) []float64 { return s.answer.Rewards },
		),
		schema.Array(
			stage("final", len(t.Observation), with(begin, flags...)...),
			func(s *step) []float32 { return s.answer.Final },
		),
		schema.Array(
			taught(stage("generator", 4, with(flags, last("generator"), last("ended"))...)),
			func(s *step) []int64 { return as[int64](s.place.Generators) },
		),
		schema.Array(
			taught(stage("state", len(t.State), with(begin, with(flags, same("generator"))...)...)),
			func(s *step) []float64 { return s.answer.States },
		),
		schema.Array(
			taught(stage("elapsed", 1, with(flags, last("elapsed"), last("ended"))...)),
			func(s *step) []int32 { return s.place.Elapsed },
		),
		schema.Array(
			taught(stage("ended", 1, with(flags, last("ended"))...)),
			func(s *step) []uint8 { return as[uint8](s.place.Ended) },
		),
		schema.Array(
			taught(stage("observation", len(t.Observation), same("state"), same("elapsed"))),
			func(s *step) []float32 { return s.answer.Observations },
		),
	}
	if t.Actions == 0 {
		fields[0] = schema.Array(
			stage("action", 1, last("observation")),
			func(s *step) []float32 { return s.answer.Actions.Continuous },
		)
	}
	if t.Shared {
		generator := taught(schema.Stage{
			Name:  "generator",
			Shape: []int{4},
			From:  with(flags, last("generator"), last("ended")),
		})
		fields[5] = schema.Array(
			generator, func(s *step) []int64 { return as[int64](s.place.Generators) },
		)
	}
	if t.Autoreset != classic.SameStep { // the only mode that hides an observation
		fields = append(fields[:4:4], fields[5:]...)
	}
	return schema.NewView(schema.Schema{
		Name: t.Name, Key: []string{"task"},
		Outcome: schema.Outcome{Name: "return", Elements: names, From: []string{"reward"}},
	}, fields...)
}

// as is a slice whose elements are of another type of the same size.
func as[To, From any](a []From) []To {
	return unsafe.Slice((*To)(unsafe.Pointer(unsafe.SliceData(a))), len(a))
}

// Adapted is a classic.Maker as the harness sees it, for the rollouts of one View.
type Adapted struct {
	Classic classic.Maker
	View    *schema.View[*step]
}

// Info names the engine.
func (e *Adapted) Info() parity.SideInfo { return parity.SideInfo{Name: e.Classic.Name()} }

// Schema describes the steps that Run shows.
func (e *Adapted) Schema() *schema.Schema { return &e.View.Schema }

// Run computes the rollouts, one after the other.
func (e *Adapted) Run(
	ctx context.Context, tasks []parity.RolloutTask, observe func(int, *schema.Step),
) iter.Seq2[int, parity.End] {
	return func(yield func(int, parity.End) bool) {
		for i := range tasks {
			returns, err := e.run(ctx, &tasks[i], func(s *schema.Step) { observe(i, s) })
			if !yield(i, parity.End{Outcome: returns, Err: err}) {
				return
			}
		}
	}
}

// run is one rollout, and what its environments' rewards add up to.
func (e *Adapted) run(
	ctx context.Context, t *parity.RolloutTask, show func(*schema.Step),
) ([]float64, error) {
	r := t.Job.(*Episodes)
	task, err := r.Task()
	if err != nil {
		return nil, err
	}
	v, err := e.Classic.Make(task)
	if err != nil {
		return nil, err
	}
	defer v.Close()
	if err := v.Reset(r.reset(task)); err != nil {
		return nil, err
	}
	into, record, steps := e.View.NewStep(), []classic.Transition{
		classic.NewTransition(task),
	}, r.Steps
	if t.Teacher != nil {
		steps = min(steps, t.Teacher.Steps())
	}
	for k := range steps {
		clear(record[0].Final)
		if err := v.Run(ctx, r.policy(task, k), 1, record); err != nil {
			return nil, err
		}
		place, err := v.Snapshot()
		if err != nil {
			return nil, err
		}
		e.View.Expose(k, &step{record[0], place}, into)
		show(into)
		if t.Teacher == nil {
			continue
		}
		// as they were shown
		place.States, place.Observations = record[0].States, record[0].Observations
		t.Teacher.Overwrite(k, into)
		if err := v.Restore(place); err != nil {
			return nil, err
		}
	}
	return v.Totals().Rewards, nil
}
