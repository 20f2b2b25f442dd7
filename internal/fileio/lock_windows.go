package fileio

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/windows"
)

// lock locks a file until it is closed, or the process ends. Windows lets nobody read or write
// what is locked, so that this is a byte far behind all that the file holds.
func lock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	at := windows.Overlapped{OffsetHigh: 1 << 30}
	if err := windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, &at); err != nil {
		f.Close()
		if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
			return nil, fmt.Errorf("%s: another process is at work here", filepath.Dir(path))
		}
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// busy reports whether a file could not be replaced because somebody has it open: so it is on
// Windows, which says either.
func busy(err error) bool {
	return errors.Is(err, windows.ERROR_SHARING_VIOLATION) ||
		errors.Is(err, windows.ERROR_ACCESS_DENIED)
}
