// Package hostcontrol drives controllers that run on the host, for engines that roll many
// routes out: a lockstep.Custom steers one rollout, a lockstep.Batch several in step. It
// computes nothing, so that engines may share it as they share routes and draws.
package hostcontrol

import (
	"errors"
	"fmt"
	"slices"

	"lockstep"
	"lockstep/internal/guard"
)

// Seat is one rollout at the step that its controller is asked for.
type Seat struct {
	Running  bool    // it has neither ended nor failed; if not, nothing is asked of it
	Lataccel float64 // m/s² after the step before

	// What the controller answers: the steer command, before clipping, or why the rollout
	// fails.
	Command float64
	Err     error
}

// Group is the rollouts that one controller steers. They are at the same step.
type Group struct {
	Seats []Seat // of the routes, in their order

	routes     []*lockstep.Route
	controller lockstep.BatchController
	step       *lockstep.BatchStep
}

// New makes the controller of a policy, which is a lockstep.Custom and has one route or is a
// *lockstep.Batch.
func New(policy lockstep.Policy, routes ...*lockstep.Route) (*Group, error) {
	g := &Group{
		Seats:  make([]Seat, len(routes)),
		routes: routes,
		step:   lockstep.NewBatchStep(len(routes)),
	}
	err := guard.Try(func() (err error) {
		none := false
		switch p := policy.(type) {
		case lockstep.Custom:
			c := p.New()
			g.controller, none = alone{c}, guard.Nobody(c)
		case *lockstep.Batch:
			g.controller, err = p.New(slices.Clone(routes)) // whose order may be changed
			none = guard.Nobody(g.controller)
		default:
			return fmt.Errorf("no controller of type %T", policy)
		}
		if err == nil && none {
			err = errors.New("the policy made no controller")
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return g, nil
}

// Ask has the controller answer a step for the seats that run. Whatever it does to itself,
// those have an error, and nothing else is touched.
func (g *Group) Ask(step int) {
	if !g.present(step) {
		return
	}
	told := *g.step // the controller may put other arrays into its own
	err := guard.Try(func() error { return g.controller.Update(&told) })
	if n := len(g.Seats); err == nil && (len(told.Steer) != n || len(told.Err) != n) {
		err = fmt.Errorf("the controller answers with %d commands and %d errors, want %d of each",
			len(told.Steer), len(told.Err), n)
	}
	for k := range g.Seats {
		s := &g.Seats[k]
		switch {
		case !s.Running:
		case err != nil:
			s.Err = err
		default:
			s.Command, s.Err = told.Steer[k], told.Err[k]
		}
	}
}

// present writes what the controller sees of a step, and reports whether a seat runs.
func (g *Group) present(step int) (runs bool) {
	in := g.step
	in.Step = step
	clear(in.Err)
	for k, s := range g.Seats {
		if in.Running[k] = s.Running; !s.Running {
			continue
		}
		runs = true
		route := g.routes[k]
		in.TargetLataccel[k], in.CurrentLataccel[k] = route.TargetLataccel[step], s.Lataccel
		in.State[k], in.Plan[k] = route.State(step), route.FuturePlan(step)
	}
	return runs
}

// Close ends the controller's use, once. Results are out by then, so that an error can no longer
// be a rollout's.
func (g *Group) Close() error {
	c := g.controller
	if c == nil {
		return nil
	}
	g.controller = nil
	return guard.Try(c.Close)
}

// alone is the controller of one rollout as one of a batch.
type alone struct{ lockstep.Controller }

func (c alone) Update(s *lockstep.BatchStep) error {
	s.Steer[0] = c.Controller.Update(
		s.TargetLataccel[0], s.CurrentLataccel[0], s.State[0], s.Plan[0])
	return nil
}

func (alone) Close() error { return nil }
