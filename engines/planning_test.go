package engines

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"lockstep"
	"lockstep/internal/simtest"
	"lockstep/snapshotfile"
)

// planner is an engine's with the jobs at a step.
func planner(
	t *testing.T, s lockstep.Implementation, jobs []lockstep.Job, step int,
) lockstep.Stepper {
	t.Helper()
	p, err := s.Reset(context.Background(), jobs, lockstep.Options{Shortcuts: lockstep.CostOnly})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	through(t, p, len(jobs), step)
	return p
}

// through steps to a step with no command, and returns the lataccels on the way.
func through(t *testing.T, p lockstep.Stepper, n, step int) (lataccels []float64) {
	t.Helper()
	after := make([]float64, n)
	for p.Index() < step {
		if err := p.Step(context.Background(), make([]float64, n), after); err != nil {
			t.Fatal(err)
		}
		lataccels = append(lataccels, after...)
	}
	return lataccels
}

func snap(t *testing.T, p lockstep.Stepper) *lockstep.Snapshot {
	t.Helper()
	shot, err := p.Snapshot(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	data, err := snapshotfile.Marshal(shot) // its bytes are all of it
	if err != nil {
		t.Fatal(err)
	}
	if len(data) > 4000*len(shot.Rollouts) {
		t.Errorf(
			"a snapshot of %d rollouts at step %d has %d bytes", len(shot.Rollouts), shot.Step,
			len(data),
		)
	}
	read, err := snapshotfile.Unmarshal(data)
	if err != nil {
		t.Fatal(err)
	}
	return read
}

func fork(
	t *testing.T, p lockstep.Stepper, shot *lockstep.Snapshot, index []int, n lockstep.Noise,
) lockstep.Stepper {
	t.Helper()
	f, err := p.Fork(context.Background(), shot, index, n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// TestFork: candidates go on from where they were forked, under the noise that was
// asked for, each as it would alone; every planner has the same bits.
func TestFork(t *testing.T) {
	c := config(t)
	routes := policyRoutes(t, 3)
	jobs := []lockstep.Job{
		{Route: routes[1], Policy: lockstep.DefaultPID()},
		{Route: routes[2], Policy: lockstep.PID{P: 0.3, I: 0.2}},
		{Route: routes[1], Policy: lockstep.Zero{}},
	}
	jobs[0].Draws, jobs[2].Expected = lockstep.Draws(
		99, 200,
	), true // a candidate's own noise is its rollout's
	feedforward := slices.Clone(jobs)
	feedforward[1].Policy = lockstep.PIDFF{P: 0.3, Smooth: 0.2}
	const at, steps = 104, 10
	index := []int{0, 2, 2, 1, 2}
	m := len(index)
	random := rand.New(rand.NewPCG(9, 9))
	commands := make([]float64, steps*m)
	for i := range commands {
		commands[i] = 3 * (random.Float64() - 0.5)
	}
	noises := []lockstep.Noise{
		{Kind: lockstep.RouteNoise},
		{Kind: lockstep.SeededNoise, Seeds: []uint32{0, 8, 8, math.MaxUint32, 0}},
		{Kind: lockstep.ExpectedNoise},
	}
	type asked struct {
		feedforward bool
		noise       lockstep.NoiseKind
	}
	answers := map[asked][]answered{}
	for _, e := range Checked() {
		t.Run(e.Name, func(t *testing.T) {
			s := e.ForTest(t, c)
			for _, ff := range []bool{false, true} {
				jobs := jobs
				if ff {
					jobs = feedforward
				}
				p := planner(t, s, jobs, at)
				if p == nil {
					t.Fatal("it does not plan")
				}
				shot := snap(t, p)
				for _, noise := range noises {
					key := asked{ff, noise.Kind}
					answers[key] = append(answers[key], answered{
						e.Name, forked(t, p, shot, index, noise, commands, at, e.Slow),
					})
				}
				holdRestored(t, p, shot, len(jobs))
				holdOwn(t, p, shot, jobs)
			}
		})
	}
	for key, all := range answers {
		if err := sides(all); err != nil {
			t.Errorf("costs and lataccels of candidates, %+v: %v", key, err)
		}
	}
	first := func(kind lockstep.NoiseKind) []float64 {
		return answers[asked{false, kind}][0].values
	}
	if route := first(lockstep.RouteNoise); len(answers) != 2*len(noises) ||
		simtest.Same("", route, first(lockstep.SeededNoise)) == nil ||
		simtest.Same("", route, first(lockstep.ExpectedNoise)) == nil {
		t.Errorf("the kinds of noise are not told apart: %v", answers)
	}
}

// answered is what an engine came to.
type answered struct {
	engine string
	values []float64
}

// sides names engines that agree, and those that do not, or is nil. It blames nobody: several may
// have a fault in the code that they share, such as the step mode's.
func sides(all []answered) error {
	var groups [][]answered
	for _, a := range all {
		k := slices.IndexFunc(groups, func(g []answered) bool {
			return simtest.Same("", g[0].values, a.values) == nil
		})
		if k < 0 {
			groups, k = append(groups, nil), len(groups)
		}
		groups[k] = append(groups[k], a)
	}
	if len(groups) < 2 {
		return nil
	}
	names := func(g []answered) string {
		var list []string
		for _, a := range g {
			list = append(list, a.engine)
		}
		return strings.Join(list, ", ")
	}
	var errs []error
	for _, g := range groups[1:] {
		errs = append(errs, fmt.Errorf(
			"on one side %s, on the other %s, of whose (the former's wanted) %w",
			names(groups[0]), names(g), simtest.Same("values", g[0].values, groups[0][0].values),
		))
	}
	return errors.Join(errs...)
}

// TestSides: whoever agrees is named together, and whoever does not.
func TestSides(t *testing.T) {
	one, other, third := []float64{1, 2}, []float64{1, 3}, []float64{0, 2}
	for want, all := range map[string][]answered{
		"<nil>": {{"a", one}, {"b", one}},
		"on one side a, c, on the other b, of whose (the former's wanted) values[1] is 3": {
			{"a", one}, {"b", other}, {"c", one},
		},
		"on one side a, on the other b, c, of whose (the former's wanted) values[0] is 0": {
			{"a", one}, {"b", third}, {"c", third},
		},
	} {
		if got := fmt.Sprint(sides(all)); !strings.HasPrefix(got, want) {
			t.Errorf("%v: %s, want %s", all, got, want)
		}
	}
}

// TestForkAgain: candidates of candidates have the noise that was asked for last, and with their
// own noise that of the candidates from which they come; every planner has the same bits.
func TestForkAgain(t *testing.T) {
	c := config(t)
	routes := policyRoutes(t, 2)
	jobs := []lockstep.Job{{Route: routes[0]}, {Route: routes[1]}, {Route: routes[1]}}
	jobs[2].Draws = lockstep.Draws(99, 200)
	want := forkedAgain(t, Reference().ForTest(t, c), jobs)
	for _, e := range Others() {
		t.Run(e.Name, func(t *testing.T) {
			got := forkedAgain(t, e.ForTest(t, c), jobs)
			for what, lataccels := range want {
				if err := simtest.Same("lataccels", got[what], lataccels); err != nil {
					t.Errorf("%s: %v", what, err)
				}
			}
		})
	}
}

// forkedAgain is what candidates of candidates come to, by the noises of both. Those with their own
// noise come to what those do from which they come.
func forkedAgain(
	t *testing.T, s lockstep.Implementation, jobs []lockstep.Job,
) map[string][]float64 {
	t.Helper()
	const at, steps = 104, 4
	noises := []lockstep.Noise{
		{Kind: lockstep.RouteNoise},
		{Kind: lockstep.SeededNoise, Seeds: []uint32{7, 0, math.MaxUint32}},
		{Kind: lockstep.ExpectedNoise},
	}
	all := map[string][]float64{}
	p := planner(t, s, jobs, at)
	for _, first := range noises {
		f := fork(t, p, snap(t, p), []int{0, 1, 2}, first)
		through(t, f, len(jobs), at+1)
		shot := snap(t, f)
		what := func(second lockstep.NoiseKind) string {
			return fmt.Sprintf("%s noise, then %s", first.Kind, second)
		}
		for _, second := range noises {
			again := fork(t, f, shot, []int{2, 0, 1}, second)
			all[what(second.Kind)] = through(t, again, len(jobs), at+steps)
		}
		own := all[what(lockstep.RouteNoise)]
		for i, x := range through(t, f, len(jobs), at+steps) { // what they come from
			k := (i%len(jobs) + 1) % len(jobs) // its place among its candidates
			if y := own[i-i%len(jobs)+k]; x != y {
				t.Errorf("%s noise: rollout %d comes to %v, its own candidate to %v",
					first.Kind, i%len(jobs), x, y)
			}
		}
	}
	return all
}

// TestForkEnded: candidates of rollouts that have ended, some long before the snapshot, are where
// these are: their histories and results are those of the rollouts, also where none of them runs
// and the snapshot is longer than each. So are those of new rollouts that are brought there.
func TestForkEnded(t *testing.T) {
	c := config(t)
	routes := policyRoutes(t, 3) // of 101, 138 and 115 rows
	jobs := []lockstep.Job{{Route: routes[2]}, {Route: routes[1]}, {Route: routes[0]}}
	opts := lockstep.Options{Shortcuts: lockstep.CostOnly, Trajectory: true}
	ctx := context.Background()
	histories := func(s *lockstep.Snapshot, index []int) (all []float64) {
		for _, i := range index {
			all = append(append(all, s.Rollouts[i].Lataccel...), s.Rollouts[i].Action...)
		}
		return all
	}
	outcomes := func(t *testing.T, p lockstep.Stepper, index []int) (all []float64) {
		t.Helper()
		results, err := p.Results(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range index {
			if p.Running(i) {
				continue
			}
			r := results[i]
			all = append(all, r.Costs.Lataccel, r.Costs.Jerk, r.Costs.Total)
			all = append(append(all, r.Trajectory.Lataccel...), r.Trajectory.Action...)
		}
		return all
	}
	for _, e := range Checked() {
		t.Run(e.Name, func(t *testing.T) {
			s := e.ForTest(t, c)
			begun := func() lockstep.Stepper {
				p, err := s.Reset(ctx, jobs, opts)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { p.Close() })
				return p
			}
			p, all := begun(), []int{0, 1, 2}
			for _, at := range []int{102, 118, 138} {
				through(t, p, len(jobs), at)
				shot, other := snap(t, p), begun()
				if err := other.Restore(ctx, shot); err != nil {
					t.Fatal(err)
				}
				what := fmt.Sprintf("what is restored at step %d: results", at)
				if err := simtest.SameBits(what, outcomes(t, other, all),
					outcomes(t, p, all)); err != nil {
					t.Error(err)
				}
				for _, index := range [][]int{{2}, {2, 2, 2, 2, 2}, {0, 2, 0}, {2, 1, 0}} {
					own := make([]int, len(index))
					for k := range own {
						own[k] = k
					}
					f := fork(t, p, shot, index, lockstep.Noise{Kind: lockstep.RouteNoise})
					what := fmt.Sprintf("candidates of rollouts %v at step %d: ", index, at)
					if err := errors.Join(
						simtest.SameBits(what+"histories", histories(snap(t, f), own),
							histories(shot, index)),
						simtest.SameBits(what+"results", outcomes(t, f, own),
							outcomes(t, p, index)),
					); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
}

// TestRollSizes: candidates that are rolled several steps at once come to what each comes to alone,
// however many they are: an engine cuts them into blocks, chunks and launches, and each has its
// edges. One worker is where they are met first.
func TestRollSizes(t *testing.T) {
	const at, steps = 104, 3
	c := config(t)
	c.Workers = 1
	routes := policyRoutes(t, 3)[1:]
	jobs := []lockstep.Job{{Route: routes[0]}, {Route: routes[1]}}
	// a candidate's rollout, seed and commands
	candidate := func(k int) (index int, seed uint32, commands []float64) {
		random := rand.New(rand.NewPCG(9, uint64(k)))
		for range steps {
			commands = append(commands, 3*(random.Float64()-0.5))
		}
		return k % 2, random.Uint32(), commands
	}
	// of candidates from one on up to another: what they cost and their lataccels, by candidate
	rolled := func(
		t *testing.T, p lockstep.Stepper, s *lockstep.Snapshot, from, to int,
	) [][]float64 {
		t.Helper()
		m := to - from
		index, noise := make([]int, m), lockstep.Noise{
			Kind: lockstep.SeededNoise, Seeds: make([]uint32, m),
		}
		told := make([]float64, steps*m)
		for k := range m {
			var commands []float64
			index[k], noise.Seeds[k], commands = candidate(from + k)
			for h, x := range commands {
				told[h*m+k] = x
			}
		}
		f := fork(t, p, s, index, noise)
		costs, lataccels := make([]float64, m), make([]float64, steps*m)
		if err := f.Roll(t.Context(), told, costs, lataccels); err != nil {
			t.Fatal(err)
		}
		all := make([][]float64, m)
		for k := range all {
			all[k] = []float64{costs[k]}
			for h := range steps {
				all[k] = append(all[k], lataccels[h*m+k])
			}
		}
		return all
	}
	for _, e := range Checked() {
		t.Run(e.Name, func(t *testing.T) {
			s := e.ForTest(t, c)
			p := planner(t, s, jobs, at)
			shot := snap(t, p)
			sizes := simtest.Awkward(s)
			if e.Name != Reference().Name && len(sizes) < 5 {
				t.Errorf("%s does not say into how many it cuts its work: %v", e.Name, sizes)
			}
			var want [][]float64
			for k := range sizes[len(sizes)-1] {
				want = append(want, rolled(t, p, shot, k, k+1)...)
			}
			for _, m := range sizes {
				for k, got := range rolled(t, p, shot, 0, m) {
					if err := simtest.Same("cost and lataccels", got, want[k]); err != nil {
						t.Errorf("%s, candidate %d of %d: %v", e.Name, k, m, err)
					}
				}
			}
		})
	}
}

// forked is what candidates come to together, each as it would alone; of a slow engine's
// one is tried alone.
func forked(
	t *testing.T, p lockstep.Stepper, shot *lockstep.Snapshot, index []int, noise lockstep.Noise,
	commands []float64, at int, slow bool,
) []float64 {
	t.Helper()
	m, steps := len(index), len(commands)/len(index)
	f := fork(t, p, shot, index, noise)
	costs, lataccels := make([]float64, m), make([]float64, steps*m)
	if err := f.Roll(context.Background(), commands, costs, lataccels); err != nil {
		t.Fatal(err)
	}
	for k := range index {
		if slow && k != 3 {
			continue
		}
		alone := noise
		if noise.Seeds != nil {
			alone.Seeds = noise.Seeds[k : k+1]
		}
		one := fork(t, p, shot, index[k:k+1], alone)
		cost, own, after := []float64{0}, make([]float64, steps), make([]float64, steps)
		for h := range own {
			own[h] = commands[h*m+k]
		}
		if err := one.Roll(context.Background(), own, cost, after); err != nil {
			t.Fatal(err)
		}
		for h := range after {
			if after[h] != lataccels[h*m+k] || cost[0] != costs[k] {
				t.Fatalf(
					"%s noise: candidate %d has lataccel %v at step %d, alone %v", noise.Kind, k,
					lataccels[h*m+k], at+h, after[h],
				)
			}
		}
	}
	return append(costs, lataccels...)
}

// holdRestored sees that rollouts whose policies remember go back to a snapshot, and goes
// back to it.
func holdRestored(t *testing.T, p lockstep.Stepper, shot *lockstep.Snapshot, n int) {
	t.Helper()
	var first []float64
	for range 2 {
		lataccels := through(t, p, n, shot.Step+3)
		if first == nil {
			first = lataccels
		} else if err := simtest.Same("lataccels", lataccels, first); err != nil {
			t.Errorf("from a snapshot at step %d, %d rollouts side by side: %v", shot.Step, n, err)
		}
		if err := p.Restore(t.Context(), shot); err != nil {
			t.Fatal(err)
		}
	}
}

// holdOwn sees that forks left the rollouts alone, and that with their own noise and
// actions candidates come to what the rollouts come to.
func holdOwn(t *testing.T, p lockstep.Stepper, shot *lockstep.Snapshot, jobs []lockstep.Job) {
	t.Helper()
	const steps = 10
	n := len(jobs)
	free := through(t, p, n, shot.Step+steps)
	end := snap(t, p)
	commands := make([]float64, steps*n)
	for h := range steps {
		for i := range n {
			commands[h*n+i] = end.Rollouts[i].Action[shot.Step+h]
		}
	}
	f := fork(t, p, shot, []int{0, 1, 2}, lockstep.Noise{Kind: lockstep.RouteNoise})
	costs, lataccels := make([]float64, n), make([]float64, steps*n)
	if err := f.Roll(context.Background(), commands, costs, lataccels); err != nil {
		t.Fatal(err)
	}
	if err := simtest.Same("lataccels", lataccels, free); err != nil {
		t.Errorf(
			"candidates with their rollouts' own actions, %d side by side from step %d on: %v", n,
			shot.Step, err,
		)
	}
	for i := range n {
		var cost float64
		rows := jobs[i].Route.Len()
		for h := range steps {
			step := shot.Step + h
			e := jobs[i].Route.TargetLataccel[step] - free[h*n+i]
			before := shot.Rollouts[i].Lataccel[shot.Step-1]
			if h > 0 {
				before = free[(h-1)*n+i]
			}
			j := (free[h*n+i] - before) / 0.1
			window := float64(min(rows, lockstep.CostEndIdx) - lockstep.ControlStartIdx)
			cost += float64(5000/window*float64(e*e)) + float64(100/(window-1)*float64(j*j))
		}
		if cost != costs[i] {
			t.Errorf("candidate %d: a partial cost of %v, want %v", i, costs[i], cost)
		}
	}
}

// TestRestore: a rollout goes on from a snapshot as it went on when that was taken, whatever
// steers it, and wherever that was.
func TestRestore(t *testing.T) {
	c := config(t)
	routes := policyRoutes(t, 2)
	var jobs []lockstep.Job
	kinds := map[lockstep.Kind]bool{}
	for _, p := range somePolicies(t, routes, 2) {
		if n, ok := p.(lockstep.Native); ok && !kinds[n.Kind()] {
			kinds[n.Kind()] = true
			jobs = append(jobs, lockstep.Job{Route: routes[1], Policy: p})
		}
	}
	jobs = append(
		jobs, lockstep.Job{Route: routes[1], Policy: lockstep.DefaultPID(), Expected: true},
	)
	if len(kinds) != len(lockstep.Kinds()) {
		t.Errorf("%d kinds of policies, there are %d", len(kinds), len(lockstep.Kinds()))
	}
	const at, end = 104, 110
	n := len(jobs)
	for _, e := range Checked() {
		t.Run(e.Name, func(t *testing.T) {
			s := e.ForTest(t, c)
			here, elsewhere := planner(t, s, jobs, at), planner(t, s, jobs, at-2)
			shot := snap(t, here)
			want := through(t, here, n, end)
			for _, p := range []lockstep.Stepper{here, elsewhere, here} {
				if err := p.Restore(context.Background(), shot); err != nil {
					t.Fatal(err)
				}
				for k, got := range through(t, p, n, end) {
					if got != want[k] {
						t.Errorf(
							"%v: lataccel %v at step %d, want %v", jobs[k%n].Policy, got, at+k/n,
							want[k],
						)
					}
				}
			}
		})
	}
}

// TestNamesakes: a snapshot is not restored in rollouts of another route of the same name, nor of
// its first rows, whether it was written down or not.
func TestNamesakes(t *testing.T) {
	c := config(t)
	routes := policyRoutes(t, 3)[1:]
	first, second := routes[0], routes[1]
	second.Name = first.Name
	const rows = 105
	ctx := context.Background()
	for _, e := range Checked() {
		t.Run(e.Name, func(t *testing.T) {
			s := e.ForTest(t, c)
			at := func(r *lockstep.Route) lockstep.Stepper {
				return planner(t, s, []lockstep.Job{{Route: r}}, 100)
			}
			shot := snap(t, at(first.First(rows)))
			data, err := snapshotfile.Marshal(shot)
			if err != nil {
				t.Fatal(err)
			}
			read, err := snapshotfile.Unmarshal(data)
			if err != nil {
				t.Fatal(err)
			}
			for _, other := range []*lockstep.Route{second.First(rows), first.First(rows - 1)} {
				for _, of := range []*lockstep.Snapshot{shot, read} {
					p := at(other)
					if err := p.Restore(ctx, of); err == nil ||
						!strings.Contains(err.Error(), "another route that is called "+first.Name) {
						t.Errorf("restored in rollouts of another route: %v", err)
					}
				}
			}
			if err := at(first.First(rows)).Restore(ctx, read); err != nil {
				t.Errorf("restored in rollouts of the same route: %v", err)
			}
		})
	}
}

// TestForkErrors: what is no fork is refused in one line, and a command that is NaN
// fails its own candidate.
func TestForkErrors(t *testing.T) {
	c := config(t)
	routes := policyRoutes(t, 2)
	jobs := []lockstep.Job{
		{Route: routes[1], Policy: lockstep.DefaultPID()},
		{Route: routes[1], Policy: lockstep.Zero{}},
	}
	for _, e := range Checked() {
		t.Run(e.Name, func(t *testing.T) {
			p := planner(t, e.ForTest(t, c), jobs, 102)
			ctx := context.Background()
			shot := snap(t, p)
			own := lockstep.Noise{Kind: lockstep.RouteNoise}
			other := *shot
			other.Model = "0123456789abcdef"
			foreign := *shot
			foreign.Profile.CSV++
			for want, try := range map[string]func() error{
				"no noise is chosen": func() error {
					_, err := p.Fork(ctx, shot, []int{0}, lockstep.Noise{})
					return err
				},
				"no rollout 2, want 0 to 1": func() error {
					_, err := p.Fork(ctx, shot, []int{0, 2}, own)
					return err
				},
				"no candidates": func() error {
					_, err := p.Fork(ctx, shot, nil, own)
					return err
				},
				"of the model 0123456789ab…": func() error {
					_, err := p.Fork(ctx, &other, []int{0}, own)
					return err
				},
				"it is of profile ": func() error {
					_, err := p.Fork(ctx, &foreign, []int{0}, own)
					return err
				},
				"3 commands, 2 costs": func() error {
					return p.Roll(ctx, make([]float64, 3), make([]float64, 2), nil)
				},
				"2 commands, 2 costs and 3 la": func() error {
					return p.Roll(ctx, make([]float64, 2), make([]float64, 2), make([]float64, 3))
				},
			} {
				if err := try(); err == nil || !strings.Contains(err.Error(), want) ||
					strings.Contains(err.Error(), "\n") {
					t.Errorf("%v, want …%s…", err, want)
				}
			}
			failed := *shot // whose policy was not asked
			failed.Rollouts = slices.Clone(shot.Rollouts)
			failed.Rollouts[0].Err, failed.Rollouts[0].Policy = "it failed", nil
			if err := p.Restore(ctx, &failed); err != nil || p.Err(0) == nil ||
				p.Err(0).Error() != "it failed" ||
				p.Err(1) != nil {
				t.Errorf(
					"a snapshot with a rollout that failed: %v, %v, %v", err, p.Err(0), p.Err(1),
				)
			}
			f := fork(t, p, shot, []int{0, 0}, own)
			costs := make([]float64, 2)
			if err := f.Roll(ctx, []float64{math.NaN(), 0.5, 0.5, 0.5}, costs, nil); err != nil {
				t.Fatal(err)
			}
			if costs[0] == costs[0] || !(costs[1] > 0) || f.Err(0) == nil || f.Err(1) != nil {
				t.Errorf(
					"a command that is NaN costs its candidate %v and the other %v (%v, %v)",
					costs[0], costs[1], f.Err(0), f.Err(1),
				)
			}
		})
	}
}
