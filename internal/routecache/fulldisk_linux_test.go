package routecache

import (
	"syscall"
	"testing"
)

// limited runs a test with a folder on a file system of 256 KiB.
func limited(t *testing.T, test func(dir string)) {
	dir := t.TempDir()
	if err := syscall.Mount("lockstep", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("a small file system cannot be mounted here (%v): the full disk is not tested", err)
	}
	defer syscall.Unmount(dir, 0)
	test(dir)
}
