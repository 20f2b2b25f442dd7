package engines

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"lockstep"
	"lockstep/internal/policytest"
	"lockstep/internal/simtest"
)

// everyWay are jobs that together say all that a job can say, on routes that end at two steps.
func everyWay(t *testing.T) (free, taught []lockstep.Job) {
	t.Helper()
	routes := policyRoutes(t, 3)[1:]
	routes = []*lockstep.Route{cutRoute(routes[0], 104), cutRoute(routes[1], 103)}
	table, err := lockstep.NewTable(map[string][]float64{
		routes[0].Name: slices.Repeat([]float64{0.5, -0.25}, lockstep.TableSteps/2),
		routes[1].Name: slices.Repeat([]float64{-0.75, 0.125}, lockstep.TableSteps/2),
	})
	if err != nil {
		t.Fatal(err)
	}
	network, sees := policytest.Network(t), policytest.Declared(1)
	draws := func(seed uint32) []float64 { return lockstep.Draws(seed, 90) }
	pidff := lockstep.PIDFF{P: 0.3, I: 0.1, Leak: 0.1, Smooth: 0.2}
	samples := []*lockstep.Sampling{{Seed: 1<<40 + 1, ID: 1<<33 + 2}, {Seed: 2, ID: 3}}
	for k, p := range []lockstep.Policy{
		network, lockstep.DefaultPID(), sees, pidff, table, table, lockstep.Zero{},
	} {
		for mask := range 8 { // all that can be said of the first two, and some of the others
			_, samplable := p.(*lockstep.Network)
			if mask&4 != 0 && !samplable || k > 1 && (mask+k)%4 > 0 {
				continue
			}
			job := lockstep.Job{Policy: p, Expected: mask&2 != 0}
			if mask&1 != 0 {
				job.Draws = draws(uint32(10*k + mask))
			}
			if mask&4 != 0 {
				job.Sampling = samples[mask&1]
			}
			free = append(free, job)
		}
	}
	for i := range free {
		free[i].Route = routes[i%2]
		job := free[i]
		job.Teacher = &lockstep.Trajectory{}
		for k := range 104 {
			job.Teacher.Lataccel = append(job.Teacher.Lataccel, 2*math.Sin(float64(k+7*i)/5))
			job.Teacher.Action = append(job.Teacher.Action, 3*math.Cos(float64(k-3*i)/4))
		}
		taught = append(taught, job)
	}
	said := map[string]bool{"Observe": true} // of all
	for _, job := range slices.Concat(free, taught) {
		for i := range reflect.TypeFor[lockstep.Job]().NumField() {
			if !reflect.ValueOf(job).Field(i).IsZero() {
				said[reflect.TypeFor[lockstep.Job]().Field(i).Name] = true
			}
		}
	}
	if n := reflect.TypeFor[lockstep.Job]().NumField(); len(said) != n {
		t.Errorf("of %d things that a job can say, these are said: %v", n, said)
	}
	return free, taught
}

// hostedWays are the same jobs, steered by Go code: one by one, and all by one policy. What
// it answers depends on all that it is told.
func hostedWays(jobs []lockstep.Job) (all []lockstep.Job) {
	custom := lockstep.Custom{Name: "told", New: func() lockstep.Controller { return new(toldAll) }}
	batch := func(begin float64) *lockstep.Batch {
		return &lockstep.Batch{
			Name: "told together", // both of them
			New: func(routes []*lockstep.Route) (lockstep.BatchController, error) {
				return toldTogether(slices.Repeat([]toldAll{toldAll(begin)}, len(routes))), nil
			},
		}
	}
	policies := []lockstep.Policy{custom, batch(0), batch(0.5)}
	for _, job := range jobs {
		for _, p := range policies {
			job.Policy, job.Sampling = p, nil
			all = append(all, job)
		}
	}
	return all
}

// toldAll is a controller's memory.
type toldAll float64

func (c *toldAll) Update(
	target, current float64, s lockstep.State, plan lockstep.FuturePlan,
) float64 {
	u := 0.3*(target-current) + 0.05*s.RollLataccel + 0.001*s.VEgo + 0.02*s.AEgo
	if n := len(plan.Lataccel); n > 0 {
		u += 0.1*plan.Lataccel[0] - 0.1*plan.RollLataccel[n-1] + 0.001*plan.VEgo[n/2]
	}
	*c = toldAll(0.9*float64(*c) + 0.1*u)
	return u + float64(*c)
}

// toldTogether are the memories of several.
type toldTogether []toldAll

func (c toldTogether) Update(s *lockstep.BatchStep) error {
	for k := range c {
		if s.Running[k] {
			s.Steer[k] = c[k].Update(
				s.TargetLataccel[k], s.CurrentLataccel[k], s.State[k], s.Plan[k])
		}
	}
	return nil
}

func (toldTogether) Close() error { return nil }

// TestEveryWay: whatever a job says is heeded in whichever way it is rolled out: in one go, step by
// step, from a snapshot, and where it is collected. Each is what the reference makes of it in one
// go.
func TestEveryWay(t *testing.T) {
	c := config(t)
	free, taught := everyWay(t)
	for _, set := range []struct {
		name    string
		jobs    []lockstep.Job
		options lockstep.Options
	}{
		{"free", free, lockstep.Options{Shortcuts: lockstep.CostOnly, Trajectory: true}},
		{"taught", taught, lockstep.Options{Shortcuts: lockstep.FullTrajectory}},
		{"hosted", hostedWays(free[8:12]), lockstep.Options{Shortcuts: lockstep.CostOnly}},
		{"hosted, taught", hostedWays(taught[8:12]), lockstep.Options{
			Shortcuts: lockstep.CostOnly, Trajectory: true,
		}},
	} {
		var want []rolled
		for _, e := range Checked() {
			t.Run(set.name+"/"+e.Name, func(t *testing.T) {
				s := e.ForTest(t, c)
				own := c
				own.Profile = s.Profile()
				if want == nil || own.Profile != c.Profile {
					r, err := Reference().New(own)
					if err != nil {
						t.Fatal(err)
					}
					want = roll(r, set.jobs, set.options)
					for i := range want {
						if err := want[i].result.Err; err != nil {
							t.Fatal(i, err)
						}
					}
				}
				trial := trial{e.Name, own, set.options}
				trial.compareRolled(t, set.jobs, roll(s, set.jobs, set.options), want)
				hosted := strings.HasPrefix(set.name, "hosted") // of whose memory no snapshot knows
				for _, all := range rollInSteps(t, s, set.jobs, set.options, !hosted) {
					trial.compareRolled(t, set.jobs, all, want)
					for i := range want {
						if err := sameTrajectory(all[i].result, want[i].result); err != nil {
							t.Errorf("job %d, in step: %v", i, err)
						}
					}
				}
				if set.name == "free" {
					collectedAsRolled(t, s, set.jobs, want)
				}
			})
		}
	}
}

// sameTrajectory holds a trajectory, or that there is none, to another.
func sameTrajectory(got, want lockstep.Result) error {
	if (got.Trajectory == nil) != (want.Trajectory == nil) {
		return fmt.Errorf("a trajectory %v, want %v", got.Trajectory, want.Trajectory)
	}
	if want.Trajectory == nil {
		return nil
	}
	return simtest.SameBits("trajectory",
		slices.Concat(got.Trajectory.Target, got.Trajectory.Lataccel, got.Trajectory.Action),
		slices.Concat(want.Trajectory.Target, want.Trajectory.Lataccel, want.Trajectory.Action))
}

// rollInSteps rolls jobs out step by step; and from a snapshot in other rollouts of the same jobs,
// which show what comes then, and here what was shown before.
func rollInSteps(
	t *testing.T, s lockstep.Implementation, jobs []lockstep.Job, options lockstep.Options,
	snapshot bool,
) (ways [][]rolled) {
	t.Helper()
	const at = 102
	steps := lockstep.Options{Shortcuts: options.Shortcuts, Trajectory: options.Trajectory}
	through := func(all []rolled, from *lockstep.Snapshot) (shot *lockstep.Snapshot) {
		p, err := s.Reset(t.Context(), watched(jobs, all), steps)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		if from != nil {
			if err := p.Restore(t.Context(), from); err != nil {
				t.Fatal(err)
			}
		}
		room := make([]float64, len(jobs))
		for !p.Done() {
			if p.Index() == at && from == nil && snapshot {
				shot = snap(t, p)
			}
			if err := p.Step(t.Context(), room, room); err != nil {
				t.Fatal(err)
			}
		}
		results, err := p.Results(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range results {
			all[i].result = r
		}
		return shot
	}
	all, again := make([]rolled, len(jobs)), make([]rolled, len(jobs))
	shot := through(all, nil)
	if !snapshot {
		return [][]rolled{all}
	}
	for i := range again {
		again[i].steps = slices.Clone(all[i].steps[:at-lockstep.ContextLength])
	}
	through(again, shot)
	return [][]rolled{all, again}
}

// collectedAsRolled holds what networks' rollouts leave to what they did.
func collectedAsRolled(
	t *testing.T, s lockstep.Implementation, jobs []lockstep.Job, want []rolled,
) {
	t.Helper()
	for i, job := range jobs {
		if _, ok := job.Policy.(*lockstep.Network); !ok {
			continue
		}
		e, err := s.Collect(t.Context(), []lockstep.Job{job})
		if err != nil {
			t.Fatal(err)
		}
		var lataccel, action []float64
		for _, step := range want[i].steps[lockstep.ControlStartIdx-lockstep.ContextLength:] {
			lataccel = append(lataccel, math.Float64frombits(step.lataccel))
			action = append(action, math.Float64frombits(step.action))
		}
		for _, err := range []error{
			simtest.SameBits("lataccel", e.Lataccel[:e.Steps(0)], lataccel),
			simtest.SameBits("action", e.Action[:e.Steps(0)], action),
		} {
			if err != nil {
				t.Errorf("job %d, collected: %v", i, err)
			}
		}
		if got, want := e.Results[0].Costs, want[i].result.Costs; got != want {
			t.Errorf("job %d, collected: it costs %v, want %v", i, got, want)
		}
	}
}

// TestCollectSizes: what rollouts leave, and what they saw, is each one's own, however many are
// collected together: an engine cuts them as TestRollSizes says.
func TestCollectSizes(t *testing.T) {
	c := config(t)
	c.Workers = 1
	routes := policyRoutes(t, 3)[1:]
	network := policytest.Declared(1)
	for _, e := range Checked() {
		t.Run(e.Name, func(t *testing.T) {
			s := e.ForTest(t, c)
			own := c
			own.Profile = s.Profile()
			sizes := simtest.Awkward(s)
			var jobs []lockstep.Job
			for k := range sizes[len(sizes)-1] {
				jobs = append(jobs, lockstep.Job{
					Route: cutRoute(routes[k%2], 102+k%2), Policy: network,
					Sampling: &lockstep.Sampling{Seed: 9, ID: uint64(k)},
				})
			}
			r, err := Reference().New(own)
			if err != nil {
				t.Fatal(err)
			}
			want, seen := leaves(t, r, jobs)
			for _, n := range sizes {
				got, saw := leaves(t, s, jobs[:n])
				for k, x := range got {
					if err := simtest.Same("what it left", x, want[k]); err != nil {
						t.Errorf("rollout %d of %d: %v", k, n, err)
					}
				}
				if err := simtest.Same("what they saw", saw, seen[:len(saw)]); err != nil {
					t.Errorf("%d rollouts: %v", n, err)
				}
			}
		})
	}
}

// leaves is all that each of some rollouts leaves, and what they saw.
func leaves(
	t *testing.T, s lockstep.Implementation, jobs []lockstep.Job,
) (all [][]float64, seen []float32) {
	t.Helper()
	e, err := s.Collect(t.Context(), jobs)
	if err != nil {
		t.Fatal(err)
	}
	steps := 0
	for k := range jobs {
		if err := e.Results[k].Err; err != nil {
			t.Fatal(err)
		}
		costs := e.Results[k].Costs
		one := []float64{costs.Lataccel, costs.Jerk, costs.Total}
		for i := range e.Steps(k) {
			at := k*lockstep.ExperienceSteps + i
			one = append(one, float64(e.Raw[at]), float64(e.Softplus[2*at]),
				float64(e.Softplus[2*at+1]), float64(e.Reward[at]), e.Lataccel[at], e.Action[at])
			steps++
		}
		all = append(all, one)
	}
	seen = make([]float32, steps*e.Inputs())
	if err := s.Observe(e, nil, seen); err != nil {
		t.Fatal(err)
	}
	return all, seen
}

// TestAroundCostEnd: rollouts in step, on routes that end before, where and behind where the cost
// does, go on to their own ends, and each step costs what the reference says; so do their
// candidates, rolled over that step at once. They begin near it, from a snapshot that nobody took.
func TestAroundCostEnd(t *testing.T) {
	c := config(t)
	const at = lockstep.CostEndIdx - 3
	lengths := []int{at + 1, lockstep.CostEndIdx - 1, lockstep.CostEndIdx,
		lockstep.CostEndIdx + 1, lockstep.CostEndIdx + 4}
	long := wholeRoutes(t, 0, 1)[0]
	var jobs []lockstep.Job
	for _, n := range lengths {
		jobs = append(jobs, lockstep.Job{Route: cutRoute(long, n)})
	}
	for _, shortcuts := range []lockstep.Shortcuts{
		lockstep.CostOnly, lockstep.FullTrajectory,
	} {
		want := map[lockstep.Profile][]float64{}
		for _, e := range Checked() {
			t.Run(fmt.Sprintf("%03b/%s", shortcuts, e.Name), func(t *testing.T) {
				s := e.ForTest(t, c)
				own := c
				own.Profile = s.Profile()
				if want[own.Profile] == nil {
					r, err := Reference().New(own)
					if err != nil {
						t.Fatal(err)
					}
					want[own.Profile] = fromNear(t, r, jobs, at, shortcuts)
				}
				if err := simtest.Same("costs and lataccels",
					fromNear(t, s, jobs, at, shortcuts), want[own.Profile]); err != nil {
					t.Errorf("%s: %v", e.Name, err)
				}
			})
		}
		for _, all := range want {
			costsByDefinition(t, all, jobs, at, shortcuts)
		}
		if len(want) == 0 {
			t.Error("nothing is compared")
		}
	}
}

// fromNear are the lataccels and costs of rollouts from a step to their ends, step by step, and
// then their results; then what candidates of them come to, rolled at once.
func fromNear(
	t *testing.T, s lockstep.Implementation, jobs []lockstep.Job, at int,
	shortcuts lockstep.Shortcuts,
) (all []float64) {
	t.Helper()
	ctx, m := t.Context(), len(jobs)
	p, err := s.Reset(ctx, jobs, lockstep.Options{Shortcuts: shortcuts, Trajectory: true})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	begin, err := p.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	begin.Step = at
	for i := range begin.Rollouts {
		r := &begin.Rollouts[i]
		r.Lataccel = slices.Clone(jobs[i].Route.TargetLataccel[:at])
		r.Action = make([]float64, at)
		for k := range r.Lataccel {
			r.Lataccel[k] += 0.01 * math.Sin(float64(k))
			r.Action[k] = math.Cos(float64(k + i))
		}
	}
	if err := p.Restore(ctx, begin); err != nil {
		t.Fatal(err)
	}
	index := make([]int, m)
	for i := range index {
		index[i] = m - 1 - i
	}
	f := fork(t, p, begin, index, lockstep.Noise{Kind: lockstep.RouteNoise})
	lataccels := make([]float64, m)
	steps := 0
	for ; !p.Done(); steps++ {
		if err := p.Step(ctx, make([]float64, m), lataccels); err != nil {
			t.Fatal(err)
		}
		all = append(all, lataccels...)
		for i := range m {
			all = append(all, p.Cost(i))
		}
	}
	results, err := p.Results(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		all = append(all, r.Costs.Lataccel, r.Costs.Jerk, r.Costs.Total)
		if n := len(r.Trajectory.Action); n != jobs[i].End(shortcuts) {
			t.Errorf("%d rows: a trajectory of %d steps", jobs[i].Route.Len(), n)
		}
		all = append(append(all, r.Trajectory.Lataccel...), r.Trajectory.Action...)
	}
	costs, room := make([]float64, m), make([]float64, steps*m)
	if err := f.Roll(ctx, make([]float64, steps*m), costs, room); err != nil || !f.Done() {
		t.Fatal(err, f.Done())
	}
	return append(append(all, room...), costs...)
}

// costsByDefinition holds what the reference says that steps cost to lockstep.Stepper's words.
func costsByDefinition(
	t *testing.T, all []float64, jobs []lockstep.Job, at int, shortcuts lockstep.Shortcuts,
) {
	t.Helper()
	m, last, sums := len(jobs), 0, make([]float64, len(jobs))
	for i := range jobs {
		last = max(last, jobs[i].End(shortcuts))
	}
	for step := at; step < last; step++ {
		for i := range jobs {
			n := min(jobs[i].Route.Len(), lockstep.CostEndIdx)
			row := all[2*m*(step-at):]
			got, want := row[m+i], 0.0
			if step < n {
				before := jobs[i].Route.TargetLataccel[at-1] + 0.01*math.Sin(float64(at-1))
				if step > at {
					before = all[2*m*(step-at-1)+i]
				}
				count := float64(n - lockstep.ControlStartIdx)
				e, j := jobs[i].Route.TargetLataccel[step]-row[i], (row[i]-before)/0.1
				want = float64(5000/count*float64(e*e)) + float64(100/(count-1)*float64(j*j))
			}
			if sums[i] += want; got != want {
				t.Errorf("%03b, %d rows, step %d costs %v, want %v", shortcuts,
					jobs[i].Route.Len(), step, got, want)
			}
		}
	}
	for k, got := range all[len(all)-m:] {
		if want := sums[m-1-k]; got != want {
			t.Errorf("%03b, candidate %d: it costs %v, want %v", shortcuts, k, got, want)
		}
	}
}
