package classic

import (
	"lockstep/gpu/classic/module"
	"lockstep/gpu/driver"
	"lockstep/gpu/driver/cuda"
	"lockstep/gpu/driver/emulated"
	"lockstep/gpu/kernels/classic"
)

// OnGPU is the engine on the GPU that gpu.OpenDevice takes.
func OnGPU() (Engine, error) {
	if err := cuda.Available(); err != nil {
		return Engine{}, err
	}
	return Engine{Kind: "gpu", Open: func() (driver.Device, error) {
		return cuda.Open(cuda.Options{PTX: module.PTX, Kernels: module.Sources(), Cubins: map[int]func() (string, error){9: module.Cubin}})
	}}, nil
}

// OnCPU is the engine whose kernels are executed on the CPU by so many workers.
func OnCPU(workers int) (Engine, error) {
	if err := emulated.Available(); err != nil {
		return Engine{}, err
	}
	files, err := classic.OnCPU()
	if err != nil {
		return Engine{}, err
	}
	return Engine{Kind: "emulated", Open: func() (driver.Device, error) {
		return emulated.Open(emulated.Options{Sources: files, Processors: workers})
	}}, nil
}
