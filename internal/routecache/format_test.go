package routecache

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"lockstep"
	"lockstep/internal/simtest"
	"lockstep/routefile"
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

// line is what the index says of a route.
func line(
	name string, file [sha256.Size]byte, seed, rows uint32, offset uint64, checksum uint32,
) []byte {
	b := append(binary.LittleEndian.AppendUint16(nil, uint16(len(name))), name...)
	b = binary.LittleEndian.AppendUint32(append(b, file[:]...), seed)
	b = binary.LittleEndian.AppendUint32(b, rows)
	b = binary.LittleEndian.AppendUint64(b, offset)
	return binary.LittleEndian.AppendUint32(b, checksum)
}

// file is a cache file with this index, which is said to be so long, and zeros behind it.
func file(index []byte, length, whole uint64) []byte {
	b := binary.LittleEndian.AppendUint64([]byte("lockstp\x03"), length)
	b = binary.LittleEndian.AppendUint32(b, crc32.Checksum(index, castagnoli))
	b = append(append(b, make([]byte, 24-len(b))...), index...)
	return append(b, make([]byte, max(whole, uint64(len(b)))-uint64(len(b)))...)
}

// formatted is the cache file of the routes of these files, whose names have 9 bytes.
func formatted(t *testing.T, loader routefile.Loader, files []string) []byte {
	t.Helper()
	var index, data []byte
	const each = 2 + 9 + sha256.Size + 4 + 4 + 8 + 4
	length := uint64(len(files)*each+2+7) / 8 * 8
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		r, err := loader.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		content, err := binary.Append(nil, binary.LittleEndian, slices.Concat(
			r.RollLataccel, r.VEgo, r.AEgo, r.TargetLataccel, r.SteerCommand, r.Draws,
		))
		if err != nil {
			t.Fatal(err)
		}
		index = append(index, line(
			filepath.Base(path), sha256.Sum256(text), r.Seed, uint32(r.Len()),
			24+length+uint64(len(data)), crc32.Checksum(content, castagnoli),
		)...)
		data = append(data, content...)
	}
	index = append(index, make([]byte, int(length)-len(index))...)
	return append(file(index, length, 0), data...)
}

// TestFormat: the file that is written, and its name, are those that other programs with this
// version of the format read, whatever the order in which routes are loaded.
func TestFormat(t *testing.T) {
	files := folder(t, 3)
	loader := routefile.Loader{SeedPrefix: "prefix"}
	key := fmt.Sprintf("3\x00%s\x00%s\x00prefix", filepath.Dir(files[0]), lockstep.Profile{})
	name := fmt.Sprintf("%x", sha256.Sum256([]byte(key)))[:32] + ".routes"
	for _, order := range [][]int{{0}, {0, 1, 2}, {2, 1, 0}, {1, 2, 0}} {
		c := Cache{Dir: t.TempDir(), Loader: loader}
		for _, i := range order { // each writes the file anew
			c.Load(t.Context(), files[i:i+1])
		}
		path := cacheFile(t, c.Dir)
		got, err := os.ReadFile(path)
		want := formatted(t, loader, files[:len(order)])
		if err := errors.Join(err, simtest.Same("the file", got, want)); err != nil {
			t.Errorf("loaded in the order %v: %v", order, err)
		}
		if filepath.Base(path) != name {
			t.Errorf("it is named %s, want %s", filepath.Base(path), name)
		}
	}
}

// TestParseLimits: what an index may just say, and what it may just not, each alone.
func TestParseLimits(t *testing.T) {
	const room = lockstep.MinRows
	size := uint64(8 * values(room))
	index := func(rows uint32, offset uint64) []byte {
		return line("a", [sha256.Size]byte{}, 7, rows, offset, 0x12345678)
	}
	one := func(rows uint32, offset, whole uint64) []byte {
		i := index(rows, offset)
		return file(i, uint64(len(i)), whole)
	}
	other := one(room, 128, 128+size)
	other[0]++
	// a name of 100 bytes, and behind it what a seed and a number of rows may be
	cut := binary.LittleEndian.AppendUint64([]byte{100, 0}, room<<32)
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
		{"an end of the index that is the file's", file(make([]byte, 2), 2, 0), 0},
		{"a name that is cut off", file(cut, uint64(len(cut)), 128+size), -1},
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
