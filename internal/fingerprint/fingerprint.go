// Package fingerprint asks NumPy, pandas and ONNX Runtime which arithmetic they have.
// A probe is a call of a library on rows that tell all known and plausible forms of an
// operation apart: those of golden/vectors, found by search. The answer names the one
// form that gives all of its bits, or none. Version strings decide nothing.
package fingerprint

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"lockstep"
	"lockstep/golden/vectors"
)

// A Probe is what is asked of a library for one part of a profile.
type Probe struct {
	Name    string // one word, in messages and requests
	What    string // is asked, in a sentence
	Package string // that answers

	// Forms are those that are known: with the first ones a profile computes, with the
	// others nobody here does.
	Forms []Form

	// Rows are the questions. Their results are not looked at: forms compute them.
	Rows []vectors.Vector

	argument string // of the rows that the library is given
	width    int    // bytes of a number of the answer
	operator string // of ONNX, if it is ONNX Runtime that is asked
}

// A Form is one way to compute a probe's operation.
type Form struct {
	Word string // in a profile's name
	What string // versions and machines that have it

	compute compute
}

// compute is the result of one row: float32 or float64 numbers.
type compute func(v vectors.Vector) any

// probes are in the order of a profile's words.
var probes = []*Probe{layerNorm, softmax, exp, sin, csv}

// Part is the place of a probe's word in a profile's name, and the package that answers.
func Part(probe string) (k int, pkg string) {
	k = max(0, slices.IndexFunc(probes, func(p *Probe) bool { return p.Name == probe }))
	return k, probes[k].Package
}

// Probes are the questions, in the order of a profile's words, with their rows.
var Probes = sync.OnceValues(func() ([]*Probe, error) {
	for _, p := range probes {
		for _, operation := range operations[p.Name] {
			rows, err := vectors.Of(operation)
			if err != nil {
				return nil, err
			}
			p.Rows = append(p.Rows, rows...)
		}
		p.Rows = append(p.Rows, more[p.Name]...)
	}
	return probes, nil
})

// expected are the bits of a form, row by row.
func (p *Probe) expected(f *Form) [][]byte {
	rows := make([][]byte, len(p.Rows))
	for i, v := range p.Rows {
		rows[i] = bitsOf(f.compute(v))
	}
	return rows
}

// Expected are the bits of a form: all rows' numbers, as Judge takes them.
func (p *Probe) Expected(f *Form) []byte { return slices.Concat(p.expected(f)...) }

// bitsOf are numbers in little-endian order. All NaN are one.
func bitsOf(numbers any) []byte {
	switch x := numbers.(type) {
	case []float32:
		x = slices.Clone(x)
		for i, v := range x {
			if v != v {
				x[i] = float32(math.NaN())
			}
		}
		numbers = x
	case []float64:
		x = slices.Clone(x)
		for i, v := range x {
			if v != v {
				x[i] = math.NaN()
			}
		}
		numbers = x
	}
	data, err := binary.Append(nil, binary.LittleEndian, numbers)
	if err != nil {
		panic(err) // a form's result has another type
	}
	return data
}

// An Answer is what a library answered to a probe, and which form that is.
type Answer struct {
	Probe string `json:"probe"`
	Form  string `json:"form,omitempty"` // the only one that has all bits, "" if none has
	Rows  int    `json:"rows"`           // that were asked
	Bits  string `json:"bits,omitempty"` // the first 8 bytes of the answer's SHA-256

	// Nearest is the form that has the most rows, where none has all.
	Nearest string `json:"nearest,omitempty"`
	Equal   int    `json:"equal_rows,omitempty"` // of Nearest

	// Missing is set if the library is not installed, Error if it could not answer.
	Missing bool   `json:"missing,omitempty"`
	Error   string `json:"error,omitempty"`
}

// Judge says which form an answer is: all rows' numbers, one after the other, as
// little-endian bytes.
func (p *Probe) Judge(data []byte) Answer {
	sum := sha256.Sum256(data)
	a := Answer{Probe: p.Name, Rows: len(p.Rows), Bits: hex.EncodeToString(sum[:8])}
	var forms []string
	for i := range p.Forms {
		f := &p.Forms[i]
		equal, rest := 0, data
		for _, row := range p.expected(f) {
			n := min(len(row), len(rest))
			if bytes.Equal(canonical(rest[:n], p.width), row) {
				equal++
			}
			rest = rest[n:]
		}
		if equal == len(p.Rows) && len(rest) == 0 {
			forms = append(forms, f.Word)
		}
		if equal > a.Equal {
			a.Nearest, a.Equal = f.Word, equal
		}
	}
	if len(forms) == 1 {
		a.Form, a.Nearest, a.Equal = forms[0], "", 0
	}
	return a
}

// canonical is bits with one NaN for all.
func canonical(data []byte, width int) []byte {
	if width == 4 {
		x := make([]float32, len(data)/4)
		binary.Decode(data, binary.LittleEndian, x)
		return bitsOf(x)
	}
	x := make([]float64, len(data)/8)
	binary.Decode(data, binary.LittleEndian, x)
	return bitsOf(x)
}

// Input is what a library is given: the rows' numbers one after the other, of 4 or of 8
// bytes, or for the reading of texts one text a row.
func (p *Probe) Input() (numbers []byte, texts []string) {
	for _, v := range p.Rows {
		switch {
		case p.argument == "text":
			texts = append(texts, v.Text(p.argument))
		case v.Args["n"] != nil: // scores count of a row
			numbers = append(numbers, bitsOf(masked(v))...)
		default:
			numbers = append(numbers, bitsOf(v.Args[p.argument])...)
		}
	}
	return numbers, texts
}

// Describe is an answer in a sentence, without the probe's name.
func (a *Answer) Describe() string {
	switch {
	case a.Missing:
		return "its package is not installed"
	case a.Error != "":
		return a.Error
	case a.Form != "":
		return a.Form
	case a.Nearest != "":
		return fmt.Sprintf(
			"answer %s is no known form; %s has %d of its %d rows", a.Bits, a.Nearest, a.Equal,
			a.Rows,
		)
	}
	return fmt.Sprintf("answer %s is no known form: none has any of its %d rows", a.Bits, a.Rows)
}

// Replace is a profile with one word of its name replaced: that of probe k. ok is false if
// no profile has such a word.
func Replace(p lockstep.Profile, k int, word string) (q lockstep.Profile, ok bool) {
	words := strings.Split(p.String(), "-")
	words[k] = word
	q, err := lockstep.ParseProfile(strings.Join(words, "-"))
	if err != nil {
		return p, false
	}
	return q, true
}
