//go:build linux

// Package readonly gives tests a home that nothing can be written to.
package readonly

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

// Home makes a home whose cache folder has files, by their paths below lockstep/, and calls f
// where files can be read from it and not written to it, by f's own goroutine. It gets the
// path of lockstep/.
func Home(t *testing.T, files map[string]string, f func(kept string)) {
	t.Helper()
	top, err := os.MkdirTemp("", "home-*")
	if err != nil {
		t.Fatal(err)
	}
	kept := filepath.Join(top, ".cache", "lockstep")
	temporary := filepath.Join(top, "tmp")
	// Made here, since whom f runs as is not its owner.
	err = errors.Join(
		os.MkdirAll(kept, 0o755),
		os.MkdirAll(filepath.Join(temporary, fmt.Sprintf("lockstep-%d", os.Getuid())), 0o700),
		os.Chmod(temporary, 0o755),
	)
	for name, text := range files {
		path := filepath.Join(kept, name)
		made := os.MkdirAll(filepath.Dir(path), 0o755)
		err = errors.Join(err, made, os.WriteFile(path, []byte(text), 0o644))
	}
	if err = errors.Join(err, os.Chmod(top, 0o755), os.Chmod(kept, 0o555)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		os.Chmod(kept, 0o755)
		if err := os.RemoveAll(top); err != nil {
			t.Error(err)
		}
	})
	t.Setenv("HOME", top)
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("TMPDIR", temporary)
	if os.Getuid() == 0 { // who may write anywhere, unless the thread's files are another's
		const nobody = 65534
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := syscall.Setfsuid(nobody); err != nil {
			t.Fatal(err)
		}
		defer syscall.Setfsuid(0)
	}
	if file, err := os.CreateTemp(kept, "x"); err == nil {
		file.Close()
		t.Fatalf("%s can be written to", kept)
	}
	f(kept)
}
