package gpu

import (
	"context"
	"testing"

	"lockstep"
)

// TestShort is the rollout that compute-sanitizer sees: all of the kernel's ways,
// briefly.
func TestShort(t *testing.T) {
	s := newSimulator(t, Config{})
	ref := newReference(t, s.Profile())
	var jobs []lockstep.Job
	for i := range 7 {
		jobs = append(jobs, lockstep.Job{Route: shorten(routes()[i], 102), Policy: policies[i%3]})
	}
	jobs = append(jobs, lockstep.Job{Route: jobs[0].Route, Policy: weavePolicy})
	opts := lockstep.Options{Shortcuts: lockstep.CostOnly, Trajectory: true}
	want := traces(t, ref, jobs, opts)
	for i, got := range traces(t, s, jobs, opts) {
		if d := got.difference(want[i]); d != "" {
			t.Errorf("job %d: %s", i, d)
		}
	}
	for i, got := range results(t, s, context.Background(), jobs, opts) {
		if d := resultDifference(got, want[i].result); d != "" {
			t.Errorf("job %d: %s", i, d)
		}
	}
}
