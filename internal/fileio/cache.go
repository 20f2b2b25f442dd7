package fileio

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
)

// CacheDir is where to write what is kept for this user and may be lost: lockstep/NAMES in
// the user's cache folder. Where there is no home to find that in, or nothing can be written
// to it, it is in the folder for temporary files, in a folder that nobody else can write to.
func CacheDir(names ...string) (string, error) {
	cache, err := os.UserCacheDir()
	elsewhere := os.Getenv("XDG_CACHE_HOME") == "" && runtime.GOOS != "windows"
	if err != nil && !elsewhere {
		return "", err
	}
	if elsewhere && (err != nil || !writable(filepath.Join(cache, "lockstep"))) {
		if cache, err = private(temporary()); err != nil {
			return "", fmt.Errorf(
				"no cache folder: %w: set HOME, or XDG_CACHE_HOME to a folder", err)
		}
	}
	return filepath.Join(append([]string{cache, "lockstep"}, names...)...), nil
}

// CacheDirs are the folders in which to look for what was kept, the first first: that in the
// user's cache folder, though nothing may be written to it any more, and CacheDir's.
func CacheDirs(names ...string) (dirs []string) {
	if cache, err := os.UserCacheDir(); err == nil {
		cache = filepath.Join(cache, "lockstep")
		// it may not be looked into, or be no folder
		if _, err := os.Stat(cache + "/."); err == nil {
			dirs = append(dirs, filepath.Join(append([]string{cache}, names...)...))
		}
	}
	if dir, err := CacheDir(names...); err == nil && !slices.Contains(dirs, dir) {
		dirs = append(dirs, dir)
	}
	return dirs
}

// temporary is the folder for temporary files that is this user's alone.
func temporary() string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("lockstep-%d", os.Getuid()))
}

// private makes a folder that is this user's alone, or refuses what is there.
func private(dir string) (string, error) {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	info, err := os.Lstat(dir)
	if err == nil && (info.Mode() != fs.ModeDir|0o700 || !owned(info)) {
		err = fmt.Errorf("%s is %v, want a folder of this user's with mode 0700", dir, info.Mode())
	}
	return dir, err
}

// writable reports whether files can be made in a folder, which is made if it is not there.
// What has been found of a folder is kept: it is asked for often.
func writable(dir string) bool {
	if known, ok := asked.Load(dir); ok {
		return known.(bool)
	}
	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		var file *os.File
		if file, err = os.CreateTemp(dir, ".writable-*"); err == nil {
			err = errors.Join(file.Close(), os.Remove(file.Name()))
		}
	}
	asked.Store(dir, err == nil)
	return err == nil
}

var asked sync.Map
