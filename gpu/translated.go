package gpu

import (
	"fmt"

	"lockstep/gpu/driver"
	"lockstep/gpu/driver/emulated"
	"lockstep/gpu/internal/translate"
	"lockstep/gpu/module"
)

// OpenTranslated opens a device that executes the shipped kernels on the CPU, instruction
// by instruction: "ptx", or "sass", the machine code for compute capability 9.
func OpenTranslated(name string, options emulated.Options) (driver.Device, error) {
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
