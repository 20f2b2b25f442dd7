package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lockstep"
)

// TestRun writes the tables of a project of the test's own, finds them as it wrote them, and no
// longer when one is another; a list of constants that is not that of the kinds is refused.
func TestRun(t *testing.T) {
	source, err := os.ReadFile("../../policy.go")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	t.Chdir(dir)
	if err := run(true); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a project: %v", err)
	}
	const kernels, python = "gpu/internal/kernels/kinds.h", "python/lockstep/_kinds.py"
	for _, path := range []string{kernels, python} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile("policy.go", source, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(true); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("nothing is written, and the check says %v", err)
	}
	for range 2 {
		if err := errors.Join(run(false), run(true)); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{kernels, python} {
		holdTable(t, path, path == python)
	}
	const other = "package lockstep\n\nconst a Other = 1\n\nconst b = 2\n\nvar c Kind\n\n" +
		"const (\n\tKindA Kind = iota\n\tKindB\n)\n"
	if err := os.WriteFile("policy.go", []byte(other), 0o600); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("policy.go has 2 constants of type Kind and %d rows of kinds: want one "+
		"for each", len(lockstep.Kinds()))
	if err := run(true); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// holdTable holds that a table that is another by a blank is found, and that this one has the rows
// of all kinds, those of Python of kinds that have gains.
func holdTable(t *testing.T, path string, python bool) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(slices.Clone(text), ' '), 0o600); err != nil {
		t.Fatal(err)
	}
	want := path + " is not what lockstep.Kinds makes of it: run `make generate`"
	if err := run(true); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	rows := 0
	for i, k := range lockstep.Kinds() {
		row := fmt.Sprintf(", %d, %d) K(", len(k.Gains), len(k.Memory))
		if i == len(lockstep.Kinds())-1 {
			row = strings.Replace(row, " K(", "\n", 1)
		}
		if python {
			row = fmt.Sprintf("    %q: (%q),\n", k.Name, k.GainNames())
			row = strings.NewReplacer("[", "", "]", "", `" "`, `", "`).Replace(row)
		}
		if has := strings.Contains(string(text), row); has == (python && len(k.Gains) == 0) {
			t.Errorf("%s has %q: %v:\n%s", path, row, has, text)
		} else if has {
			rows++
		}
	}
	if got := strings.Count(string(text), "K(k"); !python && got != rows {
		t.Errorf("%s has %d rows, want %d:\n%s", path, got, rows, text)
	}
}
