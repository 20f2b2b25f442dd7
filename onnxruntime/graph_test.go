//go:build cgo

package onnxruntime

import (
	"math"
	"os"
	"slices"
	"testing"

	"lockstep"
	"lockstep/internal/assets/assetstest"
	"lockstep/internal/model"
	"lockstep/internal/onnx"
	"lockstep/internal/policytest"
	"lockstep/policyfile"
)

// TestPythonPolicy holds a policy's network to vectors of others.
func TestPythonPolicy(t *testing.T) {
	newSimulator(t, Config{})
	policytest.HoldProducts(t, func(n *lockstep.Network, x []float32) []float32 {
		rows := len(x) / lockstep.ObservationSize
		a, err := openActor(policyfile.Encode(n), rows)
		if err != nil {
			t.Fatal(err)
		}
		defer a.close()
		logits := make([]float32, rows*lockstep.ActorSize)
		if err := a.run(x, logits, rows); err != nil {
			t.Fatal(err)
		}
		return logits
	})
}

// TestGraphs holds the last position's logits of every pruned graph to the full
// graph's, bit by bit, in batches of several sizes. The pruning that is known to
// change bits must do so: else this test would see nothing.
func TestGraphs(t *testing.T) {
	s := newSimulator(t, Config{})
	data, err := os.ReadFile(assetstest.Model(t))
	if err != nil {
		t.Fatal(err)
	}
	const n = 66
	states, tokens := windows(t, s, n)
	logits := func(g Graph, size int) [][]float32 {
		net, err := graphNetwork(data, g)
		if err != nil {
			t.Fatal(err)
		}
		session, err := openSession(net, size)
		if err != nil {
			t.Fatal(err)
		}
		defer session.close()
		var all [][]float32
		for from := 0; from < n; from += size {
			m := min(size, n-from)
			for i := range m {
				session.enter(i, m, tokens[from+i], states[from+i])
			}
			if err := session.run(m); err != nil {
				t.Fatal(err)
			}
			for i := range m {
				all = append(all, slices.Clone(session.logits(i)))
			}
		}
		return all
	}
	want := logits(GraphFull, 1)
	for _, g := range []Graph{GraphFull, GraphHead, GraphTwoRows, GraphOneRow, GraphRebuilt, graphUnscaled} {
		for _, size := range []int{1, 2, 7, 32, 65} {
			differ, nan := 0, 0
			for i, row := range logits(g, size) {
				for j := range row {
					if math.Float32bits(row[j]) != math.Float32bits(want[i][j]) {
						differ++
					}
					if row[j] != row[j] {
						nan++
					}
				}
			}
			if nan > 0 {
				t.Errorf("graph %v, batches of %d: %d logits are NaN", g, size, nan)
			}
			if g == graphUnscaled {
				if differ < n*model.Vocabulary/2 {
					t.Errorf("graph %v, batches of %d: only %d of %d logits differ; this pruning is known to change most", g, size, differ, n*model.Vocabulary)
				}
			} else if differ > 0 {
				t.Errorf("graph %v, batches of %d: %d of %d logits differ", g, size, differ, n*model.Vocabulary)
			}
		}
	}
}

// TestGraphConstants looks up in the model the numbers that the rebuilt graph has
// in its place; of some the last bit hardly ever shows in a result.
func TestGraphConstants(t *testing.T) {
	data, err := os.ReadFile(assetstest.Model(t))
	if err != nil {
		t.Fatal(err)
	}
	m, err := onnx.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	count := map[float32]int{}
	for _, n := range m.Graph.Nodes {
		if n.OpType != "Constant" {
			continue
		}
		if values, err := n.Attributes[0].Tensor.Float32s(); err == nil && len(values) == 1 {
			count[values[0]]++
		}
	}
	for x, want := range map[float32]int{epsilon: 9, scoreScale: 4, geluCubic: 4, geluScale: 4, 0.5: 4, 1: 4, 2: 9} {
		if count[x] != want {
			t.Errorf("the model has %v %d times, want %d: it has %v", x, count[x], want, count)
		}
	}
}

// graphNetwork is newNetwork, for all graphs.
func graphNetwork(data []byte, g Graph) (network, error) {
	if g != graphUnscaled {
		return newNetwork(data, g)
	}
	pruned, err := prune(data, g)
	return network{data: pruned, positions: 1}, err
}

// TestGraphConfig simulates with every graph.
func TestGraphConfig(t *testing.T) {
	var want []lockstep.Result
	for g := GraphRebuilt; g <= GraphFull; g++ {
		s := newSimulator(t, Config{Graph: g})
		job := lockstep.Job{Route: shorten(routes(t, s.Profile())[0], 140), Policy: lockstep.DefaultPID}
		got := results(t, s, t.Context(), []lockstep.Job{job}, lockstep.Options{Shortcuts: lockstep.CostOnly, Trajectory: true})
		if want == nil {
			want = got
		}
		if d := resultDifference(got[0], want[0]); d != "" {
			t.Errorf("graph %v: %s", g, d)
		}
		if len(s.Notices()) > 0 && s.Version() == "1.30.0" {
			t.Errorf("graph %v: notices %q", g, s.Notices())
		}
	}
	for _, g := range []Graph{graphUnscaled, -1} {
		if _, err := New(Config{Library: library(t), ModelPath: assetstest.Model(t), Graph: g}); err == nil {
			t.Errorf("graph %d is accepted", g)
		}
	}
}

// TestUnknownNetwork takes a network of the right shapes that is not the known
// one: it is computed in full, and no parity is claimed.
func TestUnknownNetwork(t *testing.T) {
	data, err := os.ReadFile(assetstest.Model(t))
	if err != nil {
		t.Fatal(err)
	}
	// Twice the residual stream's first block, less its second: other nodes, the
	// same inputs and outputs.
	p := onnx.Patch{
		Remove: []string{"/h.1/Add_output_0"},
		Nodes: []onnx.Node{{OpType: "Sub", Outputs: []string{"/h.1/Add_output_0"},
			Inputs: []string{"/h.0/Add_1_output_0", "/h.1/attn/c_proj/MatMul_output_0"}}},
	}
	if data, err = p.Apply(data); err != nil {
		t.Fatal(err)
	}
	path := t.TempDir() + "/other.onnx"
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{Library: library(t), ModelPath: path})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.ProfileKnown() || len(s.Notices()) == 0 {
		t.Errorf("profile known %v, notices %q; want that parity is not claimed", s.ProfileKnown(), s.Notices())
	}
	job := lockstep.Job{Route: shorten(routes(t, s.Profile())[0], 110), Policy: lockstep.DefaultPID}
	opts := lockstep.Options{Shortcuts: lockstep.SkipWarmup, Trajectory: true}
	want := results(t, s, t.Context(), []lockstep.Job{job}, opts)
	if want[0].Err != nil {
		t.Fatal(want[0].Err)
	}
	opts.Shortcuts |= lockstep.LastPosition
	got := results(t, s, t.Context(), []lockstep.Job{job}, opts)
	if d := resultDifference(got[0], want[0]); d != "" {
		t.Error(d)
	}
}
