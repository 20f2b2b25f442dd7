package report

import (
	"encoding/binary"
	"io"
	"math"
	"strings"
)

// This file writes Parquet: flat tables of strings and float64, plainly encoded,
// not compressed, one row group, one page a column. A library does far more and
// would double the size of the program; the format of what is left is short.
//
// The footer is Thrift's compact protocol. Numbers given with fields are those of
// the format's definition, parquet.thrift.

const parquetMagic = "PAR1"

type parquetColumn struct {
	name     string
	double   bool // else a string
	optional bool
	data     []byte
	present  []bool // one for every row
}

func (c *parquetColumn) appendNull() { c.present = append(c.present, false) }

func (c *parquetColumn) appendDouble(x float64) {
	c.data = binary.LittleEndian.AppendUint64(c.data, math.Float64bits(x))
	c.present = append(c.present, true)
}

func (c *parquetColumn) appendString(s string) {
	s = strings.ToValidUTF8(s, "\uFFFD") // readers refuse anything else
	c.data = binary.LittleEndian.AppendUint32(c.data, uint32(len(s)))
	c.data = append(c.data, s...)
	c.present = append(c.present, true)
}

// page is the column's data page without its header: the definition levels, if
// the column has any, as one run of packed bits, and the values that are there.
func (c *parquetColumn) page() []byte {
	if !c.optional {
		return c.data
	}
	bits := make([]byte, (len(c.present)+7)/8)
	for i, present := range c.present {
		if present {
			bits[i/8] |= 1 << (i % 8)
		}
	}
	levels := binary.AppendUvarint(nil, uint64(len(bits))<<1|1)
	levels = append(levels, bits...)
	page := binary.LittleEndian.AppendUint32(nil, uint32(len(levels)))
	return append(append(page, levels...), c.data...)
}

// Enumerations of parquet.thrift.
const (
	typeDouble, typeByteArray              = 5, 6
	encodingPlain, encodingRLE             = 0, 3
	repetitionRequired, repetitionOptional = 0, 1
	convertedUTF8                          = 0
	pageTypeData                           = 0
	codecUncompressed                      = 0
)

func (c *parquetColumn) physicalType() int64 {
	if c.double {
		return typeDouble
	}
	return typeByteArray
}

// appendPage appends the column's page with its header.
func (c *parquetColumn) appendPage(file []byte) []byte {
	page := c.page()
	var t thrift
	t.int(1, i32, pageTypeData)
	t.int(2, i32, int64(len(page))) // uncompressed
	t.int(3, i32, int64(len(page))) // compressed
	t.begin(5)                      // data page header
	t.int(1, i32, int64(len(c.present)))
	t.int(2, i32, encodingPlain)
	t.int(3, i32, encodingRLE) // of definition levels
	t.int(4, i32, encodingRLE) // of repetition levels
	t.end()
	t.end()
	return append(append(file, t.out...), page...)
}

// metadata describes the column's page, which lies at an offset of the file.
func (c *parquetColumn) metadata(t *thrift, rows, offset, size int64) {
	t.begin(3)
	t.int(1, i32, c.physicalType())
	t.list(2, i32, 2)
	t.zigzag(encodingPlain)
	t.zigzag(encodingRLE)
	t.list(3, binaryType, 1) // path in the schema
	t.bytes(c.name)
	t.int(4, i32, codecUncompressed)
	t.int(5, i64, rows)
	t.int(6, i64, size) // uncompressed
	t.int(7, i64, size) // compressed
	t.int(9, i64, offset)
	t.end()
}

func writeParquet(w io.Writer, columns []parquetColumn, facts []Fact) error {
	rows := int64(len(columns[0].present))
	file := []byte(parquetMagic)
	offsets := make([]int64, len(columns))
	sizes := make([]int64, len(columns))
	var total int64
	for i := range columns {
		offsets[i] = int64(len(file))
		file = columns[i].appendPage(file)
		sizes[i] = int64(len(file)) - offsets[i]
		total += sizes[i]
	}

	var t thrift     // file metadata
	t.int(1, i32, 1) // version
	t.list(2, structType, len(columns)+1)
	t.beginElement()
	t.string(4, "schema")
	t.int(5, i32, int64(len(columns)))
	t.end()
	for _, c := range columns {
		t.beginElement()
		t.int(1, i32, c.physicalType())
		repetition := int64(repetitionRequired)
		if c.optional {
			repetition = repetitionOptional
		}
		t.int(3, i32, repetition)
		t.string(4, c.name)
		if !c.double {
			t.int(6, i32, convertedUTF8)
		}
		t.end()
	}
	t.int(3, i64, rows)
	t.list(4, structType, 1) // row groups
	t.beginElement()
	t.list(1, structType, len(columns))
	for i, c := range columns {
		t.beginElement()
		t.int(2, i64, offsets[i])
		c.metadata(&t, rows, offsets[i], sizes[i])
		t.end()
	}
	t.int(2, i64, total)
	t.int(3, i64, rows)
	t.end()
	t.list(5, structType, len(facts))
	for _, f := range facts {
		t.beginElement()
		t.string(1, f.Name)
		t.string(2, f.Value)
		t.end()
	}
	t.string(6, "lockstep")
	t.end()

	file = append(file, t.out...)
	file = binary.LittleEndian.AppendUint32(file, uint32(len(t.out)))
	file = append(file, parquetMagic...)
	_, err := w.Write(file)
	return err
}

// Types of Thrift's compact protocol.
const (
	i32        = 5
	i64        = 6
	binaryType = 8
	listType   = 9
	structType = 12
)

// thrift writes structs in Thrift's compact protocol. It begins inside one.
type thrift struct {
	out  []byte
	last int   // number of the field before
	open []int // the same of the structs around
}

func (t *thrift) field(id int, kind byte) {
	t.out = append(t.out, byte(id-t.last)<<4|kind) // numbers grow, by less than 16
	t.last = id
}

func (t *thrift) zigzag(x int64) { t.out = binary.AppendVarint(t.out, x) }

func (t *thrift) bytes(s string) {
	t.out = binary.AppendUvarint(t.out, uint64(len(s)))
	t.out = append(t.out, s...)
}

func (t *thrift) int(id int, kind byte, x int64) {
	t.field(id, kind)
	t.zigzag(x)
}

func (t *thrift) string(id int, s string) {
	t.field(id, binaryType)
	t.bytes(s)
}

func (t *thrift) list(id int, kind byte, n int) {
	t.field(id, listType)
	if n < 15 {
		t.out = append(t.out, byte(n)<<4|kind)
		return
	}
	t.out = append(t.out, 0xf0|kind)
	t.out = binary.AppendUvarint(t.out, uint64(n))
}

func (t *thrift) begin(id int) {
	t.field(id, structType)
	t.beginElement()
}

// beginElement begins a struct that is an element of a list.
func (t *thrift) beginElement() {
	t.open = append(t.open, t.last)
	t.last = 0
}

func (t *thrift) end() {
	t.out = append(t.out, 0)
	if n := len(t.open); n > 0 {
		t.last, t.open = t.open[n-1], t.open[:n-1]
	}
}
