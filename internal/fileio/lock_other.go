//go:build !unix

package fileio

import (
	"io/fs"
	"os"
)

// lock does not lock here: two processes in one folder are the user's to avoid.
func lock(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
}

// owned says what the system does: a user's folder for temporary files is the user's.
func owned(fs.FileInfo) bool { return true }

// ours says the same of any file.
func ours(fs.FileInfo) bool { return true }
