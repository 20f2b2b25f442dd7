package gymnasium

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lockstep/classic"
	"lockstep/parity"
	b "lockstep/parity/branches"
	reference "lockstep/reference/classic"
)

// seen is a step of some environments, column by column; what is nil is 0 everywhere.
type seen struct {
	states                []float64
	final                 []float32
	terminated, truncated []bool
	discrete              []int32
	continuous            []float32
}

// shown has a watcher look at steps, and returns what it counted.
func shown(t *testing.T, env, mode string, num int, steps ...seen) string {
	t.Helper()
	task, err := classic.Make(env, num, nil)
	if err != nil {
		t.Fatal(err)
	}
	if task.Autoreset, err = classic.ParseAutoreset(mode); err != nil {
		t.Fatal(err)
	}
	view := NewView(task)
	names, watch := watching(task, view)
	w := watch(nil)
	for k, s := range steps {
		answer := classic.NewTransition(task)
		copy(answer.States, s.states)
		copy(answer.Final, s.final)
		copy(answer.Terminated, s.terminated)
		copy(answer.Truncated, s.truncated)
		copy(answer.Actions.Discrete, s.discrete)
		copy(answer.Actions.Continuous, s.continuous)
		into := view.NewStep()
		view.Expose(k, &step{answer, classic.NewSnapshot(task)}, into)
		w.Step(into)
	}
	var all []string
	for i, n := range w.End(parity.End{}).Times {
		if n > 0 {
			all = append(all, fmt.Sprint(names[i].Name, " ", n))
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// TestCounted: what a step of each environment went through is counted, at each bound and beyond
// it.
func TestCounted(t *testing.T) {
	yes, no := []bool{true}, []bool{false}
	above := func(x float64) float64 { return math.Nextafter(x, math.Inf(1)) }
	below := func(x float64) float64 { return math.Nextafter(x, math.Inf(-1)) }
	state := func(x ...float64) seen { return seen{states: x} }
	const cart, car, force, pendulum, acrobot = "CartPole-v1", "MountainCar-v0",
		"MountainCarContinuous-v0", "Pendulum-v1", "Acrobot-v1"
	tilt := 12 * 2 * math.Pi / 360
	for name, c := range map[string]struct {
		env, mode string
		steps     []seen
		want      map[int]int
	}{
		"nothing":         {cart, "off", []seen{{}}, nil},
		"cart at the end": {cart, "off", []seen{state(2.4), state(-2.4)}, nil},
		"cart beyond right": {cart, "off", []seen{state(above(2.4))},
			map[int]int{b.CartPoleRight: 1}},
		"cart beyond left": {cart, "off", []seen{state(below(-2.4))},
			map[int]int{b.CartPoleLeft: 1}},
		"tilt": {cart, "off", []seen{state(0, 0, tilt), state(0, 0, -tilt)}, nil},
		"tilt right": {cart, "off", []seen{state(0, 0, above(tilt))},
			map[int]int{b.CartPoleTiltRight: 1}},
		"tilt left": {cart, "off", []seen{state(0, 0, below(-tilt))},
			map[int]int{b.CartPoleTiltLeft: 1}},
		"not fallen": {cart, "off", []seen{state(0, 0, math.Pi/4)},
			map[int]int{b.CartPoleTiltRight: 1}},
		"fallen": {cart, "off", []seen{state(0, 0, below(-math.Pi/4))},
			map[int]int{b.CartPoleTiltLeft: 1, b.CartPoleFallen: 1}},
		"wall": {car, "off", []seen{state(-1.2)}, map[int]int{b.MountainCarWall: 1,
			b.MountainCarSlow: 1}},
		"beside the wall": {car, "off", []seen{state(above(-1.2))}, map[int]int{
			b.MountainCarSlow: 1}},
		"fast": {car, "off", []seen{state(0, -0.07)},
			map[int]int{b.MountainCarSpeed: 1}},
		"less": {car, "off", []seen{state(0, below(0.07))},
			map[int]int{b.MountainCarSlow: 1}},
		"turned": {pendulum, "off", []seen{state(math.Pi), state(-above(math.Pi))},
			map[int]int{b.PendulumTurned: 1}},
		"swift": {pendulum, "off", []seen{state(0, -8), state(0, below(8))},
			map[int]int{b.PendulumFast: 1}},
		"wraps": {acrobot, "off", []seen{state(3), state(-0.1), state(3.1)},
			map[int]int{b.AcrobotWrapped: 1}},
		"wraps, the second": {acrobot, "off", []seen{state(0, 3), state(0, -3)},
			map[int]int{b.AcrobotWrapped: 1}},
		"half a turn": {acrobot, "off", []seen{
			state(0, math.Pi), state(0, 0), state(math.Pi, 0),
		}, nil},
		"no step before": {acrobot, "off", []seen{state(9, 9, 4*math.Pi, 9*math.Pi)}, nil},
		"swift links": {acrobot, "off", []seen{{}, state(0, 0, -4*math.Pi, 9*math.Pi)},
			map[int]int{b.AcrobotFastFirst: 1, b.AcrobotFastSecond: 1}},
		"slower links": {acrobot, "off", []seen{
			{}, state(0, 0, below(4*math.Pi), below(9*math.Pi)),
		}, nil},

		"terminated": {cart, "next-step", []seen{{terminated: yes}},
			map[int]int{b.Terminated: 1}},
		"truncated": {cart, "next-step", []seen{{truncated: yes}}, map[int]int{b.Truncated: 1}},
		"both": {cart, "next-step", []seen{{truncated: yes, terminated: yes}}, map[int]int{
			b.Truncated: 1, b.Terminated: 1, b.TerminatedAndTruncated: 1}},
		"reset at the next step": {cart, "next-step", []seen{{terminated: yes}, state(9), state(9)},
			map[int]int{b.Terminated: 1, b.ResetNextStep: 1, b.CartPoleRight: 1}},
		"never reset": {cart, "off", []seen{{terminated: yes}, {}, {truncated: no}},
			map[int]int{b.Terminated: 1, b.NeverReset: 2}},
		"reset in the step": {cart, "same-step", []seen{
			{truncated: yes, states: []float64{9}, final: []float32{-9}}, {states: []float64{9}},
		},
			map[int]int{b.Truncated: 1, b.ResetSameStep: 1, b.CartPoleLeft: 1, b.CartPoleRight: 1}},
		"the wall, hidden": {car, "same-step", []seen{{truncated: yes, final: []float32{-1.25, 0}}},
			map[int]int{
				b.Truncated: 1, b.ResetSameStep: 1, b.MountainCarWall: 1, b.MountainCarSlow: 1,
			}},
		"a pendulum, hidden": {pendulum, "same-step", []seen{
			{truncated: yes, states: []float64{4, 8}},
		}, map[int]int{b.Truncated: 1, b.ResetSameStep: 1}},
		"an acrobot, hidden": {acrobot, "same-step", []seen{
			{}, {truncated: yes, states: []float64{4, 4, 4 * math.Pi, 9 * math.Pi}},
		}, map[int]int{b.Truncated: 1, b.ResetSameStep: 1}},

		"two of three actions": {car, "off", []seen{{discrete: []int32{0}}, {discrete: []int32{2}}},
			map[int]int{b.MountainCarSlow: 2}},
		"every action": {car, "off", []seen{
			{discrete: []int32{0}}, {discrete: []int32{2}}, {discrete: []int32{1}},
		}, map[int]int{b.MountainCarSlow: 3, b.EveryAction: 1}},
		"one way": {force, "off", []seen{{continuous: []float32{1}}, {continuous: []float32{0.5}}},
			map[int]int{b.MountainCarSlow: 2}},
		"both ways": {force, "off", []seen{{continuous: []float32{1}}, {continuous: []float32{-1}}},
			map[int]int{b.MountainCarSlow: 2, b.EveryAction: 1}},
		"beyond the force": {force, "off", []seen{
			{continuous: []float32{math.Nextafter32(1, 2)}},
			{continuous: []float32{math.Nextafter32(-1, -2)}},
		}, map[int]int{b.MountainCarSlow: 2, b.EveryAction: 1, b.ForceHigh: 1, b.ForceLow: 1}},
	} {
		var want []string
		for branch, n := range c.want {
			want = append(want, fmt.Sprint(b.Classic()[branch].Name, " ", n))
		}
		slices.Sort(want)
		// Actions of 0 are a side, too; those of discrete environments one action.
		got := shown(t, c.env, c.mode, 1, c.steps...)
		if text := strings.Join(want, ", "); got != text {
			t.Errorf("%s: counted is %q, want %q", name, got, text)
		}
	}
}

// TestCountedEach: each of several environments is counted with its own column.
func TestCountedEach(t *testing.T) {
	got := shown(t, "CartPole-v1", "next-step", 3, seen{
		states:     []float64{9, 0, -9, 0, 0, 0, 0, 1, 0, 0, 0, 0},
		terminated: []bool{true, false, false}, truncated: []bool{false, false, true},
		discrete: []int32{0, 0, 1},
	}, seen{states: []float64{9, 0, -9}})
	want := []string{
		b.Classic()[b.CartPoleRight].Name + " 1", b.Classic()[b.CartPoleLeft].Name + " 1",
		b.Classic()[b.CartPoleTiltRight].Name + " 1", b.Classic()[b.CartPoleFallen].Name + " 1",
		b.Classic()[b.Terminated].Name + " 1", b.Classic()[b.Truncated].Name + " 1",
		b.Classic()[b.ResetNextStep].Name + " 2", b.Classic()[b.EveryAction].Name + " 2",
	}
	slices.Sort(want)
	if text := strings.Join(want, ", "); got != text {
		t.Errorf("counted is %q, want %q", got, text)
	}
}

// TestCountedWhich: what one of several environments went through counts once, whichever it is, and
// what it went through before is its own.
func TestCountedWhich(t *testing.T) {
	count := func(text string, branch int) (n int) {
		for _, part := range strings.Split(text, ", ") {
			if word, ok := strings.CutPrefix(part, b.Classic()[branch].Name+" "); ok {
				fmt.Sscan(word, &n)
			}
		}
		return n
	}
	for k := range 3 {
		row := func(rows int, x float64) []float64 {
			all := make([]float64, 3*rows)
			all[k] = x
			return all
		}
		only, others := make([]bool, 3), []bool{true, true, true}
		low, high, both := make([]float32, 3), make([]float32, 3), []float32{-1, -1, -1}
		only[k], others[k], low[k], high[k], both[k] = true, false, -2, 2, 1
		wrapped := shown(t, "Acrobot-v1", "off", 3, seen{states: row(4, 3)},
			seen{states: row(4, -0.5)}, seen{states: row(4, -0.6)})
		forced := shown(t, "MountainCarContinuous-v0", "off", 3, seen{continuous: low})
		pushed := shown(t, "MountainCarContinuous-v0", "off", 3, seen{continuous: high})
		sides := shown(t, "MountainCarContinuous-v0", "off", 3, seen{continuous: both})
		ended := shown(t, "CartPole-v1", "off", 3, seen{terminated: only}, seen{}, seen{})
		either := shown(t, "CartPole-v1", "off", 3, seen{terminated: only, truncated: others})
		for what, c := range map[string][2]int{
			"wraps":       {count(wrapped, b.AcrobotWrapped), 1},
			"forced":      {count(forced, b.ForceLow), 1},
			"not forced":  {count(forced, b.ForceHigh), 0},
			"pushed":      {count(pushed, b.ForceHigh), 1},
			"not pushed":  {count(pushed, b.ForceLow), 0},
			"both ways":   {min(count(sides, b.EveryAction), 1), 1},
			"not both":    {count(either, b.TerminatedAndTruncated), 0},
			"never reset": {count(ended, b.NeverReset), 2},
			"terminated":  {count(ended, b.Terminated), 1},
		} {
			if c[0] != c[1] {
				t.Errorf("environment %d, %s: counted %d times, want %d", k, what, c[0], c[1])
			}
		}
	}
}

// TestElements: each environment has its name in each array.
func TestElements(t *testing.T) {
	task, err := classic.Make("CartPole-v1", 3, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, stage := range NewView(task).Stages {
		for i, e := range stage.Elements {
			if e.Name != fmt.Sprintf("environment %d", i) || e.Count != 1 {
				t.Errorf("element %d of %s is %+v", i, stage.Name, e)
			}
		}
	}
}

// TestCountedHidden: of each of several environments whose end its reset hides the own final
// observation counts, and of the others the state.
func TestCountedHidden(t *testing.T) {
	for i := range 3 {
		ended, final, state := make([]bool, 3), make([]float32, 12), make([]float64, 12)
		ended[i], final[i], state[i] = true, -9, 9
		got := shown(t, "CartPole-v1", "same-step", 3, seen{
			states: state, final: final, truncated: ended,
		})
		want := []string{
			b.Classic()[b.CartPoleLeft].Name + " 1", b.Classic()[b.Truncated].Name + " 1",
			b.Classic()[b.ResetSameStep].Name + " 1",
		}
		slices.Sort(want)
		if text := strings.Join(want, ", "); got != text {
			t.Errorf("environment %d has ended: counted is %q, want %q", i, got, text)
		}
	}
}

// TestCountedLacking: a step that lacks an array, as those of traces may, counts for nothing.
func TestCountedLacking(t *testing.T) {
	task, err := classic.Make("CartPole-v1", 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	view := NewView(task)
	for _, lacks := range []string{"state", "terminated", "truncated", ""} {
		_, watch := watching(task, view)
		w := watch(nil)
		answer := classic.NewTransition(task)
		answer.States[0], answer.Terminated[0], answer.Truncated[0] = 9, true, true
		into := view.NewStep()
		view.Expose(0, &step{answer, classic.NewSnapshot(task)}, into)
		if lacks != "" {
			into.Data[view.Index(lacks)] = nil
		}
		w.Step(into)
		counted := slices.Max(w.End(parity.End{}).Times)
		if (counted > 0) != (lacks == "") {
			t.Errorf("without %q a step counts %d times", lacks, counted)
		}
	}
}

// TestHardRollouts: in each mode an environment begins where it does by itself, and then near and
// far off, in episodes of two steps.
func TestHardRollouts(t *testing.T) {
	for env, modes := range map[string]string{
		"CartPole-v1": "next-step same-step off", "CartPoleVectorEnv": "next-step",
	} {
		e, err := classic.Find(env)
		if err != nil {
			t.Fatal(err)
		}
		var want, got []string
		for _, mode := range strings.Fields(modes) {
			want = append(want, mode+" 0 map[]", mode+" 1 map[max_episode_steps:2]",
				mode+" 40 map[max_episode_steps:2]")
		}
		for i, r := range Hard(*e) {
			got = append(got, fmt.Sprint(r.Autoreset, " ", r.Bound, " ", r.Options))
			if first := int64(10 * (i % 3)); r.Seeds[0] != first ||
				r.Seeds[len(r.Seeds)-1] != first+int64(len(r.Seeds))-1 {
				t.Errorf("%s, rollout %d has seeds %d, want %d and those that follow", env, i,
					r.Seeds, first)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", env, got, want)
		}
	}
}

// TestFreeze: what a policy chose is given, of either kind of action, and nobody chooses then.
func TestFreeze(t *testing.T) {
	key := uint64(5)
	for _, env := range []string{"Acrobot-v1", "MountainCarContinuous-v0"} {
		r := &Episodes{
			Environment: env, Num: 3, Autoreset: "next-step", Seeds: []int64{4, 5, 6}, Steps: 7,
			Uniform: &key,
		}
		frozen, err := r.Freeze(t.Context(), reference.Reference{})
		if err != nil {
			t.Fatal(err)
		}
		if frozen.Uniform != nil || frozen.Network != nil || len(frozen.Actions) != 21 {
			t.Errorf("%s: %+v, want 21 actions alone", env, frozen)
		}
		results := func(r *Episodes) string {
			c := &VectorCase{Episodes: *r}
			got, err := c.Run(t.Context(), reference.Reference{})
			if err != nil {
				t.Fatal(err)
			}
			return fmt.Sprint(got)
		}
		if got, want := results(frozen), results(r); got != want {
			t.Errorf("%s: with the given actions %s, want %s", env, got, want)
		}
		if r.Uniform != &key || r.Actions != nil {
			t.Errorf("%s: the rollout itself is %+v", env, r)
		}
	}
	bad := &Episodes{Environment: "CartPole-v1", Num: 1, Autoreset: "off", Steps: 1}
	if got, err := bad.Freeze(t.Context(), reference.Reference{}); err == nil {
		t.Errorf("a rollout without seeds is %+v", got)
	}
}

// TestSmaller: passes of a search make a rollout smaller in their own way and leave what is needed.
func TestSmaller(t *testing.T) {
	rollout := func() *Episodes {
		return &Episodes{
			Environment: "MountainCar-v0", Num: 3, Autoreset: "next-step", Seeds: []int64{4, 0, 6},
			Steps: 4, NumPy1: true, Options: map[string]string{"goal_velocity": "1", "x": "y"},
			Actions: []parity.Float{0, 1, 2, 2, 1, 0, 1, 1, 1, 0, 2, 0},
		}
	}
	for _, c := range []struct {
		name  string
		pass  func(s *shrinker)
		at    parity.Divergence
		fails func(r *Episodes) bool
		want  func(r *Episodes)
		runs  int
	}{
		{"the environment that differs", fewerEnvironments,
			parity.Divergence{Index: 7, Element: "environment 1"},
			func(*Episodes) bool { return true }, func(r *Episodes) {
				r.Num, r.Seeds, r.Actions = 1, []int64{0}, []parity.Float{1, 1, 1, 2}
			}, 2},
		{"not the environment that differs", fewerEnvironments,
			parity.Divergence{Index: 7, Element: "environment 1"},
			func(r *Episodes) bool { return slices.Contains(r.Seeds, 4) },
			func(r *Episodes) {
				r.Num, r.Seeds, r.Actions = 1, []int64{4}, []parity.Float{0, 2, 1, 0}
			}, 5},
		{"a value of no environment", fewerEnvironments, parity.Divergence{Index: 4},
			func(*Episodes) bool { return true }, func(r *Episodes) {
				r.Num, r.Seeds, r.Actions = 1, []int64{6}, []parity.Float{2, 0, 1, 0}
			}, 3},
		{"two environments", fewerEnvironments, parity.Divergence{Index: -1},
			func(r *Episodes) bool { return slices.Contains(r.Seeds, 6) && len(r.Seeds) > 1 },
			func(r *Episodes) {
				r.Num, r.Seeds = 2, []int64{0, 6}
				r.Actions = []parity.Float{1, 2, 1, 0, 1, 1, 2, 0}
			}, 4},
		{"just beyond the step", fewerSteps, parity.Divergence{Step: 1},
			func(r *Episodes) bool { return r.Steps > 1 },
			func(r *Episodes) { r.Steps, r.Actions = 2, r.Actions[:6] }, 3},
		{"the last step", fewerSteps, parity.Divergence{Step: 3},
			func(r *Episodes) bool { return r.Steps > 3 }, func(*Episodes) {}, 3},
		{"without a step", fewerSteps, parity.Divergence{Step: -1},
			func(r *Episodes) bool { return r.Steps > 2 },
			func(r *Episodes) { r.Steps, r.Actions = 3, r.Actions[:9] }, 3},
		{"options and NumPy", plainer, parity.Divergence{},
			func(r *Episodes) bool { return r.Options["x"] != "" },
			func(r *Episodes) { r.NumPy1, r.Options = false, map[string]string{"x": "y"} }, 4},
		{"seeds", smallerSeeds, parity.Divergence{},
			func(r *Episodes) bool { return r.Seeds[2] != 0 },
			func(r *Episodes) { r.Seeds[0] = 0 }, 3},
		{"the last seed", smallerSeeds, parity.Divergence{},
			func(r *Episodes) bool { return r.Seeds[0] != 0 },
			func(r *Episodes) { r.Seeds[2] = 0 }, 3},
	} {
		runs := 0
		got, _, err := parity.Shrink(t.Context(), rollout(),
			func(_ context.Context, r *Episodes) (*parity.Divergence, error) {
				if runs++; !c.fails(r) {
					return nil, nil
				}
				d := c.at
				return &d, nil
			}, 0, c.pass)
		want := rollout()
		c.want(want)
		if text := fmt.Sprintf("%+v", *want); err != nil || fmt.Sprintf("%+v", *got) != text ||
			runs != c.runs {
			t.Errorf("%s: %+v after %d runs, %v; want %s after %d", c.name, *got, runs, err, text,
				c.runs)
		}
	}
	shared := &Episodes{Environment: "CartPoleVectorEnv", Num: 2, Seeds: []int64{9}}
	if got := shared.keep([]int{1}); got.Num != 1 || len(got.Seeds) != 1 || got.Seeds[0] != 9 {
		t.Errorf("of environments that share a generator one is %+v", got)
	}
}

// TestHardActions: an environment is pushed to one side, then to the other, at its own pace.
func TestHardActions(t *testing.T) {
	discrete, err := classic.Find("MountainCar-v0")
	if err != nil {
		t.Fatal(err)
	}
	continuous, err := classic.Find("Pendulum-v1")
	if err != nil {
		t.Fatal(err)
	}
	row := func(all []parity.Float, i int) (own []parity.Float) {
		for k := i; k < len(all); k += 2 {
			own = append(own, all[k])
		}
		return own
	}
	for _, c := range []struct {
		of   classic.Environment
		want [2]string
	}{
		{*discrete, [2]string{
			"[0 0 0 2 2 2 0 0 0 2 2 2 0 1 0]", "[0 0 0 0 0 0 0 0 2 2 2 2 1 2 2]",
		}},
		{*continuous, [2]string{
			"[0.5 -3 -3 3 3 3 -3 -3 -3 3 3 3 -3 0.5 -3]",
			"[-3 -3 -3 -3 -3 -3 -3 -3 3 3 3 3 0.5 3 3]",
		}},
	} {
		all := hardActions(c.of, 15, 2)
		for i, want := range c.want {
			if got := fmt.Sprint(row(all, i)); got != want {
				t.Errorf("%s, environment %d: %s, want %s", c.of.Name, i, got, want)
			}
		}
	}
}

// TestIsCase: a case of this family names an environment.
func TestIsCase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "case.json")
	for text, want := range map[string]bool{
		`{"environment": "CartPole-v1"}`: true, `{"environment": ""}`: false, `{}`: false,
		`{"environment": 1}`: false, `nothing`: false,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := IsCase(path); got != want {
			t.Errorf("%s is a case: %v, want %v", text, got, want)
		}
	}
	if IsCase(path + "x") {
		t.Error("what is not there is a case")
	}
}
