package simtest

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// OnDisk is what lies in a folder: names, sorts, times and contents.
func OnDisk(t testing.TB, dir string) map[string]string {
	t.Helper()
	there := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		there[path] = fmt.Sprint(info.Mode(), " ")
		if info.Mode().IsRegular() {
			text, err := os.ReadFile(path)
			there[path] += fmt.Sprintf("%v %q", info.ModTime(), text)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return there
}
