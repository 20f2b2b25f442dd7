package schema

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

func ulps[T number](a, b T) uint64 { return TypeOf[T]().ULPs(bitsOf(a), bitsOf(b)) }

// distance counts ulps with large integers, 0 beside what is not a number.
func distance(a, b uint64, sign uint, infinity uint64) uint64 {
	position := func(bits uint64) *big.Int {
		magnitude := bits &^ (1 << sign)
		x := new(big.Int).SetUint64(magnitude)
		if magnitude != bits {
			x.Neg(x)
		}
		return x
	}
	if a&^(1<<sign) > infinity || b&^(1<<sign) > infinity {
		return 0
	}
	d := new(big.Int).Sub(position(a), position(b))
	return d.Abs(d).Uint64()
}

// TestEqual: zeros differ by their sign, all NaN are one.
func TestEqual(t *testing.T) {
	nan, other := math.NaN(), math.Float64frombits(0xfff8000000000123)
	for _, c := range []struct {
		a, b float64
		want bool
	}{
		{1, 1, true}, {1, math.Nextafter(1, 2), false}, {0, math.Copysign(0, -1), false},
		{nan, other, true}, {nan, 1, false}, {1, nan, false},
		{math.Inf(1), math.Inf(1), true}, {math.Inf(1), math.Inf(-1), false},
	} {
		if got := Equal(c.a, c.b); got != c.want {
			t.Errorf("%v and %v: %v, want %v", c.a, c.b, got, c.want)
		}
	}
	if one := float32(1); Equal(one, math.Nextafter32(one, 2)) || !Equal(one, one) {
		t.Error("float32")
	}
}

func TestULPs(t *testing.T) {
	tiny32, tiny64 := float32(math.SmallestNonzeroFloat32), math.SmallestNonzeroFloat64
	zero32, zero64 := float32(math.Copysign(0, -1)), math.Copysign(0, -1)
	inf32, inf64 := float32(math.Inf(1)), math.Inf(1)
	for _, c := range []struct {
		name      string
		got, want uint64
	}{
		{"equal", ulps(1.5, 1.5), 0},
		{"zeros", ulps(0, zero64), 0},
		{"float32 zeros", ulps(0, zero32), 0},
		{"neighbours", ulps(1, math.Nextafter(1, 2)), 1},
		{"float32 neighbours", ulps(1, math.Nextafter32(1, 2)), 1},
		{"float32 neighbours below 1", ulps(math.Nextafter32(1, 0), 1), 1},
		{"1 and 2", ulps(1.0, 2.0), 1 << 52},
		{"float32 1 and 2", ulps[float32](1, 2), 1 << 23},
		{"across zero", ulps(-tiny64, tiny64), 2},
		{"float32 across zero", ulps(-tiny32, tiny32), 2},
		{"float32 -1 and 1", ulps[float32](-1, 1), 2 * 0x3f800000},
		{"largest and infinity", ulps(math.MaxFloat64, inf64), 1},
		{"float32 largest and infinity", ulps(math.MaxFloat32, inf32), 1},
		{"infinities", ulps(-inf64, inf64), 2 * 0x7ff0000000000000},
		{"float32 infinities", ulps(-inf32, inf32), 2 * 0x7f800000},
		{"not a number", ulps(1, math.NaN()), 0},
		{"float32 not a number", ulps(float32(math.NaN()), 1), 0},
		{"integers", ulps[int64](1, 9), 0},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, want %d", c.name, c.got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Float64().Draw(t, "a"), rapid.Float64().Draw(t, "b")
		if got, want := ulps(a, b), distance(math.Float64bits(a), math.Float64bits(b), 63,
			0x7ff0000000000000); got != want ||
			ulps(b, a) != want {
			t.Fatalf("%d and back %d, want %d", got, ulps(b, a), want)
		}
		steps := rapid.IntRange(0, 100).Draw(t, "steps")
		c := a
		for range steps {
			c = math.Nextafter(c, math.Inf(1))
		}
		if !math.IsInf(c, 1) && ulps(a, c) != uint64(steps) {
			t.Fatalf("%d, want %d", ulps(a, c), steps)
		}
	})
}
