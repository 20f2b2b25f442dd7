package fuzz

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"lockstep/classic"
	golden "lockstep/golden/classic"
)

// inputTasks are tasks of all environments, whose episodes end in runs of three steps.
func inputTasks(t *testing.T, f func(t *testing.T, task classic.Task)) {
	for _, e := range classic.Environments() {
		mode := classic.SameStep
		if e.Shared {
			mode = classic.NextStep
		}
		task, err := classic.Make(e.Name, 5, nil)
		if err != nil {
			t.Fatal(err)
		}
		task.Autoreset, task.MaxSteps = mode, 2
		t.Run(e.Name, func(t *testing.T) { f(t, task) })
	}
}

// resetsOf are resets of a task, each with some of its inputs and without others. Each makes the
// arrays that it has.
func resetsOf(task classic.Task) (all []func() classic.Reset) {
	bound := func(scale float64) (low, high []float64) {
		for i := range task.Low {
			middle, half := (task.Low[i]+task.High[i])/2, (task.High[i]-task.Low[i])/2
			low, high = append(low, middle-scale*half), append(high, middle+scale*half)
		}
		return low, high
	}
	narrow := func(r classic.Reset) classic.Reset { r.Low, r.High = bound(0.25); return r }
	seeds := func() classic.Reset {
		r := classic.Reset{Seed: 3}
		for i := range int64(task.Num) {
			r.Seeds = append(r.Seeds, 50-2*i)
		}
		if task.Shared {
			r.Seeds = nil
		}
		return r
	}
	return []func() classic.Reset{
		func() classic.Reset { return classic.Reset{Seed: 5} },
		func() classic.Reset { return narrow(classic.Reset{Seed: 6}) },
		seeds,
		func() classic.Reset { return narrow(seeds()) },
		func() classic.Reset { r := classic.Reset{Seed: 7}; _, r.High = bound(0.5); return r },
		func() classic.Reset { r := classic.Reset{Seed: 8}; r.Low, _ = bound(0.5); return r },
	}
}

// TestClassicResetForgets: environments that have been reset are new ones that were reset so,
// whatever the resets before were given: seed or seeds, bounds, one of them, or none. Each comes
// after each.
func TestClassicResetForgets(t *testing.T) {
	all := classicEngines(t)
	inputTasks(t, func(t *testing.T, task classic.Task) {
		key := uint64(1)
		policy := classic.Policy{Uniform: &key}
		for _, e := range all {
			resets := resetsOf(task)
			var alone []ran
			for _, r := range resets {
				alone = append(alone, runOnce(t, begun(t, e, task, r()), task, policy))
			}
			v := begun(t, e, task, resets[0]())
			again := func(before, k int) {
				if err := v.Reset(resets[k]()); err != nil {
					t.Fatal(err)
				}
				compareRuns(t, fmt.Sprintf("%s, reset %d after reset %d", e.Name(), k, before),
					runOnce(t, v, task, policy), alone[k])
			}
			for i := range resets {
				for k := range i + 1 {
					again(k, i)
					again(i, k)
				}
			}
		}
	})
}

// begun are new environments that were reset.
func begun(t *testing.T, e classic.Maker, task classic.Task, r classic.Reset) classic.Vector {
	t.Helper()
	v, err := e.Make(task)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.Close() })
	if err := v.Reset(r); err != nil {
		t.Fatal(err)
	}
	return v
}

// TestClassicInputsAreTheCallers: the arrays that a call is given or answers with are the caller's
// when it has returned. What is written there changes nothing of before, and is what the next call
// is given, also at the same address: who trains writes weights where they lie.
func TestClassicInputsAreTheCallers(t *testing.T) {
	all := classicEngines(t)
	inputTasks(t, func(t *testing.T, task classic.Task) {
		for _, e := range all {
			// One with seeds where they may be, and both bounds.
			inputsAreTheCallers(t, e.Name(), e, task, resetsOf(task)[3])
		}
	})
}

func inputsAreTheCallers(
	t *testing.T, what string, e classic.Maker, task classic.Task, reset func() classic.Reset,
) {
	given := reset()
	v, kept := begun(t, e, task, given), begun(t, e, task, reset())
	scribble(reflect.ValueOf(given))
	both := func(round int, policy, fresh classic.Policy) {
		t.Helper()
		got, want := runOnce(t, v, task, policy), runOnce(t, kept, task, fresh)
		compareRuns(t, fmt.Sprintf("%s, run %d", what, round), got, want)
		if round%2 == 1 {
			if err := errors.Join(v.Restore(got.end), kept.Restore(want.end)); err != nil {
				t.Fatal(err)
			}
		}
		scribble(reflect.ValueOf(got.record))
		scribble(reflect.ValueOf(got.end))
	}
	network, noise := networkOf(task), []float32{-2, 2}
	network.Noise = noise
	for round := range 3 {
		fresh := networkOf(task)
		fresh.Noise = slices.Clone(noise)
		for i, l := range network.Layers {
			for k := range l.Weights {
				l.Weights[k] *= float32(1 - 2*(round%2)) // they change sides
				fresh.Layers[i].Weights[k] = l.Weights[k]
			}
		}
		both(round, classic.Policy{Network: network}, classic.Policy{Network: fresh})
		noise[0]--
	}
	keys := [2]uint64{1, 1}
	for round := range 3 {
		keys[0], keys[1] = uint64(round), uint64(round)
		fresh := keys[1]
		both(3+round, classic.Policy{Uniform: &keys[0]}, classic.Policy{Uniform: &fresh})
	}
}

// scribble writes another number into each element of all slices that are in a value.
func scribble(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		scribble(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			scribble(v.Field(i))
		}
	case reflect.Slice:
		for i := range v.Len() {
			switch x := v.Index(i); {
			case x.CanFloat():
				x.SetFloat(math.NaN())
			case x.CanInt():
				x.SetInt(x.Int() ^ 1)
			case x.CanUint():
				x.SetUint(^x.Uint())
			case x.Kind() == reflect.Bool:
				x.SetBool(!x.Bool())
			default:
				scribble(x)
			}
		}
	}
}

// networkOf is the network that goes for a task's goal, with arrays of its own.
func networkOf(task classic.Task) *classic.Perceptron {
	n := *golden.Goal(task.Name)
	n.Layers = slices.Clone(n.Layers)
	for i := range n.Layers {
		l := &n.Layers[i]
		l.Weights, l.Bias = slices.Clone(l.Weights), slices.Clone(l.Bias)
	}
	n.Noise = nil
	return &n
}
