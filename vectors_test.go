package lockstep_test

import (
	"testing"

	"lockstep"
	"lockstep/golden/vectors"
)

// TestVectors holds seeds and draws to inputs on which plausible alternatives
// give other bits.
func TestVectors(t *testing.T) {
	vectors.Hold(
		t, "seed",
		func(v vectors.Vector) any { return []int64{int64(lockstep.Seed(v.Text("path")))} },
	)
	vectors.Hold(
		t, "draws", func(v vectors.Vector) any { return lockstep.Draws(uint32(v.Int("seed")), 40) },
	)
}
