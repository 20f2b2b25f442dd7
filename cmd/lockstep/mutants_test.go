package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lockstep/internal/want"
	"lockstep/parity/mutants"
	"lockstep/parity/verdict"
)

// TestMutants: which faults are chosen, and what is told of them, where all of them were tried
// before: nothing is built.
func TestMutants(t *testing.T) {
	root := t.TempDir()
	t.Chdir(root)
	t.Setenv("GIT_CEILING_DIRECTORIES", filepath.Dir(root))
	for _, w := range want.All {
		t.Setenv(w.Variable(), "")
	}
	refuses(t, "elsewhere", "is not inside lockstep's source", "mutants")
	names := map[string][]string{} // by engines
	for file, text := range faulty(t, names) {
		if err := os.WriteFile(mkdir(t, file), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	refuses(t, "a bad pattern", `--only "[": syntax error in pattern`, "mutants", "--only", "[")
	refuses(t, "no such fault", `--only "none", --engines : no fault has such a name`, "mutants",
		"--only", "none")
	refuses(t, "no such engine", `--only "", --engines warp,weft: no fault has such a name`,
		"mutants", "--engines", "warp,weft")
	refuses(t, "of another engine", "no fault has such a name", "mutants", "--engines", "search",
		"--only", names["engines"][0])

	kept := filepath.Join(t.TempDir(), "kept.json") // in the module it would be one of its sources
	args := []string{"mutants", "--engines", "search,engines", "--out", kept}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	const goesOn = "interrupted; with --out the same command goes on where it stopped\n"
	if status, stdout, stderr := lockstepRun(cancelled, args...); status != exitInterrupted ||
		stdout != "" || !strings.HasSuffix(stderr, goesOn) {
		t.Errorf("interrupted: exit %d, %s%s", status, stdout, stderr)
	}
	all := slices.Concat(names["search"], names["engines"])
	triedBefore(t, kept, all, "")
	told := func(status int, stderr string, args ...string) string {
		t.Helper()
		got, stdout, errs := lockstepRun(t.Context(), args...)
		if got != status || errs != stderr {
			t.Errorf("%q: exit %d, %s, want %d and %s", args, got, errs, status, stderr)
		}
		return stdout
	}
	named := func(text string, want []string) {
		t.Helper()
		for _, some := range names {
			for _, name := range some {
				if strings.Contains(text, name) != slices.Contains(want, name) {
					t.Errorf("%s is told of, or is not: want %q\n%s", name, want, text)
				}
			}
		}
	}
	page := filepath.Join(root, "r.html")
	table := told(exitOK, "", append(args, "--report", page)...)
	named(table, all)
	report, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	named(string(report), all)
	named(told(exitOK, "", append(args, "--only", all[1])...), all[1:2])
	named(told(exitOK, "", "mutants", "--only", "search-*", "--out", kept), names["search"])
	text := told(exitOK, "", append(args, "--markdown")...)
	if !strings.Contains(text, "\n| "+all[0]) || strings.Contains(table, "| ") {
		t.Errorf("as Markdown it is\n%s\nand else\n%s", text, table)
	}
	triedBefore(t, kept, all, all[2])
	missesOne(t, all, all[2], page, append(args, "--json", "--report", page)...)
}

// missesOne: a fault that is not caught is an exit status, and is told of in the report as well.
func missesOne(t *testing.T, all []string, missed, page string, args ...string) {
	t.Helper()
	status, stdout, stderr := lockstepRun(t.Context(), args...)
	var score verdict.Score
	if err := json.Unmarshal([]byte(stdout), &score); err != nil || status != exitParity ||
		!strings.HasPrefix(stderr, "lockstep: "+missed) || len(score.Mutants) != len(all) {
		t.Errorf("%s is missed: exit %d, %v, %s%s", missed, status, err, stdout, stderr)
	}
	if report, err := os.ReadFile(page); err != nil ||
		!strings.Contains(string(report), missed+": ") {
		t.Errorf("the report does not say that %s is missed: %v", missed, err)
	}
}

// faulty are files of a module that some engines' faults fit, of which it enters the names.
func faulty(t *testing.T, names map[string][]string) (files map[string]string) {
	t.Helper()
	faults, err := mutants.All()
	if err != nil {
		t.Fatal(err)
	}
	files = map[string]string{"go.mod": "module lockstep\n"}
	for _, f := range faults {
		if !slices.Contains([]string{"search", "engines", "policyfile"}, f.Engine) {
			continue
		}
		names[f.Engine] = append(names[f.Engine], f.Name)
		for _, e := range f.Edits {
			files[e.File] += e.Text + "\n"
		}
	}
	if len(names) != 3 {
		t.Fatalf("faults of these engines: %q", names)
	}
	return files
}

// triedBefore writes that faults were tried, and caught but for one, where the command keeps it.
func triedBefore(t *testing.T, kept string, names []string, missed string) {
	t.Helper()
	var ledger map[string]any
	text, err := os.ReadFile(kept)
	if err == nil {
		err = json.Unmarshal(text, &ledger)
	}
	if err != nil {
		t.Fatal(err)
	}
	faults, err := mutants.All()
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]verdict.Mutant{}
	for _, f := range faults {
		if !slices.Contains(names, f.Name) {
			continue
		}
		known[f.Name] = verdict.Mutant{
			Name: f.Name, Engine: f.Engine, Caught: f.Name != missed, Right: f.Name != missed,
		}
		for _, bare := range []string{f.Test, strings.TrimSpace(f.Probe + " " + f.Engine)} {
			known[bare] = verdict.Mutant{Name: bare}
		}
	}
	ledger["known"] = known
	if text, err = json.Marshal(ledger); err == nil {
		err = os.WriteFile(kept, text, 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
}
