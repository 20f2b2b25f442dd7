//go:build !unix && !windows

package fileio

import "os"

// lock does not lock here: two processes in one folder are the user's to avoid.
func lock(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
}
