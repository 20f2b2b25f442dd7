package gate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"lockstep/internal/kernelhash"
)

// everyPackage stands for all of the module.
const everyPackage = "./..."

// A reader is the folders of the packages whose tests read files; everyPackage for all. The
// files are those with the beginning and the end; .go stands for sources that are no tests.
type reader struct {
	begin, end string
	packages   []string
}

func (r reader) reads(file string) bool {
	if r.end == ".go" && strings.HasSuffix(file, "_test.go") {
		return false
	}
	return strings.HasPrefix(file, r.begin) && strings.HasSuffix(file, r.end)
}

// readers are the packages whose tests read files outside of their folders and of those
// that they import, or pages of documentation. A file that has no line here with a beginning,
// and lies in no package's folder, may concern every package.
var readers = []reader{
	{"Makefile", "", []string{everyPackage}},
	{"go.mod", "", []string{everyPackage}},
	{"go.sum", "", []string{everyPackage}},
	{"scripts/", "", []string{"internal/f32", "cmd/lockstep"}},
	{".github/", "", []string{"cmd/lockstep"}},
	{".ci/", "", []string{"cmd/lockstep"}},
	{"LICENSE", "", []string{"internal/release"}},
	{"python/", "", []string{"cmd/internal/native", "docs", "internal/tables"}},
	{"pyproject.toml", "", []string{"cmd/internal/native", "docs"}},
	{"ARITHMETIC.md", "", []string{"golden/vectors/internal/statement"}},
	{"parity/conformance/README.md", "", []string{"parity/conformance"}},
	{"parity/mutants/equivalent.tsv", "", []string{"parity/mutants/mutation"}},
	{"parity/tinyphysics/schema.json", "", []string{"parity/trace"}},
	{"golden/testdata/", "", []string{"internal/npz"}},
	{"reference/", ".go", []string{"engines"}}, // which implementation imports which
	{"batched/", ".go", []string{"engines"}},
	{"gpu/", ".go", []string{"engines"}},
	// What tests name, and whether they say where slices part.
	{"", "_test.go", []string{
		"golden/vectors/internal/statement", "cmd/internal/gate", "internal/simtest",
	}},
}

// sources are the packages whose tests read any source: planted faults and equivalent mutants
// quote them, the documentation's tests hold pages to them, and the path of the module stands
// in all.
var sources = []string{"parity/mutants", "parity/mutants/mutation", "docs", "internal/rename"}

// listed is what go list prints of a package.
type listed struct {
	ImportPath, Dir           string
	Deps                      []string
	TestImports, XTestImports []string
	folder                    string // from the module's root
}

// A graph says which packages' tests a package takes part in.
type graph struct {
	folders map[string]bool     // of packages
	within  map[string][]string // by folder, the folders that its tests are made of, itself too
}

// imports reads the import graph: with and without the GPU, since a file may be of one only.
func imports(ctx context.Context, root string) (*graph, error) {
	g := &graph{folders: map[string]bool{}, within: map[string][]string{}}
	for _, tags := range []string{"", "cuda"} {
		var out, stderr bytes.Buffer
		c := exec.CommandContext(ctx, "go", "list", "-e", "-tags="+tags,
			"-json=ImportPath,Dir,Deps,TestImports,XTestImports", everyPackage)
		c.Dir, c.Stdout, c.Stderr = root, &out, &stderr
		if err := c.Run(); err != nil {
			return nil, fmt.Errorf("go list: %w: %s", err, bytes.TrimSpace(stderr.Bytes()))
		}
		packages := map[string]*listed{}
		for decoder := json.NewDecoder(&out); ; {
			var p listed
			if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, fmt.Errorf("go list: %w", err)
			}
			folder, err := filepath.Rel(root, p.Dir)
			if err != nil {
				return nil, err
			}
			p.folder = filepath.ToSlash(folder)
			packages[p.ImportPath] = &p
		}
		for _, p := range packages {
			all := append([]string{p.ImportPath}, p.Deps...)
			for _, name := range slices.Concat(p.TestImports, p.XTestImports) {
				all = append(all, name)
				if in := packages[name]; in != nil {
					all = append(all, in.Deps...)
				}
			}
			g.folders[p.folder] = true
			for _, name := range all {
				if in := packages[name]; in != nil &&
					!slices.Contains(g.within[p.folder], in.folder) {
					g.within[p.folder] = append(g.within[p.folder], in.folder)
				}
			}
		}
	}
	return g, nil
}

// owner is the folder of the package that a file lies in, or below.
func (g *graph) owner(file string) (string, bool) {
	for folder := path.Dir(file); ; folder = path.Dir(folder) {
		if g.folders[folder] && (folder != "." || path.Dir(file) == ".") {
			return folder, true
		}
		if folder == "." {
			return "", false
		}
	}
}

// reached are the folders of the packages whose tests some files may concern; all of them
// are one, everyPackage.
func (g *graph) reached(files []string) []string {
	found := map[string]bool{}
	for _, file := range files {
		for _, folder := range sources {
			found[folder] = true
		}
		placed := false
		for _, r := range readers {
			if !r.reads(file) {
				continue
			}
			placed = placed || r.begin != ""
			for _, folder := range r.packages {
				found[folder] = true
			}
		}
		if documentation(file) {
			continue
		}
		owner, ok := g.owner(file)
		switch {
		case !ok && placed:
		case !ok:
			found[everyPackage] = true
		case strings.HasSuffix(file, "_test.go"):
			found[owner] = true
		default:
			for folder, within := range g.within {
				if slices.Contains(within, owner) {
					found[folder] = true
				}
			}
		}
	}
	if found[everyPackage] {
		return []string{everyPackage}
	}
	var all []string
	for folder := range found {
		if g.folders[folder] {
			all = append(all, folder)
		}
	}
	slices.Sort(all)
	return all
}

// reached are the folders of the packages of a module whose tests some files may concern.
func reached(ctx context.Context, root string, files []string) ([]string, error) {
	g, err := imports(ctx, root)
	if err != nil {
		return nil, err
	}
	return g.reached(files), nil
}

// kernelFolders are those of the sources that nvcc compiles.
var kernelFolders = []string{"gpu/internal/kernels", "gpu/internal/kernels/classic"}

// sameKernels reports whether the compiler sees the same sources as at a revision: then
// what it makes of them need not be compared again. The folder dir is for what was there.
func sameKernels(ctx context.Context, root, dir, revision string) bool {
	for _, folder := range kernelFolders {
		names, err := git(ctx, root, "ls-tree", "-z", "--name-only", revision, folder+"/")
		before := filepath.Join(dir, folder)
		if err != nil || os.MkdirAll(before, 0o777) != nil {
			return false
		}
		for name := range strings.FieldsFuncSeq(names, func(r rune) bool { return r == 0 }) {
			if !kernelSource(name) {
				continue
			}
			text, err := git(ctx, root, "show", revision+":./"+name)
			if err != nil ||
				os.WriteFile(filepath.Join(before, path.Base(name)), []byte(text), 0o666) != nil {
				return false
			}
		}
		old, err := kernelhash.Sources(os.DirFS(before))
		if err != nil {
			return false
		}
		now, err := kernelhash.Sources(os.DirFS(filepath.Join(root, folder)))
		if err != nil || old != now {
			return false
		}
	}
	return true
}
