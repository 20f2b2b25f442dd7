package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A listed package is what go list says of it.
type listed struct {
	ImportPath, Name, Dir, Export string
	GoFiles, CgoFiles             []string
}

// A build is a package with all of its mutants, and the programs of the tests that judge them.
type build struct {
	root, work string // of the module; where all is written
	tags       string
	operators  string
	pkg        listed
	exports    map[string]string
	mutants    []mutant
	lines      map[string][]string
	helping    []helper // tests of other packages that judge
}

// list has go list tell of a package and of what it imports.
func (b *build) list(folder string) error {
	cmd := exec.Command(
		"go", "list", "-tags", b.tags, "-export", "-deps",
		"-json=ImportPath,Name,Dir,Export,GoFiles,CgoFiles", folder,
	)
	cmd.Dir, cmd.Stderr = b.root, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return unfit(fmt.Sprintf("go list %s: %v", folder, err))
	}
	b.exports = map[string]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed // the last is the package itself
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			if len(b.pkg.GoFiles) == 0 {
				return unfit("it has no Go for this machine, or none without C in it")
			}
			return nil
		} else if err != nil {
			return err
		}
		b.exports[p.ImportPath], b.pkg = p.Export, p
	}
}

// make writes the package's mutants and compiles its tests and those of other packages. Lines
// whose mutants do not compile are left as they are: there are few, and they are counted.
func (b *build) make(folders []string, helping []helper) (programs []program, left int, err error) {
	without := map[place]bool{}
	for range 30 {
		overlay, err := b.rewrite(without)
		if err != nil {
			return nil, 0, err
		}
		out, err := b.command(
			"build", "-o", os.DevNull, "-gcflags=-e", "-overlay", overlay, b.pkg.ImportPath,
		).CombinedOutput()
		if err == nil {
			programs, err = b.compile(overlay, folders, helping)
			if err == nil && folders[0] == "./"+library {
				var p program
				p, err = b.python(overlay)
				programs = append(programs, p)
			}
			return programs, len(without), err
		}
		if !b.leave(without, string(out)) {
			return nil, 0, fmt.Errorf(
				"%s with its mutants does not compile: %s", b.pkg.ImportPath, out,
			)
		}
	}
	return nil, 0, fmt.Errorf(
		"%s with its mutants does not compile, whichever lines are left out", b.pkg.ImportPath,
	)
}

func (b *build) command(verb string, args ...string) *exec.Cmd {
	cmd := exec.Command("go", append([]string{verb, "-tags", b.tags}, args...)...)
	cmd.Dir = b.root
	return cmd
}

// rewrite writes the package with its mutants, and an overlay that puts it in place. Files with C
// in them are left as they are.
func (b *build) rewrite(without map[place]bool) (string, error) {
	fset := token.NewFileSet()
	b.lines = map[string][]string{}
	var files []*ast.File
	var texts [][]byte
	for _, name := range slices.Concat(b.pkg.GoFiles, b.pkg.CgoFiles) {
		text, err := os.ReadFile(filepath.Join(b.pkg.Dir, name))
		if err != nil {
			return "", err
		}
		file, err := parser.ParseFile(
			fset, filepath.Join(b.pkg.Dir, name), text,
			parser.ParseComments|parser.SkipObjectResolution,
		)
		if err != nil {
			return "", err
		}
		files, texts = append(files, file), append(texts, text)
	}
	info := &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{},
		Uses:  map[*ast.Ident]types.Object{},
		Defs:  map[*ast.Ident]types.Object{},

		Implicits: map[ast.Node]types.Object{},
	}
	config := types.Config{
		Importer: importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
			return os.Open(b.exports[path])
		}),
		Error:       func(error) {},
		FakeImportC: true,
	}
	pkg, err := config.Check(b.pkg.ImportPath, fset, files, info)
	if err != nil {
		return "", err
	}
	r := &rewriter{
		fset: fset, info: info, pkg: pkg, without: without, operators: b.operators,
	}
	replace := map[string]string{}
	put := func(path, text string) error {
		replace[path] = filepath.Join(b.work, filepath.Base(path))
		return os.WriteFile(replace[path], []byte(text), 0o600)
	}
	for i, file := range files[:len(b.pkg.GoFiles)] {
		path := filepath.Join(b.pkg.Dir, b.pkg.GoFiles[i])
		name, err := filepath.Rel(b.root, path)
		if err != nil {
			return "", err
		}
		b.lines[name] = strings.Split(string(texts[i]), "\n")
		if err := put(path, r.rewrite(file, name, texts[i])); err != nil {
			return "", err
		}
	}
	b.mutants = r.mutants
	if err := put(filepath.Join(b.pkg.Dir, "mutants_chosen.go"),
		chooser(b.pkg.Name, len(b.mutants))); err != nil {
		return "", err
	}
	overlay := filepath.Join(b.work, "overlay.json")
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	return overlay, os.WriteFile(overlay, data, 0o600)
}

var complaint = regexp.MustCompile(`(?m)^(\S+\.go):(\d+):`)

// leave adds the lines of which the compiler complains: one operator after the other of those that
// are the likeliest, beginning with loop control, then all. A
// function that no longer ends is complained of at its last line, so that then all of its loop
// control is left.
func (b *build) leave(without map[place]bool, out string) bool {
	grew := false
	note := func(p place) bool {
		is := !without[p] && slices.ContainsFunc(b.mutants, func(m mutant) bool {
			return m.File == p.file && m.Line == p.line &&
				(p.operator == "" || m.Operator == p.operator)
		})
		if is {
			without[p], grew = true, true
		}
		return is
	}
	for _, m := range complaint.FindAllStringSubmatch(out, -1) {
		path := m[1]
		if !filepath.IsAbs(path) {
			path = filepath.Join(b.root, path)
		}
		// The compiler names the file that the overlay has, or the one in whose place it is.
		folder, err := filepath.Rel(b.root, b.pkg.Dir)
		if err != nil {
			return false
		}
		file := filepath.Join(folder, filepath.Base(path))
		line, err := strconv.Atoi(m[2])
		if err != nil || slices.ContainsFunc(
			slices.Concat([]string{loop}, omissions, confusions, []string{""}),
			func(operator string) bool { return note(place{file, line, operator}) },
		) {
			continue
		}
		from := line
		for from > 0 && !strings.HasPrefix(b.lines[file][from-1], "func ") {
			from--
		}
		for _, other := range b.mutants {
			if other.File == file && other.Operator == loop && other.Line > from &&
				other.Line < line {
				note(place{file, other.Line, loop})
			}
		}
	}
	return grew
}

// A program is a package's tests, compiled with the mutants.
type program struct {
	path, dir string
	flags     []string
	only      []string // the tests that judge; none: all
}

// A helper is tests of another package that judge a package's mutants, too.
type helper struct{ folder, in, test string }

// parseHelpers reads their table, whose first row names the cells.
func parseHelpers(table string) (all []helper, err error) {
	for i, row := range strings.Split(strings.TrimSpace(table), "\n") {
		cells := strings.Split(row, "\t")
		if len(cells) != 4 || cells[3] == "" {
			return nil, fmt.Errorf(
				"%s:%d: want package, folder, test and what it sees", helpers, i+1,
			)
		}
		if i > 0 {
			all = append(all, helper{cells[0], cells[1], cells[2]})
		}
	}
	return all, nil
}

func (b *build) compile(
	overlay string, folders []string, helping []helper,
) (programs []program, err error) {
	only := map[string][]string{}
	for _, h := range helping {
		if in := "./" + h.in; !slices.Contains(folders, in) {
			only[in] = append(only[in], h.test)
		}
	}
	for i, folder := range append(slices.Clone(folders), slices.Sorted(maps.Keys(only))...) {
		out, err := b.command("list", "-test", "-deps", "-f", "{{.ImportPath}}", folder).Output()
		if err != nil {
			return nil, fmt.Errorf("go list %s: %w", folder, err)
		}
		dir, err := b.command("list", "-f", "{{.Dir}}", folder).Output()
		if err != nil {
			return nil, fmt.Errorf("go list %s: %w", folder, err)
		}
		p := program{
			path:  filepath.Join(b.work, fmt.Sprintf("tests%d", i)),
			dir:   strings.TrimSpace(string(dir)),
			flags: []string{"-test.short"},
			only:  only[folder],
		}
		if bytes.Contains(out, []byte("pgregory.net/rapid")) {
			p.flags = append(p.flags, "-rapid.nofailfile", "-rapid.shrinktime=0s")
		}
		if out, err := b.command("test", "-c", "-overlay", overlay, "-o", p.path,
			folder).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("the tests of %s with mutants: %w: %s", folder, err, out)
		}
		if _, err := os.Stat(p.path); err == nil { // a folder without tests has no program
			programs = append(programs, p)
		}
	}
	return programs, nil
}
