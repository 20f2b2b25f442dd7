package fuzz

import (
	"context"
	"errors"
	"slices"
	"testing"

	"lockstep"
	"lockstep/internal/arbitrary"
	"lockstep/internal/simtest"
)

// TestArrivals: rollouts that were restored or forked are where those are that came there step by
// step. What is asked of them first is answered by all engines as by the reference that came so;
// and so is how they go on, one step at a time and some at once, past the end of a shorter route.
func TestArrivals(t *testing.T) {
	all := slices.DeleteFunc(
		slices.Clone(load(arbitrary.Reweighted{})), func(e engine) bool { return e.again },
	)
	for _, taught := range []bool{false, true} {
		t.Run(map[bool]string{false: "free", true: "taught"}[taught], func(t *testing.T) {
			arrivals(t, all, taught)
		})
	}
}

// arrivals holds all engines to the first.
func arrivals(t *testing.T, all []engine, taught bool) {
	want := arrive(t, all[0], "steps", taught)
	want.goOn(t, false)
	for _, e := range all {
		ways := []string{"steps", "restored", "restored elsewhere"}
		if !taught { // a teacher teaches no candidates
			ways = append(ways, "forked")
		}
		for _, way := range ways {
			for how, atOnce := range map[string]bool{"step by step": false, "at once": true} {
				t.Run(e.name+"/"+way+"/"+how, func(t *testing.T) {
					got := arrive(t, e, way, taught)
					got.goOn(t, atOnce)
					if err := got.differs(want); err != nil {
						t.Error(err)
					}
				})
			}
		}
	}
}

// arrival is what a stepper answers at a step, and from there on.
type arrival struct {
	lockstep.Stepper
	seen      []float32
	before    []float64 // lataccels
	lataccels []float64 // of further steps
	costs     []float64
}

func (a *arrival) differs(want *arrival) error {
	return errors.Join(
		simtest.SameBits("observations at once", a.seen, want.seen),
		simtest.SameBits("lataccels at once", a.before, want.before),
		simtest.SameBits("lataccels of later steps", a.lataccels, want.lataccels),
		simtest.Same("costs of later steps", a.costs, want.costs),
	)
}

// arrivedAt is the step at which they are asked; one route ends two steps later.
const arrivedAt = 102

// arrive has three rollouts, with teachers or without, come to a step in one of the ways, and asks
// what they see.
func arrive(t *testing.T, e engine, way string, taught bool) *arrival {
	ctx := context.Background()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	routes := []*lockstep.Route{tame("long", 108), tame("short", arrivedAt+2)}
	jobs := []lockstep.Job{{Route: routes[0]}, {Route: routes[1]}, {Route: routes[0]}}
	for i := range jobs {
		if taught {
			jobs[i].Teacher = teaching(jobs[i].Route.Len(), i+1)
		}
	}
	reset := func() lockstep.Stepper {
		p, err := e.Reset(ctx, jobs, lockstep.Options{Shortcuts: lockstep.CostOnly})
		must(err)
		t.Cleanup(func() { p.Close() })
		return p
	}
	steps := func(p lockstep.Stepper, to int, by float64) {
		for p.Index() < to {
			at := float64(p.Index())
			must(p.Step(ctx, []float64{by * at / 99, -by, by / at}, make([]float64, 3)))
		}
	}
	p := reset()
	steps(p, arrivedAt, 1)
	shot, err := p.Snapshot(ctx)
	must(err)
	switch way {
	case "restored":
		steps(p, arrivedAt+3, -1)
		must(p.Restore(ctx, shot))
	case "restored elsewhere":
		p = reset()
		must(p.Restore(ctx, shot))
	case "forked":
		steps(p, arrivedAt+1, -1)
		p, err = p.Fork(ctx, shot, []int{0, 1, 2}, lockstep.Noise{Kind: lockstep.RouteNoise})
		must(err)
		t.Cleanup(func() { p.Close() })
	}
	a := &arrival{Stepper: p, seen: make([]float32, 3*lockstep.ObservationSize)}
	must(p.Observe(ctx, a.seen))
	for i := range jobs {
		a.before = append(a.before, p.Lataccel(i))
	}
	return a
}

// goOn goes on for four steps.
func (a *arrival) goOn(t *testing.T, atOnce bool) {
	const steps = 4
	commands := make([]float64, 3*steps)
	for i := range commands {
		commands[i] = float64(i%5) / 4
	}
	a.costs, a.lataccels = make([]float64, 3), make([]float64, 3*steps)
	ctx := context.Background()
	if atOnce {
		if err := a.Roll(ctx, commands, a.costs, a.lataccels); err != nil {
			t.Fatal(err)
		}
		return
	}
	for k := 0; k < len(commands); k += 3 {
		if err := a.Step(ctx, commands[k:k+3], a.lataccels[k:k+3]); err != nil {
			t.Fatal(err)
		}
		for i := range a.costs {
			a.costs[i] += a.Cost(i)
		}
	}
}

// teaching is a trajectory that no policy would drive, from the first step on.
func teaching(rows, by int) *lockstep.Trajectory {
	t := &lockstep.Trajectory{}
	for i := range rows {
		t.Lataccel = append(t.Lataccel, float64(by*i%9)/4-1)
		t.Action = append(t.Action, float64(by*i%7)/4-0.75)
	}
	return t
}
