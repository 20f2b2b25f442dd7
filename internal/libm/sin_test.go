package libm

import (
	"math"
	"testing"

	"lockstep/internal/goldentest"
)

// TestSinPython compares with np.sin where NumPy calls glibc.
func TestSinPython(t *testing.T) {
	x, y := goldentest.Array[float64](t, "sin_x"), goldentest.Array[float64](t, "sin_y")
	if len(x) < 20000 {
		t.Errorf("%d cases, want 20000", len(x))
	}
	differ := 0
	for i := range x {
		if got := Sin(x[i]); math.Float64bits(got) != math.Float64bits(y[i]) {
			t.Errorf("Sin(%v) = %v, Python has %v", x[i], got, y[i])
		}
		if math.Float64bits(math.Sin(x[i])) != math.Float64bits(y[i]) {
			differ++
		}
	}
	if differ == 0 {
		t.Error("math.Sin gives the same bits on all cases: they cannot tell the two apart")
	}
}

func TestSinInfinite(t *testing.T) {
	for _, x := range []float64{math.Inf(1), math.Inf(-1), math.NaN()} {
		if got := [2]float64{Sin(x), Cos(x)}; !math.IsNaN(got[0]) || !math.IsNaN(got[1]) {
			t.Errorf("sine and cosine of %v are %v, want NaN", x, got)
		}
	}
}

// TestSinEdges: angles beside π/2, and where the reduction of large ones begins, at which glibc's
// sine or cosine has another last bit when the rest of π/2 is subtracted, or when the reduction of
// smaller angles goes on; far ones so near to whole quarters of a turn that the rests of their
// halves are no longer small beside what is left; one of which 0.126 is left, less a rest with
// which the series has another last bit than the table; one half-way between two quarters; one that
// sees the last bit of the series' third coefficient; and two at which a term of the reduction, or
// of the series, as a float32 gives another last bit.
func TestSinEdges(t *testing.T) {
	for _, c := range [][3]float64{
		{0x1.8bf3d9e440594p+0, 0x1.ffd9eaacf0933p-1, 0x1.8aed0d07c6827p-6},
		{0x1.b0448bab4afcfp+0, 0x1.fc7465177995cp-1, -0x1.e1304806a593cp-4},
		{0x1.9fc56fd0a2cf4p+0, 0x1.ff45cb0e3fe60p-1, -0x1.b4825f02cc39ep-5},
		{0x1.921fb7a5a4a09p+26, -0x1.8bf142ed4f57cp-4, -0x1.fd9a2da5d46dbp-1},
		{0x1.921fb797f7ee0p+26, 0x1.dd8639e3e8f46p-4, -0x1.fc823663d97b6p-1},
		{0x1.921fbf7d9c487p+26, -0x1.c572fbc75f5fbp-5, -0x1.ff370c87fe08dp-1},
		{0x1.921fb8cfffa0fp+26, 0x1.ff73f29d30245p-1, -0x1.7a993ff432e3fp-5},
		{0x1.d21f67792066p+1009, -1, -0x1.62c8d928802fbp-54},
		{0x1.1d2fbaaf3583fp+493, -0x1.6e087b154351fp-50, 1},
		{0x1.2aa2ff7e7c6dp+600, -0x1.015da194e500ep-3, 0x1.fbf0ed1ec08edp-1},
		{0x1.7512069b7430dp+46, -0x1.6a09e667f3bcdp-1, -0x1.6a09e667f3bcdp-1},
		{0x1.e56d29fc98f5ap-4, 0x1.e44a78aaa3879p-4, 0x1.fc689cdbd3c38p-1},
		{0x1.21cfda23b228p+9, 1, -0x1.1f05e0bf4eb43p-51},
		{0x1.f7704dd0930fbp-4, 0x1.f62c0db5d0a54p-4, 0x1.fc23346599cdcp-1},
	} {
		for _, sign := range []float64{1, -1} {
			x, sin, cos := sign*c[0], sign*c[1], c[2]
			if Sin(x) != sin || Cos(x) != cos {
				t.Errorf("sine and cosine of %x are %x and %x, glibc has %x and %x",
					x, Sin(x), Cos(x), sin, cos)
			}
		}
	}
}
