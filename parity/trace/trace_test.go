package trace

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"lockstep/internal/simtest"
	"lockstep/parity/schema"
)

// drift is a simulator of two numbers and three arrays.
var drift = schema.Schema{
	Name: "drift", Key: []string{"start", "policy"}, First: 20,
	Outcome: schema.Outcome{Name: "result", Elements: []string{"sum", "mean"}},
	Stages: []schema.Stage{
		{Name: "action", Type: "float64"},
		{Name: "tokens", Type: "int64", Shape: []int{20}},
		{Name: "states", Type: "float32", Shape: []int{20, 4}},
		{Name: "flags", Type: "uint8", Shape: []int{3}},
		{Name: "sample", Type: "int32"},
	},
}

const everything = 1<<5 - 1

// anySchema draws a simulator of any number of stages and of numbers of the outcome.
func anySchema(t *rapid.T) schema.Schema {
	s := schema.Schema{
		Name: "any", Key: []string{"start", "policy"}, First: 20,
		Outcome: schema.Outcome{Name: "result"},
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "numbers") {
		s.Outcome.Elements = append(s.Outcome.Elements, fmt.Sprint("o", i))
	}
	for i := range rapid.IntRange(1, schema.MaxStages).Draw(t, "stages") {
		g := schema.Stage{
			Name: fmt.Sprint("s", i),
			Type: rapid.SampledFrom([]schema.Type{"uint8", "int32", "int64", "float32",
				"float64"}).Draw(t, "type"),
			Shape: rapid.SampledFrom([][]int{nil, {1}, {3}, {2, 2}}).Draw(t, "shape"),
		}
		g.Varies = g.IsArray() && rapid.Bool().Draw(t, "varies")
		s.Stages = append(s.Stages, g)
	}
	return s
}

// step makes a step of drift.
func step(index int, has schema.StageSet, random *rand.Rand) *schema.Step {
	return stepOf(&drift, index, has, random)
}

// stepOf makes a step of any bit patterns of some stages; an array of any length that varies.
func stepOf(
	of *schema.Schema, index int, has schema.StageSet, random *rand.Rand,
) *schema.Step {
	s := of.NewStep()
	s.Index, s.Has = index, has&^of.Arrays()
	for i := range of.Stages {
		switch g := &of.Stages[i]; {
		case !has.Has(i):
		case g.IsArray():
			n := g.Size()
			if g.Varies && random.IntN(2) == 0 {
				n = g.Type.Size() * (1 + random.IntN(9))
			}
			for range n {
				s.Data[i] = append(s.Data[i], byte(random.Uint32()))
			}
		default:
			s.Bits[i] = random.Uint64() >> (64 - 8*g.Size())
		}
	}
	return s
}

// rolled is a rollout as it was shown to a writer.
type rolled struct {
	about   Rollout
	steps   []*schema.Step
	outcome []float64
	err     error
}

func invent(random *rand.Rand, rollouts, steps int) []rolled {
	return inventOf(&drift, random, rollouts, steps)
}

func inventOf(of *schema.Schema, random *rand.Rand, rollouts, steps int) []rolled {
	var all []rolled
	for i := range rollouts {
		r := rolled{
			about: Rollout{
				Key:    []string{fmt.Sprintf("%05d", i), "pid"},
				Inputs: map[string]string{"rows": "600", "ä": fmt.Sprint(random.Uint64())},
			},
		}
		for k := range steps {
			has := schema.StageSet(random.Uint64()) & (1<<len(of.Stages) - 1)
			r.steps = append(r.steps, stepOf(of, of.First+k, has, random))
		}
		switch random.IntN(4) {
		case 0:
			r.err = errors.New("step 30: it broke")
		case 1:
		default:
			r.outcome = []float64{}
			for i := range of.Outcome.Elements {
				x := []float64{math.Float64frombits(random.Uint64()), math.NaN()}[i%2]
				r.outcome = append(r.outcome, x)
			}
		}
		all = append(all, r)
	}
	return all
}

func header(h Header) Header {
	if h.Schema.Name == "" {
		h.Schema = drift
	}
	return h
}

// write writes rollouts whose records alternate.
func write(w io.Writer, h Header, full schema.StageSet, rollouts []rolled, order *rand.Rand) error {
	t, err := NewWriter(w, header(h), full)
	if err != nil {
		return err
	}
	writers := make([]*RolloutWriter, len(rollouts))
	next := make([]int, len(rollouts))
	for left := len(rollouts); left > 0; {
		i := order.IntN(len(rollouts))
		r := &rollouts[i]
		switch {
		case writers[i] == nil:
			// Rollouts begin in order, so that the test knows their numbers.
			for k := range i + 1 {
				if writers[k] == nil {
					writers[k] = t.Begin(rollouts[k].about)
				}
			}
		case next[i] < len(r.steps):
			writers[i].Observe(r.steps[next[i]])
			next[i]++
		case next[i] == len(r.steps):
			writers[i].End(r.outcome, r.err)
			next[i]++
			left--
		}
	}
	return t.Close()
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		of := drift
		if rapid.Bool().Draw(t, "another schema") {
			of = anySchema(t)
		}
		rollouts := inventOf(&of, random, rapid.IntRange(0, 4).Draw(t, "rollouts"),
			rapid.IntRange(0, 5).Draw(t, "steps"))
		full := schema.StageSet(rapid.Uint32().Draw(t, "full"))
		h := Header{
			Producer:    "test",
			Engine:      "e",
			Profile:     "p",
			ModelSHA256: "00",
			Digest:      schema.Hash(rapid.IntRange(0, 2).Draw(t, "digest")),
			Shortcuts:   []string{"all"},
			Comment:     "ä",
			Schema:      of,
		}
		var b bytes.Buffer
		if err := write(&b, h, full, rollouts, random); err != nil {
			t.Fatal(err)
		}
		f, err := NewFile(bytes.NewReader(b.Bytes()), "a.trace")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(header(h), f.Header); diff != "" {
			t.Fatalf("header (-want +got):\n%s", diff)
		}
		if len(f.Rollouts) != len(rollouts) {
			t.Fatalf("%d rollouts, want %d", len(f.Rollouts), len(rollouts))
		}
		for i, r := range rollouts {
			got := f.Rollouts[i]
			if diff := cmp.Diff(r.about, got.Rollout); diff != "" {
				t.Fatalf("rollout (-want +got):\n%s", diff)
			}
			for k, s := range r.steps {
				want := s.Clone()
				want.Sum(h.Digest)
				if d := got.Digests.At(k); !slices.Equal(d.Bits, want.Bits) || d.Has != want.Has ||
					d.Index != want.Index {
					t.Fatalf("digests %+v, want %+v", d, want)
				}
				for stage := range of.Stages {
					if !full.Has(stage) || len(want.Data[stage]) != of.Stages[stage].Size() {
						want.Data[stage] = nil
					}
				}
				have, err := f.Step(got, k)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, have); diff != "" {
					t.Fatalf("step %d (-want +got):\n%s", s.Index, diff)
				}
			}
			end := End{Steps: len(r.steps), Outcome: r.outcome}
			if r.err != nil {
				end.Error = r.err.Error()
			}
			if diff := cmp.Diff(end, got.End,
				cmp.Comparer(func(a, b float64) bool {
					return math.Float64bits(a) == math.Float64bits(b)
				})); diff != "" {
				t.Fatalf("end (-want +got):\n%s", diff)
			}
		}
	})
}

// small is a trace with every kind of record.
func small(t testing.TB) []byte {
	t.Helper()
	random := rand.New(rand.NewPCG(3, 3))
	rollouts := invent(random, 2, 2)
	rollouts[0].outcome, rollouts[0].err = []float64{1, 52}, nil
	rollouts[1].err = errors.New("broke")
	rollouts[1].steps[1] = step(21, everything, random)
	var b bytes.Buffer
	if err := write(&b, Header{Engine: "e"}, drift.Set("tokens"), rollouts, random); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func read(data []byte) error {
	_, err := NewFile(bytes.NewReader(data), "a.trace")
	return err
}

// shortened is a file that says where it ends, in an error of its own.
type shortened struct {
	data []byte
	end  error
}

func (s shortened) ReadAt(b []byte, offset int64) (int, error) {
	n := copy(b, s.data[min(int(offset), len(s.data)):])
	if n < len(b) {
		return n, fmt.Errorf("byte %d: %w", len(s.data), s.end)
	}
	return n, nil
}

// TestCut: a trace that is cut off anywhere is found to be, whoever finds the end.
func TestCut(t *testing.T) {
	data := small(t)
	if err := read(data); err != nil {
		t.Fatal(err)
	}
	for n := range data {
		err := read(data[:n])
		if err == nil || !strings.HasPrefix(err.Error(), "a.trace: ") {
			t.Fatalf("%d of %d bytes: %v", n, len(data), err)
		}
		if n >= 16 && !strings.Contains(err.Error(), "cut off") {
			t.Errorf("%d of %d bytes: %v, want that it is cut off", n, len(data), err)
		}
		if n%16 != 0 {
			continue
		}
		for _, end := range []error{io.EOF, io.ErrUnexpectedEOF} {
			_, own := NewFile(shortened{data[:n], end}, "a.trace")
			if own == nil || own.Error() != err.Error() {
				t.Errorf("%d of %d bytes, told by the file: %v, want %v", n, len(data), own, err)
			}
		}
	}
	if err := read(append(bytes.Clone(data), 0)); err == nil ||
		!strings.Contains(err.Error(), "more follows") {
		t.Errorf("one byte more: %v", err)
	}
}

// TestFlippedBits: a bit that is flipped anywhere is found, by the structure or by the
// checksum.
func TestFlippedBits(t *testing.T) {
	data := small(t)
	for pos := range data {
		for bit := range 8 {
			changed := bytes.Clone(data)
			changed[pos] ^= 1 << bit
			if err := read(changed); err == nil {
				t.Fatalf("bit %d of byte %d flipped, and nothing said", bit, pos)
			}
		}
	}
}

// TestHostile: files that lie about their sizes and counts. The message names what
// is wrong, and where.
func TestHostile(t *testing.T) {
	u32, u64 := binary.LittleEndian.AppendUint32, binary.LittleEndian.AppendUint64
	head := func(version uint32, text string) []byte {
		return append(u32(u32([]byte(magic), version), uint32(len(text))), text...)
	}
	described := func(change func(s *schema.Schema)) []byte {
		h := header(Header{})
		h.Schema.Stages = slices.Clone(drift.Stages)
		change(&h.Schema)
		text, err := json.Marshal(h)
		if err != nil {
			t.Fatal(err)
		}
		return head(version, string(text))
	}
	ok := slices.Clip(described(func(*schema.Schema) {}))
	rec := func(kind byte, parts ...[]byte) []byte {
		p := bytes.Join(parts, nil)
		return append(u32([]byte{kind}, uint32(len(p))), p...)
	}
	begin := func(id uint32, text string) []byte { return rec('B', u32(nil, id), []byte(text)) }
	first := begin(0, `{"key":["a","b"]}`)
	st := func(id, index uint32, flags uint64, values ...byte) []byte {
		return rec('S', u64(u32(u32(nil, id), index), flags), values)
	}
	end := func(id, steps uint32, has byte, values ...byte) []byte {
		return rec('E', u32(u32(nil, id), steps), []byte{has}, values)
	}
	file := func(parts ...[]byte) []byte {
		return append(slices.Clone(ok), bytes.Join(parts, nil)...)
	}
	closed := func(rollouts uint32, steps uint64) []byte {
		return rec('Z', u32(nil, rollouts), u64(nil, steps), u32(nil, 0))
	}
	for _, c := range []struct {
		name string
		data []byte
		want string
	}{
		{"empty", nil, `a.trace: header: not a trace: it does not begin with "lstrace\n"`},
		{"other magic", []byte("PK\x03\x04............"), `a.trace: header: not a trace`},
		{"version", head(1, "{}"), "a.trace: header: version 1 of the format, want 2: record it " +
			"again"},
		{"huge header", u32(u32([]byte(magic), version), 1<<31), "header: 2147483648 bytes of " +
			"description"},
		{"no JSON", head(version, "[["), "header: "},
		{"two objects", head(version, "{}{}"), "more than one JSON object"},
		{"digest", head(version, `{"digest":"md5"}`),
			`digest "md5" is not known, want one of xxh64, sha256, xxh3`},
		{"unknown key", head(version, `{"engines":"x"}`), `unknown field "engines"`},
		{"no schema", head(version, `{}`), `schema "": 0 stages`},
		{"type", described(func(s *schema.Schema) { s.Stages[0].Type = "float16" }),
			`stage "action": type "float16" is not known`},
		{"shape", described(func(s *schema.Schema) {
			s.Stages[1].Shape = []int{1 << 30, 1 << 30}
		}), "524288 bytes at most"},
		{"no dimension", described(func(s *schema.Schema) { s.Stages[1].Shape = []int{0} }),
			"dimensions of 1 and more"},
		{"name twice", described(func(s *schema.Schema) { s.Stages[1].Name = "action" }),
			"another's"},
		{"name that a terminal obeys",
			described(func(s *schema.Schema) { s.Stages[1].Name = "\x1b[2J" }), "characters " +
				"that cannot be printed"},
		{
			"from later",
			described(func(s *schema.Schema) {
				s.Stages[0].From = []schema.Input{schema.Same("tokens")}
			}),
			"is not there yet",
		},
		{"many stages", described(func(s *schema.Schema) {
			s.Stages = slices.Repeat(s.Stages, 7)
		}), "35 stages"},
		{"no end", ok, fmt.Sprintf("a.trace: record 1 at offset %d: the file is cut off here",
			len(ok))},
		{"huge record", append(ok, 'S', 255, 255, 255, 255), "a record of 4294967295 bytes"},
		{"long record", append(ok, 'S', 1, 0, 16, 0), "a record of 1048577 bytes, want 4 at " +
			"least and 1048576 at most"},
		{"empty record", append(ok, 'S', 0, 0, 0, 0), "a record of 0 bytes"},
		{"unknown kind", file(rec('Q', u32(nil, 0))), "rollout 0 is not under way"},
		{"unknown kind of a rollout", file(first, rec('Q', u32(nil, 0))),
			`a record of unknown kind 'Q'`},
		{"begins out of order", file(begin(1, `{"key":["a","b"]}`)), "rollout 1 begins, want 0 " +
			"next"},
		{"begin is no JSON", file(begin(0, "{")), "a JSON object that is cut off"},
		{"unknown key of a rollout", file(begin(0, `{"key":["a","b"],"rows":1}`)),
			`unknown field "rows"`},
		{"key", file(begin(0, `{"key":["a"]}`)), "a key of 1 words, want [start policy]"},
		{"step before begin", file(st(0, 20, 0)), "rollout 0 is not under way"},
		{"short step", file(first, rec('S', u32(nil, 0))), "too short"},
		{"unknown stages", file(first, st(0, 20, 1<<30)), "flags 0000000040000000 name stages " +
			"that are not in the schema"},
		{"mode", file(first, st(0, 20, 3<<2)), "stage tokens cannot be held in mode 3"},
		{"a number's hash", file(first, st(0, 20, 1)), "stage action cannot be held in mode 1"},
		{"array too short", file(first, st(0, 20, 2<<2, make([]byte, 159)...)), "stage tokens: " +
			"159 bytes are left of the record, want 160"},
		{"step too long", file(first, st(0, 20, 0, 0)), "1 bytes too many"},
		{"negative step", file(first, st(0, 1<<31, 0)), "step 2147483648"},
		{"step twice", file(first, st(0, 20, 0), st(0, 20, 0)), "step 20 after step 20"},
		{"ends with other steps", file(first, end(0, 1, 0)), "ends after 1 steps, the trace " +
			"holds 0"},
		{"end without its outcome", file(first, end(0, 0, 1)), "an end record of 0 bytes after " +
			"flags 01"},
		{"end with more", file(first, end(0, 0, 0, 1)), "an end record of 1 bytes after flags 00"},
		{"short end", file(first, rec('E', u32(nil, 0))), "too short"},
		{"after its end", file(first, end(0, 0, 0), st(0, 20, 0)), "rollout 0 is not under way"},
		{"not ended", file(first, closed(1, 0)), "rollout 0 was not ended"},
		{"rollouts", file(closed(1, 0)), "the trace holds 0 rollouts, its end says 1"},
		{"steps", file(closed(0, 1)), "the trace holds 0 steps, its end says 1"},
		{"checksum", file(closed(0, 0)), "the file is damaged: its checksum is "},
		{"file end", file(rec('Z', u32(nil, 0))), "an end of 4 bytes, want 16"},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := allocated()
			err := read(c.data)
			if grown := allocated() - before; grown > 4<<20 {
				t.Errorf("%d bytes were allocated for a file of %d", grown, len(c.data))
			}
			if err == nil || !strings.HasPrefix(err.Error(), "a.trace: ") ||
				!strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// TestConcurrent writes many rollouts at once.
func TestConcurrent(t *testing.T) {
	rollouts := invent(rand.New(rand.NewPCG(5, 5)), 16, 30)
	path := filepath.Join(t.TempDir(), "a.trace")
	err := WriteFile(path, header(Header{}), 0, func(w *Writer) error {
		var all sync.WaitGroup
		for _, r := range rollouts {
			all.Go(func() {
				o := w.Begin(r.about)
				for _, s := range r.steps {
					o.Observe(s)
				}
				o.End(r.outcome, r.err)
			})
		}
		all.Wait()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if len(f.Rollouts) != len(rollouts) {
		t.Fatalf("%d rollouts, want %d", len(f.Rollouts), len(rollouts))
	}
	for _, got := range f.Rollouts {
		i := slices.IndexFunc(
			rollouts, func(r rolled) bool { return slices.Equal(r.about.Key, got.Key) },
		)
		for k, s := range rollouts[i].steps {
			if d := got.Digests.At(k); !slices.Equal(d.Bits, s.Bits) || d.Has != s.Has {
				t.Fatalf("%s, step %d: %+v, want %+v", got.Name(), s.Index, d, s)
			}
		}
	}
}

// exclusive is a file that two goroutines must not write at once.
type exclusive struct{ busy, overlaps atomic.Int32 }

func (w *exclusive) Write(p []byte) (int, error) {
	if !w.busy.CompareAndSwap(0, 1) {
		w.overlaps.Add(1)
	}
	runtime.Gosched()
	w.busy.Store(0)
	return len(p), nil
}

// TestExclusive: records are written one after the other, whoever writes them.
func TestExclusive(t *testing.T) {
	rollouts := invent(rand.New(rand.NewPCG(5, 6)), 16, 30)
	file := new(exclusive)
	w, err := NewWriter(file, header(Header{}), 0)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for _, r := range rollouts {
		all.Go(func() {
			o := w.Begin(r.about)
			for _, s := range r.steps {
				o.Observe(s)
			}
			o.End(r.outcome, r.err)
		})
	}
	all.Wait()
	if err := w.Close(); err != nil || file.overlaps.Load() > 0 {
		t.Errorf("%v, %d overlaps", err, file.overlaps.Load())
	}
}

// failing is a disk that is full after some bytes.
type failing struct{ left int }

func (w *failing) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, errors.New("disk full")
	}
	return len(p), nil
}

// TestWriterErrors: what goes wrong while a trace is written is said at its end, and
// no file appears.
func TestWriterErrors(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	good := invent(random, 1, 3)
	for left := 0; left < 1400; left += 100 {
		if err := write(&failing{left}, Header{}, everything, good, random); err == nil ||
			err.Error() != "disk full" {
			t.Errorf("a disk full after %d bytes: %v", left, err)
		}
	}
	for name, c := range map[string]struct {
		record func(*Writer) error
		want   string
	}{
		"not ended": {func(w *Writer) error { w.Begin(good[0].about); return nil }, "1 rollouts " +
			"of the trace were not ended"},
		"wrong length": {func(w *Writer) error {
			o := w.Begin(good[0].about)
			s := step(20, everything, random)
			s.Data[1] = s.Data[1][1:]
			o.Observe(s)
			o.End(nil, nil)
			return nil
		}, "00000/pid, step 20: stage tokens has 159 bytes, want 160"},
		"outcome": {func(w *Writer) error {
			w.Begin(good[0].about).End([]float64{1}, nil)
			return nil
		}, "00000/pid: an outcome of 1 numbers, want 2"},
		"key": {func(w *Writer) error {
			w.Begin(Rollout{Key: []string{"a"}}).End(nil, nil)
			return nil
		}, "a: a key of 1 words, want [start policy]"},
		"another word when it is read": {func(w *Writer) error {
			w.Begin(Rollout{Key: []string{"a\xff", "pid"}}).End(nil, nil)
			return nil
		}, `rollout "a\xff" is no UTF-8, and would be read as another: rename it`},
		"another last word": {func(w *Writer) error {
			w.Begin(Rollout{Key: []string{"a", "\xffpid"}}).End(nil, nil)
			return nil
		}, `rollout "\xffpid" is no UTF-8, and would be read as another: rename it`},
		"order": {func(w *Writer) error {
			o := w.Begin(good[0].about)
			o.Observe(step(21, everything, random))
			o.Observe(step(20, everything, random))
			o.End(nil, nil)
			return nil
		}, "00000/pid: step 20 after step 21"},
		"ended twice": {func(w *Writer) error {
			o := w.Begin(good[0].about)
			o.End(nil, nil)
			o.End(nil, errors.New("twice"))
			return nil
		}, "00000/pid: ended twice"},
		"ended twice beside another": {func(w *Writer) error {
			o := w.Begin(good[0].about)
			w.Begin(good[0].about)
			o.End(nil, nil)
			o.End(nil, nil)
			return nil
		}, "00000/pid: ended twice"},
		"a step after the end": {func(w *Writer) error {
			o := w.Begin(good[0].about)
			o.End(nil, nil)
			o.Observe(step(20, everything, random))
			return nil
		}, "00000/pid: step 20 after its end"},
		"their own": {func(w *Writer) error { return errors.New("mine") }, "mine"},
	} {
		path := filepath.Join(t.TempDir(), "a.trace")
		if err := WriteFile(path, header(Header{}), everything, c.record); err == nil ||
			err.Error() != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: a file appeared: %v", name, err)
		}
	}
}

// TestLongest: a record of as many bytes as readers take is written, and none that has one more; of
// an error that is longer than that its beginning.
func TestLongest(t *testing.T) {
	failure := errors.New(strings.Repeat("it failed", maxRecord))
	for _, more := range []int{0, 1} {
		h := Header{Schema: schema.Schema{
			Name: "long", Key: []string{"start"}, Outcome: schema.Outcome{Name: "result"},
			Stages: []schema.Stage{
				{Name: "a", Type: "uint8", Shape: []int{maxRecord / 2}},
				{Name: "b", Type: "uint8", Shape: []int{maxRecord/2 - 16 + more}},
			},
		}}
		path := filepath.Join(t.TempDir(), "a.trace")
		err := WriteFile(path, h, h.Schema.Arrays(), func(w *Writer) error {
			s, r := h.Schema.NewStep(), w.Begin(Rollout{Key: []string{"long"}})
			for i := range s.Data {
				s.Data[i] = make([]byte, h.Schema.Stages[i].Size())
			}
			r.Observe(s)
			r.End(nil, nil)
			w.Begin(Rollout{Key: []string{"failed"}}).End(nil, failure)
			return nil
		})
		if more > 0 {
			if err == nil ||
				err.Error() != "long: a record of 1048577 bytes, want 1048576 at most" {
				t.Error(err)
			}
			continue
		}
		f, open := Open(path)
		if err := errors.Join(err, open); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Step(f.Rollouts[0], 0); err != nil {
			t.Error(err)
		}
		if kept := f.Rollouts[1].End.Error; len(kept) < 1000 ||
			!strings.HasPrefix(failure.Error(), kept) {
			t.Errorf("of a long error %d bytes are kept: %.20q", len(kept), kept)
		}
		f.Close()
	}
}

// TestRehash: digests of another kind can be made of full arrays, and only of them.
func TestRehash(t *testing.T) {
	random := rand.New(rand.NewPCG(6, 6))
	rollouts := invent(random, 2, 3)
	rollouts[0].steps[1] = step(21, everything, random)
	for _, full := range []schema.StageSet{everything, everything &^ drift.Set("states")} {
		var x, s bytes.Buffer
		order := func() *rand.Rand { return rand.New(rand.NewPCG(1, 1)) }
		if err := errors.Join(write(&x, Header{}, full, rollouts, order()),
			write(&s, Header{Digest: schema.SHA256}, full, rollouts, order())); err != nil {
			t.Fatal(err)
		}
		a, err := NewFile(bytes.NewReader(x.Bytes()), "a.trace")
		if err != nil {
			t.Fatal(err)
		}
		b, err := NewFile(bytes.NewReader(s.Bytes()), "b.trace")
		if err != nil {
			t.Fatal(err)
		}
		a.at = bytes.NewReader(x.Bytes()[:x.Len()-1])
		if err := a.Rehash(schema.SHA256); err == nil || a.Digest() != schema.XXH64 ||
			len(a.Rollouts) != 2 ||
			a.Header.Schema.Name == "" {
			t.Errorf(
				"%v, and digests of kind %s of %d rollouts; want an error, and all as it was", err,
				a.Digest(), len(a.Rollouts),
			)
		}
		a.at = bytes.NewReader(x.Bytes())
		err = a.Rehash(schema.SHA256)
		if full != everything {
			if err == nil ||
				!strings.Contains(err.Error(), "a.trace holds digests of kind xxh64, not sha256") ||
				a.Hashed != drift.Set("states") {
				t.Errorf("%v, %b; want an error that names the file, and states", err, a.Hashed)
			}
			continue
		}
		if err != nil || a.Digest() != schema.SHA256 {
			t.Fatal(err)
		}
		holdSteps(t, a, b)
	}
}

// holdSteps holds the digests of a file to another's, and the steps that are read again.
func holdSteps(t *testing.T, a, b *File) {
	t.Helper()
	for i := range a.Rollouts {
		for k := range a.Rollouts[i].Digests.Len() {
			if diff := cmp.Diff(b.Rollouts[i].Digests.At(k),
				a.Rollouts[i].Digests.At(k)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			want, err := b.Step(b.Rollouts[i], k)
			if err != nil {
				t.Fatal(err)
			}
			got, err := a.Step(a.Rollouts[i], k)
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("read again: %v (-want +got):\n%s", err, diff)
			}
		}
	}
}

// lent is a reader that is not to be closed by whom it is lent to.
type lent struct {
	*bytes.Reader
	closed int
}

func (l *lent) Close() error { l.closed++; return nil }

// TestLent: a reader stays its caller's, and what cannot be read is no file.
func TestLent(t *testing.T) {
	var b bytes.Buffer
	random := rand.New(rand.NewPCG(7, 7))
	if err := write(&b, Header{}, everything, invent(random, 2, 3), random); err != nil {
		t.Fatal(err)
	}
	data := b.Bytes()
	l := &lent{Reader: bytes.NewReader(data)}
	f, err := NewFile(l, "a.trace")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil || l.closed > 0 {
		t.Errorf("closed %d times: %v", l.closed, err)
	}
	if f, err := NewFile(bytes.NewReader(data[:len(data)-1]), "a.trace"); f != nil || err == nil {
		t.Errorf("%v beside %v", f, err)
	}
	path := filepath.Join(t.TempDir(), "a.trace")
	if err := os.WriteFile(path, data[:len(data)-1], 0o666); err != nil {
		t.Fatal(err)
	}
	if f, err := Open(path); f != nil || err == nil {
		t.Errorf("%v beside %v", f, err)
	}
	simtest.Closed(t, path)
	if err := os.WriteFile(path, data, 0o666); err != nil {
		t.Fatal(err)
	}
	if f, err = Open(path); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Rehash(schema.SHA256), f.Close()); err != nil {
		t.Error(err)
	}
	if err := f.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after it was closed: %v", err)
	}
}

// TestLongValue: what is wrong with a long value is a line that names its key.
func TestLongValue(t *testing.T) {
	for text, want := range map[string]string{
		`{"schema": {"first": ` + strings.Repeat("9", 1000) + `}}`: "Schema.schema.first of " +
			"type int",
		`{"schema": {"first": ` + strings.Repeat("ä", 1000) + `}}`: "invalid character 'Ã'",
		`{"` + strings.Repeat("ä", 1000) + `": 1}`:                 `unknown field "ää`,
	} {
		err := unmarshal([]byte(text), new(Header))
		if err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 500 ||
			!utf8.ValidString(err.Error()) {
			t.Errorf("%v; want %s", err, want)
		}
	}
}

// behind is a file that has 8 GiB before its first byte.
type behind struct{ io.ReaderAt }

func (b behind) ReadAt(p []byte, at int64) (int, error) { return b.ReaderAt.ReadAt(p, at-1<<33) }

// TestChangedFile: a file that is replaced while it is open is noticed when its
// steps are read, whichever bit is another.
func TestChangedFile(t *testing.T) {
	data := small(t)
	f, err := NewFile(bytes.NewReader(data), "a.trace")
	if err != nil {
		t.Fatal(err)
	}
	r := f.Rollouts[1]
	want, err := f.Step(r, 1)
	if err != nil {
		t.Fatal(err)
	}
	far := *f // as if 8 GiB stood before it
	r.offsets[1], far.at = r.offsets[1]+1<<33, behind{f.at}
	if got, err := far.Step(r, 1); err != nil || !cmp.Equal(want, got) {
		t.Errorf("behind 8 GiB: %v, %s", err, cmp.Diff(want, got))
	}
	r.offsets[1] -= 1 << 33
	end := r.offsets[1] + 5 + int64(binary.LittleEndian.Uint32(data[r.offsets[1]+1:]))
	for bit := 8 * r.offsets[1]; bit < 8*end; bit++ {
		data[bit/8] ^= 1 << (bit % 8)
		if got, err := f.Step(r, 1); err == nil && !cmp.Equal(want, got) {
			t.Errorf("bit %d of the step: %s", bit-8*r.offsets[1], cmp.Diff(want, got))
		}
		data[bit/8] ^= 1 << (bit % 8)
	}
	data[r.offsets[1]] = 'E'
	at := fmt.Sprintf("a.trace: step 21 of 00001/pid at offset %d: ", r.offsets[1])
	if _, err := f.Step(r, 1); err == nil || !strings.Contains(err.Error(), at) ||
		!strings.Contains(err.Error(), "has changed") {
		t.Errorf("%v", err)
	}
	f.at = bytes.NewReader(data[:r.offsets[1]+2])
	if _, err := f.Step(r, 1); err == nil || !strings.Contains(err.Error(), "cut off") {
		t.Errorf("%v", err)
	}
}

// TestWriterMemory: a rollout that is under way holds no buffer, however many are.
func TestWriterMemory(t *testing.T) {
	w, err := NewWriter(io.Discard, Header{Schema: drift}, everything)
	if err != nil {
		t.Fatal(err)
	}
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC() // a pool is emptied by the second
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	s := step(20, everything, rand.New(rand.NewPCG(1, 1)))
	writers := make([]*RolloutWriter, 5000)
	before := heap()
	for i := range writers {
		writers[i] = w.Begin(Rollout{Key: []string{"a", "b"}})
		writers[i].Observe(s)
	}
	if each := (heap() - before) / uint64(len(writers)); each > 200 { // a record has 500
		t.Errorf("%d bytes for each rollout", each)
	}
	runtime.KeepAlive(writers)
}

// counted is a file that counts how often it is read.
type counted struct {
	io.ReaderAt
	reads int
}

func (c *counted) ReadAt(b []byte, offset int64) (int, error) {
	c.reads++
	return c.ReaderAt.ReadAt(b, offset)
}

// TestReads: a trace is read in pieces that are much larger than its records, of which each would
// be a call of the system.
func TestReads(t *testing.T) {
	random := rand.New(rand.NewPCG(4, 4))
	const rollouts, steps = 10, 100
	var b bytes.Buffer
	if err := write(&b, Header{}, 0, invent(random, rollouts, steps), random); err != nil {
		t.Fatal(err)
	}
	file := &counted{ReaderAt: bytes.NewReader(b.Bytes())}
	if _, err := NewFile(file, "a.trace"); err != nil || file.reads > rollouts*steps/50 {
		t.Errorf("%v; %d bytes, %d records of steps are read in %d pieces", err, b.Len(),
			rollouts*steps, file.reads)
	}
}
