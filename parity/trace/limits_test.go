package trace

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"lockstep/parity/schema"
)

// TestLimits: what a trace may just hold, and what it may just not.
func TestLimits(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	good := invent(random, 1, 1)[0]
	observe := func(indices ...int) error {
		w, err := NewWriter(&bytes.Buffer{}, header(Header{}), 0)
		if err != nil {
			t.Fatal(err)
		}
		r := w.Begin(good.about)
		for _, i := range indices {
			r.Observe(step(i, everything, random))
		}
		r.End(nil, nil)
		return w.Close()
	}
	for want, err := range map[string]error{
		"":                                  observe(20, math.MaxInt32),
		"step 21 after step 21":             observe(21, 21),
		"step 2147483648, want 2147483647 ": observe(2, math.MaxInt32+1),
		"step 20 after step 21":             observe(21, 20),
		"step 2147483647 after step 214748": observe(math.MaxInt32, math.MaxInt32),
	} {
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	p := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint32(nil, math.MaxInt32), 0)
	if err := decodeStep(&drift, drift.NewStep(), p); err != nil {
		t.Error(err)
	}
	if err := decodeStep(&drift, drift.NewStep(),
		append([]byte{0, 0, 0, 0x80}, p[4:]...)); err == nil ||
		err.Error() != "step 2147483648" {
		t.Error(err)
	}
}

// TestLongHeader: a description of as many bytes as readers take, and of one more.
func TestLongHeader(t *testing.T) {
	empty, err := json.Marshal(header(Header{Comment: "x"}))
	if err != nil {
		t.Fatal(err)
	}
	for more := range 2 {
		h := header(Header{Comment: strings.Repeat("x", maxHeader-len(empty)+1+more)})
		var b bytes.Buffer
		w, err := NewWriter(&b, h, 0)
		if (err == nil) != (more == 0) {
			t.Errorf("%d bytes too many are written: %v", more, err)
		}
		const want = "a trace's header of 1048577 bytes, want 1048576 at most"
		if err != nil && err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		if err != nil {
			continue
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if err := read(b.Bytes()); err != nil {
			t.Error(err)
		}
		data := bytes.Clone(b.Bytes())
		binary.LittleEndian.PutUint32(data[12:], maxHeader+1)
		if err := read(data); err == nil ||
			!strings.Contains(err.Error(), "1048577 bytes of description, want 1048576 at most") {
			t.Error(err)
		}
	}
}

// worded is a header or a rollout whose fields have a word wherever they are texts.
func worded[T any](of T, word string) T {
	fields := reflect.ValueOf(&of).Elem()
	for i := range fields.NumField() {
		switch f := fields.Field(i); f.Interface().(type) {
		case string:
			f.SetString(word)
		case []string:
			f.Set(reflect.ValueOf([]string{word, word}))
		case map[string]string:
			f.Set(reflect.ValueOf(map[string]string{word: word}))
		}
	}
	return of
}

// TestShown: a trace's words are such as a terminal may be shown, wherever they stand.
func TestShown(t *testing.T) {
	const hostile, shown = "a\x1b", `a\x1b`
	var b bytes.Buffer
	w, err := NewWriter(&b, worded(header(Header{}), hostile), 0)
	if err != nil {
		t.Fatal(err)
	}
	w.Begin(worded(Rollout{}, hostile)).End(nil, nil)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := NewFile(bytes.NewReader(b.Bytes()), "a.trace")
	if err != nil {
		t.Fatal(err)
	}
	if want := worded(f.Header, shown); !reflect.DeepEqual(f.Header, want) {
		t.Errorf("the header is %q, want %q", fmt.Sprint(f.Header), fmt.Sprint(want))
	}
	got, want := f.Rollouts[0].Rollout, worded(Rollout{}, shown)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the rollout is %q, want %q", fmt.Sprint(got), fmt.Sprint(want))
	}
	// What is closed takes nothing more, and says so.
	for range 2 {
		if err := w.Close(); err == nil || err.Error() != "the trace is closed" {
			t.Errorf("closed again: %v", err)
		}
	}
}

// TestTexts: hashes in 16 small digits, what a terminal is shown, and errors of a line.
func TestTexts(t *testing.T) {
	for text, want := range map[string]bool{
		"0123456789abcdef": true,
		"0123456789ABCDEF": false,
		"123":              false,
		"":                 false,
		"0123456789abcdeg": false,
	} {
		var h Hex
		if err := h.UnmarshalText([]byte(text)); (err == nil) != want ||
			want && h.String() != text {
			t.Errorf("%q is read as %v, %v", text, h, err)
		}
	}
	for text, want := range map[string]string{
		"é":        "é",
		"a\x1b":    `a\x1b`,
		"a\xff":    `a\xff`,
		"\xff\x1b": `\xff\x1b`,
		`"a"\b`:    `"a"\b`, // nothing that a terminal obeys
		"\x1b\x1b": `\x1b\x1b`,
	} {
		if got := printable(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
	key := func(n int) error {
		return unmarshal([]byte(`{"`+strings.Repeat("k", n)+`": 1}`), &struct{}{})
	}
	short := 300 - (len(key(50).Error()) - 50)
	if got := key(short).Error(); len(got) != 300 || strings.Contains(got, "…") {
		t.Errorf("an error of 300 bytes is %q", got)
	}
	full := strings.Replace(key(short).Error(), `"k`, `"kk`, 1)
	if got := key(short + 1).Error(); got != full[:150]+"…"+full[151:] {
		t.Errorf("an error of 301 bytes is %q", got)
	}
	r := &reader{File: &File{}}
	if err := r.close(0, make([]byte, 11), 0); err == nil ||
		err.Error() != "an end of 15 bytes, want 16" {
		t.Error(err)
	}
}

// TestManyStages: as many stages as there may be, scalars and arrays, are read as they were
// written, the last array as the first, and of each is known whether it is held in full.
func TestManyStages(t *testing.T) {
	h := Header{Schema: schema.Schema{
		Name: "many", Key: []string{"start"}, Outcome: schema.Outcome{Name: "result"},
	}}
	for i := range schema.MaxStages {
		g := schema.Stage{Name: fmt.Sprintf("s%d", i), Type: "float64"}
		if i%3 == 1 {
			g.Shape, g.Varies = []int{2}, i%2 == 0
		}
		h.Schema.Stages = append(h.Schema.Stages, g)
	}
	random := rand.New(rand.NewPCG(8, 9))
	for k := range schema.MaxStages {
		var b bytes.Buffer
		full := h.Schema.Arrays() &^ (1 << k)
		w, err := NewWriter(&b, h, full)
		if err != nil {
			t.Fatal(err)
		}
		s, hashed := manyStages(&h.Schema, full, random)
		r := w.Begin(Rollout{Key: []string{"a"}})
		r.Observe(s)
		r.End(nil, nil)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		f, err := NewFile(bytes.NewReader(b.Bytes()), "a.trace")
		if err != nil {
			t.Fatal(err)
		}
		got, err := f.Step(f.Rollouts[0], 0)
		if err != nil {
			t.Fatal(err)
		}
		if f.Hashed != hashed {
			t.Errorf("without stage %d in full: digests alone are of %b, want %b", k, f.Hashed,
				hashed)
		}
		for i := range h.Schema.Stages {
			in := !s.Has.Has(i) || got.Bits[i] == s.Bits[i]
			if got.Has.Has(i) != s.Has.Has(i) || !in ||
				!hashed.Has(i) && !bytes.Equal(got.Data[i], s.Data[i]) {
				t.Errorf("without stage %d in full: stage %d is %x, %x, want %x, %x", k, i,
					got.Bits[i], got.Data[i], s.Bits[i], s.Data[i])
			}
		}
	}
}

// manyStages is a step, and of which arrays digests alone are kept.
func manyStages(
	of *schema.Schema, full schema.StageSet, random *rand.Rand,
) (s *schema.Step, hashed schema.StageSet) {
	s = of.NewStep()
	s.Index = 7
	for i, g := range of.Stages {
		switch {
		case !g.IsArray():
			if s.Bits[i] = random.Uint64(); random.IntN(3) > 0 {
				s.Has |= 1 << i
			}
			continue
		case g.Varies && random.IntN(2) == 0: // longer than a step holds
			s.Data[i] = make([]byte, g.Size()+8)
		default:
			s.Data[i] = make([]byte, g.Size())
		}
		s.Data[i][0] = byte(random.Uint32())
		if !full.Has(i) || len(s.Data[i]) != g.Size() {
			hashed |= 1 << i
		}
	}
	return s, hashed
}

// TestManySteps: a trace's end counts more steps than 32 bits do.
func TestManySteps(t *testing.T) {
	var b bytes.Buffer
	w, err := NewWriter(&b, header(Header{}), 0)
	if err != nil {
		t.Fatal(err)
	}
	w.steps = 1<<33 + 5
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	end := b.Bytes()[b.Len()-12:]
	if n := binary.LittleEndian.Uint64(end); n != 1<<33+5 {
		t.Errorf("the end says %d steps, want %d", n, uint64(1<<33+5))
	}
}
