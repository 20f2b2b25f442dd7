//go:build !cuda

package cuda

import (
	"errors"

	"lockstep/gpu/internal/driver"
)

// Built tells whether this program has the GPU in it.
const Built = false

var errNotBuilt = errors.New(
	"this program was built without CUDA: in its source `make build-cuda` builds it with CUDA, " +
		"`make wheel-cuda` the Python package; or use another engine",
)

// Available is why there is no GPU to be used, or nil.
func Available() error { return errNotBuilt }

// Open opens a GPU.
func Open(Options) (driver.Device, error) { return nil, errNotBuilt }
