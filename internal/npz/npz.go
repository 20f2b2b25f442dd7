// Package npz reads and writes NumPy's .npz archives of plain numeric arrays.
//
// It covers what traces and goldens hold, little-endian numbers and byte
// strings in C order, and nothing else: no pickled objects, so that a hostile
// file can neither run code nor make the reader allocate more than its limit.
package npz

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"

	"lockstep/internal/fileio"
)

// Array is one array of an archive.
type Array struct {
	Name  string
	Type  string // NumPy's type string: "<f4", "<f8", "<i4", "<u4", "<i8", "<u8", "|u1" or "|S<n>"
	Shape []int
	Data  []byte // elements, little-endian, C order
}

// Number is an element type.
type Number interface {
	float32 | float64 | int32 | uint32 | int64 | uint64 | uint8
}

// What a reader accepts, in bytes of data: of one array, and of all arrays of an
// archive together. A writer writes no more than that.
const (
	MaxArray   = 1 << 30
	MaxArchive = 4 << 30
)

const maxDims = 64 // NumPy's own limit

// typeString names an element type as NumPy does.
func typeString[T Number]() string {
	var zero T
	switch any(zero).(type) {
	case float32:
		return "<f4"
	case float64:
		return "<f8"
	case int32:
		return "<i4"
	case uint32:
		return "<u4"
	case int64:
		return "<i8"
	case uint8:
		return "|u1"
	default:
		return "<u8"
	}
}

// New makes an array of a copy of its elements.
func New[T Number](name string, elements []T, shape ...int) Array {
	data, err := binary.Append(nil, binary.LittleEndian, elements)
	if err != nil {
		panic("npz: " + err.Error()) // numbers always encode
	}
	return Array{Name: name, Type: typeString[T](), Shape: shape, Data: data}
}

// Text makes an array without dimensions that holds one text, which must not be
// empty.
func Text(name, text string) Array {
	return Array{Name: name, Type: fmt.Sprintf("|S%d", len(text)), Data: []byte(text)}
}

// Elements returns an array's elements, or an error if it has another type.
func Elements[T Number](a Array) ([]T, error) {
	if want := typeString[T](); a.Type != want {
		return nil, fmt.Errorf("array %.60q: type %s, want %s", a.Name, a.Type, want)
	}
	elements := make([]T, len(a.Data)/binary.Size(*new(T)))
	if _, err := binary.Decode(a.Data, binary.LittleEndian, elements); err != nil {
		return nil, fmt.Errorf("array %.60q: %w", a.Name, err)
	}
	return elements, nil
}

// Strings returns the elements of an array of byte strings.
func Strings(a Array) ([]string, error) {
	size, ok := elementSize(a.Type)
	if !ok || a.Type[1] != 'S' {
		return nil, fmt.Errorf("array %.60q: type %s, want byte strings", a.Name, a.Type)
	}
	var out []string
	for data := a.Data; len(data) > 0; data = data[size:] {
		out = append(out, strings.TrimRight(string(data[:size]), "\x00"))
	}
	return out, nil
}

// Write writes an archive. Equal arrays give equal bytes. It refuses arrays that
// Read would refuse.
func Write(w io.Writer, arrays []Array) error {
	out := NewWriter(w)
	if err := out.Add(arrays...); err != nil {
		return err
	}
	return out.Close()
}

// Writer writes an archive array by array, so that it need not be in memory whole.
type Writer struct {
	zip   *zip.Writer
	names map[string]bool
	total int64 // bytes of data
}

// NewWriter begins an archive; Close ends it.
func NewWriter(w io.Writer) *Writer {
	return &Writer{zip: zip.NewWriter(w), names: map[string]bool{}}
}

// Add writes arrays, all or none of which fit.
func (w *Writer) Add(arrays ...Array) error {
	total := w.total
	for i, a := range arrays {
		err := w.check(a)
		if err == nil {
			continue
		}
		for _, fits := range arrays[:i] { // it is not written, either
			delete(w.names, fits.Name)
		}
		w.total = total
		if err == errTwice {
			return fmt.Errorf("array %.60q %w", a.Name, err)
		}
		return fmt.Errorf("array %.60q: %w", a.Name, err)
	}
	for _, a := range arrays {
		f, err := w.zip.CreateHeader(&zip.FileHeader{Name: a.Name + ".npy", Method: zip.Deflate})
		if err != nil {
			return err
		}
		if _, err := f.Write(header(a)); err != nil {
			return err
		}
		if _, err := f.Write(a.Data); err != nil {
			return err
		}
	}
	return nil
}

// Close ends the archive.
func (w *Writer) Close() error { return w.zip.Close() }

var errTwice = errors.New("appears twice")

// check takes an array in, or says why Read would refuse it.
func (w *Writer) check(a Array) error {
	size, err := dataSize(a.Type, a.Shape)
	switch {
	case err != nil:
		return err
	case int64(len(a.Data)) != size:
		return fmt.Errorf(
			"%d bytes of data, shape %s of %s wants %d", len(a.Data), shown(a.Shape), a.Type, size,
		)
	case w.names[a.Name]:
		return errTwice
	case w.total+size > MaxArchive:
		return errArchive
	}
	w.names[a.Name] = true
	w.total += size
	return nil
}

// WriteFile writes an archive to a file that appears whole or not at all.
func WriteFile(path string, arrays []Array) error {
	return fileio.Write(path, func(w io.Writer) error { return Write(w, arrays) })
}

// ReadFile reads all arrays of an archive.
func ReadFile(path string) (map[string]Array, error) {
	data, err := fileio.ReadFile(path, fileio.Arrays)
	if err != nil {
		return nil, err
	}
	arrays, err := Read(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return arrays, nil
}

// Read reads all arrays of an archive.
func Read(data []byte) (map[string]Array, error) { return read(data, MaxArchive) }

// read reads arrays of at most limit bytes together.
func read(data []byte, limit int64) (map[string]Array, error) {
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, fmt.Errorf("not an .npz archive: %w", err)
	}
	arrays := map[string]Array{}
	for _, f := range z.File {
		name, ok := strings.CutSuffix(f.Name, ".npy")
		if !ok {
			return nil, fmt.Errorf("entry %.60q is not an array", f.Name)
		}
		if _, ok := arrays[name]; ok {
			return nil, fmt.Errorf("array %.60q appears twice", name)
		}
		a, err := readEntry(f, limit)
		if err != nil {
			return nil, fmt.Errorf("array %.60q: %w", name, err)
		}
		limit -= int64(len(a.Data))
		a.Name = name
		arrays[name] = a
	}
	return arrays, nil
}

func readEntry(f *zip.File, limit int64) (Array, error) {
	r, err := f.Open()
	if err != nil {
		return Array{}, err
	}
	defer r.Close()
	a, size, err := readHeader(r)
	if err != nil {
		return Array{}, err
	}
	if size > limit {
		return Array{}, errArchive
	}
	// The limit, not the header, bounds what is allocated: data grows as it comes.
	a.Data, err = io.ReadAll(io.LimitReader(r, size+1))
	if err != nil {
		return Array{}, err
	}
	if int64(len(a.Data)) != size {
		return Array{}, fmt.Errorf(
			"%d or more bytes of data, shape %s of %s wants %d", len(a.Data), shown(a.Shape),
			a.Type, size,
		)
	}
	return a, nil
}

const magic = "\x93NUMPY"

var (
	headerPattern = regexp.MustCompile(
		`^\{'descr': '([^']*)', 'fortran_order': (False|True), 'shape': \(([0-9, ]*)\), \}\s*$`,
	)
	errHeader  = errors.New("not a NumPy array")
	errArchive = errors.New("the arrays up to here are too large together")
)

// readHeader reads an array's header, format version 1 or 2, and returns how
// many bytes of data must follow.
func readHeader(r io.Reader) (Array, int64, error) {
	var start [8]byte
	if _, err := io.ReadFull(r, start[:]); err != nil || string(start[:6]) != magic {
		return Array{}, 0, errHeader
	}
	var length int
	switch start[6] {
	case 1:
		var n uint16
		if err := binary.Read(r, binary.LittleEndian, &n); err != nil {
			return Array{}, 0, errHeader
		}
		length = int(n)
	case 2:
		var n uint32
		if err := binary.Read(r, binary.LittleEndian, &n); err != nil || n > 1<<16 {
			return Array{}, 0, errHeader
		}
		length = int(n)
	default:
		return Array{}, 0, fmt.Errorf("format version %d is not known", start[6])
	}
	text := make([]byte, length)
	if _, err := io.ReadFull(r, text); err != nil {
		return Array{}, 0, errHeader
	}
	m := headerPattern.FindSubmatch(text)
	if m == nil {
		return Array{}, 0, fmt.Errorf("header %.60q is not understood", text)
	}
	a := Array{Type: string(m[1])}
	var err error
	if a.Shape, err = readShape(string(m[3])); err != nil {
		return Array{}, 0, err
	}
	size, err := dataSize(a.Type, a.Shape)
	if err != nil {
		return Array{}, 0, err
	}
	if string(m[2]) == "True" && len(a.Shape) > 1 {
		return Array{}, 0, errors.New("column-major (Fortran) order is not supported")
	}
	return a, size, nil
}

// readShape reads what stands between a tuple's brackets: nothing, or numbers with commas between
// them and, if it is one alone, behind it.
func readShape(tuple string) (shape []int, err error) {
	dims := strings.Split(tuple, ",")
	if last := len(dims) - 1; strings.TrimSpace(dims[last]) == "" && (last > 0 || tuple == "") {
		dims = dims[:last]
	} else if last == 0 {
		return nil, fmt.Errorf("shape (%.60s) is no tuple", tuple)
	}
	for _, dim := range dims {
		n, err := strconv.Atoi(strings.TrimSpace(dim))
		if err != nil {
			return nil, fmt.Errorf("shape (%.60s) is too large, or none", tuple)
		}
		shape = append(shape, n)
	}
	return shape, nil
}

// shown is a shape in an error, the beginning of a long one.
func shown(shape []int) string { return fmt.Sprintf("%.100s", fmt.Sprint(shape)) }

// dataSize is the number of bytes of an array's data.
func dataSize(elementType string, shape []int) (int64, error) {
	element, ok := elementSize(elementType)
	if !ok {
		return 0, fmt.Errorf("element type %.60q is not supported", elementType)
	}
	if len(shape) > maxDims {
		return 0, fmt.Errorf("%d dimensions, at most %d are supported", len(shape), maxDims)
	}
	size := int64(element)
	for _, n := range shape {
		if n < 0 || n > MaxArray || size > MaxArray {
			return 0, fmt.Errorf("shape %s is too large", shown(shape))
		}
		size *= int64(n)
	}
	if size > MaxArray {
		return 0, fmt.Errorf("shape %s is too large", shown(shape))
	}
	return size, nil
}

// elementSize is the number of bytes of one element of a supported type.
func elementSize(t string) (int, bool) {
	switch t {
	case "|u1":
		return 1, true
	case "<f4", "<i4", "<u4":
		return 4, true
	case "<f8", "<i8", "<u8":
		return 8, true
	}
	if n, ok := strings.CutPrefix(t, "|S"); ok {
		size, err := strconv.Atoi(n)
		return size, err == nil && 0 < size && size <= math.MaxUint16 && strconv.Itoa(size) == n
	}
	return 0, false
}

// header is an array's header, padded so that the data is aligned.
func header(a Array) []byte {
	var dims strings.Builder
	for _, d := range a.Shape {
		fmt.Fprintf(&dims, "%d, ", d)
	}
	shape := strings.TrimSuffix(dims.String(), " ") // NumPy: (580,) and (580, 20)
	if len(a.Shape) > 1 {
		shape = strings.TrimSuffix(shape, ",")
	}
	text := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", a.Type, shape)
	const prefix = len(magic) + 4
	padded := (prefix + len(text) + 1 + 63) / 64 * 64
	text += strings.Repeat(" ", padded-prefix-len(text)-1) + "\n"
	out := append([]byte(magic), 1, 0)
	out = binary.LittleEndian.AppendUint16(out, uint16(len(text)))
	return append(out, text...)
}
