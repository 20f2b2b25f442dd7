package parity

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Float is a float64 whose JSON form reads back as the same bits: the shortest
// number, or a text where JSON has no number: "Inf", "-Inf", and "NaN", a colon and
// its bit pattern in hexadecimal.
type Float float64

// MarshalJSON writes the number.
func (x Float) MarshalJSON() ([]byte, error) {
	f := float64(x)
	switch {
	case f != f:
		return fmt.Appendf(nil, `"NaN:%016x"`, math.Float64bits(f)), nil
	case math.IsInf(f, 0):
		return strconv.AppendQuote(nil, strings.TrimPrefix(fmt.Sprint(f), "+")), nil
	}
	return strconv.AppendFloat(nil, f, 'g', -1, 64), nil
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (x *Float) UnmarshalJSON(data []byte) error {
	text := strings.Trim(string(data), `"`)
	f, err := strconv.ParseFloat(text, 64)
	if digits, nan := strings.CutPrefix(text, "NaN:"); nan {
		var bits uint64
		bits, err = strconv.ParseUint(digits, 16, 64)
		f = math.Float64frombits(bits)
	}
	back, _ := Float(f).MarshalJSON()
	if err != nil || data[0] == '"' && !bytes.Equal(back, data) { // a text is none but those
		return fmt.Errorf("%.60s is no number: want one, or Inf, -Inf, or NaN: and its bits", data)
	}
	*x = Float(f)
	return nil
}

// Floats and Numbers convert columns.
func Floats(a []float64) []Float  { return convert[Float](a) }
func Numbers(a []Float) []float64 { return convert[float64](a) }

func convert[To, From ~float64](a []From) (out []To) {
	for _, x := range a {
		out = append(out, To(x))
	}
	return out
}
