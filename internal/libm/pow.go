package libm

import (
	_ "embed"
	"math"
	"slices"
)

// Tables of glibc's pow and exp, powf and expf, as hexadecimal words.
var (
	// For each of 128 intervals of [0.7057, 1.4114): 1/c, ln c and its rest.
	//
	//go:embed pow_log.hex
	powLogHex string
	powLog    = floats("pow_log.hex", powLogHex)

	// For i = 0..127: the rest of 2^(i/128), and its bits less i·2⁴⁵.
	//
	//go:embed exptab.hex
	expHex   string
	expTable = words("exptab.hex", expHex)

	// For each of 16 intervals of [0.7, 1.4): 1/c and log₂ c.
	//
	//go:embed powf_log2.hex
	powfLogHex string
	powfLog    = floats("powf_log2.hex", powfLogHex)

	// For i = 0..31: the bits of 2^(i/32) less i·2⁴⁷.
	//
	//go:embed exp2f.hex
	exp2fHex   string
	exp2fTable = words("exp2f.hex", exp2fHex)
)

// Pow2 is glibc's pow(x, 2), which is not x·x: 0.08 % of values differ by the last
// bit. It is NaN for |x| >= 2³⁶⁰ and for NaN.
func Pow2(x float64) float64 {
	x = math.Abs(x)
	switch {
	case x < 0x1p-540: // x² rounds to 0
		return 0
	case !(x < 0x1p360):
		return math.NaN()
	}
	hi, lo := logarithm(x)
	e, rest := 2*hi, 2*lo
	if math.Abs(e) < 0x1p-54 {
		return 1 + e
	}
	return exponential(e, rest)
}

// logarithm is ln x as hi + lo, for normal x > 0.
func logarithm(x float64) (hi, lo float64) {
	ix := math.Float64bits(x)
	tm := ix - 0x3fe6955500000000
	i := 3 * (tm >> 45 & 127)
	k := float64(int64(tm) >> 52)
	z := math.Float64frombits(ix - tm&(0xfff<<52))
	invc, logc, tail := powLog[i], powLog[i+1], powLog[i+2]

	r := math.FMA(z, invc, -1)
	t1 := math.FMA(k, 0x1.62e42fefa38p-1, logc)
	t2 := t1 + r
	lo = math.FMA(k, 0x1.ef35793c7673p-45, tail) + ((t1 - t2) + r)
	ar := -0.5 * r
	ar2 := float64(r * ar)
	ar3 := r * ar2
	hi = t2 + ar2
	lo = (lo + math.FMA(ar, r, -ar2)) + ((t2 - hi) + ar2)
	p := math.FMA(math.FMA(r, 0x1.0002b8b263fc3p0, -0x1.2495b9b4845e9p0), ar2,
		math.FMA(r, -0x1.555555529a47ap-1, 0x1.999999959554ep-1))
	p = math.FMA(p, ar2, math.FMA(r, 0x1.0000000000006p-1, -0x1.555555555556p-1))
	lo = math.FMA(ar3, p, lo)
	y := hi + lo
	return y, (hi - y) + lo
}

// exponential is e^(x + rest), for 2⁻⁵⁴ <= |x| and -750 < x < 512.
func exponential(x, rest float64) float64 {
	const big = 0x1.8p52
	kd := math.FMA(0x1.71547652b82fep+7, x, big)
	k := math.Float64bits(kd)
	kd -= big
	r := math.FMA(kd, -0x1.62e42fefa0000p-8, x)
	r = math.FMA(kd, -0x1.cf79abc9e3b3ap-47, r)
	r += rest
	i := 2 * (k % 128)
	tail := math.Float64frombits(expTable[i])
	bits := expTable[i+1] + k<<45
	r2 := r * r
	t := tail + r
	t = math.FMA(r2, math.FMA(r, 0x1.555555555543cp-3, 0x1.ffffffffffdbdp-2), t)
	t = math.FMA(r2*r2, math.FMA(r, 0x1.1111167a4d017p-7, 0x1.55555cf172b91p-5), t)
	if math.Abs(x) < 512 {
		scale := math.Float64frombits(bits)
		return math.FMA(scale, t, scale)
	}
	// The result may be subnormal: it is computed 2^1022 times larger, and below
	// 2^-1022 it is rounded by adding 1.
	scale := math.Float64frombits(bits + 1022<<52)
	product := float64(scale * t) // rounded: glibc needs it twice, and does not fuse it here
	y := scale + product
	if y < 1 {
		lo := (scale - y) + product
		hi := 1 + y
		lo = (1 - hi) + y + lo
		y = (hi + lo) - 1
	}
	return 0x1p-1022 * y
}

// Powf2 is glibc's powf(x, 2) for |x| < 2⁶³, which is not x·x either: 0.07 % of
// values differ. It is NaN elsewhere.
func Powf2(x float32) float32 {
	x = float32(math.Abs(float64(x)))
	switch {
	case x < 0x1p-100: // x² rounds to 0
		return 0
	case !(x < 0x1p63):
		return float32(math.NaN())
	}
	ix := math.Float32bits(x)
	tm := ix - 0x3f330000
	i := 2 * (tm >> 19 & 15)
	z := float64(math.Float32frombits(ix - tm&0xff800000))
	invc, logc := powfLog[i], powfLog[i+1]
	r := math.FMA(z, invc, -1)
	y0 := logc + float64(int32(tm)>>23)
	r2 := r * r
	y := math.FMA(r, 0x1.27616c9496e0bp-2, -0x1.71969a075c67ap-2)
	p := math.FMA(r, 0x1.ec70a6ca7baddp-2, -0x1.7154748bef6c8p-1)
	q := math.FMA(r, 0x1.71547652ab82bp0, y0)
	q = math.FMA(p, r2, q)
	e := 2 * math.FMA(y, r2*r2, q)

	const big = 0x1.8p47 // its last bit is 1/32
	t := e + big
	f := e - (t - big)
	k := math.Float64bits(t)
	scale := math.Float64frombits(exp2fTable[k%32] + k<<47)
	p = math.FMA(f, 0x1.c6af84b912394p-5, 0x1.ebfce50fac4f3p-3)
	q = math.FMA(f, 0x1.62e42ff0c52d6p-1, 1)
	return float32(math.FMA(p, f*f, q) * scale)
}

// PowTables are the tables of glibc's pow(x, 2) and powf(u, 2), as bits: for each of
// 128 intervals 1/c, ln c, its rest; for i = 0..127 the rest of 2^(i/128), and its
// bits less i·2⁴⁵; for each of 16 intervals 1/c and log₂ c; for i = 0..31 the bits
// of 2^(i/32) less i·2⁴⁷.
func PowTables() (log, exp, log2f, exp2f []uint64) {
	return words("pow_log.hex", powLogHex), slices.Clone(expTable),
		words("powf_log2.hex", powfLogHex), slices.Clone(exp2fTable)
}
