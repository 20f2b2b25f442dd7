package fuzz

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"lockstep/classic"
	"lockstep/internal/simtest"
)

// TestClassicParts: more environments than an engine gives to one of its workers are stepped, run,
// reset in part, put back and shown as the reference has them, each by itself: no two neighbours
// are at one place, or have one seed, action and step of their episode, nor has one its like in
// another part; and then all end at once, whichever they are.
func TestClassicParts(t *testing.T) {
	all := classicEngines(t)
	sizes := awkward(all)
	num := 9*(sizes[len(sizes)-1]/2) + 5 // nine of the largest parts, and the beginning of another
	eachClassic(t, all, num, func(e classic.Maker, task classic.Task) []ran {
		task.MaxSteps = 1<<30 + 97
		return throughParts(t, e, task)
	})
}

// throughParts is what calls of each kind come to.
func throughParts(t *testing.T, engine classic.Maker, task classic.Task) (all []ran) {
	t.Helper()
	r := classic.Reset{Seed: 3}
	for i := range task.Num {
		if !task.Shared {
			r.Seeds = append(r.Seeds, int64(7919*i%1000003))
		}
	}
	v := begun(t, engine, task, r)
	step := func() {
		t.Helper()
		all = append(all, stepOnce(t, v, task, variedActions(task, len(all))))
	}
	wrong := func() { // of the last environment, unless it is to be reset
		t.Helper()
		a := variedActions(task, 0)
		if task.Actions > 0 {
			a.Discrete[task.Num-1] = int32(task.Actions)
		} else {
			a.Continuous[task.Num-1] = float32(math.NaN())
		}
		r := ran{says: "nothing"}
		if err := v.Step(a, nil); err != nil {
			r.says = err.Error()
		}
		all = append(all, r)
	}
	reset := func(r classic.Reset) {
		t.Helper()
		if err := v.Reset(r); err != nil {
			t.Fatal(err)
		}
	}
	key := uint64(11)
	put(t, v, func(s *classic.Snapshot) {
		s.Steps = 1<<32 - 2 // steps are counted beyond 32 bits, and actions drawn by these
		for i := range s.Elapsed {
			s.Elapsed[i] = int32(1<<30 + (31*i+i/128)%91)
			s.Rewards[i], s.Episodes[i] = float64(-i), int64(i)<<33
		}
	})
	all = append(all, runSteps(t, v, task, classic.Policy{Uniform: &key}, 4),
		runSteps(t, v, task, classic.Policy{Network: shaped(task, nil, 4)}, 2))
	step()
	for k, end := range []func(*classic.Snapshot){
		func(s *classic.Snapshot) {
			for i := range s.Elapsed {
				s.Elapsed[i] = int32(task.MaxSteps - 1)
			}
		},
		func(s *classic.Snapshot) {
			for k, x := range ends[task.Dynamics] {
				for i := range task.Num {
					s.States[k*task.Num+i] = x
				}
			}
		},
	} {
		put(t, v, func(s *classic.Snapshot) { clear(s.Ended); end(s) })
		step()
		wrong()
		if task.Autoreset == classic.Disabled || task.Autoreset == classic.Off {
			resetInTurn(task, int64(k), reset, wrong)
		}
		step()
		wrong()
		put(t, v, func(s *classic.Snapshot) { clear(s.Ended); end(s) })
		step()
		reset(classic.Reset{Continue: true}) // of what would be reset by the next step
		step()
	}
	return all
}

// resetInTurn resets some of the environments, and then the others: by seeds, or drawing on.
func resetInTurn(
	task classic.Task, seed int64, reset func(classic.Reset), between func(),
) {
	for _, first := range []bool{true, false} {
		r := classic.Reset{Seed: seed, Continue: seed == 0, Mask: make([]bool, task.Num)}
		for i := range r.Mask {
			r.Mask[i] = ((i+i/7)%3 == 1) == first
		}
		reset(r)
		between()
	}
}

// ends are states of environments whose next step ends their episode.
var ends = map[classic.Dynamics][]float64{
	classic.CartPole:              {3},
	classic.MountainCar:           {0.6, 0.07},
	classic.MountainCarContinuous: {0.6, 0.07},
	classic.Acrobot:               {math.Pi},
}

// put changes where a vector's environments are.
func put(t *testing.T, v classic.Vector, change func(*classic.Snapshot)) {
	t.Helper()
	s, err := v.Snapshot()
	if err == nil {
		change(s)
		err = v.Restore(s)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// variedActions are actions of step k.
func variedActions(task classic.Task, k int) (a classic.Actions) {
	for i := range task.Num {
		x := (i + i/128 + i/7 + k) % 11
		if task.Actions > 0 {
			a.Discrete = append(a.Discrete, int32(x%task.Actions))
		} else {
			a.Continuous = append(a.Continuous, float32(x-5)/4)
		}
	}
	return a
}

// stepOnce is one step, in rows where the vector has them.
func stepOnce(t *testing.T, v classic.Vector, task classic.Task, a classic.Actions) (r ran) {
	t.Helper()
	answer := classic.NewTransition(task)
	step := func() error { return v.Step(a, &answer) }
	rows := make([]float32, len(answer.Observations))
	stepper, ok := v.(classic.RowStepper)
	if ok {
		step = func() error { return stepper.StepRows(a, &answer, rows) }
	}
	err := step()
	seen := classic.Transition{Observations: make([]float32, len(rows))}
	v.Observe(seen.Observations, nil)
	if err == nil {
		err = sameTransition(&classic.Transition{Observations: answer.Observations}, &seen)
	}
	if err == nil {
		seen = observed(v)
		err = sameTransition(&classic.Transition{
			Observations: answer.Observations, States: answer.States,
		}, &seen)
	}
	if err == nil {
		r.end, err = v.Snapshot()
	}
	if err != nil {
		t.Fatal(err)
	}
	if d := len(task.Observation); ok {
		columns := make([]float32, len(rows))
		for i, x := range rows {
			columns[i%d*task.Num+i/d] = x
		}
		if err := simtest.SameBits("rows", columns, answer.Observations); err != nil {
			t.Errorf("observations row by row, and column by column: %v", err)
		}
	}
	r.record = []classic.Transition{answer}
	return r
}

// TestClassicStretches: a run that is longer than an engine goes on for at a time is recorded as
// the reference records it, step by step.
func TestClassicStretches(t *testing.T) {
	key := uint64(5)
	eachClassic(t, classicEngines(t), 2, func(e classic.Maker, task classic.Task) []ran {
		if task.MaxSteps = 150; task.Autoreset == classic.Disabled {
			return nil // an end would be one of the run
		}
		v := begun(t, e, task, classic.Reset{Seed: 1})
		return []ran{runSteps(t, v, task, classic.Policy{Uniform: &key}, 2*1024+3)}
	})
}

// TestClassicUnlimited: without a limit no step truncates an episode, however many came before it,
// and beyond a limit, where nothing is reset, each does. Of more steps than an engine's 32 bits
// count, a snapshot has as many as the reference's.
func TestClassicUnlimited(t *testing.T) {
	key := uint64(5)
	eachClassic(t, classicEngines(t), 9, func(e classic.Maker, task classic.Task) (all []ran) {
		if task.Shared {
			return nil // it has a limit, and is reset there
		}
		limits := []int{0}
		if task.Autoreset == classic.Off {
			limits = append(limits, 2, classic.MostSteps)
		}
		for _, limit := range limits {
			task.MaxSteps = limit
			v := begun(t, e, task, classic.Reset{Seed: 1})
			before := len(all)
			run := func() {
				all = append(all, runSteps(t, v, task, classic.Policy{Uniform: &key}, 2))
			}
			step := func() { all = append(all, stepOnce(t, v, task, variedActions(task, 3))) }
			unseen := func() {
				if err := v.Step(variedActions(task, 2), nil); err != nil {
					t.Fatal(err)
				}
			}
			for _, calls := range [][]func(){
				{run, step, step}, {step, step, run}, {unseen, unseen, step},
			} {
				if err := v.Reset(classic.Reset{Seed: 1}); err != nil {
					t.Fatal(err)
				}
				put(t, v, func(s *classic.Snapshot) {
					for i := range s.Elapsed { // others have few steps
						s.Elapsed[i] = int32(i + (i+1)%2*(math.MaxInt32-2-2*i))
					}
				})
				for _, call := range calls {
					call()
				}
			}
			for k, r := range all[before:] {
				for _, step := range r.record {
					if step.Truncated[0] != (limit > 0) {
						t.Errorf("%s, %s, limit %d, call %d: environment 0 is truncated: %v",
							e.Name(), task.Name, limit, k, step.Truncated[0])
					}
				}
			}
		}
		return all
	})
}

// TestClassicBuffers: what a run or a step is asked for it answers, whatever else it is asked for
// at that step, or at another: each buffer alone, and none, is as where there are all.
func TestClassicBuffers(t *testing.T) {
	key := uint64(5)
	eachClassic(t, classicEngines(t), 9, func(e classic.Maker, task classic.Task) []ran {
		if task.Autoreset != classic.Disabled {
			task.MaxSteps = 2
		}
		steps := len(aloneBuffers(task))
		v := begun(t, e, task, classic.Reset{})
		again := func() {
			if err := v.Reset(classic.Reset{}); err != nil {
				t.Fatal(err)
			}
		}
		want := runSteps(t, v, task, classic.Policy{Uniform: &key}, steps)
		again()
		given := aloneBuffers(task)
		if err := v.Run(t.Context(), classic.Policy{Uniform: &key}, steps, given); err != nil {
			t.Fatal(err)
		}
		again()
		for k := range want.record {
			sameBuffers(t, fmt.Sprintf("%s, %s, step %d of a run", e.Name(), task.Name, k),
				&given[k], &want.record[k])
			one := aloneBuffers(task)[k]
			one.Actions = classic.Actions{}
			if err := v.Step(want.record[k].Actions, &one); err != nil {
				t.Fatal(err)
			}
			sameBuffers(t, fmt.Sprintf("%s, %s, step %d", e.Name(), task.Name, k), &one,
				&want.record[k])
		}
		return []ran{want}
	})
}

// aloneBuffers are transitions that have one buffer each, one that has none, and one that has two.
func aloneBuffers(task classic.Task) (all []classic.Transition) {
	for _, take := range []func(to, from *classic.Transition){
		func(to, from *classic.Transition) { to.Observations = from.Observations },
		func(to, from *classic.Transition) { to.Actions = from.Actions },
		func(*classic.Transition, *classic.Transition) {},
		func(to, from *classic.Transition) { to.Rewards = from.Rewards },
		func(to, from *classic.Transition) { to.Final = from.Final },
		func(to, from *classic.Transition) { to.States = from.States },
		func(to, from *classic.Transition) { to.Terminated = from.Terminated },
		func(to, from *classic.Transition) { to.Truncated, to.Final = from.Truncated, from.Final },
		func(to, from *classic.Transition) { to.Truncated = from.Truncated },
	} {
		var only classic.Transition
		whole := classic.NewTransition(task)
		copy(whole.Final, slices.Repeat([]float32{untouched}, len(whole.Final)))
		take(&only, &whole)
		all = append(all, only)
	}
	return all
}

// untouched is a final observation that a step has left alone.
const untouched = 7

// sameBuffers holds the buffers that got has to those of want. Final observations are of those that
// have ended.
func sameBuffers(t *testing.T, what string, got, want *classic.Transition) {
	t.Helper()
	left := *want
	left.Observations = asked(got.Observations, left.Observations)
	left.States = asked(got.States, left.States)
	left.Rewards = asked(got.Rewards, left.Rewards)
	left.Terminated = asked(got.Terminated, left.Terminated)
	left.Truncated = asked(got.Truncated, left.Truncated)
	left.Actions.Discrete = asked(got.Actions.Discrete, left.Actions.Discrete)
	left.Actions.Continuous = asked(got.Actions.Continuous, left.Actions.Continuous)
	left.Final = slices.Clone(asked(got.Final, left.Final))
	for i := range left.Final {
		if n := len(want.Rewards); !want.Terminated[i%n] && !want.Truncated[i%n] {
			left.Final[i] = untouched
		}
	}
	if err := sameTransition(&left, got); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// asked is a buffer of a whole answer, if there is one in another.
func asked[T any](there, whole []T) []T {
	if there == nil {
		return nil
	}
	return whole
}

// endsLater is a context that ends when it has been asked so often.
type endsLater struct {
	context.Context
	left int
}

func (c *endsLater) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestClassicInterrupted: a run whose context ends between two of an engine's stretches says so,
// and leaves the environments where as many steps as it has counted lead to.
func TestClassicInterrupted(t *testing.T) {
	const steps, num = 1<<16 + 7, 2 // beyond the longest stretch
	task, err := classic.Make("MountainCar-v0", num, nil)
	if err != nil {
		t.Fatal(err)
	}
	key := uint64(3)
	policy := classic.Policy{Uniform: &key}
	for _, e := range classicEngines(t) {
		v := begun(t, e, task, classic.Reset{Seed: 1})
		err := v.Run(&endsLater{t.Context(), 1}, policy, steps, nil)
		done := int(v.Totals().Steps) / num
		if !errors.Is(err, context.Canceled) || done == 0 || done == steps {
			t.Errorf("%s: %d of %d steps, and %v", e.Name(), done, steps, err)
			continue
		}
		whole := begun(t, e, task, classic.Reset{Seed: 1})
		if err := whole.Run(t.Context(), policy, done, nil); err != nil {
			t.Fatal(err)
		}
		compareRuns(t, fmt.Sprintf("%s, %d steps", e.Name(), done), runOnce(t, v, task, policy),
			runOnce(t, whole, task, policy))
	}
}
