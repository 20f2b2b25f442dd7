package fileio

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// CacheDir is a folder for what is kept for this user and may be lost: lockstep/NAMES in
// the user's cache folder. Where there is no home to find that in, it is in the folder for
// temporary files, in a folder that nobody else can write to.
func CacheDir(names ...string) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		if homeless := os.Getenv("XDG_CACHE_HOME") == "" && runtime.GOOS != "windows"; !homeless {
			return "", err
		}
		if cache, err = private(filepath.Join(os.TempDir(), fmt.Sprintf("lockstep-%d", os.Getuid()))); err != nil {
			return "", fmt.Errorf("no cache folder: %w: set HOME, or XDG_CACHE_HOME to a folder", err)
		}
	}
	return filepath.Join(append([]string{cache, "lockstep"}, names...)...), nil
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
