package policies

import (
	"testing"

	"lockstep/internal/policytest"
)

func TestElementary(t *testing.T) {
	policytest.HoldElementary(t, exponential, logarithm, func(s float64) float64 {
		return quotientLog(2 * s / (1 - s))
	})
}
