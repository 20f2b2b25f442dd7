package policytest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"lockstep"
	"lockstep/internal/f32"
)

// Winner is a network of the size of the leaderboard's best controllers: 1.5 million
// numbers, with every second layer's tanh.
func Winner() *lockstep.Network {
	n, err := random(rand.New(rand.NewPCG(15, 6)), nil,
		lockstep.ObservationSize, 512, 512, 512, 512, 512, 600)
	if err != nil {
		panic(err)
	}
	return n
}

// Declared is a network that declares what it sees, of some numbers of each source and in
// each form, and whose layers are on both sides of a panel's edge.
func Declared(seed uint64) *lockstep.Network {
	r := rand.New(rand.NewPCG(seed, 7))
	var texts []string
	place := func() string {
		switch r.IntN(4) {
		case 0:
			return fmt.Sprintf("observation[%d]", r.IntN(lockstep.ObservationSize))
		case 1:
			return fmt.Sprintf(
				"%s[%d]", []string{"action", "lataccel"}[r.IntN(2)], -1-r.IntN(lockstep.SeenBack),
			)
		}
		at := r.IntN(lockstep.SeenBack+lockstep.SeenAhead+1) - lockstep.SeenBack
		return fmt.Sprintf("%s[%d]", []string{"target", "roll", "v", "a"}[r.IntN(4)], at)
	}
	for range []int{1, 40, 257, 700}[r.IntN(4)] {
		text := place()
		if r.IntN(2) == 0 {
			text += "-" + place()
		}
		if r.IntN(2) == 0 {
			text += fmt.Sprintf("-%.3g", r.NormFloat64())
		}
		if r.IntN(2) == 0 {
			text += fmt.Sprintf("/%.3g", 0.1+20*r.Float64())
		}
		texts = append(texts, text)
	}
	if len(texts) > 1 { // -1, if the first difference is the first: in another order it is lost
		texts[1] = "v[0]-v[0]-1e-17/1e-17"
	}
	sees, err := lockstep.ParseSees(texts)
	if err != nil {
		panic(err)
	}
	width := func() int { return []int{1, 15, 255, 256, 257, 511, 513, 1024}[r.IntN(8)] }
	n, err := random(r, sees, len(sees), width(), width())
	if err != nil {
		panic(strings.Join(texts, ", ") + ": " + err.Error())
	}
	return n
}

// random is a network of random numbers, whose outputs neither vanish nor drown.
func random(r *rand.Rand, sees []lockstep.Seen, sizes ...int) (*lockstep.Network, error) {
	var layers []lockstep.Layer
	for i, outputs := range append(sizes[1:], lockstep.ActorSize) {
		l := lockstep.Layer{
			Inputs: sizes[i], Outputs: outputs, Tanh: i%2 == 1 && i < len(sizes)-1,
		}
		width := 1.7 / math.Sqrt(float64(l.Inputs))
		for range l.Inputs * outputs {
			l.Weights = append(l.Weights, float32(width*(2*r.Float64()-1)))
		}
		for range outputs {
			l.Bias = append(l.Bias, float32(0.4*r.Float64()-0.2))
		}
		layers = append(layers, l)
	}
	return lockstep.NewSeeing(sees, layers, lockstep.DefaultScale)
}

// plain is the rule of lockstep.Layer, number by number.
func plain(n *lockstep.Network, x []float32) []float32 {
	for i, l := range n.Layers {
		y := make([]float32, l.Outputs)
		for o := range y {
			y[o] = l.Bias[o]
			chain := float32(0)
			for k, w := range l.Weights[o*l.Inputs:][:l.Inputs] {
				if chain = f32.FMA(x[k], w, chain); k%256 == 255 || k == l.Inputs-1 {
					y[o], chain = y[o]+chain, 0
				}
			}
			switch {
			case i == len(n.Layers)-1:
			case l.Tanh:
				y[o] = f32.Tanh(y[o])
			case !(y[o] > 0):
				y[o] = 0
			}
		}
		x = y
	}
	return x
}

// shaped are networks with none, one and two layers in front of the last, whose inputs or outputs
// are on each side of a panel's or a chain's edge; with ReLU or tanh behind each.
func shaped() (all []*lockstep.Network) {
	r := rand.New(rand.NewPCG(4, 4))
	for _, width := range []int{
		1, 2, 15, 16, 17, 255, lockstep.SumPanel, 257, 511, 512, 513, lockstep.MaxWidth,
	} {
		for form := range 4 {
			for _, sizes := range [][]int{{width}, {width, 3}, {3, width}, {5, width, 7}} {
				if form>>(len(sizes)-1) > 0 {
					continue // it has fewer layers to bend
				}
				sees := make([]lockstep.Seen, sizes[0])
				for i := range sees {
					sees[i] = lockstep.Seen{Of: lockstep.SourceSpeed, Unit: 1}
				}
				n, err := random(r, sees, sizes...)
				if err != nil {
					panic(err)
				}
				for i := range n.Layers[:len(n.Layers)-1] {
					n.Layers[i].Tanh = form>>i&1 == 1
				}
				all = append(all, n)
			}
		}
	}
	return all
}

// faint is a network whose outputs are zeros of both signs: to a bias of -0 one whole chain is
// added, whose sum is too small for a number and keeps its sign.
func faint() *lockstep.Network {
	const inputs = lockstep.SumPanel
	first := lockstep.Layer{
		Inputs: 1, Outputs: inputs, Weights: make([]float32, inputs),
		Bias: slices.Repeat([]float32{0.25}, inputs),
	}
	last := lockstep.Layer{
		Inputs: inputs, Outputs: lockstep.ActorSize,
		Weights: make([]float32, inputs*lockstep.ActorSize),
		Bias:    slices.Repeat([]float32{float32(math.Copysign(0, -1))}, lockstep.ActorSize),
	}
	last.Weights[inputs-1] = -math.SmallestNonzeroFloat32
	last.Weights[2*inputs-1] = math.SmallestNonzeroFloat32
	n, err := lockstep.NewSeeing(
		[]lockstep.Seen{{Of: lockstep.SourceSpeed, Unit: 1}}, []lockstep.Layer{first, last},
		lockstep.DefaultScale,
	)
	if err != nil {
		panic(err)
	}
	return n
}

// HoldWide holds products of networks, (rows, inputs) to (rows, 2), to the plain rule.
func HoldWide(t *testing.T, forward func(n *lockstep.Network, x []float32) []float32) {
	t.Helper()
	r := rand.New(rand.NewPCG(9, 9))
	networks := shaped()
	for seed := range uint64(6) {
		networks = append(networks, Declared(seed))
	}
	networks = append(networks, faint())
	for k, n := range networks {
		rows := 1 + r.IntN(4)
		x := make([]float32, rows*n.Inputs())
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
		var want []float32
		for row := range rows {
			want = append(want, plain(n, x[row*n.Inputs():][:n.Inputs()])...)
		}
		for i, y := range forward(n, x) {
			if math.Float32bits(y) != math.Float32bits(want[i]) {
				t.Fatalf("network %d of %d inputs and layers of %v, row %d: %v, want %v", k,
					n.Inputs(), outputsOf(n), i/lockstep.ActorSize, y, want[i])
			}
		}
	}
}

// outputsOf are the sizes of a network's layers, which are negative where there is tanh.
func outputsOf(n *lockstep.Network) (sizes []int) {
	for _, l := range n.Layers {
		if l.Tanh {
			sizes = append(sizes, -l.Outputs)
		} else {
			sizes = append(sizes, l.Outputs)
		}
	}
	return sizes
}
