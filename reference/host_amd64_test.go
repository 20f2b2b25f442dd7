package reference

import (
	"testing"

	"golang.org/x/sys/cpu"

	"lockstep"
)

// TestHost: of what the Python program looks for in a CPU each decides, on one that has it all.
func TestHost(t *testing.T) {
	x86 := &cpu.X86
	had := *x86
	defer func() { *x86 = had }()
	for _, c := range []struct {
		fma, avx2, avx512, known bool
		softmax                  lockstep.Softmax
	}{
		{true, true, true, true, lockstep.SoftmaxAVX512},
		{true, true, false, true, lockstep.SoftmaxAVX2},
		{true, false, true, true, lockstep.SoftmaxAVX512},
		{true, false, false, false, lockstep.SoftmaxAVX2},
		{false, true, true, false, lockstep.SoftmaxAVX512},
	} {
		x86.HasFMA, x86.HasAVX2, x86.HasAVX512F = c.fma, c.avx2, c.avx512
		if got := HostKnown(); got != c.known {
			t.Errorf("%+v: known is %v", c, got)
		}
		if got := HostProfile().Softmax; got != c.softmax {
			t.Errorf("%+v: the softmax is %v", c, got)
		}
	}
}
