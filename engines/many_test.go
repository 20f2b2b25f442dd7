package engines

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"lockstep"
	"lockstep/internal/generate"
	"lockstep/routefile"
)

var many = flag.Int(
	"routes", 0, "TestManyPolicies: so many routes, whole ones; else a few short ones",
)

// TestManyPolicies holds all kinds of policies on generated routes, sweeps and forks on
// the engines that are no slow ones to the reference, step by step. Each batch of routes
// has networks, tables and gains of its own. `make test-policies` takes 500 routes.
func TestManyPolicies(t *testing.T) {
	c := config(t)
	const batch = 25
	for from := 0; from < max(*many, 1); from += batch {
		routes := policyRoutes(t, 15)
		if *many > 0 {
			routes = wholeRoutes(t, from, min(from+batch, *many))
		}
		jobs := mixedJobs(t, routes, uint64(from))
		options := lockstep.Options{
			Shortcuts: []lockstep.Shortcuts{lockstep.CostOnly,
				lockstep.FullTrajectory}[from/batch%2],
		}
		wants := map[lockstep.Profile][]rolled{}
		for _, e := range Others() {
			if e.Slow {
				continue
			}
			t.Run(fmt.Sprintf("%s/%d", e.Name, from), func(t *testing.T) {
				s := e.ForTest(t, c)
				own := c
				own.Profile = s.Profile()
				r, err := Reference().New(own)
				if err != nil {
					t.Fatal(err)
				}
				if wants[own.Profile] == nil {
					wants[own.Profile] = roll(r, jobs, options)
				}
				trial{
					e.Name, own, options,
				}.compareRolled(t, jobs, roll(s, jobs, options), wants[own.Profile])
				holdForks(t, s, r, routes, uint64(from))
			})
		}
	}
}

// wholeRoutes are generated ones.
func wholeRoutes(t *testing.T, from, to int) (routes []*lockstep.Route) {
	t.Helper()
	for i := from; i < to; i++ {
		r, err := routefile.Loader{}.Read(
			bytes.NewReader(generate.Route(78, i)), fmt.Sprintf("g%d.csv", i),
		)
		if err != nil {
			t.Fatal(err)
		}
		routes = append(routes, r)
	}
	return routes
}

// mixedJobs are one for each route, whose policies are of all kinds, some sampled and
// some without noise; and a sweep, all policies on the first route.
func mixedJobs(t *testing.T, routes []*lockstep.Route, seed uint64) (jobs []lockstep.Job) {
	t.Helper()
	list := somePolicies(t, routes, seed)
	for i, r := range routes {
		job := lockstep.Job{Route: r, Policy: list[i%len(list)], Expected: i%7 == 3}
		if _, ok := job.Policy.(*lockstep.Network); ok && i%2 == 0 {
			job.Sampling = &lockstep.Sampling{Seed: seed, ID: uint64(i)}
		}
		jobs = append(jobs, job)
	}
	for _, p := range list {
		jobs = append(jobs, lockstep.Job{Route: routes[0], Policy: p})
	}
	return jobs
}

// holdForks holds forks from some step to the reference's, under each kind of noise.
func holdForks(
	t *testing.T, s, reference lockstep.Implementation, routes []*lockstep.Route, seed uint64,
) {
	t.Helper()
	const candidates, steps = 6, 8
	random := rand.New(rand.NewPCG(seed, 5))
	list := []*lockstep.Route{routes[random.IntN(len(routes))], routes[random.IntN(len(routes))]}
	last := max(list[0].Len(), list[1].Len()) - 1
	at := lockstep.ControlStartIdx + random.IntN(
		min(last-lockstep.ControlStartIdx+1, 60),
	) // where one may have ended
	jobs := []lockstep.Job{
		{Route: list[0], Policy: lockstep.DefaultPID()},
		{Route: list[1], Policy: lockstep.PIDFF{P: 0.2, FF: [4]float64{0.3, 0.1}, Smooth: 0.3}},
	}
	commands, index, seeds := make([]float64, steps*candidates), make([]int, candidates),
		make([]uint32, candidates)
	for i := range commands {
		commands[i] = 3 * (random.Float64() - 0.5)
	}
	for k := range index {
		index[k], seeds[k] = random.IntN(len(jobs)), random.Uint32()
	}
	for _, noise := range []lockstep.Noise{
		{Kind: lockstep.RouteNoise}, {Kind: lockstep.SeededNoise, Seeds: seeds},
		{Kind: lockstep.ExpectedNoise},
	} {
		var both []string
		for _, sim := range []lockstep.Implementation{reference, s} {
			p := planner(t, sim, jobs, at)
			f := fork(t, p, snap(t, p), index, noise)
			costs, lataccels := make([]float64, candidates), make([]float64, len(commands))
			if err := f.Roll(context.Background(), commands, costs, lataccels); err != nil {
				t.Fatal(err)
			}
			both = append(both, fmt.Sprint(costs, lataccels))
		}
		if both[0] != both[1] {
			t.Errorf("%s noise, forks at step %d: %s, want %s", noise.Kind, at, both[1], both[0])
		}
	}
}
