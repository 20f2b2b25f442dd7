package engines

import (
	batchedclassic "lockstep/batched/classic"
	"lockstep/classic"
	gpuclassic "lockstep/gpu/classic"
	"lockstep/internal/want"
	referenceclassic "lockstep/reference/classic"
)

// Classic is Gymnasium's classic control.
var Classic = Family[classic.Engine]{
	Simulates: "classic control",
	Engines: []Member[classic.Engine]{
		{Name: "reference", Folder: "reference/classic", New: func(int) (classic.Engine, error) {
			return referenceclassic.Engine{}, nil
		}},
		{
			Name: "emulated", Folder: "gpu/classic", Want: want.Compiler, Slow: true,
			New: func(workers int) (classic.Engine, error) {
				e, err := gpuclassic.OnCPU(workers)
				return e, want.Compiler.Denied(err)
			},
		},
		compiledClassic("ptx"), compiledClassic("sass"),
		{
			Name:   "batched",
			Folder: "batched/classic",
			New: func(workers int) (classic.Engine, error) {
				return batchedclassic.Engine{Workers: workers}, nil
			},
		},
		{
			Name:   "gpu",
			Folder: "gpu/classic",
			Want:   want.GPU,
			New: func(int) (classic.Engine, error) {
				e, err := gpuclassic.OnGPU()
				return e, want.GPU.Denied(err)
			},
		},
	},
}

// compiledClassic is the engine that executes the shipped PTX, or machine code.
func compiledClassic(name string) Member[classic.Engine] {
	return Member[classic.Engine]{
		Name: name, Folder: "gpu/translate", Want: want.Compiler, Slow: true, Compiled: true,
		New: func(workers int) (classic.Engine, error) {
			e, err := gpuclassic.Translated(name, workers)
			return e, want.Compiler.Denied(err)
		},
	}
}
