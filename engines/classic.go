package engines

import (
	"errors"
	"fmt"
	"strings"

	batchedclassic "lockstep/batched/classic"
	"lockstep/classic"
	gpuclassic "lockstep/gpu/classic"
	"lockstep/internal/want"
	referenceclassic "lockstep/reference/classic"
)

// A ClassicEngine is an implementation of Gymnasium's classic control environments.
type ClassicEngine struct {
	Name   string
	Folder string     // of its code
	Want   *want.Want // what it needs of the machine, or nil
	Slow   bool       // runs only where it is asked for by its name

	// New makes it; Workers is how many threads it may use, 0 being its choice.
	New func(workers int) (classic.Engine, error)
}

// Classic are those engines: first the one that others are held to, last the one
// that is tried first where none is asked for. A line adds one.
var Classic = []ClassicEngine{
	{Name: "reference", Folder: "reference/classic", New: func(int) (classic.Engine, error) {
		return referenceclassic.Engine{}, nil
	}},
	{Name: "emulated", Folder: "gpu/classic", Want: want.Compiler, Slow: true, New: func(workers int) (classic.Engine, error) {
		e, err := gpuclassic.OnCPU(workers)
		return e, want.Compiler.Denied(err)
	}},
	{Name: "batched", Folder: "batched/classic", New: func(workers int) (classic.Engine, error) {
		return batchedclassic.Engine{Workers: workers}, nil
	}},
	{Name: "gpu", Folder: "gpu/classic", Want: want.GPU, New: func(int) (classic.Engine, error) {
		e, err := gpuclassic.OnGPU()
		return e, want.GPU.Denied(err)
	}},
}

// OpenClassic makes the engine of that name; the last one for "".
func OpenClassic(name string, workers int) (classic.Engine, error) {
	var names []string
	for i := len(Classic) - 1; i >= 0; i-- {
		e := &Classic[i]
		if name == "" && !e.Slow || name == e.Name {
			engine, err := e.New(workers)
			var absent *want.Error
			if name == "" && errors.As(err, &absent) {
				continue
			}
			return engine, err
		}
		names = append([]string{e.Name}, names...)
	}
	return nil, fmt.Errorf("no engine %q computes classic control: there are %s", name, strings.Join(names, ", "))
}
