package fuzz

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"math/big"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"lockstep"
	"lockstep/golden"
	"lockstep/internal/arbitrary"
	"lockstep/internal/defaults"
	"lockstep/internal/fuzzing"
	"lockstep/internal/generate"
	"lockstep/internal/goldentest"
	"lockstep/internal/model"
	"lockstep/internal/npz"
	"lockstep/internal/onnx"
	"lockstep/internal/recordtest"
	"lockstep/internal/routecache"
	"lockstep/internal/simtest"
	"lockstep/parity/schema"
	"lockstep/parity/tinyphysics"
	"lockstep/parity/trace"
	"lockstep/routefile"
)

// What reads files must take any bytes: no panic, no allocation beyond what the
// bytes account for, an error that a terminal can show.

func TestReadRoute(t *testing.T)  { checkReader(t, routeReader) }
func FuzzReadRoute(f *testing.F)  { fuzzReader(f, routeReader) }
func TestReadModel(t *testing.T)  { checkReader(t, modelReader) }
func FuzzReadModel(f *testing.F)  { fuzzReader(f, modelReader) }
func TestReadNPZ(t *testing.T)    { checkReader(t, npzReader) }
func FuzzReadNPZ(f *testing.F)    { fuzzReader(f, npzReader) }
func TestReadGolden(t *testing.T) { checkReader(t, goldenReader) }
func FuzzReadGolden(f *testing.F) { fuzzReader(f, goldenReader) }
func TestReadCache(t *testing.T)  { checkReader(t, cacheReader) }
func FuzzReadCache(f *testing.F)  { fuzzReader(f, cacheReader) }
func TestReadTrace(t *testing.T)  { checkReader(t, traceReader) }
func FuzzReadTrace(f *testing.F)  { fuzzReader(f, traceReader) }

// A reader reads a file's bytes.
type reader struct {
	// read reads data and uses what it read. Its error is the reader's; what is
	// wrong with an accepted file it tells fail.
	read func(data []byte, fail func(string, ...any)) error

	// What it may allocate: base bytes for buffers, and perByte for each byte of
	// the file. The latter follows from the format's densest part.
	base, perByte uint64

	samples func() [][]byte // whole files
	bombs   func() [][]byte // files made to blow up
}

// deflate is how many bytes one byte of a ZIP archive can hold.
const deflate = 1032

var routeReader = reader{
	read: func(data []byte, fail func(string, ...any)) error {
		r, err := routefile.Loader{}.Read(bytes.NewReader(data), "x.csv")
		if err != nil {
			var e *routefile.Error
			if !errors.As(err, &e) || e.File != "x.csv" {
				fail("%v is no RouteError of the file", err)
			}
			return err
		}
		n := r.Len()
		if n < lockstep.MinRows || len(r.Draws) != n-lockstep.ContextLength {
			fail("%d rows, %d draws", n, len(r.Draws))
		}
		for k, column := range [][]float64{
			r.RollLataccel, r.VEgo, r.AEgo, r.TargetLataccel, r.SteerCommand,
		} {
			if len(column) != n {
				fail("column %d has %d rows, want %d", k, len(column), n)
			}
			if k == 4 {
				column = column[:lockstep.ControlStartIdx]
			}
			for i, x := range column {
				if math.IsNaN(x) || math.IsInf(x, 0) {
					fail("column %d is %v at row %d", k, x, i)
				}
			}
		}
		return nil
	},
	// The densest is a line of commas: each field is a string and its place, in
	// slices that grow.
	base: 1 << 20, perByte: 192,
	samples: func() [][]byte { return [][]byte{shortRoute(0), rows(101, "0,0,0,0,0\n")} },
	bombs: func() [][]byte {
		return [][]byte{
			rows(50_000, "1,1,1,1,1\n"), rows(200_000, "\n"), []byte(strings.Repeat(",",
				1<<20)), []byte(strings.Repeat("\"", 1<<20)), []byte(strings.Repeat("roll,",
				1<<17)),
			// What does not fit is long, and grows when it is quoted.
			rows(
				1, strings.Repeat("\x01", 500)+",1,1,1,1\n",
			), rows(1, "1"+strings.Repeat("0", 5000)+",1,1,1,1\n"), rows(1,
				strings.Repeat("9", 5000)+"e-4999,1,1,1,1\n"),
		}
	},
}

// shortRoute is a generated route's file, cut to 101 rows.
func shortRoute(i int) []byte {
	lines := bytes.SplitAfter(generate.Route(1, i), []byte("\n"))
	return bytes.Join(lines[:1+lockstep.MinRows], nil)
}

func rows(n int, row string) []byte {
	return []byte(
		"roll,vEgo,aEgo,targetLateralAcceleration,steerCommand\n" + strings.Repeat(row, n),
	)
}

var modelReader = reader{
	read: func(data []byte, fail func(string, ...any)) error {
		m, err := onnx.Parse(data)
		if err != nil {
			return err
		}
		m.Graph.Structure()
		for i := range m.Graph.Initializers {
			t := &m.Graph.Initializers[i]
			elements := big.NewInt(1)
			for _, d := range t.Dims {
				elements.Mul(elements, big.NewInt(d))
			}
			if x, err := t.Float32s(); err == nil &&
				(len(x)*4 != len(t.Raw) || elements.Cmp(big.NewInt(int64(len(x)))) != 0) {
				fail("%d floats of %d bytes and shape %v", len(x), len(t.Raw), t.Dims)
			}
			if x, err := t.Bools(); err == nil &&
				(len(x) != len(t.Raw) || elements.Cmp(big.NewInt(int64(len(x)))) != 0) {
				fail("%d bools of %d bytes and shape %v", len(x), len(t.Raw), t.Dims)
			}
		}
		w, err := model.Parse(data)
		if err == nil &&
			(len(w.Head) != model.Width*model.Vocabulary ||
				len(w.Layers[3].Out) != model.Hidden*model.Width) {
			fail("weights of %d and %d numbers", len(w.Head), len(w.Layers[3].Out))
		}
		return nil
	},
	// A node of no fields is two bytes in the file and some 90 in memory, in
	// slices that grow; it is parsed twice and hashed.
	base: 1 << 20, perByte: 1024,
	samples: func() [][]byte { return [][]byte{smallModel()} },
	bombs: func() [][]byte {
		field := func(number byte, data []byte) []byte {
			b := binary.AppendUvarint([]byte{number<<3 | 2}, uint64(len(data)))
			return append(b, data...)
		}
		many := func(number byte) []byte { return bytes.Repeat([]byte{number<<3 | 2, 0}, 1<<14) }
		return [][]byte{
			field(7, many(1)), field(7, many(5)), field(7, many(11)), // nodes, tensors, inputs
			field(
				7, field(1, many(1)),
			), field(7, field(1, many(5))), // inputs and attributes of a node
			field(7, field(5, field(1, make([]byte, 1<<14)))), // dimensions
			field(
				7, field(5, append(field(8, bytes.Repeat([]byte{0x7f}, 500)), field(14, nil)...)),
			), // a name
			field(7, append(field(1, field(5, field(8, make([]byte, 1<<14)))), field(1, nil)...)),
			many(8),
			field(
				7,
				field(
					5,
					[]byte("\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x10\x01\x42\x01w\x4a\x01\x00"),
				),
			),
			field(
				7, field(5, []byte("\x08\x02\x10\x01\x42\x01w\x4a\x04\x00\x00\x00\x00")),
			), // two floats in four bytes
		}
	},
}

// smallModel is an ONNX file of a few nodes that has the network's inputs and
// output.
func smallModel() []byte {
	whole, err := onnx.Parse(defaults.Model())
	if err != nil {
		panic(err)
	}
	m := onnx.Model{Opset: whole.Opset, Graph: whole.Graph}
	m.Graph.Nodes = m.Graph.Nodes[:6]
	m.Graph.Initializers = nil
	for _, t := range whole.Graph.Initializers {
		if len(t.Raw) <= 512 {
			m.Graph.Initializers = append(m.Graph.Initializers, t)
		}
	}
	m.Graph.Initializers = m.Graph.Initializers[:4]
	return m.Encode(7, nil)
}

var npzReader = reader{
	read: func(data []byte, fail func(string, ...any)) error {
		arrays, err := npz.Read(data)
		if err != nil {
			return err
		}
		for name, a := range arrays {
			size, err := strconv.Atoi(a.Type[2:]) // of an element: <f4, |S12
			for _, n := range a.Shape {
				size *= n
			}
			if err != nil || len(a.Data) != size {
				fail(
					"array %q: %d bytes of type %s and shape %v", name, len(a.Data), a.Type,
					a.Shape,
				)
			}
			npz.Elements[float32](a)
			npz.Elements[int64](a)
			npz.Strings(a)
		}
		return nil
	},
	// The data is decoded once, or split into strings of a byte each.
	base: 1 << 20, perByte: 8 * deflate,
	samples: func() [][]byte {
		return [][]byte{
			archive(
				npz.New("a/b", []float32{1, 2}, 2), npz.New("c", []uint8{3}), npz.Text("s", "text"),
			),
			archive(),
		}
	},
	bombs: func() [][]byte {
		return [][]byte{
			archive(npz.New("x", make([]uint8, 1<<24), 1<<24)),
			archive(
				npz.New("x", make([]float64, 1<<20), 1<<20),
				npz.New("y", make([]float64, 1<<20), 1<<20),
			),
			entry(strings.Repeat("\x7f", 500)+".npy", nil),
			entry(strings.Repeat("\x01", 500), nil),
			entry("x.npy", header("|u1", strings.Repeat("\x01", 500))),
			entry("x.npy", header("|u1", "0,"+strings.Repeat("1000000000,", 64))),
			entry(
				strings.Repeat("\U0001ffff", 100)+".npy",
				header("|u1", "0,"+strings.Repeat("1000000000,", 62)+"1000000000000000000"),
			),
			entry("x.npy", header("|u1", "1073741824")),
			entry("x.npy", header("|u1", "4611686018427387904, 4")),
			entry("x.npy", header("|S1000000000", "1")),
			entry("x.npy", header("<f8", strings.Repeat("1,", 1000)+"9")),
			entry("x.npy", []byte("\x93NUMPY\x02\x00\xff\xff\xff\xff")),
			entry("x.npy", []byte("\x93NUMPY\x02\x00\x00\x00\x01\x00")),
		}
	},
}

func archive(arrays ...npz.Array) []byte {
	var b bytes.Buffer
	if err := npz.Write(&b, arrays); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// entry is an archive of one entry.
func entry(name string, data []byte) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	w, err := z.Create(name)
	if err == nil {
		_, err = w.Write(data)
	}
	if err := errors.Join(err, z.Close()); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// header is an array's, without data.
func header(kind, shape string) []byte {
	text := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s,), }\n", kind, shape)
	return append(
		binary.LittleEndian.AppendUint16([]byte("\x93NUMPY\x01\x00"), uint16(len(text))),
		text...)
}

var goldenReader = reader{
	read: func(data []byte, fail func(string, ...any)) error {
		path := scratch("golden.npz", data)
		recordings, err := golden.ReadFile(path)
		if err != nil {
			if !strings.HasPrefix(err.Error(), path+": ") {
				fail("%v does not name the file", err)
			}
			return err
		}
		for _, r := range recordings {
			n, full := r.Steps(), len(r.FullSteps)
			if len(r.Tokens) != 20*n || len(r.States) != 80*n || len(r.Lataccel) != n ||
				len(r.Action) != n ||
				len(r.Logits) != 1024*full ||
				len(r.Probs) != 1024*full {
				fail("a recording of %d steps and other lengths", n)
			}
			for _, step := range r.FullSteps {
				r.Full(int(step))
			}
		}
		return nil
	},
	base: 1 << 20, perByte: 8 * deflate,
	samples: func() [][]byte { return [][]byte{goldenSample()} },
	bombs: func() (files [][]byte) {
		// Each array in turn has an element less than it should, and then is one alone.
		arrays, err := npz.Read(goldenSample())
		if err != nil {
			panic(err)
		}
		for _, name := range slices.Sorted(maps.Keys(arrays)) {
			a := arrays[name]
			if len(a.Shape) == 0 || a.Shape[0] == 0 {
				continue
			}
			shape := slices.Clone(a.Shape)
			size := len(a.Data) / shape[0]
			shape[0]--
			scalar := len(a.Data)
			for _, n := range a.Shape {
				scalar /= n
			}
			for _, other := range []npz.Array{
				{Name: name, Type: a.Type, Shape: shape, Data: a.Data[size:]},
				{Name: name, Type: a.Type, Data: a.Data[:scalar]},
			} {
				changed := maps.Clone(arrays)
				changed[name] = other
				var all []npz.Array
				for _, name := range slices.Sorted(maps.Keys(changed)) {
					all = append(all, changed[name])
				}
				files = append(files, archive(all...))
			}
		}
		return append(files, npzReader.bombs()...)
	},
}

// goldenSample is a recording of three steps.
func goldenSample() []byte {
	set, err := golden.OpenSet(
		filepath.Join(goldentest.Root(), "default", "ort1.30-avx2-expU-sinfma-csv2"),
	)
	if err != nil {
		panic(err)
	}
	r, err := set.Read(set.Recordings[0])
	if err != nil {
		panic(err)
	}
	r.Tokens, r.States, r.LogitsHash, r.ProbsHash, r.CDFHash = r.Tokens[:60], r.States[:240],
		r.LogitsHash[:3], r.ProbsHash[:3], r.CDFHash[:3]
	r.Draw, r.Sample, r.Prediction, r.Lataccel, r.Action = r.Draw[:3], r.Sample[:3],
		r.Prediction[:3], r.Lataccel[:3], r.Action[:3]
	r.FullSteps, r.Logits, r.Probs = nil, nil, nil
	path := scratch("sample.npz", nil)
	if err := recordtest.WriteFile(path, set.Profile, r); err != nil {
		panic(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		panic(err)
	}
	return data
}

// scratch writes a file into this process' folder.
func scratch(name string, data []byte) string {
	path := filepath.Join(machine.dir, name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		panic(err)
	}
	return path
}

// cached is a folder of two routes, and the file that a route cache makes of it.
var cached = sync.OnceValue(func() (c struct {
	files []string
	want  []*lockstep.Route
	cache routecache.Cache
	path  string
	good  []byte
}) {
	for i := range 2 {
		c.files = append(c.files, scratch(fmt.Sprintf("%d.csv", i), shortRoute(i)))
	}
	c.cache = routecache.Cache{Dir: filepath.Join(machine.dir, "cache"), Workers: 1}
	c.want, _, _ = c.cache.Load(context.Background(), c.files)
	entries, err := os.ReadDir(c.cache.Dir)
	if err != nil || len(entries) != 1 {
		panic(fmt.Sprint("no cache: ", err))
	}
	c.path = filepath.Join(c.cache.Dir, entries[0].Name())
	if c.good, err = os.ReadFile(c.path); err != nil {
		panic(err)
	}
	return c
})

var cacheReader = reader{
	// Whatever the cache holds, the routes are those of the files.
	read: func(data []byte, fail func(string, ...any)) error {
		c := cached()
		os.Remove(c.path) // it is mapped: replace it, do not write to it
		if err := os.WriteFile(c.path, data, 0o600); err != nil {
			panic(err)
		}
		routes, errs, stats := c.cache.Load(context.Background(), c.files)
		for i, r := range routes {
			want := c.want[i]
			if errs[i] != nil || r.Name != want.Name || r.Seed != want.Seed {
				fail("%s differs with a damaged cache (%v)", c.files[i], errs[i])
			} else if err := errors.Join(
				simtest.Same("target", r.TargetLataccel, want.TargetLataccel),
				simtest.Same("v ego", r.VEgo, want.VEgo),
				simtest.Same("draws", r.Draws, want.Draws),
			); err != nil {
				fail("%s with a damaged cache: %v", c.files[i], err)
			}
		}
		if after, err := os.Stat(c.path); err == nil && after.Size() > 1<<20+int64(len(data)) {
			fail("a cache of %d bytes becomes one of %d", len(data), after.Size())
		}
		return stats.Problem
	},
	// The two routes are parsed again, and the cache is written again.
	base: 4 << 20, perByte: 64,
	samples: func() [][]byte { return [][]byte{cached().good} },
	bombs: func() [][]byte {
		castagnoli := crc32.MakeTable(crc32.Castagnoli)
		zeros := make([]byte, 8*(6*101-20)) // the data of a route
		index := func(entry func(k int) []byte, n int) []byte {
			var b []byte
			for k := range n {
				b = append(b, entry(k)...)
			}
			b = append(b, make([]byte, 8-len(b)%8)...)
			head := binary.LittleEndian.AppendUint64(
				slices.Clone(cached().good[:8]), uint64(len(b)),
			)
			head = binary.LittleEndian.AppendUint32(head, crc32.Checksum(b, castagnoli))
			return slices.Concat(head, make([]byte, 4), b, zeros)
		}
		one := func(name string, rows uint32, offset uint64) []byte {
			b := binary.LittleEndian.AppendUint16(nil, uint16(len(name)))
			b = append(append(b, name...), make([]byte, sha256.Size+4)...)
			b = binary.LittleEndian.AppendUint32(b, rows)
			b = binary.LittleEndian.AppendUint64(b, offset)
			return binary.LittleEndian.AppendUint32(b, crc32.Checksum(zeros, castagnoli))
		}
		return [][]byte{
			index(func(k int) []byte { return one("0.csv", 1<<24, 0) }, 1),
			index(func(k int) []byte { return one("0.csv", 101, 1<<62) }, 1),
			index(func(k int) []byte { return []byte{0xff, 0xff, 'x'} }, 1),
			index(func(k int) []byte { return one("", 101, 0) }, 100),
			index(func(k int) []byte { return one(fmt.Sprint(k), 101, 24) }, 10_000),
		}
	},
}

var traceReader = reader{
	read: func(data []byte, fail func(string, ...any)) error {
		f, err := trace.NewFile(bytes.NewReader(data), "x.trace")
		if err != nil {
			if !strings.HasPrefix(err.Error(), "x.trace: ") {
				fail("%v does not name the file", err)
			}
			return err
		}
		for _, run := range f.Rollouts {
			if run.End.Steps != run.Digests.Len() {
				fail("%d steps, the end says %d", run.Digests.Len(), run.End.Steps)
			}
			for i := range run.Digests.Len() {
				if _, err := f.Step(run, i); err != nil {
					fail("%v, as a whole it could be read", err)
				}
			}
		}
		for _, h := range []schema.Hash{schema.XXH64, schema.SHA256, schema.XXH3} {
			f.Rehash(h)
		}
		return nil
	},
	// A record and the header are each read into one piece, of 1 MiB at most. Of
	// all records one that ends a rollout is the shortest, one of a step the most
	// in memory.
	base: 8 << 20, perByte: 256,
	samples: func() [][]byte {
		return [][]byte{
			traced(0),
			traced(tinyphysics.Arrays()),
			traced(tinyphysics.Schema(0).Set(tinyphysics.Tokens)),
		}
	},
	bombs: func() [][]byte {
		good := traced(0)
		start := 16 + int(binary.LittleEndian.Uint32(good[12:]))
		head := good[:start:start]
		const key = `{"key": ["r", "c"]}`
		begins := slices.Clone(head)
		steps := slices.Clone(head)
		record := func(to []byte, kind byte, words ...uint32) []byte {
			to = binary.LittleEndian.AppendUint32(append(to, kind), uint32(4*len(words)))
			for _, w := range words {
				to = binary.LittleEndian.AppendUint32(to, w)
			}
			return to
		}
		for i := range uint32(50_000) {
			begins = append(record(begins, 'B', i), key...)
			begins[len(begins)-len(key)-8] += byte(len(key))
		}
		steps = append(record(steps, 'B', 0), key...)
		steps[len(steps)-len(key)-8] += byte(len(key))
		for i := range uint32(50_000) {
			steps = record(steps, 'S', 0, i, 0, 0)
		}
		huge := binary.LittleEndian.AppendUint32(append(slices.Clone(head), 'B'), 1<<32-1)
		header := slices.Clone(good[:16])
		binary.LittleEndian.PutUint32(header[12:], 1<<32-1)
		files := [][]byte{begins, steps, huge, header}
		long := strings.Repeat(`\u0001`, 500)
		for _, text := range []string{ // what does not fit is long, and grows when it is quoted
			`{"digest": "` + long + `"}`, `{"shortcuts": ["` + long + `"]}`,
		} {
			files = append(
				files,
				append(
					binary.LittleEndian.AppendUint32(slices.Clone(good[:12]), uint32(len(text))),
					text...),
			)
		}
		for _, text := range []string{
			`{"key": ["` + long + `"]}`, `{"inputs": ` + strings.Repeat("1", 5000) + `}`,
			`{"` + long + `": 1}`,
		} {
			files = append(
				files,
				slices.Concat(
					head, []byte{'B'}, binary.LittleEndian.AppendUint32(nil, uint32(4+len(text))),
					make([]byte, 4), []byte(text),
				),
			)
		}
		for at := start; at < len(good); { // each record's first count is one more than it should
			changed := slices.Clone(good)
			field := at + 5
			if good[at] == 'E' {
				field += 4 // the number of steps, after the rollout
			}
			changed[field]++
			files = append(files, changed)
			at += 5 + int(binary.LittleEndian.Uint32(good[at+1:]))
		}
		return files
	},
}

// traced is a trace of three steps of two rollouts, with some stages in full.
func traced(full schema.StageSet) []byte {
	var b bytes.Buffer
	w, err := trace.NewWriter(
		&b,
		trace.Header{
			Producer: "fuzz",
			Profile:  lockstep.Profile{}.String(),
			Schema:   *tinyphysics.Schema(0),
		},
		full,
	)
	if err != nil {
		panic(err)
	}
	for i := range 2 {
		r := w.Begin(trace.Rollout{Key: []string{fmt.Sprint(i), "pid"}})
		for k := range 3 {
			s := &lockstep.Step{Index: 20 + k, Action: 0.5, Draw: 0.25, Sample: -1}
			if k > 0 {
				s.Tokens, s.States, s.Sample = make([]int64, 20), make([]float32, 80), k
				s.Logits, s.Probs, s.CDF = make([]float32, 1024), make([]float32, 1024),
					make([]float64, 1024)
			}
			step := tinyphysics.Schema(0).NewStep()
			tinyphysics.Expose(s, step)
			r.Observe(step)
		}
		r.End([]float64{1, 2, 3}, nil)
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// test gives a reader bytes and holds it to its promises.
func (r reader) test(data []byte, fail func(string, ...any)) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := r.read(data, fail)
	runtime.ReadMemStats(&after)
	allocated, most := after.TotalAlloc-before.TotalAlloc, r.base+r.perByte*uint64(len(data))
	if allocated > most {
		fail("%d bytes make it allocate %d, want %d at most", len(data), allocated, most)
	}
	if err == nil {
		return
	}
	text := err.Error()
	if text == "" || len(text) > 1000 || !utf8.ValidString(text) ||
		strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c == 0x7f }) {
		fail("error %.200q of %d bytes, want a line that can be shown", text, len(text))
	}
}

// checkReader gives a reader whole files, files made to blow up, and damaged
// ones.
func checkReader(t *testing.T, r reader) {
	samples := r.samples()
	t.Run("whole", func(t *testing.T) {
		for i, data := range samples {
			if err := r.read(data, t.Errorf); err != nil {
				t.Errorf("file %d: %v", i, err)
			}
		}
	})
	t.Run("bombs", func(t *testing.T) {
		for i, data := range r.bombs() {
			r.test(
				data,
				func(format string, args ...any) {
					t.Errorf("bomb %d: %s", i, fmt.Sprintf(format, args...))
				},
			)
		}
	})
	t.Run("damaged", func(t *testing.T) {
		check(t, 4, func(t *rapid.T, cover func(string)) {
			data := slices.Clone(rapid.SampledFrom(samples).Draw(t, "file"))
			r.test(arbitrary.Damage(t, data), t.Fatalf)
		})
	})
}

// fuzzReader makes a native fuzz target of a reader. The bytes are the file.
func fuzzReader(f *testing.F, r reader) {
	for _, data := range r.samples() {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		defer fuzzing.Ended()
		r.test(data, t.Fatalf)
	})
}
