package batched

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"lockstep"
	"lockstep/golden/vectors"
	"lockstep/internal/f32"
	"lockstep/internal/policytest"
	"lockstep/internal/simtest"
)

// TestPythonPolicy holds a policy's network to vectors of others, on all kernels.
func TestPythonPolicy(t *testing.T) {
	for _, kernels := range f32.Available() {
		policytest.HoldProducts(t, forward(kernels))
	}
}

// TestWide holds networks of any widths to the plain rule, on all kernels.
func TestWide(t *testing.T) {
	for _, kernels := range f32.Available() {
		policytest.HoldWide(t, forward(kernels))
	}
}

// forward computes rows of observations as a worker does.
func forward(kernels *f32.Kernels) func(*lockstep.Network, []float32) []float32 {
	return func(n *lockstep.Network, x []float32) (logits []float32) {
		p := (&worker{}).actorNetwork(n)
		for row := range slices.Chunk(x, n.Inputs()) {
			p.x = append(p.x, append(slices.Clone(row), make([]float32, p.stride-len(row))...)...)
		}
		for row := range slices.Chunk(p.run(kernels, len(x)/n.Inputs()), p.stride) {
			logits = append(logits, row[:lockstep.ActorSize]...)
		}
		return logits
	}
}

// TestVectors holds what surrounds the products to inputs on which plausible
// alternatives give other bits.
func TestVectors(t *testing.T) {
	for _, set := range f32.Available() {
		for operation, form := range map[string]lockstep.Softmax{
			"softmax-avx512": lockstep.SoftmaxAVX512,
			"softmax-avx2":   lockstep.SoftmaxAVX2,
			"softmax-neon":   lockstep.SoftmaxNEON,
		} {
			vectors.Hold(t, operation, func(v vectors.Vector) any {
				row := slices.Clone(v.Float32s("x"))
				set.For(lockstep.Profile{Softmax: form}).Softmax(
					row, 1, len(row), int(v.Int("n"))-1,
				)
				return row
			})
		}
		for operation, form := range map[string]lockstep.Exp{
			"softmax-numpy-U": lockstep.ExpU,
			"softmax-numpy-F": lockstep.ExpF,
			"softmax-numpy-C": lockstep.ExpC,
		} {
			vectors.Hold(t, operation, func(v vectors.Vector) any {
				exp := set.For(lockstep.Profile{Exp: form}).Exp
				w, probs := &worker{
					Simulator: &Simulator{kernels: set},
					exp:       exp,
				}, make([]float32, vocabulary)
				w.probabilities(probs, v.Float32s("x"))
				return probs
			})
		}
	}
	// Rows that are summed side by side, and one that is left.
	sums := func(v vectors.Vector) []float64 {
		all := make([]float64, (lanes+1)*vocabulary)
		runningSums(all, slices.Repeat(v.Float32s("p"), lanes+1))
		for row := range slices.Chunk(all, vocabulary) {
			if err := simtest.Same("sums", row, all[:vocabulary]); err != nil {
				t.Errorf("batched, of equal rows: %v", err)
			}
		}
		return all[:vocabulary]
	}
	vectors.Hold(t, "cdf", func(v vectors.Vector) any {
		cdf := sums(v)
		total := cdf[vocabulary-1]
		for i := range cdf {
			cdf[i] /= total
		}
		return cdf
	})
	vectors.Hold(
		t, "choice",
		func(v vectors.Vector) any { return []int64{int64(choose(sums(v), v.Float64("u")))} },
	)
	vectors.Hold(t, "decode", func(v vectors.Vector) any { return []float64{bins[v.Int("token")]} })
	vectors.Hold(
		t, "encode", func(v vectors.Vector) any { return []int64{int64(tokenOf(v.Float64("x")))} },
	)
	vectors.Hold(t, "clip", func(v vectors.Vector) any {
		current := v.Float64("current")
		return []float64{
			clip(v.Float64("x"), current-lockstep.MaxAccDelta, current+lockstep.MaxAccDelta),
		}
	})
	vectors.Hold(
		t, "sum", func(v vectors.Vector) any { return []float64{pairwise(v.Float64s("x"))} },
	)
	vectors.Hold(
		t, "sum32", func(v vectors.Vector) any { return []float32{pairwise(v.Float32s("x"))} },
	)
	vectors.Hold(t, "costs", func(v vectors.Vector) any {
		c := costsOf(v.Float64s("target"), v.Float64s("lataccel"), make([]float64, 400))
		return []float64{c.Lataccel, c.Jerk, c.Total}
	})
	vectors.Hold(t, "pid", func(v vectors.Vector) any {
		g := v.Float64s("gains")
		c, answers := &pid{PID: lockstep.PID{P: g[0], I: g[1], D: g[2]}}, []float64{}
		r := &rollout{target: v.Float64s("target")}
		for r.step, r.current = range v.Float64s("lataccel") {
			answers = append(answers, c.update(r))
		}
		return answers
	})
}

// TestCheckSum: a sum is refused if it is no number, or further from 1 than NumPy lets it be.
func TestCheckSum(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	const most = 0.0003452669770922512 // the square root of a float32's epsilon
	for _, c := range []struct {
		sum  float64
		want string
	}{
		{1, ""}, {1 + most, ""}, {1 - most, ""}, {math.Nextafter(1+most, 2), "do not sum to 1"},
		{math.Nextafter(1-most, 0), "do not sum to 1"}, {0, "do not sum to 1"},
		{inf, "do not sum to 1"}, {nan, "contain NaN"},
	} {
		if err := checkSum(c.sum); (err == nil) != (c.want == "") ||
			err != nil && err.Error() != "probabilities "+c.want {
			t.Errorf("a sum of %v: %v, want %q", c.sum, err, c.want)
		}
	}
}

// plainSum is np.sum. Of more than 128 elements it is that of two parts, of which the first has
// whole eights, and no more than the other. Of 128 or fewer element i of whole eights is added to
// running sum i modulo 8, and what is left one by one to the sum of these.
func plainSum(a []float64) (sum float64) {
	if half := len(a) / 2; len(a) > 128 {
		half -= half % 8
		return plainSum(a[:half]) + plainSum(a[half:])
	}
	whole := len(a) / 8 * 8
	var r [8]float64
	for i, x := range a[:whole] {
		r[i%8] += x
	}
	if whole > 0 {
		sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]))
	}
	for _, x := range a[whole:] {
		sum += x
	}
	return sum
}

// TestPairwise: a sum has each number once, whatever their number, in NumPy's order, and reads none
// behind them.
func TestPairwise(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 400 {
		for range 8 {
			a := make([]float64, n)
			for i := range a {
				a[i] = random.NormFloat64()
			}
			if got, want := pairwise(slices.Clip(a)), plainSum(a); got != want {
				t.Errorf("the sum of %v is %v, want %v", a, got, want)
			}
		}
		a := make([]float64, n)
		for i := range a {
			a[i] = float64(i + 1)
		}
		if got, want := pairwise(slices.Clip(a)), float64(n*(n+1)/2); got != want {
			t.Errorf("the sum of 1 to %d is %v, want %v", n, got, want)
		}
	}
}
