package gate

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// upwards is how a path out of a package's folder stands in a test, in its Python, too.
var upwards = regexp.MustCompile(`(?:^|[\s"'(=:,])(\.\.(?:/[\w.-]+)*)(?:$|[^\w.])`)

// namedFiles are what a test file names outside of its package's folder, and the pages that
// it reads, as paths from the module's root. Those that are not there are left out.
func namedFiles(root, file string) (named []string, err error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, 0)
	if err != nil {
		return nil, err
	}
	add := func(name string) {
		name = path.Join(path.Dir(file), name)
		if _, err := os.Stat(filepath.Join(root, name)); err == nil &&
			!strings.HasPrefix(name, "..") &&
			!slices.Contains(named, name) {
			named = append(named, name)
		}
	}
	joined := map[ast.Node]bool{}
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			called, ok := n.Fun.(*ast.SelectorExpr)
			if !ok {
				break
			}
			words := leading(n.Args)
			switch called.Sel.Name {
			case "Join":
				if len(words) > 0 && strings.HasPrefix(words[0], "..") {
					add(path.Join(words...))
				}
				for _, arg := range n.Args {
					joined[arg] = true
				}
			case "ReadFile", "Open":
				if len(words) == 1 && documentation(words[0]) {
					add(words[0])
				}
			}
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING &&
				!joined[n] {
				for _, name := range upwards.FindAllStringSubmatch(text, -1) {
					add(name[1])
				}
			}
		}
		return true
	})
	return named, nil
}

// leading are the arguments up to the first that is no string between quotes.
func leading(args []ast.Expr) (words []string) {
	for _, arg := range args {
		text, ok := arg.(*ast.BasicLit)
		if !ok || text.Kind != token.STRING {
			break
		}
		word, err := strconv.Unquote(text.Value)
		if err != nil {
			break
		}
		words = append(words, word)
	}
	return words
}

// TestNamedFiles: a change of a file outside of a package's folder that its tests name makes
// them run, and so does one of a page that they read.
func TestNamedFiles(t *testing.T) {
	root := must(filepath.Abs(filepath.Join("..", "..", "..")))
	g, err := imports(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	err = testFiles(root, func(file string) error {
		named, err := namedFiles(root, file)
		folder := path.Dir(file)
		for _, name := range named {
			found[folder+" "+name] = true
			changed := name
			if info, err := os.Stat(filepath.Join(root, name)); err == nil && info.IsDir() {
				changed = path.Join(name, "file")
			}
			reached := g.reached([]string{changed})
			if name != "." && !slices.Contains(reached, folder) &&
				!slices.Contains(reached, everyPackage) {
				t.Errorf(
					"%s names %s, and a change of it does not make its tests run: add a line to "+
						"readers",
					file, name,
				)
			}
			if name == "." && !namesRoot(folder) {
				t.Errorf(
					"%s names files from the module's root: add what it reads to readers, or it "+
						"to sources",
					file,
				)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"internal/npz golden/testdata", "parity/trace parity/tinyphysics/schema.json",
		"golden/vectors/internal/statement ARITHMETIC.md",
		"parity/conformance parity/conformance/README.md", "cmd/internal/gate Makefile",
		"golden/vectors/internal/statement .",
	} {
		if !found[want] {
			t.Errorf("%q is not found", want)
		}
	}
}

// namesRoot reports whether the tables say what the tests of a package read of the module.
func namesRoot(folder string) bool {
	return slices.Contains(sources, folder) ||
		slices.ContainsFunc(
			readers, func(r reader) bool { return slices.Contains(r.packages, folder) },
		)
}
