package lockstep_test

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"lockstep"
)

func snapshot() *lockstep.Snapshot {
	return &lockstep.Snapshot{
		Profile: lockstep.Profile{CSV: lockstep.CSVExact}, Model: "5beca7f0", Step: 22,
		Rollouts: []lockstep.RolloutState{
			{Route: "a", Lataccel: make([]float64, 22), Action: make([]float64, 22), Policy: []float64{math.Inf(1), -0.25}},
			{Route: "b", Lataccel: make([]float64, 21), Action: make([]float64, 21), Err: "step 21: no"},
		},
	}
}

// jobs are those of snapshot.
func jobs() []lockstep.Job {
	route := func(name string) *lockstep.Route {
		return &lockstep.Route{Name: name, TargetLataccel: make([]float64, 110)}
	}
	return []lockstep.Job{{Route: route("a"), Policy: lockstep.DefaultPID()}, {Route: route("b"), Policy: lockstep.Zero{}}}
}

// TestSnapshotBytes: a snapshot keeps its bits through its bytes, and no changed or
// missing byte of numbers goes unnoticed.
func TestSnapshotBytes(t *testing.T) {
	s := snapshot()
	s.Rollouts[0].Lataccel[3] = math.Copysign(0, -1)
	s.Rollouts[0].Action[5] = math.SmallestNonzeroFloat64
	data, err := s.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	var read lockstep.Snapshot
	if err := read.UnmarshalBinary(data); err != nil || !reflect.DeepEqual(&read, s) || !math.Signbit(read.Rollouts[0].Lataccel[3]) {
		t.Fatalf("reads back as %+v, %v", read, err)
	}
	for i := range data {
		damaged := append([]byte(nil), data...)
		damaged[i] ^= 1
		if read.UnmarshalBinary(damaged) == nil || read.UnmarshalBinary(data[:i]) == nil {
			t.Fatalf("a snapshot whose byte %d is changed, or that ends there, reads", i)
		}
	}
	later := strings.Replace(string(data), `"lockstep_snapshot":1`, `"lockstep_snapshot":2`, 1)
	if err := read.UnmarshalBinary([]byte(later)); err == nil || err.Error() != "a snapshot of version 2, this program reads version 1" {
		t.Error(err)
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
	own, part, err := fork(lockstep.Noise{Kind: lockstep.OwnNoise})
	if err != nil || own[1].Draws != nil || own[1].Expected || own[1].Policy != nil || part.Rollouts[0].Route != "b" || part.Rollouts[2].Route != "a" {
		t.Errorf("own noise: %+v of %+v, %v", own, part, err)
	}
	seeded, _, err := fork(lockstep.Noise{Kind: lockstep.SeededNoise, Seeds: []uint32{1, 2, 2}})
	if err != nil || seeded[2].Draws[0] != lockstep.Draws(2, 1)[0] || len(seeded[2].Draws) != 90 {
		t.Errorf("seeded noise: %v", err)
	}
	expected, _, err := fork(lockstep.Noise{Kind: lockstep.ExpectedNoise})
	if err != nil || !expected[0].Expected {
		t.Errorf("expected noise: %v", err)
	}
	for want, n := range map[string]lockstep.Noise{
		"no noise is chosen: want own, seeded or expected": {},
		"2 seeds for 3 candidates":                         {Kind: lockstep.SeededNoise, Seeds: []uint32{1, 2}},
		"seeds go with seeded noise, not with own":         {Kind: lockstep.OwnNoise, Seeds: []uint32{1, 2, 3}},
	} {
		if _, _, err := fork(n); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	index = []int{2}
	if _, _, err := fork(lockstep.Noise{Kind: lockstep.OwnNoise}); err == nil || err.Error() != "candidate 0: no rollout 2, want 0 to 1" {
		t.Error(err)
	}
}
