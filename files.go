package lockstep

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"lockstep/internal/fileio"
)

// RouteFiles lists the CSV files of a folder in the order of their names, at
// most limit of them unless limit is negative; a path to a file is itself.
func RouteFiles(path string, limit int) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		if !e.IsDir() && strings.EqualFold(filepath.Ext(e.Name()), ".csv") {
			files = append(files, filepath.Join(path, e.Name()))
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: no .csv file in this folder", path)
	}
	if limit >= 0 && limit < len(files) {
		files = files[:limit]
	}
	return files, nil
}

// Load reads the route in a file.
func (l Loader) Load(path string) (*Route, error) {
	f, err := fileio.Open(path, fileio.Route)
	if err != nil {
		var e *os.PathError
		if errors.As(err, &e) {
			err = e.Err
		}
		return nil, &RouteError{File: path, Err: err}
	}
	defer f.Close()
	return l.Read(f, path)
}
