package fuzz

import (
	"os"
	"path/filepath"
	"testing"

	"lockstep"
	"lockstep/internal/arbitrary"
	"lockstep/internal/pycontroller"
	"lockstep/internal/want"
)

// TestSizes runs every engine through a table of sizes: results and every stage's
// hash are those that the reference has for each job by itself.
func TestSizes(t *testing.T) {
	probe()
	path := filepath.Join(t.TempDir(), "network.onnx")
	if err := os.WriteFile(path, arbitrary.Reweighted{}.Model(), 0o600); err != nil {
		t.Fatal(err)
	}
	for n, size := range arbitrary.Sizes {
		t.Run(size.Name, func(t *testing.T) { testSize(t, path, size, n) })
	}
}

func testSize(t *testing.T, path string, size arbitrary.Size, n int) {
	ref := load(arbitrary.Reweighted{})[0]
	jobs, opts := size.Work(n), lockstep.Options{
		Shortcuts:  lockstep.CostOnly &^ lockstep.StopAtCostEnd,
		Trajectory: true,
	}
	if size.Python {
		policy := fromPython(t)
		for i := range jobs {
			jobs[i].Policy = policy
		}
	}
	alone, failed := make([]*run, len(jobs)), []error{}
	for i := range jobs {
		if alone[i] = rollout(t, ref, jobs[i:i+1], opts)[0]; alone[i].result.Err != nil {
			failed = append(failed, alone[i].result.Err)
		}
	}
	if 2*len(failed) > len(jobs) {
		t.Fatalf(
			"%v: %d jobs fail by themselves, so that hardly anything is compared: %v", size,
			len(failed), failed[0],
		)
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
			if d := got.difference(alone[k]); d != "" {
				t.Errorf("%s, %v, job %d: %s", i.name, size, k, d)
				break
			}
		}
		s.Close()
	}
}

// fromPython is a policy in Python whose answers depend on the route.
func fromPython(t *testing.T) lockstep.Policy {
	want.Python.Need(t)
	file := filepath.Join(t.TempDir(), "python.py")
	const text = "class Controller:\n  def update(self, target_lataccel, current_lataccel, " +
		"state, future_plan):\n    return 0.3 * (target_lataccel - current_lataccel) - 0.01 * " +
		"state.roll_lataccel\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := pycontroller.New(t.Context(), pycontroller.Options{File: file, Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c.Policy()
}
