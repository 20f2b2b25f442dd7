package classic

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	batched "lockstep/batched/classic"
	"lockstep/classic"
	"lockstep/gpu/internal/driver"
	"lockstep/internal/simtest"
	"lockstep/internal/want"
)

// network is a policy with noise for a task.
func network(task classic.Task, r *rand.Rand) *classic.Perceptron {
	numbers := func(n int) (all []float32) {
		for range n {
			all = append(all, float32(r.NormFloat64()))
		}
		return all
	}
	outputs := max(task.Actions, 1)
	d := len(task.Observation)
	return &classic.Perceptron{
		Layers: []classic.Layer{
			{Weights: numbers(5 * d), Bias: numbers(5)}, {Weights: numbers(outputs * 5),
				Bias: numbers(outputs)},
		},
		Noise: numbers(256), Seed: 7,
	}
}

// TestAgainst drives environments on the device and those of package batched/classic through the
// same calls, of every kind: what these answer, record, keep and count is the same, and so are the
// errors of what is refused.
func TestAgainst(t *testing.T) {
	want.Compiler.Need(t)
	engine, err := OnCPU(1)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range classic.Environments() {
		for mode := classic.NextStep; mode <= classic.Off; mode++ {
			task, err := classic.Make(e.Name, []int{3, threads + 1}[mode%2], nil)
			if err != nil {
				t.Fatal(err)
			}
			if task.Autoreset = mode; task.Check() != nil {
				continue
			}
			task.MaxSteps = []int{9, 1, 9, 0}[mode] // 0: no limit
			t.Run(fmt.Sprint(e.Name, "/", mode), func(t *testing.T) { against(t, engine, task) })
			if e.Name == "CartPole-v1" && mode == classic.Off { // ended is not fallen
				task.MaxSteps = 9
				t.Run("limited", func(t *testing.T) { against(t, engine, task) })
			}
		}
	}
}

// pair are two vectors that are to be the same.
type pair struct {
	t    *testing.T
	both [2]classic.Vector
	what string
}

// hold calls f for both, and compares what it says.
func (p *pair) hold(what string, f func(v classic.Vector) (string, error)) error {
	p.t.Helper()
	var said [2]string
	var errs [2]error
	for k, v := range p.both {
		said[k], errs[k] = f(v)
	}
	p.what += ", " + what
	if said[0] != said[1] || fmt.Sprint(errs[0]) != fmt.Sprint(errs[1]) {
		p.t.Fatalf("%s: %s (%v), want %s (%v)", p.what, said[0], errs[0], said[1], errs[1])
	}
	return errs[0]
}

func against(t *testing.T, engine OnDevice, task classic.Task) {
	r := rand.New(rand.NewPCG(3, uint64(task.Autoreset)))
	p := &pair{t: t, what: "made"}
	for k, make := range []func(classic.Task) (classic.Vector, error){
		engine.Make, batched.Batched{}.Make,
	} {
		v, err := make(task)
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close()
		p.both[k] = v
	}
	record := func(steps int) (all []classic.Transition) {
		for range steps {
			all = append(all, classic.NewTransition(task))
		}
		return all
	}
	see := func(v classic.Vector) string {
		observations := make([]float32, len(task.Observation)*task.Num)
		states := make([]float64, len(task.State)*task.Num)
		v.Observe(observations, nil)
		v.Observe(observations, states)
		shot, err := v.Snapshot()
		return fmt.Sprint(v.Totals(), observations, states, shot, err)
	}
	reset := func(reset classic.Reset) {
		t.Helper()
		p.hold("reset", func(v classic.Vector) (string, error) {
			err := v.Reset(reset)
			return see(v), err
		})
	}
	run := func(policy classic.Policy, steps int) {
		t.Helper()
		p.hold(fmt.Sprintf("run %d", steps), func(v classic.Vector) (string, error) {
			rows := record(steps)
			err := v.Run(t.Context(), policy, steps, rows)
			if err != nil {
				return see(v), err
			}
			return fmt.Sprint(see(v), rows), err
		})
	}
	actions := func() (a classic.Actions) {
		for range task.Num {
			if task.Actions > 0 {
				a.Discrete = append(a.Discrete, int32(r.IntN(task.Actions)))
			} else {
				a.Continuous = append(a.Continuous, float32(2*r.NormFloat64()))
			}
		}
		return a
	}
	step := func(a classic.Actions, t *classic.Transition) {
		p.hold("step", func(v classic.Vector) (string, error) {
			if t != nil {
				*t = classic.NewTransition(task)
			}
			err := v.Step(a, t)
			return fmt.Sprint(see(v), t), err
		})
	}
	uniform := uint64(5)
	step(actions(), nil) // before any reset
	run(classic.Policy{Uniform: &uniform}, 2)
	reset(classic.Reset{Continue: true})
	reset(classic.Reset{Seed: -1})
	reset(classic.Reset{Seed: 11})
	apart, err := p.both[1].Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	for i := range apart.Elapsed { // no two neighbours are at one step, or in one episode
		apart.Elapsed[i], apart.Rewards[i] = int32((i+i/7)%max(task.MaxSteps, 9)), float64(-i)
		apart.Episodes[i] = int64(i)
	}
	p.hold("put apart", func(v classic.Vector) (string, error) {
		err := v.Restore(apart)
		return see(v), err
	})
	step(actions(), nil)
	step(actions(), &classic.Transition{})
	run(classic.Policy{Uniform: &uniform}, 6)
	run(classic.Policy{Network: network(task, r)}, 5)
	single := network(task, r) // number of noise
	single.Noise = single.Noise[:1]
	run(classic.Policy{Network: single}, 2)
	mask, seeds := make([]bool, task.Num), make([]int64, task.Num)
	for i := range mask {
		mask[i], seeds[i] = i%3 != 2, int64(100+7919*i*i%10007)
	}
	p.hold("put at ends", func(v classic.Vector) (string, error) {
		s, err := v.Snapshot()
		for i := range s.Ended {
			s.Ended[i] = task.Autoreset != classic.SameStep
		}
		return see(v), errors.Join(err, v.Restore(s))
	})
	reset(classic.Reset{Mask: mask, Seeds: seeds})
	reset(classic.Reset{Mask: mask, Seed: 6})
	step(actions(), nil) // of what had ended, too
	reset(classic.Reset{Mask: mask, Continue: true})
	reset(classic.Reset{Seeds: seeds})
	reset(classic.Reset{Continue: true})
	var given []classic.Actions
	for range 4 {
		given = append(given, actions())
	}
	run(classic.Policy{Recorded: given}, 4)
	bad := actions()
	if task.Actions > 0 {
		bad.Discrete[1] = int32(task.Actions)
	}
	run(classic.Policy{Recorded: []classic.Actions{given[0], bad}}, 2)
	run(classic.Policy{Uniform: &uniform}, 3)
	shots := make([]*classic.Snapshot, 2)
	for k, v := range p.both {
		shots[k], _ = v.Snapshot()
	}
	run(classic.Policy{Uniform: &uniform}, 7)
	p.hold("restore", func(v classic.Vector) (string, error) {
		err := v.Restore(shots[1]) // the other's, too
		return see(v), err
	})
	run(classic.Policy{Uniform: &uniform}, 7)
	step(actions(), &classic.Transition{})
	reset(classic.Reset{Seed: 4})
	p.hold("restore none", func(v classic.Vector) (string, error) {
		err := v.Restore(nil)
		return see(v), err
	})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	p.hold("ended", func(v classic.Vector) (string, error) {
		err := v.Run(ended, classic.Policy{Uniform: &uniform}, 3, nil)
		return see(v), err
	})
}

var errLost = errors.New("the device is lost")

// lossy is a device of which one call fails.
type lossy struct {
	driver.Device
	calls *int
	fails int
}

func (d lossy) call() error {
	if *d.calls++; *d.calls-1 == d.fails {
		return errLost
	}
	return nil
}

func (d lossy) Symbol(name string) (driver.Pointer, int64, error) {
	p, n, err := d.Device.Symbol(name)
	return p, n, errors.Join(d.call(), err)
}

func (d lossy) Allocate(bytes int64) (driver.Pointer, error) {
	if err := d.call(); err != nil {
		return 0, err
	}
	return d.Device.Allocate(bytes)
}

func (d lossy) HostMemory(bytes int64) ([]byte, error) {
	if err := d.call(); err != nil {
		return nil, err
	}
	return d.Device.HostMemory(bytes)
}

func (d lossy) Upload(to driver.Pointer, from []byte) error {
	return errors.Join(d.call(), d.Device.Upload(to, from))
}

func (d lossy) Download(to []byte, from driver.Pointer) error {
	return errors.Join(d.call(), d.Device.Download(to, from))
}

func (d lossy) Fill(to driver.Pointer, value byte, bytes int64) error {
	return errors.Join(d.call(), d.Device.Fill(to, value, bytes))
}

func (d lossy) Launch(kernel string, blocks, threads, shared int, argument []byte) error {
	return errors.Join(d.call(), d.Device.Launch(kernel, blocks, threads, shared, argument))
}

func (d lossy) Synchronize(ctx context.Context) error {
	return errors.Join(d.call(), d.Device.Synchronize(ctx))
}

// TestLost has each call of a device fail, one at a time: that error is heard, and from then on
// nothing else is.
func TestLost(t *testing.T) {
	want.Compiler.Need(t)
	engine, err := OnCPU(1)
	if err != nil {
		t.Fatal(err)
	}
	uniform := uint64(5)
	for _, name := range []string{"CartPole-v1", "CartPoleVectorEnv"} {
		task, err := classic.Make(name, 3, nil)
		if err != nil {
			t.Fatal(err)
		}
		failed := 0
		for n := 0; ; n++ {
			calls := 0
			of := OnDevice{Kind: "lossy", Open: func() (driver.Device, error) {
				d, err := engine.Open()
				return lossy{d, &calls, n}, err
			}}
			var v classic.Vector
			do := []func() error{
				func() (err error) { v, err = of.Make(task); return err },
				func() error { return v.Reset(classic.Reset{Seed: 1}) },
				func() error {
					return v.Run(t.Context(), classic.Policy{Uniform: &uniform}, 2,
						[]classic.Transition{
							classic.NewTransition(task), classic.NewTransition(task),
						})
				},
				func() error { s, err := v.Snapshot(); return errors.Join(err, restore(v, s)) },
				func() error {
					return v.Step(classic.Actions{Discrete: []int32{0, 1, 0}}, nil)
				},
			}
			err = nil
			for k := 0; k < len(do) && err == nil; k++ {
				err = do[k]()
			}
			if calls <= n {
				break
			}
			if failed++; !errors.Is(err, errLost) {
				t.Errorf("%s: call %d fails: %v", name, n, err)
			}
			if v != nil {
				if again := v.Reset(classic.Reset{Seed: 1}); !errors.Is(again, errLost) {
					t.Errorf("%s: after call %d has failed: %v", name, n, again)
				}
				v.Close()
			}
		}
		if failed < 20 {
			t.Errorf("%s: %d calls", name, failed)
		}
	}
}

func restore(v classic.Vector, s *classic.Snapshot) error {
	if s == nil {
		return nil
	}
	return v.Restore(s)
}

// TestRefusedOnDevice: what cannot stay on the device is refused, for what it is.
func TestRefusedOnDevice(t *testing.T) {
	want.Compiler.Need(t)
	engine, err := OnCPU(1)
	if err != nil {
		t.Fatal(err)
	}
	uniform := uint64(1)
	made := func(name string, mode classic.Autoreset, seeded bool) *vector {
		task, err := classic.Make(name, 2, nil)
		if err != nil {
			t.Fatal(err)
		}
		task.Autoreset = mode
		v, err := engine.Make(task)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { v.Close() })
		if seeded {
			if err := v.Reset(classic.Reset{Seed: 1}); err != nil {
				t.Fatal(err)
			}
		}
		return v.(*vector)
	}
	run := func(
		v *vector, policy classic.Policy, table uintptr, steps int, record ...string,
	) error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := v.RunOnDevice(ctx, policy, table, steps, record)
		return err
	}
	v := made("CartPole-v1", classic.NextStep, true)
	drawn := classic.Policy{Uniform: &uniform}
	const resets = ": a run on the device resets each environment by itself"
	for want, err := range map[string]error{
		"0 steps on the device: want 1 to 65536":     run(v, drawn, 0, 0),
		"65537 steps on the device: want 1 to 65536": run(v, drawn, 0, 65537),
		"a table of the host's in a run on the device": run(v, classic.Policy{
			Recorded: make([]classic.Actions, 1)}, 0, 1),
		`no array "looks" is left on the device`:  run(v, drawn, 0, 1, "looks"),
		`no array "actions" is left on the devic`: run(v, drawn, 0, 1, "actions", "actions"),
		"environment 0 has not been reset": run(
			made("CartPole-v1", classic.NextStep, false), drawn, 0, 1,
		),
		"CartPole-v1, " + classic.Disabled.String() + resets: run(
			made("CartPole-v1", classic.Disabled, true), drawn, 0, 1),
		"CartPoleVectorEnv, " + classic.NextStep.String() + resets: run(
			made("CartPoleVectorEnv", classic.NextStep, true), drawn, 0, 1),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for _, steps := range []int{1, 1 << 16} {
		if err := run(v, drawn, 0, steps, "actions"); err != nil {
			t.Errorf("%d steps: %v", steps, err)
		}
	}
	simtest.Refused(t, "a run without any policy", run(v, classic.Policy{}, 0, 1),
		"recorded actions, or uniform ones, or a network: 0 are given")
	if err := run(v, drawn, 0, 1); err != nil {
		t.Errorf("after what was refused: %v", err)
	}
	if _, err := Translated("other", 1); err == nil ||
		err.Error() != `no kernels "other" are shipped, want ptx or sass` {
		t.Error(err)
	}
}
