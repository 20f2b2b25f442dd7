//go:build !noasm

package f32

import (
	"testing"

	"golang.org/x/sys/cpu"

	"lockstep/internal/simtest"
)

// TestCPU: a CPU that lacks any of what a set wants is not given it.
func TestCPU(t *testing.T) {
	simtest.Lacking(t, func() (names []string) {
		for _, set := range assembly() {
			names = append(names, set.Name)
		}
		return names
	},
		simtest.Feature{Name: "AVX2", Has: &cpu.X86.HasAVX2},
		simtest.Feature{Name: "FMA", Has: &cpu.X86.HasFMA},
		simtest.Feature{Name: "AVX512F", Has: &cpu.X86.HasAVX512F, Left: []string{"avx2"}},
	)
}
