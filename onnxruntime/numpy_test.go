package onnxruntime

import (
	"math"
	"os"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"lockstep"
	"lockstep/golden/goldentest"
	"lockstep/parity/schema"
	"lockstep/reference"
)

// The tables of this file are Python's own answers.

func TestTokenizerPython(t *testing.T) {
	for i, want := range goldentest.Array[float64](t, "bins") {
		if !schema.Equal(bins[i], want) {
			t.Errorf("bin %d is %v, Python has %v", i, bins[i], want)
		}
	}
	x, y := goldentest.Array[float64](t, "enc_x"), goldentest.Array[int64](t, "enc_y")
	for i := range x {
		if got := encode(x[i]); got != y[i] {
			t.Errorf("encode(%v) = %d, Python has %d", x[i], got, y[i])
		}
	}
}

// TestEncodeSearch holds the guess in encode to the definition.
func TestEncodeSearch(t *testing.T) {
	check := func(fail func(string, ...any), x float64) {
		want, _ := slices.BinarySearch(bins[:], min(max(x, lockstep.LataccelMin), lockstep.LataccelMax))
		if got := encode(x); got != int64(want) {
			fail("encode(%v) = %d, want %d", x, got, want)
		}
	}
	for _, b := range bins {
		for _, x := range []float64{math.Nextafter(b, -9), b, math.Nextafter(b, 9)} {
			check(t.Errorf, x)
		}
	}
	rapid.Check(t, func(t *rapid.T) { check(t.Fatalf, rapid.Float64().Draw(t, "x")) })
	rapid.Check(t, func(t *rapid.T) { check(t.Fatalf, rapid.Float64Range(-6, 6).Draw(t, "x")) })
}

func TestSumPython(t *testing.T) {
	lengths := goldentest.Array[int64](t, "psum_len")
	x, y := goldentest.Array[float64](t, "psum_x"), goldentest.Array[float64](t, "psum_y")
	for i, n := range lengths {
		if got := sum(x[:n]); !schema.Equal(got, y[i]) {
			t.Errorf("sum of %d float64 is %v, Python has %v", n, got, y[i])
		}
		x = x[n:]
	}
	lengths = goldentest.Array[int64](t, "psum32_len")
	x32, y32 := goldentest.Array[float32](t, "psum32_x"), goldentest.Array[float32](t, "psum32_y")
	for i, n := range lengths {
		if got := sum(x32[:n]); !schema.Equal(got, y32[i]) {
			t.Errorf("sum of %d float32 is %v, Python has %v", n, got, y32[i])
		}
		x32 = x32[n:]
	}
}

func TestCostsPython(t *testing.T) {
	targets, preds := goldentest.Rows[float64](t, "cost_target"), goldentest.Rows[float64](t, "cost_pred")
	scratch := make([]float64, 400)
	for i, want := range goldentest.Rows[float64](t, "cost_out") {
		c := costs(targets[i], preds[i], scratch)
		for j, got := range []float64{c.Lataccel, c.Jerk, c.Total} {
			if !schema.Equal(got, want[j]) {
				t.Errorf("case %d: cost %d is %v, Python has %v", i, j, got, want[j])
			}
		}
	}
}

func TestExpPython(t *testing.T) {
	x, y := goldentest.Array[float32](t, "exp_x"), goldentest.Array[float32](t, "exp_y")
	unfused, fused := slices.Clone(x), slices.Clone(x)
	expRow(unfused, 0, false)
	expRow(fused, 0, true)
	differ := map[float32]bool{}
	for i := range x {
		if !schema.Equal(unfused[i], y[i]) {
			t.Errorf("e^%v = %v, Python has %v", x[i], unfused[i], y[i])
		}
		if !schema.Equal(fused[i], y[i]) {
			differ[x[i]] = true
		}
	}
	if len(differ) != 37 { // of all numbers from -104 to 0
		t.Errorf("the fused variant differs on %d numbers, want 37", len(differ))
	}
	row := []float32{float32(math.NaN()), float32(math.Inf(-1))}
	expRow(row, 0, false)
	if row[0] == row[0] || row[1] != 0 {
		t.Errorf("e^NaN, e^-Inf = %v, want NaN, 0", row)
	}
}

// fma32 is x·y + z rounded once. The float64 sum is rounded to odd: if it is
// inexact and its last bit is 0, it moves one unit towards the exact value, so
// that rounding it again cannot go wrong.
func fma32(x, y, z float32) float32 {
	p, c := float64(x)*float64(y), float64(z)
	s := p + c
	t := s - p
	e := (p - (s - t)) + (c - t) // the error of s, exactly
	if e != 0 && math.Float64bits(s)&1 == 0 {
		s = math.Nextafter(s, math.Inf(int(math.Copysign(1, e))))
	}
	return float32(s)
}

// expFused is NumPy's exponential with sums and products truly fused.
func expFused(x float32, fused bool) float32 {
	q := float32(x*log2E) + expMagic
	if fused {
		q = fma32(x, log2E, expMagic)
	}
	q -= expMagic
	r := fma32(q, -ln2Low, fma32(q, -ln2High, x))
	n := fma32(fma32(fma32(fma32(fma32(expP5, r, expP4), r, expP3), r, expP2), r, expP1), r, expP0)
	d := fma32(fma32(expQ2, r, expQ1), r, expQ0)
	if x <= expMin {
		return 0
	}
	return float32(math.Ldexp(float64(n/d), int(q)))
}

// TestExpFused holds expRow, which rounds twice where NumPy fuses, to NumPy's
// way: for every 997th float32 from -104 to 0, or for every one if
// LOCKSTEP_EXHAUSTIVE is 1, which takes minutes.
func TestExpFused(t *testing.T) {
	stride := uint32(997)
	if os.Getenv("LOCKSTEP_EXHAUSTIVE") == "1" {
		stride = 1
	}
	var row [1024]float32
	for _, fused := range []bool{false, true} {
		for bits := uint32(1 << 31); bits <= math.Float32bits(-104); {
			first := bits
			for i := range row {
				row[i] = math.Float32frombits(bits)
				bits += stride
			}
			expRow(row[:], 0, fused)
			for i, got := range row {
				x := math.Float32frombits(first + uint32(i)*stride)
				if want := expFused(x, fused); !schema.Equal(got, want) {
					t.Fatalf("fused %v: e^%v (%08x) = %v, want %v", fused, x, math.Float32bits(x), got, want)
				}
			}
		}
	}
}

func TestSoftmaxPython(t *testing.T) {
	want := goldentest.Rows[float32](t, "softmax_y")
	for name, f := range softmaxes() {
		probs, running := make([]float32, lockstep.VocabSize), make([]float64, lockstep.VocabSize)
		for i, x := range goldentest.Rows[float32](t, "softmax_x") {
			total := f(x, probs, running, false)
			var sum float64
			for j, got := range probs {
				if !schema.Equal(got, want[i][j]) {
					t.Fatalf("%s, case %d: probability %d is %v, Python has %v", name, i, j, got, want[i][j])
				}
				if sum += float64(got); running[j] != sum {
					t.Fatalf("%s, case %d: running sum %d is %v, want %v", name, i, j, running[j], sum)
				}
			}
			if total != sum {
				t.Fatalf("%s, case %d: total is %v, want %v", name, i, total, sum)
			}
		}
	}
}

type softmaxFunc = func(logits, probs []float32, running []float64, fused bool) float64

func softmaxes() map[string]softmaxFunc {
	all := map[string]softmaxFunc{"plain": softmax}
	if vectorSoftmax != nil {
		all["vector"] = vectorSoftmax
	}
	return all
}

// TestSoftmaxVector holds the vector form to the plain one on rows of any sort,
// among them the arguments at which the exponential's variants differ.
func TestSoftmaxVector(t *testing.T) {
	if vectorSoftmax == nil {
		t.Skip("not on this CPU, or not in this build")
	}
	var special []float32 // logits that become table entries, if the largest is 0
	for _, x := range goldentest.Array[float32](t, "exp_x") {
		for _, logit := range []float32{x * lockstep.Temperature, math.Nextafter32(x*lockstep.Temperature, 0)} {
			if logit/lockstep.Temperature == x {
				special = append(special, logit)
				break
			}
		}
	}
	plain, vector := make([]float32, lockstep.VocabSize), make([]float32, lockstep.VocabSize)
	plainSums, vectorSums := make([]float64, lockstep.VocabSize), make([]float64, lockstep.VocabSize)
	compare := func(fail func(string, ...any), row []float32, fused bool) {
		a, b := softmax(row, plain, plainSums, fused), vectorSoftmax(row, vector, vectorSums, fused)
		if !schema.Equal(a, b) {
			fail("fused %v: total is %v, plain %v", fused, b, a)
		}
		for i := range plain {
			if !schema.Equal(plain[i], vector[i]) || !schema.Equal(plainSums[i], vectorSums[i]) {
				fail("fused %v: probability %d is %v, plain %v; running sum %v, plain %v", fused, i, vector[i], plain[i], vectorSums[i], plainSums[i])
			}
		}
	}
	variants := 0
	for ; len(special) > 0; special = special[min(1023, len(special)):] {
		row := make([]float32, lockstep.VocabSize)
		copy(row[1:], special)
		compare(t.Fatalf, row, false)
		unfused := slices.Clone(plain)
		compare(t.Fatalf, row, true)
		if !slices.Equal(unfused, plain) {
			variants++
		}
	}
	if variants == 0 {
		t.Error("no row tells the exponential's variants apart")
	}
	rapid.Check(t, func(t *rapid.T) {
		scale := rapid.SampledFrom([]float32{0.1, 1, 5, 20, 60, 200, 1e30}).Draw(t, "scale")
		row := make([]float32, lockstep.VocabSize)
		state := rapid.Uint64().Draw(t, "seed")
		for i := range row {
			state = state*6364136223846793005 + 1442695040888963407
			row[i] = (float32(state>>40)/(1<<23) - 1) * scale
		}
		for range rapid.IntRange(0, 3).Draw(t, "specials") {
			i := rapid.IntRange(0, len(row)-1).Draw(t, "at")
			row[i] = rapid.SampledFrom([]float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), math.MaxFloat32, -math.MaxFloat32, 0}).Draw(t, "special")
		}
		compare(t.Fatalf, row, rapid.Bool().Draw(t, "fused"))
	})
}

func TestCheckSum(t *testing.T) {
	for _, c := range []struct {
		total float64
		ok    bool
	}{
		{1, true}, {math.NaN(), false}, {math.Inf(1), false}, {0, false},
		{1 + sumTolerance, true}, {1 + 1.0001*sumTolerance, false}, {1 - sumTolerance, true}, {1 - 1.0001*sumTolerance, false},
	} {
		if err := checkSum(c.total); (err == nil) != c.ok {
			t.Errorf("total %v: %v", c.total, err)
		}
	}
}

func TestChoicePython(t *testing.T) {
	seeds, samples := goldentest.Array[int64](t, "choice_seed"), goldentest.Rows[int64](t, "choice_out")
	running := make([]float64, lockstep.VocabSize)
	for i, p := range goldentest.Rows[float32](t, "choice_p") {
		var total float64
		for j, x := range p {
			total += float64(x)
			running[j] = total
		}
		if err := checkSum(total); err != nil {
			t.Fatal(err)
		}
		draws := lockstep.Draws(uint32(seeds[i]), len(samples[i]))
		cdf := slices.Clone(running)
		divide(cdf)
		for j, want := range samples[i] {
			if got := choose(running, draws[j]); int64(got) != want {
				t.Errorf("case %d: choice %d is %d, Python has %d", i, j, got, want)
			}
			if got := slices.IndexFunc(cdf, func(c float64) bool { return draws[j] < c }); int64(got) != want {
				t.Errorf("case %d: the distribution gives %d, Python has %d", i, got, want)
			}
		}
	}
}

// TestChoiceEdges draws exactly the edges: a token is chosen for draws from the
// edge below it, which belongs to it, up to its own, which does not.
func TestChoiceEdges(t *testing.T) {
	running := []float64{0, 0.25, 0.25, 0.5, 1, 1}
	for u, want := range map[float64]int{0: 1, 0.125: 1, math.Nextafter(0.25, 0): 1, 0.25: 3, 0.5: 4, math.Nextafter(1, 0): 4} {
		if got := choose(running, u); got != want {
			t.Errorf("draw %v chooses %d, want %d", u, got, want)
		}
	}
}

func TestClip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x, a, b := rapid.Float64().Draw(t, "x"), rapid.Float64().Draw(t, "a"), rapid.Float64().Draw(t, "b")
		low, high := min(a, b), max(a, b)
		if got, want := clip(x, low, high), min(max(x, low), high); got != want {
			t.Fatalf("clip(%v, %v, %v) = %v, want %v", x, low, high, got, want)
		}
	})
	if x := clip(math.NaN(), -1, 1); x == x {
		t.Errorf("clip(NaN) = %v", x)
	}
}

// TestTokenizerReference holds both implementations to each other, too.
func TestTokenizerReference(t *testing.T) {
	tokenizer := reference.NewLataccelTokenizer()
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Float64Range(-5.5, 5.5).Draw(t, "x")
		if got, want := encode(x), tokenizer.Encode(x); got != want {
			t.Fatalf("encode(%v) = %d, reference has %d", x, got, want)
		}
	})
}

func BenchmarkSoftmax(b *testing.B) {
	row := goldentest.Rows[float32](b, "softmax_x")[8]
	probs, running := make([]float32, len(row)), make([]float64, len(row))
	for name, f := range softmaxes() {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				f(row, probs, running, false)
			}
		})
	}
}
