package classic

// kernels are the functions that an instruction set makes faster. All sets give
// the same bits.
type kernels struct {
	name  string
	width int // lanes that a step does at a time

	// cartPole and mountainCar step lanes from a first one on and return the lane
	// where they stopped: l.n, or one whose vector they leave to the Go function.
	cartPole, mountainCar, pendulum func(l *lanes, from int) (next int)

	// normal computes the angle of a pendulum within a turn; x's length is a multiple of 8.
	normal func(x, y []float64)

	// sincos computes sine and cosine of x, whose length is a multiple of 8.
	sincos func(x, sin, cos []float64)

	// square computes pow(x, 2), likewise.
	square func(x, y []float64, sure []bool)
}

// plain are the Go functions, which are the specification.
var plain = &kernels{
	name: "go", width: 8,
	cartPole: func(l *lanes, from int) int {
		for i := from; i < l.n; i++ {
			l.cartPoleLane(i, false)
		}
		return l.n
	},
	mountainCar: func(l *lanes, from int) int {
		for i := from; i < l.n; i++ {
			l.mountainCarLane(i)
		}
		return l.n
	},
	pendulum: func(l *lanes, from int) int {
		for i := from; i < l.n; i++ {
			l.pendulumLane(i, false)
		}
		return l.n
	},
	normal: func(x, y []float64) {
		for i, v := range x {
			y[i] = remainder(v+pi) - pi
		}
	},
	sincos: func(x, sin, cos []float64) {
		for i := range x {
			sin[i], cos[i] = sincos(x[i])
		}
	},
	square: func(x, y []float64, sure []bool) {
		for i := range x {
			y[i], sure[i] = certain(x[i])
		}
		squareRest(x, y, sure)
	},
}

// squareRest computes the squares that are not sure.
func squareRest(x, y []float64, sure []bool) {
	for i := range x {
		if !sure[i] {
			y[i] = power(x[i])
		}
	}
}

// best are the fastest kernels that this CPU has.
var best = append(assembly(), plain)[0]
