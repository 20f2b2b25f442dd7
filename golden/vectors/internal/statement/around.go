package statement

import (
	"crypto/md5"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"sort"
	"strconv"
	"strings"

	"lockstep/golden/vectors"
)

// pairs is how NumPy and ONNX Runtime's softmax fold eight sums.
const pairs = "(((0+1)+(2+3))+((4+5)+(6+7)))"

// softmaxes: the attention's, of the first n of a row x of 20, and NumPy's, of a
// row of 1024 logits at temperature 0.8.
func softmaxes() []Operation {
	attention := func(name string, lanes int, exp func(*Arithmetic, float32) float32) Operation {
		other, tree := exp512, pairs
		if lanes == 16 {
			other = exp256
		}
		if lanes == 4 {
			tree = "" // of eight sums
		}
		return Operation{
			Name: name, Line: "softmax's sum", Tries: 3000, Fold: tree,
			Right: func(a *Arithmetic, v vectors.Vector) any {
				return attentionSoftmax(a, v.Float32s("x"), int(v.Int("n")), lanes, exp)
			},
			Others: map[string]func(v vectors.Vector) any{
				"lanes of the other CPU": func(v vectors.Vector) any {
					return attentionSoftmax(
						&Arithmetic{}, v.Float32s("x"), int(v.Int("n")),
						map[int]int{16: 8, 8: 16, 4: 8}[lanes], exp,
					)
				},
				"e^x of the other CPU": func(v vectors.Vector) any {
					return attentionSoftmax(
						&Arithmetic{}, v.Float32s("x"), int(v.Int("n")), lanes, other,
					)
				},
				"masked scores count": func(v vectors.Vector) any {
					return attentionSoftmax(&Arithmetic{}, v.Float32s("x"), 20, lanes, exp)
				},
			},
			Draws: []func(r *rand.Rand) map[string]any{
				func(r *rand.Rand) map[string]any {
					return args("x", normals(r, 20, 1), "n", []int64{int64(1 + r.IntN(20))})
				},
				func(r *rand.Rand) map[string]any {
					return args("x", normals(r, 20, 4), "n", []int64{20})
				},
				func(r *rand.Rand) map[string]any {
					return args("x", normals(r, 20, 50), "n", []int64{20})
				},
			},
		}
	}
	row := func(scale float64) func(r *rand.Rand) map[string]any {
		return func(r *rand.Rand) map[string]any { return args("x", normals(r, 1024, scale)) }
	}
	draws := []func(r *rand.Rand) map[string]any{row(1), row(6), row(0.1)}
	const u, f = false, true
	numpy := func(name string, exp, other func(a *Arithmetic, x float32) float32) Operation {
		return Operation{
			Name: name, Line: "`softmax(x/0.8)`", Tries: 600, First: variantRows(), Draws: draws,
			Right: func(a *Arithmetic, v vectors.Vector) any {
				return softmax(a, v.Float32s("x"), exp)
			},
			Others: map[string]func(v vectors.Vector) any{
				"the other variant of e^x": func(v vectors.Vector) any {
					return softmax(&Arithmetic{}, v.Float32s("x"), other)
				},
			},
		}
	}
	return []Operation{
		attention("softmax-avx512", 16, exp512),
		attention("softmax-avx2", 8, exp256),
		attention("softmax-neon", 4, exp256),
		numpy("softmax-numpy-U", numpyExp(u), numpyExp(f)),
		numpy("softmax-numpy-F", numpyExp(f), numpyExp(u)),
		numpy("softmax-numpy-C", expLibrary, numpyExp(u)),
	}
}

func attentionSoftmax(
	a *Arithmetic, x []float32, n, lanes int, exp func(*Arithmetic, float32) float32,
) []float32 {
	highest := x[0]
	for _, v := range x[:n] {
		highest = max(highest, v)
	}
	e := make([]float32, 20)
	for i := range n {
		e[i] = exp(&Arithmetic{}, x[i]-highest)
	}
	var sum float32
	if a.is(wide, "sum") {
		var s float64
		for _, v := range e {
			s += float64(v)
		}
		sum = float32(s)
	} else {
		c := sums(a, "sum", 20, lanes, func(s float32, i int) float32 { return s + e[i] })
		if lanes == 16 {
			for i := range 8 {
				c[i] += c[8+i]
			}
		}
		if lanes == 4 {
			sum = fold(a, "fold of the lanes", "((0+1)+(2+3))", c)
		} else {
			sum = fold(a, "fold of the lanes", pairs, c[:8])
		}
	}
	q := 1 / sum
	divided := a.is("divided by the sum", "result")
	for i := range n {
		if divided {
			e[i] /= sum
		} else {
			e[i] *= q
		}
	}
	return e
}

// variantRows are rows that have, divided by the temperature and with the largest
// subtracted, every argument on which the variants of NumPy's exponential differ.
func variantRows() (rows []map[string]any) {
	const temperature = 0x1.99999ap-1
	// logit is one that gives x when divided.
	logit := func(x float32) (float32, bool) {
		if x == 0 {
			return 0, true
		}
		l := math.Nextafter32(x*temperature, -200)
		for range 3 {
			if l/temperature == x {
				return l, true
			}
			l = math.Nextafter32(l, 200)
		}
		return 0, false
	}
	left := slices.Clone(variants)
	for highest := float32(0); len(left) > 0; highest += 0.25 {
		top, ok := logit(highest)
		if !ok {
			continue
		}
		row := []float32{top}
		left = slices.DeleteFunc(left, func(bits uint32) bool {
			x := math.Float32frombits(bits)
			l, ok := logit(x + highest)
			ok = ok && l/temperature-highest == x
			if ok {
				row = append(row, l)
			}
			return ok
		})
		if len(row) == 1 {
			continue
		}
		for len(row) < 1024 {
			row = append(row, -float32(len(row))/16)
		}
		rows = append(rows, args("x", row))
	}
	return rows
}

func softmax(a *Arithmetic, x []float32, exp func(*Arithmetic, float32) float32) []float32 {
	p := make([]float32, len(x))
	temperature := a.c("temperature", 0x1.99999ap-1)
	inFloat64, late := a.is("divided in float64", "temperature"),
		a.is("after the maximum is subtracted", "temperature")
	highest := float32(math.Inf(-1))
	for i, v := range x {
		switch {
		case inFloat64:
			p[i] = float32(float64(v) / 0.8)
		case late:
			p[i] = v
		default:
			p[i] = a.div("temperature", v, temperature)
		}
		highest = max(highest, p[i])
	}
	for i := range p {
		p[i] -= highest
		if late {
			p[i] /= temperature
		}
		p[i] = exp(&Arithmetic{}, p[i])
	}
	sum := pairwise(a, p)
	if a.is(wide, "sum") {
		var s float64
		for _, v := range p {
			s += float64(v)
		}
		sum = float32(s)
	}
	for i := range p {
		p[i] = a.div("sum", p[i], sum)
	}
	return p
}

// pairwise is np.sum of up to 8192 elements.
func pairwise[T float](a *Arithmetic, x []T) T {
	if a.is("from left to right", "sum") {
		var s T
		for _, v := range x {
			s += v
		}
		return s
	}
	block, multiple := 128, 8
	for _, other := range []int{64, 256} {
		if a.is(fmt.Sprintf("in blocks of %d", other), "sum") {
			block = other
		}
	}
	if a.is("halves end anywhere", "sum") {
		multiple = 1
	}
	return 0 + pairwiseOf(a, x, block, multiple)
}

func pairwiseOf[T float](a *Arithmetic, x []T, block, multiple int) T {
	n := len(x)
	switch {
	case n < 8:
		s := T(math.Copysign(0, -1))
		for _, v := range x {
			s += v
		}
		return s
	case n <= block:
		whole := n &^ 7
		tail := x[whole:]
		if a.is("the rest joins the running sums", "sum") {
			whole, tail = n, nil
		}
		r := startedSums(
			a, "running sums", whole-8, 8, x[:8], func(s T, i int) T { return s + x[8+i] },
		)
		s := fold(a, "fold of the running sums", pairs, r)
		if a.is("the rest is added up first", "sum") {
			var t T
			for _, v := range tail {
				t += v
			}
			return s + t
		}
		for _, v := range tail {
			s += v
		}
		return s
	}
	half := n / 2
	half -= half % multiple
	return pairwiseOf(a, x[:half], block, multiple) + pairwiseOf(a, x[half:], block, multiple)
}

// inputs: what is read from a route's file.
func inputs() []Operation {
	const digits = "0123456789"
	number := func(r *rand.Rand, n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = digits[r.IntN(10)]
		}
		return string(b)
	}
	texts := []func(r *rand.Rand) map[string]any{
		func(r *rand.Rand) map[string]any {
			return args("text", strconv.FormatFloat(r.NormFloat64()*30, 'g', -1, 64))
		},
		func(r *rand.Rand) map[string]any {
			return args("text", strconv.FormatFloat(r.NormFloat64()/100, 'f', 19, 64))
		},
		func(r *rand.Rand) map[string]any { return args("text", number(r, 21)+"."+number(r, 3)) },
		func(r *rand.Rand) map[string]any {
			return args(
				"text", fmt.Sprintf("-%s.%se%d", number(r, 2), number(r, 17), r.IntN(640)-330),
			)
		},
	}
	exact := func(v vectors.Vector) any {
		x, _ := new(big.Float).SetPrec(3000).SetString(strings.TrimSpace(v.Text("text")))
		f, _ := x.Float64()
		return []float64{f}
	}
	return []Operation{
		{
			Name: "csv2", Line: "`read_csv`", Draws: texts, Tries: 20_000,
			Right: func(a *Arithmetic, v vectors.Vector) any {
				return []float64{csv2(a, v.Text("text"))}
			},
			Others: map[string]func(v vectors.Vector) any{"correctly rounded": exact},
		},
		{
			Name: "csvexact", Line: "`read_csv`", Draws: texts, Tries: 20_000,
			Right: func(_ *Arithmetic, v vectors.Vector) any { return exact(v) },
			Others: map[string]func(v vectors.Vector) any{
				"a rounding for each digit": func(v vectors.Vector) any {
					return []float64{csv2(&Arithmetic{}, v.Text("text"))}
				},
			},
		},
		{
			Name: "seed", Line: "seed", Tries: 1000,
			Draws: []func(r *rand.Rand) map[string]any{func(r *rand.Rand) map[string]any {
				return args("path", fmt.Sprintf("data/%05d.csv", r.IntN(20_000)))
			}},
			Right: func(a *Arithmetic, v vectors.Vector) any {
				sum := md5.Sum([]byte(v.Text("path")))
				if a.is("from the other end", "digest") {
					for i := range 8 {
						sum[i], sum[15-i] = sum[15-i], sum[i]
					}
				}
				if a.is("its first 8 bytes", "digest") {
					clear(sum[:8])
				}
				n := new(big.Int).SetBytes(sum[:])
				return []int64{n.Mod(n, big.NewInt(10_000)).Int64()}
			},
			Others: map[string]func(v vectors.Vector) any{
				"of the file's name": func(v vectors.Vector) any {
					sum := md5.Sum([]byte(strings.TrimPrefix(v.Text("path"), "data/")))
					n := new(big.Int).SetBytes(sum[:])
					return []int64{n.Mod(n, big.NewInt(10_000)).Int64()}
				},
			},
		},
	}
}

// csv2 is pandas' precise_xstrtod of a number with a point, and perhaps an
// exponent.
func csv2(a *Arithmetic, text string) float64 {
	mantissa, power, _ := strings.Cut(text, "e")
	exponent, _ := strconv.Atoi(power)
	negative := strings.HasPrefix(mantissa, "-")
	var number float64
	digits, point, limit := 0, false, 17
	for _, other := range []int{16, 18, 19} {
		if a.is(fmt.Sprintf("%d are read", other), "digits") {
			limit = other
		}
	}
	zeros := a.is("leading zeros do not count", "digits")
	for _, c := range strings.TrimPrefix(mantissa, "-") {
		switch {
		case c == '.':
			point = true
		case digits < limit:
			number = a.mulAdd64("digit", number, 10, float64(c-'0'))
			if number != 0 || !zeros {
				digits++
			}
			if point {
				exponent--
			}
		case !point:
			exponent++
		}
	}
	ten := func(k int) float64 { x, _ := strconv.ParseFloat("1e"+strconv.Itoa(k), 64); return x }
	switch {
	case exponent > 308:
		number = math.Inf(1)
	case exponent > 0:
		number *= ten(exponent)
	case exponent >= -308:
		number = a.div64("power of ten", number, ten(-exponent))
	case exponent >= -616:
		if a.is("in one division", "small power of ten") {
			x, _ := new(big.Float).SetPrec(2000).SetString("1e" + strconv.Itoa(exponent))
			x.Mul(x, big.NewFloat(number))
			number, _ = x.Float64()
		} else {
			number = number / ten(-308-exponent) / ten(308)
		}
	default:
		number = 0
	}
	if negative {
		number = -number
	}
	return number
}

// random: the draws of a seed, the distribution and the choice.
func random() []Operation {
	distribution := func(r *rand.Rand) []float32 {
		return softmax(
			&Arithmetic{}, normals(r, 1024, []float64{0.1, 1, 3}[r.IntN(3)]), numpyExp(false),
		)
	}
	cdf := func(a *Arithmetic, p []float32) []float64 {
		c := make([]float64, len(p))
		var s float64
		var s32 float32
		float32s := a.is(narrow, "running sum")
		for i, x := range p {
			s += float64(x)
			s32 += x
			c[i] = s
			if float32s {
				c[i] = float64(s32)
			}
		}
		last := c[len(c)-1]
		undivided := a.is("left out", "division by the last")
		for i := range c {
			if !undivided {
				c[i] = a.div64("division by the last", c[i], last)
			}
		}
		return c
	}
	choose := func(a *Arithmetic, c []float64, u float64) int64 {
		if a.is(otherSide, "draw on an edge") {
			return int64(sort.Search(len(c), func(i int) bool { return u <= c[i] }))
		}
		return int64(sort.Search(len(c), func(i int) bool { return u < c[i] }))
	}
	return []Operation{
		{
			Name: "draws", Line: "seed", Tries: 300,
			Draws: []func(r *rand.Rand) map[string]any{
				func(r *rand.Rand) map[string]any {
					return args("seed", []int64{int64(r.IntN(10_000))})
				},
			},
			Right: func(a *Arithmetic, v vectors.Vector) any {
				return draws(a, uint32(v.Int("seed")), 40)
			},
		},
		{
			Name: "cdf", Line: "`choice`", Tries: 300,
			Draws: []func(r *rand.Rand) map[string]any{
				func(r *rand.Rand) map[string]any { return args("p", distribution(r)) },
			},
			Right: func(a *Arithmetic, v vectors.Vector) any { return cdf(a, v.Float32s("p")) },
			Others: map[string]func(v vectors.Vector) any{
				"each edge is a sum of its own, pairwise": func(v vectors.Vector) any {
					p := v.Float32s("p")
					x, c := make([]float64, len(p)), make([]float64, len(p))
					for i := range p {
						x[i] = float64(p[i])
						c[i] = pairwise(&Arithmetic{}, x[:i+1])
					}
					for i := range c {
						c[i] /= c[len(c)-1]
					}
					return c
				},
			},
		},
		{
			// The draw lies on an edge of the distribution, or beside one.
			Name: "choice", Line: "`choice`", Tries: 20_000,
			Draws: []func(r *rand.Rand) map[string]any{func(r *rand.Rand) map[string]any {
				p := distribution(r)
				c := cdf(&Arithmetic{}, p)
				u := c[r.IntN(len(c)-1)]
				switch r.IntN(3) {
				case 0:
					u = math.Nextafter(u, 0)
				case 1:
					u = math.Nextafter(u, 1)
				}
				return args("p", p, "u", []float64{u})
			}},
			Right: func(a *Arithmetic, v vectors.Vector) any {
				return []int64{choose(a, cdf(a, v.Float32s("p")), v.Float64("u"))}
			},
			Others: map[string]func(v vectors.Vector) any{
				"the draw is multiplied by the last, " +
					"not the sums divided": func(v vectors.Vector) any {
					p := v.Float32s("p")
					c := make([]float64, len(p))
					var s float64
					for i, x := range p {
						s += float64(x)
						c[i] = s
					}
					return []int64{choose(&Arithmetic{}, c, v.Float64("u")*s)}
				},
			},
		},
	}
}

// draws are uniforms of MT19937.
func draws(a *Arithmetic, seed uint32, n int) []float64 {
	var mt [624]uint32
	for i := range mt {
		mt[i] = seed
		seed = 1812433253*(seed^seed>>30) + uint32(i+1)
	}
	at := len(mt)
	word := func() uint32 {
		if at == len(mt) {
			at = 0
			for i := range mt {
				y := mt[i]&0x80000000 | mt[(i+1)%624]&0x7fffffff
				mt[i] = mt[(i+397)%624] ^ y>>1 ^ y&1*0x9908b0df
			}
		}
		y := mt[at]
		at++
		y ^= y >> 11
		y ^= y << 7 & 0x9d2c5680
		y ^= y << 15 & 0xefc60000
		return y ^ y>>18
	}
	u := make([]float64, n)
	for i := range u {
		x, y := word(), word()
		if a.is("change places", "words") {
			x, y = y, x
		}
		u[i] = (float64(x>>5)*67108864 + float64(y>>6)) / 9007199254740992
		if a.is("32 bits of one", "words") {
			u[i] = float64(x) / (1 << 32)
		}
	}
	return u
}

// tokens: from lateral accelerations and back.
func tokens() []Operation {
	bins := func(a *Arithmetic) (b [1024]float64) {
		step := a.c64("step", 10.0/1023)
		for i := range b {
			switch {
			case a.is("multiplied before divided", "bin"):
				b[i] = float64(float64(i)*10)/1023 - 5
			case a.is(narrow, "bin"):
				b[i] = float64(float32(float64(i)*step - 5))
			default:
				b[i] = a.mulAdd64("bin", float64(i), step, -5)
			}
		}
		b[1023] = 5
		return b
	}
	right := bins(&Arithmetic{})
	return []Operation{
		{
			Name: "decode", Line: "bins", Tries: 5000,
			Draws: []func(r *rand.Rand) map[string]any{
				func(r *rand.Rand) map[string]any {
					return args("token", []int64{int64(r.IntN(1024))})
				},
			},
			Right: func(a *Arithmetic, v vectors.Vector) any {
				return []float64{bins(a)[v.Int("token")]}
			},
		},
		{
			Name: "encode", Line: "encode", Tries: 30_000,
			Draws: []func(r *rand.Rand) map[string]any{
				func(r *rand.Rand) map[string]any {
					x := right[r.IntN(1024)]
					switch r.IntN(3) {
					case 0:
						x = math.Nextafter(x, -9)
					case 1:
						x = math.Nextafter(x, 9)
					}
					return args("x", []float64{x})
				},
				func(r *rand.Rand) map[string]any {
					return args("x", []float64{12*r.Float64() - 6})
				},
				func(r *rand.Rand) map[string]any {
					return args("x", []float64{float64(2*r.IntN(2)-1) * 5.5})
				},
			},
			Right: func(a *Arithmetic, v vectors.Vector) any {
				x, b := v.Float64("x"), bins(a)
				if !a.is("left out", "clip") {
					x = min(max(x, -5), 5)
				}
				onEdge := a.is(otherSide, "value on a bin")
				return []int64{
					int64(sort.Search(
						1024, func(i int) bool { return x < b[i] || x == b[i] && !onEdge },
					)),
				}
			},
			Others: map[string]func(v vectors.Vector) any{
				"the nearest bin": func(v vectors.Vector) any {
					return []int64{
						int64(math.RoundToEven((min(max(v.Float64("x"), -5), 5) + 5) * 102.3)),
					}
				},
				"computed from the step": func(v vectors.Vector) any {
					return []int64{
						int64(math.Ceil((min(max(v.Float64("x"), -5), 5) + 5) / (10.0 / 1023))),
					}
				},
			},
		},
	}
}

// rollout: what happens to a prediction, and at the end.
func rollout() []Operation {
	pick := func(r *rand.Rand, sizes ...int) int { return sizes[r.IntN(len(sizes))] }
	lengths := func(r *rand.Rand) int {
		return pick(r, 1+r.IntN(7), 8+r.IntN(121), 129+r.IntN(300), 400, 399)
	}
	series := func(r *rand.Rand) map[string]any {
		n := pick(r, 400, 400, 400, 2, 2+r.IntN(398))
		return args("target", normals64(r, n, 1), "lataccel", normals64(r, n, 1))
	}
	return []Operation{
		{
			// The prediction x around the last lataccel, by ½ at most.
			Name: "clip", Line: "clip", Tries: 20_000,
			Draws: []func(r *rand.Rand) map[string]any{
				func(r *rand.Rand) map[string]any {
					return args("x", normals64(r, 1, 2), "current", normals64(r, 1, 2))
				},
				func(r *rand.Rand) map[string]any {
					current := r.NormFloat64()
					return args(
						"x", []float64{current + float64(r.IntN(2)) - .5}, "current",
						[]float64{current},
					)
				},
			},
			Right: func(a *Arithmetic, v vectors.Vector) any {
				x, current, width := v.Float64("x"), v.Float64("current"), a.c64("width", 0.5)
				if a.is("of the difference", "clip") {
					return []float64{current + min(max(x-current, -width), width)}
				}
				if a.is(narrow, "clip") {
					return []float64{float64(float32(min(max(x, current-width), current+width)))}
				}
				return []float64{min(max(x, current-width), current+width)}
			},
		},
		{
			Name: "sum", Line: "sums", Tries: 4000, Fold: pairs,
			Draws: []func(r *rand.Rand) map[string]any{
				func(r *rand.Rand) map[string]any { return args("x", normals64(r, lengths(r), 1)) },
			},
			Right: func(a *Arithmetic, v vectors.Vector) any {
				return []float64{pairwise(a, v.Float64s("x"))}
			},
		},
		{
			Name: "sum32", Line: "sums", Tries: 4000,
			Draws: []func(r *rand.Rand) map[string]any{
				func(r *rand.Rand) map[string]any { return args("x", normals(r, lengths(r), 1)) },
				func(r *rand.Rand) map[string]any { return args("x", normals(r, 1024, 1)) },
			},
			Right: func(a *Arithmetic, v vectors.Vector) any {
				return []float32{pairwise(a, v.Float32s("x"))}
			},
		},
		{
			Name: "costs", Line: "costs", Tries: 4000,
			Draws: []func(r *rand.Rand) map[string]any{series},
			Right: costs,
		},
	}
}

// costs are those of lataccels against targets: lateral acceleration, jerk and
// total.
func costs(a *Arithmetic, v vectors.Vector) any {
	target, lataccel := v.Float64s("target"), v.Float64s("lataccel")
	n := len(target)
	squares, jerks := make([]float64, n), make([]float64, n-1)
	for i := range squares {
		d := target[i] - lataccel[i]
		squares[i] = d * d
	}
	for i := range jerks {
		j := lataccel[i+1] - lataccel[i]
		if a.is("times 10", "jerk") {
			j *= 10
		} else {
			j /= a.c64("0.1", 0.1)
		}
		jerks[i] = j * j
	}
	mean := func(x []float64) float64 {
		s, m := pairwise(a, x), float64(len(x))
		if a.is("the hundredfold is divided", "mean") {
			return s * 100 / m
		}
		return a.div64("mean", s, m) * 100
	}
	lat, jerk := mean(squares), mean(jerks)
	if a.is("over as many as the errors", "mean of the jerk") {
		jerk = pairwise(&Arithmetic{}, jerks) / float64(n) * 100
	}
	return []float64{lat, jerk, a.mulAdd64("total", lat, 50, jerk)}
}
