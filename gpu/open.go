package gpu

import (
	"lockstep/gpu/internal/driver"
	"lockstep/gpu/internal/driver/cuda"
	"lockstep/gpu/internal/module"
)

// A Device executes kernels: a GPU, or the CPU as one. See Config.Open.
type Device = driver.Device

// OpenDevice opens the GPU: that whose number, among those that
// CUDA_VISIBLE_DEVICES leaves, is in LOCKSTEP_DEVICE, otherwise the first. An
// error says in one line what to do.
func OpenDevice() (Device, error) { return OpenDeviceOn(nil) }

// OpenDeviceOn opens the GPU for a caller who works on it, too, as PyTorch does: all
// commands go to a CUstream of the caller's, in the GPU's primary context, in order
// with the caller's own. That context is never reset. Without a stream it is OpenDevice.
func OpenDeviceOn(stream *uintptr) (Device, error) {
	manifest, err := module.ReadManifest()
	if err != nil {
		return nil, err
	}
	return cuda.Open(cuda.Options{
		PTX:     module.PTX,
		Kernels: manifest.Sources,
		Cubins:  map[int]func() (string, error){9: module.Cubin},
		Stream:  stream,
	})
}

// Available is why there is no GPU to be used, or nil. It opens nothing.
func Available() error { return cuda.Available() }
