package golden_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lockstep"
	"lockstep/golden"
	"lockstep/internal/recordtest"
)

func TestSets(t *testing.T) {
	sets, err := golden.Sets("testdata")
	if err != nil {
		t.Fatal(err)
	}
	profiles := map[lockstep.Profile]int{}
	for _, s := range sets {
		profiles[s.Profile] = len(s.Recordings)
		if got, want := filepath.Base(s.Dir), s.Profile.String(); got != want {
			t.Errorf("folder %s has profile %s", got, want)
		}
		for _, e := range s.Recordings {
			policy, err := e.Policy()
			if err != nil || policy.String() != e.Name || e.File != e.Route+"."+e.Name+".npz" {
				t.Errorf("%s: policy %v, %v; want %s", e.File, policy, err, e.Name)
			}
			if seed := lockstep.Seed(e.SeedPath); seed != e.Seed {
				t.Errorf("%s: seed %d, want that of %s, %d", e.File, e.Seed, e.SeedPath, seed)
			}
		}
	}
	if got := profiles[lockstep.Profile{Softmax: lockstep.SoftmaxAVX2}]; len(sets) < 4 ||
		got != 18 {
		t.Errorf("%d sets, %d recordings in the main one; want 4 or more, 18", len(sets), got)
	}
	e := sets[0].Recordings[0]
	r, err := sets[0].Read(e)
	if err != nil || r.Route != e.Route || r.Steps() != e.Rows-lockstep.ContextLength {
		t.Errorf(
			"route %s of %d steps, %v; want %s of %d", r.Route, r.Steps(), err, e.Route,
			e.Rows-lockstep.ContextLength,
		)
	}
}

// write makes a file and the folders it is in.
func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

func TestSetsSkips(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "units.npz"), "")
	write(t, filepath.Join(root, "notes", "README.md"), "")
	for _, name := range []string{"b", "a"} {
		write(
			t, filepath.Join(root, name, "provenance.json"),
			`{"profile": "ort1.23-avx2-expF-sinfma-csvexact", "later": 1, "recordings": [{}]}`,
		)
	}
	sets, err := golden.Sets(root)
	if err != nil || len(sets) != 2 || filepath.Base(sets[0].Dir) != "a" ||
		filepath.Base(sets[1].Dir) != "b" {
		t.Fatalf("%v, %v; want the sets a and b", sets, err)
	}
	if got, want := sets[0].Profile.String(), "ort1.23-avx2-expF-sinfma-csvexact"; got != want {
		t.Errorf("profile %s, want %s", got, want)
	}
}

// TestAll: the sets are those of a folder, of the folders in it, or the folder is one.
func TestAll(t *testing.T) {
	root := t.TempDir()
	if sets, err := golden.All(root); err == nil ||
		!strings.Contains(err.Error(), "no recordings") {
		t.Errorf("%v, %v", sets, err)
	}
	for _, name := range []string{"a", "own/b", "own/c"} {
		write(
			t, filepath.Join(root, name, "provenance.json"),
			`{"profile": "ort1.23-avx2-expF-sinfma-csvexact", "recordings": [{}]}`,
		)
	}
	for dir, want := range map[string][]string{
		".":     {"a", "b", "c"},
		"own":   {"b", "c"},
		"own/c": {"c"},
	} {
		sets, err := golden.All(filepath.Join(root, dir))
		var got []string
		for _, s := range sets {
			got = append(got, filepath.Base(s.Dir))
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v; want %v", dir, got, err, want)
		}
	}
	links := t.TempDir() // a link to a folder is one, and a link to nothing is none
	err := errors.Join(os.Symlink(filepath.Join(root, "own"), filepath.Join(links, "theirs")),
		os.Symlink(filepath.Join(root, "a"), filepath.Join(links, "mine")),
		os.Symlink(filepath.Join(root, "none"), filepath.Join(links, "lost")))
	if sets, failed := golden.All(links); err != nil || failed != nil || len(sets) != 3 {
		t.Errorf("%d sets by links, want 3: %v, %v", len(sets), err, failed)
	}
	write(t, filepath.Join(root, "own", "c", "provenance.json"), "{")
	for _, dir := range []string{".", "own", "own/c"} {
		if sets, err := golden.All(filepath.Join(root, dir)); err == nil {
			t.Errorf("%s: %d sets, though one cannot be read", dir, len(sets))
		}
	}
	if sets, err := golden.All(filepath.Join(root, "none")); err == nil {
		t.Errorf("no folder has the sets %v", sets)
	}
}

func TestSetErrors(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"empty":     {"", "unexpected end of JSON input"},
		"truncated": {`{"profile": "ort1.30`, "unexpected end of JSON input"},
		"unknown profile": {`{"profile": "ort9-avx2-expU-sinfma-csv2"}`,
			`profile "ort9-avx2-expU-sinfma-csv2": "ort9" is not known`},
		"no profile":               {`{"recordings": []}`, "no profile"},
		"null profile":             {`{"profile": null}`, "no profile"},
		"recordings of no profile": {`{"recordings": [{"file": "00000.pid.npz"}]}`, "no profile"},
		"no recordings": {`{"profile": "ort1.30-avx2-expU-sinfma-csv2", "recordings": []}`,
			"no recordings"},
		"wrong type": {
			`{"profile": "ort1.30-avx2-expU-sinfma-csv2", "recordings": [{"seed": -1}]}`,
			"cannot unmarshal number -1",
		},
	} {
		root := t.TempDir()
		path := filepath.Join(root, "set", "provenance.json")
		write(t, path, c.text)
		for what, open := range map[string]func() error{
			"OpenSet": func() error {
				_, err := golden.OpenSet(filepath.Join(root, "set"))
				return err
			},
			"Sets": func() error { _, err := golden.Sets(root); return err },
		} {
			if err := open(); err == nil || !strings.HasPrefix(err.Error(), path+": ") ||
				!strings.Contains(err.Error(), c.want) {
				t.Errorf("%s, %s: %v, want %s: …%s…", name, what, err, path, c.want)
			}
		}
	}
	const one = `{"profile": "ort1.30-avx2-expU-sinfma-csv2", "recordings": [{"file": ` +
		`"00000.pid.npz"}]}`
	unlisted := filepath.Join(t.TempDir(), "a[b]*") // which a shell would take for a pattern
	write(t, filepath.Join(unlisted, "provenance.json"), one)
	write(t, filepath.Join(unlisted, "00000.pid.npz"), "")
	write(t, filepath.Join(unlisted, "00001.pid.npz"), "")
	if _, err := golden.OpenSet(unlisted); err == nil ||
		!strings.HasSuffix(
			err.Error(),
			"provenance.json: 00001.pid.npz is there and is not listed: restore its entry, or "+
				"remove the file",
		) {
		t.Errorf("a recording that is not listed: %v", err)
	}
	root := t.TempDir()
	lost := filepath.Join(root, "lost[b]*")
	write(t, filepath.Join(lost, "00000.pid.npz"), "")
	if _, err := golden.Sets(root); err == nil ||
		err.Error() != lost+": 1 recordings without provenance.json: restore it, or remove the "+
			"folder" {
		t.Errorf("a set without its provenance: %v", err)
	}
	none := filepath.Join(t.TempDir(), "none")
	if _, err := golden.OpenSet(none); !os.IsNotExist(err) || !strings.Contains(err.Error(), none) {
		t.Errorf("no folder: %v", err)
	}
	if _, err := golden.Sets(none); !os.IsNotExist(err) || !strings.Contains(err.Error(), none) {
		t.Errorf("no folder of sets: %v", err)
	}
}

func TestSetReadErrors(t *testing.T) {
	s := &golden.Set{Dir: t.TempDir()}
	if _, err := s.Read(golden.Entry{File: "none.npz"}); !os.IsNotExist(err) {
		t.Errorf("no file: %v", err)
	}
	path := filepath.Join(s.Dir, "two.npz")
	if err := recordtest.WriteFile(path, lockstep.Profile{}, record("a", 1, generator(1)),
		record("b", 1, generator(2))); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read(golden.Entry{File: "two.npz"}); err == nil ||
		err.Error() != path+": 2 routes, want 1" {
		t.Errorf("two routes: %v, want %s: 2 routes, want 1", err, path)
	}
}

func TestPolicyErrors(t *testing.T) {
	gains := &struct {
		P float64 `json:"p"`
		I float64 `json:"i"`
		D float64 `json:"d"`
	}{1, 2, 3}
	if got, err := (golden.Entry{Controller: "pid", Gains: gains}).Policy(); err != nil ||
		got != (lockstep.PID{P: 1, I: 2, D: 3}) {
		t.Errorf("policy %v, %v; want the gains 1, 2, 3", got, err)
	}
	for _, e := range []golden.Entry{
		{File: "f", Controller: "pid"}, {File: "f", Controller: "mpc", Gains: gains}, {File: "f"},
	} {
		want := `f: controller "` + e.Controller + `" is not known, or has no gains`
		if got, err := e.Policy(); err == nil || err.Error() != want {
			t.Errorf("policy %v, %v; want %s", got, err, want)
		}
	}
}

// TestRoutes: the folder beside the set's own is its routes; a file of that name is not, and what
// does not exist is none.
func TestRoutes(t *testing.T) {
	dir := t.TempDir()
	of := func(name string) *golden.Set { return &golden.Set{Dir: filepath.Join(dir, name, "set")} }
	if err := os.MkdirAll(filepath.Join(dir, "folder", "routes"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "file"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "file", "routes"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"folder": filepath.Join(dir, "folder", "routes"), "file": "", "none": "",
	} {
		if got := of(name).Routes(); got != want {
			t.Errorf("beside a %s: %q, want %q", name, got, want)
		}
	}
}
