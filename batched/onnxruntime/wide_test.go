package onnxruntime

import (
	"testing"

	"lockstep"
	"lockstep/internal/defaults"
	"lockstep/internal/onnx"
	"lockstep/internal/policytest"
	"lockstep/policyfile"
)

// TestWide holds ONNX Runtime, given a network's file, to the rule by which networks of any
// width are computed, one observation after the other.
func TestWide(t *testing.T) {
	model, _, err := defaults.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{Library: library(t), ModelPath: model}) // which loads the library
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	policytest.HoldWide(t, func(n *lockstep.Network, x []float32) (logits []float32) {
		m, err := onnx.Parse(policyfile.Encode(n))
		if err != nil {
			t.Fatal(err)
		}
		g := &m.Graph
		g.Inputs[0].Name, g.Nodes[0].Inputs[0] = "x", "x"
		g.Outputs[0].Name, g.Nodes[len(g.Nodes)-1].Outputs[0] = "y", "y"
		data := m.Encode(8, nil)
		for size := n.Inputs(); len(x) > 0; x = x[size:] {
			y, err := runRow(data, x[:size:size], lockstep.ActorSize)
			if err != nil {
				t.Fatal(err)
			}
			logits = append(logits, y...)
		}
		return logits
	})
}
