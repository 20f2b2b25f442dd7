package libm

import (
	"math"
	"testing"

	golden "lockstep/golden/classic"
)

// TestFunctionsPython compares with values of Python that simpler formulas miss: half of the
// squares are near the midpoint of two numbers, where a last bit of any term shows, and some of the
// other arguments were searched for one term each (golden/classic/record.py).
func TestFunctionsPython(t *testing.T) {
	for name, f := range map[string]struct{ exact, simple func(float64) float64 }{
		"sin": {Sin, math.Sin},
		"cos": {Cos, math.Cos},
		"pow": {Pow2, func(x float64) float64 { return x * x }},
		"powf": {
			func(x float64) float64 { return float64(Powf2(float32(x))) },
			func(x float64) float64 { return float64(float32(x) * float32(x)) },
		},
	} {
		x, y, err := golden.Function(name)
		if err != nil {
			t.Fatal(err)
		}
		differ := 0
		for i := range x {
			if got := f.exact(x[i]); math.Float64bits(got) != math.Float64bits(y[i]) {
				t.Errorf("%s(%x) = %x, Python has %x", name, x[i], got, y[i])
			}
			if f.simple(x[i]) != y[i] {
				differ++
			}
		}
		if differ == 0 {
			t.Errorf("%s: the simple formula gives the same bits on all values: "+
				"they cannot tell the two apart", name)
		}
	}
}
