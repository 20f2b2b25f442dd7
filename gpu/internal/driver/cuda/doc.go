// Package cuda is the GPU as a driver.Device, by CUDA's driver API through
// gorgonia.org/cu, in programs built with the tag cuda (`make build-cuda`). In
// other programs Open says how to get one.
//
// The tagged program is linked with functions that look for libcuda.so.1 when they
// are first called (see internal/stub), not with the library: it starts where
// there is no driver, and everything but the GPU works there. Linked with -lcuda
// alone, as gorgonia.org/cu does by itself, it would not start, and end before
// main where there is no GPU.
package cuda

// Options say which kernels the device gets.
type Options struct {
	// PTX is compiled by the driver for a GPU that has no cubin.
	PTX func() (string, error)

	// Cubins is machine code, by the major compute capability that runs it.
	Cubins map[int]func() (string, error)

	// Kernels is the hash of the sources of both.
	Kernels string

	// Stream, if not nil, is a CUstream of the caller's, 0 being the default one, in the
	// GPU's primary context, which others such as PyTorch share: all commands go there,
	// in order with the caller's own, addresses of the caller's memory are the device's,
	// and context and stream are left as they are. Without it the
	// device has a context and a stream of its own, and no error of its touches
	// anybody else's.
	Stream *uintptr
}

// KernelsVariable names the environment variable that chooses the kernels: "ptx" has
// the driver compile the PTX whatever the GPU is, "" and "cubin" take machine code
// where there is any, and anything else is the path of a cubin or of PTX, so that
// several can be compared by one program.
const KernelsVariable = "LOCKSTEP_KERNELS"

// DeviceVariable names the environment variable that holds the GPU's number,
// from 0, among those that CUDA_VISIBLE_DEVICES leaves.
const DeviceVariable = "LOCKSTEP_DEVICE"
