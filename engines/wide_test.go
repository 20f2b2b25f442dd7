package engines

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"lockstep"
	"lockstep/internal/policytest"
	"lockstep/internal/simtest"
)

// TestWide holds networks of the winner's size, with tanh, and that declare what they see to
// the reference, step by step; where they are collected, too.
func TestWide(t *testing.T) {
	c := config(t)
	routes := policyRoutes(t, 2)
	policies := []*lockstep.Network{policytest.Winner()}
	for seed := range uint64(4) {
		policies = append(policies, policytest.Declared(seed))
	}
	if n := len(policies[0].Numbers()); n < 1_480_000 || n > 1_550_000 {
		t.Errorf("the winner has %d numbers", n)
	}
	var jobs []lockstep.Job
	for i, p := range policies {
		jobs = append(jobs, lockstep.Job{Route: routes[i%2], Policy: p}, lockstep.Job{
			Route: routes[1-i%2], Policy: p, Sampling: &lockstep.Sampling{Seed: 3, ID: uint64(i)},
		})
	}
	var want []rolled
	options := lockstep.Options{Shortcuts: lockstep.FullTrajectory}
	for _, e := range Checked() {
		t.Run(e.Name, func(t *testing.T) {
			s := e.ForTest(t, c)
			got := roll(s, jobs, options)
			if profile := s.Profile(); want == nil || profile != c.Profile {
				c.Profile = profile
				r, err := Reference().New(c)
				if err != nil {
					t.Fatal(err)
				}
				want = roll(r, jobs, options)
			}
			trial{e.Name, c, options}.compareRolled(t, jobs, got, want)
			for i, p := range policies {
				collectsWhatItSees(t, s, p, routes[:1+i%2], want[2*i].steps)
			}
		})
	}
}

// TestSeesNaN: a network that sees NaN fails its rollouts with the reference's error, whether
// others of it go on or not, whatever its width.
func TestSeesNaN(t *testing.T) {
	good := cutRoute(policyRoutes(t, 1)[0], 110)
	broken := *good
	broken.AEgo = slices.Clone(broken.AEgo)
	broken.AEgo[103] = math.NaN()
	everyEngine(t, func(t *testing.T, s, reference lockstep.Implementation) {
		for _, p := range []*lockstep.Network{policytest.Winner(), policytest.Declared(1),
			policytest.Network(t)} {
			all := []lockstep.Job{{Route: &broken, Policy: p}, {Route: good, Policy: p}}
			for n := 1; n <= len(all); n++ {
				got, want := simulated(s, all[:n]), simulated(reference, all[:n])
				if got != want {
					t.Errorf("%v, %d jobs: %.300s, want %.300s", p, n, got, want)
				}
				if !strings.Contains(want, "is NaN") {
					t.Errorf("%v sees no NaN: %.300s", p, want)
				}
			}
		}
	})
}

// collectsWhatItSees holds the observations of what is collected to those that the network
// saw: those of the first of the routes, where it is the one of the steps.
func collectsWhatItSees(
	t *testing.T, s lockstep.Implementation, p *lockstep.Network, routes []*lockstep.Route,
	steps []seenStep,
) {
	t.Helper()
	route := routes[len(routes)-1]
	e, err := s.Collect(context.Background(), []lockstep.Job{{Route: route, Policy: p}})
	if err != nil {
		t.Fatal(err)
	}
	var want []float32
	for _, step := range steps {
		want = append(want, step.observation...)
	}
	got := make([]float32, len(want))
	if err := s.Observe(e, nil, got); err != nil {
		t.Fatal(err)
	}
	if err := simtest.Same("observations", got, want); err != nil {
		t.Errorf("%v of %v: %v", p, s.Name(), err)
	}
	last := e.Steps(0) - 1
	row := make([]float32, p.Inputs())
	if err := s.Observe(e, []lockstep.Place{{Step: last}}, row); err != nil {
		t.Fatal(err)
	}
	if err := simtest.Same("the last observation alone", row, want[last*len(row):]); err != nil {
		t.Errorf("%v of %v: %v", p, s.Name(), err)
	}
}

// TestObserveAgain: of several rollouts the places that are asked for are observed in any order,
// one and the same rollout again after another, too.
func TestObserveAgain(t *testing.T) {
	c := config(t)
	routes := policyRoutes(t, 3)
	policy := policytest.Declared(0)
	var jobs []lockstep.Job
	for _, r := range routes {
		jobs = append(jobs, lockstep.Job{Route: r, Policy: policy})
	}
	for _, e := range Checked() {
		t.Run(e.Name, func(t *testing.T) {
			s := e.ForTest(t, c)
			rolled := roll(s, jobs, lockstep.Options{Shortcuts: lockstep.FullTrajectory})
			data, err := s.Collect(t.Context(), jobs)
			if err != nil {
				t.Fatal(err)
			}
			var places []lockstep.Place
			var want []float32
			for i, job := range []int{0, 1, 0, 2, 2, 1, 0} {
				at := lockstep.Place{Rollout: job, Step: i % data.Steps(job)}
				places = append(places, at)
				steps := rolled[job].steps
				steps = steps[len(steps)-data.Steps(job):]
				want = append(want, steps[at.Step].observation...)
			}
			got := make([]float32, len(want))
			if err := s.Observe(data, places, got); err != nil {
				t.Fatal(err)
			}
			if err := simtest.SameBits("observations", got, want); err != nil {
				t.Error(err)
			}
		})
	}
}

// manyPlaces: more places than an engine looks at together are observed as few are, each in its
// row, and of one with NaN among the last the step is named.
func manyPlaces(t *testing.T, s lockstep.Collector, e *lockstep.Experience) {
	t.Helper()
	n, size := e.Steps(0), e.Inputs()
	few, all := make([]float32, n*size), make([]float32, (1<<12+5)*size)
	places, want := make([]lockstep.Place, len(all)/size), make([]float32, 0, len(all))
	if err := s.Observe(e, nil, few); err != nil {
		t.Fatal(err)
	}
	for i := range places {
		places[i].Step = 7 * (i + i/100) % n
		want = append(want, few[places[i].Step*size:][:size]...)
	}
	if err := s.Observe(e, places, all); err != nil {
		t.Fatal(err)
	}
	if err := simtest.SameBits("observations of many places", all, want); err != nil {
		t.Error(err)
	}
	known := e.Lataccel[3]
	defer func() { e.Lataccel[3] = known }()
	e.Lataccel[3] = math.NaN()
	clear(places)
	places[len(places)-2].Step = 4
	simtest.Refused(t, "NaN at one of the last places", s.Observe(e, places, all), "step 104: ")
}

// TestWideNaN: what a network sees and is NaN ends its rollout where the reference ends it, in
// the reference's words: an element that is declared, and any of the observation that is not, if
// one of its elements is declared. What nobody sees ends nothing.
func TestWideNaN(t *testing.T) {
	c := config(t)
	route := policyRoutes(t, 1)[0]
	route.AEgo = append([]float64{}, route.AEgo...)
	route.AEgo[20] = math.NaN() // of the past, which no observation has that is not declared
	past := policyRoutes(t, 2)[1]
	past.AEgo = append([]float64{}, past.AEgo...)
	past.AEgo[20] = math.NaN()
	both := *past
	both.AEgo = append([]float64{}, past.AEgo...)
	both.AEgo[100] = math.NaN() // at the step at which a[-80] is NaN
	late := policyRoutes(t, 2)[1]
	late.VEgo = append([]float64{}, late.VEgo...)
	late.VEgo[115] = math.NaN()
	of := func(texts ...string) *lockstep.Network {
		sees, err := lockstep.ParseSees(texts)
		if err != nil {
			t.Fatal(err)
		}
		layer := lockstep.Layer{Inputs: len(sees), Outputs: 2, Bias: make([]float32, 2)}
		layer.Weights = make([]float32, 2*len(sees))
		n, err := lockstep.NewSeeing(sees, []lockstep.Layer{layer}, 0.25)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	cases := []struct {
		route *lockstep.Route
		of    *lockstep.Network
		want  string
	}{
		{route, of("v[0]", "roll[0]-a[-80]"), "step 100: observation[1] (roll[0]-a[-80]) is NaN"},
		{route, of("a[-79]", "a[49]"), ""},
		{late, of("target[0]", "v[3]-v[2]"), "step 112: observation[1] (v[3]-v[2]) is NaN"},
		{
			late, of("target[0]", "observation[0]"),
			"step 100: observation[170] (v ego plan 14) is NaN",
		},
	}
	var jobs []lockstep.Job
	for _, x := range cases {
		jobs = append(jobs, lockstep.Job{Route: x.route, Policy: x.of})
	}
	whole := []lockstep.Job{{Route: policyRoutes(t, 2)[1], Policy: cases[3].of}}
	options := lockstep.Options{Shortcuts: lockstep.CostOnly}
	for _, e := range Checked() {
		t.Run(e.Name, func(t *testing.T) {
			s := e.ForTest(t, c)
			for i, g := range roll(s, jobs, options) {
				want := cases[i].want
				if err := g.result.Err; want == "" && err != nil ||
					want != "" && (err == nil || !strings.HasSuffix(err.Error(), want)) {
					t.Errorf("%v: %v, want %q", cases[i].of.Sees, err, want)
				}
			}
			// Of two places with NaN the first is named, whichever observation it is in.
			seeing := []lockstep.Job{{
				Route: policyRoutes(t, 2)[1], Policy: of("observation[0]", "a[-80]"),
			}}
			first, err := s.Collect(context.Background(), seeing)
			if err != nil || first.Results[0].Err != nil {
				t.Fatal(err, first.Results[0].Err)
			}
			manyPlaces(t, s, first)
			first.Lataccel[3] = math.NaN()
			for _, x := range []struct {
				route  *lockstep.Route
				places []lockstep.Place
				want   string
			}{
				{past, []lockstep.Place{{}, {Step: 4}}, "100: observation[1] (a[-80]) is NaN"},
				{past, []lockstep.Place{{Step: 4}, {}}, "104: observation[1] (lataccel) is NaN"},
				{&both, []lockstep.Place{{}}, "step 100: observation[7] (a ego) is NaN"},
			} {
				first.Jobs[0].Route = x.route
				err := s.Observe(first, x.places, make([]float32, 2*len(x.places)))
				if err == nil || !strings.HasSuffix(err.Error(), x.want) {
					t.Errorf("observed at %v: %v, want %q", x.places, err, x.want)
				}
			}
			broken, err := s.Collect(context.Background(), whole)
			if err != nil || broken.Results[0].Err != nil {
				t.Fatal(err, broken.Results[0].Err)
			}
			broken.Lataccel[3] = math.NaN()
			const want = "step 104: observation[1] (lataccel) is NaN"
			err = s.Observe(broken, []lockstep.Place{{Step: 3}, {Step: 4}}, make([]float32, 4))
			if err == nil || !strings.HasSuffix(err.Error(), want) {
				t.Errorf("observed: %v, want %q", err, want)
			}
		})
	}
}
