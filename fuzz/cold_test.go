package fuzz

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lockstep/internal/want"
)

// compiler says who calls it, and makes a file that is no program.
const compiler = `#!/bin/sh
[ "$1" = --version ] && echo a stand-in && exit
ps -o args= -p $PPID >> "$0.callers"
while [ $# -gt 0 ]; do
	[ "$1" = -o ] && : > "$2" && chmod +x "$2"
	shift
done
`

// TestCold: where the kernels are not compiled yet, the process that one starts compiles
// them before any execution begins. None of its workers does: Go ends an execution after
// ten seconds, and keeps its input as one that fails.
func TestCold(t *testing.T) {
	t.Parallel()
	want.Compiler.Need(t) // and so a shell
	dir := t.TempDir()
	cxx := filepath.Join(dir, "c++")
	if err := os.WriteFile(cxx, []byte(compiler), 0o700); err != nil {
		t.Fatal(err)
	}
	const corpus = "testdata/fuzz/FuzzTokenizer"
	before := names(t, corpus)
	cmd := exec.Command(
		os.Args[0], "-test.fuzz=^FuzzTokenizer$", "-test.fuzztime=4x",
		"-test.fuzzcachedir="+filepath.Join(dir, "fuzz"),
	)
	cmd.Env = append(os.Environ(), "CXX="+cxx, "XDG_CACHE_HOME="+filepath.Join(dir, "cache"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
	callers, err := os.ReadFile(cxx + ".callers")
	if err != nil {
		t.Fatalf("nobody has compiled: %v\n%s", err, out)
	}
	for caller := range strings.Lines(string(callers)) {
		if strings.Contains(caller, "-test.fuzzworker") {
			t.Fatalf("a worker compiles: %s", caller)
		}
	}
	if after := names(t, corpus); after != before {
		t.Errorf("%s has %s, had %s", corpus, after, before)
	}
}

func names(t *testing.T, dir string) string {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, f := range files {
		all = append(all, f.Name())
	}
	return strings.Join(all, " ")
}
