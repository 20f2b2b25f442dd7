package simtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Closed reports what this process has open of a file, or below a folder, where the system tells.
func Closed(t testing.TB, path string) {
	t.Helper()
	handles, _ := filepath.Glob("/proc/self/fd/*")
	for _, handle := range handles {
		at, err := os.Readlink(handle)
		if err == nil && (at == path || strings.HasPrefix(at, path+"/")) {
			t.Errorf("%s was left open", at)
		}
	}
}
