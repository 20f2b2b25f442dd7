package main

import (
	"archive/zip"
	"os"
	"path/filepath"
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

// TestWrongWheel has pip load a wheel whose library is another.
func TestWrongWheel(t *testing.T) {
	wheel := filepath.Join(t.TempDir(), "onnxruntime.whl")
	f, err := os.Create(wheel)
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(f)
	w, err := z.Create("onnxruntime/capi/" + ortlib.FileName)
	if err != nil {
		t.Fatal(err)
	}
	w.Write([]byte("not it"))
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	f.Close()
	script := `while [ "$1" != --dest ]; do shift; done
/bin/cp ` + wheel + ` "$2"/
`
	cache := setup(t, map[string]string{"pip3": script})
	if _, err := library(); err == nil || !strings.Contains(err.Error(), "SHA-256") {
		t.Errorf("error %v, want that the hash is another", err)
	}
	if files := left(t, cache); files != nil {
		t.Errorf("left behind: %v", files)
	}
}

// TestPresent finds a whole library and asks nobody.
func TestPresent(t *testing.T) {
	path, err := ortlib.Find()
	if err != nil || os.Getenv(ortlib.Variable) != "" {
		t.Skip("no library in the cache folder")
	}
	cache := setup(t, nil)
	to := filepath.Join(cache, "lockstep", "onnxruntime", ortlib.Version, ortlib.FileName)
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path, to); err != nil {
		t.Fatal(err)
	}
	if got, err := library(); err != nil || got != to {
		t.Errorf("fetch: %s, %v", got, err)
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
