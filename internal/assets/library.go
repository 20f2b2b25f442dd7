package assets

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"lockstep/internal/fileio"
)

// A Library is where networks and routes are looked for by what they hold: files of
// networks, files of routes and folders of them. Empty paths are none.
type Library struct{ Models, Routes []string }

// Model is the network of that SHA-256, or empty if it is not here.
func (l *Library) Model(sum string) (string, error) { return holding(l.Models, sum) }

// Route is the route of that name and SHA-256, or empty if it is not here.
func (l *Library) Route(name, sum string) (string, error) {
	var files []string
	for _, path := range l.Routes {
		if path != "" && !strings.EqualFold(filepath.Ext(path), ".csv") {
			path = filepath.Join(path, name+".csv")
		}
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			files = append(files, path)
		}
	}
	return holding(files, sum)
}

// holding is the first of some files with that hash.
func holding(files []string, sum string) (string, error) {
	for _, path := range files {
		if path == "" {
			continue
		}
		got, err := fileio.SHA256(path)
		if err != nil {
			return "", err
		}
		if got == sum {
			return path, nil
		}
	}
	return "", nil
}
