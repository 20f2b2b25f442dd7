package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"lockstep/gpu"
	"lockstep/internal/want"
)

// TestNoGPU: who asks for the GPU is told in one line how to get one, and who does
// not hears nothing of it.
func TestNoGPU(t *testing.T) {
	absent := gpu.Available()
	if absent == nil {
		t.Skip("there is a GPU")
	}
	inputs := append([]string{"rollout", "--num_segs", "1"}, shortInputs(t)...)
	status, stdout, stderr := lockstepRun(t.Context(), append(inputs, "--engine", "gpu")...)
	if want := "lockstep: " + absent.Error() + "\n"; status != exitUsage || stdout != "" ||
		stderr != want {
		t.Errorf(
			"--engine gpu: exit %d, stdout %q, stderr %q; want %q", status, stdout, stderr, want,
		)
	}
	if status, _, stderr := lockstepRun(t.Context(), inputs...); status != exitOK ||
		strings.Contains(stderr, "gpu") ||
		strings.Contains(stderr, "CUDA") {
		t.Errorf("--engine auto: exit %d, stderr %q", status, stderr)
	}
	ownCache(t)
	if _, stdout, _ := lockstepRun(t.Context(), "doctor"); !strings.Contains(
		stdout, absent.Error(),
	) {
		t.Errorf("the doctor does not say %q:\n%s", absent, stdout)
	}
}

// TestStats: a rollout on a device is one upload, one launch and one download, and
// --stats says so; elsewhere there is nothing to be said.
func TestStats(t *testing.T) {
	want.Compiler.Need(t)
	inputs := append([]string{"rollout", "--stats"}, shortInputs(t)...)
	status, stdout, stderr := lockstepRun(t.Context(), append(inputs, "--engine", "emulated")...)
	_, want, _ := lockstepRun(
		t.Context(),
		append(append([]string{"rollout"}, inputs[2:]...), "--engine", "reference")...)
	costs, ledger, ok := strings.Cut(stdout, want)
	if status != exitOK || stderr != "" || !ok || costs != "" {
		t.Fatalf("exit %d, stdout %q, stderr %q, want the costs %q", status, stdout, stderr, want)
	}
	table := regexp.MustCompile(
		`(?m)\A\n +times +bytes +ms\n +upload +1 +\d+ +\d+\.\d{3}\n +kernel +1 +0 +\d+\.\d{3}\n +download +1 +\d+ +\d+\.\d{3}\n +host +\d+\.\d{3}\n1 synchronisations\n\z`,
	)
	if !table.MatchString(ledger) {
		t.Errorf("the ledger is\n%s", ledger)
	}

	_, stdout, stderr = lockstepRun(
		t.Context(),
		append(inputs, "--engine", "emulated", "--json")...)
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	var last struct{ Stats gpu.Stats }
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil {
		t.Fatalf("%v in %q, stderr %q", err, stdout, stderr)
	}
	s := last.Stats
	if s.Launches != 1 || s.Uploads != 1 || s.Downloads != 1 || s.Kernel <= 0 || s.Upload <= 0 ||
		s.Download <= 0 ||
		s.Wall < s.Kernel {
		t.Errorf("the ledger is %+v", s)
	}
	if !strings.Contains(stdout, `"engine":"emulated"`) {
		t.Errorf("%s does not name the engine", stdout)
	}

	status, stdout, stderr = lockstepRun(t.Context(), append(inputs, "--engine", "reference")...)
	if want := "lockstep: --stats goes with --engine gpu; the reference engine has no device\n"; status != exitUsage ||
		stdout != "" ||
		stderr != want {
		t.Errorf("exit %d, stdout %q, stderr %q; want %q", status, stdout, stderr, want)
	}
}
