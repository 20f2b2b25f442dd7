// Package driver is what the gpu engine needs of a device: memory, copies, one
// kernel launch. The device is a GPU behind CUDA's driver (build tag cuda), or a
// process that runs the same kernels on the CPU (package emulated).
package driver

import (
	"context"
	"errors"
	"time"
)

// ErrOutOfMemory is Allocate's answer where there is not so much memory. The
// device goes on.
var ErrOutOfMemory = errors.New("out of device memory")

// A Pointer is an address in a device's memory. 0 is no memory.
type Pointer uint64

// A Device runs commands in the order in which they are given; one goroutine at a
// time may give them. Upload, Download, Copy, Launch and Mark may return before
// the device has done them; then their errors come from Synchronize, and the
// slices given must stay alive and unchanged until it returns. After an error
// other than ErrOutOfMemory the device answers nothing else, and must be closed.
type Device interface {
	Info() Info

	// FreeMemory is how many bytes of memory can be allocated.
	FreeMemory() (int64, error)

	// Allocate reserves device memory of undefined content; ErrOutOfMemory if
	// there is not so much.
	Allocate(bytes int64) (Pointer, error)
	Release(Pointer) error

	// HostMemory reserves memory of the host that the device copies fastest.
	HostMemory(bytes int64) ([]byte, error)
	ReleaseHost([]byte) error

	Upload(to Pointer, from []byte) error
	Download(to []byte, from Pointer) error
	Copy(to, from Pointer, bytes int64) error
	Fill(to Pointer, value byte, bytes int64) error

	// Symbol is the address and the size of a variable of the kernels' module.
	Symbol(name string) (Pointer, int64, error)

	// Launch starts a kernel, whose only argument is a struct with these bytes, or
	// the Pointer that they are, with so many blocks of so many threads, and bytes of shared memory
	// for each block. The argument goes with the launch and is no upload.
	Launch(kernel string, blocks, threads, shared int, argument []byte) error

	// Follow has what is given from now on wait for what a stream of the caller's, a
	// CUstream of the same GPU, has been given so far. Precede has what the stream is
	// given from now on wait for what the device has been given so far.
	Follow(stream uintptr) error
	Precede(stream uintptr) error

	// Synchronize waits until the device has done everything, or until ctx ends;
	// then the device is lost.
	Synchronize(ctx context.Context) error

	// Mark notes the time at which the device gets here; Elapsed is the time
	// between two marks, after Synchronize. The next Mark after a Synchronize
	// forgets those before it.
	Mark() (Mark, error)
	Elapsed(from, to Mark) (time.Duration, error)

	Close() error
}

// A Mark is a point in a device's work.
type Mark int

// Info says what a device is.
type Info struct {
	Name            string // as its driver gives it
	Driver          string // version of the driver
	Kernels         string // hash of their sources, see kernelhash.Sources
	Emulated        bool   // the kernels run on the CPU
	Shared          bool   // the device's memory is the caller's, too: see cuda.Options.Stream
	Number          int    // the GPU's, as LOCKSTEP_DEVICE gives it
	Major, Minor    int    // compute capability
	Multiprocessors int
	SharedPerBlock  int   // bytes of shared memory that a block can have
	Memory          int64 // bytes
}
