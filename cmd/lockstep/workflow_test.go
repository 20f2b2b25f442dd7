package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestWorkflow holds the workflow to what it must be: always run, pinned, and made of
// commands that exist.
func TestWorkflow(t *testing.T) {
	data, err := os.ReadFile("../../.github/workflows/parity.yml")
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string // without comments
	for i, line := range strings.Split(string(data), "\n") {
		if strings.Contains(line, "\t") {
			t.Errorf("line %d has a tab", i+1)
		}
		if code, _, _ := strings.Cut(line, " #"); !strings.HasPrefix(strings.TrimSpace(line), "#") {
			lines = append(lines, strings.TrimRight(code, " "))
		}
	}
	text := strings.Join(lines, "\n")

	// Whatever differs, the jobs run.
	if m := regexp.MustCompile(
		`(?m)^\s*(paths|paths-ignore|continue-on-error):`,
	).FindString(text); m != "" {
		t.Errorf("the workflow has %q", m)
	}
	for _, want := range []string{
		"\n  pull_request:\n", "\n  merge_group:\n", "fetch-depth: 0", `LOCKSTEP_REQUIRE_GPU: "1"`,
		"permissions:\n  contents: read\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the workflow lacks %q", want)
		}
	}
	workflowJobs(t, text)

	uses := regexp.MustCompile(`(?m)uses: (.*)$`).FindAllStringSubmatch(text, -1)
	if len(uses) < 5 {
		t.Errorf("%d actions", len(uses))
	}
	for _, m := range uses {
		if !regexp.MustCompile(`^actions/[a-z-]+@[0-9a-f]{40}$`).MatchString(m[1]) {
			t.Errorf("%s is not pinned to a commit", m[1])
		}
	}

	// Every make target and every lockstep command that a step or a comment names.
	targets := regexp.MustCompile("make ([a-z-]+)").FindAllStringSubmatch(text, -1)
	if len(targets) < 1 {
		t.Errorf("%d make commands", len(targets))
	}
	for _, m := range targets {
		if !regexp.MustCompile(`(?m)^` + m[1] + `:`).Match(makefile) {
			t.Errorf("make %s: no such target", m[1])
		}
	}
	// A job names what it is merged into, by the environment or as an argument.
	for _, want := range []string{
		"run: .ci/run\n", "run: make gate-gpu BASE=\"$BASE\"\n", "\n  BASE: ${{",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the workflow lacks %q", want)
		}
	}
	makefileCommands(t, string(makefile))
}

// workflowJobs: the jobs are three; the first always runs, and the last judges both others.
func workflowJobs(t *testing.T, text string) {
	t.Helper()
	jobs := regexp.MustCompile(`(?m)^  ([a-z-]+):$`).FindAllStringSubmatchIndex(
		text[strings.Index(text, "\njobs:\n"):], -1,
	)
	if len(jobs) != 3 {
		t.Fatalf("%d jobs, want 3", len(jobs))
	}
	body := text[strings.Index(text, "\njobs:\n"):]
	for i, at := range jobs {
		end := len(body)
		if i+1 < len(jobs) {
			end = jobs[i+1][0]
		}
		name, job := body[at[2]:at[3]], body[at[1]:end]
		condition := regexp.MustCompile(`(?m)^    if: (.*)$`).FindStringSubmatch(job)
		switch name {
		case "parity":
			if condition != nil {
				t.Errorf("job parity runs only if %s", condition[1])
			}
		case "merge":
			if condition == nil || condition[1] != "always()" ||
				!strings.Contains(job, "needs: [parity, parity-gpu]") {
				t.Errorf("job merge does not always judge both: %s", job)
			}
		}
		if !strings.Contains(job, "timeout-minutes:") {
			t.Errorf("job %s may run for ever", name)
		}
	}
}

// makefileCommands: each command that the Makefile runs is there, and the gate is one of them.
func makefileCommands(t *testing.T, makefile string) {
	t.Helper()
	commands := regexp.MustCompile(`\$\(BIN\) ([a-z]+)`).FindAllStringSubmatch(makefile, -1)
	gates := 0
	for _, m := range commands {
		if m[1] == "gate" {
			gates++
		}
		if status, _, stderr := lockstepRun(t.Context(), m[1], "--help"); status != exitOK {
			t.Errorf("the Makefile runs lockstep %s: %s", m[1], stderr)
		}
	}
	if gates == 0 {
		t.Error("nothing runs lockstep gate")
	}
	for _, flag := range []string{"--base", "--require-hardware"} {
		if _, help, _ := lockstepRun(t.Context(), "gate", "--help"); !strings.Contains(
			help, flag,
		) ||
			!strings.Contains(makefile, flag) {
			t.Errorf("make gate and lockstep gate do not both know %s", flag)
		}
	}
}

// TestMerge runs the last step of the workflow: what may be merged, for each end of the
// jobs before it.
func TestMerge(t *testing.T) {
	data, err := os.ReadFile("../../.github/workflows/parity.yml")
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	script := text[strings.LastIndex(text, "        run: |\n")+len("        run: |\n"):]
	for _, c := range []struct {
		parity, gpu, runner, fork string
		merged                    bool
	}{
		{"success", "success", "true", "false", true},
		{"success", "skipped", "true", "true", true}, // a fork's code runs on nobody's machine
		{"success", "skipped", "true", "false", false},
		{"success", "skipped", "", "false", true}, // there is no GPU
		{"success", "skipped", "", "true", true},
		{"success", "failure", "true", "true", false},
		{"success", "failure", "", "false", false},
		{"success", "cancelled", "true", "true", false},
		{"failure", "success", "true", "false", false},
		{"skipped", "skipped", "true", "true", false},
		{"cancelled", "skipped", "", "true", false},
	} {
		// As the runner does: bash -e.
		command := exec.CommandContext(t.Context(), "bash", "-e", "-c", script)
		command.Env = append(
			os.Environ(), "PARITY="+c.parity, "PARITY_GPU="+c.gpu, "GPU_RUNNER="+c.runner,
			"FORK="+c.fork,
		)
		out, err := command.CombinedOutput()
		if (err == nil) != c.merged {
			t.Errorf("%+v: %v\n%s", c, err, out)
		}
	}
	if !strings.Contains(
		text,
		"FORK: ${{ github.event_name == 'pull_request' && "+
			"github.event.pull_request.head.repo.full_name != github.repository }}",
	) {
		t.Error("the last job is not told of forks as the job on a GPU is")
	}
}

// TestVerdict: the last lines of .ci/run come although what it leaves cannot be taken away.
func TestVerdict(t *testing.T) {
	data, err := os.ReadFile("../../.ci/run")
	if err != nil {
		t.Fatal(err)
	}
	_, finish, _ := strings.Cut(string(data), "\nfinish() {")
	finish, _, found := strings.Cut(finish, "\n}\n")
	if !found {
		t.Fatal(".ci/run has no function finish")
	}
	script := "set -euo pipefail\nrm() { return 1; }; cp() { return 1; }; mkdir() { return 1; }\n" +
		"folder=. clone=. pass='the second' lines=('ci: the first took 1 s')\nfinish() {" + finish +
		"\n}\ntrap finish EXIT\n"
	for _, c := range []struct{ ends, want string }{
		{"true", "\nci: the first took 1 s\nci: passed\n"},
		{"false", "\nci: the first took 1 s\nci: FAILED in the second\n"},
	} {
		command := exec.Command("bash", "-c", script+c.ends)
		command.Dir = t.TempDir()
		for _, name := range []string{"gate", "test.json"} { // which cannot be copied
			if err := os.MkdirAll(filepath.Join(command.Dir, "build", name), 0o777); err != nil {
				t.Fatal(err)
			}
		}
		out, err := command.Output()
		if string(out) != c.want || (err == nil) != (c.ends == "true") {
			t.Errorf("%s: %q, %v; want %q", c.ends, out, err, c.want)
		}
	}
}

// TestMissing: a variant of scripts/missing.sh fails if nothing could be taken away, and one
// that is not known is refused.
func TestMissing(t *testing.T) {
	stubs := t.TempDir()
	for name, text := range map[string]string{"make": "exit 0", "git": "exit 1"} {
		if err := os.WriteFile(filepath.Join(stubs, name), []byte("#!/bin/sh\n"+text+"\n"),
			0o777); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ variant, want string }{
		{"no-network", "no-network: ok\n"},
		{"odd-path", "odd-path: FAILED\n"}, // without a clone
		{"no-such", "missing.sh: no-such is no variant: want one of no-compiler no-python "},
	} {
		command := exec.Command("bash", "../../scripts/missing.sh", c.variant)
		command.Env = append(
			os.Environ(), "PATH="+stubs+string(os.PathListSeparator)+os.Getenv("PATH"),
		)
		out, err := command.CombinedOutput()
		if !strings.Contains(string(out), c.want) || (err == nil) != (c.variant == "no-network") {
			t.Errorf("%s: %v, %q; want %q", c.variant, err, out, c.want)
		}
	}
}
