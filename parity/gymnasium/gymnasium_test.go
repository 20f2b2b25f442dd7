package gymnasium_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"lockstep/classic"
	"lockstep/engines"
	golden "lockstep/golden/classic"
	"lockstep/internal/simtest"
	"lockstep/internal/want"
	"lockstep/parity"
	"lockstep/parity/conformance"
	"lockstep/parity/gymnasium"
)

func must(t *testing.T, err error) {
	if t.Helper(); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, name string) classic.Maker {
	t.Helper()
	e, err := engines.Classic().Open(name, 2)
	must(t, err)
	return e
}

// each tries every engine but one, if that is named.
func each(t *testing.T, but string, try func(t *testing.T, engine classic.Maker)) {
	for _, e := range engines.Classic().Checked() {
		if e.Name == but {
			continue
		}
		t.Run(e.Name, func(t *testing.T) {
			made, err := e.New(2)
			want.Skip(t, err)
			try(t, made)
		})
	}
}

// three are environments of an engine, each of which has begun.
func three(t *testing.T, engine string, e classic.Environment, seed int64) classic.Vector {
	t.Helper()
	task, err := classic.Make(e.Name, 3, nil)
	must(t, err)
	v, err := open(t, engine).Make(task)
	must(t, err)
	t.Cleanup(func() { v.Close() })
	must(t, v.Reset(classic.Reset{Seed: seed}))
	return v
}

// compare holds an engine to the reference through the gymnasium.
func compare(t *testing.T, got classic.Maker, r *gymnasium.Episodes) *parity.Report {
	t.Helper()
	report, err := r.Compare(
		context.Background(), open(t, "reference"), got, parity.CompareOptions{},
	)
	must(t, err)
	return report
}

func rollout(e classic.Environment, mode classic.Autoreset) *gymnasium.Episodes {
	key := uint64(5)
	r := &gymnasium.Episodes{
		Environment: e.Name,
		Num:         9,
		Autoreset:   mode.String(),
		Seeds:       []int64{3, 4, 5, 6, 7, 8, 9, 10, 1 << 40},
		Uniform:     &key,
		Steps:       250,
	}
	if mode == classic.NextStep {
		r.Uniform, r.Network = nil, golden.Goal(e.Name)
	}
	if mode == classic.Off { // whose actions are drawn
		network := *golden.Goal(e.Name)
		network.Noise, network.Seed = []float32{-0.5, 2, 0.25, -3, 1, 0, 0.75, -1}, 1<<63+9
		r.Uniform, r.Network = nil, &network
	}
	if e.Shared {
		r.Seeds = r.Seeds[:1]
	}
	return r
}

// modes are those that rollouts of an environment can have without somebody who resets.
func modes(e classic.Environment) []classic.Autoreset {
	if e.Shared {
		return []classic.Autoreset{classic.NextStep}
	}
	return []classic.Autoreset{classic.NextStep, classic.SameStep, classic.Off}
}

// TestEngines: the harness finds no difference between engines, and compares every value
// of every step.
func TestEngines(t *testing.T) {
	for _, e := range classic.Environments() {
		for _, mode := range modes(e) {
			r := rollout(e, mode)
			report := compare(t, open(t, "batched"), r)
			must(t, report.Err())
			for _, stage := range report.Stages {
				if want := map[bool]int{true: 1,
					false: r.Steps}[stage == "return"]; report.Compared[stage] != want {
					t.Errorf(
						"%s, %v: %d values of %s were compared, want %d", e.Name, mode,
						report.Compared[stage], stage, want,
					)
				}
			}
			if slices.Contains(report.Stages, "final") != (mode == classic.SameStep) ||
				!slices.Contains(report.Stages, "generator") {
				t.Errorf("%s, %v: stages %v", e.Name, mode, report.Stages)
			}
		}
	}
}

// TestConformance: every engine keeps what parity.Adapter promises, forced rollouts among it.
func TestConformance(t *testing.T) {
	each(t, "", func(t *testing.T, engine classic.Maker) {
		for _, e := range classic.Environments() {
			for _, mode := range modes(e) {
				r := rollout(e, mode)
				r.Steps = 60
				if mode == classic.SameStep {
					r.Options = map[string]string{"max_episode_steps": "25"}
				}
				other := *r
				other.Seeds = slices.Clone(r.Seeds)
				other.Seeds[0] = 77
				task, err := r.Task()
				must(t, err)
				tasks := append(r.Tasks(), other.Tasks()...)
				tasks[1].Key = []string{"another"}
				if err := conformance.Engine(t.Context(),
					&gymnasium.Adapted{Classic: engine,
						View: gymnasium.NewView(task)}, tasks); err != nil {
					t.Errorf("%s, %v: %v", e.Name, mode, err)
				}
			}
		}
	})
}

// TestTaskNames: a rollout is named by its environments, their mode and each of their options.
func TestTaskNames(t *testing.T) {
	r := gymnasium.Episodes{Environment: "CartPole-v1", Num: 7, Autoreset: "off",
		Options: map[string]string{"sutton_barto_reward": "True", "max_episode_steps": "3"}}
	const want = "7 CartPole-v1, off, max_episode_steps=3, sutton_barto_reward=True"
	if tasks := r.Tasks(); len(tasks) != 1 || tasks[0].Name() != want || tasks[0].Job != &r {
		t.Errorf("%+v, want one named %q", tasks, want)
	}
}

// faulty changes what an engine answers at a step, and where it leaves its environments.
type faulty struct {
	classic.Maker
	answer func(step int, t *classic.Transition)
	place  func(step int, s *classic.Snapshot)
}

func (f faulty) Make(t classic.Task) (classic.Vector, error) {
	v, err := f.Maker.Make(t)
	return &faultyVector{v, f, 0}, err
}

type faultyVector struct {
	classic.Vector
	faulty
	steps int
}

func (v *faultyVector) Run(
	ctx context.Context, p classic.Policy, steps int, record []classic.Transition,
) error {
	err := v.Vector.Run(ctx, p, steps, record)
	for i := range record {
		if v.steps++; v.answer != nil {
			v.answer(v.steps-1, &record[i])
		}
	}
	if v.place == nil || err != nil {
		return err
	}
	s, err := v.Vector.Snapshot()
	if err != nil {
		return err
	}
	v.place(v.steps-1, s)
	return v.Vector.Restore(s)
}

func flip(at int, plant func(*classic.Transition)) func(int, *classic.Transition) {
	return func(step int, t *classic.Transition) {
		if step == at {
			plant(t)
		}
	}
}

// TestStages: a fault in each stage is found at its step, named, and nothing else is.
func TestStages(t *testing.T) {
	const at, env = 121, 4
	moved := func(plant func(*classic.Snapshot)) faulty {
		return faulty{place: func(step int, s *classic.Snapshot) {
			if step == at {
				plant(s)
			}
		}}
	}
	for stage, f := range map[string]faulty{
		"action": {answer: flip(at,
			func(t *classic.Transition) { t.Actions.Discrete[env] ^= 1 })},
		"terminated": {answer: flip(at,
			func(t *classic.Transition) { t.Terminated[env] = !t.Terminated[env] })},
		"truncated": {answer: flip(at,
			func(t *classic.Transition) { t.Truncated[env] = !t.Truncated[env] })},
		"reward": {answer: flip(at,
			func(t *classic.Transition) { t.Rewards[env] = math.Copysign(t.Rewards[env], -1) })},
		"final":     {answer: flip(at, func(t *classic.Transition) { t.Final[env] = 1 })},
		"generator": moved(func(s *classic.Snapshot) { s.Generators[env]++ }),
		"elapsed":   moved(func(s *classic.Snapshot) { s.Elapsed[env]++ }),
		"ended":     {}, // see below: no mode has it by itself
		"state": {answer: flip(at,
			func(t *classic.Transition) { t.States[env] = math.Nextafter(t.States[env], 9) })},
		"observation": {answer: flip(at,
			func(t *classic.Transition) {
				t.Observations[env] = math.Nextafter32(t.Observations[env], 9)
			})},
	} {
		mode := classic.SameStep
		if stage == "ended" {
			mode, f = classic.Off, moved(func(s *classic.Snapshot) { s.Ended[env] = !s.Ended[env] })
		}
		f.Maker = open(t, "reference")
		report := compare(t, f, rollout(classic.Environments()[0], mode))
		if d := report.First; d == nil || d.Stage != stage || d.Step != at ||
			d.Element != "environment 4" ||
			len(report.Findings) != 1 {
			t.Errorf("%s: %v, findings %+v", stage, d, report.Findings)
		}
	}
}

// TestForced: behind a difference the engine is forced back, so that each fault is found,
// one in an early step and one in a late one.
func TestForced(t *testing.T) {
	f := faulty{Maker: open(t, "batched")}
	f.place = func(step int, s *classic.Snapshot) {
		if step == 10 {
			s.States[9+2] += 0x1p-40
		}
	}
	f.answer = flip(200, func(t *classic.Transition) { t.Rewards[7] += 1 })
	r := rollout(classic.Environments()[0], classic.SameStep)
	report := compare(t, f, r)
	if f := report.Findings; len(f) != 2 || f[0].Stage != "state" || f[0].Step != 11 ||
		f[0].Findings != 1 ||
		f[1].Stage != "reward" ||
		f[1].Step != 200 ||
		report.Forced != r.Steps {
		t.Errorf("%+v, %d forced steps", f, report.Forced)
	}
	// What a network sees at the next step is the teacher's, too.
	blind := func(observations []float32) { observations[2*9+4], observations[2*9+5] = 5, -5 }
	f = faulty{Maker: open(t, "batched"),
		answer: flip(10, func(t *classic.Transition) { blind(t.Observations) }),
		place: func(step int, s *classic.Snapshot) {
			if step == 10 {
				blind(s.Observations)
			}
		}}
	report = compare(t, f, rollout(classic.Environments()[0], classic.NextStep))
	if f := report.Findings; len(f) != 1 || f[0].Stage != "observation" || f[0].Findings != 1 {
		t.Errorf("an observation: %+v", f)
	}
	c := &gymnasium.VectorCase{Episodes: *r}
	results, err := c.Run(t.Context(), open(t, "reference"))
	must(t, err)
	if returns := results[0].Outcome; len(returns) != r.Num || slices.Min(returns) < 1 {
		t.Errorf("returns %v: each step of a cart earns 1", returns)
	}
}

// TestFields: whatever a rollout is told is another, another one is computed.
func TestFields(t *testing.T) {
	key, other := uint64(5), uint64(6)
	of := func(change func(r *gymnasium.Episodes)) string {
		t.Helper()
		c := &gymnasium.VectorCase{Episodes: gymnasium.Episodes{
			Environment: "Pendulum-v1", Options: map[string]string{"max_episode_steps": "5"},
			Num: 3, Autoreset: "next-step", Seeds: []int64{4, 5, 6}, Steps: 12, Uniform: &key,
		}}
		change(&c.Episodes)
		results, err := c.Run(t.Context(), open(t, "reference"))
		must(t, err)
		if results[0].Error {
			t.Fatalf("it fails: %+v", c.Episodes)
		}
		return fmt.Sprint(results)
	}
	same := of(func(*gymnasium.Episodes) {})
	simtest.Fields(t, map[string]func(r *gymnasium.Episodes){
		"Episodes.Environment": func(r *gymnasium.Episodes) {
			r.Environment = "MountainCarContinuous-v0"
		},
		"Episodes.Options": func(r *gymnasium.Episodes) { r.Options["g"] = "9" },
		"Episodes.Num": func(r *gymnasium.Episodes) {
			r.Num, r.Seeds = 2, r.Seeds[:2]
		},
		"Episodes.Autoreset": func(r *gymnasium.Episodes) { r.Autoreset = "same-step" },
		"Episodes.NumPy1":    func(r *gymnasium.Episodes) { r.NumPy1 = true },
		"Episodes.Seeds":     func(r *gymnasium.Episodes) { r.Seeds[2]++ },
		"Episodes.Bound":     func(r *gymnasium.Episodes) { r.Bound = 0.5 },
		"Episodes.Steps":     func(r *gymnasium.Episodes) { r.Steps++ },
		"Episodes.Uniform":   func(r *gymnasium.Episodes) { r.Uniform = &other },
		"Episodes.Network": func(r *gymnasium.Episodes) {
			r.Uniform, r.Network = nil, golden.Goal("Pendulum-v1")
		},
		"Episodes.Actions": func(r *gymnasium.Episodes) {
			r.Uniform, r.Actions = nil, make([]parity.Float, r.Steps*r.Num)
		},
	}, func(name string, change func(r *gymnasium.Episodes)) {
		if got := of(change); got == same {
			t.Errorf("with another %s it computes the same: %s", name, got)
		}
	}, reflect.TypeFor[gymnasium.Episodes]())
}

// TestShrink: what differs becomes one environment of few steps, is kept, and shows again
// when it is loaded.
func TestShrink(t *testing.T) {
	good := open(t, "reference")
	bad := faulty{Maker: good, answer: func(_ int, t *classic.Transition) {
		for i := range t.Rewards {
			if t.States[i] > 0.1 { // x
				t.Rewards[i]++
			}
		}
	}}
	r := rollout(classic.Environments()[0], classic.NextStep)
	r.Options = map[string]string{"sutton_barto_reward": "True"}
	small, d, err := gymnasium.Shrink(t.Context(), r, good, bad, 0)
	must(t, err)
	if d.Stage != "reward" || small.Num != 1 || small.Uniform != nil || small.Network != nil ||
		len(small.Actions) != small.Steps ||
		small.Steps > 100 ||
		small.Options["sutton_barto_reward"] != "" {
		t.Errorf("%v: %+v", d, small)
	}
	dir := t.TempDir()
	c := gymnasium.VectorCase{
		Case:     parity.Case{What: "x beyond 0.1", Stage: d.Stage, Engine: "faulty"},
		Episodes: *small,
	}
	c.Results, err = c.Run(t.Context(), good)
	must(t, err)
	must(t, c.Save(dir))
	path := filepath.Join(dir, "reward-faulty-x-beyond-0-1.json")
	if !gymnasium.IsCase(path) {
		t.Errorf("%s is no case", path)
	}
	kept, err := gymnasium.LoadCase(path)
	must(t, err)
	for _, one := range []struct {
		engine classic.Maker
		want   string
	}{{good, ""}, {open(t, "batched"), ""}, {bad, "stages of hash "}} {
		results, err := kept.Run(t.Context(), one.engine)
		must(t, err)
		if _, err := kept.Check(results); (err == nil) != (one.want == "") ||
			err != nil && !strings.Contains(err.Error(), one.want) {
			t.Errorf("%v, want %q", err, one.want)
		}
	}
}

// TestBadCase: a file that is no case says what is wrong in a line.
func TestBadCase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "case.json")
	for text, want := range map[string]string{
		`{"format": 2, "environment": "CartPole-v2", "num": 1}`: `environment "CartPole-v2" is ` +
			`unknown`,
		`{"format": 2, "environment": "CartPole-v1", "num": 2, "autoreset": "off", "seeds": [1], ` +
			`"steps": 3}`: "1 seeds, want 2",
		`{"format": 2, "environment": "CartPole-v1", "num": 1, "autoreset": "off", "seeds": [1], ` +
			`"steps": 0}`: "0 steps, want 1 at least",
		`{"format": 2, "environment": "CartPole-v1", "num": 1, "autoreset": "off", "seeds": [1], ` +
			`"steps": 2, "actions": [1]}`: "1 actions, want 2 steps of 1",
		`{"format": 2, "environment": "CartPoleVectorEnv", "num": 3, "autoreset": "next-step", ` +
			`"seeds": [1, 2], "steps": 3}`: "2 seeds, want 1",
		`{"format": 2, "environment": "CartPole-v1", "num": 3, "autoreset": "off", "seeds": ` +
			`[1, 2, 3], "steps": 2, "actions": [1, 0, 1, 1, 0.5, 0]}`: "step 1, environment 1: " +
			"action 0.5 is no integer",
		`{"format": 2, "environment": "CartPole-v1", "num": 1, "autoreset": "maybe", "seeds": ` +
			`[1], "steps": 2}`: `autoreset mode "maybe" is unknown`,
		`{"format": 2, "environment": "CartPole-v1", "num": 1, "autoreset": "off", "seeds": [1], ` +
			`"steps": 2, "colour": "red"}`: `unknown field "colour"`,
		`{"format": 9, "environment": "CartPole-v1"}`: "format version 9, want 2",
		`{"format": 2, "environment": "CartPoleVectorEnv", "num": 2, "autoreset": "same-step", ` +
			`"seeds": [1], "steps": 2, "actions": [1, 0, 1, 1]}`: "resets at the next step",
	} {
		must(t, os.WriteFile(path, []byte(text), 0o600))
		if _, err := gymnasium.LoadCase(path); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestRefused: states that an environment would never come back from, or that its
// arithmetic is not exact for, are refused and change nothing.
func TestRefused(t *testing.T) {
	for _, name := range []string{"reference", "batched"} {
		for _, e := range classic.Environments() {
			v := three(t, name, e, 1)
			before, err := v.Snapshot()
			must(t, err)
			bad, err := v.Snapshot()
			must(t, err)
			bad.States[2] = 1e300
			err = v.Restore(bad)
			if e.Dynamics == classic.CartPole {
				must(t, err)
				must(t, v.Step(classic.Actions{Discrete: make([]int32, 3)}, nil))
				continue
			}
			if err == nil ||
				!strings.Contains(
					err.Error(),
					e.Name+": environment 2: a snapshot with "+e.State[0]+" 1e+300: it must be "+
						"within ±",
				) {
				t.Errorf("%s: %s: %v", name, e.Name, err)
			}
			low, high := slices.Repeat([]float64{-1e300}, len(e.Low)),
				slices.Repeat([]float64{1e300}, len(e.Low))
			if err := v.Reset(classic.Reset{Seed: 2, Low: low, High: high}); err == nil ||
				!strings.Contains(err.Error(), "they must be ordered, finite and within ±") {
				t.Errorf("%s: %s: %v", name, e.Name, err)
			}
			if after, err := v.Snapshot(); err != nil || !reflect.DeepEqual(after, before) {
				t.Errorf(
					"%s: %s: after what was refused it is %+v, before %+v; %v", name, e.Name, after,
					before, err,
				)
			}
		}
	}
}
