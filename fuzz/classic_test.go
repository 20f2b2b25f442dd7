package fuzz

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"lockstep/classic"
	"lockstep/engines"
	golden "lockstep/golden/classic"
	"lockstep/internal/fuzzing"
	"lockstep/internal/simtest"
	"lockstep/internal/want"
)

// classicTask draws environments of engines, with options.
func classicTask(t *rapid.T, all []classic.Maker) classic.Task {
	e := rapid.SampledFrom(classic.Environments()).Draw(t, "environment")
	num := rapid.OneOf(
		rapid.IntRange(1, 20), rapid.SampledFrom(awkward(all)),
	).Draw(t, "num")
	task, err := classic.Make(e.Name, num, nil)
	if err != nil {
		t.Fatal(err)
	}
	task.NumPy1 = rapid.Bool().Draw(t, "NumPy 1")
	task.SuttonBarto = rapid.Bool().Draw(t, "sutton_barto_reward")
	task.SemiImplicit = rapid.IntRange(0, 3).Draw(t, "semi-implicit") == 0
	task.Nips = rapid.Bool().Draw(t, "nips")
	task.GoalVelocity = rapid.SampledFrom([]float64{0, 0.02, 0.07, -1}).Draw(t, "goal_velocity")
	task.Gravity = rapid.SampledFrom([]float64{10, 9.81, -3, 0}).Draw(t, "g")
	task.MaxSteps = rapid.SampledFrom([]int{0, 1, 3, 20, e.MaxSteps}).Draw(t, "max_episode_steps")
	task.Autoreset = classic.Autoreset(rapid.IntRange(0, 3).Draw(t, "autoreset"))
	if e.Shared {
		task.Autoreset, task.MaxSteps = classic.NextStep, max(task.MaxSteps, 1)
	}
	return task
}

// awkward are sizes at the edges of engines.
func awkward(all []classic.Maker) []int {
	var list []any
	for _, e := range all {
		list = append(list, e)
	}
	return simtest.Awkward(list...)
}

// classicResets are the kinds of resets: what seeds the generators, and which bounds are given.
var classicResets = func() (kinds []string) {
	for _, seeds := range []string{"a seed", "seeds", "no seed"} {
		for _, bounds := range []string{"no bounds", "lower bounds", "upper bounds", "bounds"} {
			kinds = append(kinds, seeds+" and "+bounds)
		}
	}
	return kinds
}()

// classicReset draws a reset of a kind, of all environments or some, rarely a wrong one.
func classicReset(t *rapid.T, task classic.Task, kind string) classic.Reset {
	var r classic.Reset
	seeds, bounds, _ := strings.Cut(kind, " and ")
	seed := func() int64 { return rapid.Int64Range(0, 1<<40).Draw(t, "seed") }
	switch seeds {
	case "a seed":
		if r.Seed = seed(); rapid.IntRange(0, 30).Draw(t, "no seed at all") == 0 {
			r.Seed = -1
		}
	case "seeds":
		first := seed()
		for i := range task.Num { // which are not the first one's and the number
			r.Seeds = append(r.Seeds, int64(7919*i*i%10007)+first)
		}
		r.Continue = first%2 == 1 // which says nothing then
	default:
		r.Continue = true
	}
	// What is drawn from half of the bounds, or a third, is not what is drawn from all.
	part := rapid.SampledFrom([]float64{0.5, 1.0 / 3, -1}).Draw(t, "part of the bounds")
	for i := range task.Low {
		low, high := part*task.Low[i], part*task.High[i]
		if part < 0 {
			low = rapid.SampledFrom([]float64{-0.3, -90, 0, 1e-12, 3, -1.2}).Draw(t, "low")
			high = low + rapid.SampledFrom([]float64{0, 0.5, 7}).Draw(t, "width")
		}
		if bounds == "bounds" || bounds == "lower bounds" {
			r.Low = append(r.Low, low)
		}
		if bounds == "bounds" || bounds == "upper bounds" {
			r.High = append(r.High, high)
		}
	}
	return r
}

// classicActions draws actions for a step, rarely one that is refused.
func classicActions(t *rapid.T, task classic.Task) classic.Actions {
	var a classic.Actions
	if task.Actions == 0 {
		edges := []float32{0, 1, -1, 2, -2, 0.5, float32(math.Nextafter32(1, 2)), -7, 1e-30}
		for range task.Num {
			a.Continuous = append(a.Continuous, rapid.SampledFrom(edges).Draw(t, "action"))
		}
		if rapid.IntRange(0, 30).Draw(t, "NaN") == 0 {
			a.Continuous[0] = float32(math.NaN())
		}
		return a
	}
	for range task.Num {
		a.Discrete = append(a.Discrete, int32(rapid.IntRange(0, task.Actions-1).Draw(t, "action")))
	}
	if rapid.IntRange(0, 30).Draw(t, "beyond") == 0 {
		a.Discrete[task.Num-1] = int32(task.Actions)
	}
	return a
}

// sameTransition tells which columns differ, and where first, or nil.
func sameTransition(a, b *classic.Transition) error {
	return errors.Join(
		simtest.SameBits("actions", b.Actions.Discrete, a.Actions.Discrete),
		simtest.SameBits("actions", b.Actions.Continuous, a.Actions.Continuous),
		simtest.SameBits("states", b.States, a.States),
		simtest.SameBits("observations", b.Observations, a.Observations),
		simtest.SameBits("rewards", b.Rewards, a.Rewards),
		simtest.SameBits("terminated", b.Terminated, a.Terminated),
		simtest.SameBits("truncated", b.Truncated, a.Truncated),
		simtest.SameBits("final observations", b.Final, a.Final),
	)
}

// classicEngines are those that take part, the reference first.
func classicEngines(t testing.TB) []classic.Maker {
	var all []classic.Maker
	for _, e := range engines.Classic().Checked() {
		engine, err := e.New(2)
		var absent *want.Error
		if errors.As(err, &absent) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, engine)
	}
	return all
}

func observed(v classic.Vector) classic.Transition {
	t := classic.NewTransition(v.Task())
	v.Observe(t.Observations, t.States)
	return classic.Transition{Observations: t.Observations, States: t.States}
}

// sameSnapshot tells how two snapshots differ, or nil.
func sameSnapshot(a, b *classic.Snapshot) error {
	if a == nil || b == nil {
		return nil
	}
	var steps error
	if a.Steps != b.Steps {
		steps = fmt.Errorf("%d and %d steps", a.Steps, b.Steps)
	}
	return errors.Join(
		steps,
		simtest.SameBits("states", b.States, a.States),
		simtest.SameBits("observations", b.Observations, a.Observations),
		simtest.SameBits("elapsed", b.Elapsed, a.Elapsed),
		simtest.SameBits("ended", b.Ended, a.Ended),
		simtest.SameBits("generators", b.Generators, a.Generators),
		simtest.SameBits("rewards", b.Rewards, a.Rewards),
		simtest.SameBits("episodes", b.Episodes, a.Episodes),
	)
}

// Sequences of calls: all engines answer them with the same bits, or refuse them
// with the same words and stay as they were.
func FuzzClassic(f *testing.F) {
	calls := classicHistories(classicEngines(f))
	// From few bytes rapid draws nothing, and the execution ends before its first call.
	for seed := range byte(4) {
		input := make([]byte, 1<<14)
		rand.NewChaCha8([32]byte{seed}).Read(input)
		f.Add(input)
	}
	f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) {
		calls(t, func(string) {})
		fuzzing.Ended()
	}))
}

// TestClassicLong holds the fastest engine to the reference for LOCKSTEP_CLASSIC_STEPS steps
// over the family, with every kind of reset and policy.
func TestClassicLong(t *testing.T) {
	total := 200_000
	if text := os.Getenv("LOCKSTEP_CLASSIC_STEPS"); text != "" {
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		total = int(n)
	}
	// Shares of the steps, by what a step of the reference costs.
	shares := map[string]float64{
		"CartPole-v1":              .27,
		"CartPoleVectorEnv":        .18,
		"MountainCar-v0":           .27,
		"MountainCarContinuous-v0": .14,
		"Pendulum-v1":              .1,
		"Acrobot-v1":               .04,
	}
	all := classicEngines(t)
	compared := 0
	for _, e := range classic.Environments() {
		for round, left := 0, int(shares[e.Name]*float64(total)); left > 0; round++ {
			n, err := longRun(all, e, round, left)
			if err != nil {
				t.Fatalf("%s, round %d: %v", e.Name, round, err)
			}
			left -= n
			compared += n
		}
	}
	if compared < total*99/100 {
		t.Errorf("%d steps were compared, %d are wanted", compared, total)
	}
	t.Logf("%d steps of %d environments: no difference", compared, len(classic.Environments()))
}

func classicRun(
	task classic.Task, p classic.Policy, steps int,
) func(v classic.Vector) ([]classic.Transition, error) {
	return func(v classic.Vector) ([]classic.Transition, error) {
		record := make([]classic.Transition, steps)
		for i := range record {
			record[i] = classic.NewTransition(task)
		}
		return record, v.Run(context.Background(), p, steps, record)
	}
}

// longRun is one round of at most some hundred thousand steps.
func longRun(all []classic.Maker, e classic.Environment, round, left int) (int, error) {
	const num, chunk = 300, 50
	task, err := classic.Make(e.Name, num, nil)
	if err != nil {
		return 0, err
	}
	task.NumPy1 = round%4 == 3
	task.Autoreset = []classic.Autoreset{classic.NextStep, classic.SameStep, classic.Off}[round%3]
	if e.Shared {
		task.Autoreset = classic.NextStep
	}
	task.SuttonBarto, task.SemiImplicit, task.Nips = round%5 == 4, round%7 == 6, round%5 == 3
	key := uint64(time.Now().UnixNano())
	policy := classic.Policy{Uniform: &key}
	if round%3 == 2 {
		policy = classic.Policy{Network: golden.Goal(e.Name)}
	}
	var vectors []classic.Vector
	for _, engine := range []classic.Maker{all[0], all[len(all)-1]} {
		v, err := engine.Make(task)
		if err != nil {
			return 0, err
		}
		defer v.Close()
		if err := v.Reset(classic.Reset{Seed: int64(key >> 2)}); err != nil {
			return 0, err
		}
		vectors = append(vectors, v)
	}
	do := classicRun(task, policy, chunk)
	steps := 0
	for range 20 {
		if steps >= left {
			break
		}
		a, err := do(vectors[0])
		if err != nil {
			return steps, err
		}
		b, err := do(vectors[1])
		if err != nil {
			return steps, err
		}
		for i := range a {
			if err := sameTransition(&a[i], &b[i]); err != nil {
				return steps, fmt.Errorf(
					"%v, seed %d, key %d: step %d: %w", task.Autoreset, key>>2, key, steps/num+i,
					err,
				)
			}
		}
		steps += num * chunk
	}
	return steps, nil
}
