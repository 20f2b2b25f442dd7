package main

import (
	"archive/zip"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lockstep/batched/onnxruntime/internal/ortlib"
)

// setup gives the test a cache folder of its own and only the programs given, as
// shell scripts.
func setup(t *testing.T, programs map[string]string) (cache string) {
	t.Helper()
	if _, ok := ortlib.Pinned(); !ok {
		t.Skip("no library is pinned for this system")
	}
	bin := t.TempDir()
	for name, script := range programs {
		if err := os.WriteFile(
			filepath.Join(bin, name), []byte("#!/bin/sh\n"+script), 0o700,
		); err != nil {
			t.Fatal(err)
		}
	}
	cache = t.TempDir()
	t.Setenv("PATH", bin)
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv(ortlib.Variable, "")
	return cache
}

// left lists the files under a folder but the lock.
func left(t *testing.T, dir string) (files []string) {
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && d.Name() != ".fetch" {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestNoPip(t *testing.T) {
	cache := setup(t, map[string]string{"pip3": "echo no route to host >&2; exit 1\n"})
	_, err := library()
	if err == nil || !strings.Contains(err.Error(), "pip could not download onnxruntime") ||
		!strings.Contains(err.Error(), "no route to host") {
		t.Errorf("error %v, want what pip said", err)
	}
	if files := left(t, cache); files != nil {
		t.Errorf("left behind: %v", files)
	}
}

// wheel is a wheel whose library is this, and a pip that loads it.
func wheel(t *testing.T, library []byte) (pip map[string]string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "onnxruntime.whl")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(f)
	w, err := z.CreateHeader(&zip.FileHeader{Name: "onnxruntime/capi/" + ortlib.FileName})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(library); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(z.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	return map[string]string{"pip3": `while [ "$1" != --dest ]; do shift; done
/bin/cp ` + path + ` "$2"/
`}
}

// TestWrongWheel has pip load a wheel whose library is another.
func TestWrongWheel(t *testing.T) {
	cache := setup(t, wheel(t, []byte("not it")))
	if _, err := library(); err == nil || !strings.Contains(err.Error(), "SHA-256") {
		t.Errorf("error %v, want that the hash is another", err)
	}
	if files := left(t, cache); files != nil {
		t.Errorf("left behind: %v", files)
	}
}

// printed is what the command prints; one that fails ends the test.
func printed(t *testing.T) string {
	t.Helper()
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	defer func(was *os.File) { os.Stdout = was }(os.Stdout)
	os.Stdout = out
	main()
	text, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestPresent has pip load the library where there is none, and then finds it whole and asks
// nobody.
func TestPresent(t *testing.T) {
	path, err := ortlib.Find()
	if err != nil || os.Getenv(ortlib.Variable) != "" {
		t.Skip("no library in the cache folder")
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	cache := setup(t, wheel(t, whole))
	to := filepath.Join(cache, "lockstep", "onnxruntime", ortlib.Version, ortlib.FileName)
	if got := printed(t); got != to+"\n" {
		t.Errorf("loaded: %q, want %s", got, to)
	}
	if files := left(t, cache); !slices.Equal(files, []string{to}) {
		t.Errorf("left behind: %v, want %s alone", files, to)
	}
	t.Setenv("PATH", t.TempDir())
	if got := printed(t); got != to+"\n" {
		t.Errorf("found: %q, want %s", got, to)
	}
}

func TestOverride(t *testing.T) {
	setup(t, nil)
	t.Setenv(ortlib.Variable, "/nowhere/libonnxruntime.so")
	if _, err := library(); err == nil ||
		!strings.Contains(err.Error(), "/nowhere/libonnxruntime.so") {
		t.Errorf("error %v, want that the file is missing", err)
	}
}
