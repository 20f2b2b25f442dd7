package reference

import (
	"lockstep"
	"lockstep/internal/f32"
)

// network is a lockstep.Network that steers a rollout: a function of the rollout's
// histories. It holds the stages of its last action.
type network struct {
	*lockstep.Network
	kernels  *f32.Kernels
	weights  []f32.Panels       // of each layer, (inputs, outputs)
	sampling *lockstep.Sampling // nil for the mean

	observation []float32
	actor       []float32
	softplus    [2]float32
	variate     float32 // of the Beta distribution, in (0, 1)
	raw         float64 // the variate between -1 and 1
}

func newNetwork(n *lockstep.Network, sampling *lockstep.Sampling, kernels *f32.Kernels) *network {
	c := &network{
		Network:     n,
		sampling:    sampling,
		kernels:     kernels,
		observation: make([]float32, n.Inputs()),
	}
	for _, l := range n.Layers {
		columns := make([]float32, len(l.Weights))
		for o := range l.Outputs {
			for k := range l.Inputs {
				columns[k*l.Outputs+o] = l.Weights[o*l.Inputs+k]
			}
		}
		c.weights = append(c.weights, f32.Pack(columns, l.Inputs, l.Outputs))
	}
	return c
}

// act is the command at a step: 0 before the policy acts, then the action before it
// and a change.
func (c *network) act(r *lockstep.Route, step int, lataccel, action []float64) (float64, error) {
	if step < lockstep.ControlStartIdx {
		return 0, nil
	}
	if err := see(c.observation, c.Network, r, step, lataccel, action); err != nil {
		return 0, err
	}
	c.actor = c.forward(c.observation)
	c.softplus = [2]float32{softplus(c.actor[0]), softplus(c.actor[1])}
	if s := c.sampling; s != nil {
		c.variate = betaVariate(c.softplus, s.Seed, s.ID, step)
		c.raw = 2*float64(c.variate) - 1
	} else {
		c.raw = meanAction(c.softplus)
		c.variate = float32((c.raw + 1) / 2)
	}
	before := 0.0
	if step > lockstep.ControlStartIdx {
		before = action[step-1]
	}
	change := clip(c.raw*c.Scale, -lockstep.MaxChange, lockstep.MaxChange)
	return clip(before+change, lockstep.SteerMin, lockstep.SteerMax), nil
}

func (c *network) memory() []float64  { return nil }
func (c *network) remember([]float64) {}

// Update is not how a network is asked.
func (c *network) Update(_, _ float64, _ lockstep.State, _ lockstep.FuturePlan) float64 {
	panic("a network acts from histories")
}

// meanAction is the mean of Beta(1+sp0, 1+sp1), between -1 and 1.
func meanAction(sp [2]float32) float64 {
	a, b := 1+float64(sp[0]), 1+float64(sp[1])
	return 2*a/(a+b) - 1
}

// forward is the network: each output is the bias, to which one chain of fused products for
// each SumPanel inputs is added in turn, each from 0 and in the order of the inputs.
func (c *network) forward(x []float32) []float32 {
	for i, l := range c.Layers {
		panels := (l.Outputs + f32.PanelWidth - 1) / f32.PanelWidth
		y := make([]float32, panels*f32.PanelWidth)
		copy(y, l.Bias)
		for from := 0; from < l.Inputs; from += lockstep.SumPanel {
			w := c.weights[i]
			w.Data = w.Data[from*w.Stride:]
			k := min(lockstep.SumPanel, l.Inputs-from)
			c.kernels.MatMul(1, panels, k, x[from:], l.Inputs, w, y, len(y), 1, true)
		}
		x = y[:l.Outputs]
		for o := range x {
			switch {
			case i == len(c.Layers)-1:
			case l.Tanh:
				x[o] = f32.Tanh(x[o])
			case !(x[o] > 0):
				x[o] = 0
			}
		}
	}
	return x
}
