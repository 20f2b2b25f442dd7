package routecache

import (
	"os/exec"
	"path/filepath"
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

// coarse is a file system whose time stamps are whole seconds. Between tests on it, debug
// changes what it holds.
func coarse(t *testing.T) (dir string, debug func(command string)) {
	image := filepath.Join(t.TempDir(), "image")
	dir = t.TempDir()
	run := func(program string, args ...string) {
		t.Helper()
		if out, err := exec.Command(program, args...).CombinedOutput(); err != nil {
			t.Skipf("no file system with coarse time stamps can be made or mounted here: %s: %v %s",
				program, err, out)
		}
	}
	run("mke2fs", "-q", "-I", "128", image, "8M")
	run("mount", "-o", "loop", image, dir)
	t.Cleanup(func() { syscall.Unmount(dir, 0) })
	return dir, func(command string) {
		run("umount", dir)
		run("debugfs", "-w", "-R", command, image)
		run("mount", "-o", "loop", image, dir)
	}
}
