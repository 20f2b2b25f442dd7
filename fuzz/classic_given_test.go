package fuzz

import (
	"context"
	"math"
	"slices"
	"testing"

	"lockstep/classic"
)

// TestClassicGiven: what a caller gives to a call is the caller's again when it returns. Every
// array is written to then, and what comes later is what it is where nobody does.
func TestClassicGiven(t *testing.T) {
	for _, engine := range classicEngines(t) {
		for _, e := range classic.Environments() {
			t.Run(engine.Name()+"/"+e.Name, func(t *testing.T) {
				task, err := classic.Make(e.Name, 9, nil)
				if err != nil {
					t.Fatal(err)
				}
				task.MaxSteps = 3 // so that environments are reset from what was given
				want, got := given(t, engine, task, false), given(t, engine, task, true)
				for k := range want {
					if err := sameTransition(&want[k], &got[k]); err != nil {
						t.Fatalf("step %d, after what was given is written to: %v", k, err)
					}
				}
			})
		}
	}
}

// given is what some steps come to, of environments that were given bounds, seeds and a snapshot.
func given(
	t *testing.T, engine classic.Maker, task classic.Task, written bool,
) (record []classic.Transition) {
	t.Helper()
	v, err := engine.Make(task)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	r := classic.Reset{Seed: 5}
	if !task.Shared {
		r.Seed = 0
		for i := range task.Num {
			r.Seeds = append(r.Seeds, int64(7919*i*i%10007))
		}
	}
	for k := range task.Low {
		r.Low = append(r.Low, task.Low[k]/2)
		r.High = append(r.High, task.High[k]/2)
	}
	if err := v.Reset(r); err != nil {
		t.Fatal(err)
	}
	if written {
		fillWith(r.Seeds, -1)
		fillWith(r.Low, math.NaN())
		fillWith(r.High, math.NaN())
	}
	run := func() {
		t.Helper()
		key, some := uint64(3), make([]classic.Transition, 9)
		for k := range some {
			some[k] = classic.NewTransition(task)
		}
		err := v.Run(context.Background(), classic.Policy{Uniform: &key}, len(some), some)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range some {
			record = append(record, copyOf(one))
			if written {
				fillWith(one.States, math.NaN())
				fillWith(one.Observations, float32(math.NaN()))
			}
		}
	}
	run()
	shot, err := v.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	run()
	if err := v.Restore(shot); err != nil {
		t.Fatal(err)
	}
	if written {
		fillWith(shot.States, math.NaN())
		fillWith(shot.Elapsed, -1)
		fillWith(shot.Generators, 0)
	}
	run()
	return record
}

func fillWith[T any](x []T, value T) {
	for i := range x {
		x[i] = value
	}
}

func copyOf(t classic.Transition) classic.Transition {
	t.States, t.Observations = slices.Clone(t.States), slices.Clone(t.Observations)
	return t
}
