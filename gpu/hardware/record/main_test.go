package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep"
	"lockstep/gpu"
	"lockstep/gpu/driver"
	"lockstep/gpu/driver/cuda"
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
		"clean": {
			"echo '--- PASS: TestShort (0.1s)'; echo '========= ERROR SUMMARY: 0 errors'",
			hardware.Pass,
			"",
		},
		"found": {
			"echo '========= COMPUTE-SANITIZER'; echo '========= Invalid " +
				"__global__ read'; echo '--- PASS: TestShort (0.1s)'; exit 9",
			hardware.Fail,
			"Invalid __global__ read",
		},
		"asked of the API": {
			`case " $* " in *" --report-api-errors no "*) echo '--- PASS: TestShort (0.1s)' ;; ` +
				`*) echo '========= Program hit CUDA_ERROR_NOT_READY (error 600) due to "device ` +
				`not ready" on CUDA API call to cuStreamQuery.'; exit 9 ;; esac`,
			hardware.Pass, "",
		},
		"only the API": {
			`echo '========= Program hit CUDA_ERROR_NOT_READY (error 600)'; echo '=========     ` +
				`Saved host backtrace'; echo '--- PASS: TestShort (0.1s)'; echo '========= ERROR ` +
				`SUMMARY: 1 error'; exit 9`,
			hardware.NotRun, "none of the kernels",
		},
		"API and kernel": {
			`echo '========= Program hit CUDA_ERROR_NOT_READY (error 600)'; echo '========= ` +
				`Error: Race reported between'; echo '--- PASS: TestShort (0.1s)'; exit 9`,
			hardware.Fail, "Race reported",
		},
		"other bits": {"echo '--- FAIL: TestShort (0.1s)'; exit 1", hardware.Fail,
			"the test failed under the tool"},
		"unsupported": {"echo '========= Error: Device not supported.'; exit 1",
			hardware.NotRun, "Device not supported"},
		"no test": {"echo PASS", hardware.NotRun, "the test was not run"},
		"slow":    {"echo begun; sleep 400", hardware.NotRun, "the deadline"},
		"lacking": {"", hardware.NotRun, "there is no compute-sanitizer"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if c.says == "" {
				t.Setenv("PATH", dir)
				if path, err := find("compute-sanitizer",
					"/usr/local/cuda/bin/compute-sanitizer"); err == nil {
					t.Skipf("a machine with %s lacks nothing", path)
				}
			} else {
				tool := filepath.Join(dir, "compute-sanitizer")
				if err := os.WriteFile(tool, []byte("#!/bin/sh\n"+c.says+"\n"), 0o755); err != nil {
					t.Fatal(err)
				}
				t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
			}
			ctx, cancel := context.WithCancelCause(context.Background())
			defer cancel(nil)
			said := said{"begun", func() { cancel(errors.New("the deadline ended it")) }}
			out := filepath.Join(dir, "out")
			r := &recorder{
				bundle:   dir,
				out:      out,
				say:      said,
				evidence: &hardware.Evidence{Device: "NVIDIA T"},
			}
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
				later := &recorder{
					out:      out,
					evidence: &hardware.Evidence{Device: "NVIDIA T", Kernels: kernels},
				}
				if err := later.earlier(); err != nil || len(later.evidence.Sanitizer) != want {
					t.Errorf(
						"kernels %q: %d outcomes go on, want %d; %v", kernels,
						len(later.evidence.Sanitizer), want, err,
					)
				}
			}
		})
	}
}

// TestTests gives the recorder test programs that are shell scripts: what passed is in the
// evidence, recording by recording, and so is what they did not come to.
func TestTests(t *testing.T) {
	dir := t.TempDir()
	writePrograms(t, dir, map[string]string{
		"cuda.test": `[ $1 = -test.v ] && echo '--- PASS: TestOpen (0.1s)' || echo TestOpen`,
		"gpu.test": `[ $1 = -test.v ] && cat <<'SAYS' || { echo TestGoldens; echo TestLate; }
    --- PASS: TestGoldens/p (0.1s)
        --- PASS: TestGoldens/p/blocks_of_6 (0.1s)
            --- PASS: TestGoldens/p/blocks_of_6/g.pid (0.1s)
            --- FAIL: TestGoldens/p/blocks_of_6/g.zero (0.1s)
--- FAIL: TestGoldens (0.1s)
SAYS
`,
	})
	r := &recorder{
		bundle:   dir,
		out:      filepath.Join(dir, "out"),
		say:      io.Discard,
		evidence: &hardware.Evidence{Device: "NVIDIA T"},
	}
	if err := r.tests(context.Background()); err == nil || r.evidence.Verdict != hardware.Fail {
		t.Errorf("error %v, verdict %q of a failed test", err, r.evidence.Verdict)
	}
	if want := []string{"p/blocks_of_6/g.pid"}; !slices.Equal(r.evidence.Goldens, want) {
		t.Errorf("goldens %q, want %q", r.evidence.Goldens, want)
	}
	want := []hardware.TestOutcome{
		{Name: "cuda.TestOpen", Result: hardware.Pass},
		{Name: "gpu.TestGoldens", Result: hardware.Fail},
		{Name: "gpu.TestLate", Result: hardware.NotRun, Note: "the program ended before it"},
	}
	if !slices.Equal(r.evidence.Tests, want) {
		t.Errorf("tests %+v, want %+v", r.evidence.Tests, want)
	}
}

// writePrograms writes shell scripts in the place of programs.
func writePrograms(t *testing.T, dir string, scripts map[string]string) {
	t.Helper()
	for name, script := range scripts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"),
			0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFirst does the first minutes twice, with shell scripts for programs and no GPU: the
// steps come in their order, a tool that hangs takes its share alone, what has passed is
// not done again, and one archive is left beside the evidence.
func TestFirst(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	writePrograms(t, dir, map[string]string{
		"cuda.test": `[ "$1" = -test.v ] && echo '--- PASS: TestOpen (0.1s)' || echo TestOpen`,
		"gpu.test": `case $1 in
-test.list*) echo TestShort ;;
-test.run*) echo "    --- PASS: TestShort/p,_blocks_of_6 with $LOCKSTEP_KERNELS"
	echo '--- PASS: TestShort (0s)' ;;
*) echo '        --- PASS: TestGoldens/p/blocks_of_6/g.pid (0.1s)'
	echo '--- PASS: TestShort (0s)' ;;
esac`,
		"compute-sanitizer": `[ "$2" = memcheck ] && sleep 400; echo '--- PASS: TestShort (0s)'`,
	})
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("LOCKSTEP_BENCH_ROUTES", "1")
	t.Setenv(cuda.KernelsVariable, "")
	first := func() string {
		t.Helper()
		var said strings.Builder
		r := &recorder{
			bundle:   dir,
			out:      out,
			say:      &said,
			evidence: &hardware.Evidence{Device: "NVIDIA T"},
		}
		if err := r.earlier(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if err := r.first(ctx); err != nil {
			t.Fatal(err)
		}
		return said.String()
	}
	order := func(said string, want ...string) {
		t.Helper()
		at := 0
		for _, w := range want {
			i := strings.Index(said[at:], "== "+w)
			if i < 0 {
				t.Fatalf("no %q behind what is before it in %s", w, said)
			}
			at += i
		}
	}
	said := first()
	order(
		said, "gpu.TestShort: pass", benchOneName+": not run", "profile: not run",
		"racecheck: pass", "memcheck: not run its share of the deadline", "initcheck: pass",
		"synccheck: pass", "ptx: pass", "bench: not run",
	)
	if !strings.Contains(said, "blocks_of_6 with ptx") {
		t.Errorf("the PTX was not chosen: %s", said)
	}
	said = first()
	order(
		said, "tests: an earlier command has done it", benchOneName+": not run",
		"racecheck: an earlier", "memcheck: not run", "ptx: an earlier",
	)

	names, err := filepath.Glob(filepath.Join(out, "*"))
	if err != nil {
		t.Fatal(err)
	}
	archives := 0
	for _, name := range names {
		if strings.HasSuffix(name, ".tar.gz") {
			archives++
			text, err := exec.Command("tar", "-tzf", name).Output()
			if want := "NVIDIA-T.json\nNVIDIA-T.log\n"; err != nil || string(text) != want {
				t.Errorf("%s has %q, want %q; %v", name, text, want, err)
			}
		}
	}
	if archives == 0 || len(names) != archives+1 ||
		!slices.Contains(names, filepath.Join(out, "NVIDIA-T.json")) {
		t.Errorf("%q are left, want the evidence and archives", names)
	}
}

// TestVerb refuses words that ask for nothing.
func TestVerb(t *testing.T) {
	r := &recorder{}
	for _, words := range [][]string{
		nil, {"first"}, {"tests", "a", "b"}, {"sanitize", "a"}, {"sanitize", "lint", "a"},
		{"launch", "a"}, {"all", "a"},
	} {
		if _, err := r.verb(words); err == nil || !strings.Contains(err.Error(), "usage") {
			t.Errorf("%q: error %v, want the usage", words, err)
		}
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
	for _, column := range []*[]float64{
		&jobs[0].Route.TargetLataccel, &jobs[0].Route.RollLataccel, &jobs[0].Route.VEgo,
		&jobs[0].Route.AEgo, &jobs[0].Route.SteerCommand,
	} {
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
		_, costs, err := measure(
			t.Context(),
			gpu.Config{
				ModelPath: w.model,
				Timed:     true,
				Open: func() (driver.Device, error) {
					return emulated.Open(emulated.Options{})
				},
			},
			jobs,
		)
		if err != nil {
			t.Fatalf("%s: %v", c.policy, err)
		}
		for _, want := range spec.Simulate(t.Context(), jobs, lockstep.Options{}) {
			if want.Err != nil || costs[0] != want.Costs {
				t.Errorf(
					"%s costs %+v, of the reference %+v, %v", c.policy, costs[0], want.Costs,
					want.Err,
				)
			}
		}
	}
	if !timed["network"] {
		t.Error("no network is timed")
	}
}
