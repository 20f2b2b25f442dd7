package engines

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"lockstep"
	"lockstep/internal/simtest"
)

// TestSlopes holds each number of the slopes to two rollouts that a teacher forces onto the
// histories with that number lowered and raised, on the engines that are not slow.
func TestSlopes(t *testing.T) {
	c := config(t)
	routes := policyRoutes(t, 3)[1:]
	jobs := []lockstep.Job{{Route: routes[0]}, {Route: routes[1]}}
	by := Nudges{Action: 0.3, Roll: 0.6, Speed: 3.1, Acceleration: 0.4, Lataccel: 0.15}
	actions, ctx := []float64{-0.4, 1.9}, context.Background()
	for _, e := range Checked() {
		if e.Slow { // a candidate takes it a second
			continue
		}
		t.Run(e.Name, func(t *testing.T) {
			s := e.ForTest(t, c)
			p, err := s.Reset(ctx, jobs, lockstep.Options{Shortcuts: lockstep.CostOnly})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			last := make([]float64, 2)
			for k := 0; p.Index() < 112; k++ {
				if err := p.Step(ctx, []float64{0.1 * float64(k%7), -0.2}, last); err != nil {
					t.Fatal(err)
				}
			}
			shot, err := p.Snapshot(ctx)
			if err != nil {
				t.Fatal(err)
			}
			got, err := NextSlopes(ctx, s, jobs, shot, actions, by)
			if err != nil {
				t.Fatal(err)
			}
			want := taught(t, s, jobs, shot, actions, by)
			if err := simtest.Same("slopes", got.By, want.By); err != nil {
				t.Error(err)
			}
			if err := simtest.Same("lataccels", got.Lataccel, want.Lataccel); err != nil {
				t.Error(err)
			}
			for _, v := range []int{ByAction, ByRoll, ByPastActions - 1} {
				if got.By[v] == 0 && got.By[Variables+v] == 0 {
					t.Errorf("nothing depends on variable %d", v)
				}
			}
			refusedSlopes(t, s, jobs, shot, by)
			const none = 1e-12 // is lost where the network's inputs are rounded
			got, err = NextSlopes(ctx, s, jobs, shot, actions, Nudges{none, none, none, none, none})
			if err != nil {
				t.Fatal(err)
			}
			for i, x := range got.By {
				if math.Float64bits(x) == math.Float64bits(math.Copysign(0, -1)) {
					t.Errorf("slope %d by what changes nothing is -0, want 0", i)
				}
			}
			for _, v := range []int{ByAction, ByRoll, ByPastActions} {
				if got.By[v] != 0 {
					t.Errorf("variable %d, hardly changed, has the slope %v", v, got.By[v])
				}
			}
		})
	}
}

// refusedSlopes: what has no slopes is refused by name.
func refusedSlopes(t *testing.T, s lockstep.Implementation, jobs []lockstep.Job,
	shot *lockstep.Snapshot, by Nudges) {
	t.Helper()
	early, ended := *shot, *shot
	early.Step = 99
	ended.Step = shot.Step + 1
	none := by
	none.Speed = 0
	lost := by
	lost.Roll = 1e-30
	few := slices.Clone(jobs)
	few[1].Draws = []float64{0.5}
	for _, c := range []struct {
		want    string
		jobs    []lockstep.Job
		shot    *lockstep.Snapshot
		actions []float64
		by      Nudges
	}{
		{"want as many", jobs, shot, []float64{0}, by},
		{"want one within ±2", jobs, shot, []float64{0, math.NaN()}, by},
		{"want 100 at least", jobs, &early, []float64{0, 0}, by},
		{"has no step 113", jobs, &ended, []float64{0, 0}, by},
		{"a nudge of 0", jobs, shot, []float64{0, 0}, none},
		{"a nudge of 1e-30 does not change", jobs, shot, []float64{0, 0}, lost},
		{"1 draws are given", few, shot, []float64{0, 0}, by}, // though expected values use none
	} {
		_, err := NextSlopes(context.Background(), s, c.jobs, c.shot, c.actions, c.by)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

// taught computes slopes from whole rollouts that a teacher forces.
func taught(t *testing.T, s lockstep.Implementation, jobs []lockstep.Job,
	shot *lockstep.Snapshot, actions []float64, by Nudges) *Slopes {
	t.Helper()
	at, n := shot.Step, Variables
	var all []lockstep.Job
	var numbers []float64
	for i := range jobs {
		for k := range 1 + 2*n {
			r := *jobs[i].Route.First(at + 1)
			lataccel := append(slices.Clone(shot.Rollouts[i].Lataccel), 0)
			action := append(slices.Clone(shot.Rollouts[i].Action), actions[i])
			v, sign := (k-1)/2, float64(2*((k+1)%2)-1)
			numbers = append(numbers, 0)
			x := &numbers[len(numbers)-1]
			move := func(p *float64, by, limit float64) {
				*p = min(max(*p+sign*by, -limit), limit)
				*x = *p
			}
			switch {
			case k == 0:
			case v == 0:
				move(&action[at], by.Action, 2)
			case v < 4:
				columns := []*[]float64{&r.RollLataccel, &r.VEgo, &r.AEgo}
				column := columns[v-1]
				*column = slices.Clone(*column)
				nudges := []float64{by.Roll, by.Speed, by.Acceleration}
				move(&(*column)[at], nudges[v-1], math.Inf(1))
			case v < 24:
				move(&lataccel[at-24+v], by.Lataccel, math.Inf(1))
			default:
				move(&action[at-43+v], by.Action, 2)
			}
			all = append(all, lockstep.Job{
				Route: &r, Policy: lockstep.Zero{}, Expected: true,
				Teacher: &lockstep.Trajectory{Lataccel: lataccel, Action: action},
			})
		}
	}
	lataccels := make([]float64, len(all))
	for k := range all {
		all[k].Observe = func(s *lockstep.Step) {
			if s.Index == at {
				lataccels[k] = s.Lataccel
			}
		}
	}
	for k, r := range s.Simulate(
		context.Background(), all, lockstep.Options{Shortcuts: lockstep.CostOnly},
	) {
		if r.Err != nil {
			t.Fatal(k, r.Err)
		}
	}
	out := &Slopes{}
	for i := range jobs {
		k := i * (1 + 2*n)
		out.Lataccel = append(out.Lataccel, lataccels[k])
		for v := range n {
			low, high := k+1+2*v, k+2+2*v
			out.By = append(out.By, (lataccels[high]-lataccels[low])/(numbers[high]-numbers[low]))
		}
	}
	return out
}

// TestSlopesBehind: slopes are found at a route's last step, behind the last one that costs, too,
// and the lataccel there is the expected one.
func TestSlopesBehind(t *testing.T) {
	c := config(t)
	whole := wholeRoute(t, 0, "long")
	job := lockstep.Job{Route: cutRoute(whole, lockstep.CostEndIdx+3), Expected: true}
	jobs, actions := []lockstep.Job{job}, []float64{0.25}
	opts := lockstep.Options{Shortcuts: lockstep.FullTrajectory}
	for _, e := range Checked() {
		if e.Slow {
			continue
		}
		t.Run(e.Name, func(t *testing.T) {
			s := e.ForTest(t, c)
			p, err := s.Reset(t.Context(), jobs, opts)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			shot := snap(t, p)
			shot.Step = job.Route.Len() - 1
			shot.Rollouts[0].Lataccel = slices.Clone(job.Route.TargetLataccel[:shot.Step])
			shot.Rollouts[0].Action = make([]float64, shot.Step)
			want := make([]float64, 1)
			err = errors.Join(
				p.Restore(t.Context(), shot), p.Step(t.Context(), actions, want))
			if err != nil {
				t.Fatal(err)
			}
			got, err := NextSlopes(t.Context(), s, jobs, shot, actions, DefaultNudges())
			if err != nil {
				t.Fatal(err)
			}
			if err := simtest.Same("lataccels", got.Lataccel, want); err != nil {
				t.Error(err)
			}
			if len(got.By) != Variables || got.By[ByPastActions-1] == 0 {
				t.Errorf("nothing depends on the last lataccel, of %d slopes", len(got.By))
			}
		})
	}
}
