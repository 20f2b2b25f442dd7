package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockstep/gpu/hardware"
)

// TestSanitized gives the recorder sanitizers that are shell scripts: what one finds is
// a failure, what it cannot do was not run, and each outcome is in the file at once.
func TestSanitized(t *testing.T) {
	for name, c := range map[string]struct{ says, result, note string }{
		"clean":       {"echo '--- PASS: TestShort (0.1s)'; echo '========= ERROR SUMMARY: 0 errors'", hardware.Pass, ""},
		"found":       {"echo '========= COMPUTE-SANITIZER'; echo '========= Invalid __global__ read'; echo '--- PASS: TestShort (0.1s)'; exit 9", hardware.Fail, "Invalid __global__ read"},
		"other bits":  {"echo '--- FAIL: TestShort (0.1s)'; exit 1", hardware.Fail, "the test failed under the tool"},
		"unsupported": {"echo '========= Error: Device not supported.'; exit 1", hardware.NotRun, "Device not supported"},
		"no test":     {"echo PASS", hardware.NotRun, "the test was not run"},
		"slow":        {"echo begun; exec sleep 20", hardware.NotRun, "the deadline"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			tool := filepath.Join(dir, "compute-sanitizer")
			if err := os.WriteFile(tool, []byte("#!/bin/sh\n"+c.says+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
			limit := time.Minute
			if name == "slow" {
				limit = 200 * time.Millisecond
			}
			ctx, cancel := context.WithTimeoutCause(context.Background(), limit, errors.New("the deadline ended it"))
			defer cancel()
			var said strings.Builder
			out := filepath.Join(dir, "out")
			r := &recorder{bundle: dir, out: out, say: &said, evidence: &hardware.Evidence{Device: "NVIDIA T"}}
			if err := r.sanitize(ctx, "racecheck"); err != nil {
				t.Fatal(err)
			}
			o := r.evidence.Sanitizer[0]
			if o.Name != "racecheck" || o.Result != c.result || !strings.Contains(o.Note, c.note) {
				t.Errorf("outcome %+v, want %s with %q", o, c.result, c.note)
			}
			if name == "slow" && !strings.Contains(said.String(), "begun") {
				t.Errorf("it did not stream: %q", said.String())
			}
			// A later verb goes on from what is there, and begins anew for other kernels.
			for kernels, want := range map[string]int{"": 1, "others": 0} {
				later := &recorder{out: out, evidence: &hardware.Evidence{Device: "NVIDIA T", Kernels: kernels}}
				if err := later.earlier(); err != nil || len(later.evidence.Sanitizer) != want {
					t.Errorf("kernels %q: %d outcomes go on, want %d; %v", kernels, len(later.evidence.Sanitizer), want, err)
				}
			}
		})
	}
}
