package engines

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"lockstep"
)

// A failing is a policy that fails its rollouts in one way, and what is said of them.
type failing struct {
	name   string
	policy lockstep.Policy
	fails  map[int]string // of the policy's rollouts in their order: step and cause
}

// failingAt answers 0 until a step, at which it does something else.
type failingAt struct {
	step, at int
	do       func(*lockstep.BatchStep) error
	closing  error
}

func (c *failingAt) Update(float64, float64, lockstep.State, lockstep.FuturePlan) float64 {
	if c.step++; c.step != c.at {
		return 0
	}
	s := lockstep.NewBatchStep(1)
	if err := c.do(s); err != nil {
		panic(err)
	}
	return s.Steer[0]
}

// failingBatch is the same of several rollouts, which are told their step.
type failingBatch struct{ *failingAt }

func (c failingBatch) Update(s *lockstep.BatchStep) error {
	if s.Step != c.at {
		clear(s.Steer)
		return nil
	}
	return c.do(s)
}

func (c failingBatch) Close() error { return c.closing }

// failings are the ways to fail of two rollouts each, whose last step is last.
func failings(last int) (all []failing) {
	broken := errors.New("it is broken")
	both := func(says string) map[int]string { return map[int]string{0: says, 1: says} }
	at := func(step int) string { return fmt.Sprintf("step %d: ", step) }
	custom := func(name string, make func() lockstep.Controller, fails map[int]string) {
		all = append(all, failing{name, lockstep.Custom{Name: name, New: make}, fails})
	}
	batch := func(
		name string, make func([]*lockstep.Route) (lockstep.BatchController, error),
		fails map[int]string,
	) {
		all = append(all, failing{name, &lockstep.Batch{Name: name, New: make}, fails})
	}
	answers := func(c *failingAt) func([]*lockstep.Route) (lockstep.BatchController, error) {
		return func([]*lockstep.Route) (lockstep.BatchController, error) {
			return failingBatch{c}, nil
		}
	}
	custom("unmade", func() lockstep.Controller { panic(broken) },
		both(at(0)+"panic: it is broken"))
	batch("unmade batch", func([]*lockstep.Route) (lockstep.BatchController, error) {
		return nil, broken
	}, both(at(0)+"it is broken"))
	const nobody = "the policy made no controller"
	custom("no controller", func() lockstep.Controller { return nil }, both(at(0)+nobody))
	custom("nil pointer", func() lockstep.Controller { return (*failingAt)(nil) },
		both(at(0)+nobody))
	batch("nil pointer of a batch", func([]*lockstep.Route) (lockstep.BatchController, error) {
		return (*failingBatch)(nil), nil
	}, both(at(0)+nobody))
	batch("no batch controller", func([]*lockstep.Route) (lockstep.BatchController, error) {
		return nil, nil
	}, both(at(0)+nobody))
	nan := lockstep.Layer{
		Inputs: lockstep.ObservationSize, Outputs: lockstep.ActorSize,
		Weights: make([]float32, lockstep.ObservationSize*lockstep.ActorSize),
		Bias:    []float32{0, float32(math.NaN())},
	}
	all = append(all, failing{
		"a network of NaN",
		&lockstep.Network{Name: "nan", Layers: []lockstep.Layer{nan}, Scale: 1},
		both(at(0) + "a network that NewNetwork would refuse: layer 0: bias [1] is NaN"),
	})
	batch("batch that panics", func([]*lockstep.Route) (lockstep.BatchController, error) {
		panic(broken)
	}, both(at(0)+"panic: it is broken"))
	batch("batch that does not close", answers(&failingAt{closing: broken}), nil)
	never := func(*lockstep.BatchStep) error { return broken }
	for _, k := range []int{
		lockstep.ContextLength, lockstep.ContextLength + 1, lockstep.ControlStartIdx - 1,
		lockstep.ControlStartIdx, lockstep.ControlStartIdx + 1, last,
	} {
		custom(fmt.Sprint("update ", k), func() lockstep.Controller {
			return &failingAt{step: lockstep.ContextLength - 1, at: k, do: never}
		}, both(at(k)+"panic: it is broken"))
		batch(fmt.Sprint("batch update ", k), answers(&failingAt{at: k, do: never}),
			both(at(k)+"it is broken"))
		nan, fails := func(s *lockstep.BatchStep) error {
			for i := range s.Steer {
				s.Steer[i] = math.NaN()
			}
			return nil
		}, both(at(k)) // what the cause is called depends on what saw it
		if k < lockstep.ControlStartIdx {
			fails = nil // the route steers
		}
		custom(fmt.Sprint("NaN ", k), func() lockstep.Controller {
			return &failingAt{step: lockstep.ContextLength - 1, at: k, do: nan}
		}, fails)
		batch(fmt.Sprint("batch NaN ", k), answers(&failingAt{at: k, do: nan}), fails)
	}
	return all
}

// failingJobs are two of each way to fail, with one between that does not, on routes that end at
// the step last.
func failingJobs(t *testing.T, all []failing, last int) (jobs []lockstep.Job) {
	t.Helper()
	routes := policyRoutes(t, 2)
	for i, f := range all {
		own := []*lockstep.Route{cutRoute(routes[i%2], last+1), cutRoute(routes[1-i%2], last+1)}
		jobs = append(jobs,
			lockstep.Job{Route: own[0], Policy: f.policy},
			lockstep.Job{Route: own[1], Policy: lockstep.DefaultPID()},
			lockstep.Job{Route: own[1], Policy: f.policy},
		)
	}
	return jobs
}

// holdFailing holds what is said of jobs to how their policies fail.
func holdFailing(t *testing.T, engine string, all []failing, jobs []lockstep.Job, errs []error) {
	t.Helper()
	for i, err := range errs {
		f, want := all[i/3], ""
		if says := f.fails[i%3/2]; i%3 != 1 && says != "" {
			want = fmt.Sprintf(
				"route %s, controller %v, %s", jobs[i].Route.Name, jobs[i].Policy, says)
		}
		if want == "" && err != nil ||
			want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%s, %s, job %d: %.200v, want %q", engine, f.name, i, err, want)
		}
	}
}

// TestFailingStep: an error names the step at which its rollout failed, 0 if that was before the
// first, in every engine and in whichever way it failed; rollouts beside it go on, and a
// controller that does not close has costs.
func TestFailingStep(t *testing.T) {
	c := config(t)
	const last = lockstep.ControlStartIdx + 2
	all := failings(last)
	jobs := failingJobs(t, all, last)
	for _, e := range Checked() {
		t.Run(e.Name, func(t *testing.T) {
			s := e.ForTest(t, c)
			for _, shortcuts := range []lockstep.Shortcuts{
				lockstep.CostOnly, lockstep.FullTrajectory,
			} {
				errs := make([]error, len(jobs))
				for i, r := range s.Simulate(
					context.Background(), jobs, lockstep.Options{Shortcuts: shortcuts},
				) {
					errs[i] = r.Err
				}
				holdFailing(t, e.Name, all, jobs, errs)
			}
			steppedFailing(t, e.Name, s, all, jobs, last)
		})
	}
}

// steppedFailing: rollouts in step fail at the same steps, and those whose controllers cannot be
// made fail when they are reset.
func steppedFailing(
	t *testing.T, engine string, s lockstep.Implementation, all []failing, jobs []lockstep.Job,
	last int,
) {
	t.Helper()
	options := lockstep.Options{Shortcuts: lockstep.CostOnly}
	var made []failing
	var running []lockstep.Job
	for i, f := range all {
		own := jobs[3*i : 3*i+3]
		if !strings.HasPrefix(f.fails[0], "step 0: ") {
			made, running = append(made, f), append(running, own...)
			continue
		}
		p, err := s.Reset(t.Context(), own[1:], options)
		want := fmt.Sprintf("job 1: route %s, controller %v, %s", own[2].Route.Name, f.policy,
			f.fails[1])
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s, %s: reset: %.200v, want %q", engine, f.name, err, want)
		}
		if err == nil {
			p.Close()
		}
	}
	p, err := s.Reset(t.Context(), running, options)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	commands, lataccels := make([]float64, len(running)), make([]float64, len(running))
	for p.Index() <= last {
		if err := p.Step(t.Context(), commands, lataccels); err != nil {
			t.Fatal(err)
		}
	}
	results, err := p.Results(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	errs := make([]error, len(results))
	for i, r := range results {
		errs[i] = r.Err
	}
	holdFailing(t, engine+", in step", made, running, errs)
}

// steppedOnce is a batch controller that keeps the steps at which it is asked, and fails its
// routes, one after the other.
type steppedOnce struct{ asked *[]int }

func (c steppedOnce) Update(s *lockstep.BatchStep) error {
	*c.asked = append(*c.asked, s.Step)
	clear(s.Steer)
	for k := range s.Err {
		if s.Step == 30+k {
			s.Err[k] = errors.New("out of fuel")
		}
	}
	return nil
}

func (c steppedOnce) Close() error { return nil }

// TestFailedStay: whose rollouts had failed when a snapshot was taken is not asked for them again,
// where the stepper goes back to it and where another one is put there.
func TestFailedStay(t *testing.T) {
	c := config(t)
	route := policyRoutes(t, 1)[0]
	for _, e := range Checked() {
		t.Run(e.Name, func(t *testing.T) {
			s := e.ForTest(t, c)
			var asked []int
			job := lockstep.Job{Route: route, Policy: &lockstep.Batch{
				Name: "once", New: func([]*lockstep.Route) (lockstep.BatchController, error) {
					return steppedOnce{&asked}, nil
				},
			}}
			jobs := []lockstep.Job{job, {Route: route}, job}
			lataccels := make([]float64, len(jobs))
			var shot *lockstep.Snapshot
			for range 2 {
				p, err := s.Reset(t.Context(), jobs, lockstep.Options{})
				if err != nil {
					t.Fatal(err)
				}
				defer p.Close()
				for shot == nil && p.Index() < 35 {
					if err := p.Step(t.Context(), make([]float64, 3), lataccels); err != nil {
						t.Fatal(err)
					}
				}
				if shot == nil {
					if shot, err = p.Snapshot(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				if err := p.Restore(t.Context(), shot); err != nil {
					t.Fatal(err)
				}
				asked = nil
				for range 3 {
					if err := p.Step(t.Context(), make([]float64, 3), lataccels); err != nil {
						t.Fatal(err)
					}
				}
				if asked != nil || p.Err(0) == nil || p.Err(1) != nil || p.Err(2) == nil {
					t.Errorf("asked at steps %d, want none; %v, %v, %v", asked, p.Err(0), p.Err(1),
						p.Err(2))
				}
			}
		})
	}
}

// TestRefusedBeside: of jobs that cannot be rolled out each has its own error, at step 0, wherever
// it stands among others of its policy, which are rolled out as without it: of one that steers each
// job by itself, and of one that steers them together.
func TestRefusedBeside(t *testing.T) {
	c := config(t)
	good := cutRoute(policyRoutes(t, 2)[1], 103)
	refused := []func(j *lockstep.Job){
		func(j *lockstep.Job) { j.Route = cutRoute(good, lockstep.MinRows-1) },
		func(j *lockstep.Job) { j.Draws = make([]float64, 80) },
		func(j *lockstep.Job) { j.Teacher = &lockstep.Trajectory{} },
		func(j *lockstep.Job) { j.Sampling = &lockstep.Sampling{} },
		func(j *lockstep.Job) {
			j.Route = cutRoute(good, 103)
			j.Route.VEgo = j.Route.VEgo[:102]
		},
	}
	batch := &lockstep.Batch{
		Name: "together",
		New: func(routes []*lockstep.Route) (lockstep.BatchController, error) {
			return make(toldTogether, len(routes)), nil
		},
	}
	var jobs []lockstep.Job
	for _, p := range []lockstep.Policy{batch, lockstep.DefaultPID()} {
		for i := range 2 * len(refused) { // one that is good before each, and at the end
			job := lockstep.Job{Route: good, Policy: p}
			if i%2 == 1 {
				refused[i/2](&job)
				named := *job.Route
				named.Name = fmt.Sprint("refused ", i)
				job.Route = &named
			}
			jobs = append(jobs, job)
		}
		jobs = append(jobs, lockstep.Job{Route: good, Policy: p})
	}
	options := lockstep.Options{Shortcuts: lockstep.CostOnly}
	for _, e := range Checked() {
		t.Run(e.Name, func(t *testing.T) {
			s := e.ForTest(t, c)
			costs, failed := map[lockstep.Policy]lockstep.Costs{}, 0
			for i, r := range s.Simulate(t.Context(), jobs, options) {
				job := &jobs[i]
				if err := job.Check(options.Shortcuts); err != nil {
					failed++
					want := job.Failed(0, err).Error()
					if r.Err == nil || r.Err.Error() != want {
						t.Errorf("job %d: %v, want %s", i, r.Err, want)
					}
					continue
				}
				if was, ok := costs[job.Policy]; r.Err != nil || ok && was != r.Costs {
					t.Errorf("job %d costs %v, another %v (%v)", i, r.Costs, was, r.Err)
				}
				costs[job.Policy] = r.Costs
			}
			if failed != 2*len(refused) || len(costs) != 2 {
				t.Errorf("%d jobs are refused, of %d", failed, len(jobs))
			}
		})
	}
}
