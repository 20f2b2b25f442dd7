package report

import (
	"bytes"
	"encoding/binary"
	"encoding/csv"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lockstep"
)

// awkward are costs that lose bits where they are not written with care.
func awkward() Eval {
	e := testEval(40)
	e.Test.Controller = "comma, \"quote\"\nline 路線"
	for i, x := range []float64{
		0.1, 1.0 / 3, 106.87688539253811, math.NaN(), math.Inf(1), 1e6, math.MaxFloat64,
		math.SmallestNonzeroFloat64, 0, math.Copysign(0, -1),
	} {
		e.Test.Routes[i].Costs = lockstep.Costs{Lataccel: x, Jerk: math.Nextafter(x, 5), Total: -x}
	}
	e.Test.Routes[20].Err = errors.New("it, \"failed\"\nhere")
	e.Baseline.Routes[39].Err = errors.New("")
	return e
}

// costRow is a row of the table; NaN is one value, nil a cost that is not there.
type costRow struct {
	Role, Controller, Route string
	Costs                   [3]any
	Error                   any
}

func wantRows(e Eval) []costRow {
	var rows []costRow
	for _, run := range e.Costs().Runs {
		for _, r := range run.Routes {
			row := costRow{Role: string(run.Role), Controller: run.Controller, Route: r.Name}
			if r.Err != nil {
				row.Error = r.Err.Error()
			} else {
				row.Costs = [3]any{bits(r.Costs.Lataccel), bits(r.Costs.Jerk), bits(r.Costs.Total)}
			}
			rows = append(rows, row)
		}
	}
	return rows
}

func bits(x float64) any {
	if math.IsNaN(x) {
		return "NaN"
	}
	return math.Float64bits(x)
}

func TestCSV(t *testing.T) {
	e := awkward()
	path := filepath.Join(t.TempDir(), "costs.csv")
	if err := WriteCSV(path, e.Costs()); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	records, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"role", "controller", "route", "lataccel_cost", "jerk_cost",
		"total_cost", "error"}, records[0]); diff != "" {
		t.Error(diff)
	}
	var rows []costRow
	for _, r := range records[1:] {
		row := costRow{Role: r[0], Controller: r[1], Route: r[2]}
		for i, text := range r[3:6] {
			if text == "" {
				row.Error = r[6]
				continue
			}
			x, err := strconv.ParseFloat(text, 64)
			if err != nil {
				t.Error(err)
			}
			row.Costs[i] = bits(x)
		}
		rows = append(rows, row)
	}
	if diff := cmp.Diff(wantRows(e), rows); diff != "" {
		t.Error(diff)
	}
}

func TestParquet(t *testing.T) {
	e := awkward()
	path := filepath.Join(t.TempDir(), "costs.parquet")
	if err := WriteParquet(path, e.Costs()); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	columns, facts := readParquet(t, data)
	want := map[string]string{
		"lockstep.test.profile": e.Test.Profile.String(), "lockstep.test.engine": "reference",
		"lockstep.baseline.profile": e.Baseline.Profile.String(),
		"lockstep.baseline.engine":  "reference",
		"lockstep.model_SHA-256":    "5beca7f07a3e",
		"lockstep.command":          "lockstep eval --data_path 'my data'",
	}
	for _, f := range e.Origin.facts() {
		if name := "lockstep." + strings.ReplaceAll(f.Name, " ", "_"); want[name] == "" {
			want[name] = f.Value
		}
	}
	if diff := cmp.Diff(want, facts); diff != "" {
		t.Errorf("metadata %s", diff)
	}
	var rows []costRow
	for i := range columns["role"] {
		row := costRow{
			Role: columns["role"][i].(string), Controller: columns["controller"][i].(string),
			Route: columns["route"][i].(string),
			Error: columns["error"][i],
		}
		for j, name := range []string{"lataccel_cost", "jerk_cost", "total_cost"} {
			if x, ok := columns[name][i].(float64); ok {
				row.Costs[j] = bits(x)
			}
		}
		rows = append(rows, row)
	}
	if diff := cmp.Diff(wantRows(e), rows); diff != "" {
		t.Error(diff)
	}
}

func TestParquetOfNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "costs.parquet")
	if err := WriteParquet(path, CostTable{}); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if columns, _ := readParquet(t, data); len(columns) != 7 || len(columns["role"]) != 0 {
		t.Errorf("%v", columns)
	}
}

// TestParquetOfMany: which rows are there is told in runs, whose lengths are of several bytes from
// 505 rows on; and there are as many facts as there are, whose number is a byte's part below 15.
func TestParquetOfMany(t *testing.T) {
	for i, n := range []int{1, 8, 9, 503, 504, 505, 8192, 70_000} {
		c := parquetColumn{name: "x", double: true, optional: true}
		var want []any
		for i := range n {
			if i%3 == 1 {
				c.appendNull()
				want = append(want, nil)
				continue
			}
			c.appendDouble(float64(i))
			want = append(want, float64(i))
		}
		var data bytes.Buffer
		var facts []Fact
		told := map[string]string{}
		for k := range []int{1, 0, 2, 14, 15, 16, 127, 128}[i] {
			f := Fact{Name: "fact " + strconv.Itoa(k), Value: strconv.Itoa(-k)}
			facts, told[f.Name] = append(facts, f), f.Value
		}
		if err := writeParquet(&data, []parquetColumn{c}, facts); err != nil {
			t.Fatal(err)
		}
		columns, read := readParquet(t, data.Bytes())
		if diff := cmp.Diff(want, columns["x"]) + cmp.Diff(told, read); diff != "" {
			t.Errorf("%d rows, %d facts: %s", n, len(facts), diff)
		}
	}
}

func TestParquetTextIsUTF8(t *testing.T) {
	var c parquetColumn
	c.appendString("a\xffb")
	if got := string(c.data[4:]); got != "a\uFFFDb" {
		t.Errorf("%q", got)
	}
}

// TestThrift: a field behind a struct counts on from before it, at any depth, and integers have 64
// bits: a column of a file beyond 4 GiB is where it is.
func TestThrift(t *testing.T) {
	var w thrift
	w.int(1, i64, -1<<40)
	w.begin(2)
	w.int(3, i32, 4)
	w.begin(5)
	w.int(7, i64, 1<<40)
	w.end()
	w.int(8, i32, 5)
	w.end()
	w.string(4, "text")
	w.end()
	read := &thriftReader{t: t, in: w.out}
	want := fields{
		1: int64(-1 << 40), 4: "text",
		2: fields{3: int32(4), 5: fields{7: int64(1 << 40)}, 8: int32(5)},
	}
	if got := read.structure(); !reflect.DeepEqual(got, want) || len(read.in) > 0 {
		t.Errorf("%v, want %v", got, want)
	}
	const rows, offset, size = 1<<40 + 1, 1<<41 + 2, 1<<42 + 3
	w = thrift{}
	(&parquetColumn{name: "c"}).metadata(&w, rows, offset, size)
	w.end()
	got := (&thriftReader{t: t, in: w.out}).structure()[3].(fields)
	for field, is := range map[int]int64{5: rows, 6: size, 7: size, 9: offset} {
		if got[field] != is {
			t.Errorf("field %d is %v, want %d", field, got[field], is)
		}
	}
}

// readParquet reads the files that writeParquet may write, by the format's
// definition: the footer as any Thrift struct, then the pages it points to.
func readParquet(t *testing.T, data []byte) (columns map[string][]any, facts map[string]string) {
	t.Helper()
	n := len(data)
	if n < 12 || string(data[:4]) != "PAR1" || string(data[n-4:]) != "PAR1" {
		t.Fatal("no Parquet file")
	}
	size := int(binary.LittleEndian.Uint32(data[n-8:]))
	footer := &thriftReader{t: t, in: data[n-8-size : n-8]}
	meta := footer.structure()
	if len(footer.in) != 0 {
		t.Fatalf("%d bytes after the footer", len(footer.in))
	}
	facts = map[string]string{}
	for _, f := range meta[5].([]any) {
		facts[f.(fields)[1].(string)] = f.(fields)[2].(string)
	}
	if meta[6] != "lockstep" {
		t.Errorf("the file is created by %v", meta[6])
	}
	schema := meta[2].([]any)
	if meta[1] != int32(1) {
		t.Errorf("version %v of the format, want 1", meta[1])
	}
	if got := schema[0].(fields)[5].(int32); int(got) != len(schema)-1 {
		t.Fatalf("the root has %d children of %d", got, len(schema)-1)
	}
	rows := int(meta[3].(int64))
	group := meta[4].([]any)[0].(fields)
	columns = map[string][]any{}
	end, total := 4, int64(0)
	for i, chunk := range group[1].([]any) {
		c := parquetPage{t: t, element: schema[i+1].(fields), rows: rows}
		c.name = c.element[4].(string)
		if at := chunk.(fields)[2]; at != int64(end) {
			t.Errorf("column %s is at %v, want %d", c.name, at, end)
		}
		total += chunk.(fields)[3].(fields)[7].(int64)
		end = c.read(data, end, chunk.(fields)[3].(fields))
		columns[c.name] = c.values()
	}
	if group[2] != total || group[3] != int64(rows) {
		t.Errorf("a group of %v rows and %v bytes, want %d and %d", group[3], group[2], rows, total)
	}
	if end != n-8-size {
		t.Fatalf("pages end at %d, the footer begins at %d", end, n-8-size)
	}
	return columns, facts
}

// A parquetPage is a column's one page.
type parquetPage struct {
	t       *testing.T
	element fields // of the schema
	name    string
	rows    int
	bytes   []byte // that are still to be read
}

// read finds the page at a place where the column says that it is, and returns where it ends.
func (p *parquetPage) read(data []byte, at int, column fields) (end int) {
	p.t.Helper()
	if column[1] != p.element[1] || column[3].([]any)[0] != p.name || column[4] != int32(0) ||
		!reflect.DeepEqual(column[2], []any{int32(0), int32(3)}) ||
		column[5] != int64(p.rows) ||
		column[9].(int64) != int64(at) {
		p.t.Fatalf("column %s: %v, schema %v", p.name, column, p.element)
	}
	r := &thriftReader{t: p.t, in: data[at:]}
	header := r.structure()
	p.bytes = r.in[:header[3].(int32)]
	end = len(data) - len(r.in[len(p.bytes):])
	// Values as they are, and which are there in runs: enumerations have 32 bits.
	if data := header[5].(fields); header[1] != int32(0) || data[2] != int32(0) ||
		data[3] != int32(3) || data[4] != int32(3) {
		p.t.Errorf("column %s: a page %v", p.name, header)
	}
	if column[7].(int64) != int64(end)-column[9].(int64) ||
		header[5].(fields)[1] != int32(p.rows) ||
		header[2] != header[3] {
		p.t.Fatalf("column %s: sizes %v, %v", p.name, column, header)
	}
	return end
}

// values are the page's, nil where there is none.
func (p *parquetPage) values() []any {
	p.t.Helper()
	values := []any{}
	for _, there := range p.present() {
		switch {
		case !there:
			values = append(values, nil)
		case p.element[1] == int32(5):
			values = append(values, math.Float64frombits(binary.LittleEndian.Uint64(p.take(8))))
		case p.element[1] == int32(6) && p.element[6] == int32(0):
			values = append(values, string(p.takeCounted()))
		default:
			p.t.Fatalf("column %s of type %v", p.name, p.element)
		}
	}
	if len(p.bytes) != 0 {
		p.t.Fatalf("column %s: %d bytes left", p.name, len(p.bytes))
	}
	return values
}

// present is which rows have a value: all, or those that a run of bits before the values says.
func (p *parquetPage) present() []bool {
	p.t.Helper()
	present := make([]bool, p.rows)
	if p.element[3] != int32(1) {
		for j := range present {
			present[j] = true
		}
		return present
	}
	levels := p.takeCounted()
	run, used := binary.Uvarint(levels)
	if run&1 != 1 || int(run>>1) != len(levels)-used || len(levels)-used != (p.rows+7)/8 {
		p.t.Fatalf("column %s: levels %x", p.name, levels)
	}
	for j := range present {
		present[j] = levels[used+j/8]>>(j%8)&1 == 1
	}
	return present
}

func (p *parquetPage) take(n int) (taken []byte) {
	taken, p.bytes = p.bytes[:n], p.bytes[n:]
	return taken
}

// takeCounted takes as many bytes as the four before them say.
func (p *parquetPage) takeCounted() []byte {
	return p.take(int(binary.LittleEndian.Uint32(p.take(4))))
}

type fields map[int]any

type thriftReader struct {
	t  *testing.T
	in []byte
}

func (r *thriftReader) byte() byte {
	b := r.in[0]
	r.in = r.in[1:]
	return b
}

func (r *thriftReader) varint() uint64 {
	x, n := binary.Uvarint(r.in)
	r.in = r.in[n:]
	return x
}

func (r *thriftReader) structure() fields {
	f := fields{}
	id := 0
	for {
		b := r.byte()
		if b == 0 {
			return f
		}
		if b>>4 == 0 {
			r.t.Fatal("a long field header")
		}
		id += int(b >> 4)
		f[id] = r.value(b & 15)
	}
}

func (r *thriftReader) value(kind byte) any {
	switch kind {
	case 5, 6:
		x := r.varint()
		n := int64(x>>1) ^ -int64(x&1)
		if kind == 5 {
			return int32(n)
		}
		return n
	case 8:
		n := r.varint()
		s := string(r.in[:n])
		r.in = r.in[n:]
		return s
	case 9:
		b := r.byte()
		n := uint64(b >> 4)
		if n == 15 {
			n = r.varint()
		}
		list := []any{}
		for range n {
			list = append(list, r.value(b&15))
		}
		return list
	case 12:
		return r.structure()
	}
	r.t.Fatalf("type %d", kind)
	return nil
}

// TestCell: no cell is a formula.
func TestCell(t *testing.T) {
	for text, want := range map[string]string{
		"":         "",
		"pid_-0.1": "pid_-0.1",
		"=1+1":     "'=1+1",
		"+x":       "'+x",
		"-x":       "'-x",
		"@x":       "'@x",
		"\tx":      "'\tx",
		"\rx":      "'\rx",
		"x=1":      "x=1",
		"'=1":      "'=1",
	} {
		if got := cell(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
	// Whatever text a table has may begin so.
	run := Run{Controller: "=1", Routes: []RouteResult{
		{Name: "=2", Result: lockstep.Result{Err: errors.New("=3")}},
	}}
	path := filepath.Join(t.TempDir(), "costs.csv")
	err := WriteCSV(path, CostTable{Runs: []RoleRun{{Test, run}}})
	text, e := os.ReadFile(path)
	if err := errors.Join(err, e); err != nil {
		t.Fatal(err)
	}
	if want := "test,'=1,'=2,,,,'=3\n"; !strings.HasSuffix(string(text), want) {
		t.Errorf("%s ends with no %s", text, want)
	}
}
