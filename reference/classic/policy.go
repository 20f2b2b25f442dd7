package classic

import "lockstep/classic"

// act returns the policy's actions for the next step.
func (v *vector) act(p classic.Policy, step int) classic.Actions {
	if p.Recorded != nil {
		return p.Recorded[step]
	}
	var a classic.Actions
	for i := range v.slots {
		if p.Uniform != nil {
			v.uniform(&a, *p.Uniform, i)
			continue
		}
		y := forward(p.Network, v.slots[i].observation)
		if noise := p.Network.Noise; len(noise) > 0 {
			block := philox([4]uint32{uint32(i), 0, uint32(v.steps), 0}, p.Network.Seed)
			for j := range y {
				y[j] += noise[int(block[j]>>p.Network.NoiseShift())]
			}
		}
		if v.task.Actions == 0 {
			a.Continuous = append(a.Continuous, y[0])
		} else {
			a.Discrete = append(a.Discrete, argmax(y))
		}
	}
	return a
}

// uniform appends environment i's action: see classic.Policy.
func (v *vector) uniform(a *classic.Actions, seed uint64, i int) {
	t := uint32(v.steps)
	per := uint32(4)
	if v.task.Actions == 2 {
		per = 128
	}
	block := philox([4]uint32{uint32(i), 0, t / per, 0}, seed)
	switch v.task.Actions {
	case 2:
		bit := t % 128
		a.Discrete = append(a.Discrete, int32(block[bit/32]>>(bit%32)&1))
	case 0:
		unit := float32(block[t%4]>>8) * 0x1p-24
		a.Continuous = append(a.Continuous, float32(unit*(2*v.task.Limit))-v.task.Limit)
	default:
		a.Discrete = append(a.Discrete, int32(uint64(block[t%4])*uint64(v.task.Actions)>>32))
	}
}

func forward(n *classic.Perceptron, x []float32) []float32 {
	for i, layer := range n.Layers {
		y := make([]float32, len(layer.Bias))
		for j := range y {
			y[j] = layer.Bias[j]
			for k, xk := range x {
				y[j] += float32(layer.Weights[j*len(x)+k] * xk)
			}
			if i < len(n.Layers)-1 && !(y[j] > 0) {
				y[j] = 0
			}
		}
		x = y
	}
	return x
}

func argmax(y []float32) int32 {
	best := 0
	for j := range y {
		if y[j] > y[best] {
			best = j
		}
	}
	return int32(best)
}
