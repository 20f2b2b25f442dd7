//go:build unix

package routecache

import (
	"time"

	"golang.org/x/sys/unix"
)

// stat asks for a file's state.
func stat(path string) (state, error) {
	var s unix.Stat_t
	if err := unix.Stat(path, &s); err != nil {
		return state{}, err
	}
	return state{size: uint64(s.Size), modified: uint64(unix.TimespecToNsec(s.Mtim)), changed: uint64(unix.TimespecToNsec(s.Ctim)), inode: uint64(s.Ino)}, nil
}

// age is how long ago the file was last changed.
func (s state) age() time.Duration { return time.Since(time.Unix(0, int64(s.changed))) }
