package progress

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestDescribe: how much is done is told, and what is left only where something is, at a rate that
// is known.
func TestDescribe(t *testing.T) {
	for _, c := range []struct {
		done, n int
		rate    float64
		want    string
	}{
		{0, 9, 0, "0 of 9 rollouts"},
		{3, 9, 0, "3 of 9 rollouts"},
		{3, 9, -1, "3 of 9 rollouts"},
		{3, 9, 0.5, "3 of 9 rollouts, 0.5/s, 12s left"},
		{8, 9, 2.2468, "8 of 9 rollouts, 2.25/s, 0s left"},
		{9, 9, 2, "9 of 9 rollouts"},
		{10, 9, 2, "10 of 9 rollouts"},
		{0, 7200, 1, "0 of 7200 rollouts, 1/s, 2h0m0s left"},
	} {
		if got := Describe(c.done, c.n, "rollouts", c.rate); got != c.want {
			t.Errorf("%d of %d at %v: %q, want %q", c.done, c.n, c.rate, got, c.want)
		}
	}
}

// TestLines: where no terminal is, a line comes every ten seconds with what is done by then, and
// none after the end.
func TestLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		p := New(&log, 8, "routes")
		hold := func(want string) {
			t.Helper()
			synctest.Wait()
			if got := log.String(); got != want {
				t.Errorf("the log has %q, want %q", got, want)
			}
			log.Reset()
		}
		p.Add(2)
		time.Sleep(Every - time.Nanosecond)
		hold("")
		time.Sleep(time.Nanosecond)
		hold("lockstep: 2 of 8 routes, 0.2/s, 30s left\n")
		p.Add(1)
		p.Set(10)
		p.Of(20)
		time.Sleep(Every)
		hold("lockstep: 10 of 20 routes, 0.5/s, 20s left\n")
		p.Clear()
		time.Sleep(3 * Every)
		hold("")
	})
}

// TestTerminal: a file is no terminal, nor is what is no file.
func TestTerminal(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if Terminal(file) || Terminal(&strings.Builder{}) {
		t.Error("what is no terminal is taken for one")
	}
	p := New(file, 3, "routes")
	p.Add(3)
	p.Clear()
	if text, err := os.ReadFile(file.Name()); err != nil || len(text) != 0 {
		t.Errorf("a bar is drawn where no terminal is: %q, %v", text, err)
	}
}
