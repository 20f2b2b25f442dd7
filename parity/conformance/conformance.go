package conformance

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep"
	"lockstep/internal/defaults"
	"lockstep/internal/guard"
	"lockstep/reference"
	"lockstep/routefile"
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
	s, err := newSuite(sim, opts)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			errs, note := s.perform(c)
			for _, err := range errs {
				t.Error(err)
			}
			if note != "" {
				t.Skip(note)
			}
		})
	}
}

// Check does what Test does, outside of a test. The error joins all that is wrong; each
// part begins with the name of its check, and so does each line of what was left out,
// which says why.
func Check(sim lockstep.Simulator, opts ...Option) (leftOut []string, err error) {
	s, err := newSuite(sim, opts)
	if err != nil {
		return nil, err
	}
	var all []error
	for _, c := range checks {
		errs, note := s.perform(c)
		for _, err := range errs {
			all = append(all, fmt.Errorf("%s: %w", c.name, err))
		}
		if note != "" {
			leftOut = append(leftOut, c.name+": "+note)
		}
	}
	return leftOut, errors.Join(all...)
}

// A check is one part of the contract. Cheap ones come first.
type check struct {
	name  string
	check func(*suite)

	whole bool // it runs whole routes
	exact bool // it is about the same bits as others'
}

var checks = []check{
	{name: "identity", check: (*suite).identity},
	{name: "nothing", check: (*suite).nothing},
	{name: "results", check: (*suite).results},
	{name: "observe", check: (*suite).observing},
	{name: "shortcuts", check: (*suite).shortcuts},
	{name: "draws", check: (*suite).draws},
	{name: "policies", check: (*suite).policies},
	{name: "clipping", check: (*suite).clipping},
	{name: "teacher", check: (*suite).teacher},
	{name: "failures", check: (*suite).failures},
	{name: "cancel", check: (*suite).cancellation},
	{name: "break", check: (*suite).breaking},
	{name: "batches", check: (*suite).batches},
	{name: "stepping", check: (*suite).stepping},
	{name: "branches", check: (*suite).branches, whole: true, exact: true},
	{name: "lengths", check: (*suite).lengths, whole: true},
	{name: "reference", check: (*suite).parity, whole: true, exact: true},
	{name: "goldens", check: (*suite).goldens, whole: true, exact: true},
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
	return s, guard.Do(func() {
		dir := must(os.MkdirTemp("", "lockstep-conformance-"))
		defer os.RemoveAll(dir)
		model, folder, err := defaults.Write(dir)
		if err != nil {
			guard.Fail(err)
		}
		for _, file := range must(routefile.List(folder, defaults.NumRoutes)) {
			s.routes = append(s.routes, must(routefile.Loader{Profile: profile}.Load(file)))
		}
		s.ref = must(reference.New(model, profile))
	})
}

// perform runs a check and returns what is wrong, or why it is left out.
func (s *suite) perform(c check) (errs []error, note string) {
	s.errs, s.note = nil, ""
	switch {
	case c.exact && s.contractOnly:
		return nil, "left out: no parity is claimed"
	case c.whole && s.brief:
		return nil, "left out: whole routes, which Brief leaves to other tests"
	}
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

// fatalf notes what is wrong and ends the check.
func (s *suite) fatalf(format string, args ...any) {
	guard.Fail(fmt.Errorf(format, args...))
}

// must is a value that there has to be, or the check's end.
func must[T any](value T, err error) T {
	if err != nil {
		guard.Fail(err)
	}
	return value
}

// short is a route's first rows.
func short(r *lockstep.Route, rows int) *lockstep.Route {
	c := r.First(rows)
	c.Name = fmt.Sprintf("%s[:%d]", r.Name, rows)
	return c
}

// copied is a route with columns and draws of its own.
func copied(r *lockstep.Route) *lockstep.Route {
	c := *r
	c.Draws = slices.Clone(c.Draws)
	for _, column := range c.Columns() {
		*column = slices.Clone(*column)
	}
	return &c
}

// firstLine leaves a panic's stack out.
func firstLine(err error) string {
	line, _, _ := strings.Cut(fmt.Sprint(err), "\n")
	return line
}
