package gymnasium_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lockstep/classic"
	"lockstep/internal/simtest"
)

// TestBounds: a reset draws each number of a state between the bounds of that number, and of no
// other, and an episode of one step ends with it.
func TestBounds(t *testing.T) {
	for _, name := range []string{"reference", "batched"} {
		maker := open(t, name)
		for _, e := range classic.Environments() {
			t.Run(fmt.Sprintf("%s/%s", name, e.Name), func(t *testing.T) {
				task, err := classic.Make(e.Name, 7, map[string]string{"max_episode_steps": "1"})
				must(t, err)
				v, err := maker.Make(task)
				must(t, err)
				defer v.Close()
				bounds := len(task.Low)
				for k := range bounds {
					low, high := make([]float64, bounds), make([]float64, bounds)
					low[k], high[k] = -0.0625, -0.03125
					must(t, v.Reset(classic.Reset{Seed: 4, Low: low, High: high}))
					states := make([]float64, len(task.State)*task.Num)
					v.Observe(nil, states)
					row := states[k*task.Num:][:task.Num]
					least, most := slices.Min(row), slices.Max(row)
					if least < low[k] || most > high[k] || least == most {
						t.Errorf("value %d is drawn from %v to %v, want %v to %v", k, least, most,
							low[k], high[k])
					}
					for d := range bounds {
						if x := states[d*task.Num]; d != k && x != 0 {
							t.Errorf("value %d is %v, with bounds of 0", d, x)
						}
					}
				}
				key, record := uint64(3), []classic.Transition{classic.NewTransition(task)}
				must(t, v.Run(t.Context(), classic.Policy{Uniform: &key}, 1, record))
				if slices.Contains(record[0].Truncated, false) {
					t.Errorf("an episode of one step goes on: %v", record[0].Truncated)
				}
			})
		}
	}
}

// TestRecorded: a run of recorded actions takes each of them at its own step, counts on from what a
// snapshot says, beyond 32 bits, too, and a reset of all begins anew, whichever has ended.
func TestRecorded(t *testing.T) {
	for _, name := range []string{"reference", "batched"} {
		for _, e := range classic.Environments() {
			v := three(t, name, e, 1<<40)
			begin, err := v.Snapshot()
			must(t, err)
			begin.Steps = 1<<40 + 1
			var actions []classic.Actions
			for k := range int32(4) {
				a := classic.Actions{Discrete: []int32{k % 2, 1 - k%2, k / 2}}
				if e.Actions == 0 {
					a = classic.Actions{Continuous: []float32{float32(k) / 8, -0.5, 1}}
				}
				actions = append(actions, a)
			}
			var all [2]*classic.Snapshot
			for run := range all {
				must(t, v.Restore(begin))
				if run == 1 {
					must(t, v.Run(t.Context(), classic.Policy{Recorded: actions}, 4, nil))
				} else {
					for _, a := range actions {
						must(t, v.Step(a, nil))
					}
				}
				all[run], err = v.Snapshot()
				must(t, err)
			}
			if diff := cmp.Diff(all[0], all[1]); diff != "" {
				t.Errorf("%s, %s: a run of what was stepped (-step +run):\n%s", name, e.Name, diff)
			}
			if n := v.Totals().Steps; n != 3*(1<<40+5) || all[1].Steps != 1<<40+5 {
				t.Errorf("%s, %s: %d steps in all, each %d", name, e.Name, n, all[1].Steps)
			}
			all[1].Ended = []bool{false, true, true}
			must(t, v.Restore(all[1]))
			must(t, v.Reset(classic.Reset{Seed: 1 << 40}))
			begin.Steps = 0
			if again, err := v.Snapshot(); err != nil || !cmp.Equal(again, begin) {
				t.Errorf("%s, %s: reset again, with %v: %s", name, e.Name, err,
					cmp.Diff(begin, again))
			}
		}
	}
}

// eachCar tries both mountain cars, by both of NumPy's rules, at the first step and at the second,
// from which on states are float32.
func eachCar(
	t *testing.T, try func(t *testing.T, name string, old bool, elapsed int32),
) {
	for _, name := range []string{"MountainCar-v0", "MountainCarContinuous-v0"} {
		for _, old := range []bool{false, true} {
			for elapsed := range int32(2) {
				t.Run(fmt.Sprintf("%s/NumPy 1 %v/step %d", name, old, elapsed+1),
					func(t *testing.T) { try(t, name, old, elapsed) })
			}
		}
	}
}

// TestWall: a mountain car that comes to the wall stops there, if it goes left; one that goes right
// so slowly that it stays at the wall keeps its velocity. Where they begin, float32 and float64, is
// around where the slope stops them.
func TestWall(t *testing.T) {
	each(t, "reference", func(t *testing.T, engine classic.Maker) {
		eachCar(t, func(t *testing.T, name string, old bool, elapsed int32) {
			holdWall(t, engine, name, old, elapsed)
		})
	})
}

func holdWall(t *testing.T, engine classic.Maker, name string, old bool, elapsed int32) {
	const around, walls = 24, 2
	task, err := classic.Make(name, walls*2*(2*around+1), nil)
	must(t, err)
	task.NumPy1 = old
	n := task.Num
	actions := classic.Actions{Continuous: make([]float32, n)}
	if task.Actions > 0 {
		actions = classic.Actions{Discrete: slices.Repeat([]int32{1}, n)}
	}
	v, err := open(t, "reference").Make(task)
	must(t, err)
	defer v.Close()
	// step is where an engine's cars come to from states, by a step or a run of one.
	step := func(v classic.Vector, states []float64, run bool) []float64 {
		must(t, v.Reset(classic.Reset{Seed: 1}))
		s, err := v.Snapshot()
		must(t, err)
		copy(s.States, states)
		for i := range s.Elapsed {
			s.Elapsed[i] = elapsed
		}
		must(t, v.Restore(s))
		if run {
			recorded := classic.Policy{Recorded: []classic.Actions{actions}}
			must(t, v.Run(t.Context(), recorded, 1, nil))
		} else {
			must(t, v.Step(actions, nil))
		}
		after := make([]float64, len(states))
		v.Observe(nil, after)
		return after
	}
	states := make([]float64, 2*n)
	for i := range n {
		states[i] = -1.2
		if i%walls == 1 || elapsed > 0 {
			states[i] = float64(float32(-1.2))
		}
	}
	pulled := step(v, states, false)[n:]
	for i := range n {
		single, k := i/walls%2 == 0 || elapsed > 0, i/walls/2-around
		velocity := -pulled[i]
		for range max(k, -k) {
			if to := math.Inf(k); single {
				velocity = float64(math.Nextafter32(float32(velocity), float32(to)))
			} else {
				velocity = math.Nextafter(velocity, to)
			}
		}
		states[n+i] = velocity
	}
	want := step(v, states, false)
	slow, stopped := 0, 0
	for i, velocity := range want[n:] {
		if float32(want[i]) == -1.2 && velocity > 0 {
			slow++
		} else if velocity == 0 {
			stopped++
		}
	}
	if slow < 3 || stopped < 3 {
		t.Errorf("at the wall %d cars go right, and %d stand", slow, stopped)
	}
	other, err := engine.Make(task)
	must(t, err)
	defer other.Close()
	for what, got := range map[string][]float64{
		"states of a step":         step(other, states, false),
		"states of a run":          step(other, states, true),
		"the reference's of a run": step(v, states, true),
	} {
		if err := simtest.Same(what, got, want); err != nil {
			t.Error(err)
		}
	}
}

// TestGoal: a mountain car that is there has ended if it is as fast as the goal asks, after its
// speed has been bounded: at goals on both sides of the bound, to the next float64 and float32, and
// at the speeds that the cars come to.
func TestGoal(t *testing.T) {
	const bound = 0.07
	goals := []float64{0, 0.06, bound, 0.0702, 0.1, -bound, -0.0702, -1}
	for _, x := range []float64{bound, -bound} {
		for _, to := range []float64{-1, 1} {
			goals = append(goals, math.Nextafter(x, to), float64(float32(x)),
				float64(math.Nextafter32(float32(x), float32(to))))
		}
	}
	each(t, "reference", func(t *testing.T, engine classic.Maker) {
		eachCar(t, func(t *testing.T, name string, old bool, elapsed int32) {
			ended, all := 0, 0
			_, _, speeds := holdGoal(t, engine, name, old, elapsed, 0)
			for _, goal := range append(speeds, goals...) {
				some, of, _ := holdGoal(t, engine, name, old, elapsed, goal)
				ended, all = ended+some, all+of
			}
			if ended == 0 || ended == all {
				t.Errorf("%d of %d cars are at the goal", ended, all)
			}
		})
	})
}

func holdGoal(
	t *testing.T, engine classic.Maker, name string, old bool, elapsed int32, goal float64,
) (ended, all int, reached []float64) {
	t.Helper()
	speeds := []float64{
		0.0695, 0.07, 0.06, 0.0599, -0.0695, -0.07, -0.072, 0, float64(float32(0.07)),
	}
	options := map[string]string{"goal_velocity": strconv.FormatFloat(goal, 'g', -1, 64)}
	task, err := classic.Make(name, len(speeds), options)
	must(t, err)
	task.NumPy1 = old
	actions := classic.Actions{Continuous: slices.Repeat([]float32{1}, task.Num)}
	if task.Actions > 0 {
		actions = classic.Actions{Discrete: slices.Repeat([]int32{2}, task.Num)}
	}
	var want classic.Transition
	for _, maker := range []classic.Maker{open(t, "reference"), engine} {
		v, err := maker.Make(task)
		must(t, err)
		defer v.Close()
		must(t, v.Reset(classic.Reset{Seed: 1}))
		s, err := v.Snapshot()
		must(t, err)
		for i, speed := range speeds {
			s.States[i], s.States[task.Num+i], s.Elapsed[i] = 0.55, speed, elapsed
		}
		must(t, v.Restore(s))
		got := classic.NewTransition(task)
		must(t, v.Step(actions, &got))
		if maker.Name() == "reference" {
			want = got
			for _, done := range got.Terminated {
				if all++; done {
					ended++
				}
			}
			continue
		}
		if err := errors.Join(
			simtest.Same("terminated", got.Terminated, want.Terminated),
			simtest.Same("rewards", got.Rewards, want.Rewards),
			simtest.Same("states", got.States, want.States),
		); err != nil {
			t.Errorf("goal %v: %v", goal, err)
		}
	}
	return ended, all, want.States[task.Num:]
}
