package fileio_test

import (
	"path/filepath"
	"slices"
	"testing"

	"lockstep/internal/fileio"
	"lockstep/internal/fileio/readonly"
)

// TestCacheDirs: a home that can be written to is all there is; in one that cannot is looked
// first.
func TestCacheDirs(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", "")
	check := func() (dir string) {
		t.Helper()
		dir, err := fileio.CacheDir("a", "b")
		got := fileio.CacheDirs("a", "b")
		if err != nil || len(got) == 0 || got[len(got)-1] != dir {
			t.Errorf("%q, want what ends with %s, %v", got, dir, err)
		}
		return dir
	}
	check()
	if got := fileio.CacheDirs("a"); len(got) != 1 {
		t.Errorf("%q, want one folder", got)
	}
	readonly.Home(t, nil, func(kept string) {
		want := []string{filepath.Join(kept, "a", "b"), check()}
		if got := fileio.CacheDirs("a", "b"); !slices.Equal(got, want) || want[0] == want[1] {
			t.Errorf("%q, want %q", got, want)
		}
	})
}
