package harness

import (
	"context"
	"math"
	"testing"

	"lockstep/classic"
	"lockstep/engines"
	golden "lockstep/golden/classic"
	"lockstep/parity"
)

// compare holds an engine to the reference through the harness.
func compare(t *testing.T, got classic.Engine, r *Rollout) *parity.Report {
	t.Helper()
	want, err := engines.OpenClassic("reference", 0)
	if err != nil {
		t.Fatal(err)
	}
	view := NewView(r.Task)
	report, err := parity.Compare(context.Background(), parity.Family{}, parity.Live(&Engine{want, view}), parity.Live(&Engine{got, view}), r.Tasks(), parity.CompareOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func rollout(t *testing.T, e classic.Environment, mode classic.Autoreset) *Rollout {
	t.Helper()
	task, err := classic.Make(e.Name, 9, nil)
	if err != nil {
		t.Fatal(err)
	}
	task.Autoreset = mode
	r := &Rollout{Task: task, Reset: classic.Reset{Seed: 3}, Policy: classic.Policy{Network: golden.Goals[e.Name]}, Steps: 250}
	if mode != classic.NextStep {
		key := uint64(5)
		r.Policy = classic.Policy{Uniform: &key}
	}
	return r
}

// TestEngines: the harness finds no difference between engines, and compares every
// step of every environment.
func TestEngines(t *testing.T) {
	got, err := engines.OpenClassic("batched", 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range classic.Environments {
		for _, mode := range []classic.Autoreset{classic.NextStep, classic.SameStep, classic.Off} {
			if e.Shared && mode != classic.NextStep {
				continue
			}
			r := rollout(t, e, mode)
			report := compare(t, got, r)
			if len(report.Rollouts) != r.Task.Num {
				t.Fatalf("%s: %d verdicts of %d environments", e.Name, len(report.Rollouts), r.Task.Num)
			}
			for _, v := range report.Rollouts {
				if !v.Equal || v.Steps != r.Steps {
					t.Errorf("%s: %s: equal %v, %d of %d steps", e.Name, v.Rollout, v.Equal, v.Steps, r.Steps)
				}
			}
		}
	}
}

// faulty changes one answer of an engine.
type faulty struct {
	classic.Engine
	plant func(step int, t *classic.Transition)
}

func (f faulty) Make(t classic.Task) (classic.Vector, error) {
	v, err := f.Engine.Make(t)
	return &faultyVector{Vector: v, plant: f.plant}, err
}

type faultyVector struct {
	classic.Vector
	plant func(step int, t *classic.Transition)
	steps int
}

func (v *faultyVector) Run(ctx context.Context, p classic.Policy, steps int, record []classic.Transition) error {
	err := v.Vector.Run(ctx, p, steps, record)
	for i := range record {
		v.plant(v.steps+i, &record[i])
	}
	v.steps += steps
	return err
}

// TestStages: a fault in each stage is found at its step and named.
func TestStages(t *testing.T) {
	reference, err := engines.OpenClassic("reference", 0)
	if err != nil {
		t.Fatal(err)
	}
	const at, env = 120, 4
	for stage, plant := range map[string]func(t *classic.Transition){
		"action":      func(t *classic.Transition) { t.Actions.Discrete[env] ^= 1 },
		"state":       func(t *classic.Transition) { t.States[env] = math.Nextafter(t.States[env], 9) },
		"observation": func(t *classic.Transition) { t.Observations[env] = math.Nextafter32(t.Observations[env], 9) },
		"reward":      func(t *classic.Transition) { t.Rewards[env] = math.Copysign(t.Rewards[env], -1) },
		"terminated":  func(t *classic.Transition) { t.Terminated[env] = !t.Terminated[env] },
		"truncated":   func(t *classic.Transition) { t.Truncated[env] = !t.Truncated[env] },
	} {
		r := rollout(t, classic.Environments[0], classic.SameStep)
		report := compare(t, faulty{reference, func(step int, t *classic.Transition) {
			if step == at {
				plant(t)
			}
		}}, r)
		for i, v := range report.Rollouts {
			if v.Equal != (i != env) {
				t.Errorf("%s: environment %d: equal %v", stage, i, v.Equal)
			}
		}
		if v := report.Rollouts[env]; v.First == nil || v.First.Stage != stage || v.First.Step != at {
			t.Errorf("%s: found %+v", stage, v.First)
		}
	}
}
