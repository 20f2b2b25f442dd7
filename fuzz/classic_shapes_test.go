package fuzz

import (
	"fmt"
	"math"
	"testing"

	"lockstep/classic"
)

// hiddenWidths are the layers before a network's last one: none, and as many as there may be, of
// the narrowest and the widest, each beside another.
var hiddenWidths = [][]int{
	nil, {1}, {classic.MaxWidth}, {classic.MaxWidth, classic.MaxWidth}, {3, classic.MaxWidth, 1},
	{classic.MaxWidth, 33, classic.MaxWidth},
}

// shaped is a network with these hidden layers and so many numbers of noise, no two of which are
// alike.
func shaped(task classic.Task, hidden []int, noise int) *classic.Perceptron {
	word := uint32(2463534242)
	random := func(n int) (all []float32) {
		for range n {
			word ^= word << 13
			word ^= word >> 17
			word ^= word << 5
			all = append(all, float32(int32(word)>>8)*0x1p-23)
		}
		return all
	}
	n := &classic.Perceptron{Noise: random(noise), Seed: 7<<61 | 9}
	inputs := len(task.Observation)
	for _, outputs := range append(hidden[:len(hidden):len(hidden)], max(task.Actions, 1)) {
		n.Layers = append(n.Layers, classic.Layer{
			Weights: random(inputs * outputs), Bias: random(outputs),
		})
		inputs = outputs
	}
	return n
}

// TestClassicShapes: networks of each number of layers, as narrow and as wide as they may be, with
// the least noise and the most, choose in every engine what they choose in the reference, one after
// the other; of observations that are NaN, too, where an environment can have them.
func TestClassicShapes(t *testing.T) {
	noises := []int{0, 1, 2, classic.MaxNoise}
	eachClassic(t, classicEngines(t), 9, func(e classic.Maker, task classic.Task) (all []ran) {
		v := begun(t, e, task, classic.Reset{Seed: 1})
		for i, hidden := range hiddenWidths {
			if err := v.Reset(classic.Reset{Seed: int64(i)}); err != nil {
				t.Fatal(err)
			}
			oddObservations(t, v, task)
			policy := classic.Policy{Network: shaped(task, hidden, noises[i%len(noises)])}
			all = append(all, runOnce(t, v, task, policy))
		}
		return all
	})
}

// TestClassicZeros: a network makes 0 of -0 between its layers, and its action's zero has the sign
// that it has in the reference, which a pendulum shows that hangs at -0.
func TestClassicZeros(t *testing.T) {
	minus := float32(math.Copysign(0, -1))
	task, err := classic.Make("Pendulum-v1", 9, nil)
	if err != nil {
		t.Fatal(err)
	}
	network := &classic.Perceptron{Layers: []classic.Layer{
		{Weights: []float32{minus, 0, 0}, Bias: []float32{minus}}, // -0 of 1, -0, -0
		{Weights: []float32{-1}, Bias: []float32{minus}},
	}}
	var want ran
	for i, e := range classicEngines(t) {
		v := begun(t, e, task, classic.Reset{Seed: 1})
		put(t, v, func(s *classic.Snapshot) {
			for k := range s.States {
				s.States[k] = float64(minus)
			}
			for k := range s.Observations {
				s.Observations[k] = minus
			}
			for k := range task.Num {
				s.Observations[k] = 1
			}
		})
		got := runOnce(t, v, task, classic.Policy{Network: network})
		if i == 0 {
			want = got
			if at := want.end.States[0]; at != 0 || !math.Signbit(at) {
				t.Fatalf("the reference's pendulum is at %v, want -0, which shows the sign", at)
			}
			continue
		}
		compareRuns(t, e.Name(), got, want)
	}
}

// eachClassic holds what an engine makes of a number of environments of each kind to what the
// reference, which is the first, does: a pole in each mode, others in one.
func eachClassic(
	t *testing.T, all []classic.Maker, num int, of func(classic.Maker, classic.Task) []ran,
) {
	t.Helper()
	for i, e := range classic.Environments() {
		modes := []classic.Autoreset{classic.Autoreset(i % 4)}
		if e.Shared {
			modes[0] = classic.NextStep
		} else if e.Dynamics == classic.CartPole {
			modes = append(modes, classic.SameStep, classic.Disabled, classic.Off)
		}
		for _, mode := range modes {
			task, err := classic.Make(e.Name, num, nil)
			if err != nil {
				t.Fatal(err)
			}
			task.Autoreset = mode
			want := of(all[0], task)
			for _, engine := range all[1:] {
				for k, got := range of(engine, task) {
					what := fmt.Sprintf("%s, %s, %v, call %d", engine.Name(), e.Name, mode, k)
					compareRuns(t, what, got, want[k])
				}
			}
		}
	}
}

// oddObservations are what some environments see at the next step: zeros of both signs, and for a
// pole, which gets to any place, infinity and NaN.
func oddObservations(t *testing.T, v classic.Vector, task classic.Task) {
	t.Helper()
	odd := []float32{0, float32(math.Copysign(0, -1))}
	if task.Dynamics == classic.CartPole {
		odd = append(odd, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()))
	}
	put(t, v, func(s *classic.Snapshot) {
		clear(s.Ended)
		s.Steps = 1<<32 - 2 // noise is drawn by steps, of which there can be more
		for i, x := range odd {
			s.Observations[i%len(task.Observation)*task.Num+i] = x
		}
	})
}
