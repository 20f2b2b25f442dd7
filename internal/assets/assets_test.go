package assets

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lockstep/internal/fileio"
)

// put makes an empty file, and the folders it is in.
func put(t *testing.T, path string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// tree makes a repository in a temporary folder, and the working folder one of
// its packages.
func tree(t *testing.T) (top string) {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(top, "repository", "go.mod"))
	put(t, filepath.Join(top, "repository", "a", "b", "b.go"))
	t.Chdir(filepath.Join(top, "repository", "a", "b"))
	t.Setenv("LOCKSTEP_ASSETS", "")
	t.Setenv("HOME", filepath.Join(top, "home"))
	t.Setenv("XDG_CACHE_HOME", filepath.Join(top, "cache"))
	return top
}

// TestFindOrder has an asset everywhere and takes it away where it is found.
func TestFindOrder(t *testing.T) {
	top := tree(t)
	cache, err := CacheFolder()
	if err != nil {
		t.Fatal(err)
	}
	order := []string{
		filepath.Join(top, "repository", "a", "b", "assets"),
		filepath.Join(top, "repository", "assets"),
		cache,
	}
	if got := Folders(); !slices.Equal(got, order) {
		t.Errorf("folders %q, want %q", got, order)
	}
	put(t, filepath.Join(top, "assets", Model))                    // outside the repository
	put(t, filepath.Join(top, "repository", "a", "assets", Model)) // in a folder between
	for _, dir := range order {
		put(t, filepath.Join(dir, Model))
	}
	for _, dir := range order {
		want := filepath.Join(dir, Model)
		if got, err := Find(Model); err != nil || got != want {
			t.Errorf("found %s, %v; want %s", got, err, want)
		}
		if err := os.Remove(want); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := Find(Model); err == nil {
		t.Errorf("found %s, where there is none", got)
	}
}

// TestFindOutside: outside of a module no folder above the working one counts.
func TestFindOutside(t *testing.T) {
	top := tree(t)
	put(t, filepath.Join(top, "assets", Model))
	if err := os.Remove(filepath.Join(top, "repository", "go.mod")); err != nil {
		t.Fatal(err)
	}
	if got, err := Find(Model); err == nil {
		t.Errorf("found %s", got)
	}
	if got := Folders(); len(got) != 2 {
		t.Errorf("folders %q, want that here and the cache's", got)
	}
	put(t, "go.mod") // the working folder is the module's root
	if got := Folders(); len(got) != 2 {
		t.Errorf("folders %q, want that of the root and the cache's", got)
	}
}

// TestFindEnvironment: LOCKSTEP_ASSETS, where set, is the only place.
func TestFindEnvironment(t *testing.T) {
	top := tree(t)
	put(t, filepath.Join(top, "repository", "assets", Model))
	mine := filepath.Join(top, "mine")
	t.Setenv("LOCKSTEP_ASSETS", mine)
	if got := Folders(); !slices.Equal(got, []string{mine}) {
		t.Errorf("folders %q, want %s", got, mine)
	}
	if got, err := Find(Model); err == nil {
		t.Errorf("found %s, which is not in LOCKSTEP_ASSETS", got)
	}
	want := put(t, filepath.Join(mine, Model))
	if got, err := Find(Model); err != nil || got != want {
		t.Errorf("found %s, %v; want %s", got, err, want)
	}
	route := put(t, filepath.Join(mine, Routes, "00000.csv"))
	if got, err := Find(filepath.Join(Routes, "00000.csv")); err != nil || got != route {
		t.Errorf("found %s, %v; want %s", got, err, route)
	}
}

// TestFindMissing: the message says how to get what is missing.
func TestFindMissing(t *testing.T) {
	tree(t)
	for name, want := range map[string]string{
		Model: "no tinyphysics.onnx found: run `lockstep fetch model`, or set " +
			"LOCKSTEP_ASSETS to a folder that holds it",
		Routes: "no routes found: set LOCKSTEP_ASSETS to a folder with a folder routes/ " +
			"of the challenge's CSV files",
		PublishedCosts: "no published_costs.csv found: set LOCKSTEP_ASSETS to a folder that " +
			"holds it",
	} {
		if _, err := Find(name); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestFindUnreadable: a fault other than absence is not passed over.
func TestFindUnreadable(t *testing.T) {
	top := tree(t)
	file := put(t, filepath.Join(top, "file"))
	t.Setenv("LOCKSTEP_ASSETS", file)
	if _, err := Find(Model); err == nil ||
		!strings.Contains(err.Error(), filepath.Join(file, Model)) {
		t.Errorf("%v, want an error that names %s", err, filepath.Join(file, Model))
	}
}

// TestLibrary: what a file holds decides, a folder has routes by their names, and what cannot be
// read is no absence.
func TestLibrary(t *testing.T) {
	dir := t.TempDir()
	sums := map[string]string{}
	write := func(name string) string {
		path := put(t, filepath.Join(dir, name))
		if err := os.WriteFile(path, []byte(name), 0o666); err != nil {
			t.Fatal(err)
		}
		sum, err := fileio.SHA256(path)
		if err != nil {
			t.Fatal(err)
		}
		sums[name] = sum
		return path
	}
	one, two := write("one"), write("two")
	first, second := write("first.csv"), write("routes/second.csv")
	loud := write("LOUD.CSV")
	l := Library{
		Models: []string{"", one, two},
		Routes: []string{
			"", filepath.Join(dir, "none.csv"), first, loud, filepath.Dir(second), dir,
		},
	}
	for _, c := range []struct{ of, want string }{{"one", one}, {"two", two}, {"first.csv", ""}} {
		if got, err := l.Model(sums[c.of]); err != nil || got != c.want {
			t.Errorf("the network of %s: %q, %v, want %q", c.of, got, err, c.want)
		}
	}
	for _, c := range []struct{ name, of, want string }{
		{"first", "first.csv", first}, {"any", "first.csv", first},
		{"second", "routes/second.csv", second}, {"third", "routes/second.csv", ""},
		{"first", "one", ""}, {"LOUD", "LOUD.CSV", loud},
	} {
		if got, err := l.Route(c.name, sums[c.of]); err != nil || got != c.want {
			t.Errorf("route %s of %s: %q, %v, want %q", c.name, c.of, got, err, c.want)
		}
	}
	for _, path := range []string{second, filepath.Dir(second)} {
		last := Library{Routes: []string{first, path}}
		if got, err := last.Route("second", sums["routes/second.csv"]); err != nil ||
			got != second {
			t.Errorf("the route of %s: %q, %v, want %q", path, got, err, second)
		}
	}
	l = Library{Models: []string{filepath.Join(dir, "none")}, Routes: []string{one, first}}
	if _, err := l.Model(sums["one"]); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a network that is not there: %v", err)
	}
	if got, err := l.Route("first", sums["first.csv"]); err == nil {
		t.Errorf("found %s behind a file that is no folder", got)
	}
}
