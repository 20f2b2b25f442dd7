package npz

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

// TestWriteFileFull: a disk that fills up, here a limit on the size of files,
// leaves neither half a file nor anything else, and what was there alone.
func TestWriteFileFull(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.npz")
	if err := os.WriteFile(path, []byte("old"), 0o666); err != nil {
		t.Fatal(err)
	}
	noise := make([]uint64, 1<<15)
	for i := range noise {
		noise[i] = rand.Uint64()
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	full := limit
	full.Cur = 1 << 16
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &full); err != nil {
		t.Fatal(err)
	}
	err := WriteFile(path, []Array{New("x", noise, len(noise))})
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(err, syscall.EFBIG) {
		t.Errorf("got %v, want %v", err, syscall.EFBIG)
	}
	if got := names(t, dir); !slices.Equal(got, []string{"x.npz"}) {
		t.Errorf("the folder holds %v, want x.npz", got)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "old" {
		t.Errorf("the file holds %d bytes, %v; want what was there", len(text), err)
	}
}
