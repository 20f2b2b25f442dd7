package main

import (
	"cmp"
	"errors"
	"fmt"

	"lockstep"
	"lockstep/engines"
	"lockstep/internal/want"
	"lockstep/parity/verdict"
)

// opened is an engine that runs, or the reason why it does not.
type opened struct {
	*engines.Engine
	lockstep.Simulator // nil if the engine did not open

	absent        error // a *want.Error if it need not be here; any other is a failure
	notApplicable string
}

// open opens an engine in a profile.
func open(e *engines.Engine, config engines.Config, inexact bool) opened {
	sim, err := e.Open(config)
	if err != nil {
		return opened{Engine: e, absent: cmp.Or(e.Absent(), err)}
	}
	o := opened{Engine: e, Simulator: sim}
	switch err := engines.ProfileKnown(sim); {
	case err != nil && !inexact:
		o.notApplicable = "it computes in a way that is not known, parity is not claimed; --inexact compares in spite of that"
	case sim.Profile() != config.Profile && !inexact:
		o.notApplicable = fmt.Sprintf("it computes with profile %s on this machine", sim.Profile())
	}
	return o
}

// openAll opens engines in one profile: the one asked for, else that of those engines
// whose arithmetic is their machine's.
func openAll(list []*engines.Engine, config engines.Config, asked, inexact bool) (all []opened) {
	for _, e := range list {
		all = append(all, open(e, config, inexact))
	}
	for _, o := range all {
		if o.Simulator != nil && o.Profile() != config.Profile && !asked {
			closeAll(all)
			config.Profile = o.Profile()
			return openAll(list, config, true, inexact)
		}
	}
	return all
}

func closeAll(all []opened) {
	for _, o := range all {
		if o.Simulator != nil {
			engines.Close(o.Simulator)
		}
	}
}

// unable is the comparison that an engine does not take part in, and false if it does.
func (o *opened) unable(k verdict.Comparison) (verdict.Comparison, bool) {
	var absent *want.Error
	switch {
	case errors.As(o.absent, &absent):
		k.NotRun, k.Lacks = o.Engine.Name+": "+absent.Reason.Error(), absent.Want.Name
	case o.absent != nil:
		k.Error = o.Engine.Name + ": " + o.absent.Error()
	case o.notApplicable != "":
		k.NotApplicable = o.Engine.Name + ": " + o.notApplicable
	default:
		return k, false
	}
	return k, true
}
