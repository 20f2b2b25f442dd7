// Package want is the one list of what tests, engines and checks may need and a
// machine may lack, and the one way in which they go without it.
//
// Whether a thing is here is found out by looking for it, never by asking what needs
// it: an engine that wrongly calls itself absent fails its tests.
package want

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"lockstep/internal/assets"
	"lockstep/internal/fileio"
)

// A Want is something that a machine may lack.
type Want struct {
	Name string // one word in lower case, as in LOCKSTEP_REQUIRE_ASSETS
	What string // in a sentence

	// Find is where it is, or why it is not here.
	Find func() (string, error)
}

// The wants. A line adds one.
var (
	Assets      = &Want{"assets", "the official network and routes", findAssets}
	ONNXRuntime = &Want{
		"onnxruntime", "ONNX Runtime's library, and cgo to load it", findONNXRuntime,
	}
	Compiler  = &Want{"compiler", "a C++ compiler", findCompiler}
	Python    = &Want{"python", "a Python with numpy", oncePerPython(findPython)}
	Gymnasium = &Want{"gymnasium", "a Python with Gymnasium", oncePerPython(findGymnasium)}
	GPU       = &Want{"gpu", "a GPU, and a program built for it", findGPU}
	Package   = &Want{
		"package", "a Python in which the package is installed", oncePerPython(findPackage),
	}
	Node = &Want{"node", "Node.js", findNode}

	All = []*Want{Assets, ONNXRuntime, Compiler, Python, Gymnasium, GPU, Package, Node}
)

// pythons are the environment variables that name a Python.
var pythons = []string{"LOCKSTEP_PYTHON", "LOCKSTEP_GYMNASIUM", "LOCKSTEP_PACKAGE"}

// oncePerPython keeps what find answers, by the Pythons that the environment names: a test may
// name another one for its own duration.
func oncePerPython(find func() (string, error)) func() (string, error) {
	var answers sync.Map
	return func() (string, error) {
		var named [3]string
		for i, variable := range pythons {
			named[i] = os.Getenv(variable)
		}
		answer, _ := answers.LoadOrStore(named, sync.OnceValues(find))
		return answer.(func() (string, error))()
	}
}

// Names are those of all wants.
func Names() (names []string) {
	for _, w := range All {
		names = append(names, w.Name)
	}
	return names
}

// ByName is the want of that name, nil if there is none.
func ByName(name string) *Want {
	if i := slices.IndexFunc(All, func(w *Want) bool { return w.Name == name }); i >= 0 {
		return All[i]
	}
	return nil
}

// Variable is the environment variable that, set to 1, makes its absence a failure.
func (w *Want) Variable() string { return "LOCKSTEP_REQUIRE_" + strings.ToUpper(w.Name) }

// Required reports whether its absence is a failure.
func (w *Want) Required() bool { return os.Getenv(w.Variable()) == "1" }

// Error is that something is left out for want of Want, because of Reason. Its text
// is the line by which `make test`, the gate and CI know.
type Error struct {
	Want   *Want
	Reason error
}

func (e *Error) Error() string {
	return "not run for want of " + e.Want.Name + ": " + e.Reason.Error()
}

func (e *Error) Unwrap() error { return e.Reason }

var line = regexp.MustCompile(`not run for want of ([a-z]+): `)

// Read is the want in a line that tells of one, or nil.
func Read(text string) *Want {
	if m := line.FindStringSubmatch(text); m != nil {
		return ByName(m[1])
	}
	return nil
}

// Lacks is nil if reason is; else an *Error, or another one if w is required.
func (w *Want) Lacks(reason error) error {
	if reason == nil {
		return nil
	}
	if w.Required() {
		return fmt.Errorf("%s=1, but %w", w.Variable(), reason)
	}
	return &Error{w, reason}
}

// Denied is Lacks for a reason that an engine gives: where w is found nevertheless,
// the engine is wrong, which is a failure.
func (w *Want) Denied(reason error) error {
	if reason == nil {
		return nil
	}
	if found, err := w.Find(); err == nil {
		return fmt.Errorf("%s is here (%s), but what needs it says: %w", w.What, found, reason)
	}
	return w.Lacks(reason)
}

// TB is what is needed of a test.
type TB interface {
	Helper()
	Skip(...any)
	Fatal(...any)
}

// Skip ends a test by what Lacks or Denied says: it goes on if that is nil, is skipped
// for an *Error, and fails otherwise.
func Skip(t TB, err error) {
	t.Helper()
	var absent *Error
	switch {
	case err == nil:
	case errors.As(err, &absent):
		t.Skip(err)
	default:
		t.Fatal(err)
	}
}

// Need returns where the want is, or ends the test as Skip does.
func (w *Want) Need(t TB) string {
	t.Helper()
	path, err := w.Find()
	Skip(t, w.Lacks(err))
	return path
}

func findAssets() (string, error) {
	if _, err := assets.Find(assets.Routes); err != nil {
		return "", err
	}
	return assets.Find(assets.Model)
}

// findONNXRuntime finds the library that ONNXRUNTIME_LIB names, or any in the user's
// cache folder.
func findONNXRuntime() (string, error) {
	if !cgo {
		return "", errors.New("built without cgo")
	}
	if path := os.Getenv("ONNXRUNTIME_LIB"); path != "" {
		_, err := os.Stat(path)
		return path, err
	}
	return first("*/libonnxruntime*", fileio.CacheDirs("onnxruntime")...)
}

func findCompiler() (string, error) {
	if name := os.Getenv("CXX"); name != "" {
		return exec.LookPath(name)
	}
	return exec.LookPath("g++")
}

func findNode() (string, error) { return exec.LookPath("node") }

func findPython() (string, error) {
	names := []string{"python3", "python"}
	if name := os.Getenv("LOCKSTEP_PYTHON"); name != "" {
		names = []string{name}
	}
	var path string
	var err error
	for _, name := range names {
		if path, err = exec.LookPath(name); err == nil {
			break
		}
	}
	if err != nil {
		return "", fmt.Errorf("no Python: set LOCKSTEP_PYTHON to one with numpy: %w", err)
	}
	if out, err := exec.Command(path, "-c", "import numpy").CombinedOutput(); err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		return "", fmt.Errorf(
			"%s: %s: set LOCKSTEP_PYTHON to one with numpy", path, lines[len(lines)-1])
	}
	return filepath.Abs(path)
}

// findGymnasium finds the Python that `make test-classic` makes, or another one.
func findGymnasium() (string, error) {
	return findModule(
		"LOCKSTEP_GYMNASIUM", "gymnasium", "a Python with Gymnasium", "make test-classic")
}

// findPackage finds the Python that `make test-python` makes, or another one.
func findPackage() (string, error) {
	return findModule(
		"LOCKSTEP_PACKAGE", "lockstep", "a Python with this package", "make test-python")
}

// findModule finds the Python that a variable names, which must have a module.
func findModule(variable, module, what, target string) (string, error) {
	name := os.Getenv(variable)
	if name == "" {
		return "", fmt.Errorf("set %s to %s, or run `%s`", variable, what, target)
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%s: %w", variable, err)
	}
	if out, err := exec.Command(path, "-c", "import "+module).CombinedOutput(); err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		return "", fmt.Errorf("%s: %s: set %s to %s", path, lines[len(lines)-1], variable, what)
	}
	return filepath.Abs(path)
}

// findGPU finds the device node that NVIDIA's driver makes, on Linux or in WSL.
func findGPU() (string, error) {
	if !cuda {
		return "", errors.New("built without CUDA")
	}
	if path, err := first("nvidia[0-9]*", "/dev"); err == nil {
		return path, nil
	}
	return first("dxg", "/dev")
}

// first is the first file of a pattern in some folders.
func first(pattern string, folders ...string) (string, error) {
	var patterns []string
	for _, folder := range folders {
		files, err := fileio.Glob(folder, pattern)
		if err != nil {
			return "", err
		}
		if len(files) > 0 {
			return files[0], nil
		}
		patterns = append(patterns, filepath.Join(folder, pattern))
	}
	where := cmp.Or(strings.Join(patterns, " or "), "anywhere, for want of a cache folder")
	return "", fmt.Errorf("no file %s", where)
}
