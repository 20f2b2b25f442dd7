package main

import (
	"strings"
	"testing"
)

// TestKernels: a set of kernels that is not here, and an engine that has none to choose,
// are refused.
func TestKernels(t *testing.T) {
	for _, c := range []struct{ engine, kernels, message string }{
		{"reference", "mmx", `no kernels "mmx" here, only `},
		{"auto", "mmx", `--kernels: no kernels "mmx" here, only `},
		{"batched", "mmx", `no kernels "mmx" here, only `},
		{"emulated", "go", "--kernels go: the emulated engine has none to choose"},
	} {
		status, _, stderr := lockstepRun(
			t.Context(), "rollout", "--own", "--num_segs", "1", "--engine", c.engine, "--kernels",
			c.kernels,
		)
		if c.engine == "emulated" && strings.Contains(stderr, "compiler") {
			continue // without one it is refused before
		}
		if status != exitUsage || !strings.Contains(stderr, c.message) {
			t.Errorf("%s with %s: exit %d, %s", c.engine, c.kernels, status, stderr)
		}
	}
}
