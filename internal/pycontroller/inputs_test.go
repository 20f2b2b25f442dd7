package pycontroller

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lockstep"
)

// TestInputs: what a controller reads beside its source is known, by its content, and is the same
// for all processes of a run.
func TestInputs(t *testing.T) {
	const gain, late, module, more = "0.25\n", "0.5\n", "factor = 1\n", "extra = 0\n"
	const plain, told = "unsaid = 1\n", "__version__ = '7'\n" // of installed packages
	elsewhere := filepath.Join(write(t, map[string]string{"far.txt": late}), "far.txt")
	dir := write(t, map[string]string{
		"gain.txt": gain, "late.txt": late, "unread.txt": "",
		filepath.Join("lib", "other.py"): module,
		filepath.Join("lib", "more.py"):  more,
		filepath.Join("lib", "gain.txt"): late, // two of one name

		filepath.Join("lib", "site-packages", "plain.py"):                    plain,
		filepath.Join("lib", "site-packages", "told", "__init__.py"):         told,
		filepath.Join("lib", "site-packages", "told", "deep", "__init__.py"): "",
		filepath.Join("lib", "site-packages", "told", "deep", "more.py"):     "",
		"c.py": fmt.Sprintf("elsewhere = %q\n", elsewhere) + `import os, sys, tempfile
from lib.other import factor
here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(here, "lib", "site-packages"))
import plain, told.deep.more
gain = float(open(os.path.join(here, "gain.txt")).read())
open(os.path.join(here, "lib", "gain.txt")).close()
open(elsewhere).close()
open(os.devnull).close()
class Controller:
    def update(self, target_lataccel, current_lataccel, state, future_plan):
        from lib.more import extra  # later than the file
        # What it writes is no input.
        with open(os.path.join(here, "own.txt"), "a") as f: f.write("x")
        open(os.path.join(here, "own.txt")).close()
        both = os.open(os.path.join(here, "both.txt"), os.O_RDWR | os.O_CREAT | os.O_APPEND)
        os.write(both, b"x")
        os.close(both)
        open(os.path.join(here, "both.txt")).close()
        return extra + gain * factor + float(open(os.path.join(here, "late.txt")).read())
`})
	put := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	hash := func(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }
	made := func() (*Controllers, []string) {
		c := open(t, Options{File: filepath.Join(dir, "c.py"), Stderr: &buffer{}})
		list := c.Policy().Made
		for _, prefix := range []string{"Python 3.", "package numpy "} {
			if !slices.ContainsFunc(
				list, func(line string) bool { return strings.HasPrefix(line, prefix) },
			) {
				t.Errorf("%q: nothing begins with %q", list, prefix)
			}
		}
		return c, slices.DeleteFunc(slices.Clone(list), func(line string) bool {
			return !slices.ContainsFunc(
				[]string{"file ", "module lib.", "module plain ", "package told", "module told"},
				func(prefix string) bool { return strings.HasPrefix(line, prefix) },
			)
		})
	}
	c, got := made()
	want := []string{
		"file " + elsewhere + " " + hash(late), // by its whole path, wherever the controller is
		"file gain.txt " + hash(gain),
		"file " + filepath.Join("lib", "gain.txt") + " " + hash(late),
		"module lib.other " + hash(module), "module plain " + hash(plain), "package told 7",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	steered := func(want float64) error {
		t.Helper()
		outcomes, err := drive(c, testRoutes(1, 110))
		if err != nil {
			return err
		}
		if steer := outcomes[0].steer; outcomes[0].err == nil && steer[len(steer)-1] != want {
			t.Errorf("%v, want %v", steer, want)
		}
		return outcomes[0].err
	}
	if err := steered(0.75); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"late.txt":                       late,
		"gain.txt":                       gain,
		filepath.Join("lib", "other.py"): module,
		filepath.Join("lib", "more.py"):  more,
	} {
		put(name, strings.Replace(text, "=", "=  ", 1)+" ")
		c.mu.Lock()
		idle := c.all
		c.mu.Unlock()
		for w := range idle {
			c.drop(w)
		}
		err := steered(0.75)
		contains(
			t, err, "has changed since the run began",
			strings.TrimSuffix(filepath.Base(name), ".py"),
		)
		if !lockstep.IsPassing(err) {
			t.Errorf("%s: it would be kept: %v", name, err)
		}
		put(name, text)
		if err := steered(0.75); err != nil {
			t.Errorf("%s, put back: %v", name, err)
		}
	}
	put("gain.txt", "0.5\n")
	if _, got := made(); len(got) != 6 || got[1] != "file gain.txt "+hash("0.5\n") {
		t.Errorf("edited: %q", got)
	}
}

// TestFileHash: the hash of a file is that of what was read of it, if it is one of the controller's
// folder, and of no other of its name.
func TestFileHash(t *testing.T) {
	dir := write(t, map[string]string{
		"c.py": "", "m.py": "x = 1\n", filepath.Join("lib", "m.py"): "x = 2\n", "m.txt": "x",
	})
	code, err := ReadSource(filepath.Join(dir, "c.py"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "m.py"), []byte("x = 3\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	read := fmt.Sprintf("%x", sha256.Sum256([]byte("x = 1\n")))
	for name, want := range map[string]string{
		"m.py": read, filepath.Join("lib", "m.py"): "", filepath.Join("..", "m.py"): "",
		"m.txt": "", "none.py": "",
	} {
		if got, ok := code.FileSHA256(filepath.Join(dir, name)); got != want || ok != (want != "") {
			t.Errorf("%s: %q, %v, want %q", name, got, ok, want)
		}
	}
}

// TestInputsPlain: what a process says of itself is shown without what a terminal would obey.
func TestInputsPlain(t *testing.T) {
	in := inputs{file: "c.py"}
	const name, before, now = "package \x1b[2Jx", "1\x07", "2\x1b]0;"
	err := errors.Join(in.add(name, before), in.add(name, now))
	for _, text := range append(in.made(), fmt.Sprint(err)) {
		if strings.ContainsAny(text, "\x1b\x07") || !strings.Contains(text, "x") {
			t.Errorf("%q", text)
		}
	}
	contains(t, err, "package \ufffd[2Jx has changed", "it is 2\ufffd]0;, and was 1\ufffd;")
}

// TestSourceHash: the hash of a controller is that of its file, of those beside it, and of which of
// them it is; not of where they are.
func TestSourceHash(t *testing.T) {
	hashes := map[string]string{}
	add := func(what, file string, files map[string]string, equal string) {
		t.Helper()
		code, err := ReadSource(filepath.Join(write(t, files), file))
		if err != nil {
			t.Fatal(err)
		}
		sum := code.SHA256()
		for other, before := range hashes {
			if (before == sum) != (other == equal) {
				t.Errorf("%s and %s have the hashes %.8s and %.8s", what, other, sum, before)
			}
		}
		hashes[what] = sum
	}
	two := map[string]string{"a.py": "x = 1\n", "b.py": "y = 2\n"}
	add("a", "a.py", two, "")
	add("b beside it", "b.py", two, "")
	add("one whose text is the other's", "a.py",
		map[string]string{"a.py": "y = 2\n", "b.py": "x = 1\n"}, "")
	add("a alone", "a.py", map[string]string{"a.py": "x = 1\n"}, "")
	add("a beside c", "a.py", map[string]string{"a.py": "x = 1\n", "c.py": "y = 2\n"}, "")
	add("a beside another b", "a.py", map[string]string{"a.py": "x = 1\n", "b.py": "y = 3\n"}, "")
	add("a elsewhere", "a.py", map[string]string{
		"0.txt": "", "a.py": "x = 1\n", "b.py": "y = 2\n", filepath.Join("d", "e.py"): "",
	}, "a")
}
