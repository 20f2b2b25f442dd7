package tinyphysics

import (
	"math"
	"slices"
	"strings"
	"testing"

	"lockstep"
	"lockstep/golden"
	"lockstep/internal/assets/assetstest"
	"lockstep/parity"
	"lockstep/parity/schema"
	"lockstep/parity/trace"
	"lockstep/reference"
)

// TestGolden holds a trace of the reference to a recording of Python, and finds what
// was changed in it.
func TestGolden(t *testing.T) {
	set, err := golden.OpenSet("../../golden/testdata/ort1.30-avx2-expU-sinfma-csv2")
	if err != nil {
		t.Fatal(err)
	}
	set.Recordings = slices.DeleteFunc(
		slices.Clone(set.Recordings),
		func(e golden.Entry) bool { return e.Route != "04744" || e.Name != "pid" },
	)
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
	path := t.TempDir() + "/a.trace"
	if err := recordTo(t.Context(), ref, jobs, lockstep.AllSteps,
		trace.Header{Digest: schema.SHA256}, 0, path); err != nil {
		t.Fatal(err)
	}
	open := func() *trace.File {
		f, err := trace.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	f := open()
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
	// One bit of the 300th CDF.
	wrong := &observed{Simulator: ref, change: func(s *lockstep.Step) {
		if s.Index == 320 {
			s.CDF = slices.Clone(s.CDF)
			s.CDF[7] = math.Nextafter(s.CDF[7], 1)
		}
	}}
	if err := recordTo(t.Context(), wrong, jobs, lockstep.AllSteps,
		trace.Header{Digest: schema.SHA256}, 0, path); err != nil {
		t.Fatal(err)
	}
	if r := compare(t, source, parity.Traced(open()), jobs, parity.CompareOptions{}); len(
		r.Findings,
	) != 1 ||
		r.Findings[0].Stage != CDF ||
		r.First.Step != 320 {
		t.Errorf("%+v, %v", r.Findings, r.First)
	}
	// A route that Python did not load so.
	jobs[0].Route.AEgo[50]++
	r := compare(t, source, parity.Traced(open()), jobs, parity.CompareOptions{})
	if r.First == nil || r.First.Stage != Route ||
		!strings.Contains(r.First.Error(), "a_ego of hash") {
		t.Errorf("%v", r.First)
	}
	// Traces with other digests say how to make them comparable.
	x := t.TempDir() + "/x.trace"
	if err := recordTo(t.Context(), ref, jobs, lockstep.CostOnly, trace.Header{}, 0,
		x); err != nil {
		t.Fatal(err)
	}
	other, err := trace.Open(x)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := Compare(t.Context(), source, parity.Traced(other), nil, lockstep.AllSteps,
		parity.CompareOptions{}); err == nil ||
		!strings.Contains(err.Error(), "x.trace holds digests of kind xxh64, not sha256, and "+
			"not all arrays in full: write it again with the other, or in full") {
		t.Errorf("%v", err)
	}
	if _, err := Compare(t.Context(), source, source, nil, lockstep.AllSteps,
		parity.CompareOptions{}); err != nil {
		t.Errorf("%v", err)
	}
	twice := *set
	twice.Recordings = append(slices.Clone(set.Recordings), set.Recordings...)
	if _, err := Golden(&twice); err == nil ||
		!strings.Contains(err.Error(), "two recordings of 04744/pid") {
		t.Errorf("%v", err)
	}
}
