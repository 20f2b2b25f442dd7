package trace

import (
	"bytes"
	"encoding/binary"
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

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"lockstep"
	"lockstep/golden"
)

// bitwise compares floats as bit patterns.
var bitwise = cmp.Options{
	cmp.Comparer(func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }),
	cmp.Comparer(func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }),
	cmp.AllowUnexported(Recording{}),
}

// noise makes n values of any bit patterns.
func noise[T any](n int, random *rand.Rand, value func(uint64) T) []T {
	out := make([]T, n)
	for i := range out {
		out[i] = value(random.Uint64())
	}
	return out
}

func float32of(u uint64) float32 { return math.Float32frombits(uint32(u)) }

// step makes a step of any bit patterns; without the network it is one that was
// skipped.
func step(index int, network bool, random *rand.Rand) *lockstep.Step {
	s := &lockstep.Step{
		Index:    index,
		Action:   math.Float64frombits(random.Uint64()),
		Draw:     random.Float64(),
		Sample:   -1,
		Lataccel: math.Float64frombits(random.Uint64()),
	}
	if network {
		s.Tokens = noise(lockstep.ContextLength, random, func(u uint64) int64 { return int64(u) })
		s.States = noise(4*lockstep.ContextLength, random, float32of)
		s.Logits = noise(lockstep.VocabSize, random, float32of)
		s.Probs = noise(lockstep.VocabSize, random, float32of)
		s.CDF = noise(lockstep.VocabSize, random, math.Float64frombits)
		s.Sample = random.IntN(lockstep.VocabSize)
		s.Prediction = math.Float64frombits(random.Uint64())
	}
	return s
}

// route makes a route of any bit patterns.
func route(name string, random *rand.Rand) *lockstep.Route {
	column := func() []float64 { return noise(lockstep.MinRows, random, math.Float64frombits) }
	return &lockstep.Route{Name: name, Seed: uint32(random.IntN(10000)), RollLataccel: column(), VEgo: column(), AEgo: column(), TargetLataccel: column(), SteerCommand: column()}
}

// rolled is a rollout as it was shown to a writer.
type rolled struct {
	job    lockstep.Job
	steps  []*lockstep.Step
	result lockstep.Result
}

func invent(random *rand.Rand, rollouts, steps int) []rolled {
	var all []rolled
	for i := range rollouts {
		r := rolled{job: lockstep.Job{Route: route(fmt.Sprintf("%05d", i), random), Policy: lockstep.DefaultPID}}
		for k := range steps {
			r.steps = append(r.steps, step(lockstep.ContextLength+k, random.IntN(3) > 0, random))
		}
		if random.IntN(4) == 0 {
			r.result.Err = errors.New("step 30: it broke")
		} else {
			r.result.Costs = lockstep.Costs{Lataccel: math.Float64frombits(random.Uint64()), Jerk: math.NaN(), Total: random.Float64()}
		}
		all = append(all, r)
	}
	return all
}

// write writes rollouts whose records alternate.
func write(w io.Writer, h Header, full Stages, rollouts []rolled, order *rand.Rand) error {
	t, err := NewWriter(w, h, full)
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
					writers[k] = t.Begin(Of(rollouts[k].job))
				}
			}
		case next[i] < len(r.steps):
			writers[i].Observe(r.steps[next[i]])
			next[i]++
		case next[i] == len(r.steps):
			writers[i].End(r.result)
			next[i]++
			left--
		}
	}
	return t.Close()
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		rollouts := invent(random, rapid.IntRange(0, 4).Draw(t, "rollouts"), rapid.IntRange(0, 5).Draw(t, "steps"))
		full := Stages(rapid.Uint16().Draw(t, "full"))
		profile := lockstep.Profile{}.String()
		h := Header{Producer: "test", Engine: "e", Profile: profile, ModelSHA256: "00", Digest: Hash(rapid.IntRange(0, 1).Draw(t, "digest")), Shortcuts: Shortcuts(lockstep.CostOnly), Comment: "ä"}
		var b bytes.Buffer
		if err := write(&b, h, full, rollouts, random); err != nil {
			t.Fatal(err)
		}
		f, err := NewFile(bytes.NewReader(b.Bytes()), "a.trace")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(h, f.Header); diff != "" {
			t.Fatalf("header (-want +got):\n%s", diff)
		}
		if len(f.Rollouts) != len(rollouts) {
			t.Fatalf("%d rollouts, want %d", len(f.Rollouts), len(rollouts))
		}
		for i, r := range rollouts {
			got := f.Rollouts[i]
			if diff := cmp.Diff(Of(r.job), got.Rollout); diff != "" {
				t.Fatalf("rollout (-want +got):\n%s", diff)
			}
			rolling := uint64(0)
			for k, s := range r.steps {
				var want Step
				want.Of(s, h.Digest)
				rolling = h.Digest.Roll(rolling, &want.Digest)
				for stage, cut := range map[Stage]func(){
					Tokens: func() { want.Tokens = nil }, States: func() { want.States = nil },
					Logits: func() { want.Logits = nil }, Probs: func() { want.Probs = nil }, CDF: func() { want.CDF = nil },
				} {
					if !full.Has(stage) {
						cut()
					}
				}
				have, err := f.Step(got, k)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(&want, have, bitwise); diff != "" {
					t.Fatalf("step %d (-want +got):\n%s", s.Index, diff)
				}
			}
			end := End{Steps: len(r.steps), Rolling: (*Hex)(&rolling)}
			if r.result.Err != nil {
				end.Error = r.result.Err.Error()
			} else {
				end.Costs = &r.result.Costs
			}
			if diff := cmp.Diff(end, got.End, bitwise); diff != "" {
				t.Fatalf("end (-want +got):\n%s", diff)
			}
		}
	})
}

// TestDigest: of what a digest is, by hand and as goldens have it.
func TestDigest(t *testing.T) {
	logits := []float32{1, -2, float32(math.Inf(1))}
	cdf := []float64{0.25, math.Copysign(0, -1)}
	if got, want := SHA256.Bytes(bytesOf(logits)), golden.Hash(logits); got != want {
		t.Errorf("sha256 of float32: %016x, golden %016x", got, want)
	}
	if got, want := SHA256.Bytes(bytesOf(cdf)), golden.Hash(cdf); got != want {
		t.Errorf("sha256 of float64: %016x, golden %016x", got, want)
	}
	// The reference implementation's own test vectors.
	for text, want := range map[string]uint64{"": 0xef46db3751d8e999, "a": 0xd24ec4f1a98c6e5b, "abc": 0x44bc2cf5ad770999} {
		if got := XXH64.Bytes([]byte(text)); got != want {
			t.Errorf("xxh64 of %q: %016x, want %016x", text, got, want)
		}
	}
	// As it would be on a machine of the other byte order.
	was := littleEndian
	defer func() { littleEndian = was }()
	fast := [][]byte{bytesOf(logits), bytesOf(cdf), bytesOf([]int64{1, -1})}
	littleEndian = false
	slow := [][]byte{bytesOf(logits), bytesOf(cdf), bytesOf([]int64{1, -1})}
	if diff := cmp.Diff(fast, slow); diff != "" {
		t.Errorf("the bytes depend on the machine's order:\n%s", diff)
	}
}

// TestRoll: a bit of any stage, a stage more or less, and the step count in the
// rolling hash.
func TestRoll(t *testing.T) {
	var s Step
	s.Of(step(20, true, rand.New(rand.NewPCG(1, 1))), XXH64)
	want := XXH64.Roll(7, &s.Digest)
	changes := map[string]func(d *Digest){
		"index": func(d *Digest) { d.Index++ }, "action": func(d *Digest) { d.Action = -d.Action }, "draw": func(d *Digest) { d.Draw++ },
		"sample": func(d *Digest) { d.Sample ^= 1 }, "prediction": func(d *Digest) { d.Prediction = -d.Prediction }, "lataccel": func(d *Digest) { d.Lataccel = -d.Lataccel },
		"tokens": func(d *Digest) { d.Tokens ^= 1 }, "states": func(d *Digest) { d.States ^= 1 }, "logits": func(d *Digest) { d.Logits ^= 1 },
		"probs": func(d *Digest) { d.Probs ^= 1 }, "cdf": func(d *Digest) { d.CDF ^= 1 }, "has": func(d *Digest) { d.Has &^= Set(Logits) },
	}
	seen := map[uint64]string{want: "nothing", XXH64.Roll(8, &s.Digest): "the hash before"}
	for name, change := range changes {
		d := s.Digest
		change(&d)
		h := XXH64.Roll(7, &d)
		if other, twice := seen[h]; twice {
			t.Errorf("%s counts no more than %s", name, other)
		}
		seen[h] = name
	}
}

// TestRollStages: the same value of another stage is not the same.
func TestRollStages(t *testing.T) {
	a, b := Digest{Has: Set(Logits), Logits: 5}, Digest{Has: Set(Probs), Probs: 5}
	if XXH64.Roll(0, &a) == XXH64.Roll(0, &b) {
		t.Error("logits and probs have the same hash")
	}
}

// small is a trace with every kind of record.
func small(t testing.TB) []byte {
	t.Helper()
	random := rand.New(rand.NewPCG(3, 3))
	rollouts := invent(random, 2, 2)
	rollouts[0].result = lockstep.Result{Costs: lockstep.Costs{Lataccel: 1, Jerk: 2, Total: 52}}
	rollouts[1].result = lockstep.Result{Err: errors.New("broke")}
	rollouts[1].steps[1] = step(21, true, random)
	var b bytes.Buffer
	if err := write(&b, Header{Engine: "e"}, Set(Tokens), rollouts, random); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func read(data []byte) error {
	_, err := NewFile(bytes.NewReader(data), "a.trace")
	return err
}

// TestCut: a trace that is cut off anywhere is found to be.
func TestCut(t *testing.T) {
	data := small(t)
	if err := read(data); err != nil {
		t.Fatal(err)
	}
	for n := range data {
		err := read(data[:n])
		var e *Error
		if !errors.As(err, &e) || e.File != "a.trace" {
			t.Fatalf("%d of %d bytes: %v", n, len(data), err)
		}
		if n >= 16 && !strings.Contains(err.Error(), "cut off") {
			t.Errorf("%d of %d bytes: %v, want that it is cut off", n, len(data), err)
		}
	}
	if err := read(append(bytes.Clone(data), 0)); err == nil || !strings.Contains(err.Error(), "more follows") {
		t.Errorf("one byte more: %v", err)
	}
}

// TestFlippedBits: a bit of a step that is flipped anywhere behind the header is
// found, by the structure or by the rolling hash. Bits of a description or of an error's
// text may go unnoticed, those of costs do.
func TestFlippedBits(t *testing.T) {
	data := small(t)
	at := len(magic) + 8 + int(binary.LittleEndian.Uint32(data[12:]))
	for pos := at; pos < len(data); {
		kind, n := data[pos], int(binary.LittleEndian.Uint32(data[pos+1:]))
		for k := range 5 + n {
			for bit := range 8 {
				changed := bytes.Clone(data)
				changed[pos+k] ^= 1 << bit
				if err := read(changed); err == nil && (kind == kindStep || k < 5) {
					t.Fatalf("record %c at %d: bit %d of byte %d flipped, and nothing said", kind, pos, bit, k)
				}
			}
		}
		pos += 5 + n
	}
}

// TestHostile: files that lie about their sizes and counts. The message names what
// is wrong, and where.
func TestHostile(t *testing.T) {
	u32, u64 := binary.LittleEndian.AppendUint32, binary.LittleEndian.AppendUint64
	head := func(version, n uint32, text string) []byte {
		return append(u32(u32([]byte(magic), version), n), text...)
	}
	ok := slices.Clip(head(1, 2, "{}"))
	rec := func(kind byte, parts ...[]byte) []byte {
		p := bytes.Join(parts, nil)
		return append(u32([]byte{kind}, uint32(len(p))), p...)
	}
	begin := func(id uint32, text string) []byte { return rec('B', u32(nil, id), []byte(text)) }
	st := func(id, index, flags uint32, values ...byte) []byte {
		return rec('S', u32(u32(u32(nil, id), index), flags), values)
	}
	end := func(id, steps uint32, has byte, values ...byte) []byte {
		return rec('E', u32(u32(nil, id), steps), []byte{has}, values)
	}
	for _, c := range []struct {
		name string
		data []byte
		want string
	}{
		{"empty", nil, `a.trace: header: not a trace: it does not begin with "lstrace\n"`},
		{"other magic", []byte("PK\x03\x04............"), `a.trace: header: not a trace`},
		{"version", head(2, 2, "{}"), "a.trace: header: version 2 of the format, want 1"},
		{"huge header", head(1, 1<<31, "{}"), "header: 2147483648 bytes of description"},
		{"no JSON", head(1, 2, "[["), "header: "},
		{"digest", head(1, 16, `{"digest":"md5"}`), `digest "md5" is not known, want xxh64 or sha256`},
		{"no end", ok, "a.trace: record 1 at offset 18: the file is cut off here"},
		{"huge record", append(ok, 'S', 255, 255, 255, 255), "a.trace: record 1 at offset 18: a record of 4294967295 bytes"},
		{"empty record", append(ok, 'S', 0, 0, 0, 0), "a record of 0 bytes"},
		{"unknown kind", append(ok, rec('Q', u32(nil, 0))...), "rollout 0 is not under way"},
		{"unknown kind of a rollout", bytes.Join([][]byte{ok, begin(0, "{}"), rec('Q', u32(nil, 0))}, nil), `record 2 at offset 29: a record of unknown kind 'Q'`},
		{"begins out of order", append(ok, begin(1, "{}")...), "rollout 1 begins, want 0 next"},
		{"begin is no JSON", append(ok, begin(0, "{")...), "record 1 at offset 18: unexpected end of JSON"},
		{"columns", append(ok, begin(0, `{"columns":["0000000000000000"]}`)...), "hashes of 1 columns, want 5"},
		{"column", append(ok, begin(0, `{"columns":["00000000000000000"]}`)...), "want 16 hexadecimal digits"},
		{"step before begin", append(ok, st(0, 20, 0)...), "rollout 0 is not under way"},
		{"short step", bytes.Join([][]byte{ok, begin(0, "{}"), rec('S', u32(nil, 0))}, nil), "too short"},
		{"unknown stages", bytes.Join([][]byte{ok, begin(0, "{}"), st(0, 20, 1<<30)}, nil), "flags 40000000 name stages that are not known"},
		{"the route", bytes.Join([][]byte{ok, begin(0, "{}"), st(0, 20, 2)}, nil), "not known"},
		{"mode", bytes.Join([][]byte{ok, begin(0, "{}"), st(0, 20, 3<<(2*Logits))}, nil), "stage logits cannot be held in mode 3"},
		{"a scalar's hash", bytes.Join([][]byte{ok, begin(0, "{}"), st(0, 20, 1<<(2*Draw))}, nil), "stage draw cannot be held in mode 1"},
		{"array too short", bytes.Join([][]byte{ok, begin(0, "{}"), st(0, 20, 2<<(2*CDF), make([]byte, 8191)...)}, nil), "stage cdf: 8191 bytes are left of the record, want 8192"},
		{"step too long", bytes.Join([][]byte{ok, begin(0, "{}"), st(0, 20, 0, 0)}, nil), "1 bytes too many"},
		{"negative step", bytes.Join([][]byte{ok, begin(0, "{}"), st(0, 1<<31, 0)}, nil), "step 2147483648"},
		{"step twice", bytes.Join([][]byte{ok, begin(0, "{}"), st(0, 20, 0), st(0, 20, 0)}, nil), "step 20 after step 20"},
		{"ends with other steps", bytes.Join([][]byte{ok, begin(0, "{}"), end(0, 1, 0)}, nil), "ends after 1 steps, the trace holds 0"},
		{"other rolling hash", bytes.Join([][]byte{ok, begin(0, "{}"), end(0, 0, 2, u64(nil, 9)...)}, nil), "has rolling hash 0000000000000000, its end says 0000000000000009"},
		{"end without its costs", bytes.Join([][]byte{ok, begin(0, "{}"), end(0, 0, 1)}, nil), "an end record of 0 bytes after flags 01"},
		{"end with more", bytes.Join([][]byte{ok, begin(0, "{}"), end(0, 0, 0, 1)}, nil), "an end record of 1 bytes after flags 00"},
		{"short end", bytes.Join([][]byte{ok, begin(0, "{}"), rec('E', u32(nil, 0))}, nil), "too short"},
		{"after its end", bytes.Join([][]byte{ok, begin(0, "{}"), end(0, 0, 0), st(0, 20, 0)}, nil), "rollout 0 is not under way"},
		{"not ended", bytes.Join([][]byte{ok, begin(0, "{}"), rec('Z', u32(nil, 1), u64(nil, 0))}, nil), "rollout 0 was not ended"},
		{"rollouts", append(ok, rec('Z', u32(nil, 1), u64(nil, 0))...), "the trace holds 0 rollouts, its end says 1"},
		{"steps", append(ok, rec('Z', u32(nil, 0), u64(nil, 1))...), "the trace holds 0 steps, its end says 1"},
		{"file end", append(ok, rec('Z', u32(nil, 0))...), "an end of 4 bytes, want 12"},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := allocated()
			err := read(c.data)
			if grown := allocated() - before; grown > 4<<20 {
				t.Errorf("%d bytes were allocated for a file of %d", grown, len(c.data))
			}
			var e *Error
			if !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// TestConcurrent writes many rollouts at once.
func TestConcurrent(t *testing.T) {
	rollouts := invent(rand.New(rand.NewPCG(5, 5)), 16, 30)
	path := filepath.Join(t.TempDir(), "a.trace")
	err := WriteFile(path, Header{}, 0, func(w *Writer) error {
		var all sync.WaitGroup
		for _, r := range rollouts {
			all.Go(func() {
				o := w.Begin(Of(r.job))
				for _, s := range r.steps {
					o.Observe(s)
				}
				o.End(r.result)
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
		for _, r := range rollouts {
			if r.job.Route.Name != got.Route {
				continue
			}
			for k, s := range r.steps {
				var want Step
				want.Of(s, XXH64)
				if diff := cmp.Diff(want.Digest, got.Digests[k], bitwise); diff != "" {
					t.Fatalf("route %s, step %d:\n%s", got.Route, s.Index, diff)
				}
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
	w, err := NewWriter(file, Header{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for _, r := range rollouts {
		all.Go(func() {
			o := w.Begin(Of(r.job))
			for _, s := range r.steps {
				o.Observe(s)
			}
			o.End(r.result)
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
	for left := 0; left < 2000; left += 100 {
		if err := write(&failing{left}, Header{}, AllStages, good, random); err == nil || err.Error() != "disk full" {
			t.Errorf("a disk full after %d bytes: %v", left, err)
		}
	}
	for name, c := range map[string]struct {
		record func(*Writer) error
		want   string
	}{
		"not ended": {func(w *Writer) error { w.Begin(Of(good[0].job)); return nil }, "1 rollouts of the trace were not ended"},
		"wrong length": {func(w *Writer) error {
			o := w.Begin(Of(good[0].job))
			s := step(20, true, random)
			s.Logits = s.Logits[1:]
			o.Observe(s)
			o.End(lockstep.Result{})
			return nil
		}, "00000/pid, step 20: stage logits has 1023 values, want 1024"},
		"order": {func(w *Writer) error {
			o := w.Begin(Of(good[0].job))
			o.Observe(step(21, true, random))
			o.Observe(step(20, true, random))
			o.End(lockstep.Result{})
			return nil
		}, "00000/pid: step 20 after step 21"},
		"their own": {func(w *Writer) error { return errors.New("mine") }, "mine"},
	} {
		path := filepath.Join(t.TempDir(), "a.trace")
		if err := WriteFile(path, Header{}, AllStages, c.record); err == nil || err.Error() != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: a file appeared: %v", name, err)
		}
	}
}

// TestRehash: digests of another kind can be made of full arrays, and only of them.
func TestRehash(t *testing.T) {
	random := rand.New(rand.NewPCG(6, 6))
	rollouts := invent(random, 2, 3)
	for _, full := range []Stages{AllStages, Arrays &^ Set(CDF)} {
		var x, s bytes.Buffer
		order := func() *rand.Rand { return rand.New(rand.NewPCG(1, 1)) }
		if err := errors.Join(write(&x, Header{}, full, rollouts, order()), write(&s, Header{Digest: SHA256}, full, rollouts, order())); err != nil {
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
		err = a.Rehash(SHA256)
		if full != AllStages {
			if err == nil || !strings.Contains(err.Error(), "a.trace holds digests of kind xxh64, not sha256") || a.Hashed != Set(CDF) {
				t.Errorf("%v, %b; want an error that names the file, and cdf", err, a.Hashed)
			}
			continue
		}
		if err != nil || a.Digest() != SHA256 {
			t.Fatal(err)
		}
		for i := range a.Rollouts {
			if diff := cmp.Diff(b.Rollouts[i].Digests, a.Rollouts[i].Digests, bitwise); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(b.Rollouts[i].End, a.Rollouts[i].End, bitwise); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
	}
}

// TestChangedFile: a file that is replaced while it is open is noticed when its
// steps are read.
func TestChangedFile(t *testing.T) {
	data := small(t)
	f, err := NewFile(bytes.NewReader(data), "a.trace")
	if err != nil {
		t.Fatal(err)
	}
	r := f.Rollouts[1]
	data[r.offsets[1]] = 'E'
	if _, err := f.Step(r, 1); err == nil || !strings.Contains(err.Error(), "a.trace: step 21 of 00001/pid") || !strings.Contains(err.Error(), "has changed") {
		t.Errorf("%v", err)
	}
	f.at = bytes.NewReader(data[:r.offsets[1]+2])
	if _, err := f.Step(r, 1); err == nil || !strings.Contains(err.Error(), "cut off") {
		t.Errorf("%v", err)
	}
}
