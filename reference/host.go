package reference

import (
	"golang.org/x/sys/cpu"

	"lockstep"
)

// HostProfile is the profile of the Python program run on this machine with the
// packages of golden/requirements.txt. On a CPU that has neither AVX-512 nor
// AVX2, where ONNX Runtime computes otherwise, it is that of AVX-512.
func HostProfile() lockstep.Profile {
	var p lockstep.Profile
	if cpu.X86.HasAVX2 && cpu.X86.HasFMA && !cpu.X86.HasAVX512F {
		p.Softmax = lockstep.SoftmaxAVX2
	}
	return p
}
