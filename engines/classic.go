package engines

import (
	batchedclassic "lockstep/batched/classic"
	"lockstep/classic"
	gpuclassic "lockstep/gpu/classic"
	"lockstep/internal/want"
	referenceclassic "lockstep/reference/classic"
)

// Classic is Gymnasium's classic control.
func Classic() *Family[classic.Maker] { return &classicControl }

var classicControl = Family[classic.Maker]{
	simulates: "classic control",
	known: []Member[classic.Maker]{
		{Name: "reference", Folder: "reference/classic", New: func(int) (classic.Maker, error) {
			return referenceclassic.Reference{}, nil
		}},
		{
			Name: "emulated", Folder: "gpu/classic", Want: want.Compiler, Slow: true,
			New: func(workers int) (classic.Maker, error) {
				e, err := gpuclassic.OnCPU(workers)
				return e, want.Compiler.Denied(err)
			},
		},
		compiledClassic("ptx"), compiledClassic("sass"),
		{
			Name:   "batched",
			Folder: "batched/classic",
			New: func(workers int) (classic.Maker, error) {
				return batchedclassic.Batched{Workers: workers}, nil
			},
		},
		{
			Name:   "gpu",
			Folder: "gpu/classic",
			Want:   want.GPU,
			New: func(int) (classic.Maker, error) {
				e, err := gpuclassic.OnGPU()
				return e, want.GPU.Denied(err)
			},
		},
	},
}

// compiledClassic is the engine that executes the shipped PTX, or machine code.
func compiledClassic(name string) Member[classic.Maker] {
	return Member[classic.Maker]{
		Name: name, Folder: "gpu/internal/translate", Want: want.Compiler, Slow: true,
		Compiled: true,
		New: func(workers int) (classic.Maker, error) {
			e, err := gpuclassic.Translated(name, workers)
			return e, want.Compiler.Denied(err)
		},
	}
}
