// Package engines is the one list of the implementations of lockstep.Implementation: what
// each wants, what it is, and how it is opened. Commands, tests, fuzz targets,
// benchmarks, planted faults and the gate take them from here. NextSlopes asks any of them
// how the next lataccel depends on all that it is computed from.
package engines

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"lockstep"
	"lockstep/batched"
	"lockstep/batched/onnxruntime"
	"lockstep/gpu"
	"lockstep/internal/want"
	"lockstep/reference"
)

// Config is what an engine is opened with. What it has no use for it ignores.
type Config struct {
	Model   string           // the network's ONNX file
	Profile lockstep.Profile // see Engine.ByLibrary
	Workers int              // threads; 0 is the engine's choice
	Chunk   int              // the most routes in step; 0 is the engine's choice
	Timed   bool             // takes times for Stats
	// of the caller's on the GPU, see gpu.OpenDeviceOn; nil is one of the engine's own
	Stream *uintptr

	Kernels  string // set of the kernels of reference and batched; the best if empty
	Shuffled bool   // emulated threads run in another order after each barrier
}

// An Engine is an implementation.
type Engine struct {
	Name   string
	Folder string // of its code
	Rests  string // folder of the engine whose code it shares all of but its network's, or empty

	// Want is what it needs of the machine, or nil.
	Want *want.Want

	// Slow: a step takes it milliseconds. It proves something and is of no other use,
	// so that it runs only where it is asked for by its name.
	Slow bool

	// ByLibrary: a library of this machine does some of its arithmetic, as ONNX Runtime does for
	// onnxruntime, so its profile is the library's, whatever profile is asked for. The
	// other engines compute with any profile but those that they lack.
	ByLibrary bool

	// Compiled: it executes the kernels of another engine as they were compiled, one
	// instruction after the other, and checks every access. `make test-compiled` holds it to
	// the recordings; what Checked runs would take it too long.
	Compiled bool

	// Quiet: if it is absent, no message says so, unless it was asked for by its name.
	Quiet bool

	// Lacks is why it cannot compute with a profile, whatever the machine; nil, or an answer
	// of nil, if it can.
	Lacks func(lockstep.Profile) error

	// Missing is why it cannot run here, or nil; New makes a simulator. Absent and Open
	// are the ways to them.
	Missing func() error
	New     func(Config) (lockstep.Implementation, error)
}

// known are the engines: first the one that others are held to, last the one that is
// tried first where none is asked for. A line adds one.
var known = []Engine{
	{
		Name:    "reference",
		Folder:  "reference",
		Missing: never,
		New: func(c Config) (lockstep.Implementation, error) {
			s, err := reference.New(c.Model, c.Profile)
			if err == nil && c.Kernels != "" {
				s, err = s.WithKernels(c.Kernels)
			}
			return opened(s, err)
		},
	},
	{
		Name:    "emulated",
		Folder:  "gpu",
		Want:    want.Compiler,
		Slow:    true,
		Lacks:   gpu.Lacks,
		Missing: gpu.Emulates,
		New: func(c Config) (lockstep.Implementation, error) {
			return openGPU(c, func() (gpu.Device, error) { return gpu.OpenEmulated(threads(c)) })
		},
	},
	compiled("ptx"),
	compiled("sass"),
	{
		Name:      "onnxruntime",
		Folder:    "batched/onnxruntime",
		Rests:     "batched",
		Want:      want.ONNXRuntime,
		ByLibrary: true,
		Missing:   onnxruntime.Available,
		New: func(c Config) (lockstep.Implementation, error) {
			return opened(onnxruntime.New(onnxruntime.Config{
				ModelPath: c.Model,
				Profile:   c.Profile,
				Workers:   c.Workers,
				Chunk:     c.Chunk,
			}))
		},
	},
	{
		Name:    "batched",
		Folder:  "batched",
		Missing: never,
		New: func(c Config) (lockstep.Implementation, error) {
			return opened(batched.New(batched.Config{
				ModelPath: c.Model,
				Profile:   c.Profile,
				Workers:   c.Workers,
				Chunk:     c.Chunk,
				Kernels:   c.Kernels,
			}))
		},
	},
	{
		Name:    "gpu",
		Folder:  "gpu",
		Want:    want.GPU,
		Quiet:   true,
		Lacks:   gpu.Lacks,
		Missing: gpu.Available,
		New: func(c Config) (lockstep.Implementation, error) {
			return openGPU(c, func() (gpu.Device, error) { return gpu.OpenDeviceOn(c.Stream) })
		},
	},
}

// compiled is the engine that executes the shipped PTX, or the shipped machine code.
func compiled(name string) Engine {
	return Engine{
		Name:     name,
		Folder:   "gpu/internal/translate",
		Want:     want.Compiler,
		Slow:     true,
		Compiled: true,
		Lacks:    gpu.Lacks,
		Missing:  gpu.Emulates,
		New: func(c Config) (lockstep.Implementation, error) {
			return openGPU(
				c, func() (gpu.Device, error) { return gpu.OpenTranslated(name, threads(c)) },
			)
		},
	}
}

// threads say how the CPU executes kernels.
func threads(c Config) gpu.Emulation {
	options := gpu.Emulation{Processors: c.Workers}
	if c.Shuffled {
		options.Order = gpu.Shuffled
	}
	return options
}

func never() error { return nil }

func openGPU(c Config, device func() (gpu.Device, error)) (lockstep.Implementation, error) {
	return opened(gpu.New(gpu.Config{
		ModelPath:      c.Model,
		Profile:        c.Profile,
		RoutesPerBlock: c.Chunk,
		Timed:          c.Timed,
		Open:           device,
	}))
}

// opened keeps a nil pointer from becoming a simulator.
func opened[S lockstep.Implementation](s S, err error) (lockstep.Implementation, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

// All are the engines, in the order of their list.
func All() []Engine { return slices.Clone(known) }

// Replace has other engines stand in the list, for tests of what asks for engines by their
// names. It returns what puts the former ones back.
func Replace(others []Engine) (restore func()) {
	before := known
	known = others
	return func() { known = before }
}

// Reference is the one that others are held to.
func Reference() *Engine { return &known[0] }

// Checked are the engines that every check runs.
func Checked() []Engine {
	return slices.DeleteFunc(slices.Clone(known), func(e Engine) bool { return e.Compiled })
}

// CheckedNames are theirs.
func CheckedNames() (names []string) {
	for _, e := range Checked() {
		names = append(names, e.Name)
	}
	return names
}

// Others are those of Checked that are held to the reference.
func Others() []Engine { return Checked()[1:] }

// Names are those of the engines.
func Names() (names []string) {
	for _, e := range known {
		names = append(names, e.Name)
	}
	return names
}

// Known reports whether an engine has that name.
func Known(name string) bool { return slices.Contains(Names(), name) }

// ByName are the engines of these names, which must differ; without any those of Tried.
func ByName(names ...string) (list []*Engine, err error) {
	if len(names) == 0 {
		return Tried(), nil
	}
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			return nil, fmt.Errorf("engine %s is named twice", name)
		}
		k := slices.IndexFunc(known, func(e Engine) bool { return e.Name == name })
		if k < 0 {
			return nil, fmt.Errorf(
				"engine %q is not known, want one of %s", name, strings.Join(Names(), ", "),
			)
		}
		list = append(list, &known[k])
	}
	return list, nil
}

// Of are the engines that a file is of: those whose folder it is in, then those that rest on
// them. The folder of an engine that rests on another may lie in the other's, and is not of it.
func Of(file string) (names []string) {
	in := func(folder string) bool { return folder != "" && strings.HasPrefix(file, folder+"/") }
	above := "" // the folder of the engine that rests on a file's
	for _, e := range known {
		if e.Rests != "" && in(e.Folder) {
			above = e.Rests
		}
	}
	var rest []string
	for _, e := range known {
		switch {
		case in(e.Folder) && e.Folder != above:
			names = append(names, e.Name)
		case in(e.Rests):
			rest = append(rest, e.Name)
		}
	}
	return append(names, rest...)
}

// Tried are the engines that are tried where none is asked for by name.
func Tried() (list []*Engine) {
	for i := range known {
		if e := &known[i]; !e.Slow && (!e.Quiet || e.Missing() == nil) {
			list = append(list, e)
		}
	}
	return list
}

// Auto stands for the last engine of Tried that can run.
const Auto = "auto"

// Choose opens the engine of a name, or for Auto the one that it stands for. If exact is
// set, the engine must compute with the profile of c, whatever its machine does. The
// notices are what a user of it should be told, one line each.
func Choose(
	name string, c Config, exact bool,
) (s lockstep.Implementation, notices []string, err error) {
	candidates := Tried()
	if name != Auto {
		if candidates, err = ByName(name); err != nil {
			return nil, nil, err
		}
	}
	var absent []string
	for _, e := range slices.Backward(candidates) {
		s, err = e.Open(c)
		if err == nil && exact && s.Profile() != c.Profile {
			err = errors.Join(
				fmt.Errorf(
					"the %s engine computes with profile %s on this machine, not %s", e.Name,
					s.Profile(), c.Profile,
				),
				s.Close(),
			)
		}
		if err == nil {
			notices = s.About().Notices
			if len(absent) > 0 {
				notices = append(
					notices,
					fmt.Sprintf(
						"using the %s engine, since %s", e.Name, strings.Join(absent, ", and "),
					),
				)
			}
			return s, notices, nil
		}
		absent = append(absent, fmt.Sprintf("the %s one cannot run: %v", e.Name, err))
	}
	return nil, nil, err
}

// Common is the profile that all engines of a list can compute with. If one of them has
// the arithmetic of its machine's library (ByLibrary) and runs here, that is its profile;
// otherwise it is the host's.
func Common(list []*Engine, model string, host lockstep.Profile) lockstep.Profile {
	for _, e := range list {
		if !e.ByLibrary {
			continue
		}
		if s, err := e.Open(Config{Model: model, Profile: host, Workers: 1}); err == nil {
			defer s.Close()
			return s.Profile()
		}
	}
	return host
}

// Computes reports whether the engine has a profile's arithmetic.
func (e *Engine) Computes(p lockstep.Profile) bool { return e.Lacks == nil || e.Lacks(p) == nil }

// Absent is nil if the engine can run here; a *want.Error if it need not; and another
// error if what it wants is required, or here although the engine says that it is not.
func (e *Engine) Absent() error {
	reason := e.Missing()
	if reason == nil || e.Want == nil {
		return reason
	}
	return e.Want.Denied(reason)
}

// Open opens the engine.
func (e *Engine) Open(c Config) (lockstep.Implementation, error) {
	if err := e.Missing(); err != nil {
		return nil, err
	}
	s, err := e.New(c)
	switch {
	case err != nil:
		return nil, err
	case s.Name() != e.Name:
		return nil, errors.Join(
			fmt.Errorf("what is opened as engine %s calls itself %s", e.Name, s.Name()), s.Close(),
		)
	case !e.ByLibrary && s.Profile() != c.Profile:
		return nil, errors.Join(
			fmt.Errorf("engine %s has profile %v, want %v", e.Name, s.Profile(), c.Profile),
			s.Close(),
		)
	}
	return s, nil
}

// TB is what ForTest needs of a test.
type TB interface {
	want.TB
	Cleanup(func())
	Error(...any)
}

// ForTest opens the engine until the end of a test. The test is skipped where the
// engine is absent, as Absent says, and fails where it is here and the engine
// does not open, as with kernels that do not compile.
func (e *Engine) ForTest(t TB, c Config) lockstep.Implementation {
	t.Helper()
	want.Skip(t, e.Absent())
	s, err := e.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := s.About().Unproven; err != nil {
		want.Skip(t, e.Want.Lacks(err))
	}
	return s
}
