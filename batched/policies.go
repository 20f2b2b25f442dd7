package batched

import (
	"slices"

	"lockstep"
	"lockstep/internal/f32"
	"lockstep/internal/policies"
)

// actor is a network that steers a rollout. Its worker computes the products.
type actor struct{ *policies.Actor }

func (actor) update(*rollout) float64 { return 0 } // before it acts
func (actor) memory() []float64       { return nil }
func (actor) remember([]float64)      {}

// feedForward is a PID controller with feed-forward.
type feedForward struct{ *policies.FeedForward }

func (c feedForward) update(r *rollout) float64 { return c.Command(r.job.Route, r.step, r.current) }
func (c feedForward) memory() []float64         { return slices.Clone(c.Memory[:]) }
func (c feedForward) remember(m []float64)      { copy(c.Memory[:], m) }

// table is the actions of a route.
type table struct{ actions []float64 }

func (c table) update(r *rollout) float64 { return policies.TableAction(c.actions, r.step) }
func (table) memory() []float64           { return nil }
func (table) remember([]float64)          {}

// actorNetwork is a policy's network, its weights packed for the kernels.
type actorNetwork struct {
	*lockstep.Network
	weights []f32.Panels
	stride  int       // of a row: room for the widest layer, in panels
	x, y    []float32 // (rows, stride), what a layer reads and writes
}

// keptNetworks bounds how many policies' networks a worker keeps packed.
const keptNetworks = 16

// actorNetwork is that of a policy, packed once for a worker's use.
func (w *worker) actorNetwork(n *lockstep.Network) *actorNetwork {
	if p := w.packed[n]; p != nil {
		return p
	}
	if w.packed == nil || len(w.packed) == keptNetworks {
		w.packed = map[*lockstep.Network]*actorNetwork{}
	}
	p := &actorNetwork{Network: n}
	p.stride = (n.Width() + f32.PanelWidth - 1) / f32.PanelWidth * f32.PanelWidth
	for _, l := range n.Layers {
		columns := make([]float32, len(l.Weights))
		for i, x := range l.Weights {
			o, k := i/l.Inputs, i%l.Inputs
			columns[k*l.Outputs+o] = x
		}
		p.weights = append(p.weights, f32.Pack(columns, l.Inputs, l.Outputs))
	}
	w.packed[n] = p
	return p
}

// run computes the layers for the observations in x; the outputs lie in rows of the stride.
func (p *actorNetwork) run(kernels *f32.Kernels, rows int) []float32 {
	stride := p.stride
	p.y = slices.Grow(p.y[:0], len(p.x))[:len(p.x)]
	for i, l := range p.Layers {
		panels := (l.Outputs + f32.PanelWidth - 1) / f32.PanelWidth
		first := min(l.Inputs, lockstep.SumPanel)
		kernels.MatMul(rows, panels, first, p.x, stride, p.weights[i], p.y, stride, 1, false)
		plain := i < len(p.Layers)-1 && first == l.Inputs && !l.Tanh
		for r := range rows {
			y := p.y[r*stride:][:l.Outputs]
			if !plain {
				for o, b := range l.Bias {
					y[o] += b
				}
				continue
			}
			for o, b := range l.Bias {
				y[o] = max(y[o]+b, 0) // without a branch, which would be foreseen half of the time
			}
		}
		if !plain {
			p.add(kernels, rows, panels, i)
		}
		p.x, p.y = p.y, p.x
	}
	return p.x
}

// add adds to a layer's outputs the chains of the inputs from SumPanel on, and computes
// what stands behind the layer.
func (p *actorNetwork) add(kernels *f32.Kernels, rows, panels, layer int) {
	l, w := &p.Layers[layer], p.weights[layer]
	for from := lockstep.SumPanel; from < l.Inputs; from += lockstep.SumPanel {
		w.Data = w.Data[lockstep.SumPanel*w.Stride:]
		k := min(l.Inputs-from, lockstep.SumPanel)
		kernels.MatMul(rows, panels, k, p.x[from:], p.stride, w, p.y, p.stride, 1, true)
	}
	if layer == len(p.Layers)-1 {
		return
	}
	for r := range rows {
		y := p.y[r*p.stride:][:l.Outputs]
		for o := range y {
			if l.Tanh {
				y[o] = f32.Tanh(y[o])
			} else {
				y[o] = max(y[o], 0)
			}
		}
	}
}

// actTogether lets the networks of rollouts act, those of one network together.
func (w *worker) actTogether() {
	for len(w.acting) > 0 {
		policy := w.acting[0].controller.(actor).Network
		p := w.actorNetwork(policy)
		p.x, w.ready = p.x[:0], w.ready[:0]
		w.acting = slices.DeleteFunc(w.acting, func(r *rollout) bool {
			a := r.controller.(actor)
			if a.Network != policy {
				return false
			}
			if r.err = a.Observe(r.step, r.lataccel, r.action); r.err == nil {
				p.x = slices.Grow(p.x, p.stride)
				copy(p.x[len(p.x):][:p.stride], a.Observation)
				p.x, w.ready = p.x[:len(p.x)+p.stride], append(w.ready, r)
			}
			return true
		})
		if len(w.ready) == 0 { // all of them see NaN
			continue
		}
		out := p.run(w.kernels, len(w.ready))
		for k, r := range w.ready {
			r.command = r.controller.(actor).Act(
				r.step, out[k*p.stride:][:lockstep.ActorSize], r.action,
			)
		}
	}
}
