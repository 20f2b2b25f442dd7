package tinyphysics

import (
	"math"
	"strings"
	"testing"

	"lockstep"
	"lockstep/batched"
	"lockstep/internal/assets/assetstest"
	"lockstep/parity"
	"lockstep/parity/branches"
	"lockstep/reference"
)

// TestHard: the hard jobs go through every branch of the specification with the official
// network, too; with the project's own they do where lockstep compare takes them.
func TestHard(t *testing.T) {
	model := assetstest.Model(t)
	want, err := reference.New(model, lockstep.Profile{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := batched.New(batched.Config{ModelPath: model})
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	jobs, err := Hard(t.Context(), want)
	if err != nil {
		t.Fatal(err)
	}
	r := compare(t, Live(want), Live(got), jobs, parity.CompareOptions{})
	if err := r.Err(); err != nil {
		t.Error(err)
	}
	if never := r.Exercised.Never(); len(never) > 0 {
		t.Errorf("never: %s", strings.Join(never, ", "))
	}
}

// TestExercised: what is counted is what happened: a branch that a route or a policy goes
// through at known steps, and the draw that was nearest to an edge.
func TestExercised(t *testing.T) {
	jobs := toyJobs(2, 130)
	jobs[0].Policy, jobs[1].Policy = lockstep.Zero{}, lockstep.DefaultPID()
	jobs[1].Route.VEgo[3] = math.NaN()
	const near = 0x1p-30
	plant := func(route string, step int, stage string, s *lockstep.Step) {
		if stage != Costs && route == jobs[1].Route.Name && step == 77 && len(s.CDF) > 0 &&
			s.Sample > 0 {
			s.Draw = s.CDF[s.Sample-1] + near
		}
	}
	r := compare(
		t, Live(&toy{name: "a", plant: plant}), Live(&toy{name: "b", plant: plant}), jobs,
		parity.CompareOptions{},
	)
	times := map[string][2]int{}
	for _, x := range r.Exercised.Branches {
		times[x.Name] = [2]int{x.Times, x.Rollouts}
	}
	for branch, want := range map[int][2]int{
		branches.RouteEndsEarly: {2, 2}, branches.Warmup: {160, 2},
		branches.FirstControlled: {2, 2}, branches.NaNSpeed: {1, 1}, branches.NaNRoll: {},
		branches.PolicyZero: {1, 1}, branches.PolicyPID: {1, 1}, branches.PolicyTable: {},
		branches.TaughtBefore: {}, branches.ExpectedValue: {},
	} {
		if name := branches.TinyPhysics()[branch].Name; times[name] != want {
			t.Errorf(
				"%s: %d times, in %d rollouts, want %v", name, times[name][0], times[name][1], want,
			)
		}
	}
	if n := r.Exercised.Nearest; n == nil || n.Step != 77 || n.Distance > 2*near ||
		!strings.Contains(n.Rollout, jobs[1].Route.Name) {
		t.Errorf("the nearest is %v, want step 77 of route %s", n, jobs[1].Route.Name)
	}
}

// TestOnBin: the lataccels that tokens stand for are on a bin, and what is beside one is not.
func TestOnBin(t *testing.T) {
	bins := reference.NewLataccelTokenizer()
	for token := range lockstep.VocabSize {
		x := bins.Decode(token)
		below, above := onBin(math.Nextafter(x, -9)), onBin(math.Nextafter(x, 9))
		if !onBin(x) || below || above {
			t.Errorf("token %d, %v: on a bin is %v; the numbers beside it: %v and %v", token, x,
				onBin(x), below, above)
		}
	}
	for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 6, -6} {
		if onBin(x) {
			t.Errorf("%v is on a bin", x)
		}
	}
}

// TestPlanBranches: what is counted of the plan is at how many steps a controller sees it so, and
// no more: whole, cut, gone, and for PIDFF with a band in which no row is left.
func TestPlanBranches(t *testing.T) {
	want := map[int]int{}
	jobs := toyJobs(2, lockstep.ControlStartIdx+60)
	for step := lockstep.ControlStartIdx; step < jobs[0].Route.Len(); step++ {
		rows := len(jobs[0].Route.FuturePlan(step).Lataccel)
		branch := branches.CutPlan
		switch rows {
		case lockstep.FuturePlanSteps - 1:
			branch = branches.WholePlan
		case 0:
			branch = branches.NoPlan
		}
		want[branch] += len(jobs)
		for _, band := range lockstep.PlanBands() {
			if band[0] >= rows {
				want[branches.EmptyBand]++ // of the one PIDFF
				break
			}
		}
	}
	jobs[0].Policy = lockstep.PIDFF{P: 1, FF: [4]float64{0, 1}}
	jobs[1].Policy = lockstep.Custom{
		Name: "custom", New: func() lockstep.Controller { return reference.NewPID(lockstep.PID{}) },
	}
	r := compare(t, Live(&toy{name: "a"}), Live(&toy{name: "b"}), jobs, parity.CompareOptions{})
	for branch, times := range want {
		if got := r.Exercised.Branches[branch]; got.Times != times {
			t.Errorf("%s: %d times, a controller sees it %d times", got.Name, got.Times, times)
		}
	}
}
