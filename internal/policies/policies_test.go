package policies

import (
	"testing"

	"lockstep"
	"lockstep/golden/vectors"
	"lockstep/internal/policytest"
)

// TestPythonPolicy holds the parts of a network's policy to vectors of others. The
// products are the engines'.
func TestPythonPolicy(t *testing.T) {
	policytest.Hold(t, policytest.Functions{
		Softplus: policytest.Each(softplus), Mean: meanAction,
		Beta: policytest.Each(
			func(d policytest.Draw) float32 {
				return betaVariate(d.Softplus, d.Seed, d.ID, d.Step)
			},
		),

		Observe: func(o []float32, r *lockstep.Route, step int, lataccel, action []float64) error {
			return wholePlan(r).observe(o, r, step, lataccel, action)
		},
	})
}

// TestVectors holds observations and commands to inputs on which plausible alternatives give other
// bits.
func TestVectors(t *testing.T) {
	vectors.Hold(t, "pidff", func(v vectors.Vector) any {
		policy, err := lockstep.KindPIDFF.New(v.Float64s("gains"))
		if err != nil {
			t.Fatal(err)
		}
		c, answers := NewFeedForward(policy.(lockstep.PIDFF)), []float64{}
		route := &lockstep.Route{
			TargetLataccel: v.Float64s("target"), RollLataccel: v.Float64s("roll"),
			VEgo: v.Float64s("speed"),
		}
		for k, lataccel := range v.Float64s("lataccel") {
			answers = append(answers, c.Command(route, k, lataccel))
		}
		return answers
	})
	vectors.Hold(t, "observation", func(v vectors.Vector) any {
		route := &lockstep.Route{
			TargetLataccel: v.Float64s("target"), RollLataccel: v.Float64s("roll"),
			VEgo: v.Float64s("speed"), AEgo: v.Float64s("acceleration"),
		}
		o := make([]float32, lockstep.ObservationSize)
		if err := wholePlan(route).observe(o, route, len(v.Float64s("lataccel")),
			v.Float64s("lataccel"), v.Float64s("action")); err != nil {
			t.Fatal(err)
		}
		return o
	})
}
