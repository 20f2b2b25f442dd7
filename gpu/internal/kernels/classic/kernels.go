// Package classic holds the CUDA sources of Gymnasium's classic control
// environments. classic.cu is the one that is compiled, by nvcc for a GPU and, with
// the shim of package kernels, by g++ for the CPU.
package classic

import (
	"embed"
	"io/fs"
	"path"
	"testing/fstest"

	"lockstep/gpu/internal/kernels"
)

// Sources are the files of this folder that make the kernels.
//
//go:embed *.cu *.cuh *.h
var Sources embed.FS

// OnCPU are the files with the shim that makes a program of them.
func OnCPU() (fs.FS, error) { return join(Sources) }

// join adds the shim to sources.
func join(sources fs.FS) (fs.FS, error) {
	all := fstest.MapFS{}
	for _, part := range []struct {
		files  fs.FS
		folder string
	}{{sources, "."}, {kernels.Sources, "cpu"}} {
		entries, err := fs.ReadDir(part.files, part.folder)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if e.IsDir() {
				continue
			}
			name := path.Join(part.folder, e.Name())
			data, err := fs.ReadFile(part.files, name)
			if err != nil {
				return nil, err
			}
			all[name] = &fstest.MapFile{Data: data, Mode: 0o444}
		}
	}
	return all, nil
}
