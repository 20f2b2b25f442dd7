// Package libm computes functions of the C library with its bits, where Go's
// math package, being another approximation, has others: glibc 2.28 to 2.41 on a
// CPU with FMA.
package libm

import (
	_ "embed"
	"math"
	"slices"
	"strconv"
	"strings"
)

// SinLimit is where glibc begins to reduce angles with more digits of π.
const SinLimit = 0x1.921fbp26 // 105,414,336

// sincostab holds, for k = 0..109, four float64 as hexadecimal words: sin(k/128)
// and its residual, cos(k/128) and its residual.
//
//go:embed sincostab.hex
var sincosHex string

var sincosTable = floats("sincostab.hex", sincosHex)

// twoOverPi holds 2/π in base 2²⁴, the digits behind the point, as far as float64
// can need them.
//
//go:embed two_over_pi.hex
var twoOverPiHex string

var twoOverPi = digits(words("two_over_pi.hex", twoOverPiHex))

func digits(words []uint64) []float64 {
	var table []float64
	for _, w := range words {
		table = append(table, float64(w))
	}
	return table
}

// words reads the hexadecimal words of a table.
func words(name, text string) []uint64 {
	var table []uint64
	for word := range strings.FieldsSeq(text) {
		bits, err := strconv.ParseUint(word, 16, 64)
		if err != nil {
			panic("libm: " + name + ": " + err.Error())
		}
		table = append(table, bits)
	}
	return table
}

func floats(name, text string) []float64 {
	var table []float64
	for _, bits := range words(name, text) {
		table = append(table, math.Float64frombits(bits))
	}
	return table
}

// Coefficients of sine and cosine beside a table's point, and π/2 as a sum.
const (
	sn3 = -1.66666666666664880952546298448555e-01
	sn5 = 8.33333214285722277379541354343671e-03
	cs2 = 4.99999999999999999999950396842453e-01
	cs4 = -4.16666666666664434524222570944589e-02
	cs6 = 1.38888874007937613028114285595617e-03

	halfPi     = 0x1.921fb54442d18p0
	halfPiRest = 0x1.1a62633145c07p-54
)

// Sin is glibc's sin(x); NaN for what is not finite. The largest error is 0.55 ulp.
func Sin(x float64) float64 {
	switch word := highWord(x); {
	case word < 0x3e500000: // 2⁻²⁶
		return x
	case word < 0x3feb6000: // 0.855469
		return sinSum(x, 0)
	case word < 0x400368fd: // 2.426265
		return math.Copysign(cosSum(halfPi-math.Abs(x), halfPiRest), x)
	case word < 0x419921fb:
		a, da, n := reduce(x)
		return quadrant(a, da, n)
	case word < 0x7ff00000:
		a, da, n := reduceFar(x)
		return quadrant(a, da, n)
	}
	return x - x // the NaN that the CPU makes, as in C
}

// Cos is glibc's cos(x); NaN for what is not finite.
func Cos(x float64) float64 {
	switch word := highWord(x); {
	case word < 0x3e400000: // 2⁻²⁷
		return 1
	case word < 0x3feb6000:
		return cosSum(x, 0)
	case word < 0x400368fd:
		y := halfPi - math.Abs(x)
		a := y + halfPiRest
		return sinSum(a, (y-a)+halfPiRest)
	case word < 0x419921fb:
		a, da, n := reduce(x)
		return quadrant(a, da, n+1)
	case word < 0x7ff00000:
		a, da, n := reduceFar(x)
		return quadrant(a, da, n+1)
	}
	return x - x
}

// highWord is the upper half of |x|.
func highWord(x float64) uint32 { return uint32(math.Float64bits(x)>>32) &^ (1 << 31) }

// quadrant is the sine of a + da + n·π/2.
func quadrant(a, da float64, n int64) float64 {
	y := 0.0
	if n&1 != 0 {
		y = cosSum(a, da)
	} else {
		y = sinSum(a, da)
	}
	if n&2 != 0 {
		return -y
	}
	return y
}

// reduce returns n, the integer nearest x·2/π, and a + da = x - n·π/2.
func reduce(x float64) (a, da float64, n int64) {
	const big = 0x1.8p52
	t := math.FMA(x, 0x1.45f306dc9c883p-1, big)
	k := t - big
	y := math.FMA(-k, 0x1.921fb58p0, x)
	y = math.FMA(-k, -0x1.dde973cp-27, y)
	const p3 = -0x1.cb3b398p-55
	t2 := math.FMA(-k, p3, y)
	d1 := math.FMA(-k, p3, y-t2)
	const p4 = -0x1.d747f23e32ed7p-83
	a = math.FMA(-k, p4, t2)
	d2 := math.FMA(-k, p4, t2-a)
	return a, d1 + d2, int64(math.Float64bits(t))
}

// reduceFar is reduce for any finite |x| >= SinLimit, n modulo 4. It multiplies both
// halves of x by those six digits of 2/π that matter: further to the left they make
// whole turns, further to the right nothing.
func reduceFar(x float64) (a, da float64, n int64) {
	high, low := halves(x * 0x1p-600)
	b1, rest1, n1 := quarters(high)
	b2, rest2, n2 := quarters(low)
	turns := n1 + n2
	b := b1 + b2
	rest := (b2 - b) + b1
	if math.Abs(b1) > math.Abs(b2) {
		rest = (b1 - b) + b2
	}
	switch {
	case b > 0.5:
		b--
		turns++
	case b < -0.5:
		b++
		turns--
	}
	s := b + (rest + rest1 + rest2)
	t := ((b - s) + rest) + (rest1 + rest2)

	// (s + t)·π/2; where the product of s is rounded is not where its rest is.
	const p1, p2 = 0x1.921fb58p0, -0x1.dde974p-27
	s1, s2 := halves(s)
	y := float64(s * halfPi)
	rest = ((float64(s1*p1) - y) + float64(s1*p2)) + float64(s2*p1)
	rest += (float64(s2*p2) + float64(s*halfPiRest)) + float64(t*halfPi)
	a = y + rest
	return a, (y - a) + rest, int64(turns)
}

// quarters is x·2⁶⁰⁰·2/π as b + rest quarters of a turn and n more, n modulo 4. x
// has at most 26 bits, so that its products with digits are exact.
func quarters(x float64) (b, rest, n float64) {
	const whole, four = 0x1.8p52, 0x1.8p54 // their last bits are 1 and 4
	exponent := int(highWord(x) >> 20)
	first := max((exponent-450)/24, 0)
	var r [6]float64
	for i := range r {
		r[i] = math.Ldexp(x*twoOverPi[first+i], 576-24*(first+i))
	}
	for i := range 3 {
		s := (r[i] + whole) - whole
		n += s
		r[i] -= s
	}
	t := 0.0
	for i := range r {
		t += r[5-i]
	}
	rest = r[0] - t
	for _, x := range r[1:] {
		rest += x
	}
	s := (t + whole) - whole
	n += s
	t -= s
	b = t + rest
	rest = (t - b) + rest
	return b, rest, n - ((n + four) - four)
}

// halves is x as a sum of two numbers of at most 26 bits each.
func halves(x float64) (high, low float64) {
	t := float64(x * (1<<27 + 1))
	high = t - (t - x)
	return high, x - high
}

// nearest returns the nearest k/128, as its place in the table, and |a| less it.
func nearest(a float64) (k int, h float64) {
	const big = 0x1.8p45 // its last bit is 1/128
	u := big + math.Abs(a)
	return 4 * int(uint32(math.Float64bits(u))), math.Abs(a) - (u - big)
}

// sinSum is sin(a + da), da being below a's last bit.
func sinSum(a, da float64) float64 {
	if math.Abs(a) < 0.126 { // Taylor
		xx := a * a
		p := math.FMA(
			math.Float64frombits(0xbe5addffc2fcdf59), xx, math.Float64frombits(0x3ec71de27b9a7ed9))
		p = math.FMA(p, xx, math.Float64frombits(0xbf2a01a019db08b8))
		p = math.FMA(p, xx, math.Float64frombits(0x3f81111111110ece))
		p = math.FMA(p, xx, math.Float64frombits(0xbfc5555555555555))
		return a + math.FMA(xx, math.FMA(p, a, -(0.5*da)), da)
	}
	if a <= 0 {
		da = -da
	}
	k, h := nearest(a)
	sn, ssn, cs, ccs := sincosTable[k], sincosTable[k+1], sincosTable[k+2], sincosTable[k+3]
	xx := h * h
	s := h + math.FMA(h*xx, math.FMA(xx, sn5, sn3), da)
	c := math.FMA(h, da, float64(xx*math.FMA(xx, math.FMA(xx, cs6, cs4), cs2)))
	cor := math.FMA(ccs, s, ssn)
	cor = math.FMA(-c, sn, cor)
	cor = math.FMA(s, cs, cor)
	return math.Copysign(sn+cor, a)
}

// cosSum is cos(a + da).
func cosSum(a, da float64) float64 {
	if a < 0 {
		da = -da
	}
	k, h := nearest(a)
	h += da
	sn, ssn, cs, ccs := sincosTable[k], sincosTable[k+1], sincosTable[k+2], sincosTable[k+3]
	xx := h * h
	s := math.FMA(h*xx, math.FMA(xx, sn5, sn3), h)
	c := xx * math.FMA(xx, math.FMA(xx, cs6, cs4), cs2)
	cor := math.FMA(-ssn, s, ccs)
	cor = math.FMA(-c, cs, cor)
	cor = math.FMA(-s, sn, cor)
	return cs + cor
}

// TwoOverPi is 2/π in base 2²⁴, the first 47 digits behind the point.
func TwoOverPi() []float64 { return slices.Clone(twoOverPi) }

// SinCosTable is, for k = 0..109, sin(k/128), its residual, cos(k/128), its residual.
func SinCosTable() []float64 { return slices.Clone(sincosTable) }
