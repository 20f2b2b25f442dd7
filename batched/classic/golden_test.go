package classic

import (
	"testing"

	golden "lockstep/golden/classic"
)

// TestGymnasium compares every set of kernels with recordings of unmodified
// Gymnasium.
func TestGymnasium(t *testing.T) {
	cases, err := golden.Goldens()
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range append(assembly(), plain) {
		for _, c := range cases {
			t.Run(k.name+"/"+c.Name(), func(t *testing.T) {
				if err := c.Compare(Batched{kernels: k}); err != nil {
					t.Error(err)
				}
			})
		}
	}
}
