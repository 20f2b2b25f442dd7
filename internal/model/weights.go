// Package model reads the weights of the tinyphysics network from its ONNX file
// and refuses any other network.
package model

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	"lockstep"
	"lockstep/internal/fileio"
	"lockstep/internal/onnx"
)

// Sizes of the network.
const (
	Context    = lockstep.ContextLength // positions
	StateSize  = 4                      // action, roll lataccel, v ego, a ego
	Half       = 64                     // width of each of the two embeddings
	Width      = 128                    // of the residual stream
	Heads      = 4                      // of attention
	HeadSize   = 32                     //
	Hidden     = 512                    // of the MLP
	LayerCount = 4                      //
	Vocabulary = lockstep.VocabSize     // output bins
)

// OfficialSHA256 is the hash of the model of comma.ai's controls challenge.
const OfficialSHA256 = "5beca7f07a3e9b183b4aa0402c780ddbc985416fe50ca788017b09705b4d0705"

// Foreign says that a file which is found under the name of the challenge's network is
// another one, if it is. A file that cannot be read is for whoever loads it to tell of.
func Foreign(path string) (notice string, foreign bool) {
	sum, err := fileio.SHA256(path)
	if err != nil || sum == OfficialSHA256 {
		return "", false
	}
	return fmt.Sprintf(
		"%s is not the challenge's network, whatever its name (SHA-256 %.12s…): costs are not "+
			"comparable with the challenge's",
		path, sum,
	), true
}

// Weights are the network's constants. Matrices are row-major, of the shape
// given, and multiply row vectors from the right.
type Weights struct {
	SHA256 string // of the file

	StateEmbedding    []float32 // (4, 64)
	StateBias         []float32 // (64)
	TokenEmbedding    []float32 // (1024, 64)
	PositionEmbedding []float32 // (20, 128)
	Layers            [LayerCount]Layer
	FinalNorm         Norm
	Head              []float32 // (128, 1024)
}

// Layer is one transformer block.
type Layer struct {
	AttentionNorm Norm
	QKV           []float32 // (128, 384): queries, keys, values
	Projection    []float32 // (128, 128)
	MLPNorm       Norm
	FC            []float32 // (128, 512)
	Out           []float32 // (512, 128)
}

// Norm is the affine part of a layer normalisation.
type Norm struct{ Weight, Bias []float32 } // (128) each

// opset is the version of the operators of the official graph.
const opset = 14

// structure is what onnx.Graph.Structure says of the official graph.
const structure = "b879473ad5c08a8720555673ada25516128570307f38a80f04094856ae858f6c"

// Load reads the weights from a file.
func Load(path string) (*Weights, error) {
	data, err := fileio.ReadFile(path, fileio.Network)
	if err != nil {
		return nil, err
	}
	w, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return w, nil
}

// Parse reads the weights from the bytes of an ONNX file.
func Parse(data []byte) (*Weights, error) {
	m, err := onnx.Parse(data)
	if err != nil {
		return nil, err
	}
	if m.Opset != opset {
		return nil, fmt.Errorf(
			"operator set %d, want %d: this is not the tinyphysics network", m.Opset, opset,
		)
	}
	g := &m.Graph
	if err := checkValue("input", g.Inputs, "states", onnx.Float,
		[]int64{-1, Context, StateSize}); err != nil {
		return nil, err
	}
	if err := checkValue("input", g.Inputs, "tokens", onnx.Int64,
		[]int64{-1, Context}); err != nil {
		return nil, err
	}
	if err := checkValue("output", g.Outputs, "output", onnx.Float,
		[]int64{-1, Context, Vocabulary}); err != nil {
		return nil, err
	}

	sum := sha256.Sum256(data)
	w := &Weights{SHA256: hex.EncodeToString(sum[:])}
	r := reader{graph: g}
	r.mask("transformer.h.0.attn.bias")
	w.StateEmbedding = r.product("/wt_embedding/MatMul", StateSize, Half)
	w.StateBias = r.tensor("transformer.wt_embedding.bias", Half)
	w.TokenEmbedding = r.tensor("transformer.wt2_embedding.weight", Vocabulary, Half)
	w.PositionEmbedding = r.tensor("transformer.wp_embedding.weight", Context, Width)
	for i := range w.Layers {
		tensors, nodes := fmt.Sprintf("transformer.h.%d.", i), fmt.Sprintf("/h.%d/", i)
		w.Layers[i] = Layer{
			AttentionNorm: r.norm(tensors + "attn.layer_norm"),
			QKV:           r.product(nodes+"attn/c_attn/MatMul", Width, 3*Width),
			Projection:    r.product(nodes+"attn/c_proj/MatMul", Width, Width),
			MLPNorm:       r.norm(tensors + "mlp.layer_norm"),
			FC:            r.product(nodes+"mlp/c_fc/MatMul", Width, Hidden),
			Out:           r.product(nodes+"mlp/c_proj/MatMul", Hidden, Width),
		}
	}
	w.FinalNorm = r.norm("transformer.layer_norm_f")
	w.Head = r.productTo("output", Width, Vocabulary)
	if r.err != nil {
		return nil, r.err
	}
	if got := g.Structure(); got != structure {
		return nil, fmt.Errorf(
			"the weights fit, but the graph computes something else than tinyphysics (structure "+
				"%.12s, want %.12s): the arithmetic of such a network is not known",
			got, structure,
		)
	}
	// Structure takes any constant for any other; the order of first use tells
	// them apart.
	used := initializersUsed(g)
	for i, name := range r.names {
		if i >= len(used) || used[i] != name {
			return nil, fmt.Errorf(
				"tensor %.60q is not used where it belongs: this is not the tinyphysics network",
				name,
			)
		}
	}
	return w, nil
}

// initializersUsed lists the initializers in the order in which the nodes first
// use them.
func initializersUsed(g *onnx.Graph) []string {
	left := map[string]bool{}
	for _, t := range g.Initializers {
		left[t.Name] = true
	}
	var used []string
	for _, n := range g.Nodes {
		for _, name := range n.Inputs {
			if left[name] {
				left[name] = false
				used = append(used, name)
			}
		}
	}
	return used
}

func checkValue(
	kind string, values []onnx.Value, name string, elementType int, dims []int64,
) error {
	for _, v := range values {
		if v.Name == name {
			if v.Type != elementType || !slices.Equal(v.Dims, dims) {
				return fmt.Errorf(
					"%s %s: element type %d and shape %v, want type %d and shape %v", kind, name,
					v.Type, v.Dims, elementType, dims,
				)
			}
			return nil
		}
	}
	return fmt.Errorf("no %s named %s: this is not the tinyphysics network", kind, name)
}

// reader looks constants up, in the order in which the nodes use them, and keeps
// the first error.
type reader struct {
	graph *onnx.Graph
	names []string // looked up so far
	err   error
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

// find returns a constant of the given shape.
func (r *reader) find(name string, dims ...int64) *onnx.Tensor {
	r.names = append(r.names, name)
	t, ok := r.graph.Initializer(name)
	if !ok {
		r.fail("no tensor %.60q: this is not the tinyphysics network", name)
		return nil
	}
	if !slices.Equal(t.Dims, dims) {
		r.fail("tensor %.60q: shape %v, want %v", name, t.Dims, dims)
		return nil
	}
	return t
}

func (r *reader) tensor(name string, dims ...int64) []float32 {
	t := r.find(name, dims...)
	if t == nil {
		return nil
	}
	values, err := t.Float32s()
	if err != nil {
		r.fail("%w", err)
	}
	return values
}

func (r *reader) norm(name string) Norm {
	return Norm{Weight: r.tensor(name+".weight", Width), Bias: r.tensor(name+".bias", Width)}
}

// product returns the constant right factor of the matrix product at a node.
func (r *reader) product(node string, dims ...int64) []float32 {
	return r.productTo(node+"_output_0", dims...)
}

// productTo does so for the product whose result has the given name. Exporters
// number the factors, so only the result's name is telling.
func (r *reader) productTo(result string, dims ...int64) []float32 {
	for _, n := range r.graph.Nodes {
		if n.OpType == "MatMul" && len(n.Inputs) == 2 && slices.Contains(n.Outputs, result) {
			return r.tensor(n.Inputs[1], dims...)
		}
	}
	r.fail("no matrix product %s: this is not the tinyphysics network", result)
	return nil
}

// mask checks that a constant lets each position see itself and earlier ones.
func (r *reader) mask(name string) {
	t := r.find(name, 1, 1, Context, Context)
	if t == nil {
		return
	}
	visible, err := t.Bools()
	if err != nil {
		r.fail("%w", err)
		return
	}
	for i := range Context {
		for j := range Context {
			if visible[i*Context+j] != (j <= i) {
				r.fail("tensor %.60q: the attention mask is not causal at (%d, %d)", name, i, j)
				return
			}
		}
	}
}
