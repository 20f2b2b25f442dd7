//go:build !noasm

package classic

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestCPU: the sets are those whose instructions Linux says that the CPU has, the widest first,
// which is taken.
func TestCPU(t *testing.T) {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^flags\s*:(.*)$`).FindSubmatch(info)
	if line == nil {
		t.Fatal("/proc/cpuinfo has no flags")
	}
	has := func(flags ...string) bool {
		all := strings.Fields(string(line[1]))
		return !slices.ContainsFunc(flags, func(f string) bool { return !slices.Contains(all, f) })
	}
	var want, got []string
	if has("avx2", "fma", "bmi2") {
		if has("avx512f", "avx512dq", "avx512vl") {
			want = append(want, "avx512")
		}
		want = append(want, "avx2")
	}
	for _, k := range assembly() {
		got = append(got, k.name)
	}
	if !slices.Equal(got, want) {
		t.Errorf("this CPU runs %q, want %q", got, want)
	}
	if first := append(want, "go")[0]; best.name != first {
		t.Errorf("%s is taken, want %s", best.name, first)
	}
}
