//go:build unix

package upstream_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockstep"
	"lockstep/internal/upstream"
)

// A fake is a program of the test's own in Python's place.
type fake struct {
	t   *testing.T
	dir string
}

// newFake makes a folder that passes for a checkout, in which temporary files are made, too.
func newFake(t *testing.T) fake {
	f := fake{t, t.TempDir()}
	f.put("tinyphysics.py", "")
	t.Setenv("TMPDIR", f.dir)
	return f
}

func (f fake) put(name, text string) string {
	f.t.Helper()
	path := filepath.Join(f.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		f.t.Fatal(err)
	}
	return path
}

// start starts a program that keeps what it is asked, and answers each line with a command.
func (f fake) start(answer string) *upstream.Program {
	f.t.Helper()
	asked := f.asked()
	p, err := upstream.Start(f.t.Context(), f.put("python", `#!/bin/sh
echo "$3 $4 $5 $6" > `+asked+`
while read -r line; do echo "$line" >> `+asked+"\n"+answer+"\ndone\n"), f.dir, "m.onnx")
	if err != nil {
		f.t.Fatal(err)
	}
	return p
}

func (f fake) asked() string { return filepath.Join(f.dir, "asked") }

// wasAsked holds what the program was asked to lines that have these texts in them; the second
// alone has gains.
func (f fake) wasAsked(want ...string) {
	f.t.Helper()
	text, err := os.ReadFile(f.asked())
	if err != nil {
		f.t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if len(lines) != len(want) {
		f.t.Fatalf("asked for %q", lines)
	}
	for i, line := range lines {
		if !strings.Contains(line, want[i]) || strings.Contains(line, "gains") != (i == 1) {
			f.t.Errorf("asked for %s, want %s in it", line, want[i])
		}
	}
}

// leavesNothing holds that no temporary folder is left.
func (f fake) leavesNothing() {
	f.t.Helper()
	left, err := filepath.Glob(filepath.Join(f.dir, "lockstep-upstream-*"))
	if err != nil || len(left) > 0 {
		f.t.Errorf("%q is left, %v", left, err)
	}
}

// TestStart: a folder that is no checkout, and a Python that is not there.
func TestStart(t *testing.T) {
	dir := t.TempDir()
	if _, err := upstream.Start(t.Context(), "python", dir, "m.onnx"); err == nil ||
		!strings.HasPrefix(err.Error(), dir+" is no checkout of commaai/controls_challenge: ") {
		t.Errorf("a folder that is no checkout: %v", err)
	}
	f := newFake(t)
	if _, err := upstream.Start(t.Context(), filepath.Join(f.dir, "none"), f.dir, "m"); err == nil {
		t.Error("a Python that is not there starts")
	}
	f.leavesNothing()
}

// TestProgram: what a program is asked, and what its answers are.
func TestProgram(t *testing.T) {
	f := newFake(t)
	p := f.start(`case "$line" in
*network*) echo '{"seconds": 0.3}' ;;
*) cat $(echo "$line" | sed 's/.*"rollout":"\([^"]*\)".*/\1/') ;;
esac`)
	a := f.put("a.csv", `{"seconds": 1.1, "costs": ["1.3", "nan", "3e222"]}`+"\n")
	c := f.put("c.csv", `{"seconds": 0.1, "costs": ["nan", "0.1", "-0"]}`+"\n")
	b := f.put("other/b.csv", `{"seconds": 2, "costs": ["1", "2", "x"]}`+"\n")
	took, costs, err := p.Rollout(a, lockstep.PID{P: 1, I: 2, D: 3})
	if err != nil || took != 1100*time.Millisecond || costs.Lataccel != 1.3 ||
		costs.Jerk == costs.Jerk || costs.Total != 3e222 {
		t.Errorf("%v, %+v, %v", took, costs, err)
	}
	took, costs, err = p.Rollout(c, lockstep.Zero{})
	if err != nil || took != time.Second/10 || costs.Lataccel == costs.Lataccel ||
		costs.Jerk != 0.1 || 1/costs.Total != math.Inf(-1) {
		t.Errorf("%v, %+v, %v", took, costs, err)
	}
	if _, _, err := p.Rollout(b, lockstep.Zero{}); err == nil ||
		!strings.Contains(err.Error(), `parsing "x"`) {
		t.Errorf("a cost that is no number: %v", err)
	}
	if _, costs, err := p.Rollout(a, lockstep.Zero{}); err != nil || costs.Lataccel != 1.3 {
		t.Errorf("the first folder again: %+v, %v", costs, err)
	}
	const alone = "the Python program is asked for pid and zero alone, not pidff_"
	if _, _, err := p.Rollout(a, lockstep.PIDFF{}); err == nil ||
		!strings.HasPrefix(err.Error(), alone) {
		t.Errorf("%v, want %s", err, alone)
	}
	if took, err := p.Network(7); err != nil || took != 300*time.Millisecond {
		t.Errorf("the network: %v, %v", took, err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	f.wasAsked(fmt.Sprintf("--upstream %s --model m.onnx", f.dir), `"gains":[1,2,3]`, "c.csv",
		"b.csv", "a.csv", `{"network":7}`)
	f.leavesNothing()
}

// TestNoAnswer: what is said where a program answers nothing, or what cannot be read.
func TestNoAnswer(t *testing.T) {
	f := newFake(t)
	for answer, want := range map[string]string{
		"echo Traceback >&2; echo it breaks >&2; exit 3": "): it breaks",
		"echo no JSON": "invalid character",
	} {
		p := f.start(answer)
		if _, err := p.Network(1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", answer, err)
		}
		p.Close()
	}
	f.leavesNothing()
}

// TestLeftBehind: a program that has started another, which keeps its standard error, is not waited
// for until that one ends.
func TestLeftBehind(t *testing.T) {
	f := newFake(t)
	p := f.start("sleep 60 >&- & exit 3")
	begin := time.Now()
	if _, err := p.Network(1); err == nil {
		t.Error("what left another behind has answered")
	}
	p.Close()
	if took := time.Since(begin); took > 30*time.Second {
		t.Errorf("it was waited for %v", took)
	}
}
