//go:build !cuda

package cuda

import (
	"strings"
	"testing"
)

// TestNotBuilt is what a program without CUDA says.
func TestNotBuilt(t *testing.T) {
	_, err := Open(Options{})
	for _, err := range []error{err, Available()} {
		if err == nil || !strings.Contains(err.Error(), "make build-cuda") ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("error %v, want one line with what to do", err)
		}
	}
}
