package onnxruntime

import (
	"lockstep"
	"lockstep/internal/policies"
	"lockstep/policyfile"
)

// networks are slots that one network steers, whose products ONNX Runtime computes in
// a session of its own.
type networks struct {
	policies.Networks
	slots []int
}

func (g *networks) add(c *chunk, slot int) {
	s := &c.slots[slot]
	i := g.Add(policies.Rollout{Route: s.route, Sampling: s.job.Sampling, Lataccel: s.lataccel, Action: s.action})
	g.slots = append(g.slots, slot)
	c.acted[slot] = func() *policies.Acted { return g.Acted(i) }
}

func (*networks) close() {}

func (g *networks) update(c *chunk, step int) {
	err := g.Act(step,
		func(i int) bool { return c.running[g.slots[i]] },
		func(in, out []float32, n int) error {
			a, err := c.actor(g.Network)
			if err != nil {
				return err
			}
			return a.run(in, out, n)
		},
		func(i int, err error) { c.fail(g.slots[i], step, err) })
	for i, slot := range g.slots {
		switch {
		case !c.running[slot]:
		case err != nil:
			c.fail(slot, step, err)
		default:
			c.command[slot] = g.Acted(i).Command
		}
	}
}

// actor is the worker's session of a policy's network. The weights are initializers and
// prepacked: otherwise ONNX Runtime sums in another order.
func (w *worker) actor(n *lockstep.Network) (*actor, error) {
	if a := w.actors[n]; a != nil {
		return a, nil
	}
	a, err := openActor(policyfile.Encode(n), w.simulator.config.Chunk)
	if err != nil {
		return nil, err
	}
	if w.actors == nil {
		w.actors = map[*lockstep.Network]*actor{}
	}
	w.actors[n] = a
	return a, nil
}

// feedForwards are slots with PID controllers with feed-forward.
type feedForwards struct {
	slots       []int
	controllers []*policies.FeedForward
}

func (*feedForwards) close() {}

func (g *feedForwards) update(c *chunk, step int) {
	for k, slot := range g.slots {
		if c.running[slot] {
			c.command[slot] = g.controllers[k].Command(c.slots[slot].route, step, c.current[slot])
		}
	}
}

// tables are slots that tables of actions steer.
type tables struct {
	slots   []int
	actions [][]float64
}

func (*tables) close() {}

func (g *tables) update(c *chunk, step int) {
	for k, slot := range g.slots {
		c.command[slot] = policies.TableAction(g.actions[k], step)
	}
}
