package batched

import (
	"lockstep"
	"lockstep/internal/f32"
	"lockstep/internal/model"
)

// Sizes of the network, and row strides of its buffers.
const (
	positions   = model.Context
	last        = positions - 1
	width       = model.Width
	headSize    = model.HeadSize
	vocabulary  = model.Vocabulary
	qkvStride   = 3 * width
	halfHidden  = model.Hidden / 2
	scoreStride = 2 * f32.PanelWidth // 20 columns are used
	keyPanels   = 2 * headSize * f32.PanelWidth
)

// scoreScale is float32(1/√32), the alpha of the attention scores' product.
const scoreScale = 0x1.6a09e6p-3

// weights are the network's, packed once for all workers.
type weights struct {
	*model.Weights
	states f32.Panels
	blocks [model.LayerCount]block
	head   f32.Panels
}

// block is one transformer block. ONNX Runtime cuts products along K into panels of 256, so the
// perceptron's second product, along 512, is computed in two halves. The first product is cut by
// its columns into what each of these halves reads.
type block struct {
	attentionNorm, mlpNorm model.Norm
	queries, keysAndValues f32.Panels // two parts of one matrix
	all                    f32.Panels // that matrix
	projection             f32.Panels
	perceptron             [2]struct{ hidden, out f32.Panels }
}

func packWeights(w *model.Weights) *weights {
	p := &weights{
		Weights: w,
		states:  f32.Pack(w.StateEmbedding, model.StateSize, model.Half),
		head:    f32.Pack(w.Head, width, vocabulary),
	}
	for i, l := range w.Layers {
		b := block{
			attentionNorm: l.AttentionNorm, mlpNorm: l.MLPNorm,
			all:        f32.Pack(l.QKV, width, 3*width),
			projection: f32.Pack(l.Projection, width, width),
		}
		hidden := f32.Pack(l.FC, width, model.Hidden)
		for h := range b.perceptron {
			half, size := &b.perceptron[h], width*halfHidden
			half.hidden = hidden.Columns(h * halfHidden / f32.PanelWidth)
			half.hidden.Data = half.hidden.Data[:size]
			half.out = f32.Pack(l.Out[h*size:][:size], halfHidden, width)
		}
		p.blocks[i] = b
	}
	p.inOrder()
	return p
}

// inOrder puts the matrices into one run of memory as they are used one after the other,
// since a product fetches ahead what follows its weights.
func (w *weights) inOrder() {
	all := []*f32.Panels{&w.states}
	for i := range w.blocks {
		b := &w.blocks[i]
		all = append(all, &b.all, &b.projection)
		for h := range b.perceptron {
			all = append(all, &b.perceptron[h].hidden, &b.perceptron[h].out)
		}
	}
	all = append(all, &w.head)
	size := 0
	for _, m := range all {
		size += len(m.Data)
	}
	run := make([]float32, 0, size)
	for _, m := range all {
		from := len(run)
		run = append(run, m.Data...)
		m.Data = run[from:len(run):len(run)]
	}
	for i := range w.blocks {
		b := &w.blocks[i]
		b.queries, b.keysAndValues = b.all, b.all.Columns(width/f32.PanelWidth)
	}
}

// network computes the last position's logits of up to capacity sequences, for one
// goroutine at a time. Rows of x are (sequence, position), without those whose inputs an earlier
// sequence has too, see plan.
//
// A layer computes one group of sequences after the other, so that all between its input and its
// output stays in the cache; only the residual stream x is kept for all. From the last
// layer's queries on, only the last position counts: one row for each sequence.
type network struct {
	*weights
	kernels    *f32.Kernels
	arithmetic f32.Arithmetic
	group      int // sequences that a layer computes together

	states []float32 // (capacity, 20, 4), the input
	tokens []int32   // (capacity, 20), the input
	logits []float32 // (capacity, 1024), the output

	plan   plan      // of the rows of a run
	alone  bool      // each sequence is computed by itself: none uses rows of another
	inputs []float32 // (20·capacity, 4), states of the rows
	kept   []float32 // (20·capacity, 256), keys and values of rows that are lent
	window []float32 // (20, 384), keys and values of a sequence that has some of others

	x      []float32 // (20·capacity, 128), residual stream
	n      []float32 // (20·group, 128), normalised
	qkv    []float32 // (20·group, 384), queries, keys, values
	keysT  []float32 // (32, 32) in panels, keys of one head transposed, 20 columns used
	scores []float32 // (20, 32), scores and weights of one head, 20 columns used
	a      []float32 // (20·group, 128), attention's output; the perceptron's output
	hidden []float32 // (20·group, 256), half of the perceptron's hidden layer

	// Of the last positions alone, (capacity, 128) each: residual stream, queries,
	// attention's output.
	y, q, lastA []float32
}

// newNetwork makes a network and its buffers.
func newNetwork(
	w *weights, kernels *f32.Kernels, profile lockstep.Profile, capacity, group int,
) *network {
	n := &network{
		weights: w, kernels: kernels, arithmetic: kernels.For(profile),
		group: min(group, capacity),
	}
	rows := positions * n.group
	for _, b := range []struct {
		buffer *[]float32
		size   int
	}{
		{&n.states, capacity * positions * model.StateSize},
		{&n.logits, capacity * vocabulary},
		{&n.inputs, capacity * positions * model.StateSize},
		{&n.kept, capacity * positions * 2 * width},
		{&n.window, positions * qkvStride},
		{&n.x, capacity * positions * width},
		// In the last layer these have a row for each sequence.
		{&n.n, max(rows, capacity) * width},
		{&n.qkv, max(rows, capacity) * qkvStride},
		{&n.a, max(rows, capacity) * width},
		{&n.hidden, max(rows, capacity) * halfHidden},
		{&n.y, capacity * width}, {&n.q, capacity * width}, {&n.lastA, capacity * width},
		{&n.keysT, keyPanels},
		{&n.scores, positions * scoreStride},
	} {
		*b.buffer = make([]float32, b.size)
	}
	n.tokens = make([]int32, capacity*positions)
	n.plan = newPlan(capacity)
	return n
}

func (n *network) Tokens() []int32   { return n.tokens }
func (n *network) States() []float32 { return n.states }
func (n *network) Logits() []float32 { return n.logits }
func (n *network) Close() error      { return nil }

// Run computes the logits of the first count sequences.
func (n *network) Run(count int) error {
	n.arrange(count, !n.alone)
	if !n.compute() {
		n.alone = true
		n.arrange(count, false)
		n.compute()
	}
	for s := count - 1; s >= 0; s-- { // a unique sequence's logits lie no later than its equals'
		if u := n.plan.same[s]; u != s {
			copy(n.logits[s*vocabulary:][:vocabulary], n.logits[u*vocabulary:])
		}
	}
	return nil
}

// compute computes the logits of the unique sequences. It returns false if a row that several of
// them use may have other bits in each: see plan.
func (n *network) compute() bool {
	n.embed()
	unique := len(n.plan.unique)
	for i := range n.blocks {
		b := &n.blocks[i]
		if i == len(n.blocks)-1 {
			n.lastBlock(b)
			break
		}
		for from := 0; from < unique; {
			to := n.together(from)
			if !n.block(b, from, to) {
				return false
			}
			from = to
		}
	}
	n.arithmetic.LayerNorm(
		n.n[:unique*width], n.y[:unique*width], n.FinalNorm.Weight, n.FinalNorm.Bias,
	)
	n.product(unique, n.n, width, n.head, vocabulary, n.logits, vocabulary, 1, false)
	return true
}

// together returns the end of the group that begins with a unique sequence: as many as have room
// in a layer's buffers.
func (n *network) together(from int) int {
	p := &n.plan
	to := from + 1
	for to < len(p.unique) && p.start[to+1]-p.start[from] <= n.group*positions {
		to++
	}
	return to
}

// product computes c = alpha·(a·b), or c += alpha·(a·b), for b of so many columns.
func (n *network) product(
	m int, a []float32, lda int, b f32.Panels, columns int, c []float32, ldc int, alpha float32,
	accumulate bool,
) {
	n.kernels.MatMul(
		m, columns/f32.PanelWidth, b.Panel/b.Stride, a, lda, b, c, ldc, alpha, accumulate,
	)
}

// embed computes x = concat(bias + states·W, E[tokens]) + P.
func (n *network) embed() {
	p := &n.plan
	x := n.x[:p.count()*width]
	for u, s := range p.unique {
		from, shared := p.start[u], p.shared[u]
		at := s*positions + shared
		copy(
			n.inputs[from*model.StateSize:],
			n.states[at*model.StateSize:(s+1)*positions*model.StateSize],
		)
		for i, token := range n.tokens[at : (s+1)*positions] {
			row := x[(from+i)*width:][:width]
			copy(row, n.StateBias)
			copy(row[model.Half:], n.TokenEmbedding[int(token)*model.Half:][:model.Half])
		}
	}
	n.product(p.count(), n.inputs, model.StateSize, n.weights.states, model.Half, x, width, 1, true)
	for u := range p.unique {
		n.kernels.Add(
			x[p.start[u]*width:p.start[u+1]*width], n.PositionEmbedding[p.shared[u]*width:],
		)
	}
}

// block adds a block's attention and perceptron to the rows of some unique sequences. It returns
// false where compute does.
func (n *network) block(b *block, from, to int) bool {
	p := &n.plan
	first := p.start[from]
	rows := p.start[to] - first
	x := n.x[first*width:][:rows*width]
	n.arithmetic.LayerNorm(n.n[:rows*width], x, b.attentionNorm.Weight, b.attentionNorm.Bias)
	n.product(rows, n.n, width, b.all, qkvStride, n.qkv, qkvStride, 1, false)
	n.lend(first, rows)
	for u := from; u < to; u++ {
		own := n.qkv[(p.start[u]-first)*qkvStride:]
		keys, out := n.keysOf(u, own), n.a[(p.start[u]-first)*width:]
		for h := range model.Heads {
			n.attend(own[h*headSize:], qkvStride, keys[h*headSize:], out[h*headSize:], p.shared[u])
		}
	}
	if !n.ordinary(first, rows) {
		return false
	}
	n.product(rows, n.a, width, b.projection, width, x, width, 1, true)
	n.arithmetic.LayerNorm(n.n[:rows*width], x, b.mlpNorm.Weight, b.mlpNorm.Bias)
	n.perceptron(b, rows)
	n.kernels.Add(x, n.a[:rows*width])
	return true
}

// attend computes one head's attention of one sequence for the positions from first
// on: their queries, the keys of all positions, which the values follow width further
// in each row, and their output.
func (n *network) attend(queries []float32, queryStride int, keys, out []float32, first int) {
	n.kernels.Transpose(n.keysT, keys, positions, headSize, qkvStride)
	keysT := f32.Panels{Data: n.keysT, Stride: f32.PanelWidth, Panel: headSize * f32.PanelWidth}
	scores := n.scores
	// Positions up to 15 see nothing of the second panel. Of them, the first ten are multiplied
	// by the first panel alone: ten rows are whole tiles of the kernels.
	const seeing = f32.PanelWidth
	rows, split := positions-first, max(0, seeing/10*10-first)
	n.kernels.MatMul(
		split, 1, headSize, queries, queryStride, keysT, scores, scoreStride, scoreScale, false,
	)
	n.kernels.MatMul(
		rows-split, 2, headSize, queries[split*queryStride:], queryStride, keysT,
		scores[split*scoreStride:], scoreStride, scoreScale, false,
	)
	n.arithmetic.Softmax(scores, rows, scoreStride, first)
	n.kernels.MatMul(
		rows, headSize/f32.PanelWidth, positions, scores, scoreStride,
		f32.Panels{Data: keys[width:], Stride: qkvStride, Panel: f32.PanelWidth},
		out, width, 1, false,
	)
}

// perceptron computes a = the block's perceptron of the rows of n. Gelu is twice GELU, hence ½.
func (n *network) perceptron(b *block, rows int) {
	hidden := n.hidden[:rows*halfHidden]
	for h, half := range b.perceptron {
		n.product(rows, n.n, width, half.hidden, halfHidden, hidden, halfHidden, 1, false)
		n.kernels.Gelu(hidden, hidden)
		n.product(rows, hidden, halfHidden, half.out, width, n.a, width, 0.5, h > 0)
	}
}

// lastBlock is block for the last position of each sequence, of which the keys and
// values of all positions are needed. Its rows are those of y.
func (n *network) lastBlock(b *block) {
	p := &n.plan
	count := len(p.unique)
	y, normalised := n.y[:count*width], n.n[:count*width]
	for u := range count {
		copy(y[u*width:][:width], n.x[(p.start[u+1]-1)*width:])
	}
	n.arithmetic.LayerNorm(normalised, y, b.attentionNorm.Weight, b.attentionNorm.Bias)
	n.product(count, normalised, width, b.queries, width, n.q, width, 1, false)
	for from := 0; from < count; {
		to := n.together(from)
		first := p.start[from]
		rows := p.start[to] - first
		n.arithmetic.LayerNorm(
			n.n[:rows*width], n.x[first*width:][:rows*width], b.attentionNorm.Weight,
			b.attentionNorm.Bias,
		)
		n.product(rows, n.n, width, b.keysAndValues, 2*width, n.qkv[width:], qkvStride, 1, false)
		n.lend(first, rows)
		for u := from; u < to; u++ {
			keys := n.keysOf(u, n.qkv[(p.start[u]-first)*qkvStride:])
			for h := range model.Heads {
				at := u*width + h*headSize
				n.attend(n.q[at:], width, keys[h*headSize:], n.lastA[at:], last)
			}
		}
		from = to
	}
	n.product(count, n.lastA, width, b.projection, width, y, width, 1, true)
	n.arithmetic.LayerNorm(normalised, y, b.mlpNorm.Weight, b.mlpNorm.Bias)
	n.perceptron(b, count)
	n.kernels.Add(y, n.a[:count*width])
}
