package engines

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"lockstep/internal/want"
)

// A Family is the engines of another family of simulators than tinyphysics, whose own list
// is known: first the one that others are held to, last the one that is tried first where
// none is asked for. A line adds an engine.
type Family[E interface{ Name() string }] struct {
	simulates string
	known     []Member[E]
}

// A Member is an engine of a family.
type Member[E any] struct {
	Name   string
	Folder string     // of its code
	Want   *want.Want // what it needs of the machine, or nil
	Slow   bool       // runs only where it is asked for by its name

	// Compiled: see Engine.
	Compiled bool

	// New makes it; workers is how many threads it may use, 0 being its choice.
	New func(workers int) (E, error)
}

// Simulates says what it simulates, in the words of an error.
func (f *Family[E]) Simulates() string { return f.simulates }

// All are the engines, in the order of their list.
func (f *Family[E]) All() []Member[E] { return slices.Clone(f.known) }

// Replace has other engines stand in the list, for tests of what asks for engines by their
// names. It returns what puts the former ones back.
func (f *Family[E]) Replace(others []Member[E]) (restore func()) {
	before := f.known
	f.known = others
	return func() { f.known = before }
}

// Checked are the engines that every check runs.
func (f *Family[E]) Checked() []Member[E] {
	return slices.DeleteFunc(slices.Clone(f.known), func(e Member[E]) bool { return e.Compiled })
}

// Named is the engine of that name.
func (f *Family[E]) Named(name string) (*Member[E], error) {
	var names []string
	for i := range f.known {
		if f.known[i].Name == name {
			return &f.known[i], nil
		}
		names = append(names, f.known[i].Name)
	}
	return nil, fmt.Errorf(
		"no engine %q computes %s: there are %s", name, f.simulates, strings.Join(names, ", "))
}

// Tried are the names of those that are tried where none is asked for by name.
func (f *Family[E]) Tried() (names []string) {
	for _, e := range f.known {
		if !e.Slow {
			names = append(names, e.Name)
		}
	}
	return names
}

// Open makes the engine of that name; the last one that can run for Auto, or for "".
func (f *Family[E]) Open(name string, workers int) (E, error) {
	if name != "" && name != Auto {
		e, err := f.Named(name)
		if err != nil {
			var none E
			return none, err
		}
		return e.New(workers)
	}
	var absent *want.Error
	for i := len(f.known) - 1; ; i-- {
		engine, err := f.known[i].New(workers)
		if !f.known[i].Slow && !errors.As(err, &absent) {
			return engine, err
		}
	}
}

// Identity is what an engine proves to be, whatever it is called.
func (f *Family[E]) Identity(e E) string {
	return fmt.Sprintf("%s on %s", reflect.TypeOf(e).PkgPath(), e.Name())
}
