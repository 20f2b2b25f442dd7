package libm

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

const digitsOfPi = "3.14159265358979323846264338327950288419716939937510" +
	"582097494459230781640628620899"

// of is an exact number.
func of(x float64) *big.Float { return new(big.Float).SetPrec(1500).SetFloat64(x) }

func relative(got, want *big.Float) float64 {
	d, _ := new(big.Float).Quo(new(big.Float).Sub(got, want), want).Float64()
	return math.Abs(d)
}

// TestReduce: angles are reduced to many more digits than a float64 has, and the second number is
// less than the last bit of the first: an error of the second shows in one sine of thousands.
func TestReduce(t *testing.T) {
	quarters, radix := of(0), of(1) // of a turn, in one radian
	for _, digit := range twoOverPi {
		radix.Mul(radix, of(0x1p-24))
		quarters.Add(quarters, new(big.Float).Mul(of(digit), radix))
	}
	pi, _, err := big.ParseFloat(digitsOfPi, 10, 260, big.ToNearestEven)
	if err != nil {
		t.Fatal(err)
	}
	quarter := new(big.Float).Quo(pi, of(2))
	r := rand.New(rand.NewPCG(7, 8))
	most := map[string]float64{"reduce": 0x1p-99, "reduceFar": 0x1p-77} // a third is met
	hold := func(name string, x float64, reduce func(x float64) (a, da float64, n int64)) {
		a, da, n := reduce(x)
		turns := of(x)
		turns.Mul(turns, quarters)
		whole, _ := new(big.Float).Add(turns, of(math.Copysign(0.5, x))).Int(nil)
		last := new(big.Int).And(whole, big.NewInt(3)).Int64()
		off := (n - last) & 3
		if off == 3 {
			off = -1
		}
		if off == 2 {
			t.Fatalf("%s(%x): %d quarters, want %v", name, x, n, whole)
		}
		whole.Add(whole, big.NewInt(off))
		want := turns.Sub(turns, new(big.Float).SetPrec(1500).SetInt(whole))
		want.Mul(want, quarter)
		if f, _ := want.Float64(); math.Abs(f) > 0.8 {
			t.Fatalf("%s(%x): %v is left", name, x, f)
		}
		if math.Abs(da) > 0x1p-52*math.Abs(a) {
			t.Fatalf("%s(%x) is %x and %x, which is no rest of it", name, x, a, da)
		}
		if e := relative(of(a).Add(of(a), of(da)), want); e > most[name] {
			t.Fatalf("%s(%x) is %x and %x, by %g from %v", name, x, a, da, e, want)
		}
	}
	for range 2000 {
		hold("reduce", 2.5+SinLimit*math.Pow(r.Float64(), 3)/1.01, reduce)
		hold("reduceFar", math.Ldexp(1+r.Float64(), 27+r.IntN(996)), reduceFar)
		hold("reduceFar", -math.Ldexp(1+r.Float64(), 27+r.IntN(996)), reduceFar)
	}
}

// TestLogarithm is TestReduce of Pow2's logarithm, by the power series of the exact quotient.
func TestLogarithm(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	ln := func(x *big.Float) *big.Float { // 2·artanh((x-1)/(x+1)), x near 1
		s := new(big.Float).Quo(new(big.Float).Sub(x, of(1)), new(big.Float).Add(x, of(1)))
		square, sum, power := new(big.Float).Mul(s, s), of(0), new(big.Float).Set(s)
		for k := 1; k < 64; k += 2 {
			sum.Add(sum, new(big.Float).Quo(power, of(float64(k))))
			power.Mul(power, square)
		}
		return sum.Mul(sum, of(2))
	}
	two := ln(of(2))
	for range 300 {
		m, k := 0.7+0.7*r.Float64(), r.IntN(700)-500
		hi, lo := logarithm(math.Ldexp(m, k))
		want := new(big.Float).Add(ln(of(m)), new(big.Float).Mul(two, of(float64(k))))
		if hi+lo != hi {
			t.Fatalf("logarithm(%x·2^%d) is %x and %x, which is no rest of it", m, k, hi, lo)
		}
		if e := relative(of(hi).Add(of(hi), of(lo)), want); e > 0x1p-75 {
			t.Fatalf("logarithm(%x·2^%d) is %x and %x, by %g from %v", m, k, hi, lo, e, want)
		}
	}
}
