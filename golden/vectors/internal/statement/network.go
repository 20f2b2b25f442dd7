package statement

import (
	"math"
	"math/big"
	"math/rand/v2"

	"lockstep/golden/vectors"
)

// epsilon of the layer norms, nearest float32 to 1e-5.
const epsilon = 0x1.4f8b58p-17

func root(x float32) float32 { return float32(math.Sqrt(float64(x))) }

// products: of a row a and a column b, scaled by alpha.
func products() []Operation {
	row := func(n int, tiny float64) []func(r *rand.Rand) map[string]any {
		return []func(r *rand.Rand) map[string]any{
			func(r *rand.Rand) map[string]any {
				return args("a", normals(r, n, 1), "b", normals(r, n, 0.1))
			},
			func(r *rand.Rand) map[string]any {
				return args("a", spread(r, n, 20), "b", spread(r, n, 20))
			},
			func(r *rand.Rand) map[string]any {
				return args("a", normals(r, n, tiny), "b", normals(r, n, tiny))
			},
		}
	}
	return []Operation{
		{
			Name: "product", Line: "product with weights",
			Right: func(a *Arithmetic, v vectors.Vector) any {
				return []float32{a.dot("chain of 128", v.Float32s("a"), v.Float32s("b"))}
			},
			Draws: row(128, 0x1p-72), Tries: 3000,
		},
		{
			// The second product of the perceptron: K is 512, alpha ½.
			Name: "product-panels", Line: "product with weights",
			Right: func(a *Arithmetic, v vectors.Vector) any {
				x, y, alpha := v.Float32s("a"), v.Float32s("b"), a.c("alpha", 0.5)
				panel := 256
				for _, other := range []int{128, 512} {
					if a.is(map[int]string{128: "of 128", 512: "one of 512"}[other], "panels") {
						panel = other
					}
				}
				var c float32
				for k := 0; k < len(x); k += panel {
					acc := a.dot("chain of a panel", x[k:k+panel], y[k:k+panel])
					if k == 0 {
						c = acc * alpha
					} else {
						c = a.fma("panel added", acc, alpha, c)
					}
				}
				return []float32{c}
			},
			Others: map[string]func(v vectors.Vector) any{
				"the chain goes on in the second panel, " +
					"which is all that is scaled": func(v vectors.Vector) any {
					x, y := v.Float32s("a"), v.Float32s("b")
					acc := 0.5 * (&Arithmetic{}).dot("", x[:256], y[:256])
					for k := 256; k < len(x); k++ {
						acc = fma(0.5*x[k], y[k], acc)
					}
					return []float32{acc}
				},
			},
			Draws: row(512, 0x1p-73), Tries: 3000,
		},
		{
			Name: "score", Line: "attention scores",
			Right: func(a *Arithmetic, v vectors.Vector) any {
				return []float32{
					a.dot("chain of 32", v.Float32s("a"), v.Float32s("b")) *
						a.c("scale", 0x1.6a09e6p-3),
				}
			},
			Others: map[string]func(v vectors.Vector) any{
				"the query is scaled first": func(v vectors.Vector) any {
					q := make([]float32, 32)
					for i, x := range v.Float32s("a") {
						q[i] = x * 0x1.6a09e6p-3
					}
					return []float32{(&Arithmetic{}).dot("", q, v.Float32s("b"))}
				},
				"divided by √32": func(v vectors.Vector) any {
					return []float32{
						(&Arithmetic{}).dot("", v.Float32s("a"), v.Float32s("b")) / 0x1.6a09e6p+2,
					}
				},
				"scaled in float64": func(v vectors.Vector) any {
					return []float32{
						float32(
							float64((&Arithmetic{}).dot("", v.Float32s("a"), v.Float32s("b"))) /
								math.Sqrt(32),
						),
					}
				},
			},
			Draws: row(32, 0x1p-72), Tries: 3000,
		},
		{
			// The weights of masked keys, the last ones here, are +0.
			Name: "attention-output", Line: "attention output",
			Right: func(a *Arithmetic, v vectors.Vector) any {
				return []float32{a.dot("chain of 20", v.Float32s("a"), v.Float32s("b"))}
			},
			Others: map[string]func(v vectors.Vector) any{
				"groups of four, not fused, " +
					"as ONNX Runtime has it for a single row": func(v vectors.Vector) any {
					w, x := v.Float32s("a"), v.Float32s("b")
					var c float32
					for k := 0; k < 20; k += 4 {
						t := w[k] * x[k]
						for i := k + 1; i < k+4; i++ {
							t += float32(w[i] * x[i])
						}
						c = t + c
					}
					return []float32{c}
				},
				"masked keys are left out": func(v vectors.Vector) any {
					w, x := v.Float32s("a"), v.Float32s("b")
					n := 20
					for n > 0 && w[n-1] == 0 {
						n--
					}
					return []float32{(&Arithmetic{}).dot("", w[:n], x[:n])}
				},
			},
			Draws: append(row(20, 0x1p-73), func(r *rand.Rand) map[string]any {
				w, x := normals(r, 20, 1), normals(r, 20, 1)
				clear(w[10:])
				x[10+r.IntN(10)] = float32(math.Inf(1))
				return args("a", w, "b", x)
			}), Tries: 3000,
		},
	}
}

// layerNorms: of a row x of 128 with weight and bias.
func layerNorms() []Operation {
	draws := []func(r *rand.Rand) map[string]any{
		func(r *rand.Rand) map[string]any {
			return args(
				"x", normals(r, 128, 1), "weight", normals(r, 128, 1), "bias", normals(r, 128, 1),
			)
		},
		func(r *rand.Rand) map[string]any { // what cancels shows where nothing is added
			return args(
				"x", cancelling(r, 128, 0x1p60), "weight", ones(128), "bias", make([]float32, 128),
			)
		},
		func(r *rand.Rand) map[string]any {
			return args(
				"x", cancelling(r, 128, 0x1p30), "weight", ones(128), "bias", make([]float32, 128),
			)
		},
		func(r *rand.Rand) map[string]any {
			return args(
				"x", spread(r, 128, 30), "weight", normals(r, 128, 1), "bias", normals(r, 128, 1),
			)
		},
		func(r *rand.Rand) map[string]any { // where epsilon counts
			return args(
				"x", normals(r, 128, 0x1p-9), "weight", ones(128), "bias", make([]float32, 128),
			)
		},
		func(r *rand.Rand) map[string]any { // far from 0
			x := normals(r, 128, 0x1p-6)
			for i := range x {
				x[i] += 3
			}
			return args("x", x, "weight", ones(128), "bias", make([]float32, 128))
		},
	}
	operation := func(name, line string, right func(a *Arithmetic, y, x, weight, bias []float32),
		others map[string]func(v vectors.Vector) any) Operation {
		return Operation{
			Name: name, Line: line, Draws: draws, Tries: 20_000, Others: others,
			Right: func(a *Arithmetic, v vectors.Vector) any {
				y := make([]float32, 128)
				right(a, y, v.Float32s("x"), v.Float32s("weight"), v.Float32s("bias"))
				return y
			},
		}
	}
	formula := func(f func(a *Arithmetic, y, x, weight,
		bias []float32)) func(v vectors.Vector) any {
		return func(v vectors.Vector) any {
			y := make([]float32, 128)
			f(&Arithmetic{}, y, v.Float32s("x"), v.Float32s("weight"), v.Float32s("bias"))
			return y
		}
	}
	return []Operation{
		folded(
			"(((0+4)+(2+6))+((1+5)+(3+7)))",
			operation(
				"layer-norm-1.30", "layer norm 1.30", layerNorm130,
				map[string]func(v vectors.Vector) any{
					"the formula of 1.27": formula(layerNorm127),
					"the formula of 1.23": formula(layerNorm123),
				},
			),
		),
		operation(
			"layer-norm-1.27", "layer norm 1.27 to 1.29", layerNorm127,
			map[string]func(v vectors.Vector) any{
				"the formula of 1.30": formula(layerNorm130),
				"the formula of 1.23": formula(layerNorm123),
			},
		),
		operation(
			"layer-norm-1.23", "layer norm up to 1.26", layerNorm123,
			map[string]func(v vectors.Vector) any{
				"the formula of 1.30": formula(layerNorm130),
				"the formula of 1.27": formula(layerNorm127),
			},
		),
		operation(
			"layer-norm-1.30arm", "layer norm 1.30, arm64", layerNorm130ARM,
			map[string]func(v vectors.Vector) any{
				"the formula of 1.30": formula(layerNorm130),
				"the formula of 1.27": formula(layerNorm127),
				"the formula of 1.23": formula(layerNorm123),
			},
		),
	}
}

// folded is an operation in which eight sums are folded.
func folded(tree string, o Operation) Operation {
	o.Fold = tree
	return o
}

func layerNorm130(a *Arithmetic, y, x, weight, bias []float32) {
	var mean float32
	if a.is(narrow, "sum of the mean") {
		d := sums(a, "mean", len(x), 4, func(s float32, i int) float32 { return s + x[i] })
		mean = ((d[0] + d[2]) + (d[1] + d[3])) / 128
	} else {
		d := sums(a, "mean", len(x), 4, func(s float64, i int) float64 { return s + float64(x[i]) })
		mean = float32(fold(a, "fold of the mean", "((0+2)+(1+3))", d) / 128)
	}
	s := sums(a, "variance", len(x), 8, func(s float32, i int) float32 {
		t := x[i] - mean
		return a.fma("variance", t, t, s)
	})
	variance := fold(a, "fold of the variance", "(((0+4)+(2+6))+((1+5)+(3+7)))", s) / 128
	if a.is("by 127", "variance") {
		variance = variance * 128 / 127
	}
	deviation := root(variance + a.c("epsilon", epsilon))
	inverse := 1 / deviation
	if a.is("one rounding in float64", "inverse") {
		inverse = float32(1 / math.Sqrt(float64(variance+epsilon)))
	}
	notScaled, first := a.is("divided by the deviation", "result"),
		a.is("weight and inverse are multiplied first", "result")
	for i, v := range x {
		switch {
		case notScaled:
			y[i] = fma((v-mean)/deviation, weight[i], bias[i])
		case first:
			y[i] = fma(v-mean, float32(inverse*weight[i]), bias[i])
		default:
			y[i] = a.fma("result", (v-mean)*inverse, weight[i], bias[i])
		}
	}
}

func layerNorm127(a *Arithmetic, y, x, weight, bias []float32) {
	var mean, squares float32
	for i, v := range x {
		t := v - mean
		mean += a.div("mean", t, float32(i+1))
		u := v - mean
		if a.is("of the deviation from the mean before", "variance") {
			u = t
		}
		squares = a.mulAdd("variance", t, u, squares)
	}
	deviation := root(squares/128 + a.c("epsilon", epsilon))
	scaled(a, y, x, weight, bias, mean, deviation)
}

func layerNorm130ARM(a *Arithmetic, y, x, weight, bias []float32) {
	var mean, squares float32
	for i, v := range x {
		t := v - mean
		mean += a.div("mean", t, float32(i+1))
		u := v - mean
		if a.is("of the deviation from the mean before", "variance") {
			u = t
		}
		squares = a.fma("variance", t, u, squares)
	}
	deviation := root(squares/128 + a.c("epsilon", epsilon))
	for i, v := range x {
		y[i] = a.fma("result", a.div("result", v-mean, deviation), weight[i], bias[i])
	}
}

func layerNorm123(a *Arithmetic, y, x, weight, bias []float32) {
	sum := sums(a, "mean", len(x), 1, func(s float32, i int) float32 { return s + x[i] })[0]
	squares := sums(a, "squares", len(x), 1,
		func(s float32, i int) float32 { return a.mulAdd("squares", x[i], x[i], s) })[0]
	mean := sum / 128
	variance := a.mulAdd("variance", -mean, mean, squares/128)
	scaled(a, y, x, weight, bias, mean, root(variance+a.c("epsilon", epsilon)))
}

// scaled is the last part of both old formulas.
func scaled(a *Arithmetic, y, x, weight, bias []float32, mean, deviation float32) {
	for i, v := range x {
		y[i] = a.mulAdd("result", a.div("result", v-mean, deviation), weight[i], bias[i])
	}
}

// elementary: functions of one float32 x.
func elementary() []Operation {
	one := func(f func(a *Arithmetic, x float32) float32) func(a *Arithmetic,
		v vectors.Vector) any {
		return func(a *Arithmetic, v vectors.Vector) any { return []float32{f(a, v.Float32("x"))} }
	}
	other := func(f func(x float64) float64) func(v vectors.Vector) any {
		return func(v vectors.Vector) any { return []float32{float32(f(float64(v.Float32("x"))))} }
	}
	uniform := func(low, high float64) func(r *rand.Rand) map[string]any {
		return func(r *rand.Rand) map[string]any {
			return args("x", []float32{float32(low + (high-low)*r.Float64())})
		}
	}
	// sized are numbers of all sizes, of one sign or of either.
	sized := func(r *rand.Rand) float32 {
		return float32(math.Ldexp(r.NormFloat64(), r.IntN(30)-20))
	}
	either := func(r *rand.Rand) map[string]any { return args("x", []float32{sized(r)}) }
	// near are the neighbours of edges.
	near := func(edges ...float32) func(r *rand.Rand) map[string]any {
		return func(r *rand.Rand) map[string]any {
			bits := math.Float32bits(edges[r.IntN(len(edges))])
			return args("x", []float32{math.Float32frombits(bits + uint32(r.IntN(7)) - 3)})
		}
	}
	libm := other(math.Exp)
	const u, f = false, true
	return []Operation{
		{
			Name: "exp512", Line: "softmax's e^x", Right: one(exp512), Tries: 6_000_000,
			Others: map[string]func(v vectors.Vector) any{
				"that of AVX2": func(v vectors.Vector) any {
					return []float32{exp256(&Arithmetic{}, v.Float32("x"))}
				},
				"correctly rounded": libm,
				"NumPy's, not fused": func(v vectors.Vector) any {
					return []float32{expNumPy(&Arithmetic{}, v.Float32("x"), u)}
				},
			},
			Draws: []func(r *rand.Rand) map[string]any{
				uniform(-88, 0),
				uniform(-104, -86),
				uniform(-1, 0),
				near(-0x1.9fe36ap+6, -0x1.61814ap+6, -0x1.5ebb82p+6),
			},
		},
		{
			Name: "exp256", Line: "softmax's e^x", Right: one(exp256), Tries: 6_000_000,
			Others: map[string]func(v vectors.Vector) any{
				"that of AVX-512": func(v vectors.Vector) any {
					return []float32{exp512(&Arithmetic{}, v.Float32("x"))}
				},
				"correctly rounded": libm,
			},
			Draws: []func(r *rand.Rand) map[string]any{
				uniform(-88, 0),
				uniform(-104, -86),
				uniform(-1, 0),
				near(-0x1.9fe36ap+6, -0x1.61814ap+6, -0x1.5ebb82p+6),
			},
		},
		{
			Name: "tanh", Line: "tanh", Right: one(tanh), Tries: 2_000_000,
			Others: map[string]func(v vectors.Vector) any{
				"correctly rounded": other(math.Tanh),
				"clamped at ±7.99881172180175781": func(v vectors.Vector) any {
					return []float32{
						tanh(
							&Arithmetic{},
							min(max(v.Float32("x"), -7.99881172180175781), 7.99881172180175781),
						),
					}
				},
			},
			Draws: []func(r *rand.Rand) map[string]any{
				uniform(-9, 9),
				uniform(-3, 3),
				uniform(7, 9),
				either,
				near(9, -9),
			},
		},
		{
			Name: "gelu", Line: "GELU", Right: one(gelu), Tries: 2_000_000,
			Others: map[string]func(v vectors.Vector) any{
				"f is multiplied by 0.0447 first": func(v vectors.Vector) any {
					x := v.Float32("x")
					c := float32(float32(0x1.6e4e26p-5*x)*x) * x
					return []float32{x * (1 + tanh(&Arithmetic{}, 0x1.988454p-1*(x+c)))}
				},
				"f·(1 + 0.0447·f²)": func(v vectors.Vector) any {
					x := v.Float32("x")
					c := x * (1 + float32(0x1.6e4e26p-5*float32(x*x)))
					return []float32{x * (1 + tanh(&Arithmetic{}, 0x1.988454p-1*c))}
				},
				"f + f·tanh": func(v vectors.Vector) any {
					x := v.Float32("x")
					c := x + float32(0x1.6e4e26p-5*float32(x*float32(x*x)))
					return []float32{fma(x, tanh(&Arithmetic{}, 0x1.988454p-1*c), x)}
				},
				"by the error function": other(
					func(x float64) float64 { return x * (1 + math.Erf(x/math.Sqrt2)) },
				),
				"correctly rounded": other(func(x float64) float64 {
					return x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
				}),
			},
			Draws: []func(r *rand.Rand) map[string]any{
				uniform(-6, 6),
				uniform(-2, 2),
				uniform(3, 5),
				either,
			},
		},
		{
			Name: "exp-numpy-U", Line: "NumPy's e^x", First: allVariants(), Tries: 6_000_000,
			Right: one(func(a *Arithmetic, x float32) float32 { return expNumPy(a, x, u) }),
			Others: map[string]func(v vectors.Vector) any{
				"correctly rounded": libm,
				"ONNX Runtime's": func(v vectors.Vector) any {
					return []float32{exp512(&Arithmetic{}, min(v.Float32("x"), 88))}
				},
			},
			Draws: []func(r *rand.Rand) map[string]any{
				uniform(-104, 0),
				uniform(-104, -86),
				uniform(-1, 0),
				near(-0x1.9fe36ap+6),
				nearVariants,
			},
		},
		{
			Name: "exp-numpy-F", Line: "NumPy's e^x", First: allVariants(), Tries: 6_000_000,
			Right:  one(func(a *Arithmetic, x float32) float32 { return expNumPy(a, x, f) }),
			Others: map[string]func(v vectors.Vector) any{"correctly rounded": libm},
			Draws: []func(r *rand.Rand) map[string]any{
				uniform(-104, 0),
				uniform(-104, -86),
				uniform(-1, 0),
				near(-0x1.9fe36ap+6),
				nearVariants,
			},
		},
		{
			// Its constants are of float64, whose last bit hardly ever shows in a float32.
			Name: "exp-numpy-C", Line: "NumPy's e^x",
			First: append(allVariants(), args("x", []float32{-0x1.f8cbb2p+5})), Tries: 100_000,
			Right: one(expLibrary),
			Others: map[string]func(v vectors.Vector) any{
				"that of x86-64": func(v vectors.Vector) any {
					return []float32{expNumPy(&Arithmetic{}, v.Float32("x"), u)}
				},
				"that of x86-64, fused": func(v vectors.Vector) any {
					return []float32{expNumPy(&Arithmetic{}, v.Float32("x"), f)}
				},
				"ONNX Runtime's": func(v vectors.Vector) any {
					return []float32{exp512(&Arithmetic{}, min(v.Float32("x"), 88))}
				},
			},
			Draws: []func(r *rand.Rand) map[string]any{
				uniform(-104, 0),
				uniform(-104, -86),
				uniform(-1, 0),
				near(-0x1.9fe368p+6),
				nearVariants,
			},
		},
	}
}

// variants are the float32 in [-104, -0] on which the variants of NumPy's
// exponential differ, all that there are.
var variants = []uint32{
	0xbf851592, 0xc01b43d5, 0xc073fce1, 0xc18d66eb, 0xc192f27c, 0xc1a3952e, 0xc1a920bf,
	0xc1b437e1, 0xc1b9c371, 0xc1ca6624,
	0xc1cff1b4, 0xc1e09467, 0xc1e61ff7, 0xc1f6c2aa, 0xc1fc4e3a, 0xc2118f98, 0xc2145560,
	0xc227bddb, 0xc232d4fd, 0xc2359ac4,
	0xc23dec1e, 0xc2490340, 0xc256e029, 0xc25f3183, 0xc26d0e6c, 0xc2755fc6, 0xc283013c,
	0xc28b5295, 0xc28cb579, 0xc290de26,
	0xc29506d2, 0xc2992f7f, 0xc2a180d8, 0xc2a2e3bc, 0xc2a70c69, 0xc2ab3515, 0xc2af5dc2,
}

func allVariants() (all []map[string]any) {
	for _, bits := range variants {
		all = append(all, args("x", []float32{math.Float32frombits(bits)}))
	}
	return all
}

// nearVariants are neighbours of (n+½)·ln 2, where x·log2(e) is rounded to
// another integer: there the variants of NumPy's exponential differ.
func nearVariants(r *rand.Rand) map[string]any {
	x := float32(-(float64(r.IntN(149)) + .5) * math.Ln2)
	return args("x", []float32{math.Float32frombits(math.Float32bits(x) + uint32(r.IntN(5)) - 2)})
}

// expReduced is e^x = p·2^m as inside ONNX Runtime's softmax.
func expReduced(a *Arithmetic, x float32) (p, m float32) {
	m = a.fma("reduction", a.c("log2 e", 0x1.715476p+0), x, 0x1.8p23) - 0x1.8p23
	x = a.fma("first part of ln 2", m, a.c("first part of ln 2", -0x1.62e4p-1), x)
	x = a.fma("second part of ln 2", m, a.c("second part of ln 2", -0x1.7f7d1cp-20), x)
	p = a.c("coefficient 6", 0x1.694p-10)
	for _, t := range []struct {
		place string
		c     float32
	}{
		{"coefficient 5", 0x1.125edcp-7}, {"coefficient 4", 0x1.555b5ap-5},
		{"coefficient 3", 0x1.55545p-3},
		{"coefficient 2", 0x1.fffff6p-2}, {"coefficient 1", 1}, {"coefficient 0", 1},
	} {
		p = a.fma(t.place, p, x, a.c(t.place, t.c))
	}
	return p, m
}

func exp512(a *Arithmetic, x float32) float32 {
	p, m := expReduced(a, max(x, a.c("clamp", -0x1.9fe36ap+6)))
	return a.scale(p, m)
}

// scale is p·2^m, rounded once where it is below the normal range.
func (a *Arithmetic) scale(p, m float32) float32 {
	y := float32(math.Ldexp(float64(p), int(m)))
	if y < 0x1p-126 && a.is("subnormal results are 0", "scaling") {
		return 0
	}
	return y
}

func exp256(a *Arithmetic, x float32) float32 {
	p, m := expReduced(a, max(x, a.c("clamp", -0x1.61814ap+6)))
	return p * math.Float32frombits(uint32(127+int32(m))<<23)
}

// expNumPy is np.exp of float32 for x <= 0 or NaN, with the product of the
// reduction fused or not.
func expNumPy(a *Arithmetic, x float32, fusedReduction bool) float32 {
	bits := math.Float32frombits
	low := a.c("cutoff", bits(0xc2cff1b5))
	switch {
	case x != x:
		return x
	case a.is(otherSide, "cutoff") && x < low, !a.is(otherSide, "cutoff") && x <= low:
		return 0
	}
	var q float32
	if log2e := a.c("log2 e", 0x1.715476p+0); fusedReduction {
		q = a.fma("reduction", x, log2e, 0x1.8p+23)
	} else {
		q = a.mulAdd("reduction", x, log2e, 0x1.8p+23)
	}
	q -= 0x1.8p+23
	r := a.fma("first part of ln 2", q, a.c("first part of ln 2", bits(0xbf317200)), x)
	r = a.fma("second part of ln 2", q, a.c("second part of ln 2", bits(0xb5bfbe8e)), r)
	n := a.c("numerator 5", bits(0x3a053dd8))
	for _, t := range []struct {
		place string
		c     uint32
	}{
		{"numerator 4", 0x3bdd7159}, {"numerator 3", 0x3d517d8c}, {"numerator 2", 0x3e7d4c58},
		{"numerator 1", 0x3f39cbd5}, {"numerator 0", 0x3f800000},
	} {
		n = a.fma(t.place, n, r, a.c(t.place, bits(t.c)))
	}
	d := a.fma(
		"denominator 1", a.c("denominator 2", bits(0x3cb0e832)), r,
		a.c("denominator 1", bits(0xbe8c6857)),
	)
	d = a.fma("denominator 0", d, r, a.c("denominator 0", 1))
	y := a.div("quotient", n, d)
	return a.scale(y, q)
}

func numpyExp(fusedReduction bool) func(a *Arithmetic, x float32) float32 {
	return func(a *Arithmetic, x float32) float32 { return expNumPy(a, x, fusedReduction) }
}

// expLibrary is glibc's expf for x <= 0 or NaN: 2^(k/32)·2^(r/32) in float64. The first
// factor is computed here, where glibc has a table of what is correctly rounded.
func expLibrary(a *Arithmetic, x float32) float32 {
	switch low := float32(-0x1.9fe368p+6); {
	case x != x:
		return x
	case x < low:
		return 0
	}
	z := 0x1.71547652b82fep+5 * float64(x)
	k := math.RoundToEven(z)
	r := a.mulAdd64("reduction", 0x1.71547652b82fep+5, float64(x), -k)
	p := a.mulAdd64("polynomial, 3", 0x1.c6af84b912394p-20, r, 0x1.ebfce50fac4f3p-13)
	q := a.mulAdd64("polynomial, 1", 0x1.62e42ff0c52d6p-6, r, 1)
	y := a.mulAdd64("polynomial, 2", p, float64(r*r), q)
	i := (int(k)%32 + 32) % 32
	return float32(y * math.Ldexp(powers32[i], (int(k)-i)/32))
}

// powers32[i] is 2^(i/32): the 32nd root of 2 is the root of the root, in 300 digits.
var powers32 = func() (all [32]float64) {
	step, power := big.NewFloat(2).SetPrec(300), big.NewFloat(1).SetPrec(300)
	for range 5 {
		step.Sqrt(step)
	}
	for i := range all {
		all[i], _ = power.Float64()
		power.Mul(power, step)
	}
	return all
}()

func tanh(a *Arithmetic, u float32) float32 {
	z := min(max(u, -a.c("clamp", 9)), a.c("clamp", 9))
	y := z * z
	p := a.c("numerator 13", -0x1.3e4b8p-52)
	for _, t := range []struct {
		place string
		c     float32
	}{
		{"numerator 11", 0x1.c266fcp-43}, {"numerator 9", -0x1.7a6ffep-34},
		{"numerator 7", 0x1.b80082p-25},
		{"numerator 5", 0x1.f28694p-17}, {"numerator 3", 0x1.4e1bdap-11},
		{"numerator 1", 0x1.40b3b8p-8},
	} {
		p = a.fma(t.place, p, y, a.c(t.place, t.c))
	}
	q := a.c("denominator 6", 0x1.41a7bp-20)
	for _, t := range []struct {
		place string
		c     float32
	}{{"denominator 4", 0x1.f12bacp-14}, {"denominator 2", 0x1.29540ap-9}, {"denominator 0",
		0x1.40b3bap-8}} {
		q = a.fma(t.place, q, y, a.c(t.place, t.c))
	}
	return a.div("quotient", p*z, q)
}

func gelu(a *Arithmetic, f float32) float32 {
	c := f * (f * f)
	c = a.mulAdd("cube", a.c("0.0447", 0x1.6e4e26p-5), c, f)
	h := tanh(a, a.c("√(2/π)", 0x1.988454p-1)*c)
	return f * (1 + h)
}
