//go:build !windows

package fileio

import "os"

// rename replaces a file that is open, too: who has it open goes on with what it was.
func rename(from, to string) error { return os.Rename(from, to) }
