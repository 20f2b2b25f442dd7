package batched

import (
	"fmt"

	"lockstep"
	"lockstep/internal/hostcontrol"
	"lockstep/internal/policies"
)

// A controller steers one rollout.
type controller interface {
	// update answers a step with a command, which is not clipped yet.
	update(r *rollout) float64
}

// A rememberer is a controller whose memory is numbers, which a snapshot keeps.
type rememberer interface {
	controller
	memory() []float64
	remember([]float64)
}

// newController makes a rollout's controller; of a *lockstep.Batch, which steers
// several, there is none.
func newController(job *lockstep.Job) (c controller, err error) {
	switch p := job.Policy.(type) {
	case lockstep.Zero:
		return zero{}, nil
	case lockstep.PID:
		return &pid{PID: p}, nil
	case lockstep.PIDFF:
		return feedForward{policies.NewFeedForward(p)}, nil
	case *lockstep.Network:
		return actor{policies.NewActor(p, job)}, nil
	case *lockstep.Table:
		return table{p.Actions[job.Route.Name]}, nil
	case lockstep.Custom:
		host, err := hostcontrol.New(p, job.Route)
		return hosted{host}, err
	case *lockstep.Batch:
		return nil, nil
	}
	return nil, fmt.Errorf("no controller of type %T", job.Policy)
}

// zero answers 0.
type zero struct{}

func (zero) update(*rollout) float64 { return 0 }
func (zero) memory() []float64       { return nil }
func (zero) remember([]float64)      {}

// pid is a PID controller.
type pid struct {
	lockstep.PID
	integral, before float64
}

func (c *pid) update(r *rollout) float64 {
	e := r.target[r.step] - r.current
	c.integral += e
	change := e - c.before
	c.before = e
	return float64(c.P*e) + float64(c.I*c.integral) + float64(c.D*change)
}

func (c *pid) memory() []float64    { return []float64{c.integral, c.before} }
func (c *pid) remember(m []float64) { c.integral, c.before = m[0], m[1] }

// hosted is a controller of the user's own.
type hosted struct{ *hostcontrol.Group }

func (c hosted) update(r *rollout) float64 {
	seat := &c.Seats[0]
	*seat = hostcontrol.Seat{Running: true, Lataccel: r.current}
	c.Ask(r.step)
	r.err = seat.Err
	return seat.Command
}

// gang is rollouts that move together: one with a controller of its own, or those that
// one batch controller steers, which are all at the same step.
type gang struct {
	rollouts []*rollout
	policy   *lockstep.Batch    // nil for one rollout
	host     *hostcontrol.Group // of the policy, from the first step on
}

// make makes a gang's batch controller, unless it has one.
func (g *gang) make() (err error) {
	if g.host != nil {
		return nil
	}
	routes := make([]*lockstep.Route, len(g.rollouts))
	for k, r := range g.rollouts {
		routes[k] = r.job.Route
	}
	g.host, err = hostcontrol.New(g.policy, routes...)
	return err
}

// ask lets a gang's batch controller answer the next step, and makes the controller for
// the first one. Errors are noted in the rollouts.
func (g *gang) ask() {
	if err := g.make(); err != nil {
		for _, r := range g.rollouts {
			r.err, r.step = err, 0 // before the first step
		}
		return
	}
	step := 0
	for k, r := range g.rollouts {
		g.host.Seats[k] = hostcontrol.Seat{Running: r.running(), Lataccel: r.current}
		if r.running() {
			step = r.step
		}
	}
	g.host.Ask(step)
	for k, r := range g.rollouts {
		if seat := &g.host.Seats[k]; seat.Running {
			r.command, r.err = seat.Command, seat.Err
		}
	}
}

// close ends the use of the batch controller.
func (g *gang) close() error {
	if g.host == nil {
		return nil
	}
	return g.host.Close()
}
