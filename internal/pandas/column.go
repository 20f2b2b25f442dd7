// Package pandas reads numbers from text as pandas.read_csv does, rounding
// errors included.
package pandas

import (
	"math"
	"strconv"
	"strings"
)

// Rounding says how a decimal number becomes a float64.
type Rounding uint8

const (
	// TwicePerDigit is pandas up to 2.x: digits are accumulated in float64, so
	// that the result may be off by many units in the last place.
	TwicePerDigit Rounding = iota
	// Correct rounds once, to nearest even.
	Correct
)

// A Column collects the fields of one column and decides, as pandas does, on
// its type: int64 if every field is an integer, else float64.
type Column struct {
	Rounding Rounding

	floats []float64
	ints   []int64 // as long as floats while every field was an integer
}

// Append adds a field and returns its value as a float64, or false for text
// that is no number and no missing value.
func (c *Column) Append(field string) (float64, bool) {
	x, ok := ParseFloat(field, c.Rounding)
	if !ok {
		return 0, false
	}
	if len(c.ints) == len(c.floats) {
		if i, ok := parseInt(field); ok {
			c.ints = append(c.ints, i)
		}
	}
	c.floats = append(c.floats, x)
	return x, true
}

// Float64s returns the column as float64, as NumPy converts it.
func (c *Column) Float64s() []float64 {
	if len(c.ints) == len(c.floats) {
		for i, v := range c.ints {
			c.floats[i] = float64(v)
		}
	}
	return c.floats
}

// missing are the texts that read_csv takes for a missing value by default.
var missing = map[string]bool{
	"": true, "NaN": true, "nan": true, "-nan": true, "-NaN": true, "NA": true, "N/A": true,
	"n/a":  true,
	"#N/A": true, "#N/A N/A": true, "#NA": true, "null": true, "NULL": true, "<NA>": true,
	"None":   true,
	"1.#IND": true, "-1.#IND": true, "1.#QNAN": true, "-1.#QNAN": true,
}

// pow10[k] is the float64 nearest to 10^k.
var pow10 = func() (table [309]float64) {
	for k := range table {
		table[k], _ = strconv.ParseFloat("1e"+strconv.Itoa(k), 64)
	}
	return table
}()

// maxDigits is how many digits pandas reads before it drops the rest. Leading
// zeros count.
const maxDigits = 17

// ParseFloat reads one field of a float64 column. Missing values are NaN; text
// that is no number, or too large for one, gives false.
//
// With TwicePerDigit it is pandas' precise_xstrtod: number = number·10 + digit
// with a rounding after each operation, then one division or multiplication by
// a power of ten.
func ParseFloat(field string, rounding Rounding) (float64, bool) {
	if x, ok := parseNumber(field, rounding); ok {
		return x, true
	}
	return math.NaN(), missing[field]
}

func parseNumber(field string, rounding Rounding) (float64, bool) {
	s := trim(field)
	sign := 1.0
	if s != "" && (s[0] == '+' || s[0] == '-') {
		if s[0] == '-' {
			sign = -1
		}
		s = s[1:]
	}
	if strings.EqualFold(s, "inf") || strings.EqualFold(s, "infinity") {
		return math.Inf(int(sign)), true
	}
	m, rest := mantissa(s)
	exponent, ok := exponentOf(rest)
	if !ok || m.digits == 0 {
		return 0, false
	}
	number := scale(m.number, m.exponent+exponent)
	if rounding == Correct {
		number, _ = strconv.ParseFloat(s, 64)
	}
	if math.IsInf(number, 0) {
		return 0, false
	}
	return math.Copysign(number, sign), true
}

// decimal is number·10^exponent, as it was read from so many digits.
type decimal struct {
	number           float64
	digits, exponent int
}

// add reads a digit, with a rounding after the product and one after the sum. It reports
// whether the digit counts.
func (d *decimal) add(digit byte) bool {
	if d.digits == maxDigits {
		return false
	}
	d.number = float64(d.number*10) + float64(digit-'0')
	d.digits++
	return true
}

// mantissa reads digits with at most one point, and returns what follows them.
func mantissa(s string) (d decimal, rest string) {
	for ; s != "" && isDigit(s[0]); s = s[1:] {
		if !d.add(s[0]) {
			d.exponent++
		}
	}
	if s == "" || s[0] != '.' {
		return d, s
	}
	for s = s[1:]; s != "" && isDigit(s[0]); s = s[1:] {
		if d.add(s[0]) {
			d.exponent--
		}
	}
	return d, s
}

// exponentOf reads an exponent, with its letter, to the end; it is 0 if nothing is left.
func exponentOf(s string) (n int, ok bool) {
	if s == "" {
		return 0, true
	}
	if s[0] != 'e' && s[0] != 'E' {
		return 0, false
	}
	digits := strings.TrimPrefix(s[1:], "-")
	negative := len(digits) < len(s)-1
	if !negative {
		digits = strings.TrimPrefix(digits, "+")
	}
	for i := range len(digits) {
		if !isDigit(digits[i]) {
			return 0, false
		}
		n = min(n*10+int(digits[i]-'0'), 1<<20)
	}
	if negative {
		n = -n
	}
	return n, digits != ""
}

// scale returns number·10^exponent, infinity where that is out of range.
func scale(number float64, exponent int) float64 {
	switch {
	case exponent > 308:
		return math.Inf(1)
	case exponent > 0:
		return number * pow10[exponent]
	case exponent >= -308:
		return number / pow10[-exponent]
	case exponent >= -616:
		number /= pow10[-308-exponent]
		return number / pow10[308]
	default:
		return 0
	}
}

// trim drops white space at both ends.
func trim(s string) string {
	for s != "" && isSpace(s[0]) {
		s = s[1:]
	}
	for s != "" && isSpace(s[len(s)-1]) {
		s = s[:len(s)-1]
	}
	return s
}

func isSpace(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// parseInt reads one field of an int64 column.
func parseInt(field string) (int64, bool) {
	i, err := strconv.ParseInt(trim(field), 10, 64)
	return i, err == nil
}
