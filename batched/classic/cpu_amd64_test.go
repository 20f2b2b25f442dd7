//go:build !noasm

package classic

import (
	"testing"

	"golang.org/x/sys/cpu"

	"lockstep/internal/simtest"
)

// TestLacking: a CPU that lacks any of what a set wants is not given it.
func TestLacking(t *testing.T) {
	narrow := []string{"avx2"}
	simtest.Lacking(t, func() (names []string) {
		for _, set := range assembly() {
			names = append(names, set.name)
		}
		return names
	},
		simtest.Feature{Name: "AVX2", Has: &cpu.X86.HasAVX2},
		simtest.Feature{Name: "FMA", Has: &cpu.X86.HasFMA},
		simtest.Feature{Name: "BMI2", Has: &cpu.X86.HasBMI2},
		simtest.Feature{Name: "AVX512F", Has: &cpu.X86.HasAVX512F, Left: narrow},
		simtest.Feature{Name: "AVX512DQ", Has: &cpu.X86.HasAVX512DQ, Left: narrow},
		simtest.Feature{Name: "AVX512VL", Has: &cpu.X86.HasAVX512VL, Left: narrow},
	)
}
