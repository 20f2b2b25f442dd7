package pandas

import (
	"testing"

	"lockstep/golden/vectors"
)

// TestVectors holds both roundings to texts on which plausible alternatives give
// other bits.
func TestVectors(t *testing.T) {
	for operation, rounding := range map[string]Rounding{
		"csv2":     TwicePerDigit,
		"csvexact": Correct,
	} {
		vectors.Hold(t, operation, func(v vectors.Vector) any {
			x, ok := ParseFloat(v.Text("text"), rounding)
			if !ok {
				return "no number"
			}
			return []float64{x}
		})
	}
}
