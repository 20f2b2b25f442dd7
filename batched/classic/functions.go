package classic

import (
	"math"

	"lockstep/internal/libm"
)

// The functions of glibc and NumPy that the environments call, in plain Go. The assembly that
// computes some of them for vectors is held to these.

// table has the rows sin(k/128), its residual, cos(k/128), its residual, and zeros up to row
// 127: a vector's lanes that take another branch read these, too.
var table = append(libm.SinCosTable(), make([]float64, 4*128-len(libm.SinCosTable()))...)

// twoOverPi are digits of 2/π in base 2²⁴.
var twoOverPi = libm.TwoOverPi()

var logTable, expTable, log2fTable, exp2fTable = libm.PowTables()

const (
	halfPi     = 0x1.921fb54442d18p0
	halfPiRest = 0x1.1a62633145c07p-54

	// Where glibc's branches meet.
	edge1 = 0x1.b6p-1
	edge2 = 0x1.368fdp1
	edge3 = 0x1.921fbp26
)

// sincos is glibc's sine and cosine, NaN of what is not finite. It computes both sums in every
// branch, as the assembly does, which chooses between branches afterwards, lane by lane.
func sincos(x float64) (sin, cos float64) {
	t := math.FMA(x, 0x1.45f306dc9c883p-1, 0x1.8p52)
	n := math.Float64bits(t)
	abs := math.Abs(x)
	var a1, d1, a2, d2 float64 // of the sine and of the cosine
	switch {
	case !(abs < math.Inf(1)):
		return x - x, x - x // the CPU's NaN
	case abs >= edge3:
		a1, d1, n = reduceFar(x)
		a2, d2 = a1, d1
	case abs < edge1:
		a1, a2 = x, x
	case abs < edge2:
		y := halfPi - abs
		a1 = y + halfPiRest
		d1 = (y - a1) + halfPiRest
		a2, d2 = y, halfPiRest
	default:
		a1, d1 = reduce(x, t-0x1.8p52)
		a2, d2 = a1, d1
	}
	s, c := sinSum(a1, d1), cosSum(a2, d2)
	switch {
	case abs < 0x1p-26:
		return x, c
	case abs < edge1:
		return s, c
	case abs < edge2:
		return math.Copysign(c, x), s
	}
	return turn(n, s, c), turn(n+1, s, c)
}

// turn is the sine n quarters of a turn on.
func turn(n uint64, s, c float64) float64 {
	if n&1 != 0 {
		s = c
	}
	return math.Float64frombits(math.Float64bits(s) ^ n<<62&(1<<63))
}

// reduce is x - k·π/2 in two parts.
func reduce(x, k float64) (a, da float64) {
	y := math.FMA(-k, 0x1.921fb58p0, x)
	y = math.FMA(-k, -0x1.dde973cp-27, y)
	t2 := math.FMA(-k, -0x1.cb3b398p-55, y)
	d1 := math.FMA(-k, -0x1.cb3b398p-55, y-t2)
	a = math.FMA(-k, -0x1.d747f23e32ed7p-83, t2)
	return a, d1 + math.FMA(-k, -0x1.d747f23e32ed7p-83, t2-a)
}

// reduceFar is reduce for finite |x| >= edge3, and the number of quarters of a turn,
// modulo 4. Halves of x are multiplied by six digits of 2/π each, whose products are
// exact.
func reduceFar(x float64) (a, da float64, n uint64) {
	x *= 0x1p-600
	high := head(x)
	var whole float64
	var fraction, rest [2]float64
	for h, part := range [2]float64{high, x - high} {
		place := max(int(math.Float64bits(part)>>52&2047)-450, 0) / 24
		var product [6]float64
		sum := 0.0
		for i := 5; i >= 0; i-- {
			scale := math.Float64frombits(uint64(1023+576-24*(place+i)) << 52)
			p := part * twoOverPi[place+i] * scale
			if i < 3 {
				p -= round(p, &whole)
			}
			product[i] = p
			sum += p
		}
		lost := product[0] - sum
		for _, p := range product[1:] {
			lost += p
		}
		sum -= round(sum, &whole)
		fraction[h] = sum + lost
		rest[h] = (sum - fraction[h]) + lost
	}
	both := fraction[0] + fraction[1]
	larger, smaller := fraction[0], fraction[1]
	if math.Abs(larger) <= math.Abs(smaller) {
		larger, smaller = smaller, larger
	}
	lost := (larger - both) + smaller
	if math.Abs(both) > 0.5 {
		turned := math.Copysign(1, both)
		both -= turned
		whole += turned
	}
	q := both + (lost + rest[0] + rest[1])
	d := ((both - q) + lost) + (rest[0] + rest[1])

	const halfPi1, halfPi2 = 0x1.921fb58p0, -0x1.dde974p-27
	q1 := head(q)
	q2 := q - q1
	y := float64(q * halfPi)
	lost = ((float64(q1*halfPi1) - y) + float64(q1*halfPi2)) + float64(q2*halfPi1)
	lost += (float64(q2*halfPi2) + float64(q*halfPiRest)) + float64(d*halfPi)
	a = y + lost
	return a, (y - a) + lost, uint64(int64(whole))
}

// round is x rounded to an integer, which it adds to sum.
func round(x float64, sum *float64) float64 {
	n := (x + 0x1.8p52) - 0x1.8p52
	*sum += n
	return n
}

// head is x to 26 bits.
func head(x float64) float64 {
	t := float64(x * (1<<27 + 1))
	return t - (t - x)
}

// row is the table's row nearest to a, and |a| less its angle.
func row(a float64) (r *[4]float64, h float64) {
	u := math.Abs(a) + 0x1.8p45
	k := math.Float64bits(u) & 127
	return (*[4]float64)(table[4*k:]), math.Abs(a) - (u - 0x1.8p45)
}

// mirrored is x, or -x where a is negative.
func mirrored(a, x float64) float64 {
	if math.Signbit(a) {
		return -x
	}
	return x
}

const (
	sn3 = -1.66666666666664880952546298448555e-01
	sn5 = 8.33333214285722277379541354343671e-03
	cs2 = 4.99999999999999999999950396842453e-01
	cs4 = -4.16666666666664434524222570944589e-02
	cs6 = 1.38888874007937613028114285595617e-03
)

// sinSum is sin(a + da), cosSum cos(a + da).
func sinSum(a, da float64) float64 {
	if math.Abs(a) < 0.126 {
		xx := a * a
		p := math.Float64frombits(0xbe5addffc2fcdf59)
		for _, c := range [4]uint64{
			0x3ec71de27b9a7ed9, 0xbf2a01a019db08b8, 0x3f81111111110ece, 0xbfc5555555555555,
		} {
			p = math.FMA(p, xx, math.Float64frombits(c))
		}
		return a + math.FMA(xx, math.FMA(p, a, -(0.5*da)), da)
	}
	r, h := row(a)
	da = mirrored(a, da)
	xx := h * h
	s := h + math.FMA(h*xx, math.FMA(xx, sn5, sn3), da)
	c := math.FMA(h, da, float64(xx*math.FMA(xx, math.FMA(xx, cs6, cs4), cs2)))
	cor := math.FMA(s, r[2], math.FMA(-c, r[0], math.FMA(r[3], s, r[1])))
	return math.Copysign(r[0]+cor, a)
}

func cosSum(a, da float64) float64 {
	r, h := row(a)
	h += mirrored(a, da)
	xx := h * h
	s := math.FMA(h*xx, math.FMA(xx, sn5, sn3), h)
	c := xx * math.FMA(xx, math.FMA(xx, cs6, cs4), cs2)
	return r[2] + math.FMA(-s, r[0], math.FMA(-c, r[2], math.FMA(-r[1], s, r[3])))
}

// certain is x·x, and whether pow(x, 2) is sure to be the same. pow errs by less
// than 0.5 + 0.0156 ulp for results within 2^±200 (glibc states 0.009 for its
// exponential and |ln x²|·2^-15.6 for its logarithm); x·x must be that far from
// the midpoint between two numbers.
func certain(x float64) (y float64, sure bool) {
	h := float64(x * x)
	l, d := math.FMA(x, x, -h), h*0x1p-58
	return h, h == h+(l+d) && h == h+(l-d) && h > 0x1p-200 && h < 0x1p200
}

// power is glibc's pow(x, 2) for |x| < 2³⁶⁰; NaN elsewhere.
func power(x float64) float64 {
	x = math.Abs(x)
	if x < 0x1p-540 {
		return 0
	}
	if !(x < 0x1p360) {
		return math.NaN()
	}
	// ln x
	tm := math.Float64bits(x) - 0x3fe6955500000000
	e := tm >> 45 & 127 * 3
	k := float64(int64(tm) >> 52)
	z := math.Float64frombits(math.Float64bits(x) - tm>>52<<52)
	r := math.FMA(z, math.Float64frombits(logTable[e]), -1)
	t1 := math.FMA(k, 0x1.62e42fefa38p-1, math.Float64frombits(logTable[e+1]))
	t2 := t1 + r
	ar := -0.5 * r
	ar2 := float64(r * ar)
	hi := t2 + ar2
	lo := (t1 - t2) + r
	lo = math.FMA(k, 0x1.ef35793c7673p-45, math.Float64frombits(logTable[e+2])) + lo
	lo += math.FMA(ar, r, -ar2)
	lo = lo + ((t2 - hi) + ar2)
	q := math.FMA(0x1.0002b8b263fc3p0, r, -0x1.2495b9b4845e9p0)
	q = math.FMA(q, ar2, math.FMA(-0x1.555555529a47ap-1, r, 0x1.999999959554ep-1))
	q = math.FMA(q, ar2, math.FMA(0x1.0000000000006p-1, r, -0x1.555555555556p-1))
	lo = math.FMA(r*ar2, q, lo)
	y := hi + lo
	rest := 2 * ((hi - y) + lo)
	y *= 2
	if math.Abs(y) < 0x1p-54 {
		return 1 + y
	}
	// e^(y + rest)
	kd := math.FMA(y, 0x1.71547652b82fep+7, 0x1.8p52)
	n := math.Float64bits(kd)
	kd -= 0x1.8p52
	r = math.FMA(kd, -0x1.cf79abc9e3b3ap-47, math.FMA(kd, -0x1.62e42fefa0000p-8, y)) + rest
	r2 := r * r
	t := math.Float64frombits(expTable[2*(n%128)]) + r
	t = math.FMA(r2, math.FMA(r, 0x1.555555555543cp-3, 0x1.ffffffffffdbdp-2), t)
	t = math.FMA(r2*r2, math.FMA(r, 0x1.1111167a4d017p-7, 0x1.55555cf172b91p-5), t)
	scale := expTable[2*(n%128)+1] + n<<45
	if y > -512 {
		s := math.Float64frombits(scale)
		return math.FMA(s, t, s)
	}
	s := math.Float64frombits(scale + 1022<<52)
	st := float64(s * t) // not fused here
	y = s + st
	if y < 1 { // subnormal: 1 + y rounds where the result does
		one := 1 + y
		y = (one + (((1 - one) + y) + ((s - y) + st))) - 1
	}
	return y * 0x1p-1022
}

// power32 is glibc's powf(u, 2) for |u| < 2⁶³.
func power32(u float32) float32 {
	bits := math.Float32bits(u) &^ (1 << 31)
	if bits < 0x0d800000 { // 2⁻¹⁰⁰
		return 0
	}
	tm := bits - 0x3f330000
	i := tm >> 19 & 15 * 2
	z := float64(math.Float32frombits(bits - tm>>23<<23))
	r := math.FMA(z, math.Float64frombits(log2fTable[i]), -1)
	y0 := math.Float64frombits(log2fTable[i+1]) + float64(int32(tm)>>23)
	r2 := r * r
	q := math.FMA(
		math.FMA(r, 0x1.ec70a6ca7baddp-2, -0x1.7154748bef6c8p-1), r2,
		math.FMA(r, 0x1.71547652ab82bp0, y0),
	)
	e := 2 * math.FMA(math.FMA(r, 0x1.27616c9496e0bp-2, -0x1.71969a075c67ap-2), r2*r2, q)
	t := e + 0x1.8p47
	f := e - (t - 0x1.8p47)
	n := math.Float64bits(t)
	p := math.FMA(
		math.FMA(f, 0x1.c6af84b912394p-5, 0x1.ebfce50fac4f3p-3), f*f,
		math.FMA(f, 0x1.62e42ff0c52d6p-1, 1),
	)
	return float32(p * math.Float64frombits(exp2fTable[n%32]+n<<47))
}

// remainder is Python's x % 2π for |x/2π| < 2⁵², without a division: perRadian is rounded up, so
// that the quotient is right, or 1 too far from 0. Either way what is left of |x| >= 4 is a
// multiple of 2⁻⁵⁰ between -2π and 2π, which is exact, and so is a turn more. A smaller x is left
// whole.
func remainder(x float64) float64 {
	m := math.FMA(-math.Trunc(x*perRadian), wholeTurn, x)
	if m < 0 {
		m += wholeTurn
	}
	return m
}

// sincos32 is np.sin and np.cos of a float32 up to 71,476.
func sincos32(x float32) (sin, cos float32) {
	n := float32(float32(x*0x1.45f306p-1)+0x1.8p23) - 0x1.8p23
	r := fused(n, -0x1.921fb0p+00, x)
	r = fused(n, -0x1.5110b4p-22, r)
	r = fused(n, -0x1.846988p-48, r)
	s := r * r
	c := fused(s, 0x1.98e616p-16, -0x1.6c06dcp-10)
	c = fused(fused(fused(c, s, 0x1.55553cp-05), s, -0.5), s, 1)
	y := fused(s, 0x1.7d3bbcp-19, -0x1.a06bbap-13)
	y = fused(fused(y, s, 0x1.11119ap-07), s, -0x1.555556p-03)
	y = fused(float32(y*s), r, r)
	return turn32(int32(n), y, c), turn32(int32(n)+1, y, c)
}

func turn32(n int32, s, c float32) float32 {
	if n&1 != 0 {
		s = c
	}
	if n&2 != 0 {
		return -s
	}
	return s
}

// fused is x·y + z rounded once: the sum in float64 rounds to odd.
func fused(x, y, z float32) float32 {
	p := float64(x) * float64(y)
	s := p + float64(z)
	t := s - p
	rest := (p - (s - t)) + (float64(z) - t)
	if b := math.Float64bits(s); rest != 0 && b&1 == 0 {
		s = math.Float64frombits(b + 2*uint64(bit((rest > 0) == (s > 0))) - 1)
	}
	return float32(s)
}

func bit(b bool) int32 {
	if b {
		return 1
	}
	return 0
}
