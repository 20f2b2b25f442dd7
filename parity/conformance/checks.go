package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"lockstep"
	"lockstep/defaults"
	"lockstep/golden"
	"lockstep/parity"
	"lockstep/parity/schema"
	"lockstep/parity/tinyphysics"
)

// The options that most checks run with: all of a short route, without what costs
// time.
var brief = lockstep.Options{Shortcuts: lockstep.FullTrajectory, Trajectory: true}

// some are short jobs with different routes, lengths and policies.
func (s *suite) some() []lockstep.Job {
	return []lockstep.Job{
		{Route: short(s.routes[2], 104), Policy: lockstep.DefaultPID},
		{Route: short(s.routes[5], 101), Policy: lockstep.Zero{}},
		{Route: short(s.routes[7], 107), Policy: lockstep.PID{P: 2, I: -0.3, D: 0.7}},
		{Route: short(s.routes[10], 103), Policy: lockstep.DefaultPID},
		{Route: short(s.routes[15], 105), Policy: weave},
	}
}

// identity: a name, and a profile that does not change.
func (s *suite) identity() {
	if name := s.sim.Name(); name == "" || strings.ContainsAny(name, " \t\n/") || name != s.sim.Name() {
		s.errorf("Name is %q, want one word that stays the same", name)
	}
	if a, b := s.sim.Profile(), s.sim.Profile(); a != b {
		s.errorf("Profile is %v and then %v", a, b)
	}
}

// nothing: no jobs have no results.
func (s *suite) nothing() {
	s.run(context.Background(), nil, lockstep.Options{})
	s.run(context.Background(), []lockstep.Job{}, brief)
}

// results: each job has one result, its own, also where jobs are equal; the jobs
// are not changed.
func (s *suite) results() {
	jobs := s.some()
	jobs = append(jobs, jobs[0], jobs[3], jobs[0])
	given := slices.Clone(jobs)
	s.hold(jobs, brief)
	for i, j := range jobs {
		if j.Route != given[i].Route || j.Teacher != nil || j.Observe != nil || fmt.Sprint(j.Policy) != fmt.Sprint(given[i].Policy) {
			s.errorf("job %d is another one after Simulate", i)
		}
	}
	// And once more, on the same simulator, without observers.
	opts := lockstep.Options{Shortcuts: lockstep.CostOnly}
	got, _ := observed(jobs)
	s.simulate(context.Background(), jobs, got, opts)
	for i, want := range s.expected(jobs, opts) {
		if d := resultDifference(got[i].result, want.result); d != "" && !s.contractOnly || got[i].result.Err != nil {
			s.errorf("without observers: job %d of %d, %s: %s", i, len(jobs), jobName(jobs[i]), d)
		}
	}
}

// observing: Observe is called once for every step, in order, by one goroutine at
// a time and not after the result, and only for jobs that have it.
func (s *suite) observing() {
	jobs := s.some()
	for _, shortcuts := range []lockstep.Shortcuts{lockstep.CostOnly, lockstep.AllSteps} {
		s.good(jobs[:3], lockstep.Options{Shortcuts: shortcuts})
	}
	all, order := observed(jobs)
	for i := range order {
		if i%2 == 1 {
			order[i].Observe = nil
		}
	}
	s.simulate(context.Background(), order, all, brief)
	for i, r := range all {
		if want := stepsOf(r.job, brief); i%2 == 0 && len(r.steps) != want || r.result.Err != nil {
			s.errorf("job %d, where every other job is observed: Observe is called for %d steps, want %d, error %s", i, len(r.steps), want, firstLine(r.result.Err))
		}
	}
}

// steps: what a Step holds, and that its stages follow from one another.
func (s *suite) steps() {
	for _, shortcuts := range []lockstep.Shortcuts{lockstep.FullTrajectory, lockstep.AllSteps} {
		for i, r := range s.good(s.some()[:3], lockstep.Options{Shortcuts: shortcuts}) {
			route := r.job.Route
			current := route.TargetLataccel[lockstep.ContextLength-1]
			for _, step := range r.steps {
				why := wrongChoice(step)
				if step.Index < lockstep.ControlStartIdx && shortcuts&lockstep.SkipWarmup != 0 {
					why = ""
					if step.Tokens != nil || step.States != nil || step.Logits != nil || step.Probs != nil || step.CDF != nil || step.Sample != -1 || step.Prediction != 0 {
						why = fmt.Sprintf("the network was to be skipped: want nil stages, sample -1 and prediction 0, sample is %d", step.Sample)
					}
				}
				want := route.TargetLataccel[step.Index]
				if step.Index >= lockstep.ControlStartIdx {
					want = min(max(step.Prediction, current-lockstep.MaxAccDelta), current+lockstep.MaxAccDelta)
				}
				if why == "" && !schema.Equal(step.Lataccel, want) {
					why = fmt.Sprintf("lataccel %v, want %v after %v with prediction %v", step.Lataccel, want, current, step.Prediction)
				}
				if why == "" && !(step.Draw >= 0 && step.Draw < 1) {
					why = fmt.Sprintf("draw %v is outside [0, 1)", step.Draw)
				}
				if why != "" {
					s.fatalf("job %d, step %d: %s", i, step.Index, why)
				}
				current = want
			}
		}
	}
}

// wrongChoice says what is wrong with the stages of a step that the network ran at.
func wrongChoice(step *lockstep.Step) string {
	s := tinyphysics.Schema(0)
	exposed := s.NewStep()
	tinyphysics.Expose(step, exposed)
	for k, data := range exposed.Data {
		if g := &s.Stages[k]; g.IsArray() && !g.Optional && len(data) != g.Size() {
			return fmt.Sprintf("stage %s has %d bytes, want %d", g.Name, len(data), g.Size())
		}
	}
	switch sample := step.Sample; {
	case step.CDF[1023] != 1 || !slices.IsSorted(step.CDF):
		return fmt.Sprintf("stage cdf does not rise to 1 but to %v", step.CDF[1023])
	case sample < 0 || sample > 1023 || !(step.Draw < step.CDF[sample]) || sample > 0 && step.Draw < step.CDF[sample-1]:
		return fmt.Sprintf("sample %d is not where the draw %v falls", sample, step.Draw)
	case !schema.Equal(step.Prediction, bin(sample)):
		return fmt.Sprintf("prediction %v, sample %d stands for %v", step.Prediction, sample, bin(sample))
	}
	return ""
}

// bin is the lateral acceleration of a token.
func bin(token int) float64 {
	if token == lockstep.VocabSize-1 {
		return lockstep.LataccelMax
	}
	const width = (lockstep.LataccelMax - lockstep.LataccelMin) / (lockstep.VocabSize - 1)
	return float64(float64(token)*width) + lockstep.LataccelMin
}

// trajectory: it is there if asked for, of the right length, the histories that
// the steps had, and the caller's own.
func (s *suite) trajectory() {
	jobs := s.some()
	for _, shortcuts := range []lockstep.Shortcuts{lockstep.CostOnly, lockstep.FullTrajectory} {
		for i, r := range s.good(jobs, lockstep.Options{Shortcuts: shortcuts}) {
			if r.result.Trajectory != nil {
				s.errorf("job %d has a trajectory, which was not asked for", i)
			}
		}
		opts := lockstep.Options{Shortcuts: shortcuts, Trajectory: true}
		for i, r := range s.good(jobs, opts) {
			t, n := r.result.Trajectory, end(r.job, opts)
			if t == nil {
				s.fatalf("job %d has no trajectory", i)
			}
			route := r.job.Route
			lataccel, action := slices.Clone(route.TargetLataccel[:lockstep.ContextLength]), slices.Clone(route.SteerCommand[:lockstep.ContextLength])
			for _, step := range r.steps {
				lataccel, action = append(lataccel, step.Lataccel), append(action, step.Action)
			}
			want := r.result
			want.Trajectory = &lockstep.Trajectory{Target: route.TargetLataccel[:n], Lataccel: lataccel, Action: action}
			if d := resultDifference(r.result, want); d != "" {
				s.errorf("job %d, %d rows, shortcuts %03b: %s", i, route.Len(), shortcuts, d)
			}
			before := slices.Clone(route.TargetLataccel)
			for k := range t.Target {
				t.Target[k], t.Lataccel[k] = 1e9, 1e9
			}
			if d := arrayDifference("target", route.TargetLataccel, before); d != "" {
				s.fatalf("job %d: writing to the trajectory changes the route's %s", i, d)
			}
		}
	}
}

// shortcuts: what a combination computes at all is the same as without any.
func (s *suite) shortcuts() {
	jobs := []lockstep.Job{{Route: short(s.routes[2], 102), Policy: lockstep.DefaultPID}, {Route: short(s.routes[5], 103), Policy: weave}}
	full := s.good(jobs, lockstep.Options{Trajectory: true})
	for some := lockstep.SkipWarmup; some <= lockstep.CostOnly; some++ {
		for i, r := range s.good(jobs, lockstep.Options{Shortcuts: some, Trajectory: true}) {
			want := &rollout{result: full[i].result}
			for _, step := range full[i].steps {
				if some&lockstep.SkipWarmup != 0 && step.Index < lockstep.ControlStartIdx {
					step = &lockstep.Step{Index: step.Index, Action: step.Action, Draw: step.Draw, Sample: -1, Lataccel: step.Lataccel}
				}
				want.steps = append(want.steps, step)
			}
			s.same(r, want, "job %d, shortcuts %03b and none", i, some)
		}
	}
}

// draws: the draw of step 20+k is the k-th of the route's seed, whatever the route
// carries, the shortcuts and the teacher.
func (s *suite) draws() {
	base := short(s.routes[2], 103)
	var jobs []lockstep.Job
	for _, draws := range [][]float64{nil, base.Draws, base.Draws[:10], lockstep.Draws(base.Seed+1, 83)} {
		for _, seed := range []uint32{base.Seed, 0, math.MaxUint32} {
			r := *base
			r.Seed, r.Draws = seed, draws
			jobs = append(jobs, lockstep.Job{Route: &r, Policy: lockstep.Zero{}})
		}
	}
	jobs[0].Teacher = &lockstep.Trajectory{Lataccel: make([]float64, 103), Action: make([]float64, 103)}
	for _, shortcuts := range []lockstep.Shortcuts{lockstep.CostOnly, lockstep.LastPosition} {
		if shortcuts == lockstep.LastPosition {
			jobs = jobs[:4]
		}
		for i, r := range s.good(jobs, lockstep.Options{Shortcuts: shortcuts}) {
			want := lockstep.Draws(r.job.Route.Seed, len(r.steps))
			for k, step := range r.steps {
				if step.Draw != want[k] {
					s.errorf("job %d, seed %d, %d draws in the route, step %d: draw %v, want the %d-th, %v", i, r.job.Route.Seed, len(r.job.Route.Draws), step.Index, step.Draw, k, want[k])
					break
				}
			}
		}
	}
}

// clipping: answers of any size are clipped to the range of steer commands, and
// predictions to half a m/s² around the lataccel before.
func (s *suite) clipping() {
	var jobs []lockstep.Job
	for _, answer := range []float64{math.Inf(1), math.Inf(-1), 1e300, -1e300, 2, -2, math.Nextafter(2, 3), math.Nextafter(2, 0), math.Copysign(0, -1), math.SmallestNonzeroFloat64} {
		jobs = append(jobs, lockstep.Job{Route: short(s.routes[10], 104), Policy: constant(answer)})
	}
	for i, r := range s.hold(jobs, brief) {
		answer := r.job.Policy.(lockstep.Custom).New().Update(0, 0, lockstep.State{}, lockstep.FuturePlan{})
		for _, step := range r.steps {
			want := r.job.Route.SteerCommand[step.Index]
			if step.Index >= lockstep.ControlStartIdx {
				want = answer
			}
			if want = min(max(want, lockstep.SteerMin), lockstep.SteerMax); !schema.Equal(step.Action, want) {
				s.errorf("job %d, step %d: the controller answers %v, action is %v, want %v", i, step.Index, answer, step.Action, want)
				break
			}
		}
	}
	// Targets far from anything that the network predicts.
	wild := short(s.routes[5], 108)
	wild.Name, wild.TargetLataccel = "wild", slices.Clone(wild.TargetLataccel)
	for i := range wild.TargetLataccel {
		wild.TargetLataccel[i] = []float64{5, -5, 7, -1e300, 0, math.Copysign(0, -1)}[i%6]
	}
	wild.SteerCommand = slices.Clone(wild.SteerCommand)
	for i := range wild.SteerCommand {
		wild.SteerCommand[i] = []float64{3, -7, 0.1}[i%3]
		if i >= lockstep.ControlStartIdx {
			wild.SteerCommand[i] = math.NaN() // not recorded
		}
	}
	s.hold([]lockstep.Job{{Route: wild, Policy: lockstep.DefaultPID}, {Route: wild, Policy: lockstep.Zero{}}}, brief)
}

// teacher: the histories are the teacher's, and what is computed from them is
// reported all the same.
func (s *suite) teacher() {
	jobs := s.some()
	free := s.good(jobs, brief)
	own := slices.Clone(jobs)
	for i, r := range free {
		own[i].Teacher = r.result.Trajectory
	}
	for i, r := range s.good(own, brief) {
		s.same(r, free[i], "job %d, taught its own trajectory", i)
	}
	// Another's: longer than needed, and not what would have come.
	other := slices.Clone(jobs)
	for i := range other {
		t := &lockstep.Trajectory{Lataccel: make([]float64, 110), Action: make([]float64, 110)}
		for k := range 110 {
			t.Lataccel[k], t.Action[k] = 4*math.Sin(float64(k+i)), 1.9*math.Cos(float64(k-i))
		}
		other[i].Teacher = t
	}
	for i, r := range s.hold(other, brief) {
		t, route, n := r.job.Teacher, r.job.Route, r.job.Route.Len()
		const c = lockstep.ContextLength
		if d := cmp.Or(
			arrayDifference("lataccel", r.result.Trajectory.Lataccel, slices.Concat(route.TargetLataccel[:c], t.Lataccel[c:n])),
			arrayDifference("action", r.result.Trajectory.Action, slices.Concat(route.SteerCommand[:c], t.Action[c:n])),
		); d != "" {
			s.errorf("job %d, taught another's trajectory: trajectory's %s", i, d)
		}
		for _, step := range r.steps {
			for k := 0; step.States != nil && k < c; k++ {
				if got, want := step.States[4*k], float32(t.Action[step.Index-c+1+k]); got != want {
					s.fatalf("job %d, taught another's trajectory, step %d: action %d of the states is %v, the teacher's %v", i, step.Index, k, got, want)
				}
			}
		}
	}
	// Too short: an error of that job alone.
	bad := slices.Clone(jobs)
	bad[1].Teacher = &lockstep.Trajectory{Lataccel: make([]float64, 101), Action: make([]float64, 100)}
	bad[3].Teacher = &lockstep.Trajectory{}
	for i, r := range s.run(context.Background(), bad, brief) {
		switch {
		case i != 1 && i != 3:
			s.same(r, free[i], "job %d, beside one whose teacher is too short", i)
		case r.result.Err == nil:
			s.errorf("job %d has a teacher that is too short, and no error", i)
		}
	}
}

// inputs: routes and teachers are read only.
func (s *suite) inputs() {
	jobs := s.some()
	routes := make([]*lockstep.Route, len(jobs))
	for i := range jobs {
		routes[i] = copied(jobs[i].Route)
		n := routes[i].Len()
		jobs[i].Teacher = &lockstep.Trajectory{Lataccel: make([]float64, n), Action: make([]float64, n)}
	}
	s.good(jobs[:2], brief)
	for i := range jobs {
		if t := jobs[i].Teacher; i >= 2 {
			jobs[i].Teacher = nil
		} else if slices.Max(t.Lataccel) != 0 || slices.Min(t.Action) != 0 {
			s.errorf("job %d: its teacher was written to", i)
		}
	}
	s.good(jobs, brief)
	for i := range jobs {
		if jobs[i].Route.Seed != routes[i].Seed || jobs[i].Route.Name != routes[i].Name {
			s.errorf("job %d: its route's name or seed is another one after Simulate", i)
		}
		for k, c := range columns(jobs[i].Route) {
			if d := arrayDifference("column", *c, *columns(routes[i])[k]); d != "" {
				s.errorf("job %d: its route was written to: %s", i, d)
			}
		}
	}
}

// columns are all that a route has of steps.
func columns(r *lockstep.Route) []*[]float64 {
	own := r.Columns()
	return append(own[:], &r.Draws)
}

// copied is a route that shares nothing with another.
func copied(r *lockstep.Route) *lockstep.Route {
	c := *r
	for _, column := range columns(&c) {
		*column = slices.Clone(*column)
	}
	return &c
}

// cancellation: when the context ends, jobs that are not finished have its error,
// and each still has one result.
func (s *suite) cancellation() {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for i, r := range s.run(ended, s.some(), brief) {
		if !errors.Is(r.result.Err, context.Canceled) {
			s.errorf("job %d in a context that has ended: error %v, want context.Canceled", i, r.result.Err)
		}
	}
	late, cancel := context.WithDeadline(context.Background(), time.Now().Add(-time.Second))
	defer cancel()
	for i, r := range s.run(late, s.some()[:1], brief) {
		if !errors.Is(r.result.Err, context.DeadlineExceeded) {
			s.errorf("job %d after the deadline: error %v, want context.DeadlineExceeded", i, r.result.Err)
		}
	}

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	route := twice(s.routes[2])
	jobs := []lockstep.Job{{Route: route, Policy: lockstep.DefaultPID}, {Route: route, Policy: lockstep.Zero{}}, {Route: route, Policy: weave}}
	jobs[0].Observe = func(step *lockstep.Step) {
		if step.Index == 110 {
			cancel()
		}
	}
	for i, r := range s.run(ctx, jobs, lockstep.Options{Shortcuts: lockstep.FullTrajectory}) {
		if !errors.Is(r.result.Err, context.Canceled) {
			s.errorf("job %d of three, during which the context ended: error %v, want context.Canceled", i, r.result.Err)
		}
		if r.result.Trajectory != nil || r.result.Costs != (lockstep.Costs{}) {
			s.errorf("job %d did not finish, and has costs or a trajectory", i)
		}
	}
}

// twice is a route and itself again, without draws.
func twice(r *lockstep.Route) *lockstep.Route {
	t := *r
	for _, c := range t.Columns() {
		*c = slices.Concat(*c, *c)
	}
	t.Draws = nil
	return &t
}

// breaking: leaving the loop, by break or by panic, stops the work.
func (s *suite) breaking() {
	jobs := s.some()
	for range 3 {
		jobs = append(jobs, jobs...)
	}
	want := s.good(jobs[:5], brief)
	for _, panics := range []bool{false, true} {
		how := "break"
		if panics {
			how = "a panic in the loop"
		}
		all, order := observed(jobs)
		s.within(func() (err error) {
			defer func() {
				p := recover()
				switch {
				case p == nil && panics:
					err = errors.New("a panic in the loop over the results does not reach the caller")
				case p != nil && p != any(how):
					err = fmt.Errorf("%s: panic in Simulate: %v", how, p)
				}
			}()
			for range s.sim.Simulate(context.Background(), order, brief) {
				if panics {
					panic(how)
				}
				break
			}
			return nil
		})
		for _, r := range all {
			r.ended.Store(true)
		}
		time.Sleep(100 * time.Millisecond)
		for i, r := range all {
			if len(r.faults) > 0 {
				s.fatalf("job %d, after %s: %s", i, how, strings.Replace(r.faults[0], "after the job's result", "after the loop was left", 1))
			}
		}
		for i, r := range s.good(jobs[:5], brief) {
			s.same(r, want[i], "job %d, run again after %s", i, how)
		}
	}
}

// batches: a job's bits are the same alone and in any batch, in any order, also
// beside jobs that end earlier or later.
func (s *suite) batches() {
	base := s.some()
	alone := make([]*rollout, len(base))
	for i := range base {
		alone[i] = s.good(base[i:i+1], brief)[0]
	}
	for _, n := range []int{2, 3, 4, 7, 16, 33, 70} {
		order := make([]int, n)
		jobs := make([]lockstep.Job, n)
		for i := range order {
			order[i] = (i*i + n) % len(base)
			jobs[i] = base[order[i]]
		}
		for i, r := range s.good(jobs, brief) {
			s.same(r, alone[order[i]], "%s, alone and as job %d of %d", jobName(r.job), i, n)
		}
	}
}

// lengths: routes that end before, at and after the step where the costs do.
func (s *suite) lengths() {
	if s.leaveOut(false) {
		return
	}
	longer := twice(s.routes[15])
	var jobs []lockstep.Job
	for _, n := range []int{101, 102, 103, 499, 500, 501, 601} {
		jobs = append(jobs, lockstep.Job{Route: short(longer, n), Policy: lockstep.DefaultPID})
	}
	for _, shortcuts := range []lockstep.Shortcuts{lockstep.CostOnly, lockstep.FullTrajectory} {
		if shortcuts == lockstep.FullTrajectory {
			jobs = jobs[4:] // those that it makes longer, and one
		}
		all := s.hold(jobs, lockstep.Options{Shortcuts: shortcuts, Trajectory: true})
		for i, r := range all {
			n := jobs[i].Route.Len()
			c := r.result.Costs
			if n == lockstep.MinRows {
				if c.Jerk == c.Jerk || c.Total == c.Total || c.Lataccel != c.Lataccel {
					s.errorf("%d rows have one step that costs: costs %v, want a number, NaN and NaN", n, c)
				}
			} else if want := float64(c.Lataccel*lockstep.LatAccelCostMultiplier) + c.Jerk; !schema.Equal(c.Total, want) {
				s.errorf("%d rows: total cost %v, want 50·%v + %v", n, c.Total, c.Lataccel, c.Jerk)
			}
		}
		if a, b := all[len(all)-3].result.Costs, all[len(all)-1].result.Costs; a != b {
			s.errorf("shortcuts %03b: costs %v of 500 rows and %v of the same and more", shortcuts, a, b)
		}
	}
}

// parity: all stages of whole routes have the reference's bits.
func (s *suite) parity() {
	if s.leaveOut(true) {
		return
	}
	s.hold([]lockstep.Job{
		{Route: s.routes[0], Policy: lockstep.DefaultPID},
		{Route: s.routes[4], Policy: weave},
		{Route: s.routes[8], Policy: lockstep.PID{P: 5, I: 2, D: -3}},
	}, brief)
	s.hold([]lockstep.Job{{Route: s.routes[13], Policy: lockstep.DefaultPID}}, lockstep.Options{Trajectory: true})
}

// goldens: what Python recorded with the same network, routes and arithmetic.
func (s *suite) goldens() {
	if s.leaveOut(true) {
		return
	}
	dir, err := os.MkdirTemp("", "lockstep-conformance-")
	if err != nil {
		s.fatalf("%w", err)
	}
	defer os.RemoveAll(dir)
	if err := os.CopyFS(dir, golden.Default()); err != nil {
		s.fatalf("%w", err)
	}
	sets, err := golden.Sets(dir)
	if err != nil {
		s.fatalf("%w", err)
	}
	recorded := map[string]bool{}
	for _, set := range sets {
		recorded[set.Profile.String()] = true
		if set.Profile == s.sim.Profile() {
			s.goldenSet(set)
		}
	}
	if profile := s.sim.Profile().String(); !recorded[profile] {
		s.note = fmt.Sprintf("left out: recorded are %s, the simulator computes in %s", strings.Join(slices.Sorted(maps.Keys(recorded)), ", "), profile)
	}
}

func (s *suite) goldenSet(set *golden.Set) {
	if set.ModelSHA256 != defaults.ModelSHA256 {
		s.fatalf("the recordings are of another network than that of package defaults")
	}
	source, err := tinyphysics.Golden(set)
	if err != nil {
		s.fatalf("%w", err)
	}
	jobs, err := tinyphysics.GoldenJobs(set, func(name string) (*lockstep.Route, error) {
		return s.routes[slices.IndexFunc(s.routes, func(r *lockstep.Route) bool { return r.Name == name })], nil
	})
	if err != nil {
		s.fatalf("%w", err)
	}
	s.within(func() error {
		r, err := tinyphysics.Compare(context.Background(), source, tinyphysics.Live(s.sim), jobs, lockstep.AllSteps, parity.CompareOptions{})
		if err == nil {
			err = r.Err()
		}
		return err
	})
}
