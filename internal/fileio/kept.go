package fileio

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Programs that were compiled are kept under the name KEY-SHA256, with the hash of their content.
// What is not so, or what others could have written, is not executed but made anew.

// Trusted is nil if nobody but this user and root can have written what is at a path, or says why
// not. The folder above may be written to by the user's group.
func Trusted(path string) error {
	if err := trusted(path, 0o022); err != nil {
		return err
	}
	return trusted(filepath.Dir(path), 0o002)
}

func trusted(path string, others fs.FileMode) error {
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return err
	case !info.IsDir() && !info.Mode().IsRegular():
		return fmt.Errorf("%s is neither a file nor a folder: %v", path, info.Mode().Type())
	case !ours(info):
		return fmt.Errorf("%s belongs to another user, who could have changed it", path)
	case info.Mode().Perm()&others != 0:
		return fmt.Errorf(
			"%s has mode %v, so that others can write to it", path, info.Mode().Perm())
	}
	return nil
}

// Kept is the path of the program that is kept under a key in one of the folders, or empty. A
// program whose content has changed since is none.
func Kept(folders []string, key string) string {
	for _, folder := range folders {
		if Trusted(folder) != nil {
			continue
		}
		found, _ := Glob(folder, key+"-*")
		for _, path := range found {
			if sound(path) {
				now := time.Now()
				os.Chtimes(path, now, now) // it is in use, and not to be removed soon
				return path
			}
		}
	}
	return ""
}

// sound reports whether a program's name has its content's hash, and is to be trusted.
func sound(path string) bool {
	_, want, _ := strings.Cut(filepath.Base(path), "-")
	sum, err := SHA256(path)
	return err == nil && sum == want && trusted(path, 0o022) == nil
}

// Keep puts a program that lies in the folder under a key, in place of those that are not sound,
// and returns its path.
func Keep(folder, key, from string) (string, error) {
	sum, err := SHA256(from)
	if err != nil {
		return "", err
	}
	if err := os.Chmod(from, 0o755); err != nil {
		return "", err
	}
	found, _ := Glob(folder, key+"-*")
	for _, path := range found {
		if !sound(path) {
			os.Remove(path)
		}
	}
	path := filepath.Join(folder, key+"-"+sum)
	return path, os.Rename(from, path)
}

// ProgramDir makes the folder in which programs of a kind are kept: CacheDir's, or, where others
// can write to that, one that is this user's alone.
func ProgramDir(kind string) (string, error) {
	dir, err := CacheDir(kind)
	if err == nil {
		if err = os.MkdirAll(dir, 0o755); err == nil {
			err = Trusted(dir)
		}
	}
	if err == nil {
		return dir, nil
	}
	top, other := private(temporary())
	if other != nil {
		return "", errors.Join(err, other)
	}
	dir = filepath.Join(top, "lockstep", kind)
	return dir, os.MkdirAll(dir, 0o700)
}
