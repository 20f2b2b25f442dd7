// Package routefile reads routes from the challenge's CSV files, bit for bit as pandas does
// in the Python program.
package routefile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"lockstep"
	"lockstep/internal/fileio"
	"lockstep/internal/libm"
	"lockstep/internal/pandas"
)

// An Error says what is wrong with a route file and where. Line and Column
// count from 1, in bytes; they are 0 where the whole file is meant.
type Error struct {
	File         string
	Line, Column int
	Err          error
}

func (e *Error) Error() string {
	why := e.Err
	var reading *os.PathError
	if errors.As(why, &reading) { // which names the file, too
		why = reading.Err
	}
	if e.Line == 0 {
		return fmt.Sprintf("%s: %v", printable(e.File), why)
	}
	return fmt.Sprintf("%s:%d:%d: %v", printable(e.File), e.Line, e.Column, why)
}

func (e *Error) Unwrap() error { return e.Err }

// A Loader reads routes from the challenge's CSV files. The zero value reads
// them as the Python program does when it is run on a folder named data.
type Loader struct {
	Profile lockstep.Profile

	// SeedPrefix is the folder in the path string that seeds the draws,
	// "data" if empty; the string is SeedPrefix, a slash and the file's name.
	SeedPrefix string
}

// DefaultSeedPrefix is the folder that everyone's published costs are for.
const DefaultSeedPrefix = "data"

// Name is the name of the route in a file: the file's without its extension, with
// what cannot be printed escaped as in Go.
func Name(path string) string {
	return printable(strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)))
}

// printable is a text without control characters, which a terminal would obey.
func printable(text string) string {
	if utf8.ValidString(text) &&
		strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return text
	}
	quoted := strconv.Quote(text)
	return quoted[1 : len(quoted)-1]
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
func (l Loader) Read(r io.Reader, path string) (*lockstep.Route, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, &Error{File: path, Err: err}
	}
	return l.parse(text, path)
}

// parse is Read of a text.
func (l Loader) parse(text []byte, path string) (*lockstep.Route, error) {
	var columns [len(columnNames)]pandas.Column
	for i := range columns {
		columns[i].Rounding = pandas.Rounding(l.Profile.CSV)
	}
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")) // a byte order mark
	in := records{pandas.NewRecords(string(text)), path}
	rows, err := in.read(&columns)
	if err != nil {
		return nil, err
	}
	if err := enough(path, rows); err != nil {
		return nil, err
	}
	raw := Columns{Raw: true}
	for i := range columns {
		raw.Values[i] = columns[i].Float64s()
	}
	return l.route(path, raw), nil
}

// Columns are a route's columns in memory, in Route's order and of equal lengths. Raw ones
// are as a file has them: roll in rad, the command positive to the left.
type Columns struct {
	Values [len(columnNames)][]float64
	Raw    bool
}

// Make makes a route of columns, which it copies, by the rules of Read. The path is that of
// the file in which they would be, and need not exist.
func (l Loader) Make(path string, c Columns) (*lockstep.Route, error) {
	rows := len(c.Values[targetColumn])
	if err := enough(path, rows); err != nil {
		return nil, err
	}
	for i, column := range c.Values {
		if len(column) != rows {
			return nil, &Error{
				File: path,
				Err:  fmt.Errorf("%s: %d rows, want %d", columnNames[i], len(column), rows),
			}
		}
		for row, x := range column {
			wrong := ""
			switch {
			case i == steerColumn && row >= lockstep.ControlStartIdx:
			case math.IsNaN(x) || math.IsInf(x, 0):
				wrong = "is not finite" + steerHint(i)
			case i == rollColumn && c.Raw && math.Abs(x) >= libm.SinLimit:
				wrong = fmt.Sprintf(
					"is outside ±%g rad, where the sine is known bit for bit", libm.SinLimit)
			}
			if wrong != "" {
				err := fmt.Errorf("%s: %g in row %d %s", columnNames[i], x, row, wrong)
				return nil, &Error{File: path, Err: err}
			}
		}
		c.Values[i] = slices.Clone(column)
	}
	return l.route(path, c), nil
}

// enough is an error if a route has too few rows.
func enough(path string, rows int) error {
	if rows >= lockstep.MinRows {
		return nil
	}
	return &Error{
		File: path,
		Err: fmt.Errorf(
			"%d rows; want at least %d: steps 0 to 99 warm up, costs count from step 100", rows,
			lockstep.MinRows,
		),
	}
}

// route is the route of a file with such columns, which it has.
func (l Loader) route(path string, c Columns) *lockstep.Route {
	prefix := strings.TrimSuffix(cmp.Or(l.SeedPrefix, DefaultSeedPrefix), "/")
	route := &lockstep.Route{
		Name: Name(path),
		Seed: lockstep.Seed(prefix + "/" + filepath.Base(path)),
	}
	for i, column := range route.Columns() {
		*column = c.Values[i]
	}
	route.Draws = lockstep.Draws(route.Seed, route.Len()-lockstep.ContextLength)
	if !c.Raw {
		return route
	}
	for i, roll := range route.RollLataccel {
		route.RollLataccel[i] = libm.Sin(roll) * lockstep.AccG
	}
	for i, steer := range route.SteerCommand {
		route.SteerCommand[i] = -steer // logged positive to the left
	}
	return route
}

// records are those of a route's CSV text. Their errors say where it is wrong.
type records struct {
	*pandas.Records
	path string
}

// next is the next record, or the error io.EOF.
func (in *records) next() ([]string, error) {
	record, err := in.Next()
	if err != nil && err != io.EOF {
		err = in.fail(len(record)-1, "%w", err)
	}
	return record, err
}

// fail is what is wrong with a field of the last record.
func (in *records) fail(field int, format string, args ...any) error {
	line, column := in.Place(field)
	return &Error{File: in.path, Line: line, Column: column, Err: fmt.Errorf(format, args...)}
}

// read reads all records into the columns, and counts them, without the header.
func (in *records) read(columns *[len(columnNames)]pandas.Column) (rows int, err error) {
	header, err := in.next()
	if err == io.EOF {
		return 0, &Error{
			File: in.path, Err: errors.New("empty: want a header line and at least 101 rows"),
		}
	} else if err != nil {
		return 0, err
	}
	fields := len(header)
	var at [len(columnNames)]int // field index of each column
	for i, name := range columnNames {
		if at[i] = slices.Index(header, name); at[i] < 0 {
			return 0, in.fail(0, "no column %q; want %s", name, strings.Join(columnNames[:], ", "))
		}
	}
	for ; ; rows++ {
		record, err := in.next()
		if err == io.EOF {
			return rows, nil
		} else if err != nil {
			return 0, err
		}
		if len(record) > fields {
			return 0, in.fail(
				fields, "row %d has %d fields, the header has %d", rows, len(record), fields)
		}
		for i, j := range at {
			field, position := "", len(record)-1 // a short record lacks its last fields
			if j < len(record) {
				field, position = record[j], j
			}
			x, ok := columns[i].Append(field)
			optional := i == steerColumn && rows >= lockstep.ControlStartIdx
			switch {
			case !ok:
				return 0, in.fail(position, "%s: %.60q is not a number", columnNames[i], field)
			case optional:
			case field == "":
				return 0, in.fail(
					position, "%s: missing in row %d%s", columnNames[i], rows, steerHint(i))
			case math.IsNaN(x) || math.IsInf(x, 0):
				return 0, in.fail(
					position, "%s: %.60q is not finite%s", columnNames[i], field, steerHint(i))
			case i == rollColumn && math.Abs(x) >= libm.SinLimit:
				return 0, in.fail(
					position, "roll: %g is outside ±%g rad, where the sine is known bit for bit", x,
					libm.SinLimit)
			}
		}
	}
}

func steerHint(column int) string {
	if column == steerColumn {
		return fmt.Sprintf("; steer is needed before row %d", lockstep.ControlStartIdx)
	}
	return ""
}

// List names the CSV files of a folder in the order of their names, at
// most limit of them unless limit is negative; a path to a file is itself.
func List(path string, limit int) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, e := range entries {
		if !e.IsDir() && strings.EqualFold(filepath.Ext(e.Name()), ".csv") {
			files = append(files, filepath.Join(path, e.Name()))
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: no .csv file in this folder", path)
	}
	if limit >= 0 && limit < len(files) {
		files = files[:limit]
	}
	return files, nil
}

// Load reads the route in a file.
func (l Loader) Load(path string) (*lockstep.Route, error) {
	text, err := fileio.ReadFile(path, fileio.Route)
	if err != nil {
		return nil, &Error{File: path, Err: err}
	}
	return l.parse(text, path)
}
