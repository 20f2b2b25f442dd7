package classic

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"lockstep/classic"
	"lockstep/internal/libm"
)

// TestFMA: one rounding, also where the sum lies half-way between two float32 but for a term
// that a float64 does not hold.
func TestFMA(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	of := func(x float32) *big.Float { return new(big.Float).SetPrec(400).SetFloat64(float64(x)) }
	odd := 0
	for range 20000 {
		// The product's last bit is half a unit of the sum, and z is far below it, or beside it.
		x := float32(1 + float64(1+random.IntN(1<<11))/(1<<12))
		y := float32(1 + float64(1+random.IntN(1<<11))/(1<<12))
		z := float32(math.Ldexp(float64(random.IntN(7)-3), -30*random.IntN(5)))
		if random.IntN(2) == 0 {
			x = -x
		}
		exact := of(x)
		exact.Add(exact.Mul(exact, of(y)), of(z))
		want, _ := exact.Float32()
		if got := fma32(x, y, z); got != want {
			t.Fatalf("fma32(%x, %x, %x) = %x, want %x", x, y, z, got, want)
		}
		if float32(float64(x)*float64(y)+float64(z)) != want {
			odd++
		}
	}
	if odd == 0 {
		t.Error("a sum that is rounded twice is always the same: the cases cannot tell")
	}
}

// TestEdges: what stands on a threshold has not crossed it.
func TestEdges(t *testing.T) {
	task := &classic.Task{}
	for _, c := range []struct {
		x, theta float64
		beyond   bool
	}{
		{xThreshold, 0, false}, {-xThreshold, 0, false}, {0, thetaThreshold, false},
		{0, -thetaThreshold, false},
		{math.Nextafter(xThreshold, 9), 0, true}, {-math.Nextafter(xThreshold, 9), 0, true},
		{0, math.Nextafter(thetaThreshold, 9), true}, {0, -math.Nextafter(thetaThreshold, 9), true},
	} {
		cart := &cartPole{task: task, x: c.x, theta: c.theta}
		if got := cart.move(action{}); got != c.beyond {
			t.Errorf("a cart at %v with its pole at %v is beyond: %v", c.x, c.theta, got)
		}
	}
	for x, want := range map[float64]float64{math.Pi: math.Pi, -math.Pi: -math.Pi, 1: 1} {
		if got := wrap(x, -math.Pi, math.Pi); got != want {
			t.Errorf("an angle of %v is turned into %v", x, got)
		}
	}
	car := &mountainCarContinuous{task: task}
	slope := float64(continuousGravity * libm.Cos(0.7))
	for force, sign := range map[float32]float32{1: 1, -1: -1} {
		if got, want := car.pull(force,
			0.7), float64(sign*float32(power)-float32(slope)); got != want {
			t.Errorf("a force of %v pulls with %v, want %v", force, got, want)
		}
	}
}
