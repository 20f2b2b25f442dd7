package engines

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestImports: implementations do not import one another, so that no fault can hide in
// what they have in common. Only an engine that says so rests on another. Their tests may.
func TestImports(t *testing.T) {
	var folders []string
	rests := map[string]string{}
	for _, e := range Checked() { // the compiled ones are part of gpu
		folders = append(folders, e.Folder)
		rests[e.Folder] = e.Rests
	}
	slices.Sort(folders)
	folders = slices.Compact(folders)
	// The folder that a path is in; of two, one in the other, the inner.
	of := func(path string) (in string) {
		for _, folder := range folders {
			if len(folder) > len(in) && strings.HasPrefix(path+"/", folder+"/") {
				in = folder
			}
		}
		return in
	}
	files := 0
	for _, folder := range folders {
		err := filepath.WalkDir(
			filepath.Join("..", folder),
			func(path string, d fs.DirEntry, err error) error {
				if err != nil || filepath.Ext(path) != ".go" ||
					strings.HasSuffix(path, "_test.go") {
					return err
				}
				if of(
					filepath.ToSlash(strings.TrimPrefix(path, ".."+string(filepath.Separator))),
				) != folder {
					return nil // of an engine whose folder lies in this one
				}
				files++
				parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
				if err != nil {
					return err
				}
				for _, spec := range parsed.Imports {
					name, err := strconv.Unquote(spec.Path.Value)
					if err != nil {
						return err
					}
					other := of(strings.TrimPrefix(name, "lockstep/"))
					if other != "" && other != folder && other != rests[folder] {
						t.Errorf("%s imports %s, another implementation", path, name)
					}
				}
				return nil
			},
		)
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(folders) < 4 || files < 20 {
		t.Errorf("%d files in %q were looked at", files, folders)
	}
}
