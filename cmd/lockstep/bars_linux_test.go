package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// terminal is a pseudo-terminal, and a function that closes it and gives what was written to it.
func terminal(t *testing.T) (tty *os.File, written func() string) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminal here: %v", err)
	}
	t.Cleanup(func() { master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	all := make(chan string)
	go func() {
		text, _ := io.ReadAll(master) // its end is an error: nobody writes any more
		all <- string(text)
	}()
	return tty, func() string {
		tty.Close()
		return <-all
	}
}

// TestBars: on a terminal the bar of a command comes to all that it has to do, and no further.
func TestBars(t *testing.T) {
	dir := t.TempDir()
	routes, plan := filepath.Join(dir, "routes"), filepath.Join(dir, "plan")
	if err := os.Mkdir(routes, 0o777); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		shortRoute(t, filepath.Join(routes, fmt.Sprintf("%d.csv", i)), 102, nil)
	}
	if status, _, stderr := lockstepRun(t.Context(), "shard", "plan", "--own", "--data_path",
		routes, "--engine", "reference", "--shards", "3", "--out", plan); status != exitOK {
		t.Fatal(stderr)
	}
	for _, c := range []struct {
		args string
		want int
	}{
		{"rollout --own --engine reference --no-cache --data_path " + routes, 5},
		{"generate --num_routes 3 --out " + filepath.Join(dir, "generated"), 3},
		{"rollout --env CartPole-v1 --num-envs 2 --steps 1007", 1007},
		{"shard run --index 2 --out " + plan, 2},
		{"shard run --index 0 --out " + plan, 1},
	} {
		tty, written := terminal(t)
		status := run(t.Context(), strings.Fields(c.args), &stickyWriter{w: io.Discard}, tty)
		text := written()
		shown := regexp.MustCompile(`\((\d+)/(\d+)`).FindAllStringSubmatch(text, -1)
		if status != exitOK || len(shown) == 0 {
			t.Errorf("%s: exit %d, %q", c.args, status, text)
			continue
		}
		last, want := shown[len(shown)-1], fmt.Sprint(c.want)
		if last[1] != want || last[2] != want {
			t.Errorf("%s ends at %s of %s, want %s of it", c.args, last[1], last[2], want)
		}
	}
}
