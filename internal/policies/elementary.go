package policies

import (
	"math"
	"math/bits"
)

// The series of package reference's elementary functions, as tables.
var (
	// expSeries are 1/n! for n from 13 to 0.
	expSeries = [...]float64{
		1.0 / 6227020800, 1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880,
		1.0 / 40320, 1.0 / 5040,
		1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 1.0 / 2, 1, 1,
	}
	// logSeries are 2/n for odd n from 35 to 1.
	logSeries = [...]float64{
		2.0 / 35, 2.0 / 33, 2.0 / 31, 2.0 / 29, 2.0 / 27, 2.0 / 25, 2.0 / 23, 2.0 / 21, 2.0 / 19,
		2.0 / 17, 2.0 / 15, 2.0 / 13, 2.0 / 11, 2.0 / 9, 2.0 / 7, 2.0 / 5, 2.0 / 3, 2.0 / 1,
	}
)

const (
	ln2High, ln2Low = 0x1.62e42feep-1, 0x1.a39ef35793c76p-33
	toInteger       = 0x1.8p52
)

// horner is a polynomial, its coefficients from the highest on.
func horner(x float64, series []float64) float64 {
	p := series[0]
	for _, c := range series[1:] {
		p = float64(p*x) + c
	}
	return p
}

func exponential(x float64) float64 {
	k := float64(x*1.4426950408889634) + toInteger
	k -= toInteger
	r := x - float64(k*ln2High)
	r -= float64(k * ln2Low)
	scale := math.Float64frombits(uint64(1023+int64(k)) << 52)
	return horner(r, expSeries[:]) * scale
}

// logarithm is that of a normal x > 0.
func logarithm(x float64) float64 {
	fraction, exponent := math.Frexp(x) // in [½, 1)
	if fraction *= 2; fraction >= 1.4142135623730951 {
		fraction /= 2
	} else {
		exponent--
	}
	k := float64(exponent)
	return float64(k*ln2High) + (float64(k*ln2Low) + quotientLog(fraction-1))
}

// quotientLog is log(1+f).
func quotientLog(f float64) float64 {
	s := f / (2 + f)
	return s * horner(float64(s*s), logSeries[:])
}

func softplus(x float32) float32 {
	z := float64(x)
	l := quotientLog(exponential(max(-math.Abs(z), -700)))
	if z > 0 {
		l += z
	}
	return float32(l)
}

// meanAction is the mean of Beta(1+sp0, 1+sp1), between -1 and 1.
func meanAction(sp [2]float32) float64 {
	a := 1 + float64(sp[0])
	sum := a + (1 + float64(sp[1]))
	return (2*a)/sum - 1
}

// words are Philox4x32-10's.
func words(seed, id uint64, step, attempt uint32) (w0, w1, w2, w3 uint32) {
	w0, w1, w2, w3 = attempt, step, uint32(id), uint32(id>>32)
	low, high := uint32(seed), uint32(seed>>32)
	for range 10 {
		h0, l0 := bits.Mul32(0xD2511F53, w0)
		h1, l1 := bits.Mul32(0xCD9E8D57, w2)
		w0, w1, w2, w3 = h1^w1^low, l1, h0^w3^high, l0
		low, high = low+0x9E3779B9, high+0xBB67AE85
	}
	return w0, w1, w2, w3
}

// open01 is a number inside (0, 1) of 52 bits.
func open01(high, low uint32) float64 {
	n := uint64(high)<<20 + uint64(low)>>12
	return math.Ldexp(float64(n)+0.5, -52)
}

// betaVariate is a variate of Beta(1+sp0, 1+sp1).
func betaVariate(sp [2]float32, seed, id uint64, step int) float32 {
	return cheng(sp, func(attempt uint32) (u1, u2 float64) {
		w0, w1, w2, w3 := words(seed, id, uint32(step), attempt)
		return open01(w0, w1), open01(w2, w3)
	})
}

// cheng is Cheng's BB, from pairs of numbers inside (0, 1).
func cheng(sp [2]float32, draw func(attempt uint32) (u1, u2 float64)) float32 {
	small, large := float64(sp[0]), float64(sp[1])
	if small > large {
		small, large = large, small
	}
	a, b := 1+small, 1+large
	sum := a + b
	lambda := float64(1)
	if q := small + large; q > 0 {
		lambda = math.Sqrt(q / (q + 2*float64(small*large)))
	}
	gamma := a + 1/lambda
	x := a / sum
	for attempt := uint32(0); attempt < 32; attempt++ {
		u1, u2 := draw(attempt)
		v := lambda * logarithm(u1/(1-u1))
		if v > 600 {
			v = 600
		}
		w := a * exponential(v)
		r := float64(gamma*v) - 1.3862943611198906
		least := logarithm(float64(float64(u1*u1) * u2))
		if (a+r)-float64(w) >= least || r+float64(sum*logarithm(sum/(b+float64(w)))) >= least {
			x = w / (b + float64(w))
			break
		}
	}
	if float64(sp[0]) > float64(sp[1]) {
		x = 1 - x
	}
	y := float32(x)
	if y < 1e-6 {
		y = 1e-6
	}
	if y > 0.999999 {
		y = 0.999999
	}
	return y
}
