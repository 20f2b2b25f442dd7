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

// TestAnswersAreTheCallers: who writes to all that an engine handed out, to its observers and
// controllers, too, or to a list that it was given, changes nothing of what it answers then, nor of
// a route.
func TestAnswersAreTheCallers(t *testing.T) {
	for _, e := range load(arbitrary.Reweighted{}) {
		t.Run(e.name, func(t *testing.T) {
			given := &answers{}
			jobs := callersJobs(t, given)
			for name, run := range map[string]func(*testing.T, engine, []lockstep.Job) string{
				"simulate": scribbledRun, "step": scribbledSteps, "collect": scribbledExperience,
			} {
				first, shown := run(t, e, jobs), slices.Clone(jobs)
				for i := range shown {
					shown[i].Observe = scrawl
				}
				for what, jobs := range map[string][]lockstep.Job{
					"after all was written to": jobs, "observers write to all": shown,
				} {
					if then := run(t, e, jobs); first != then {
						t.Errorf("%s: %s\nand, where %s, %s", name, first, what, then)
					}
				}
				given.check(t, name)
			}
		})
	}
}

// callersJobs are a job of each kind of policy, and what they are made of is kept.
func callersJobs(t *testing.T, given *answers) []lockstep.Job {
	t.Helper()
	route := arbitrary.Route(rapid.Just(106)).Example(3)
	for _, column := range route.Columns() {
		given.keep("a column of the route", *column)
	}
	draws := lockstep.Draws(5, 106)
	given.keep("given draws", draws)
	table, err := lockstep.NewTable(map[string][]float64{
		route.Name: slices.Repeat([]float64{0.25}, lockstep.TableSteps),
	})
	if err != nil {
		t.Fatal(err)
	}
	given.keep("a table", table.Actions[route.Name])
	return []lockstep.Job{
		{Route: route, Policy: actor(), Sampling: &lockstep.Sampling{Seed: 1, ID: 2}},
		{Route: route, Policy: lockstep.DefaultPID(), Draws: draws},
		{Route: route, Policy: lockstep.PIDFF{P: 0.3, I: 0.1, Leak: 0.1, Smooth: 0.2}},
		{Route: route, Policy: table}, {Route: route},
	}
}

// told is what arrays hold, which then hold something else.
func told(arrays ...[]float64) string {
	text := fmt.Sprint(arrays)
	for _, x := range arrays {
		for i := range x {
			x[i] = -7
		}
	}
	return text
}

var scribbled = lockstep.Options{Shortcuts: lockstep.CostOnly, Trajectory: true}

func scribbledRun(t *testing.T, e engine, jobs []lockstep.Job) string {
	all := make([]string, len(jobs)-1)
	for i, r := range e.Simulate(context.Background(), jobs[:len(all)], scribbled) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		all[i] = fmt.Sprint(r.Costs) + told(
			r.Trajectory.Target, r.Trajectory.Lataccel, r.Trajectory.Action)
	}
	return fmt.Sprint(all)
}

// scribbledSteps goes to the end twice from a snapshot, and writes to all that it was told between.
func scribbledSteps(t *testing.T, e engine, jobs []lockstep.Job) (text string) {
	ctx := context.Background()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	jobs = slices.Clone(jobs)
	p, err := e.Reset(ctx, jobs, scribbled)
	must(err)
	defer p.Close()
	for i := range jobs {
		jobs[i] = lockstep.Job{}
	}
	goOn := func(to int) {
		for p.Index() < to {
			commands := slices.Repeat([]float64{0.5}, len(jobs))
			lataccels := make([]float64, len(jobs))
			must(p.Step(ctx, commands, lataccels))
			text += told(lataccels)
			told(commands)
		}
	}
	shot := func() *lockstep.Snapshot {
		s, err := p.Snapshot(ctx)
		must(err)
		return s
	}
	goOn(102)
	kept := shot()
	state := func(s *lockstep.Snapshot) (text string) {
		for i := range s.Rollouts {
			r := &s.Rollouts[i]
			text += r.Route + told(r.Lataccel, r.Action, r.Policy)
		}
		return text
	}
	was := state(shot())
	scribbledFork(t, e, p, kept)
	var ways []string
	for range 2 {
		must(p.Restore(ctx, kept))
		if now := state(shot()); now != was {
			t.Errorf("%s: restored, it is at %s, want %s", e.name, now, was)
		}
		text = ""
		goOn(106)
		ended := func() (text string) {
			results, err := p.Results(ctx)
			must(err)
			for i, r := range results {
				must(r.Err)
				text += fmt.Sprint(i, r.Costs) + told(
					r.Trajectory.Target, r.Trajectory.Lataccel, r.Trajectory.Action)
			}
			return text
		}
		end := ended()
		if again := ended(); again != end {
			t.Errorf("%s: it ended with %s, and asked again with %s", e.name, end, again)
		}
		ways = append(ways, text+end)
	}
	if ways[0] != ways[1] {
		t.Errorf("%s: from one snapshot it goes %s\nand %s", e.name, ways[0], ways[1])
	}
	return was + ways[0]
}

func scribbledExperience(t *testing.T, e engine, jobs []lockstep.Job) string {
	some := slices.Clone(jobs[:1])
	got, err := e.Collect(context.Background(), some)
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprint(got.Results, got.Raw, got.Softplus, got.Reward)
	clear(got.Raw)
	clear(got.Softplus)
	clear(got.Reward)
	seen := make([]float32, got.Steps(0)*got.Inputs())
	if err := e.Observe(got, nil, seen); err != nil {
		t.Fatal(err)
	}
	clear(some)
	again := make([]float32, len(seen))
	if err := e.Observe(got, nil, again); err != nil {
		t.Errorf("%s: after the list of jobs was written to: %v", e.name, err)
	} else if err := simtest.SameBits("observations", again, seen); err != nil {
		t.Errorf("%s: after the list of jobs was written to: %v", e.name, err)
	}
	return text + fmt.Sprint(seen) + told(got.Lataccel, got.Action)
}

// scrawl writes to all that an observer is shown.
func scrawl(s *lockstep.Step) {
	for i := range s.Tokens {
		s.Tokens[i] = -7
	}
	told(s.CDF)
	for _, x := range [][]float32{s.States, s.Logits, s.Probs, s.Observation, s.Actor} {
		for i := range x {
			x[i] = -7
		}
	}
}

// A scribbler is a batch controller that answers the targets, and writes to all that it is handed.
// Its answer it may put into arrays of its own.
type scribbler struct{ own bool }

func (c scribbler) Update(s *lockstep.BatchStep) error {
	steer := s.Steer
	if c.own {
		steer = make([]float64, len(s.Steer))
		s.Steer, s.Err = steer, make([]error, len(steer))
	}
	for k, x := range s.TargetLataccel {
		steer[k] = x - s.CurrentLataccel[k]
		s.TargetLataccel[k], s.CurrentLataccel[k], s.Running[k] = -7, -7, !s.Running[k]
		s.State[k], s.Plan[k] = lockstep.State{}, lockstep.FuturePlan{}
	}
	s.Step = -7
	if c.own {
		s.Running, s.TargetLataccel, s.CurrentLataccel, s.State, s.Plan = nil, nil, nil, nil, nil
	}
	return nil
}

func (scribbler) Close() error { return nil }

// scribbledFork: a fork, and a fork of it, are none the worse if the lists are written to that they
// were given.
func scribbledFork(t *testing.T, e engine, p lockstep.Stepper, from *lockstep.Snapshot) {
	t.Helper()
	ctx := context.Background()
	var both []string
	for _, written := range []bool{false, true} {
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		index, seeds := []int{4, 0, 1}, []uint32{5, 6, 7}
		f, err := p.Fork(ctx, from, index,
			lockstep.Noise{Kind: lockstep.SeededNoise, Seeds: seeds})
		must(err)
		defer f.Close()
		if written {
			clear(index)
			clear(seeds)
		}
		s, err := f.Snapshot(ctx)
		must(err)
		index = []int{2, 1, 0}
		g, err := f.Fork(ctx, s, index, lockstep.Noise{Kind: lockstep.RouteNoise})
		must(err)
		defer g.Close()
		if written {
			clear(index)
			told(s.Rollouts[0].Lataccel, s.Rollouts[0].Action)
		}
		text := ""
		for _, p := range []lockstep.Stepper{f, g} {
			costs, lataccels := make([]float64, 3), make([]float64, 3*3)
			must(p.Roll(ctx, make([]float64, 3*3), costs, lataccels))
			text += fmt.Sprint(costs, lataccels)
		}
		both = append(both, text)
	}
	if both[0] != both[1] {
		t.Errorf("%s: forks come to %s\nand, if the lists are written to that they were given, %s",
			e.name, both[0], both[1])
	}
}

// TestScribblers: a batch controller may write to all that it is handed, and put its answers into
// arrays of its own: the routes that it steers are driven as by one that does neither. One that
// answers with too few commands fails its rollouts, in any engine in the same words.
func TestScribblers(t *testing.T) {
	var routes []*lockstep.Route
	for i := range 3 {
		routes = append(routes, arbitrary.Route(rapid.Just(104+i)).Example(3+i))
	}
	var jobs, plain []lockstep.Job
	for _, own := range []bool{false, true} {
		policy := &lockstep.Batch{
			Name: "scribbler",
			New: func(routes []*lockstep.Route) (lockstep.BatchController, error) {
				clear(routes)
				return scribbler{own}, nil
			},
		}
		for _, r := range routes {
			jobs = append(jobs, lockstep.Job{Route: r, Policy: policy})
			plain = append(plain, lockstep.Job{Route: r, Policy: lockstep.Custom{
				Name: "follower", New: func() lockstep.Controller { return follower{} },
			}})
		}
	}
	few := lockstep.Job{Route: routes[0], Policy: &lockstep.Batch{
		Name: "few",
		New:  func([]*lockstep.Route) (lockstep.BatchController, error) { return silent{}, nil },
	}}
	for _, e := range load(arbitrary.Reweighted{}) {
		t.Run(e.name, func(t *testing.T) {
			want := make([]string, len(plain))
			for i, r := range e.Simulate(t.Context(), plain, scribbled) {
				want[i] = fmt.Sprint(r.Costs, r.Err)
			}
			for i, r := range e.Simulate(t.Context(), jobs, scribbled) {
				if got := fmt.Sprint(r.Costs, r.Err); r.Err != nil || got != want[i] {
					t.Errorf("job %d of %d: %s, want %s", i, len(jobs), got, want[i])
				}
			}
			for _, r := range e.Simulate(t.Context(), []lockstep.Job{few}, scribbled) {
				simtest.Refused(t, "too few commands", r.Err, "controller few, step 22: the "+
					"controller answers with 0 commands and 1 errors, want 1 of each")
			}
		})
	}
}

// A follower is what a scribbler answers.
type follower struct{}

func (follower) Update(
	target, current float64, _ lockstep.State, _ lockstep.FuturePlan,
) float64 {
	return target - current
}

// One that is silent has no answer at step 22.
type silent struct{}

func (silent) Update(s *lockstep.BatchStep) error {
	if s.Step == 22 {
		s.Steer = nil
	}
	return nil
}

func (silent) Close() error { return nil }
