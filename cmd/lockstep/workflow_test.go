package main

import (
	"os"
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
	if m := regexp.MustCompile(`(?m)^\s*(paths|paths-ignore|continue-on-error):`).FindString(text); m != "" {
		t.Errorf("the workflow has %q", m)
	}
	for _, want := range []string{"\n  pull_request:\n", "\n  merge_group:\n", "fetch-depth: 0", `LOCKSTEP_REQUIRE_GPU: "1"`, "permissions:\n  contents: read\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("the workflow lacks %q", want)
		}
	}
	jobs := regexp.MustCompile(`(?m)^  ([a-z-]+):$`).FindAllStringSubmatchIndex(text[strings.Index(text, "\njobs:\n"):], -1)
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
			if condition == nil || condition[1] != "always()" || !strings.Contains(job, "needs: [parity, parity-gpu]") {
				t.Errorf("job merge does not always judge both: %s", job)
			}
		}
		if !strings.Contains(job, "timeout-minutes:") {
			t.Errorf("job %s may run for ever", name)
		}
	}

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
	if len(targets) < 2 {
		t.Errorf("%d make commands", len(targets))
	}
	for _, m := range targets {
		if !regexp.MustCompile(`(?m)^` + m[1] + `:`).Match(makefile) {
			t.Errorf("make %s: no such target", m[1])
		}
	}
	for _, target := range []string{"gate", "gate-gpu"} {
		if !strings.Contains(text, "run: make "+target+" BASE=\"$BASE\"\n") {
			t.Errorf("no step makes %s with the base", target)
		}
	}
	commands := regexp.MustCompile(`\$\(BIN\) ([a-z]+)`).FindAllStringSubmatch(string(makefile), -1)
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
		if _, help, _ := lockstepRun(t.Context(), "gate", "--help"); !strings.Contains(help, flag) || !strings.Contains(string(makefile), flag) {
			t.Errorf("make gate and lockstep gate do not both know %s", flag)
		}
	}
}
