// Package harness shows Gymnasium's classic control environments to package parity:
// a Schema for each of them, and an engine's environments as its rollouts.
package harness

import (
	"context"
	"fmt"
	"iter"
	"strconv"

	"lockstep/classic"
	"lockstep/parity"
	"lockstep/parity/schema"
	"lockstep/parity/trace"
)

// step is one environment's step.
type step struct {
	discrete              int32
	continuous            float32
	state                 []float64
	observation           []float32
	reward                float64
	terminated, truncated uint8
}

// NewView is the schema of a task's environments. A reset is part of the step that
// makes it, so that the state comes from the flags of the step before, too.
func NewView(t classic.Task) *schema.View[*step] {
	action := schema.Number(schema.Stage{Name: "action", From: []schema.Input{schema.Last(1, "observation")}},
		func(s *step) (int32, bool) { return s.discrete, true })
	if t.Actions == 0 {
		action = schema.Number(schema.Stage{Name: "action", From: []schema.Input{schema.Last(1, "observation")}},
			func(s *step) (float32, bool) { return s.continuous, true })
	}
	before := []schema.Input{schema.Same("action"), schema.Last(1, "state"), schema.Last(1, "terminated"), schema.Last(1, "truncated")}
	return schema.NewView(
		schema.Schema{
			Name: t.Name, Key: []string{"task", "environment"},
			Outcome: schema.Outcome{Name: "return", Elements: []string{"total"}, From: []string{"reward"}},
		},
		action,
		schema.Number(schema.Stage{Name: "terminated", From: before}, func(s *step) (uint8, bool) { return s.terminated, true }),
		schema.Number(schema.Stage{Name: "truncated", From: []schema.Input{schema.Before("terminated"), schema.Before("truncated")}},
			func(s *step) (uint8, bool) { return s.truncated, true }),
		schema.Number(schema.Stage{Name: "reward", From: append(before, schema.Same("terminated")), Effect: true},
			func(s *step) (float64, bool) { return s.reward, true }),
		schema.Array(schema.Stage{Name: "state", Shape: []int{len(t.State)}, From: append(before, schema.Same("terminated"), schema.Same("truncated")), Elements: elements(t.State)},
			func(s *step) []float64 { return s.state }),
		schema.Array(schema.Stage{Name: "observation", Shape: []int{len(t.Observation)}, From: []schema.Input{schema.Same("state")}, Elements: elements(t.Observation)},
			func(s *step) []float32 { return s.observation }),
	)
}

func elements(names []string) (all []schema.Element) {
	for _, n := range names {
		all = append(all, schema.Element{Name: n, Count: 1})
	}
	return all
}

// A Rollout is a task's environments from a seed on.
type Rollout struct {
	Task   classic.Task
	Reset  classic.Reset
	Policy classic.Policy
	Steps  int
}

// Tasks are a rollout's environments, a task each.
func (r *Rollout) Tasks() []parity.Task {
	name := fmt.Sprintf("%s, %v, seed %d, %d steps", r.Task.Name, r.Task.Autoreset, r.Reset.Seed, r.Steps)
	var all []parity.Task
	for i := range r.Task.Num {
		all = append(all, parity.Task{Rollout: trace.Rollout{Key: []string{name, strconv.Itoa(i)}}, Job: job{r, i}})
	}
	return all
}

type job struct {
	rollout *Rollout
	env     int
}

// An Engine is a classic.Engine as the harness sees it, for tasks of one schema.
type Engine struct {
	Classic classic.Engine
	View    *schema.View[*step]
}

// Info names the engine.
func (e *Engine) Info() parity.SideInfo { return parity.SideInfo{Name: e.Classic.Name()} }

// Schema describes the steps that Run shows.
func (e *Engine) Schema() *schema.Schema { return &e.View.Schema }

// Run computes each rollout once and shows the environments that are asked for.
func (e *Engine) Run(ctx context.Context, tasks []parity.Task, observe func(int, *schema.Step)) iter.Seq2[int, parity.End] {
	return func(yield func(int, parity.End) bool) {
		wanted := map[*Rollout][]int{}
		var order []*Rollout
		for i := range tasks {
			r := tasks[i].Job.(job).rollout
			if wanted[r] == nil {
				order = append(order, r)
			}
			wanted[r] = append(wanted[r], i)
		}
		for _, r := range order {
			totals, err := e.run(ctx, r, wanted[r], tasks, observe)
			for _, i := range wanted[r] {
				end := parity.End{Err: err}
				if err == nil {
					end.Outcome = []float64{totals[tasks[i].Job.(job).env]}
				}
				if !yield(i, end) {
					return
				}
			}
		}
	}
}

// run is one rollout, step by step, and what its environments' rewards add up to.
func (e *Engine) run(ctx context.Context, r *Rollout, wanted []int, tasks []parity.Task, observe func(int, *schema.Step)) ([]float64, error) {
	v, err := e.Classic.Make(r.Task)
	if err != nil {
		return nil, err
	}
	defer v.Close()
	if err := v.Reset(r.Reset); err != nil {
		return nil, err
	}
	const chunk = 100
	n, into := r.Task.Num, e.View.NewStep()
	s := step{state: make([]float64, len(r.Task.State)), observation: make([]float32, len(r.Task.Observation))}
	record := make([]classic.Transition, chunk)
	for i := range record {
		record[i] = classic.NewTransition(r.Task)
	}
	for at := 0; at < r.Steps; at += chunk {
		part := record[:min(chunk, r.Steps-at)]
		policy := r.Policy
		if policy.Recorded != nil {
			policy.Recorded = policy.Recorded[at : at+len(part)]
		}
		if err := v.Run(ctx, policy, len(part), part); err != nil {
			return nil, err
		}
		for k := range part {
			for _, i := range wanted {
				if until := tasks[i].Until; until > 0 && at+k >= until {
					continue
				}
				s.take(&part[k], tasks[i].Job.(job).env, n)
				e.View.Expose(at+k, &s, into)
				observe(i, into)
			}
		}
	}
	return v.Totals().Rewards, nil
}

// take copies one environment out of the columns.
func (s *step) take(t *classic.Transition, env, n int) {
	if t.Actions.Discrete != nil {
		s.discrete = t.Actions.Discrete[env]
	} else {
		s.continuous = t.Actions.Continuous[env]
	}
	for d := range s.state {
		s.state[d] = t.States[d*n+env]
	}
	for d := range s.observation {
		s.observation[d] = t.Observations[d*n+env]
	}
	s.reward, s.terminated, s.truncated = t.Rewards[env], 0, 0
	if t.Terminated[env] {
		s.terminated = 1
	}
	if t.Truncated[env] {
		s.truncated = 1
	}
}
