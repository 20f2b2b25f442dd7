//go:build cgo

package onnxruntime

import (
	"math"
	"os"
	"slices"
	"testing"

	"lockstep"
	"lockstep/internal/model"
	"lockstep/internal/onnx"
)

// TestGraphs holds the logits of the graph that computes the last position alone to the full
// model's, bit by bit, in batches of several sizes. Without its factor 2 the bits are known to be
// others, and this test must see that.
func TestGraphs(t *testing.T) {
	s := newSimulator(t, Config{})
	data, err := os.ReadFile(networkPath(t))
	if err != nil {
		t.Fatal(err)
	}
	last, err := lastPosition(data)
	if err != nil {
		t.Fatal(err)
	}
	weights, err := model.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	unscaled := network{data: rebuild(weights, 1), positions: 1, positionsFirst: true}
	full := network{data: data, positions: model.Context}
	const n = 66
	states, tokens := windows(t, s, n)
	want := logits(t, full, 1, states, tokens)
	for _, size := range []int{1, 2, 7, 32, 65} {
		for name, net := range map[string]network{
			"full":          full,
			"last position": last,
			"unscaled":      unscaled,
		} {
			differ := 0
			for i, row := range logits(t, net, size, states, tokens) {
				for j := range row {
					if row[j] != row[j] {
						t.Fatalf(
							"graph %s, batches of %d, sequence %d: logit %d is NaN", name, size, i,
							j,
						)
					}
					if math.Float32bits(row[j]) != math.Float32bits(want[i][j]) {
						differ++
					}
				}
			}
			if name == "unscaled" && differ < n*model.Vocabulary/2 {
				t.Errorf(
					"graph %s, batches of %d: %d of %d logits differ, want most", name, size,
					differ, n*model.Vocabulary,
				)
			}
			if name != "unscaled" && differ > 0 {
				t.Errorf(
					"graph %s, batches of %d: %d of %d logits differ", name, size, differ,
					n*model.Vocabulary,
				)
			}
		}
	}
}

// logits are those of the last position of each sequence, computed in batches.
func logits(t *testing.T, net network, size int, states [][]float32, tokens [][]int64) [][]float32 {
	t.Helper()
	session, err := openSession(net, size)
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, session)
	var all [][]float32
	bound := map[int]*binding{}
	for from := 0; from < len(states); from += size {
		m := min(size, len(states)-from)
		for i := range m {
			session.enter(i, m, tokens[from+i], states[from+i])
		}
		if err := session.run(m); err != nil {
			t.Fatal(err)
		}
		if b := session.bindings[m]; bound[m] != nil && b != bound[m] {
			t.Errorf("%d sequences of %d are bound again: what was bound is never freed", m, size)
		}
		bound[m] = session.bindings[m]
		for i := range m {
			all = append(all, slices.Clone(session.logits(i)))
		}
	}
	return all
}

// TestConstant: a constant is written once, whichever others are between its uses.
func TestConstant(t *testing.T) {
	var b builder
	for _, name := range []string{"a", "a", "b", "b", "a", "c", "b"} {
		if got := b.scalar(name, 1); got != name {
			t.Errorf("constant %s is named %s", name, got)
		}
	}
	if len(b.constants) != 3 {
		t.Errorf("there are %d constants, want 3", len(b.constants))
	}
}

// TestGraphConstants looks up in the model the numbers that the rebuilt graph has
// in its place; of some the last bit hardly ever shows in a result.
func TestGraphConstants(t *testing.T) {
	data, err := os.ReadFile(networkPath(t))
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
	for x, want := range map[float32]int{
		epsilon:    9,
		scoreScale: 4,
		geluCubic:  4,
		geluScale:  4,
		0.5:        4,
		1:          4,
		2:          9,
	} {
		if count[x] != want {
			t.Errorf("the model has %v %d times, want %d: it has %v", x, count[x], want, count)
		}
	}
}

// TestUnknownNetwork takes a network of the right shapes that is not the known
// one: it is computed in full, and no parity is claimed.
func TestUnknownNetwork(t *testing.T) {
	data, err := os.ReadFile(networkPath(t))
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
	if s.About().Unproven == nil || len(s.About().Notices) == 0 {
		t.Errorf(
			"unproven %v, notices %q; want that parity is not claimed", s.About().Unproven,
			s.About().Notices,
		)
	}
	job := lockstep.Job{
		Route:  shorten(routes(t, s.Profile())[0], 110),
		Policy: lockstep.DefaultPID(),
	}
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
