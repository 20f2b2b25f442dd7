package batched

import (
	"errors"
	"fmt"

	"lockstep"
	"lockstep/internal/guard"
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
		return c, guard.Do(func() { c = &custom{p.New()} })
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

// custom is a controller of the user's own.
type custom struct{ lockstep.Controller }

func (c *custom) update(r *rollout) float64 {
	route := r.job.Route
	return c.Update(r.target[r.step], r.current, route.State(r.step), route.FuturePlan(r.step))
}

// gang is rollouts that move together: one with a controller of its own, or those that
// one batch controller steers, which are all at the same step.
type gang struct {
	rollouts []*rollout
	policy   *lockstep.Batch // nil for one rollout
	batch    lockstep.BatchController
	step     *lockstep.BatchStep
}

// ask lets a gang's batch controller answer the next step, and makes the controller for
// the first one. Errors are noted in the rollouts.
func (g *gang) ask() {
	var err error
	if ended := guard.Do(func() {
		if g.batch == nil {
			err = g.start()
		}
		if err == nil {
			g.present()
			err = g.batch.Update(g.step)
		}
	}); ended != nil {
		err = ended
	}
	for k, r := range g.rollouts {
		switch {
		case !r.running():
		case err != nil:
			r.err = err
		case g.step.Err[k] != nil:
			r.err = g.step.Err[k]
		default:
			r.command = g.step.Steer[k]
		}
	}
}

func (g *gang) start() (err error) {
	routes := make([]*lockstep.Route, len(g.rollouts))
	for k, r := range g.rollouts {
		routes[k] = r.job.Route
	}
	g.step = lockstep.NewBatchStep(len(routes))
	if g.batch, err = g.policy.New(routes); err == nil && g.batch == nil {
		err = errors.New("the policy made no controller")
	}
	return err
}

// present writes what the controller sees of the step.
func (g *gang) present() {
	s := g.step
	clear(s.Err)
	for k, r := range g.rollouts {
		if s.Running[k] = r.running(); !s.Running[k] {
			continue
		}
		s.Step = r.step
		s.TargetLataccel[k], s.CurrentLataccel[k] = r.target[r.step], r.current
		s.State[k], s.Plan[k] = r.job.Route.State(r.step), r.job.Route.FuturePlan(r.step)
	}
}

// close ends the use of the batch controller. Results are out by then, so that an error
// can no longer be anybody's.
func (g *gang) close() {
	if b := g.batch; b != nil {
		g.batch = nil
		guard.Do(func() { b.Close() })
	}
}
