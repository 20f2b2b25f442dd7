package npz

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"lockstep/internal/fuzzing"
	"lockstep/internal/simtest"
	"lockstep/internal/want"
)

func TestMain(m *testing.M) { os.Exit(fuzzing.Main(m)) }

const testdata = "../../golden/testdata"

// encode writes an archive to memory.
func encode(t interface{ Fatal(...any) }, arrays ...Array) []byte {
	var b bytes.Buffer
	if err := Write(&b, arrays); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// sorted lists the arrays that were read in the order of their names.
func sorted(arrays map[string]Array) []Array {
	var out []Array
	for _, name := range slices.Sorted(maps.Keys(arrays)) {
		out = append(out, arrays[name])
	}
	return out
}

var types = []string{"|u1", "<f4", "<f8", "<i8", "<u8", "|S1", "|S7", "|S300"}

// anyArray draws an array of any type and shape; numbers are any bit pattern.
func anyArray(t *rapid.T, name string) Array {
	a := Array{
		Name:  name,
		Type:  rapid.SampledFrom(types).Draw(t, "type"),
		Shape: rapid.SliceOfN(rapid.IntRange(0, 5), 0, 4).Draw(t, "shape"),
	}
	size, _ := elementSize(a.Type)
	for _, n := range a.Shape {
		size *= n
	}
	a.Data = make([]byte, size)
	seed := rapid.Uint64().Draw(t, "data")
	for i := range a.Data {
		seed = seed*6364136223846793005 + 1442695040888963407
		a.Data[i] = byte(seed >> 56)
	}
	return a
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var want []Array
		names := rapid.SliceOfNDistinct(rapid.String(), 0, 5, rapid.ID)
		for _, name := range names.Draw(t, "names") {
			want = append(want, anyArray(t, name))
		}
		data := encode(t, want...)
		if err := simtest.Same("the second archive", encode(t, want...), data); err != nil {
			t.Fatal(err)
		}
		arrays, err := Read(data)
		if err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(want, func(a, b Array) int { return strings.Compare(a.Name, b.Name) })
		if diff := cmp.Diff(want, sorted(arrays), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

func TestElements(t *testing.T) {
	testElements(
		t,
		[]float32{
			0, float32(math.Copysign(0, -1)), math.SmallestNonzeroFloat32, float32(math.Inf(1)),
			math.Float32frombits(0x7fc12345),
		},
	)
	testElements(
		t,
		[]float64{
			0, math.Copysign(0, -1), math.SmallestNonzeroFloat64, math.Inf(-1),
			math.Float64frombits(0x7ff8000000012345),
		},
	)
	testElements(t, []int64{0, -1, math.MaxInt64, math.MinInt64})
	testElements(t, []uint64{0, math.MaxUint64})
	testElements(t, []uint8{0, 255})
}

func testElements[T Number](t *testing.T, want []T) {
	t.Helper()
	a := New("x", want, len(want))
	arrays, err := Read(encode(t, a))
	if err != nil {
		t.Fatal(err)
	}
	got, err := Elements[T](arrays["x"])
	if w, g := fmt.Sprintf("%x", bits(t, want)), fmt.Sprintf("%x", bits(t, got)); err != nil ||
		w != g {
		t.Errorf("%T: %s, %v; want %s", want, g, err, w)
	}
	wrong := a
	wrong.Type = "|S8"
	if _, err := Elements[T](wrong); err == nil ||
		err.Error() != "array \"x\": type |S8, want "+a.Type {
		t.Errorf("%T of another type: %v", want, err)
	}
}

func bits[T Number](t *testing.T, elements []T) []byte {
	data, err := binary.Append(nil, binary.BigEndian, elements)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestNewCopies: an array does not change with what it was made of.
func TestNewCopies(t *testing.T) {
	elements := []uint8{1, 2}
	a := New("x", elements, 2)
	elements[0] = 9
	if a.Data[0] != 1 {
		t.Errorf("element 0 is %d, want 1", a.Data[0])
	}
}

// TestText: a text is read as it was written, whatever its bytes, but for zeros at its end.
func TestText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.TrimRight(rapid.String().Draw(t, "text"), "\x00") + "é"
		arrays, err := Read(encode(t, Text("x", text)))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Strings(arrays["x"]); err != nil || len(got) != 1 || got[0] != text {
			t.Fatalf("%q is read as %q, %v", text, got, err)
		}
	})
}

func TestStrings(t *testing.T) {
	got, err := Strings(Array{
		Name:  "x",
		Type:  "|S3",
		Shape: []int{5},
		Data:  []byte("abcd\x00\x00\x00\x00\x00a\x00b\x00c\x00"),
	})
	if want := []string{"abc", "d", "", "a\x00b", "\x00c"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	short, err := Strings(Array{Type: "|S1", Shape: []int{3}, Data: []byte("abc")})
	if want := []string{"a", "b", "c"}; err != nil || !slices.Equal(short, want) {
		t.Errorf("%q, %v; want %q", short, err, want)
	}
	for _, elementType := range []string{"<f4", "|u1", "|S", "|S0", ""} {
		if _, err := Strings(Array{Name: "x", Type: elementType}); err == nil ||
			err.Error() != "array \"x\": type "+elementType+", want byte strings" {
			t.Errorf("type %q: %v", elementType, err)
		}
	}
}

// TestReadNumPy reads the committed files, all of which NumPy wrote, and holds
// types and shapes to what NumPy said of them.
func TestReadNumPy(t *testing.T) {
	files, err := filepath.Glob(testdata + "/*/*.npz")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d recordings, %v; want 20 or more", len(files), err)
	}
	for _, file := range files {
		if _, err := ReadFile(file); err != nil {
			t.Error(err)
		}
	}
	arrays, err := ReadFile(filepath.Join(testdata, "units.npz"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(testdata, "units.json"))
	if err != nil {
		t.Fatal(err)
	}
	type table struct {
		Type  string `json:"dtype"`
		Shape []int  `json:"shape"`
	}
	var want struct{ Tables map[string]table }
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	got := map[string]table{}
	for name, a := range arrays {
		got[name] = table{a.Type, a.Shape}
	}
	if diff := cmp.Diff(want.Tables, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if t.Failed() {
		return
	}
	bins, err := Elements[float64](arrays["bins"])
	if err != nil || bins[0] != -5 || bins[len(bins)-1] != 5 {
		t.Errorf("bins from %v to %v, %v; want -5 to 5", bins[0], bins[len(bins)-1], err)
	}
}

// TestHeader holds headers to those that NumPy wrote for the same arrays, but for
// the number of blanks at their end.
func TestHeader(t *testing.T) {
	z, err := zip.OpenReader(filepath.Join(testdata, "units.npz"))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		entry, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		a, size, err := readHeader(bytes.NewReader(entry))
		if err != nil {
			t.Fatal(err)
		}
		const prefix = len(magic) + 4 // and the length of the text
		want, got := entry[:len(entry)-int(size)], header(a)
		if w, g := bytes.TrimRight(want[prefix:], " \n"), bytes.TrimRight(got[prefix:],
			" \n"); !bytes.Equal(w, g) ||
			!bytes.Equal(want[:8], got[:8]) {
			t.Errorf("%s: header %q, NumPy's is %q", f.Name, got, want)
		}
		if length := binary.LittleEndian.Uint16(got[8:]); len(got)%64 != 0 ||
			int(length) != len(got)-prefix ||
			got[len(got)-1] != '\n' {
			t.Errorf(
				"%s: header %q of %d bytes, stated %d: want a multiple of 64 and a line", f.Name,
				got, len(got), length,
			)
		}
	}
}

// TestNumPyReads: NumPy reads every kind of array that Write writes, and what it
// then writes, compressed or not, reads back equal.
func TestNumPyReads(t *testing.T) {
	python := want.Python.Need(t)
	var want []Array
	for i, elementType := range types {
		size, _ := elementSize(elementType)
		for j, shape := range [][]int{
			{}, {1}, {3}, {2, 3}, {2, 1, 3}, {0}, {2, 0}, slices.Repeat([]int{1}, 32),
		} {
			n := size
			for _, d := range shape {
				n *= d
			}
			a := Array{
				Name:  fmt.Sprintf("route/%d-%d", i, j),
				Type:  elementType,
				Shape: shape,
				Data:  make([]byte, n),
			}
			for k := range a.Data {
				a.Data[k] = byte(1 + 37*k + j)
			}
			want = append(want, a)
		}
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "go.npz")
	if err := WriteFile(path, want); err != nil {
		t.Fatal(err)
	}
	const script = `
import sys, numpy
arrays = dict(numpy.load(sys.argv[1], allow_pickle=False))
for name in sorted(arrays):
    a = arrays[name]
    print(name, a.dtype.str, *a.shape, a.tobytes().hex())
numpy.savez(sys.argv[2], **arrays)
numpy.savez_compressed(sys.argv[3], **arrays)
`
	rewritten := []string{filepath.Join(dir, "stored.npz"), filepath.Join(dir, "deflated.npz")}
	command := exec.Command(python, "-c", script, path, rewritten[0], rewritten[1])
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.Bytes())
	}
	slices.SortFunc(want, func(a, b Array) int { return strings.Compare(a.Name, b.Name) })
	var lines strings.Builder
	for _, a := range want {
		fmt.Fprintln(
			&lines,
			strings.Join(
				slices.Concat(
					[]string{a.Name, a.Type},
					strings.Fields(strings.Trim(fmt.Sprint(a.Shape), "[]")),
					[]string{fmt.Sprintf("%x", a.Data)},
				),
				" ",
			),
		)
	}
	if diff := cmp.Diff(lines.String(), string(out)); diff != "" {
		t.Errorf("what NumPy reads (-want +got):\n%s", diff)
	}
	for _, path := range rewritten {
		arrays, err := ReadFile(path)
		if err != nil {
			t.Error(err)
		} else if diff := cmp.Diff(want, sorted(arrays), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", filepath.Base(path), diff)
		}
	}
}

// npy makes an array file of a header's text and data.
func npy(header, data string) string {
	out := append([]byte(magic), 1, 0)
	out = binary.LittleEndian.AppendUint16(out, uint16(len(header)))
	return string(out) + header + data
}

// fields makes a header's text.
func fields(descr, order, shape string) string {
	return fmt.Sprintf("{'descr': %s, 'fortran_order': %s, 'shape': %s, }\n", descr, order, shape)
}

// archive makes an archive of entries in turn: name, content, name, content...
func archive(entries ...string) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := 0; i < len(entries); i += 2 {
		f, err := z.CreateHeader(&zip.FileHeader{Name: entries[i], Method: zip.Deflate})
		if err == nil {
			_, err = f.Write([]byte(entries[i+1]))
		}
		if err != nil {
			panic(err)
		}
	}
	if err := z.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

func TestReadErrors(t *testing.T) {
	f4 := func(shape, data string) []byte {
		return archive("x.npy", npy(fields("'<f4'", "False", shape), data))
	}
	text := func(header string) []byte { return archive("x.npy", npy(header, "")) }
	version := func(major byte, rest string) []byte {
		return archive("x.npy", magic+string([]byte{major, 0})+rest)
	}
	good := f4("(2,)", "12345678")
	if _, err := Read(good); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		data []byte
		want string
	}{
		{"nothing", nil, "not an .npz archive: zip: not a valid zip file"},
		{"text", []byte("tokens,states\n"), "not an .npz archive: zip: not a valid zip file"},
		{"other entry", archive("notes.txt", ""), `entry "notes.txt" is not an array`},
		{
			"twice",
			archive("x.npy", npy(fields("'|u1'", "False", "()"), "1"), "x.npy",
				npy(fields("'|u1'", "False", "()"), "1")),
			"array \"x\" appears twice",
		},
		{"empty entry", archive("x.npy", ""), "array \"x\": not a NumPy array"},
		{
			"wrong magic",
			archive("x.npy", "\x92NUMPY"+npy(fields("'|u1'", "False", "()"), "1")[6:]),
			"array \"x\": not a NumPy array",
		},
		{"magic only", archive("x.npy", magic), "array \"x\": not a NumPy array"},
		{"no header length", version(1, ""), "array \"x\": not a NumPy array"},
		{"no header length, version 2", version(2, "\x10\x00"), "array \"x\": not a NumPy array"},
		{"short header", version(1, "\x10\x00{}"), "array \"x\": not a NumPy array"},
		{"endless header", version(2, "\xff\xff\xff\x7f"), "array \"x\": not a NumPy array"},
		{"version 0", version(0, ""), "array \"x\": format version 0 is not known"},
		{"version 3", version(3, ""), "array \"x\": format version 3 is not known"},
		{"no header", text(""), `array "x": header "" is not understood`},
		{"Python code", text("{'descr': '<f4', 'fortran_order': False, 'shape': (exit(), ), }"),
			"is not understood"},
		{"negative", f4("(-1,)", ""), "is not understood"},
		{"structured type", text(fields("[('a', '<f4')]", "False", "(1,)")), "is not understood"},
		{"object", text(fields("'|O'", "False", "(1,)")),
			`array "x": element type "|O" is not supported`},
		{"big-endian", text(fields("'>f4'", "False", "(1,)")),
			`array "x": element type ">f4" is not supported`},
		{"text type", text(fields("'<U4'", "False", "(1,)")),
			`array "x": element type "<U4" is not supported`},
		{"strings of no length", text(fields("'|S0'", "False", "(1,)")),
			`array "x": element type "|S0" is not supported`},
		{"signed string length", text(fields("'|S+5'", "False", "(1,)")),
			`array "x": element type "|S+5" is not supported`},
		{"endless strings", text(fields("'|S65536'", "False", "(0,)")),
			`array "x": element type "|S65536" is not supported`},
		{"Fortran order", archive("x.npy", npy(fields("'|u1'", "True", "(2, 2)"), "1234")),
			"array \"x\": column-major (Fortran) order is not supported"},
		{"no comma", f4("(1 2)", ""), "array \"x\": shape (1 2) is no tuple"},
		{"a number, and no tuple", f4("(3)", ""), "array \"x\": shape (3) is no tuple"},
		{"nothing before a comma", f4("(,3)", ""), "array \"x\": shape (,3) is too large, or none"},
		{"a comma alone", f4("(,)", ""), "array \"x\": shape (,) is too large, or none"},
		{"nothing between commas", f4("(1,,2)", ""), "array \"x\": shape (1,,2) is too large, " +
			"or none"},
		{"two commas at the end", f4("(3,,)", ""),
			"array \"x\": shape (3,,) is too large, or none"},
		{"no integer", f4("(99999999999999999999,)", ""), "array \"x\": shape " +
			"(99999999999999999999,) is too large, or none"},
		{"too large", f4("(268435457,)", ""), "array \"x\": shape [268435457] is too large"},
		{"product overflows", f4("(4294967296, 4294967296)", ""), "array \"x\": shape " +
			"[4294967296 4294967296] is too large"},
		{"product overflows to 0", f4("(1073741824, 1073741824, 16)", ""), "array \"x\": shape " +
			"[1073741824 1073741824 16] is too large"},
		{"product overflows before a 0", f4("(1073741824, 1073741824, 0)", ""), "array \"x\": " +
			"shape [1073741824 1073741824 0] is too large"},
		{"too many dimensions", f4("("+strings.Repeat("1,", 65)+")", "1234"), "array \"x\": 65 " +
			"dimensions, at most 64 are supported"},
		{"too little data", f4("(2,)", "1234567"), "array \"x\": 7 or more bytes of data, shape " +
			"[2] of <f4 wants 8"},
		{"no data", f4("(268435456,)", ""), "array \"x\": 0 or more bytes of data, shape " +
			"[268435456] of <f4 wants 1073741824"},
		{"too much data", f4("(2,)", "123456789"), "array \"x\": 9 or more bytes of data, shape " +
			"[2] of <f4 wants 8"},
		{"bomb", f4("(2,)", strings.Repeat("\x00", 1<<24)), "array \"x\": 9 or more bytes of " +
			"data, shape [2] of <f4 wants 8"},
	} {
		arrays, err := Read(c.data)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %d arrays, %v; want …%s…", c.name, len(arrays), err, c.want)
		}
	}
}

// TestReadForms reads arrays that NumPy and others write, and Write does not.
func TestReadForms(t *testing.T) {
	header := fields("'|u1'", "False", "(2,)")
	want := Array{Name: "x", Type: "|u1", Shape: []int{2}, Data: []byte("12")}
	for name, entry := range map[string]string{
		"version 1": npy(header, "12"),
		"version 2": magic + "\x02\x00" + string(
			binary.LittleEndian.AppendUint32(nil, uint32(len(header))),
		) + header + "12",
		"no padding":                         npy(strings.TrimSpace(header), "12"),
		"Fortran order of one row of values": npy(fields("'|u1'", "True", "(2,)"), "12"),
	} {
		arrays, err := Read(archive("x.npy", entry))
		if diff := cmp.Diff(want, arrays["x"]); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

// TestReadSizesLie changes each size that the archive itself states, up and down.
func TestReadSizesLie(t *testing.T) {
	good := encode(t, New("x", []uint8{1, 2, 3, 4}, 4))
	i := bytes.LastIndex(good, []byte("PK\x01\x02")) // central directory
	if i < 0 {
		t.Fatal("no central directory")
	}
	for name, offset := range map[string]int{"checksum": 16, "compressed size": 20, "size": 24} {
		for _, by := range []uint32{1, math.MaxUint32, 1 << 30} {
			data := bytes.Clone(good)
			field := data[i+offset:]
			binary.LittleEndian.PutUint32(field, binary.LittleEndian.Uint32(field)+by)
			if arrays, err := Read(data); err == nil {
				t.Errorf("%s larger by %d: %v reads", name, int32(by), arrays)
			}
		}
	}
}

// TestReadTruncated: no beginning of an archive is an archive, and no beginning
// of an array an array.
func TestReadTruncated(t *testing.T) {
	a := New("x", []float64{1, 2, 3}, 3)
	data := encode(t, a)
	for n := range data {
		if _, err := Read(data[:n]); err == nil {
			t.Errorf("the first %d of %d bytes read as an archive", n, len(data))
		}
	}
	entry := string(header(a)) + string(a.Data)
	for n := range entry {
		if _, err := Read(archive("x.npy", entry[:n])); err == nil {
			t.Errorf("the first %d of %d bytes read as an array", n, len(entry))
		}
	}
}

// TestReadLimit bounds all arrays together: many that are each small enough are
// not.
func TestReadLimit(t *testing.T) {
	data := encode(t, New("a", make([]uint8, 600), 600), New("b", make([]uint8, 400), 400))
	if _, err := read(data, 1000); err != nil {
		t.Error(err)
	}
	_, err := read(data, 999)
	if want := "array \"b\": the arrays up to here are too large together"; err == nil ||
		err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestWriteErrors(t *testing.T) {
	for _, c := range []struct {
		name   string
		arrays []Array
		want   string
	}{
		{"too little data", []Array{New("x", []uint8{1}, 2)}, "array \"x\": 1 bytes of data, " +
			"shape [2] of |u1 wants 2"},
		{"too much data", []Array{New("x", []float32{1, 2})}, "array \"x\": 8 bytes of data, " +
			"shape [] of <f4 wants 4"},
		{"unknown type", []Array{{Name: "x", Type: "|O"}},
			`array "x": element type "|O" is not supported`},
		{"negative", []Array{New("x", []uint8{1}, -1, -1)}, "array \"x\": shape [-1 -1] is too " +
			"large"},
		{"too many dimensions", []Array{New("x", []uint8{1}, slices.Repeat([]int{1}, 65)...)},
			"array \"x\": 65 dimensions, at most 64 are supported"},
		{"twice", []Array{New("x", []uint8{1}), New("x", []uint8{1})}, "array \"x\" appears twice"},
	} {
		var b bytes.Buffer
		if err := Write(&b, c.arrays); err == nil || err.Error() != c.want || b.Len() > 0 {
			t.Errorf("%s: %v after %d bytes, want %s before any", c.name, err, b.Len(), c.want)
		}
		// What was refused is as if nobody had asked.
		b.Reset()
		w, fits := NewWriter(&b), New("fits", []uint8{1}, 1)
		w.Add(append([]Array{fits}, c.arrays...)...)
		if err := errors.Join(w.Add(fits), w.Close()); err != nil || w.total != 1 {
			t.Errorf("%s: %v behind it, %d bytes", c.name, err, w.total)
		}
	}
	if err := Write(&bytes.Buffer{},
		[]Array{New("x", []uint8{1}, slices.Repeat([]int{1}, 64)...)}); err != nil {
		t.Errorf("64 dimensions: %v", err)
	}
}

// TestPadding: behind a header, however long its text is, data is aligned to 64 bytes, and no more
// is written before it than that takes; and what is written is compressed.
func TestPadding(t *testing.T) {
	ends := map[int]bool{}
	for n := range 65 {
		h := header(Array{Type: "|u1", Shape: slices.Repeat([]int{1}, n)})
		text, line := strings.CutSuffix(string(h), "\n")
		padding := len(text) - len(strings.TrimRight(text, " "))
		if len(h)%64 != 0 || !line || padding > 63 {
			t.Errorf("of %d dimensions %d bytes, %d of them blanks", n, len(h), padding)
		}
		ends[padding] = true
	}
	if len(ends) < 60 {
		t.Errorf("headers have only %d numbers of blanks", len(ends))
	}
	if data := encode(t, New("x", make([]uint64, 1<<12), 1<<12)); len(data) > 1<<10 {
		t.Errorf("an archive of 32 KiB of zeros has %d bytes", len(data))
	}
}

// names lists what a folder holds.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, path := range []string{filepath.Join(dir, "a.npz"), "b.npz"} {
		for _, want := range []uint8{1, 2} { // the second time replaces the first
			if err := WriteFile(path, []Array{New("x", []uint8{want})}); err != nil {
				t.Fatal(err)
			}
			arrays, err := ReadFile(path)
			if err != nil || !bytes.Equal(arrays["x"].Data, []byte{want}) {
				t.Errorf("%s holds %v, %v; want %d", path, arrays, err, want)
			}
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode() != 0o644 {
			t.Errorf("%s has mode %v, %v; want 0644", path, info.Mode(), err)
		}
	}
	if got, want := names(t, dir), []string{"a.npz", "b.npz"}; !slices.Equal(got, want) {
		t.Errorf("the folder holds %v, want %v", got, want)
	}
}

// TestWriteFileErrors: an error leaves nothing behind and what was there alone.
func TestWriteFileErrors(t *testing.T) {
	good, bad := []Array{New("x", []uint8{1})}, []Array{New("x", []uint8{1}), New("x", []uint8{1})}
	dir := t.TempDir()
	file, folder := filepath.Join(dir, "file"), filepath.Join(dir, "folder")
	if err := os.WriteFile(file, []byte("old"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(folder, 0o777); err != nil {
		t.Fatal(err)
	}
	vanished := filepath.Join(dir, "vanished")
	for _, c := range []struct {
		name, path string
		arrays     []Array
	}{
		{"bad arrays", file, bad},
		{"a folder of that name", folder, good},
		{"no folder", filepath.Join(vanished, "x.npz"), good},
		{"a file for a folder", filepath.Join(file, "x.npz"), good},
		{"no name", "", good},
	} {
		if c.path == "" {
			t.Chdir(dir)
		}
		if err := WriteFile(c.path, c.arrays); err == nil {
			t.Errorf("%s: no error", c.name)
		}
		if got, want := names(t, dir), []string{"file", "folder"}; !slices.Equal(got, want) {
			t.Errorf("%s: the folder holds %v, want %v", c.name, got, want)
		}
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "old" {
		t.Errorf("the file holds %q, %v; want what was there", text, err)
	}
	if got := names(t, folder); len(got) > 0 {
		t.Errorf("the folder holds %v, want nothing", got)
	}
}

// TestWriteFileUnwritable needs a user whom permissions bind.
func TestWriteFileUnwritable(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o555); err != nil {
		t.Fatal(err)
	}
	if f, err := os.CreateTemp(dir, "probe"); err == nil {
		f.Close()
		t.Skip("not run: this user may write to a folder of mode 0555")
	}
	err := WriteFile(filepath.Join(dir, "x.npz"), []Array{New("x", []uint8{1})})
	if got := names(t, dir); len(got) > 0 || err == nil {
		t.Errorf("the folder holds %v, %v; want nothing and an error", got, err)
	}
}

func TestReadFileErrors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.npz")
	if _, err := ReadFile(path); !os.IsNotExist(err) || !strings.Contains(err.Error(), path) {
		t.Errorf("no file: %v", err)
	}
	if err := os.WriteFile(path, nil, fs.ModePerm); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFile(path); err == nil ||
		!strings.HasPrefix(err.Error(), path+": not an .npz archive: ") {
		t.Errorf("empty file: %v, want %s: not an .npz archive: …", err, path)
	}
}

// FuzzRead looks for archives that crash the reader, make it hold more than its
// limit, or do not read back equal once written.
func FuzzRead(f *testing.F) {
	f.Add(encode(f))
	f.Add(encode(f, New("a/b", []float32{1, 2}, 2), New("c", []uint8{3})))
	f.Add(encode(f, Array{Name: "s", Type: "|S3", Shape: []int{2, 1}, Data: []byte("abcde\x00")}))
	f.Add(archive("x.npy", npy(fields("'<i8'", "True", "(0,)"), "")))
	f.Add(archive(
		"x.npy", npy(fields("'|u1'", "False", "(65536,)"), strings.Repeat("\x00", 65536)), "y.npy",
		"",
	))
	f.Fuzz(func(t *testing.T, data []byte) { testRead(t, data) })
}

// FuzzReadArray does so for the one array of an archive.
func FuzzReadArray(f *testing.F) {
	f.Add([]byte(npy(fields("'<f8'", "False", "(1, 2)"), "0123456789abcdef")))
	f.Add([]byte(npy(fields("'|S3'", "False", "()"), "abc")))
	f.Add([]byte(npy(fields("'|u1'", "True", "( 1, 2 ,)"), "ab")))
	f.Add([]byte(npy(fields("'<u8'", "False", "("+strings.Repeat("1,", 64)+")"), "12345678")))
	f.Add([]byte(magic + "\x02\x00\x45\x00\x00\x00" + fields("'|u1'", "False", "(2,)") + "12"))
	f.Fuzz(func(t *testing.T, entry []byte) { testRead(t, archive("x.npy", string(entry))) })
}

func testRead(t *testing.T, data []byte) {
	defer fuzzing.Ended()
	const limit = 1 << 16
	arrays, err := read(data, limit)
	if err != nil {
		return
	}
	total := 0
	for _, a := range arrays {
		total += len(a.Data)
	}
	if total > limit {
		t.Fatalf("%d bytes of data, limit %d", total, limit)
	}
	again, err := Read(encode(t, sorted(arrays)...))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(arrays, again, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("(-first +second):\n%s", diff)
	}
}

// TestLimits: the largest sizes there may be, and one more.
func TestLimits(t *testing.T) {
	for _, c := range []struct {
		elements string
		shape    []int
		fits     bool
	}{
		{"|u1", []int{MaxArray}, true}, {"|u1", []int{MaxArray, 1}, true},
		{"|u1", []int{MaxArray + 1}, false}, {"|u1", []int{0, MaxArray + 1}, false},
		{"|u1", []int{80581, 13325}, false}, {"|u1", []int{80581, 13325, 0}, false}, // 1 more
		{"<f8", []int{MaxArray / 8}, true}, {"<f8", []int{MaxArray/8 + 1}, false},
		{"<f8", []int{MaxArray/8 + 1, 0}, false},
		{"|S65535", []int{1}, true}, {"|S65536", []int{1}, false}, {"|S1", []int{1}, true},
		{"|S0", []int{1}, false},
	} {
		if _, err := dataSize(c.elements, c.shape); (err == nil) != c.fits {
			t.Errorf("%s of shape %v: %v", c.elements, c.shape, err)
		}
	}
	w := &Writer{names: map[string]bool{}, total: MaxArchive - 8}
	for i, want := range []error{nil, nil, errArchive} {
		size := 4 - 3*(i/2) // the last is of one byte
		if err := w.check(New(fmt.Sprint(i), make([]uint8, size), size)); err != want {
			t.Errorf("array %d of what room is left: %v, want %v", i, err, want)
		}
	}
	for length, fits := range map[int]bool{1 << 16: true, 1<<16 + 1: false} {
		text := fields("'|u1'", "False", "(1,)")
		text += strings.Repeat(" ", length-len(text))
		start := binary.LittleEndian.AppendUint32(append([]byte(magic), 2, 0), uint32(length))
		if _, _, err := readHeader(strings.NewReader(string(start) + text)); (err == nil) != fits {
			t.Errorf("a header of %d bytes: %v", length, err)
		}
	}
}
