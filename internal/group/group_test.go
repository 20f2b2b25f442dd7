//go:build unix

package group

import (
	"bufio"
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestCommand: what a program has started ends with it when the context does.
func TestCommand(t *testing.T) {
	file := filepath.Join(t.TempDir(), "beats")
	ctx, cancel := context.WithCancel(t.Context())
	command := Command(ctx, "sh", "-c", beats, file)
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	begins(t, file)
	cancel()
	if err := command.Wait(); err == nil {
		t.Error("a program that was ended has no error")
	}
	stops(t, file)
}

// beats is a script that has another write to a file. It ends by itself, too, some seconds later.
const beats = `for i in $(seq 100); do echo beat >> "$0"; sleep 0.05; done & wait`

func size(file string) int64 {
	info, err := os.Stat(file)
	if err != nil {
		return 0
	}
	return info.Size()
}

// begins waits for the first beat, and stops holds that no other comes.
func begins(t *testing.T, file string) {
	t.Helper()
	for start := time.Now(); size(file) == 0; time.Sleep(10 * time.Millisecond) {
		if time.Since(start) > time.Minute {
			t.Fatal("it does not begin")
		}
	}
}

func stops(t *testing.T, file string) {
	t.Helper()
	before := size(file)
	time.Sleep(300 * time.Millisecond)
	if after := size(file); after != before {
		t.Errorf("what was started goes on: %d bytes, then %d", before, after)
	}
}

// TestAskForStack: a process that is there is asked, by the signal that makes it write; one that
// has ended is not.
func TestAskForStack(t *testing.T) {
	command := Command(t.Context(), "sh", "-c",
		`trap 'echo asked; exit 7' USR1; echo ready; while :; do sleep 0.01; done`)
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "ready" {
		t.Fatalf("it says %q", lines.Text())
	}
	if !AskForStack(command.Process) {
		t.Error("a process that is there is not asked")
	}
	if !lines.Scan() || lines.Text() != "asked" {
		t.Errorf("it says %q", lines.Text())
	}
	command.Wait()
	if code := command.ProcessState.ExitCode(); code != 7 || AskForStack(command.Process) {
		t.Errorf("it ends with %d, and can be asked then", code)
	}
}
