package generate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"lockstep/internal/fileio"
)

// MaxRoutes is how many routes a seed has: as many as file names sort well.
const MaxRoutes = 100_000

// Options say which routes are written.
type Options struct {
	NumRoutes int
	Seed      uint64

	// Progress, if not nil, is called after each route with the number of
	// routes that are there.
	Progress func(done int)
}

// FileName is the name of a route's file. It differs from the names of the
// challenge's routes, so that the two are never mixed up.
func FileName(index int) string { return fmt.Sprintf("g%05d.csv", index) }

// Write writes routes 0 to NumRoutes-1 of a seed into a folder, which it makes if
// needed. Each file appears whole or not at all, and one that is there already
// with the same bytes is left as it is, so that an interrupted call can be
// repeated. A file of that name with other bytes is an error.
func Write(ctx context.Context, dir string, opts Options) error {
	if opts.NumRoutes < 1 || opts.NumRoutes > MaxRoutes {
		return fmt.Errorf("%d routes: give a number from 1 to %d", opts.NumRoutes, MaxRoutes)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for i := range opts.NumRoutes {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := writeNew(filepath.Join(dir, FileName(i)), Route(opts.Seed, i)); err != nil {
			return err
		}
		if opts.Progress != nil {
			opts.Progress(i + 1)
		}
	}
	return nil
}

// writeNew writes a file that must not be there with other bytes.
func writeNew(path string, data []byte) error {
	old, err := os.ReadFile(path)
	if err == nil {
		if bytes.Equal(old, data) {
			return nil
		}
		return fmt.Errorf(
			"%s: there already, with other bytes (of another seed?): give a new folder", path)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fileio.WriteFile(path, data)
}
