package conformance

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"lockstep"
)

// update is a controller made of a function.
type update func(target, current float64, state lockstep.State, plan lockstep.FuturePlan) float64

func (u update) Update(
	target, current float64, state lockstep.State, plan lockstep.FuturePlan,
) float64 {
	return u(target, current, state, plan)
}

// weave is a policy whose answers depend on every bit that a controller is told, and has
// been told: of it all they have a hash in their last digits, up to 2⁻¹⁰.
var weave = lockstep.Custom{Name: "weave", New: func() lockstep.Controller {
	memory, told := 0.0, fnv.New64a()
	return update(
		func(target, current float64, state lockstep.State, plan lockstep.FuturePlan) float64 {
			memory = float64(0.9*memory) + target - current
			fmt.Fprint(told, target, current, state, plan)
			return float64(0.2*memory) + float64(told.Sum64()>>11)*0x1p-63
		},
	)
}}

// custom is a policy whose answers depend on the step alone.
func custom(name string, answer func(step int) float64) lockstep.Custom {
	return lockstep.Custom{Name: name, New: func() lockstep.Controller {
		step := lockstep.ContextLength - 1
		return update(func(float64, float64, lockstep.State, lockstep.FuturePlan) float64 {
			step++
			return answer(step)
		})
	}}
}

// policies: every kind of policy; each job has a controller of its own, which is
// asked once for every step, in order, and told the right things.
func (s *suite) policies() {
	route := short(s.routes[7], 160) // longer than a plan
	s.hold([]lockstep.Job{
		{Route: route, Policy: lockstep.Zero{}},
		{Route: route, Policy: lockstep.DefaultPID()},
		{Route: route, Policy: lockstep.PID{}},
		{Route: route, Policy: lockstep.PID{P: 1e9, I: -1e-9, D: math.MaxFloat64}},
		{Route: route, Policy: weave},
	}, brief)

	for _, shortcuts := range []lockstep.Shortcuts{lockstep.FullTrajectory, lockstep.CostOnly} {
		s.counted(lockstep.Options{Shortcuts: shortcuts})
	}
	s.batchPolicies()
}

// counted: a controller is made once for each job, and asked once for each step.
func (s *suite) counted(opts lockstep.Options) {
	jobs := s.some()
	made, asked := make([]atomic.Int32, len(jobs)), make([]atomic.Int32, len(jobs))
	for i := range jobs {
		jobs[i].Policy = lockstep.Custom{Name: "counted", New: func() lockstep.Controller {
			made[i].Add(1)
			c := weave.New()
			return update(
				func(target, current float64, state lockstep.State,
					plan lockstep.FuturePlan) float64 {
					asked[i].Add(1)
					return c.Update(target, current, state, plan)
				},
			)
		}}
	}
	for i, r := range s.run(context.Background(), jobs, opts) {
		if made, asked := made[i].Load(), int(asked[i].Load()); made != 1 {
			s.errorf("job %d: New made %d controllers, want 1", i, made)
		} else if asked != len(r.steps) {
			s.errorf("job %d: the controller was asked %d times in %d steps", i, asked,
				len(r.steps))
		} else if err := r.wrong(opts); err != nil {
			s.errorf("job %d: %w", i, err)
		}
	}
}

// batchPolicies: of one policy for several jobs no state may be shared; batch controllers
// are made for all of the jobs, steer them as if each had its own, and are closed once: where
// rollouts run through, and where they are in step.
func (s *suite) batchPolicies() {
	jobs := s.some()
	jobs = append(jobs, jobs[0])
	for i := range jobs {
		jobs[i].Policy = weave
	}
	want := s.hold(jobs, brief)
	s.watchBatch("", jobs, want, func(jobs []lockstep.Job) []*rollout {
		return s.good(jobs, brief)
	})
	if sim, ok := s.sim.(lockstep.StepSimulator); ok {
		s.watchBatch(", in step", jobs, want, func(jobs []lockstep.Job) []*rollout {
			return s.inStep(sim, jobs)
		})
	}
}

// inStep runs jobs that steer themselves step by step.
func (s *suite) inStep(sim lockstep.StepSimulator, jobs []lockstep.Job) []*rollout {
	all, order := observed(jobs)
	s.within(1, func() error {
		p, err := sim.Reset(context.Background(), order, brief)
		if err != nil {
			return err
		}
		none := make([]float64, len(jobs))
		for err == nil && !p.Done() {
			err = p.Step(context.Background(), none, none)
		}
		results, failed := p.Results(context.Background())
		for i, r := range results {
			all[i].result = r
		}
		p.Close() // says what these controllers' Close did
		return errors.Join(err, failed, p.Close())
	})
	return all
}

// watchBatch runs jobs in some way, steered by batch controllers that are watched.
func (s *suite) watchBatch(
	how string, jobs []lockstep.Job, want []*rollout, run func([]lockstep.Job) []*rollout,
) {
	left := map[*lockstep.Route]int{} // jobs more than controllers
	var mutex sync.Mutex
	var all []*watched
	policy := &lockstep.Batch{
		Name: "watched",
		New: func(routes []*lockstep.Route) (lockstep.BatchController, error) {
			mutex.Lock()
			defer mutex.Unlock()
			w := &watched{next: lockstep.ContextLength, routes: slices.Clone(routes)}
			for _, route := range routes {
				left[route]--
				w.each = append(w.each, weave.New())
			}
			all = append(all, w)
			return w, nil
		},
	}
	jobs = slices.Clone(jobs)
	for i := range jobs {
		jobs[i].Policy = policy
		left[jobs[i].Route]++
	}
	for i, r := range run(jobs) {
		s.same(r, want[i], "job %d, steered by a batch controller%s", i, how)
	}
	for _, w := range all {
		if w.fault != nil {
			s.fatalf("batch controller%s: %w", how, w.fault)
		}
		if n := w.closed.Load(); n != 1 {
			s.errorf("a batch controller%s was closed %d times, want once", how, n)
		}
	}
	for route, n := range left {
		if n != 0 {
			s.errorf(
				"route %s is in %d jobs%s more than batch controllers were made for it",
				route.Name, n, how,
			)
		}
	}
}

// watched is a batch controller that keeps the first thing that is wrong with how it is
// called.
type watched struct {
	mutex  sync.Mutex
	routes []*lockstep.Route
	each   []lockstep.Controller
	next   int
	closed atomic.Int32
	fault  error
}

func (w *watched) Update(s *lockstep.BatchStep) error {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	n := len(w.routes)
	switch {
	case w.fault != nil:
	case s.Step != w.next:
		w.fault = fmt.Errorf("step %d, want step %d next", s.Step, w.next)
	case w.closed.Load() > 0:
		w.fault = fmt.Errorf("step %d after Close", s.Step)
	case len(s.Running) != n || len(s.TargetLataccel) != n || len(s.CurrentLataccel) != n ||
		len(s.State) != n || len(s.Plan) != n || len(s.Steer) != n || len(s.Err) != n:
		w.fault = fmt.Errorf(
			"step %d: not all slices have an element for each of %d routes", s.Step, n,
		)
	}
	w.next++
	for k := 0; k < n && w.fault == nil; k++ {
		if running := s.Step < w.routes[k].Len(); s.Running[k] != running {
			w.fault = fmt.Errorf(
				"step %d of route %s: Running is %v, want %v", s.Step, w.routes[k].Name,
				s.Running[k], running,
			)
		} else if running {
			s.Steer[k] = w.each[k].Update(s.TargetLataccel[k], s.CurrentLataccel[k], s.State[k],
				s.Plan[k])
		}
	}
	return w.fault
}

// Close fails, which is no rollout's.
func (w *watched) Close() error {
	w.closed.Add(1)
	return errOutOfFuel
}

// failing are the ways in which a job can fail.
var failing = []struct {
	name string
	edit func(j *lockstep.Job) // of a job with policy Zero on a route of its own, of 106 rows
	want string                // part of the error
	is   error                 // what it wraps
}{
	{
		"the controller panics", by(custom("fails", once(104, outOfFuel))),
		"step 104: panic: out of fuel", nil,
	},
	{
		"the controller panics in the warm-up", by(custom("fails", once(30, outOfFuel))),
		"step 30: panic: out of fuel", nil,
	},
	{"the controller answers NaN", by(custom("fails", once(103, math.NaN))), "step 10", nil},
	{
		"making the controller panics",
		by(lockstep.Custom{
			Name: "fails",
			New:  func() lockstep.Controller { panic("out of fuel") },
		}),
		"out of fuel", nil,
	},
	{
		"New makes no controller",
		by(lockstep.Custom{Name: "fails", New: func() lockstep.Controller { return nil }}), "", nil,
	},
	{"the policy has no New", by(lockstep.Custom{Name: "fails"}), "", nil},
	{"the job has no policy", by(nil), "", nil},
	{"Observe panics", seen(once(102, outOfFuel)), "out of fuel", nil},
	{"the controller calls Goexit", by(custom("fails", once(104, exit))), "step 104: ", nil},
	{
		"making the controller calls Goexit",
		by(lockstep.Custom{Name: "fails", New: func() lockstep.Controller { exit(); return nil }}),
		"", nil,
	},
	{"Observe calls Goexit", seen(once(20, exit)), "", nil},
	{
		"the batch controller calls Goexit",
		batch(func(*lockstep.BatchStep) error { exit(); return nil }, nil), "", nil,
	},
	{"the job has no route", func(j *lockstep.Job) { j.Route = nil }, "", nil},
	{
		"the batch controller fails",
		batch(func(*lockstep.BatchStep) error { return errOutOfFuel }, nil), "", errOutOfFuel,
	},
	{
		"the batch controller fails its route",
		batch(func(s *lockstep.BatchStep) error { s.Err[0] = errOutOfFuel; return nil }, nil), "",
		errOutOfFuel,
	},
	{
		"the batch controller panics",
		batch(func(*lockstep.BatchStep) error { panic("out of fuel") }, nil), "out of fuel", nil,
	},
	{"making the batch controller fails", batch(nil, errOutOfFuel), "", errOutOfFuel},
	{"a target is NaN", func(j *lockstep.Job) { j.Route.TargetLataccel[95] = math.NaN() }, "", nil},
	{"a speed is NaN", func(j *lockstep.Job) { j.Route.VEgo[104] = math.NaN() }, "", nil},
	{"the teacher is too short", func(j *lockstep.Job) { j.Teacher = taught(106, 105) }, "", nil},
	{"the teacher has nothing", func(j *lockstep.Job) { j.Teacher = taught(0, 0) }, "", nil},
	{"the route is too short", func(j *lockstep.Job) { j.Route = short(j.Route, 50) }, "", nil},
}

var errOutOfFuel = errors.New("out of fuel")

func outOfFuel() float64 { panic("out of fuel") }
func exit() float64      { runtime.Goexit(); return 0 }

// once calls a function at a step.
func once(step int, f func() float64) func(now int) float64 {
	return func(now int) float64 {
		if now == step {
			return f()
		}
		return 0
	}
}

func by(p lockstep.Policy) func(*lockstep.Job) { return func(j *lockstep.Job) { j.Policy = p } }

func batch(update broken, err error) func(*lockstep.Job) {
	return by(&lockstep.Batch{
		Name: "fails",
		New:  func([]*lockstep.Route) (lockstep.BatchController, error) { return update, err },
	})
}

// broken is a batch controller that does something else at step 103.
type broken func(*lockstep.BatchStep) error

func (b broken) Update(s *lockstep.BatchStep) error {
	if s.Step == 103 {
		return b(s)
	}
	return nil
}

func (broken) Close() error { return nil }

func seen(f func(step int) float64) func(*lockstep.Job) {
	return func(j *lockstep.Job) { j.Observe = func(s *lockstep.Step) { f(s.Index) } }
}

// taught is a teacher of zeros.
func taught(lataccels, actions int) *lockstep.Trajectory {
	return &lockstep.Trajectory{
		Lataccel: make([]float64, lataccels),
		Action:   make([]float64, actions),
	}
}

// failures: what fails a job is that job's error, and leaves the others alone.
func (s *suite) failures() {
	want := s.good(s.some(), brief)
	for _, c := range failing {
		bad := lockstep.Job{Route: copied(short(s.routes[2], 106)), Policy: lockstep.Zero{}}
		c.edit(&bad)
		for _, place := range []int{0, 2} {
			jobs := s.some()
			jobs[place] = bad
			for i, r := range s.run(context.Background(), jobs, brief) {
				err := r.result.Err
				switch {
				case i != place:
					s.same(
						r, want[i], "%s: job %d of 5 differs beside job %d, which fails", c.name, i,
						place,
					)
				case err == nil:
					s.errorf("%s: no error", c.name)
				case !strings.Contains(err.Error(), c.want):
					s.errorf("%s: error %q does not say %q", c.name, firstLine(err), c.want)
				case c.is != nil && !errors.Is(err, c.is):
					s.errorf("%s: error %q does not wrap the controller's", c.name, firstLine(err))
				case bad.Route != nil && !strings.Contains(err.Error(), bad.Route.Name):
					s.errorf("%s: error %q does not name the route", c.name, firstLine(err))
				case r.result.Trajectory != nil || r.result.Costs != (lockstep.Costs{}):
					s.errorf("%s: the job failed, and has costs or a trajectory", c.name)
				}
			}
		}
	}
}
