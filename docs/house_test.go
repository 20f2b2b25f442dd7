package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// productCode parses all Go of the product, without tests, and names the folder of each file.
func productCode(t *testing.T, each func(folder, file string, f *ast.File)) {
	t.Helper()
	files(t, func(name, text string) {
		folder := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(name)), "../")
		if folder == ".." {
			folder = "."
		}
		if strings.HasSuffix(name, "_test.go") || strings.Contains("/"+folder+"/", "/_") {
			return
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, text, 0)
		if err != nil {
			t.Error(err)
			return
		}
		each(folder, name, f)
	}, ".go")
}

// public are the packages that other modules can import. Commands and the Python library share
// what is in cmd/internal; what more needs stands in internal.
var public = []string{
	".", "batched", "batched/classic", "batched/onnxruntime", "classic", "engines", "fuzz",
	"golden", "golden/classic", "golden/policies", "golden/vectors", "gpu", "gpu/classic",
	"gpu/hardware",
	"parity", "parity/branches", "parity/conformance", "parity/gymnasium", "parity/mutants",
	"parity/schema", "parity/tinyphysics", "parity/trace", "parity/verdict", "policyfile",
	"reference", "reference/classic", "routefile", "snapshotfile",
}

// TestPublic: other modules can import what is listed, and that exports no variable, so that no
// user changes for all others what a package is made of. Functions and constants stand in their
// place. An error may be one, so that errors.Is finds it.
func TestPublic(t *testing.T) {
	packages := map[string]bool{}
	productCode(t, func(folder, _ string, f *ast.File) {
		if strings.Contains("/"+folder+"/", "/internal/") || f.Name.Name == "main" {
			return
		}
		packages[folder] = true
		for _, name := range variables(f) {
			if ast.IsExported(name) && !strings.HasPrefix(name, "Err") {
				t.Errorf(
					"%s.%s is a variable that whoever imports it can change: make it a function",
					folder, name,
				)
			}
		}
	})
	if found := slices.Sorted(maps.Keys(packages)); !slices.Equal(found, public) {
		t.Errorf("packages that other modules can import (-listed +found):\n%s",
			cmp.Diff(public, found))
	}
}

// variables are a file's of its package.
func variables(f *ast.File) (names []string) {
	for _, d := range f.Decls {
		declared, ok := d.(*ast.GenDecl)
		if !ok || declared.Tok != token.VAR {
			continue
		}
		for _, spec := range declared.Specs {
			for _, name := range spec.(*ast.ValueSpec).Names {
				names = append(names, name.Name)
			}
		}
	}
	return names
}

// The two houses of internal/. Leaves import nothing of this module. The others support what is
// above them: they may import leaves and one another, the vocabulary (the root package) and
// routefile, but neither engines nor what stands above engines.
var (
	leaves = []string{
		"fileio", "fileio/readonly", "fuzzing", "group", "guard", "kernelhash", "libm", "onnx",
		"pandas", "plain", "release", "rename", "sandbox", "simtest",
	}
	vocabulary = []string{".", "routefile"}

	// above says why a package of support sees what it would not.
	above = map[string]string{
		"fingerprint -> golden/vectors": "the fingerprint of a machine is of the vectors",
		"installed -> reference":        "it is asked whether the machine computes as it",
		"recordtest -> golden":          "it makes recordings for tests",
	}
)

// TestInternal holds internal/ to its two houses.
func TestInternal(t *testing.T) {
	imports := map[string][]string{}
	productCode(t, func(folder, _ string, f *ast.File) {
		name, ok := strings.CutPrefix(folder, "internal/")
		if !ok {
			return
		}
		imports[name] = append(imports[name], ours(t, f)...)
	})
	if len(imports) < 25 {
		t.Fatalf("%d packages were found", len(imports))
	}
	seen := map[string]bool{}
	for name, of := range imports {
		if leaf := slices.Contains(leaves, name); leaf != (len(of) == 0) {
			t.Errorf("internal/%s: a leaf by the list: %v; it imports %q", name, leaf, of)
		}
		for _, other := range of {
			arrow := name + " -> " + other
			seen[arrow] = true
			if above[arrow] == "" && !slices.Contains(vocabulary, other) &&
				!strings.HasPrefix(other, "internal/") {
				t.Errorf("internal/%s imports %s, which stands above it", name, other)
			}
		}
	}
	for arrow := range above {
		if !seen[arrow] {
			t.Errorf("no package of internal/ imports so any more: %s", arrow)
		}
	}
	for _, name := range leaves {
		if _, ok := imports[name]; !ok {
			t.Errorf("internal/%s is no package any more", name)
		}
	}
}

// ours are the folders of the packages of this module that a file imports.
func ours(t *testing.T, f *ast.File) (folders []string) {
	t.Helper()
	data, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(data), "\n")
	module := strings.TrimPrefix(line, "module ")
	for _, i := range f.Imports {
		name, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			t.Error(err)
		}
		if name == module {
			folders = append(folders, ".")
		} else if folder, ok := strings.CutPrefix(name, module+"/"); ok {
			folders = append(folders, folder)
		}
	}
	return folders
}

// alike are the exported types that have a name in several packages, and why.
var alike = map[string]string{
	"Arithmetic": "a profile's, as kernels compute it and as the specification's statements do",
	"Config":     "what something is opened with, as Go calls it",
	"Device":     "the driver's interface, and what implements it",
	"Difference": "of two arrays, in bits or in a test",
	"End":        "of a rollout, as it is compared and as a trace has it",
	"Error":      "a package's, as Go calls it",
	"Fact":       "a name and its value, of an explanation and in a report's table",
	"Family":     "of simulators: its engines, and how it is compared",
	"File":       "an open file, of any kind and of a trace",
	"Form":       "of a profile's part, also of one that no profile has",
	"Kernels":    "a set of them: the CPU's, the GPU's",
	"Kind":       "of policies, of files",
	"Layer":      "of a network: one that steers a car, classic control's, the simulator's",
	"Library":    "files on this machine: ONNX Runtime's, the user's",
	"Options":    "what a call may be given, as Go calls it",
	"Plan":       "what a kept run computes, of each family",
	"Policy":     "of each family",
	"Result":     "of a rollout, as an engine gives it and as it is kept",
	"Shortcuts":  "the engines', and their words in files",
	"Simulator":  "the interface, and what implements it",
	"Snapshot":   "of each family",
	"Step":       "of a rollout, as engines show it and as schemas have it",
	"Stepper":    "the interface, and what engines make theirs of",
	"TB":         "what is asked of testing.TB",
	"Vector":     "many environments; a row that tells arithmetics apart",
	"Writer":     "what writes, as Go calls it",
}

// TestNames: an exported type's name stands for one thing in the whole module, unless alike says
// what its several things have in common.
func TestNames(t *testing.T) {
	folders := map[string][]string{}
	productCode(t, func(folder, _ string, f *ast.File) {
		for _, d := range f.Decls {
			declared, ok := d.(*ast.GenDecl)
			if !ok || declared.Tok != token.TYPE {
				continue
			}
			for _, spec := range declared.Specs {
				name := spec.(*ast.TypeSpec).Name.Name
				if ast.IsExported(name) && !slices.Contains(folders[name], folder) {
					folders[name] = append(folders[name], folder)
				}
			}
		}
	})
	if len(folders) < 250 {
		t.Fatalf("%d types were found", len(folders))
	}
	for name, of := range folders {
		if several := len(of) > 1; several != (alike[name] != "") {
			t.Errorf("%s is a type of %q: give each a name of its own; alike says %q", name, of,
				alike[name])
		}
	}
	for name := range alike {
		if folders[name] == nil {
			t.Errorf("%s is no type any more", name)
		}
	}
}
