package fetch

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"lockstep/internal/fileio"
)

// Archives are zip files. Each file of one has a CRC, which is checked.

// Extract copies one file of an archive to a path where nothing is yet.
func Extract(archive, name, to string) error {
	z, err := zip.OpenReader(archive)
	if err != nil {
		return fmt.Errorf("%s: %w", archive, err)
	}
	defer z.Close()
	for _, f := range z.File {
		if f.Name == name {
			return extract(f, to)
		}
	}
	return fmt.Errorf("%s: there is no %s in it", archive, name)
}

// unpacking is the pattern of folders that routes are unpacked into.
const unpacking = ".routes-*"

// errDamaged marks an archive whose content cannot be used, and errForeign one of others.
var (
	errDamaged = errors.New("the archive is damaged: run the same command again")
	errForeign = errors.New("these are not the challenge's routes")
)

// unpackedLimit is more bytes than all routes have.
const unpackedLimit = 8 << 30

// damaged marks an error as damage of the archive, which loading it again may mend. Errors
// of the file system stay as they are: the archive is not at fault.
func damaged(err error) error {
	if here := (*os.PathError)(nil); errors.As(err, &here) {
		return err
	}
	return fmt.Errorf("%w: %w", err, errDamaged)
}

// unpack writes the CSV files of an archive to a folder that appears whole or not at
// all. Some of them must be there and have a known hash. The archive's own folders are left out, as
// the Python program does.
func unpack(ctx context.Context, archive, target string, sums map[string]string) error {
	z, err := zip.OpenReader(archive)
	if err != nil {
		return fmt.Errorf("%s: %w", archive, damaged(err))
	}
	defer z.Close()
	var size uint64
	for _, f := range z.File {
		if size += min(f.UncompressedSize64, unpackedLimit+1); size > unpackedLimit {
			return fmt.Errorf(
				"%s: more than %d bytes are in it: %w", archive, int64(unpackedLimit), errForeign,
			)
		}
	}
	if err := room(filepath.Dir(target), int64(size)); err != nil {
		return err
	}
	work, err := os.MkdirTemp(filepath.Dir(target), unpacking)
	if err != nil {
		return err
	}
	defer os.RemoveAll(work) // nothing is left of it once it is renamed
	seen := map[string]bool{}
	for _, f := range z.File {
		if err := ctx.Err(); err != nil {
			return err
		}
		name := path.Base(strings.ReplaceAll(f.Name, `\`, "/"))
		if f.FileInfo().IsDir() || !strings.HasSuffix(name, ".csv") ||
			strings.HasPrefix(name, ".") {
			continue
		}
		if seen[name] {
			return fmt.Errorf("%s: two files are named %q: %w", archive, name, errForeign)
		}
		seen[name] = true
		if err := extract(f, filepath.Join(work, name)); err != nil {
			return fmt.Errorf("%s: %s: %w", archive, f.Name, damaged(err))
		}
	}
	if len(seen) == 0 {
		return fmt.Errorf("%s holds no routes: %w", archive, errDamaged)
	}
	for name, want := range sums {
		switch sum, err := fileio.SHA256(filepath.Join(work, name)); {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("%s: %w: %s is not among them", archive, errForeign, name)
		case err != nil:
			return err
		case sum != want:
			return fmt.Errorf(
				"%s: %w: %s has SHA-256 %s, want %s", archive, errForeign, name, sum, want,
			)
		}
	}
	if err := os.Chmod(work, 0o755); err != nil {
		return err
	}
	syncAll() // 20,000 files, one by one, would take minutes
	if err := os.Rename(work, target); err != nil {
		return err
	}
	return fileio.SyncDir(filepath.Dir(target))
}

func extract(f *zip.File, to string) error {
	in, err := f.Open()
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in) // archive/zip gives as many bytes as the file says, or an error
	if err = errors.Join(err, out.Close()); err != nil {
		os.Remove(to) // half a file is none, and would be in the way of the next
	}
	return err
}
