package lockstep_test

import (
	"context"
	"slices"
	"testing"

	"lockstep"
)

// described is a simulator that computes nothing, and says what is inside of it.
type described struct{ lockstep.Simulator }

func (described) About() lockstep.About { return lockstep.About{Inside: "nothing"} }

// TestComputing: a context names who computed in it, each once, in the order in which they began,
// and no other context does.
func TestComputing(t *testing.T) {
	ctx, names := lockstep.WithComputing(context.Background())
	other, others := lockstep.WithComputing(context.Background())
	type silent struct{ lockstep.Simulator }
	for _, s := range []lockstep.Simulator{silent{}, described{}, silent{}} {
		lockstep.Computes(ctx, s)
		lockstep.Computes(context.Background(), s)
	}
	names()
	lockstep.Computes(other, described{})
	want := []string{"lockstep_test.silent", "lockstep_test.described: nothing"}
	if got := names(); !slices.Equal(got, want) || !slices.Equal(others(), want[1:]) {
		t.Errorf("%q computed, want %q; and %q, want %q", got, want, others(), want[1:])
	}
}
