//go:build !cuda

package cuda

import (
	"errors"

	"lockstep/gpu/driver"
)

// Built tells whether this program has the GPU in it.
const Built = false

var errNotBuilt = errors.New(
	"this program was built without CUDA: build it with `make build-cuda`, or use another engine",
)

// Available is why there is no GPU to be used, or nil.
func Available() error { return errNotBuilt }

// Open opens a GPU.
func Open(Options) (driver.Device, error) { return nil, errNotBuilt }
