// Package defaults holds a network and twenty routes of the project's own, so
// that everything runs where the challenge's model and data are not at hand.
//
// The network has the challenge's architecture and was trained on a simulated
// car; golden/default_model/README.md says how, and what it is good for. The routes
// are the first of a seed of package generate. Costs computed with either are
// not comparable with the challenge's.
package defaults

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"lockstep/internal/fileio"
)

// Names of what Write writes.
const (
	ModelName  = "tinyphysics-default.onnx"
	RoutesName = "routes"
)

// ModelSHA256 is the hash of the network's file.
const ModelSHA256 = "a2284a65cd8900e3b5ecda5b8b1d7f17cc112f90b661da3366e3a46730e11b8a"

// The routes are those that package generate makes from this seed.
const (
	RouteSeed = 4
	NumRoutes = 20
)

//go:embed tinyphysics-default.onnx
var model string

//go:embed routes/*.csv
var files embed.FS

// Model returns a copy of the network's ONNX file.
func Model() []byte { return []byte(model) }

// Routes is the folder of the routes, g00000.csv and following.
func Routes() fs.FS {
	sub, err := fs.Sub(files, RoutesName)
	if err != nil {
		panic(err) // the name is not a valid path
	}
	return sub
}

// Write writes the network and the folder of the routes into a folder, which it
// makes if needed, and returns the paths of both. Each file appears whole or not
// at all; one that is there already with the same bytes is left as it is, one
// with other bytes is replaced. A file in the folder of the routes that is not
// one of them is an error, since it would be taken for one.
func Write(dir string) (modelPath, routesPath string, err error) {
	modelPath, routesPath = filepath.Join(dir, ModelName), filepath.Join(dir, RoutesName)
	if err := os.MkdirAll(routesPath, 0o755); err != nil {
		return "", "", err
	}
	entries, err := os.ReadDir(routesPath)
	if err != nil {
		return "", "", err
	}
	for _, e := range entries {
		if _, err := fs.Stat(Routes(), e.Name()); err != nil &&
			strings.EqualFold(filepath.Ext(e.Name()), ".csv") {
			return "", "", fmt.Errorf(
				"%s: not one of the default routes: move it away, or give another folder",
				filepath.Join(routesPath, e.Name()),
			)
		}
	}
	if err := replace(modelPath, []byte(model)); err != nil {
		return "", "", err
	}
	names, err := fs.Glob(Routes(), "*.csv")
	if err != nil {
		return "", "", err
	}
	for _, name := range names {
		data, err := fs.ReadFile(Routes(), name)
		if err != nil {
			return "", "", err
		}
		if err := replace(filepath.Join(routesPath, name), data); err != nil {
			return "", "", err
		}
	}
	return modelPath, routesPath, nil
}

// Keep writes both into the user's cache folder, and returns their paths as Write does.
func Keep() (modelPath, routesPath string, err error) {
	dir, err := fileio.CacheDir("defaults")
	if err == nil {
		modelPath, routesPath, err = Write(dir)
	}
	if at := (*fs.PathError)(nil); errors.As(err, &at) {
		err = fmt.Errorf(
			"%w: set HOME, or on Linux XDG_CACHE_HOME, to a folder that can be written to", err,
		)
	}
	if err != nil {
		return "", "", fmt.Errorf("the project's own network and routes: %w", err)
	}
	return modelPath, routesPath, nil
}

// replace makes a file hold the given bytes.
func replace(path string, data []byte) error {
	if old, err := os.ReadFile(path); err == nil && bytes.Equal(old, data) {
		return nil
	}
	return fileio.WriteFile(path, data)
}
