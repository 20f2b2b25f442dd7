package fileio_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lockstep/internal/fileio"
	"lockstep/internal/simtest"
)

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, s)
		return err
	}
}

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a")
	want := func(content string) {
		t.Helper()
		got, err := os.ReadFile(path)
		if err != nil || string(got) != content {
			t.Errorf("the file holds %q, %v; want %q", got, err, content)
		}
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) != 1 {
			t.Errorf("%d files, %v; want 1", len(entries), err)
		}
	}
	for _, content := range []string{"one", "two"} { // made, replaced
		if err := fileio.Write(path, text(content)); err != nil {
			t.Fatal(err)
		}
		want(content)
	}
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}

	broken := errors.New("broken")
	if err := fileio.Write(path,
		func(w io.Writer) error { text("three")(w); return broken }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	want("two")
	none := filepath.Join(dir, "none", "a")
	if err := fileio.Write(none, text("x")); !errors.Is(err, os.ErrNotExist) ||
		!strings.Contains(err.Error(), none+": ") {
		t.Errorf("into a folder that is not there: %v", err)
	}
	folder := "write " + dir + ": is a folder"
	if err := fileio.Write(dir, text("x")); err == nil || err.Error() != folder {
		t.Errorf("a folder is replaced by a file: %v, want %s", err, folder)
	}
	want("two")
	simtest.Closed(t, dir)
}

func TestSHA256(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	if err := fileio.Write(path, text("abc")); err != nil {
		t.Fatal(err)
	}
	if sum, err := fileio.SHA256(path); err != nil ||
		sum != "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" {
		t.Errorf("%s, %v", sum, err)
	}
	if data, err := fileio.ReadFile(path, fileio.Record); err != nil || string(data) != "abc" {
		t.Errorf("%q, %v", data, err)
	}
	simtest.Closed(t, path)
	if _, err := fileio.SHA256(path + "x"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}
