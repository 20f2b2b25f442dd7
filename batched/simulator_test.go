package batched_test

import (
	"context"
	"fmt"
	"testing"

	"lockstep"
	"lockstep/batched"
	"lockstep/internal/assets/assetstest"
	"lockstep/reference"
)

func TestReference(t *testing.T) {
	profile := reference.HostProfile()
	model := assetstest.Model(t)
	b, err := batched.New(batched.Config{ModelPath: model, Profile: profile, Workers: 2, Chunk: 3})
	if err != nil {
		t.Fatal(err)
	}
	r, err := reference.New(model, profile)
	if err != nil {
		t.Fatal(err)
	}
	var jobs []lockstep.Job
	for _, name := range []string{"00000", "00002", "04744"} {
		route := assetstest.Route(t, name, profile)
		jobs = append(jobs, lockstep.Job{Route: route, Policy: lockstep.DefaultPID}, lockstep.Job{Route: route, Policy: lockstep.Zero{}})
	}
	want := map[int]string{}
	opts := lockstep.Options{Shortcuts: lockstep.CostOnly}
	for i, x := range r.Simulate(context.Background(), jobs, opts) {
		want[i] = fmt.Sprint(x.Costs, x.Err)
	}
	for i, x := range b.Simulate(context.Background(), jobs, opts) {
		if got := fmt.Sprint(x.Costs, x.Err); got != want[i] {
			t.Errorf("job %d: %s, want %s", i, got, want[i])
		}
	}
}
