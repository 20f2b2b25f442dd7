//go:build unix

package group

import (
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
	// Ends by itself, too, some seconds later.
	const script = `for i in $(seq 100); do echo beat >> "$0"; sleep 0.05; done & wait`
	command := Command(ctx, "sh", "-c", script, file)
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	size := func() int64 {
		info, err := os.Stat(file)
		if err != nil {
			return 0
		}
		return info.Size()
	}
	for start := time.Now(); size() == 0; time.Sleep(10 * time.Millisecond) {
		if time.Since(start) > time.Minute {
			t.Fatal("it does not begin")
		}
	}
	cancel()
	if err := command.Wait(); err == nil {
		t.Error("a program that was ended has no error")
	}
	before := size()
	time.Sleep(300 * time.Millisecond)
	if after := size(); after != before {
		t.Errorf("what it has started goes on: %d bytes, then %d", before, after)
	}
}
