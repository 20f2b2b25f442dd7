package parity

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"lockstep"
	"lockstep/golden"
)

// invent makes steps of any bit patterns, and the recording of them, which keeps
// in full those steps for which full says so.
func invent(seed uint64, steps int, full func(step int) bool) (*golden.Recording, []*lockstep.Step) {
	random := rand.New(rand.NewPCG(seed, 0))
	float64s := func(n int) []float64 {
		out := make([]float64, n)
		for i := range out {
			out[i] = math.Float64frombits(random.Uint64())
		}
		return out
	}
	float32s := func(n int) []float32 {
		out := make([]float32, n)
		for i := range out {
			out[i] = math.Float32frombits(random.Uint32())
		}
		return out
	}
	r := golden.Record(&lockstep.Route{Name: "00042", SteerCommand: float64s(lockstep.ControlStartIdx)})
	var all []*lockstep.Step
	for i := range steps {
		s := &lockstep.Step{
			Index:  lockstep.ContextLength + i,
			Tokens: make([]int64, lockstep.ContextLength),
			States: float32s(4 * lockstep.ContextLength),
			Logits: float32s(lockstep.VocabSize),
			Probs:  float32s(lockstep.VocabSize),
			CDF:    float64s(lockstep.VocabSize),
			Sample: random.IntN(lockstep.VocabSize),
		}
		for j := range s.Tokens {
			s.Tokens[j] = random.Int64()
		}
		scalars := float64s(4)
		s.Action, s.Draw, s.Prediction, s.Lataccel = scalars[0], scalars[1], scalars[2], scalars[3]
		r.Observe(s)
		all = append(all, s)
	}
	costs := float64s(3)
	r.Costs = lockstep.Costs{Lataccel: costs[0], Jerk: costs[1], Total: costs[2]}
	kept := *r
	kept.FullSteps, kept.Logits, kept.Probs = nil, nil, nil
	for i, s := range all {
		if full(s.Index) {
			kept.FullSteps = append(kept.FullSteps, int64(s.Index))
			kept.Logits = append(kept.Logits, r.Logits[i*lockstep.VocabSize:(i+1)*lockstep.VocabSize]...)
			kept.Probs = append(kept.Probs, r.Probs[i*lockstep.VocabSize:(i+1)*lockstep.VocabSize]...)
		}
	}
	return &kept, all
}

// check shows a rollout to a checker.
func check(r *golden.Recording, steps []*lockstep.Step, costs lockstep.Costs) *Checker {
	c := NewChecker(r)
	for _, s := range steps {
		c.Observe(s)
	}
	c.Costs(costs)
	return c
}

// clone copies a step, to change it.
func clone(s *lockstep.Step) *lockstep.Step {
	c := *s
	c.Tokens, c.States, c.Logits = slices.Clone(s.Tokens), slices.Clone(s.States), slices.Clone(s.Logits)
	c.Probs, c.CDF = slices.Clone(s.Probs), slices.Clone(s.CDF)
	return &c
}

// A flip changes one bit of a stage and says what the checker must say of it.
type flip struct {
	index     int
	want, got string
	ulps      uint64
	values    int
}

func flip32(values []float32, index, bit int) flip {
	before := math.Float32bits(values[index])
	after := before ^ 1<<(bit%32)
	values[index] = math.Float32frombits(after)
	show := func(b uint32) string { return fmt.Sprintf("%v (%08x)", math.Float32frombits(b), b) }
	return flip{index, show(before), show(after), distance(uint64(before), uint64(after), 31, 0x7f800000), 1}
}

func flip64(values []float64, index, bit int) flip {
	before := math.Float64bits(values[index])
	after := before ^ 1<<bit
	values[index] = math.Float64frombits(after)
	show := func(b uint64) string { return fmt.Sprintf("%v (%016x)", math.Float64frombits(b), b) }
	return flip{index, show(before), show(after), distance(before, after, 63, 0x7ff0000000000000), 1}
}

// distance counts ulps with large integers, 0 beside what is not a number.
func distance(a, b uint64, sign uint, infinity uint64) uint64 {
	position := func(bits uint64) *big.Int {
		magnitude := bits &^ (1 << sign)
		x := new(big.Int).SetUint64(magnitude)
		if magnitude != bits {
			x.Neg(x)
		}
		return x
	}
	if a&^(1<<sign) > infinity || b&^(1<<sign) > infinity {
		return 0
	}
	d := new(big.Int).Sub(position(a), position(b))
	return d.Abs(d).Uint64()
}

// TestChecker changes one bit of one stage of one step.
func TestChecker(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		recording, steps := invent(rapid.Uint64().Draw(t, "seed"), 4, func(int) bool { return rapid.Bool().Draw(t, "full") })
		costs := recording.Costs
		if c := check(recording, steps, costs); c.Divergence() != nil || c.Steps() != 4 {
			t.Fatalf("the recorded rollout: %d steps, %v", c.Steps(), c.Divergence())
		}

		at := rapid.IntRange(0, len(steps)-1).Draw(t, "step")
		stage := Stage(rapid.IntRange(int(Action), int(Cost)).Draw(t, "stage"))
		index := func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "index") }
		bit := rapid.IntRange(0, 63).Draw(t, "bit")
		s := clone(steps[at])
		steps[at] = s
		_, _, full := recording.Full(s.Index)
		scalar := func(x *float64) flip {
			values := []float64{*x}
			f := flip64(values, 0, bit)
			*x = values[0]
			return f
		}
		hashes := func(before, after uint64) flip {
			return flip{-1, fmt.Sprintf("values of hash %016x", before), fmt.Sprintf("values of hash %016x", after), 0, 0}
		}
		step := s.Index
		var want flip
		switch stage {
		case Action:
			want = scalar(&s.Action)
		case Tokens:
			i := index(len(s.Tokens))
			before := s.Tokens[i]
			s.Tokens[i] ^= 1 << bit
			want = flip{i, fmt.Sprint(before), fmt.Sprint(s.Tokens[i]), 0, 1}
		case States:
			want = flip32(s.States, index(len(s.States)), bit)
		case Logits, Probs:
			values := s.Logits
			if stage == Probs {
				values = s.Probs
			}
			before := golden.Hash(values)
			want = flip32(values, index(len(values)), bit)
			if !full {
				want = hashes(before, golden.Hash(values))
			}
		case CDF:
			before := golden.Hash(s.CDF)
			flip64(s.CDF, index(len(s.CDF)), bit)
			want = hashes(before, golden.Hash(s.CDF))
		case Draw:
			want = scalar(&s.Draw)
		case Sample:
			before := s.Sample
			s.Sample ^= 1 << (bit % 10)
			want = flip{0, fmt.Sprint(before), fmt.Sprint(s.Sample), 0, 1}
		case Prediction:
			want = scalar(&s.Prediction)
		case Lataccel:
			want = scalar(&s.Lataccel)
		case Cost:
			values := []float64{costs.Lataccel, costs.Jerk, costs.Total}
			want = flip64(values, index(3), bit)
			costs = lockstep.Costs{Lataccel: values[0], Jerk: values[1], Total: values[2]}
			step = -1
			if before := []float64{recording.Costs.Lataccel, recording.Costs.Jerk, recording.Costs.Total}[want.index]; math.IsNaN(before) && math.IsNaN(values[want.index]) {
				if d := check(recording, steps, costs).Divergence(); d != nil {
					t.Fatalf("one cost that is no number for another: %v", d)
				}
				return
			}
		}
		c := check(recording, steps, costs)
		expect := Divergence{Route: "00042", Step: step, Stage: stage, Index: want.index, Want: want.want, Got: want.got, ULPs: want.ulps, Values: want.values}
		if d := c.Divergence(); d == nil || *d != expect {
			t.Fatalf("\n got %+v\nwant %+v", d, expect)
		}
		if c.Steps() != len(steps) {
			t.Fatalf("%d steps, want %d: a difference does not end the count", c.Steps(), len(steps))
		}
	})
}

func all(int) bool { return true }

// TestCheckerFirst: of several differences the first step's counts, and in it
// the stage that is computed first.
func TestCheckerFirst(t *testing.T) {
	recording, steps := invent(1, 3, all)
	steps[1], steps[2] = clone(steps[1]), clone(steps[2])
	steps[2].Action++
	order := []struct {
		stage  Stage
		change func(*lockstep.Step)
	}{ // from the last stage to the first
		{Lataccel, func(s *lockstep.Step) { s.Lataccel = 0 }},
		{Prediction, func(s *lockstep.Step) { s.Prediction = 0 }},
		{Sample, func(s *lockstep.Step) { s.Sample = -1 }},
		{Draw, func(s *lockstep.Step) { s.Draw = 0 }},
		{CDF, func(s *lockstep.Step) { s.CDF[9] = 0 }},
		{Probs, func(s *lockstep.Step) { s.Probs[9] = 0 }},
		{Logits, func(s *lockstep.Step) { s.Logits[9] = 0 }},
		{States, func(s *lockstep.Step) { s.States[9] = 0 }},
		{Tokens, func(s *lockstep.Step) { s.Tokens[9] = 0 }},
		{Action, func(s *lockstep.Step) { s.Action = 0 }},
	}
	for _, c := range order {
		c.change(steps[1])
		d := check(recording, steps, lockstep.Costs{}).Divergence()
		if d == nil || d.Step != steps[1].Index || d.Stage != c.stage {
			t.Errorf("%+v, want step %d, stage %s", d, steps[1].Index, c.stage)
		}
	}
}

// TestCheckerSkipped: what a rollout skipped is not compared, all else is.
func TestCheckerSkipped(t *testing.T) {
	recording, steps := invent(1, 3, all)
	for i, s := range steps {
		steps[i] = &lockstep.Step{Index: s.Index, Action: s.Action, Draw: s.Draw, Sample: -1, Lataccel: s.Lataccel}
	}
	if d := check(recording, steps, recording.Costs).Divergence(); d != nil {
		t.Errorf("a rollout without the network: %v", d)
	}
	for stage, change := range map[Stage]func(*lockstep.Step){
		Action:   func(s *lockstep.Step) { s.Action = -s.Action },
		Draw:     func(s *lockstep.Step) { s.Draw = -s.Draw },
		Lataccel: func(s *lockstep.Step) { s.Lataccel = -s.Lataccel },
	} {
		changed := slices.Clone(steps)
		changed[2] = clone(steps[2])
		change(changed[2])
		if d := check(recording, changed, recording.Costs).Divergence(); d == nil || d.Step != 22 || d.Stage != stage {
			t.Errorf("%+v, want step 22, stage %s", d, stage)
		}
	}
}

// TestCheckerLengths: stages of another length than the recorded ones.
func TestCheckerLengths(t *testing.T) {
	for _, full := range []bool{true, false} {
		recording, steps := invent(1, 1, func(int) bool { return full })
		for stage, change := range map[Stage]func(*lockstep.Step){
			Tokens: func(s *lockstep.Step) { s.Tokens = s.Tokens[1:] },
			States: func(s *lockstep.Step) { s.States = append(s.States, 0) },
			Logits: func(s *lockstep.Step) { s.Logits = []float32{} },
			Probs:  func(s *lockstep.Step) { s.Probs = nil },
			CDF:    func(s *lockstep.Step) { s.CDF = nil },
		} {
			s := clone(steps[0])
			change(s)
			if d := check(recording, []*lockstep.Step{s}, recording.Costs).Divergence(); d == nil || d.Stage != stage || d.Index != -1 {
				t.Errorf("recorded in full %v: %+v, want stage %s and no index", full, d, stage)
			}
		}
	}
	if got, want := *diff([]int64{1, 2}, []int64{1}), (Divergence{Index: -1, Want: "2 values", Got: "1 values"}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestCheckerSteps: steps too many, too few, left out, repeated or out of order.
func TestCheckerSteps(t *testing.T) {
	recording, steps := invent(1, 3, all)
	more := clone(steps[2])
	more.Index++
	early := clone(steps[0])
	early.Index = 3
	for name, c := range map[string]struct {
		steps []*lockstep.Step
		want  string
	}{
		"one more":     {append(slices.Clone(steps), more), "route 00042, step 23, stage steps: want 3 steps, got one more"},
		"out of order": {[]*lockstep.Step{steps[0], steps[2], steps[1]}, "route 00042, step 22, stage steps: want step 21 next, got step 22"},
		"left out":     {[]*lockstep.Step{steps[1], steps[2]}, "route 00042, step 21, stage steps: want step 20 next, got step 21"},
		"repeated":     {[]*lockstep.Step{steps[0], steps[0], steps[2]}, "route 00042, step 20, stage steps: want step 21 next, got step 20"},
		"too early":    {[]*lockstep.Step{early, steps[0]}, "route 00042, step 3, stage steps: want step 20 next, got step 3"},
	} {
		checker := check(recording, c.steps, recording.Costs)
		if d := checker.Divergence(); d == nil || d.Error() != c.want {
			t.Errorf("%s: %v, want %s", name, d, c.want)
		}
		if checker.Steps() != len(c.steps) {
			t.Errorf("%s: %d steps, want %d", name, checker.Steps(), len(c.steps))
		}
	}
	// A rollout may stop at the last step that costs: its count tells.
	if c := check(recording, steps[:2], recording.Costs); c.Divergence() != nil || c.Steps() != 2 {
		t.Errorf("two of three steps: %v, %d steps; want none, 2", c.Divergence(), c.Steps())
	}
}

func TestDivergenceError(t *testing.T) {
	var err error = &Divergence{
		Route: "04744", Step: 101, Stage: Logits, Index: 7, Want: "1 (3f800000)", Got: "1.0000001 (3f800001)", ULPs: 1,
		Replay: "go test ./parity -run '^TestTrajectory$'",
	}
	const want = "route 04744, step 101, stage logits, index 7: want 1 (3f800000), got 1.0000001 (3f800001), 1 ulp apart\nreplay: go test ./parity -run '^TestTrajectory$'"
	if err.Error() != want {
		t.Errorf("\n got %s\nwant %s", err, want)
	}
	var d *Divergence
	if !errors.As(fmt.Errorf("wrapped: %w", err), &d) {
		t.Error("errors.As does not find it")
	}
	for want, d := range map[string]Divergence{
		"route 1, stage costs, index 2: want a, got b":              {Route: "1", Step: -1, Stage: Cost, Index: 2, Want: "a", Got: "b"},
		"route 1, step 20, stage cdf: want a, got b":                {Route: "1", Step: 20, Stage: CDF, Index: -1, Want: "a", Got: "b"},
		"route 1, step 0, stage action, index 0: want a, got b":     {Route: "1", Stage: Action, Want: "a", Got: "b"},
		"route 1, step 20, stage cdf: want a, got b, 17 ulp apart":  {Route: "1", Step: 20, Stage: CDF, Index: -1, Want: "a", Got: "b", ULPs: 17},
		"route 1, step 20, stage cdf: want a, got b\nreplay: again": {Route: "1", Step: 20, Stage: CDF, Index: -1, Want: "a", Got: "b", Replay: "again"},
	} {
		if got := d.Error(); got != want {
			t.Errorf("\n got %s\nwant %s", got, want)
		}
	}
}

func TestStageNames(t *testing.T) {
	var names []string
	for s := Action; s <= Cost; s++ {
		names = append(names, s.String())
	}
	if got, want := strings.Join(names, " "), "action tokens states logits probs cdf draw sample prediction lataccel costs"; got != want {
		t.Errorf("stages %s, want %s", got, want)
	}
}

func TestULPs(t *testing.T) {
	tiny32, tiny64 := float32(math.SmallestNonzeroFloat32), math.SmallestNonzeroFloat64
	zero32, zero64 := float32(math.Copysign(0, -1)), math.Copysign(0, -1)
	inf32, inf64 := float32(math.Inf(1)), math.Inf(1)
	for _, c := range []struct {
		name      string
		got, want uint64
	}{
		{"equal", ulps(1.5, 1.5), 0},
		{"zeros", ulps(0, zero64), 0},
		{"float32 zeros", ulps(0, zero32), 0},
		{"neighbours", ulps(1, math.Nextafter(1, 2)), 1},
		{"float32 neighbours", ulps(1, math.Nextafter32(1, 2)), 1},
		{"float32 neighbours below 1", ulps(math.Nextafter32(1, 0), 1), 1},
		{"1 and 2", ulps(1.0, 2.0), 1 << 52},
		{"float32 1 and 2", ulps[float32](1, 2), 1 << 23},
		{"across zero", ulps(-tiny64, tiny64), 2},
		{"float32 across zero", ulps(-tiny32, tiny32), 2},
		{"float32 -1 and 1", ulps[float32](-1, 1), 2 * 0x3f800000},
		{"largest and infinity", ulps(math.MaxFloat64, inf64), 1},
		{"float32 largest and infinity", ulps(math.MaxFloat32, inf32), 1},
		{"infinities", ulps(-inf64, inf64), 2 * 0x7ff0000000000000},
		{"float32 infinities", ulps(-inf32, inf32), 2 * 0x7f800000},
		{"not a number", ulps(1, math.NaN()), 0},
		{"float32 not a number", ulps(float32(math.NaN()), 1), 0},
		{"integers", ulps[int64](1, 9), 0},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, want %d", c.name, c.got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Float64().Draw(t, "a"), rapid.Float64().Draw(t, "b")
		if got, want := ulps(a, b), distance(math.Float64bits(a), math.Float64bits(b), 63, 0x7ff0000000000000); got != want || ulps(b, a) != want {
			t.Fatalf("%d and back %d, want %d", got, ulps(b, a), want)
		}
		steps := rapid.IntRange(0, 100).Draw(t, "steps")
		c := a
		for range steps {
			c = math.Nextafter(c, math.Inf(1))
		}
		if !math.IsInf(c, 1) && ulps(a, c) != uint64(steps) {
			t.Fatalf("%d, want %d", ulps(a, c), steps)
		}
	})
}

// TestDiffBits: equal means the same bits, and nothing else.
func TestDiffBits(t *testing.T) {
	quiet, payload := math.Float64frombits(0x7ff8000000000001), math.Float64frombits(0x7ff8000000000002)
	if d := diff([]float64{quiet, math.Inf(1), math.Copysign(0, -1)}, []float64{quiet, math.Inf(1), math.Copysign(0, -1)}); d != nil {
		t.Errorf("the same bits: %+v", d)
	}
	for _, c := range []struct {
		got  *Divergence
		want Divergence
	}{
		{diff([]float64{1, 0}, []float64{1, math.Copysign(0, -1)}), Divergence{Index: 1, Want: "0 (0000000000000000)", Got: "-0 (8000000000000000)", Values: 1}},
		{diff([]float64{quiet}, []float64{payload}), Divergence{Want: "NaN (7ff8000000000001)", Got: "NaN (7ff8000000000002)", Values: 1}},
		{diff([]float32{0}, []float32{float32(math.Copysign(0, -1))}), Divergence{Want: "0 (00000000)", Got: "-0 (80000000)", Values: 1}},
		{diff([]float32{math.Float32frombits(0x7fc00001)}, []float32{math.Float32frombits(0xffc00001)}), Divergence{Want: "NaN (7fc00001)", Got: "NaN (ffc00001)", Values: 1}},
		{diff([]float32{0.1}, []float32{math.Nextafter32(0.1, 1)}), Divergence{Want: "0.1 (3dcccccd)", Got: "0.10000001 (3dccccce)", Values: 1, ULPs: 1}},
		{diff([]int64{5, -1}, []int64{5, math.MaxInt64}), Divergence{Index: 1, Want: "-1", Got: "9223372036854775807", Values: 1}},
	} {
		if c.got == nil || *c.got != c.want {
			t.Errorf("\n got %+v\nwant %+v", c.got, c.want)
		}
	}
}

// TestDiffCosts: one cost that is no number is as good as another, and nothing else is.
func TestDiffCosts(t *testing.T) {
	nan, other := math.Float64frombits(0xfff8000000000000), math.Float64frombits(0x7fffffffffffffff)
	if d := diffCosts(lockstep.Costs{Lataccel: 1, Jerk: nan, Total: other}, lockstep.Costs{Lataccel: 1, Jerk: other, Total: nan}); d != nil {
		t.Errorf("no numbers: %v", d)
	}
	for i, c := range []lockstep.Costs{{Lataccel: math.Nextafter(1, 2), Jerk: nan}, {Lataccel: 1, Jerk: 1}, {Lataccel: 1, Jerk: nan, Total: math.Copysign(0, -1)}} {
		if d := diffCosts(lockstep.Costs{Lataccel: 1, Jerk: nan}, c); d == nil || d.Index != i {
			t.Errorf("%+v: %v, want index %d", c, d, i)
		}
	}
}
