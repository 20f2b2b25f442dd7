//go:build unix

package installed

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/internal/defaults"
	"lockstep/internal/fingerprint"
	"lockstep/internal/simtest"
	"lockstep/reference"
)

// lines are what a Python prints that answers so; watched is where its packages are found.
func (r *Replies) lines(t *testing.T, watched string) (lines []string) {
	t.Helper()
	say := func(answer map[string]any) {
		text, err := json.Marshal(answer)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, mark+string(text)+"\n")
	}
	say(map[string]any{"python": r.Python, "path": []string{watched}})
	for _, name := range packages {
		say(map[string]any{"package": name, "version": r.Packages[name], "file": watched})
	}
	encode := base64.StdEncoding.EncodeToString
	for _, name := range slices.Sorted(maps.Keys(r.Replies)) {
		reply := r.Replies[name]
		bits := encode(reply.Bits)
		if name == "rollout" {
			bits = encode(r.Logits) + " " + encode(r.Lataccel)
		}
		say(map[string]any{
			"probe": name, "bits": bits, "missing": reply.Missing, "error": reply.Error,
		})
	}
	return lines
}

// fakePython is a script in a Python's place, which names itself as the one that it runs, leaves a
// file where temporary ones are, prints and then does as it is told.
func fakePython(t *testing.T, print, then string) string {
	t.Helper()
	dir := t.TempDir()
	path, answers := filepath.Join(dir, "python"), filepath.Join(dir, "answers")
	script := `#!/bin/sh
case "$2" in "import sys; "*) echo "` + mark + `$0"; exit;; esac
: > "$TMPDIR/left"
cat ` + answers + "\n" + then + "\n"
	for file, text := range map[string]string{path: script, answers: print} {
		if err := os.WriteFile(file, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// TestAnswers: what a Python answers is found, kept, and nothing is left behind.
func TestAnswers(t *testing.T) {
	watched, temporary := alone(t, nil), t.TempDir()
	t.Setenv("TMPDIR", temporary)
	r := replies(t, "expC")
	python := fakePython(t, strings.Join(r.lines(t, watched), ""), "exit 0")
	folder := filepath.Join(os.Getenv("XDG_CACHE_HOME"), "lockstep", profiles)
	killed, old := filepath.Join(folder, ".tmp-0123456789abcdef"), time.Now().Add(-2*time.Hour)
	if err := errors.Join(os.MkdirAll(folder, 0o700), os.WriteFile(killed, nil, 0o600),
		os.Chtimes(killed, old, old)); err != nil { // by who wrote there
		t.Fatal(err)
	}
	f := Find(t.Context(), python)
	if _, err := os.Stat(killed); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what a killed process left is still there: %v", err)
	}
	if !f.whole() || !f.Complete() || !f.Known() || f.Python != python || f.Version != r.Python ||
		!maps.Equal(f.Packages, r.Packages) {
		t.Errorf("%+v, warnings %q", f, f.Warnings())
	}
	if len(kept(t)) != 1 || newKey(python).read() == nil || Find(t.Context(), python) != f {
		t.Errorf("kept: %q, and %p is found again, want %p", kept(t), Find(t.Context(), python), f)
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if got := (&Found{}).Summary(); got != "no rollout" {
		t.Errorf("nothing was asked: %s", got)
	}
	if got := f.Summary(); !strings.HasSuffix(got, ", 10 of 10 steps of a rollout equal") {
		t.Error(got)
	}
}

// TestPlaces: by one name there is another Python in another folder, and where LOCKSTEP_PYTHON is
// another; of one folder they are told apart by their paths, and a script is asked again where it
// may run another.
func TestPlaces(t *testing.T) {
	watched := alone(t, nil)
	t.Setenv("TMPDIR", t.TempDir())
	r, other := replies(t, "expC"), replies(t, "expC")
	other.Python = "9.9"
	python := fakePython(t, strings.Join(r.lines(t, watched), ""), "exit 0")
	second := fakePython(t, strings.Join(other.lines(t, watched), ""), "exit 0")
	for at, want := range map[string]string{python: r.Python, second: other.Python} {
		t.Chdir(filepath.Dir(at))
		t.Setenv("LOCKSTEP_PYTHON", "./python")
		for _, name := range []string{"./python", ""} {
			if f := Find(t.Context(), name); f.Python != at || f.Version != want {
				t.Errorf("%q in %s is %s of version %s, want %s", name, filepath.Dir(at), f.Python,
					f.Version, want)
			}
		}
	}
	again := Find(t.Context(), python)
	if f := Find(t.Context(), second); f.Version != other.Python || again.Version != r.Python {
		t.Errorf("versions %s and %s, want %s and %s", again.Version, f.Version, r.Python,
			other.Python)
	}
	t.Chdir(t.TempDir())
	if Find(t.Context(), python) == again {
		t.Error("in another folder a script is taken for what it was")
	}
}

// TestFingerprint: all that a Python answered is written for who adds a profile, beside what the
// forms give.
func TestFingerprint(t *testing.T) {
	r := replies(t, "expC")
	python := fakePython(t, strings.Join(r.lines(t, alone(t, nil)), ""), "exit 0")
	data, found, err := Fingerprint(t.Context(), python)
	if err != nil {
		t.Fatal(err)
	}
	var file fingerprintFile
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	if system := runtime.GOOS + "/" + runtime.GOARCH; file.System != system ||
		!bytes.HasSuffix(data, []byte("\n}\n")) ||
		!bytes.HasPrefix(data, []byte("{\n \"what\": \"answers of a Python's NumPy, pandas")) {
		t.Errorf("of %s, want %s: %.80q", file.System, system, data)
	}
	probes, err := fingerprint.Probes()
	if err != nil || len(file.Probes) != len(probes) || file.Found.Profile != found.Profile {
		t.Fatalf("%d probes, profile %s; want %d, %s; %v", len(file.Probes), file.Found.Profile,
			len(probes), found.Profile, err)
	}
	for k, p := range file.Probes {
		form := slices.IndexFunc(p.Forms, func(f formReport) bool {
			return f.Word == p.Judged.Form
		})
		if p.Name != probes[k].Name || p.What != probes[k].What || form < 0 ||
			!bytes.Equal(p.Answer, r.Replies[p.Name].Bits) ||
			!bytes.Equal(p.Answer, p.Forms[form].Bits) || len(p.Forms) != len(probes[k].Forms) {
			t.Errorf("probe %d: %s, judged %+v, %d forms", k, p.Name, p.Judged, len(p.Forms))
		}
	}
	q, err := newRolloutQuestion()
	if err != nil {
		t.Fatal(err)
	}
	want := rolloutReport{q, defaults.ModelSHA256, r.Logits, r.Lataccel}
	if !reflect.DeepEqual(file.Rollout, want) || file.CPU != processor() {
		t.Errorf("the rollout is another, of %d and %d bytes, want that of %d and %d",
			len(file.Rollout.Logits), len(file.Rollout.Lataccel), len(want.Logits),
			len(want.Lataccel))
	}
}

// TestFewAnswers: who answers less than is asked is believed as far as it goes: what went wrong is
// said in a Python's last words, if it has any, and nothing of it is kept.
func TestFewAnswers(t *testing.T) {
	r := replies(t)
	lines := r.lines(t, alone(t, nil))
	answers := slices.DeleteFunc(slices.Clone(lines[1+len(packages):]), func(line string) bool {
		return strings.Contains(line, `"probe":"rollout"`)
	})
	all := strings.Join(answers, "")
	const rollout = mark + `{"probe": "rollout", "bits": "`
	const cut = "probe rollout could not be answered: the process ended before it answered"
	for _, c := range []struct {
		name, print, then string
		fails             string // the whole error, without the path
		warning           string // where it does not fail
	}{
		{"fails without a word", "", "exit 3", "exit status 3", ""},
		{"fails after all", strings.Join(lines, ""), "echo a word >&2; exit 3",
			`exit status 3: "a word"`, ""},
		{"fails with a letter", "", "echo a word >&2; echo x >&2; exit 3",
			`exit status 3: "x"`, ""},
		{"three answers", strings.Join(answers[:3], ""), "exit 0",
			"only 3 of its answers can be read", ""},
		{"four answers", strings.Join(answers[:4], ""), "exit 0", "",
			"could not be answered (the process ended before it answered): "},
		{"logits that are no base64", all + rollout + `! AA=="}`, "exit 0", "", cut},
		{"lataccels that are no base64", all + rollout + `AA== !"}`, "exit 0", "", cut},
		{"as much as may be printed", "", "head -c 16777216 /dev/zero; exit 3", "exit status 3",
			""},
		{"more than may be printed", "x", "head -c 16777216 /dev/zero; exit 3",
			"it printed more than 16777216 bytes", ""},
		{"more than may be logged", "", "head -c 16777217 /dev/zero >&2; exit 3",
			"it printed more than 16777216 bytes", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			python := fakePython(t, c.print, c.then)
			f, _, err := Ask(t.Context(), python)
			want := "<nil>"
			if c.fails != "" {
				want = python + ": " + c.fails
			}
			if got := fmt.Sprint(err); got != want || (f == nil) != (err != nil) {
				t.Errorf("asked: %s, want %s", got, want)
			}
			data, _, err := Fingerprint(t.Context(), python)
			if got := fmt.Sprint(err); got != want || (len(data) == 0) != (err != nil) {
				t.Errorf("for who adds a profile: %d bytes, %s, want %s", len(data), got, want)
			}
			f = find(t.Context(), python)
			if f.whole() || f.Profile != reference.HostProfile() || len(kept(t)) > 0 ||
				c.fails != "" && f.Unasked != want {
				t.Errorf("found %+v, kept %q", f, kept(t))
			}
			if text := strings.Join(f.Warnings(), "\n"); !strings.Contains(text, c.warning) {
				t.Errorf("warnings %q, want %s", text, c.warning)
			}
		})
	}
	none := filepath.Join(t.TempDir(), "none")
	if _, _, err := Ask(t.Context(), none); err == nil || !strings.Contains(err.Error(), none) {
		t.Errorf("a Python that is not there: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	python := fakePython(t, strings.Join(lines, ""), "exit 0")
	if f, again := Find(ctx, python), Find(t.Context(), python); f.whole() || !again.whole() {
		t.Errorf("what was found while it was interrupted, %+v, is taken for what there is: %+v",
			f, again)
	}
}

// TestInterpreter: a script is asked which Python it runs; what is none is that Python.
func TestInterpreter(t *testing.T) {
	if path, err := interpreter(t.Context(), "/bin/sh"); err != nil || path != "/bin/sh" {
		t.Errorf("%s, %v", path, err)
	}
	for text, want := range map[string]bool{
		"": false, "#": false, "#!": true, "#!/bin/sh": true, "# !": false, "\x7fELF": false,
	} {
		path := filepath.Join(t.TempDir(), "a")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if isScript(path) != want {
			t.Errorf("%q is a script: %v", text, !want)
		}
		simtest.Closed(t, path)
	}
	if isScript(filepath.Join(t.TempDir(), "none")) {
		t.Error("what is not there is a script")
	}
}
