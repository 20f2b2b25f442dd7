//go:build !noasm

package classic

import "golang.org/x/sys/cpu"

// assembly returns the sets that this CPU, and its operating system, supports.
func assembly() []*kernels {
	var sets []*kernels
	if !cpu.X86.HasAVX2 || !cpu.X86.HasFMA || !cpu.X86.HasBMI2 {
		return sets
	}
	if cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512VL {
		sets = append(sets, set("avx512", 8, functions{
			cartPole: cartPoleAVX512, mountainCar: mountainCarAVX512, pendulum: pendulumAVX512,
			sincos: sincosAVX512, square: squareAVX512, normal: normalAVX512,
		}))
	}
	return append(sets, set("avx2", 4, functions{
		cartPole: cartPoleAVX2, mountainCar: mountainCarAVX2,
		sincos: sincosAVX2, square: squareAVX2,
	}))
}
