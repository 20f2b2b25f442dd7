package parity

import (
	"encoding/json"
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
	case math.IsInf(f, 1):
		return []byte(`"Inf"`), nil
	case math.IsInf(f, -1):
		return []byte(`"-Inf"`), nil
	}
	return strconv.AppendFloat(nil, f, 'g', -1, 64), nil
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (x *Float) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] != '"' {
		// Through the number's own text, so that -0 stays what it is.
		var n json.Number
		if err := json.Unmarshal(data, &n); err != nil {
			return err
		}
		f, err := strconv.ParseFloat(string(n), 64)
		if err != nil {
			return err
		}
		*x = Float(f)
		return nil
	}
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	switch text {
	case "Inf":
		*x = Float(math.Inf(1))
		return nil
	case "-Inf":
		*x = Float(math.Inf(-1))
		return nil
	}
	if digits, ok := strings.CutPrefix(text, "NaN:"); ok {
		bits, err := strconv.ParseUint(digits, 16, 64)
		if f := math.Float64frombits(bits); err == nil && f != f {
			*x = Float(f)
			return nil
		}
	}
	return fmt.Errorf("%q is no number: want one, or Inf, -Inf, or NaN: and its bits", text)
}

// Floats and Numbers convert columns.
func Floats(a []float64) []Float {
	if a == nil {
		return nil
	}
	out := make([]Float, len(a))
	for i, x := range a {
		out[i] = Float(x)
	}
	return out
}

// Numbers is the inverse of Floats.
func Numbers(a []Float) []float64 {
	if a == nil {
		return nil
	}
	out := make([]float64, len(a))
	for i, x := range a {
		out[i] = float64(x)
	}
	return out
}
