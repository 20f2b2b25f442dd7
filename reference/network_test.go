package reference

import (
	"slices"
	"testing"

	"lockstep"
	"lockstep/internal/f32"
	"lockstep/internal/policytest"
)

// TestPythonPolicy holds the parts of a network's policy to vectors of others.
func TestPythonPolicy(t *testing.T) {
	for _, kernels := range f32.Available() {
		t.Run(kernels.Name, func(t *testing.T) {
			policytest.Hold(t, policytest.Functions{
				Softplus: policytest.Each(softplus), Mean: meanAction,
				Beta: policytest.Each(
					func(d policytest.Draw) float32 {
						return betaVariate(d.Softplus, d.Seed, d.ID, d.Step)
					},
				),
				Observe: observe,
				Forward: func(n *lockstep.Network, x []float32) []float32 {
					return newNetwork(n, nil, kernels).forward(x)
				},
			})
		})
	}
}

// TestPhilox: Random123's known answers.
func TestPhilox(t *testing.T) {
	const ones = 0xffffffff
	for _, c := range []struct {
		counter, want [4]uint32
		key           [2]uint32
	}{
		{want: [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{[4]uint32{ones, ones, ones, ones},
			[4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}, [2]uint32{ones, ones}},
		{[4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
			[4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1},
			[2]uint32{0xa4093822, 0x299f31d0}},
	} {
		if got := philox(c.counter, c.key); got != c.want {
			t.Errorf("philox(%x, %x) = %x, want %x", c.counter, c.key, got, c.want)
		}
	}
}

// TestUniform: the smallest, the largest and those in the middle are inside (0, 1), exactly.
func TestUniform(t *testing.T) {
	const ones = 0xffffffff
	for words, want := range map[[2]uint32]float64{
		{0, 0}: 0x1p-53, {0, 1<<12 - 1}: 0x1p-53, {0, 1 << 12}: 0x3p-53,
		{1 << 31, 0}: 0.5 + 0x1p-53, {ones, ones}: 1 - 0x1p-53,
	} {
		if got := uniform(words[0], words[1]); got != want {
			t.Errorf("of %x it is %x, want %x", words, got, want)
		}
	}
}

// TestWide holds networks of any widths to the plain rule, on all kernels.
func TestWide(t *testing.T) {
	for _, kernels := range f32.Available() {
		policytest.HoldWide(t, func(n *lockstep.Network, x []float32) (logits []float32) {
			c := newNetwork(n, nil, kernels)
			for row := range slices.Chunk(x, n.Inputs()) {
				logits = append(logits, c.forward(row)...)
			}
			return logits
		})
	}
}
