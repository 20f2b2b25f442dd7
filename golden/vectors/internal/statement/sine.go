package statement

import (
	_ "embed"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"

	"lockstep/golden/vectors"
)

// sincosTable is glibc's: sin(k/128) and its residual, cos(k/128) and its
// residual, for k from 0 to 109.
//
//go:embed sincostab.hex
var sincosTable string

var sincos = func() (table []float64) {
	for _, word := range strings.Fields(sincosTable) {
		bits, err := strconv.ParseUint(word, 16, 64)
		if err != nil {
			panic(err)
		}
		table = append(table, math.Float64frombits(bits))
	}
	return table
}()

// fma64 is x·y + z rounded once.
func (a *Arithmetic) fma64(place string, x, y, z float64) float64 {
	if a.is(rounded, place) {
		return float64(x*y) + z
	}
	return math.FMA(x, y, z)
}

// sine: a route's roll as a lateral acceleration.
func sine() []Operation {
	edges := []float64{0x1p-26, 0.126, 0.855468, 1.0 / 256, 33.0 / 256}
	return []Operation{{
		Name: "roll-lataccel", Line: "`sin(roll)·9.81`", Tries: 8_000_000,
		Draws: []func(r *rand.Rand) map[string]any{
			func(r *rand.Rand) map[string]any {
				return args("roll", []float64{1.71*r.Float64() - 0.855})
			},
			func(r *rand.Rand) map[string]any {
				return args("roll", []float64{0.252*r.Float64() - 0.126})
			},
			func(r *rand.Rand) map[string]any {
				bits := math.Float64bits(edges[r.IntN(len(edges))]) + uint64(r.IntN(200)) - 100
				return args("roll", []float64{math.Float64frombits(bits)})
			},
			func(r *rand.Rand) map[string]any { // where the nearest k/128 is another
				return args(
					"roll", []float64{(float64(r.IntN(93)+16) + .5 + 1e-12*r.NormFloat64()) / 128},
				)
			},
		},
		Right: func(a *Arithmetic, v vectors.Vector) any {
			return []float64{sin(a, v.Float64("roll")) * a.c64("gravity", 9.81)}
		},
		Others: map[string]func(v vectors.Vector) any{
			"Go's sine": func(v vectors.Vector) any {
				return []float64{math.Sin(v.Float64("roll")) * 9.81}
			},
		},
	}}
}

// sin is glibc's on a CPU with FMA, for |x| < 0.855469.
func sin(a *Arithmetic, x float64) float64 {
	bits := math.Float64frombits
	abs := math.Abs(x)
	if abs < 0x1p-26 {
		return x
	}
	if abs < 0.126 != (a.is(otherSide, "edge of the Taylor polynomial") && abs == 0.126) {
		xx := x * x
		p := a.c64("Taylor 11", bits(0xbe5addffc2fcdf59))
		for _, t := range []struct {
			place string
			c     uint64
		}{
			{"Taylor 9", 0x3ec71de27b9a7ed9},
			{"Taylor 7", 0xbf2a01a019db08b8},
			{"Taylor 5", 0x3f81111111110ece},
			{"Taylor 3", 0xbfc5555555555555},
		} {
			p = a.fma64(t.place, p, xx, a.c64(t.place, bits(t.c)))
		}
		return a.mulAdd64("Taylor 1", float64(p*x), xx, x)
	}
	u := 0x1.8p45 + abs
	h := abs - (u - 0x1.8p45)
	k := 4 * int(uint32(math.Float64bits(u)))
	sn, ssn, cs, ccs := sincos[k], sincos[k+1], sincos[k+2], sincos[k+3]
	xx := h * h
	s := a.mulAdd64(
		"sine of the rest", float64(h*xx),
		a.fma64(
			"sine's polynomial", xx, a.c64("sine 5", 8.33333214285722277379541354343671e-03),
			a.c64("sine 3", -1.66666666666664880952546298448555e-01),
		),
		h,
	)
	c := a.fma64(
		"cosine's polynomial", xx, a.c64("cosine 6", 1.38888874007937613028114285595617e-03),
		a.c64("cosine 4", -4.16666666666664434524222570944589e-02),
	)
	c = xx * a.fma64(
		"cosine of the rest", xx, c, a.c64("cosine 2", 4.99999999999999999999950396842453e-01),
	)
	cor := a.fma64("first correction", s, ccs, ssn)
	cor = a.fma64("second correction", -sn, c, cor)
	cor = a.fma64("third correction", cs, s, cor)
	return math.Copysign(sn+cor, x)
}
