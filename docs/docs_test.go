// Package docs holds the documentation to the code.
package docs

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lockstep/internal/want"
)

// files calls f with the text of each file of the source whose name ends so.
func files(t *testing.T, f func(path, text string), extensions ...string) {
	t.Helper()
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			name, made := d.Name(), []string{"build", "bin", "testdata", "runs", "dist"}
			if name != ".." && path != filepath.Join("..", "cmd", "internal", "runs") &&
				(strings.HasPrefix(name, ".") && name != ".ci" || slices.Contains(made, name) ||
					path == filepath.Join("..", "assets")) {
				return filepath.SkipDir
			}
			return nil
		}
		if !slices.Contains(extensions, filepath.Ext(path)) {
			return nil
		}
		data, err := os.ReadFile(path)
		f(path, string(data))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestEnvironment: the list is of the variables that the code reads, each in one row.
func TestEnvironment(t *testing.T) {
	patterns := []*regexp.Regexp{
		regexp.MustCompile(`["'](LOCKSTEP_[A-Z_]*[A-Z])=?["']`),
		regexp.MustCompile(`(?:os\.Getenv|os\.LookupEnv|environ\.get)\(["']([A-Z_]+)["']`),
		regexp.MustCompile(`\$\{(LOCKSTEP_[A-Z_]*[A-Z])\b`), // in scripts
	}
	read := map[string]bool{
		"ONNXRUNTIME_LIB": true,
		"HOME":            true,
		"TMPDIR":          true,
	} // the last two by os.UserCacheDir and os.TempDir
	for _, w := range want.All {
		read[w.Variable()] = true
	}
	files(t, func(path, text string) {
		if strings.HasSuffix(path, "docs_test.go") || strings.Contains(path, "default_model") {
			return
		}
		for _, pattern := range patterns {
			for _, m := range pattern.FindAllStringSubmatch(text, -1) {
				if !strings.Contains(m[1], "TEST_") &&
					!strings.HasSuffix(m[1], "_WARP") { // of test programs alone
					read[m[1]] = true
				}
			}
		}
	}, ".go", ".tmpl", ".py", ".cpp", ".sh")
	data, err := os.ReadFile("environment.md")
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for line := range strings.Lines(string(data)) {
		if cell, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " |"); ok &&
			strings.HasPrefix(line, "| `") {
			for _, m := range regexp.MustCompile("`([A-Z_]+)`").FindAllStringSubmatch(cell, -1) {
				listed = append(listed, m[1])
			}
		}
	}
	slices.Sort(listed)
	if d := cmp.Diff(slices.Sorted(maps.Keys(read)), listed); d != "" {
		t.Errorf("docs/environment.md (-read by the code +listed):\n%s", d)
	}
}

// TestLinks: every relative link of the documentation leads somewhere, to a heading if it names
// one, and README is read in three minutes.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#\s]*)(?:#([^)\s]*))?\)`)
	files(t, func(path, text string) {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			to := path
			if m[1] != "" {
				to = filepath.Join(filepath.Dir(path), filepath.FromSlash(m[1]))
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s: the link to %s leads nowhere", path, m[1])
			} else if m[2] != "" && !slices.Contains(headings(t, to), m[2]) {
				t.Errorf("%s: the link to %s leads to no heading of %s", path, m[2], to)
			}
		}
		if n := len(strings.Fields(text)); path == filepath.Join("..", "README.md") && n > 700 {
			t.Errorf("README.md has %d words, want 700 at most", n)
		}
	}, ".md")
}

// headings are a page's, as links name them.
func headings(t *testing.T, page string) (names []string) {
	t.Helper()
	text := regexp.MustCompile("(?ms)^```.*?^```").ReplaceAllString(string(read(t, page)), "")
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		name := regexp.MustCompile(`[^\pL\pN _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
		names = append(names, strings.ReplaceAll(name, " ", "-"))
	}
	return names
}

// TestTargets: each target that pages, programs and scripts tell to make is one of the Makefile's,
// of which a folder of the same name, as there are some, keeps none from being made.
func TestTargets(t *testing.T) {
	targets := map[string]bool{}
	makefile := string(read(t, "../Makefile"))
	var phony []string
	names := regexp.MustCompile(`(?m)^\.PHONY: (.*)$`)
	for _, m := range names.FindAllStringSubmatch(makefile, -1) {
		phony = append(phony, strings.Fields(m[1])...)
	}
	for _, m := range regexp.MustCompile(`(?m)^([a-z0-9-]+):`).FindAllStringSubmatch(makefile, -1) {
		if targets[m[1]] = true; !slices.Contains(phony, m[1]) {
			t.Errorf("the Makefile's target %s is not .PHONY", m[1])
		}
	}
	told := regexp.MustCompile("(?m)(?:`|^)make ([a-z][a-z0-9-]*)")
	found := 0
	files(t, func(path, text string) {
		for _, m := range told.FindAllStringSubmatch(text, -1) {
			if found++; !targets[m[1]] {
				t.Errorf("%s: there is no target %s to make", path, m[1])
			}
		}
	}, ".md", ".go", ".py", ".sh", ".yml", ".yaml")
	if found < 50 {
		t.Errorf("%d targets were found", found)
	}
}

// TestDocumented: each command that a page names is there, and has the flags that stand behind it.
func TestDocumented(t *testing.T) {
	folder, helps := scratch(t), map[string]string{}
	help := func(name string) string {
		if _, known := helps[name]; !known {
			command := "lockstep " + name + " --help"
			helps[name], _ = execute(t, command, folder, "sh", "-c", command)
		}
		return helps[name]
	}
	code := regexp.MustCompile("`([^`\n]+)`|(?m:^ *(lockstep .*)$)")
	called := regexp.MustCompile(`\blockstep ([a-z]+)( [a-z]+)?([^#|&;>]*)`)
	flag := regexp.MustCompile(` (--[a-z][a-z0-9_-]*)`)
	found := 0
	files(t, func(path, text string) {
		if filepath.Base(path) == "CHANGELOG.md" { // which tells of what was before
			return
		}
		for _, m := range code.FindAllStringSubmatch(text, -1) {
			for _, call := range called.FindAllStringSubmatch(m[1]+m[2], -1) {
				name := call[1]
				if call[2] != "" && strings.Contains(help(name), "\n  "+name+call[2]+" ") {
					name += call[2]
				}
				for _, f := range flag.FindAllStringSubmatch(call[3], -1) {
					found++
					if !regexp.MustCompile(f[1] + `[^a-z0-9_-]`).MatchString(help(name)) {
						t.Errorf("%s: lockstep %s has no flag %s", path, name, f[1])
					}
				}
			}
		}
	}, ".md")
	if found < 50 {
		t.Errorf("%d flags were found", found)
	}
}
