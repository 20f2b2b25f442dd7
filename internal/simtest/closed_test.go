package simtest

import (
	"os"
	"path/filepath"
	"testing"
)

// TestClosed: a file is open from when it is opened until it is closed, and what lies beside it or
// has a longer name is another.
func TestClosed(t *testing.T) {
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		t.Skip("this system does not tell what a process has open")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	open := path + " was left open"
	for _, want := range []string{open, ""} {
		for of, want := range map[string]string{
			path: want, dir: want, filepath.Dir(dir): want, path + "b": "",
			path[:len(path)-1] + "b": "", dir[:len(dir)-1]: "",
		} {
			got := &told{TB: t}
			if Closed(got, of); got.text != want {
				t.Errorf("of %s it says %q, want %q", of, got.text, want)
			}
		}
		f.Close()
	}
}
