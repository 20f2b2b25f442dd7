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
		if random.IntN(2) == 0 { // half of the sum's last bit, but for a few that a float64 has
			a := math.Ldexp(float64(2*random.IntN(2100)), -24)
			x = float32(1 - a + math.Ldexp(float64(random.IntN(2)), -24))
			y = float32(math.Ldexp(1+a, -24))
			z = 1 + float32(math.Ldexp(float64(random.IntN(1<<23)), -23))
		}
		if random.IntN(2) == 0 {
			x, z = -x, -z
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

// TestWideEdges: a continuous car whose numbers are still float64 is at its goal and at the wall by
// these, not by the float32 that they become.
func TestWideEdges(t *testing.T) {
	task := &classic.Task{GoalVelocity: -1}
	for edge, velocity := range map[float64]float64{continuousGoalPosition: 0.02, -1.2: -0.02} {
		to := func(position float64) float64 {
			return velocity + (&mountainCarContinuous{task: task}).pull(0, 3*position)
		}
		at := edge
		for range 50 {
			at = edge - to(at)
		}
		sides := [2]int{}
		for i := range 81 {
			m := &mountainCarContinuous{task: task, position: at + float64(i-40)*0x1p-32}
			position := m.position + to(m.position)
			m.velocity = velocity
			reached, beyond := m.move64(0), position >= edge
			if edge < 0 {
				reached, beyond = m.velocity != 0, position > edge
			}
			if reached != beyond {
				t.Errorf("at %v, edge %v: %v", position, edge, reached)
			}
			if sides[0]++; beyond {
				sides[1]++
			}
		}
		if sides[1] < 20 || sides[0]-sides[1] < 20 {
			t.Errorf("%d of %d are beyond %v", sides[1], sides[0], edge)
		}
	}
}

// TestHeight: an acrobot is as high as its own angles have it, at the very height that ends it.
func TestHeight(t *testing.T) {
	swing := func(angle float64) (reached bool, height float64) {
		b := &acrobot{task: &classic.Task{}, s: [4]float64{angle, 0.3, 0, 0}}
		_, reached = b.step(action{discrete: 1})
		return reached, -libm.Cos(b.s[0]) - libm.Cos(b.s[1]+b.s[0])
	}
	low, high := 1.0, 3.0
	for range 50 {
		middle := (low + high) / 2
		if reached, _ := swing(middle); reached {
			high = middle
		} else {
			low = middle
		}
	}
	for i := -40; i <= 40; i++ {
		reached, height := swing(low + float64(i)*0x1p-30)
		if reached != (height > 1) || (height > 1) != (i > 0) {
			t.Errorf("%d from the edge, %v high: %v", i, height, reached)
		}
	}
}

// TestGoals: a mountain car that stands on its goal is there, with the velocity that is asked
// for, too; with one below either it is not.
func TestGoals(t *testing.T) {
	type car struct {
		step func(task *classic.Task, position, velocity float64) (
			reached bool, at, speed float64,
		)
		goal   float64
		narrow bool // its numbers are float32
	}
	cars := map[string]car{
		"discrete": {
			func(task *classic.Task, position, velocity float64) (bool, float64, float64) {
				m := &mountainCar{task: task, position: position, velocity: velocity}
				_, reached := m.step(action{discrete: 1})
				return reached, m.position, m.velocity
			}, 0.5, false,
		},
		"continuous": {
			func(task *classic.Task, position, velocity float64) (bool, float64, float64) {
				m := &mountainCarContinuous{task: task, position: position, velocity: velocity}
				_, reached := m.step(action{})
				return reached, m.position, m.velocity
			}, float64(float32(0.45)), true,
		},
	}
	for name, c := range cars {
		next := func(x, to float64) float64 {
			if c.narrow {
				return float64(math.Nextafter32(float32(x), float32(to)))
			}
			return math.Nextafter(x, to)
		}
		task := &classic.Task{GoalVelocity: -1}
		on, below := 0, 0
		for _, velocity := range []float64{0.01, 0.02, 0.03, 0.04, 0.05} {
			velocity = float64(float32(velocity))
			low, high := c.goal-0.07, c.goal // between them it comes to the goal
			for range 60 {
				middle := float64(float32(low+high) / 2)
				if !c.narrow {
					middle = (low + high) / 2
				}
				if _, position, _ := c.step(task, middle, velocity); position < c.goal {
					low = middle
				} else {
					high = middle
				}
			}
			at := low
			for range 30 {
				at = next(at, 0)
			}
			for range 60 {
				at = next(at, 1)
				reached, position, speed := c.step(task, at, velocity)
				if reached != (position >= c.goal) {
					t.Fatalf("%s: at %v, goal %v: %v", name, position, c.goal, reached)
				}
				if position == next(c.goal, 0) {
					below++
				}
				if position != c.goal {
					continue
				}
				on++
				same, faster := &classic.Task{GoalVelocity: speed},
					&classic.Task{GoalVelocity: next(speed, 1)}
				if is, _, _ := c.step(same, at, velocity); !is {
					t.Fatalf(
						"%s: with the velocity %v that is asked for it is not there", name, speed,
					)
				}
				if is, _, _ := c.step(faster, at, velocity); is {
					t.Fatalf("%s: with a velocity below the one asked for it is there", name)
				}
			}
		}
		t.Logf("%s: %d times on the goal, %d times just below", name, on, below)
		if on == 0 || below == 0 {
			t.Errorf("%s: never on its goal, or never just below", name)
		}
	}
}
