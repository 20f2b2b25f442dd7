package fingerprint

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"

	"lockstep"
	"lockstep/golden/vectors"
)

func withRows(t *testing.T) []*Probe {
	t.Helper()
	all, err := Probes()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// answer is what a library of one form answers to a probe.
func answer(p *Probe, word string) []byte {
	for i := range p.Forms {
		if p.Forms[i].Word == word {
			return p.Expected(&p.Forms[i])
		}
	}
	panic(word)
}

// TestForms: the rows of a probe tell each form from every other, so that each is judged
// to be itself and no other; and nothing is judged to be a form of which one bit differs.
func TestForms(t *testing.T) {
	for _, p := range withRows(t) {
		for _, f := range p.Forms {
			data := answer(p, f.Word)
			if a := p.Judge(data); a.Form != f.Word {
				t.Errorf("%s, a library of the form %s: %+v", p.Name, f.Word, a)
			}
			for _, at := range []int{0, len(data) / 2, len(data) - p.width} {
				changed := slices.Clone(data)
				changed[at] ^= 1
				if a := p.Judge(changed); a.Form == f.Word {
					t.Errorf("%s, %s with a bit of byte %d changed: %+v", p.Name, f.Word, at, a)
				}
			}
			if a := p.Judge(data[:len(data)-p.width]); a.Form != "" {
				t.Errorf("%s, %s without its last number: %+v", p.Name, f.Word, a)
			}
			more := append(slices.Clip(data), data[:p.width]...)
			if a := p.Judge(more); a.Form != "" || a.Nearest != f.Word {
				t.Errorf("%s, %s with a number more: %+v", p.Name, f.Word, a)
			}
		}
		if a := p.Judge(nil); a.Form != "" || !strings.Contains(a.Describe(), "none has any") {
			t.Errorf("%s, no answer: %+v", p.Name, a)
		}
	}
}

// TestTwoForms: an answer that two forms give is of none, and what is asked stays as it was,
// whichever NaN is in it.
func TestTwoForms(t *testing.T) {
	nan32, nan64 := math.Float32frombits(0x7fc00123), math.Float64frombits(0x7ff8000000000123)
	single, double := []float32{1, nan32}, []float64{nan64, 2}
	give := func(numbers any) compute { return func(vectors.Vector) any { return numbers } }
	for width, numbers := range map[int]any{4: single, 8: double} {
		p := &Probe{Name: "twice", Rows: make([]vectors.Vector, 1), width: width, Forms: []Form{
			{Word: "a", compute: give(numbers)}, {Word: "b", compute: give(numbers)},
		}}
		if a := p.Judge(p.Expected(&p.Forms[0])); a.Form != "" || a.Nearest != "a" || a.Equal != 1 {
			t.Errorf("an answer of two forms: %+v", a)
		}
		p.Forms = p.Forms[:1]
		if a := p.Judge(p.Expected(&p.Forms[0])); a.Form != "a" {
			t.Errorf("an answer of one form: %+v", a)
		}
		data, err := binary.Append(nil, binary.LittleEndian, numbers)
		if a := p.Judge(data); err != nil || a.Form != "a" {
			t.Errorf("an answer of one form with another NaN: %+v, %v", a, err)
		}
	}
	if math.Float32bits(single[1]) != 0x7fc00123 ||
		math.Float64bits(double[0]) != 0x7ff8000000000123 {
		t.Error("another NaN was written into what a form computed")
	}
	mine := lockstep.Profiles()[1]
	if got, ok := Replace(mine, 0, "no word"); ok || got != mine {
		t.Errorf("with a word that is none: %v, %v", got, ok)
	}
}

// TestWords: the forms that profiles have come first, are all of them, and compute
// the vectors of their operation.
func TestWords(t *testing.T) {
	for k, p := range withRows(t) {
		words := map[string]bool{}
		for _, profile := range lockstep.Profiles() {
			words[strings.Split(profile.String(), "-")[k]] = true
		}
		for i, f := range p.Forms {
			if _, ok := Replace(lockstep.Profile{}, k, f.Word); ok != (i < len(words)) ||
				ok != words[f.Word] {
				t.Errorf("%s, form %d, %s: a profile has it: %v", p.Name, i, f.Word, ok)
			}
		}
		for i, operation := range operations[p.Name] {
			vectors.Hold(t, operation, p.Forms[i].compute)
		}
	}
}

// TestRecorded: forms that no profile has answer what NumPy, pandas and ONNX Runtime were
// seen to answer on machines that have them: see golden/README.md.
func TestRecorded(t *testing.T) {
	for _, c := range []struct {
		probe *Probe
		word  string
		want  any
	}{
		{exp, "expC", []float32{math.Float32frombits(0x3eb504f3)}},
		{exp, "expF", []float32{math.Float32frombits(0x3eb504f2)}},
		{exp, "expU", []float32{math.Float32frombits(0x3eb504f4)}},
		{sin, "sinfma", []float64{0x1.fd412bfc5368bp-3 * 9.81}},
		{sin, "sinnofma", []float64{0x1.fd412bfc5368cp-3 * 9.81}},
		{sin, "sinsvml", []float64{0x1.fd412bfc5368dp-3 * 9.81}},
		{csv, "csv2", []float64{0x1.f73e2c0b53a54p+4}},
		{csv, "csvfma", []float64{0x1.f73e2c0b53a52p+4}},
		{csv, "csvexact", []float64{0x1.f73e2c0b53a53p+4}},
	} {
		i := slices.IndexFunc(c.probe.Forms, func(f Form) bool { return f.Word == c.word })
		got := c.probe.Forms[i].compute(more[c.probe.Name][0])
		if d := vectors.Difference(got, c.want); d != "" {
			t.Errorf("%s: %s", c.word, d)
		}
	}
}
