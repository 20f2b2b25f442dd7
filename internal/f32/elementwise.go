package f32

import "math"

// Epsilon of every layer normalisation, nearest float32 to 1e-5.
const Epsilon = 0x1.4f8b58p-17

// layerNorm is the specification of Kernels.LayerNorm: ONNX Runtime 1.30's
// formula on a CPU with AVX2.
//
// The mean comes from four float64 sums, element i in sum i mod 4; the variance
// from eight float32 chains, element i in chain i mod 8.
func layerNorm(y, x, weight, bias []float32) { eachRow(layerNormRow, y, x, weight, bias) }

// eachRow normalises rows that are as long as weight.
func eachRow(norm func(y, x, weight, bias []float32), y, x, weight, bias []float32) {
	for n := len(weight); len(x) > 0; x, y = x[n:], y[n:] {
		norm(y[:n], x[:n], weight, bias)
	}
}

func layerNormRow(y, x, weight, bias []float32) {
	n := len(x)
	var d [4]float64
	for i, v := range x {
		d[i%4] += float64(v)
	}
	mean := float32(((d[0] + d[2]) + (d[1] + d[3])) / float64(n))

	var a [8]float32
	for i, v := range x {
		t := v - mean
		a[i%8] = FMA(t, t, a[i%8])
	}
	r0, r1, r2, r3 := a[0]+a[4], a[1]+a[5], a[2]+a[6], a[3]+a[7]
	variance := ((r0 + r2) + (r1 + r3)) / float32(n)
	inverse := 1 / sqrt(variance+Epsilon)
	for i, v := range x {
		y[i] = FMA((v-mean)*inverse, weight[i], bias[i])
	}
}

// LayerNorm127 is layer normalisation as ONNX Runtime 1.27 to 1.29 computes it:
// Welford's recurrence, nothing fused.
func LayerNorm127(y, x, weight, bias []float32) {
	eachRow(layerNorm127Row, y, x, weight, bias)
}

func layerNorm127Row(y, x, weight, bias []float32) {
	var mean, squares float32
	for i, v := range x {
		t := v - mean
		mean += t / float32(i+1)
		squares += float32(t * (v - mean))
	}
	deviation := sqrt(squares/float32(len(x)) + Epsilon)
	for i, v := range x {
		y[i] = float32(((v-mean)/deviation)*weight[i]) + bias[i]
	}
}

// LayerNorm123 is layer normalisation as ONNX Runtime up to 1.26 computes it:
// sum and sum of squares in one float32 chain each, nothing fused.
func LayerNorm123(y, x, weight, bias []float32) {
	eachRow(layerNorm123Row, y, x, weight, bias)
}

func layerNorm123Row(y, x, weight, bias []float32) {
	var sum, squares float32
	for _, v := range x {
		sum += v
		squares += float32(v * v)
	}
	n := float32(len(x))
	mean := sum / n
	deviation := sqrt(float32(squares/n-float32(mean*mean)) + Epsilon)
	for i, v := range x {
		y[i] = float32(((v-mean)/deviation)*weight[i]) + bias[i]
	}
}

// LayerNorm130ARM is layer normalisation as ONNX Runtime from 1.30 on computes it on
// arm64: Welford's recurrence, with the squares and the end fused.
//
// Each number of a row waits for the one before, through a division, so that rows are
// taken four at a time.
func LayerNorm130ARM(y, x, weight, bias []float32) {
	n := len(weight)
	for ; len(x) >= 4*n && n > 0; x, y = x[4*n:], y[4*n:] {
		r0, r1, r2, r3 := x[:n], x[n:][:n], x[2*n:][:n], x[3*n:][:n]
		var w0, w1, w2, w3 welford
		for i := range n {
			count := float32(i + 1)
			w0.add(r0[i], count)
			w1.add(r1[i], count)
			w2.add(r2[i], count)
			w3.add(r3[i], count)
		}
		w0.scale(y[:n], r0, weight, bias)
		w1.scale(y[n:][:n], r1, weight, bias)
		w2.scale(y[2*n:][:n], r2, weight, bias)
		w3.scale(y[3*n:][:n], r3, weight, bias)
	}
	eachRow(layerNorm130ARMRow, y, x, weight, bias)
}

func layerNorm130ARMRow(y, x, weight, bias []float32) {
	var w welford
	for i, v := range x {
		w.add(v, float32(i+1))
	}
	w.scale(y, x, weight, bias)
}

// welford is the mean of a row, and the squares of the distances from it.
type welford struct{ mean, squares float32 }

// add takes a row's next number into account, which makes so many.
func (w *welford) add(v, count float32) {
	t := v - w.mean
	w.mean += t / count
	w.squares = FMA(t, v-w.mean, w.squares)
}

func (w *welford) scale(y, x, weight, bias []float32) {
	deviation := sqrt(w.squares/float32(len(x)) + Epsilon)
	for i, v := range x {
		y[i] = FMA((v-w.mean)/deviation, weight[i], bias[i])
	}
}

// sqrt is the correctly rounded square root: rounding the float64 root again is
// harmless, float64 having more than twice the digits.
func sqrt(x float32) float32 { return float32(math.Sqrt(float64(x))) }

// Tanh is ONNX Runtime's rational approximation of tanh.
func Tanh(u float32) float32 {
	z := min(max(u, -9), 9)
	y := z * z
	p := FMA(y, -0x1.3e4b8p-52, 0x1.c266fcp-43)
	p = FMA(p, y, -0x1.7a6ffep-34)
	p = FMA(p, y, 0x1.b80082p-25)
	p = FMA(p, y, 0x1.f28694p-17)
	p = FMA(p, y, 0x1.4e1bdap-11)
	p = FMA(p, y, 0x1.40b3b8p-8)
	p *= z
	q := FMA(y, 0x1.41a7bp-20, 0x1.f12bacp-14)
	q = FMA(q, y, 0x1.29540ap-9)
	q = FMA(q, y, 0x1.40b3bap-8)
	return p / q
}

// gelu is the specification of Kernels.Gelu: twice the tanh form of GELU,
// f·(1 + tanh(√(2/π)·(f + 0.044715·f³))). The factor ½ is in the alpha of the
// product that follows.
func gelu(g, f []float32) {
	for i, v := range f {
		c := v * v
		c = v * c
		c = 0x1.6e4e26p-5 * c
		c = v + float32(c)
		h := Tanh(0x1.988454p-1 * c)
		g[i] = v * (1 + h)
	}
}

// Exp512 is the exponential inside ONNX Runtime's softmax on a CPU with
// AVX-512, for x <= 0. Results below the normal range are rounded once.
func Exp512(x float32) float32 {
	p, m := expReduced(max(x, -0x1.9fe36ap+6))
	return float32(float64(p) * math.Float64frombits(uint64(1023+int64(m))<<52))
}

// Exp256 is the same on a CPU with AVX2, where 2^m is made from its exponent
// bits, so that the result is 0 where it would be below the normal range.
func Exp256(x float32) float32 {
	p, m := expReduced(max(x, -0x1.61814ap+6))
	return p * math.Float32frombits(uint32(127+int32(m))<<23)
}

// expReduced returns p and m such that e^x ≈ p·2^m.
func expReduced(x float32) (p, m float32) {
	const magic = 0x1.8p23
	m = FMA(0x1.715476p+0, x, magic) - magic
	x = FMA(m, -0x1.62e4p-1, x)
	x = FMA(m, -0x1.7f7d1cp-20, x)
	p = FMA(0x1.694p-10, x, 0x1.125edcp-7)
	p = FMA(p, x, 0x1.555b5ap-5)
	p = FMA(p, x, 0x1.55545p-3)
	p = FMA(p, x, 0x1.fffff6p-2)
	p = FMA(p, x, 1)
	p = FMA(p, x, 1)
	return p, m
}

// exp512 and exp256 are the specifications of Kernels.Exp512 and Kernels.Exp256.
func exp512(y, x []float32, shift float32) {
	for i, v := range x {
		y[i] = Exp512(v + shift)
	}
}

func exp256(y, x []float32, shift float32) {
	for i, v := range x {
		y[i] = Exp256(v + shift)
	}
}

// ExpNumPy is NumPy's float32 exponential on x86-64 with AVX2 and FMA or with
// AVX-512. The compiler that built NumPy either rounds x·log2(e) or fuses it
// with the addition that follows.
func ExpNumPy(x float32, fused bool) float32 {
	const (
		log2e = 0x1.715476p+0
		magic = 0x1.8p23
	)
	switch {
	case x != x:
		return x
	case x >= 0x1.62e43p+6:
		return float32(math.Inf(1))
	case x <= -0x1.9fe36ap+6:
		return 0
	}
	var q float32
	if fused {
		q = FMA(x, log2e, magic)
	} else {
		q = float32(x*log2e) + magic
	}
	q -= magic
	r := FMA(q, -0x1.62e4p-1, x)
	r = FMA(q, -0x1.7f7d1cp-20, r)
	n := FMA(expP5, r, expP4)
	n = FMA(n, r, expP3)
	n = FMA(n, r, expP2)
	n = FMA(n, r, expP1)
	n = FMA(n, r, 1)
	d := FMA(expQ2, r, expQ1)
	d = FMA(d, r, 1)
	return float32(float64(n/d) * math.Float64frombits(uint64(1023+int64(q))<<52))
}

// Numerator and denominator of NumPy's e^r, lowest power first.
var (
	expP1 = math.Float32frombits(0x3f39cbd5)
	expP2 = math.Float32frombits(0x3e7d4c58)
	expP3 = math.Float32frombits(0x3d517d8c)
	expP4 = math.Float32frombits(0x3bdd7159)
	expP5 = math.Float32frombits(0x3a053dd8)
	expQ1 = math.Float32frombits(0xbe8c6857)
	expQ2 = math.Float32frombits(0x3cb0e832)
)

// expNumPy and expNumPyFused are the specifications of Kernels.ExpNumPy and
// Kernels.ExpNumPyFused.
func expNumPy(y, x []float32, shift float32) {
	for i, v := range x {
		y[i] = ExpNumPy(v+shift, false)
	}
}

func expNumPyFused(y, x []float32, shift float32) {
	for i, v := range x {
		y[i] = ExpNumPy(v+shift, true)
	}
}

// ExpLibrary is glibc's float32 exponential, which NumPy takes on arm64: of
// x·32·log2(e) = k + r in float64, 2^(k/32) from a table and a polynomial of degree 3
// for 2^(r/32), nothing fused. Fused, one argument in [-104, -0x1p-13] has another bit.
func ExpLibrary(x float32) float32 {
	switch {
	case x != x:
		return x
	case x > 0x1.62e42ep6:
		return float32(math.Inf(1))
	case x < -0x1.9fe368p6:
		return 0
	}
	const scale, shift = 0x1.71547652b82fep+5, 0x1.8p52
	const (
		c0 = 0x1.c6af84b912394p-5 / 32 / 32 / 32
		c1 = 0x1.ebfce50fac4f3p-3 / 32 / 32
		c2 = 0x1.62e42ff0c52d6p-1 / 32
	)
	z := float64(x) * scale
	kd := float64(z) + shift
	k := math.Float64bits(kd)
	r := float64(z) - (kd - shift)
	s := math.Float64frombits(math.Float64bits(roots32[k%32]) + (k-k%32)<<47)
	y := float64((float64(c0*r)+c1)*float64(r*r)) + (float64(c2*r) + 1)
	return float32(y * s)
}

// roots32[i] is 2^(i/32), rounded correctly.
var roots32 = [32]float64{
	1, 0x1.059b0d3158574p0, 0x1.0b5586cf9890fp0, 0x1.11301d0125b51p0,
	0x1.172b83c7d517bp0, 0x1.1d4873168b9aap0, 0x1.2387a6e756238p0, 0x1.29e9df51fdee1p0,
	0x1.306fe0a31b715p0, 0x1.371a7373aa9cbp0, 0x1.3dea64c123422p0, 0x1.44e086061892dp0,
	0x1.4bfdad5362a27p0, 0x1.5342b569d4f82p0, 0x1.5ab07dd485429p0, 0x1.6247eb03a5585p0,
	0x1.6a09e667f3bcdp0, 0x1.71f75e8ec5f74p0, 0x1.7a11473eb0187p0, 0x1.82589994cce13p0,
	0x1.8ace5422aa0dbp0, 0x1.93737b0cdc5e5p0, 0x1.9c49182a3f09p0, 0x1.a5503b23e255dp0,
	0x1.ae89f995ad3adp0, 0x1.b7f76f2fb5e47p0, 0x1.c199bdd85529cp0, 0x1.cb720dcef9069p0,
	0x1.d5818dcfba487p0, 0x1.dfc97337b9b5fp0, 0x1.ea4afa2a490dap0, 0x1.f50765b6e454p0,
}

// expLibrary is ExpLibrary of each x + shift.
func expLibrary(y, x []float32, shift float32) {
	for i, v := range x {
		y[i] = ExpLibrary(v + shift)
	}
}

// divide is the specification of Kernels.Divide.
func divide(y, x []float32, divisor float32) {
	for i, v := range x {
		y[i] = v / divisor
	}
}

// add is the specification of Kernels.Add.
func add(y, x []float32) {
	for i, v := range x {
		y[i] += v
	}
}

// highest is the specification of Kernels.Max.
func highest(x []float32) float32 {
	m := float32(math.Inf(-1))
	for _, v := range x {
		if v > m {
			m = v
		}
	}
	return m
}
