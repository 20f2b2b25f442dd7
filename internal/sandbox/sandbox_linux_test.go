package sandbox

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestStart: what is denied is denied to what is started and what that starts in turn, and is
// denied to nobody else; the rest works.
func TestStart(t *testing.T) {
	if err := Available(); err != nil {
		t.Skip("not run: ", err)
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("not run for want of python: ", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Skip("not run: nothing to connect to: ", err)
	}
	defer listener.Close()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("text"), 0o666); err != nil {
		t.Fatal(err)
	}
	const script = `
import os, socket, subprocess, sys
file, port, new = sys.argv[1], int(sys.argv[2]), sys.argv[1] + ".new"
def write(f, mode):
    open(f, mode).close()
` // then one attempt
	attempts := map[string]bool{ // whether it is denied
		`write(file, "w")`:      true,
		`write(file, "a")`:      true,
		`write(new, "x")`:       true,
		`os.truncate(file, 1)`:  true,
		`os.remove(file)`:       true,
		`os.rename(file, new)`:  true,
		`os.link(file, new)`:    true,
		`os.symlink(file, new)`: true,
		`os.mkdir(new)`:         true,
		`os.mkfifo(new)`:        true,
		`socket.create_connection(("127.0.0.1", port))`:    true,
		`socket.socket(socket.AF_INET, socket.SOCK_DGRAM)`: true,
		`socket.socket(socket.AF_UNIX)`:                    true,
		`subprocess.run([sys.executable, "-c", "import sys; open(sys.argv[1], 'w')", file], ` +
			`check=True)`: true,
		`subprocess.run(["true"], check=True)`: false,
		`assert open(file).read() == "text"`:   false,
		`write(os.devnull, "w")`:               false,
		`socket.socketpair()`:                  false,
		`print("said")`:                        false,
	}
	for attempt, denied := range attempts {
		command := func() *exec.Cmd {
			return exec.Command(python, "-IS", "-c", script+attempt, file, port(listener))
		}
		c := command()
		if err := Start(c.Start); err != nil {
			t.Fatal(err)
		}
		if err := c.Wait(); (err != nil) != denied {
			t.Errorf("%s in the sandbox: %v", attempt, err)
		}
		if text, err := os.ReadFile(file); err != nil || string(text) != "text" {
			t.Errorf("after %s the file has %q, %v", attempt, text, err)
		}
	}
	// Nothing of this stays in this process.
	if out, err := exec.Command(python, "-IS", "-c", script+`write(new, "x"); socket.socket()`,
		file, port(listener)).CombinedOutput(); err != nil {
		t.Errorf("outside of the sandbox: %v\n%s", err, out)
	}
}

// TestMissing: what a machine lacks is said, and a machine that lacks nothing is taken.
func TestMissing(t *testing.T) {
	for _, c := range []struct {
		architecture string
		version      uintptr
		errno        unix.Errno
		want         string
	}{
		{"amd64", 3, 0, "<nil>"}, {"arm64", 7, 0, "<nil>"},
		{"riscv64", 3, 0, "the system calls of riscv64 are not known here"},
		{"amd64", 3, unix.ENOSYS, "has no Landlock, or it is off (function not implemented)"},
		{"amd64", 2, 0, "this kernel's Landlock is of version 2"},
	} {
		err := fmt.Sprint(missing(c.architecture, c.version, c.errno))
		if !strings.Contains(err, c.want) {
			t.Errorf("%s, version %d, %v: %s, want %s", c.architecture, c.version, c.errno, err,
				c.want)
		}
	}
}

func port(listener net.Listener) string {
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	return port
}
