package fuzz

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"lockstep"
	"lockstep/internal/goldentest"
	"lockstep/internal/libm"
	"lockstep/internal/pandas"
	"lockstep/parity/schema"
	"lockstep/routefile"
)

func TestPandas(t *testing.T) { check(t, 20, pandasNumber) }
func FuzzPandas(f *testing.F) { fuzz(f, pandasNumber) }
func TestCSV(t *testing.T)    { check(t, 1, routeFile) }
func FuzzCSV(f *testing.F)    { fuzz(f, routeFile) }

// TestPandasPython holds the model of pandas to pandas.
func TestPandasPython(t *testing.T) {
	for _, table := range []string{"csv", "csv_special"} {
		bits := goldentest.Array[uint64](t, table+"_bits")
		held := 0
		for i, text := range goldentest.Strings(t, table+"_text") {
			got, ok := pandasFloat(text)
			if !ok {
				continue // words: infinities and missing values
			}
			held++
			if math.Float64bits(got) != bits[i] {
				t.Errorf("%q is %v here, pandas has %v", text, got, math.Float64frombits(bits[i]))
			}
		}
		if table == "csv" && held < 10_000 {
			t.Errorf("%d numbers", held)
		}
	}
}

// numberText is a text of a number, in any of the ways in which it can be written.
func numberText(value *rapid.Generator[float64]) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		x := value.Draw(t, "value")
		var s string
		switch rapid.IntRange(0, 4).Draw(t, "format") {
		case 0:
			s = strconv.FormatFloat(x, 'f', rapid.IntRange(0, 25).Draw(t, "decimals"), 64)
		case 1:
			s = strconv.FormatFloat(x, 'e', rapid.IntRange(0, 20).Draw(t, "decimals"), 64)
		case 2:
			s = strconv.FormatFloat(x, 'G', -1, 64)
		case 3:
			s = strconv.FormatInt(int64(max(min(x, 1e15), -1e15)), 10)
		default:
			s = strconv.FormatFloat(x, 'g', -1, 64)
		}
		if rapid.IntRange(0, 4).Draw(t, "leading zeros") == 4 {
			sign := ""
			if s[0] == '-' {
				sign, s = "-", s[1:]
			}
			s = sign + strings.Repeat("0", rapid.IntRange(1, 20).Draw(t, "zeros")) + s
		}
		if rapid.IntRange(0, 7).Draw(t, "sign") == 7 && s[0] != '-' {
			s = "+" + s
		}
		if rapid.IntRange(0, 7).Draw(t, "blanks") == 7 {
			s = " " + s + "\t "
		}
		return s
	})
}

// pandasNumber: numbers are read as pandas' rules say, and others refused.
func pandasNumber(t *rapid.T, cover func(string)) {
	digits := rapid.StringOfN(rapid.RuneFrom([]rune("0123456789")), 0, 24, -1)
	composed := rapid.Custom(func(t *rapid.T) string {
		s := rapid.SampledFrom([]string{"", "-", "+", " "}).Draw(t, "sign") +
			digits.Draw(t, "whole")
		if rapid.Bool().Draw(t, "point") {
			s += "." + digits.Draw(t, "fraction")
		}
		if rapid.Bool().Draw(t, "e") {
			s += rapid.SampledFrom([]string{"e", "E", "e-", "e+"}).Draw(t, "letter")
			s += strconv.Itoa(
				rapid.OneOf(
					rapid.IntRange(0, 700),
					rapid.SampledFrom([]int{307, 308, 309, 323, 324, 325, 615, 616, 617, 1 << 40}),
				).Draw(t, "exponent"),
			)
		}
		return s
	})
	damaged := rapid.StringOfN(rapid.RuneFrom([]rune("0123456789.eE+- _x,'")), 1, 12, -1)
	text := rapid.OneOf(
		numberText(rapid.Float64()), numberText(rapid.Float64Range(-40, 40)), composed, damaged,
	).Draw(t, "text")
	if text == "" {
		return // a missing value
	}
	for _, c := range []struct {
		name     string
		rounding pandas.Rounding
		want     func(string) (float64, bool)
	}{{"pandas 2", pandas.TwicePerDigit, pandasFloat}, {"exact", pandas.Correct, exactFloat}} {
		want, valid := c.want(text)
		got, ok := pandas.ParseFloat(text, c.rounding)
		if ok != valid || ok && math.Float64bits(got) != math.Float64bits(want) {
			t.Fatalf(
				"%s: %q reads as %v (%x), %v; want %v (%x), %v", c.name, text, got, got, ok, want,
				want, valid,
			)
		}
	}
	a, valid := pandasFloat(text)
	b, _ := exactFloat(text)
	switch {
	case !valid:
		cover("no number")
	case a != b:
		cover("rounded more than once")
	case a == 0:
		cover("zero")
	case math.Abs(a) < 0x1p-1022:
		cover("subnormal")
	default:
		cover("a number")
	}
}

// columnsOfFile are the columns that a route is made of.
var columnsOfFile = []string{"roll", "vEgo", "aEgo", "targetLateralAcceleration", "steerCommand"}

// A fileText is a CSV file that is made up, of which one field may be bad.
type fileText struct {
	header       []string
	fields       [][]string // by column
	newline      string
	bad          bool
	row, column  int // of the bad field
	text         bytes.Buffer
	line, offset int // of the bad field in the text, both from 1
}

// spoil makes one field bad, or none.
func (f *fileText) spoil(t *rapid.T, rows int) {
	if f.bad = rapid.IntRange(0, 3).Draw(t, "a bad field") == 3; !f.bad {
		return
	}
	f.column = slices.Index(f.header, rapid.SampledFrom(columnsOfFile).Draw(t, "column"))
	f.row = rapid.IntRange(0, min(rows, lockstep.ControlStartIdx)-1).Draw(t, "row")
	f.fields[f.column][f.row] = rapid.SampledFrom(
		[]string{"", "nan", "inf", "-inf", "x", "1_0", "1e999", "0x10", "1 2", "--1"},
	).Draw(t, "field")
	ends := strings.Count(f.newline, "\n")
	f.line = 2 + f.row*ends + ends - 1
}

// write writes the text, and finds where in its line the bad field stands.
func (f *fileText) write(t *rapid.T, rows int) {
	if rapid.Bool().Draw(t, "byte order mark") {
		f.text.WriteString("\xef\xbb\xbf")
	}
	f.text.WriteString(strings.Join(f.header, ",") + f.newline)
	for i := range rows {
		for k := range f.header {
			if k > 0 {
				f.text.WriteByte(',')
			}
			if f.bad && i == f.row && k == f.column {
				f.offset = f.text.Len() - bytes.LastIndexByte(f.text.Bytes(), '\n')
			}
			f.text.WriteString(f.fields[k][i])
		}
		if i < rows-1 || rapid.Bool().Draw(t, "last line ends") {
			f.text.WriteString(f.newline)
		}
	}
}

// holdRefusal holds an error to name the file, and the bad field's place if there is one.
func (f *fileText) holdRefusal(t *rapid.T, cover func(string), file string, err error) {
	var e *routefile.Error
	if !errors.As(err, &e) || e.File != file {
		t.Fatalf("error %v, want a RouteError of the file", err)
	}
	if !f.bad {
		cover("too short")
		return
	}
	cover("a bad field")
	if e.Line != f.line || e.Column != f.offset {
		t.Fatalf("%v: at %d:%d, want %d:%d", err, e.Line, e.Column, f.line, f.offset)
	}
}

// routeFile: a CSV file loads as pandas and NumPy load it, whatever the order of
// its columns and the writing of its numbers, and a bad field is named with its
// place.
func routeFile(t *rapid.T, cover func(string)) {
	profile := lockstep.Profile{
		CSV: rapid.SampledFrom([]lockstep.CSV{lockstep.CSV2, lockstep.CSVExact}).Draw(t, "pandas"),
	}
	parse := remembered(pandasFloat)
	if profile.CSV == lockstep.CSVExact {
		parse = remembered(exactFloat)
	}
	n := rapid.IntRange(95, 140).Draw(t, "rows")
	f := &fileText{
		header: rapid.Permutation(
			append([]string{"t", "other"}, columnsOfFile...),
		).Draw(t, "columns"),
		newline: rapid.SampledFrom([]string{"\n", "\r\n", "\n\n"}).Draw(t, "end of line"),
	}
	random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))

	// Each column picks its fields from a few.
	f.fields = make([][]string, len(f.header))
	values := make([][]float64, len(f.header))
	for k, name := range f.header {
		f.fields[k], values[k] = columnOfFile(t, cover, random, parse, name, n)
	}
	f.spoil(t, n)
	f.write(t, n)

	const file = "folder/00000.csv"
	r, err := routefile.Loader{Profile: profile, SeedPrefix: "data"}.Read(&f.text, file)
	if f.bad || n < lockstep.MinRows {
		f.holdRefusal(t, cover, file, err)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	cover("a route")
	if r.Seed != 3285 || r.Name != "00000" {
		t.Fatalf("seed %d, name %s", r.Seed, r.Name)
	}
	sameColumns(t, r, f.header, values)
	m := newMT19937(3285)
	for k, got := range r.Draws {
		if want := m.uniform(); got != want {
			t.Fatalf("draw %d is %v, want %v", k, got, want)
		}
	}
	if len(r.Draws) != n-lockstep.ContextLength {
		t.Fatalf("%d draws", len(r.Draws))
	}
}

// columnOfFile draws a column's fields from a few texts, and what each of them is as a number.
func columnOfFile(t *rapid.T, cover func(string), random *rand.Rand,
	parse func(string) (float64, bool), name string, n int) (fields []string, values []float64) {
	value := rapid.Float64Range(-60, 60)
	if name == "roll" {
		value = rapid.Float64Range(-0.8, 0.8)
	}
	texts := numberText(value)
	if rapid.IntRange(0, 3).Draw(t, "integers") == 3 {
		texts = rapid.SampledFrom([]string{
			"0", "-0", "+7", "-12", "9007199254740993", "1234567890123456789",
			"-9223372036854775808", "9223372036854775808",
		})
	}
	some := rapid.SliceOfN(texts, 1, 4).Draw(t, name)
	whole := true
	for range n {
		s := some[random.IntN(len(some))]
		if name == "roll" && math.Abs(must(parse(s))) > 0.85 {
			s = "0.5"
		}
		if name == "steerCommand" && len(fields) >= lockstep.ControlStartIdx &&
			random.IntN(2) == 0 {
			s = []string{"", "NaN", "inf", "-Infinity"}[random.IntN(4)]
		}
		x, ok := parse(s)
		switch {
		case strings.HasSuffix(s, "inf"):
			x = math.Inf(1)
		case strings.HasSuffix(s, "Infinity"):
			x = math.Inf(-1)
		case !ok:
			x = math.NaN()
		}
		_, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
		whole = whole && err == nil
		fields, values = append(fields, s), append(values, x)
	}
	if whole { // an int64 column has no -0, and is converted with one rounding
		cover("a column of integers")
		for i, s := range fields {
			integer, _ := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
			values[i] = float64(integer)
		}
	}
	return fields, values
}

// sameColumns holds a route that was read to the numbers of its file.
func sameColumns(t *rapid.T, r *lockstep.Route, header []string, values [][]float64) {
	for k, got := range [][]float64{
		r.RollLataccel, r.VEgo, r.AEgo, r.TargetLataccel, r.SteerCommand,
	} {
		name := columnsOfFile[k]
		column := values[slices.Index(header, name)]
		if len(got) != len(column) {
			t.Fatalf("%s: %d rows, want %d", name, len(got), len(column))
		}
		for i, x := range column {
			switch name {
			case "roll": // the sine has goldens of its own
				x = float64(libm.Sin(x) * 9.81)
			case "steerCommand":
				x = -x
			}
			if !schema.Equal(got[i], x) {
				t.Fatalf("%s, row %d: %v (%x), want %v (%x)", name, i, got[i], got[i], x, x)
			}
		}
	}
}

// remembered computes each text's value once: a column repeats a few of them in its rows.
func remembered(parse func(string) (float64, bool)) func(string) (float64, bool) {
	type number struct {
		x  float64
		ok bool
	}
	known := map[string]number{}
	return func(s string) (float64, bool) {
		n, ok := known[s]
		if !ok {
			n.x, n.ok = parse(s)
			known[s] = n
		}
		return n.x, n.ok
	}
}

func must(x float64, ok bool) float64 {
	if !ok {
		panic(fmt.Sprint("not a number: ", x))
	}
	return x
}
