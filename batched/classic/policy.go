package classic

import "lockstep/classic"

// act chooses the actions of step t of the policy's steps.
func (b *block) act(p classic.Policy, t int64) {
	switch {
	case p.Uniform != nil:
		b.uniform(*p.Uniform, t)
	case p.Network != nil:
		b.network(p.Network, uint32(t))
	}
}

// take copies the actions that the caller gives for all environments.
func (b *block) take(a classic.Actions) {
	if a.Discrete != nil {
		copy(b.actions[:b.count], a.Discrete[b.first:])
	} else {
		copy(b.forces[:b.count], a.Continuous[b.first:])
	}
}

// uniform draws actions: see classic.Policy. Four words of each environment are
// drawn at a time, for 128 steps or for 4.
func (b *block) uniform(key uint64, t int64) {
	step := uint32(t)
	per := uint32(4)
	if b.task.Actions == 2 {
		per = 128
	}
	if of := int64(step/per) + 1; of != b.wordsOf || key != b.wordsKey {
		for i := range b.count {
			b.words[0][i], b.words[1][i], b.words[2][i], b.words[3][i] = philox(
				uint32(b.first+i), step/per, key,
			)
		}
		b.wordsOf, b.wordsKey = of, key
	}
	switch b.task.Actions {
	case 2:
		shift := step % 32
		for i, w := range b.words[step%128/32] {
			b.actions[i] = int32(w >> shift & 1)
		}
	case 0:
		limit := b.task.Limit
		for i, w := range b.words[step%4] {
			b.forces[i] = float32(float32(w>>8)*0x1p-24*(2*limit)) - limit
		}
	default:
		for i, w := range b.words[step%4] {
			b.actions[i] = int32(uint64(w) * uint64(b.task.Actions) >> 32)
		}
	}
}

// network computes actions from the last observations: layer by layer, output by
// output, all environments at a time.
func (b *block) network(p *classic.Perceptron, t uint32) {
	if b.inputs == nil {
		b.inputs = make([]float32, 2*classic.MaxWidth*b.n)
	}
	inputs, x := len(b.task.Observation), b.observations
	buffers := [2][]float32{b.inputs[:len(b.inputs)/2], b.inputs[len(b.inputs)/2:]}
	for layer, l := range p.Layers {
		y := buffers[layer%2]
		for j, bias := range l.Bias {
			column := y[j*b.n : (j+1)*b.n]
			for i := range column {
				column[i] = bias
			}
			for k := range inputs {
				w := l.Weights[j*inputs+k]
				for i, v := range x[k*b.n : (k+1)*b.n] {
					column[i] += float32(w * v)
				}
			}
			if layer < len(p.Layers)-1 {
				for i, v := range column {
					if !(v > 0) {
						column[i] = 0
					}
				}
			}
		}
		inputs, x = len(l.Bias), y
	}
	if len(p.Noise) > 0 {
		b.disturb(p, x[:inputs*b.n], t)
	}
	if b.task.Actions == 0 {
		copy(b.forces, x[:b.n])
		return
	}
	for i := range b.actions {
		best := 0
		for j := 1; j < inputs; j++ {
			if x[j*b.n+i] > x[best*b.n+i] {
				best = j
			}
		}
		b.actions[i] = int32(best)
	}
}

// disturb adds the network's noise to its outputs y.
func (b *block) disturb(p *classic.Perceptron, y []float32, t uint32) {
	shift := p.NoiseShift()
	for i := range b.count {
		var w [4]uint32
		w[0], w[1], w[2], w[3] = philox(uint32(b.first+i), t, p.Seed)
		for j := 0; j*b.n < len(y); j++ {
			y[j*b.n+i] += p.Noise[int(w[j]>>shift)]
		}
	}
}
