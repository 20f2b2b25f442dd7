package trace

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
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
		"step 2147483648 after step 2":      observe(2, math.MaxInt32+1),
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
	if got := key(short + 1).Error(); !strings.Contains(got, "…") {
		t.Errorf("an error of 301 bytes is %q", got)
	}
	r := &reader{File: &File{}}
	if err := r.close(0, make([]byte, 11), 0); err == nil ||
		err.Error() != "an end of 15 bytes, want 16" {
		t.Error(err)
	}
}
