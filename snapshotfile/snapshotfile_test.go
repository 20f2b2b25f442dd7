package snapshotfile_test

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"lockstep"
	"lockstep/snapshotfile"
)

// TestBytes: a snapshot keeps its bits through its bytes, and no changed or
// missing byte of numbers goes unnoticed.
func TestBytes(t *testing.T) {
	s := &lockstep.Snapshot{
		Profile: lockstep.Profile{CSV: lockstep.CSVExact}, Model: "5beca7f0", Step: 22,
		Rollouts: []lockstep.RolloutState{
			{
				Route:       "a",
				RouteSHA256: "0123",
				Lataccel:    make([]float64, 22),
				Action:      make([]float64, 22),
				Policy:      []float64{math.Inf(1), -0.25},
			},
			{
				Route:    "b",
				Lataccel: make([]float64, 21),
				Action:   make([]float64, 21),
				Err:      "step 21: no",
			},
		},
	}
	s.Rollouts[0].Lataccel[3] = math.Copysign(0, -1)
	s.Rollouts[0].Action[5] = math.SmallestNonzeroFloat64
	data, err := snapshotfile.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	read, err := snapshotfile.Unmarshal(data)
	if err != nil || !reflect.DeepEqual(read, s) || !math.Signbit(read.Rollouts[0].Lataccel[3]) {
		t.Fatalf("reads back as %+v, %v", read, err)
	}
	last := &s.Rollouts[1]
	for _, text := range []*string{&s.Model, &last.Route, &last.RouteSHA256, &last.Err} {
		before := *text
		*text = before + "\xff"
		if got, err := snapshotfile.Marshal(s); err == nil {
			back, _ := snapshotfile.Unmarshal(got)
			t.Errorf("%q is written, and reads back in %+v", *text, back)
		} else if !strings.Contains(err.Error(), `\xff" is no UTF-8`) {
			t.Errorf("%q: %v", *text, err)
		}
		*text = before
	}
	for i := range data {
		damaged := append([]byte(nil), data...)
		damaged[i] ^= 1
		if _, err := snapshotfile.Unmarshal(damaged); err == nil {
			t.Fatalf("a snapshot whose byte %d is changed reads", i)
		}
		if _, err := snapshotfile.Unmarshal(data[:i]); err == nil {
			t.Fatalf("a snapshot that ends before byte %d reads", i)
		}
	}
	later := strings.Replace(string(data), `"lockstep_snapshot":1`, `"lockstep_snapshot":2`, 1)
	const want = "a snapshot of version 2, this program reads version 1"
	if _, err := snapshotfile.Unmarshal([]byte(later)); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestAnyBits: numbers of any bits, texts and steps come back as they were, each in its place.
func TestAnyBits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		numbers := rapid.SliceOfN(rapid.Uint64(), 1, 9)
		any := &lockstep.Snapshot{Step: rapid.IntRange(0, math.MaxInt32).Draw(t, "step")}
		var want, got []uint64
		for i := range rapid.IntRange(1, 3).Draw(t, "rollouts") {
			r := lockstep.RolloutState{
				Route: fmt.Sprint(i, "\n"), Err: rapid.StringN(0, 9, -1).Draw(t, "error"),
			}
			for _, to := range []*[]float64{&r.Lataccel, &r.Action, &r.Policy} {
				for _, bits := range numbers.Draw(t, "bits") {
					*to, want = append(*to, math.Float64frombits(bits)), append(want, bits)
				}
			}
			any.Rollouts = append(any.Rollouts, r)
		}
		data, err := snapshotfile.Marshal(any)
		if err != nil {
			t.Fatal(err)
		}
		read, err := snapshotfile.Unmarshal(data)
		if err != nil || read.Step != any.Step || len(read.Rollouts) != len(any.Rollouts) {
			t.Fatalf("reads back as %+v, %v", read, err)
		}
		for i, r := range read.Rollouts {
			if was := any.Rollouts[i]; r.Route != was.Route || r.Err != was.Err {
				t.Errorf("rollout %q, %q reads back as %q, %q", was.Route, was.Err, r.Route, r.Err)
			}
			for _, x := range slices.Concat(r.Lataccel, r.Action, r.Policy) {
				got = append(got, math.Float64bits(x))
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%x reads back as %x", want, got)
		}
	})
}

// TestLies: a header that says other lengths than there are numbers is refused, with what it says;
// so is one that is none. Snapshots of no rollouts, and of rollouts without numbers, are read.
func TestLies(t *testing.T) {
	s := &lockstep.Snapshot{Rollouts: []lockstep.RolloutState{
		{Route: "a", Lataccel: []float64{1, 2}, Action: []float64{3, 4}, Policy: []float64{5}},
	}}
	data, err := snapshotfile.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	const more = "the snapshot of route \"a\": %d numbers, more than the file has"
	const other = "the snapshot has 44 bytes of numbers, its header says %d"
	for lengths, want := range map[string]string{
		"[2,2,1]":                   "",
		"[1,2,2]":                   "the snapshot is damaged: its checksum is another",
		"[-1,5,1]":                  fmt.Sprintf(more, -1),
		"[0,0,5]":                   "the snapshot is damaged: its checksum is another",
		"[0,0,0]":                   fmt.Sprintf(other, 4),
		"[2,2,0]":                   fmt.Sprintf(other, 36),
		"[2,2,2]":                   fmt.Sprintf(other, 52),
		"[5,5,5]":                   fmt.Sprintf(other, 124),
		"[6,0,0]":                   fmt.Sprintf(more, 6),
		"[2305843009213693957,0,0]": fmt.Sprintf(more, 2305843009213693957),
		"[40,0,0]":                  fmt.Sprintf(more, 40),
	} {
		text := strings.Replace(string(data), "[2,2,1]", lengths, 1)
		read, err := snapshotfile.Unmarshal([]byte(text))
		if want == "" && !reflect.DeepEqual(read, s) ||
			want != "" && (err == nil || err.Error() != want) {
			t.Errorf("lengths %s: %+v, %v; want %q", lengths, read, err, want)
		}
	}
	const none = "not a snapshot: it does not begin with a snapshot's header"
	for _, text := range []string{
		"", "\n", "{}\n\x00\x00\x00\x00", "text", "text\n", string(data[:9]),
	} {
		if _, err := snapshotfile.Unmarshal([]byte(text)); err == nil || err.Error() != none {
			t.Errorf("%q: %v, want %s", text, err, none)
		}
	}
	for _, s := range []*lockstep.Snapshot{
		{Step: 3}, {Rollouts: []lockstep.RolloutState{{Route: "b"}, {Route: "c", Err: "no"}}},
	} {
		data, err := snapshotfile.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if read, err := snapshotfile.Unmarshal(data); !reflect.DeepEqual(read, s) {
			t.Errorf("%+v reads back as %+v, %v", s, read, err)
		}
		for n := range data {
			if _, err := snapshotfile.Unmarshal(data[:n]); err == nil {
				t.Errorf("%d of %d bytes of %+v are read", n, len(data), s)
			}
		}
	}
}
