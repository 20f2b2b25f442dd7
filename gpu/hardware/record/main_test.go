package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep"
	"lockstep/gpu"
	"lockstep/gpu/driver"
	"lockstep/gpu/driver/emulated"
	"lockstep/gpu/hardware"
	"lockstep/internal/want"
	"lockstep/reference"
)

// said does something when a word is written to it.
type said struct {
	word string
	do   func()
}

func (s said) Write(p []byte) (int, error) {
	if strings.Contains(string(p), s.word) {
		s.do()
	}
	return len(p), nil
}

// TestSanitized gives the recorder sanitizers that are shell scripts: what one finds is
// a failure, what it cannot do was not run, and each outcome is in the file at once.
func TestSanitized(t *testing.T) {
	for name, c := range map[string]struct{ says, result, note string }{
		"clean":       {"echo '--- PASS: TestShort (0.1s)'; echo '========= ERROR SUMMARY: 0 errors'", hardware.Pass, ""},
		"found":       {"echo '========= COMPUTE-SANITIZER'; echo '========= Invalid __global__ read'; echo '--- PASS: TestShort (0.1s)'; exit 9", hardware.Fail, "Invalid __global__ read"},
		"other bits":  {"echo '--- FAIL: TestShort (0.1s)'; exit 1", hardware.Fail, "the test failed under the tool"},
		"unsupported": {"echo '========= Error: Device not supported.'; exit 1", hardware.NotRun, "Device not supported"},
		"no test":     {"echo PASS", hardware.NotRun, "the test was not run"},
		"slow":        {"echo begun; sleep 400", hardware.NotRun, "the deadline"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			tool := filepath.Join(dir, "compute-sanitizer")
			if err := os.WriteFile(tool, []byte("#!/bin/sh\n"+c.says+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
			ctx, cancel := context.WithCancelCause(context.Background())
			defer cancel(nil)
			said := said{"begun", func() { cancel(errors.New("the deadline ended it")) }}
			out := filepath.Join(dir, "out")
			r := &recorder{bundle: dir, out: out, say: said, evidence: &hardware.Evidence{Device: "NVIDIA T"}}
			begin := time.Now()
			if err := r.sanitize(ctx, "racecheck"); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begin); took > 5*time.Minute {
				t.Errorf("it ended after %v: what the tool had started went on", took)
			}
			o := r.evidence.Sanitizer[0]
			if o.Name != "racecheck" || o.Result != c.result || !strings.Contains(o.Note, c.note) {
				t.Errorf("outcome %+v, want %s with %q", o, c.result, c.note)
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

// TestTests gives the recorder test programs that are shell scripts: what passed is in the
// evidence, recording by recording, and so is what they did not come to.
func TestTests(t *testing.T) {
	dir := t.TempDir()
	for name, script := range map[string]string{
		"cuda": `[ $1 = -test.v ] && echo '--- PASS: TestOpen (0.1s)' || echo TestOpen`,
		"gpu": `[ $1 = -test.v ] && cat <<'SAYS' || { echo TestGoldens; echo TestLate; }
    --- PASS: TestGoldens/p (0.1s)
        --- PASS: TestGoldens/p/blocks_of_6 (0.1s)
            --- PASS: TestGoldens/p/blocks_of_6/g.pid (0.1s)
            --- FAIL: TestGoldens/p/blocks_of_6/g.zero (0.1s)
--- FAIL: TestGoldens (0.1s)
SAYS
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name+".test"), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r := &recorder{bundle: dir, out: filepath.Join(dir, "out"), say: io.Discard, evidence: &hardware.Evidence{Device: "NVIDIA T"}}
	if err := r.tests(context.Background()); err == nil || r.evidence.Verdict != hardware.Fail {
		t.Errorf("error %v, verdict %q of a failed test", err, r.evidence.Verdict)
	}
	if want := []string{"p/blocks_of_6/g.pid"}; !slices.Equal(r.evidence.Goldens, want) {
		t.Errorf("goldens %q, want %q", r.evidence.Goldens, want)
	}
	want := []hardware.Outcome{{Name: "cuda.TestOpen", Result: hardware.Pass}, {Name: "gpu.TestGoldens", Result: hardware.Fail}, {Name: "gpu.TestLate", Result: hardware.NotRun, Note: "the program ended before it"}}
	if !slices.Equal(r.evidence.Tests, want) {
		t.Errorf("tests %+v, want %+v", r.evidence.Tests, want)
	}
}

// TestBenchPolicies runs what the benchmark times, each policy once, on the emulated
// device: the costs are the reference's.
func TestBenchPolicies(t *testing.T) {
	want.Compiler.Need(t)
	policies, err := benchPolicies()
	if err != nil {
		t.Fatal(err)
	}
	w, err := newWork()
	if err != nil {
		t.Fatal(err)
	}
	defer w.close()
	jobs, err := w.jobs(1)
	if err != nil {
		t.Fatal(err)
	}
	for _, column := range []*[]float64{&jobs[0].Route.TargetLataccel, &jobs[0].Route.RollLataccel, &jobs[0].Route.VEgo, &jobs[0].Route.AEgo, &jobs[0].Route.SteerCommand} {
		*column = (*column)[:lockstep.ControlStartIdx+5]
	}
	spec, err := reference.New(w.model, lockstep.Profile{})
	if err != nil {
		t.Fatal(err)
	}
	timed := map[string]bool{}
	for _, c := range benchCases {
		if timed[c.policy] {
			continue
		}
		timed[c.policy] = true
		jobs[0].Policy = policies[c.policy]
		_, costs, err := measure(t.Context(), gpu.Config{ModelPath: w.model, Timed: true, Open: func() (driver.Device, error) { return emulated.Open(emulated.Options{}) }}, jobs)
		if err != nil {
			t.Fatalf("%s: %v", c.policy, err)
		}
		for _, want := range spec.Simulate(t.Context(), jobs, lockstep.Options{}) {
			if want.Err != nil || costs[0] != want.Costs {
				t.Errorf("%s costs %+v, of the reference %+v, %v", c.policy, costs[0], want.Costs, want.Err)
			}
		}
	}
	if !timed["network"] {
		t.Error("no network is timed")
	}
}
