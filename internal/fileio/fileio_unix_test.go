//go:build unix

package fileio_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"lockstep/internal/fileio"
)

// TestCacheDir has a home, one that nothing can be written to, and a folder that is named.
func TestCacheDir(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", filepath.Join(dir, "home"))
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("TMPDIR", dir)
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := fileio.CacheDir("a", "b"); err != nil ||
		got != filepath.Join(cache, "lockstep", "a", "b") {
		t.Errorf("with a home: %s, %v", got, err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", file) // in which not even root can make a folder
	if got, err := fileio.CacheDir("a"); err != nil ||
		!strings.HasPrefix(got, filepath.Join(dir, "lockstep-")) {
		t.Errorf("with a home that nothing can be written to: %s, %v", got, err)
	} else if dirs := fileio.CacheDirs("a"); len(dirs) != 1 || dirs[0] != got {
		t.Errorf("with a home that is no folder: %q, want %s", dirs, got)
	}
	t.Setenv("XDG_CACHE_HOME", file) // who names a folder gets that, and hears why it fails
	if got, err := fileio.CacheDir("a"); err != nil || got != filepath.Join(file, "lockstep", "a") {
		t.Errorf("with a cache folder that is named: %s, %v", got, err)
	}
}

// TestCacheWithoutHome has no home, and then things in its place that are not this user's alone.
func TestCacheWithoutHome(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("HOME", "")
	private := filepath.Join(dir, fmt.Sprintf("lockstep-%d", os.Getuid()))
	for range 2 { // made, found
		if got, err := fileio.CacheDir("a"); err != nil ||
			got != filepath.Join(private, "lockstep", "a") {
			t.Errorf("without a home: %s, %v", got, err)
		}
	}
	if info, err := os.Stat(private); err != nil || info.Mode() != os.ModeDir|0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	refused := func(what string) {
		t.Helper()
		if got, err := fileio.CacheDir("a"); err == nil ||
			!strings.Contains(err.Error(), "set HOME") {
			t.Errorf("%s: %s, %v", what, got, err)
		}
	}
	os.Chmod(private, 0o770)
	refused("others may write")
	os.Remove(private)
	os.Mkdir(filepath.Join(dir, "theirs"), 0o700)
	os.Symlink(filepath.Join(dir, "theirs"), private)
	refused("a link")
	os.Remove(private)
	os.WriteFile(private, nil, 0o700)
	refused("a file")
	os.Remove(private)
	if os.Getuid() == 0 { // who else may give things away
		os.Mkdir(private, 0o700)
		os.Chown(private, 12345, 12345)
		refused("another user's")
	}
}

// TestAskedOnce: whether a home can be written to is asked once, and leaves nothing there.
func TestAskedOnce(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", "")
	dir, err := fileio.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(dir); err != nil {
		t.Errorf("what was asked of the home left something: %v", err)
	}
	if _, err := fileio.CacheDir(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the home is asked again: %v", err)
	}
}

// TestOpen holds what has no end, and what is too large, to be refused at once.
func TestOpen(t *testing.T) {
	dir := t.TempDir()
	fifo, plain, link := filepath.Join(dir, "fifo"), filepath.Join(dir, "plain"),
		filepath.Join(dir, "link")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := fileio.Write(plain, text("12345")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(plain, link); err != nil {
		t.Fatal(err)
	}
	five, four := fileio.Kind{Name: "a test", Limit: 5}, fileio.Kind{Name: "a test", Limit: 4}
	for _, path := range []string{plain, link} {
		if data, err := fileio.ReadFile(path, five); err != nil || string(data) != "12345" {
			t.Errorf("%s: %q, %v", path, data, err)
		}
	}
	for _, test := range []struct {
		path string
		kind fileio.Kind
		want string
	}{
		{plain, four, "5 bytes, more than the 4 that a test may have"},
		{fifo, five, "not a regular file (p---------), as a test has to be"},
		{"/dev/zero", five, "not a regular file"},
		{dir, five, "a folder, not a test"},
		{plain + "x", five, "no such file"},
	} {
		if _, err := fileio.ReadFile(test.path, test.kind); err == nil ||
			!strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), test.path) {
			t.Errorf("%s: %v, want %q", test.path, err, test.want)
		}
	}
}

// TestWriteModes: a file that is replaced keeps its mode, whatever the umask takes from new ones.
func TestWriteModes(t *testing.T) {
	dir := t.TempDir()
	defer syscall.Umask(syscall.Umask(0o077))
	for _, mode := range []fs.FileMode{0o666, 0o640, 0o400} {
		path := filepath.Join(dir, mode.String())
		kept := errors.Join(os.WriteFile(path, nil, 0o600), os.Chmod(path, mode),
			fileio.Write(path, text("new")))
		if info, err := os.Stat(path); kept != nil || err != nil || info.Mode() != mode {
			t.Errorf("a file of mode %v: %v, %v, %v", mode, info.Mode(), kept, err)
		}
	}
}

// TestWriteKeeps holds a replaced file's mode, the umask and symbolic links to be
// kept, and devices to be written to.
func TestWriteKeeps(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
	if err := os.WriteFile(target, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("target", link); err != nil {
		t.Fatal(err)
	}
	if err := fileio.Write(link, text("new")); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(target); err != nil || string(data) != "new" {
		t.Errorf("behind the link: %q, %v", data, err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is no link any more: %v, %v", info.Mode(), err)
	}
	if info, err := os.Stat(target); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", info.Mode(), err)
	}

	old := syscall.Umask(0o077)
	err := fileio.Write(filepath.Join(dir, "private"), text("x"))
	syscall.Umask(old)
	if info, e := os.Stat(filepath.Join(dir, "private")); err != nil || e != nil ||
		info.Mode().Perm() != 0o600 {
		t.Errorf("umask 077: mode %v, %v, %v", info.Mode(), err, e)
	}

	if err := fileio.Write("/dev/null", text("x")); err != nil {
		t.Errorf("/dev/null: %v", err)
	}
	if _, err := os.Stat("/dev/full"); err == nil {
		if err := fileio.Write("/dev/full", text("x")); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("/dev/full: %v", err)
		}
	}
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	read := make(chan string)
	go func() {
		data, _ := os.ReadFile(fifo)
		read <- string(data)
	}()
	if err := fileio.Write(fifo, text("through")); err != nil {
		t.Errorf("a named pipe: %v", err)
	}
	if got := <-read; got != "through" {
		t.Errorf("the pipe's reader got %q", got)
	}
}
