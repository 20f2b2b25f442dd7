package fingerprint

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"lockstep"
	"lockstep/golden/vectors"
	"lockstep/internal/libm"
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
			want := Answer{
				Probe: p.Name, Form: f.Word, Rows: len(p.Rows),
				Bits: fmt.Sprintf("%x", sha256.Sum256(data))[:16],
			}
			if a := p.Judge(data); a != want {
				t.Errorf("%s, a library of the form %s: %+v, want %+v", p.Name, f.Word, a, want)
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
// the vectors of their operation; each is described, and gives numbers of the probe's width.
func TestWords(t *testing.T) {
	for k, p := range withRows(t) {
		words := map[string]bool{}
		for _, profile := range lockstep.Profiles() {
			words[strings.Split(profile.String(), "-")[k]] = true
		}
		if p.What == "" {
			t.Errorf("%s: nothing is asked", p.Name)
		}
		what := map[string]bool{"": true}
		for i, f := range p.Forms {
			if what[f.What] || i < len(words) && f.What != lockstep.Forms(k)[i].What {
				t.Errorf("%s: %s is had by %q, as another", p.Name, f.Word, f.What)
			}
			what[f.What] = true
			size := int(reflect.TypeOf(f.compute(p.Rows[0])).Elem().Size())
			if size != p.width {
				t.Errorf("%s: %s has numbers of %d bytes, want %d", p.Name, f.Word, size, p.width)
			}
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

// TestEach: what is computed of each number of a row is what is computed of it alone.
func TestEach(t *testing.T) {
	for _, p := range []*Probe{exp, sin} {
		for _, f := range p.Forms {
			of := func(x ...float64) any {
				var row any = x
				if p.width == 4 {
					var small []float32
					for _, v := range x {
						small = append(small, float32(v))
					}
					row = small
				}
				return f.compute(vectors.Vector{Args: map[string]any{p.argument: row}})
			}
			numbers := []float64{-0.25, 0x1p-30, -1e-9, 0, 0.5, -0.75, 0.125}
			var each []byte
			for _, x := range numbers {
				each = append(each, bitsOf(of(x))...)
			}
			if got := bitsOf(of(numbers...)); !slices.Equal(got, each) {
				t.Errorf("%s of a row: %x, number by number %x", f.Word, got, each)
			}
		}
	}
}

// TestNear: forms that no profile has are as near to what they compute as their libraries are, in
// last bits, at numbers of all sizes and of both signs.
func TestNear(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	near := func(word string, x, got, want, most float64) {
		t.Helper()
		if last := math.Nextafter(math.Abs(want), 2) - math.Abs(want); !(math.Abs(got-want) <=
			most*last) || math.Signbit(got) != math.Signbit(want) {
			t.Errorf("%s of %x is %x, want what is near to %x", word, x, got, want)
		}
	}
	for i := range 20_000 {
		x := (2*r.Float64() - 1) * 0.855
		if i%4 == 0 {
			x = math.Ldexp(x, -r.IntN(60))
		}
		near("sinnofma", x, sinRounded(x), libm.Sin(x), 1)
		x = math.Ldexp(2*r.Float64()-1, 1+r.IntN(23))
		near("sinsvml", x, sinSVML(x), libm.Sin(x), 4)
		u := float32((2*r.Float64() - 1) * 80)
		want := math.Exp(float64(u))
		last := math.Nextafter32(float32(want), math.MaxFloat32) - float32(want)
		if miss := math.Abs(float64(expFused(u))-want) / float64(last); miss > 0.503 {
			t.Errorf("the exponential of %x misses by %.4f of its last bit", u, miss)
		}
	}
	for x, want := range map[float32]float64{
		0x1.62e42ep6: 0x1.ffff08p127, math.Nextafter32(0x1.62e42ep6, 99): math.Inf(1),
		90: math.Inf(1), 1e38: math.Inf(1), float32(math.Inf(1)): math.Inf(1),
		-0x1.9fe368p6: 0x1p-149, math.Nextafter32(-0x1.9fe368p6, -999): 0, -105: 0, -1e38: 0,
		float32(math.Inf(-1)): 0,
	} {
		if got := expFused(x); float64(got) != want {
			t.Errorf("the exponential of %x is %x, want %x", x, got, want)
		}
	}
	if got := expFused(float32(math.NaN())); got == got {
		t.Errorf("the exponential of NaN is %x", got)
	}
	for text, want := range map[string]float64{
		"3e1": 30, "0.3e2": 30, "8539425422155118e1": 0x1.2f619f2cbc265p+56,
	} {
		if got := digitsFused(text); got != want {
			t.Errorf("%s is read as %x", text, got)
		}
	}
	// What NumPy 1.24.4 has on a CPU with AVX-512, beside multiples of π and of its half.
	for x, want := range map[float64]float64{
		0x1.3dd90451d81d1p22: -0x1.6b1ff1c5a9914p-32,
		0x1.ebab90e8f093bp22: 0x1.1ea3d0919fbep-30,
		0x1.c0f05815f5019p23: 0x1.f5fa75e0972e5p-33,
		0x1.2489528ed2cb7p23: -0x1.ffffffffffffep-1,
		0x1.148329d0b21ecp23: 0x1.fffffffffffffp-1,
	} {
		if got := sinSVML(x); got != want {
			t.Errorf("the sine of %x is %x, NumPy has %x", x, got, want)
		}
	}
	zero := math.Copysign(0, -1)
	if sinSVML(zero) != 0 || !math.Signbit(sinSVML(zero)) {
		t.Errorf("the sine of -0 is %v", sinSVML(zero))
	}
}

// TestBits: all NaN of an answer are one, wherever they stand, the other numbers are what they are,
// and what was given stays.
func TestBits(t *testing.T) {
	nan, other := math.NaN(), math.Float64frombits(0xfff8000000000003)
	small := math.Float32frombits(0xffc00003)
	for at := range 3 {
		x, y := []float64{1, -2, 3}, []float32{1, -2, 3}
		want, like := slices.Clone(x), slices.Clone(y)
		x[at], want[at], y[at], like[at] = other, nan, small, float32(nan)
		if got := bitsOf(x); !slices.Equal(got, bitsOf(want)) || len(got) != 24 ||
			math.Float64bits(x[at]) != math.Float64bits(other) {
			t.Errorf("%x has the bits %x", x, got)
		}
		if got := bitsOf(y); !slices.Equal(got, bitsOf(like)) || len(got) != 12 ||
			math.Float32bits(y[at]) != math.Float32bits(small) {
			t.Errorf("%x has the bits %x", y, got)
		}
	}
	for at, word := range []string{"layer_norm", "softmax", "exp", "sin", "csv"} {
		if k, pkg := Part(word); k != at || pkg != probes[at].Package {
			t.Errorf("%s is part %d, of %s", word, k, pkg)
		}
	}
}
