package simtest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestOnDisk: what is in a folder differs by a name, a mode, a byte or a time.
func TestOnDisk(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a", "b")
	if err := os.Mkdir(filepath.Dir(file), 0o777); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for k, change := range []func() error{
		func() error { return os.WriteFile(file, []byte("1"), 0o600) },
		func() error { return os.WriteFile(file, []byte("2"), 0o600) },
		func() error { return os.Chtimes(file, time.Unix(9, 0), time.Unix(9, 0)) },
		func() error { return os.Chmod(file, 0o400) },
		func() error { return os.Rename(file, file+"2") },
		func() error { return os.Mkdir(file, 0o777) },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		there := OnDisk(t, dir)
		seen[fmt.Sprint(there)] = true
		if many := 2 + k/5; len(seen) != k+1 || len(there) != many {
			t.Errorf("after change %d it looks as before, or is not %d: %v", k, many, there)
		}
	}
}
