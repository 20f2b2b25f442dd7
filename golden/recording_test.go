package golden_test

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"lockstep"
	"lockstep/golden"
	"lockstep/internal/npz"
	"lockstep/internal/recordtest"
)

// bitwise compares floats as bit patterns, so that NaN is NaN and -0 is not 0.
var bitwise = cmp.Options{
	cmp.Comparer(func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }),
	cmp.Comparer(func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }),
	cmpopts.EquateEmpty(),
}

// noise makes a slice of n values out of random numbers.
func noise[T any](n int, next func() uint64, value func(uint64) T) []T {
	out := make([]T, n)
	for i := range out {
		out[i] = value(next())
	}
	return out
}

func float32of(u uint64) float32 { return math.Float32frombits(uint32(u)) }

// generator returns pseudo-random numbers.
func generator(seed uint64) func() uint64 {
	return func() uint64 {
		seed = seed*6364136223846793005 + 1442695040888963407
		return seed ^ seed>>33
	}
}

// step makes a step of any bit patterns.
func step(index int, next func() uint64) *lockstep.Step {
	return &lockstep.Step{
		Index:      index,
		Action:     math.Float64frombits(next()),
		Tokens:     noise(lockstep.ContextLength, next, func(u uint64) int64 { return int64(u) }),
		States:     noise(4*lockstep.ContextLength, next, float32of),
		Logits:     noise(lockstep.VocabSize, next, float32of),
		Probs:      noise(lockstep.VocabSize, next, float32of),
		CDF:        noise(lockstep.VocabSize, next, math.Float64frombits),
		Draw:       math.Float64frombits(next()),
		Sample:     int(next() % lockstep.VocabSize),
		Prediction: math.Float64frombits(next()),
		Lataccel:   math.Float64frombits(next()),
	}
}

// route makes a route of any bit patterns.
func route(name string, next func() uint64) *lockstep.Route {
	column := func() []float64 { return noise(lockstep.MinRows, next, math.Float64frombits) }
	return &lockstep.Route{
		Name:           name,
		RollLataccel:   column(),
		VEgo:           column(),
		AEgo:           column(),
		TargetLataccel: column(),
		SteerCommand:   column(),
	}
}

// record makes a recording of that many steps.
func record(name string, steps int, next func() uint64) *golden.Recording {
	about := route(name, next)
	var all []*lockstep.Step
	for i := range steps {
		all = append(all, step(lockstep.ContextLength+i, next))
	}
	r := recordtest.Record(about, all...)
	r.Costs = lockstep.Costs{
		Lataccel: math.Float64frombits(next()),
		Jerk:     math.Float64frombits(next()),
		Total:    math.Float64frombits(next()),
	}
	return r
}

func TestRoundTrip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.npz")
	for what, change := range map[string]func(*golden.Recording){
		"its logits or probs do not have the hash that was recorded": func(r *golden.Recording) {
			r.Probs[lockstep.VocabSize] = -r.Probs[lockstep.VocabSize]
		},
		"step 22 follows step 22": func(r *golden.Recording) { r.FullSteps[3] = 22 },
		"step 24 follows step 22": func(r *golden.Recording) { r.FullSteps[3] = 24 },
	} {
		r := record("a", 4, generator(1))
		change(r)
		if err := recordtest.WriteFile(path, lockstep.Profile{}, r); err != nil {
			t.Fatal(err)
		}
		if _, err := golden.ReadFile(path); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%v, want %q", err, what)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		next := generator(rapid.Uint64().Draw(t, "seed"))
		var want []*golden.Recording
		for _, name := range rapid.SliceOfNDistinct(
			rapid.StringMatching(`[a-z0-9./ ]{0,6}`), 0, 3, rapid.ID,
		).Draw(t, "routes") {
			r := record(name, rapid.IntRange(0, 4).Draw(t, "steps"), next)
			// Keep some steps in full, as a golden does.
			var steps []int64
			var logits, probs []float32
			for i, at := range r.FullSteps {
				if rapid.Bool().Draw(t, "full") {
					steps = append(steps, at)
					logits = append(
						logits,
						r.Logits[i*lockstep.VocabSize:(i+1)*lockstep.VocabSize]...)
					probs = append(probs, r.Probs[i*lockstep.VocabSize:(i+1)*lockstep.VocabSize]...)
				}
			}
			r.FullSteps, r.Logits, r.Probs = steps, logits, probs
			want = append(want, r)
		}
		if err := recordtest.WriteFile(path, lockstep.Profile{}, want...); err != nil {
			t.Fatal(err)
		}
		got, err := golden.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(
			want, func(a, b *golden.Recording) int { return strings.Compare(a.Route, b.Route) },
		)
		if diff := cmp.Diff(want, got, bitwise); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

// TestObserve holds what is recorded to the steps it was made of.
func TestObserve(t *testing.T) {
	drive := route("r", generator(1))
	var steps []*lockstep.Step
	next := generator(2)
	for i := range 3 {
		steps = append(steps, step(lockstep.ContextLength+i, next))
	}
	r := recordtest.Record(drive, steps...)
	if r.Route != "r" || r.Steps() != 3 {
		t.Errorf("route %s, %d steps; want r, 3", r.Route, r.Steps())
	}
	for i, s := range steps {
		n, m := lockstep.ContextLength, 4*lockstep.ContextLength
		logits, probs, ok := r.Full(s.Index)
		got := &lockstep.Step{
			Index: lockstep.ContextLength + i, Action: r.Action[i],
			Tokens: r.Tokens[i*n : (i+1)*n], States: r.States[i*m : (i+1)*m],
			Logits: logits, Probs: probs, CDF: s.CDF, Draw: r.Draw[i], Sample: int(r.Sample[i]),
			Prediction: r.Prediction[i], Lataccel: r.Lataccel[i],
		}
		if diff := cmp.Diff(s, got, bitwise); !ok || diff != "" {
			t.Errorf("step %d (-want +got):\n%s", s.Index, diff)
		}
		if want := [3]uint64{golden.Hash(s.Logits), golden.Hash(s.Probs),
			golden.Hash(s.CDF)}; want != [3]uint64{r.LogitsHash[i], r.ProbsHash[i], r.CDFHash[i]} {
			t.Errorf("step %d: other hashes than %x", s.Index, want)
		}
	}
	for _, absent := range []int{-1, 0, lockstep.ContextLength - 1, lockstep.ContextLength + 3} {
		if _, _, ok := r.Full(absent); ok {
			t.Errorf("step %d, which is not recorded, is there in full", absent)
		}
	}

	// A bit of any column counts, steer only where it is needed.
	columns := [][]float64{
		drive.RollLataccel, drive.VEgo, drive.AEgo, drive.TargetLataccel, drive.SteerCommand,
	}
	for i, name := range golden.RouteColumns() {
		at := &columns[i][lockstep.ControlStartIdx-1]
		*at = math.Float64frombits(math.Float64bits(*at) ^ 1)
		for j, hash := range golden.HashRoute(drive) {
			if differs := hash != r.RouteHash[j]; differs != (i == j) {
				t.Errorf(
					"a bit of %s: the hash of %s differs: %v", name, golden.RouteColumns()[j],
					differs,
				)
			}
		}
		*at = math.Float64frombits(math.Float64bits(*at) ^ 1)
	}
	drive.SteerCommand[lockstep.ControlStartIdx] = 9
	if golden.HashRoute(drive) != r.RouteHash {
		t.Error("the hash depends on a steer command that is not used")
	}
}

// TestHash: by hand, and as Python computed it for every step kept in full.
func TestHash(t *testing.T) {
	// SHA-256 of nothing
	if got, want := golden.Hash([]float64{}), uint64(0xe3b0c44298fc1c14); got != want {
		t.Errorf("hash of nothing %016x, want %016x", got, want)
	}
	if golden.Hash([]float32{0}) == golden.Hash([]float32{float32(math.Copysign(0, -1))}) {
		t.Error("0 and -0 have the same hash")
	}
	files, err := filepath.Glob("testdata/*/*.npz")
	if err != nil {
		t.Fatal(err)
	}
	full := 0
	for _, file := range files {
		recordings, err := golden.ReadFile(file)
		if err != nil || len(recordings) != 1 {
			t.Fatalf("%s: %d recordings, %v; want 1", file, len(recordings), err)
		}
		r := recordings[0]
		for _, at := range r.FullSteps {
			logits, probs, ok := r.Full(int(at))
			i := at - lockstep.ContextLength
			if !ok || golden.Hash(logits) != r.LogitsHash[i] ||
				golden.Hash(probs) != r.ProbsHash[i] {
				t.Errorf(
					"%s, step %d: the logits or probabilities do not have the recorded hash", file,
					at,
				)
			}
			full++
		}
	}
	if full < 24*len(files) || len(files) < 18 {
		t.Errorf("%d steps in full in %d files, want 24 in each of 18 or more", full, len(files))
	}
}

// An editedFile is a file of recordings, read again with one array replaced or left out.
type editedFile struct {
	path   string
	arrays map[string]npz.Array
}

func (f *editedFile) read(t *testing.T, name string, replacement *npz.Array) error {
	t.Helper()
	var edited []npz.Array
	for _, key := range slices.Sorted(maps.Keys(f.arrays)) {
		if key != name {
			edited = append(edited, f.arrays[key])
		}
	}
	if replacement != nil {
		edited = append(edited, *replacement)
	}
	if err := npz.WriteFile(f.path, edited); err != nil {
		t.Fatal(err)
	}
	_, err := golden.ReadFile(f.path)
	return err
}

func (f *editedFile) expect(t *testing.T, what string, err error, want string) {
	t.Helper()
	if err == nil || err.Error() != f.path+": "+want {
		t.Errorf("%s:\n got %v\nwant %s: %s", what, err, f.path, want)
	}
}

// TestReadErrors damages each array of a recording in turn.
func TestReadErrors(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.npz")
	if err := recordtest.WriteFile(path, lockstep.Profile{}, record("a", 2, generator(1)),
		record("b", 1, generator(2))); err != nil {
		t.Fatal(err)
	}
	arrays, err := npz.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f := &editedFile{path, arrays}
	stages := 0
	for name, a := range arrays {
		if name == "format" || name == "profile" {
			continue // goldens have their profile in provenance.json
		}
		stages++
		wrongLengths(t, f, name, a)
		wrongKinds(t, f, name, a)
	}
	if stages != 30 {
		t.Errorf("%d arrays of two recordings, want 30", stages)
	}

	f.expect(t, "no format", f.read(t, "format", nil),
		"not a recording: it has no array named format")
	for _, version := range []int64{0, 2} {
		other := npz.New("format", []int64{version}, 1)
		f.expect(t, "other format", f.read(t, "format", &other),
			fmt.Sprintf("format version %d, want 1", version))
	}
	if err := f.read(t, "", nil); err != nil {
		t.Errorf("unchanged: %v", err)
	}

	if err := os.WriteFile(path, []byte("hello"), 0o666); err != nil {
		t.Fatal(err)
	}
	_, err = golden.ReadFile(path)
	f.expect(t, "text", err, "not an .npz archive: zip: not a valid zip file")
	if _, err := golden.ReadFile(filepath.Join(filepath.Dir(path), "none")); !os.IsNotExist(err) {
		t.Errorf("no file: %v", err)
	}
}

// wrongLengths: an array that is missing or too long is named, but for one that tells how many
// steps there are, which makes the others wrong.
func wrongLengths(t *testing.T, f *editedFile, name string, a npz.Array) {
	t.Helper()
	longer := a
	longer.Shape = slices.Clone(a.Shape)
	longer.Shape[0]++
	longer.Data = make([]byte, len(a.Data)/a.Shape[0]*longer.Shape[0])
	counts := strings.HasSuffix(name, "/sample") || strings.HasSuffix(name, "/full_steps")
	for _, c := range []struct {
		what   string
		edited *npz.Array
		says   string
	}{
		{"missing", nil, fmt.Sprintf("no array %q", name)},
		{"too long", &longer,
			fmt.Sprintf("array %q: shape %v, want %v", name, longer.Shape, a.Shape)},
	} {
		if err := f.read(t, name, c.edited); !counts {
			f.expect(t, name+" "+c.what, err, c.says)
		} else if err == nil {
			t.Errorf("%s is %s, but the file reads", name, c.what)
		}
	}
}

// wrongKinds: an array with a dimension more, or of text, is named.
func wrongKinds(t *testing.T, f *editedFile, name string, a npz.Array) {
	t.Helper()
	deeper := a
	deeper.Shape = append(slices.Clone(a.Shape), 1)
	f.expect(t, name+" deeper", f.read(t, name, &deeper),
		fmt.Sprintf("array %q: shape %v, want %v", name, deeper.Shape, a.Shape))

	text := a
	text.Type = map[string]string{"<f4": "|S4"}[a.Type]
	if text.Type == "" {
		text.Type = "|S8"
	}
	f.expect(t, name+" as text", f.read(t, name, &text),
		fmt.Sprintf("array %q: type %s, want %s", name, text.Type, a.Type))
}
