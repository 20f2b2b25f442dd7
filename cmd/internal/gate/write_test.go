package gate

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"lockstep/internal/want"
	"lockstep/parity/mutants"
	"lockstep/parity/tinyphysics"
	"lockstep/parity/verdict"
)

// blocked is a result with something of everything.
func blocked() *verdict.GateResult {
	c := comparison(tinyphysics.Logits)
	r := &verdict.GateResult{
		Change: verdict.Change{
			Base:    "main",
			Head:    "abc",
			Files:   []string{"batched/onnxruntime/graph.go"},
			Engines: []string{"onnxruntime"},
			Why:     "changed: onnxruntime",
		},
		Require: []string{want.Assets.Name},
		Start:   time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Seconds: 12.5,
		Checks: []verdict.Check{
			{
				Name: "build",
				Cases: []verdict.CheckCase{
					{Class: "build", Name: "./...", Outcome: verdict.Passed},
				},
			},
			{
				Name:        "goldens/onnxruntime",
				Comparisons: []verdict.Comparison{c},
				Cases:       c.Cases(),
				Command:     "lockstep compare goldens",
				Seconds:     3.25,
			},
			{Name: "tests", Cases: []verdict.CheckCase{
				{Class: "lockstep/fuzz", Name: "TestA", Outcome: verdict.Passed, Seconds: 1.5},
				{
					Class:   "lockstep/fuzz",
					Name:    "TestB<&>\"\x1b[0m\xff",
					Outcome: verdict.Failed,
					Message: "first line\nsecond <line> ]]> \x00",
				},
				{
					Class:   "lockstep/fuzz",
					Name:    "TestC",
					Outcome: verdict.NotRun,
					Message: "this CPU has no AVX-512",
				},
				{
					Class:   "lockstep/fuzz",
					Name:    "TestD",
					Outcome: verdict.NotApplicable,
					Message: "another profile",
				},
			}},
			{Name: "mutants", Output: "go: out of memory\n"},
			{Name: "hardware", Outcome: verdict.NotRun, Why: "not required"},
		},
	}
	for i := range r.Checks {
		k := &r.Checks[i]
		switch k.Name {
		case "hardware":
		case "mutants":
			k.Judge(errors.New("it crashed: signal: killed"), nil)
		default:
			k.Judge(nil, nil)
		}
	}
	r.Judge()
	return r
}

// A node is an element of XML.
type node struct {
	XMLName xml.Name
	Attrs   []xml.Attr `xml:",any,attr"`
	Text    string     `xml:",chardata"`
	Nodes   []node     `xml:",any"`
}

// attr is an attribute, which must be there.
func (n node) attr(t *testing.T, name string) string {
	t.Helper()
	for _, a := range n.Attrs {
		if a.Name.Local == name {
			return a.Value
		}
	}
	t.Errorf("<%s> has no %s", n.XMLName.Local, name)
	return ""
}

// holdCounts holds what a node says of how much is in it to what is.
func (n node) holdCounts(t *testing.T, what string, have map[string]int) {
	t.Helper()
	for _, name := range []string{"tests", "failures", "errors", "skipped"} {
		if got, err := strconv.Atoi(n.attr(t, name)); err != nil || got != have[name] {
			t.Errorf("%s says %d %s, and has %d (%v)", what, got, name, have[name], err)
		}
	}
}

func (n node) holdSeconds(t *testing.T) {
	t.Helper()
	if x, err := strconv.ParseFloat(n.attr(t, "time"), 64); err != nil || x < 0 {
		t.Errorf("<%s> has time %v, %v", n.XMLName.Local, x, err)
	}
}

// TestJUnit holds the XML to the structure that its readers want: counts that are the
// sums of what is inside, and at most one outcome in each case.
func TestJUnit(t *testing.T) {
	dir := t.TempDir()
	if err := blocked().Write(dir); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, verdict.JUnitName))
	if err != nil {
		t.Fatal(err)
	}
	var root node
	if err := xml.Unmarshal(data, &root); err != nil {
		t.Fatalf("not well-formed: %v\n%s", err, data)
	}
	if root.XMLName.Local != "testsuites" || len(root.Nodes) != 5 {
		t.Fatalf("<%s> with %d suites, want testsuites with 5", root.XMLName.Local, len(root.Nodes))
	}
	root.holdSeconds(t)
	total := map[string]int{}
	messages := map[string]string{}
	for _, suite := range root.Nodes {
		for name, n := range holdSuite(t, suite, messages) {
			total[name] += n
		}
	}
	root.holdCounts(t, "the file", total)
	if total["failures"] != 2 || total["errors"] != 1 || total["skipped"] != 3 {
		t.Errorf("%v, want 2 failures, 1 error, 3 skipped", total)
	}
	for name, want := range map[string]string{
		"goldens/onnxruntime.goldens.onnxruntime.ort1.30 00002/pid": "route 00002, controller " +
			"pid, step 123, stage logits, index 7: want 1 (3f800000), got 1.0000001 (3f800001), " +
			"1 ulp apart|",
		"mutants check":                  "it crashed: signal: killed|",
		"hardware check":                 "not required|",
		"tests." + "lockstep/fuzz TestC": "this CPU has no AVX-512|",
	} {
		if got, ok := messages[name]; !ok || !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// holdSuite holds a suite to its structure, enters its messages, and counts what is in it.
func holdSuite(t *testing.T, suite node, messages map[string]string) (have map[string]int) {
	t.Helper()
	if suite.XMLName.Local != "testsuite" {
		t.Errorf("<%s> in testsuites", suite.XMLName.Local)
	}
	suite.holdSeconds(t)
	if _, err := time.Parse("2006-01-02T15:04:05", suite.attr(t, "timestamp")); err != nil {
		t.Error(err)
	}
	suite.attr(t, "hostname")
	have = map[string]int{}
	stage := 0 // properties, testcases, system-out, in this order
	for _, c := range suite.Nodes {
		place := map[string]int{"properties": 0, "testcase": 1, "system-out": 2}
		if p, ok := place[c.XMLName.Local]; !ok || p < stage {
			t.Errorf("<%s> in suite %s, out of place", c.XMLName.Local, suite.attr(t, "name"))
		} else {
			stage = p
		}
		if c.XMLName.Local == "testcase" {
			have["tests"]++
			holdCase(t, c, have, messages)
		}
	}
	suite.holdCounts(t, "suite "+suite.attr(t, "name"), have)
	return have
}

// holdCase: a case has a name, a time, and one outcome at most, which is counted.
func holdCase(t *testing.T, c node, have map[string]int, messages map[string]string) {
	t.Helper()
	c.holdSeconds(t)
	class, name := c.attr(t, "classname"), c.attr(t, "name")
	if class == "" || name == "" {
		t.Error("a case without a name")
	}
	if len(c.Nodes) > 1 {
		t.Errorf("%s has %d outcomes", name, len(c.Nodes))
	}
	for _, outcome := range c.Nodes {
		key, ok := map[string]string{"failure": "failures", "error": "errors",
			"skipped": "skipped"}[outcome.XMLName.Local]
		if !ok {
			t.Errorf("<%s> in a case", outcome.XMLName.Local)
		}
		have[key]++
		messages[class+" "+name] = outcome.attr(t, "message") + "|" + outcome.Text
	}
}

func TestJSON(t *testing.T) {
	dir := t.TempDir()
	want := blocked()
	if err := want.Write(dir); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, verdict.JSONName))
	if err != nil {
		t.Fatal(err)
	}
	var got verdict.GateResult
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if got.Passed || got.Verdict != "blocked: 3 of 4 checks failed" || len(got.Checks) != 5 ||
		got.Checks[1].Comparisons[0].Outcome() != verdict.Different {
		t.Errorf("%+v", got)
	}
	if d := got.Checks[1].Comparisons[0].Report.First; !reflect.DeepEqual(
		d, want.Checks[1].Comparisons[0].Report.First,
	) {
		t.Errorf("divergence %+v", d)
	}
}

// TestClear: what an earlier gate wrote is gone, what is somebody else's is not.
func TestClear(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "gate")
	if err := verdict.Clear(dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		verdict.JSONName, verdict.JUnitName, verdict.HTMLName, "notes.txt",
	} {
		write(t, dir, name, "passed")
	}
	if err := verdict.Clear(dir); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != "notes.txt" {
		t.Errorf("left: %v, %v", entries, err)
	}
	write(t, dir, filepath.Join(verdict.JSONName, "x"), "a folder that is in the way")
	if err := verdict.Clear(dir); err == nil {
		t.Error("a folder named gate.json was taken away")
	}
}

// TestWriteUnwritable: nothing half written is left.
func TestWriteUnwritable(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, verdict.JSONName, "x"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := blocked().Write(dir); err == nil {
		t.Error("no error")
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != verdict.JSONName && e.Name() != verdict.JUnitName {
			t.Errorf("%s is left", e.Name())
		}
	}
}

// TestText: a failure says what, where, and how to repeat it.
func TestText(t *testing.T) {
	var b strings.Builder
	r := blocked()
	for i := range r.Checks {
		if err := r.Checks[i].WriteText(&b); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{
		"ok    build                     1 cases     0.0 s\n",
		"FAIL  goldens/onnxruntime       2 cases     3.2 s\n      1 of 2 cases failed\n      " +
			"goldens.onnxruntime.ort1.30 00002/pid: route 00002, controller pid, step 123, " +
			"stage logits, index 7: want 1 (3f800000), got 1.0000001 (3f800001), 1 ulp " +
			"apart\n      repeat: lockstep compare goldens\n",
		"2 cases     0.0 s, 1 not run, 1 not applicable\n",
		"FAIL  mutants                   0 cases     0.0 s\n      it crashed: signal: killed\n  " +
			"    go: out of memory\n",
		"–     hardware             not run: not required\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the text lacks %q:\n%s", want, b.String())
		}
	}
	if got, want := r.Skips(verdict.NotRun), []verdict.Skip{{Check: "tests",
		Message: "this CPU has no AVX-512", Count: 1}}; !slices.Equal(got, want) {
		t.Errorf("skips %v, want %v", got, want)
	}
	if got := r.Skips(verdict.NotRun, verdict.NotApplicable); len(got) != 2 {
		t.Errorf("skips %v, want two", got)
	}
	c := verdict.Check{Name: "many", Outcome: verdict.Failed, Why: "9 of 9 cases failed"}
	for range 9 {
		c.Cases = append(
			c.Cases,
			verdict.CheckCase{Class: "a", Name: "b", Outcome: verdict.Failed, Message: "c"},
		)
	}
	b.Reset()
	c.WriteText(&b)
	if !strings.Contains(b.String(), "and 4 more") ||
		strings.Count(b.String(), "a b: c") != verdict.MaxShown {
		t.Errorf("nine failures:\n%s", b.String())
	}
}

// TestScore: everything caught, enough of it named rightly, no false alarm.
func TestScore(t *testing.T) {
	score := func(caught, right, of int) *verdict.Score {
		s := &verdict.Score{Clean: []string{"reference"}}
		for i := range of {
			s.Mutants = append(
				s.Mutants,
				verdict.Mutant{
					Name:   "m" + strconv.Itoa(i),
					Title:  "A | B.",
					Engine: "reference",
					Stage:  "cdf",
					Named:  "probs",
					Caught: i < caught,
					Right:  i < right,
				},
			)
		}
		return s
	}
	alarm, untried := score(40, 40, 40), score(40, 40, 40)
	alarm.Alarms = []string{"reference, without a fault: stage logits"}
	untried.Mutants[7].Error, untried.Mutants[7].Caught = "its text is found 0 times", false
	for _, c := range []struct {
		score *verdict.Score
		want  string // of the error
	}{
		{score(40, 40, 40), ""},
		{
			score(40, 39, 40),
			"39 of 40 stages are named rightly, 40 of them caught: want 40 or more",
		},
		{score(200, 190, 200), ""},
		{score(200, 189, 200), "189 of 200 stages are named rightly, 200 of them caught: want " +
			"190 or more"},
		{score(39, 39, 40), "m39: not caught: A | B."},
		{alarm, "false alarm: reference, without a fault: stage logits"},
		{untried, "m7: could not be tried: its text is found 0 times"},
	} {
		err := c.score.Err()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
		check := verdict.Check{Cases: c.score.Cases()}
		if check.Judge(err, nil); (check.Outcome == verdict.Passed) != (c.want == "") {
			t.Errorf("%s with error %v", check.Outcome, err)
		}
	}
	var b strings.Builder
	if err := score(39, 38, 40).WriteTable(&b, true); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| fault | what is wrong | engine | caught | stage | named | rollouts | steps " +
			"|\n|---|---|---|---|---|---|--:|--:|\n| m0 | A \\| B. | reference | yes | cdf | " +
			"probs | 0 | 0 |\n",
		"| m38 | A \\| B. | reference | yes | cdf | ✗ probs | 0 | 0 |\n| m39 | A \\| B. | " +
			"reference | NO | cdf | probs | 0 | 0 |\n\nRun without a fault: reference.\n\nAll " +
			"40 rows are of one run, at no known commit.\n\n39 of 40 faults caught; the " +
			"stage named rightly for 38 (95.0 %); no alarm in 1 runs without a fault.\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, b.String())
		}
	}
	b.Reset()
	if err := alarm.WriteTable(&b, false); err != nil ||
		!strings.HasPrefix(
			b.String(),
			"fault  engine     caught  stage  named  rollouts  steps\nm0     reference  yes     "+
				"cdf    probs  0         0\n",
		) ||
		!strings.HasSuffix(b.String(), "FALSE ALARMS: 1.\n") {
		t.Errorf("%v\n%s", err, b.String())
	}
	if _, err := mutants.Plant(t.Context(), ".", nil, "", nil); err == nil {
		t.Error("no faults, no error")
	}
}

// TestLines: a program's last line may lack its end, and an error of the function
// ends the program.
func TestLines(t *testing.T) {
	t.Parallel()
	var got []string
	var c verdict.Check
	status, err := program(
		t.Context(), &c, ".", nil, []string{"printf", "one\ntwo"},
		func(line []byte) error {
			got = append(got, string(line))
			return nil
		},
	)
	if status != 0 || err != nil || strings.Join(got, ",") != "one,two" {
		t.Errorf("%d, %v, %q", status, err, got)
	}
	if _, err := program(t.Context(), &c, ".", nil, []string{"yes"},
		func([]byte) error { return errors.New("enough") }); err == nil ||
		err.Error() != "enough" {
		t.Errorf("error %v", err)
	}
	if _, err := program(t.Context(), &c, ".", nil, []string{"echo", "x"},
		func([]byte) error { panic("oops") }); err == nil ||
		!strings.HasPrefix(err.Error(), "panic: oops") {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := program(ctx, &c, ".", nil, []string{"sleep", "20"},
		func([]byte) error { return nil }); err == nil {
		t.Error("a program that was ended has no error")
	}
	// What it started outlives it, and holds its output open; then it is ended, too.
	late := filepath.Join(t.TempDir(), "late")
	if _, err := program(t.Context(), &c, ".", nil,
		[]string{
			"sh", "-c", "(sleep 7; touch '" + late + "') & echo x",
		}, func([]byte) error { return nil }); !errors.Is(
		err,
		exec.ErrWaitDelay,
	) {
		t.Errorf("error %v, want %v", err, exec.ErrWaitDelay)
	}
	time.Sleep(3 * time.Second)
	if _, err := os.Stat(late); err == nil {
		t.Error("what a program left behind goes on")
	}
	if _, err := program(t.Context(), &c, ".", nil, []string{"/nowhere/none"},
		func([]byte) error { return nil }); err == nil {
		t.Error("a program that is not there has no error")
	}
}
