package classic

import (
	"slices"
	"testing"

	"lockstep/classic"
	"lockstep/gpu/driver"
	"lockstep/internal/simtest"
	"lockstep/internal/want"
)

// TestTransfers counts what passes for each launch: at most one upload and one synchronisation,
// whatever its policy and its answers, and nothing for what the host knows already.
func TestTransfers(t *testing.T) {
	want.Compiler.Need(t)
	engine, err := OnCPU(1)
	if err != nil {
		t.Fatal(err)
	}
	key := uint64(1)
	for _, c := range []struct {
		name, env string
		mode      classic.Autoreset
		policy    func(n int) classic.Policy
		record    bool
		uploads   int64
		downloads int64
	}{
		{"uniform", "Pendulum-v1", classic.NextStep,
			func(int) classic.Policy { return classic.Policy{Uniform: &key} }, false, 0, 1},
		{"uniform, recorded", "Acrobot-v1", classic.NextStep,
			func(int) classic.Policy { return classic.Policy{Uniform: &key} }, true, 0, 2},
		{"finals", "CartPole-v1", classic.SameStep,
			func(int) classic.Policy { return classic.Policy{Uniform: &key} }, true, 1, 2},
		{"network", "CartPole-v1", classic.NextStep, func(int) classic.Policy {
			return classic.Policy{Network: &classic.Perceptron{Layers: []classic.Layer{{Weights: make([]float32, 8), Bias: []float32{0, 1}}}}}
		}, true, 1, 2},
		{"table", "Pendulum-v1", classic.NextStep, func(n int) classic.Policy {
			return classic.Policy{Recorded: slices.Repeat([]classic.Actions{{Continuous: make([]float32, n)}}, 1)}
		}, true, 1, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			task, err := classic.Make(c.env, 3, nil)
			if err != nil {
				t.Fatal(err)
			}
			task.Autoreset = c.mode
			made, err := engine.Make(task)
			if err != nil {
				t.Fatal(err)
			}
			defer made.Close()
			v := made.(*vector)
			passed := func(what string, want driver.Counts, do func() error) {
				t.Helper()
				before := v.device.Counts()
				if err := do(); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				got := v.device.Counts().Sub(before)
				got.UploadBytes, got.DownloadBytes, got.CopyBytes, got.Copies = 0, 0, 0, 0
				if got != want {
					t.Errorf("%s: %+v, want %+v", what, got, want)
				}
			}
			none := driver.Counts{}
			passed(
				"reset", driver.Counts{Launches: 1, Synchronisations: 1, Uploads: 1, Downloads: 1},
				func() error { return v.Reset(classic.Reset{Seed: 1}) },
			)
			passed(
				"observing",
				none,
				func() error {
					v.Observe(make([]float32, len(task.Observation)*3), nil)
					return nil
				},
			)
			var record []classic.Transition
			policy := c.policy(task.Num)
			steps := max(len(policy.Recorded), 1)
			if policy.Recorded == nil {
				steps = 40
			}
			for range steps {
				if c.record {
					record = append(record, classic.NewTransition(task))
				}
			}
			passed(
				"run",
				driver.Counts{
					Launches:         1,
					Synchronisations: 1,
					Uploads:          c.uploads,
					Downloads:        c.downloads,
				},
				func() error {
					return v.Run(t.Context(), policy, steps, record)
				},
			)
			if policy.Recorded == nil {
				passed("totals", none, func() error { v.Totals(); return nil })
			}
			var s *classic.Snapshot
			passed(
				"snapshot", driver.Counts{Synchronisations: 1, Downloads: 1},
				func() (err error) { s, err = v.Snapshot(); return err },
			)
			passed("another", none, func() error { _, err := v.Snapshot(); return err })
			passed(
				"restore", driver.Counts{Synchronisations: 1, Uploads: 1},
				func() error { return v.Restore(s) },
			)
		})
	}
}

// TestRunOnDevice: what stays on the device is what a run records, and nothing else passes.
func TestRunOnDevice(t *testing.T) {
	want.Compiler.Need(t)
	engine, err := OnCPU(1)
	if err != nil {
		t.Fatal(err)
	}
	task, err := classic.Make("MountainCar-v0", 3, map[string]string{"max_episode_steps": "7"})
	if err != nil {
		t.Fatal(err)
	}
	var both [2]*vector
	for i := range both {
		v, err := engine.Make(task)
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close()
		if err := v.Reset(classic.Reset{Seed: 2}); err != nil {
			t.Fatal(err)
		}
		both[i] = v.(*vector)
	}
	const steps = 20
	key, record := uint64(5), make([]classic.Transition, steps)
	for i := range record {
		record[i] = classic.NewTransition(task)
	}
	if err := both[0].Run(t.Context(), classic.Policy{Uniform: &key}, steps, record); err != nil {
		t.Fatal(err)
	}
	before := both[1].device.Counts()
	names := []string{"observations", "rewards", "actions", "truncated"}
	where, err := both[1].RunOnDevice(t.Context(), classic.Policy{Uniform: &key}, 0, steps, names)
	if err != nil {
		t.Fatal(err)
	}
	passed := both[1].device.Counts().Sub(before)
	if passed.Uploads != 0 || passed.Launches != 1 || passed.Synchronisations != 1 ||
		passed.Downloads != 1 {
		t.Errorf("%+v", passed)
	}
	for name, of := range map[string]func(*classic.Transition) []byte{
		"observations": func(r *classic.Transition) []byte { return bytesOf(r.Observations) },
		"rewards":      func(r *classic.Transition) []byte { return bytesOf(r.Rewards) },
		"actions":      func(r *classic.Transition) []byte { return bytesOf(r.Actions.Discrete) },
		"truncated":    func(r *classic.Transition) []byte { return bytesOf(r.Truncated) },
	} {
		var all []byte
		for i := range record {
			all = append(all, of(&record[i])...)
		}
		got := make([]byte, len(all))
		if err := both[1].do(t.Context(),
			func() error {
				return both[1].device.Download(got, driver.Pointer(where[name]))
			}); err != nil {
			t.Fatal(err)
		}
		if err := simtest.Same(name+", as bytes", got, all); err != nil {
			t.Errorf("on the device: %v", err)
		}
	}
	// The actions that lie there as a table, in environments where these were chosen.
	if err := both[0].Reset(classic.Reset{Seed: 2}); err != nil {
		t.Fatal(err)
	}
	table, err := both[0].device.Allocate(4 * 3 * steps)
	if err != nil {
		t.Fatal(err)
	}
	var actions []int32
	for i := range record {
		actions = append(actions, record[i].Actions.Discrete...)
	}
	if err := both[0].do(t.Context(),
		func() error { return both[0].device.Upload(table, bytesOf(actions)) }); err != nil {
		t.Fatal(err)
	}
	if _, err := both[0].RunOnDevice(t.Context(), classic.Policy{}, uintptr(table), steps,
		nil); err != nil {
		t.Fatal(err)
	}
	a, b := both[0].Totals(), both[1].Totals()
	if !slices.Equal(a.Rewards, b.Rewards) || !slices.Equal(a.Episodes, b.Episodes) ||
		a.Steps != b.Steps ||
		a.Episodes[0] == 0 {
		t.Errorf("%+v by the table, want %+v", a, b)
	}
	for _, bad := range []error{
		second(both[0].RunOnDevice(t.Context(), classic.Policy{}, 0, steps, nil)),
		second(both[0].RunOnDevice(t.Context(), classic.Policy{Uniform: &key}, 0, 0, nil)),
		second(both[0].RunOnDevice(t.Context(), classic.Policy{Uniform: &key}, 0, 1,
			[]string{"looks"})),
		second(both[0].RunOnDevice(t.Context(), classic.Policy{Uniform: &key}, 0, 1,
			[]string{"rewards", "rewards"})),
	} {
		if bad == nil {
			t.Error("what cannot be is done")
		}
	}
}

func second[T any](_ T, err error) error { return err }
