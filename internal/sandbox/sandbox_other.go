//go:build !linux

package sandbox

import (
	"fmt"
	"runtime"
)

// Available says that programs cannot be shut in here.
func Available() error {
	return fmt.Errorf("neither writing nor the network can be denied on %s: Linux has what does so",
		runtime.GOOS)
}

// Start starts nothing.
func Start(func() error) error { return Available() }
