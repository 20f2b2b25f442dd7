package ortlib

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestSHA256: a file that was written since, or is another of the same name, is read again.
func TestSHA256(t *testing.T) {
	path := filepath.Join(t.TempDir(), "library")
	before := time.Unix(1e9, 0)
	done := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	write := func(path, text string, written time.Time) {
		t.Helper()
		done(os.WriteFile(path, []byte(text), 0o600))
		done(os.Chtimes(path, written, written))
	}
	is := func(text string) {
		t.Helper()
		sum := sha256.Sum256([]byte(text))
		for range 2 {
			got, err := SHA256(path)
			if expected := hex.EncodeToString(sum[:]); err != nil || got != expected {
				t.Errorf("the hash of %q is %s, %v; want %s", text, got, err, expected)
			}
		}
	}
	write(path, "one", before)
	is("one")
	write(path, "longer", before)
	is("longer")
	write(path, "others", before.Add(time.Nanosecond))
	is("others")
	write(path+".new", "rename", before.Add(time.Nanosecond))
	done(os.Rename(path+".new", path))
	is("rename")
	done(os.Remove(path))
	if sum, err := SHA256(path); err == nil {
		t.Errorf("a file that is no more has the hash %s", sum)
	}
}
