package onnx

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"io"
	"math"
	"slices"
)

// Structure is a hash of what the graph computes: operators, wiring,
// attributes and inline constants, in order. It does not depend on the names of
// values nor on the contents of initializers, so that a model trained anew has
// the structure of its architecture.
func (g *Graph) Structure() string {
	h := sha256.New()
	ids := map[string]uint64{} // values are numbered as they first appear
	value := func(name string) {
		id, ok := ids[name]
		if !ok {
			id = uint64(len(ids))
			ids[name] = id
		}
		writeUint64(h, id)
	}
	for _, in := range g.Inputs {
		value(in.Name)
	}
	for _, n := range g.Nodes {
		writeBytes(h, []byte(n.OpType))
		writeUint64(h, uint64(len(n.Inputs)), uint64(len(n.Outputs)), uint64(len(n.Attributes)))
		for _, name := range n.Inputs {
			value(name)
		}
		for _, name := range n.Outputs {
			value(name)
		}
		attributes := slices.Clone(n.Attributes)
		slices.SortFunc(attributes, func(a, b Attribute) int { return cmp.Compare(a.Name, b.Name) })
		for _, a := range attributes {
			writeBytes(h, []byte(a.Name))
			writeUint64(h, uint64(math.Float32bits(a.Float)), uint64(a.Int))
			writeBytes(h, a.String)
			writeInts(h, a.Ints)
			if a.Tensor != nil {
				writeUint64(h, uint64(a.Tensor.Type))
				writeInts(h, a.Tensor.Dims)
				writeBytes(h, a.Tensor.Raw)
			}
		}
	}
	for _, out := range g.Outputs {
		value(out.Name)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func writeUint64(w io.Writer, values ...uint64) {
	for _, v := range values {
		w.Write(binary.LittleEndian.AppendUint64(nil, v))
	}
}

func writeInts(w io.Writer, values []int64) {
	writeUint64(w, uint64(len(values)))
	for _, v := range values {
		writeUint64(w, uint64(v))
	}
}

func writeBytes(w io.Writer, b []byte) {
	writeUint64(w, uint64(len(b)))
	w.Write(b)
}
