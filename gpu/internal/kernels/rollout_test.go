package kernels_test

import (
	"context"
	"fmt"
	"io/fs"
	"iter"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lockstep"
	"lockstep/golden"
	"lockstep/gpu"
	"lockstep/gpu/internal/driver/emulated"
	"lockstep/internal/defaults"
	"lockstep/internal/simtest"
	"lockstep/parity"
	"lockstep/parity/schema"
	"lockstep/parity/tinyphysics"
	"lockstep/reference"
	"lockstep/routefile"
)

// step is a traced step as observers see it.
func (s *abiTraceStep) step(index int) *lockstep.Step {
	o := &lockstep.Step{
		Index:      index,
		Action:     s.action,
		Draw:       s.draw,
		Sample:     int(s.sample),
		Prediction: s.prediction,
		Lataccel:   s.lataccel,
	}
	if s.network != 0 {
		o.Tokens, o.States, o.Logits, o.Probs, o.CDF = s.tokens[:], s.states[:], s.logits[:],
			s.probs[:], s.cdf[:]
	}
	return o
}

// route reads an embedded route.
func route(t testing.TB, name string, profile lockstep.Profile) *lockstep.Route {
	t.Helper()
	f, err := defaults.Routes().Open(name + ".csv")
	must(t, err)
	defer f.Close()
	r, err := routefile.Loader{Profile: profile}.Read(f, name+".csv")
	must(t, err)
	return r
}

// routes reads all embedded routes.
func routes(t testing.TB) []*lockstep.Route {
	t.Helper()
	names, err := fs.Glob(defaults.Routes(), "*.csv")
	must(t, err)
	var all []*lockstep.Route
	for _, n := range names {
		all = append(all, route(t, n[:len(n)-len(".csv")], lockstep.Profile{}))
	}
	return all
}

// computed is a simulator of rollouts that were computed before, by their names.
type computed map[string]*outcome

func name(j lockstep.Job) string { return j.Route.Name + "/" + j.Policy.String() }

func (computed) Name() string              { return "kernels" }
func (computed) Profile() lockstep.Profile { return lockstep.Profile{} }

func (c computed) Simulate(
	_ context.Context, jobs []lockstep.Job, _ lockstep.Options,
) iter.Seq2[int, lockstep.Result] {
	return func(yield func(int, lockstep.Result) bool) {
		for i, job := range jobs {
			o := c[name(job)]
			for s := range job.Route.Len() - lockstep.ContextLength {
				job.Observe(o.steps[s].step(lockstep.ContextLength + s))
			}
			if !yield(i, lockstep.Result{Costs: o.costs}) {
				return
			}
		}
	}
}

// TestGolden holds whole rollouts to what Python recorded with the embedded
// network: every stage of every step, and the costs, for several routes to a
// block, numbers of threads, and orders of the threads.
func TestGolden(t *testing.T) {
	sets, err := golden.Sets(filepath.Join("..", "..", "..", "golden", "testdata", "default"))
	must(t, err)
	sets = slices.DeleteFunc(sets, func(s *golden.Set) bool { return gpu.Lacks(s.Profile) != nil })
	if len(sets) == 0 {
		t.Fatal("no recordings")
	}
	whole := simtest.Whole(t)
	for turn, set := range sets {
		jobs, err := tinyphysics.GoldenJobs(
			set,
			func(name string) (*lockstep.Route, error) { return route(t, name, set.Profile), nil },
		)
		must(t, err)
		source, err := tinyphysics.Golden(set)
		must(t, err)
		r := rollouts{profile: set.Profile, traced: [2]int{lockstep.ContextLength, 0}}
		for _, job := range jobs {
			r.routes, r.policies = append(r.routes, job.Route), append(r.policies, job.Policy)
			r.traced[1] = max(r.traced[1], job.Route.Len())
		}
		for i, c := range []struct {
			block, threads, from, to int
			order                    emulated.Order
		}{
			{4, 128, 0, 3, emulated.Shuffled},
			{1, 32, 5, 6, emulated.Descending},
			{6, 256, 0, 8, emulated.Ascending},
		} {
			if !whole && i != turn {
				continue
			}
			t.Run(
				fmt.Sprintf("%s/%dx%d %s", set.Profile, c.block, c.threads, c.order),
				func(t *testing.T) {
					t.Parallel()
					d := open(t, emulated.Options{Order: c.order, Seed: 1})
					part := r
					part.block, part.threads = c.block, c.threads
					part.routes, part.policies = r.routes[c.from:c.to], r.policies[c.from:c.to]
					sim := computed{}
					for i, o := range run(t, d, part) {
						sim[name(jobs[c.from+i])] = &o
						if o.status.code != statusOK || int(o.status.step) != part.routes[i].Len() {
							t.Errorf("%s: %+v", part.routes[i].Name, o.status)
						}
					}
					report, err := tinyphysics.Compare(
						t.Context(), source, tinyphysics.Live(sim), jobs[c.from:c.to],
						lockstep.AllSteps, parity.CompareOptions{},
					)
					must(t, err)
					must(t, report.Err())
				},
			)
		}
	}
}

// referenceSteps are the reference's steps of a job, from kContext to end-1, and
// the error that it ended with, if not at end.
func referenceSteps(
	t testing.TB, sim *reference.Simulator, job lockstep.Job, shortcuts lockstep.Shortcuts, end int,
) ([]*lockstep.Step, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var steps []*lockstep.Step
	job.Observe = func(s *lockstep.Step) {
		c := *s
		c.Tokens, c.States, c.Logits = slices.Clone(s.Tokens), slices.Clone(s.States),
			slices.Clone(s.Logits)
		c.Probs, c.CDF = slices.Clone(s.Probs), slices.Clone(s.CDF)
		if steps = append(steps, &c); s.Index == end-1 {
			cancel()
		}
	}
	for _, r := range sim.Simulate(
		ctx, []lockstep.Job{job}, lockstep.Options{Shortcuts: shortcuts},
	) {
		if r.Err != nil && ctx.Err() == nil {
			return steps, r.Err
		}
	}
	return steps, nil
}

// difference names the first stage in which two steps differ, or is empty.
func difference(got, want *lockstep.Step) string {
	floats := func(name string, got, want []float32) string {
		if len(got) != len(want) {
			return fmt.Sprintf("%s: %d of %d", name, len(got), len(want))
		}
		for i := range want {
			if !schema.Equal(got[i], want[i]) {
				return fmt.Sprintf("%s[%d]: %x, want %x", name, i, got[i], want[i])
			}
		}
		return ""
	}
	number := func(name string, got, want float64) string {
		if !schema.Equal(got, want) {
			return fmt.Sprintf("%s: %x, want %x", name, got, want)
		}
		return ""
	}
	all := []string{number("action", got.Action, want.Action)}
	if !slices.Equal(got.Tokens, want.Tokens) {
		all = append(all, fmt.Sprintf("tokens: %v, want %v", got.Tokens, want.Tokens))
	}
	all = append(
		all, floats("states", got.States, want.States), floats("logits", got.Logits, want.Logits),
		floats("probs", got.Probs, want.Probs),
	)
	if len(got.CDF) != len(want.CDF) {
		all = append(all, fmt.Sprintf("cdf: %d of %d", len(got.CDF), len(want.CDF)))
	}
	for i := range min(len(got.CDF), len(want.CDF)) {
		all = append(all, number(fmt.Sprintf("cdf[%d]", i), got.CDF[i], want.CDF[i]))
	}
	all = append(all, number("draw", got.Draw, want.Draw))
	if got.Sample != want.Sample {
		all = append(all, fmt.Sprintf("sample: %d, want %d", got.Sample, want.Sample))
	}
	all = append(
		all, number("prediction", got.Prediction, want.Prediction),
		number("lataccel", got.Lataccel, want.Lataccel),
	)
	for _, s := range all {
		if s != "" {
			return fmt.Sprintf("step %d: %s", want.Index, s)
		}
	}
	return ""
}

// compareSteps compares the traced steps of a rollout, from the first on.
func compareSteps(t testing.TB, what string, got []abiTraceStep, want []*lockstep.Step) {
	t.Helper()
	if len(want) == 0 || len(got) < len(want) {
		t.Errorf("%s: %d steps, want %d", what, len(got), len(want))
		return
	}
	for i, w := range want {
		if d := difference(got[i].step(w.Index), w); d != "" {
			t.Errorf("%s: %s", what, d)
			return
		}
	}
}

// TestShapes holds a few steps to the reference for every number of routes to a block, every
// number of threads, and orders of theirs; in the ascending one most other tests run.
func TestShapes(t *testing.T) {
	const end = lockstep.ContextLength + 3
	all := routes(t)[:7]
	sim, err := reference.New(modelPath(t), lockstep.Profile{})
	must(t, err)
	r := rollouts{routes: all, traced: [2]int{lockstep.ContextLength, end}, steps: []int{end}}
	var want [][]*lockstep.Step
	for i, route := range all {
		policy := lockstep.Policy(lockstep.DefaultPID())
		if i%2 == 1 {
			policy = lockstep.Zero{}
		}
		r.policies = append(r.policies, policy)
		steps, err := referenceSteps(
			t, sim, lockstep.Job{Route: route, Policy: policy}, lockstep.AllSteps, end,
		)
		must(t, err)
		want = append(want, steps)
	}
	step := 96
	if simtest.Whole(t) {
		step = 32
	}
	for _, order := range []emulated.Order{emulated.Descending, emulated.Shuffled} {
		t.Run(string(order), func(t *testing.T) {
			t.Parallel()
			d := open(t, emulated.Options{Order: order, Seed: 7})
			for _, block := range []int{1, 2, 4, 5, 6} {
				for threads := 32; threads <= 256; threads += step {
					r := r
					r.block, r.threads = block, threads
					for i, o := range run(t, d, r) {
						compareSteps(
							t,
							fmt.Sprintf(
								"route %d, %d routes and %d threads to a block", i, block, threads,
							),
							o.steps, want[i],
						)
					}
				}
			}
		})
	}
}

// TestProfiles holds a few steps to the reference in every profile.
func TestProfiles(t *testing.T) {
	const end = lockstep.ContextLength + 12
	d := open(t, emulated.Options{Order: emulated.Shuffled, Seed: 3})
	all := routes(t)[:2]
	path := modelPath(t)
	hashes := map[string]lockstep.Profile{}
	for _, profile := range lockstep.Profiles() {
		if profile.CSV != lockstep.CSV2 {
			continue // the routes' concern
		}
		if profile.LayerNorm > lockstep.LayerNorm123 || profile.Softmax > lockstep.SoftmaxAVX2 ||
			profile.Exp > lockstep.ExpF {
			continue // gpu.Lacks
		}
		sim, err := reference.New(path, profile)
		must(t, err)
		r := rollouts{
			profile:  profile,
			routes:   all,
			policies: []lockstep.Policy{lockstep.DefaultPID(), lockstep.Zero{}},
			traced:   [2]int{lockstep.ContextLength, end},
			steps:    []int{end},
			block:    2,
			threads:  96,
		}
		out := run(t, d, r)
		for i, o := range out {
			steps, err := referenceSteps(
				t, sim, lockstep.Job{Route: all[i], Policy: r.policies[i]}, lockstep.AllSteps, end,
			)
			must(t, err)
			compareSteps(t, fmt.Sprintf("%s, route %d", profile, i), o.steps, steps)
		}
		// The choices must show; that of np.exp hardly ever does.
		hash := fmt.Sprint(profile.Exp)
		for _, o := range out {
			for _, s := range o.steps {
				hash += fmt.Sprint(golden.Hash(s.logits[:]))
			}
		}
		if other, ok := hashes[hash]; ok {
			t.Errorf("profiles %s and %s have the same logits", other, profile)
		}
		hashes[hash] = profile
	}
}

// policyFunc is a controller of one route.
type policyFunc func(step int, target float64) float64

type stepper struct {
	step int
	of   policyFunc
}

func (s *stepper) Update(target, _ float64, _ lockstep.State, _ lockstep.FuturePlan) float64 {
	s.step++
	return s.of(s.step-1, target)
}

func (f policyFunc) policy() lockstep.Policy {
	return lockstep.Custom{
		Name: "test",
		New:  func() lockstep.Controller { return &stepper{step: lockstep.ContextLength, of: f} },
	}
}

// simulate is the reference's result.
func simulate(t testing.TB, job lockstep.Job, shortcuts lockstep.Shortcuts) lockstep.Result {
	t.Helper()
	sim, err := reference.New(modelPath(t), lockstep.Profile{})
	must(t, err)
	var result lockstep.Result
	for _, r := range sim.Simulate(
		context.Background(), []lockstep.Job{job},
		lockstep.Options{Shortcuts: shortcuts, Trajectory: true},
	) {
		result = r
	}
	return result
}

func compareResult(t testing.TB, what string, got outcome, want lockstep.Result) {
	t.Helper()
	must(t, want.Err)
	if !schema.Equal(got.costs.Lataccel, want.Costs.Lataccel) ||
		!schema.Equal(got.costs.Jerk, want.Costs.Jerk) ||
		!schema.Equal(got.costs.Total, want.Costs.Total) {
		t.Errorf("%s: costs %v, want %v", what, got.costs, want.Costs)
	}
	n := len(want.Trajectory.Lataccel)
	for i := range n {
		if !schema.Equal(got.lataccel[i], want.Trajectory.Lataccel[i]) ||
			!schema.Equal(got.action[i], want.Trajectory.Action[i]) {
			t.Errorf(
				"%s: lataccel and action of step %d are %v and %v, want %v and %v", what, i,
				got.lataccel[i], got.action[i], want.Trajectory.Lataccel[i],
				want.Trajectory.Action[i],
			)
			return
		}
	}
	if last := want.Trajectory.Lataccel[n-1]; got.status.code != statusOK ||
		got.status.step != int64(n) ||
		!schema.Equal(got.status.value, last) {
		t.Errorf("%s: ended with %+v, want step %d and lataccel %v", what, got.status, n, last)
	}
}

// cut is a route's first n rows.
func cut(r *lockstep.Route, n int) *lockstep.Route {
	c := *r
	c.RollLataccel, c.VEgo, c.AEgo, c.TargetLataccel, c.SteerCommand = c.RollLataccel[:n],
		c.VEgo[:n], c.AEgo[:n], c.TargetLataccel[:n], c.SteerCommand[:n]
	return &c
}

// TestCuts holds routes of several lengths, side by side in one block, to the
// reference, in one launch and in many.
func TestCuts(t *testing.T) {
	d := open(t, emulated.Options{Order: emulated.Shuffled, Seed: 5})
	all := routes(t)
	const stop = 119
	sine := policyFunc(
		func(step int, target float64) float64 {
			return 3 * math.Sin(float64(step)) * (1 + target)
		},
	)
	r := rollouts{
		shortcuts: lockstep.CostOnly,
		block:     5,
		threads:   128,
		commands: func(j, step int) float64 {
			return sine(step, all[j].TargetLataccel[min(step, 118)])
		},
	}
	for i, n := range []int{101, 102, 110, 119, 119, 117} {
		r.routes = append(r.routes, cut(all[i], n))
		policy := []lockstep.Policy{lockstep.DefaultPID(), lockstep.Zero{}, sine.policy()}[i%3]
		r.policies = append(r.policies, policy)
	}
	var single []int
	for s := lockstep.ContextLength + 1; s <= stop; s++ {
		single = append(single, s)
	}
	for name, steps := range map[string][]int{
		"each step a launch": single,
		// commands are of one step
		"some launches": append([]int{21, 22, 60, 99, 100}, single[80:]...),
	} {
		t.Run(name, func(t *testing.T) {
			r := r
			r.steps = steps
			for i, o := range run(t, d, r) {
				compareResult(
					t, fmt.Sprintf("%d rows, %v", r.routes[i].Len(), r.policies[i]), o,
					simulate(
						t, lockstep.Job{Route: r.routes[i], Policy: r.policies[i]}, r.shortcuts,
					),
				)
			}
		})
	}
	t.Run("one launch", func(t *testing.T) {
		r := r
		r.commands = nil
		r.policies = []lockstep.Policy{
			lockstep.DefaultPID(), lockstep.Zero{}, lockstep.PID{P: 1, I: 2, D: 3}, lockstep.PID{},
			lockstep.Zero{}, lockstep.DefaultPID(),
		}
		for i, o := range run(t, d, r) {
			compareResult(t, fmt.Sprintf("%d rows, %v", r.routes[i].Len(), r.policies[i]), o,
				simulate(t, lockstep.Job{Route: r.routes[i], Policy: r.policies[i]}, r.shortcuts))
		}
	})
}

// TestCostEnd holds a rollout over the whole of what costs to the reference, with
// and without the shortcuts.
func TestCostEnd(t *testing.T) {
	all := routes(t)
	r := rollouts{
		block:    2,
		routes:   []*lockstep.Route{all[0], all[1]},
		policies: []lockstep.Policy{lockstep.DefaultPID(), lockstep.Zero{}},
	}
	for _, shortcuts := range []lockstep.Shortcuts{lockstep.CostOnly, lockstep.FullTrajectory} {
		t.Run(fmt.Sprint(shortcuts), func(t *testing.T) {
			t.Parallel()
			r := r
			r.shortcuts = shortcuts
			for i, o := range run(t, open(t, emulated.Options{}), r) {
				compareResult(
					t, r.routes[i].Name, o,
					simulate(t, lockstep.Job{Route: r.routes[i], Policy: r.policies[i]}, shortcuts),
				)
			}
		})
	}
}

// TestTeacher holds a rollout on another's trajectory to the reference, step by step.
func TestTeacher(t *testing.T) {
	const end = 106
	all := routes(t)[:2]
	r := rollouts{
		shortcuts: lockstep.CostOnly,
		block:     2,
		threads:   64,
		traced:    [2]int{lockstep.ContextLength, end},
	}
	sim, err := reference.New(modelPath(t), lockstep.Profile{})
	must(t, err)
	var want [][]*lockstep.Step
	for i, route := range all {
		route := cut(route, end)
		teacher := simulate(
			t, lockstep.Job{Route: cut(all[1-i], end), Policy: lockstep.PID{P: 0.3}},
			lockstep.FullTrajectory,
		).Trajectory
		job := lockstep.Job{Route: route, Policy: lockstep.DefaultPID(), Teacher: teacher}
		steps, err := referenceSteps(t, sim, job, r.shortcuts, end)
		must(t, err)
		want = append(want, steps)
		r.routes, r.policies, r.teachers = append(r.routes, route), append(r.policies, job.Policy),
			append(r.teachers, teacher)
	}
	for i, o := range run(t, open(t, emulated.Options{}), r) {
		compareSteps(t, fmt.Sprintf("route %d", i), o.steps, want[i])
		compareResult(
			t, fmt.Sprintf("route %d", i), o,
			simulate(
				t, lockstep.Job{Route: r.routes[i], Policy: r.policies[i], Teacher: r.teachers[i]},
				r.shortcuts,
			),
		)
	}
}

// TestGivenDraws puts draws in place of one route's seed.
func TestGivenDraws(t *testing.T) {
	const end = 104
	all := routes(t)
	draws := make([]float64, end-lockstep.ContextLength)
	for i := range draws {
		draws[i] = float64(i%3) * 0.4999999
	}
	r := rollouts{
		shortcuts: lockstep.CostOnly,
		block:     2,
		threads:   256,
		draws:     [][]float64{nil, draws},
		routes:    []*lockstep.Route{cut(all[0], end), cut(all[1], end)},
		policies:  []lockstep.Policy{lockstep.DefaultPID(), lockstep.DefaultPID()},
	}
	for i, o := range run(t, open(t, emulated.Options{}), r) {
		compareResult(
			t, fmt.Sprintf("route %d", i), o,
			simulate(
				t, lockstep.Job{Route: r.routes[i], Policy: r.policies[i], Draws: r.draws[i]},
				r.shortcuts,
			),
		)
	}
}

// TestFailures breaks some routes of a block; the others must not notice.
func TestFailures(t *testing.T) {
	const end = 106
	all := routes(t)
	nan := math.NaN()
	r := rollouts{shortcuts: lockstep.CostOnly, block: 4, threads: 128, policies: []lockstep.Policy{
		lockstep.DefaultPID(), lockstep.DefaultPID(), policyFunc(func(step int, _ float64) float64 {
			if step == 102 {
				return nan
			}
			return 0
		}).policy(), lockstep.DefaultPID(), lockstep.Zero{}}}
	r.commands = func(_, step int) float64 {
		if step == 102 {
			return nan
		}
		return 0
	}
	for s := lockstep.ContextLength + 1; s <= end; s++ {
		r.steps = append(r.steps, s)
	}
	for i := range r.policies {
		route := cut(all[i], end)
		route.TargetLataccel = slices.Clone(route.TargetLataccel)
		r.routes = append(r.routes, route)
	}
	r.routes[1].TargetLataccel[95] = nan // at step 100 in the context
	want := []abiStatus{
		{step: end}, {code: statusNoToken, step: 100, value: nan},
		{code: statusNotDistribution, step: 102, value: nan}, {step: end}, {step: end},
	}
	for i, o := range run(t, open(t, emulated.Options{Order: emulated.Descending}), r) {
		job := lockstep.Job{Route: r.routes[i], Policy: r.policies[i]}
		result := simulate(t, job, r.shortcuts)
		if want[i].code == statusOK {
			compareResult(t, fmt.Sprintf("route %d", i), o, result)
			continue
		}
		if result.Err == nil ||
			!strings.Contains(result.Err.Error(), fmt.Sprintf("step %d", want[i].step)) {
			t.Errorf("route %d: the reference says %v", i, result.Err)
		}
		if o.status.code != want[i].code || o.status.step != want[i].step ||
			!schema.Equal(o.status.value, want[i].value) {
			t.Errorf("route %d: status %+v, want %+v", i, o.status, want[i])
		}
	}
}
