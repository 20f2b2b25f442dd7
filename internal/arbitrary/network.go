package arbitrary

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"pgregory.net/rapid"

	"lockstep/internal/defaults"
	"lockstep/internal/onnx"
)

// Reweighted is a network of tinyphysics' graph with weights of its own. The zero
// value is the embedded one.
type Reweighted struct {
	Seed  uint64
	Scale float32 // of the weights; those of layer normalisation are 1 ± Scale
}

// Networks generates the embedded network and ones with weights of all scales:
// with small ones all tokens are about equally likely and lataccel is clipped at
// nearly every step, with large ones attention and the choice are a single peak.
// Seeds are few, so that a caller can keep engines for them.
func Networks(seeds uint64) *rapid.Generator[Reweighted] {
	return rapid.Custom(func(t *rapid.T) Reweighted {
		n := Reweighted{Scale: rapid.SampledFrom(Scales).Draw(t, "scale")}
		if n.Scale != 0 {
			n.Seed = rapid.Uint64Range(1, seeds).Draw(t, "network")
		}
		return n
	})
}

// Scales are those of Networks. That of the embedded network's weights is 0.
var Scales = []float32{0, 1e-3, 0.02, 0.1, 0.5, 3}

func (n Reweighted) String() string {
	return fmt.Sprintf("network %d of scale %g", n.Seed, n.Scale)
}

// Model is the network's ONNX file. It is the embedded one with the contents of
// its float tensors replaced, so that the graph is the same, byte for byte.
func (n Reweighted) Model() []byte {
	data := defaults.Model()
	if n.Scale == 0 {
		return data
	}
	m, err := onnx.Parse(data)
	if err != nil {
		panic(fmt.Sprintf("arbitrary: the embedded network: %v", err)) // its own test reads it
	}
	random := rand.New(rand.NewPCG(n.Seed, uint64(math.Float32bits(n.Scale))))
	for i := range m.Graph.Initializers {
		t := &m.Graph.Initializers[i]
		if t.Type != onnx.Float {
			continue // the attention mask
		}
		center := float32(0)
		if strings.Contains(t.Name, "layer_norm") && strings.HasSuffix(t.Name, ".weight") {
			center = 1
		}
		for at := 0; at < len(t.Raw); at += 4 { // Raw aliases data
			x := center + float32(n.Scale*float32(random.NormFloat64()))
			binary.LittleEndian.PutUint32(t.Raw[at:], math.Float32bits(x))
		}
	}
	return data
}

// Fixed is the ONNX file of a network that always answers the same logits: its last
// layer normalisation has weight 0 and bias (1, 0, …), and the first row of the
// head are the logits.
func Fixed(logits []float32) []byte {
	data := defaults.Model()
	m, err := onnx.Parse(data)
	if err != nil {
		panic(fmt.Sprintf("arbitrary: the embedded network: %v", err))
	}
	set := func(t *onnx.Tensor, values ...float32) { // Raw aliases data
		clear(t.Raw)
		for i, x := range values {
			binary.LittleEndian.PutUint32(t.Raw[4*i:], math.Float32bits(x))
		}
	}
	for i := range m.Graph.Initializers {
		t := &m.Graph.Initializers[i]
		switch {
		case t.Name == "transformer.layer_norm_f.weight":
			set(t)
		case t.Name == "transformer.layer_norm_f.bias":
			set(t, 1)
		case len(t.Dims) == 2 && t.Dims[1] == int64(len(logits)): // the head
			set(t, logits...)
		}
	}
	return data
}
