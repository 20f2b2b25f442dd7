package simtest

import (
	"os"
	"testing"
)

// Whole reports whether a test runs all of its cases, as `make test-whole` asks. `make test`
// runs some of them where all take long.
func Whole(t testing.TB) bool {
	t.Helper()
	whole := os.Getenv("LOCKSTEP_WHOLE") == "1"
	if !whole {
		t.Log("some of the cases: `make test-whole` runs all")
	}
	return whole
}
