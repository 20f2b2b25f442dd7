package installed

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep"
	"lockstep/internal/fingerprint"
	"lockstep/internal/want"
	"lockstep/reference"
)

// replies are those of an installation that has some forms, and its profile's elsewhere.
func replies(t *testing.T, words ...string) *Replies {
	t.Helper()
	r := &Replies{
		Python:   "3.99.0",
		Packages: map[string]string{"numpy": "9.1", "pandas": "9.2", "onnxruntime": "9.3"},
		Replies:  map[string]Reply{"rollout": {}},
	}
	probes, err := fingerprint.Probes()
	if err != nil {
		t.Fatal(err)
	}
	for k, p := range probes {
		word := strings.Split(reference.HostProfile().String(), "-")[k]
		for i := range p.Forms {
			if slices.Contains(words, p.Forms[i].Word) {
				word = p.Forms[i].Word
			}
		}
		i := slices.IndexFunc(p.Forms, func(f fingerprint.Form) bool { return f.Word == word })
		r.Replies[p.Name] = Reply{Bits: p.Expected(&p.Forms[i])}
	}
	r.rollout(t, judge("", r, nil))
	return r
}

// rollout sets the answer to the last probe: that of a profile.
func (r *Replies) rollout(t *testing.T, f *Found) {
	t.Helper()
	logits, lataccels, err := expectedRollout(f.Profile)
	if err != nil {
		t.Fatal(err)
	}
	r.Logits, r.Lataccel = slices.Concat(logits...), slices.Concat(lataccels...)
}

// TestJudge: a profile's words are found one by one, and an answer that no profile has is
// named, with what is computed instead.
func TestJudge(t *testing.T) {
	pins := reference.HostProfile()
	for word, k := range map[string]int{
		"ort1.27":    0,
		"ort1.23":    0,
		"ort1.30arm": 0,
		"avx2":       1,
		"avx512":     1,
		"neon":       1,
		"expF":       2,
		"expC":       2,
		"csvexact":   4,
	} {
		want, _ := fingerprint.Replace(pins, k, word)
		r := replies(t, word)
		f := judge("py", r, nil)
		if f.Profile != want || !f.Known() || !f.Complete() || !f.whole() || f.Rollout.Equal != 10 {
			t.Errorf("%s: %+v, warnings %q", word, f, f.Warnings())
		}
		const source = "as py answered (Python 3.99.0, numpy 9.1, pandas 9.2, onnxruntime 9.3)"
		if got := f.Source(); got != source {
			t.Errorf("%s: %s, want %s", word, got, source)
		}
		bits := fmt.Sprintf("%x", sha256.Sum256(slices.Concat(r.Logits, r.Lataccel)))[:16]
		if want := (RolloutVerdict{Steps: 10, Equal: 10, Bits: bits}); f.Rollout != want {
			t.Errorf("%s: the rollout is judged %+v, want %+v", word, f.Rollout, want)
		}
	}
	for word, c := range map[string]struct{ probe, version string }{
		"ort1.23arm": {"layer_norm", "onnxruntime 9.3"}, "neon+": {"softmax", "onnxruntime 9.3"},
		"expC+":   {"exp", "numpy 9.1"},
		"sinsvml": {"sin", "numpy 9.1"}, "csvfma": {"csv", "pandas 9.2"},
	} {
		f := judge("py", replies(t, word), nil)
		text := strings.Join(f.Warnings(), "\n")
		for _, part := range []string{
			"py: probe " + c.probe + ": " + word + ", which no profile has (" + c.version + ")",
			strings.Split(pins.String(), "-")[index(c.probe)] + " is computed instead",
			"--fingerprint",
		} {
			if !strings.Contains(text, part) {
				t.Errorf("%s: %q, want …%s…", word, text, part)
			}
		}
		if f.Profile != pins || f.Known() || f.Complete() || !f.whole() {
			t.Errorf("%s: %+v", word, f)
		}
	}
}

// TestJudgeAnswers: each probe is told of, one that was not answered is missing, and of one whose
// answer is no known form is said how near it is.
func TestJudgeAnswers(t *testing.T) {
	for _, p := range []string{"layer_norm", "softmax", "exp", "sin", "csv"} {
		r := replies(t)
		f := judge("py", r, nil)
		if text := f.Summary(); !strings.Contains(text, p+" ") ||
			!strings.HasSuffix(text, ", 10 of 10 steps of a rollout equal") {
			t.Errorf("in %q is no %s", text, p)
		}
		r.Replies[p] = Reply{Error: "it broke"}
		if f := judge("py", r, nil); f.whole() {
			t.Errorf("without %s all was answered", p)
		}
	}
	r := replies(t)
	r.Replies["csv"].Bits[3] ^= 1
	if text := strings.Join(judge("py", r, nil).Warnings(), "\n"); !strings.Contains(
		text,
		"probe csv: answer ",
	) ||
		!strings.Contains(text, "is no known form; csv2 has 11 of its 12 rows") {
		t.Errorf("a bit of the answer to csv is another: %q", text)
	}
}

// TestUnanswered: what was not answered is said of each probe where the process ended well, and of
// the process where it failed; a rollout alone is only said to be missing beside answers.
func TestUnanswered(t *testing.T) {
	r := replies(t)
	delete(r.Replies, "exp")
	delete(r.Replies, "rollout")
	words := strings.Split(reference.HostProfile().String(), "-")
	exp := words[2]
	const rollout = "py: probe rollout could not be answered: the process ended before it answered"
	broke := replies(t)
	broke.Replies["rollout"] = Reply{Error: "it broke"}
	without := replies(t)
	for _, probe := range []string{"exp", "sin", "csv", "rollout"} {
		without.Replies[probe] = Reply{Missing: true}
	}
	probes, err := fingerprint.Probes()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		r        *Replies
		failed   error
		answers  int
		warnings string
		source   string
	}{
		{r, nil, 5, "py: probe exp could not be answered (the process ended before it answered): " +
			exp + " is assumed\n" + rollout, "as py answered ("},
		{r, errors.New("no"), 4, rollout, "as py answered ("},
		{&Replies{}, errors.New("no"), 0, "", ", since py: no"},
		{broke, nil, 5, "py: probe rollout could not be answered: it broke", "as py answered ("},
		{&Replies{Replies: map[string]Reply{
			"layer_norm": {Missing: true}, "softmax": {Missing: true}, "exp": {Missing: true},
			"sin": {Missing: true}, "csv": {Missing: true}, "rollout": {Missing: true},
		}}, nil, 5, "", ", since py has no numpy, pandas and onnxruntime to be asked"},
		{without, nil, 5, "", "; without packages to ask, " + words[2] + " and " + words[3] +
			" and " + words[4] + " is "},
	} {
		f := judge("py", c.r, c.failed)
		if got := strings.Join(f.Warnings(), "\n"); len(f.Answers) != c.answers ||
			got != c.warnings ||
			!strings.Contains(f.Source(), c.source) {
			t.Errorf("%d answers, warnings %q, want %d, %q; %s, want %s", len(f.Answers), got,
				c.answers, c.warnings, f.Source(), c.source)
		}
		if f.Complete() != (c.r == broke) {
			t.Errorf("%d answers are complete: %v, %v", c.answers, f.Complete(), c.failed)
		}
		for _, a := range f.Answers {
			if p := probes[index(a.Probe)]; a.Rows != len(p.Rows) {
				t.Errorf("probe %s is said to have %d rows, of %d", a.Probe, a.Rows, len(p.Rows))
			}
		}
		if reply, ok := c.r.Replies["rollout"]; f.Rollout.Missing != reply.Missing ||
			ok && f.Rollout.Error != reply.Error {
			t.Errorf("the rollout is judged %+v of %+v", f.Rollout, reply)
		}
	}
	right := judge("py", replies(t), nil)
	for want, f := range map[bool]*Found{true: right, false: {}} {
		if f.whole() != want || f.Complete() != want {
			t.Errorf("%+v is whole: %v, complete: %v", f, f.whole(), f.Complete())
		}
	}
	broken := *right
	if broken.Unasked = "no"; broken.whole() {
		t.Error("what nobody answered to the end is whole")
	}
}

// TestOtherCPU: where no profile is that of the pinned packages, none is said to be, neither
// where no Python answered nor where a package is missing.
func TestOtherCPU(t *testing.T) {
	hostKnown = func() bool { return false }
	defer func() { hostKnown = reference.HostKnown }()
	r := replies(t, "neon")
	r.Replies["exp"] = Reply{Missing: true}
	for want, f := range map[string]*Found{
		"not that of the challenge's pinned packages, whose arithmetic on this CPU no engine " +
			"computes; no Python answered: none": {Unasked: "none"},
		"; without packages to ask, expU is not that of the challenge's pinned " +
			"packages, ": judge("py", r, nil),
	} {
		if got := f.Source(); !strings.Contains(got, want) || strings.Contains(got, "is that of") {
			t.Errorf("%s, want …%s…", got, want)
		}
		if text := strings.Join(f.Warnings(), "\n"); !strings.Contains(
			text, "on arm64 pandas up to 3.0 reads numbers otherwise",
		) {
			t.Errorf("warnings %q", text)
		}
	}
	if f := judge("py", replies(t), nil); !f.Known() {
		t.Errorf("all was answered: warnings %q", f.Warnings())
	}
	hostKnown = func() bool { return true }
	if f := judge("py", r, nil); !f.Known() {
		t.Errorf("a package is missing, and the CPU is known: warnings %q", f.Warnings())
	}
}

// TestARM: where no Python answers on arm64, the profile is the one of ARM's recordings, never
// one that only x86-64 has.
func TestARM(t *testing.T) {
	hostKnown, arch = func() bool { return false }, "arm64"
	defer func() { hostKnown, arch = reference.HostKnown, runtime.GOARCH }()
	const profile = "ort1.30arm-neon-expC-sinfma-csvexact"
	const want = "profile " + profile + ", that of newer packages on arm64 "
	if got := judge(
		"py", &Replies{}, errors.New("no answer"),
	).String(); !strings.HasPrefix(got, want) {
		t.Errorf("nobody answered: %q, want %q…", got, want)
	}
	for _, name := range []string{Pins, Host} {
		t.Setenv(Variable, "")
		p, _, err := Choose(t.Context(), name, "/nowhere/python")
		if err != nil || p.String() != profile {
			t.Errorf("%s: %s, %v, want %s", name, p, err, profile)
		}
	}
}

// TestJudgeRollout: one bit of one logit, or of one lataccel, is noticed.
func TestJudgeRollout(t *testing.T) {
	for _, change := range []func(r *Replies){
		func(r *Replies) { r.Logits[4*1024*7+9] ^= 1 },
		func(r *Replies) { r.Lataccel[8*7] ^= 1 },
	} {
		r := replies(t)
		change(r)
		f := judge("py", r, nil)
		if text := strings.Join(f.Warnings(), "\n"); f.Rollout.Equal != 9 ||
			!strings.Contains(text, "at 9 of 10 steps, though all other probes answer so "+
				"(numpy 9.1, pandas 9.2, onnxruntime 9.3") ||
			!strings.Contains(text, f.Rollout.Bits) {
			t.Errorf("%+v, warnings %q", f.Rollout, text)
		}
	}
	r := replies(t)
	r.Logits = r.Logits[4:]
	if f := judge("py", r, nil); f.whole() || f.Known() {
		t.Errorf("a logit is missing: %+v", f.Rollout)
	}
}

// TestNewerCPU: where a library takes other kernels on a newer CPU of arm64, for softmax as ONNX
// Runtime does with SVE, or for products alone, as KleidiAI's for SME, that is no known profile,
// and the warning names what the CPU has.
func TestNewerCPU(t *testing.T) {
	defer func() { features = processor }()
	for words, want := range map[string]string{
		"fp asimd sve sme sme2 i8mm": ", a CPU with sve sme sme2 i8mm): ",
		"fp asimd bf16":              ", a CPU with bf16): ",
		"fp asimd asimddp":           "onnxruntime 9.3): ",
	} {
		features = func() string { return "Features : " + words + "\nCPU part : 0xd4f\n" }
		for name, change := range map[string]func(r *Replies){
			"probe softmax: answer ": func(r *Replies) { r.Replies["softmax"].Bits[2] ^= 1 },
			"probe rollout: answer ": func(r *Replies) {
				for step := range 10 {
					r.Logits[4*1024*step] ^= 1
				}
			},
		} {
			r := replies(t, "ort1.30arm", "neon", "expC", "csvexact")
			if f := judge("py", r, nil); !f.Known() || !f.Complete() {
				t.Errorf("%s: unchanged answers: %q", words, f.Warnings())
			}
			change(r)
			f := judge("py", r, nil)
			text := strings.Join(f.Warnings(), "\n")
			if f.Known() || !strings.Contains(text, name) || !strings.Contains(text, want) ||
				!strings.Contains(text, "is not claimed") {
				t.Errorf("%s: %q, want %s…%s", words, text, name, want)
			}
		}
	}
}

// TestProcessor: of the CPU those lines are told that Linux has of the first one, and by each of
// them CPUs are told apart.
func TestProcessor(t *testing.T) {
	const x86 = "model name\t: a\nflags\t\t: fma avx2\n"
	const arm = "Features\t: fp asimd\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n"
	for info, want := range map[string]string{
		"": "", "\n" + x86: "",
		"processor\t: 0\n" + x86 + "power management:\n\nprocessor\t: 1\n" + x86: x86,
		"processor\t: 0\nBogoMIPS\t: 50.00\n" + arm + "CPU revision\t: 1\n":      arm,
	} {
		if got := firstCPU(info); got != want {
			t.Errorf("of %q is told %q, want %q", info, got, want)
		}
	}
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		t.Skip("no /proc/cpuinfo here")
	}
	first, _, _ := strings.Cut(string(info), "\n\n")
	got := processor()
	seen := map[string]int{}
	for line := range strings.Lines(got) {
		name, _, _ := strings.Cut(line, ":")
		seen[strings.TrimSpace(name)]++
		if !strings.Contains(first+"\n", line) {
			t.Errorf("%q is not said of the first CPU", line)
		}
	}
	if seen["flags"]+seen["Features"] != 1 || seen["processor"] > 0 {
		t.Errorf("the CPU is %q", got)
	}
}

// anyPython is a Python, with numpy or without.
func anyPython(t *testing.T) string {
	t.Helper()
	path, err := interpreter(t.Context(), "")
	if err != nil {
		want.Skip(t, want.Python.Lacks(err))
	}
	return path
}

// alone makes a Python find no packages but those of a new folder, and nothing that was kept.
func alone(t *testing.T, packages map[string]string) (folder string) {
	t.Helper()
	folder = t.TempDir()
	for name, text := range packages {
		if err := os.WriteFile(filepath.Join(folder, name+".py"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PYTHONPATH", folder)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	return folder
}

func kept(t *testing.T) []string {
	t.Helper()
	files, _ := filepath.Glob(
		filepath.Join(os.Getenv("XDG_CACHE_HOME"), "lockstep", "profiles", "*"),
	)
	return files
}

// TestLive asks the Python of this machine, and asks for what its answers are kept. It has its own
// NumPy, whatever the working folder has.
func TestLive(t *testing.T) {
	python := want.Python.Need(t)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	temporary := t.TempDir()
	t.Chdir(t.TempDir())
	another := []byte("raise ImportError('another')\n")
	if err := os.WriteFile("numpy.py", another, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", temporary)
	f := find(t.Context(), python)
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if !f.whole() || len(f.Answers) != 5 || f.Packages["numpy"] == "" || f.Version == "" {
		t.Fatalf("%s: %+v", f, f)
	}
	if f.Rollout.Equal != f.Rollout.Steps || len(f.Warnings()) > 0 && f.Complete() {
		t.Errorf("%s: rollout %+v, warnings %q", f, f.Rollout, f.Warnings())
	}
	data, again, err := Fingerprint(t.Context(), python)
	if err != nil || again.Profile != f.Profile || !json.Valid(data) {
		t.Errorf("fingerprint: %v, %d bytes, profile %v, want %v", err, len(data), again, f.Profile)
	}
}

// TestBroken: a Python that cannot answer is said to be one, in bounded time, and is asked
// again by the next command.
func TestBroken(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the fake Pythons are shell scripts")
	}
	defer func(d time.Duration) { limit = d }(limit)
	for name, c := range map[string]struct {
		script, want string
		limit        time.Duration
	}{
		"hangs":           {"sleep 1000", "no answer within", 200 * time.Millisecond},
		"hangs, with one": {"sleep 1000 & sleep 1000", "no answer within", 200 * time.Millisecond},
		"fails": {
			"echo before it >&2; echo no such thing >&2; exit 3",
			`exit status 3: "no such thing"`, time.Minute,
		},
		"says nothing": {"exit 0", "does not say which Python it runs", time.Minute},
		"is no Python": {
			"echo lockstep-answer", "does not say which Python it runs", time.Minute,
		},
		"prints for ever":  {"exec yes", "printed more than", time.Minute},
		"logs for ever":    {"exec yes >&2", "printed more than", time.Minute},
		"names no program": {"echo lockstep-answer /nowhere/python", "no such file", time.Minute},
		"names another":    {"echo lockstep-answer /bin/cat", "cat", time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			alone(t, nil)
			path := filepath.Join(t.TempDir(), "python")
			if err := os.WriteFile(path, []byte("#!/bin/sh\n"+c.script+"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			limit = c.limit
			f := find(t.Context(), path)
			if f.Profile != reference.HostProfile() || !strings.Contains(f.Source(), c.want) ||
				!strings.Contains(f.Source(), "pinned") ||
				f.whole() ||
				f.Complete() {
				t.Errorf("%s\n%+v", f.Source(), f)
			}
			if files := kept(t); len(files) > 0 {
				t.Errorf("kept: %q", files)
			}
		})
	}
}

// TestPackages: each package is asked, missing or broken, for itself.
func TestPackages(t *testing.T) {
	python := anyPython(t)
	if out, err := exec.Command(python, "-S", "-c", "").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	fake := "__version__ = '0.0'\n"
	for name, c := range map[string]struct {
		packages map[string]string
		want     map[string]string // by probe
		source   string
		kept     int
	}{
		"broken numpy": {
			map[string]string{"numpy": "raise ImportError('no library\\nat\\t  all')"},
			map[string]string{"exp": "ImportError: no library at all",
				"layer_norm": "ImportError: no library at all"},
			"could not answer",
			0,
		},
		"what a package needs is missing": {
			map[string]string{"numpy": fake, "pandas": "import nowhere.at_all"},
			map[string]string{"csv": "ModuleNotFoundError: No module named 'nowhere'"},
			"could not answer",
			0,
		},
		"not numpy": {
			map[string]string{"numpy": fake, "pandas": fake, "onnxruntime": fake},
			map[string]string{"exp": "AttributeError: ", "csv": "AttributeError: ",
				"softmax": "AttributeError: "},
			"could not answer",
			0,
		},
		"crash": {
			map[string]string{"numpy": fake, "pandas": fake, "onnxruntime": "import os; " +
				"os.abort()"},
			map[string]string{"exp": "AttributeError: ", "layer_norm": "the process ended " +
				"before it answered"},
			"",
			0,
		},
		"loud": {
			map[string]string{"numpy": "print('lockstep-answer {}')\nraise ImportError('x')"},
			map[string]string{"exp": "ImportError: x"}, "", 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			alone(t, c.packages)
			f := find(t.Context(), python)
			for _, a := range f.Answers {
				if text, ok := c.want[a.Probe]; ok && !strings.Contains(a.Error, text) {
					t.Errorf("probe %s: %+v, want …%s…", a.Probe, a, text)
				}
			}
			if !strings.Contains(f.Source(), c.source) || f.Profile != reference.HostProfile() ||
				len(f.Answers) == 0 ||
				f.whole() ||
				f.Known() {
				t.Errorf("%s\n%+v", f.Source(), f)
			}
			if files := kept(t); len(files) != c.kept {
				t.Errorf("kept: %q, want %d", files, c.kept)
			}
		})
	}
}

// markKept changes what was kept, to see whether it is read.
func markKept(t *testing.T, file string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r record
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	r.Found.Version = "kept"
	if data, err = json.Marshal(r); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestKept: what was answered is not asked again until a package comes, goes or changes, or
// the record is damaged.
func TestKept(t *testing.T) {
	python := anyPython(t)
	gone := map[string]string{}
	for _, name := range packages {
		gone[name] = "raise ModuleNotFoundError(name='" + name + "')"
	}
	t.Setenv("PYTHONUSERBASE", t.TempDir())
	site, err := exec.Command(
		python, "-c", "import site; print(site.getusersitepackages())",
	).Output()
	if err != nil {
		t.Fatal(err)
	}
	folder := alone(t, gone)
	if f := find(t.Context(), python); !f.whole() || f.Complete() ||
		!strings.Contains(f.Source(), "has no numpy, pandas and onnxruntime") {
		t.Fatalf("%s\n%+v", f.Source(), f)
	}
	files := kept(t)
	if len(files) != 1 {
		t.Fatalf("kept: %q, want one file", files)
	}
	isKept := func() bool { return find(t.Context(), python).Version == "kept" }
	for _, change := range []struct {
		what string
		make func() error
	}{
		{"a package was installed", func() error {
			return os.WriteFile(filepath.Join(folder, "another.py"), nil, 0o600)
		}},
		{"the user's own packages got a folder", func() error {
			return os.MkdirAll(strings.TrimSpace(string(site)), 0o700)
		}},
		{"the environment is another", func() error {
			t.Setenv("NPY_DISABLE_CPU_FEATURES", "AVX512F")
			return nil
		}},
	} {
		if markKept(t, files[0]); !isKept() {
			t.Errorf("asked again though nothing had changed before %s", change.what)
		}
		if err := change.make(); err != nil {
			t.Fatal(err)
		}
		if isKept() {
			t.Errorf("not asked again after %s", change.what)
		}
	}
	t.Setenv("NPY_DISABLE_CPU_FEATURES", "")
	os.Unsetenv("NPY_DISABLE_CPU_FEATURES")
	if err := os.WriteFile(files[0], []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if f := find(t.Context(), python); f.Version == "kept" || !f.whole() {
		t.Errorf("a damaged record: %+v", f)
	}
}

// TestRecord: a record is read if all of it is there and nothing has changed since.
func TestRecord(t *testing.T) {
	file, there := filepath.Join(t.TempDir(), "record"), t.TempDir()
	found, err := json.Marshal(judge("py", replies(t), nil))
	if err != nil {
		t.Fatal(err)
	}
	watched, err := json.Marshal([]stamp{stampOf(there), stampOf(there + "/none")})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{
		`{"Watched": WATCHED, "Found": FOUND}`:               true,
		`{"Watched": WATCHED, "Found": FOUND, "Watched": 3}`: false,
		`{"Watched": WATCHED, "Found": null}`:                false,
		`{"Watched": WATCHED, "Found": {}}`:                  false,
		`{"Watched": [], "Found": FOUND}`:                    false,
		`{"Watched": [{"Path": "/"}], "Found": FOUND}`:       false,
		`{}`: false, `null`: false, `{"Watched": WATCHED`: false, ``: false,
	} {
		text = strings.NewReplacer("WATCHED", string(watched), "FOUND", string(found)).Replace(text)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if f := read(file); (f != nil) != want {
			t.Errorf("%.300s: read %+v", text, f)
		}
	}
	if f := read(there + "/none"); f != nil {
		t.Errorf("read %+v from nothing", f)
	}
	// The oldest file there can be is another than none.
	path := filepath.Join(there, "old")
	none := stampOf(path)
	if want := (stamp{path, -1, 0}); none != want {
		t.Errorf("the stamp of nothing is %+v, want %+v", none, want)
	}
	if err := errors.Join(os.WriteFile(path, nil, 0o600),
		os.Chtimes(path, time.Unix(0, 1), time.Unix(0, 1))); err != nil {
		t.Fatal(err)
	}
	if stampOf(path) == none {
		t.Error("a file of 1970 has the stamp of none")
	}
	const size, at = 1<<33 + 5, 1_600_000_000_123_456_700 // beyond 32 bits
	if err := errors.Join(
		os.Truncate(path, size), os.Chtimes(path, time.Unix(0, at), time.Unix(0, at)),
	); err != nil {
		t.Skipf("no sparse files of %d bytes here: %v", int64(size), err)
	}
	if got, want := stampOf(path), (stamp{path, at, size}); got != want {
		t.Errorf("its stamp is %+v, want %+v", got, want)
	}
}

// chosenBy are the variables by which Python, NumPy, OpenBLAS, ONNX Runtime and what loads them
// choose packages and kernels, as they document them.
const chosenBy = "HOME PYTHONPATH PYTHONHOME PYTHONUSERBASE PYTHONNOUSERSITE PYTHONPLATLIBDIR " +
	"LD_LIBRARY_PATH LD_PRELOAD GLIBC_TUNABLES NPY_DISABLE_CPU_FEATURES " +
	"NPY_ENABLE_CPU_FEATURES OPENBLAS_CORETYPE ORT_DISABLE_AVX512"

// TestKey: a relative path in a list of folders is another in another folder, and each variable
// that chooses what answers is of the key.
func TestKey(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	for _, name := range folders {
		for _, list := range []string{
			"packages", "./packages", "/a" + string(filepath.ListSeparator),
		} {
			t.Setenv(name, list)
			t.Chdir(t.TempDir())
			here := newKey("/python")
			if newKey("/python") != here {
				t.Errorf("%s=%s: two keys in one folder", name, list)
			}
			t.Chdir(t.TempDir())
			if newKey("/python") == here {
				t.Errorf("%s=%s: one key in two folders", name, list)
			}
		}
		t.Setenv(name, "")
		here := newKey("/python")
		if t.Chdir(t.TempDir()); newKey("/python") != here {
			t.Errorf("%s is empty: two keys", name)
		}
	}
	for _, name := range strings.Fields(chosenBy) {
		before := newKey("/python")
		if t.Setenv(name, "/other"); newKey("/python") == before {
			t.Errorf("%s is another: one key", name)
		}
		before = newKey("/python")
		two := strings.Join([]string{"/other", "/one"}, string(filepath.ListSeparator))
		if t.Setenv(name, two); newKey("/python") == before {
			t.Errorf("%s is a list of two: one key", name)
		}
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	at := func(names ...string) string {
		return here + "/" + strings.Join(names, string(filepath.ListSeparator)+here+"/")
	}
	if got, want := filepath.ToSlash(absolute(strings.Join([]string{"a", "b", "c"},
		string(filepath.ListSeparator)))), filepath.ToSlash(at("a", "b", "c")); got != want {
		t.Errorf("three paths are %s, want %s", got, want)
	}
}

// TestKeyed: whatever decides on the answers is of the key: each variable, the interpreter, what a
// link leads to, and the configuration of a virtual environment.
func TestKeyed(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir := t.TempDir()
	bin, real := filepath.Join(dir, "bin"), filepath.Join(dir, "python3.11")
	python, config := filepath.Join(bin, "python"), filepath.Join(dir, "pyvenv.cfg")
	file := func(path, text string) func() error {
		return func() error { return os.WriteFile(path, []byte(text), 0o600) }
	}
	if err := errors.Join(os.Mkdir(bin, 0o700), file(real, "a")(),
		os.Symlink(real, python)); err != nil {
		t.Skip("for want of links:", err)
	}
	seen := map[key]string{newKey(python): "nothing"}
	changed := func(what string) {
		t.Helper()
		k := newKey(python)
		if was, ok := seen[k]; ok {
			t.Errorf("after %s the key is that of %s", what, was)
		}
		seen[k] = what
	}
	for _, name := range environment {
		t.Setenv(name, "another")
		changed(name)
	}
	for what, change := range map[string]func() error{
		"another program": file(real, "ab"), "a virtual environment": file(config, "home = /x"),
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		changed(what)
	}
	features = func() string { return "model name : another" }
	defer func() { features = processor }()
	changed("another CPU")
	other := filepath.Join(dir, "python3.12")
	stamp := time.Unix(1e9, 0)
	if err := errors.Join(file(other, "ab")(), os.Chtimes(other, stamp, stamp),
		os.Chtimes(real, stamp, stamp)); err != nil {
		t.Fatal(err)
	}
	changed("another time")
	if err := errors.Join(os.Remove(python), os.Symlink(other, python)); err != nil {
		t.Fatal(err)
	}
	changed("a link to another program that looks alike")
}

// TestChoose: names, and the variable that says what host stands for.
func TestChoose(t *testing.T) {
	const name = "ort1.23-avx2-expF-sinfma-csvexact"
	choose := func(asked string) string {
		p, found, err := Choose(t.Context(), asked, "/nowhere/python")
		if err != nil {
			return err.Error()
		}
		if found != nil {
			return "found: " + found.Source()
		}
		return p.String()
	}
	for _, c := range []struct{ variable, name, want string }{
		{"", name, name},
		{"", Pins, reference.HostProfile().String()},
		{"", Host, "found: that of the challenge's pinned packages on this CPU, since "},
		{"", "x", `profile "x": want five words`},
		{name, Host, name},
		{name, Pins, reference.HostProfile().String()},
		{Pins, Host, reference.HostProfile().String()},
		{Host, Host, "found: "},
		{"x", Host, `LOCKSTEP_PROFILE: profile "x": want five words`},
		{"x", name, name},
	} {
		t.Setenv(Variable, c.variable)
		if got := choose(c.name); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s=%s, profile %s: %s, want %s…", Variable, c.variable, c.name, got, c.want)
		}
	}
	t.Setenv(Variable, "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := Choose(ctx, Host, "python-that-nobody-has"); err == nil {
		t.Error("no error of an interruption")
	}
}

// TestAsked: what was kept for other questions, or was judged by other forms, is not read.
func TestAsked(t *testing.T) {
	line, err := questions()
	if err != nil {
		t.Fatal(err)
	}
	h := sha256.New()
	h.Write(line)
	probes, err := fingerprint.Probes()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range probes {
		answers := map[string][]byte{} // whether a profile has the form or none does
		for i := range p.Forms {
			answers[p.Forms[i].Word] = p.Expected(&p.Forms[i])
		}
		for _, word := range slices.Sorted(maps.Keys(answers)) {
			fmt.Fprintln(h, word)
			h.Write(answers[word])
		}
	}
	if sum := hex.EncodeToString(h.Sum(nil)[:8]); sum != asked {
		t.Errorf("the questions or the forms are others: set asked, in cache.go, to %q", sum)
	}
	profiles := lockstep.Profiles()
	if keyAmong(profiles, "python3") == keyAmong(profiles[1:], "python3") {
		t.Error("a program with a profile more reads what was kept without it")
	}
}
