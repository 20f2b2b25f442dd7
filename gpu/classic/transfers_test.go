package classic

import (
	"slices"
	"testing"

	"lockstep/classic"
	"lockstep/gpu/driver"
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
		{"uniform", "Pendulum-v1", classic.NextStep, func(int) classic.Policy { return classic.Policy{Uniform: &key} }, false, 0, 1},
		{"uniform, recorded", "Acrobot-v1", classic.NextStep, func(int) classic.Policy { return classic.Policy{Uniform: &key} }, true, 0, 2},
		{"finals", "CartPole-v1", classic.SameStep, func(int) classic.Policy { return classic.Policy{Uniform: &key} }, true, 1, 2},
		{"network", "CartPole-v1", classic.NextStep, func(int) classic.Policy {
			return classic.Policy{Network: &classic.Network{Layers: []classic.Layer{{Weights: make([]float32, 8), Bias: []float32{0, 1}}}}}
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
			passed("reset", driver.Counts{Launches: 1, Synchronisations: 1, Uploads: 1, Downloads: 1}, func() error { return v.Reset(classic.Reset{Seed: 1}) })
			passed("observing", none, func() error { v.Observe(make([]float32, len(task.Observation)*3), nil); return nil })
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
			passed("run", driver.Counts{Launches: 1, Synchronisations: 1, Uploads: c.uploads, Downloads: c.downloads}, func() error {
				return v.Run(t.Context(), policy, steps, record)
			})
			if policy.Recorded == nil {
				passed("totals", none, func() error { v.Totals(); return nil })
			}
			var s *classic.Snapshot
			passed("snapshot", driver.Counts{Synchronisations: 1, Downloads: 1}, func() (err error) { s, err = v.Snapshot(); return err })
			passed("another", none, func() error { _, err := v.Snapshot(); return err })
			passed("restore", driver.Counts{Synchronisations: 1, Uploads: 1}, func() error { return v.Restore(s) })
		})
	}
}
