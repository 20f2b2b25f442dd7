package fuzz

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"lockstep/classic"
	golden "lockstep/golden/classic"
)

// TestClassicKeepsNothing: a run follows from the state before it and from its policy, and from
// nothing that a vector did earlier. Each run is repeated by environments that are new, from a
// snapshot, and by the same ones, which are put back when all runs are over, or reset; and all
// engines answer it with the bits of the reference. Runs are shorter than what an engine draws of
// actions at a time; environments are more than it computes together, and no two are at one place.
func TestClassicKeepsNothing(t *testing.T) {
	all := classicEngines(t)
	for _, e := range classic.Environments() {
		modes := []classic.Autoreset{classic.NextStep, classic.SameStep, classic.Off}
		if e.Shared {
			modes = modes[:1]
		}
		for _, mode := range modes {
			t.Run(fmt.Sprintf("%s/%v", e.Name, mode), func(t *testing.T) {
				task, err := classic.Make(e.Name, manyEnvironments(all), nil)
				if err != nil {
					t.Fatal(err)
				}
				task.Autoreset, task.MaxSteps = mode, 7 // so that episodes end
				keepsNothing(t, all, task)
			})
		}
	}
}

// manyEnvironments are a block of the engine whose blocks are the largest, another's beginning, and
// no whole vector.
func manyEnvironments(all []classic.Maker) int {
	sizes := awkward(all)
	return sizes[len(sizes)-1]/2 + 5
}

// keepsNothing is TestClassicKeepsNothing for a task.
func keepsNothing(t *testing.T, all []classic.Maker, task classic.Task) {
	var want []ran
	for k, e := range all {
		got := runsAgain(t, e, task)
		if k == 0 {
			want = got
			continue
		}
		for i := range want {
			compareRuns(t, fmt.Sprintf("%s, run %d, against %s", e.Name(), i, all[0].Name()),
				got[i], want[i])
		}
	}
}

// ran is what a run came to.
type ran struct {
	record []classic.Transition
	end    *classic.Snapshot
	says   string // of a call that was refused
}

// runsAgain makes runs of one vector after the other, each in a new one besides, and at last
// each again from the snapshot before it, the last one first: by then others have ended.
func runsAgain(t *testing.T, e classic.Maker, task classic.Task) (all []ran) {
	begin := func(v classic.Vector) {
		if err := v.Reset(begins(task)); err != nil {
			t.Fatal(err)
		}
		apart(t, v, task)
	}
	open := func() classic.Vector {
		v, err := e.Make(task)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { v.Close() })
		begin(v)
		return v
	}
	v := open()
	var shots []*classic.Snapshot
	for i, p := range policiesInTurn(task) {
		shot, err := v.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		shots = append(shots, shot)
		fresh := open()
		if err := fresh.Restore(shot); err != nil {
			t.Fatal(err)
		}
		all = append(all, runOnce(t, v, task, p))
		compareRuns(t, fmt.Sprintf("%s, run %d, from a snapshot in new environments", e.Name(), i),
			runOnce(t, fresh, task, p), all[i])
	}
	policies := policiesInTurn(task)
	for i := len(all) - 1; i >= 0; i-- {
		if err := v.Restore(shots[i]); err != nil {
			t.Fatal(err)
		}
		compareRuns(t, fmt.Sprintf("%s, run %d, put back to before it", e.Name(), i),
			runOnce(t, v, task, policies[i]), all[i])
	}
	begin(v)
	for i, p := range policies[:2] {
		compareRuns(t, fmt.Sprintf("%s, run %d, after another reset", e.Name(), i),
			runOnce(t, v, task, p), all[i])
	}
	return all
}

// begins is a reset from which poles fall after some runs, and not in the first.
func begins(task classic.Task) classic.Reset {
	r := classic.Reset{Seed: 5}
	if task.Dynamics == classic.CartPole {
		r.Low, r.High = slices.Repeat([]float64{-0.18}, 4), slices.Repeat([]float64{0.18}, 4)
	}
	return r
}

// apart has each environment be at a step of its episode, and have totals, that its neighbours and
// its like in other blocks have not.
func apart(t *testing.T, v classic.Vector, task classic.Task) {
	t.Helper()
	runOnce(t, v, task, policiesInTurn(task)[0])
	s, err := v.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	for i := range s.Elapsed {
		s.Elapsed[i] = int32(1 + (i+i/7)%(task.MaxSteps-1))
		s.Rewards[i], s.Episodes[i] = s.Rewards[i]-float64(i), s.Episodes[i]+int64(i)
	}
	if err := v.Restore(s); err != nil {
		t.Fatal(err)
	}
}

// policiesInTurn differ in one thing from the one before: kind, seed, noise.
func policiesInTurn(task classic.Task) (all []classic.Policy) {
	noisy := func(seed uint64, noise ...float32) classic.Policy {
		n := *golden.Goal(task.Name)
		n.Seed, n.Noise = seed, noise
		return classic.Policy{Network: &n}
	}
	for _, key := range []uint64{1, 2, 1<<32 + 2, 2} { // each half of a key, too
		all = append(all, classic.Policy{Uniform: &key})
	}
	return append(
		all, noisy(1, -1, 1), noisy(2, -1, 1), noisy(2, -3, 3), noisy(2, 1), noisy(2), all[0],
	)
}

// runOnce is one run of three steps.
func runOnce(t *testing.T, v classic.Vector, task classic.Task, p classic.Policy) ran {
	t.Helper()
	return runSteps(t, v, task, p, 3)
}

func runSteps(
	t *testing.T, v classic.Vector, task classic.Task, p classic.Policy, steps int,
) (r ran) {
	t.Helper()
	for range steps {
		r.record = append(r.record, classic.NewTransition(task))
	}
	err := v.Run(context.Background(), p, len(r.record), r.record)
	if err == nil {
		r.end, err = v.Snapshot()
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func compareRuns(t *testing.T, what string, got, want ran) {
	t.Helper()
	for k := range want.record {
		if err := sameTransition(&want.record[k], &got.record[k]); err != nil {
			t.Fatalf("%s: step %d: %v", what, k, err)
		}
	}
	if err := sameSnapshot(want.end, got.end); err != nil {
		t.Fatalf("%s: at its end: %v", what, err)
	}
	if got.says != want.says {
		t.Fatalf("%s: refused with %q, want %q", what, got.says, want.says)
	}
}
