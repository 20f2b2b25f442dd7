package main

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lockstep"
	"lockstep/internal/pycontroller"
	"lockstep/internal/simtest"
	"lockstep/internal/want"
)

// writeController writes a controller of which update has this body.
func writeController(t *testing.T, path, top, body string) {
	t.Helper()
	text := top + "\n\n\nclass Controller:\n    n = 0\n    def update(self, target_lataccel, " +
		"current_lataccel, state, future_plan):\n        " + body + "\n"
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// TestVerify: a score says what was touched and what it depends on; what patches the
// simulator costs what it costs without.
func TestVerify(t *testing.T) {
	want.Python.Need(t)
	inputs := shortInputs(t)
	dir := t.TempDir()
	rollout := map[string]string{} // each controller's average
	for name, c := range map[string]struct {
		top, body string
		want      []string
	}{
		"honest": {"", "return 0.3 * (target_lataccel - current_lataccel)", []string{"two runs: " +
			"equal\nthe result depends on: nothing but its arguments\n"}},
		"patches": {"from tinyphysics import TinyPhysicsSimulator\nTinyPhysicsSimulator.sim_step " +
			"= lambda self, i: None",
			"return 0.3 * (target_lataccel - current_lataccel)",
			[]string{
				"touched: patch tinyphysics.TinyPhysicsSimulator.sim_step\n",
				"two runs: equal\n",
				"depends on: nothing but its arguments\n",
			}},
		"reads": {"import os\nWEIGHTS = open(os.path.join(os.path.dirname(__file__), 'w.txt'))",
			"return float(len(WEIGHTS.name)) / 9e3",
			[]string{"touched: file w.txt\n", "depends on: files: yes\n"}},
		// What the first run leaves the second reads.
		"left": {"import os\nLEFT = '" + filepath.Join(dir, "left") + "'",
			"self.n = self.n or (len(open(LEFT).read()) if os.path.exists(LEFT)\n" +
				"                  else open(LEFT, 'w').write('123'))\n" +
				"        return 0.1 * self.n * (target_lataccel - current_lataccel)",
			[]string{"touched: file left\n", "depends on: files: yes\n"}},
		"draws": {"import random", "return random.random()",
			[]string{"two runs: DIFFERENT", "touched: random random\n", "depends on: patches: " +
				"unknown, time: unknown, random: yes, files: unknown\n"}},
		"other": {"import os", "return os.urandom(1)[0] / 255 + 0 * __import__('time').time()",
			[]string{"two runs: DIFFERENT", "touched: time time.time\n", "depends on: patches: " +
				"unknown, time: unknown, random: unknown, files: unknown\n"}},
		"urandom": {"import os", "return os.urandom(1)[0] / 255",
			[]string{"two runs: DIFFERENT", "depends on: patches: unknown, time: unknown, " +
				"random: unknown, files: unknown\n"}},
		"steals": {"", "import numpy as np; np.random.seed(3); return 0.0",
			[]string{"failed: route a: ", "2 of 2 routes failed: no average\n", "touched: " +
				"random numpy.random\n"}},
	} {
		if err := os.WriteFile(filepath.Join(dir, "w.txt"), []byte("0.3"), 0o666); err != nil {
			t.Fatal(err)
		}
		file, out := filepath.Join(dir, name+".py"), filepath.Join(dir, name+".json")
		writeController(t, file, c.top, c.body)
		args := append([]string{"verify", file, "--out", out}, inputs...)
		if name == "left" {
			args = append(args, "--num_segs", "1") // or the second route's would read it, too
		}
		status, stdout, stderr := lockstepRun(t.Context(), args...)
		// whose routes fail
		if want := map[bool]int{true: exitUsage}[name == "steals"]; status != want {
			t.Fatalf("%s: exit %d, want %d\n%s", name, status, want, stderr)
		}
		for _, want := range append(c.want, "score: "+out+" (") {
			if !strings.Contains(stdout, want) {
				t.Errorf("%s: %q is not in\n%s", name, want, stdout)
			}
		}
		_, rollout[name], _ = strings.Cut(strings.Split(stdout, "\n")[0], ": ")
	}
	if rollout["patches"] != rollout["honest"] {
		t.Errorf("patched: %s, want %s", rollout["patches"], rollout["honest"])
	}
}

// TestVerifyCheck: what is written holds, and what was changed does not. What is computed again is
// held to all of the score in one place, of which TestCompareScores has the rest.
func TestVerifyCheck(t *testing.T) {
	want.Python.Need(t)
	inputs := shortInputs(t)
	dir := t.TempDir()
	file, out := filepath.Join(dir, "c.py"), filepath.Join(dir, "score.json")
	writeController(
		t, file, "from gains import GAIN", "return GAIN * (target_lataccel - current_lataccel)",
	)
	if err := os.WriteFile(filepath.Join(dir, "gains.py"), []byte("GAIN = 0.3\n"),
		0o666); err != nil {
		t.Fatal(err)
	}
	if status, _, stderr := lockstepRun(t.Context(),
		append([]string{"verify", file, "--out", out}, inputs...)...); status != exitOK {
		t.Fatal(stderr)
	}
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	var good score
	if err := json.Unmarshal(data, &good); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*score)
		sign   bool // hashed again, as a forger would
		status int
		want   string
	}{
		"as it is": {func(*score) {}, false, exitOK, "equal in every bit: 2 routes of "},
		"a cost": {func(s *score) { s.Routes[1].Costs[2] = 6.88 }, false, exitParity,
			"it was changed"},
		"a cost, forged": {func(s *score) { s.Routes[1].Costs[2] = 6.88 }, true, exitParity,
			"route b costs ["},
		"a route, forged": {func(s *score) { s.Routes, s.Mean = s.Routes[:1], s.Routes[0].Costs },
			true, exitOK, "1 routes"},
		"controller": {func(s *score) { s.Controller.SHA256 = "0" }, true, exitParity,
			"the score is of 0"},
		"profile": {func(s *score) { s.Profile = "fast" }, true, exitUsage, "fast"},
		"format": {func(s *score) { s.Format = "x" }, true, exitUsage,
			`not a "lockstep score 1"`},
		"lost controller": {func(s *score) { s.Controller.Path = filepath.Join(dir, "none.py") },
			true, exitUsage, "name it after the flags"},
	} {
		var s score
		if err := json.Unmarshal(data, &s); err != nil {
			t.Fatal(err)
		}
		c.change(&s)
		if c.sign {
			if s.SHA256, err = s.hash(); err != nil {
				t.Fatal(err)
			}
		}
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		forged := filepath.Join(dir, "forged.json")
		if err := os.WriteFile(forged, text, 0o666); err != nil {
			t.Fatal(err)
		}
		status, stdout, stderr := lockstepRun(
			t.Context(),
			append([]string{"verify", "--check", forged}, inputs...)...)
		if status != c.status || !strings.Contains(stdout+stderr, c.want) {
			t.Errorf(
				"%s: exit %d, want %d with %q:\n%s%s", name, status, c.status, c.want, stdout,
				stderr,
			)
		}
	}
	for text, want := range map[string]string{
		"":                               "not a",
		"{}":                             "not a",
		`{"format": "lockstep score 1"}`: "it was changed",
		string(data) + "x":               "not a",
	} {
		if err := os.WriteFile(out, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if status, _, stderr := lockstepRun(t.Context(),
			append([]string{"verify", "--check", out}, inputs...)...); status == exitOK ||
			!strings.Contains(stderr, want) {
			t.Errorf("%.40q: exit %d, %s", text, status, stderr)
		}
	}
	if status, _, stderr := lockstepRun(t.Context(),
		append([]string{"verify"}, inputs...)...); status != exitUsage ||
		!strings.Contains(stderr, "verify wants a controller") {
		t.Errorf("exit %d, %s", status, stderr)
	}
}

// TestVerifyCheckOfOtherFlags: what a score was made with need not be said again.
func TestVerifyCheckOfOtherFlags(t *testing.T) {
	want.Python.Need(t)
	inputs := shortInputs(t)
	dir := t.TempDir()
	file, out := filepath.Join(dir, "c.py"), filepath.Join(dir, "score.json")
	writeController(t, file, "", "return 0.3 * (target_lataccel - current_lataccel)")
	if status, _, stderr := lockstepRun(t.Context(), append([]string{
		"verify", file, "--out", out, "--profile", "ort1.23-avx2-expF-sinfma-csv2",
		"--num_segs", "1", "--seed_prefix", "other",
	}, inputs...)...); status != exitOK {
		t.Fatal(stderr)
	}
	again := filepath.Join(dir, "again.json")
	if status, stdout, stderr := lockstepRun(t.Context(),
		append([]string{"verify", "--check", out, "--out", again}, inputs...)...); status !=
		exitOK || !strings.Contains(stdout, "equal in every bit: 1 routes of ") {
		t.Errorf("exit %d, %s%s", status, stdout, stderr)
	}
	first, err := os.ReadFile(out)
	second, err2 := os.ReadFile(again)
	if err := errors.Join(err, err2, simtest.Same("the score", second, first)); err != nil {
		t.Error(err)
	}
}

// TestHashFiles: what a controller read is named as seen from its folder, if it is in there, and
// has its hash, if it has one; what it touched otherwise has none.
func TestHashFiles(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	s := &score{Controller: hashed{Path: in("c.py")}, Touched: []pycontroller.Touch{
		{Kind: "file", Name: in("a/w.txt")}, {Kind: "file", Name: "w.txt"},
		{Kind: "file", Name: filepath.Join(filepath.Dir(dir), "x.npy")},
		{Kind: "time", Name: "time.time"}, {Kind: "file", Name: in("gone")},
		{Kind: "patch", Name: in("p")}, {Kind: "module", Name: in("gains.py")},
	}}
	var asked []string
	err := s.hashFiles(func(file string) (string, error) {
		if asked = append(asked, file); file == in("gone") {
			return "", nil
		}
		return "of " + filepath.Base(file), nil
	})
	files := []hashed{
		{filepath.Join("a", "w.txt"), "of w.txt"}, {"w.txt", "of w.txt"},
		{filepath.Join(filepath.Dir(dir), "x.npy"), "of x.npy"}, {"gains.py", "of gains.py"},
	}
	if err != nil || !slices.Equal(s.Files, files) || len(asked) != 5 ||
		s.Touched[4].Name != "gone" || s.Touched[5].Name != "p" {
		t.Errorf("%v: files %q of %q, touched %q", err, s.Files, asked, s.Touched)
	}
	if err := s.hashFiles(func(string) (string, error) { return "", io.EOF }); err == nil {
		t.Error("a file that cannot be read is left out")
	}

	c := &verifyCommand{}
	text := "class Controller: pass\n"
	if err := os.WriteFile(in("c.py"), []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	if c.source, err = pycontroller.ReadSource(in("c.py")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"c.py": fmt.Sprintf("%x", sha256.Sum256([]byte(text))), "none": "", ".": "",
	} {
		if got, err := c.hash(in(name)); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", name, got, err, want)
		}
	}
}

// TestScorePrinted: what a score says to people: three routes that failed, and how many did; the
// average of the others' costs, if there is one; and what the result depends on.
func TestScorePrinted(t *testing.T) {
	lost := errors.New("it fails\nand more")
	routes := make([]*lockstep.Route, 6)
	for i := range routes {
		routes[i] = &lockstep.Route{Name: fmt.Sprint("r", i)}
	}
	cost := func(x float64) lockstep.Result {
		return lockstep.Result{Costs: lockstep.Costs{Lataccel: x, Jerk: 10 * x, Total: 100 * x}}
	}
	failed := lockstep.Result{Err: lost}
	depends := func(words string) map[string]string {
		d := map[string]string{"network": "no"}
		for i, word := range strings.Fields(words) {
			d[factors[i].name] = word
		}
		return d
	}
	for _, c := range []struct {
		results []lockstep.Result
		score   score
		failed  int
		want    string
	}{
		{
			[]lockstep.Result{cost(1), cost(2), cost(1.5)},
			score{Repeated: true, Depends: depends("no no no no")}, 0,
			"c.py: 3 routes, average lataccel_cost:    1.5, average jerk_cost:     15, average " +
				"total_cost:    150\ntwo runs: equal\nthe result depends on: nothing but its " +
				"arguments\n",
		},
		{
			[]lockstep.Result{failed, cost(1), failed, failed, failed, cost(2)},
			score{
				Touched: []pycontroller.Touch{{Kind: "file", Name: "w.txt"}},
				Depends: depends("no yes unknown no"),
			}, 4,
			"failed: route r0: it fails\nfailed: route r2: it fails\nfailed: route r3: it fails\n" +
				"c.py: 4 of 6 routes failed: no average\n" +
				"two runs: DIFFERENT: this score is that of the first\ntouched: file w.txt\n" +
				"the result depends on: time: yes, random: unknown\n",
		},
	} {
		s := c.score
		s.Controller.Path = "c.py"
		s.add(routes[:len(c.results)], c.results)
		var out strings.Builder
		if n := s.print(&out); n != c.failed || out.String() != c.want {
			t.Errorf("%d failed, %s\nwant %d\n%s", n, &out, c.failed, c.want)
		}
		if text, err := json.Marshal(s.Mean); err != nil ||
			(string(text) == "null") != (c.failed > 0) {
			t.Errorf("the mean is %s, %v", text, err)
		}
	}
}

// TestCompareScores: whatever a score says that is not what is computed now is named, on
// either side, but for where files outside the controller's folder lie.
func TestCompareScores(t *testing.T) {
	made := func(change func(*score)) *score {
		s := &score{
			Network:  "12",
			Profile:  "host",
			Routes:   []scoredRoute{{Costs: &[3]number{1, 2, 3}}, {Error: "it fails"}},
			Mean:     &[3]number{1, 2, 3},
			Files:    []hashed{{"w.txt", "12"}, {"/home/a/x.npy", "34"}},
			Repeated: true,
			Touched: []pycontroller.Touch{
				{Kind: "file", Name: "w.txt"}, {Kind: "file", Name: "/home/a/x.npy"},
			},
			Depends: map[string]string{"network": "no", "files": "yes"},
		}
		change(s)
		return s
	}
	asItIs := func(*score) {}
	move := func(s *score) { s.Files[1].Path, s.Touched[1].Name = "/home/b/x.npy", "/home/b/x.npy" }
	for name, c := range map[string]struct {
		change     func(*score)
		said, here string // where the score was changed, and where what is computed now was
	}{
		"nothing": {asItIs, "", ""},
		"moved":   {move, "", ""},
		"no mean": {func(s *score) { s.Mean = nil }, "[1,2,3] here, and null in the score",
			"null here, and [1,2,3] in the score"},
		"network": {func(s *score) { s.Network = "34" }, "here has SHA-256 12, the score is of 34",
			"here has SHA-256 34, the score is of 12"},
		"profile": {func(s *score) { s.Profile = "pins" }, "here is host, the score's pins",
			"here is pins, the score's host"},
		"other route": {func(s *score) { s.Routes[1].SHA256 = "5" }, "the score's  (seed 0, 5)",
			"route 1 here is  (seed 0, 5)"},
		"fewer routes": {func(s *score) { s.Routes = s.Routes[:1] }, "2 routes here, the score " +
			"has 1", "1 routes here, the score has 2"},
		"a cost": {func(s *score) { s.Routes[0].Costs[2] = 4 }, "route  costs [1,2,3]",
			"route  costs [1,2,4]"},
		"runs": {func(s *score) { s.Repeated = false }, "two runs are equal: true here",
			"two runs are equal: false here"},
		"depends": {func(s *score) { s.Depends["files"] = "no" },
			"depends on files: yes here, no in the score",
			"depends on files: no here, yes in the score"},
		"one mean": {func(s *score) { s.Mean[1] = 0 }, "[1,2,3] here, and [1,0,3] in",
			"[1,0,3] here, and [1,2,3] in"},
		"an error": {func(s *score) { s.Routes[1].Error = "x" },
			`"it fails", and in the score with "x"`, `"x", and in the score with "it fails"`},
		"no files": {func(s *score) { s.Files = nil }, "read w.txt (SHA-256 12) here",
			"read w.txt (SHA-256 12) for"},
		"a file twice": {func(s *score) { s.Files = append(s.Files, s.Files[1]) }, "read x.npy " +
			"(SHA-256 34) for", "read x.npy (SHA-256 34) here"},
		"other file": {func(s *score) { s.Files[1].SHA256 = "35" }, "read x.npy (SHA-256 34) " +
			"here", "read x.npy (SHA-256 34) for"},
		"other name": {func(s *score) { s.Files[0].Path = "v.txt" }, "read v.txt (SHA-256 12) " +
			"for", "read v.txt (SHA-256 12) here"},
		"no touch": {func(s *score) { s.Touched = nil }, "touched file w.txt here",
			"touched file w.txt for"},
		"other touch": {func(s *score) { s.Touched[1].Kind = "module" },
			"touched file x.npy here", "touched file x.npy for"},
		"new factor": {func(s *score) { s.Depends["moon"] = "no" }, "moon: nothing here, no " +
			"in the score", "moon: no here, nothing in"},
	} {
		for _, side := range []struct {
			score, now *score
			want       string
		}{{made(c.change), made(asItIs), c.said}, {made(asItIs), made(c.change), c.here}} {
			err := side.score.compare(side.now)
			if (err == nil) != (side.want == "") ||
				err != nil && !strings.Contains(err.Error(), side.want) {
				t.Errorf("%s: %v, want %q", name, err, side.want)
			}
		}
	}
}
