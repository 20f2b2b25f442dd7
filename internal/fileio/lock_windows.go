package fileio

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

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

// rename waits a while for those who have the target open: Windows replaces no file that is, and
// says either.
func rename(from, to string) error {
	err := os.Rename(from, to)
	busy := func() bool {
		return errors.Is(err, windows.ERROR_SHARING_VIOLATION) ||
			errors.Is(err, windows.ERROR_ACCESS_DENIED)
	}
	for end := time.Now().Add(patience / 5); busy() && time.Now().Before(end); {
		time.Sleep(patience / 500)
		err = os.Rename(from, to)
	}
	return err
}
