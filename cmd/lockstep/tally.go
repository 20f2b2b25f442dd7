package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lockstep"
	"lockstep/reference"
	"lockstep/runs"
)

// tally prints results as they come, in the order of the controllers and of their
// routes, and what they come to.
type tally struct {
	env    *environment
	plan   *runs.Plan    // of which the names count
	unread []failedRoute // that could not be loaded
	out    printer
	start  time.Time

	controller       int              // whose results come
	costs            []lockstep.Costs // of this controller
	failures         int              // of this controller
	finished, failed int              // of all, with routes that could not be loaded
}

func newTally(env *environment, plan *runs.Plan, unread []failedRoute, out printer, start time.Time) *tally {
	return &tally{env: env, plan: plan, unread: unread, out: out, start: start}
}

// add counts a rollout's result.
func (t *tally) add(i int, r lockstep.Result) {
	for t.controller < i/len(t.plan.Routes) {
		t.endController()
	}
	controller, route := t.plan.At(i)
	switch {
	case r.Err == nil:
		t.costs = append(t.costs, r.Costs)
		t.out.route(controller.Name, route.Name, r.Costs)
	case !errors.Is(r.Err, context.Canceled):
		t.failures++
		t.out.failed(controller.Name, route.Name, r.Err)
		fmt.Fprintf(t.env.stderr, "lockstep: %v\n", r.Err)
	}
}

// endController prints what the results of a controller come to.
func (t *tally) endController() {
	controller := t.plan.Controllers[t.controller].Name
	for _, f := range t.unread {
		t.out.failed(controller, f.name, f.err)
	}
	sum := summary{
		routes: len(t.costs), failed: t.failures + len(t.unread), interrupted: len(t.plan.Routes) - len(t.costs) - t.failures,
		mean: reference.MeanCosts(t.costs), seconds: time.Since(t.start).Seconds(),
	}
	t.out.summary(controller, sum)
	t.finished += sum.routes
	t.failed += sum.failed
	t.controller, t.costs, t.failures = t.controller+1, nil, 0
}

// end prints what is left to be printed.
func (t *tally) end() {
	for t.controller < len(t.plan.Controllers) {
		t.endController()
	}
}

// status is what the command ends with.
func (t *tally) status() error {
	switch all := len(t.plan.Controllers) * (len(t.plan.Routes) + len(t.unread)); {
	case t.finished+t.failed < all:
		fmt.Fprintf(t.env.stderr, "lockstep: interrupted after %d of %d rollouts\n", t.finished, all)
		return exitStatus(exitInterrupted)
	case t.failed > 0:
		fmt.Fprintf(t.env.stderr, "lockstep: %d of %d rollouts failed\n", t.failed, all)
		return exitStatus(exitUsage)
	}
	return nil
}
