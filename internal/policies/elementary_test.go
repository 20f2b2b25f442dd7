package policies

import (
	"math"
	"testing"

	"lockstep/internal/policytest"
)

func TestElementary(t *testing.T) {
	policytest.HoldElementary(t, exponential, logarithm, func(s float64) float64 {
		return quotientLog(2 * s / (1 - s))
	})
	// A fraction that is the root of 2 is halved: the other half of the series has another bit.
	if got := logarithm(0x1.6a09e667f3bcdp0); got != 0x1.62e42fefa39fp-2 {
		t.Errorf("the logarithm of the root of 2 is %x", got)
	}
}

// TestWords: known answers of Random123's Philox4x32-10.
func TestWords(t *testing.T) {
	for _, c := range []struct {
		seed, id      uint64
		step, attempt uint32
		want          [4]uint32
	}{
		{0, 0, 0, 0, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{
			math.MaxUint64, math.MaxUint64, math.MaxUint32, math.MaxUint32,
			[4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
		},
		{
			0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3, 0x243f6a88,
			[4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1},
		},
	} {
		var got [4]uint32
		got[0], got[1], got[2], got[3] = words(c.seed, c.id, c.step, c.attempt)
		if got != c.want {
			t.Errorf("%x, %x, %x, %x: %x, want %x", c.seed, c.id, c.step, c.attempt, got, c.want)
		}
	}
	for _, c := range []struct {
		high, low uint32
		want      float64
	}{
		{0, 0, 0x1p-53}, {0, 0xfff, 0x1p-53}, {0, 0x1000, 3 * 0x1p-53}, {1 << 31, 0, 0.5 + 0x1p-53},
		{math.MaxUint32, math.MaxUint32, 1 - 0x1p-53},
	} {
		if got := open01(c.high, c.low); got != c.want {
			t.Errorf("open01(%x, %x) = %v, want %v", c.high, c.low, got, c.want)
		}
	}
}

// shapes are parameters of distributions, the extremes among them.
var shapes = [][2]float32{
	{0, 0}, {0, 50}, {50, 0}, {3, 3}, {1e-30, 1e-30}, {2.5, 0.25}, {0.25, 2.5}, {90, 100},
	{700, 1e-9}, {1e-9, 700}, {0, 3e38}, {3e38, 0},
}

// TestCheng holds variates to Cheng's BB as it is printed (Communications of the ACM 21, 1978), in
// the C library's arithmetic: they are the same but for what rounds.
func TestCheng(t *testing.T) {
	draws := policytest.DecisivePairs()
	for _, sp := range shapes {
		for seed := range uint64(200) {
			draws = append(draws, policytest.Draw{
				Softplus: sp, Seed: seed, ID: seed * seed, Step: int(100 + seed),
			})
		}
	}
	for _, d := range draws {
		sp, seed, id, step := d.Softplus, d.Seed, d.ID, d.Step
		a, b := 1+math.Min(float64(sp[0]), float64(sp[1])),
			1+math.Max(float64(sp[0]), float64(sp[1]))
		alpha, beta := a+b, math.Sqrt((a+b-2)/(2*a*b-(a+b)))
		if a+b-2 == 0 {
			beta = 1 // the limit
		}
		gamma, want := a+1/beta, math.NaN()
		for attempt := uint32(0); want != want; attempt++ {
			w0, w1, w2, w3 := words(seed, id, uint32(step), attempt)
			u1, u2 := open01(w0, w1), open01(w2, w3)
			v := beta * math.Log(u1/(1-u1))
			w := a * math.Exp(math.Min(v, 600))
			if alpha*math.Log(alpha/(b+w))+gamma*v-math.Log(4) >= math.Log(u1*u1*u2) {
				want = w / (b + w)
			}
		}
		if sp[0] > sp[1] {
			want = 1 - want
		}
		want = math.Min(math.Max(want, 1e-6), 0.999999)
		got := betaVariate(sp, seed, id, step)
		if !(math.Abs(float64(got)-want) <= 1e-6*want) { // a float32
			t.Errorf("sp %v, seed %d: %v, want %v", sp, seed, got, want)
		}
	}
}

// TestRefused: where no pair of 32 is taken, the variate is the distribution's mean; each pair is
// asked for once, in their order, until one is taken.
func TestRefused(t *testing.T) {
	for taken := range uint32(34) {
		asked := uint32(0)
		got := cheng([2]float32{2, 5}, func(attempt uint32) (u1, u2 float64) {
			if attempt != asked {
				t.Errorf("pair %d is asked for after %d", attempt, asked)
			}
			if asked++; attempt < taken {
				return 1e-9, 1 - 1e-9 // far from where the density is
			}
			return 0.75, 1e-9
		})
		w := 3 * math.Pow(0.75/0.25, math.Sqrt(7.0/27)) // of the pair that is taken
		other := float32(w / (6 + w))
		if want := min(taken+1, 32); asked != want || (taken < 32) != (got == other) ||
			taken >= 32 && got != float32(1.0/3) {
			t.Errorf("taken is pair %d: %v after %d pairs, want %v or 1/3 after %d", taken, got,
				asked, other, want)
		}
	}
}

// TestSoftplus: log(1+exp(z)), to the last bit but one of a float32, at the ends, too.
func TestSoftplus(t *testing.T) {
	for i := -4000; i <= 4000; i++ {
		z := float32(i) / 16
		want := float32(math.Max(float64(z), 0) + math.Log1p(math.Exp(-math.Abs(float64(z)))))
		if got := softplus(z); got != want && got != math.Nextafter32(want, got) {
			t.Errorf("softplus(%v) = %v, want %v", z, got, want)
		}
	}
	inf := float32(math.Inf(1))
	for z, want := range map[float32]float32{1e38: 1e38, -1e38: 0, inf: inf, -inf: 0, 800: 800} {
		if got := softplus(z); got != want {
			t.Errorf("softplus(%v) = %v, want %v", z, got, want)
		}
	}
}

// TestMean: the mean of Beta(1+p, 1+q) is (1+p)/(2+p+q), between -1 and 1.
func TestMean(t *testing.T) {
	for _, sp := range shapes {
		a, b := 1+float64(sp[0]), 1+float64(sp[1])
		// Another formula, which rounds elsewhere: the bits are held to Python's recordings.
		if got, want := meanAction(sp), (a-b)/(a+b); !(math.Abs(got-want) <= 1e-15) {
			t.Errorf("%v: %v, want %v", sp, got, want)
		}
	}
}
