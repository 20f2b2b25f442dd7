//go:build !linux

package routecache

import "testing"

func limited(t *testing.T, _ func(dir string)) {
	t.Skip("a small file system is mounted on Linux only: the full disk is not tested")
}

func coarse(t *testing.T) (string, func(string)) {
	t.Skip("a file system with coarse time stamps is mounted on Linux only")
	return "", nil
}
