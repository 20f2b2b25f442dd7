package schema

import (
	"fmt"
	"slices"
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
	second := wide(MaxStages)
	second.Stages[3].From = []Input{Same("s1"), Same("s5")}
	before := wide(MaxStages)
	before.Stages[3].From = []Input{Before("s3"), Before("s5")}
	for _, c := range []struct {
		name   string
		schema *Schema
		want   string
	}{
		{"as many stages as there may be", wide(MaxStages), ""},
		{"one too many", wide(MaxStages + 1), "33 stages, want 1 to 32"},
		{"the second input of two", second, `stage "s3" is computed from "s5" of 0 steps before`},
		{"a stage from itself", self, `stage "s3" is computed from "s3" of 0 steps before`},
		{"a stage from itself and a later one, of the steps before", before, ""},
		{"an array of one", shaped(1), ""},
		{"the largest array", shaped(maxArray), ""},
		{"one too large", shaped(maxArray + 1), "and 524288 bytes at most"},
		{"the largest of two dimensions", shaped(maxArray/512, 512), ""},
		{"too large by the second", shaped(maxArray/512, 513), "bytes at most"},
		{"too large by the third", shaped(maxArray/512, 512, 2), "bytes at most"},
	} {
		if err := c.schema.Validate(); (err == nil) != (c.want == "") ||
			err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	a := wide(3)
	for i, g := range a.Stages {
		b := wide(3)
		b.Stages[i].Type = "int8"
		want := fmt.Sprintf("stage %s is uint8", g.Name)
		if err := Agree(a, b); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("stage %d is another: %v, want %q", i, err, want)
		}
		b.Stages[i].Type = "bool"
		want = fmt.Sprintf("stage %q: type", g.Name)
		if err := b.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("stage %d is of no type: %v, want %q", i, err, want)
		}
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
	if got := s.Required(); !slices.Equal(got, []string{"s0", "s2", "sum"}) {
		t.Errorf("every rollout has %q", got)
	}
	s.Stages[3].Optional = false
	if got := s.Required(); !slices.Equal(got, []string{"s0", "s2", "s3", "sum"}) {
		t.Errorf("every rollout has %q, the last stage not being optional", got)
	}
	var d Digests
	d.Append(s.NewStep())
	if n := len(d.At(0).Data); n != len(s.Stages) {
		t.Errorf("a step that was kept has %d places for arrays, want %d", n, len(s.Stages))
	}
	var bare Digests // a schema that nobody has checked may be without stages
	bare.Append((&Schema{}).NewStep())
	if n := bare.Len(); n != 1 {
		t.Errorf("one step without stages is %d", n)
	}
}

// TestPrintable: no name of a schema has what cannot be printed, wherever it stands.
func TestPrintable(t *testing.T) {
	places := map[string]*string{}
	of := func() *Schema {
		s := wide(3)
		s.Key, s.Outcome.Elements = []string{"road", "seed"}, []string{"a", "b"}
		places["schema"], places["outcome"] = &s.Name, &s.Outcome.Name
		for i := range 2 {
			places[fmt.Sprint("key ", i)] = &s.Key[i]
			places[fmt.Sprint("number ", i, " of the outcome")] = &s.Outcome.Elements[i]
		}
		for i := range s.Stages {
			g := &s.Stages[i]
			g.Shape, g.Elements, g.From = []int{3}, []Element{{"x", 1}, {"y", 2}}, nil
			places[fmt.Sprint("stage ", i)] = &g.Name
			for k := range g.Elements {
				places[fmt.Sprint("element ", k, " of stage ", i)] = &g.Elements[k].Name
			}
		}
		s.Outcome.From = nil
		return s
	}
	if err := of().Validate(); err != nil {
		t.Fatal(err)
	}
	for name := range places {
		s := of()
		*places[name] += "\a"
		if err := s.Validate(); err == nil ||
			!strings.Contains(err.Error(), "cannot be printed") {
			t.Errorf("the name of %s: %v", name, err)
		}
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
