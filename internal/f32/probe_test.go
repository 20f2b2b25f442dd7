//go:build (amd64 || arm64) && !noasm

package f32

import (
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"golang.org/x/sys/cpu"
)

// TestFMA holds FMA to the CPU's own instruction.
func TestFMA(t *testing.T) {
	if runtime.GOARCH == "amd64" && !cpu.X86.HasFMA {
		t.Skip("this CPU has no FMA")
	}
	naive := 0 // cases that a double rounding gets wrong
	check := func(x, y, z float32) {
		want := hardwareFMA(x, y, z)
		if got := FMA(x, y, z); math.Float32bits(got) != math.Float32bits(want) &&
			(got == got || want == want) {
			t.Fatalf("FMA(%x, %x, %x) = %x, want %x", x, y, z, got, want)
		}
		if twice := float32(math.FMA(float64(x), float64(y), float64(z))); twice != want &&
			want == want {
			naive++
		}
	}
	count := 3_000_000
	if testing.Short() {
		count = 30_000
	}
	r := rand.New(rand.NewPCG(1, 2))
	any := func() float32 { return math.Float32frombits(r.Uint32()) }
	sign := func() float32 { return float32(1 - 2*r.IntN(2)) }
	scaled := func(v float32, e int) float32 { return float32(math.Ldexp(float64(v), e)) }
	// near is of magnitude 2^e.
	near := func(e int) float32 { return scaled(sign()*(1+r.Float32()), e) }
	run := func(name string, atLeast int, triple func() (x, y, z float32)) {
		t.Run(name, func(t *testing.T) {
			naive = 0
			for range count {
				check(triple())
			}
			t.Logf("%d triples, %d wrong with a double rounding", count, naive)
			if naive < atLeast {
				t.Errorf("only %d triples need a single rounding", naive)
			}
		})
	}

	run("any bits", 0, func() (x, y, z float32) { return any(), any(), any() })
	run("similar", 0, func() (x, y, z float32) {
		return near(r.IntN(9) - 4), near(r.IntN(9) - 4), near(r.IntN(60) - 30)
	})
	run("cancellation", 0, func() (x, y, z float32) {
		x, y = near(r.IntN(9)), near(r.IntN(9))
		return x, y, math.Float32frombits(math.Float32bits(-x*y) + uint32(r.IntN(5)) - 2)
	})
	// The product is a midpoint, an odd number of 25 digits, and the rest is too
	// small for float64: two roundings take the midpoint for a tie.
	run("product at a midpoint", count/10, func() (x, y, z float32) {
		for {
			m := uint32(3 + 2*r.IntN(1<<11))
			n := (1<<24+uint32(r.IntN(1<<24)))/m | 1
			if p := uint64(m) * uint64(n); n < 1<<24 && 1<<24 < p && p < 1<<25 {
				return float32(m), sign() * float32(n), near(-30 - r.IntN(60))
			}
		}
	})
	// The addend is one and the product half of its last digit, all but 2^-46.
	run("addend at a midpoint", count/10, func() (x, y, z float32) {
		z = near(0)
		half := r.IntN(60)
		return scaled(1<<23-1, -35-half), sign() * scaled(1<<23+1, half-35), z
	})
	run("overflow", 0, func() (x, y, z float32) {
		return near(63 + r.IntN(2)), near(63 + r.IntN(2)), near(100 + r.IntN(28))
	})
	run("subnormal", 0, func() (x, y, z float32) {
		return near(-75 + r.IntN(10)), near(-75 + r.IntN(10)), near(-150 + r.IntN(30))
	})
	// As above among the subnormals: x·y is an odd number of half last digits.
	run("subnormal midpoint", count/100, func() (x, y, z float32) {
		m, n := float32(1+2*r.IntN(1<<10)), float32(1+2*r.IntN(1<<10))
		z = math.Float32frombits(r.Uint32() & 0x800fffff)
		if r.IntN(2) == 0 {
			return scaled(m, -75), sign() * scaled(n, -75), z
		}
		return scaled(1<<23-1, -98), sign() * scaled(1<<23+1, -98), z
	})

	// The sum is less than half a float64's last digit below a midpoint, all of whose digits are 1.
	run("all but a subnormal midpoint", 0, func() (x, y, z float32) {
		k, s := float32(260+r.IntN(100)), sign()
		z = scaled(s*float32(1<<22+1+2*r.IntN(1<<20)), -149)
		return scaled(1<<23+k, -98), scaled(s*(1<<24-2*k), -99), z
	})

	special := []float32{
		0, 1, 1.5, 3, 0x1p-126, 0x1.fffffcp-127, math.SmallestNonzeroFloat32, 0x1p-75,
		0x1.fffffep63, 0x1p64, math.MaxFloat32, float32(math.Inf(1)), float32(math.NaN()),
	}
	for _, v := range special {
		special = append(special, -v)
	}
	for _, x := range special {
		for _, y := range special {
			for _, z := range special {
				check(x, y, z)
			}
		}
	}
}
