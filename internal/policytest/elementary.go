package policytest

import (
	"math"
	"math/rand/v2"
	"testing"
)

// HoldElementary compares an engine's e^x, natural logarithm and log((1+s)/(1-s)) with Go's. The
// engine's may be two ulps from the true number, as they promise, and so may Go's: they may differ
// by four. Other tests would not see five: what they compare, softplus and variates, is rounded to
// float32.
func HoldElementary(t *testing.T, exp, log, atanh2 func(float64) float64) {
	t.Helper()
	const promised, others = 2, 2
	r := rand.New(rand.NewPCG(1, 2))
	hold := func(name string, f, want func(float64) float64, x float64) {
		t.Helper()
		g, w := f(x), want(x)
		ulp := math.Nextafter(math.Abs(w), math.Inf(1)) - math.Abs(w)
		if !(math.Abs(g-w) <= (promised+others)*ulp) {
			t.Errorf(
				"%s(%v) is %v, Go has %v: %.3g ulps from it", name, x, g, w, math.Abs(g-w)/ulp,
			)
		}
	}
	logarithm := func(s float64) float64 { return 2 * math.Atanh(s) }
	for range 3000 {
		hold("exp", exp, math.Exp, 1400*r.Float64()-700)
		hold("exp", exp, math.Exp, r.NormFloat64())
		hold("log", log, math.Log, math.Ldexp(1+r.Float64(), r.IntN(2044)-1022))
		hold("log", log, math.Log, 0.5+r.Float64())
		hold("atanh2", atanh2, logarithm, 2*r.Float64()/3-1.0/3)
	}
	for _, x := range []float64{-700, 0, 700} {
		hold("exp", exp, math.Exp, x)
	}
	for _, x := range []float64{0x1p-1022, 0.5, 1, math.Sqrt2, math.MaxFloat64} {
		for _, x := range []float64{x, math.Nextafter(x, 2), max(0x1p-1022, math.Nextafter(x, 0))} {
			hold("log", log, math.Log, x)
		}
	}
	// Half-way between two powers of 2 it is the even one: the last bit is another by the odd one.
	for x, want := range map[float64]float64{
		0x1.e7f9c1e980fa9p+01: 0x1.6a09e667f3bccp+05, 0x1.0076e6a42d3dep+06: 0x1.6a09e667f3bd9p+92,
	} {
		if got := exp(x); got != want {
			t.Errorf("exp(%x) is %x, want %x", x, got, want)
		}
	}
	// √2 itself is halved: one exponent down, its last bit is another here.
	if got := log(0x1.6a09e667f3bcdp-20); got != -0x1.b0861a6c0f69cp+3 {
		t.Errorf("log(2^-20·√2) is %x, want %x", got, -0x1.b0861a6c0f69cp+3)
	}
}
