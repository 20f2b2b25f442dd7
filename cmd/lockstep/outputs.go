package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/alecthomas/kong"

	"lockstep/internal/assets"
)

// A namedFile is a file, and the flag or argument that names it.
type namedFile struct{ flag, path string }

// checkFiles finds before the work begins what would fail after it: an output in a
// folder that is not there or cannot be written to, two outputs in one file, an output
// in place of an input. Which files those are, the fields of the commands say: their
// tag io is in or out.
func checkFiles(command *kong.Context) error {
	var inputs, outputs []namedFile
	add := func(name, io string, value any) {
		path, ok := value.(string)
		switch {
		case !ok || path == "":
		case io == "out":
			outputs = append(outputs, namedFile{name, path})
		case io == "in":
			inputs = append(inputs, namedFile{name, path})
		}
	}
	for _, flag := range command.Flags() {
		value := command.FlagValue(flag)
		for name, asset := range map[string]string{"model_path": assets.Model, "data_path": assets.Routes} {
			if flag.Name == name && value == "" {
				value, _ = assets.Find(asset)
			}
		}
		add("--"+flag.Name, flag.Tag.Get("io"), value)
	}
	for _, p := range command.Path {
		if p.Positional != nil {
			add(p.Positional.Name, p.Positional.Tag.Get("io"), p.Positional.Target.Interface())
		}
	}
	for i, o := range outputs {
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
			if samePath(o.path, input.path) || inFolder(o.path, input.path) {
				return fmt.Errorf("%s: %s is an input (%s), and would be lost", o.flag, o.path, input.flag)
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
		return errors.New("is a folder")
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

// inFolder reports whether a file is there that is a route of a folder.
func inFolder(path, folder string) bool {
	_, err := os.Stat(path)
	return err == nil && filepath.Ext(path) == ".csv" && samePath(filepath.Dir(path), folder)
}

// samePath reports whether two paths are of one file or folder, which need not exist.
// A device is no file: two may write to it.
func samePath(a, b string) bool {
	x, err := os.Stat(a)
	y, err2 := os.Stat(b)
	if err == nil && err2 == nil {
		return (x.Mode().IsRegular() || x.IsDir()) && os.SameFile(x, y)
	}
	if err == nil || err2 == nil {
		return false
	}
	p, err := filepath.Abs(a)
	q, err2 := filepath.Abs(b)
	return err == nil && err2 == nil && p == q
}
