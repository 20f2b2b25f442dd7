package reference

import "math"

// Elementary functions of float64 that are the same everywhere: a few terms of a
// series, one rounding an operation. They are within four half-ulps, which softplus
// does not show: its float32 is the correctly rounded one.

const (
	log2E = 1.4426950408889634
	ln2Hi = 0x1.62e42feep-1       // few bits: its product with an exponent is exact
	ln2Lo = 0x1.a39ef35793c76p-33 // ln 2 = ln2Hi + ln2Lo
	// shifter added and subtracted rounds to an integer.
	shifter = 6755399441055744.0
)

// factorials are 1/13!, 1/12!, … 1/1!, 1/0!.
var factorials = func() (c [14]float64) {
	f := 1.0
	for i := range c {
		c[len(c)-1-i] = 1 / f
		f *= float64(i + 1)
	}
	return c
}()

// exp is e to the x, for x from -700 to 700.
func exp(x float64) float64 {
	k := (float64(x*log2E) + shifter) - shifter
	r := (x - float64(k*ln2Hi)) - float64(k*ln2Lo)
	p := factorials[0]
	for _, c := range factorials[1:] {
		p = float64(p*r) + c
	}
	return p * math.Float64frombits(uint64(int64(k)+1023)<<52)
}

// atanh2 is 2·artanh(s), which is log((1+s)/(1-s)), for |s| to 1/3.
func atanh2(s float64) float64 {
	q := s * s
	p := 2.0 / 35
	for i := 33.0; i >= 1; i -= 2 {
		p = float64(p*q) + 2/i
	}
	return s * p
}

// log is the natural logarithm of a normal x > 0.
func log(x float64) float64 {
	bits := math.Float64bits(x)
	k := float64(int64(bits>>52) - 1023)
	m := math.Float64frombits(bits&(1<<52-1) | 1023<<52)
	if m >= 1.4142135623730951 {
		m /= 2
		k++
	}
	f := m - 1
	l := atanh2(f / (2 + f))
	return float64(k*ln2Hi) + (float64(k*ln2Lo) + l)
}

// softplus is log(1 + e^x).
func softplus(x float32) float32 {
	z := float64(x)
	t := exp(-min(math.Abs(z), 700))
	l := atanh2(t / (2 + t))
	if z > 0 {
		return float32(z + l)
	}
	return float32(l)
}
