package pycontroller

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"lockstep"
	"lockstep/internal/plain"
)

// inputs are what a controller is made of beyond its source, as its processes say it: Python and
// packages with their versions, other modules and files with their hashes. They are the same in
// all processes, at all times.
type inputs struct {
	file string // the controller's

	mu    sync.Mutex
	known map[string]string
}

// add takes what a process says. What is not what it was before is an error: some results are of
// the one, some would be of the other.
func (in *inputs) add(name, now string) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	before, ok := in.known[name]
	switch {
	case !ok && in.known == nil:
		in.known = map[string]string{}
		fallthrough
	case !ok:
		in.known[name] = now
	case before != now:
		return lockstep.Passing(
			fmt.Errorf("%s: %s has changed since the run began: it is %.12s, and was %.12s; "+
				"put it back, or run with the new one in another folder", in.file,
				plain.Text(name), plain.Text(now), plain.Text(before)),
		)
	}
	return nil
}

// made are the inputs so far, sorted.
func (in *inputs) made() (list []string) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(in.known)) {
		list = append(list, plain.Text(name+" "+in.known[name]))
	}
	return list
}
