package onnxruntime

import (
	"fmt"
	"slices"

	"lockstep"
	"lockstep/internal/guard"
	"lockstep/internal/policies"
)

// controllers computes the steer commands of some of a chunk's slots.
type controllers interface {
	// update writes the commands of those slots that run to c.command. It calls
	// c.fail for slots whose controller fails.
	update(c *chunk, step int)
	// close ends the controllers' use.
	close()
}

// newControllers groups a chunk's slots by the kind of their policies.
func newControllers(c *chunk) []controllers {
	var z zeros
	var p pids
	var u customs
	var f feedForwards
	var t tables
	batches := map[*lockstep.Batch]*batch{}
	actors := map[*lockstep.Network]*networks{}
	var all []controllers
	for slot := range c.slots {
		if !c.running[slot] || c.commanded && c.slots[slot].job.Policy == nil {
			continue
		}
		switch policy := c.slots[slot].job.Policy.(type) {
		case lockstep.Zero:
			z = append(z, slot)
		case lockstep.PID:
			p.add(slot, policy)
		case lockstep.PIDFF:
			f.slots = append(f.slots, slot)
			f.controllers = append(f.controllers, policies.NewFeedForward(policy))
		case *lockstep.Table:
			t.slots = append(t.slots, slot)
			t.actions = append(t.actions, policy.Actions[c.slots[slot].route.Name])
		case *lockstep.Network:
			g := actors[policy]
			if g == nil {
				g = &networks{network: policy}
				actors[policy] = g
				all = append(all, g)
			}
			g.slots = append(g.slots, slot)
			c.actors[slot] = policies.NewActor(policy, c.slots[slot].job)
		case lockstep.Custom:
			err := guard.Do(func() {
				u.slots = append(u.slots, slot)
				u.controllers = append(u.controllers, policy.New())
			})
			if err != nil {
				u.slots = u.slots[:len(u.controllers)]
				c.fail(slot, 0, err)
			}
		case *lockstep.Batch:
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
	if len(f.slots) > 0 {
		all = append(all, &f)
	}
	if len(t.slots) > 0 {
		all = append(all, &t)
	}
	if len(u.slots) > 0 {
		all = append(all, &u)
	}
	return all
}

// zeros are slots that steer 0.
type zeros []int

func (zeros) close() {}

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

func (*pids) close() {}

func (g *pids) memory(slot int) []float64 {
	k := slices.Index(g.slots, slot)
	if k < 0 {
		return nil
	}
	return []float64{g.integral[k], g.lastError[k]}
}

func (g *pids) remember(slot int, m []float64) {
	k := slices.Index(g.slots, slot)
	g.integral[k], g.lastError[k] = m[0], m[1]
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

func (*customs) close() {}

func (u *customs) update(c *chunk, step int) {
	guard.Each(len(u.slots), func(k int) {
		if slot := u.slots[k]; c.running[slot] {
			s := &c.slots[slot]
			c.command[slot] = u.controllers[k].Update(s.target[step], c.current[slot], s.route.State(step), s.route.FuturePlan(step))
		}
	}, func(k int, err error) { c.fail(u.slots[k], step, err) })
}

// batch are slots that one batch controller steers.
type batch struct {
	policy     *lockstep.Batch
	slots      []int
	controller lockstep.BatchController
	step       *lockstep.BatchStep
}

func (b *batch) start(c *chunk) {
	routes := make([]*lockstep.Route, len(b.slots))
	for k, slot := range b.slots {
		routes[k] = c.slots[slot].route
	}
	b.step = lockstep.NewBatchStep(len(b.slots))
	err := guard.Try(func() (err error) {
		b.controller, err = b.policy.New(routes)
		return err
	})
	if err != nil {
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
	in := b.step
	in.Step = step
	clear(in.Err)
	any := false
	for k, slot := range b.slots {
		in.Running[k] = c.running[slot]
		if !c.running[slot] {
			continue
		}
		any = true
		s := &c.slots[slot]
		in.TargetLataccel[k], in.CurrentLataccel[k] = s.target[step], c.current[slot]
		in.State[k], in.Plan[k] = s.route.State(step), s.route.FuturePlan(step)
	}
	if !any {
		return
	}
	if err := guard.Try(func() error { return b.controller.Update(in) }); err != nil {
		b.fail(c, step, err)
		return
	}
	for k, slot := range b.slots {
		switch {
		case !c.running[slot]:
		case in.Err[k] != nil:
			c.fail(slot, step, in.Err[k])
		default:
			c.command[slot] = in.Steer[k]
		}
	}
}

// close ends the controller's use. Results are out by then, so an error can no
// longer be anybody's.
func (b *batch) close() {
	if b.controller != nil {
		guard.Do(func() { b.controller.Close() })
	}
}
