package gpu

import (
	"context"
	"fmt"
	"testing"

	"lockstep"
)

// blockSizes are the sizes of block that rollouts on a GPU get: as many jobs as fit
// it and more would be wanted for the large ones to be chosen by themselves.
var blockSizes = []int{1, 2, 4, 5, 6}

// TestShort is the rollout that compute-sanitizer sees: all of the kernels' ways,
// briefly; every size of block, the layer norms, the widths of the softmax. On the CPU the
// first profile has all sizes, and the others take turns with them.
func TestShort(t *testing.T) {
	profiles := []lockstep.Profile{
		{LayerNorm: lockstep.LayerNorm130, Softmax: lockstep.SoftmaxAVX512, Exp: lockstep.ExpU},
		{LayerNorm: lockstep.LayerNorm127, Softmax: lockstep.SoftmaxAVX2, Exp: lockstep.ExpF},
		{LayerNorm: lockstep.LayerNorm123, Softmax: lockstep.SoftmaxAVX512, Exp: lockstep.ExpU},
	}
	for p, profile := range profiles {
		ref := newReference(t, profile)
		var jobs []lockstep.Job
		for i := range 7 {
			jobs = append(
				jobs, lockstep.Job{Route: shorten(routes()[i], 101+i%2), Policy: policies[i%3]},
			)
		}
		opts := lockstep.Options{Shortcuts: lockstep.CostOnly, Trajectory: true}
		observed := append(jobs, lockstep.Job{Route: jobs[0].Route, Policy: weavePolicy})
		observed = append(observed, everyKind(jobs[1].Route)...)
		want := traces(t, ref, observed, opts)
		for k, size := range blockSizes {
			if p > 0 && (k+p)%2 != 0 && !onHardware(t) {
				continue
			}
			t.Run(fmt.Sprintf("%v, blocks of %d", profile, size), func(t *testing.T) {
				s := newSimulator(t, Config{Profile: profile, RoutesPerBlock: size})
				if p == 0 { // every stage of every step
					for i, got := range traces(t, s, observed, opts) {
						if d := got.difference(want[i]); d != "" {
							t.Errorf("job %d: %s", i, d)
						}
					}
				}
				for i, got := range results(t, s, context.Background(), jobs, opts) {
					if d := resultDifference(got, want[i].result); d != "" {
						t.Errorf("job %d: %s", i, d)
					}
				}
			})
		}
	}
}
