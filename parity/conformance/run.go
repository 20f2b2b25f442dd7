package conformance

import (
	"cmp"
	"context"
	"fmt"
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
		r.faults = append(r.faults, fmt.Sprintf("Observe is called for step %d after the job's result", s.Index))
	}
	if want := lockstep.ContextLength + len(r.steps); s.Index != want {
		r.faults = append(r.faults, fmt.Sprintf("Observe is called for step %d, want step %d next", s.Index, want))
	}
	c := clone(s)
	if s.Index == lockstep.ControlStartIdx {
		time.Sleep(2 * time.Millisecond) // time enough for others to write to them
	}
	if d := stepDifference(s, c); d != "" {
		r.faults = append(r.faults, fmt.Sprintf("step %d changes while Observe runs: %s", s.Index, d))
	}
	r.steps = append(r.steps, c)
	if r.job.Observe != nil {
		r.job.Observe(s)
	}
}

func clone(s *lockstep.Step) *lockstep.Step {
	c := *s
	c.Tokens, c.States, c.Logits = slices.Clone(s.Tokens), slices.Clone(s.States), slices.Clone(s.Logits)
	c.Probs, c.CDF = slices.Clone(s.Probs), slices.Clone(s.CDF)
	return &c
}

// run runs jobs on the simulator under test, all of them observed.
func (s *suite) run(ctx context.Context, jobs []lockstep.Job, opts lockstep.Options) []*rollout {
	all, order := observed(jobs)
	s.simulate(ctx, order, all, opts)
	return all
}

// simulate runs jobs into their rollouts. Each must have one result; what is wrong with
// the results' number or with the calls of Observe is noted.
func (s *suite) simulate(ctx context.Context, jobs []lockstep.Job, all []*rollout, opts lockstep.Options) {
	results := make([]int, len(jobs))
	s.within(func() error {
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
	for i, r := range all {
		if len(r.faults) > 0 {
			s.fatalf("job %d: %s", i, r.faults[0])
		}
	}
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

// within calls f, and ends the check if that fails, panics or takes too long. In
// the last case f still runs, so that it must not touch the suite.
func (s *suite) within(f func() error) {
	done := make(chan error, 1)
	go func() {
		var err error
		if panicked := guard.Do(func() { err = f() }); panicked != nil {
			err = fmt.Errorf("in Simulate: %w", panicked)
		}
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			s.fatalf("%w", err)
		}
	case <-time.After(s.timeout):
		s.fatalf("Simulate does not end within %v", s.timeout)
	}
}

// good runs jobs that must not fail.
func (s *suite) good(jobs []lockstep.Job, opts lockstep.Options) []*rollout {
	all := s.run(context.Background(), jobs, opts)
	for i, r := range all {
		if r.result.Err != nil {
			s.fatalf("job %d of %d, %s: %s", i, len(jobs), jobName(r.job), firstLine(r.result.Err))
		}
		if want := stepsOf(r.job, opts); len(r.steps) != want {
			s.fatalf("job %d of %d, %s: Observe is called for %d steps, want %d", i, len(jobs), jobName(r.job), len(r.steps), want)
		}
	}
	return all
}

// expected runs jobs on the reference, one by one.
func (s *suite) expected(jobs []lockstep.Job, opts lockstep.Options) []*rollout {
	var all []*rollout
	for _, job := range jobs {
		one, jobs := observed([]lockstep.Job{job})
		for _, r := range s.ref.Simulate(context.Background(), jobs, opts) {
			one[0].result = r
		}
		all = append(all, one[0])
	}
	return all
}

// hold runs jobs on the simulator and holds them to the reference.
func (s *suite) hold(jobs []lockstep.Job, opts lockstep.Options) []*rollout {
	got := s.good(jobs, opts)
	if s.contractOnly {
		return got
	}
	for i, want := range s.expected(jobs, opts) {
		s.same(got[i], want, "job %d of %d, %s", i, len(jobs), jobName(want.job))
	}
	return got
}

// same notes where a rollout parts from another.
func (s *suite) same(got, want *rollout, format string, args ...any) {
	if d := difference(got, want); d != "" {
		s.errorf("%s: %s", fmt.Sprintf(format, args...), d)
	}
}

func jobName(j lockstep.Job) string {
	return fmt.Sprintf("route %s, controller %v", j.Route.Name, j.Policy)
}

// end is one past the last step of a job.
func end(j lockstep.Job, opts lockstep.Options) int {
	if opts.Shortcuts&lockstep.StopAtCostEnd != 0 {
		return min(j.Route.Len(), lockstep.CostEndIdx)
	}
	return j.Route.Len()
}

func stepsOf(j lockstep.Job, opts lockstep.Options) int { return end(j, opts) - lockstep.ContextLength }

// difference says where two rollouts part, or "".
func difference(got, want *rollout) string {
	for i := range min(len(got.steps), len(want.steps)) {
		if d := stepDifference(got.steps[i], want.steps[i]); d != "" {
			return fmt.Sprintf("step %d, %s", want.steps[i].Index, d)
		}
	}
	if len(got.steps) != len(want.steps) {
		return fmt.Sprintf("%d steps, want %d", len(got.steps), len(want.steps))
	}
	return resultDifference(got.result, want.result)
}

// stepDifference names the first stage in which two steps differ, and the place in
// it.
func stepDifference(got, want *lockstep.Step) string {
	if (got.Logits == nil) != (want.Logits == nil) {
		return fmt.Sprintf("stage logits: the network ran is %v, want %v", got.Logits != nil, want.Logits != nil)
	}
	s := tinyphysics.Schema(0)
	w, g := s.NewStep(), s.NewStep()
	tinyphysics.Expose(want, w)
	tinyphysics.Expose(got, g)
	w.Sum(schema.XXH64)
	g.Sum(schema.XXH64)
	if d := parity.DifferStep(s, w, g); d != nil {
		if !s.Stages[s.Index(d.Stage)].IsArray() {
			d.Index = -1
		}
		return "stage " + place(d.Stage, d)
	}
	if got.Index != want.Index {
		return fmt.Sprintf("index %d, want %d", got.Index, want.Index)
	}
	return ""
}

// place says where two arrays differ: "probs[3]: 2 (40000000), want 1 (3f800000)".
func place(name string, d *parity.Divergence) string {
	if d.Index >= 0 {
		name += fmt.Sprintf("[%d]", d.Index)
	}
	return fmt.Sprintf("%s: %s, want %s", name, d.Got, d.Want)
}

func resultDifference(got, want lockstep.Result) string {
	if (got.Err == nil) != (want.Err == nil) {
		return fmt.Sprintf("error %s, want %s", firstLine(got.Err), firstLine(want.Err))
	}
	if d := parity.DifferOutcome(tinyphysics.Schema(0), tinyphysics.Outcome(want.Costs), tinyphysics.Outcome(got.Costs)); d != nil {
		d.Index = -1
		return place(d.Element+" cost", d)
	}
	g, w := got.Trajectory, want.Trajectory
	if (g == nil) != (w == nil) {
		return fmt.Sprintf("a trajectory is there: %v, want %v", g != nil, w != nil)
	}
	if g == nil {
		return ""
	}
	return cmp.Or(
		arrayDifference("trajectory's target", g.Target, w.Target),
		arrayDifference("trajectory's lataccel", g.Lataccel, w.Lataccel),
		arrayDifference("trajectory's action", g.Action, w.Action),
	)
}

func arrayDifference[T float32 | float64](name string, got, want []T) string {
	if d := parity.Differ(want, got); d != nil {
		return place(name, d)
	}
	return ""
}
