package simtest

import (
	"os"
	"syscall"
	"testing"
)

// Write writes a file that can be run at once. A process that another test starts meanwhile would
// keep it open, and no system runs a program that is open for writing.
func Write(t testing.TB, path string, data []byte, mode os.FileMode) {
	t.Helper()
	syscall.ForkLock.RLock()
	err := os.WriteFile(path, data, mode)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
}
