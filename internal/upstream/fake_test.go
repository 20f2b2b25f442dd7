//go:build unix

package upstream_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockstep"
	"lockstep/internal/upstream"
)

// TestProgram talks with a program of the test's own in Python's place: what it is asked, what its
// answers are, and what is said where it answers nothing, or what cannot be read.
func TestProgram(t *testing.T) {
	dir := t.TempDir()
	if _, err := upstream.Start(t.Context(), "python", dir, "m.onnx"); err == nil ||
		!strings.HasPrefix(err.Error(), dir+" is no checkout of commaai/controls_challenge: ") {
		t.Errorf("a folder that is no checkout: %v", err)
	}
	put := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	put("tinyphysics.py", "")
	t.Setenv("TMPDIR", dir)
	if _, err := upstream.Start(t.Context(), filepath.Join(dir, "none"), dir, "m"); err == nil {
		t.Error("a Python that is not there starts")
	}
	asked := filepath.Join(dir, "asked")
	start := func(answer string) *upstream.Program {
		t.Helper()
		p, err := upstream.Start(t.Context(), put("python", `#!/bin/sh
echo "$3 $4 $5 $6" > `+asked+`
while read -r line; do echo "$line" >> `+asked+"\n"+answer+"\ndone\n"), dir, "m.onnx")
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := start(`case "$line" in
*network*) echo '{"seconds": 0.25}' ;;
*) cat $(echo "$line" | sed 's/.*"rollout":"\([^"]*\)".*/\1/') ;;
esac`)
	other := filepath.Join(dir, "other")
	if err := os.Mkdir(other, 0o700); err != nil {
		t.Fatal(err)
	}
	a := put("a.csv", `{"seconds": 1.5, "costs": ["1.25", "nan", "3e2"]}`+"\n")
	b := put("other/b.csv", `{"seconds": 2, "costs": ["1", "2", "x"]}`+"\n")
	took, costs, err := p.Rollout(a, lockstep.PID{P: 1, I: 2, D: 3})
	if err != nil || took != 1500*time.Millisecond || costs.Lataccel != 1.25 ||
		costs.Jerk == costs.Jerk || costs.Total != 300 {
		t.Errorf("%v, %+v, %v", took, costs, err)
	}
	if _, _, err := p.Rollout(b, lockstep.Zero{}); err == nil ||
		!strings.Contains(err.Error(), `parsing "x"`) {
		t.Errorf("a cost that is no number: %v", err)
	}
	if _, costs, err := p.Rollout(a, lockstep.Zero{}); err != nil || costs.Lataccel != 1.25 {
		t.Errorf("the first folder again: %+v, %v", costs, err)
	}
	const alone = "the Python program is asked for pid and zero alone, not pidff_"
	if _, _, err := p.Rollout(a, lockstep.PIDFF{}); err == nil ||
		!strings.HasPrefix(err.Error(), alone) {
		t.Errorf("%v, want %s", err, alone)
	}
	if took, err := p.Network(7); err != nil || took != time.Second/4 {
		t.Errorf("the network: %v, %v", took, err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(asked)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	want := []string{
		fmt.Sprintf("--upstream %s --model m.onnx", dir), `"gains":[1,2,3]`, "b.csv", "a.csv",
		`{"network":7}`,
	}
	if len(lines) != len(want) {
		t.Fatalf("asked for %q", lines)
	}
	for i, line := range lines {
		if !strings.Contains(line, want[i]) || strings.Contains(line, "gains") != (i == 1) {
			t.Errorf("asked for %s, want %s in it", line, want[i])
		}
	}
	for answer, want := range map[string]string{
		"echo it breaks >&2; exit 3": "it breaks", "echo no JSON": "invalid character",
	} {
		p := start(answer)
		if _, err := p.Network(1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", answer, err)
		}
		p.Close()
	}
	if left, err := filepath.Glob(filepath.Join(dir, "lockstep-upstream-*")); err != nil ||
		len(left) > 0 {
		t.Errorf("%q is left, %v", left, err)
	}
}
