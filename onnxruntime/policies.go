package onnxruntime

import (
	"slices"

	"lockstep"
	"lockstep/internal/policies"
	"lockstep/policyfile"
)

// networks are slots that one network steers, whose products ONNX Runtime computes in
// a session of its own.
type networks struct {
	network *lockstep.Network
	slots   []int
	in, out []float32
	seen    []int // the slots that are in in
}

func (*networks) close() {}

func (g *networks) update(c *chunk, step int) {
	g.in, g.seen = g.in[:0], g.seen[:0]
	for _, slot := range g.slots {
		if !c.running[slot] {
			continue
		}
		c.command[slot] = 0
		if step < lockstep.ControlStartIdx {
			continue
		}
		s, a := &c.slots[slot], c.actors[slot]
		if err := a.Observe(step, s.lataccel, s.action); err != nil {
			c.fail(slot, step, err)
			continue
		}
		g.in, g.seen = append(g.in, a.Observation...), append(g.seen, slot)
	}
	if len(g.seen) == 0 {
		return
	}
	g.out = slices.Grow(g.out[:0], len(g.slots)*lockstep.ActorSize)[:len(g.seen)*lockstep.ActorSize]
	session, err := c.actorSession(g.network)
	if err == nil {
		err = session.run(g.in, g.out, len(g.seen))
	}
	for i, slot := range g.seen {
		if err != nil {
			c.fail(slot, step, err)
			continue
		}
		c.command[slot] = c.actors[slot].Act(step, g.out[i*lockstep.ActorSize:][:lockstep.ActorSize], c.slots[slot].action)
	}
}

// actorSession is the worker's session of a policy's network. The weights are initializers and
// prepacked: otherwise ONNX Runtime sums in another order.
func (w *worker) actorSession(n *lockstep.Network) (*actor, error) {
	if a := w.sessions[n]; a != nil {
		return a, nil
	}
	a, err := openActor(policyfile.Encode(n), w.simulator.config.Chunk)
	if err != nil {
		return nil, err
	}
	if w.sessions == nil {
		w.sessions = map[*lockstep.Network]*actor{}
	}
	w.sessions[n] = a
	return a, nil
}

// feedForwards are slots with PID controllers with feed-forward.
type feedForwards struct {
	slots       []int
	controllers []*policies.FeedForward
}

func (*feedForwards) close() {}

func (g *feedForwards) memory(slot int) []float64 {
	k := slices.Index(g.slots, slot)
	if k < 0 {
		return nil
	}
	return slices.Clone(g.controllers[k].Memory[:])
}

func (g *feedForwards) remember(slot int, m []float64) {
	copy(g.controllers[slices.Index(g.slots, slot)].Memory[:], m)
}

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
