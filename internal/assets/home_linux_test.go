package assets

import (
	"path/filepath"
	"testing"

	"lockstep/internal/fileio/readonly"
)

// TestFindReadOnly: what lies in the home's cache folder is found, though nothing can be
// written to it.
func TestFindReadOnly(t *testing.T) {
	t.Chdir("/")
	t.Setenv("LOCKSTEP_ASSETS", "")
	readonly.Home(t, map[string]string{"assets/" + Model: "x"}, func(kept string) {
		want := filepath.Join(kept, "assets", Model)
		if got, err := Find(Model); err != nil || got != want {
			t.Errorf("found %s, %v; want %s", got, err, want)
		}
		if dir, err := CacheFolder(); err != nil || dir == filepath.Join(kept, "assets") {
			t.Errorf("put into %s, %v", dir, err)
		}
	})
}
