package engines

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"lockstep"
	"lockstep/internal/policytest"
)

// TestBeyondCosts: rollouts that go on behind the last step that costs, by steps, by rolls, and put
// back there, are in every engine what they are in the reference; the steps behind it cost nothing,
// and what a step before it costs is a part of these alone, however long the route.
func TestBeyondCosts(t *testing.T) {
	whole := wholeRoute(t, 0, "long")
	const begin, last = lockstep.CostEndIdx - 2, lockstep.CostEndIdx + 5
	forward := lockstep.PIDFF{P: 0.2, I: 0.1, FF: [4]float64{0.1, 0.2, 0.3, 0.4}, Smooth: 0.1}
	table := &lockstep.Table{Name: "table", Actions: map[string][]float64{}}
	var jobs []lockstep.Job
	for i, rows := range []int{last, 300, lockstep.CostEndIdx + 1, last - 1} {
		route := cutRoute(whole, rows)
		route.Name = fmt.Sprint("rows ", rows)
		table.Actions[route.Name] = slices.Repeat([]float64{0.1, -0.2}, lockstep.TableSteps/2)
		for k, p := range []lockstep.Policy{
			nil, lockstep.DefaultPID(), forward, table, policytest.Network(t),
		} {
			job := lockstep.Job{Route: route, Policy: p, Expected: k == 1 && i == 0}
			if _, ok := p.(*lockstep.Network); ok && i%2 == 0 {
				job.Sampling = &lockstep.Sampling{Seed: 3, ID: uint64(i)}
			}
			jobs = append(jobs, job)
		}
	}
	opts := lockstep.Options{Shortcuts: lockstep.FullTrajectory, Trajectory: true}
	everyEngine(t, func(t *testing.T, s, reference lockstep.Implementation) {
		want := beyondCosts(t, reference, jobs, opts, begin, last)
		for i, got := range beyondCosts(t, s, jobs, opts, begin, last) {
			if got != want[i] {
				t.Errorf("rollout %d (%v, %s): %s\nwant %s", i, jobs[i].Policy,
					jobs[i].Route.Name, got, want[i])
			}
		}
	})
}

// beyondCosts is what rollouts come to that are put before a step, and how they come there.
func beyondCosts(
	t *testing.T, s lockstep.Implementation, jobs []lockstep.Job, opts lockstep.Options,
	begin, last int,
) []string {
	t.Helper()
	ctx, m, told := context.Background(), len(jobs), make([]string, len(jobs))
	p, err := s.Reset(ctx, jobs, opts)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	shot := snap(t, p)
	shot.Step = begin
	for i := range shot.Rollouts {
		r, route := &shot.Rollouts[i], jobs[i].Route
		r.Lataccel = slices.Clone(route.TargetLataccel[:min(begin, route.Len())])
		r.Action = make([]float64, len(r.Lataccel))
		for k := range r.Lataccel {
			r.Lataccel[k] += math.Sin(float64(k+i)) / 8
			r.Action[k] = math.Cos(float64(k * i))
		}
	}
	tell := func(what string) {
		for i := range told {
			told[i] += fmt.Sprintf("; %s, before step %d: lataccel %v, it cost %v", what, p.Index(),
				p.Lataccel(i), p.Cost(i))
			if cost := p.Cost(i); (cost == 0) !=
				(p.Index() > min(jobs[i].Route.Len(), lockstep.CostEndIdx)) && p.Index() > begin {
				t.Errorf("rollout %d of %d rows, step %d cost %v", i, jobs[i].Route.Len(),
					p.Index()-1, cost)
			}
		}
	}
	commands := make([]float64, m)
	for i := range commands {
		commands[i] = float64(i)/8 - 1
	}
	back := shot
	for _, from := range []*lockstep.Snapshot{shot, nil} { // from the beginning, then from within
		if from == nil {
			from = back
		}
		if err := p.Restore(ctx, from); err != nil {
			t.Fatal(err)
		}
		tell("restored")
		for p.Index() < lockstep.CostEndIdx+2 {
			if err := p.Step(ctx, commands, make([]float64, m)); err != nil {
				t.Fatal(err)
			}
			tell("a step")
			if p.Index() == lockstep.CostEndIdx+1 {
				if back, err = p.Snapshot(ctx); err != nil {
					t.Fatal(err)
				}
			}
		}
		costs := make([]float64, m)
		n := last - p.Index()
		if err := p.Roll(ctx, slices.Repeat(commands, n), costs, nil); err != nil {
			t.Fatal(err)
		}
		tell("a roll")
		results, err := p.Results(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range results {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
			end := len(r.Trajectory.Lataccel) - 8
			told[i] += fmt.Sprint("; rolled for ", costs[i], ", in all ", r.Costs, ", at last ",
				r.Trajectory.Lataccel[end:], r.Trajectory.Action[end:])
		}
	}
	for i := range told {
		told[i] = told[i][2:]
	}
	return told
}
