package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/internal/simtest"
)

// fakeTests is a program in place of a package's tests, which notes what it is to run, and what the
// script makes of it.
func fakeTests(t *testing.T, script string) (*program, func() []string) {
	t.Helper()
	dir := t.TempDir()
	path, log := filepath.Join(dir, "tests"), filepath.Join(dir, "log")
	text := "#!/bin/sh\nwhile [ \"$1\" != -test.run ]; do shift; done\necho \"$2\" >> " + log +
		"\n" + script + "\n"
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return &program{path: path, dir: dir}, func() []string {
		t.Helper()
		data, err := os.ReadFile(log)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return strings.Fields(string(data))
	}
}

// TestJudge: tests that reach a mutant judge it, as many at once as take half a second together,
// those of another program and cases of a test apart, until one sees it.
func TestJudge(t *testing.T) {
	const all, some = `exit 0`, `case "$2" in *TestSees*) exit 1;; esac`
	for _, c := range []struct {
		name, script string
		seconds      []float64 // of the tests
		names        string
		reached      string
		want         string
		runs         []string // of the first program; TestX are of the second
	}{
		{"nobody", all, []float64{.1, .1}, "TestA TestB", "00", "NOT COVERED", nil},
		{"one", all, []float64{.1, .1}, "TestA TestB", "01", "LIVED", []string{"^(TestB)$"}},
		{"at once", all, []float64{.1, .2, .1}, "TestA TestB TestC", "111", "LIVED",
			[]string{"^(TestA|TestB|TestC)$"}},
		{"half a second", all, []float64{.25, .25}, "TestA TestB", "11", "LIVED",
			[]string{"^(TestA)$", "^(TestB)$"}},
		{"too long", all, []float64{.1, .3, .2, .05}, "TestA TestB TestC TestD", "1111", "LIVED",
			[]string{"^(TestA|TestB|TestD)$", "^(TestC)$"}},
		{"three", all, []float64{.2, .2, .2}, "TestA TestB TestC", "111", "LIVED",
			[]string{"^(TestA|TestB)$", "^(TestC)$"}},
		{"cases", all, []float64{.1, .1, .1}, "TestA TestB/c|d/e TestC", "111", "LIVED",
			[]string{"^(TestA|TestC)$", "^(TestB)$/^(c|d)$/^(e)$"}},
		{"a case first", all, []float64{.1, .1}, "TestA/b TestC", "11", "LIVED",
			[]string{"^(TestA)$/^(b)$", "^(TestC)$"}},
		{"two programs", all, []float64{.1, .1, .1}, "TestA TestX TestC", "111", "LIVED",
			[]string{"^(TestA|TestC)$"}},
		{"seen", some, []float64{.4, .4, .4}, "TestA TestSees TestC", "111", "KILLED",
			[]string{"^(TestA)$", "^(TestSees)$"}},
		{"seen by nobody who runs", some, []float64{.4, .4}, "TestA TestSees", "10", "LIVED",
			[]string{"^(TestA)$"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			first, runs := fakeTests(t, c.script)
			second, others := fakeTests(t, all)
			var tests []test
			for i, name := range strings.Fields(c.names) {
				in := first
				if name == "TestX" {
					in = second
				}
				reached := []byte{7, c.reached[i] - '0'}
				tests = append(
					tests, test{in: in, name: name, seconds: c.seconds[i], reached: reached},
				)
			}
			got, err := judge(tests, 1)
			if err != nil || got != c.want {
				t.Errorf("%q, %v; want %q", got, err, c.want)
			}
			if runs := runs(); !slices.Equal(runs, c.runs) {
				t.Errorf("runs of %q, want %q", runs, c.runs)
			}
			if got, want := len(others()), strings.Count(c.names, "TestX"); got != want {
				t.Errorf("%d runs of the other program, want %d", got, want)
			}
		})
	}
}

// TestWork: tests that are run at once may work for ten times what all of them need.
func TestWork(t *testing.T) {
	defer func(was time.Duration) { grace = was }(grace)
	grace = time.Second / 5
	in, runs := fakeTests(t, `ulimit -t 5; test $LOCKSTEP_MUTANT = -1 || while :; do :; done`)
	got, err := judge([]test{
		{in: in, name: "TestA", work: time.Hour, reached: []byte{1}},
		{in: in, name: "TestB", reached: []byte{1}},
	}, 0)
	if err != nil || got != "TIMED OUT" || len(runs()) < 3 {
		t.Errorf("%q, %v after %d runs; want TIMED OUT, with one between that is in time", got, err,
			len(runs()))
	}
}

// TestStart: a program is told which mutant and where to note what is reached, and what it prints
// is kept; one that cannot be started judges nothing.
func TestStart(t *testing.T) {
	p, _ := fakeTests(t, `echo "$LOCKSTEP_MUTANT $LOCKSTEP_MUTANTS_REACHED"; echo told >&2; exit 3`)
	out, _, err := p.start([]string{"TestA"}, 12, "there", time.Minute)
	if want := "12 there\ntold\n"; out != want || fmt.Sprint(err) != "exit status 3" {
		t.Errorf("%q, %v; want %q, exit status 3", out, err, want)
	}
	b := &batch{in: &program{path: p.path, dir: filepath.Join(p.dir, "none")}, names: []string{"T"}}
	if got, err := b.judge(1); err == nil {
		t.Errorf("a program that cannot be started: %q", got)
	}
	p, _ = fakeTests(t, `case $LOCKSTEP_MUTANT in -1) exit 1;; esac; exec sleep 60`)
	defer func(was time.Duration) { grace = was }(grace)
	grace = time.Second / 10
	_, err = (&batch{in: p, names: []string{"TestA"}}).judge(1)
	simtest.Refused(t, "tests that fail without a mutant", err,
		`["TestA"] of `+p.dir+" fail without a mutant: exit status 1")
}

// TestLeave: of a line of which the compiler complains first its loop control is left, then all,
// and of a function that does not end the loop control in it; then nothing is left to leave.
func TestLeave(t *testing.T) {
	b := &build{
		root: "/module", pkg: listed{Dir: "/module/p"},
		mutants: []mutant{
			{Operator: loop, File: "p/a.go", Line: 2},
			{Operator: boundary, File: "p/a.go", Line: 2},
			{Operator: loop, File: "p/a.go", Line: 4},
			{Operator: loop, File: "p/a.go", Line: 5},
			{Operator: boundary, File: "p/a.go", Line: 6},
			{Operator: loop, File: "p/a.go", Line: 7},
			{Operator: loop, File: "p/a.go", Line: 9},
			{Operator: loop, File: "p/b.go", Line: 5},
			{Operator: negation, File: "p/b.go", Line: 8},
		},
		lines: map[string][]string{"p/a.go": {
			"func a() {", "one", "}", "func b() {", "two", "three", "four", "}", "five",
		}, "p/b.go": make([]string, 9)},
	}
	without := map[place]bool{}
	lines := func() (all []string) {
		for p := range without {
			all = append(all, fmt.Sprintf("%s:%d", p.file, p.line))
		}
		slices.Sort(all)
		return all
	}
	for _, c := range []struct {
		out  string
		grew bool
		want string // the lines that are left, one twice that has two places
	}{
		{"# p\nno place: of nothing\n", false, ""},
		{"/elsewhere/a.go:2:7: unused\n", true, "p/a.go:2"},
		{"p/a.go:2:7: unused\n", true, "p/a.go:2 p/a.go:2"},
		{"p/a.go:2:7: unused\n", false, "p/a.go:2 p/a.go:2"},
		{"p/a.go:8:1: missing return\n", true, "p/a.go:2 p/a.go:2 p/a.go:5 p/a.go:7"},
		{"p/a.go:8:1: missing return\n", false, "p/a.go:2 p/a.go:2 p/a.go:5 p/a.go:7"},
		{"p/a.go:6:1: x\nb.go:8:3: y\n", true,
			"p/a.go:2 p/a.go:2 p/a.go:5 p/a.go:6 p/a.go:7 p/b.go:8"},
	} {
		if grew := b.leave(without, c.out); grew != c.grew {
			t.Errorf("%q: more is left: %v, want %v", c.out, grew, c.grew)
		}
		if got := strings.Join(lines(), " "); got != c.want {
			t.Errorf("%q: lines left %s, want %s", c.out, got, c.want)
		}
	}
}

// TestOver: a budget that is not given has no end.
func TestOver(t *testing.T) {
	for _, c := range []struct {
		budget, since time.Duration
		want          bool
	}{{0, time.Hour, false}, {time.Minute, time.Hour, true}, {time.Hour, time.Minute, false}} {
		o := &options{budget: c.budget}
		if got := o.over(time.Now().Add(-c.since)); got != c.want {
			t.Errorf("a budget of %v, after %v: over %v, want %v", c.budget, c.since, got, c.want)
		}
	}
}

// TestPercent: where all are equivalent nothing lives; an interval goes from below to above.
func TestPercent(t *testing.T) {
	for _, c := range []struct {
		score    score
		percent  float64
		interval string
	}{
		{score{mutants: 3, judged: 3, equivalent: 3}, 100, "all"},
		{score{mutants: 100, judged: 12, equivalent: 2, killed: 10}, 100, "72–100 %"},
		{score{mutants: 100, judged: 10}, 0, "0–28 %"},
		{score{mutants: 100, judged: 50, equivalent: 10, killed: 30}, 75, "60–86 %"},
	} {
		if got := c.score.percent(); got != c.percent {
			t.Errorf("%+v: %v %%, want %v", c.score, got, c.percent)
		}
		if got := c.score.interval(); got != c.interval {
			t.Errorf("%+v: %s, want %s", c.score, got, c.interval)
		}
	}
}

// TestVerdicts: what was judged is not judged again, and what is new is.
func TestVerdicts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kept")
	m := mutant{Operator: "ARITHMETIC_BASE", File: "p/p.go", Line: 5, Column: 35}
	judged := func(want string, i int, m mutant) {
		t.Helper()
		v, err := openVerdicts(path)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := v.judge(nil, i, m); got != want || err != nil {
			t.Errorf("mutant %d is %q, want %q: %v", i, got, want, err)
		}
	}
	judged("NOT COVERED", 3, m)
	kept, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	kept = bytes.Replace(kept, []byte("NOT COVERED"), []byte("KILLED"), 1)
	if err := os.WriteFile(path, kept, 0o600); err != nil {
		t.Fatal(err)
	}
	judged("KILLED", 3, m)
	judged("NOT COVERED", 4, m)
	other := m
	other.Column++
	judged("NOT COVERED", 3, other)
}
