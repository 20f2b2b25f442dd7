package mutants

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lockstep/internal/simtest"
	"lockstep/parity/verdict"
)

// TestFaults: every fault still fits the code, and changes it.
func TestFaults(t *testing.T) {
	root, err := FindRoot(".")
	if err != nil {
		t.Fatal(err)
	}
	faults, err := All()
	if err != nil {
		t.Fatal(err)
	}
	if len(faults) < 40 {
		t.Errorf("%d faults, want 40 or more", len(faults))
	}
	titles := map[string]string{}
	for _, f := range faults {
		contents, err := f.patched(root)
		if err != nil {
			t.Error(err)
		}
		for file, content := range contents {
			if data, err := os.ReadFile(filepath.Join(root, file)); err != nil ||
				string(data) == content {
				t.Errorf("fault %s does not change %s (%v)", f.Name, file, err)
			}
		}
		folder, name, _ := strings.Cut(f.Test, " ")
		words := "Test" + strings.TrimPrefix(name, "Test")
		if f.Test != "" && !simtest.Declares(t, filepath.Join(root, folder), words) {
			t.Errorf("fault %s: its tests are nowhere: %s", f.Name, f.Test)
		}
		if !strings.HasSuffix(f.Title, ".") {
			t.Errorf("fault %s: title %q is no sentence", f.Name, f.Title)
		}
		key := f.Engine + f.Title
		if other := titles[key]; other != "" {
			t.Errorf("faults %s and %s have one title", f.Name, other)
		}
		titles[key] = f.Name
	}
}

// TestREADME: the table is of these faults, and the totals below it are its.
func TestREADME(t *testing.T) {
	data, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	table := string(data)
	totals := scoreOf(table).Totals()
	if !strings.HasSuffix(table, "\n"+totals+"\n") {
		t.Errorf(
			"the table comes to %q, which does not end README.md: run `make mutants`", totals,
		)
	}
	faults, err := All()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{}
	for _, f := range faults {
		want = append(
			want,
			fmt.Sprintf(
				"| %s | %s | %s ", f.Name, strings.ReplaceAll(f.Title, "|", `\|`), f.Engine,
			),
		)
	}
	got := []string{}
	for line := range strings.Lines(table) {
		if cells := strings.SplitN(line, "| ", 5); len(cells) == 5 && cells[1] != "fault " {
			got = append(got, strings.Join(cells[:4], "| "))
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf(
			"the table in parity/mutants/README.md is old, run `make mutants` (-faults "+
				"+README):\n%s",
			d,
		)
	}
}

// scoreOf counts the rows of a table.
func scoreOf(table string) *verdict.Score {
	s := &verdict.Score{}
	for line := range strings.Lines(table) {
		if clean, ok := strings.CutPrefix(line, "Run without a fault: "); ok {
			s.Clean = strings.Split(clean, ", ")
		}
		cells := strings.Split(strings.ReplaceAll(line, `\|`, ""), " | ")
		if len(cells) != 8 || cells[0] == "| fault" {
			continue
		}
		caught := cells[3] == "yes"
		s.Mutants = append(
			s.Mutants,
			verdict.Mutant{Caught: caught, Right: caught && !strings.HasPrefix(cells[5], "✗")},
		)
	}
	return s
}

// TestScoreOf: rows that were not caught or not named rightly are seen as such.
func TestScoreOf(t *testing.T) {
	want := &verdict.Score{Clean: []string{"reference", "./cmd/internal/runs"}}
	for i := range 4 {
		want.Mutants = append(
			want.Mutants,
			verdict.Mutant{
				Name:   "m",
				Title:  "A | B.",
				Stage:  "cdf",
				Named:  "cdf",
				Caught: i < 3,
				Right:  i < 2,
			},
		)
	}
	want.Mutants[3].Error = "no compiler"
	var b strings.Builder
	if err := want.WriteTable(&b, true); err != nil {
		t.Fatal(err)
	}
	if got := scoreOf(b.String()).Totals(); got != want.Totals() {
		t.Errorf("%q, want %q", got, want.Totals())
	}
}

// TestPlantKnown: what a ledger has is not tried again, and the table says how many rows are
// its, and of what commit.
func TestPlantKnown(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "a.go"), []byte("package a // one two"),
		0o666); err != nil {
		t.Fatal(err)
	}
	keep := filepath.Join(t.TempDir(), "ledger.json")
	l, err := openLedger(keep, root)
	if err != nil {
		t.Fatal(err)
	}
	faults := []Fault{
		{Name: "one", Engine: "a", Edits: []Edit{{"a.go", "one", "1"}}},
		{Name: "two", Engine: "a", Edits: []Edit{{"a.go", "two", "2"}}},
	}
	for _, name := range []string{"a", "one"} {
		if err := l.add(verdict.Mutant{Name: name, Caught: true}); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("GIT_CEILING_DIRECTORIES", filepath.Dir(root))
	score, err := Plant(t.Context(), root, faults, keep, nil)
	if err != nil {
		t.Fatal(err)
	}
	if m := score.Mutants; len(m) != 2 || m[0].Name != "one" || !m[0].Caught ||
		m[1].Name != "two" || m[1].Caught || !strings.Contains(m[1].Error, "go.mod") ||
		!slices.Equal(score.Clean, []string{"a"}) || len(score.Alarms) > 0 || score.Known != 1 {
		t.Errorf("known is one, and two is tried, where no Go module is: %+v", score)
	}
	if kept, err := openLedger(keep, root); err != nil || len(kept.Known) < 2 ||
		!kept.Known["one"].Caught {
		t.Errorf("kept are %+v, %v", kept, err)
	}
	if want := "1 rows are of the last run, 1 of earlier ones of the same sources, at no known " +
		"commit."; score.Origin() != want {
		t.Errorf("%q, want %q", score.Origin(), want)
	}
	score.Known, score.Commit = 0, "commit 0123abcd"
	if want := "All 2 rows are of one run, at commit 0123abcd."; score.Origin() != want {
		t.Errorf("%q, want %q", score.Origin(), want)
	}
}

func TestParse(t *testing.T) {
	const file = "Left is right.\n\nstage: tokens\nkernels: go\n-- a/b.go --\nleft\n-- " +
		"replacement --\nright\n-- c.go --\n\tif {\n\t}\n-- replacement --\n"
	got, err := parse("sides", []byte(file))
	want := Fault{
		Name: "sides", Title: "Left is right.", Stage: "tokens", Engine: "a", Kernels: "go",
		Edits: []Edit{{"a/b.go", "left", "right"}, {"c.go", "\tif {\n\t}", ""}},
	}
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Errorf("error %v, difference %s", err, d)
	}
	for text, want := range map[string]string{
		"T.\n\n-- a --\nx\n-- replacement --\ny\n": "no line that " +
			"names the stage, nor one",
		"T.\n\nstage: token\n-- a --\nx\n-- replacement --\ny\n": `stage "token" is not known`,
		"T.\n\nstage: draw\nwhat: no\n-- a --\nx\n-- replacement --\ny\n": `line "what: no" is ` +
			`not known`,
		"T.\n\nstage: draw\n-- a --\nx\n-- b --\ny\n": `section "b" ` +
			`follows "a", want its replacement`,
		"T.\n\nstage: draw\n":             "0 sections",
		"T.\n\nstage: draw\n-- a --\nx\n": "1 sections",
		"T.\n\nstage: draw\n-- a --\nx\n-- replacement --\ny\n-- replacement --": "3 sections",
	} {
		if _, err := parse("f", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %s", text, err, want)
		}
	}
}

// TestPatched: a text that is not there, or there twice, is an error.
func TestPatched(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "a.go"), []byte("one two two three"),
		0o666); err != nil {
		t.Fatal(err)
	}
	f := Fault{Name: "f", Edits: []Edit{{"a.go", "one", "two"}, {"a.go", "three", "3"}}}
	if got, err := f.patched(root); err != nil || got["a.go"] != "two two two 3" {
		t.Errorf("%q, %v", got, err)
	}
	for text, want := range map[string]string{
		"four": "fault f: its text is found 0 times in a.go, want once: mend " +
			"parity/mutants/faults/f.txt\nfour",
		"two": "fault f: its text is found 2 times in a.go, want once: mend " +
			"parity/mutants/faults/f.txt\ntwo",
	} {
		f.Edits = []Edit{{"a.go", text, "x"}}
		if _, err := f.patched(root); err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
		ran := false
		if _, err := Plant(t.Context(), root, []Fault{f}, "",
			func(verdict.Mutant) { ran = true }); err == nil ||
			!strings.Contains(err.Error(), want) ||
			ran {
			t.Errorf("error %v, ran %v, want %s and no run", err, ran, want)
		}
	}
	f.Edits = []Edit{{"b.go", "x", "y"}}
	if _, err := f.patched(root); err == nil || !strings.Contains(err.Error(), "b.go") {
		t.Errorf("error %v", err)
	}
}

func TestFindRoot(t *testing.T) {
	if _, err := FindRoot(t.TempDir()); err == nil ||
		!strings.Contains(err.Error(), "is not inside lockstep's source") {
		t.Errorf("error %v", err)
	}
}

// TestJudge: a fault is caught where tests ran and failed. That go could not run them, for
// the code or the machine, says nothing of it.
func TestJudge(t *testing.T) {
	failed := errors.New("exit status 1")
	const outside = "panic: y\n\ngoroutine 7 [running]:\nFAIL\tlockstep/p\t0.009s\nFAIL\n"
	for _, c := range []struct {
		test, out, caught, want string // the test that is named, or the error's text
		err                     error
	}{
		{test: "./p", out: "ok  \tlockstep/p\t0.002s\n"},
		{
			test: "./p",
			out: "--- FAIL: TestOne (0.00s)\n    one_test.go:9: " +
				"no\nFAIL\nFAIL\tlockstep/p\t0.002s\nFAIL\n",
			err:    failed,
			caught: "TestOne",
		},
		{test: "./p", out: "--- FAIL: TestOne (0.00s)\n" + outside, err: failed, caught: "TestOne"},
		{test: "./p", out: outside, err: failed, caught: "./p does not end well"},
		{test: "./p", out: "exit status 3\nFAIL\tlockstep/p\t0.002s\nFAIL\n", err: failed,
			caught: "./p does not end well"},
		{test: "./p", out: "signal: killed\nFAIL\tlockstep/p\t0.003s\nFAIL\n", err: failed,
			want: "tests did not run: exit status 1\nsignal: killed"},
		{
			test: "./p",
			out:  "fork/exec /tmp/p.test: permission " + "denied\nFAIL\tlockstep/p\t0.000s\nFAIL\n",
			err:  failed,
			want: "permission denied",
		},
		{
			test: "./p",
			out: "# lockstep/p\np/p.go:3:1: syntax error\nFAIL\tlockstep/p [build " +
				"failed]\nFAIL\n",
			err:  failed,
			want: "syntax error",
		},
		{test: "./p", out: "# ./p\nFAIL\t./p [setup failed]\nFAIL\n", err: failed,
			want: "setup failed"},
		{test: "./p", out: "go: writing stat cache: no space left on device\n", err: failed,
			want: "no space left on device"},
		{test: "./p", out: "panic: of the go command\n", err: failed, want: "panic: of the go " +
			"command"},
		{test: "./p", err: exec.ErrNotFound, want: "executable file not found"},
		{out: "=== RUN   TestProbe\n" + verdictLine + `{"caught":true,"stage":"cdf"}` + "\nok\n",
			caught: "cdf"},
		{out: "=== RUN   TestProbe\n--- PASS: TestProbe (0.00s)\n", want: "no verdict"},
		{out: "--- FAIL: TestProbe (0.00s)\n", err: failed, want: "no verdict: exit status 1"},
	} {
		v, err := (&Fault{Name: "f", Test: c.test}).judge([]byte(c.out), c.err)
		if v.Caught != (c.caught != "") || v.Detail+v.Stage != c.caught {
			t.Errorf("%q: %+v, want %q", c.out, v, c.caught)
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v, want %q", c.out, err, c.want)
		}
	}
}

// TestFailingGo: where go itself fails for the machine, a fault was not tried.
func TestFailingGo(t *testing.T) {
	t.Setenv("GOTMPDIR", filepath.Join(t.TempDir(), "none"))
	for _, f := range []Fault{
		{Name: "tested", Test: "./parity/schema"}, {Name: "probed", Engine: "reference"},
	} {
		root, err := FindRoot(".")
		if err != nil {
			t.Fatal(err)
		}
		m := f.plant(t.Context(), root)
		if m.Caught || !strings.Contains(m.Error, "creating work dir") {
			t.Errorf("%+v", m)
		}
	}
}

// TestLedger: what was tried is not tried again, and all of other sources is, or where the
// ledger is none.
func TestLedger(t *testing.T) {
	root := t.TempDir()
	source, path := filepath.Join(root, "a.go"), filepath.Join(root, "build", "ledger.json")
	write := func(name, text string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o777),
			os.WriteFile(name, []byte(text), 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	open := func(want ...string) *ledger {
		t.Helper()
		l, err := openLedger(path, root)
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.Sorted(maps.Keys(l.Known)); !slices.Equal(got, want) {
			t.Errorf("%q are known, want %q", got, want)
		}
		return l
	}
	write(source, "package a")
	write(path, "")
	for _, m := range []verdict.Mutant{
		{Name: "one", Caught: true, Steps: 7}, {Name: "two"}, {Name: "three", Error: "no compiler"},
	} {
		if err := open(map[string][]string{"one": nil, "two": {"one"},
			"three": {"one", "two"}}[m.Name]...).add(m); err != nil {
			t.Fatal(err)
		}
	}
	if m := open("one", "two").Known["one"]; !m.Caught || m.Steps != 7 {
		t.Errorf("%+v", m)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	write(source, "package b")
	open()
	write(source, "package a")
	for _, damaged := range []string{
		string(text[:len(text)-9]), "null", "[]",
		string(regexp.MustCompile(`"known":.*}`).ReplaceAll(text, []byte(`"known":null}`))),
	} {
		write(path, damaged)
		if err := open().add(verdict.Mutant{Name: "four"}); err != nil {
			t.Fatal(err)
		}
		open("four")
	}
}

// TestMutant: what became of a fault is right where it was caught in its own stage, or by its own
// test, and nothing was caught where it could not be tried.
func TestMutant(t *testing.T) {
	probed := Fault{Name: "a", Title: "A.", Engine: "batched", Stage: "cdf"}
	tested := probed
	tested.Test = "./golden TestGolden"
	seen := Sighting{Caught: true, Stage: "cdf", Detail: "TestGolden", Rollouts: 2, Steps: 3}
	other, missed := seen, Sighting{Rollouts: 2, Steps: 3}
	other.Stage = "probs"
	of := func(stage, named string, caught, right bool, err string) verdict.Mutant {
		return verdict.Mutant{
			Name: "a", Title: "A.", Engine: "batched", Stage: stage, Named: named, Caught: caught,
			Right: right, Rollouts: 2, Steps: 3, Error: err,
		}
	}
	for i, c := range []struct {
		fault Fault
		saw   Sighting
		err   error
		want  verdict.Mutant
	}{
		{probed, seen, nil, of("cdf", "cdf", true, true, "")},
		{probed, other, nil, of("cdf", "probs", true, false, "")},
		{probed, missed, nil, of("cdf", "", false, false, "")},
		{probed, seen, errors.New("no"), of("cdf", "", false, false, "no")},
		{tested, other, nil, of("tests", "TestGolden", true, true, "")},
		{tested, missed, nil, of("tests", "", false, false, "")},
	} {
		if got := c.fault.mutant(c.saw, c.err); got != c.want {
			t.Errorf("case %d: %+v, want %+v", i, got, c.want)
		}
	}
	third := tested
	third.Engine, third.Test = "reference", ""
	var names []string
	for _, b := range bare([]Fault{tested, probed, tested, third, probed}) {
		names = append(names, b.Name)
	}
	if want := []string{"batched", "reference", tested.Test}; !slices.Equal(names, want) {
		t.Errorf("without faults %q are tried, want %q", names, want)
	}
	// Without the fault what is seen is a false alarm.
	seen.Check = "the first rollout"
	for i, c := range []struct {
		fault Fault
		saw   Sighting
		err   error
		want  string
	}{
		{probed, seen, nil, "a, without a fault: stage cdf, the first rollout: TestGolden"},
		{tested, seen, nil, "a, without a fault: TestGolden fails"},
		{probed, missed, nil, "<nil>"}, {tested, Sighting{}, nil, "<nil>"},
		{probed, Sighting{}, nil, "a: nothing was compared"},
		{probed, missed, errors.New("no"), "a: no"},
	} {
		if got := fmt.Sprint(c.fault.falseAlarm(c.saw, c.err)); got != c.want {
			t.Errorf("alarm %d: %s, want %s", i, got, c.want)
		}
	}
}
