//go:build !windows

package fileio

// busy: an open file can be replaced here, and who has it open goes on with what it was.
func busy(error) bool { return false }
