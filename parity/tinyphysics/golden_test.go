package tinyphysics

import (
	"bytes"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lockstep"
	"lockstep/golden"
	"lockstep/internal/assets/assetstest"
	"lockstep/internal/simtest"
	"lockstep/parity"
	"lockstep/parity/schema"
	"lockstep/parity/trace"
	"lockstep/reference"
)

// TestGolden holds a trace of the reference to a recording of Python, and finds what
// was changed in it.
func TestGolden(t *testing.T) {
	set := oneRecording(t, "04744", "pid")
	source, err := Golden(set)
	if err != nil {
		t.Fatal(err)
	}
	ref, err := reference.New(assetstest.Model(t), set.Profile)
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := GoldenJobs(
		set,
		func(name string) (*lockstep.Route, error) {
			return assetstest.Route(t, name, set.Profile), nil
		},
	)
	if err != nil || len(jobs) != 1 {
		t.Fatalf("%d jobs, %v", len(jobs), err)
	}
	f := digested(t, ref, jobs)
	if r := compare(t, source, parity.Traced(f), nil, parity.CompareOptions{}); r.Err() != nil ||
		r.Equal() != 1 ||
		r.Compared[CDF] != 580 ||
		r.Compared[Costs] != 1 {
		t.Errorf("%v, %v", r.Err(), r.Compared)
	}
	if f.Header.Engine != "reference" || f.Header.Profile != set.Profile.String() ||
		len(f.Header.Shortcuts) != 1 {
		t.Errorf("header %+v", f.Header)
	}
	changedBit(t, source, ref, jobs)
	otherDigests(t, source, record(t, ref, jobs, lockstep.CostOnly, 0))
	twice := *set
	twice.Recordings = append(slices.Clone(set.Recordings), set.Recordings...)
	_, err = Golden(&twice)
	simtest.Refused(t, "a recording that is there twice", err, "two recordings of 04744/pid")
}

// TestGoldenFull: where a recording has logits and probabilities in full, its steps show them.
func TestGoldenFull(t *testing.T) {
	set, err := golden.OpenSet("../../golden/testdata/default/ort1.30-avx2-expU-sinfma-csv2")
	if err != nil {
		t.Fatal(err)
	}
	set.Recordings = set.Recordings[:1]
	source, err := Golden(set)
	if err != nil {
		t.Fatal(err)
	}
	r, err := set.Read(set.Recordings[0])
	if err != nil {
		t.Fatal(err)
	}
	var steps []int64
	_, _, err = source.(parity.RecordedSide).Read(0, false, func(s *schema.Step) {
		if s.Data[logits] == nil && s.Data[probs] == nil {
			return
		}
		steps = append(steps, int64(s.Index))
		full, chances, _ := r.Full(s.Index)
		if !bytes.Equal(s.Data[logits], schema.Bytes(full)) ||
			!bytes.Equal(s.Data[probs], schema.Bytes(chances)) {
			t.Errorf("step %d shows others", s.Index)
		}
	})
	if err != nil || len(steps) < 2 || !slices.Equal(steps, r.FullSteps) {
		t.Errorf("full at steps %v, want %v, %v", steps, r.FullSteps, err)
	}
}

// oneRecording is a set of which one recording is left.
func oneRecording(t *testing.T, route, name string) *golden.Set {
	t.Helper()
	set, err := golden.OpenSet("../../golden/testdata/ort1.30-avx2-expU-sinfma-csv2")
	if err != nil {
		t.Fatal(err)
	}
	set.Recordings = slices.DeleteFunc(
		slices.Clone(set.Recordings),
		func(e golden.Entry) bool { return e.Route != route || e.Name != name },
	)
	return set
}

// digested is a trace with digests as recordings have them.
func digested(t *testing.T, sim lockstep.Simulator, jobs []lockstep.Job) *trace.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.trace")
	if err := recordTo(t.Context(), sim, jobs, lockstep.AllSteps,
		trace.Header{Digest: schema.SHA256}, 0, path); err != nil {
		t.Fatal(err)
	}
	f, err := trace.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// changedBit: one bit of the 300th CDF is found, and a route that Python did not load so.
func changedBit(
	t *testing.T, recorded parity.Side, ref lockstep.Simulator, jobs []lockstep.Job,
) {
	t.Helper()
	wrong := &observed{Simulator: ref, change: func(s *lockstep.Step) {
		if s.Index == 320 {
			s.CDF = slices.Clone(s.CDF)
			s.CDF[7] = math.Nextafter(s.CDF[7], 1)
		}
	}}
	traced := parity.Traced(digested(t, wrong, jobs))
	r := compare(t, recorded, traced, jobs, parity.CompareOptions{})
	if len(r.Findings) != 1 || r.Findings[0].Stage != CDF || r.First.Step != 320 {
		t.Errorf("%+v, %v", r.Findings, r.First)
	}
	jobs[0].Route.AEgo[50]++
	r = compare(t, recorded, traced, jobs, parity.CompareOptions{})
	if r.First == nil || r.First.Stage != Route ||
		!strings.Contains(r.First.Error(), "a_ego of hash") {
		t.Errorf("%v", r.First)
	}
}

// otherDigests: a trace with other digests than the recording's says how to make it comparable.
func otherDigests(t *testing.T, recorded parity.Side, other *trace.File) {
	t.Helper()
	_, err := Compare(t.Context(), recorded, parity.Traced(other), nil, lockstep.AllSteps,
		parity.CompareOptions{})
	simtest.Refused(t, "other digests", err, "reference.trace holds digests of kind xxh64, not "+
		"sha256, and not all arrays in full: record it again in full (--trace-values)")
	if _, err := Compare(t.Context(), recorded, recorded, nil, lockstep.AllSteps,
		parity.CompareOptions{}); err != nil {
		t.Errorf("%v", err)
	}
}

// TestGoldenSet: a set of recordings is a side of a comparison and says of which jobs it is,
// whatever computes them; a set that cannot be one is refused.
func TestGoldenSet(t *testing.T) {
	set, err := golden.OpenSet("../../golden/testdata/default/ort1.30-avx2-expU-sinfma-csv2")
	if err != nil {
		t.Fatal(err)
	}
	of := func(entries ...golden.Entry) *golden.Set {
		some := *set
		some.Recordings = entries
		return &some
	}
	first, second := set.Recordings[0], set.Recordings[1]
	source, err := Golden(of(first, second))
	if err != nil {
		t.Fatal(err)
	}
	steps := first.Rows + second.Rows - 2*lockstep.ContextLength
	r := compare(t, source, source, nil, parity.CompareOptions{})
	if r.Err() != nil || r.Equal() != 2 || r.Steps != steps || r.Compared[CDF] != steps ||
		r.Compared[Action] != steps || r.Compared[Tokens] != steps ||
		r.Compared[Costs] != 2 || r.Want.Name != "golden ort1.30-avx2-expU-sinfma-csv2" ||
		r.Want.Profile != set.Profile.String() || r.Want.Live {
		t.Errorf("%v, %+v of %d steps", r.Err(), r, steps)
	}
	other, err := Golden(of(second))
	if err != nil {
		t.Fatal(err)
	}
	r = compare(t, source, other, nil, parity.CompareOptions{})
	simtest.Refused(t, "a recording that only one side has", r.Err(), "no such rollout")

	route := &lockstep.Route{Name: "loaded"}
	var loaded []string
	load := func(name string) (*lockstep.Route, error) {
		loaded = append(loaded, name)
		return route, nil
	}
	jobs, err := GoldenJobs(of(first, second), load)
	if err != nil || len(jobs) != 2 || jobs[1].Route != route ||
		!slices.Equal(loaded, []string{first.Route, second.Route}) {
		t.Fatalf("jobs %+v on routes %q, %v", jobs, loaded, err)
	}
	if policy, err := second.Policy(); err != nil || jobs[1].Policy != policy {
		t.Errorf("the second job's policy is %v, want %v (%v)", jobs[1].Policy, policy, err)
	}
	refusedSets(t, set, of)
}

// refusedSets: what cannot be a side, nor jobs, says why.
func refusedSets(t *testing.T, set *golden.Set, of func(entries ...golden.Entry) *golden.Set) {
	t.Helper()
	first, second := set.Recordings[0], set.Recordings[1]
	load := func(string) (*lockstep.Route, error) { return &lockstep.Route{}, nil }
	unknown := first
	unknown.Controller = "walk"
	_, err := GoldenJobs(of(unknown), load)
	simtest.Refused(t, "a controller that is not known", err, `controller "walk" is not known`)
	_, err = Golden(of(unknown))
	simtest.Refused(t, "a controller that is not known", err, set.Dir+": ")
	_, err = Golden(of(first, second, first))
	simtest.Refused(t, "a recording that is there twice", err, "two recordings of "+first.Route)
	_, err = GoldenJobs(of(first), func(string) (*lockstep.Route, error) {
		return nil, trace.ErrHashed
	})
	simtest.Refused(t, "a route that cannot be loaded", err, trace.ErrHashed.Error())
	gone := first
	gone.File = "none.npz"
	source, err := Golden(of(gone))
	if err != nil {
		t.Fatal(err)
	}
	_, err = Compare(t.Context(), source, source, nil, lockstep.AllSteps, parity.CompareOptions{})
	simtest.Refused(t, "a recording that is not there", err, "none.npz")
}
