package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// An output is a file that a flag asks for.
type output struct{ flag, path string }

// checkOutputs finds before the work begins what would fail after it: a folder that
// is not there or cannot be written to, two outputs in one file, an output in place of
// an input. Outputs that are not asked for have no path.
func checkOutputs(inputs []string, outputs ...output) error {
	for i, o := range outputs {
		if o.path == "" {
			continue
		}
		if err := checkWritable(o.path); err != nil {
			var at *os.PathError // of what is tried, whose name means nothing to the user
			if errors.As(err, &at) {
				err = at.Err
			}
			return fmt.Errorf("%s %s: %w", o.flag, o.path, err)
		}
		for _, other := range outputs[:i] {
			if samePath(o.path, other.path) {
				return fmt.Errorf("%s and %s: both would be %s", other.flag, o.flag, o.path)
			}
		}
		for _, input := range inputs {
			if samePath(o.path, input) {
				return fmt.Errorf("%s: %s is an input, and would be lost", o.flag, o.path)
			}
		}
	}
	return nil
}

// checkWritable is nil if a file can be written under this name.
func checkWritable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return &os.PathError{Op: "write", Path: path, Err: errors.New("is a folder")}
	case err == nil && !info.Mode().IsRegular(): // a device or a pipe
		return nil
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".tmp-*") // as the file will be written
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// samePath reports whether two paths are of one file, which need not exist.
func samePath(a, b string) bool {
	if a == "" || b == "" {
		return false
	}
	x, err := os.Stat(a)
	y, err2 := os.Stat(b)
	if err == nil && err2 == nil {
		return x.Mode().IsRegular() && os.SameFile(x, y)
	}
	if err == nil || err2 == nil {
		return false
	}
	p, err := filepath.Abs(a)
	q, err2 := filepath.Abs(b)
	return err == nil && err2 == nil && p == q
}
