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
