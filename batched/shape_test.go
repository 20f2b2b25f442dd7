package batched

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"lockstep"
	"lockstep/internal/defaults"
	"lockstep/internal/f32"
	"lockstep/internal/model"
	"lockstep/internal/simtest"
)

// TestShapes: the bits of a sequence do not depend on how many others are computed with
// it, in which chunk, or in groups of how many.
func TestShapes(t *testing.T) {
	path, _, err := defaults.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w, err := model.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	packed := packWeights(w)
	alone := newNetwork(packed, f32.Best(), lockstep.Profile{}, 1, 1)
	rapid.Check(t, func(t *rapid.T) {
		chunk := rapid.IntRange(1, 12).Draw(t, "chunk")
		group := rapid.IntRange(1, 5).Draw(t, "group")
		count := rapid.IntRange(1, chunk).Draw(t, "count")
		n := newNetwork(packed, f32.Best(), lockstep.Profile{}, chunk, group)
		tokens := rapid.SliceOfN(
			rapid.Int32Range(0, vocabulary-1), count*positions, count*positions,
		).Draw(t, "tokens")
		copy(n.tokens, tokens)
		for i := range n.states[:count*positions*model.StateSize] {
			n.states[i] = float32(math.Sin(float64(i) + float64(tokens[0])))
		}
		n.Run(count)
		for s := range count {
			copy(alone.tokens, n.tokens[s*positions:])
			copy(alone.states, n.states[s*positions*model.StateSize:])
			alone.Run(1)
			if err := simtest.Same("logits", n.logits[s*vocabulary:][:vocabulary],
				alone.logits[:vocabulary]); err != nil {
				t.Fatalf(
					"batched, sequence %d of %d, chunk %d, group %d, against alone: %v", s, count,
					chunk, group, err,
				)
			}
		}
	})
}

// TestFastest: what is measured is a shape that so many rollouts fill evenly, or the
// least, and of the chunk that was asked for.
func TestFastest(t *testing.T) {
	path, _, err := defaults.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ asked, rollouts, least, most int }{
		{0, 1, 20, 20}, {0, 30, 30, 30}, {0, 50, 25, 50}, {0, 1000, 20, 84}, {7, 1000, 7, 7},
	} {
		s, err := New(Config{ModelPath: path, Chunk: c.asked})
		if err != nil {
			t.Fatal(err)
		}
		got := s.fastest(c.rollouts)
		if got.chunk < c.least || got.chunk > c.most || got.group < 1 || got.group > got.chunk {
			t.Errorf("chunks of %d asked for, %d rollouts: %+v", c.asked, c.rollouts, got)
		}
		if again := s.fastest(c.rollouts); again != got {
			t.Errorf("%+v, then %+v", got, again)
		}
		for of, took := range s.times {
			if took <= 0 {
				t.Errorf("%+v takes %v", of, took)
			}
		}
	}
}

// TestFastestKnown: of the shapes whose times are known the fastest is taken that so many rollouts
// fill, the first of equal ones: the group for the least chunk, then the chunk for that group.
func TestFastestKnown(t *testing.T) {
	s := &Simulator{
		kernels: &f32.Kernels{Peak: func() int { return 0 }},
		times: map[shape]time.Duration{
			{20, 1}: 9, {20, 3}: 8, {40, 3}: 7, {80, 3}: 6, {40, 1}: 1, {80, 1}: 1,
		},
	}
	for rollouts, want := range map[int]shape{
		19: {20, 1}, 20: {20, 3}, 39: {39, 3}, 40: {40, 3}, 79: {79, 3}, 80: {80, 3}, 170: {85, 3},
	} {
		if got := s.fastest(rollouts); got != want {
			t.Errorf("%d rollouts: %+v, want %+v", rollouts, got, want)
		}
	}
	s.times[shape{80, 3}] = 7 // no faster than that of 40
	if got := s.fastest(80); got != (shape{40, 3}) {
		t.Errorf("of two equal ones %+v is taken", got)
	}
	s.times[shape{20, 1}], s.times[shape{40, 1}], s.times[shape{80, 1}] = 8, 9, 9
	if got := s.fastest(80); got.group != 1 {
		t.Errorf("of two equal groups that of %+v is taken", got)
	}
	s.config.Chunk = 1
	s.times[shape{1, 1}], s.times[shape{1, 3}] = 9, 9
	if got := s.fastest(100); got != (shape{1, 1}) {
		t.Errorf("one at a time is asked for, and %+v is taken", got)
	}
}

// TestTogether: a group has as many unique sequences as have room for their rows, and one at
// least.
func TestTogether(t *testing.T) {
	n := &network{group: 2, plan: plan{
		unique: make([]int, 6), start: []int{0, 20, 30, 40, 60, 80, 81},
	}}
	for from, want := range []int{3, 4, 4, 5, 6, 6} {
		if got := n.together(from); got != want {
			t.Errorf("the group from sequence %d ends at %d, want %d", from, got, want)
		}
	}
	n.group = 0
	if got := n.together(2); got != 3 {
		t.Errorf("a group without room ends at %d, want 3", got)
	}
}
