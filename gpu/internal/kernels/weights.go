package kernels

import (
	"math"

	"lockstep"
	"lockstep/internal/model"
)

// panel is the number of columns of a panel; weights.h has the layout.
const panel = 16

// Pack lays the network's weights out as the kernels read them, see weights.h.
func Pack(w *model.Weights) []float32 {
	var out []float32
	plain := func(a []float32) { out = append(out, a...) }
	panels := func(a []float32, k int) {
		n := len(a) / k
		for first := 0; first < n; first += panel {
			for p := range k {
				out = append(out, a[p*n+first:][:panel]...)
			}
		}
	}
	norm := func(n model.Norm) {
		plain(n.Weight)
		plain(n.Bias)
	}
	plain(w.StateEmbedding)
	plain(w.StateBias)
	plain(w.TokenEmbedding)
	plain(w.PositionEmbedding)
	for _, l := range w.Layers {
		norm(l.AttentionNorm)
		norm(l.MLPNorm)
		panels(l.QKV, model.Width)
		panels(l.Projection, model.Width)
		panels(l.FC, model.Width)
		panels(l.Out, model.Hidden)
	}
	norm(w.FinalNorm)
	panels(w.Head, model.Width)
	return out
}

// layerUnit is that of launch.h: layers are padded to multiples of it.
const layerUnit = 64

func padded(n int) int { return (n + layerUnit - 1) / layerUnit * layerUnit }

// ActorSize is how many numbers PackLayer makes of all layers of a network.
func ActorSize(n *lockstep.Network) (size int) {
	for _, l := range n.Layers {
		size += (padded(l.Inputs) + 1) * padded(l.Outputs)
	}
	return size
}

// PackLayer lays a layer of a network that steers out as the kernels read it, see Layer
// in launch.h: its padded inputs and outputs, and its numbers.
func PackLayer(l *lockstep.Layer) (inputs, outputs int, numbers []float32) {
	inputs, outputs = padded(l.Inputs), padded(l.Outputs)
	numbers = make([]float32, (inputs+1)*outputs)
	for o := range l.Outputs {
		for k := range inputs {
			w := float32(math.Copysign(0, -1))
			if k < l.Inputs {
				w = l.Weights[o*l.Inputs+k]
			}
			numbers[(o/panel*inputs+k)*panel+o%panel] = w
		}
	}
	copy(numbers[inputs*outputs:], l.Bias)
	return inputs, outputs, numbers
}
