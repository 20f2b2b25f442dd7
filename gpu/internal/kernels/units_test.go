package kernels_test

import (
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/fstest"

	"lockstep"
	"lockstep/gpu/internal/driver"
	"lockstep/gpu/internal/driver/emulated"
	"lockstep/gpu/internal/kernels"
	"lockstep/internal/goldentest"
	"lockstep/internal/simtest"
	"lockstep/parity/schema"
	"lockstep/reference"
)

// abiUnits is the argument of the kernels in testdata/units.cu.
type abiUnits struct {
	n, kind          int64
	x, w, y, a, b, c driver.Pointer
	i                driver.Pointer
}

// sources is a copy of the kernels that tests may change.
func sources(t testing.TB) fstest.MapFS {
	t.Helper()
	files := fstest.MapFS{}
	must(t, fs.WalkDir(kernels.Sources, ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := fs.ReadFile(kernels.Sources, name)
		files[name] = &fstest.MapFile{Data: data}
		return err
	}))
	return files
}

// unitSources are those of testdata/units.cu, without the rollout.
func unitSources(t testing.TB) fstest.MapFS {
	t.Helper()
	files := sources(t)
	delete(files, "rollout.cu")
	delete(files, "layout.cu")
	data, err := os.ReadFile(filepath.Join("testdata", "units.cu"))
	must(t, err)
	files["units.cu"] = &fstest.MapFile{Data: data}
	return files
}

// unit runs one of the kernels with 64 threads, and returns so many results of it.
func unit[T any](
	t testing.TB, d driver.Device, kernel string, args *abiUnits, result *driver.Pointer, n int,
) []T {
	t.Helper()
	return unitOf[T](t, d, 64, kernel, args, result, n)
}

// unitOf is unit with so many threads.
func unitOf[T any](
	t testing.TB, d driver.Device, threads int, kernel string, args *abiUnits,
	result *driver.Pointer, n int,
) []T {
	t.Helper()
	*result = room[T](t, d, n)
	must(t, d.Launch(kernel, 1, threads, 128<<10, raw([]abiUnits{*args})))
	out := download[T](t, d, *result, n)
	synchronize(t, d)
	return out
}

func compare32(t *testing.T, what string, got, want []float32, input func(i int) string) {
	t.Helper()
	bad := 0
	for i := range want {
		if !schema.Equal(got[i], want[i]) {
			if bad++; bad <= 5 {
				t.Errorf(
					"%s: %s gives %g (%08x), want %g (%08x)", what, input(i), got[i],
					math.Float32bits(got[i]), want[i], math.Float32bits(want[i]),
				)
			}
		}
	}
	if bad > 5 {
		t.Errorf("%s: %d of %d differ", what, bad, len(want))
	}
}

// The formulas of arithmetic.md once more, one operation at a time.

// fma is x·y + z with one rounding: the sum in float64 is rounded to odd.
func fma(x, y, z float32) float32 {
	p, c := float64(x)*float64(y), float64(z)
	s := float64(p) + c
	v := s - p
	e := (p - (s - v)) + (c - v)
	bits := math.Float64bits(s)
	if e != 0 && bits&1 == 0 && !math.IsInf(s, 0) && s == s && e == e {
		if (e > 0) == (s > 0) {
			bits++
		} else {
			bits--
		}
	}
	return float32(math.Float64frombits(bits))
}

func chain(x, c float32, coefficients ...float32) float32 {
	for _, k := range coefficients {
		c = fma(c, x, k)
	}
	return c
}

func tanh(u float32) float32 {
	z := min(max(u, -9), 9)
	y := z * z
	p := chain(
		y, -0x1.3e4b8p-52, 0x1.c266fcp-43, -0x1.7a6ffep-34, 0x1.b80082p-25, 0x1.f28694p-17,
		0x1.4e1bdap-11, 0x1.40b3b8p-8,
	)
	return (p * z) / chain(y, 0x1.41a7bp-20, 0x1.f12bacp-14, 0x1.29540ap-9, 0x1.40b3bap-8)
}

func gelu(f float32) float32 {
	c := f * f
	c = f * c
	c = float32(0x1.6e4e26p-5 * c)
	c = f + c
	h := tanh(0x1.988454p-1 * c)
	return f * (1 + h)
}

func attentionExp(x float32, avx512 bool) float32 {
	low := float32(-0x1.61814ap+6)
	if avx512 {
		low = -0x1.9fe36ap+6
	}
	x = max(x, low)
	m := fma(0x1.715476p+0, x, 0x1.8p+23) - 0x1.8p+23
	x = fma(m, -0x1.62e4p-1, x)
	x = fma(m, -0x1.7f7d1cp-20, x)
	p := chain(x, 0x1.694p-10, 0x1.125edcp-7, 0x1.555b5ap-5, 0x1.55545p-3, 0x1.fffff6p-2, 1, 1)
	switch {
	case m != m:
		return m
	case avx512:
		return float32(math.Ldexp(float64(p), int(m)))
	}
	return p * math.Float32frombits(uint32(127+int32(m))<<23)
}

func numpyExp(x float32, fused bool) float32 {
	switch {
	case x != x:
		return x
	case x >= math.Float32frombits(0x42b17218):
		return float32(math.Inf(1))
	case x <= math.Float32frombits(0xc2cff1b5):
		return 0
	}
	q := float32(x*0x1.715476p+0) + 0x1.8p+23
	if fused {
		q = fma(x, 0x1.715476p+0, 0x1.8p+23)
	}
	q -= 0x1.8p+23
	bits := math.Float32frombits
	r := fma(q, bits(0xbf317200), x)
	r = fma(q, bits(0xb5bfbe8e), r)
	n := chain(
		r, bits(0x3a053dd8), bits(0x3bdd7159), bits(0x3d517d8c), bits(0x3e7d4c58), bits(0x3f39cbd5),
		1,
	)
	d := chain(r, bits(0x3cb0e832), bits(0xbe8c6857), 1)
	return float32(math.Ldexp(float64(n/d), int(q)))
}

func layerNorm(formula lockstep.LayerNorm, x, weight, bias []float32) []float32 {
	const epsilon = 0x1.4f8b58p-17
	root := func(v float32) float32 { return float32(math.Sqrt(float64(v))) }
	y := make([]float32, len(x))
	switch formula {
	case lockstep.LayerNorm130:
		var d [4]float64
		for i, v := range x {
			d[i%4] += float64(v)
		}
		mean := float32(((d[0] + d[2]) + (d[1] + d[3])) / 128)
		var a [8]float32
		for i, v := range x {
			a[i%8] = fma(v-mean, v-mean, a[i%8])
		}
		variance := (((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7]))) / 128
		inverse := 1 / root(variance+epsilon)
		for i, v := range x {
			y[i] = fma((v-mean)*inverse, weight[i], bias[i])
		}
		return y
	case lockstep.LayerNorm127:
		var mean, m2 float32
		for i, v := range x {
			d := v - mean
			mean += d / float32(i+1)
			m2 += float32(d * (v - mean))
		}
		for i, v := range x {
			y[i] = float32((v-mean)/root(m2/128+epsilon)*weight[i]) + bias[i]
		}
		return y
	}
	var s, q float32
	for _, v := range x {
		s += v
		q += float32(v * v)
	}
	mean := s / 128
	deviation := root(float32(q/128-float32(mean*mean)) + epsilon)
	for i, v := range x {
		y[i] = float32((v-mean)/deviation*weight[i]) + bias[i]
	}
	return y
}

// attentionSoftmax is that of the first n elements, of 20.
func attentionSoftmax(row []float32, n int, avx512 bool) []float32 {
	highest := row[0]
	for _, v := range row[:n] {
		highest = max(highest, v)
	}
	e := make([]float32, 20)
	for i := range n {
		e[i] = attentionExp(row[i]-highest, avx512)
	}
	lanes := 8
	if avx512 {
		lanes = 16
	}
	c := slices.Clone(e[:lanes])
	for i := lanes; i < 20; i++ {
		c[i%lanes] += e[i]
	}
	if avx512 {
		for i := range 8 {
			c[i] += c[8+i]
		}
	}
	q := 1 / (((c[0] + c[1]) + (c[2] + c[3])) + ((c[4] + c[5]) + (c[6] + c[7])))
	for i := range n {
		e[i] *= q
	}
	return e
}

// probeRow is golden/generate.py's probe_row.
func probeRow(n, salt int) []float32 {
	row := make([]float32, n)
	for i := range row {
		row[i] = float32((i+salt)*2654435761%(1<<24)) / (1 << 22)
	}
	return row
}

func TestElementary(t *testing.T) {
	d := open(t, emulated.Options{Sources: unitSources(t)})
	r := rand.New(rand.NewPCG(1, 2))
	inf, nan := float32(math.Inf(1)), float32(math.NaN())

	special := []float32{
		0, float32(math.Copysign(0, -1)), inf, -inf, nan, math.SmallestNonzeroFloat32,
		-math.SmallestNonzeroFloat32, math.MaxFloat32, -math.MaxFloat32, 1, -1, 9, -9,
		math.Nextafter32(9, 10),
	}
	for _, edge := range []uint32{0xc2cff1b5, 0xc2b0c0a5, 0x42b17218, 0xbf851592} {
		for k := -3; k <= 3; k++ {
			special = append(special, math.Float32frombits(uint32(int64(edge)+int64(k))))
		}
	}
	signed, negative := slices.Clone(special), []float32{}
	for range 50_000 {
		signed = append(
			signed, float32(r.NormFloat64()*math.Exp2(float64(r.IntN(12)-6))),
			math.Float32frombits(r.Uint32()),
		)
	}
	for _, x := range signed {
		// What is exponentiated in the attention's softmax is not positive.
		if !(x > 0) {
			negative = append(negative, x, -float32(r.Float64()*105))
		}
	}
	for kind, f := range []struct {
		name  string
		of    func(float32) float32
		input []float32
	}{
		{"exp512", func(x float32) float32 { return attentionExp(x, true) }, negative},
		{"exp256", func(x float32) float32 { return attentionExp(x, false) }, negative},
		{"exp_numpy U", func(x float32) float32 { return numpyExp(x, false) },
			slices.Concat(signed, negative)},
		{"exp_numpy F", func(x float32) float32 { return numpyExp(x, true) },
			slices.Concat(signed, negative)},
		{"tanh", tanh, signed},
		{"gelu", gelu, signed},
	} {
		t.Run(f.name, func(t *testing.T) {
			args := abiUnits{n: int64(len(f.input)), kind: int64(kind), x: upload(t, d, f.input)}
			got := unit[float32](t, d, "unit_float", &args, &args.y, len(f.input))
			want := make([]float32, len(got))
			for i, x := range f.input {
				want[i] = f.of(x)
			}
			compare32(
				t, f.name, got, want, func(i int) string { return fmt.Sprintf("%x", f.input[i]) },
			)
		})
	}
	t.Run("Python", func(t *testing.T) {
		x, want := goldentest.Array[float32](t, "exp_x"), goldentest.Array[float32](t, "exp_y")
		for kind, differ := range map[int64]int{2: 0, 3: 37} {
			args := abiUnits{n: int64(len(x)), kind: kind, x: upload(t, d, x)}
			different := map[float32]bool{}
			for i, got := range unit[float32](t, d, "unit_float", &args, &args.y, len(x)) {
				if !schema.Equal(got, want[i]) {
					different[x[i]] = true
				}
			}
			if len(different) != differ {
				t.Errorf(
					"variant %d differs from Python on %d numbers, want %d", kind, len(different),
					differ,
				)
			}
		}
	})
}

func TestLayerNorm(t *testing.T) {
	d := open(t, emulated.Options{Sources: unitSources(t), Order: emulated.Shuffled})
	r := rand.New(rand.NewPCG(3, 4))
	const rows = 40
	x, w := probeRow(128, 1), append(probeRow(128, 201), probeRow(128, 401)...)
	for i := 1; i < rows; i++ {
		offset, size := r.NormFloat64()*math.Exp2(float64(r.IntN(8)-4)),
			math.Exp2(float64(r.IntN(40)-20))
		for range 128 {
			x = append(x, float32(offset+size*r.NormFloat64()))
		}
	}
	x[128], x[256], x[384] = float32(math.NaN()), float32(math.Inf(1)), math.MaxFloat32
	clear(x[5*128 : 6*128])
	for formula, name := range map[lockstep.LayerNorm]string{
		lockstep.LayerNorm130: "ort1.30", lockstep.LayerNorm127: "ort1.27",
		lockstep.LayerNorm123: "ort1.23",
	} {
		t.Run(name, func(t *testing.T) {
			args := abiUnits{n: rows, kind: int64(formula), x: upload(t, d, x), w: upload(t, d, w)}
			got := unit[float32](t, d, "unit_layer_norm", &args, &args.y, len(x))
			where := func(i int) string { return fmt.Sprintf("element %d of row %d", i%128, i/128) }
			compare32(
				t, "ONNX Runtime", got[:128],
				goldentest.Array[float32](t, "probe_layer_norm_"+name), where,
			)
			var want []float32
			for i := range rows {
				want = append(want, layerNorm(formula, x[i*128:][:128], w[:128], w[128:])...)
			}
			compare32(t, "formula", got, want, where)
		})
	}
}

func TestAttentionSoftmax(t *testing.T) {
	d := open(t, emulated.Options{Sources: unitSources(t)})
	r := rand.New(rand.NewPCG(5, 6))
	x := probeRow(20, 13)
	x[19] -= 90
	counts := []int64{20}
	for i := range 4000 {
		counts = append(counts, int64(1+i%20))
		spread := math.Exp2(float64(r.IntN(10) - 3))
		for range 20 {
			x = append(x, float32(spread*r.NormFloat64()))
		}
	}
	copy(x[20:], []float32{float32(math.NaN()), 1, 2})
	copy(x[400:], []float32{3, float32(math.NaN()), float32(math.Inf(-1))})
	for kind, name := range []string{
		lockstep.SoftmaxAVX512: "avx512",
		lockstep.SoftmaxAVX2:   "avx2",
	} {
		t.Run(name, func(t *testing.T) {
			args := abiUnits{
				n:    int64(len(counts)),
				kind: int64(kind),
				x:    upload(t, d, x),
				i:    upload(t, d, counts),
			}
			got := unit[float32](t, d, "unit_attention_softmax", &args, &args.y, len(x))
			where := func(i int) string { return fmt.Sprintf("element %d of row %d", i%20, i/20) }
			compare32(
				t, "ONNX Runtime", got[:20], goldentest.Array[float32](t, "probe_softmax_"+name),
				where,
			)
			var want []float32
			for i, n := range counts {
				want = append(want, attentionSoftmax(x[i*20:][:20], int(n), kind == 0)...)
			}
			compare32(t, "formula", got, want, where)
		})
	}
}

func TestSoftmax(t *testing.T) {
	d := open(t, emulated.Options{Sources: unitSources(t), Order: emulated.Descending})
	var x, want []float32
	for _, row := range goldentest.Rows[float32](t, "softmax_x") {
		x = append(x, row...)
	}
	for _, row := range goldentest.Rows[float32](t, "softmax_y") {
		want = append(want, row...)
	}
	args := abiUnits{n: int64(len(x) / 1024), x: upload(t, d, x)}
	got := unit[float32](t, d, "unit_softmax", &args, &args.y, len(x))
	compare32(
		t, "Python", got, want,
		func(i int) string { return fmt.Sprintf("element %d of row %d", i%1024, i/1024) },
	)

	// One NaN makes all of its row NaN, and none of the other.
	x = slices.Clone(x[:2048])
	x[700] = float32(math.NaN())
	args.n, args.x = 2, upload(t, d, x)
	got = unit[float32](t, d, "unit_softmax", &args, &args.y, len(x))
	for i, p := range got {
		if i < 1024 && p == p || i >= 1024 && !schema.Equal(p, want[i]) {
			t.Fatalf("with a NaN in row 0, element %d of row %d is %v", i%1024, i/1024, p)
		}
	}
}

func TestChoose(t *testing.T) {
	d := open(t, emulated.Options{Sources: unitSources(t)})
	seeds, samples := goldentest.Array[int64](t, "choice_seed"),
		goldentest.Rows[int64](t, "choice_out")
	var p []float32
	var draws []float64
	for i, row := range goldentest.Rows[float32](t, "choice_p") {
		p = append(p, row...)
		draws = append(draws, lockstep.Draws(uint32(seeds[i]), len(samples[i]))...)
	}
	n := len(samples[0])
	args := abiUnits{
		n:    int64(len(seeds)),
		kind: int64(n),
		x:    upload(t, d, p),
		a:    upload(t, d, draws),
		c:    room[float64](t, d, 1024),
	}
	for i, got := range unit[int64](t, d, "unit_choose", &args, &args.i, n*len(seeds)) {
		if want := samples[i/n][i%n]; got != want {
			t.Errorf("case %d: draw %d gives %d, Python has %d", i/n, i%n, got, want)
		}
	}

	// A draw on an edge of the distribution goes past it, and tokens without
	// probability are never chosen. Then rows that are no distribution: their sums
	// just within and beyond NumPy's tolerance, and NaN.
	rows := make([]float32, 6*1024)
	rows[1], rows[3] = 0.5, 0.5
	for i, sum := range []float32{1.0003, 0.9997, 1.0004, 0.9996, float32(math.NaN())} {
		rows[(1+i)*1024] = sum
	}
	draws = make([]float64, 6*4)
	copy(draws, []float64{0, math.Nextafter(0.5, 0), 0.5, math.Nextafter(1, 0)})
	before := make([]float64, 1+1024) // a running sum begins where that of another rollout ends
	before[0] = 1
	args = abiUnits{
		n:    6,
		kind: 4,
		x:    upload(t, d, rows),
		a:    upload(t, d, draws),
		c:    upload(t, d, before) + 8,
	}
	got := unit[int64](t, d, "unit_choose", &args, &args.i, len(draws))
	want := []int64{
		1, 1, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
	}
	if !slices.Equal(got, want) {
		t.Errorf("edges: got %v, want %v", got, want)
	}
}

// TestChooseNear holds the choice by sums in another order to that by the running
// sum: they agree wherever the former decides, which is everywhere but within a
// pico of an edge, of whichever token: the first and the last of a chunk, too.
func TestChooseNear(t *testing.T) {
	d := open(t, emulated.Options{Sources: unitSources(t), Order: emulated.Shuffled})
	random := rand.New(rand.NewPCG(5, 6))
	var rows [][]float32
	for _, scale := range []float64{0.1, 1, 4, 30} { // from nearly even to nearly certain
		logits, sum := make([]float64, lockstep.VocabSize), 0.0
		for i := range logits {
			logits[i] = math.Exp(scale * random.NormFloat64())
			sum += logits[i]
		}
		row := make([]float32, lockstep.VocabSize)
		for i, x := range logits {
			row[i] = float32(x / sum)
		}
		rows = append(rows, row)
	}
	rows = append(rows, make([]float32, lockstep.VocabSize)) // no distribution
	rows[len(rows)-1][7] = 1.1
	alone := make([]float32, lockstep.VocabSize)
	alone[500] = 1
	rows = append(rows, alone)
	for i, row := range rows {
		var draws []float64
		total := 0.0
		for _, p := range row {
			total += float64(p)
		}
		sum := 0.0
		for _, p := range row {
			sum += float64(p)
			for _, x := range []float64{
				sum / total, math.Nextafter(sum/total, 0), math.Nextafter(sum/total, 1),
				sum/total - 1e-11, sum/total + 1e-11, random.Float64(),
			} {
				if x >= 0 && x < 1 {
					draws = append(draws, x)
				}
			}
		}
		args := abiUnits{
			n:    1,
			kind: int64(len(draws)),
			x:    upload(t, d, row),
			a:    upload(t, d, draws),
			c:    room[float64](t, d, lockstep.VocabSize),
		}
		want := unit[int64](t, d, "unit_choose", &args, &args.i, len(draws))
		args.c = 0
		for k, got := range unit[int64](t, d, "unit_choose_near", &args, &args.i, len(draws)) {
			if got >= 0 && got != want[k] {
				t.Errorf("row %d, draw %v: token %d, want %d", i, draws[k], got, want[k])
			}
			// What lies about as far as the margin may be told or not.
			far := fromEdge(row, draws[k]*total)
			if distribution := i != 4; (far < 0.9e-12 || !distribution) && got >= 0 ||
				far > 1.1e-12 && distribution && got < 0 {
				t.Errorf("row %d, draw %v, %v from an edge: token %d; within 1e-12, and in what "+
					"is no distribution, all is left undecided, and beyond nothing", i, draws[k],
					far, got)
			}
		}
	}
	atMargin(t, d)
}

// atMargin: where no sum is rounded, a draw that is a pico above an edge, or below one, is left
// undecided, and the next one further away is not.
func atMargin(t *testing.T, d driver.Device) {
	t.Helper()
	rows := make([]float32, 2*lockstep.VocabSize)
	rows[500] = 1
	below := rows[lockstep.VocabSize:]
	below[0], below[500], below[600] = 0x1p-39, 1-0x1p-24, 0x1p-24-0x1p-39
	const pico = 1e-12
	near := math.Ldexp(1, -39) - pico
	draws := []float64{pico, math.Nextafter(pico, 1), near, math.Nextafter(near, 0)}
	args := abiUnits{n: 2, kind: 2, x: upload(t, d, rows), a: upload(t, d, draws)}
	got := unit[int64](t, d, "unit_choose_near", &args, &args.i, len(draws))
	if want := []int64{-1, 500, -1, 0}; !slices.Equal(got, want) {
		t.Errorf("draws a pico from an edge, and further: tokens %v, want %v", got, want)
	}
}

// fromEdge is how far a sum is from the nearest of a row's running sums.
func fromEdge(row []float32, at float64) float64 {
	sum, far := 0.0, math.Inf(1)
	for _, p := range row {
		sum += float64(p)
		far = min(far, math.Abs(sum-at))
	}
	return far
}

// some are n numbers of both signs and of different size.
func some(random *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(random.NormFloat64())
	}
	return x
}

// dot is the chain of FMAs of a row with a column, from +0 on.
func dot(k int, row, column func(k int) float32) (sum float32) {
	for i := range k {
		sum = fma(row(i), column(i), sum)
	}
	return sum
}

// TestScores: in tiles of 1, 2 and 4 queries a score has the bits that it has alone.
func TestScores(t *testing.T) {
	d := open(t, emulated.Options{Sources: unitSources(t), Order: emulated.Shuffled})
	const size, keys = 32, 5
	random := rand.New(rand.NewPCG(7, 8))
	q, k := some(random, 4*size), some(random, keys*size)
	var want []float32
	for i := range 4 * keys {
		row, key := q[i/keys*size:], k[i%keys*size:]
		want = append(
			want,
			0x1.6a09e6p-3*dot(
				size, func(p int) float32 { return row[p] }, func(p int) float32 { return key[p] },
			),
		)
	}
	for _, queries := range []int64{0, 1, 2, 4} {
		args := abiUnits{kind: queries, x: upload(t, d, q), w: upload(t, d, k)}
		got := unit[float32](t, d, "unit_score", &args, &args.y, len(want))
		compare32(
			t, fmt.Sprintf("tiles of %d queries", queries), got, want,
			func(i int) string { return fmt.Sprintf("query %d, key %d", i/keys, i%keys) },
		)
	}
}

// TestMatmulFewRows: with one, two and three rows, sets of weights odd and even in number,
// and each way to begin, a sum has the bits of its chain. What is behind the first k of
// the weights is NaN.
func TestMatmulFewRows(t *testing.T) {
	d := open(t, emulated.Options{Sources: unitSources(t), Order: emulated.Shuffled})
	const depth, columns, panel = 256, 64, 16
	random := rand.New(rand.NewPCG(9, 10))
	for _, k := range []int64{64, 128, 192, 256} {
		x, w := some(random, 3*depth), some(random, depth*columns)
		for i := range w {
			if i/panel%depth >= int(k) {
				w[i] = float32(math.NaN())
			}
		}
		var want []float32
		for i := range 3 * columns {
			row, column := x[i/columns*depth:], w[i%columns/panel*depth*panel+i%panel:]
			want = append(
				want,
				dot(
					int(k), func(p int) float32 { return row[p] },
					func(p int) float32 { return column[p*panel] },
				),
			)
		}
		for _, kind := range []int64{11, 14, 21, 24, 31, 34} {
			for start := range int64(4) {
				rows := kind / 10
				args := abiUnits{
					n:    rows,
					kind: kind,
					x:    upload(t, d, x),
					w:    upload(t, d, w),
					i:    upload(t, d, []int64{k, start}),
				}
				got := unit[float32](t, d, "unit_few_rows", &args, &args.y, int(rows)*columns)
				compare32(
					t,
					fmt.Sprintf(
						"%d rows, %d columns of a thread, k %d, start %d", rows, kind%10, k, start,
					),
					got, want[:len(got)],
					func(i int) string {
						return fmt.Sprintf("row %d, column %d", i/columns, i%columns)
					},
				)
			}
		}
	}
}

func TestTokenizer(t *testing.T) {
	d := open(t, emulated.Options{Sources: unitSources(t)})
	tokenizer := reference.NewLataccelTokenizer()
	args := abiUnits{n: lockstep.VocabSize}
	bins := goldentest.Array[float64](t, "bins")
	for i, got := range unit[float64](t, d, "unit_bin", &args, &args.c, lockstep.VocabSize) {
		if !schema.Equal(got, bins[i]) {
			t.Errorf("bin %d is %v, Python has %v", i, got, bins[i])
		}
	}
	x, want := slices.Clone(goldentest.Array[float64](t, "enc_x")),
		slices.Clone(goldentest.Array[int64](t, "enc_y"))
	for _, edge := range bins {
		x = append(x, edge, math.Nextafter(edge, -9), math.Nextafter(edge, 9))
	}
	x = append(x, math.NaN(), math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1))
	for _, v := range x[len(want):] {
		want = append(want, tokenizer.Encode(v))
	}
	args = abiUnits{n: int64(len(x)), a: upload(t, d, x)}
	for i, got := range unit[int64](t, d, "unit_encode", &args, &args.i, len(x)) {
		if got != want[i] {
			t.Errorf("%v encodes as %d, want %d", x[i], got, want[i])
		}
	}
}

func TestClip(t *testing.T) {
	d := open(t, emulated.Options{Sources: unitSources(t)})
	values := []float64{math.NaN(), math.Inf(1), math.Inf(-1), -5, 5, -2, 2, 0.25, -0.25, 1e-300}
	var x, want []float64
	for _, v := range values {
		for _, low := range values {
			for _, high := range values {
				x = append(x, v, low, high)
				want = append(want, min(max(v, low), high))
			}
		}
	}
	args := abiUnits{n: int64(len(want)), a: upload(t, d, x)}
	for i, got := range unit[float64](t, d, "unit_clip", &args, &args.c, len(want)) {
		if !schema.Equal(got, want[i]) {
			t.Errorf("clip%v = %v, want %v", x[3*i:][:3], got, want[i])
		}
	}
}

func TestDraws(t *testing.T) {
	d := open(t, emulated.Options{Sources: unitSources(t)})
	seeds := goldentest.Array[int64](t, "rng_seed")
	for i, draws := range goldentest.Rows[float64](t, "rng_draws") {
		args := abiUnits{n: int64(len(draws)), kind: seeds[i]}
		got := unit[float64](t, d, "unit_draws", &args, &args.c, len(draws))
		if err := simtest.Same("draws", got, draws); err != nil {
			t.Fatalf("seed %d: %v (wanted by Python)", seeds[i], err)
		}
	}
	for _, seed := range []uint32{0, 1, 9999, math.MaxUint32} {
		args := abiUnits{n: 2000, kind: int64(seed)}
		got := unit[float64](t, d, "unit_draws", &args, &args.c, 2000)
		if err := simtest.Same("draws", got, lockstep.Draws(seed, 2000)); err != nil {
			t.Errorf("seed %d: %v (wanted by lockstep.Draws)", seed, err)
		}
	}
}

func TestCosts(t *testing.T) {
	d := open(t, emulated.Options{Sources: unitSources(t)})
	warmup := make([]float64, lockstep.ControlStartIdx)
	targets, preds := goldentest.Rows[float64](t, "cost_target"),
		goldentest.Rows[float64](t, "cost_pred")
	for i, want := range goldentest.Rows[float64](t, "cost_out") {
		a, b := slices.Concat(warmup, targets[i]), slices.Concat(warmup, preds[i])
		args := abiUnits{n: int64(len(a)), a: upload(t, d, a), b: upload(t, d, b)}
		got := unit[float64](t, d, "unit_costs", &args, &args.c, 3)
		if err := simtest.Same("costs", got, want); err != nil {
			t.Errorf("case %d: %v (wanted by Python)", i, err)
		}
	}
	// Sums of every length.
	x, sums := goldentest.Array[float64](t, "psum_x"), goldentest.Array[float64](t, "psum_y")
	lengths := 0
	for i, n := range goldentest.Array[int64](t, "psum_len") {
		if n <= lockstep.CostEndIdx-lockstep.ControlStartIdx {
			lengths++
			args := abiUnits{n: n, a: upload(t, d, x[:n])}
			if got, want := unit[float64](t, d, "unit_mean", &args, &args.c,
				1)[0], sums[i]/float64(n); !schema.Equal(got, want) {
				t.Errorf("mean of %d values is %v, Python has %v", n, got, want)
			}
		}
		x = x[n:]
	}
	if lengths < 400 {
		t.Errorf("%d lengths", lengths)
	}
}

func TestPID(t *testing.T) {
	d := open(t, emulated.Options{Sources: unitSources(t)})
	r := rand.New(rand.NewPCG(7, 8))
	gains := []float64{0.195, 0.1, -0.053}
	var x, want []float64
	var integral, previous float64
	for range 5000 {
		target, current := r.NormFloat64(), r.NormFloat64()
		e := target - current
		integral += e
		diff := e - previous
		previous = e
		x = append(x, target, current)
		want = append(want, float64(gains[0]*e)+float64(gains[1]*integral)+float64(gains[2]*diff))
	}
	args := abiUnits{n: int64(len(want)), a: upload(t, d, x), b: upload(t, d, gains)}
	got := unit[float64](t, d, "unit_pid", &args, &args.c, len(want))
	if err := simtest.Same("actions", got, want); err != nil {
		t.Error(err)
	}
}

// TestTile: the lanes of a warp share 8 rows and 16 columns among them, and read
// and write shared memory in as few passes as there can be. A pass takes the 32
// banks of four bytes once; a quarter of the lanes has 128 bits each, half of them
// where every lane n has the address of n^1, or every lane n that of n^2.
func TestTile(t *testing.T) {
	d := open(t, emulated.Options{Sources: unitSources(t)})
	const lanes = 32
	var u abiUnits
	u.n = lanes
	out := unit[int64](t, d, "unit_tile", &u, &u.i, 2*lanes+1)
	stride := out[2*lanes]
	row := func(lane int) int64 { return out[2*lane] }
	column := func(lane int) int64 { return out[2*lane+1] }

	tiles := map[[2]int64]bool{}
	for lane := range lanes {
		r, c := row(lane), column(lane)
		if r < 0 || r >= 8 || c < 0 || c >= 16 || c%4 != 0 {
			t.Errorf("lane %d has row %d, column %d", lane, r, c)
		}
		tiles[[2]int64{r, c}] = true
		if row(lane^1) != r {
			t.Errorf("lanes %d and %d read different rows", lane, lane^1)
		}
		if column(lane^2) != c {
			t.Errorf("lanes %d and %d read different weights", lane, lane^2)
		}
	}
	if len(tiles) != lanes {
		t.Errorf("%d of %d parts of the tile have a lane", len(tiles), lanes)
	}
	// conflicts counts the banks that lanes want for different addresses.
	conflicts := func(first, n int, address func(lane int) int64) (count int) {
		banks := map[int64]int64{}
		for lane := first; lane < first+n; lane++ {
			for word := range int64(4) {
				a := address(lane) + word
				if other, ok := banks[a%32]; ok && other != a {
					count++
				}
				banks[a%32] = a
			}
		}
		return count
	}
	for first := 0; first < lanes; first += 16 {
		if n := conflicts(first, 16, func(lane int) int64 { return row(lane) * stride }); n != 0 {
			t.Errorf(
				"lanes %d to %d: %d conflicts of banks where activations are read", first, first+15,
				n,
			)
		}
	}
	for first := 0; first < lanes; first += 8 {
		if n := conflicts(first, 8,
			func(lane int) int64 { return row(lane)*stride + column(lane) }); n != 0 {
			t.Errorf(
				"lanes %d to %d: %d conflicts of banks where results are written", first, first+7,
				n,
			)
		}
	}
}
