package classic

import (
	"fmt"
	"math/bits"
	"slices"
)

// A Policy chooses the actions of Run. One of its fields is set.
type Policy struct {
	// Recorded has the actions of each step.
	Recorded []Actions
	// Uniform draws actions by Philox4x32-10 with this key. Steps are counted from
	// the last Reset of all environments. Environment e at step t takes, of the
	// block of counter (e, e>>32, b, 0):
	//
	//	2 actions:  bit t mod 128 of block t/128
	//	3 actions:  w·3 >> 32, w being word t mod 4 of block t/4
	//	a float32:  (w>>8)·2⁻²⁴·2·Limit - Limit, of the same word
	Uniform *uint64
	// Network computes them from the last observation.
	Network *Perceptron
}

// A Perceptron is a small network that chooses actions, in float32. Layer by layer
// y[j] = b[j], then for k in order y[j] += w[j][k]·x[k], the product rounded first; between
// layers max(y, 0), -0 being 0. The action is the first largest output, or the only one.
type Perceptron struct {
	Layers []Layer

	// Noise, if there is any, is added to the outputs, so that actions are drawn: of 2ⁿ
	// numbers, n at most 16, output j of environment e at step t gets element w >> (32-n). Here
	// w is word j of the Philox4x32-10 block of counter (e, 0, t, 0) with the key Seed, and steps
	// are counted as for Policy.Uniform. With quantiles of Gumbel's distribution the actions
	// follow the softmax of the outputs, with those of the normal one a Gaussian.
	Noise []float32 `json:",omitempty"`
	Seed  uint64    `json:",omitempty"`
}

// NoiseShift is how far a word is shifted to be a place in the noise.
func (n *Perceptron) NoiseShift() int { return 32 - (bits.Len(uint(len(n.Noise))) - 1) }

// A Layer has Weights of shape (len(Bias), inputs), row by row.
type Layer struct {
	Weights, Bias []float32
}

// Bounds of a network. With them no output can overflow, whatever is observed.
const (
	MaxLayers = 4
	MaxWidth  = 64 // outputs of a layer
	MaxWeight = 1000
	MaxNoise  = 1 << 16 // numbers
)

// Check tells why the policy cannot act in the task for so many steps, or nil.
// Recorded actions are checked at their step.
func (p Policy) Check(t Task, steps int) error {
	set := 0
	for _, is := range []bool{p.Recorded != nil, p.Uniform != nil, p.Network != nil} {
		if is {
			set++
		}
	}
	switch {
	case set != 1:
		return fmt.Errorf(
			"%s: a policy is recorded actions, or uniform ones, or a network: %d are given", t.Name,
			set,
		)
	case p.Recorded != nil && len(p.Recorded) != steps:
		return fmt.Errorf(
			"%s: actions of %d steps were recorded: %d are wanted", t.Name, len(p.Recorded), steps,
		)
	case p.Network == nil:
		return nil
	}
	return p.Network.check(t)
}

// check tells why the network cannot act in the task, or nil.
func (n *Perceptron) check(t Task) error {
	if err := n.checkNoise(t); err != nil {
		return err
	}
	if len(n.Layers) > MaxLayers {
		return fmt.Errorf(
			"%s: the network has %d layers: at most %d can be", t.Name, len(n.Layers), MaxLayers,
		)
	}
	inputs := len(t.Observation)
	for i, l := range n.Layers {
		if len(l.Bias) < 1 || len(l.Bias) > MaxWidth || len(l.Weights) != len(l.Bias)*inputs {
			return fmt.Errorf(
				"%s: layer %d has %d weights and %d biases: with %d inputs and at most %d "+
					"outputs that cannot be",
				t.Name, i, len(l.Weights), len(l.Bias), inputs, MaxWidth,
			)
		}
		for _, w := range slices.Concat(l.Weights, l.Bias) {
			if !(w >= -MaxWeight && w <= MaxWeight) {
				return fmt.Errorf(
					"%s: layer %d has a weight of %g: they must be within ±%d", t.Name, i, w,
					MaxWeight,
				)
			}
		}
		inputs = len(l.Bias)
	}
	if want := max(t.Environment.Actions, 1); inputs != want || len(n.Layers) == 0 {
		return fmt.Errorf("%s: the network has %d outputs, want %d", t.Name, inputs, want)
	}
	return nil
}

func (n *Perceptron) checkNoise(t Task) error {
	if k := len(n.Noise); k > MaxNoise || k&(k-1) != 0 {
		return fmt.Errorf(
			"%s: the network has %d numbers of noise: want none or a power of two up to %d", t.Name,
			k, MaxNoise,
		)
	}
	for i, x := range n.Noise {
		if !(x >= -MaxWeight && x <= MaxWeight) {
			return fmt.Errorf(
				"%s: number %d of the network's noise is %g: they must be within ±%d", t.Name, i, x,
				MaxWeight,
			)
		}
	}
	return nil
}
