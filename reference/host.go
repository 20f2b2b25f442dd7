package reference

import (
	"golang.org/x/sys/cpu"

	"lockstep"
)

// HostProfile is the profile of the Python program run on this CPU with the packages of
// golden/requirements.txt, whatever is installed here. Where HostKnown says that no
// profile is, as on arm64, it is that of AVX2.
func HostProfile() lockstep.Profile {
	var p lockstep.Profile
	if !cpu.X86.HasAVX512F {
		p.Softmax = lockstep.SoftmaxAVX2
	}
	return p
}

// HostKnown reports whether the Python program has HostProfile's arithmetic on this CPU.
// On one that is not x86-64, or has neither AVX-512 nor AVX2, it computes otherwise.
func HostKnown() bool {
	return cpu.X86.HasFMA && (cpu.X86.HasAVX2 || cpu.X86.HasAVX512F)
}
