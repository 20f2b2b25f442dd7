//go:build !noasm

package f32

import (
	"slices"
	"testing"

	"golang.org/x/sys/cpu"
)

// TestCPU: a CPU that lacks any of what a set wants is not given it.
func TestCPU(t *testing.T) {
	all := assembly()
	for _, flag := range []struct {
		name string
		has  *bool
		left []string // of the sets, where it is missing
	}{
		{"AVX2", &cpu.X86.HasAVX2, nil},
		{"FMA", &cpu.X86.HasFMA, nil},
		{"AVX512F", &cpu.X86.HasAVX512F, []string{"avx2"}},
	} {
		had := *flag.has
		*flag.has = false
		var got, want []string
		for _, set := range assembly() {
			got = append(got, set.Name)
		}
		*flag.has = had
		for _, set := range all {
			if slices.Contains(flag.left, set.Name) {
				want = append(want, set.Name)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("without %s this CPU runs %q, want %q", flag.name, got, want)
		}
	}
}
