package snapshotfile_test

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"lockstep"
	"lockstep/snapshotfile"
)

// TestBytes: a snapshot keeps its bits through its bytes, and no changed or
// missing byte of numbers goes unnoticed.
func TestBytes(t *testing.T) {
	s := &lockstep.Snapshot{
		Profile: lockstep.Profile{CSV: lockstep.CSVExact}, Model: "5beca7f0", Step: 22,
		Rollouts: []lockstep.RolloutState{
			{
				Route:    "a",
				Lataccel: make([]float64, 22),
				Action:   make([]float64, 22),
				Policy:   []float64{math.Inf(1), -0.25},
			},
			{
				Route:    "b",
				Lataccel: make([]float64, 21),
				Action:   make([]float64, 21),
				Err:      "step 21: no",
			},
		},
	}
	s.Rollouts[0].Lataccel[3] = math.Copysign(0, -1)
	s.Rollouts[0].Action[5] = math.SmallestNonzeroFloat64
	data, err := snapshotfile.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	read, err := snapshotfile.Unmarshal(data)
	if err != nil || !reflect.DeepEqual(read, s) || !math.Signbit(read.Rollouts[0].Lataccel[3]) {
		t.Fatalf("reads back as %+v, %v", read, err)
	}
	for i := range data {
		damaged := append([]byte(nil), data...)
		damaged[i] ^= 1
		if _, err := snapshotfile.Unmarshal(damaged); err == nil {
			t.Fatalf("a snapshot whose byte %d is changed reads", i)
		}
		if _, err := snapshotfile.Unmarshal(data[:i]); err == nil {
			t.Fatalf("a snapshot that ends before byte %d reads", i)
		}
	}
	later := strings.Replace(string(data), `"lockstep_snapshot":1`, `"lockstep_snapshot":2`, 1)
	const want = "a snapshot of version 2, this program reads version 1"
	if _, err := snapshotfile.Unmarshal([]byte(later)); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
