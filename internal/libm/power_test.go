package libm

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestPow2Small: a square that is subnormal, or 0, is the exact one rounded, but for the last bit:
// the recordings of other squares have none.
func TestPow2Small(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	least := math.SmallestNonzeroFloat64
	differ := 0
	for i := range 20000 {
		x := math.Ldexp(1+r.Float64(), -540+r.IntN(32)) // its square from 2⁻¹⁰⁸⁰ to 2⁻¹⁰¹⁶
		if i%2 == 1 {
			x = -x
		}
		exact := new(big.Float).SetPrec(200).SetFloat64(x)
		want, _ := exact.Mul(exact, exact).Float64()
		got := Pow2(x)
		if got != want {
			differ++
		}
		if ulp := math.Max(least, math.Nextafter(want, 1)-want); math.Abs(got-want) > ulp {
			t.Fatalf("Pow2(%x) is %x, want %x", x, got, want)
		}
	}
	if differ > 200 { // one in a thousand of others
		t.Errorf("%d of 20000 squares are not the exact ones rounded", differ)
	}
}

// TestTables: who writes to the tables that are handed out writes to copies.
func TestTables(t *testing.T) {
	tables := func() (all [][]uint64) {
		for _, floats := range [][]float64{TwoOverPi(), SinCosTable()} {
			var bits []uint64
			for _, x := range floats {
				bits = append(bits, math.Float64bits(x))
			}
			all = append(all, bits)
		}
		log, exp, log2f, exp2f := PowTables()
		for _, bits := range [][]uint64{log, exp, log2f, exp2f} {
			all = append(all, slices.Clone(bits)) // which the test's own writes do not reach
		}
		return all
	}
	before := tables()
	for _, floats := range [][]float64{TwoOverPi(), SinCosTable()} {
		floats[0]++
	}
	log, exp, log2f, exp2f := PowTables()
	for _, bits := range [][]uint64{log, exp, log2f, exp2f} {
		bits[0]++
	}
	for i, table := range tables() {
		if !slices.Equal(table, before[i]) {
			t.Errorf("table %d is %x, before %x", i, table[0], before[i][0])
		}
	}
}

// TestPowRange: where the squares begin and end.
func TestPowRange(t *testing.T) {
	for _, c := range []struct{ got, want float64 }{
		{Pow2(0), 0}, {Pow2(0x1p-540), 0}, {Pow2(0x1p-541), 0}, {Pow2(0x1p-537), 0x1p-1074},
		{Pow2(-0x1p-511), 0x1p-1022},
		{Pow2(0x1p359), 0x1p718}, {Pow2(0x1p360), math.NaN()}, {Pow2(math.Inf(-1)), math.NaN()},
		{Pow2(math.NaN()), math.NaN()}, {Pow2(1), 1},
		{float64(Powf2(0)), 0}, {float64(Powf2(0x1p-100)), 0},
		{float64(Powf2(-0x1p-74)), 0x1p-148}, {float64(Powf2(0x1p-101)), 0},
		{float64(Powf2(0x1p62)), 0x1p124}, {float64(Powf2(0x1p63)), math.NaN()},
		{float64(Powf2(float32(math.NaN()))), math.NaN()},
	} {
		if math.Float64bits(c.got) != math.Float64bits(c.want) &&
			!(c.got != c.got && c.want != c.want) {
			t.Errorf("%x, want %x", c.got, c.want)
		}
	}
}
