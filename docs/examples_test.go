package docs

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// withoutExample are the packages that other modules can import and that need none.
var withoutExample = map[string]string{
	"batched/onnxruntime": "needs ONNX Runtime's library",
	"fuzz":                "has tests only",
	"gpu/classic":         "needs a GPU or a C++ compiler",
}

// TestExamples: every package that other modules can import shows what it is for by an
// Example with its output, which go test runs.
func TestExamples(t *testing.T) {
	example := regexp.MustCompile(`(?m)^\t// (Output|Unordered output):\n\t// `)
	code, shown := map[string]bool{}, map[string]bool{}
	files(t, func(path, text string) {
		dir := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), "../")
		if strings.Contains("/"+dir+"/", "/internal/") || strings.Contains(dir, "/_") {
			return
		}
		if strings.HasSuffix(path, "_test.go") {
			shown[dir] = shown[dir] ||
				strings.Contains(text, "\nfunc Example") && example.MatchString(text)
			return
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, text, parser.PackageClauseOnly)
		if err != nil {
			t.Error(err)
		} else if f.Name.Name != "main" {
			code[dir] = true
		}
	}, ".go")
	if len(code) < 25 {
		t.Fatalf("%d packages were found", len(code))
	}
	for dir := range code {
		if reason := withoutExample[dir]; shown[dir] == (reason != "") {
			t.Errorf(
				"%s: an Example with its output: %v; why there is none: %q", dir, shown[dir],
				reason,
			)
		}
	}
	for dir := range withoutExample {
		if !code[dir] {
			t.Errorf("%s is no package any more", dir)
		}
	}
}
