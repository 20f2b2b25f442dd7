package gpu

import (
	"fmt"

	"lockstep/gpu/internal/driver/emulated"
	"lockstep/gpu/internal/module"
	"lockstep/gpu/internal/translate"
)

// Emulation says how the CPU executes kernels. The zero value is what an engine wants.
type Emulation = emulated.Options

// Shuffled is the order of an Emulation in which threads run in another order after each barrier.
const Shuffled = emulated.Shuffled

// OpenEmulated opens a device that executes the kernels' sources on the CPU.
func OpenEmulated(options Emulation) (Device, error) { return emulated.Open(options) }

// OpenTranslated opens a device that executes the shipped kernels on the CPU, instruction
// by instruction: "ptx", or "sass", the machine code for compute capability 9.
func OpenTranslated(name string, options Emulation) (Device, error) {
	manifest, err := module.ReadManifest()
	if err != nil {
		return nil, err
	}
	kernels, ok := translate.Shipped(manifest.Sources, module.PTX, module.Cubin,
		module.Listing)[name]
	if !ok {
		return nil, fmt.Errorf("no kernels %q are shipped, want ptx or sass", name)
	}
	return kernels.Open(name, options)
}

// Emulates is why no device can be emulated, or nil. It opens nothing.
func Emulates() error { return emulated.Available() }
