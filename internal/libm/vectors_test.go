package libm

import (
	"testing"

	"lockstep/golden/vectors"
)

// TestVectors holds the sine to rolls on which plausible alternatives give other
// bits, most of them beside the edges of its branches.
func TestVectors(t *testing.T) {
	vectors.Hold(
		t, "roll-lataccel",
		func(v vectors.Vector) any { return []float64{Sin(v.Float64("roll")) * 9.81} })
}
