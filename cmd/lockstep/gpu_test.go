package main

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lockstep/engines"
	"lockstep/gpu"
	"lockstep/internal/figures"
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

// TestStats: --stats says on every engine what set-up, loading and steps took, and that a rollout
// on a device is one upload, one launch and one download.
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
		`(?m)\A` + figuresLine + `\n\n +times +bytes +ms\n +upload +1 +\d+ +\d+\.\d{3}\n +kernel ` +
			`+1 +0 +\d+\.\d{3}\n +download +1 +\d+ +\d+\.\d{3}\n +host +\d+\.\d{3}\n1 ` +
			`synchronisations\n\z`,
	)
	if !table.MatchString(ledger) {
		t.Errorf("the ledger is\n%s", ledger)
	}

	_, stdout, stderr = lockstepRun(
		t.Context(),
		append(inputs, "--engine", "emulated", "--json")...)
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	var last struct {
		Stats struct {
			figures.Figures
			Device *gpu.Stats `json:"device"`
		}
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil {
		t.Fatalf("%v in %q, stderr %q", err, stdout, stderr)
	}
	s := last.Stats.Device
	if s == nil || s.Launches != 1 || s.Uploads != 1 || s.Downloads != 1 || s.Kernel <= 0 ||
		s.Upload <= 0 || s.Download <= 0 || s.Wall < s.Kernel || last.Stats.Idle == nil {
		t.Errorf("the ledger is %+v", s)
	}
	if !strings.Contains(stdout, `"engine":"emulated"`) {
		t.Errorf("%s does not name the engine", stdout)
	}

}

// figuresLine is what --stats says of two rollouts on every engine.
const figuresLine = `set-up \d+\.\d{4} s; 2 routes loaded in \d+\.\d{4} s; ` +
	`2 rollouts of 220 steps in \d+\.\d{4} s, [\d.e+]+ µs a step[^\n]*`

// TestStatsEverywhere: so do the engines without a device, and a run that is kept says what of it
// was computed now.
func TestStatsEverywhere(t *testing.T) {
	inputs := append([]string{"rollout", "--stats"}, shortInputs(t)...)
	for _, e := range engines.Checked() {
		if e.Slow || e.Missing() != nil {
			continue
		}
		t.Run(e.Name, func(t *testing.T) {
			own := append(slices.Clone(inputs), "--engine", e.Name)
			status, stdout, stderr := lockstepRun(t.Context(), own...)
			text := regexp.MustCompile(`(?m)^` + figuresLine + `$`)
			if status != exitOK || stderr != "" || !text.MatchString(stdout) {
				t.Errorf("exit %d, stdout %q, stderr %q", status, stdout, stderr)
			}
			kept := append(own, "--json", "--out", filepath.Join(t.TempDir(), "kept"))
			for _, computed := range []int{2, 0} {
				_, stdout, stderr := lockstepRun(t.Context(), kept...)
				lines := strings.Split(strings.TrimSpace(stdout), "\n")
				var last struct{ Stats figures.Figures }
				if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil {
					t.Fatalf("%v in %q, stderr %q", err, stdout, stderr)
				}
				f := last.Stats
				if f.Routes != 2 || f.Rollouts != computed || (f.Steps > 0) != (computed > 0) ||
					f.SetUp <= 0 || f.Load <= 0 || f.Rolling < 0 ||
					f.Device != nil && e.Name != "gpu" {
					t.Errorf("%d computed: %+v", computed, f)
				}
			}
		})
	}
}
