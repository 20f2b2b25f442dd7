package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// promising is what a sentence says that promises how the program behaves.
var promising = regexp.MustCompile(
	`\b(refuses?|refused|names (the|both|what|it|which|its)|(is|are) named|goes? on|going ` +
		`on|never|resumes?|resumed)\b`,
)

// promisingPages are those whose promises are held to tests.
var promisingPages = []string{
	"README.md", "CONTRIBUTING.md", "docs/*.md", "golden/README.md", "gpu/README.md",
	"parity/conformance/README.md",
}

// A promise is a line of promises.tsv: a page, words that stand on it, and the tests that
// hold them, or a dash and why the words promise nothing.
type promise struct {
	line        int
	page, words string
	tests       []string
}

func readPromises(t *testing.T) (all []promise) {
	t.Helper()
	data := read(t, "promises.tsv")
	for i, line := range strings.Split(strings.TrimSuffix(string(data), "\n"), "\n") {
		cells := strings.Split(line, "\t")
		if len(cells) != 3 || slices.Contains(cells, "") {
			t.Fatalf("promises.tsv:%d: %d cells, want three: page, words, tests", i+1, len(cells))
		}
		if i == 0 {
			continue // what the columns are
		}
		p := promise{line: i + 1, page: cells[0], words: cells[1]}
		if !strings.HasPrefix(cells[2], "- ") {
			p.tests = strings.Fields(cells[2])
		}
		all = append(all, p)
	}
	return all
}

var comments = regexp.MustCompile(`(?s)<!--.*?-->`)

// words are a page's, without what readers do not see, a blank between any two.
func words(t *testing.T, page string) string {
	t.Helper()
	return strings.Join(
		strings.Fields(comments.ReplaceAllString(string(read(t, filepath.Join("..", page))), "")),
		" ",
	)
}

// TestPromises: each promise in words has a test that is there, and stands on its page.
func TestPromises(t *testing.T) {
	var pages []string
	for _, pattern := range promisingPages {
		found, err := filepath.Glob(filepath.Join("..", pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v, %v", pattern, found, err)
		}
		for _, page := range found {
			pages = append(
				pages, filepath.ToSlash(strings.TrimPrefix(page, ".."+string(filepath.Separator))),
			)
		}
	}
	all := readPromises(t)
	for _, p := range all {
		if !slices.Contains(pages, p.page) {
			t.Errorf("promises.tsv:%d: %s is none of the pages %q", p.line, p.page, promisingPages)
		}
		for _, test := range p.tests {
			if err := findTest(test); err != nil {
				t.Errorf("promises.tsv:%d: %v", p.line, err)
			}
		}
	}
	n := 0
	for _, page := range pages {
		text := words(t, page)
		kept := make([]bool, len(text))
		for _, p := range all {
			if p.page != page {
				continue
			}
			at := strings.Index(text, p.words)
			if at < 0 {
				t.Errorf("promises.tsv:%d: %s no longer says %q", p.line, page, p.words)
			}
			for ; at >= 0; at = next(text, p.words, at) {
				for i := range p.words {
					kept[at+i] = true
				}
			}
		}
		for _, m := range promising.FindAllStringIndex(text, -1) {
			if n++; !kept[m[0]] {
				t.Errorf(
					"%s promises %q, and promises.tsv has no test of it", page,
					text[max(0, m[0]-60):min(len(text), m[1]+60)],
				)
			}
		}
	}
	t.Logf("%d promises on %d pages, held by the tests of %d lines", n, len(pages), len(all))
}

// next is where words stand next in a text, or -1.
func next(text, words string, at int) int {
	i := strings.Index(text[at+1:], words)
	if i < 0 {
		return -1
	}
	return at + 1 + i
}

// findTest looks for a test by its name: folder.TestName, or file.py::test_name.
func findTest(name string) error {
	if file, function, ok := strings.Cut(name, "::"); ok {
		data, err := os.ReadFile(filepath.Join("..", file))
		if err == nil && !strings.Contains(string(data), "\ndef "+function+"(") {
			return &os.PathError{Op: "test", Path: name, Err: os.ErrNotExist}
		}
		return err
	}
	folder, function := strings.TrimSuffix(name, path.Ext(name)),
		strings.TrimPrefix(path.Ext(name), ".")
	files, err := filepath.Glob(filepath.Join("..", folder, "*_test.go"))
	if err != nil {
		return err
	}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == function &&
				strings.HasPrefix(function, "Test") {
				return nil
			}
		}
	}
	return &os.PathError{Op: "test", Path: name, Err: os.ErrNotExist}
}

// TestFindTest: a name that no test has is not found.
func TestFindTest(t *testing.T) {
	for name, there := range map[string]bool{
		"docs.TestFindTest": true, "docs.TestFind": false, "docs.findTest": false,
		"none.TestFindTest":                       false,
		"python/tests/test_shards.py::test_merge": true,
		"python/tests/test_shards.py::test_me":    false, "python/tests/none.py::test_merge": false,
	} {
		if err := findTest(name); (err == nil) != there {
			t.Errorf("%s: %v", name, err)
		}
	}
}
