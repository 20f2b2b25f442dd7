package fileio_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"lockstep/internal/fileio"
)

// TestStory is what every system's files must do, whatever its own rules are: make test-platforms
// runs it for Windows, too. Its folder is not t.TempDir's, since Wine cannot remove that as Go
// wants it removed.
func TestStory(t *testing.T) {
	dir, err := os.MkdirTemp("", "a story, 'quoted' ä-*")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "some file.txt")
	holds := func(want string) {
		t.Helper()
		if got, err := fileio.ReadFile(path, fileio.Record); err != nil || string(got) != want {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
	write := func(content string) {
		t.Helper()
		if err := fileio.WriteFile(path, []byte(content)); err != nil {
			t.Fatal(err)
		}
		holds(content)
	}
	write("one")
	write("two")

	t.Run("rename over an open file", func(t *testing.T) {
		f, err := fileio.Open(path, fileio.Record)
		if err != nil {
			t.Fatal(err)
		}
		read := make(chan string)
		go func() { // on Windows it is waited for
			time.Sleep(100 * time.Millisecond)
			data, err := io.ReadAll(f)
			if err := errors.Join(err, f.Close()); err != nil {
				data = []byte(err.Error())
			}
			read <- string(data)
		}()
		write("three")
		if got := <-read; got != "two" {
			t.Errorf("who had it open reads %q, want what it held", got)
		}
	})

	t.Run("locks", func(t *testing.T) {
		f, err := fileio.Disk.Lock(path)
		if err != nil {
			t.Fatal(err)
		}
		holds("three") // what is locked can be read
		if out := child(t, path); !strings.Contains(out, "another process is at work here") {
			t.Errorf("another process: %q", out)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if out := child(t, path); out != "locked" {
			t.Errorf("another process, afterwards: %q", out)
		}
	})

	t.Run("devices and pipes", func(t *testing.T) {
		if _, err := fileio.Open(os.DevNull, fileio.Route); err == nil ||
			!strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("%s: %v", os.DevNull, err)
		}
		if err := fileio.WriteFile(os.DevNull, []byte("x")); err != nil {
			t.Errorf("%s: %v", os.DevNull, err)
		}
		if runtime.GOOS == "windows" { // its pipes have a place of their own; a Unix's: TestPipe
			_, err := fileio.Open(`\\.\pipe\lockstep-none`, fileio.Route)
			if !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a pipe that is not there: %v", err)
			}
		}
	})
}

// child locks a file in another process, and says how that went.
func child(t *testing.T, path string) string {
	t.Helper()
	command := exec.Command(os.Args[0], "-test.run", "^TestLockChild$")
	command.Env = append(os.Environ(), "LOCKSTEP_TEST_CHILD="+path)
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	said, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimSpace(said)
}

// TestLockChild is the other process.
func TestLockChild(t *testing.T) {
	path := os.Getenv("LOCKSTEP_TEST_CHILD")
	if path == "" {
		return // it is TestStory's
	}
	f, err := fileio.Disk.Lock(path)
	if err != nil {
		os.Stdout.WriteString(err.Error() + "\n")
		return
	}
	os.Stdout.WriteString("locked\n")
	f.Close()
}
