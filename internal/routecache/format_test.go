package routecache

import (
	"crypto/sha256"
	"encoding/binary"
	"hash/crc32"
	"math"
	"testing"

	"lockstep"
)

// TestOffsets: of more routes than 4 GB hold each has a place of its own, behind the one before.
func TestOffsets(t *testing.T) {
	var entries []*entry
	for range 12 {
		entries = append(entries, &entry{name: "a", rows: maxRows})
	}
	index, want := appendIndex(nil, entries, 1<<31-8), uint64(1<<31-8)
	const each = 2 + 1 + sha256.Size + 4 + 4
	for i := range entries {
		at := i*(each+8+4) + each
		if got := binary.LittleEndian.Uint64(index[at:]); got != want {
			t.Errorf("route %d is at %d, want %d", i, got, want)
		}
		want += 8 * uint64(values(maxRows))
	}
}

// TestParseLimits: what an index may just say, and what it may just not, each alone.
func TestParseLimits(t *testing.T) {
	const room = lockstep.MinRows
	size := uint64(8 * values(room))
	index := func(rows uint32, offset uint64) []byte {
		b := append(binary.LittleEndian.AppendUint16(nil, 1), 'a')
		b = append(b, make([]byte, sha256.Size)...)
		b = binary.LittleEndian.AppendUint32(b, 7)
		b = binary.LittleEndian.AppendUint32(b, rows)
		b = binary.LittleEndian.AppendUint64(b, offset)
		return binary.LittleEndian.AppendUint32(b, 0x12345678)
	}
	file := func(index []byte, length, whole uint64) []byte {
		b := binary.LittleEndian.AppendUint64([]byte(magic), length)
		b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(index, castagnoli))
		b = append(append(b, make([]byte, headerSize-len(b))...), index...)
		return append(b, make([]byte, max(whole, uint64(len(b)))-uint64(len(b)))...)
	}
	one := func(rows uint32, offset, whole uint64) []byte {
		i := index(rows, offset)
		return file(i, uint64(len(i)), whole)
	}
	other := one(room, 128, 128+size)
	other[0]++
	for _, c := range []struct {
		name    string
		data    []byte
		entries int // -1 if it is refused
	}{
		{"data up to the end", one(room, 128, 128+size), 1},
		{"data beyond the end", one(room, 128, 128+size-1), -1},
		{"data far beyond", one(room, 1<<40, 128+size), -1},
		{"an offset that overflows", one(room, math.MaxUint64-7, 128+size), -1},
		{"an offset between numbers", one(room, 124, 128+size), -1},
		{"too few rows", one(room-1, 128, 128+size), -1},
		{"too many rows", one(maxRows+1, 128, 128+size), -1},
		{"no entry", file(nil, 0, 0), 0},
		{"half a header", file(nil, 0, 0)[:headerSize-1], -1},
		{"nothing", nil, -1},
		{"another version", other, -1},
		{"an index of all that follows", file(index(room, 0), uint64(len(index(room, 0))), 0), -1},
		{"an index of one byte more", file(nil, 1, 0), -1},
	} {
		entries, err := parse(c.data)
		if (err == nil) != (c.entries >= 0) || err == nil && len(entries) != c.entries {
			t.Errorf("%s: %d entries, %v", c.name, len(entries), err)
		}
		if len(entries) == 1 &&
			(entries[0].name != "a" || entries[0].seed != 7 || entries[0].rows != room ||
				entries[0].checksum != 0x12345678) {
			t.Errorf("%s: %+v", c.name, entries[0])
		}
	}
}
