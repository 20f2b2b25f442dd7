package mutants

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"lockstep/internal/fileio"
	"lockstep/parity/verdict"
)

// A ledger is a file with the verdicts of a run, which thus goes on where it was ended. It has the
// verdict of each fault that was tried, and of each test that was run without a fault and found
// nothing, as it should. Once a source of the module has changed it begins anew.
type ledger struct {
	path    string                    // empty keeps nothing
	Sources string                    `json:"sources_sha256"` // of the module
	Known   map[string]verdict.Mutant `json:"known"`          // by the fault's or test's name
}

// openLedger opens the ledger of a module, empty without a path.
func openLedger(path, root string) (*ledger, error) {
	l := &ledger{path: path, Known: map[string]verdict.Mutant{}}
	if path == "" {
		return l, nil
	}
	sources, err := hashSources(root)
	if err != nil {
		return nil, err
	}
	text, err := fileio.ReadFile(path, fileio.Record)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if json.Unmarshal(text, l) != nil || l.Sources != sources || l.Known == nil {
		l.Sources, l.Known = sources, map[string]verdict.Mutant{}
	}
	return l, l.write()
}

// add keeps a verdict, unless there is none because the fault could not be tried.
func (l *ledger) add(m verdict.Mutant) error {
	if l.path == "" || m.Error != "" {
		return nil
	}
	l.Known[m.Name] = m
	return l.write()
}

func (l *ledger) write() error {
	return fileio.Write(l.path, func(w io.Writer) error { return json.NewEncoder(w).Encode(l) })
}

// sourceFiles are the endings of what verdicts depend on.
var sourceFiles = []string{
	".go", ".s", ".c", ".h", ".cu", ".cuh", ".mod", ".py", ".txt", ".json", ".npz", ".onnx", ".csv",
}

// hashSources is the hash of a module as it is.
func hashSources(root string) (string, error) {
	all := sha256.New()
	module := os.DirFS(root)
	err := fs.WalkDir(module, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == "build" || len(name) > 1 && strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case !d.Type().IsRegular() || !slices.Contains(sourceFiles, path.Ext(name)):
			return nil
		}
		data, err := fs.ReadFile(module, name)
		sum := sha256.Sum256(data)
		all.Write(append(sum[:], name...))
		return err
	})
	return hex.EncodeToString(all.Sum(nil)), err
}
