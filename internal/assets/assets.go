// Package assets finds the official model and the routes, which belong to others
// and are therefore not part of this repository.
package assets

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"lockstep/internal/fileio"
)

// Names of the assets inside an assets folder.
const (
	Model          = "tinyphysics.onnx"
	Routes         = "routes"
	PublishedCosts = "published_costs.csv"
)

// Folders lists where assets are looked for: $LOCKSTEP_ASSETS, which if set is
// the only place; else ./assets, assets at the root of the Go module that the
// working folder is in, if it is in one, so that tests find them from any package,
// and the user's cache folder.
func Folders() []string {
	if dir := os.Getenv("LOCKSTEP_ASSETS"); dir != "" {
		return []string{dir}
	}
	var folders []string
	if dir, err := os.Getwd(); err == nil {
		folders = append(folders, filepath.Join(dir, "assets"))
		if root := moduleRoot(dir); root != "" && root != dir {
			folders = append(folders, filepath.Join(root, "assets"))
		}
	}
	return append(folders, fileio.CacheDirs(cacheName)...)
}

// moduleRoot is the nearest folder above with a go.mod, or empty.
func moduleRoot(dir string) string {
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return ""
		}
		dir = parent
	}
}

// cacheName is the cache folder's for assets.
const cacheName = "assets"

// CacheFolder is where downloaded assets are put for one user.
func CacheFolder() (string, error) {
	return fileio.CacheDir(cacheName)
}

// Find returns the path of an asset. An error says how to get it.
func Find(name string) (string, error) {
	for _, dir := range Folders() {
		path := filepath.Join(dir, name)
		_, err := os.Stat(path)
		if err == nil {
			return path, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	if dir := os.Getenv("LOCKSTEP_ASSETS"); dir != "" {
		return "", fmt.Errorf(
			"no %s in %s: set LOCKSTEP_ASSETS to a folder that holds it, or to none", name, dir)
	}
	return "", fmt.Errorf("no %s found: %s", name, hint(name))
}

func hint(name string) string {
	switch name {
	case Model:
		return "run `lockstep fetch model`, or set LOCKSTEP_ASSETS to a folder that holds it"
	case Routes:
		return "set LOCKSTEP_ASSETS to a folder with a folder routes/ of the challenge's CSV files"
	}
	return "set LOCKSTEP_ASSETS to a folder that holds it"
}
