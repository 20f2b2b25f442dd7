// Package mutants shows that the harness can fail: it plants faults into the
// implementations, one at a time, and sees whether the harness finds each and
// names the stage that it is in.
//
// A fault is data, a file in the folder faults: what it is, the stage that must be
// named, and for one or more places a text of the product's code with the text
// that takes its place. It is planted through the compiler's overlay, so that no trace
// of a fault is ever in the product's own files. A fault whose text is no longer found,
// or is found twice, is an error: the list cannot rot.
package mutants

import (
	"cmp"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/tools/txtar"

	"lockstep/engines"
	"lockstep/parity/tinyphysics"
)

//go:embed faults/*.txt
var files embed.FS

// A Fault is a small change that looks honest and changes bits.
type Fault struct {
	Name    string // of its file
	Title   string // what is wrong, one sentence
	Stage   string // where the harness should see it
	Engine  string // the engine that it is in
	Kernels string // of the reference's kernels, the set that it is in; any if empty

	// Probe is the package whose TestProbe sees it; this one if empty.
	Probe string

	// Test is a package whose ordinary tests must fail, in place of a stage, and after a
	// space the name of one where all of them take long: of a fault in the harness
	// itself, or of one that only they can see.
	Test string

	Edits []Edit
}

// An Edit replaces a text that occurs once in a file.
type Edit struct {
	File              string // from the module's root, with slashes
	Text, Replacement string
}

// All reads the faults, in the order of their names.
func All() (faults []Fault, err error) {
	names, _ := fs.Glob(files, "faults/*.txt") // the pattern is one
	for _, name := range names {
		data, _ := files.ReadFile(name) // it is there
		f, err := parse(strings.TrimSuffix(path.Base(name), ".txt"), data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		faults = append(faults, f)
	}
	return faults, nil
}

// parse reads a fault's file, a txtar archive. Its comment is the title, an empty
// line, and lines "key: value". Its sections come in pairs: one named after a file
// of the module with the text to be replaced, and one named replacement.
func parse(name string, data []byte) (Fault, error) {
	archive := txtar.Parse(data)
	title, keys, _ := strings.Cut(string(archive.Comment), "\n")
	f := Fault{Name: name, Title: title}
	for line := range strings.FieldsFuncSeq(keys, func(r rune) bool { return r == '\n' }) {
		key, value, _ := strings.Cut(line, ": ")
		into := map[string]*string{"stage": &f.Stage, "engine": &f.Engine, "kernels": &f.Kernels,
			"probe": &f.Probe, "test": &f.Test}[key]
		if into == nil {
			return f, fmt.Errorf(
				"line %q is not known, want stage, test, probe, engine or kernels", line,
			)
		}
		*into = value
	}
	if f.Stage != "" && f.Probe == "" && !tinyphysics.Schema(0).Known(f.Stage) {
		return f, fmt.Errorf("stage %.60q is not known", f.Stage)
	}
	if (f.Stage == "") == (f.Test == "") {
		return f, fmt.Errorf(
			"no line that names the stage, nor one that names the package whose tests see it, " +
				"or both",
		)
	}
	for i := 0; i+1 < len(archive.Files); i += 2 {
		text, replacement := archive.Files[i], archive.Files[i+1]
		if replacement.Name != "replacement" {
			return f, fmt.Errorf(
				"section %q follows %q, want its replacement", replacement.Name, text.Name,
			)
		}
		f.Edits = append(f.Edits, Edit{
			File:        text.Name,
			Text:        strings.TrimSuffix(string(text.Data), "\n"),
			Replacement: strings.TrimSuffix(string(replacement.Data), "\n"),
		})
	}
	if len(f.Edits) == 0 || len(archive.Files)%2 != 0 {
		return f, fmt.Errorf(
			"%d sections, want pairs of a text and its replacement", len(archive.Files),
		)
	}
	folder, _, _ := strings.Cut(f.Edits[0].File, "/")
	f.Engine = cmp.Or(f.Engine, append(engines.Of(f.Edits[0].File), folder)[0])
	return f, nil
}

// patched returns the contents of the files that the fault changes, by their paths
// from the module's root.
func (f *Fault) patched(root string) (map[string]string, error) {
	contents := map[string]string{}
	for _, e := range f.Edits {
		content, ok := contents[e.File]
		if !ok {
			data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(e.File)))
			if err != nil {
				return nil, fmt.Errorf("fault %s: %w", f.Name, err)
			}
			content = string(data)
		}
		if n := strings.Count(content, e.Text); n != 1 {
			return nil, fmt.Errorf(
				"fault %s: its text is found %d times in %s, want once: mend "+
					"parity/mutants/faults/%[1]s.txt\n%[4]s",
				f.Name, n, e.File, e.Text,
			)
		}
		contents[e.File] = strings.Replace(content, e.Text, e.Replacement, 1)
	}
	return contents, nil
}
