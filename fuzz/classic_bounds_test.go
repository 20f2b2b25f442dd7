package fuzz

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"lockstep/classic"
	"lockstep/internal/simtest"
)

// bounds are actions at each bound of an environment whose action is a float32, one float32 within
// and one beyond it, and what lies at the ends of float32.
func bounds(limit float32) (all []float32) {
	infinite := float32(math.Inf(1))
	for _, x := range []float32{
		limit, math.Nextafter32(limit, 0), math.Nextafter32(limit, infinite),
		math.MaxFloat32, infinite, 0, math.SmallestNonzeroFloat32,
	} {
		all = append(all, x, -x)
	}
	all[11] = float32(math.Copysign(0, -1)) // which -x of 0 is not
	return all
}

// TestClassicBounds: actions at, within and beyond each bound of each environment, in every engine
// and with both of NumPy's rules: the bits of the reference; and where a bound clips, a state that
// says so. Neighbours, and their likes in another block, have other actions and other states.
func TestClassicBounds(t *testing.T) {
	all := classicEngines(t)
	for _, e := range classic.Environments() {
		if e.Actions > 0 {
			t.Run(e.Name, func(t *testing.T) { discreteBounds(t, all, e) })
			continue
		}
		for _, numpy1 := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, NumPy 1 %v", e.Name, numpy1), func(t *testing.T) {
				floatBounds(t, all, e, numpy1)
			})
		}
	}
}

// bounded are environments of an engine after a reset.
func bounded(t *testing.T, engine classic.Maker, task classic.Task) classic.Vector {
	t.Helper()
	v, err := engine.Make(task)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.Close() })
	if err := v.Reset(classic.Reset{Seed: 3}); err != nil {
		t.Fatal(err)
	}
	return v
}

func floatBounds(t *testing.T, all []classic.Maker, e classic.Environment, numpy1 bool) {
	task, err := classic.Make(e.Name, manyEnvironments(all), nil)
	if err != nil {
		t.Fatal(err)
	}
	task.NumPy1 = numpy1
	actions := bounds(e.Limit)
	const steps = 3 // the first is a float64's, or not, and later ones a float32's
	var want []classic.Transition
	for k, engine := range all {
		v := bounded(t, engine, task)
		for step := range steps {
			var a classic.Actions
			for i := range task.Num {
				a.Continuous = append(a.Continuous, actions[(i+i/len(actions)+step)%len(actions)])
			}
			got := classic.NewTransition(task)
			if err := v.Step(a, &got); err != nil {
				t.Fatalf("%s, step %d: %v", engine.Name(), step, err)
			}
			if k == 0 {
				want = append(want, got)
			} else if err := sameTransition(&want[step], &got); err != nil {
				t.Errorf("%s, step %d, against %s: %v", engine.Name(), step, all[0].Name(), err)
			}
		}
		clipsAt(t, engine, task)
	}
}

// clipsAt: of environments that begin alike, those beyond a bound come to one state, of a pendulum
// that of the bound too, and those within it to another. A car's bound is rounded otherwise.
func clipsAt(t *testing.T, engine classic.Maker, task classic.Task) {
	t.Helper()
	infinite := float32(math.Inf(1))
	beyond := math.Nextafter32(task.Limit, infinite)
	within := math.Nextafter32(task.Limit, 0)
	for _, sign := range []float32{1, -1} {
		states := map[float32][]float64{}
		for _, x := range []float32{within, task.Limit, beyond, infinite} {
			v := bounded(t, engine, task)
			got := classic.NewTransition(task)
			a := classic.Actions{Continuous: slices.Repeat([]float32{sign * x}, task.Num)}
			if err := v.Step(a, &got); err != nil {
				t.Fatal(err)
			}
			states[x] = got.States
		}
		if err := simtest.SameBits("states", states[beyond], states[infinite]); err != nil {
			t.Errorf("%s: actions beyond %v: %v", engine.Name(), sign*task.Limit, err)
		}
		err := simtest.SameBits("states", states[task.Limit], states[infinite])
		if task.Dynamics == classic.Pendulum && err != nil {
			t.Errorf("%s: actions of %v and beyond it: %v", engine.Name(), sign*task.Limit, err)
		}
		if simtest.SameBits("states", states[within], states[infinite]) == nil {
			t.Errorf(
				"%s: actions within %v are clipped: states are %v", engine.Name(),
				sign*task.Limit, states[within][:2],
			)
		}
	}
}

// discreteBounds: the first action and the last are taken, those beside them refused, in one
// engine's words as in another's, whatever the environment is whose action it is.
func discreteBounds(t *testing.T, all []classic.Maker, e classic.Environment) {
	task, err := classic.Make(e.Name, manyEnvironments(all), nil)
	if err != nil {
		t.Fatal(err)
	}
	var want []classic.Transition
	places := append(awkward(all), 0, task.Num-1)
	for k, engine := range all {
		v := bounded(t, engine, task)
		for _, at := range places {
			if at >= task.Num {
				continue
			}
			for _, wrong := range []int{-1, e.Actions, math.MinInt32, math.MaxInt32} {
				a := classic.Actions{Discrete: make([]int32, task.Num)}
				a.Discrete[at] = int32(wrong)
				simtest.Refused(t, engine.Name(), v.Step(a, &classic.Transition{}), fmt.Sprintf(
					"environment %d: action %d is not one of 0 to %d", at, wrong, e.Actions-1))
			}
		}
		for step := range e.Actions {
			a := classic.Actions{Discrete: make([]int32, task.Num)}
			for i := range a.Discrete {
				a.Discrete[i] = int32((i + i/256 + step) % e.Actions)
			}
			got := classic.NewTransition(task)
			if err := v.Step(a, &got); err != nil {
				t.Fatalf("%s, step %d: %v", engine.Name(), step, err)
			}
			if k == 0 {
				want = append(want, got)
			} else if err := sameTransition(&want[step], &got); err != nil {
				t.Errorf("%s, step %d, against %s: %v", engine.Name(), step, all[0].Name(), err)
			}
		}
	}
}
