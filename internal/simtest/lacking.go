package simtest

import (
	"slices"
	"testing"
)

// A Feature of the CPU, and those sets of kernels that are left where the CPU lacks it.
type Feature struct {
	Name string
	Has  *bool
	Left []string
}

// Lacking holds that a CPU that lacks any of what a set of kernels wants is not given it. sets
// names those that it is given, of which this CPU may have some alone.
func Lacking(t *testing.T, sets func() []string, features ...Feature) {
	t.Helper()
	all := sets()
	for _, f := range features {
		had := *f.Has
		*f.Has = false
		got := sets()
		*f.Has = had
		want := slices.DeleteFunc(slices.Clone(all), func(name string) bool {
			return !slices.Contains(f.Left, name)
		})
		if !slices.Equal(got, want) {
			t.Errorf("without %s this CPU is given %q, want %q", f.Name, got, want)
		}
	}
}
