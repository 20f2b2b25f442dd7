package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"lockstep/internal/assets"
	"lockstep/internal/fileio"
)

// A namedFile is a file, and the flag or argument that names it.
type namedFile struct{ flag, path string }

// checkFiles finds before the work begins what would fail after it: an output in a
// folder that is not there or cannot be written to, two outputs in one file, an output
// in place of an input. Which files those are, the fields of the commands say: their
// tag io is in or out.
func checkFiles(command *kong.Context) error {
	files := map[string][]namedFile{}
	values := slices.Clone(command.Selected().Positional)
	for _, flag := range command.Flags() {
		values = append(values, flag.Value)
	}
	for _, v := range values {
		file := namedFile{flag: v.Name}
		if v.Flag != nil {
			file.flag = "--" + v.Name
		}
		file.path, _ = v.Target.Interface().(string)
		if name := map[string]string{"model_path": assets.Model,
			"data_path": assets.Routes}[v.Name]; name != "" &&
			file.path == "" {
			file.path, _ = assets.Find(name)
		}
		if io := v.Tag.Get("io"); file.path != "" {
			files[io] = append(files[io], file)
		}
	}
	for i, o := range files["out"] {
		if err := fileio.Writable(o.path); err != nil {
			return fmt.Errorf("%s %s: %w", o.flag, o.path, err)
		}
		for _, other := range files["out"][:i] {
			if samePath(o.path, other.path) {
				return fmt.Errorf("%s and %s: both would be %s", other.flag, o.flag, o.path)
			}
		}
		for _, input := range files["in"] {
			if samePath(o.path, input.path) || inFolder(o.path, input.path) {
				return fmt.Errorf(
					"%s: %s is an input (%s), and would be lost", o.flag, o.path, input.flag,
				)
			}
		}
	}
	return nil
}

// inFolder reports whether a file is there that is a route of a folder.
func inFolder(path, folder string) bool {
	_, err := os.Stat(path)
	return err == nil && strings.EqualFold(filepath.Ext(path), ".csv") &&
		samePath(filepath.Dir(path), folder)
}

// samePath reports whether two paths are of one file or folder, which need not exist.
// A device is no file: two may write to it.
func samePath(a, b string) bool {
	x, err := os.Stat(a)
	y, err2 := os.Stat(b)
	if err != nil || err2 != nil {
		p, _ := filepath.Abs(a)
		q, _ := filepath.Abs(b)
		return err != nil && err2 != nil && p == q
	}
	return (x.Mode().IsRegular() || x.IsDir()) && os.SameFile(x, y)
}
