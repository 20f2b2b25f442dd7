package translate

import (
	"fmt"
	"sync"

	"lockstep/gpu/internal/driver"
	"lockstep/gpu/internal/driver/emulated"
)

// Kernels are those of a module as they are shipped: PTX, or machine code.
type Kernels struct {
	Sources string // the hash of what was compiled
	Read    func() (Module, error)
}

// Open opens the device that executes them on the CPU. Its name is that of the engine.
func (k Kernels) Open(name string, options emulated.Options) (driver.Device, error) {
	m, err := k.Read()
	if err != nil {
		return nil, fmt.Errorf("engine %s: %w", name, err)
	}
	if options.Sources, err = Program(m); err != nil {
		return nil, err
	}
	options.Translated = &emulated.Translated{Name: name, Of: k.Sources, Kernel: m.Kernel}
	return emulated.Open(options)
}

// Shipped are the kernels that are shipped, by the engine that executes them: PTX, and a
// cubin with its listing.
func Shipped(sources string, ptx, cubin, listing func() (string, error)) map[string]Kernels {
	return map[string]Kernels{
		"ptx": {sources, sync.OnceValues(func() (Module, error) {
			text, err := ptx()
			if err != nil {
				return nil, err
			}
			return PTX(text)
		})},
		"sass": {sources, sync.OnceValues(func() (Module, error) {
			data, err := cubin()
			if err != nil {
				return nil, err
			}
			text, err := listing()
			if err != nil {
				return nil, err
			}
			return MachineCode([]byte(data), text)
		})},
	}
}
