//go:build unix

package fileio

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// lock locks a file until it is closed, or the process ends.
func lock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s: another process is at work here", filepath.Dir(path))
		}
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// owned reports whether a file is this user's.
func owned(info fs.FileInfo) bool { return belongs(info, os.Getuid()) }

// ours reports whether a file is this user's, or root's, who could change all files anyway.
func ours(info fs.FileInfo) bool { return belongs(info, os.Getuid(), 0) }

func belongs(info fs.FileInfo, users ...int) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && slices.Contains(users, int(stat.Uid))
}
