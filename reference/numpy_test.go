package reference

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"lockstep"
	"lockstep/internal/f32"
	"lockstep/internal/goldentest"
	"lockstep/parity/schema"
)

// The tables of this file are Python's own answers.

func TestTokenizerPython(t *testing.T) {
	tokenizer := NewLataccelTokenizer()
	for i, want := range goldentest.Array[float64](t, "bins") {
		if got := tokenizer.Decode(i); !schema.Equal(got, want) {
			t.Errorf("bin %d is %v, Python has %v", i, got, want)
		}
	}
	x, y := goldentest.Array[float64](t, "enc_x"), goldentest.Array[int64](t, "enc_y")
	for i := range x {
		if got := tokenizer.Encode(x[i]); got != y[i] {
			t.Errorf("Encode(%v) = %d, Python has %d", x[i], got, y[i])
		}
	}
}

// TestTokenizerBoundaries states what every bin edge means.
func TestTokenizerBoundaries(t *testing.T) {
	tokenizer := NewLataccelTokenizer()
	for i := range lockstep.VocabSize {
		edge := tokenizer.Decode(i)
		if got := tokenizer.Encode(edge); got != int64(i) {
			t.Errorf("Encode(Decode(%d)) = %d", i, got)
		}
		if got := tokenizer.Encode(math.Nextafter(edge, -9)); got != int64(i) {
			t.Errorf("one ulp below bin %d encodes as %d", i, got)
		}
		if got, want := tokenizer.Encode(math.Nextafter(edge, 9)), int64(min(i+1,
			lockstep.VocabSize-1)); got != want {
			t.Errorf("one ulp above bin %d encodes as %d, want %d", i, got, want)
		}
	}
	for x, want := range map[float64]int64{
		-5:           0,
		5:            1023,
		-5.1:         0,
		5.1:          1023,
		math.Inf(-1): 0,
		math.Inf(1):  1023,
		0:            512,
		math.NaN():   1024,
	} {
		if got := tokenizer.Encode(x); got != want {
			t.Errorf("Encode(%v) = %d, want %d", x, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Float64Range(-6, 6).Draw(t, "x")
		i := tokenizer.Encode(x)
		c := clip(x, -5, 5)
		if c > tokenizer.Decode(int(i)) || i > 0 && c <= tokenizer.Decode(int(i)-1) {
			t.Fatalf("Encode(%v) = %d, whose bin does not hold it", x, i)
		}
	})
}

func TestSumPython(t *testing.T) {
	testSum[float64](t, "psum")
	testSum[float32](t, "psum32")
}

func testSum[T float32 | float64](t *testing.T, table string) {
	x, y := any(nil), any(nil)
	switch any(*new(T)).(type) {
	case float32:
		x, y = goldentest.Array[float32](t, table+"_x"), goldentest.Array[float32](t, table+"_y")
	default:
		x, y = goldentest.Array[float64](t, table+"_x"), goldentest.Array[float64](t, table+"_y")
	}
	values, want := x.([]T), y.([]T)
	for i, n := range goldentest.Array[int64](t, table+"_len") {
		if got := sum(values[:n]); !schema.Equal(float64(got), float64(want[i])) {
			t.Errorf("%s: sum of %d values is %v, Python has %v", table, n, got, want[i])
		}
		values = values[n:]
	}
}

// TestSumBuffers: of more than two buffers each counts, in their order.
func TestSumBuffers(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	a := make([]float64, 3*8192+300)
	for i := range a {
		a[i] = r.NormFloat64()
	}
	want := sum(a[:8192])
	for from := 8192; from < len(a); from += 8192 {
		want += sum(a[from:min(from+8192, len(a))])
	}
	if got := sum(a); got != want {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestCostsPython(t *testing.T) {
	targets, preds := goldentest.Rows[float64](t, "cost_target"),
		goldentest.Rows[float64](t, "cost_pred")
	warmup := make([]float64, lockstep.ControlStartIdx)
	for i, want := range goldentest.Rows[float64](t, "cost_out") {
		s := &tinyPhysicsSimulator{
			targetLataccelHistory:  slices.Concat(warmup, targets[i], []float64{1e9}),
			currentLataccelHistory: slices.Concat(warmup, preds[i], []float64{-1e9}),
		}
		c := s.computeCost()
		for j, got := range []float64{c.Lataccel, c.Jerk, c.Total} {
			if !schema.Equal(got, want[j]) {
				t.Errorf("case %d: cost %d is %v, Python has %v", i, j, got, want[j])
			}
		}
	}
}

func TestExpPython(t *testing.T) {
	x, y := goldentest.Array[float32](t, "exp_x"), goldentest.Array[float32](t, "exp_y")
	differ := map[float32]bool{}
	for i := range x {
		if got := f32.ExpNumPy(x[i], false); !schema.Equal(got, y[i]) {
			t.Errorf("exp(%v) = %v, Python has %v", x[i], got, y[i])
		}
		if !schema.Equal(f32.ExpNumPy(x[i], true), y[i]) {
			differ[x[i]] = true
		}
	}
	if len(differ) != 37 { // of all numbers from -104 to 0
		t.Errorf("the fused variant differs on %d numbers, want 37", len(differ))
	}
}

func TestSoftmaxPython(t *testing.T) {
	probs := goldentest.Rows[float32](t, "softmax_y")
	for _, kernels := range f32.Available() {
		m := &tinyPhysicsModel{
			gpt:   &gpt{arithmetic: kernels.For(lockstep.Profile{})},
			probs: make([]float32, lockstep.VocabSize),
		}
		for i, x := range goldentest.Rows[float32](t, "softmax_x") {
			m.softmax(x, lockstep.Temperature)
			for j, got := range m.probs {
				if !schema.Equal(got, probs[i][j]) {
					t.Fatalf(
						"kernels %s, case %d: probability %d is %v, Python has %v", kernels.Name, i,
						j, got, probs[i][j],
					)
				}
			}
		}
	}
}

func TestChoicePython(t *testing.T) {
	seeds, samples := goldentest.Array[int64](t, "choice_seed"),
		goldentest.Rows[int64](t, "choice_out")
	cdf := make([]float64, lockstep.VocabSize)
	for i, p := range goldentest.Rows[float32](t, "choice_p") {
		if err := cumulate(cdf, p); err != nil {
			t.Fatal(err)
		}
		random := NewRandom(uint32(seeds[i]))
		for j, want := range samples[i] {
			if got := search(cdf, random.Random()); int64(got) != want {
				t.Errorf("case %d: choice %d is %d, Python has %d", i, j, got, want)
			}
		}
	}
}

// TestChoiceEdges states what a draw on an edge of the distribution gives.
func TestChoiceEdges(t *testing.T) {
	cdf := make([]float64, 4)
	if err := cumulate(cdf, []float32{0, 0.5, 0, 0.5}); err != nil {
		t.Fatal(err)
	}
	for u, want := range map[float64]int{
		0:                      1,
		math.Nextafter(0.5, 0): 1,
		0.5:                    3,
		math.Nextafter(1, 0):   3,
	} {
		if got := search(cdf, u); got != want {
			t.Errorf("draw %v gives %d, want %d", u, got, want)
		}
	}
	nan := float32(math.NaN())
	for _, p := range [][]float32{{nan, 1, 0, 0}, {0.5, 0, 0, 0}, {2, 0, 0, 0}} {
		if err := cumulate(cdf, p); err == nil {
			t.Errorf("%v passes for a distribution", p)
		}
	}
}

func TestRandomPython(t *testing.T) {
	draws := goldentest.Rows[float64](t, "rng_draws")
	for i, seed := range goldentest.Array[int64](t, "rng_seed") {
		random, shared := NewRandom(uint32(seed)), lockstep.Draws(uint32(seed), len(draws[i]))
		for j, want := range draws[i] {
			if shared[j] != want {
				t.Fatalf("seed %d: Draws()[%d] is %v, Python has %v", seed, j, shared[j], want)
			}
			if got := random.Random(); got != want {
				t.Fatalf("seed %d: draw %d is %v, Python has %v", seed, j, got, want)
			}
		}
	}
}

// TestMeanCostsOrder: a NaN stands as 0 in its place of pandas' sum. Were it left out of the list,
// others would be added in another order, which changes last bits of some lists.
func TestMeanCostsOrder(t *testing.T) {
	random := NewRandom(6)
	for _, n := range []int{5, 20, 300, 5000, 9000} {
		differ := 0
		for range 20 {
			costs, column := make([]lockstep.Costs, n), make([]float64, n)
			var others []float64
			for i := range costs {
				if costs[i].Total = 1 + 300*random.Random(); i%7 == 3 {
					costs[i].Total = math.NaN()
					continue
				}
				column[i] = costs[i].Total
				others = append(others, costs[i].Total)
			}
			want := sum(column) / float64(len(others))
			if got := MeanCosts(costs).Total; got != want {
				t.Errorf("%d costs: their mean is %v, pandas has %v", n, got, want)
			}
			if sum(others) != sum(column) {
				differ++
			}
		}
		if n >= 20 && differ == 0 {
			t.Errorf("%d costs: their order changes no bit, so that nothing is tested", n)
		}
	}
}

func TestMeanCosts(t *testing.T) {
	nan := math.NaN()
	got := MeanCosts(
		[]lockstep.Costs{
			{Lataccel: 1.1, Jerk: 2.1, Total: 52.1}, {Lataccel: 3.3, Jerk: nan, Total: nan},
		},
	)
	want := lockstep.Costs{Lataccel: sum([]float64{1.1, 3.3}) / 2, Jerk: 2.1, Total: 52.1}
	if got != want {
		t.Errorf("got %v, want %v: NaN is left out", got, want)
	}
	inf := math.Inf(1)
	got = MeanCosts([]lockstep.Costs{
		{Lataccel: 1, Jerk: inf, Total: inf}, {Lataccel: 2, Jerk: 3, Total: -inf},
		{Lataccel: 3, Jerk: nan, Total: 1},
	})
	if got.Lataccel != 2 || got.Jerk != inf || got.Total == got.Total {
		t.Errorf("got %v, want 2, +Inf and NaN: infinity is a number", got)
	}
}
