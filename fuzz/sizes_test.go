package fuzz

import (
	"os"
	"path/filepath"
	"testing"

	"lockstep"
	"lockstep/engines"
	"lockstep/internal/arbitrary"
)

// TestSizes runs every engine through a table of sizes: results and every stage's
// hash are those that the reference has for each job by itself.
func TestSizes(t *testing.T) {
	probe()
	path := filepath.Join(t.TempDir(), "network.onnx")
	if err := os.WriteFile(path, arbitrary.Network{}.Model(), 0o600); err != nil {
		t.Fatal(err)
	}
	ref := load(arbitrary.Network{})[0]
	compared := 0
	for n, size := range arbitrary.Sizes {
		jobs, opts := size.Work(n), lockstep.Options{Shortcuts: lockstep.CostOnly &^ lockstep.StopAtCostEnd, Trajectory: true}
		want := make([]*run, len(jobs))
		for i := range jobs {
			want[i] = rollout(t, ref, jobs[i:i+1], opts)[0]
		}
		for _, i := range machine.all {
			if i.again || machine.absent[i.name] != nil || i.Slow && size.Slow {
				continue
			}
			i.config.Workers, i.config.Chunk = size.Workers, size.Chunk
			s, err := i.open(path, machine.profile)
			if err != nil {
				t.Fatal(err)
			}
			for k, got := range rollout(t, engine{s, &i}, jobs, opts) {
				compared++
				if d := got.difference(want[k]); d != "" {
					t.Errorf("%s, %v, job %d: %s", i.name, size, k, d)
					break
				}
			}
			engines.Close(s)
		}
	}
	t.Logf("%d rollouts compared", compared)
}
