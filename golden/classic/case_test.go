package classic

import (
	"crypto/sha256"
	"math"
	"reflect"
	"testing"

	"lockstep/classic"
	"lockstep/internal/simtest"
)

// TestAsked: whatever of a case is another, another case was asked for, but for the answers.
func TestAsked(t *testing.T) {
	lines := map[string]func(c *RecordedCase){
		"RecordedCase.Env":       func(c *RecordedCase) { c.Env = "b" },
		"RecordedCase.Options":   func(c *RecordedCase) { c.Options = map[string]string{"a": "2"} },
		"RecordedCase.Num":       func(c *RecordedCase) { c.Num++ },
		"RecordedCase.Autoreset": func(c *RecordedCase) { c.Autoreset = "b" },
		"RecordedCase.NumPy1":    func(c *RecordedCase) { c.NumPy1 = true },
		"RecordedCase.Seed":      func(c *RecordedCase) { c.Seed += 1 << 40 },
		"RecordedCase.Bounds":    func(c *RecordedCase) { c.Bounds = map[string]float64{"a": 2} },
		"RecordedCase.Uniform":   func(c *RecordedCase) { c.Uniform += 1 << 40 },
		"RecordedCase.Network":   func(c *RecordedCase) { c.Network = nil },
		"RecordedCase.Steps":     func(c *RecordedCase) { c.Steps++ },
		"RecordedCase.Every":     func(c *RecordedCase) { c.Every++ },
		"RecordedCase.Values":    func(c *RecordedCase) { c.Values++ },
		"RecordedCase.Hashes":    nil,
		"RecordedCase.First":     nil,
	}
	of := RecordedCase{
		Env: "a", Options: map[string]string{"a": "1"}, Bounds: map[string]float64{"a": 1},
		Network: new(classic.Perceptron), Hashes: []string{"0"}, First: [][][]string{{{"1"}}},
	}
	simtest.Fields(t, lines, func(name string, change func(c *RecordedCase)) {
		c := of
		if change == nil {
			c.Hashes, c.First = nil, nil
		} else {
			change(&c)
		}
		if (c.asked() == of.asked()) != (change == nil) {
			t.Errorf("with another %s what is asked for is %s", name, c.asked())
		}
	}, reflect.TypeFor[RecordedCase]())
}

// TestNaN: one NaN is as good as another, as value and in the hash, and no number is.
func TestNaN(t *testing.T) {
	of := func(x float64) (string, error) {
		c := comparison{
			RecordedCase: RecordedCase{First: [][][]string{{{"0x1p+0", "nan"}, {"nan"}}}},
			hash:         sha256.New(),
		}
		wide, narrow := []float64{1, x}, []float32{float32(x)}
		err := c.put(0, wide, narrow)
		if math.Float64bits(wide[1]) != math.Float64bits(x) ||
			math.Float32bits(narrow[0]) != math.Float32bits(float32(x)) {
			t.Errorf("what an engine answered, %x, is another after it was compared", x)
		}
		return string(c.hash.Sum(nil)), err
	}
	hash, err := of(math.NaN())
	if err != nil {
		t.Error(err)
	}
	if other, err := of(math.Float64frombits(0xfff8000000000007)); err != nil || other != hash {
		t.Errorf("another NaN has another hash, or %v", err)
	}
	if other, err := of(2); err == nil || other == hash {
		t.Error("a number is as good as a NaN")
	}
}
