package conformance

import (
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
	"lockstep/golden"
	"lockstep/internal/defaults"
	"lockstep/internal/guard"
	"lockstep/parity"
	"lockstep/parity/tinyphysics"
)

// The options that most checks run with: all of a short route, without what costs
// time.
var brief = lockstep.Options{Shortcuts: lockstep.FullTrajectory, Trajectory: true}

// some are short jobs with different routes, lengths and policies.
func (s *suite) some() []lockstep.Job {
	return []lockstep.Job{
		{Route: short(s.routes[2], 104), Policy: lockstep.DefaultPID()},
		{Route: short(s.routes[5], 101), Policy: lockstep.Zero{}},
		{Route: short(s.routes[7], 107), Policy: lockstep.PID{P: 2, I: -0.3, D: 0.7}},
		{Route: short(s.routes[10], 103), Policy: lockstep.DefaultPID()},
		{Route: short(s.routes[15], 105), Policy: weave},
	}
}

// identity: a name, and a profile that does not change.
func (s *suite) identity() {
	if name := s.sim.Name(); name == "" || strings.ContainsAny(name, " \t\n/") ||
		name != s.sim.Name() {
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

// results: each job has one result, its own, also where jobs are equal, and when others are run.
func (s *suite) results() {
	jobs := s.some()
	jobs = append(jobs, jobs[0], jobs[3], jobs[0])
	first := s.hold(jobs, brief)
	kept := make([]lockstep.Trajectory, len(first))
	for i, r := range first {
		kept[i] = *r.result.Trajectory
		for _, column := range []*[]float64{&kept[i].Target, &kept[i].Lataccel, &kept[i].Action} {
			*column = slices.Clone(*column)
		}
	}
	s.good(slices.Concat(jobs[4:], jobs[:4]), brief) // in each place another job
	for i, r := range first {
		if err := trajectoryDiffers(r.result.Trajectory, &kept[i]); err != nil {
			s.errorf("job %d of %d, after another call: %w", i, len(jobs), err)
		}
	}
	s.hold(jobs, lockstep.Options{Shortcuts: lockstep.CostOnly})
}

// observing: the same comes of jobs of which every other one is observed, or none.
func (s *suite) observing() {
	jobs := s.some()
	for _, opts := range []lockstep.Options{brief, {Shortcuts: lockstep.CostOnly}} {
		want := s.good(jobs, opts)
		for _, unseen := range [][]int{{1, 3}, {0, 1, 2, 3, 4}} {
			for _, i := range unseen {
				want[i].steps = nil
			}
			for i, r := range s.run(context.Background(), jobs, opts, unseen...) {
				s.same(r, want[i], "job %d, where the jobs %v are not observed", i, unseen)
			}
		}
	}
}

// shortcuts: what a combination computes at all is the same as without any.
func (s *suite) shortcuts() {
	jobs := []lockstep.Job{
		{Route: short(s.routes[2], 102), Policy: lockstep.DefaultPID()},
		{Route: short(s.routes[5], 103), Policy: weave},
	}
	full := s.good(jobs, lockstep.Options{Trajectory: true})
	for some := lockstep.SkipWarmup; some <= lockstep.CostOnly; some++ {
		for i, r := range s.good(jobs, lockstep.Options{Shortcuts: some, Trajectory: true}) {
			want := &rollout{result: full[i].result}
			for _, step := range full[i].steps {
				if some&lockstep.SkipWarmup != 0 && step.Index < lockstep.ControlStartIdx {
					step = skipped(step)
				}
				want.steps = append(want.steps, step)
			}
			s.same(r, want, "job %d, shortcuts %03b and none", i, some)
		}
	}
}

// draws: they are the seed's, whatever the route carries, the shortcuts and the teacher.
func (s *suite) draws() {
	base := short(s.routes[2], 103)
	var jobs []lockstep.Job
	for _, draws := range [][]float64{
		nil, base.Draws, base.Draws[:10], lockstep.Draws(base.Seed+1, 83),
	} {
		for _, seed := range []uint32{base.Seed, 0, math.MaxUint32} {
			r := *base
			r.Seed, r.Draws = seed, draws
			jobs = append(jobs, lockstep.Job{Route: &r, Policy: lockstep.Zero{}})
		}
	}
	jobs[0].Teacher = taught(103, 103)
	for _, shortcuts := range []lockstep.Shortcuts{lockstep.CostOnly, lockstep.LastPosition} {
		s.good(jobs, lockstep.Options{Shortcuts: shortcuts})
		jobs = jobs[:4]
	}
}

// clipping: answers of any size are clipped to the range of steer commands, and
// predictions to half a m/s² around the lataccel before.
func (s *suite) clipping() {
	s.hold(s.extreme(), brief)
	wild := s.wild()
	s.hold(
		[]lockstep.Job{
			{Route: wild, Policy: lockstep.DefaultPID()}, {Route: wild, Policy: lockstep.Zero{}},
		},
		brief,
	)
}

// extreme are jobs whose controllers always give one answer, of any size.
func (s *suite) extreme() (jobs []lockstep.Job) {
	for _, answer := range []float64{
		math.Inf(1), math.Inf(-1), 1e300, -1e300, 2, -2, math.Nextafter(2, 3), math.Nextafter(2, 0),
		math.Copysign(0, -1), math.SmallestNonzeroFloat64,
	} {
		jobs = append(
			jobs,
			lockstep.Job{
				Route: short(s.routes[10], 104),
				Policy: custom(
					fmt.Sprint("constant ", answer), func(int) float64 { return answer },
				),
			},
		)
	}
	return jobs
}

// wild is a route with targets far from anything that the network predicts.
func (s *suite) wild() *lockstep.Route {
	wild := copied(short(s.routes[5], 108))
	wild.Name = "wild"
	for i := range wild.TargetLataccel {
		wild.TargetLataccel[i] = []float64{5, -5, 7, -1e300, 0, math.Copysign(0, -1)}[i%6]
		if wild.SteerCommand[i] = []float64{3, -7, 0.1}[i%3]; i >= lockstep.ControlStartIdx {
			wild.SteerCommand[i] = math.NaN() // not recorded
		}
	}
	return wild
}

// teacher: another's trajectory, longer than needed and not what would have come, is
// computed from, and what is computed is reported all the same.
func (s *suite) teacher() { s.hold(s.schooled(), brief) }

// schooled are jobs each of which has another teacher.
func (s *suite) schooled() []lockstep.Job {
	jobs := s.some()
	for i := range jobs {
		t := taught(110, 110)
		for k := range 110 {
			t.Lataccel[k], t.Action[k] = 4*math.Sin(float64(k+i)), 1.9*math.Cos(float64(k-i))
		}
		jobs[i].Teacher = t
	}
	return jobs
}

// cancellation: when the context ends, jobs that are not finished have its error,
// and each still has one result. One that was cancelled before is held in batches.
func (s *suite) cancellation() {
	late, cancel := context.WithTimeout(context.Background(), 0)
	defer cancel()
	for i, r := range s.run(late, s.some(), brief) {
		if !errors.Is(r.result.Err, context.DeadlineExceeded) {
			s.errorf(
				"job %d in a context that has ended: error %v, want context.DeadlineExceeded", i,
				r.result.Err,
			)
		}
	}

	ctx, end := context.WithCancelCause(context.Background())
	cancel = func() { end(errors.New("somebody's cause, which is not the context's error")) }
	defer cancel()
	route := twice(s.routes[2])
	jobs := []lockstep.Job{
		{Route: route, Policy: lockstep.DefaultPID()}, {Route: route, Policy: lockstep.Zero{}},
		{Route: route, Policy: weave},
	}
	seen(once(110, func() float64 { cancel(); return 0 }))(&jobs[0])
	for i, r := range s.run(ctx, jobs, lockstep.Options{Shortcuts: lockstep.FullTrajectory}) {
		if !errors.Is(r.result.Err, context.Canceled) {
			s.errorf(
				"job %d of three, during which the context ended: error %v, want context.Canceled",
				i, r.result.Err,
			)
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
	left := errors.New("the loop was left")
	for _, how := range []string{"break", "a panic in the loop"} {
		all, order := observed(jobs)
		s.within(1, func() error {
			err := guard.Do(func() {
				for range s.sim.Simulate(context.Background(), order, brief) {
					if how != "break" {
						guard.Fail(left)
					}
					break
				}
			})
			switch {
			case err == nil && how != "break":
				return errors.New("a panic in the loop over the results does not reach the caller")
			case err != nil && err != left:
				return fmt.Errorf("%s: in Simulate: %w", how, err)
			}
			return nil
		})
		for _, r := range all {
			r.ended.Store(true)
		}
		time.Sleep(100 * time.Millisecond)
		for i, r := range all {
			if len(r.faults) > 0 {
				s.fatalf(
					"job %d, after %s: %s", i, how,
					strings.Replace(
						r.faults[0], "after the job's result", "after the loop was left", 1,
					),
				)
			}
		}
		for i, r := range s.good(jobs[:5], brief) {
			s.same(r, want[i], "job %d, run again after %s", i, how)
		}
	}
}

// batches: a job's bits are the same alone and in any batch, in any order, also
// beside jobs that end earlier or later, and taught its own trajectory, and in a context
// that was cancelled it has no result; see Engine.
func (s *suite) batches() {
	jobs := s.some()
	tasks := must(tinyphysics.Tasks(jobs, brief.Shortcuts))
	s.within(20, func() error {
		return Engine(
			context.Background(), tinyphysics.Engine(s.sim, brief.Shortcuts), tasks, 2, 3, 4, 7, 16,
			33,
		)
	})
	want := s.good(jobs, brief)
	for i, r := range s.good(slices.Repeat(jobs, 14), brief) {
		s.same(r, want[i%len(jobs)], "job %d of 70, and alone", i)
	}
}

// lengths: routes that end before, at and after the step where the costs do.
func (s *suite) lengths() {
	longer := twice(s.routes[15])
	var jobs []lockstep.Job
	for _, n := range []int{101, 102, 103, 499, 500, 501, 601} {
		jobs = append(jobs, lockstep.Job{Route: short(longer, n), Policy: lockstep.DefaultPID()})
	}
	for _, shortcuts := range []lockstep.Shortcuts{lockstep.CostOnly, lockstep.FullTrajectory} {
		all := s.hold(jobs, lockstep.Options{Shortcuts: shortcuts, Trajectory: true})
		if a, b := all[len(all)-3].result.Costs, all[len(all)-1].result.Costs; a != b {
			s.errorf(
				"shortcuts %03b: costs %v of 500 rows and %v of the same and more", shortcuts, a, b,
			)
		}
		jobs = jobs[len(jobs)-3:] // those that the other shortcuts make longer, and one
	}
}

// parity: all stages of whole routes have the reference's bits.
func (s *suite) parity() {
	s.hold([]lockstep.Job{
		{Route: s.routes[0], Policy: lockstep.DefaultPID()},
		{Route: s.routes[4], Policy: weave},
		{Route: s.routes[8], Policy: lockstep.PID{P: 5, I: 2, D: -3}},
	}, brief)
	s.hold(
		[]lockstep.Job{{Route: s.routes[13], Policy: lockstep.DefaultPID()}},
		lockstep.Options{Trajectory: true},
	)
}

// branches: rollouts that go through every branch of the specification, as the reference has them.
func (s *suite) branches() {
	jobs := must(tinyphysics.Hard(context.Background(), s.ref))
	s.within(1, func() error {
		r, err := tinyphysics.Compare(
			context.Background(), tinyphysics.Live(s.ref), tinyphysics.Live(s.sim), jobs,
			lockstep.AllSteps, parity.CompareOptions{},
		)
		if err != nil {
			return err
		}
		if never := r.Exercised.Never(); len(never) > 0 {
			s.errorf("no rollout goes through: %s", strings.Join(never, ", "))
		}
		return r.Err()
	})
}

// goldens: what Python recorded with the same network, routes and arithmetic.
func (s *suite) goldens() {
	dir := must(os.MkdirTemp("", "lockstep-conformance-"))
	defer os.RemoveAll(dir)
	if err := os.CopyFS(dir, golden.Default()); err != nil {
		s.fatalf("%w", err)
	}
	recorded := map[string]bool{}
	for _, set := range must(golden.Sets(dir)) {
		recorded[set.Profile.String()] = true
		if set.Profile == s.sim.Profile() {
			s.goldenSet(set)
		}
	}
	if profile := s.sim.Profile().String(); !recorded[profile] {
		s.note = fmt.Sprintf(
			"left out: recorded are %s, the simulator computes in %s",
			strings.Join(slices.Sorted(maps.Keys(recorded)), ", "), profile,
		)
	}
}

func (s *suite) goldenSet(set *golden.Set) {
	if set.ModelSHA256 != defaults.ModelSHA256 {
		s.fatalf("the recordings are of another network than that of package defaults")
	}
	source := must(tinyphysics.Golden(set))
	jobs := must(tinyphysics.GoldenJobs(set, func(name string) (*lockstep.Route, error) {
		return s.routes[slices.IndexFunc(s.routes,
			func(r *lockstep.Route) bool { return r.Name == name })], nil
	}))
	s.within(1, func() error {
		r, err := tinyphysics.Compare(
			context.Background(), source, tinyphysics.Live(s.sim), jobs, lockstep.AllSteps,
			parity.CompareOptions{},
		)
		if err == nil {
			err = r.Err()
		}
		return err
	})
}
