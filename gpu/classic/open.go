package classic

import (
	"fmt"

	"lockstep/gpu/internal/driver"
	"lockstep/gpu/internal/driver/cuda"
	"lockstep/gpu/internal/driver/emulated"
	"lockstep/gpu/internal/kernels/classic"
	module "lockstep/gpu/internal/module/classic"
	"lockstep/gpu/internal/translate"
)

// OnGPU is the engine on the GPU that gpu.OpenDevice takes.
func OnGPU() (OnDevice, error) { return onGPU(nil) }

// OnGPUOf is OnGPU for a caller who works there, too: see gpu.OpenDeviceOn.
func OnGPUOf(stream uintptr) (OnDevice, error) { return onGPU(&stream) }

func onGPU(stream *uintptr) (OnDevice, error) {
	if err := cuda.Available(); err != nil {
		return OnDevice{}, err
	}
	return OnDevice{Kind: "gpu", Open: func() (driver.Device, error) {
		return cuda.Open(cuda.Options{
			PTX:     module.PTX,
			Kernels: module.Sources(),
			Cubins:  map[int]func() (string, error){9: module.Cubin},
			Stream:  stream,
		})
	}}, nil
}

// Translated is the engine that executes the shipped kernels on the CPU, by so many
// workers: "ptx", or "sass", the machine code for compute capability 9.
func Translated(name string, workers int) (OnDevice, error) {
	if err := emulated.Available(); err != nil {
		return OnDevice{}, err
	}
	kernels, ok := translate.Shipped(module.Sources(), module.PTX, module.Cubin,
		module.Listing)[name]
	if !ok {
		return OnDevice{}, fmt.Errorf("no kernels %q are shipped, want ptx or sass", name)
	}
	return OnDevice{Kind: name, Open: func() (driver.Device, error) {
		return kernels.Open(name, emulated.Options{Processors: workers})
	}}, nil
}

// OnCPU is the engine whose kernels are executed on the CPU by so many workers.
func OnCPU(workers int) (OnDevice, error) {
	if err := emulated.Available(); err != nil {
		return OnDevice{}, err
	}
	files, err := classic.OnCPU()
	if err != nil {
		return OnDevice{}, err
	}
	return OnDevice{Kind: "emulated", Open: func() (driver.Device, error) {
		return emulated.Open(emulated.Options{Sources: files, Processors: workers})
	}}, nil
}
