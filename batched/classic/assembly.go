//go:build (amd64 || arm64) && !noasm

package classic

import "unsafe"

// functions are those of a set in assembly. Lanes are passed as what Go's checks of
// assembly know, a pointer to 8 bytes.
type functions struct {
	cartPole, mountainCar, pendulum func(l *int64, from int) (next int)

	sincos func(n int, x, sin, cos, table *float64)
	square func(n int, x, y *float64, sure *bool)
	normal func(n int, x, y *float64)
}

// set returns the kernels that these functions make. What a set lacks is plain Go.
func set(name string, width int, f functions) *kernels {
	step := func(
		run func(*int64, int) int, plain func(*lanes, int) int,
	) func(*lanes, int) int {
		if run == nil {
			return plain
		}
		return func(l *lanes, from int) int { return run((*int64)(unsafe.Pointer(l)), from) }
	}
	k := &kernels{
		name: name, width: width,
		cartPole:    step(f.cartPole, plain.cartPole),
		mountainCar: step(f.mountainCar, plain.mountainCar),
		pendulum:    step(f.pendulum, plain.pendulum),
		normal:      plain.normal,
		sincos: func(x, sin, cos []float64) {
			check(len(x), len(sin), len(cos))
			f.sincos(
				len(x),
				unsafe.SliceData(x),
				unsafe.SliceData(sin),
				unsafe.SliceData(cos),
				&table[0],
			)
			farAngles(x, sin, cos)
		},
		square: func(x, y []float64, sure []bool) {
			check(len(x), len(y), len(sure))
			f.square(len(x), unsafe.SliceData(x), unsafe.SliceData(y), unsafe.SliceData(sure))
			squareRest(x, y, sure)
		},
	}
	if f.normal != nil {
		k.normal = func(x, y []float64) {
			check(len(x), len(y), len(y))
			f.normal(len(x), unsafe.SliceData(x), unsafe.SliceData(y))
		}
	}
	return k
}

// farAngles computes what the vectors leave: NaN is the cosine of an angle beyond edge3.
func farAngles(x, sin, cos []float64) {
	for i, c := range cos[:len(x)] {
		if c != c {
			sin[i], cos[i] = sincos(x[i])
		}
	}
}

func check(n, a, b int) {
	if n%8 != 0 || a < n || b < n {
		panic("classic: a column is too short, or no multiple of 8")
	}
}
