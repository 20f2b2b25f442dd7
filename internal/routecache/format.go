package routecache

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"path/filepath"
	"unsafe"

	"lockstep"
	"lockstep/internal/fileio"
	"lockstep/routefile"
)

// A cache file is, in little-endian order:
//
//	8 bytes  magic
//	8 bytes  length of the index
//	4 bytes  CRC-32C of the index, 4 bytes zero
//	index    for each route: length of its name, name, SHA-256 of its file,
//	         seed, rows, offset and CRC-32C of its data; padded with zeros to
//	         a multiple of 8
//	data     for each route its five columns and its draws, float64
//
// Data starts at a multiple of 8, so that the file in memory serves as the columns.
const (
	formatVersion = 3
	magic         = "lockstp\x03"
	headerSize    = 24
	columns       = 5
	maxRows       = 1 << 24
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// littleEndian tells whether memory can be read as it lies in the file.
var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// entry is one route of a cache file.
type entry struct {
	name     string            // of the route's file
	file     [sha256.Size]byte // SHA-256 of the route's file
	seed     uint32
	rows     int
	checksum uint32
	data     []float64 // columns and draws; aliases the cache file's bytes
}

// values is how many numbers a route of n rows has.
func values(rows int) int { return columns*rows + rows - lockstep.ContextLength }

func newEntry(name string, file [sha256.Size]byte, r *lockstep.Route) *entry {
	e := &entry{name: name, file: file, seed: r.Seed, rows: r.Len()}
	e.data = make([]float64, 0, values(e.rows))
	for _, column := range [][]float64{
		r.RollLataccel, r.VEgo, r.AEgo, r.TargetLataccel, r.SteerCommand, r.Draws,
	} {
		e.data = append(e.data, column...)
	}
	e.checksum = crc32.Checksum(bytesOf(e.data), castagnoli)
	return e
}

// intact checks the data against its checksum.
func (e *entry) intact() bool { return crc32.Checksum(bytesOf(e.data), castagnoli) == e.checksum }

// route makes the entry's route, which aliases its data.
func (e *entry) route() *lockstep.Route {
	column := func(i int) []float64 { return e.data[i*e.rows : (i+1)*e.rows : (i+1)*e.rows] }
	return &lockstep.Route{
		Name:           routefile.Name(e.name),
		Seed:           e.seed,
		Draws:          e.data[columns*e.rows:],
		RollLataccel:   column(0),
		VEgo:           column(1),
		AEgo:           column(2),
		TargetLataccel: column(3),
		SteerCommand:   column(4),
	}
}

func bytesOf(data []float64) []byte {
	if len(data) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&data[0])), 8*len(data))
}

// write writes a cache file that appears whole or not at all.
func write(path string, entries []*entry) error {
	if !littleEndian {
		return errors.New("not on a big-endian machine")
	}
	if err := fileio.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	fileio.Sweep(filepath.Dir(path))
	index := appendIndex(nil, entries, 0)
	index = appendIndex(nil, entries, headerSize+len(index)) // offsets do not change its length
	head := append([]byte(magic), make([]byte, headerSize-len(magic))...)
	binary.LittleEndian.PutUint64(head[8:], uint64(len(index)))
	binary.LittleEndian.PutUint32(head[16:], crc32.Checksum(index, castagnoli))
	return fileio.Write(path, func(w io.Writer) error {
		for _, part := range [][]byte{head, index} {
			if _, err := w.Write(part); err != nil {
				return err
			}
		}
		for _, e := range entries {
			if _, err := w.Write(bytesOf(e.data)); err != nil {
				return err
			}
		}
		return nil
	})
}

func appendIndex(b []byte, entries []*entry, offset int) []byte {
	for _, e := range entries {
		b = binary.LittleEndian.AppendUint16(b, uint16(len(e.name)))
		b = append(b, e.name...)
		b = append(b, e.file[:]...)
		b = binary.LittleEndian.AppendUint32(b, e.seed)
		b = binary.LittleEndian.AppendUint32(b, uint32(e.rows))
		b = binary.LittleEndian.AppendUint64(b, uint64(offset))
		b = binary.LittleEndian.AppendUint32(b, e.checksum)
		offset += 8 * values(e.rows)
	}
	// A name has at least one byte, so that a zero length ends the index.
	b = append(b, 0, 0)
	for len(b)%8 != 0 {
		b = append(b, 0)
	}
	return b
}

// cacheKind is the largest that is believed to be one: 10^6 routes.
var cacheKind = fileio.Kind{Name: "a route cache", Limit: 64 << 30}

// read reads a cache file and its index. The entries' data is not checked. The file
// is not mapped: one that is cut off meanwhile would end the process.
func read(path string) ([]entry, error) {
	if !littleEndian {
		return nil, fs.ErrNotExist
	}
	data, err := fileio.ReadFile(path, cacheKind)
	if err != nil {
		return nil, err
	}
	entries, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s is damaged and will be made again: %w", path, err)
	}
	return entries, nil
}

// parse reads the index of a cache file. The entries alias data.
func parse(data []byte) ([]entry, error) {
	if len(data) < headerSize || string(data[:8]) != magic {
		return nil, errors.New("not a route cache of this version")
	}
	length := binary.LittleEndian.Uint64(data[8:])
	if length > uint64(len(data)-headerSize) {
		return nil, errors.New("the index is cut off")
	}
	index := data[headerSize : headerSize+length]
	if crc32.Checksum(index, castagnoli) != binary.LittleEndian.Uint32(data[16:]) {
		return nil, errors.New("the index has another checksum")
	}
	var entries []entry
	r := indexReader{index}
	for {
		name := string(r.take(int(binary.LittleEndian.Uint16(r.take(2)))))
		if name == "" {
			return entries, nil
		}
		e := entry{
			name: name,
			file: [sha256.Size]byte(r.take(sha256.Size)),
			seed: binary.LittleEndian.Uint32(r.take(4)),
			rows: int(binary.LittleEndian.Uint32(r.take(4))),
		}
		offset := r.uint64()
		e.checksum = binary.LittleEndian.Uint32(r.take(4))
		if e.rows < lockstep.MinRows || e.rows > maxRows || offset%8 != 0 ||
			offset > math.MaxInt64/2 ||
			offset+uint64(8*values(e.rows)) > uint64(len(data)) {
			return nil, io.ErrUnexpectedEOF
		}
		e.data = unsafe.Slice((*float64)(unsafe.Pointer(&data[offset])), values(e.rows))
		entries = append(entries, e)
	}
}

// indexReader gives out bytes, zeros after the end.
type indexReader struct{ rest []byte }

func (r *indexReader) take(n int) []byte {
	if n > len(r.rest) {
		r.rest = nil
		return make([]byte, n)
	}
	out := r.rest[:n]
	r.rest = r.rest[n:]
	return out
}

func (r *indexReader) uint64() uint64 { return binary.LittleEndian.Uint64(r.take(8)) }
