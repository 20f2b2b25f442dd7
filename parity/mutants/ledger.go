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

	"lockstep/parity/verdict"
)

// A ledger is a file of what became of faults, so that a run that was ended goes on where
// it was: a line with the hash of the module's sources, then one for each fault that was
// tried and for all without a fault in which nothing was found. Of other sources it
// begins anew.
type ledger struct {
	file  *os.File // nil keeps nothing
	known map[string]verdict.Mutant
}

// openLedger opens the ledger of a module, empty without a path.
func openLedger(name, root string) (*ledger, error) {
	l := &ledger{known: map[string]verdict.Mutant{}}
	if name == "" {
		return l, nil
	}
	sources, err := hashSources(root)
	if err != nil {
		return nil, err
	}
	if l.file, err = os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o666); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(l.file)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	whole := 0 // bytes of lines that are not cut off
	for line := range strings.Lines(string(text)) {
		var m verdict.Mutant
		if whole == 0 && line != sources || whole > 0 && json.Unmarshal([]byte(line), &m) != nil {
			break
		}
		whole += len(line)
		l.known[m.Name] = m
	}
	if err := l.file.Truncate(int64(whole)); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	_, err = l.file.Seek(int64(whole), io.SeekStart)
	if whole == 0 && err == nil {
		_, err = l.file.WriteString(sources)
	}
	return l, err
}

// add keeps what became of one, unless it could not be tried.
func (l *ledger) add(m verdict.Mutant) error {
	if l.file == nil || m.Error != "" {
		return nil
	}
	line, err := json.Marshal(m)
	if err != nil {
		return err
	}
	_, err = l.file.Write(append(line, '\n'))
	return err
}

// Close closes the file.
func (l *ledger) Close() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}

// sourceFiles are the endings of what verdicts depend on.
var sourceFiles = []string{".go", ".s", ".c", ".h", ".cu", ".cuh", ".mod", ".py", ".txt", ".json", ".npz", ".onnx", ".csv"}

// hashSources is the line that begins the ledger of a module as it is.
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
	return hex.EncodeToString(all.Sum(nil)) + "\n", err
}
