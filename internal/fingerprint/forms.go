package fingerprint

import (
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"lockstep"
	"lockstep/golden/vectors"
	"lockstep/internal/f32"
	"lockstep/internal/libm"
	"lockstep/internal/pandas"
)

// operations are those of golden/vectors that a probe asks.
var operations = map[string][]string{
	"layer_norm": {"layer-norm-1.30", "layer-norm-1.27", "layer-norm-1.23", "layer-norm-1.30arm"},
	"softmax":    {"softmax-avx512", "softmax-avx2", "softmax-neon"},
	"exp":        {"exp-numpy-U", "exp-numpy-F", "exp-numpy-C"},
	"sin":        {"roll-lataccel"},
	"csv":        {"csv2", "csvexact"},
}

// more are rows that tell forms apart that no profile has, first the one that
// golden/generate.py asks.
var more = map[string][]vectors.Vector{
	"exp": {
		{Args: map[string]any{"x": []float32{math.Float32frombits(0xbf851592)}}},
		{Args: map[string]any{"x": []float32{math.Float32frombits(0xc27c65d9)}}},
	},
	"sin": {{Args: map[string]any{"roll": []float64{0.251296}}}},
	"csv": {{Args: map[string]any{"text": "31.452678722615314"}}},
}

var layerNorm = &Probe{
	Name: "layer_norm", What: "LayerNormalization of rows of 128", Package: "onnxruntime",
	argument: "x", width: 4, operator: "LayerNormalization",
	Forms: with(
		0, func(p lockstep.Profile) compute { return norm(f32.Go.For(p).LayerNorm) },
		Form{
			Word:    "ort1.23arm",
			What:    "ONNX Runtime 1.23, arm64",
			compute: norm(squaresFused(false)),
		},
		Form{
			Word:    "ort1.23arm+",
			What:    "the same with the square of the mean fused",
			compute: norm(squaresFused(true)),
		},
	),
}

// with are the forms of part k of a profile, computed as the product computes them, and
// then others that no profile has.
func with(k int, of func(lockstep.Profile) compute, others ...Form) []Form {
	var all []Form
	for _, f := range lockstep.Forms(k) {
		profile, _ := Replace(lockstep.Profile{}, k, f.Word)
		all = append(all, Form{Word: f.Word, What: f.What, compute: of(profile)})
	}
	return append(all, others...)
}

// norm is a form of the layer norm of one row.
func norm(f func(y, x, weight, bias []float32)) compute {
	return func(v vectors.Vector) any {
		x := v.Float32s("x")
		y := make([]float32, len(x))
		f(y, x, v.Float32s("weight"), v.Float32s("bias"))
		return y
	}
}

func root(x float32) float32 { return float32(math.Sqrt(float64(x))) }

// squaresFused is the sum and the sum of squares as a compiler leaves them that contracts
// products and sums. Whether the square of the mean
// is fused, too, was not established.
func squaresFused(mean2 bool) func(y, x, weight, bias []float32) {
	return func(y, x, weight, bias []float32) {
		var sum, squares float32
		for _, v := range x {
			sum += v
			squares = f32.FMA(v, v, squares)
		}
		n := float32(len(x))
		mean := sum / n
		variance := squares/n - float32(mean*mean)
		if mean2 {
			variance = f32.FMA(-mean, mean, squares/n)
		}
		deviation := root(variance + f32.Epsilon)
		for i, v := range x {
			y[i] = f32.FMA((v-mean)/deviation, weight[i], bias[i])
		}
	}
}

var softmax = &Probe{
	Name: "softmax", What: "Softmax of rows of 20", Package: "onnxruntime",
	argument: "x", width: 4, operator: "Softmax",
	Forms: with(
		1,
		func(p lockstep.Profile) compute {
			a := f32.Go.For(p)
			return lanes(a.Lanes, a.Weights)
		},
		Form{
			Word:    "neon+",
			What:    "arm64's, subnormal weights kept",
			compute: lanes(4, f32.Go.Exp512),
		},
	),
}

// masked are the scores of a row, of which the first n count.
func masked(v vectors.Vector) []float32 {
	x := append([]float32(nil), v.Float32s("x")...)
	for i := int(v.Int("n")); i < len(x); i++ {
		x[i] = float32(math.Inf(-1))
	}
	return x
}

// lanes is a softmax whose sum runs in so many lanes: 16 are folded to 8, and neighbours
// are added until one is left.
func lanes(n int, exp func(y, x []float32, shift float32)) compute {
	return func(v vectors.Vector) any {
		y := masked(v)
		highest := slices.Max(y)
		sums := make([]float32, n)
		for i := range y {
			if math.IsInf(float64(y[i]), -1) {
				y[i] = 0
			} else {
				exp(y[i:i+1], y[i:i+1], -highest)
			}
			sums[i%n] += y[i]
		}
		if n == 16 {
			for i := range 8 {
				sums[i] += sums[8+i]
			}
			sums = sums[:8]
		}
		for ; len(sums) > 1; sums = sums[:len(sums)/2] {
			for i := range len(sums) / 2 {
				sums[i] = sums[2*i] + sums[2*i+1]
			}
		}
		q := 1 / sums[0]
		for i := range y {
			y[i] *= q
		}
		return y
	}
}

var exp = &Probe{
	Name: "exp", What: "np.exp of float32", Package: "numpy",
	argument: "x", width: 4,
	Forms: with(2,
		func(p lockstep.Profile) compute {
			return func(v vectors.Vector) any {
				y := make([]float32, len(v.Float32s("x")))
				f32.Go.For(p).Exp(y, v.Float32s("x"), 0)
				return y
			}
		},
		Form{
			Word:    "expC+",
			What:    "the C library's on a CPU with FMA that NumPy is kept from",
			compute: each(expFused),
		},
	),
}

func each(f func(x float32) float32) compute {
	return func(v vectors.Vector) any {
		x := v.Float32s("x")
		y := make([]float32, len(x))
		for i := range x {
			y[i] = f(x[i])
		}
		return y
	}
}

// roots[i] is 2^(i/32).
var roots = func() (table [32]float64) {
	step := big.NewFloat(2).SetPrec(300)
	for range 5 {
		step.Sqrt(step)
	}
	power := big.NewFloat(1).SetPrec(300)
	for i := range table {
		table[i], _ = power.Float64()
		power.Mul(power, step)
	}
	return table
}()

// expFused is glibc's expf with everything fused that can be.
func expFused(x float32) float32 {
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
	kd := math.FMA(scale, float64(x), shift)
	k := math.Float64bits(kd)
	kd -= shift
	r := math.FMA(scale, float64(x), -kd)
	s := math.Float64frombits(math.Float64bits(roots[k%32]) + (k-k%32)<<47)
	y := math.FMA(math.FMA(c0, r, c1), float64(r*r), math.FMA(c2, r, 1))
	return float32(y * s)
}

var sin = &Probe{
	Name: "sin", What: "np.sin of float64, times 9.81", Package: "numpy",
	argument: "roll", width: 8,
	Forms: with(3, func(lockstep.Profile) compute { return roll(libm.Sin) },
		Form{Word: "sinnofma", What: "glibc's, on a CPU without FMA", compute: roll(sinRounded)},
		Form{Word: "sinsvml", What: "NumPy 1.22 to 1.24 with AVX-512", compute: roll(sinSVML)},
	),
}

// roll is a route's roll as a lateral acceleration.
func roll(sine func(float64) float64) compute {
	return func(v vectors.Vector) any {
		x := v.Float64s("roll")
		y := make([]float64, len(x))
		for i := range x {
			y[i] = sine(x[i]) * 9.81
		}
		return y
	}
}

// sinRounded is glibc's sine without FMA, for |x| < 0.855469.
func sinRounded(x float64) float64 {
	poly := func(x float64, coefficients ...uint64) (p float64) {
		for _, c := range coefficients {
			p = float64(p*x) + math.Float64frombits(c)
		}
		return p
	}
	abs := math.Abs(x)
	if abs < 0.126 {
		if abs < 0x1p-26 {
			return x
		}
		xx := x * x
		p := poly(
			xx,
			0xbe5addffc2fcdf59,
			0x3ec71de27b9a7ed9,
			0xbf2a01a019db08b8,
			0x3f81111111110ece,
			0xbfc5555555555555,
		)
		return x + float64(float64(p*x)*xx)
	}
	const shift = 0x1.8p45
	const sn3, sn5 = -1.66666666666664880952546298448555e-01, 8.33333214285722277379541354343671e-03
	const cs2 = 4.99999999999999999999950396842453e-01
	const cs4, cs6 = -4.16666666666664434524222570944589e-02, 1.38888874007937613028114285595617e-03
	u := shift + abs
	h := abs - (u - shift)
	k := 4 * (math.Float64bits(u) & (1<<32 - 1))
	t := libm.SinCosTable()[k : k+4]
	xx := h * h
	s := h + float64(float64(h*xx)*(float64(xx*sn5)+sn3))
	c := xx * (float64(xx*(float64(xx*cs6)+cs4)) + cs2)
	cor := float64(s*t[3]) + t[1]
	cor = float64(-t[0]*c) + cor
	cor = float64(t[2]*s) + cor
	return math.Copysign(t[0]+cor, x)
}

// sinSVML is the sine of Intel's vector library, for |x| <= 2²⁴.
func sinSVML(x float64) float64 {
	if x == 0 {
		return x
	}
	const shift = 0x1.8p52
	bits := math.Float64frombits
	t := math.FMA(x, bits(0x3fd45f306dc9c883), shift)
	n := t - shift
	r := math.FMA(-n, bits(0x400921fb54442d18), x)
	r = math.FMA(-n, bits(0x3ca1a62633145c06), r)
	r2 := r * r
	r = math.FMA(-n, bits(0x395c1cd129024e09), r)
	p := bits(0xbd69f1517e9f65f0)
	for _, c := range []uint64{
		0x3de60e6bee01d83e, 0xbe5ae6355aaa4a53, 0x3ec71de3806add1a,
		0xbf2a01a019a659dd, 0x3f8111111110a573, 0xbfc55555555554a8,
	} {
		p = math.FMA(p, r2, bits(c))
	}
	y := math.FMA(p, float64(r2*r), r)
	if math.Float64bits(t)&1 != 0 {
		y = -y
	}
	return y
}

var csv = &Probe{
	Name: "csv", What: "pandas.read_csv of decimal numbers", Package: "pandas",
	argument: "text", width: 8,
	Forms: with(4,
		func(p lockstep.Profile) compute {
			return numbers(func(text string) float64 {
				x, _ := pandas.ParseFloat(text, pandas.Rounding(p.CSV))
				return x
			})
		},
		Form{Word: "csvfma", What: "pandas up to 3.0, arm64", compute: numbers(digitsFused)},
	),
}

func numbers(f func(text string) float64) func(v vectors.Vector) any {
	return func(v vectors.Vector) any { return []float64{f(v.Text("text"))} }
}

// digitsFused is pandas' rule for a number's first 17 digits, with one rounding a digit.
func digitsFused(text string) float64 {
	mantissa, tail, _ := strings.Cut(strings.ToLower(text), "e")
	exponent, _ := strconv.Atoi(tail)
	unsigned := strings.TrimLeft(mantissa, "+-")
	whole, fraction, _ := strings.Cut(unsigned, ".")
	var x float64
	for i, digit := range whole + fraction {
		if i < 17 {
			x = math.FMA(x, 10, float64(digit-'0'))
			if i >= len(whole) {
				exponent--
			}
		} else if i < len(whole) {
			exponent++
		}
	}
	power := func(n int) float64 { p, _ := strconv.ParseFloat("1e"+strconv.Itoa(n), 64); return p }
	switch {
	case exponent > 0:
		x *= power(exponent)
	case exponent >= -308:
		x /= power(-exponent)
	default:
		x = x / power(-308-exponent) / power(308)
	}
	if strings.HasPrefix(mantissa, "-") {
		x = -x
	}
	return x
}
