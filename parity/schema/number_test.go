package schema

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
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
	for x := range 256 { // of a small number no other memory is read
		if got := bitsOf(uint8(x)); got != uint64(x) {
			t.Errorf("uint8 %d has the bits %x", x, got)
		}
		if got := bitsOf(-int32(x)); got != uint64(uint32(-x)) {
			t.Errorf("int32 %d has the bits %x", -x, got)
		}
	}
	if one := float32(1); Equal(one, math.Nextafter32(one, 2)) || !Equal(one, one) {
		t.Error("float32")
	}
}

// TestBits: a number's bits come back from a file and, by what is shown of it, from a report.
func TestBits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := strings.Split(types, ", ")
		of := Type(rapid.SampledFrom(all).Draw(t, "type"))
		size := 8 * of.Size()
		bits := rapid.Uint64().Draw(t, "bits") >> (64 - size)
		data := of.AppendBits([]byte{1}, bits)
		if back := of.Bits(append(data[1:], 0xff)); len(data) != 1+of.Size() || back != bits {
			t.Fatalf("%s %x is written as %x, and read as %x", of, bits, data, back)
		}
		text, hex, _ := strings.Cut(of.Show(bits), " ")
		var back uint64
		var value float64
		var err error
		switch of {
		case "float32", "float64":
			if want := fmt.Sprintf("(%0*x)", size/4, bits); hex != want {
				t.Errorf("%s, bits %s, want %s", text, hex, want)
			}
			if value, err = strconv.ParseFloat(text, size); math.IsNaN(value) {
				back = bits // of which only they are told
			} else if back = math.Float64bits(value); size == 32 {
				back = uint64(math.Float32bits(float32(value)))
			}
			if size == 32 && len(text) > len(fmt.Sprint(float32(value))) {
				t.Errorf("%s has digits that no %s has", text, of)
			}
		case "uint8":
			back, err = strconv.ParseUint(text, 10, size)
			value = float64(back)
		default:
			var n int64
			n, err = strconv.ParseInt(text, 10, size)
			back, value = uint64(n)<<(64-size)>>(64-size), float64(n)
		}
		if err != nil || back != bits {
			t.Errorf("%s %x is shown as %s: %v", of, bits, text, err)
		}
		if got := of.Float(bits); !Equal(got, value) {
			t.Errorf("%s %s is %v", of, text, got)
		}
	})
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
		{"not a number before", ulps(math.NaN(), 1), 0},
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
