package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"lockstep/internal/installed"
	"lockstep/internal/want"
	"lockstep/reference"
)

// TestArithmetic: every summary says which Python was asked for its arithmetic, or why none
// was; where the profile is named, nobody is asked.
func TestArithmetic(t *testing.T) {
	inputs := shortInputs(t)
	t.Setenv(installed.Variable, "")
	t.Setenv("LOCKSTEP_PYTHON", filepath.Join(t.TempDir(), "python"))
	t.Chdir(t.TempDir())
	const why = "that of the challenge's pinned packages on this CPU, since LOCKSTEP_PYTHON: "
	name := reference.HostProfile().String()
	for _, c := range []struct{ args, end string }{
		{"rollout", "profile " + name + ", " + why},
		{"eval --engine reference", "profile " + name + ", " + why},
		{"compare reference batched", "profile " + name + ", " + why},
		{"tune --engine reference --population 8 --generations 1", "profile " + name + ", " + why},
		{"rollout --profile " + name, "Average "},
		{"rollout --profile pins", "Average "},
	} {
		args := append(strings.Fields(c.args), inputs...)
		status, stdout, stderr := lockstepRun(t.Context(), args...)
		lines := strings.Split(strings.TrimSpace(stdout), "\n")
		if last := lines[len(lines)-1]; status != exitOK || !strings.HasPrefix(last, c.end) {
			t.Errorf("%s: exit %d, last line %q, want %q\n%s", c.args, status, last, c.end, stderr)
		}
	}
	for args, path := range map[string]func(any) any{
		"rollout":                   func(line any) any { return line },
		"compare reference batched": func(line any) any { return line.(map[string]any)["summary"] },
	} {
		_, stdout, _ := lockstepRun(
			t.Context(),
			append(append(strings.Fields(args), "--json"), inputs...)...)
		lines := strings.Split(strings.TrimSpace(stdout), "\n")
		var last any
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil {
			t.Errorf("%s: %v", args, err)
			continue
		}
		found, _ := path(last).(map[string]any)["arithmetic"].(map[string]any)
		if text, _ := found["unasked"].(string); found["profile"] != name ||
			!strings.HasPrefix(text, "LOCKSTEP_PYTHON: ") {
			t.Errorf("%s --json: %v", args, found)
		}
	}
	if _, stdout, _ := lockstepRun(t.Context(), "doctor"); !strings.Contains(stdout, why) {
		t.Errorf("the doctor does not say %q:\n%s", why, stdout)
	}
	if status, _, stderr := lockstepRun(t.Context(), "doctor", "--fingerprint",
		"new.json"); status != exitUsage ||
		!strings.Contains(stderr, "--fingerprint: LOCKSTEP_PYTHON: ") {
		t.Errorf("doctor --fingerprint without a Python: exit %d, %s", status, stderr)
	}
	if _, err := os.Stat("new.json"); err == nil {
		t.Error("a fingerprint of no Python was written")
	}
	t.Setenv(installed.Variable, "x")
	if status, _, stderr := lockstepRun(t.Context(),
		append([]string{"rollout"}, inputs...)...); status != exitUsage ||
		!strings.Contains(stderr, installed.Variable+`: profile "x"`) {
		t.Errorf("%s=x: exit %d, %s", installed.Variable, status, stderr)
	}
}

// TestTell: what is computed in another profile than Python's is said to be.
func TestTell(t *testing.T) {
	var out bytes.Buffer
	found := &installed.Found{Profile: reference.HostProfile(), Unasked: "none is here"}
	e := &environment{
		ctx:      t.Context(),
		stdout:   &stickyWriter{w: &out},
		found:    found,
		computed: found.Profile,
	}
	e.computed.LayerNorm++
	if e.tell(); !strings.HasPrefix(
		out.String(),
		"two profiles: computed with "+e.computed.String()+"; profile "+found.Profile.String(),
	) {
		t.Errorf("%s", &out)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	for what, change := range map[string]func(){
		"was told already":    func() { e.told = true },
		"has asked no Python": func() { e.found = nil },
		"is interrupted":      func() { e.ctx = ctx },
	} {
		before := *e
		change()
		out.Reset()
		if e.tell(); out.Len() > 0 {
			t.Errorf("a command that %s tells %s", what, &out)
		}
		*e = before
	}
}

// TestFingerprint writes what the Python of this machine answers.
func TestFingerprint(t *testing.T) {
	t.Setenv("LOCKSTEP_PYTHON", want.Python.Need(t))
	file := filepath.Join(t.TempDir(), "new.json")
	status, stdout, stderr := lockstepRun(t.Context(), "doctor", "--fingerprint", file)
	var written struct {
		CPU    string
		Found  installed.Found
		Probes []struct {
			Name   string
			Answer []byte
			Forms  []struct{ Bits []byte }
		}
	}
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, &written)
	}
	if status != exitOK || err != nil || len(written.Probes) != 5 ||
		written.Found.Packages["numpy"] == "" {
		t.Fatalf("exit %d, %v: %+v\n%s%s", status, err, written, stdout, stderr)
	}
	lines := regexp.MustCompile(`\nok +probes .*\n(.*probes .*\n)*ok +fingerprint +` +
		regexp.QuoteMeta(file) + "\n")
	if !lines.MatchString(stdout) {
		t.Errorf("%s, want in it %v", stdout, lines)
	}
	for _, p := range written.Probes {
		equal := 0
		for _, f := range p.Forms {
			if bytes.Equal(f.Bits, p.Answer) {
				equal++
			}
		}
		if len(p.Answer) > 0 && written.Found.Known() && equal != 1 {
			t.Errorf("probe %s: its answer is that of %d of %d forms", p.Name, equal, len(p.Forms))
		}
	}
}
