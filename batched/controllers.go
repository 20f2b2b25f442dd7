package batched

import (
	"fmt"
	"runtime/debug"

	"lockstep"
)

// A BatchController steers several routes at once, for controllers that are
// cheaper that way: a network of one's own, say. A Policy makes it known.
//
// Which routes share a controller depends on the batch. So that a route's result
// does not, the answer for a route may depend on that route's inputs alone.
type BatchController interface {
	// Update writes to steer[i] the steer command of route i, which the
	// simulator clips to [SteerMin, SteerMax]. It is called for every step from
	// ContextLength on, in order, until the last of the routes has ended.
	Update(in *BatchStep, steer []float64)
}

// BatchStep is what a BatchController sees: one element for every route.
type BatchStep struct {
	Step    int
	Running []bool // false for a route that has ended or failed; its other elements are stale

	TargetLataccel  []float64 // m/s²
	CurrentLataccel []float64 // m/s², after the previous step
	State           []lockstep.State
	Plan            []lockstep.FuturePlan
}

// Policy drives jobs by batch controllers. Jobs that have the same *Policy and
// run in one chunk share a controller. Other engines do not know it; PerRoute
// makes a policy that they do.
type Policy struct {
	lockstep.Custom // Name is the policy's; New is not used

	// NewBatch makes the controller of n routes.
	NewBatch func(n int) BatchController
}

// PerRoute is the policy that has a batch controller of its own for each route.
func (p *Policy) PerRoute() lockstep.Custom {
	return lockstep.Custom{Name: p.Name, New: func() lockstep.Controller { return &batchOfOne{controller: p.NewBatch(1)} }}
}

// batchOfOne is the controller of one route that a batch controller steers.
type batchOfOne struct {
	controller BatchController
	in         BatchStep
	steer      [1]float64
}

func (c *batchOfOne) Update(targetLataccel, currentLataccel float64, state lockstep.State, plan lockstep.FuturePlan) float64 {
	if c.in.Step == 0 {
		c.in = BatchStep{
			Step:            lockstep.ContextLength - 1,
			Running:         []bool{true},
			TargetLataccel:  make([]float64, 1),
			CurrentLataccel: make([]float64, 1),
			State:           make([]lockstep.State, 1),
			Plan:            make([]lockstep.FuturePlan, 1),
		}
	}
	c.in.Step++
	c.in.TargetLataccel[0], c.in.CurrentLataccel[0] = targetLataccel, currentLataccel
	c.in.State[0], c.in.Plan[0] = state, plan
	c.controller.Update(&c.in, c.steer[:])
	return c.steer[0]
}

// controllers computes the steer commands of some of a chunk's slots.
type controllers interface {
	// update writes the commands of those slots that run to c.command. It calls
	// c.fail for slots whose controller fails.
	update(c *chunk, step int)
}

// newControllers groups a chunk's slots by the kind of their policies.
func newControllers(c *chunk) []controllers {
	var z zeros
	var p pids
	var u customs
	batches := map[*Policy]*batch{}
	var all []controllers
	for slot := range c.slots {
		switch policy := c.slots[slot].job.Policy.(type) {
		case lockstep.Zero:
			z = append(z, slot)
		case lockstep.PID:
			p.add(slot, policy)
		case lockstep.Custom:
			err := guard(func() {
				u.slots = append(u.slots, slot)
				u.controllers = append(u.controllers, policy.New())
			})
			if err != nil {
				u.slots = u.slots[:len(u.controllers)]
				c.fail(slot, 0, err)
			}
		case *Policy:
			b := batches[policy]
			if b == nil {
				b = &batch{policy: policy}
				batches[policy] = b
				all = append(all, b)
			}
			b.slots = append(b.slots, slot)
		default:
			c.fail(slot, 0, fmt.Errorf("no controller of type %T", policy))
		}
	}
	for _, b := range batches {
		b.start(c)
	}
	if len(z) > 0 {
		all = append(all, z)
	}
	if len(p.slots) > 0 {
		all = append(all, &p)
	}
	if len(u.slots) > 0 {
		all = append(all, &u)
	}
	return all
}

// guard calls f and makes a panic an error.
func guard(f func()) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	f()
	return nil
}

// zeros are slots that steer 0.
type zeros []int

func (z zeros) update(c *chunk, _ int) {
	for _, slot := range z {
		c.command[slot] = 0
	}
}

// pids are slots with PID controllers, whose gains and states lie side by side.
type pids struct {
	slots               []int
	p, i, d             []float64
	integral, lastError []float64
}

func (g *pids) add(slot int, gains lockstep.PID) {
	g.slots = append(g.slots, slot)
	g.p, g.i, g.d = append(g.p, gains.P), append(g.i, gains.I), append(g.d, gains.D)
	g.integral, g.lastError = append(g.integral, 0), append(g.lastError, 0)
}

func (g *pids) update(c *chunk, step int) {
	for k, slot := range g.slots {
		if !c.running[slot] {
			continue
		}
		e := c.slots[slot].target[step] - c.current[slot]
		g.integral[k] += e
		difference := e - g.lastError[k]
		g.lastError[k] = e
		c.command[slot] = float64(g.p[k]*e) + float64(g.i[k]*g.integral[k]) + float64(g.d[k]*difference)
	}
}

// customs are slots with controllers of the caller's own.
type customs struct {
	slots       []int
	controllers []lockstep.Controller
}

func (u *customs) update(c *chunk, step int) {
	for k, slot := range u.slots {
		if !c.running[slot] {
			continue
		}
		err := guard(func() {
			s := &c.slots[slot]
			c.command[slot] = u.controllers[k].Update(s.target[step], c.current[slot], s.route.State(step), s.route.FuturePlan(step))
		})
		if err != nil {
			c.fail(slot, step, err)
		}
	}
}

// batch are slots that one batch controller steers.
type batch struct {
	policy     *Policy
	slots      []int
	controller BatchController
	in         BatchStep
	steer      []float64
}

func (b *batch) start(c *chunk) {
	n := len(b.slots)
	b.in = BatchStep{
		Running:         make([]bool, n),
		TargetLataccel:  make([]float64, n),
		CurrentLataccel: make([]float64, n),
		State:           make([]lockstep.State, n),
		Plan:            make([]lockstep.FuturePlan, n),
	}
	b.steer = make([]float64, n)
	if err := guard(func() { b.controller = b.policy.NewBatch(n) }); err != nil {
		b.fail(c, 0, err)
	}
}

func (b *batch) fail(c *chunk, step int, err error) {
	for _, slot := range b.slots {
		if c.running[slot] {
			c.fail(slot, step, err)
		}
	}
}

func (b *batch) update(c *chunk, step int) {
	b.in.Step = step
	any := false
	for k, slot := range b.slots {
		b.in.Running[k] = c.running[slot]
		if !c.running[slot] {
			continue
		}
		any = true
		s := &c.slots[slot]
		b.in.TargetLataccel[k], b.in.CurrentLataccel[k] = s.target[step], c.current[slot]
		b.in.State[k], b.in.Plan[k] = s.route.State(step), s.route.FuturePlan(step)
	}
	if !any {
		return
	}
	if err := guard(func() { b.controller.Update(&b.in, b.steer) }); err != nil {
		b.fail(c, step, err)
		return
	}
	for k, slot := range b.slots {
		c.command[slot] = b.steer[k]
	}
}
