//go:build cgo && linux

package onnxruntime

import (
	"debug/elf"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lockstep/batched/onnxruntime/internal/ortlib"
)

// compile makes a shared library of C source.
func compile(t *testing.T, source string) string {
	t.Helper()
	dir := t.TempDir()
	c, so := filepath.Join(dir, "library.c"), filepath.Join(dir, "library.so")
	if err := os.WriteFile(c, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	compiler := os.Getenv("CC")
	if compiler == "" {
		compiler = "cc"
	}
	if out, err := exec.Command(compiler, "-shared", "-fPIC", "-o", so,
		c).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return so
}

// oldLibrary answers like an ONNX Runtime that does not have the interface that
// is asked for.
const oldLibrary = `
struct base { const void *(*api)(unsigned); const char *(*version)(void); };
static const void *api(unsigned v) { return 0; }
static const char *version(void) { return "1.17.0"; }
static struct base b = { api, version };
const struct base *OrtGetApiBase(void) { return &b; }
`

// TestLibraries gives New what is not the library: clear errors of one line, and
// the process goes on.
func TestLibraries(t *testing.T) {
	modelPath, real := networkPath(t), library(t)
	write := func(data []byte) string {
		path := filepath.Join(t.TempDir(), "libonnxruntime.so")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	whole, err := os.ReadFile(real)
	if err != nil {
		t.Fatal(err)
	}
	foreign := append([]byte(nil), whole...)
	foreign[18] = byte(elf.EM_RISCV)
	foreign[19] = byte(elf.EM_RISCV >> 8)
	for name, c := range map[string]struct{ path, want string }{
		"absent":       {filepath.Join(t.TempDir(), "libonnxruntime.so"), "no such file"},
		"folder":       {t.TempDir(), "not a file"},
		"empty":        {write(nil), "not a shared library"},
		"text":         {write([]byte("#!/bin/sh\nexit 1\n")), "not a shared library"},
		"cut off":      {write(whole[:len(whole)/2]), ""},
		"other CPU":    {write(foreign), "not a shared library for"},
		"program":      {"/proc/self/exe", ""},
		"other":        {compile(t, "int onnx(void) { return 1; }"), "no OrtGetApiBase"},
		"another copy": {write(whole), "can load only one"},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "another copy" {
				newSimulator(t, Config{}) // the first
			}
			s, err := New(Config{Library: c.path, ModelPath: modelPath})
			if err == nil {
				s.Close()
				t.Fatal("no error")
			}
			if message := err.Error(); !strings.Contains(message, c.want) ||
				!strings.HasPrefix(message, c.path+": ") ||
				strings.Contains(message, "\n") {
				t.Errorf("error %q, want one line with the path and %q", message, c.want)
			}
		})
	}
	newSimulator(t, Config{}) // still works
	link := filepath.Join(t.TempDir(), "link.so")
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{Library: link, ModelPath: modelPath})
	if err != nil {
		t.Fatalf("the library by another path: %v", err)
	}
	s.Close()
}

// TestOldLibrary tries an old library and then the right one, in a process that
// has not loaded any.
func TestOldLibrary(t *testing.T) {
	if os.Getenv("LOCKSTEP_TEST_CHILD") == "" {
		library(t)
		command := exec.Command(os.Args[0], "-test.run", "^TestOldLibrary$", "-test.v")
		command.Env = append(os.Environ(), "LOCKSTEP_TEST_CHILD=1")
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	_, err := New(Config{Library: compile(t, oldLibrary), ModelPath: networkPath(t)})
	if err == nil ||
		!strings.Contains(err.Error(), "cannot be used, want version "+ortlib.Version) ||
		strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v", err)
	}
	newSimulator(t, Config{})
}

// TestOtherVersion: of a library that is not the recordings' a user is told which it is.
func TestOtherVersion(t *testing.T) {
	newSimulator(t, Config{}) // which loads the library
	loaded.Lock()
	was := loaded.version
	loaded.version = "9.8.7"
	loaded.Unlock()
	defer func() { loaded.version = was }()
	s := newSimulator(t, Config{})
	want := "ONNX Runtime 9.8.7: the recordings were made with " + ortlib.Version
	if notices := s.About().Notices; !slices.Equal(notices, []string{want}) {
		t.Errorf("notices %q, want %q", notices, want)
	}
}

// TestMissingLibrary looks for the library where there is none.
func TestMissingLibrary(t *testing.T) {
	t.Setenv("ONNXRUNTIME_LIB", "")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	_, err := New(Config{ModelPath: "any.onnx"})
	if err == nil || !strings.Contains(err.Error(), "run `make onnxruntime`") ||
		!strings.Contains(
			err.Error(), "pip install onnxruntime==",
		) || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v, want one line that says what to run", err)
	}
	path, err := ortlib.CachePath()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700),
		os.WriteFile(path, []byte("damaged"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := FindLibrary(); err == nil || !strings.Contains(err.Error(), "is damaged") ||
		!strings.Contains(err.Error(), "make onnxruntime") {
		t.Errorf("error %v, want that the file is damaged and what to run", err)
	}
	t.Setenv("ONNXRUNTIME_LIB", "/elsewhere/libonnxruntime.so")
	if path, err := FindLibrary(); path != "/elsewhere/libonnxruntime.so" || err != nil {
		t.Errorf("found %s, %v; want what ONNXRUNTIME_LIB says", path, err)
	}
}
