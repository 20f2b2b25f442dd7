package schema

import (
	"fmt"
	"strings"
	"testing"
)

// wide is a schema with so many stages, the last computed from the first.
func wide(stages int) *Schema {
	s := &Schema{
		Name:    "wide",
		Key:     []string{"road"},
		Warmup:  2,
		Outcome: Outcome{Name: "sum", From: []string{"s0"}},
	}
	for i := range stages {
		s.Stages = append(s.Stages, Stage{Name: fmt.Sprint("s", i), Type: "uint8"})
	}
	s.Stages[stages-1].From = []Input{Before("s0"), Last(1, fmt.Sprint("s", stages-1))}
	return s
}

// TestLimits: a schema at each limit is valid, and one just beyond it is refused.
func TestLimits(t *testing.T) {
	shaped := func(shape ...int) *Schema {
		s := wide(MaxStages)
		s.Stages[0].Shape = shape
		return s
	}
	self := wide(MaxStages)
	self.Stages[3].From = []Input{Same("s3")}
	for _, c := range []struct {
		name   string
		schema *Schema
		want   string
	}{
		{"as many stages as there may be", wide(MaxStages), ""},
		{"one too many", wide(MaxStages + 1), "33 stages, want 1 to 32"},
		{"a stage from itself", self, `stage "s3" is computed from "s3" of 0 steps before`},
		{"an array of one", shaped(1), ""},
		{"the largest array", shaped(maxArray), ""},
		{"one too large", shaped(maxArray + 1), "bytes at most"},
		{"the largest of two dimensions", shaped(maxArray/512, 512), ""},
		{"too large by the second", shaped(maxArray/512, 513), "bytes at most"},
		{"too large by the third", shaped(maxArray/512, 512, 2), "bytes at most"},
	} {
		if err := c.schema.Validate(); (err == nil) != (c.want == "") ||
			err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	a, b := wide(2), wide(2)
	b.Stages[0].Type = "int8"
	if err := Agree(a, b); err == nil || !strings.Contains(err.Error(), "stage s0 is uint8") {
		t.Errorf("the first stage is another: %v", err)
	}
	if all := wide(MaxStages); all.At(all.Warmup) != 1<<MaxStages-1 || all.Arrays() != 0 ||
		!all.Set("s31").Has(31) {
		t.Errorf("of %d stages %b are needed, %b are arrays", MaxStages, all.At(2), all.Arrays())
	}
	if !a.Known("s0") {
		t.Error("the first stage is not known")
	}
}

// TestWarm: each step has the stages that are not optional; in a warm-up those that are
// skipped there are missing, too.
func TestWarm(t *testing.T) {
	s := wide(4)
	s.Stages[1].Optional = true
	s.Stages[2].Skipped = true
	s.Stages[3].Optional, s.Stages[3].Skipped = true, true
	for step, want := range map[int]StageSet{0: 0b0001, 1: 0b0001, 2: 0b0101, 3: 0b0101} {
		if got := s.At(step); got != want || s.Warm(step) != (step < 2) {
			t.Errorf("step %d has the stages %b, want %b; warm: %v", step, got, want, s.Warm(step))
		}
	}
	var d Digests
	d.Append(s.NewStep())
	if n := len(d.At(0).Data); n != len(s.Stages) {
		t.Errorf("a step that was kept has %d places for arrays, want %d", n, len(s.Stages))
	}
}

// TestHashNames: each hash is read by its name.
func TestHashNames(t *testing.T) {
	for _, h := range []Hash{XXH64, SHA256, XXH3} {
		var read Hash
		text, err := h.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		if err := read.UnmarshalText(text); err != nil || read != h {
			t.Errorf("%s is read as %v, %v", text, read, err)
		}
	}
	if err := new(Hash).UnmarshalText([]byte("md5")); err == nil ||
		!strings.Contains(err.Error(), `digest "md5" is not known`) {
		t.Error(err)
	}
}
