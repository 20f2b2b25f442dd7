package lockstep_test

import (
	"testing"

	"lockstep"
	"lockstep/internal/simtest"
)

// TestUniforms: given draws come first; stored ones serve only the seed that they
// belong to.
func TestUniforms(t *testing.T) {
	seen := map[float64]uint32{}
	for seed := range uint32(10_000) { // all that a path can have
		first := lockstep.Draws(seed, 1)[0]
		if other, ok := seen[first]; ok {
			t.Fatalf("seeds %d and %d have the same first draw", seed, other)
		}
		seen[first] = seed
	}
	want := lockstep.Draws(77, 500)
	for name, j := range map[string]lockstep.Job{
		"given": {Route: &lockstep.Route{Seed: 78, Draws: lockstep.Draws(78, 500)},
			Draws: want[:400]},
		"stored":       {Route: &lockstep.Route{Seed: 77, Draws: want}},
		"too few":      {Route: &lockstep.Route{Seed: 77, Draws: want[:10]}},
		"none":         {Route: &lockstep.Route{Seed: 77}},
		"another seed": {Route: &lockstep.Route{Seed: 77, Draws: lockstep.Draws(78, 500)}},
	} {
		if err := simtest.Same("draws", j.Uniforms(400), want[:400]); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
