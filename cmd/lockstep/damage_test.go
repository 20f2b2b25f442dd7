package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// keptFiles are something that commands keep in files, and what reads it again.
type keptFiles struct {
	name  string
	dir   string   // where its files are
	again []string // the command that reads them
	want  string   // that it prints
}

// TestDamages damages files that commands keep, one at a time and at random: what reads them again
// prints what it prints of sound ones, or ends with an error. LOCKSTEP_DAMAGES is how many.
func TestDamages(t *testing.T) {
	damages := numberFrom(t, "LOCKSTEP_DAMAGES", 20)
	things := keepFiles(t)
	random := rand.New(rand.NewPCG(11, 11))
	went, refused := map[string]int{}, map[string]int{}
	for n := range damages {
		thing := things[n%len(things)]
		sound := t.TempDir()
		if err := os.CopyFS(filepath.Join(sound, "sound"), os.DirFS(thing.dir)); err != nil {
			t.Fatal(err)
		}
		what := damageOne(t, random, thing.dir)
		t.Setenv("XDG_CACHE_HOME", filepath.Join(filepath.Dir(thing.dir), "cache"))
		var stdout, stderr bytes.Buffer
		status := run(t.Context(), thing.again, &stickyWriter{w: &stdout}, &stderr)
		printed := secondsPattern.ReplaceAllString(stdout.String(), "")
		switch {
		case status == exitOK && printed == thing.want:
			went[thing.name]++
		case status != exitOK && strings.Contains(stderr.String(), "lockstep: ") &&
			within(printed, thing.want):
			refused[thing.name]++
		default:
			t.Errorf(
				"%s, %s: exit %d, it prints\n%s%swant\n%s", thing.name, what, status, printed,
				stderr.String(), thing.want,
			)
		}
		if err := os.RemoveAll(thing.dir); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(sound, "sound"), thing.dir); err != nil {
			t.Fatal(err)
		}
	}
	for _, thing := range things {
		t.Logf(
			"%s: %d read as if they were sound, %d refused", thing.name, went[thing.name],
			refused[thing.name],
		)
	}
	t.Logf("%d damages: none that printed something else without an error, no panic", damages)
}

// within reports whether all that is printed is what is to be printed of something.
func within(printed, want string) bool {
	for line := range strings.Lines(printed) {
		if !strings.Contains(want, line) &&
			!strings.HasPrefix(line, `{"controller"`) { // a sum says what failed
			return false
		}
	}
	return true
}

// keepFiles has commands keep what there is to keep.
func keepFiles(t *testing.T) (things []*keptFiles) {
	t.Helper()
	data := shortRoutes(t, 4)
	if err := os.Remove(filepath.Join(data, "g00003.csv")); err != nil { // which cannot be loaded
		t.Fatal(err)
	}
	common := []string{"--engine", "reference", "--profile", profile, "--data_path", data}
	command := func(words ...string) []string { return append(words, common...) }
	sweep := []string{"--pid", "0.1,0,0", "--pid", "0.2,0,0"}
	in := func(name string) (root, dir string) {
		root = t.TempDir()
		return root, filepath.Join(root, name)
	}
	add := func(name, root, dir string, again []string, before ...[]string) {
		t.Setenv("XDG_CACHE_HOME", filepath.Join(root, "cache"))
		thing := &keptFiles{name: name, dir: dir, again: again}
		for _, args := range append(before, again) {
			status, stdout, stderr := 0, bytes.Buffer{}, bytes.Buffer{}
			if status = run(t.Context(), args, &stickyWriter{w: &stdout},
				&stderr); status != exitOK {
				t.Fatalf("%s: %v: exit %d, %s", name, args, status, stderr.String())
			}
			thing.want = secondsPattern.ReplaceAllString(stdout.String(), "")
		}
		things = append(things, thing)
	}

	root, dir := in("run")
	rollout := append(command("rollout", "--json", "--no-cache", "--out", dir), sweep...)
	add("a run", root, dir, rollout, rollout)

	root, dir = in("tune")
	tune := append(
		command("tune", "--no-cache", "--population", "8", "--generations", "1"), "--kind", "pid",
		"--gains", filepath.Join(root, "gains.json"), "--out", dir,
	)
	add("a search of gains", root, dir, tune, tune)

	root, dir = in("plan")
	plan := append(
		command("plan", "--no-cache", "--rounds", "1", "--window", "2", "--horizon", "4"),
		"--table", filepath.Join(root, "table.json"), "--out", dir,
	)
	add("a search of actions", root, dir, plan, plan)

	root, dir = in("parts")
	add(
		"shards", root, dir, []string{"shard", "merge", "--json", "--out", dir},
		append(command("shard", "plan", "--shards", "2", "--out", dir), sweep...),
		[]string{"shard", "run", "--index", "0", "--out", dir},
		[]string{"shard", "run", "--index", "1", "--out", dir},
	)

	root, dir = in("cache")
	cached := append(command("rollout", "--json"), sweep...)
	add("caches of routes and the own network", root, dir, cached, cached)

	root, dir = in("classic")
	cart := []string{
		"rollout", "--env", "CartPole-v1", "--num-envs", "3", "--steps", "60", "--engine",
		"reference", "--json", "--out", dir,
	}
	add("a run of classic control", root, dir, cart, cart)

	root, dir = in("traces")
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	a, b := filepath.Join(dir, "a.trace"), filepath.Join(dir, "b.trace")
	add(
		"traces", root, dir, []string{"compare", a, b},
		command("rollout", "--no-cache", "--trace", a),
		command("rollout", "--no-cache", "--trace", b),
	)
	return things
}

// damageOne damages one of a folder's files, and says how.
func damageOne(t *testing.T, random *rand.Rand, dir string) string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil && info.Size() > 0 {
				files = append(files, path)
			}
		}
		return err
	})
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %d files, %v", dir, len(files), err)
	}
	file := files[random.IntN(len(files))]
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	at := random.IntN(len(text))
	end := min(len(text), at+1+random.IntN(64))
	kinds := []struct {
		name   string
		damage func() []byte
	}{
		{"a bit flipped", func() []byte { text[at] ^= 1 << random.IntN(8); return text }},
		{"a byte replaced", func() []byte { text[at] = byte(random.Uint32()); return text }},
		{"cut off", func() []byte { return text[:at] }},
		{"bytes zeroed", func() []byte { clear(text[at:end]); return text }},
		{"bytes lost", func() []byte { return append(text[:at:at], text[end:]...) }},
		{"bytes twice", func() []byte { return append(text[:end:end], text[at:]...) }},
		{"something behind it", func() []byte { return append(text, text[at:end]...) }},
	}
	kind := kinds[random.IntN(len(kinds))]
	if err := os.Chmod(file, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, kind.damage(), 0o666); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s at byte %d of %d of %s", kind.name, at, len(text), filepath.Base(file))
}
