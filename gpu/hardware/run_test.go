//go:build linux

package hardware

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// bundle is a folder as bundle.sh makes one, with shell scripts for programs.
func bundle(t *testing.T, programs map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	script, err := os.ReadFile("run.sh")
	if err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "test2json"), "cmd/test2json")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for name, text := range programs {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "run"), script, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := exec.Command("gzip", filepath.Join(dir, "cuda.test")).Run(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// device is what TestDevice says in gpu.test, and short what a program says whose test passed.
const (
	device = `case "$*" in *TestDevice*)
	echo "=== ATTR  TestDevice device ${DEVICE:-NVIDIA T}"
	echo "=== ATTR  TestDevice driver D"
	echo "=== ATTR  TestDevice kernels ${KERNELS:-one}" ;; esac
`
	short = "printf '\\026=== RUN   TestShort\\n\\026--- PASS: TestShort (0.1s)\\nPASS\\n'\n"
)

// start runs the bundle, and returns what it says and whether it ended well.
func start(t *testing.T, dir, deadline string, words ...string) (string, error) {
	t.Helper()
	command := exec.Command(filepath.Join(dir, "run"), words...)
	command.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"),
		"LOCKSTEP_DEADLINE="+deadline)
	out, err := command.CombinedOutput()
	return string(out), err
}

// inOrder looks for expressions, each behind what the one before it has found. How long a step may
// take is a share of what is left, a second less on a busy machine.
func inOrder(t *testing.T, said string, want ...string) {
	t.Helper()
	rest := said
	for _, w := range want {
		at := regexp.MustCompile("== " + w).FindStringIndex(rest)
		if at == nil {
			t.Fatalf("no %q behind what is before it in %s", w, said)
		}
		rest = rest[at[1]:]
	}
}

// TestRun does the first minutes three times: the steps come in their order, a tool that hangs
// takes its share alone, what has passed is not done again, but for other kernels.
func TestRun(t *testing.T) {
	dir, out := bundle(t, map[string]string{
		"cuda.test":         short,
		"gpu.test":          device + `echo "with $LOCKSTEP_KERNELS $*"` + "\n" + short,
		"compute-sanitizer": `[ "$2" = memcheck ] && { sleep 400 & sleep 400; }` + "\n" + short,
		"ncu": `[ "$1" = --import ] && cat "$2" && exit
while [ $# -gt 0 ]; do [ "$1" = -o ] && echo seen > "$2.ncu-rep"; shift; done; exit 1`,
	}), t.TempDir()
	begin := time.Now()
	said, err := start(t, dir, "20", out)
	if err != nil || time.Since(begin) > 5*time.Minute {
		t.Fatalf("%v after %v: %s", err, time.Since(begin), said)
	}
	inOrder(
		t, said, "cuda: pass", "gpu: pass", "chosen: pass", "profile, [12] s at most",
		"racecheck: pass", "memcheck: not run to its end", "initcheck: pass", "synccheck: pass",
		"ptx: pass", "bench: pass", "peer: pass",
	)
	page := filepath.Join(out, "NVIDIA-T", "profile.source.csv.gz")
	if text, err := exec.Command("gzip", "-dc", page).Output(); string(text) != "seen\n" {
		t.Errorf("ncu's page has %q, %v", text, err)
	}
	if !strings.Contains(said, "with ptx -test.v=test2json -test.run=^TestShort$/blocks_of_6$") {
		t.Errorf("the PTX was not chosen: %s", said)
	}
	if said, err = start(t, dir, "3", out, "memcheck", "cuda"); err != nil {
		t.Fatal(err)
	}
	inOrder(t, said, "cuda, [23] s at most", "cuda: pass", "memcheck, ", "memcheck: not run to its")
	said, err = start(t, dir, "20", out)
	if err != nil {
		t.Fatal(err)
	}
	inOrder(
		t, said, "gpu: has passed before", "profile: has", "racecheck: has", "memcheck, [12] s",
	)
	t.Setenv("KERNELS", "two")
	said, _ = start(t, dir, "20", out, "cuda")
	files, err := filepath.Glob(filepath.Join(out, "*", "*"))
	want := filepath.Join(out, "NVIDIA-T", "cuda.json") + " " +
		filepath.Join(out, "NVIDIA-T", "device.txt")
	if err != nil || strings.Join(files, " ") != want {
		t.Errorf("of other kernels there is %q, want %q: %s", files, want, said)
	}
}

// TestInterrupted: what a step has begun ends with the run that a user ends.
func TestInterrupted(t *testing.T) {
	dir := bundle(t, map[string]string{
		"cuda.test": `[ $# = 1 ] && { (while :; do date > beats; sleep 0.1; done) & wait; }`,
		"gpu.test":  device,
	})
	command := exec.Command(filepath.Join(dir, "run"), t.TempDir(), "cuda")
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // as a terminal has it
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	beats := filepath.Join(dir, "beats")
	for begin := time.Now(); exec.Command("test", "-s", beats).Run() != nil; {
		if time.Since(begin) > time.Minute {
			t.Fatal("it does not begin")
		}
		time.Sleep(50 * time.Millisecond)
	}
	syscall.Kill(-command.Process.Pid, syscall.SIGINT)
	if err := command.Wait(); err == nil {
		t.Error("a run that was ended has no error")
	}
	for begin := time.Now(); ; time.Sleep(time.Second) {
		if os.Remove(beats) != nil {
			return // nobody has written it in this second
		}
		if time.Since(begin) > time.Minute {
			t.Fatal("what it has begun goes on")
		}
	}
}

// TestSanitize: what compute-sanitizer finds is a failure, and what it cannot do has not passed.
func TestSanitize(t *testing.T) {
	for name, c := range map[string]struct {
		says, result string
		ok           bool
	}{
		"clean": {short + "echo '========= ERROR SUMMARY: 0 errors'", "pass", true},
		"found": {short + "echo '========= Invalid __global__ read'; exit 9", "fail", false},
		"asked of the API": {
			`case " $* " in *" --report-api-errors no "*) ;; *) exit 9 ;; esac` + "\n" + short,
			"pass", true,
		},
		"not told how to end": {
			`case " $* " in *" --error-exitcode 9 "*) ;; *) exit 1 ;; esac` + "\n" + short,
			"pass", true,
		},
		"other bits":  {"echo '--- FAIL: TestShort (0.1s)'; exit 1", "fail", false},
		"unsupported": {"echo '========= Error: Device not supported.'; exit 1", "fail", false},
		"no test":     {"echo PASS", "not run", true},
		"no tool":     {"", "not run, there is no compute-sanitizer", true},
	} {
		t.Run(name, func(t *testing.T) {
			programs := map[string]string{"cuda.test": short, "gpu.test": device}
			if c.says != "" {
				programs["compute-sanitizer"] = c.says
			} else if path, err := exec.LookPath("compute-sanitizer"); err == nil {
				t.Skipf("a machine with %s lacks nothing", path)
			}
			dir := bundle(t, programs)
			said, err := start(t, dir, "60", t.TempDir(), "racecheck")
			if (err == nil) != c.ok || !strings.Contains(said, "== racecheck: "+c.result) {
				t.Errorf("%v, want %s: %s", err, c.result, said)
			}
		})
	}
}

// TestRefused: a deadline that is no number of seconds and a step that there is not are refused,
// before anything runs.
func TestRefused(t *testing.T) {
	dir := bundle(t, map[string]string{"cuda.test": short, "gpu.test": device})
	for _, c := range []struct{ deadline, step, want string }{
		{"9m", "cuda", "LOCKSTEP_DEADLINE=9m: want a number"},
		{"-1", "cuda", "LOCKSTEP_DEADLINE=-1: want a number"},
		{"60", "tests", "run OUT [STEP...] runs"},
		{"60", "sanitize", "cuda gpu chosen profile racecheck"},
		{"60", "check", "run OUT [STEP...] runs"},
	} {
		out := filepath.Join(t.TempDir(), "out")
		said, err := start(t, dir, c.deadline, out, c.step)
		if _, made := os.Stat(out); err == nil || made == nil || !strings.Contains(said, c.want) {
			t.Errorf("%v, want %q: %s", err, c.want, said)
		}
	}
	if said, err := start(t, dir, "60"); err == nil || !strings.Contains(said, "run OUT [STEP") {
		t.Errorf("%v: %s", err, said)
	}
}

// TestStandin: on what is no GPU nothing is written, unless it is rehearsed.
func TestStandin(t *testing.T) {
	dir := bundle(t, map[string]string{"cuda.test": short, "gpu.test": device})
	t.Setenv("DEVICE", "stand-in")
	for rehearse, want := range map[string]string{"0": "", "1": "cuda.json"} {
		t.Setenv("LOCKSTEP_REHEARSE", rehearse)
		out := t.TempDir()
		said, err := start(t, dir, "60", out, "cuda")
		files, _ := filepath.Glob(filepath.Join(out, "stand-in", "*.json"))
		if (err == nil) != (want != "") || !strings.HasSuffix(strings.Join(files, " "), want) ||
			(err != nil && (len(files) > 0 || !strings.Contains(said, "no evidence"))) {
			t.Errorf("%v, %q: %s", err, files, said)
		}
	}
}
