//go:build !unix

package routecache

import (
	"os"
	"time"
)

func stat(path string) (state, error) {
	info, err := os.Stat(path)
	if err != nil {
		return state{}, err
	}
	return state{size: uint64(info.Size()), modified: uint64(info.ModTime().UnixNano())}, nil
}

func (s state) age() time.Duration { return time.Since(time.Unix(0, int64(s.modified))) }
