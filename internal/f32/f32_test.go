package f32

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// guard is a NaN that no kernel produces. Buffers lie between guards, and so do
// the rows of a matrix; every word of them is compared after a call.
const guard = 0x7fabcdef

// same holds for equal bit patterns, and for any two NaN that a kernel produced.
func same(got, want float32) bool {
	return math.Float32bits(got) == math.Float32bits(want) ||
		got != got && want != want && math.Float32bits(want) != guard &&
			math.Float32bits(got) != guard
}

// compare reports the first difference between two memories.
func compare(t fatal, got, want []float32) {
	for i := range want {
		if !same(got[i], want[i]) {
			t.Fatalf("word %d of %d: %g (%#08x), want %g (%#08x)", i, len(want),
				got[i], math.Float32bits(got[i]), want[i], math.Float32bits(want[i]))
		}
	}
}

// A memory is a buffer between guards.
type memory []float32

const margin = 131 // more than the columns of a tile

func newMemory(n int) memory {
	m := make(memory, n+2*margin)
	for i := range m {
		m[i] = math.Float32frombits(guard)
	}
	return m
}

func (m memory) buffer() []float32 { return m[margin : len(m)-margin : len(m)-margin] }

// numbers are the kinds of values that kernels are tested with.
var numbers = map[string]func(r *rand.Rand) float32{
	"network": func(r *rand.Rand) float32 { return float32(r.NormFloat64()) },
	"scales": func(r *rand.Rand) float32 {
		return float32(math.Ldexp(r.NormFloat64(), r.IntN(60)-30))
	},
	"exact": func(r *rand.Rand) float32 { return float32(r.IntN(9)-4) / 4 },
	"tiny": func(r *rand.Rand) float32 {
		return float32(math.Ldexp(r.NormFloat64(), -100-r.IntN(50)))
	},
	"huge": func(r *rand.Rand) float32 {
		return float32(math.Ldexp(r.NormFloat64(), 40+r.IntN(88)))
	},
	"zeros": func(r *rand.Rand) float32 { return float32(math.Copysign(0, r.NormFloat64())) },
	"any": func(r *rand.Rand) float32 {
		for {
			if v := math.Float32frombits(r.Uint32()); v == v {
				return v
			}
		}
	},
	"mixed": func(r *rand.Rand) float32 {
		s := []float32{
			0, float32(math.Copysign(0, -1)), float32(math.Inf(1)), float32(math.Inf(-1)),
			math.SmallestNonzeroFloat32, -math.SmallestNonzeroFloat32, math.MaxFloat32,
			-math.MaxFloat32,
		}
		if r.IntN(8) == 0 {
			return s[r.IntN(len(s))]
		}
		return float32(r.NormFloat64())
	},
}

// draw returns a source of numbers of a kind that t chose.
func draw(t *rapid.T, name string) func() float32 {
	kinds := make([]string, 0, len(numbers))
	for kind := range numbers {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	f := numbers[rapid.SampledFrom(kinds).Draw(t, name)]
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, name+" seed"), 0))
	return func() float32 { return f(r) }
}

// vector returns n drawn numbers between guards.
func vector(t *rapid.T, name string, n int) memory {
	f, m := draw(t, name), newMemory(n)
	for i := range m.buffer() {
		m.buffer()[i] = f()
	}
	return m
}

// each runs a property of every set of assembly kernels.
func each(t *testing.T, property func(t *rapid.T, set *Kernels)) {
	for _, set := range Available() {
		if set != Go {
			t.Run(set.Name, rapid.MakeCheck(func(t *rapid.T) { property(t, set) }))
		}
	}
}

func TestAVX512(t *testing.T) {
	if Best().Name != "avx512" {
		t.Skip(
			"this CPU has no AVX-512: its kernels are not tested here, only on CPUs that have " +
				"it and under an emulator",
		)
	}
}

func TestMatMul(t *testing.T) {
	each(t, func(t *rapid.T, set *Kernels) {
		m := rapid.IntRange(0, 23).Draw(t, "m")
		panels := rapid.IntRange(0, 13).Draw(t, "panels")
		k := rapid.OneOf(rapid.IntRange(0, 9), rapid.SampledFrom([]int{20, 32, 128, 131})).Draw(
			t, "k",
		)
		lda := rapid.OneOf(rapid.Just(k), rapid.IntRange(0, k+9)).Draw(t, "lda")
		ldc := 16*panels + rapid.IntRange(0, 20).Draw(t, "gap of c")
		b := Panels{Stride: 16, Panel: 16 * k} // packed
		switch rapid.IntRange(0, 2).Draw(t, "layout") {
		case 1: // row-major
			b.Stride, b.Panel = 16*panels+rapid.IntRange(0, 20).Draw(t, "gap of b"), 16
		case 2:
			b.Stride, b.Panel = rapid.IntRange(0, 40).Draw(t, "stride"),
				rapid.IntRange(0, 99).Draw(t, "panel")
		}
		alpha, accumulate := draw(t, "alpha")(), rapid.Bool().Draw(t, "accumulate")
		testMatMul(
			t, set, m, panels, k, lda, ldc, b, alpha, accumulate, draw(t, "a"), draw(t, "b"),
			draw(t, "c"),
		)
	})
}

// TestPack: an element stands in its panel's column, what no column fills is 0, and panels from one
// on begin with that.
func TestPack(t *testing.T) {
	for _, shape := range [][2]int{{1, 1}, {3, 16}, {5, 17}, {2, 40}} {
		k, n := shape[0], shape[1]
		b := make([]float32, k*n)
		for i := range b {
			b[i] = float32(i + 1)
		}
		packed := Pack(b, k, n)
		wide := (n + PanelWidth - 1) / PanelWidth * PanelWidth
		if len(packed.Data) != k*wide {
			t.Errorf("%d rows of %d are packed as %d numbers, want %d", k, n, len(packed.Data),
				k*wide)
		}
		for first := range wide / PanelWidth {
			p := packed.Columns(first)
			for row := range k {
				for j := first * PanelWidth; j < wide; j++ {
					want := float32(0)
					if j < n {
						want = b[row*n+j]
					}
					at := (j/PanelWidth-first)*p.Panel + row*p.Stride + j%PanelWidth
					if got := p.Data[at]; got != want {
						t.Fatalf("%d rows of %d, from panel %d on: [%d][%d] is %v, want %v", k, n,
							first, row, j, got, want)
					}
				}
			}
		}
	}
}

// TestPeak: what only measures says how many multiply-adds it has done: whole vectors, a thousand
// times. Plain Go has none.
func TestPeak(t *testing.T) {
	for _, set := range Available() {
		lanes := map[string]int{"avx512": 16, "avx2": 8, "neon": 4}[set.Name]
		if lanes == 0 {
			if set.Peak != nil {
				t.Errorf("%s has a peak", set.Name)
			}
		} else if n := set.Peak(); n < 1000*lanes || n%(1000*lanes) != 0 {
			t.Errorf("%s has done %d, want thousands of %d", set.Name, n, lanes)
		}
	}
}

// TestMatMulShapes comes by all remainders of rows, panels and k.
func TestMatMulShapes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	value := func() float32 { return numbers["network"](r) }
	for _, set := range Available() {
		for m := range 22 {
			for panels := range 14 {
				for _, k := range []int{0, 1, 2, 3, 4, 5, 7, 8, 32} {
					b := Panels{Stride: 16, Panel: 16 * k}
					testMatMul(
						t, set, m, panels, k, k, 16*panels+1, b, value(), r.IntN(2) == 0, value,
						value, value,
					)
				}
			}
		}
	}
}

type fatal interface{ Fatalf(string, ...any) }

// testMatMul compares one call with the specification, each matrix being filled
// from its own source.
func testMatMul(
	t fatal, set *Kernels, m, panels, k, lda, ldc int, b Panels, alpha float32, accumulate bool,
	sources ...func() float32,
) {
	a := newMemory(max(0, (m-1)*lda+k))
	for i := range m {
		for p := range k {
			a.buffer()[i*lda+p] = sources[0]()
		}
	}
	b.Data = newMemory(max(0, (panels-1)*b.Panel+(k-1)*b.Stride+16)).buffer()
	for j := range panels {
		for p := range k {
			for q := range 16 {
				b.Data[j*b.Panel+p*b.Stride+q] = sources[1]()
			}
		}
	}
	got := newMemory(max(0, (m-1)*ldc+16*panels))
	for i := range m {
		for j := range 16 * panels {
			got.buffer()[i*ldc+j] = sources[2]()
		}
	}

	want := slices.Clone(got)
	set.MatMul(m, panels, k, a.buffer(), lda, b, got.buffer(), ldc, alpha, accumulate)
	Go.MatMul(m, panels, k, a.buffer(), lda, b, want.buffer(), ldc, alpha, accumulate)
	compare(t, got, want)
}

func TestLayerNorm(t *testing.T) {
	normsOf(
		t,
		9,
		func(k *Kernels, y, x, weight, bias []float32) { k.LayerNorm(y, x, weight, bias) },
	)
}

func TestLayerNormARM(t *testing.T) {
	needARM(t)
	normsOf(
		t, 45,
		func(k *Kernels, y, x, weight, bias []float32) { k.LayerNormARM(y, x, weight, bias) },
	)
}

// needARM skips what compares functions that arm64 alone has in assembly.
func needARM(t *testing.T) {
	t.Helper()
	if runtime.GOARCH != "arm64" {
		t.Skip("this CPU is no arm64: the plain function is what runs here, and " +
			"make test-arm64 holds the assembly to it")
	}
}

func normsOf(
	t *testing.T, most int, run func(k *Kernels, y, x, weight, bias []float32),
) {
	each(t, func(t *rapid.T, set *Kernels) {
		n, rows := 8*rapid.IntRange(1, 40).Draw(t, "n/8"), rapid.IntRange(0, most).Draw(t, "rows")
		x, weight, bias := vector(t, "x", rows*n), vector(t, "weight", n), vector(t, "bias", n)
		if rapid.Bool().Draw(t, "cancelling") { // then the order of the float64 sums shows
			x, bias = newMemory(rows*n), newMemory(n)
			r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
			for i := range x.buffer() {
				x.buffer()[i] = float32(r.NormFloat64())
			}
			clear(bias.buffer())
			for row := range rows {
				order := r.Perm(n)
				for i := 0; i < n/2; i += 2 {
					x.buffer()[row*n+order[i]], x.buffer()[row*n+order[i+1]] = 0x1p50, -0x1p50
				}
			}
		}
		got := newMemory(rows * n)
		if rapid.Bool().Draw(t, "in place") {
			got = x
		}
		want := slices.Clone(got)
		run(Go, want.buffer(), x.buffer(), weight.buffer(), bias.buffer())
		run(set, got.buffer(), x.buffer(), weight.buffer(), bias.buffer())
		compare(t, got, want)
	})
}

func TestGelu(t *testing.T) {
	mapping(t, draw, func(k *Kernels, y, x []float32, _ float32) { k.Gelu(y, x) })
}

func TestExp512(t *testing.T) {
	mapping(t, negative, func(k *Kernels, y, x []float32, shift float32) { k.Exp512(y, x, shift) })
}

func TestExp256(t *testing.T) {
	mapping(t, negative, func(k *Kernels, y, x []float32, shift float32) { k.Exp256(y, x, shift) })
}

func TestExpNumPy(t *testing.T) {
	mapping(t, around, func(k *Kernels, y, x []float32, shift float32) { k.ExpNumPy(y, x, shift) })
}

func TestExpNumPyFused(t *testing.T) {
	mapping(
		t, around, func(k *Kernels, y, x []float32, shift float32) { k.ExpNumPyFused(y, x, shift) },
	)
}

func TestExpLibrary(t *testing.T) {
	needARM(t)
	mapping(
		t, around, func(k *Kernels, y, x []float32, shift float32) { k.ExpLibrary(y, x, shift) },
	)
}

// TestExpEnds: beyond the ends of the float32 numbers an exponential is infinite, or 0, and up to
// there it is none of these.
func TestExpEnds(t *testing.T) {
	inf := math.Inf(1)
	for name, exp := range map[string]func(float32) float32{
		"NumPy":        func(x float32) float32 { return ExpNumPy(x, false) },
		"NumPy, fused": func(x float32) float32 { return ExpNumPy(x, true) },
		"library":      ExpLibrary,
	} {
		for _, x := range []float32{
			-0x1.9fe368p6, -0x1.9fe36ap+6, -104, -110, -1e30, float32(-inf), 0x1.62e42ep6,
			0x1.62e43p+6, 95, 110, 1e30, float32(inf),
		} {
			if got, want := exp(x), float32(math.Exp(float64(x))); got != want &&
				(want == 0 || want > math.MaxFloat32 || math.Abs(float64(got/want-1)) > 1e-6) {
				t.Errorf("%s: e^%v is %v, want %v", name, x, got, want)
			}
		}
		if y := exp(float32(math.NaN())); y == y {
			t.Errorf("%s: of NaN it is %v", name, y)
		}
	}
}

func TestDivide(t *testing.T) {
	mapping(t, draw, func(k *Kernels, y, x []float32, divisor float32) { k.Divide(y, x, divisor) })
}

func TestAdd(t *testing.T) {
	mapping(t, draw, func(k *Kernels, y, x []float32, _ float32) { k.Add(y, x) })
}

// TestMax: zeros of either sign are the same.
func TestMax(t *testing.T) {
	each(t, func(t *rapid.T, set *Kernels) {
		x := vector(t, "x", rapid.IntRange(0, 300).Draw(t, "n")).buffer()
		for range rapid.IntRange(0, 3).Draw(t, "NaN") {
			if len(x) > 0 {
				x[rapid.IntRange(0, len(x)-1).Draw(t, "at")] = float32(math.NaN())
			}
		}
		if got, want := set.Max(x), Go.Max(x); got != want {
			t.Fatalf("%v, want %v", got, want)
		}
	})
}

func TestSoftmax512(t *testing.T) {
	softmax(
		t,
		func(k *Kernels, s []float32, rows, stride, first int) {
			k.Softmax512(s, rows, stride, first)
		},
	)
}

func TestSoftmax256(t *testing.T) {
	softmax(
		t,
		func(k *Kernels, s []float32, rows, stride, first int) {
			k.Softmax256(s, rows, stride, first)
		},
	)
}

func TestSoftmax4(t *testing.T) {
	softmax(
		t,
		func(k *Kernels, s []float32, rows, stride, first int) {
			k.Softmax4(s, rows, stride, first)
		},
	)
}

// TestLayerNorm130ARM: rows side by side have the bits of each one alone.
func TestLayerNorm130ARM(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for k := range 30 {
		rows, n := k%10, []int{1, 8, 128}[k/10]
		x, weight, bias := make([]float32, n*rows), make([]float32, n), make([]float32, n)
		for _, numbers := range [][]float32{x, weight, bias} {
			for i := range numbers {
				numbers[i] = float32(r.NormFloat64())
			}
		}
		got, want := make([]float32, len(x)), make([]float32, len(x))
		LayerNorm130ARM(got, x, weight, bias)
		for i := 0; i < len(x); i += n {
			layerNorm130ARMRow(want[i:][:n], x[i:][:n], weight, bias)
		}
		if !slices.EqualFunc(got, want, same) {
			t.Errorf("%d rows of %d: %x, want %x", rows, n, got, want)
		}
		LayerNorm130ARM(x, x, weight, bias)
		if !slices.EqualFunc(x, want, same) {
			t.Errorf("%d rows of %d in place: %x, want %x", rows, n, x, want)
		}
	}
}

func softmax(t *testing.T, run func(k *Kernels, s []float32, rows, stride, first int)) {
	each(t, func(t *rapid.T, set *Kernels) {
		first := rapid.IntRange(0, Context-1).Draw(t, "first")
		rows := rapid.IntRange(0, Context-first).Draw(t, "rows")
		stride := rapid.SampledFrom([]int{Context, 32, 37}).Draw(t, "stride")
		value := around(t, "s")
		got := newMemory(max(0, (rows-1)*stride+Context))
		for i := range rows {
			for j := range Context {
				got.buffer()[i*stride+j] = value()
			}
		}
		if rows > 0 && rapid.Bool().Draw(t, "NaN") {
			i := rapid.IntRange(0, rows-1).Draw(t, "in row")
			got.buffer()[i*stride+rapid.IntRange(0, Context-1).Draw(t, "column")] = float32(
				math.NaN(),
			)
		}
		want := slices.Clone(got)
		run(set, got.buffer(), rows, stride, first)
		run(Go, want.buffer(), rows, stride, first)
		compare(t, got, want)
	})
}

func TestTranspose(t *testing.T) {
	each(t, func(t *rapid.T, set *Kernels) {
		rows, columns := 4*rapid.IntRange(0, 12).Draw(t, "rows/4"),
			8*rapid.IntRange(0, 6).Draw(t, "columns/8")
		stride := columns + rapid.IntRange(0, 9).Draw(t, "gap")
		x := vector(t, "x", max(0, (rows-1)*stride+columns))
		got := newMemory((rows + 15) / 16 * 16 * columns)
		want := slices.Clone(got)
		set.Transpose(got.buffer(), x.buffer(), rows, columns, stride)
		Go.Transpose(want.buffer(), x.buffer(), rows, columns, stride)
		compare(t, got, want)
	})
}

// negative is draw for numbers <= 0, often those with a subnormal exponential.
func negative(t *rapid.T, name string) func() float32 {
	f := around(t, name)
	return func() float32 { return float32(math.Copysign(float64(f()), -1)) }
}

// around is draw, or numbers over the range in which e^x is a float32.
func around(t *rapid.T, name string) func() float32 {
	f := draw(t, name)
	if rapid.Bool().Draw(t, name+" around the range") {
		return func() float32 { return min(max(f(), -4), 4) * 27 }
	}
	return f
}

// mapping checks an element-wise kernel at all lengths up to a few vectors.
func mapping(
	t *testing.T, source func(t *rapid.T, name string) func() float32,
	run func(k *Kernels, y, x []float32, shift float32),
) {
	each(t, func(t *rapid.T, set *Kernels) {
		value, shift := source(t, "x"), source(t, "shift")()
		if rapid.Bool().Draw(t, "no shift") {
			shift = 0
		}
		inPlace := rapid.Bool().Draw(t, "in place")
		for n := range 150 {
			x := newMemory(n)
			for i := range x.buffer() {
				x.buffer()[i] = value()
			}
			got := newMemory(n)
			if inPlace {
				got = x
			}
			want := slices.Clone(got)
			run(Go, want.buffer(), x.buffer(), shift)
			run(set, got.buffer(), x.buffer(), shift)
			compare(t, got, want)
		}
	})
}

// TestSweep holds the element-wise kernels to the specification on every 1009th
// float32, which comes by all exponents and all last digits, and around the
// edges of their ranges.
func TestSweep(t *testing.T) {
	const all, sign = 1 << 32, 1 << 31
	edges := []float32{
		0x1.62e43p+6, -0x1.61814ap+6, -0x1.9fe36ap+6, float32(math.Copysign(0, -1)),
		float32(math.Inf(-1)), 0x1.62e42ep6, -0x1.9fe368p6,
	}
	for n := -151; n < 129; n++ { // where x·log2(e) is rounded to another integer
		edges = append(edges, float32((float64(n)+.5)*math.Ln2))
	}
	for _, kernel := range []struct {
		name string
		from uint64
		run  func(k *Kernels, y, x []float32)
	}{
		{"Gelu", 0, func(k *Kernels, y, x []float32) { k.Gelu(y, x) }},
		{"Exp512", sign, func(k *Kernels, y, x []float32) { k.Exp512(y, x, 0) }},
		{"Exp256", sign, func(k *Kernels, y, x []float32) { k.Exp256(y, x, 0) }},
		{"ExpNumPy", 0, func(k *Kernels, y, x []float32) { k.ExpNumPy(y, x, 0) }},
		{"ExpNumPyFused", 0, func(k *Kernels, y, x []float32) { k.ExpNumPyFused(y, x, 0) }},
		{"ExpLibrary", 0, func(k *Kernels, y, x []float32) { k.ExpLibrary(y, x, 0) }},
	} {
		t.Run(kernel.name, func(t *testing.T) {
			if kernel.name == "ExpLibrary" {
				needARM(t)
			}
			step := uint64(1009)
			if testing.Short() {
				step *= 101
			}
			x := make([]float32, 0, 1<<12)
			got, want := make([]float32, cap(x)), make([]float32, cap(x))
			flush := func() {
				kernel.run(Go, want, x)
				for _, set := range Available() {
					kernel.run(set, got, x)
					for i, v := range x {
						if !same(got[i], want[i]) {
							t.Fatalf(
								"%s: %g (%#08x) becomes %g, want %g", set.Name, v,
								math.Float32bits(v), got[i], want[i],
							)
						}
					}
				}
				x = x[:0]
			}
			add := func(bits uint64) {
				if bits < kernel.from || bits >= all {
					return
				}
				if x = append(x, math.Float32frombits(uint32(bits))); len(x) == cap(x) {
					flush()
				}
			}
			for bits := kernel.from; bits < all; bits += step {
				add(bits)
			}
			for _, edge := range edges {
				for i := range uint64(200) {
					add(uint64(math.Float32bits(edge)) + i - 100)
				}
			}
			flush()
		})
	}
}

// TestOutOfRange holds every kernel to panic, and to write nothing, where a
// slice is one element too short.
func TestOutOfRange(t *testing.T) {
	const m, panels, k, lda, ldc = 7, 3, 5, 6, 50
	const stride, panel = 17, 90
	for _, set := range Available() {
		if set == Go {
			continue
		}
		matMul := func(m, lda, stride, panel, ldc int, cut ...int) func(c []float32) {
			return func(c []float32) {
				a := make([]float32, (7-1)*6+k-cut[0])
				b := Panels{make([]float32, (panels-1)*90+(k-1)*17+16-cut[1]), stride, panel}
				set.MatMul(m, panels, k, a, lda, b, c[:(7-1)*50+16*panels-cut[2]], ldc, 1, false)
			}
		}
		layerNorm := func(y, x, weight, bias int) func(c []float32) {
			s := make([]float32, 16)
			return func(c []float32) { set.LayerNorm(c[:y], s[:x], s[:weight], s[:bias]) }
		}
		for name, test := range map[string]struct {
			call  func(c []float32)
			panic any
		}{
			"MatMul": {matMul(m, lda, stride, panel, ldc, 0, 0, 0), nil},
			"MatMul a": {matMul(m, lda, stride, panel, ldc, 1, 0, 0), "f32: MatMul: a " +
				"is too short"},
			"MatMul b": {matMul(m, lda, stride, panel, ldc, 0, 1, 0), "f32: MatMul: b " +
				"is too short"},
			"MatMul c": {matMul(m, lda, stride, panel, ldc, 0, 0, 1), "f32: MatMul: c " +
				"is too short"},
			"MatMul row": {matMul(m+1, lda, stride, panel, ldc, 0, 0, 0), "f32: MatMul: " +
				"a is too short"},
			"MatMul lda": {matMul(m, lda+1, stride, panel, ldc, 0, 0, 0), "f32: MatMul: " +
				"a is too short"},
			"MatMul lda < 0": {matMul(m, -1, stride, panel, ldc, 0, 0, 0), "f32: MatMul: a " +
				"is too short"},
			"MatMul huge lda": {matMul(m, 1<<62, stride, panel, ldc, 0, 0, 0), "f32: MatMul: " +
				"a is too short"},
			"MatMul Stride": {matMul(m, lda, stride+1, panel, ldc, 0, 0, 0), "f32: MatMul: " +
				"b is too short"},
			"MatMul huge Stride": {matMul(m, lda, 1<<62, panel, ldc, 0, 0, 0), "f32: MatMul: b " +
				"is too short"},
			"MatMul Panel": {matMul(m, lda, stride, panel+1, ldc, 0, 0, 0), "f32: MatMul: " +
				"b is too short"},
			"MatMul Panel < 0": {matMul(m, lda, stride, -16, ldc, 0, 0, 0), "f32: MatMul: b " +
				"is too short"},
			"MatMul huge Panel": {matMul(m, lda, stride, 1<<63-1, ldc, 0, 0, 0), "f32: MatMul: " +
				"b is too short"},
			"MatMul ldc": {matMul(m, lda, stride, panel, ldc+1, 0, 0, 0), "f32: MatMul: " +
				"c is too short"},
			"MatMul small ldc": {matMul(m, lda, stride, panel, 16*panels-1, 0, 0, 0),
				"f32: MatMul: rows of c overlap"},
			"MatMul one row": {matMul(1, lda, stride, panel, 0, 0, 0, 0), nil},
			"LayerNorm":      {layerNorm(16, 16, 16, 16), nil},
			"LayerNorm, all of 0": {func(c []float32) {
				set.LayerNorm(nil, nil, nil, nil)
				set.LayerNormARM(nil, nil, nil, nil)
			}, nil},
			"LayerNorm rows": {layerNorm(16, 16, 8, 8), nil},
			"LayerNorm of 0": {layerNorm(16, 16, 0, 16), "f32: LayerNorm: x is no number of " +
				"rows as long as weight"},
			"LayerNorm y": {layerNorm(15, 16, 16, 16), "f32: LayerNorm: y is too short"},
			"LayerNorm x": {layerNorm(16, 15, 16, 16), "f32: LayerNorm: x is no number " +
				"of rows as long as weight"},
			"LayerNorm weight": {layerNorm(16, 16, 15, 16), "f32: LayerNorm: the length of " +
				"weight is no multiple of 8"},
			"LayerNorm bias": {layerNorm(16, 16, 16, 15), "f32: LayerNorm: bias is too short"},
			"Gelu": {func(c []float32) { set.Gelu(c[:9], make([]float32, 10)) },
				"f32: Gelu: g is too short"},
			"Softmax512": {func(c []float32) { set.Softmax512(c[:52], 2, 32, 18) }, nil},
			"Softmax512 s": {func(c []float32) { set.Softmax512(c[:51], 2, 32, 18) },
				"f32: Softmax512: s is too short"},
			"Softmax256 rows": {func(c []float32) { set.Softmax256(c[:99], 3, 20, 18) },
				"f32: Softmax256: rows beyond the context"},
			"Softmax256 first < 0": {func(c []float32) { set.Softmax256(c[:99], 1, 20, -1) },
				"f32: Softmax256: rows beyond the context"},
			"Softmax256 stride": {func(c []float32) { set.Softmax256(c[:99], 2, 19, 0) },
				"f32: Softmax256: rows overlap"},
			"Transpose": {func(c []float32) {
				set.Transpose(c[:128+7*16+4], make([]float32, 19*9+8), 20, 8, 9)
			}, nil},
			"Transpose of 0": {func(c []float32) {
				set.Transpose(c[:0], nil, 20, 0, 9)
				set.Transpose(c[:0], nil, 0, 8, 9)
			}, nil},
			"Transpose y": {func(c []float32) {
				set.Transpose(c[:128+7*16+3], make([]float32, 19*9+8), 20, 8, 9)
			}, "f32: Transpose: y is too short"},
			"Transpose x": {func(c []float32) {
				set.Transpose(c, make([]float32, 19*9+7), 20, 8, 9)
			}, "f32: Transpose: x is too short"},
			"Transpose odd": {func(c []float32) {
				set.Transpose(c, make([]float32, 999), 18, 8, 9)
			}, "f32: Transpose: rows are no multiple of 4, or columns of 8"},
			"Divide": {func(c []float32) {
				set.Divide(c[:9], make([]float32, 10), 1)
			}, "f32: Divide: y is too short"},
			"Add": {func(c []float32) { set.Add(c[:9], make([]float32, 10)) },
				"f32: Add: y is too short"},
			"Exp512": {func(c []float32) {
				set.Exp512(c[:9], make([]float32, 10), 0)
			}, "f32: Exp512: y is too short"},
			"Exp256": {func(c []float32) {
				set.Exp256(c[:9], make([]float32, 10), 0)
			}, "f32: Exp256: y is too short"},
			"ExpNumPy": {func(c []float32) {
				set.ExpNumPy(c[:9], make([]float32, 10), 0)
			}, "f32: ExpNumPy: y is too short"},
			"ExpNumPyFused": {func(c []float32) {
				set.ExpNumPyFused(c[:9], make([]float32, 10), 0)
			}, "f32: ExpNumPyFused: y is too short"},
		} {
			t.Run(set.Name+"/"+name, func(t *testing.T) {
				c := newMemory(1000)
				defer func() {
					if got := recover(); got != test.panic {
						t.Errorf("panic %v, want %v", got, test.panic)
					}
					if test.panic != nil {
						compare(t, c, newMemory(1000))
					}
				}()
				test.call(c.buffer())
			})
		}
	}
}

// TestNoAllocations holds kernels to allocate nothing.
func TestNoAllocations(t *testing.T) {
	x, y := make([]float32, 20*32), make([]float32, 32*32)
	b := Pack(make([]float32, 32*32), 32, 32)
	for _, set := range Available() {
		for name, call := range map[string]func(){
			"MatMul":    func() { set.MatMul(20, 2, 32, x, 32, b, x, 32, 1, false) },
			"LayerNorm": func() { set.LayerNorm(x, x, x, x) },
			"Gelu":      func() { set.Gelu(x, x) },
			"Exp512":    func() { set.Exp512(x, x, 0) },
			"Exp256":    func() { set.Exp256(x, x, 0) },
			"ExpNumPy":  func() { set.ExpNumPyFused(x, x, 0) },
			"Library":   func() { set.ExpLibrary(x, x, 0) },
			"NormARM":   func() { set.LayerNormARM(x, x, x[:16], x[:16]) },
			"Divide":    func() { set.Divide(x, x, 1) },
			"Add":       func() { set.Add(x, x) },
			"Max":       func() { set.Max(x) },
			"Softmax":   func() { set.Softmax512(x, 20, 32, 0) },
			"Transpose": func() { set.Transpose(y, x, 20, 32, 32) },
		} {
			if n := testing.AllocsPerRun(10, call); n != 0 {
				t.Errorf("%s: %s: %v allocations", set.Name, name, n)
			}
		}
	}
}
