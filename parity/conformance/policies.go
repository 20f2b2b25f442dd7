package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"

	"lockstep"
)

// weave is a policy whose answers depend on all that a controller is told.
var weave = lockstep.Custom{Name: "weave", New: func() lockstep.Controller { return &weaver{} }}

type weaver struct{ memory float64 }

func (w *weaver) Update(target, current float64, state lockstep.State, plan lockstep.FuturePlan) float64 {
	w.memory = float64(0.9*w.memory) + target - current
	sum := float64(0.2*w.memory) - float64(0.01*state.RollLataccel) + float64(1e-4*state.VEgo) + float64(1e-3*state.AEgo)
	for i, x := range plan.Lataccel {
		sum += float64(0.01*x) + float64(1e-4*plan.VEgo[i]) + float64(1e-3*plan.RollLataccel[i]) + float64(1e-3*plan.AEgo[i])
	}
	return sum
}

// function is a controller made of a function of the step.
type function struct {
	step   int
	update func(step int) float64
}

func (f *function) Update(_, _ float64, _ lockstep.State, _ lockstep.FuturePlan) float64 {
	f.step++
	return f.update(lockstep.ContextLength + f.step - 1)
}

func custom(name string, update func(step int) float64) lockstep.Custom {
	return lockstep.Custom{Name: name, New: func() lockstep.Controller { return &function{update: update} }}
}

func constant(x float64) lockstep.Custom {
	return custom(fmt.Sprint("constant ", x), func(int) float64 { return x })
}

// A call is what a controller is told at one step.
type call struct {
	target, current float64
	state           lockstep.State
	plan            lockstep.FuturePlan
}

// spy is a controller that keeps what it is told.
type spy struct{ calls []call }

func (s *spy) Update(target, current float64, state lockstep.State, plan lockstep.FuturePlan) float64 {
	s.calls = append(s.calls, call{target, current, state, plan})
	return 0.1 * (target - current)
}

// told holds what a controller was told to the route and the steps that followed.
func told(calls []call, r *rollout) string {
	if len(calls) != len(r.steps) {
		return fmt.Sprintf("the controller was asked %d times in %d steps", len(calls), len(r.steps))
	}
	route := r.job.Route
	current := route.TargetLataccel[lockstep.ContextLength-1]
	for k, c := range calls {
		step := lockstep.ContextLength + k
		plan := route.FuturePlan(step)
		state := route.State(step)
		if d := cmp.Or(
			arrayDifference("target, lataccel, roll lataccel, v ego, a ego",
				[]float64{c.target, c.current, c.state.RollLataccel, c.state.VEgo, c.state.AEgo},
				[]float64{route.TargetLataccel[step], current, state.RollLataccel, state.VEgo, state.AEgo}),
			arrayDifference("plan's lataccel", c.plan.Lataccel, plan.Lataccel),
			arrayDifference("plan's roll lataccel", c.plan.RollLataccel, plan.RollLataccel),
			arrayDifference("plan's v ego", c.plan.VEgo, plan.VEgo),
			arrayDifference("plan's a ego", c.plan.AEgo, plan.AEgo),
		); d != "" {
			return fmt.Sprintf("step %d: the controller is told %s", step, d)
		}
		current = r.steps[k].Lataccel
	}
	return ""
}

// policies: every kind of policy; each job has a controller of its own, which is
// asked once for every step, in order, and told the right things.
func (s *suite) policies() {
	route := short(s.routes[7], 160) // longer than a plan
	s.hold([]lockstep.Job{
		{Route: route, Policy: lockstep.Zero{}},
		{Route: route, Policy: lockstep.DefaultPID},
		{Route: route, Policy: lockstep.PID{}},
		{Route: route, Policy: lockstep.PID{P: 1e9, I: -1e-9, D: math.MaxFloat64}},
		{Route: route, Policy: weave},
	}, brief)

	for _, shortcuts := range []lockstep.Shortcuts{lockstep.CostOnly, lockstep.FullTrajectory} {
		jobs := s.some()
		var mutex sync.Mutex
		spies := make([][]*spy, len(jobs))
		for i := range jobs {
			jobs[i].Policy = lockstep.Custom{Name: fmt.Sprint("spy ", i), New: func() lockstep.Controller {
				mutex.Lock()
				defer mutex.Unlock()
				spies[i] = append(spies[i], &spy{})
				return spies[i][len(spies[i])-1]
			}}
		}
		for i, r := range s.good(jobs, lockstep.Options{Shortcuts: shortcuts}) {
			if len(spies[i]) != 1 {
				s.errorf("job %d: New made %d controllers, want 1", i, len(spies[i]))
			} else if d := told(spies[i][0].calls, r); d != "" {
				s.errorf("job %d: %s", i, d)
			}
		}
	}
	// One policy for several jobs: no state may be shared.
	same := s.some()
	for i := range same {
		same[i].Policy = weave
	}
	s.hold(same, brief)
	s.batchPolicies()
}

// batchPolicies: batch controllers are made for all of the jobs, are told the
// right things and closed once.
func (s *suite) batchPolicies() {
	jobs := s.some()
	jobs = append(jobs, jobs[0])
	watch := &watched{}
	policy := &lockstep.Batch{Name: "watched", New: watch.make}
	for i := range jobs {
		jobs[i].Policy = policy
	}
	got := s.good(jobs, brief)
	watch.mutex.Lock()
	defer watch.mutex.Unlock()
	if len(watch.faults) > 0 {
		s.fatalf("batch controller: %s", watch.faults[0])
	}
	routes := map[*lockstep.Route]int{}
	for _, b := range watch.made {
		if b.closed != 1 {
			s.errorf("a batch controller was closed %d times, want once", b.closed)
		}
		for k, r := range b.routes {
			routes[r]++
			i := slices.IndexFunc(got, func(r *rollout) bool { return r.job.Route == b.routes[k] })
			if i < 0 {
				s.fatalf("a batch controller was made for a route that is in no job")
			}
			if d := told(b.calls[k], got[i]); d != "" {
				s.errorf("batch controller, route %s: %s", r.Name, d)
			}
		}
	}
	want := map[*lockstep.Route]int{}
	for _, j := range jobs {
		want[j.Route]++
	}
	for r, n := range want {
		if routes[r] != n {
			s.errorf("batch controllers were made %d times for route %s, which is in %d jobs", routes[r], r.Name, n)
		}
	}
}

// watched makes batch controllers and keeps what they are told.
type watched struct {
	mutex  sync.Mutex
	made   []*watchedBatch
	faults []string
}

type watchedBatch struct {
	parent *watched
	routes []*lockstep.Route
	calls  [][]call
	each   []spy
	next   int
	closed int
}

func (w *watched) make(routes []*lockstep.Route) (lockstep.BatchController, error) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	b := &watchedBatch{parent: w, routes: slices.Clone(routes), calls: make([][]call, len(routes)), each: make([]spy, len(routes)), next: lockstep.ContextLength}
	w.made = append(w.made, b)
	return b, nil
}

func (b *watchedBatch) fault(format string, args ...any) {
	b.parent.faults = append(b.parent.faults, fmt.Sprintf(format, args...))
}

func (b *watchedBatch) Update(s *lockstep.BatchStep) error {
	b.parent.mutex.Lock()
	defer b.parent.mutex.Unlock()
	if s.Step != b.next {
		b.fault("step %d, want step %d next", s.Step, b.next)
	}
	if b.closed > 0 {
		b.fault("step %d after Close", s.Step)
	}
	b.next = s.Step + 1
	if n := len(b.routes); len(s.Running) != n || len(s.TargetLataccel) != n || len(s.CurrentLataccel) != n || len(s.State) != n || len(s.Plan) != n || len(s.Steer) != n || len(s.Err) != n {
		b.fault("step %d: not all slices have an element for each of %d routes", s.Step, n)
		return nil
	}
	for k, r := range b.routes {
		if running := s.Step < r.Len(); s.Running[k] != running {
			b.fault("step %d of route %s: Running is %v, want %v", s.Step, r.Name, s.Running[k], running)
		}
		if s.Running[k] {
			s.Steer[k] = b.each[k].Update(s.TargetLataccel[k], s.CurrentLataccel[k], s.State[k], s.Plan[k])
			b.calls[k] = b.each[k].calls
		}
	}
	return nil
}

func (b *watchedBatch) Close() error {
	b.parent.mutex.Lock()
	defer b.parent.mutex.Unlock()
	b.closed++
	return nil
}

var errOutOfFuel = errors.New("out of fuel")

// broken is a batch controller that fails at step 103.
type broken struct {
	update func(*lockstep.BatchStep) error
}

func (b broken) Update(s *lockstep.BatchStep) error {
	if s.Step == 103 {
		return b.update(s)
	}
	return nil
}

func (broken) Close() error { return nil }

// A failure is a job that must fail, alone.
type failure struct {
	name string
	bad  lockstep.Job
	want string // part of the error
	is   error  // what it wraps
}

// failing are the ways in which a job on a route can fail.
func failing(route *lockstep.Route) []failure {
	at := func(step int, f func() float64) lockstep.Custom {
		return custom("fails", func(now int) float64 {
			if now == step {
				return f()
			}
			return 0
		})
	}
	outOfFuel := func() float64 { panic("out of fuel") }
	exit := func() float64 { runtime.Goexit(); return 0 }
	batch := func(update func(*lockstep.BatchStep) error) *lockstep.Batch {
		return &lockstep.Batch{Name: "fails", New: func([]*lockstep.Route) (lockstep.BatchController, error) { return broken{update}, nil }}
	}
	edited := func(f func(*lockstep.Route)) *lockstep.Route {
		r := copied(route)
		f(r)
		return r
	}
	return []failure{
		{"the controller panics", lockstep.Job{Route: route, Policy: at(104, outOfFuel)}, "step 104: panic: out of fuel", nil},
		{"the controller panics in the warm-up", lockstep.Job{Route: route, Policy: at(30, outOfFuel)}, "step 30: panic: out of fuel", nil},
		{"the controller answers NaN", lockstep.Job{Route: route, Policy: at(103, math.NaN)}, "step 10", nil},
		{"making the controller panics", lockstep.Job{Route: route, Policy: lockstep.Custom{Name: "fails", New: func() lockstep.Controller { panic("out of fuel") }}}, "out of fuel", nil},
		{"New makes no controller", lockstep.Job{Route: route, Policy: lockstep.Custom{Name: "fails", New: func() lockstep.Controller { return nil }}}, "", nil},
		{"the policy has no New", lockstep.Job{Route: route, Policy: lockstep.Custom{Name: "fails"}}, "", nil},
		{"the job has no policy", lockstep.Job{Route: route}, "", nil},
		{"Observe panics", lockstep.Job{Route: route, Policy: lockstep.Zero{}, Observe: func(step *lockstep.Step) {
			if step.Index == 102 {
				panic("out of fuel")
			}
		}}, "out of fuel", nil},
		{"the controller calls Goexit", lockstep.Job{Route: route, Policy: at(104, exit)}, "step 104: ", nil},
		{"making the controller calls Goexit", lockstep.Job{Route: route, Policy: lockstep.Custom{Name: "fails", New: func() lockstep.Controller { exit(); return nil }}}, "", nil},
		{"Observe calls Goexit", lockstep.Job{Route: route, Policy: lockstep.Zero{}, Observe: func(*lockstep.Step) { exit() }}, "", nil},
		{"the batch controller calls Goexit", lockstep.Job{Route: route, Policy: batch(func(*lockstep.BatchStep) error { exit(); return nil })}, "", nil},
		{"the job has no route", lockstep.Job{Policy: lockstep.Zero{}}, "", nil},
		{"the batch controller fails", lockstep.Job{Route: route, Policy: batch(func(*lockstep.BatchStep) error { return errOutOfFuel })}, "", errOutOfFuel},
		{"the batch controller fails its route", lockstep.Job{Route: route, Policy: batch(func(step *lockstep.BatchStep) error { step.Err[0] = errOutOfFuel; return nil })}, "", errOutOfFuel},
		{"the batch controller panics", lockstep.Job{Route: route, Policy: batch(func(*lockstep.BatchStep) error { panic("out of fuel") })}, "out of fuel", nil},
		{"making the batch controller fails", lockstep.Job{Route: route, Policy: &lockstep.Batch{Name: "fails", New: func([]*lockstep.Route) (lockstep.BatchController, error) { return nil, errOutOfFuel }}}, "", errOutOfFuel},
		{"a target is NaN", lockstep.Job{Route: edited(func(r *lockstep.Route) { r.TargetLataccel[95] = math.NaN() }), Policy: lockstep.Zero{}}, "", nil},
		{"a speed is NaN", lockstep.Job{Route: edited(func(r *lockstep.Route) { r.VEgo[104] = math.NaN() }), Policy: lockstep.Zero{}}, "", nil},
		{"the route is too short", lockstep.Job{Route: short(route, 50), Policy: lockstep.Zero{}}, "", nil},
	}
}

// failures: what fails a job is that job's error, and leaves the others alone.
func (s *suite) failures() {
	for _, c := range failing(short(s.routes[2], 106)) {
		jobs := s.some()
		want := s.good(jobs, brief)
		for _, place := range []int{0, 2} {
			jobs := s.some()
			jobs[place] = c.bad
			for i, r := range s.run(context.Background(), jobs, brief) {
				err := r.result.Err
				switch {
				case i != place:
					s.same(r, want[i], "%s: job %d of 5 differs beside job %d, which fails", c.name, i, place)
				case err == nil:
					s.errorf("%s: no error", c.name)
				case !strings.Contains(err.Error(), c.want):
					s.errorf("%s: error %q does not say %q", c.name, firstLine(err), c.want)
				case c.is != nil && !errors.Is(err, c.is):
					s.errorf("%s: error %q does not wrap the controller's", c.name, firstLine(err))
				case c.bad.Route != nil && !strings.Contains(err.Error(), c.bad.Route.Name):
					s.errorf("%s: error %q does not name the route", c.name, firstLine(err))
				case r.result.Trajectory != nil || r.result.Costs != (lockstep.Costs{}):
					s.errorf("%s: the job failed, and has costs or a trajectory", c.name)
				}
			}
		}
	}
}
