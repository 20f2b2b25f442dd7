package conformance

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"lockstep"
	"lockstep/internal/guard"
	"lockstep/parity"
	"lockstep/parity/schema"
	"lockstep/parity/tinyphysics"
)

// A rollout is what a job did.
type rollout struct {
	job    lockstep.Job
	steps  []*lockstep.Step // copies
	result lockstep.Result
	faults []string // of the way it was observed

	busy, ended atomic.Bool
}

// observe copies a step. Its slices must stay as they are as long as it runs.
func (r *rollout) observe(s *lockstep.Step) {
	if r.busy.Swap(true) {
		panic("Observe is called for one job by two goroutines at once")
	}
	defer r.busy.Store(false)
	if r.ended.Load() {
		r.faults = append(
			r.faults, fmt.Sprintf("Observe is called for step %d after the job's result", s.Index),
		)
	}
	if want := lockstep.ContextLength + len(r.steps); s.Index != want {
		r.faults = append(
			r.faults,
			fmt.Sprintf("Observe is called for step %d, want step %d next", s.Index, want),
		)
	}
	c := clone(s)
	if s.Index == lockstep.ControlStartIdx {
		time.Sleep(2 * time.Millisecond) // time enough for others to write to them
	}
	if d := parity.DifferStep(whole, exposed(c)[0], exposed(s)[0]); d != nil {
		r.faults = append(r.faults, fmt.Sprintf("a step changes while Observe runs: %v", d))
	}
	r.steps = append(r.steps, c)
	if r.job.Observe != nil {
		r.job.Observe(s)
	}
}

// clone is a step that nobody else can write to.
func clone(s *lockstep.Step) *lockstep.Step {
	c := *s
	c.Observation, c.Actor = slices.Clone(s.Observation), slices.Clone(s.Actor)
	c.Tokens, c.States, c.Logits = slices.Clone(s.Tokens), slices.Clone(s.States),
		slices.Clone(s.Logits)
	c.Probs, c.CDF = slices.Clone(s.Probs), slices.Clone(s.CDF)
	return &c
}

// run runs jobs on the simulator under test, all of them observed but those unseen. Each
// must have one result; what is wrong with the results' number or with the calls of
// Observe is noted, and that jobs, routes or teachers were written to.
func (s *suite) run(
	ctx context.Context, jobs []lockstep.Job, opts lockstep.Options, unseen ...int,
) []*rollout {
	all, jobs := observed(jobs)
	for _, i := range unseen {
		jobs[i].Observe = nil
	}
	before, results := given(jobs), make([]int, len(jobs))
	s.within(1, func() error {
		for i, r := range s.sim.Simulate(ctx, jobs, opts) {
			if i < 0 || i >= len(jobs) {
				return fmt.Errorf("a result for job %d of %d", i, len(jobs))
			}
			if results[i]++; results[i] > 1 {
				return fmt.Errorf("job %d of %d has more than one result", i, len(jobs))
			}
			all[i].ended.Store(true)
			all[i].result = r
		}
		return nil
	})
	if i := slices.Index(results, 0); i >= 0 {
		s.fatalf("job %d of %d has no result", i, len(jobs))
	}
	for i, now := range given(jobs) {
		if len(all[i].faults) > 0 {
			s.fatalf("job %d: %s", i, all[i].faults[0])
		}
		if now != before[i] {
			s.fatalf("job %d, its route or its teacher was written to", i)
		}
	}
	return all
}

// given are jobs and all that they are computed from, in words.
func given(jobs []lockstep.Job) (all []string) {
	for _, j := range jobs {
		all = append(all, fmt.Sprint(j, j.Route, j.Teacher))
	}
	return all
}

// observed makes jobs that are observed.
func observed(jobs []lockstep.Job) ([]*rollout, []lockstep.Job) {
	all, jobs := make([]*rollout, len(jobs)), slices.Clone(jobs)
	for i := range jobs {
		all[i] = &rollout{job: jobs[i]}
		jobs[i].Observe = all[i].observe
	}
	return all, jobs
}

// within calls f, which calls Simulate so often, and ends the check if that fails, panics
// or takes too long. In the last case f still runs, so that it must not touch the suite.
func (s *suite) within(calls int, f func() error) {
	done := make(chan error, 1)
	go func() { done <- guard.Try(f) }()
	select {
	case err := <-done:
		if err != nil {
			s.fatalf("%w", err)
		}
	case <-time.After(time.Duration(calls) * s.timeout):
		s.fatalf("Simulate does not end within %v", time.Duration(calls)*s.timeout)
	}
}

// good runs jobs that must not fail, and whose rollouts must follow from them.
func (s *suite) good(jobs []lockstep.Job, opts lockstep.Options) []*rollout {
	all := s.run(context.Background(), jobs, opts)
	for i, r := range all {
		if err := r.wrong(opts); err != nil {
			s.fatalf("job %d of %d, %s: %w", i, len(jobs), jobName(r.job), err)
		}
	}
	return all
}

// wrong says where a rollout does not follow from its job and its own stages, or is nil:
// the number of steps, what a controller that is code answers to what it has to be told,
// the way from the CDF to lataccel, the draws, the histories in the states and in the
// trajectory, the total cost.
func (r *rollout) wrong(opts lockstep.Options) error {
	const c = lockstep.ContextLength
	route, end := r.job.Route, r.job.End(opts.Shortcuts)
	switch {
	case r.result.Err != nil:
		return errors.New(firstLine(r.result.Err))
	case len(r.steps) != end-c:
		return fmt.Errorf("%d steps are observed, want %d", len(r.steps), end-c)
	}
	var controller lockstep.Controller
	if p, ok := r.job.Policy.(lockstep.Custom); ok {
		controller = p.New()
	}
	draws := lockstep.Draws(route.Seed, end-c)
	lataccel, action := slices.Clone(route.TargetLataccel[:c]), slices.Clone(route.SteerCommand[:c])
	for k, step := range r.steps {
		at, want := c+k, *step
		target, before := route.TargetLataccel[at], lataccel[at-1]
		want.Draw = draws[k]
		if controller != nil {
			want.Action = controller.Update(target, before, route.State(at), route.FuturePlan(at))
		}
		if at < lockstep.ControlStartIdx {
			want.Action, want.Lataccel = route.SteerCommand[at], target
		} else {
			want.Lataccel = min(max(step.Prediction, before-lockstep.MaxAccDelta),
				before+lockstep.MaxAccDelta)
		}
		want.Action = min(max(want.Action, lockstep.SteerMin), lockstep.SteerMax)
		shown := exposed(&want, step)
		if d := parity.DifferStep(whole, shown[0], shown[1]); d != nil {
			return d
		}
		if t := r.job.Teacher; t != nil {
			want.Lataccel, want.Action = t.Lataccel[at], t.Action[at]
		}
		lataccel, action = append(lataccel, want.Lataccel), append(action, want.Action)
		if at < lockstep.ControlStartIdx && opts.Shortcuts&lockstep.SkipWarmup != 0 {
			if !reflect.DeepEqual(step, skipped(step)) {
				return fmt.Errorf(
					"step %d: the network was to be skipped: want nil stages, sample -1 and "+
						"prediction 0, sample is %d",
					at, step.Sample,
				)
			}
		} else if err := wrongChoice(step, shown[1], action[k+1:]); err != nil {
			return fmt.Errorf("step %d: %w", at, err)
		}
	}
	var t *lockstep.Trajectory
	if opts.Trajectory {
		t = &lockstep.Trajectory{
			Target:   route.TargetLataccel[:end],
			Lataccel: lataccel,
			Action:   action,
		}
	}
	if err := trajectoryDiffers(r.result.Trajectory, t); err != nil {
		return err
	}
	if t != nil && &r.result.Trajectory.Target[0] == &route.TargetLataccel[0] {
		return errors.New("writing to the trajectory changes the route's target")
	}
	return wrongCosts(r.result.Costs, end)
}

// wrongCosts says where costs do not follow from one another.
func wrongCosts(got lockstep.Costs, end int) error {
	want := got
	want.Total = float64(got.Lataccel*lockstep.LatAccelCostMultiplier) + got.Jerk
	if end == lockstep.MinRows { // one step that costs, and no jerk
		want.Jerk, want.Total = math.NaN(), math.NaN()
	}
	if got.Lataccel != got.Lataccel || !schema.Equal(got.Jerk, want.Jerk) ||
		!schema.Equal(got.Total, want.Total) {
		return fmt.Errorf("costs %v, want %v", got, want)
	}
	return nil
}

// skipped is a step as it is shown if the network is not run at it.
func skipped(s *lockstep.Step) *lockstep.Step {
	return &lockstep.Step{
		Index:    s.Index,
		Action:   s.Action,
		Draw:     s.Draw,
		Sample:   -1,
		Lataccel: s.Lataccel,
	}
}

// wrongChoice says what is wrong with the stages of a step that the network ran at, after
// these actions.
func wrongChoice(step *lockstep.Step, shown *schema.Step, actions []float64) error {
	if err := incomplete(whole, shown); err != nil {
		return err
	}
	for k, want := range actions {
		if got := step.States[4*k]; got != float32(want) {
			return fmt.Errorf("action %d of the states is %v, want %v", k, got, float32(want))
		}
	}
	switch sample := step.Sample; {
	case step.CDF[1023] != 1 || !slices.IsSorted(step.CDF):
		return fmt.Errorf("stage cdf does not rise to 1 but to %v", step.CDF[1023])
	case sample < 0 || sample > 1023 || !(step.Draw < step.CDF[sample]) || sample > 0 &&
		step.Draw < step.CDF[sample-1]:
		return fmt.Errorf("sample %d is not where the draw %v falls", sample, step.Draw)
	case !schema.Equal(step.Prediction, bin(sample)):
		return fmt.Errorf(
			"prediction %v, sample %d stands for %v", step.Prediction, sample, bin(sample),
		)
	}
	return nil
}

// bin is the lateral acceleration of a token.
func bin(token int) float64 {
	if token == lockstep.VocabSize-1 {
		return lockstep.LataccelMax
	}
	const width = (lockstep.LataccelMax - lockstep.LataccelMin) / (lockstep.VocabSize - 1)
	return float64(float64(token)*width) + lockstep.LataccelMin
}

// expected runs jobs on the reference, one by one.
func (s *suite) expected(jobs []lockstep.Job, opts lockstep.Options) (all []*rollout) {
	for _, job := range jobs {
		one, order := observed([]lockstep.Job{job})
		for _, r := range s.ref.Simulate(context.Background(), order, opts) {
			one[0].result = r
		}
		all = append(all, one...)
	}
	return all
}

// hold runs jobs on the simulator and holds them to the reference.
func (s *suite) hold(jobs []lockstep.Job, opts lockstep.Options) []*rollout {
	got := s.good(jobs, opts)
	if !s.contractOnly {
		for i, want := range s.expected(jobs, opts) {
			s.same(got[i], want, "job %d of %d, %s", i, len(jobs), jobName(want.job))
		}
	}
	return got
}

// same notes where a rollout parts from another.
func (s *suite) same(got, want *rollout, format string, args ...any) {
	if err := differs(got, want); err != nil {
		s.errorf("%s: %w", fmt.Sprintf(format, args...), err)
	}
}

func jobName(j lockstep.Job) string {
	return fmt.Sprintf("route %s, controller %v", j.Route.Name, j.Policy)
}

// whole is the schema of rollouts without shortcuts.
var whole = tinyphysics.Schema(0)

// exposed are steps as they are compared.
func exposed(steps ...*lockstep.Step) (all []*schema.Step) {
	for _, s := range steps {
		to := whole.NewStep()
		tinyphysics.Expose(s, to)
		to.Sum(schema.XXH64)
		all = append(all, to)
	}
	return all
}

// differs says where two rollouts part, or is nil.
func differs(got, want *rollout) error {
	g, w := got.result, want.result
	ends := [2]parity.End{
		{Outcome: tinyphysics.Outcome(w.Costs), Err: w.Err},
		{Outcome: tinyphysics.Outcome(g.Costs), Err: g.Err},
	}
	if err := parity.Differs(whole, exposed(want.steps...), exposed(got.steps...), ends[0],
		ends[1]); err != nil {
		return errors.New(firstLine(err))
	}
	return trajectoryDiffers(g.Trajectory, w.Trajectory)
}

func trajectoryDiffers(got, want *lockstep.Trajectory) error {
	if got == nil || want == nil {
		if got != want {
			return fmt.Errorf("a trajectory is there: %v, want %v", got != nil, want != nil)
		}
		return nil
	}
	columns := func(t *lockstep.Trajectory) [][]float64 {
		return [][]float64{t.Target, t.Lataccel, t.Action}
	}
	for i, name := range []string{"target", "lataccel", "action"} {
		if d := parity.Differ(columns(want)[i], columns(got)[i]); d != nil {
			d.Step, d.Stage = -1, "trajectory's "+name
			return d
		}
	}
	return nil
}
