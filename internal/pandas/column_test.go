package pandas

import (
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"lockstep/internal/fuzzing"
	"lockstep/internal/goldentest"
	"lockstep/parity/schema"
)

func TestMain(m *testing.M) { os.Exit(fuzzing.Main(m)) }

// TestParseFloatPython compares with pandas.read_csv on a column of floats.
func TestParseFloatPython(t *testing.T) {
	for _, table := range []struct {
		name string
		min  int
	}{{"csv", 10000}, {"csv_special", 20}} {
		texts, bits := goldentest.Strings(t, table.name+"_text"),
			goldentest.Array[uint64](t, table.name+"_bits")
		if len(texts) < table.min || len(texts) != len(bits) {
			t.Errorf(
				"%s: %d texts and %d results, want %d or more", table.name, len(texts), len(bits),
				table.min)
		}
		differ := 0
		for i, text := range texts {
			want := math.Float64frombits(bits[i])
			got, ok := ParseFloat(text, TwicePerDigit)
			if !ok || !schema.Equal(got, want) {
				t.Errorf("ParseFloat(%q) = %v, %v, pandas has %v", text, got, ok, want)
			}
			if exact, _ := ParseFloat(text, Correct); !schema.Equal(exact, want) {
				differ++
			}
		}
		if table.name == "csv" && differ == 0 {
			t.Error(
				"correct rounding gives the same bits on all cases: they cannot tell the two apart",
			)
		}
	}
}

// TestColumnPython compares with a column of integers only, which pandas keeps
// as int64 until it is used as float64.
func TestColumnPython(t *testing.T) {
	texts, bits := goldentest.Strings(t, "csv_int_text"),
		goldentest.Array[uint64](t, "csv_int_bits")
	var c Column
	for _, text := range texts {
		x, is := ParseFloat(text, c.Rounding)
		if got, ok := c.Append(text); !ok || !is || math.Float64bits(got) != math.Float64bits(x) {
			t.Errorf("Append(%q) is %v, %v, and by itself %v, %v", text, got, ok, x, is)
		}
	}
	if x, ok := c.Append("0x1"); ok {
		t.Errorf("what is no number is taken for %v", x)
	}
	if n := len(c.Float64s()); n != len(texts) || n == 0 {
		t.Errorf("of %d texts there are %d numbers", len(texts), n)
	}
	for i, got := range c.Float64s() {
		if math.Float64bits(got) != bits[i] {
			t.Errorf("%q reads as %v, pandas has %v", texts[i], got, math.Float64frombits(bits[i]))
		}
	}
}

// TestParseFloatEdges: the largest power of ten, and all that is white.
func TestParseFloatEdges(t *testing.T) {
	for text, want := range map[string]float64{
		"1e308":                   1e308,
		"0.1e309":                 1e308,
		"1e-308":                  1e-308,
		" \t\n\v\f\r5\r\f\v\n\t ": 5,
	} {
		if got, ok := ParseFloat(text, TwicePerDigit); !ok || got != want {
			t.Errorf("ParseFloat(%q) = %v, %v, want %v", text, got, ok, want)
		}
	}
	if got, ok := ParseFloat("1e309", TwicePerDigit); ok {
		t.Errorf("1e309 is %v", got)
	}
	for text, want := range map[string]float64{"0e400": 0, "0.0000000000000000000001e330": 1e308} {
		if got, ok := ParseFloat(text, Correct); !ok || got != want {
			t.Errorf("ParseFloat(%q), rounded once, = %v, %v, want %v", text, got, ok, want)
		}
	}
	// An exponent may have any number of digits, whatever an integer holds.
	for _, rounding := range []Rounding{TwicePerDigit, Correct} {
		for n := range 45 {
			for text, want := range map[string]float64{
				"1e-4" + strings.Repeat("0", n+2):       0,
				"-1e-" + strings.Repeat("9", n+3):       math.Copysign(0, -1),
				"1e+" + strings.Repeat("0", n) + "5":    1e5,
				"0.5e-" + strings.Repeat("0", n) + "02": 0.005,
			} {
				if got, ok := ParseFloat(text, rounding); !ok || !schema.Equal(got, want) {
					t.Errorf("ParseFloat(%q) = %v, %v, want %v", text, got, ok, want)
				}
			}
			for _, digit := range []string{"1", "4", "9"} {
				text := "2e" + digit + strings.Repeat("0", n+3)
				if got, ok := ParseFloat(text, rounding); ok {
					t.Errorf("ParseFloat(%q) = %v, want no number", text, got)
				}
			}
		}
	}
}

// TestParseFloatBlanks: of all that Go or Python calls white, C's six are dropped at both ends, as
// pandas does, and nothing else is.
func TestParseFloatBlanks(t *testing.T) {
	for r := range rune(0x10000) {
		blank := strings.ContainsRune(" \t\n\v\f\r", r)
		if python := '\x1c' <= r && r <= '\x1f'; !unicode.IsSpace(r) && !python && r != '\ufeff' {
			continue
		}
		for _, text := range []string{string(r) + "5", "5" + string(r)} {
			for _, rounding := range []Rounding{TwicePerDigit, Correct} {
				if _, ok := ParseFloat(text, rounding); ok != blank {
					t.Errorf("ParseFloat(%q) is a number: %v, want %v", text, ok, blank)
				}
			}
			if _, ok := parseInt(text); ok != blank {
				t.Errorf("parseInt(%q) is a number: %v, want %v", text, ok, blank)
			}
		}
	}
}

func TestParseFloatRefuses(t *testing.T) {
	for _, text := range []string{
		" ", "x", "-", "+", ".", "e5", "1e", "1e+", "1_000", "0x10", "1d5", "1e5.5", "1 2", "1,5",
		"--1", "+ 1", "1e400", "nan ", "NULLs",
	} {
		for _, rounding := range []Rounding{TwicePerDigit, Correct} {
			if x, ok := ParseFloat(text, rounding); ok {
				t.Errorf("ParseFloat(%q) = %v, want no number", text, x)
			}
		}
	}
}

// TestParseFloatCorrect holds the correctly rounding variant to strconv.
func TestParseFloatCorrect(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Float64().Draw(t, "x")
		got, ok := ParseFloat(strconv.FormatFloat(x, 'g', -1, 64), Correct)
		if !ok || math.Float64bits(got) != math.Float64bits(x) {
			t.Fatalf("got %v, %v", got, ok)
		}
	})
}

// FuzzParseFloat looks for text that crashes the parser, or whose first 17
// digits, all that pandas looks at, it reads far from their value.
func FuzzParseFloat(f *testing.F) {
	for _, text := range []string{
		"0", "-0.1234567890123456789", "1e-400", "123456789012345678901234567890", "1e308", "nan",
		" 5 ", "1e99999999999", "0.000000000000000000000001",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		defer fuzzing.Ended()
		got, ok := ParseFloat(text, TwicePerDigit)
		want, correct := ParseFloat(text, Correct)
		mantissa, _, _ := strings.Cut(strings.ToLower(text), "e")
		digits := 0
		for _, c := range mantissa {
			if '0' <= c && c <= '9' {
				digits++
			}
		}
		if digits > maxDigits || !ok || !correct || math.IsNaN(got) || math.IsInf(got, 0) {
			return
		}
		if math.Abs(got-want) > 1e-12*math.Abs(
			want,
		)+1e-300 { // far, not different: see TestParseFloatPython for its bits
			t.Fatalf("%q reads as %v, its value is %v", text, got, want)
		}
	})
}
