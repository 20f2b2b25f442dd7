package lockstep

import (
	"bufio"
	"bytes"
	"crypto/md5"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"lockstep/internal/libm"
	"lockstep/internal/pandas"
)

// A RouteError says what is wrong with a route file and where. Line and Column
// count from 1, in bytes; they are 0 where the whole file is meant.
type RouteError struct {
	File         string
	Line, Column int
	Err          error
}

func (e *RouteError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %v", printable(e.File), e.Err)
	}
	return fmt.Sprintf("%s:%d:%d: %v", printable(e.File), e.Line, e.Column, e.Err)
}

func (e *RouteError) Unwrap() error { return e.Err }

// A Loader reads routes from the challenge's CSV files. The zero value reads
// them as the Python program does when it is run on a folder named data.
type Loader struct {
	Profile Profile

	// SeedPrefix is the folder in the path string that seeds the draws,
	// "data" if empty; the string is SeedPrefix, a slash and the file's name.
	SeedPrefix string
}

// DefaultSeedPrefix is the folder that everyone's published costs are for.
const DefaultSeedPrefix = "data"

// RouteName is the name of the route in a file: the file's without its extension, with
// what cannot be printed escaped as in Go.
func RouteName(path string) string {
	return printable(strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)))
}

// printable is a text without control characters, which a terminal would obey.
func printable(text string) string {
	if utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return text
	}
	return strings.Trim(strconv.Quote(text), `"`)
}

// The columns of a route file that are used, in Route's order.
const (
	rollColumn = iota
	vEgoColumn
	aEgoColumn
	targetColumn
	steerColumn
)

var columnNames = [...]string{"roll", "vEgo", "aEgo", "targetLateralAcceleration", "steerCommand"}

// Read reads a route from CSV text. The path names it in errors, gives its Name
// and, through its last element, its Seed.
//
// The first record holds the names of the columns, in any order; other columns
// are ignored. Every field of the used columns must be a finite number, except
// that steerCommand may be empty, or anything numeric, from row ControlStartIdx
// on.
func (l Loader) Read(r io.Reader, path string) (*Route, error) {
	in := csv.NewReader(skipBOM(r))
	in.FieldsPerRecord = -1
	in.ReuseRecord = true
	in.LazyQuotes = true

	fail := func(field int, format string, args ...any) (*Route, error) {
		line, column := in.FieldPos(field)
		return nil, &RouteError{File: path, Line: line, Column: column, Err: fmt.Errorf(format, args...)}
	}
	readError := func(err error) (*Route, error) {
		var e *csv.ParseError
		if errors.As(err, &e) {
			return nil, &RouteError{File: path, Line: e.Line, Column: e.Column, Err: e.Err}
		}
		return nil, &RouteError{File: path, Err: err}
	}

	header, err := in.Read()
	if err == io.EOF {
		return nil, &RouteError{File: path, Err: errors.New("empty: want a header line and at least 101 rows")}
	} else if err != nil {
		return readError(err)
	}
	var at [len(columnNames)]int // field index of each column
	for i, name := range columnNames {
		at[i] = -1
		for j, have := range header {
			if have == name {
				at[i] = j
				break
			}
		}
		if at[i] < 0 {
			return fail(0, "no column %q; want %s", name, strings.Join(columnNames[:], ", "))
		}
	}
	fields := len(header)

	var columns [len(columnNames)]pandas.Column
	for i := range columns {
		if l.Profile.CSV == CSVExact {
			columns[i].Rounding = pandas.Correct
		}
	}
	rows := 0
	for ; ; rows++ {
		record, err := in.Read()
		if err == io.EOF {
			break
		} else if err != nil {
			return readError(err)
		}
		if len(record) > fields {
			return fail(fields, "row %d has %d fields, the header has %d", rows, len(record), fields)
		}
		for i, j := range at {
			field, position := "", len(record)-1 // a short record lacks its last fields
			if j < len(record) {
				field, position = record[j], j
			}
			x, ok := columns[i].Append(field)
			optional := i == steerColumn && rows >= ControlStartIdx
			switch {
			case !ok:
				return fail(position, "%s: %.60q is not a number", columnNames[i], field)
			case optional:
			case field == "":
				return fail(position, "%s: missing in row %d%s", columnNames[i], rows, steerHint(i))
			case math.IsNaN(x) || math.IsInf(x, 0):
				return fail(position, "%s: %.60q is not finite%s", columnNames[i], field, steerHint(i))
			case i == rollColumn && math.Abs(x) >= libm.SinLimit:
				return fail(position, "roll: %g is outside ±%g rad, where the sine is known bit for bit", x, libm.SinLimit)
			}
		}
	}
	if rows < MinRows {
		return nil, &RouteError{File: path, Err: fmt.Errorf("%d rows; want at least %d: steps 0 to 99 warm up, costs count from step 100", rows, MinRows)}
	}

	route := &Route{
		Name:           RouteName(path),
		Seed:           Seed(l.seedPath(filepath.Base(path))),
		RollLataccel:   columns[rollColumn].Float64s(),
		VEgo:           columns[vEgoColumn].Float64s(),
		AEgo:           columns[aEgoColumn].Float64s(),
		TargetLataccel: columns[targetColumn].Float64s(),
		SteerCommand:   columns[steerColumn].Float64s(),
	}
	route.Draws = Draws(route.Seed, rows-ContextLength)
	for i, roll := range route.RollLataccel {
		route.RollLataccel[i] = libm.Sin(roll) * AccG
	}
	for i, steer := range route.SteerCommand {
		route.SteerCommand[i] = -steer // logged positive to the left
	}
	return route, nil
}

func steerHint(column int) string {
	if column == steerColumn {
		return fmt.Sprintf("; steer is needed before row %d", ControlStartIdx)
	}
	return ""
}

func (l Loader) seedPath(file string) string {
	prefix := l.SeedPrefix
	if prefix == "" {
		prefix = DefaultSeedPrefix
	}
	return strings.TrimSuffix(prefix, "/") + "/" + file
}

// Seed is the seed of a route's random draws: the MD5 of its path as the Python
// program was given it, read as a 128-bit big-endian number, modulo 10,000.
func Seed(path string) uint32 {
	var seed uint32
	for _, b := range md5.Sum([]byte(path)) {
		seed = (seed<<8 | uint32(b)) % 10_000
	}
	return seed
}

// skipBOM drops a UTF-8 byte order mark at the start of the text.
func skipBOM(r io.Reader) io.Reader {
	b := bufio.NewReaderSize(r, 1<<16)
	if mark, _ := b.Peek(3); bytes.Equal(mark, []byte("\xef\xbb\xbf")) {
		b.Discard(3)
	}
	return b
}
