package engines

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"lockstep/classic"
	"lockstep/internal/want"
)

// TestClassicRefuses: what is not the task's is refused, in every engine in the same words, before
// anything is computed.
func TestClassicRefuses(t *testing.T) {
	task := classicTask(t, "CartPole-v1")
	for _, e := range Classic().Checked() {
		t.Run(e.Name, func(t *testing.T) {
			engine, err := e.New(2)
			want.Skip(t, err)
			none := task
			none.Num = 0
			if v, err := engine.Make(none); err == nil || v != nil ||
				!strings.HasPrefix(err.Error(), "CartPole-v1: 0 environments: at least 1") {
				t.Errorf("0 environments: %v", err)
			}
			v, err := engine.Make(task)
			if err != nil {
				t.Fatal(err)
			}
			defer v.Close()
			classicRefuses(t, v)
		})
	}
}

func classicRefuses(t *testing.T, v classic.Vector) {
	task, key := v.Task(), uint64(1)
	uniform := classic.Policy{Uniform: &key}
	actions, answer := classic.Actions{Discrete: make([]int32, 3)}, classic.NewTransition(task)
	wide := classic.Actions{Discrete: []int32{0, 2, 0}}
	short := answer
	short.Rewards = short.Rewards[:2]
	rows := func(a classic.Actions, into *classic.Transition, n int) error {
		r, ok := v.(classic.RowStepper)
		if !ok {
			return errNoRows
		}
		return r.StepRows(a, into, make([]float32, n))
	}
	run := func(policy classic.Policy, steps int, record ...classic.Transition) error {
		return v.Run(t.Context(), policy, steps, record)
	}
	snapshot := func() error { _, err := v.Snapshot(); return err }
	refuses := func(want string, errs ...error) {
		t.Helper()
		for i, err := range errs {
			if !errors.Is(err, errNoRows) &&
				(err == nil || !strings.Contains(err.Error(), "CartPole-v1: "+want)) {
				t.Errorf("call %d: %v, want CartPole-v1: %s", i, err, want)
			}
		}
	}
	refuses("environment 0 has not been reset", v.Step(actions, nil), rows(actions, nil, 12),
		run(uniform, 2), snapshot())
	refuses("environment 0: a generator's increment", v.Restore(classic.NewSnapshot(task)))
	if err := v.Reset(classic.Reset{Seed: 1}); err != nil {
		t.Fatal(err)
	}
	refuses("Rewards has 2 values: 3 environments have 3", v.Step(actions, &short),
		rows(actions, &short, 12))
	refuses("Rewards has 2 values: 3 environments have 3", run(uniform, 2, answer, short))
	refuses("2 steps are to be recorded in 1", run(uniform, 2, answer))
	refuses("2 steps are to be recorded in 3", run(uniform, 2, make([]classic.Transition, 3)...))
	refuses("rows have 11 values: 3 environments have 12", rows(actions, &answer, 11))
	refuses("environment 1: action 2 is not one of 0 to 1", v.Step(wide, nil), rows(wide, nil, 12))
	refuses("a policy is recorded actions, or uniform ones", run(classic.Policy{}, 2))
	refuses("actions of 1 steps were recorded: 2 are wanted",
		run(classic.Policy{Recorded: []classic.Actions{actions}}, 2))
	refuses("the network has 4 outputs, want 2",
		run(classic.Policy{Network: &classic.Perceptron{}}, 1))
	refuses("environment 0: seed -1 is negative", v.Reset(classic.Reset{Seed: -1}))
	refuses("no snapshot", v.Restore(nil))
	if totals := fmt.Sprint(v.Totals()); totals != fmt.Sprint(classic.Totals{
		Rewards: make([]float64, 3), Episodes: make([]int64, 3),
	}) {
		t.Errorf("what was refused has counted: %s", totals)
	}
}

// errNoRows is of an engine without rows.
var errNoRows = errors.New("no rows")
