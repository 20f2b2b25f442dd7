package simtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// equals are what compares slices and says no more than whether they are equal.
var equals = []string{
	"bytes.Equal", "slices.Equal", "slices.EqualFunc", "maps.Equal", "reflect.DeepEqual",
}

// TestNaming: where a test finds two slices unequal, it says what they hold. Same says where they
// part; a message without either says nothing to whoever reads it.
func TestNaming(t *testing.T) {
	const root = "../.."
	files := token.NewFileSet()
	seen := 0
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		switch name := filepath.Base(path); {
		case err != nil:
			return err
		case e.IsDir() && path != root && (name[0] == '.' || name == "build" || name == "testdata"):
			return filepath.SkipDir
		case e.IsDir() || !strings.HasSuffix(name, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.IfStmt); ok {
				if compared := unequal(s.Cond); len(compared) > 0 {
					seen++
					if !says(s.Body, compared) {
						t.Errorf(
							"%s: slices are unequal, and nothing says where: simtest.Same does",
							files.Position(s.Pos()),
						)
					}
				}
			}
			return true
		})
		return nil
	})
	if err != nil || seen < 50 {
		t.Errorf("%d comparisons were found, %v", seen, err)
	}
}

// unequal are the names in the slices that a condition says are not equal.
func unequal(condition ast.Expr) (compared []string) {
	ast.Inspect(condition, func(n ast.Node) bool {
		not, ok := n.(*ast.UnaryExpr)
		if !ok || not.Op != token.NOT {
			return true
		}
		call, ok := not.X.(*ast.CallExpr)
		if !ok {
			return true
		}
		f, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		of, ok := f.X.(*ast.Ident)
		if ok && slices.Contains(equals, of.Name+"."+f.Sel.Name) {
			for _, arg := range call.Args {
				compared = append(compared, identifiers(arg)...)
			}
		}
		return true
	})
	return compared
}

func identifiers(n ast.Node) (names []string) {
	ast.Inspect(n, func(n ast.Node) bool {
		if x, ok := n.(*ast.Ident); ok {
			names = append(names, x.Name)
		}
		return true
	})
	return names
}

// says is whether a body has no complaint of a test's, or one that names something compared.
func says(body *ast.BlockStmt, compared []string) bool {
	bare := false
	ast.Inspect(body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		f, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || !slices.Contains([]string{"Error", "Errorf", "Fatal", "Fatalf"}, f.Sel.Name) {
			return true
		}
		told := slices.ContainsFunc(call.Args, func(arg ast.Expr) bool {
			return slices.ContainsFunc(identifiers(arg), func(name string) bool {
				return slices.Contains(compared, name)
			})
		})
		bare = bare || !told
		return true
	})
	return !bare
}
