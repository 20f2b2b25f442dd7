package simtest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Declares reports whether a line of a folder's tests begins with "func " and some words, as that
// of a test does.
func Declares(t testing.TB, folder, words string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(file string) bool {
		text, err := os.ReadFile(file)
		return err == nil && strings.Contains(string(text), "\nfunc "+words)
	})
}
