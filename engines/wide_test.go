package engines

import (
	"context"
	"strings"
	"testing"

	"lockstep"
	"lockstep/internal/policytest"
	"lockstep/internal/simtest"
)

// TestWide holds networks of the winner's size, with tanh, and that declare what they see to
// the reference, step by step; where they are collected, too. The GPU's kernels refuse them.
func TestWide(t *testing.T) {
	c := config(t)
	routes := policyRoutes(t, 2)
	policies := []*lockstep.Network{policytest.Winner()}
	for seed := range uint64(4) {
		policies = append(policies, policytest.Declared(seed))
	}
	if n := len(policies[0].Numbers()); n < 1_480_000 || n > 1_550_000 {
		t.Errorf("the winner has %d numbers", n)
	}
	var jobs []lockstep.Job
	for i, p := range policies {
		jobs = append(jobs, lockstep.Job{Route: routes[i%2], Policy: p}, lockstep.Job{
			Route: routes[1-i%2], Policy: p, Sampling: &lockstep.Sampling{Seed: 3, ID: uint64(i)},
		})
	}
	var want []rolled
	options := lockstep.Options{Shortcuts: lockstep.FullTrajectory}
	for _, e := range Checked() {
		t.Run(e.Name, func(t *testing.T) {
			s := e.ForTest(t, c)
			got := roll(s, jobs, options)
			if strings.Contains(e.Folder, "gpu") {
				refused(t, s, jobs, got)
				return
			}
			if profile := s.Profile(); want == nil || profile != c.Profile {
				c.Profile = profile
				r, err := Reference().New(c)
				if err != nil {
					t.Fatal(err)
				}
				want = roll(r, jobs, options)
			}
			trial{e.Name, c, options}.compareRolled(t, jobs, got, want)
			for i, p := range policies {
				collectsWhatItSees(t, s, p, routes[:1+i%2], want[2*i].steps)
			}
		})
	}
}

// refused holds a GPU's engine to its refusal, which says what it does not compute.
func refused(t *testing.T, s lockstep.Implementation, jobs []lockstep.Job, got []rolled) {
	t.Helper()
	for i, g := range got {
		if g.result.Err == nil ||
			!strings.Contains(g.result.Err.Error(), "the GPU's kernels compute") {
			t.Errorf("job %d: %v", i, g.result.Err)
		}
	}
	options := lockstep.Options{Shortcuts: lockstep.CostOnly}
	if _, err := s.Reset(context.Background(), jobs, options); err == nil ||
		!strings.Contains(err.Error(), "the GPU's kernels compute") {
		t.Errorf("steps: %v", err)
	}
}

// collectsWhatItSees holds the observations of what is collected to those that the network
// saw: those of the first of the routes, where it is the one of the steps.
func collectsWhatItSees(
	t *testing.T, s lockstep.Implementation, p *lockstep.Network, routes []*lockstep.Route,
	steps []seenStep,
) {
	t.Helper()
	route := routes[len(routes)-1]
	e, err := s.Collect(context.Background(), []lockstep.Job{{Route: route, Policy: p}})
	if err != nil {
		t.Fatal(err)
	}
	var want []float32
	for _, step := range steps {
		want = append(want, step.observation...)
	}
	got := make([]float32, len(want))
	if err := s.Observe(e, nil, got); err != nil {
		t.Fatal(err)
	}
	if err := simtest.Same("observations", got, want); err != nil {
		t.Errorf("%v of %v: %v", p, s.Name(), err)
	}
	last := e.Steps(0) - 1
	row := make([]float32, p.Inputs())
	if err := s.Observe(e, []lockstep.Place{{Step: last}}, row); err != nil {
		t.Fatal(err)
	}
	if err := simtest.Same("the last observation alone", row, want[last*len(row):]); err != nil {
		t.Errorf("%v of %v: %v", p, s.Name(), err)
	}
}
