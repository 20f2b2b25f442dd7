package f32

import "math"

// FMA returns x·y + z rounded once, to nearest even.
//
// The product of two float32 is exact in float64, so that s is the exact value
// rounded once. Rounding s to float32 rounds a second time, which can only go
// wrong where s lies midway between two float32: there, the 29 bits that
// float64 has more are 1000… Below float32's normal range midways look
// different; fmaRare sees to both.
func FMA(x, y, z float32) float32 {
	if r, ok := fmaCommon(x, y, z); ok {
		return r
	}
	return fmaRare(x, y, z)
}

// fmaCommon is FMA except where it returns false. It is small enough for the
// compiler to inline, which FMA is not.
func fmaCommon(x, y, z float32) (float32, bool) {
	s := float64(float64(x)*float64(y)) + float64(z)
	bits := math.Float64bits(s)
	return float32(s), bits&(1<<29-1) != 1<<28 && bits<<1 >= minNormal<<1
}

// minNormal is the bit pattern of the smallest normal float32 as a float64.
const minNormal = (1023 - 126) << 52

// fmaRare is FMA for any operands. It rounds the sum to odd: where it is inexact
// and its last bit is even, it moves by one unit towards the exact value. That
// leaves enough of a trace for the second rounding to be right (Boldo and
// Melquiond, Emulation of FMA and correctly rounded sums, 2008).
func fmaRare(x, y, z float32) float32 {
	p, c := float64(x)*float64(y), float64(z)
	s := float64(p) + c
	// TwoSum: e is the error of s, exactly; it is NaN if s is not finite.
	t := s - p
	e := (p - (s - t)) + (c - t)
	bits := math.Float64bits(s)
	switch {
	case bits&1 == 1:
	case e > 0 && s > 0, e < 0 && s < 0:
		bits++
	case e > 0 && s < 0, e < 0 && s > 0:
		bits--
	}
	return float32(math.Float64frombits(bits))
}
