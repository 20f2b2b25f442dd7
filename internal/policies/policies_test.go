package policies

import (
	"testing"

	"lockstep"
	"lockstep/internal/policytest"
)

// TestPythonPolicy holds the parts of a network's policy to vectors of others. The
// products are the engines'.
func TestPythonPolicy(t *testing.T) {
	policytest.Hold(t, policytest.Functions{
		Softplus: policytest.Each(softplus), Mean: meanAction,
		Beta: policytest.Each(func(d policytest.Draw) float32 { return betaVariate(d.Softplus, d.Seed, d.ID, d.Step) }),

		Observe: func(o []float32, r *lockstep.Route, step int, lataccel, action []float64) error {
			return newPlan(r).observe(o, r, step, lataccel, action)
		},
	})
}
