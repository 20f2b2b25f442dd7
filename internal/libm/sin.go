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

// SinLimit bounds |x| of Sin and Cos: beyond it glibc reduces the angle in a way
// that is not established here.
const SinLimit = 0x1.921fbp26 // 105,414,336

// sincostab holds, for k = 0..109, four float64 as hexadecimal words: sin(k/128)
// and its residual, cos(k/128) and its residual.
//
//go:embed sincostab.hex
var sincosHex string

var sincosTable = floats("sincostab.hex", sincosHex)

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

// Sin is glibc's sin(x) for |x| < SinLimit; NaN elsewhere. The largest error is
// 0.55 ulp.
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
	}
	return math.NaN()
}

// Cos is glibc's cos(x) for |x| < SinLimit; NaN elsewhere.
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
	}
	return math.NaN()
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
		p := math.FMA(math.Float64frombits(0xbe5addffc2fcdf59), xx, math.Float64frombits(0x3ec71de27b9a7ed9))
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

// SinCosTable is, for k = 0..109, sin(k/128), its residual, cos(k/128), its residual.
func SinCosTable() []float64 { return slices.Clone(sincosTable) }
