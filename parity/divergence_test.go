package parity

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"lockstep/parity/schema"
)

func TestDivergenceError(t *testing.T) {
	var err error = &Divergence{
		Rollout: "route 04744", Step: 101, Stage: "logits", Index: 7, Want: "1 (3f800000)",
		Got: "1.0000001 (3f800001)", ULPs: 1,
		Replay: "go test ./parity -run '^TestTrajectory$'",
	}
	const want = "route 04744, step 101, stage logits, index 7: want 1 (3f800000), got " +
		"1.0000001 (3f800001), 1 ulp apart\nreplay: go test ./parity -run '^TestTrajectory$'"
	if err.Error() != want {
		t.Errorf("\n got %s\nwant %s", err, want)
	}
	var d *Divergence
	if !errors.As(fmt.Errorf("wrapped: %w", err), &d) {
		t.Error("errors.As does not find it")
	}
	for want, d := range map[string]Divergence{
		"route 1, stage costs, index 2: want a, got b": {Rollout: "route 1",
			Step: -1, Stage: "costs", Index: 2, Want: "a", Got: "b"},
		"route 1, step 20, stage cdf: want a, got b": {Rollout: "route 1",
			Step: 20, Stage: "cdf", Index: -1, Want: "a", Got: "b"},
		"route 1, step 0, stage action, index 0: want a, got b": {Rollout: "route 1",
			Stage: "action", Want: "a", Got: "b"},
		"route 1, step 20, stage cdf: want a, got b, 17 ulp apart": {Rollout: "route 1",
			Step: 20, Stage: "cdf", Index: -1, Want: "a", Got: "b", ULPs: 17},
		"route 1, step 20, stage cdf: want a, got b\nreplay: again": {Rollout: "route 1",
			Step: 20, Stage: "cdf", Index: -1, Want: "a", Got: "b", Replay: "again"},
		// What was found in a batch and looked for alone may be the batch's doing.
		"route 1, step 20, stage cdf: want a, got b; a repetition did not show it again: an " +
			"engine does not always compute the same": {
			Rollout:    "route 1",
			Step:       20,
			Stage:      "cdf",
			Index:      -1,
			Want:       "a",
			Got:        "b",
			Unrepeated: true,
		},
		"route 1, step 20, stage cdf: want a, got b; alone a repetition did not show it again: " +
			"another batch takes another kernel, or an engine does not always compute the same": {
			Rollout:    "route 1",
			Step:       20,
			Stage:      "cdf",
			Index:      -1,
			Want:       "a",
			Got:        "b",
			Unrepeated: true,
			Forced:     true,
		},
		"route 1, step 20, stage cdf: want a, got b; alone the rollout does not show it, beside " +
			"its 3 neighbours it does: another batch may take another kernel": {
			Rollout:    "route 1",
			Step:       20,
			Stage:      "cdf",
			Index:      -1,
			Want:       "a",
			Got:        "b",
			Neighbours: 3,
		},
	} {
		if got := d.Error(); got != want {
			t.Errorf("\n got %s\nwant %s", got, want)
		}
	}
}

// TestDiffBits: equal means the same bits, and nothing else.
func TestDiffBits(t *testing.T) {
	quiet, payload := math.Float64frombits(0x7ff8000000000001),
		math.Float64frombits(0x7ff8000000000002)
	if d := diff("float64", schema.Bytes([]float64{quiet, math.Inf(1), math.Copysign(0, -1)}),
		schema.Bytes([]float64{quiet, math.Inf(1), math.Copysign(0, -1)})); d != nil {
		t.Errorf("the same bits: %+v", d)
	}
	for _, c := range []struct {
		got  *Divergence
		want Divergence
	}{
		{
			diff("float64", schema.Bytes([]float64{1, 0}),
				schema.Bytes([]float64{1, math.Copysign(0, -1)})),
			Divergence{Index: 1,
				Want: "0 (0000000000000000)", Got: "-0 (8000000000000000)", Values: 1},
		},
		{diff("float64", schema.Bytes([]float64{quiet}), schema.Bytes([]float64{payload})),
			Divergence{Want: "NaN (7ff8000000000001)", Got: "NaN (7ff8000000000002)", Values: 1}},
		{
			diff("float32", schema.Bytes([]float32{0}),
				schema.Bytes([]float32{float32(math.Copysign(0, -1))})),
			Divergence{Want: "0 (00000000)", Got: "-0 (80000000)", Values: 1},
		},
		{
			diff("float32", schema.Bytes([]float32{math.Float32frombits(0x7fc00001)}),
				schema.Bytes([]float32{math.Float32frombits(0xffc00001)})),
			Divergence{Want: "NaN (7fc00001)", Got: "NaN (ffc00001)", Values: 1},
		},
		{
			diff("float32", schema.Bytes([]float32{0.1}),
				schema.Bytes([]float32{math.Nextafter32(0.1, 1)})),
			Divergence{Want: "0.1 (3dcccccd)", Got: "0.10000001 (3dccccce)", Values: 1, ULPs: 1},
		},
		{ // how far apart is told of the first, though the second is farther
			diff("float64", schema.Bytes([]float64{1, 2, 5}),
				schema.Bytes([]float64{math.Nextafter(1, 2), 2, 6})),
			Divergence{Want: "1 (3ff0000000000000)", Got: "1.0000000000000002 (3ff0000000000001)",
				Values: 2, ULPs: 1},
		},
		{diff("int64", schema.Bytes([]int64{5, -1}), schema.Bytes([]int64{5, math.MaxInt64})),
			Divergence{Index: 1, Want: "-1", Got: "9223372036854775807", Values: 1}},
	} {
		if c.got == nil || !reflect.DeepEqual(*c.got, c.want) {
			t.Errorf("\n got %+v\nwant %+v", c.got, c.want)
		}
	}
}

// TestDifferOutcome: outcomes are equal if their bits are, or if neither is a number. A side that
// is none where the other is one differs, whichever side it is.
func TestDifferOutcome(t *testing.T) {
	nan, other := math.NaN(), math.Float64frombits(0xfff8000000000002)
	zero, minus, inf := 0.0, math.Copysign(0, -1), math.Inf(1)
	s := &schema.Schema{Outcome: schema.Outcome{Name: "costs", Elements: []string{"a", "b"}}}
	for _, c := range []struct {
		want, got []float64
		index     int // of the first that differs, -1: of lengths, -2: none
	}{
		{nil, nil, -2},
		{[]float64{1, inf}, []float64{1, inf}, -2},
		{[]float64{nan, minus}, []float64{other, minus}, -2},
		{[]float64{minus, nan}, []float64{minus, other}, -2},
		{[]float64{1, nan}, []float64{1, 2}, 1},
		{[]float64{1, 2}, []float64{1, nan}, 1},
		{[]float64{nan, 2}, []float64{inf, 2}, 0},
		{[]float64{inf, 2}, []float64{nan, 2}, 0},
		{[]float64{inf, 2}, []float64{-inf, 2}, 0},
		{[]float64{zero, 2}, []float64{minus, 2}, 0},
		{[]float64{nan, zero}, []float64{nan, minus}, 1},
		{[]float64{1, nan}, []float64{1}, -1},
		{[]float64{1}, []float64{1, nan}, -1},
		{nil, []float64{nan}, -1},
	} {
		bits := func() string {
			return fmt.Sprintf("%x", schema.Bytes(c.want)) +
				fmt.Sprintf(" %x", schema.Bytes(c.got))
		}
		want, got, was := fmt.Sprint(c.want), fmt.Sprint(c.got), bits()
		d := DifferOutcome(s, c.want, c.got)
		switch {
		case c.index == -2 && d != nil:
			t.Errorf("%s and %s: %v", want, got, d)
		case c.index > -2 &&
			(d == nil || d.Index != c.index || d.Stage != "costs" || d.Step != -1 ||
				c.index >= 0 && d.Element != s.Outcome.Elements[c.index]):
			t.Errorf("%s and %s: %+v, want a difference at %d", want, got, d, c.index)
		}
		if bits() != was {
			t.Errorf("%s and %s are %v and %v afterwards", want, got, c.want, c.got)
		}
		if end, failed := (End{Outcome: c.want}), (End{Outcome: c.got}); (Differs(
			s, nil, nil, end, failed) == nil) != (c.index == -2) {
			t.Errorf("%s and %s: Differs says %v", want, got, Differs(s, nil, nil, end, failed))
		}
	}
	failed := End{Err: errors.New("no token")}
	if Differs(s, nil, nil, End{}, failed) == nil || Differs(s, nil, nil, failed, End{}) == nil ||
		Differs(s, nil, nil, failed, failed) != nil {
		t.Error("an end with an error is one without")
	}
}

// TestDigestsDiffer: of what only digests are known they are told, of the stage that differs.
func TestDigestsDiffer(t *testing.T) {
	s := &schema.Schema{Stages: []schema.Stage{
		{Name: "a", Type: "float64", Shape: []int{2}},
		{Name: "b", Type: "float64", Shape: []int{2}},
	}}
	want, got := s.NewStep(), s.NewStep()
	want.Has, got.Has = 3, 3
	want.Bits[0], got.Bits[0], want.Bits[1], got.Bits[1] = 5, 5, 1<<40+7, 1<<41+9
	if d := diffStage(&s.Stages[0], 0, want, got); d != nil {
		t.Errorf("equal digests differ: %v", d)
	}
	d := diffStage(&s.Stages[1], 1, want, got)
	if d == nil || d.Want != "values of hash 0000010000000007" ||
		d.Got != "values of hash 0000020000000009" || d.Index != -1 {
		t.Errorf("%+v", d)
	}
}

// TestFloat: numbers survive JSON to the bit.
func TestFloat(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.OneOf(
			rapid.Map(rapid.Uint64(), math.Float64frombits),
			rapid.Float64(),
			rapid.SampledFrom([]float64{
				0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.NaN(),
				math.Float64frombits(0xfff8000000000000), math.SmallestNonzeroFloat64,
				math.MaxFloat64, 1e21, 1e-7,
			}),
		).Draw(t, "x")
		data, err := json.Marshal(Float(x))
		if err != nil {
			t.Fatal(err)
		}
		var y Float
		if err := json.Unmarshal(data, &y); err != nil ||
			math.Float64bits(float64(y)) != math.Float64bits(x) {
			t.Fatalf(
				"%v (%016x) came back from %s as %v (%016x), %v", x, math.Float64bits(x), data, y,
				math.Float64bits(float64(y)), err,
			)
		}
	})
	for _, text := range []string{
		`"1"`, `"NaN"`, `"NaN:7ff0000000000000"`, `"NaN:x"`, `[1]`, `"inf"`, `1e999`, `{}`,
	} {
		var x Float
		if err := json.Unmarshal([]byte(text), &x); err == nil {
			t.Errorf("%s was read as %v", text, x)
		}
	}
}
