package engines

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
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

	// Compiled: see Engine.
	Compiled bool

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
	compiledClassic("ptx"),
	compiledClassic("sass"),
	{Name: "batched", Folder: "batched/classic", New: func(workers int) (classic.Engine, error) {
		return batchedclassic.Engine{Workers: workers}, nil
	}},
	{Name: "gpu", Folder: "gpu/classic", Want: want.GPU, New: func(int) (classic.Engine, error) {
		e, err := gpuclassic.OnGPU()
		return e, want.GPU.Denied(err)
	}},
}

// compiledClassic is the engine that executes the shipped PTX, or machine code.
func compiledClassic(name string) ClassicEngine {
	return ClassicEngine{Name: name, Folder: "gpu/translate", Want: want.Compiler, Slow: true, Compiled: true, New: func(workers int) (classic.Engine, error) {
		e, err := gpuclassic.Translated(name, workers)
		return e, want.Compiler.Denied(err)
	}}
}

// CheckedClassic are the engines that every check runs.
func CheckedClassic() []ClassicEngine {
	return slices.DeleteFunc(slices.Clone(Classic), func(e ClassicEngine) bool { return e.Compiled })
}

// ClassicNamed is the engine of that name.
func ClassicNamed(name string) (*ClassicEngine, error) {
	var names []string
	for i := range Classic {
		if Classic[i].Name == name {
			return &Classic[i], nil
		}
		names = append(names, Classic[i].Name)
	}
	return nil, fmt.Errorf("no engine %q computes classic control: there are %s", name, strings.Join(names, ", "))
}

// TriedClassic are the names of those that are tried where none is asked for by name.
func TriedClassic() (names []string) {
	for _, e := range Classic {
		if !e.Slow {
			names = append(names, e.Name)
		}
	}
	return names
}

// OpenClassic makes the engine of that name; the last one that can run for Auto, or for "".
func OpenClassic(name string, workers int) (classic.Engine, error) {
	if name != "" && name != Auto {
		e, err := ClassicNamed(name)
		if err != nil {
			return nil, err
		}
		return e.New(workers)
	}
	var absent *want.Error
	for i := len(Classic) - 1; ; i-- {
		if engine, err := Classic[i].New(workers); !Classic[i].Slow && !errors.As(err, &absent) {
			return engine, err
		}
	}
}

// ClassicIdentity is what an engine proves to be, whatever it is called.
func ClassicIdentity(e classic.Engine) string {
	return fmt.Sprintf("%s on %s", reflect.TypeOf(e).PkgPath(), e.Name())
}
