package schema

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"lockstep/golden"
	"lockstep/internal/simtest"
)

// TestDigest: of what a digest is, by hand and as goldens have it.
func TestDigest(t *testing.T) {
	logits := []float32{1, -2, float32(math.Inf(1))}
	cdf := []float64{0.25, math.Copysign(0, -1)}
	if got, want := SHA256.Bytes(Bytes(logits)), golden.Hash(logits); got != want {
		t.Errorf("sha256 of float32: %016x, golden %016x", got, want)
	}
	if got, want := SHA256.Bytes(Bytes(cdf)), golden.Hash(cdf); got != want {
		t.Errorf("sha256 of float64: %016x, golden %016x", got, want)
	}
	// The reference implementations' own test vectors.
	for h, want := range map[Hash]map[string]uint64{
		XXH64: {"": 0xef46db3751d8e999, "a": 0xd24ec4f1a98c6e5b, "abc": 0x44bc2cf5ad770999},
		XXH3:  {"": 0x2d06800538d394c2, "a": 0xe6c632b61e964e1f, "abc": 0x78af5f94892f3950},
	} {
		for text, want := range want {
			if got := h.Bytes([]byte(text)); got != want {
				t.Errorf("%v of %q: %016x, want %016x", h, text, got, want)
			}
		}
	}
	// As it would be on a machine of the other byte order.
	was := littleEndian
	defer func() { littleEndian = was }()
	fast := [][]byte{Bytes(logits), Bytes(cdf), Bytes([]int64{1, -1}), Bytes([]uint8{7})}
	littleEndian = false
	slow := [][]byte{Bytes(logits), Bytes(cdf), Bytes([]int64{1, -1}), Bytes([]uint8{7})}
	if !reflect.DeepEqual(fast, slow) {
		t.Errorf("the bytes depend on the machine's order: %x and %x", fast, slow)
	}
	if back := Elements[float32](slow[0]); !reflect.DeepEqual(back, logits) {
		t.Errorf("%v came back as %v", logits, back)
	}
}

type drive struct {
	speed float32
	flags []uint8
	at    int32
	there bool
}

var view = NewView(
	Schema{Name: "drive", Key: []string{"road"}, Outcome: Outcome{Name: "result"}},
	Number(Stage{Name: "speed"}, func(d *drive) (float32, bool) { return d.speed, true }),
	Array(
		Stage{Name: "flags", Shape: []int{2, 3}, Elements: []Element{{"lights", 2}, {"door", 1}}},
		func(d *drive) []uint8 { return d.flags },
	),
	Number(Stage{Name: "at"}, func(d *drive) (int32, bool) { return d.at, d.there }),
)

// TestView: values come out of a step as they are, and nothing stays of the step before.
func TestView(t *testing.T) {
	s := view.NewStep()
	view.Expose(3, &drive{speed: 1.5, flags: []uint8{1, 2, 3, 4, 5, 6}, at: -7, there: true}, s)
	s.Sum(XXH64)
	if s.Index != 3 || s.Has != view.Set("speed", "flags", "at") ||
		view.Stages[0].Type.Float(s.Bits[0]) != 1.5 ||
		view.Stages[2].Type.Float(s.Bits[2]) != -7 ||
		s.Bits[1] != XXH64.Bytes([]byte{1, 2, 3, 4, 5, 6}) {
		t.Errorf("%+v", s)
	}
	kept := s.Clone()
	view.Expose(4, &drive{speed: 2}, s)
	if s.Sum(XXH64); s.Has != view.Set("speed") || s.Bits[1] != 0 || s.Bits[2] != 0 {
		t.Errorf("%+v", s)
	}
	if kept.Bits[0] == s.Bits[0] || kept.Data[1] == nil {
		t.Errorf("the copy is another: %+v", kept)
	}
	var d Digests
	d.Append(kept)
	d.Append(s)
	if a, b := d.At(0), d.At(1); d.Len() != 2 || !reflect.DeepEqual(a.Bits, kept.Bits) ||
		a.Has != kept.Has ||
		b.Index != 4 ||
		!reflect.DeepEqual(b.Bits, s.Bits) {
		t.Errorf("%+v and %+v", a, b)
	}
	for index, want := range map[int]string{
		0:  "lights",
		1:  "lights",
		2:  "door",
		4:  "lights",
		5:  "door",
		-1: "",
	} {
		if got := view.Stages[1].Element(index); got != want {
			t.Errorf("index %d is %q, want %q", index, got, want)
		}
	}
	from, into := &drive{flags: make([]uint8, 6), there: true}, view.NewStep()
	if n := testing.AllocsPerRun(100,
		func() { view.Expose(1, from, into); into.Sum(XXH64) }); n != 0 {
		t.Errorf("%v allocations for a step", n)
	}
}

// TestRoll: a bit of any stage, a stage more or less, and the step count in the
// rolling hash; a stage that is never there does not.
func TestRoll(t *testing.T) {
	s := view.NewStep()
	view.Expose(20, &drive{speed: 1, flags: []uint8{1, 2, 3, 4, 5, 6}, there: true}, s)
	s.Sum(XXH64)
	want := view.Roll(XXH64, 7, s)
	seen := map[uint64]string{want: "nothing", view.Roll(XXH64, 8, s): "the hash before"}
	changes := map[string]func(s *Step){"index": func(s *Step) { s.Index++ }}
	for i, g := range view.Stages {
		changes["a bit of "+g.Name] = func(s *Step) { s.Bits[i] ^= 1 }
		changes["no "+g.Name] = func(s *Step) { s.Has &^= 1 << i }
	}
	for name, change := range changes {
		c := s.Clone()
		change(c)
		h := view.Roll(XXH64, 7, c)
		if other, twice := seen[h]; twice {
			t.Errorf("%s counts no more than %s", name, other)
		}
		seen[h] = name
	}
	// All 64 bits of each number count, as Roll says in words.
	wide := &Step{Index: 1 << 30, Has: 0b101, Bits: []uint64{1<<63 | 1, 2, 3<<40 | 3}}
	for _, h := range []Hash{XXH64, SHA256, XXH3} {
		var of []byte
		for _, part := range []any{
			uint64(7<<50 | 7), uint32(1 << 30), XXH64.Bytes([]byte("speed")), wide.Bits[0],
			XXH64.Bytes([]byte("at")), wide.Bits[2],
		} {
			of, _ = binary.Append(of, binary.LittleEndian, part)
		}
		if got, want := view.Roll(h, 7<<50|7, wide), h.Bytes(of); got != want {
			t.Errorf("%v: the rolling hash is %016x, by hand %016x", h, got, want)
		}
	}
	// The same value of another stage is not the same.
	a, b := view.NewStep(), view.NewStep()
	a.Has, a.Bits[0] = 1, 5
	b.Has, b.Bits[2] = 4, 5
	if view.Roll(XXH64, 0, a) == view.Roll(XXH64, 0, b) {
		t.Error("two stages have the same hash")
	}
	more := view.Schema
	more.Stages = append([]Stage{{Name: "first", Type: "uint8"}}, more.Stages...)
	c := more.NewStep()
	c.Index, c.Has, c.Bits = 20, s.Has<<1, append([]uint64{0}, s.Bits...)
	if more.Roll(XXH64, 7, c) != want {
		t.Error("a stage that is not there changes the hash")
	}
}

// TestValidate: what is no schema.
func TestValidate(t *testing.T) {
	for want, change := range map[string]func(s *Schema){
		"0 stages":                  func(s *Schema) { s.Stages = nil },
		"no key":                    func(s *Schema) { s.Key = nil },
		"steps -1, 0 and 0":         func(s *Schema) { s.First = -1 },
		`stage "steps" has no name`: func(s *Schema) { s.Stages[0].Name = Extent },
		`stage "road" has no name`:  func(s *Schema) { s.Stages[0].Name = "road" },
		`stage "speed" has no name, or another's`: func(s *Schema) { s.Stages[2].Name = "speed" },
		`type "bool"`:          func(s *Schema) { s.Stages[0].Type = "bool" },
		"shape [0]":            func(s *Schema) { s.Stages[1].Shape = []int{0} },
		`from "at" of 0 steps`: func(s *Schema) { s.Stages[0].From = []Input{Same("at")} },
		`from "nothing"`: func(s *Schema) {
			s.Stages[0].From = []Input{Last(1, "nothing")}
		},
		"of -2 steps":            func(s *Schema) { s.Stages[0].From = []Input{Last(-2, "at")} },
		"an array has no effect": func(s *Schema) { s.Stages[1].Effect = true },
		"and a number no elements": func(s *Schema) {
			s.Stages[0].Elements = []Element{{"one", 1}}
		},
		`computed from "speeds", which is no`: func(s *Schema) {
			s.Outcome.From = []string{"speeds"}
		},
	} {
		s := view.Schema
		s.Stages = append([]Stage{}, view.Stages...)
		change(&s)
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if err := view.Validate(); err != nil {
		t.Error(err)
	}
	other := view.Schema
	other.Stages = append([]Stage{}, view.Stages...)
	other.Stages[1].Shape = []int{6}
	if err := Agree(&view.Schema, &other); err == nil ||
		err.Error() != "stage flags is uint8 [2 3] on one side and uint8 [6] on the other" {
		t.Error(err)
	}
	other.Name = "walk"
	if err := Agree(&view.Schema, &other); err == nil ||
		err.Error() != "drive and walk are other simulators" {
		t.Error(err)
	}
	if !view.Known("road") || !view.Known("at") || !view.Known("result") || !view.Known(Extent) ||
		view.Known("roads") {
		t.Error("stages are not known, or too many")
	}
	if text := fmt.Sprint(view.At(0), view.Arrays()); text != "7 2" {
		t.Errorf("sets %s", text)
	}
}

// TestAgree: two schemas agree if what both have is told apart, begins and is stored alike; how
// it is computed, and what one of them has more, is not asked.
func TestAgree(t *testing.T) {
	const other, types = "drive and walk are other simulators", "stage flags is uint8 [2 3] on one"
	lines := map[string]struct {
		change func(s *Schema)
		want   string // "" if they agree
	}{
		"Schema.Name":   {func(s *Schema) { s.Name = "walk" }, other},
		"Schema.Key":    {func(s *Schema) { s.Key = []string{"way"} }, "are other simulators"},
		"Schema.First":  {func(s *Schema) { s.First = 1 }, "are other simulators"},
		"Schema.Warmup": {func(s *Schema) { s.Warmup = 1 }, ""},
		"Schema.End":    {func(s *Schema) { s.End = 1 }, ""},
		"Schema.Stages": {func(s *Schema) { s.Stages = s.Stages[1:] }, ""},
		"Schema.Outcome": {func(s *Schema) {
			s.Outcome = Outcome{Name: "sum", Elements: []string{"a",
				"b"}}
		}, "are other simulators"},
		"Outcome.Name": {func(s *Schema) { s.Outcome.Name = "sum" }, ""},
		"Outcome.Elements": {func(s *Schema) {
			s.Outcome.Elements = []string{"b"}
		}, "are other simulators"},
		"Outcome.From":   {func(s *Schema) { s.Outcome.From = []string{"at"} }, ""},
		"Outcome.Begin":  {func(s *Schema) { s.Outcome.Begin = 1 }, ""},
		"Outcome.End":    {func(s *Schema) { s.Outcome.End = 1 }, ""},
		"Stage.Name":     {func(s *Schema) { s.Stages[1].Name = "wheels" }, ""},
		"Stage.Type":     {func(s *Schema) { s.Stages[1].Type = "int32" }, types},
		"Stage.Shape":    {func(s *Schema) { s.Stages[1].Shape = []int{3, 2} }, types},
		"Stage.From":     {func(s *Schema) { s.Stages[1].From = []Input{Same("speed")} }, ""},
		"Stage.Given":    {func(s *Schema) { s.Stages[1].Given = true }, ""},
		"Stage.Skipped":  {func(s *Schema) { s.Stages[1].Skipped = true }, ""},
		"Stage.Teach":    {func(s *Schema) { s.Stages[1].Teach = true }, ""},
		"Stage.Soft":     {func(s *Schema) { s.Stages[1].Soft = true }, ""},
		"Stage.Effect":   {func(s *Schema) { s.Stages[0].Effect = true }, ""},
		"Stage.Optional": {func(s *Schema) { s.Stages[1].Optional = true }, ""},
		"Stage.Elements": {func(s *Schema) { s.Stages[1].Elements = nil }, ""},
		"Stage.Varies":   {func(s *Schema) { s.Stages[1].Varies = true }, ""},
	}
	of := func(change func(s *Schema)) *Schema {
		s := view.Schema
		s.Stages = append([]Stage{}, view.Stages...)
		s.Outcome.Elements = []string{"a"}
		change(&s)
		return &s
	}
	same := of(func(*Schema) {})
	simtest.Fields(t, lines, func(name string, line struct {
		change func(s *Schema)
		want   string
	}) {
		changed := of(line.change)
		for _, err := range []error{Agree(same, changed), Agree(changed, same)} {
			if (err == nil) != (line.want == "") {
				t.Errorf("%s is another: %v, want %q", name, err, line.want)
			}
		}
		if err := Agree(same, changed); err != nil && !strings.Contains(err.Error(), line.want) {
			t.Errorf("%s is another: %v, want %q", name, err, line.want)
		}
	}, reflect.TypeFor[Schema](), reflect.TypeFor[Outcome](), reflect.TypeFor[Stage]())
}

// TestKept: steps that are kept, in full or as digests, stay as they were and apart.
func TestKept(t *testing.T) {
	s := Schema{Name: "kept", Key: []string{"k"}, Outcome: Outcome{Name: "o"}, Stages: []Stage{
		{Name: "array", Type: "uint8", Shape: []int{2}},
		{Name: "number", Type: "int64", Optional: true},
		{Name: "last", Type: "uint8", Shape: []int{1}},
	}}
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	memory, last, step := []byte{1, 2}, []byte{1}, s.NewStep()
	var kept []*Step
	var digests Digests
	for i := range 3 {
		step.Clear()
		step.Index, step.Data[0], memory[0] = 10+i, memory, byte(i)
		step.Data[2], last[0] = last, byte(7*i)
		if i == 1 {
			step.Bits[1], step.Has = uint64(i), 2
		}
		step.Sum(XXH64)
		kept = append(kept, step.Clone())
		digests.Append(step)
	}
	for i, k := range kept {
		d := digests.At(i)
		if k.Data[0][0] != byte(i) || k.Data[2][0] != byte(7*i) || k.Index != 10+i ||
			k.Has.Has(1) != (i == 1) {
			t.Errorf("step %d is kept as %v", i, k)
		}
		if d.Index != k.Index || d.Has != k.Has || d.Bits[0] != k.Bits[0] ||
			d.Bits[0] != XXH64.Bytes([]byte{byte(i), 2}) ||
			d.Bits[2] != XXH64.Bytes([]byte{byte(7 * i)}) {
			t.Errorf("the digests of step %d are %v, of %v", i, d, k)
		}
	}
	kept[0].Index = -1
	digests.Append(kept[0])
	if d := digests.At(3); digests.Len() != 4 || d.Index != -1 || d.Bits[0] != kept[0].Bits[0] {
		t.Errorf("after one more the last step is %v", d)
	}
}

// TestClear: of a step's values none stays.
func TestClear(t *testing.T) {
	step := view.NewStep()
	view.Expose(3, &drive{speed: 1.5, flags: []uint8{1, 2, 3, 4, 5, 6}, at: -7, there: true}, step)
	step.Sum(XXH64)
	step.Clear()
	if empty := view.NewStep(); !reflect.DeepEqual(step.Bits, empty.Bits) ||
		!reflect.DeepEqual(step.Data, empty.Data) || step.Has != 0 {
		t.Errorf("a step without values has %+v", step)
	}
}

// TestKeptAny: so do random ones, with stages that are missing and without.
func TestKeptAny(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := wide(rapid.IntRange(1, MaxStages).Draw(t, "stages"))
		var steps []*Step
		var digests Digests
		for range rapid.IntRange(1, 4).Draw(t, "steps") {
			step := s.NewStep()
			step.Index = int(rapid.Int32().Draw(t, "index"))
			step.Has = StageSet(rapid.Uint32().Draw(t, "has") & (1<<len(s.Stages) - 1))
			for i := range step.Bits {
				step.Bits[i] = rapid.Uint64().Draw(t, "bits")
			}
			digests.Append(step)
			steps = append(steps, step.Clone())
			step.Clear()
		}
		for i, want := range steps {
			if got := digests.At(i); !reflect.DeepEqual(got, want) {
				t.Fatalf("step %d is kept as %+v, was %+v", i, got, want)
			}
		}
	})
}
