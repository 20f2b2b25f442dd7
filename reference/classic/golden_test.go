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

// TestQuarterTurns: beside quarters of a turn, where all parts of π/2 show, sine and cosine are
// those of NumPy 2.2.6.
func TestQuarterTurns(t *testing.T) {
	for _, c := range []struct{ x, sin, cos float32 }{
		{0x1.921fb6p+0, 0x1p+0, -0x1.777a5cp-25}, {0x1.921fb6p+1, -0x1.777a5cp-24, -0x1p+0},
		{0x1.2d97c8p+2, -0x1p+0, 0x1.99bc5cp-27}, {0x1.921fb6p+2, 0x1.777a5cp-23, 0x1p+0},
		{-0x1.921fb6p+0, -0x1p+0, -0x1.777a5cp-25}, {-0x1.921fb6p+1, 0x1.777a5cp-24, -0x1p+0},
		{0x1.921fb6p+3, 0x1.777a5cp-22, 0x1p+0}, {0x1.921fb6p+6, 0x1.777a5cp-19, 0x1p+0},
		{0x1.88b2f8p+10, 0x1.f6ad8p-15, 0x1p+0}, {0x1.141dd6p+16, 0x1.42e3f4p-10, 0x1.ffffe6p-1},
		{0x1.921fb8p+0, 0x1p+0, -0x1.5dde98p-23}, {0x1.921fb8p+1, -0x1.5dde98p-22, -0x1p+0},
		{0x1.2d97cap+2, -0x1p+0, 0x1.0666f2p-21}, {0x1.921fb8p+2, 0x1.5dde98p-21, 0x1p+0},
		{-0x1.921fb4p+0, -0x1p+0, 0x1.4442d2p-24}, {-0x1.921fb4p+1, -0x1.4442d2p-23, -0x1p+0},
		{0x1.921fb8p+3, 0x1.5dde98p-20, 0x1p+0}, {0x1.921fb8p+6, 0x1.5dde98p-17, 0x1p+0},
		{0x1.88b2fap+10, 0x1.7dab6p-13, 0x1p+0}, {0x1.141dd8p+16, 0x1.285b78p-7, 0x1.fffaa4p-1},
	} {
		if sin, cos := sin32(c.x), cos32(c.x); sin != c.sin || cos != c.cos {
			t.Errorf("%x: %x and %x, NumPy has %x and %x", c.x, sin, cos, c.sin, c.cos)
		}
	}
}
