//go:build unix

package fetch

import "golang.org/x/sys/unix"

// freeSpace is how many bytes a user may write to a folder's file system.
func freeSpace(dir string) (uint64, bool) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, false
	}
	return s.Bavail * uint64(s.Bsize), true
}

// syncAll puts on the disk what was written.
func syncAll() { unix.Sync() }
