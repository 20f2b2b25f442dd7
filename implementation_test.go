package lockstep_test

import (
	"slices"
	"testing"

	"lockstep"
)

// A described simulator is nothing but what it says of itself.
type described struct {
	lockstep.Simulator
	inside string
}

func (d *described) About() lockstep.About { return lockstep.About{Inside: d.inside} }

// TestComputing: those who compute are named once each, in the order in which they began, and only
// in the context that asks.
func TestComputing(t *testing.T) {
	one, two, bare := &described{inside: "one"}, &described{inside: "two"}, struct {
		lockstep.Simulator
	}{}
	ctx, names := lockstep.WithComputing(t.Context())
	other, none := lockstep.WithComputing(t.Context())
	before := names()
	for _, s := range []lockstep.Simulator{two, one, two, bare, one} {
		lockstep.Computes(ctx, s)
		lockstep.Computes(t.Context(), s)
	}
	want := []string{
		"*lockstep_test.described: two", "*lockstep_test.described: one",
		"struct { lockstep.Simulator }",
	}
	got := names()
	if !slices.Equal(got, want) || len(before)+len(none()) != 0 {
		t.Errorf("%q computed, want %q; %q before, %q elsewhere", got, want, before, none())
	}
	got[0] = "another"
	if now := names(); !slices.Equal(now, want) {
		t.Errorf("who writes to the names makes them %q", now)
	}
	if lockstep.Computes(other, one); !slices.Equal(none(), want[1:2]) {
		t.Errorf("%q computed, want %q", none(), want[1:2])
	}
}
