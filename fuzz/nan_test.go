package fuzz

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"lockstep"
	"lockstep/internal/arbitrary"
)

// TestNaN: wherever a route has a NaN, in whichever column, every engine fails where the reference
// fails with the job alone, and goes on where that goes on; in a batch, and step by step.
func TestNaN(t *testing.T) {
	jobs := withNaN(t)
	opts := lockstep.Options{Shortcuts: lockstep.CostOnly, Trajectory: true}
	all := slices.DeleteFunc(
		slices.Clone(load(arbitrary.Reweighted{})), func(e engine) bool { return e.again },
	)
	alone, failed := make([]*run, len(jobs)), 0
	for i := range jobs {
		alone[i] = rollout(t, all[0], jobs[i:i+1], opts)[0]
		if alone[i].result.Err != nil {
			failed++
		}
	}
	t.Logf("%d of %d rollouts fail", failed, len(jobs))
	if failed < len(jobs)/4 || failed > len(jobs)*3/4 {
		t.Errorf("%d of %d rollouts fail: want some, and some that do not", failed, len(jobs))
	}
	for _, e := range all {
		t.Run(e.name, func(t *testing.T) {
			for i, got := range rollout(t, e, jobs, opts) {
				if d := got.difference(alone[i]); d != "" {
					t.Errorf("%s, controller %v: %s", jobs[i].Route.Name, jobs[i].Policy, d)
				}
			}
			for i, got := range stepped(t, e, jobs, opts) {
				if d := resultDifference(got, alone[i].result); d != "" {
					t.Errorf("%s, controller %v, step by step: %s", jobs[i].Route.Name,
						jobs[i].Policy, d)
				}
			}
		})
	}
}

// stepped are the results of jobs that are run step by step.
func stepped(
	t *testing.T, e engine, jobs []lockstep.Job, opts lockstep.Options,
) []lockstep.Result {
	p, err := e.Reset(context.Background(), jobs, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	commands, lataccels := make([]float64, len(jobs)), make([]float64, len(jobs))
	for !p.Done() {
		if err := p.Step(context.Background(), commands, lataccels); err != nil {
			t.Fatal(err)
		}
	}
	results, err := p.Results(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return results
}

// withNaN are jobs on routes of one NaN each: within the first history, within the warm-up, at the
// edges of what the network sees at its first step, where the cost begins, and in the last row.
// Policies that remember what they saw have each of them, the others some.
func withNaN(t *testing.T) (jobs []lockstep.Job) {
	const rows = 104
	base := tame("", rows)
	forward, err := lockstep.KindPIDFF.New(
		[]float64{0.2, 0.1, -0.05, 0.1, 0.2, -0.1, 0.05, 0.1, 0.3, 0.02},
	)
	if err != nil {
		t.Fatal(err)
	}
	others := []lockstep.Policy{lockstep.DefaultPID(), actor(), lockstep.Zero{}}
	for k, name := range []string{"roll", "v", "a", "target", "command"} {
		for n, row := range []int{10, 50, 79, 80, 81, 99, 100, rows - 1} {
			r := *base
			r.Name = fmt.Sprintf("NaN %s in row %d", name, row)
			for _, column := range r.Columns() {
				*column = slices.Clone(*column)
			}
			(*r.Columns()[k])[row] = math.NaN()
			for _, p := range []lockstep.Policy{forward, others[(k+n)%len(others)]} {
				jobs = append(jobs, lockstep.Job{Route: &r, Policy: p})
			}
		}
	}
	return jobs
}

// tame is a route on which nothing is odd.
func tame(name string, rows int) *lockstep.Route {
	r := &lockstep.Route{Name: name, Seed: 7}
	for k, column := range r.Columns() {
		for i := range rows {
			*column = append(*column, []float64{0.1, 20, 0.2, 1, 0.5}[k]+math.Sin(float64(i+k))/9)
		}
	}
	return r
}
