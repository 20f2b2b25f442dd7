package main

import (
	"cmp"
	"errors"
	"fmt"

	"lockstep"
	"lockstep/engines"
	"lockstep/internal/want"
	"lockstep/parity"
	"lockstep/parity/tinyphysics"
)

// opened is an engine of a family that takes part in comparisons, or another source, or
// the reason why not.
type opened[E any] struct {
	name     string
	engine   E
	identity string // what an engine proves to be
	profile  string // that its bits are of, "" if it has none
	err      error  // why it takes no part, see comparisons.made
}

// Errors of comparisons that are no failures: why there is nothing to compare, on this
// machine or at all, and what differs where there is no report on it.
type (
	notApplicable string
	different     string
)

func (e notApplicable) Error() string { return string(e) }
func (e different) Error() string     { return string(e) }

// enter is an engine that was opened, or what kept it from that. One that need not be here
// does not apply where nobody asked for it by its name.
func enter[E any](name string, engine E, err error, asked bool, identity func(E) string) opened[E] {
	var absent *want.Error
	switch {
	case err == nil:
		return opened[E]{name: name, engine: engine, identity: identity(engine)}
	case !errors.As(err, &absent):
		err = fmt.Errorf("%s: %w", name, err)
	case asked:
		err = &want.Error{Want: absent.Want, Reason: fmt.Errorf("%s: %w", name, absent.Reason)}
	default:
		err = notApplicable(fmt.Sprintf("%s: %v", name, absent.Reason))
	}
	return opened[E]{name: name, err: err}
}

// open opens an engine in a profile.
func open(
	e *engines.Engine, config engines.Config, inexact, asked bool,
) opened[lockstep.Implementation] {
	sim, err := e.Open(config)
	if err != nil {
		err = cmp.Or(e.Absent(), err)
	}
	o := enter(
		e.Name, sim, err, asked,
		func(s lockstep.Implementation) string { return lockstep.Identity(s) },
	)
	if err == nil {
		o.profile = sim.Profile().String()
	}
	switch {
	case !e.Computes(config.Profile) && e.Absent() == nil: // what is not here is not run
		o.err = notApplicable(fmt.Sprintf("%s: %v", e.Name, e.Lacks(config.Profile)))
	case err != nil || inexact:
	case sim.About().Unproven != nil:
		o.err = notApplicable(
			e.Name + ": it computes in a way that no profile has, parity is not claimed; " +
				"--inexact compares in spite of that",
		)
	case sim.Profile() != config.Profile:
		o.err = notApplicable(
			fmt.Sprintf("%s: it computes with profile %s on this machine", e.Name, sim.Profile()),
		)
	}
	return o
}

// openAll opens engines in a profile, of which the first is asked for by its name.
func openAll(
	list []*engines.Engine, config engines.Config, inexact, asked bool,
) (all []opened[lockstep.Implementation]) {
	for i, e := range list {
		all = append(all, open(e, config, inexact, asked || i == 0))
	}
	return all
}

// sourceOf is the engine as a source, beside others.
func sourceOf(o opened[lockstep.Implementation]) opened[parity.Side] {
	s := opened[parity.Side]{name: o.name, identity: o.identity, profile: o.profile, err: o.err}
	if o.err == nil {
		s.engine = tinyphysics.Live(o.engine)
	}
	return s
}

func closeAll(all ...opened[lockstep.Implementation]) {
	for _, o := range all {
		if o.engine != nil {
			o.engine.Close()
		}
	}
}
