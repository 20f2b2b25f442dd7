package fuzz

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"lockstep"
	"lockstep/internal/arbitrary"
	"lockstep/internal/simtest"
)

// TestAnswersStay: what a stepper has answered stays as it was, whatever is asked of it then, and
// so does what it was given.
func TestAnswersStay(t *testing.T) {
	for _, e := range distinct(arbitrary.Reweighted{}) {
		t.Run(e.name, func(t *testing.T) { answersStay(t, e) })
	}
}

// answers are arrays that were handed out or in, and their contents then.
type answers struct {
	names        []string
	arrays, then [][]float64
}

func (a *answers) keep(name string, arrays ...[]float64) {
	for _, x := range arrays {
		a.names, a.arrays = append(a.names, name), append(a.arrays, x)
		a.then = append(a.then, slices.Clone(x))
	}
}

// results keeps those of a stepper that has come to its end.
func (a *answers) results(t *testing.T, p lockstep.Stepper, name string) {
	all, err := p.Results(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range all {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		a.keep(
			fmt.Sprintf("a trajectory of rollout %d, of %s,", i, name), r.Trajectory.Target,
			r.Trajectory.Lataccel, r.Trajectory.Action,
		)
	}
}

func (a *answers) check(t *testing.T, after string) {
	t.Helper()
	for i, x := range a.arrays {
		if err := simtest.SameBits(a.names[i], x, a.then[i]); err != nil {
			t.Errorf("after %s: %v", after, err)
		}
	}
}

// answersStay is TestAnswersStay of an engine.
func answersStay(t *testing.T, e engine) {
	ctx, kept := context.Background(), &answers{}
	route := arbitrary.Route(rapid.Just(106)).Example(3)
	jobs := []lockstep.Job{{Route: route}, {Route: route, Policy: lockstep.DefaultPID()}}
	for _, column := range route.Columns() {
		kept.keep("a column of the route", *column)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	p, err := e.Reset(
		ctx, jobs, lockstep.Options{Shortcuts: lockstep.CostOnly, Trajectory: true},
	)
	must(err)
	defer p.Close()
	shot := func() *lockstep.Snapshot {
		s, err := p.Snapshot(ctx)
		must(err)
		for i := range s.Rollouts {
			r := &s.Rollouts[i]
			kept.keep(
				fmt.Sprintf("a snapshot at step %d, of rollout %d,", s.Step, i), r.Lataccel,
				r.Action, r.Policy,
			)
		}
		return s
	}
	goOn := func(to int, command float64) {
		for p.Index() < to && !p.Done() {
			must(p.Step(ctx, slices.Repeat([]float64{command}, 2), make([]float64, 2)))
		}
	}
	goOn(101, 1)
	early := shot()
	goOn(103, 1)
	late := shot()
	goOn(106, 1)
	kept.results(t, p, "the first end")
	for _, call := range []struct {
		name string
		do   func()
	}{
		{"a step", func() { must(p.Restore(ctx, late)); goOn(104, 2) }},
		{"another end", func() {
			must(p.Restore(ctx, early))
			goOn(106, -1)
			kept.results(t, p, "another end")
		}},
		{"a fork", func() {
			f, err := p.Fork(ctx, early, []int{1, 0, 1}, lockstep.Noise{Kind: lockstep.RouteNoise})
			must(err)
			must(f.Roll(ctx, make([]float64, 4*3), make([]float64, 3), make([]float64, 4*3)))
			must(f.Close())
		}},
		{"a failure", func() { must(p.Restore(ctx, early)); goOn(104, math.NaN()) }},
	} {
		call.do()
		kept.check(t, call.name)
	}
	must(p.Close())
	kept.check(t, "its end")
}
