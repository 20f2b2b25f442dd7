package kernels

import "lockstep/internal/model"

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
