package group

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// beating names the variable with which this program starts another, and waits for it.
const beating = "GROUP_TEST_BEATS"

func TestMain(m *testing.M) {
	if file := os.Getenv(beating); file != "" {
		Command(context.Background(), "sh", "-c", beat, file).Run()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// beat is a script that writes to a file itself, and ends some seconds later.
const beat = `for i in $(seq 100); do echo beat >> "$0"; sleep 0.05; done`

// TestOrphans: what Command has started ends with who started it, also if that one is killed and
// can end nobody.
func TestOrphans(t *testing.T) {
	file := filepath.Join(t.TempDir(), "beats")
	parent := exec.CommandContext(t.Context(), os.Args[0])
	parent.Env = append(os.Environ(), beating+"="+file)
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	begins(t, file)
	parent.Process.Kill()
	parent.Wait()
	stops(t, file)
}
