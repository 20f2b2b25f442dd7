package lockstep_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"lockstep"
)

// snapshot is that of jobs before step 22, the second of which has failed.
func snapshot() *lockstep.Snapshot {
	return &lockstep.Snapshot{Step: 22, Rollouts: []lockstep.RolloutState{
		{Route: "a", Lataccel: make([]float64, 22), Action: make([]float64, 22)},
		{
			Route:    "b",
			Lataccel: make([]float64, 21),
			Action:   make([]float64, 21),
			Err:      "step 21: no",
		},
	}}
}

// jobs are those of snapshot.
func jobs() []lockstep.Job {
	route := func(name string) *lockstep.Route {
		return &lockstep.Route{Name: name, TargetLataccel: make([]float64, 110)}
	}
	return []lockstep.Job{
		{Route: route("a"), Policy: lockstep.DefaultPID()},
		{Route: route("b"), Policy: lockstep.Zero{}},
	}
}

// TestApply: whatever noise a job had, with another it has that alone, and with its own the one
// that it had. All engines but the GPU's take it from here, so that none is a yardstick for it.
func TestApply(t *testing.T) {
	const seed = 7
	seeded := lockstep.Draws(seed, 90)
	for _, expected := range []bool{false, true} {
		for _, draws := range [][]float64{nil, make([]float64, 90)} {
			for kind, want := range map[lockstep.NoiseKind]struct {
				draws    []float64
				expected bool
			}{
				lockstep.RouteNoise:    {draws, expected},
				lockstep.SeededNoise:   {seeded, false},
				lockstep.ExpectedNoise: {draws, true},
			} {
				job := jobs()[0]
				job.Draws, job.Expected = draws, expected
				lockstep.Noise{Kind: kind, Seeds: []uint32{1, seed}}.Apply(&job, 1)
				long := jobs()[0] // behind the end of the cost, too
				long.Route = rows(640)
				lockstep.Noise{Kind: kind, Seeds: []uint32{seed}}.Apply(&long, 0)
				if n := len(long.Draws); kind == lockstep.SeededNoise && n != 620 {
					t.Errorf("%d draws for a route of 640 rows, want 620", n)
				}
				if !slices.Equal(job.Draws, want.draws) || job.Expected != want.expected {
					t.Errorf(
						"%v noise for a job with %d draws, expected %v: %d draws, expected %v",
						kind, len(draws), expected, len(job.Draws), job.Expected,
					)
				}
			}
		}
	}
}

// TestCandidates: a fork's jobs have the noise that was asked for, and no other.
func TestCandidates(t *testing.T) {
	index := []int{1, 0, 0}
	fork := func(n lockstep.Noise) ([]lockstep.Job, *lockstep.Snapshot, error) {
		candidates, part, err := lockstep.Candidates(jobs(), snapshot(), index, n)
		for k := range candidates {
			n.Apply(&candidates[k], k)
		}
		return candidates, part, err
	}
	own, part, err := fork(lockstep.Noise{Kind: lockstep.RouteNoise})
	if err != nil || own[1].Draws != nil || own[1].Expected || own[1].Policy != nil ||
		part.Rollouts[0].Route != "b" ||
		part.Rollouts[2].Route != "a" {
		t.Errorf("own noise: %+v of %+v, %v", own, part, err)
	}
	candidatesKeep(t, index)
	seeded, _, err := fork(lockstep.Noise{Kind: lockstep.SeededNoise, Seeds: []uint32{1, 2, 2}})
	if err != nil || seeded[2].Draws[0] != lockstep.Draws(2, 1)[0] || len(seeded[2].Draws) != 90 {
		t.Errorf("seeded noise: %v", err)
	}
	expected, _, err := fork(lockstep.Noise{Kind: lockstep.ExpectedNoise})
	if err != nil || !expected[0].Expected {
		t.Errorf("expected noise: %v", err)
	}
	for want, n := range map[string]lockstep.Noise{
		"no noise is chosen: want route, seeded or expected": {},
		"2 seeds for 3 candidates": {
			Kind:  lockstep.SeededNoise,
			Seeds: []uint32{1, 2},
		},
		"seeds go with seeded noise, not with route": {Kind: lockstep.RouteNoise,
			Seeds: []uint32{1, 2, 3}},
	} {
		if _, _, err := fork(n); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	index = []int{2}
	if _, _, err := fork(lockstep.Noise{Kind: lockstep.RouteNoise}); err == nil ||
		err.Error() != "candidate 0: no rollout 2, want 0 to 1" {
		t.Error(err)
	}
}

// candidatesKeep: candidates have their rollouts' routes, draws and noise, and nothing else of
// their jobs, and begin where they were, without what a policy remembers; whose snapshot it is
// keeps all.
func candidatesKeep(t *testing.T, index []int) {
	t.Helper()
	whole := jobs()
	whole[0].Draws, whole[1].Expected = []float64{0.5}, true
	whole[0].Teacher, whole[1].Sampling = &lockstep.Trajectory{}, &lockstep.Sampling{}
	whole[1].Observe = func(*lockstep.Step) {}
	route := lockstep.Noise{Kind: lockstep.RouteNoise}
	from := snapshot()
	from.Profile, from.Model = lockstep.Profile{Exp: lockstep.ExpF}, "model"
	from.Rollouts[0].Policy, from.Rollouts[1].RouteSHA256 = []float64{1}, "sum"
	before := fmt.Sprintf("%+v", from)
	candidates, of, err := lockstep.Candidates(whole, from, index, route)
	if err != nil || of.Profile != from.Profile || of.Model != "model" || of.Step != 22 {
		t.Errorf("candidates of %+v, %v", of, err)
	}
	for k, i := range index {
		want := lockstep.Job{
			Route: whole[i].Route, Draws: whole[i].Draws, Expected: whole[i].Expected,
		}
		if got := candidates[k]; !reflect.DeepEqual(got, want) {
			t.Errorf("candidate %d of rollout %d is %+v, want %+v", k, i, got, want)
		}
		state := from.Rollouts[i]
		if state.Policy = nil; !reflect.DeepEqual(of.Rollouts[k], state) {
			t.Errorf("candidate %d begins at %+v, want %+v", k, of.Rollouts[k], state)
		}
	}
	if now := fmt.Sprintf("%+v", from); now != before {
		t.Errorf("the snapshot was written to: %s, before %s", now, before)
	}
}
