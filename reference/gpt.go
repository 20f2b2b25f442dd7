package reference

import (
	"math"

	"lockstep"
	"lockstep/internal/f32"
	"lockstep/internal/model"
)

// gpt is the network, in the order in which ONNX Runtime's CPU provider computes
// it, for one sequence. It holds the buffers of one pass and so serves one
// goroutine.
type gpt struct {
	*parameters
	kernels    *f32.Kernels
	arithmetic f32.Arithmetic

	x      []float32 // (20, 128), residual stream
	n      []float32 // (20, 128), normalised
	qkv    []float32 // (20, 384), queries, keys, values
	keysT  []float32 // (32, 32) in panels, keys of one head transposed, 20 columns used
	scores []float32 // (20, 32), scores and weights of one head, 20 columns used
	a      []float32 // (20, 128), attention's output; the MLP's output
	hidden []float32 // (20, 512)
}

// Row strides of the buffers.
const (
	positions   = model.Context
	width       = model.Width
	qkvStride   = 3 * model.Width
	scoreStride = 2 * f32.PanelWidth
)

// scoreScale is float32(1/√32), the alpha of the attention scores' product.
const scoreScale = 0x1.6a09e6p-3

// parameters are the weights, packed once for all simulators.
type parameters struct {
	*model.Weights
	stateEmbedding f32.Panels
	layers         [model.LayerCount]layer
	head           f32.Panels
}

// layer holds one block's weights. ONNX Runtime cuts products along K into
// panels of 256, so the second product of the MLP has two halves.
type layer struct {
	model.Layer
	qkv, projection, fc f32.Panels
	out                 [2]f32.Panels
}

func pack(w *model.Weights) *parameters {
	p := &parameters{
		Weights:        w,
		stateEmbedding: f32.Pack(w.StateEmbedding, model.StateSize, model.Half),
		head:           f32.Pack(w.Head, width, model.Vocabulary),
	}
	for i, l := range w.Layers {
		const half = model.Hidden / 2
		p.layers[i] = layer{
			Layer:      l,
			qkv:        f32.Pack(l.QKV, width, 3*width),
			projection: f32.Pack(l.Projection, width, width),
			fc:         f32.Pack(l.FC, width, model.Hidden),
			out: [2]f32.Panels{
				f32.Pack(l.Out[:half*width], half, width),
				f32.Pack(l.Out[half*width:], half, width),
			},
		}
	}
	return p
}

func newGPT(p *parameters, profile lockstep.Profile, kernels *f32.Kernels) *gpt {
	return &gpt{
		parameters: p,
		kernels:    kernels,
		arithmetic: kernels.For(profile),
		x:          make([]float32, positions*width),
		n:          make([]float32, positions*width),
		qkv:        make([]float32, positions*qkvStride),
		keysT:      make([]float32, model.HeadSize*scoreStride),
		scores:     make([]float32, positions*scoreStride),
		a:          make([]float32, positions*width),
		hidden:     make([]float32, positions*model.Hidden),
	}
}

// forward computes the logits of the positions from first on, of shape
// (20-first, 1024), from states of shape (20, 4) and 20 tokens.
//
// In the last layer only keys and values depend on positions before first, so
// with first = 19, all that the simulator uses, the rest of that layer and the
// head run on one row. No other bit can change: every output is a chain of its
// own row.
func (g *gpt) forward(logits, states []float32, tokens []int64, first int) {
	g.embed(states, tokens)
	for i := range g.layers {
		from := 0
		if i == len(g.layers)-1 {
			from = first
		}
		g.attention(&g.layers[i], from)
		g.mlp(&g.layers[i], from)
	}
	g.norm(g.FinalNorm, first)
	g.kernels.MatMul(
		positions-first, model.Vocabulary/f32.PanelWidth, width, g.n[first*width:], width, g.head,
		logits, model.Vocabulary, 1, false,
	)
}

// embed computes x = concat(bias + states·Wt, E[tokens]) + P.
func (g *gpt) embed(states []float32, tokens []int64) {
	t := g.n[:positions*model.Half]
	g.kernels.MatMul(
		positions, model.Half/f32.PanelWidth, model.StateSize, states, model.StateSize,
		g.stateEmbedding, t, model.Half, 1, false,
	)
	for i, token := range tokens {
		x, p := g.x[i*width:(i+1)*width], g.PositionEmbedding[i*width:]
		state, e := t[i*model.Half:(i+1)*model.Half], g.TokenEmbedding[token*model.Half:]
		for j := range state {
			x[j] = (g.StateBias[j] + state[j]) + p[j]
			x[model.Half+j] = e[j] + p[model.Half+j]
		}
	}
}

// norm normalises the rows of x from first on.
func (g *gpt) norm(w model.Norm, first int) {
	g.arithmetic.LayerNorm(g.n[first*width:], g.x[first*width:], w.Weight, w.Bias)
}

// attention adds to the rows of x from first on the block's self-attention.
func (g *gpt) attention(l *layer, first int) {
	const panels = width / f32.PanelWidth // of each of queries, keys, values
	rows := positions - first
	g.norm(l.AttentionNorm, 0)
	g.kernels.MatMul(
		rows, panels, width, g.n[first*width:], width, l.qkv, g.qkv[first*qkvStride:], qkvStride, 1,
		false,
	)
	g.kernels.MatMul(
		positions, 2*panels, width, g.n, width, l.qkv.Columns(panels), g.qkv[width:], qkvStride, 1,
		false,
	)

	for h := range model.Heads {
		queries, keys, values := g.qkv[h*model.HeadSize:], g.qkv[width+h*model.HeadSize:],
			g.qkv[2*width+h*model.HeadSize:]
		for j := range positions {
			key := keys[j*qkvStride : j*qkvStride+model.HeadSize]
			column := g.keysT[j/f32.PanelWidth*model.HeadSize*f32.PanelWidth+j%f32.PanelWidth:]
			for p, v := range key {
				column[p*f32.PanelWidth] = v
			}
		}
		scores := g.scores[first*scoreStride:]
		g.kernels.MatMul(
			rows, 2, model.HeadSize, queries[first*qkvStride:], qkvStride,
			f32.Panels{
				Data:   g.keysT,
				Stride: f32.PanelWidth,
				Panel:  model.HeadSize * f32.PanelWidth,
			},
			scores, scoreStride, scoreScale, false,
		)
		for i := first; i < positions; i++ {
			g.softmax(g.scores[i*scoreStride:i*scoreStride+positions], i+1)
		}
		g.kernels.MatMul(
			rows, 2, positions, scores, scoreStride,
			f32.Panels{Data: values, Stride: qkvStride, Panel: f32.PanelWidth},
			g.a[first*width+h*model.HeadSize:], width, 1, false,
		)
	}
	g.kernels.MatMul(
		rows, panels, width, g.a[first*width:], width, l.projection, g.x[first*width:], width, 1,
		true,
	)
}

// softmax replaces the first n scores of a row by their softmax and the others,
// which are masked, by +0: what e^-∞ comes out as.
func (g *gpt) softmax(row []float32, n int) {
	highest := float32(math.Inf(-1))
	for _, s := range row[:n] {
		highest = max(highest, s)
	}
	e := row[:n]
	g.arithmetic.Weights(e, e, -highest)
	clear(row[n:])
	total := laneSum(row, g.arithmetic.Lanes)
	q := 1 / total
	for j := range e {
		e[j] *= q
	}
}

// laneSum sums a row of 20 as a SIMD loop of 16, 8 or 4 lanes does, folds 16 lanes to 8,
// and adds lanes up by pairs.
func laneSum(row []float32, lanes int) float32 {
	r := (*[positions]float32)(row)
	if lanes == 4 {
		d := [4]float32(r[:4])
		for j := 4; j < positions; j++ {
			d[j%4] += r[j]
		}
		return (d[0] + d[1]) + (d[2] + d[3])
	}
	c := [8]float32(r[:8])
	if lanes == 16 {
		// Lane j is r[j] for j < 16, to which r[16+j] is added; then lanes j and
		// j+8 are.
		for j := range 4 {
			c[j] += r[16+j]
		}
		for j := range c {
			c[j] += r[8+j]
		}
	} else {
		for j := 8; j < positions; j++ {
			c[j%8] += r[j]
		}
	}
	return ((c[0] + c[1]) + (c[2] + c[3])) + ((c[4] + c[5]) + (c[6] + c[7]))
}

// mlp adds to the rows of x from first on the block's two-layer perceptron.
func (g *gpt) mlp(l *layer, first int) {
	const (
		panels = width / f32.PanelWidth
		half   = model.Hidden / 2
	)
	rows := positions - first
	g.norm(l.MLPNorm, first)
	hidden := g.hidden[first*model.Hidden:]
	g.kernels.MatMul(
		rows, model.Hidden/f32.PanelWidth, width, g.n[first*width:], width, l.fc, hidden,
		model.Hidden, 1, false,
	)
	g.kernels.Gelu(hidden, hidden)
	out := g.a[first*width:]
	g.kernels.MatMul(rows, panels, half, hidden, model.Hidden, l.out[0], out, width, 0.5, false)
	g.kernels.MatMul(
		rows, panels, half, hidden[half:], model.Hidden, l.out[1], out, width, 0.5, true,
	)
	x := g.x[first*width:]
	for i, v := range out {
		x[i] += v
	}
}
