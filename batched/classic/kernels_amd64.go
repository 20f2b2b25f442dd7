//go:build !noasm

package classic

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

// assembly returns the sets that this CPU, and its operating system, supports.
func assembly() []*kernels {
	var sets []*kernels
	if !cpu.X86.HasAVX2 || !cpu.X86.HasFMA || !cpu.X86.HasBMI2 {
		return sets
	}
	if cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512VL {
		wide := set("avx512", 8, cartPoleAVX512, mountainCarAVX512, sincosAVX512, squareAVX512)
		wide.pendulum = func(l *lanes, from int) int { return pendulumAVX512((*int64)(unsafe.Pointer(l)), from) }
		wide.normal = func(x, y []float64) {
			check(len(x), len(y), len(y))
			normalAVX512(len(x), unsafe.SliceData(x), unsafe.SliceData(y))
		}
		sets = append(sets, wide)
	}
	return append(sets, set("avx2", 4, cartPoleAVX2, mountainCarAVX2, sincosAVX2, squareAVX2))
}

func set(
	name string, width int, cartPole, mountainCar func(*int64, int) int,
	sincos func(int, *float64, *float64, *float64, *float64),
	square func(int, *float64, *float64, *bool),
) *kernels {
	step := func(run func(*int64, int) int) func(*lanes, int) int {
		return func(l *lanes, from int) int { return run((*int64)(unsafe.Pointer(l)), from) }
	}
	return &kernels{
		name: name, width: width, cartPole: step(cartPole), mountainCar: step(mountainCar),
		pendulum: plain.pendulum, normal: plain.normal,
		sincos: func(x, sin, cos []float64) {
			check(len(x), len(sin), len(cos))
			sincos(
				len(x), unsafe.SliceData(x), unsafe.SliceData(sin), unsafe.SliceData(cos),
				&table[0],
			)
			farAngles(x, sin, cos)
		},
		square: func(x, y []float64, sure []bool) {
			check(len(x), len(y), len(sure))
			square(len(x), unsafe.SliceData(x), unsafe.SliceData(y), unsafe.SliceData(sure))
			squareRest(x, y, sure)
		},
	}
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
