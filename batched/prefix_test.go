package batched

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"lockstep"
	"lockstep/internal/defaults"
	"lockstep/internal/f32"
	"lockstep/internal/model"
	"lockstep/internal/simtest"
)

// ownWeights are the project's own network's.
func ownWeights(t *testing.T) *model.Weights {
	t.Helper()
	path, _, err := defaults.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w, err := model.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// fill gives a sequence inputs from a position on.
func fill(n *network, random *rand.Rand, sequence, from int) {
	for i := sequence*positions + from; i < (sequence+1)*positions; i++ {
		n.tokens[i] = random.Int32N(vocabulary)
		for k := range model.StateSize {
			n.states[i*model.StateSize+k] = float32(random.NormFloat64())
		}
	}
}

// follow makes the leading positions of a sequence those of another.
func follow(n *network, sequence, of, shared int) {
	copy(n.tokens[sequence*positions:], n.tokens[of*positions:][:shared])
	const size = positions * model.StateSize
	copy(n.states[sequence*size:], n.states[of*size:][:shared*model.StateSize])
}

// sameAlone holds the logits of a run to those of each sequence in a run by itself, where
// nothing is shared.
func sameAlone(n, alone *network, count int) (sequence int, err error) {
	for s := range count {
		copy(alone.tokens, n.tokens[s*positions:])
		copy(alone.states, n.states[s*positions*model.StateSize:])
		alone.Run(1)
		if err := simtest.Same("logits", n.logits[s*vocabulary:][:vocabulary],
			alone.logits[:vocabulary]); err != nil {
			return s, err
		}
	}
	return 0, nil
}

// TestPrefixes: the bits of a sequence do not depend on what it has from others, and what is
// equal is computed once.
func TestPrefixes(t *testing.T) {
	packed := packWeights(ownWeights(t))
	alone := newNetwork(packed, f32.Best(), lockstep.Profile{}, 1, 1)
	shared := 0
	rapid.Check(t, func(t *rapid.T) {
		count := rapid.IntRange(1, 7).Draw(t, "count")
		group := rapid.IntRange(1, 4).Draw(t, "group")
		n := newNetwork(packed, f32.Best(), lockstep.Profile{}, count, group)
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		most := 0
		for s := range count {
			fill(n, random, s, 0)
			if s > 0 && rapid.Bool().Draw(t, "follows") {
				of, same := rapid.IntRange(0, s-1).Draw(t, "of"),
					rapid.IntRange(0, positions).Draw(t, "shared")
				follow(n, s, of, same)
				most += same
				if same < positions && rapid.Bool().Draw(t, "one") { // one number differs
					follow(n, s, of, positions)
					at := s*positions + same
					k := rapid.IntRange(0, model.StateSize).Draw(t, "number")
					if k == model.StateSize {
						n.tokens[at] = (n.tokens[at] + 1) % vocabulary
					} else {
						n.states[at*model.StateSize+k]++
					}
				}
			}
		}
		n.Run(count)
		if rows := count*positions - n.plan.count(); n.alone || rows < most {
			t.Fatalf(
				"%d rows are not computed, alone=%v: %d are equal to earlier ones", rows, n.alone,
				most,
			)
		}
		shared += most
		if s, err := sameAlone(n, alone, count); err != nil {
			t.Fatalf(
				"batched, sequence %d of %d, group %d, against alone: %v", s, count, group, err,
			)
		}
	})
	if shared == 0 {
		t.Error("no position was shared")
	}
}

// TestMaskedValues: where a masked value, times its weight of +0, would change what a
// sequence lends, each is computed by itself. A value that overflows makes NaN of it; a
// sum that underflows to -0 becomes +0.
func TestMaskedValues(t *testing.T) {
	w := ownWeights(t)
	layer := &w.Layers[0]
	for k := range width {
		layer.QKV[k*qkvStride+2*width] = 0
		// what the first value is makes no difference, unless it is not finite
		layer.Projection[k] = 0
	}
	layer.AttentionNorm.Bias[0] = 0
	clear(w.StateEmbedding[:model.Half])
	w.StateEmbedding[0] = 0.01 // a large action makes the first element large, and so the value
	for _, c := range []struct {
		name         string
		weight, gain float32
		finite       bool // of all that is computed
	}{
		{"infinite", 5e37, 1, false},
		{"tiny", math.SmallestNonzeroFloat32, 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			layer.QKV[2*width], layer.AttentionNorm.Weight[0] = c.weight, c.gain
			packed := packWeights(w)
			alone := newNetwork(packed, f32.Best(), lockstep.Profile{}, 1, 1)
			random, told := rand.New(rand.NewPCG(1, 2)), 0
			for range 10 {
				n := newNetwork(packed, f32.Best(), lockstep.Profile{}, 2, 1)
				fill(n, random, 0, 0)
				fill(n, random, 1, 0)
				follow(n, 1, 0, last)
				n.states[last*model.StateSize] = 1e4
				n.Run(2)
				if s, err := sameAlone(n, alone, 2); err != nil {
					t.Fatalf("batched, sequence %d of 2 against alone: %v", s, err)
				}
				nan := func(s int) bool { x := n.logits[s*vocabulary]; return x != x }
				if !n.alone {
					continue
				}
				if c.finite || nan(0) && !nan(1) {
					told++
				}
			}
			if told == 0 {
				t.Error("no case in which it makes a difference")
			}
		})
	}
}

// TestMaskedSign: attention's output is another where only a masked value is.
func TestMaskedSign(t *testing.T) {
	n := newNetwork(packWeights(ownWeights(t)), f32.Best(), lockstep.Profile{}, 1, 1)
	var bits [2]uint32
	for i, masked := range []float32{-1, 1} {
		qkv := make([]float32, positions*qkvStride) // all scores are equal
		for p := range positions {
			qkv[p*qkvStride+2*width] = -math.SmallestNonzeroFloat32
		}
		qkv[last*qkvStride+2*width] = masked
		n.attend(qkv, qkvStride, qkv[width:], n.a, 0)
		bits[i] = math.Float32bits(n.a[(last-1)*width])
	}
	if bits != [2]uint32{1 << 31, 0} {
		t.Errorf(
			"sums that underflow are %#x behind masked values of -1 and 1, want those of -0 and 0",
			bits,
		)
	}
}

// TestOrdinary: each lent row is looked at, whatever is before it, and no other.
func TestOrdinary(t *testing.T) {
	n := newNetwork(packWeights(ownWeights(t)), f32.Best(), lockstep.Profile{}, 1, 1)
	const first, rows = 3, 5
	for row := range rows {
		for _, x := range []float32{0, float32(math.Inf(1)), float32(math.NaN())} {
			for i := range n.a {
				n.a[i] = 1
			}
			n.a[row*width+width-1] = x
			for _, lent := range [][]int{{}, {row}, {0, row}, {row, rows - 1}, {0, rows - 1}} {
				clear(n.plan.lent)
				want := true
				for _, r := range lent {
					n.plan.lent[first+r] = true
					want = want && r != row
				}
				if got := n.ordinary(first, rows); got != want {
					t.Errorf("%v in row %d, lent are %v: ordinary is %v", x, row, lent, got)
				}
			}
		}
	}
}
