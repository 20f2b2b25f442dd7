package classic

import (
	"testing"

	golden "lockstep/golden/classic"
)

// TestGymnasium compares with recordings of unmodified Gymnasium.
func TestGymnasium(t *testing.T) {
	cases, err := golden.Goldens()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Name(), func(t *testing.T) {
			if err := c.Compare(Reference{}); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestFloat32 compares with NumPy's kernels for float32.
func TestFloat32(t *testing.T) {
	for name, f := range map[string]func(float32) float32{"sin32": sin32, "cos32": cos32} {
		x, y, err := golden.Function(name)
		if err != nil {
			t.Fatal(err)
		}
		for i := range x {
			if got := float64(f(float32(x[i]))); got != y[i] {
				t.Errorf("%s(%x) = %x, Python has %x", name, x[i], got, y[i])
			}
		}
	}
}
