package verdict_test

import (
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/internal/simtest"
	"lockstep/parity"
	"lockstep/parity/verdict"
)

// TestCheck: what is required and was not run has failed, and so has a check of which nothing was.
func TestCheck(t *testing.T) {
	passed := verdict.CheckCase{Outcome: verdict.Passed}
	lacks := func(outcome, want string) verdict.CheckCase {
		return verdict.CheckCase{Outcome: outcome, Lacks: want, Message: "no device"}
	}
	for _, c := range []struct {
		cases   []verdict.CheckCase
		err     error
		require string
		why     string // empty if it passes
		failed  string // the message of its failed case
	}{
		{[]verdict.CheckCase{passed, lacks(verdict.NotRun, "gpu")}, nil, "gpu",
			"1 of 2 cases failed", "skipped, and gpu is required: no device"},
		{[]verdict.CheckCase{passed, lacks(verdict.NotRun, "gpu"), lacks(verdict.NotRun, ""),
			lacks(verdict.NotApplicable, "gpu")}, nil, "gpu",
			"1 of 2 cases failed", "skipped, and gpu is required: no device"},
		{[]verdict.CheckCase{passed, lacks(verdict.NotRun, "gpu")}, nil, "assets", "", ""},
		{[]verdict.CheckCase{passed, lacks(verdict.NotRun, "")}, nil, "", "", ""},
		{[]verdict.CheckCase{passed, lacks(verdict.NotApplicable, "gpu")}, nil, "gpu", "", ""},
		{[]verdict.CheckCase{lacks(verdict.NotApplicable, "gpu")}, nil, "gpu",
			"no case was run: no device", ""},
		{nil, nil, "gpu", "no case was run", ""},
		{[]verdict.CheckCase{passed}, errors.New("it broke"), "gpu", "it broke", ""},
	} {
		check := verdict.Check{Cases: c.cases}
		check.Judge(c.err, []string{c.require})
		failed := ""
		for _, k := range check.Cases {
			if k.Outcome == verdict.Failed {
				failed = k.Message
			}
		}
		if check.Why != c.why || (check.Outcome == verdict.Passed) != (c.why == "") ||
			failed != c.failed {
			t.Errorf("%+v, %v: %s, %q, want %q; failed %q, want %q", c.cases, c.err, check.Outcome,
				check.Why, c.why, failed, c.failed)
		}
	}
}

// TestCheckText: what is known of a check is shown, each field where it says something: how many
// cases and why it was so always, its output where no case says what failed.
func TestCheckText(t *testing.T) {
	const passed, failed, absent = verdict.Passed, verdict.Failed, verdict.NotRun
	type shown struct {
		text string
		in   []string // outcomes
	}
	lines := map[string]shown{
		"Check.Name":        {"its-name", []string{passed, failed, absent}},
		"Check.Title":       {"its-title", nil},
		"Check.Outcome":     {"", nil},
		"Check.Why":         {"its-why", []string{failed, absent}},
		"Check.Note":        {"its-note", []string{passed, failed}},
		"Check.Seconds":     {"1234.5 s", []string{passed, failed}},
		"Check.Command":     {"its-command", []string{failed}},
		"Check.Cases":       {"", nil},
		"Check.Comparisons": {"", nil},
		"Check.Mutants":     {"", nil},
		"Check.Output":      {"its-output", []string{failed}},
	}
	text := map[string]string{}
	for _, outcome := range []string{passed, failed, absent} {
		var b strings.Builder
		c := verdict.Check{
			Name: "its-name", Title: "its-title", Outcome: outcome, Why: "its-why",
			Note: "its-note", Seconds: 1234.5, Command: "its-command", Output: "its-output",
		}
		if err := c.WriteText(&b); err != nil {
			t.Fatal(err)
		}
		text[outcome] = b.String()
	}
	simtest.Fields(t, lines, func(name string, line shown) {
		for outcome, text := range text {
			if line.text != "" &&
				strings.Contains(text, line.text) != slices.Contains(line.in, outcome) {
				t.Errorf("%s, of a check that is %q: %s", name, outcome, text)
			}
		}
	}, reflect.TypeFor[verdict.Check]())
}

// TestGate: a gate passes if something was run, and nothing of it failed.
func TestGate(t *testing.T) {
	const passed, failed, absent = verdict.Passed, verdict.Failed, verdict.NotRun
	for _, c := range []struct {
		outcomes      []string
		documentation bool
		want          string
	}{
		{nil, false, "blocked: no check was run"},
		{[]string{absent}, true, "blocked: no check was run"},
		{[]string{failed, passed, absent, passed}, true, "blocked: 1 of 3 checks failed"},
		{[]string{failed}, false, "blocked: 1 of 1 checks failed"},
		{[]string{passed, absent, passed}, false, "passed: 2 checks"},
		{[]string{passed}, true, "passed: only documentation differs, nothing was compared"},
	} {
		r := verdict.GateResult{Change: verdict.Change{Documentation: c.documentation}}
		for _, outcome := range c.outcomes {
			r.Checks = append(r.Checks, verdict.Check{Outcome: outcome})
		}
		if r.Judge(); r.Verdict != c.want || r.Passed != strings.HasPrefix(c.want, "passed") {
			t.Errorf("%q: %v, %q, want %q", c.outcomes, r.Passed, r.Verdict, c.want)
		}
	}
}

// TestProfiles: of two profiles is said whose they are, wherever bits differ.
func TestProfiles(t *testing.T) {
	const two = "two profiles: a has p, b has q, and bits differ where these do"
	for _, c := range []struct {
		profiles []string
		want     string
		differs  bool
	}{
		{nil, "", false}, {[]string{"p"}, "", false},
		{[]string{"p", "p"}, "both sides have profile p", false}, {[]string{"p", "q"}, two, true},
	} {
		k := verdict.Comparison{Want: "a", Got: "b", Profiles: c.profiles, Report: &parity.Report{
			Rollouts: []parity.Verdict{{}}, First: &parity.Divergence{Stage: "logits"},
		}}
		if got := k.BothProfiles(); got != c.want {
			t.Errorf("%q: %q, want %q", c.profiles, got, c.want)
		}
		if got := k.Why(); strings.HasPrefix(got, two+":\n") != c.differs ||
			!strings.HasSuffix(got, k.Report.Err().Error()) {
			t.Errorf("%q differ: %q", c.profiles, got)
		}
	}
}

// TestBothSides: where one thing computes on both sides, whichever of several it is, nothing is
// proven.
func TestBothSides(t *testing.T) {
	const none = ""
	for _, c := range []struct {
		want, got []string
		same      string
	}{
		{nil, nil, none}, {[]string{"a"}, []string{"b"}, none},
		{[]string{"a", "b"}, []string{"c", "d"}, none}, {[]string{"a", "b"}, nil, none},
		{[]string{"a"}, []string{"a"}, "a"}, {[]string{"a", "b"}, []string{"c", "a"}, "a"},
		{[]string{"a", "b"}, []string{"b", "c"}, "b"},
		{[]string{"a", "b"}, []string{"c", "b"}, "b"},
	} {
		k := verdict.Comparison{Report: &parity.Report{
			Rollouts: []parity.Verdict{{Equal: true, Steps: 1}},
			Want:     parity.SideInfo{Computed: c.want}, Got: parity.SideInfo{Computed: c.got},
		}}
		k.Report.Steps, k.Report.Compared = 1, map[string]int{"cdf": 1}
		outcome, why := verdict.Equal, ""
		if c.same != none {
			outcome, why = verdict.Failed, c.same+" computes on both sides, whatever they are "+
				"called: that they are equal proves nothing"
		}
		if got, said := k.Outcome(), k.Why(); got != outcome || said != why {
			t.Errorf("%q and %q: %s, %q, want %s, %q", c.want, c.got, got, said, outcome, why)
		}
	}
}

// TestOutcome: of all that speaks against a comparison the gravest is its outcome, whatever else
// does; without any it is equal.
func TestOutcome(t *testing.T) {
	reasons := []struct {
		outcome, why string
		give         func(k *verdict.Comparison)
	}{
		{verdict.Failed, "it broke", func(k *verdict.Comparison) { k.Error = "it broke" }},
		{verdict.Failed, "both sides are one", func(k *verdict.Comparison) {
			k.Identities = []string{"one", "one"}
		}},
		{verdict.NotRun, "no device", func(k *verdict.Comparison) { k.NotRun = "no device" }},
		{verdict.NotApplicable, "no route", func(k *verdict.Comparison) {
			k.NotApplicable = "no route"
		}},
		{verdict.Different, "costs", func(k *verdict.Comparison) { k.Differs = "costs" }},
		{verdict.Failed, "nothing was compared", func(k *verdict.Comparison) { k.Report = nil }},
		{verdict.Failed, "nothing was compared", func(k *verdict.Comparison) {
			if k.Report != nil {
				k.Report.Rollouts = nil
			}
		}},
		{verdict.Failed, "nothing was compared", func(k *verdict.Comparison) {
			if k.Report != nil {
				k.Report.Compared = nil
			}
		}},
		{verdict.Different, "5 explained flips", func(k *verdict.Comparison) {
			if k.Report != nil && k.Report.Compared != nil {
				k.Report.Flips.Explained = 5
			}
		}},
		{verdict.Failed, "onnx computes on both sides", func(k *verdict.Comparison) {
			if k.Report != nil {
				k.Report.Want.Computed = []string{"cpu", "onnx"}
				k.Report.Got.Computed = []string{"gpu", "onnx"}
			}
		}},
	}
	for set := range 1 << len(reasons) {
		k := verdict.Comparison{Identities: []string{"one", "two"}, Report: &parity.Report{
			Exact: true, Rollouts: []parity.Verdict{{Equal: true, Steps: 1}}, Steps: 1,
			Compared: map[string]int{"logits": 1},
		}}
		outcome, why := verdict.Equal, ""
		for i, r := range reasons {
			if set>>i&1 == 1 {
				if r.give(&k); outcome == verdict.Equal {
					outcome, why = r.outcome, r.why
				}
			}
		}
		if got := k.Outcome(); got != outcome || !strings.Contains(k.Why(), why) ||
			(k.Why() == "") != (why == "") {
			t.Errorf("reasons %b: %s, %q, want %s, %q", set, got, k.Why(), outcome, why)
		}
	}
}

// TestExtent: how much was compared, and of what specification, is said as far as it is known.
func TestExtent(t *testing.T) {
	branches := []parity.BranchTimes{{Branch: parity.Branch{Name: "warm-up"}}}
	near := &parity.Nearest{Rollout: "x", Step: 3, Distance: 0.5}
	rollouts := []parity.Verdict{{Equal: true}, {Error: "it broke"}, {Error: "it broke, too"}}
	for _, c := range []struct {
		report            *parity.Report
		extent, exercised string
	}{
		{nil, "", ""},
		{&parity.Report{Exact: true, Steps: 7, Rollouts: rollouts[:1]},
			"1 of 1 rollouts equal, 7 steps", ""},
		{&parity.Report{Exact: true, Stages: []string{"a", "b"},
			Compared:  map[string]int{"a": 1, "b": 1},
			Exercised: &parity.Exercised{Branches: branches}},
			"0 of 0 rollouts equal, 0 steps",
			(&parity.Exercised{Branches: branches}).String()},
		{&parity.Report{Exact: true, Steps: 7, Rollouts: rollouts[:1], Stages: []string{"a"},
			Compared: map[string]int{"a": 2}, Lacking: map[string]int{"a": 1}, Past: 1},
			"1 of 1 rollouts equal, 7 steps, not compared: 1 of a, 1 steps past the end not " +
				"compared", ""},
		{&parity.Report{Exact: true, Rollouts: rollouts[:2]},
			"1 of 2 rollouts equal, 0 steps, 1 end with an error on both sides: it broke", ""},
		{&parity.Report{
			Rollouts: rollouts, Steps: 9, Flips: parity.FlipCounts{Explained: 2},
			Tolerated: []parity.Tolerance{{Stage: "logits", Steps: 4,
				Difference: parity.Difference{Abs: 0.25}}},
			Stages: []string{"a", "b", "c"}, Compared: map[string]int{"b": 3, "c": 3},
			Lacking: map[string]int{"b": 2}, Past: 6,
			Exercised: &parity.Exercised{Branches: branches, Nearest: near},
		}, "1 of 3 rollouts equal, 9 steps, 2 tokens differ and are explained, logits differs at " +
			"4 steps, by up to 0.25 where that is known, not compared: a, 2 of b, 6 steps past " +
			"the end not compared, 2 end with an error on both sides: it broke",
			(&parity.Exercised{Branches: branches}).String() + "; " + near.String()},
	} {
		k := verdict.Comparison{Report: c.report}
		if got := k.Extent(); got != c.extent {
			t.Errorf("%q, want %q", got, c.extent)
		}
		if got := k.Exercised(); got != c.exercised {
			t.Errorf("exercised: %q, want %q", got, c.exercised)
		}
	}
}

// TestCases: each rollout is a case, which failed if something was found in it, or if all must be
// equal and it is not; the first difference of all is told in its own rollout alone.
func TestCases(t *testing.T) {
	rollouts := []parity.Verdict{
		{Key: []string{"x", "a"}, Equal: true},
		{Key: []string{"x", "b"}, Equal: true, Findings: 2},
		{
			Key: []string{"x", "c"}, First: &parity.Finding{Step: 7, Stage: "cdf"}, Findings: 1,
		},
		{Key: []string{"x", "d"}},
	}
	first := &parity.Divergence{
		Key: []string{"x", "d"}, Stage: "logits", Index: -1, Want: "1", Got: "2",
	}
	const found = "2 findings|1 findings, the first at step 7, stage cdf"
	for _, c := range []struct {
		exact bool
		first *parity.Divergence
		want  string
	}{
		{true, first, "|" + found + "|" + first.Error()}, {true, nil, "|" + found + "|0 findings"},
		{false, nil, "|" + found + "|"},
	} {
		k := verdict.Comparison{Report: &parity.Report{
			Exact: c.exact, First: c.first, Rollouts: rollouts, Steps: 3,
			Compared: map[string]int{"logits": 3},
			Findings: []parity.StageFindings{{Stage: "logits", Findings: 3}},
		}}
		var got []string
		for i, one := range k.Cases() {
			if got = append(got, one.Message); one.Outcome == verdict.Passed != (got[i] == "") {
				t.Errorf("%s %s: %s", one.Name, one.Outcome, got[i])
			}
		}
		if text := strings.Join(got, "|"); text != c.want {
			t.Errorf("%q, want %q", text, c.want)
		}
	}
}

// TestWholeCase: what was not compared rollout by rollout is one case, with all that is known.
func TestWholeCase(t *testing.T) {
	k := verdict.Comparison{Kind: "engines", Want: "reference", Got: "gpu", Detail: "own"}
	for _, c := range []struct {
		edit func(*verdict.Comparison)
		want verdict.CheckCase
	}{
		{
			func(k *verdict.Comparison) { k.NotRun, k.Lacks = "no device", "gpu" },
			verdict.CheckCase{Outcome: verdict.NotRun, Message: "no device", Lacks: "gpu"},
		},
		{
			func(k *verdict.Comparison) { k.Differs, k.Detail = "costs", "" },
			verdict.CheckCase{Outcome: verdict.Failed, Message: "costs"},
		},
		{
			func(k *verdict.Comparison) { k.NotApplicable = "another profile" },
			verdict.CheckCase{Outcome: verdict.NotApplicable, Message: "another profile"},
		},
	} {
		k := k
		c.edit(&k)
		c.want.Class, c.want.Name = "engines.gpu.reference.own", "comparison"
		if k.Detail == "" {
			c.want.Class = "engines.gpu.reference"
		}
		if got := k.Cases(); len(got) != 1 || got[0] != c.want {
			t.Errorf("%+v, want %+v", got, c.want)
		}
	}
}

// TestScoreCases: each engine without a fault, each alarm and each fault is a case.
func TestScoreCases(t *testing.T) {
	s := verdict.Score{
		Clean: []string{"reference", "batched"}, Alarms: []string{"a stage"},
		Mutants: []verdict.Mutant{
			{Name: "a", Caught: true, Right: true, Seconds: 1.1},
			{Name: "b", Error: "no such text", Title: "B."},
			{Name: "c", Title: "C."},
			{Name: "d", Caught: true, Stage: "cdf", Named: "probs", Seconds: 2},
		},
	}
	of := func(name, outcome, message string, seconds float64) verdict.CheckCase {
		return verdict.CheckCase{Class: "mutants", Name: name, Outcome: outcome, Message: message,
			Seconds: seconds}
	}
	want := []verdict.CheckCase{
		of("no fault in reference", verdict.Passed, "", 0),
		of("no fault in batched", verdict.Passed, "", 0),
		of("no fault", verdict.Failed, "false alarm: a stage", 0),
		of("a", verdict.Passed, "", 1.1),
		of("b", verdict.Failed, "could not be tried: no such text", 0),
		of("c", verdict.Failed, "not caught: C.", 0),
		of("d", verdict.Passed, "stage probs was named, the fault is in cdf", 2),
	}
	if got := s.Cases(); !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestJUnit: a gate's result as programs read it, byte for byte.
func TestJUnit(t *testing.T) {
	r := verdict.GateResult{
		Start: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		// 32 bits do not hold these seconds.
		Seconds: 300_007.257,
		Change:  verdict.Change{Base: "base", Head: "head"},
		Checks: []verdict.Check{
			{
				Name: "a", Outcome: verdict.Failed, Command: "make a", Seconds: 200_002.123,
				Cases: []verdict.CheckCase{
					{Class: "k", Name: "one", Outcome: verdict.Failed, Message: "it\nbroke",
						Seconds: 100_000.511},
					{Class: "k", Name: "two", Outcome: verdict.Passed},
					{Class: "k", Name: "three", Outcome: verdict.NotRun, Message: "no device"},
				},
			},
			{Name: "b", Outcome: verdict.Failed, Why: "it crashed", Output: "last words"},
			{Name: "c", Outcome: verdict.NotRun, Why: "no want"},
		},
	}
	dir := t.TempDir()
	if err := r.Write(dir); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, verdict.JUnitName))
	if err != nil {
		t.Fatal(err)
	}
	// A level is a blank in either file.
	text, err := os.ReadFile(filepath.Join(dir, verdict.JSONName))
	if err != nil || !strings.HasPrefix(string(text), "{\n \"") ||
		!strings.Contains(string(text), "\n  \"base\": \"base\",\n") {
		t.Errorf("%v: %s", err, text)
	}
	want, err := os.ReadFile(filepath.Join("testdata", "junit.xml"))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

// TestSkips: a reason is told once for each check, with how many cases have it, and as many
// failures as are shown are followed by no others.
func TestSkips(t *testing.T) {
	of := func(messages ...string) (all []verdict.CheckCase) {
		for _, m := range messages {
			all = append(all, verdict.CheckCase{Name: m, Outcome: verdict.NotRun, Message: m})
		}
		return all
	}
	r := verdict.GateResult{Checks: []verdict.Check{
		{Name: "a", Cases: of("x", "x", "y", "x"), Outcome: verdict.NotRun},
		{Name: "b", Cases: of("x"), Outcome: verdict.Failed, Output: "its last words"},
	}}
	want := []verdict.Skip{{Check: "a", Message: "x", Count: 3}, {Check: "a", Message: "y",
		Count: 1}, {Check: "b", Message: "x", Count: 1}}
	if got := r.Skips(verdict.NotRun); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	dir := t.TempDir()
	if err := r.Write(dir); err != nil {
		t.Fatal(err)
	}
	var junit struct {
		Suites []struct {
			Errors  int      `xml:"errors,attr"` // of checks that failed as a whole
			Outputs []string `xml:"system-out"`
		} `xml:"testsuite"`
	}
	data, err := os.ReadFile(filepath.Join(dir, verdict.JUnitName))
	if err := errors.Join(err, xml.Unmarshal(data, &junit)); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(junit.Suites); got != "[{0 []} {1 [its last words]}]" {
		t.Errorf("errors and outputs %s", got)
	}
	c := verdict.Check{Outcome: verdict.Failed}
	for range verdict.MaxShown {
		c.Cases = append(c.Cases, verdict.CheckCase{Outcome: verdict.Failed})
	}
	var b strings.Builder
	if err := c.WriteText(&b); err != nil || strings.Contains(b.String(), "more") {
		t.Errorf("%v: %s", err, b.String())
	}
	c.Cases = append(c.Cases, verdict.CheckCase{Outcome: verdict.Failed})
	b.Reset()
	if err := c.WriteText(&b); err != nil || !strings.Contains(b.String(), "and 1 more") {
		t.Errorf("%v: %s", err, b.String())
	}
}

// TestTable: in a terminal a fault is a line of aligned columns, in its own letters, whether it was
// tried or not; the sums, and what the rows are of, are told of a single one, too.
func TestTable(t *testing.T) {
	right := verdict.Mutant{Name: "a", Title: "A.", Engine: "reference", Caught: true, Right: true,
		Stage: "cdf", Named: "cdf", Rollouts: 3, Steps: 40}
	wrong, untried := right, right
	wrong.Named, wrong.Right = "<probs>", false
	untried.Name, untried.Error, untried.Caught, untried.Right = "b&c", "no such text", false, false
	for _, c := range []struct {
		score verdict.Score
		want  string
	}{
		{verdict.Score{Mutants: []verdict.Mutant{right}}, `
fault  engine     caught  stage  named  rollouts  steps
a      reference  yes     cdf    cdf    3         40

Run without a fault: reference, batched.

All 1 rows are of one run, at no known commit.

1 of 1 faults caught; the stage named rightly for 1 (100.0 %); no alarm in 2 runs without a fault.
`},
		{verdict.Score{Mutants: []verdict.Mutant{wrong, untried}, Known: 1, Commit: "abc"}, `
fault  engine     caught     stage  named      rollouts  steps
a      reference  yes        cdf    ✗ <probs>  3         40
b&c    reference  not tried  cdf    cdf        3         40

Run without a fault: reference, batched.

1 rows are of the last run, 1 of earlier ones of the same sources, at abc.

1 of 2 faults caught; the stage named rightly for 0 (0.0 %); no alarm in 2 runs without a fault.
`},
		{verdict.Score{Mutants: []verdict.Mutant{right, untried}, Known: 2, Commit: "abc"}, `
fault  engine     caught     stage  named  rollouts  steps
a      reference  yes        cdf    cdf    3         40
b&c    reference  not tried  cdf    cdf    3         40

Run without a fault: reference, batched.

0 rows are of the last run, 2 of earlier ones of the same sources, at abc.

1 of 2 faults caught; the stage named rightly for 1 (50.0 %); no alarm in 2 runs without a fault.
`},
	} {
		c.score.Clean = []string{"reference", "batched"}
		var text strings.Builder
		err := c.score.WriteTable(&text, false)
		if d := cmp.Diff(c.want[1:], text.String()); err != nil || d != "" {
			t.Errorf("%v, -want +got:\n%s", err, d)
		}
	}
	// In Markdown a title has whatever letters it has, and a row its eight cells.
	right.Title = "a | b"
	var text strings.Builder
	err := (&verdict.Score{Mutants: []verdict.Mutant{right}}).WriteTable(&text, true)
	const row = "\n| a | a \\| b | reference | yes | cdf | cdf | 3 | 40 |\n"
	if err != nil || !strings.Contains(text.String(), row) {
		t.Errorf("%v, in Markdown %s", err, text.String())
	}
	for n, want := range map[int]int{0: 0, 99: 0, 100: 5, 199: 5, 200: 10} {
		if got := verdict.MayBeWrong(n); got != want {
			t.Errorf("of %d stages %d may be wrong, want %d", n, got, want)
		}
	}
}

// TestClear: of an earlier gate nothing is left, and of others all.
func TestClear(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{
		verdict.JSONName, verdict.JUnitName, verdict.HTMLName, "another.html",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := verdict.Clear(dir); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 || left[0].Name() != "another.html" {
		t.Errorf("%v, %v are left", left, err)
	}
}

// TestChangeText: what differs is shown as far as people read it, and how much more there is.
func TestChangeText(t *testing.T) {
	for files, more := range map[int]string{0: "", 20: "", 21: "      and 1 more\n"} {
		want := "it does\n" + strings.Repeat("      a.go\n", min(files, 20)) + more
		c := verdict.Change{Why: "it does", Files: slices.Repeat([]string{"a.go"}, files)}
		var text strings.Builder
		if err := c.WriteText(&text); err != nil || text.String() != want {
			t.Errorf("%d files: %v, %q, want %q", files, err, text.String(), want)
		}
	}
}
