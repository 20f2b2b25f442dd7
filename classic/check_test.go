package classic

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"lockstep/internal/simtest"
)

// A checked case is what is refused with a message that has some words in it, or is taken.
type checked struct {
	name  string
	err   error
	words string // of the message; none: it is taken
}

func hold(t *testing.T, cases []checked) {
	t.Helper()
	for _, c := range cases {
		if c.words == "" && c.err != nil ||
			c.words != "" && (c.err == nil || !strings.Contains(c.err.Error(), c.words)) {
			t.Errorf("%s: %v, want an error with %q, or none for none", c.name, c.err, c.words)
		}
	}
}

// task is one of an environment.
func task(t *testing.T, name string, num int, mode Autoreset) Task {
	t.Helper()
	k, err := Make(name, num, nil)
	if err != nil {
		t.Fatal(err)
	}
	k.Autoreset = mode
	return k
}

// TestMake: each option is taken at its bounds, refused beyond, and changes its own field.
func TestMake(t *testing.T) {
	made := func(name, key, value string) (Task, error) {
		return Make(name, 1, map[string]string{key: value})
	}
	const cart, shared, car = "CartPole-v1", "CartPoleVectorEnv", "MountainCar-v0"
	var names []string
	for _, e := range Environments() {
		names = append(names, e.Name)
		// Who writes to what was handed out writes to what is his own.
		found, err := Find(e.Name)
		if err != nil {
			t.Fatal(err)
		}
		before := fmt.Sprintf("%+v", Environments())
		made, _ := Make(e.Name, 1, nil)
		for _, of := range []any{Environments(), found, made} {
			blanked := simtest.Blank(of)
			if after := fmt.Sprintf("%+v", Environments()); blanked < 10 || after != before {
				t.Errorf("%s: %d blanked in %T: there is %s, was %s", e.Name, blanked, of, after,
					before)
			}
		}
		if k, err := Make(e.Name, 1, nil); err != nil || k.Name != e.Name {
			t.Errorf("%s is made as %s: %v", e.Name, k.Name, err)
		}
	}
	var cases []checked
	for _, c := range []struct{ name, key, value, words string }{
		{cart, "max_episode_steps", "1", ""}, {cart, "max_episode_steps", "-1", ""},
		{cart, "max_episode_steps", "0", "a positive number"},
		{cart, "max_episode_steps", "-2", "a positive number"},
		{cart, "max_episode_steps", "x", "a positive number"},
		{cart, "max_episode_steps", "2147483648", "a positive number"},
		{cart, "max_episode_steps", "2000000001", "a positive number to 2000000000"},
		{cart, "max_episode_steps", "2000000000", ""},
		{shared, "max_episode_steps", "-1", "a positive number"},
		{shared, "max_episode_steps", "1", ""}, {cart, "g", "1", "has no option"},
		{cart, "sutton_barto_reward", "True", ""}, {cart, "sutton_barto_reward", "False", ""},
		{cart, "sutton_barto_reward", "1", "True or False"},
		{cart, "kinematics_integrator", "other", "euler"},
		{car, "goal_velocity", "inf", "a finite number"},
		{car, "goal_velocity", "nan", "a finite number"},
		{car, "goal_velocity", "1,5", "a finite number"}, {car, "goal_velocity", "-1.5", ""},
		{"Acrobot-v1", "book_or_nips", "nips", ""}, {"Pendulum-v1", "g", "9.81", ""},
		{"Pong-v0", "g", "1", "is unknown: there are " + strings.Join(names, ", ")},
	} {
		_, err := made(c.name, c.key, c.value)
		cases = append(cases, checked{fmt.Sprint(c), err, c.words})
	}
	for _, num := range []int{-1, 0, MaxNum + 1} {
		_, err := Make(cart, num, nil)
		cases = append(cases, checked{
			fmt.Sprint(num), err, fmt.Sprint("at least 1 are needed, and at most ", MaxNum, " can"),
		})
	}
	_, err := Make(cart, MaxNum, nil)
	hold(t, append(cases, checked{"as many as there may be", err, ""}))

	for _, c := range []struct {
		name, key, value string
		is               func(Task) bool
	}{
		{cart, "max_episode_steps", "-1", func(k Task) bool { return k.MaxSteps == 0 }},
		{cart, "max_episode_steps", "7", func(k Task) bool { return k.MaxSteps == 7 }},
		{cart, "sutton_barto_reward", "True", func(k Task) bool { return k.SuttonBarto }},
		{cart, "sutton_barto_reward", "False", func(k Task) bool { return !k.SuttonBarto }},
		{cart, "kinematics_integrator", "euler", func(k Task) bool { return !k.SemiImplicit }},
		{
			cart, "kinematics_integrator", "semi-implicit",
			func(k Task) bool { return k.SemiImplicit },
		},
		{"Acrobot-v1", "book_or_nips", "nips", func(k Task) bool { return k.Nips }},
		{car, "goal_velocity", "0.25", func(k Task) bool { return k.GoalVelocity == 0.25 }},
		{"Pendulum-v1", "g", "9.5", func(k Task) bool { return k.Gravity == 9.5 }},
	} {
		if k, err := made(c.name, c.key, c.value); err != nil || !c.is(k) {
			t.Errorf("%s with %s=%s is %+v: %v", c.name, c.key, c.value, k, err)
		}
	}
}

// TestCheck: a task without environment, one that shares its generator in another mode, and limits.
func TestCheck(t *testing.T) {
	shared := task(t, "CartPoleVectorEnv", 2, NextStep)
	other, endless := shared, shared
	other.Autoreset, endless.MaxSteps = SameStep, 0
	alone := task(t, "CartPole-v1", 2, SameStep)
	alone.MaxSteps = 0
	negative, long, longest := alone, alone, alone
	negative.MaxSteps, long.MaxSteps, longest.MaxSteps = -1, MostSteps+1, MostSteps
	hold(t, []checked{
		{"nothing", Task{Num: 1}.Check(), "no environment"}, {"shared", shared.Check(), ""},
		{"shared in another mode", other.Check(), "resets at the next step"},
		{"shared without end", endless.Check(), "resets at the next step"},
		{"alone without end", alone.Check(), ""}, {"longest", longest.Check(), ""},
		{"a limit of -1", negative.Check(), "a limit of -1 steps: want 1 to 2000000000, or 0 for"},
		{"a limit beyond", long.Check(), "a limit of 2000000001 steps"},
	})
	for _, mode := range []Autoreset{NextStep, SameStep, Disabled, Off} {
		if got, err := ParseAutoreset(mode.String()); got != mode || err != nil {
			t.Errorf("%v is read as %v: %v", mode, got, err)
		}
	}
	if _, err := ParseAutoreset("never"); err == nil {
		t.Error("a mode that there is none of is read")
	}
}

// TestCheckReset: seeds, masks and bounds, at their ends and beyond.
func TestCheckReset(t *testing.T) {
	shared := task(t, "CartPoleVectorEnv", 2, NextStep)
	alone, car := task(t, "CartPole-v1", 2, Off), task(t, "MountainCar-v0", 2, Disabled)
	own := task(t, "CartPole-v1", 2, SameStep)
	pendulum := task(t, "Pendulum-v1", 2, Off)
	four := func(x float64) []float64 { return fill(4, x) }
	of := func(k Task, r Reset, seeded bool) error { return k.CheckReset(r, seeded) }
	const last = math.MaxInt64
	inf, nan := math.Inf(1), math.NaN()
	hold(t, []checked{
		{"a seed", of(alone, Reset{}, false), ""},
		{"negative", of(alone, Reset{Seed: -1}, false), "seed -1 is negative"},
		{"negative, but drawn on", of(alone, Reset{Seed: -1, Continue: true}, true), ""},
		{"last", of(alone, Reset{Seed: last - 1}, false), ""},
		{
			"beyond", of(alone, Reset{Seed: last}, false),
			"environment 1: its seed is beyond 9223372036854775807",
		},
		{"beyond, drawn on", of(alone, Reset{Seed: last, Continue: true}, true), ""},
		{"shared", of(shared, Reset{Seed: last}, false), ""},
		{"drawn on too early", of(alone, Reset{Continue: true}, false), "needs a seed"},
		{"drawn on with seeds", of(alone, Reset{Continue: true, Seeds: []int64{1, 2}}, false), ""},
		{"seeds", of(alone, Reset{Seed: -1, Seeds: []int64{0, last}}, false), ""},
		{"too many", of(alone, Reset{Seeds: []int64{1, 2, 3}}, false), "3 seeds for 2"},
		{"negative one", of(alone, Reset{Seeds: []int64{1, -3}}, false), "environment 1: seed -3"},
		{"one generator", of(shared, Reset{Seeds: []int64{1, 2}}, false), "has one generator"},

		{"mask", of(alone, Reset{Mask: []bool{true, false}}, true), ""},
		{"disabled", of(car, Reset{Mask: []bool{false, true}}, true), ""},
		{"whole", of(alone, Reset{Mask: []bool{true, true}}, false), ""},
		{"part", of(alone, Reset{Mask: []bool{true, false}}, false), "environment 1 has not been"},
		{"none", of(alone, Reset{Mask: []bool{false, false}}, true), "the mask has no environment"},
		{"short", of(alone, Reset{Mask: []bool{true}}, true), "a mask of 1 for 2"},
		{
			"of one that resets itself", of(own, Reset{Mask: []bool{false, true}}, true),
			"environment 1 resets itself",
		},

		{"bounds", of(alone, Reset{Low: four(-9), High: four(-9)}, false), ""},
		{"low alone", of(alone, Reset{Low: four(-9)}, false), ""},
		{"crossed", of(alone, Reset{Low: four(2), High: four(1)}, false), "must be ordered"},
		{"few low", of(alone, Reset{Low: fill(3, -1)}, false), "3 and 4 bounds"},
		{"few high", of(alone, Reset{High: fill(3, 1)}, false), "4 and 3 bounds"},
		{"NaN", of(alone, Reset{Low: four(nan)}, false), "must be ordered"},
		{"NaN above", of(alone, Reset{High: four(nan)}, false), "must be ordered"},
		{"without end", of(alone, Reset{Low: four(-inf)}, false), "must be ordered"},
		{"end and all", of(alone, Reset{High: four(inf)}, false), "must be ordered"},
		{
			"too far apart",
			of(alone, Reset{Low: four(-1.7e308), High: four(1.7e308)}, false), "must be ordered",
		},
		{"both far", of(alone, Reset{Low: four(1.7e308), High: four(1.7e308)}, false), ""},
		{"a reach", of(car, Reset{Low: fill(1, -100), High: fill(1, 100)}, false), ""},
		{"beyond it", of(car, Reset{High: fill(1, 100.5)}, false), "within ±100"},
		{"below it", of(car, Reset{Low: fill(1, -100.5)}, false), "within ±100"},
		{"a pendulum's", of(pendulum, Reset{High: fill(2, 1e15)}, false), ""},
		{"beyond a pendulum's", of(pendulum, Reset{High: fill(2, 1.1e15)}, false), "within ±1e+15"},
	})
	for i := range 2 { // any value
		wrong := func(low, high float64) (r Reset, words string) {
			r = Reset{Low: fill(2, -1), High: fill(2, 1)}
			r.Low[i], r.High[i] = low, high
			return r, fmt.Sprintf("bounds %g and %g of a reset: they must be ordered", low, high)
		}
		for _, b := range [][2]float64{{2, 1}, {nan, 1}, {-1, nan}, {-1.1e15, 1}, {-1, 1.1e15}} {
			r, words := wrong(b[0], b[1])
			hold(t, []checked{{fmt.Sprint("value ", i), of(pendulum, r, false), words}})
		}
		far := Reset{Low: four(-1), High: four(1)}
		far.Low[2+i], far.High[2+i] = -1.7e308, 1.7e308
		hold(t, []checked{{fmt.Sprint(far), of(alone, far, false), "bounds -1.7e+308 and 1.7"}})
	}
}

// TestBounds: a reset's bounds are its own where it has them, each side by itself.
func TestBounds(t *testing.T) {
	k := task(t, "Pendulum-v1", 1, Off)
	low, high := []float64{-9, -8}, []float64{7, 6}
	for _, c := range []struct {
		r         Reset
		low, high []float64
	}{
		{Reset{}, []float64{-math.Pi, -1}, []float64{math.Pi, 1}},
		{Reset{Low: low}, low, []float64{math.Pi, 1}},
		{Reset{High: high}, []float64{-math.Pi, -1}, high},
		{Reset{Low: low, High: high}, low, high},
	} {
		gotLow, gotHigh := k.Bounds(c.r)
		if !slices.Equal(gotLow, c.low) || !slices.Equal(gotHigh, c.high) {
			t.Errorf("%+v: from %v to %v, want %v to %v", c.r, gotLow, gotHigh, c.low, c.high)
		}
		gotLow[1]-- // a copy of the caller's, or of the environment's
		gotHigh[1]--
		if low[1] != -8 || high[1] != 6 {
			t.Error("who writes to the bounds that were given writes to the caller's arrays")
		}
	}
}

// TestCheckStep: actions at both ends and beyond, those that are ignored, and who may be stepped.
func TestCheckStep(t *testing.T) {
	car, next := task(t, "MountainCar-v0", 2, Off), task(t, "MountainCar-v0", 2, NextStep)
	disabled := task(t, "MountainCar-v0", 2, Disabled)
	shared := task(t, "CartPoleVectorEnv", 2, NextStep)
	pendulum := task(t, "Pendulum-v1", 2, NextStep)
	discrete := func(a ...int32) Actions { return Actions{Discrete: a} }
	wide := func(a ...float32) Actions { return Actions{Continuous: a} }
	nan := float32(math.NaN())
	second := []bool{false, true}
	hold(t, []checked{
		{"both ends", car.CheckStep(discrete(0, 2), true, nil), ""},
		{
			"above", car.CheckStep(discrete(0, 3), true, nil),
			"environment 1: action 3 is not one of 0 to 2",
		},
		{"below", car.CheckStep(discrete(-1, 0), true, nil), "environment 0: action -1"},
		{"ignored", next.CheckStep(discrete(0, 3), true, second), ""},
		{"not the ignored one", next.CheckStep(discrete(3, 0), true, second), "environment 0"},
		{"not ignored", car.CheckStep(discrete(0, 3), true, second), "environment 1"},
		{"nor where shared", shared.CheckStep(discrete(0, 2), true, second), "environment 1"},
		{"few", car.CheckStep(discrete(0), true, nil), "it wants 2 integers"},
		{"other", car.CheckStep(wide(0, 0), true, nil), "it wants 2 integers"},
		{"both", car.CheckStep(Actions{[]int32{0, 0}, []float32{0}}, true, nil), "it wants 2 int"},
		{"float32", pendulum.CheckStep(wide(9, -9), true, nil), ""},
		{"NaN", pendulum.CheckStep(wide(0, nan), true, nil), "environment 1: the action is NaN"},
		{"NaN, ignored", pendulum.CheckStep(wide(0, nan), true, second), ""},
		{"NaN of another", pendulum.CheckStep(wide(nan, 0), true, second), "environment 0"},
		{"no float32", pendulum.CheckStep(discrete(0, 0), true, nil), "it wants 2 float32"},
		{"before a reset", car.CheckStep(discrete(0, 0), false, nil), "has not been reset"},
		{"ended", disabled.CheckStep(discrete(0, 0), true, second), "environment 1 has ended"},
		{"nobody ended", disabled.CheckStep(discrete(0, 0), true, []bool{false, false}), ""},
		{"ended, and goes on", car.CheckStep(discrete(0, 0), true, second), ""},
	})
}

// TestCheckTransition: each buffer may be left out, and has its own length else, in each step of a
// run.
func TestCheckTransition(t *testing.T) {
	k := task(t, "Pendulum-v1", 3, SameStep)
	whole := NewTransition(k)
	if len(whole.Final) != 9 || len(whole.Actions.Continuous) != 3 ||
		whole.Actions.Discrete != nil {
		t.Errorf("its buffers are %+v", whole)
	}
	other := NewTransition(task(t, "CartPole-v1", 3, NextStep))
	if other.Final != nil || len(other.Actions.Discrete) != 3 || other.Actions.Continuous != nil {
		t.Errorf("its buffers are %+v", other)
	}
	cases := []checked{
		{"none", k.CheckTransition(nil), ""}, {"empty", k.CheckTransition(&Transition{}), ""},
		{"whole", k.CheckTransition(&whole), ""},
	}
	for name, cut := range map[string]func(*Transition){
		"Actions.Discrete": func(r *Transition) { r.Actions.Discrete = make([]int32, 2) },
		"Actions.Continuous": func(r *Transition) {
			r.Actions.Continuous = r.Actions.Continuous[1:]
		},
		"States":       func(r *Transition) { r.States = r.States[1:] },
		"Observations": func(r *Transition) { r.Observations = r.Observations[1:] },
		"Rewards":      func(r *Transition) { r.Rewards = r.Rewards[1:] },
		"Terminated":   func(r *Transition) { r.Terminated = r.Terminated[1:] },
		"Truncated":    func(r *Transition) { r.Truncated = r.Truncated[1:] },
		"Final":        func(r *Transition) { r.Final = r.Final[1:] },
	} {
		r := NewTransition(k)
		cut(&r)
		cases = append(cases, checked{name, k.CheckTransition(&r), name + " has "})
	}
	cut := Transition{Final: make([]float32, 8)}
	key := uint64(1)
	uniform := Policy{Uniform: &key}
	run := func(p Policy, record ...Transition) error { return k.CheckRun(p, 2, record) }
	hold(t, append(cases, []checked{
		{"8 of 9", k.CheckTransition(&cut), "3 environments have 9"},
		{"unrecorded", run(uniform), ""}, {"recorded", run(uniform, whole, Transition{}), ""},
		{"no policy", run(Policy{}, whole, whole), "0 are given"},
		{"record of one", run(uniform, whole), "2 steps are to be recorded in 1"},
		{"second cut", run(uniform, whole, cut), "step 1: Pendulum-v1: Final has 8 values"},
	}...))
}

// TestCheckSnapshot: each length, and each number at its bounds and beyond.
func TestCheckSnapshot(t *testing.T) {
	of := func(k Task) *Snapshot {
		s := NewSnapshot(k)
		for i := range k.generators() {
			s.Generators[3*k.generators()+i] = 1
		}
		return s
	}
	car, same := task(t, "MountainCar-v0", 2, NextStep), task(t, "MountainCar-v0", 2, SameStep)
	shared, cart := task(t, "CartPoleVectorEnv", 2, NextStep), task(t, "CartPole-v1", 2, NextStep)
	cases := []checked{{"none", car.CheckSnapshot(nil), "no snapshot"}}
	for _, c := range []struct {
		name  string
		k     Task
		edit  func(*Snapshot)
		words string
	}{
		{"as it is", car, func(*Snapshot) {}, ""}, {"shared", shared, func(*Snapshot) {}, ""},
		{"states", car, func(s *Snapshot) { s.States = s.States[1:] }, "is not one of"},
		{"observations", car, func(s *Snapshot) { s.Observations = s.Observations[1:] }, "not one"},
		{"elapsed", car, func(s *Snapshot) { s.Elapsed = s.Elapsed[1:] }, "is not one of"},
		{"ended", car, func(s *Snapshot) { s.Ended = s.Ended[1:] }, "is not one of"},
		{"generators", car, func(s *Snapshot) { s.Generators = s.Generators[1:] }, "is not one of"},
		{"rewards", car, func(s *Snapshot) { s.Rewards = s.Rewards[1:] }, "is not one of"},
		{"episodes", car, func(s *Snapshot) { s.Episodes = s.Episodes[1:] }, "is not one of"},
		{"steps", car, func(s *Snapshot) { s.Steps = -1 }, "after -1 steps"},
		{"far", car, func(s *Snapshot) { s.States[3] = -100 }, ""},
		{
			"too far", car, func(s *Snapshot) { s.States[3] = 100.5 },
			"environment 1: a snapshot with v",
		},
		{
			"hardly too far", car,
			func(s *Snapshot) { s.States[2] = math.Nextafter(100, 101) }, // no float32
			"environment 0: a snapshot with v",
		},
		{
			"NaN", car, func(s *Snapshot) { s.States[0] = math.NaN() },
			"environment 0: a snapshot with p",
		},
		{
			"NaN seen", car, func(s *Snapshot) { s.Observations[3] = float32(math.NaN()) },
			"environment 1: a snapshot with the observation velocity NaN",
		},
		{
			"too far seen", car, func(s *Snapshot) { s.Observations[0] = -100.5 },
			"environment 0: a snapshot with the observation position -100.5",
		},
		{"far seen", car, func(s *Snapshot) { s.Observations[0] = -100 }, ""},
		{
			"NaN that a cart sees", cart,
			func(s *Snapshot) { s.Observations[3] = float32(math.NaN()) }, "",
		},
		{"NaN of a cart", cart, func(s *Snapshot) { s.States[0] = math.NaN() }, ""},
		{"a step", car, func(s *Snapshot) { s.Elapsed[1] = math.MaxInt32 - 1 }, ""},
		{"the last", car, func(s *Snapshot) { s.Elapsed[1] = math.MaxInt32 }, "environment 1: a s"},
		{
			"before all", car, func(s *Snapshot) { s.Elapsed[1] = -1 },
			"environment 1: a snapshot aft",
		},
		{"an end", car, func(s *Snapshot) { s.Ended[1] = true }, ""},
		{
			"a hidden end", same, func(s *Snapshot) { s.Ended[1] = true },
			"environment 1: its end is reset in the same",
		},
		{"none hidden", same, func(*Snapshot) {}, ""},
		{
			"even", car, func(s *Snapshot) { s.Generators[7] = 2 },
			"environment 1: a generator's incr",
		},
		{"even elsewhere", car, func(s *Snapshot) { s.Generators[5] = 2 }, ""},
		{"even, shared", shared, func(s *Snapshot) { s.Generators[3] = 0 }, "environment 0: a gen"},
	} {
		s := of(c.k)
		c.edit(s)
		cases = append(cases, checked{c.name, c.k.CheckSnapshot(s), c.words})
	}
	hold(t, cases)
}

// TestForkColumns: number k is where places[k] was, in every column.
func TestForkColumns(t *testing.T) {
	forksColumns(t, 3, []int{2, 0, 2, 1})
	forksColumns(t, 1, []int{0, 0})
	if _, err := NewSnapshot(task(t, "CartPoleVectorEnv", 3, NextStep)).Fork(
		task(t, "CartPoleVectorEnv", 3, NextStep), nil); err == nil {
		t.Error("one of several that share a generator goes on alone")
	}
}

// forksColumns: a snapshot of n environments has places, and no others.
func forksColumns(t *testing.T, n int, places []int) {
	t.Helper()
	k := task(t, "Pendulum-v1", n, NextStep)
	s := NewSnapshot(k)
	s.Steps = 1<<40 + 11
	for i := range s.States {
		s.States[i] = float64(i)
	}
	for i := range s.Observations {
		s.Observations[i] = float32(i)
	}
	for i := range s.Generators {
		s.Generators[i] = uint64(2*i + 1)
	}
	for i := range n {
		s.Elapsed[i], s.Ended[i] = int32(i+1), i == 2
		s.Rewards[i], s.Episodes[i] = float64(i)/2, int64(i+5)
	}
	f, err := s.Fork(k, places)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		forked("state", f.States, s.States, n, places),
		forked("observation", f.Observations, s.Observations, n, places),
		forked("generator", f.Generators, s.Generators, n, places),
		forked("elapsed", f.Elapsed, s.Elapsed, n, places),
		forked("ended", f.Ended, s.Ended, n, places),
		forked("reward", f.Rewards, s.Rewards, n, places),
		forked("episodes", f.Episodes, s.Episodes, n, places),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	if f.Steps != s.Steps {
		t.Errorf("it is after %d steps, want %d", f.Steps, s.Steps)
	}
	for _, wrong := range []int{-1, n} {
		if _, err := s.Fork(k, []int{0, wrong}); err == nil {
			t.Errorf("place %d of %d is taken", wrong, n)
		}
	}
}

// forked is how values of environments that were taken from n at places are not those.
func forked[T comparable](what string, got, from []T, n int, places []int) error {
	if len(got)*n != len(from)*len(places) {
		return fmt.Errorf("%d of %s, from %d of %d", len(got), what, len(from), n)
	}
	for i, x := range got {
		value, at := i/len(places), i%len(places)
		if want := from[n*value+places[at]]; x != want {
			return fmt.Errorf("%s %d of number %d is %v, and of %d was %v",
				what, value, at, x, places[at], want)
		}
	}
	return nil
}

func fill32(n int, x float32) []float32 { return slices.Repeat([]float32{x}, n) }

// TestCheckPolicy: layers, weights and noise at their bounds and beyond.
func TestCheckPolicy(t *testing.T) {
	k := task(t, "MountainCar-v0", 1, NextStep) // two values observed, three actions
	layer := func(inputs, outputs int) Layer {
		return Layer{make([]float32, inputs*outputs), make([]float32, outputs)}
	}
	of := func(layers ...Layer) Policy { return Policy{Network: &Perceptron{Layers: layers}} }
	weight := func(x float32, bias bool) Policy {
		l := layer(2, 3)
		if bias {
			l.Bias[2] = x
		} else {
			l.Weights[5] = x
		}
		return of(l)
	}
	noise := func(n int, x float32) Policy {
		p := of(layer(2, 3))
		p.Network.Noise = make([]float32, n)
		p.Network.Noise[n-1] = x
		return p
	}
	nan, key := float32(math.NaN()), uint64(1)
	short := layer(2, 3)
	short.Weights = short.Weights[1:]
	cases := []checked{
		{"nothing", Policy{}.Check(k, 1), "0 are given"},
		{"two", Policy{Uniform: &key, Recorded: []Actions{}}.Check(k, 0), "2 are given"},
		{"uniform", Policy{Uniform: &key}.Check(k, 9), ""},
		{"recorded", Policy{Recorded: make([]Actions, 2)}.Check(k, 2), ""},
		{"few", Policy{Recorded: make([]Actions, 2)}.Check(k, 3), "actions of 2 steps"},
		{"many", Policy{Recorded: make([]Actions, 4)}.Check(k, 3), "actions of 4 steps"},
	}
	for _, c := range []struct {
		name  string
		p     Policy
		words string
	}{
		{"a layer", of(layer(2, 3)), ""}, {"no layer", of(), "the network has 2 outputs"},
		{"four", of(layer(2, 1), layer(1, 1), layer(1, 1), layer(1, 3)), ""},
		{
			"five", of(layer(2, 1), layer(1, 1), layer(1, 1), layer(1, 1), layer(1, 3)),
			"has 5 layers: at most 4 can be",
		},
		{"widest", of(layer(2, MaxWidth), layer(MaxWidth, 3)), ""},
		{
			"wider", of(layer(2, MaxWidth+1), layer(MaxWidth+1, 3)),
			fmt.Sprint("with 2 inputs and at most ", MaxWidth, " outputs"),
		},
		{"none", of(layer(2, 0), layer(0, 3)), "layer 0 has"},
		{"few weights", of(short), "layer 0 has 5 weights"},
		{"second", of(layer(2, 4), layer(2, 3)), "layer 1 has"},
		{"outputs", of(layer(2, 2)), "the network has 2 outputs, want 3"},
		{"heaviest", weight(MaxWeight, false), ""}, {"lightest", weight(-MaxWeight, true), ""},
		{"heavier", weight(1000.5, false), "a weight of 1000.5: they must be within ±1000"},
		{"lighter", weight(-1000.5, true), "a weight of -1000.5"},
		{"no weight", weight(nan, true), "a weight of NaN"},
		{"two", of(Layer{fill32(6, 1001), fill32(3, 1002)}), "a weight of 1001"},
		{"noise", noise(4, MaxWeight), ""}, {"lowest noise", noise(1, -MaxWeight), ""},
		{"three", noise(3, 0), "3 numbers of noise"}, {"most", noise(MaxNoise, 0), ""},
		{"more", noise(2*MaxNoise, 0), fmt.Sprint("up to ", MaxNoise)},
		{"louder", noise(2, 1000.5), "number 1 of the network's noise is 1000.5: they must be"},
		{"lower", noise(2, -1000.5), "noise is -1000.5"}, {"NaN", noise(2, nan), "noise is NaN"},
	} {
		cases = append(cases, checked{c.name, c.p.Check(k, 1), c.words})
	}
	hold(t, cases)
	if got := noise(1, 0).Network.NoiseShift(); got != 32 {
		t.Errorf("one number is found by a shift of %d", got)
	}
	if got := noise(MaxNoise, 0).Network.NoiseShift(); got != 16 {
		t.Errorf("the most numbers are found by a shift of %d", got)
	}
}
