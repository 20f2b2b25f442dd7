// Package emulatedtest is for tests that run kernels on the CPU.
package emulatedtest

import (
	"os"
	"testing"

	"lockstep/gpu/driver/emulated"
)

// Require skips the test where no C++ compiler is found, with a line that `make test`
// counts; it fails if LOCKSTEP_REQUIRE_COMPILER is 1.
func Require(t testing.TB) {
	t.Helper()
	err := emulated.Available()
	if err == nil {
		return
	}
	if os.Getenv("LOCKSTEP_REQUIRE_COMPILER") == "1" {
		t.Fatalf("LOCKSTEP_REQUIRE_COMPILER=1, but %v", err)
	}
	t.Skipf("not run for want of a compiler: %v", err)
}
