//go:build !unix

package routecache

import "os"

func mapFile(path string) ([]byte, error) { return os.ReadFile(path) }
