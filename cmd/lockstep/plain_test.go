package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPlain: what others have written comes to the terminal without what that would obey, on
// standard output and on standard error.
func TestPlain(t *testing.T) {
	const hostile = "\x1b]0;owned\x07\x1b[2J"
	dir := t.TempDir()
	curve := filepath.Join(dir, "curve.csv")
	if err := os.WriteFile(curve, []byte("generation,"+hostile+"cost\n1,2\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"watch", dir, "--once"},
		{"watch", filepath.Join(dir, hostile), "--once"},
		{"rollout", "--data_path", filepath.Join(dir, hostile+".csv"), "--controller",
			hostile + ".py"},
	} {
		_, out, errs := lockstepRun(t.Context(), args...)
		if text := out + errs; strings.ContainsAny(text, "\x1b\x07") ||
			!strings.Contains(text, "owned") {
			t.Errorf("%q prints %q", args[0], text)
		}
	}
}
