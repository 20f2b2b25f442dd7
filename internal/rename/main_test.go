package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lockstep/internal/simtest"
)

// TestRename: under another path all packages are found, and nothing has the old one.
func TestRename(t *testing.T) {
	const to = "example.org/team/faster"
	root := filepath.Join(t.TempDir(), "clone")
	command := func(name string, args ...string) string {
		t.Helper()
		c := exec.Command(name, args...)
		c.Dir, c.Env = root, append(os.Environ(), "GOPROXY=off")
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	clone := exec.Command("git", "clone", "-q", filepath.Join("..", ".."), root)
	if out, err := clone.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	from := strings.TrimSpace(command("go", "list", "-m"))
	count := len(strings.Fields(command("go", "list", "./...")))
	if err := run(root, "Not A Path"); err == nil ||
		!strings.Contains(err.Error(), "want a path such as") {
		t.Errorf("no path: %v", err)
	}
	if err := run(root, to); err != nil {
		t.Fatal(err)
	}
	// Of each package, its own path and those of what it and its tests import.
	const imports = "{{.ImportPath}}{{range .Imports}} {{.}}{{end}}" +
		"{{range .TestImports}} {{.}}{{end}}{{range .XTestImports}} {{.}}{{end}}"
	packages := strings.Split(
		strings.TrimSpace(command("go", "list", "-f", imports, "./...")), "\n")
	if len(packages) != count {
		t.Errorf("%d packages, want %d", len(packages), count)
	}
	for _, p := range strings.Fields(strings.Join(packages, " ")) {
		if p == from || strings.HasPrefix(p, from+"/") {
			t.Errorf("%s is still there", p)
		}
	}
	for _, name := range strings.Fields(command("git", "ls-files", "*go.mod")) {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range strings.Fields(string(text)) {
			if word == from || strings.HasPrefix(word, from+"/") {
				t.Errorf("%s: %s is still there", name, word)
			}
		}
	}
	if simtest.Whole(t) {
		command("go", "vet", "./...")
		command(
			"go", "test", "./engines", "./cmd/internal/gate", "./parity/mutants", "-run",
			"^(TestImports|TestFaults|TestReads)$")
	}
	if err := run(root, from); err != nil {
		t.Fatal(err)
	}
	if changed := command("git", "status", "--porcelain"); changed != "" {
		t.Errorf("back again, there are changes:\n%s%s", changed, command("git", "diff"))
	}
}

// TestSource: what is changed in a file, and what is not. The text is of another module, so that
// renaming this one leaves it as it is.
func TestSource(t *testing.T) {
	const text = `package a // old/runs

import (
	"old"
	b "old/runs"
)
import "old"

var name, dir, class, start, other = "old", "old/none", "old/runs", ` + "`x old/runs`" +
		`, "x/old/runs", "old/"
var first, not = "module old\n", "module old"
`
	const want = `package a // old/runs

import (
	"e.org/x"
	b "e.org/x/runs"
)
import "e.org/x"

var name, dir, class, start, other = "old", "old/none", "e.org/x/runs", ` + "`x e.org/x/runs`" +
		`, "x/old/runs", "e.org/x/"
var first, not = "module e.org/x\n", "module old"
`
	r := renaming{"old", "e.org/x", func(name string) bool { return name == "runs" }}
	if got := string(r.source([]byte(text))); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// TestFile: a link is left alone, whatever it leads to, and a file that is not there is an error.
func TestFile(t *testing.T) {
	root := t.TempDir()
	r := renaming{"old", "e.org/x", func(string) bool { return true }}
	const text = "package a\n\nimport \"old/runs\"\n"
	for _, name := range []string{"a.go", "a.txt"} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("a.txt", filepath.Join(root, "link.go")); err != nil {
		t.Skip("no links here: ", err)
	}
	for _, name := range []string{"a.go", "a.txt", "link.go"} {
		if err := r.file(root, name); err != nil {
			t.Error(err)
		}
	}
	if err := r.file(root, "none.go"); !os.IsNotExist(err) {
		t.Errorf("a file that is not there: %v", err)
	}
	for name, want := range map[string]string{
		"a.go": strings.Replace(text, "old", "e.org/x", 1), "a.txt": text,
	} {
		if got, err := os.ReadFile(filepath.Join(root, name)); err != nil || string(got) != want {
			t.Errorf("%s has %q, %v, want %q", name, got, err, want)
		}
	}
}
