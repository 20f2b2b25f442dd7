package parity

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"lockstep/internal/simtest"
	"lockstep/parity/schema"
)

// TestFarthest: how far arrays are apart at most, in which a NaN is infinitely far.
func TestFarthest(t *testing.T) {
	for _, c := range []struct {
		a, b []float64
		want Difference
		ok   bool
	}{
		{nil, nil, Difference{}, false},
		{[]float64{1}, nil, Difference{}, false},
		{[]float64{1, 2}, []float64{1}, Difference{}, false},
		{[]float64{1, 2}, []float64{1, 2}, Difference{}, true},
		{[]float64{1, 5, 2}, []float64{2, 5, math.Nextafter(2, 3)}, Difference{1, 1 << 52}, true},
		{[]float64{math.NaN(), 1}, []float64{1, 2}, Difference{Float(math.Inf(1)), 1 << 52}, true},
		{[]float64{math.NaN()}, []float64{-math.NaN()}, Difference{Float(math.Inf(1)), 0}, true},
		// What 32 bits do not tell apart, each side by itself.
		{[]float64{1 + 0x1p-40}, []float64{1}, Difference{0x1p-40, 1 << 12}, true},
		{[]float64{1}, []float64{1 + 0x1p-40}, Difference{0x1p-40, 1 << 12}, true},
		{[]float64{1}, []float64{1.1}, Difference{0.10000000000000009, 450359962737050}, true},
	} {
		got, ok := Farthest("float64", schema.Bytes(c.a), schema.Bytes(c.b))
		if got != c.want || ok != c.ok {
			t.Errorf("%v and %v: %+v, %v; want %+v, %v", c.a, c.b, got, ok, c.want, c.ok)
		}
	}
}

// TestFarthestByte: the last of numbers of one byte counts, too.
func TestFarthestByte(t *testing.T) {
	for at := range 3 {
		a, b := []byte{1, 2, 3}, []byte{1, 2, 3}
		b[at] += 4
		if got, ok := Farthest("uint8", a, b); !ok || got.Abs != 4 {
			t.Errorf("%v and %v: %+v", a, b, got)
		}
	}
}

// TestDifferSteps: steps are told apart by their first stage that differs, or that one lacks, and
// rollouts by their first such step, their lengths and their ends.
func TestDifferSteps(t *testing.T) {
	s := &schema.Schema{Stages: []schema.Stage{
		{Name: "x", Type: "float64"},
		{Name: "y", Type: "float64", Shape: []int{2}, Elements: []schema.Element{
			{Name: "left", Count: 1}, {Name: "right", Count: 1},
		}},
	}}
	step := func(index int, has schema.StageSet, x float64, y ...float64) *schema.Step {
		o := s.NewStep()
		o.Index, o.Has, o.Bits[0] = index, has, math.Float64bits(x)
		if y != nil {
			o.Data[1] = schema.Bytes(y)
		}
		o.Sum(schema.XXH64)
		return o
	}
	for _, c := range []struct {
		want, got *schema.Step
		text      string
	}{
		{step(3, 3, 1, 2, 3), step(3, 3, 1, 2, 3), ""},
		{step(3, 1, 1), step(3, 1, 1), ""},
		{step(3, 0, 1), step(3, 0, 2), ""},
		{step(3, 1, 1), step(3, 1, 2), "step 3, stage x, index 0: want 1 (3ff0000000000000), " +
			"got 2 (4000000000000000), 4503599627370496 ulp apart"},
		{step(3, 1, 1), step(3, 0, 1), "step 3, stage x: want a value, 1 (3ff0000000000000), " +
			"got no value"},
		{step(3, 3, 1, 2, 3), step(3, 3, 1, 2, 5), "step 3, stage y, index 1 (right): want 3"},
		{step(3, 3, 1, 2, 3), step(3, 3, 1, 2), "step 3, stage y: want 2 values, got 1 values"},
		{step(3, 1, 1), step(3, 3, 1, 2, 3), "step 3, stage y: want no value, got values of hash "},
	} {
		text := ""
		if d := DifferStep(s, c.want, c.got); d != nil {
			text = d.Error()
		}
		if c.text == "" && text != "" || !strings.HasPrefix(text, c.text) {
			t.Errorf("%q, want %q", text, c.text)
		}
	}
	a, b := step(0, 1, 1), step(1, 1, 2)
	for _, c := range []struct {
		want, got       []*schema.Step
		wantErr, gotErr error
		text            string
	}{
		{[]*schema.Step{a, b}, []*schema.Step{a, b}, nil, nil, ""},
		{[]*schema.Step{a, b}, []*schema.Step{a, step(2, 1, 2)}, nil, nil, "step 2, want step 1"},
		{[]*schema.Step{a, b}, []*schema.Step{a, step(1, 1, 3)}, nil, nil, "step 1, stage x"},
		{[]*schema.Step{a, b}, []*schema.Step{a}, nil, nil, "1 steps and error <nil>, want 2 and"},
		{[]*schema.Step{a}, []*schema.Step{a, b}, nil, nil, "2 steps and error <nil>, want 1 and"},
		{[]*schema.Step{a}, []*schema.Step{a}, nil, errDone, "1 steps and error done, want 1 and"},
		{[]*schema.Step{a}, []*schema.Step{a}, errDone, errDone, ""},
	} {
		err := Differs(s, c.want, c.got, End{Err: c.wantErr}, End{Err: c.gotErr})
		if c.text == "" {
			if err != nil {
				t.Errorf("the same: %v", err)
			}
			continue
		}
		simtest.Refused(t, "others", err, c.text)
	}
}

var errDone = errors.New("done")

// TestFloatText: JSON's numbers, and the words for what it has no number for.
func TestFloatText(t *testing.T) {
	for want, x := range map[string]float64{
		"1.5": 1.5, `"Inf"`: math.Inf(1), `"-Inf"`: math.Inf(-1), "1e+21": 1e21,
		"-0":                     math.Copysign(0, -1),
		`"NaN:fff8000000000001"`: math.Float64frombits(0xfff8000000000001),
	} {
		if got, err := json.Marshal(Float(x)); err != nil || string(got) != want {
			t.Errorf("%v is %s, %v; want %s", x, got, err, want)
		}
	}
	numbers := []float64{1, 2.5}
	if err := simtest.Same("numbers", Numbers(Floats(numbers)), numbers); err != nil {
		t.Error(err)
	}
}
