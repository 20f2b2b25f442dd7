// Package libm computes functions of the C library with its bits, where Go's
// math package, being another approximation, has others.
package libm

import (
	_ "embed"
	"math"
	"strconv"
	"strings"
)

// SinLimit bounds |x| of Sin: beyond it glibc takes branches whose order of
// operations is not established here.
const SinLimit = 0.855469

// sincostab holds, for k = 0..109, four float64 as hexadecimal words: sin(k/128)
// and its residual, cos(k/128) and its residual.
//
//go:embed sincostab.hex
var sincosHex string

var sincosTable = parseTable(sincosHex)

func parseTable(text string) []float64 {
	var table []float64
	for word := range strings.Lines(text) {
		bits, err := strconv.ParseUint(strings.TrimSpace(word), 16, 64)
		if err != nil {
			panic("libm: sincostab.hex: " + err.Error())
		}
		table = append(table, math.Float64frombits(bits))
	}
	return table
}

// Sin is glibc's sin(x), 2.28 to 2.41, as it runs on a CPU with FMA, for
// |x| < SinLimit; it returns NaN elsewhere. The largest error is 0.55 ulp.
func Sin(x float64) float64 {
	const (
		sn3 = -1.66666666666664880952546298448555e-01
		sn5 = 8.33333214285722277379541354343671e-03
		cs2 = 4.99999999999999999999950396842453e-01
		cs4 = -4.16666666666664434524222570944589e-02
		cs6 = 1.38888874007937613028114285595617e-03
		big = 0x1.8p45 // its last bit is 1/128
	)
	abs := math.Abs(x)
	switch {
	case abs < 0x1p-26:
		return x
	case abs < 0.126: // Taylor
		xx := x * x
		p := math.FMA(math.Float64frombits(0xbe5addffc2fcdf59), xx, math.Float64frombits(0x3ec71de27b9a7ed9))
		p = math.FMA(p, xx, math.Float64frombits(0xbf2a01a019db08b8))
		p = math.FMA(p, xx, math.Float64frombits(0x3f81111111110ece))
		p = math.FMA(p, xx, math.Float64frombits(0xbfc5555555555555))
		return x + float64(float64(p*x)*xx)
	case abs < SinLimit: // table at the nearest k/128, polynomials in the rest h
		u := big + abs
		h := abs - (u - big)
		k := 4 * int(uint32(math.Float64bits(u)))
		sn, ssn, cs, ccs := sincosTable[k], sincosTable[k+1], sincosTable[k+2], sincosTable[k+3]
		xx := h * h
		s := h + float64(float64(h*xx)*math.FMA(xx, sn5, sn3))
		c := xx * math.FMA(xx, math.FMA(xx, cs6, cs4), cs2)
		cor := math.FMA(s, ccs, ssn)
		cor = math.FMA(-sn, c, cor)
		cor = math.FMA(cs, s, cor)
		return math.Copysign(sn+cor, x)
	}
	return math.NaN()
}
