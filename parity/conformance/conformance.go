package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"lockstep"
	"lockstep/defaults"
	"lockstep/internal/guard"
	"lockstep/reference"
)

// An Option changes what a simulator is held to.
type Option func(*suite)

// ContractOnly leaves out what compares values with the reference and with the
// recordings of Python, for a simulator that does not claim to compute the same
// bits: one in another precision, say. It is still held to all the rest, and so to
// give each job the same bits in every batch.
func ContractOnly() Option { return func(s *suite) { s.contractOnly = true } }

// Timeout is how long one call of Simulate may take; 2 minutes if not given. The
// longest call is of six routes of 600 rows.
func Timeout(d time.Duration) Option { return func(s *suite) { s.timeout = d } }

// Brief leaves out the checks of whole routes, lengths, reference and goldens, for a
// simulator that takes seconds for one and is held to them elsewhere.
func Brief() Option { return func(s *suite) { s.brief = true } }

// Test holds a simulator to the contract of lockstep.Simulator. Each check is a
// subtest, which -run selects; one that is left out is skipped. The simulator must
// have been made of the network of package defaults; defaults.Write writes its file.
func Test(t *testing.T, sim lockstep.Simulator, opts ...Option) {
	t.Helper()
	err := hold(sim, opts, func(name string, perform func() ([]error, string)) {
		t.Run(name, func(t *testing.T) {
			errs, note := perform()
			for _, err := range errs {
				t.Error(err)
			}
			if note != "" {
				t.Skip(note)
			}
		})
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Check does what Test does, outside of a test. The error joins all that is wrong; each
// part begins with the name of its check, and so does each line of what was left out,
// which says why.
func Check(sim lockstep.Simulator, opts ...Option) (leftOut []string, err error) {
	var all []error
	err = hold(sim, opts, func(name string, perform func() ([]error, string)) {
		errs, note := perform()
		for _, err := range errs {
			all = append(all, fmt.Errorf("%s: %w", name, err))
		}
		if note != "" {
			leftOut = append(leftOut, name+": "+note)
		}
	})
	return leftOut, errors.Join(append(all, err)...)
}

// hold hands all checks of a simulator to run, in order. Performing one gives what is
// wrong, or why it is left out.
func hold(sim lockstep.Simulator, opts []Option, run func(name string, perform func() ([]error, string))) error {
	s, err := newSuite(sim, opts)
	if err != nil {
		return err
	}
	for _, c := range checks {
		run(c.name, func() ([]error, string) { return s.perform(c) })
	}
	return nil
}

// A check is one part of the contract. Cheap ones come first.
type check struct {
	name  string
	check func(*suite)
}

var checks = []check{
	{"identity", (*suite).identity},
	{"nothing", (*suite).nothing},
	{"results", (*suite).results},
	{"observe", (*suite).observing},
	{"steps", (*suite).steps},
	{"trajectory", (*suite).trajectory},
	{"shortcuts", (*suite).shortcuts},
	{"draws", (*suite).draws},
	{"policies", (*suite).policies},
	{"clipping", (*suite).clipping},
	{"teacher", (*suite).teacher},
	{"inputs", (*suite).inputs},
	{"failures", (*suite).failures},
	{"cancel", (*suite).cancellation},
	{"break", (*suite).breaking},
	{"batches", (*suite).batches},
	{"stepping", (*suite).stepping},
	{"lengths", (*suite).lengths},
	{"reference", (*suite).parity},
	{"goldens", (*suite).goldens},
}

// suite is a simulator under test, and what it is held to.
type suite struct {
	sim          lockstep.Simulator
	ref          lockstep.Simulator
	routes       []*lockstep.Route
	contractOnly bool
	brief        bool
	timeout      time.Duration

	errs []error
	note string // why the check is left out
}

func newSuite(sim lockstep.Simulator, opts []Option) (*suite, error) {
	if sim == nil {
		return nil, errors.New("no simulator")
	}
	s := &suite{sim: sim, timeout: 2 * time.Minute}
	for _, o := range opts {
		o(s)
	}
	var profile lockstep.Profile
	if err := guard.Do(func() { profile = sim.Profile() }); err != nil {
		return nil, fmt.Errorf("the simulator has no profile: %w", err)
	}
	names, err := fs.Glob(defaults.Routes(), "*.csv")
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		text, err := fs.ReadFile(defaults.Routes(), name)
		if err != nil {
			return nil, err
		}
		route, err := lockstep.Loader{Profile: profile}.Read(bytes.NewReader(text), name)
		if err != nil {
			return nil, err
		}
		s.routes = append(s.routes, route)
	}
	dir, err := os.MkdirTemp("", "lockstep-conformance-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	model, _, err := defaults.Write(dir)
	if err != nil {
		return nil, err
	}
	s.ref, err = reference.New(model, profile)
	return s, err
}

// perform runs a check and returns what is wrong, or why it is left out.
func (s *suite) perform(c check) (errs []error, note string) {
	s.errs, s.note = nil, ""
	if err := guard.Do(func() { c.check(s) }); err != nil {
		s.errs = append(s.errs, err)
	}
	return s.errs, s.note
}

// errorf notes what is wrong; after the tenth the check ends.
func (s *suite) errorf(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	if len(s.errs) == 9 {
		guard.Fail(err)
	}
	s.errs = append(s.errs, err)
}

// leaveOut tells whether a check is left out, and notes why.
func (s *suite) leaveOut(needsParity bool) bool {
	switch {
	case needsParity && s.contractOnly:
		s.note = "left out: no parity is claimed"
	case s.brief:
		s.note = "left out: whole routes, which Brief leaves to other tests"
	}
	return s.note != ""
}

// fatalf notes what is wrong and ends the check.
func (s *suite) fatalf(format string, args ...any) {
	guard.Fail(fmt.Errorf(format, args...))
}

// short is a route's first rows.
func short(r *lockstep.Route, rows int) *lockstep.Route {
	c := r.First(rows)
	c.Name = fmt.Sprintf("%s[:%d]", r.Name, rows)
	return c
}

// firstLine leaves a panic's stack out.
func firstLine(err error) string {
	line, _, _ := strings.Cut(fmt.Sprint(err), "\n")
	return line
}
