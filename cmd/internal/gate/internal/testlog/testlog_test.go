package testlog

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lockstep/parity/verdict"
)

// logOf is what go test prints of tests, in the order given: their package and name, how
// they ended, and what they said.
func logOf(t *testing.T, tests ...[4]string) string {
	t.Helper()
	var text strings.Builder
	for _, c := range tests {
		text.WriteString(`{"Action":"run","Package":"` + c[0] + `","Test":"` + c[1] + "\"}\n")
	}
	for _, c := range slices.Backward(tests) { // a test ends after those within it
		if c[3] != "" {
			text.WriteString(
				`{"Action":"output","Package":"` + c[0] + `","Test":"` + c[1] + `","Output":"` +
					c[3] + "\"}\n",
			)
		}
		text.WriteString(
			`{"Action":"` + c[2] + `","Package":"` + c[0] + `","Test":"` + c[1] + "\"}\n",
		)
	}
	file := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(file, []byte(text.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	return file
}

const noAssets, noGPU = "a.go:1: not run for want of assets: none", "a.go:1: not run for want " +
	"of gpu: none"

// TestAgain: what a first log has not run for want of something is run again, that alone;
// with the second log it is known, and what that does not tell of is noticed.
func TestAgain(t *testing.T) {
	first := logOf(
		t,
		[4]string{"m/a", "TestAll", "pass"},
		[4]string{"m/a", "TestAll/own", "pass"},
		[4]string{"m/a", "TestAll/set.1", "skip", noAssets},
		[4]string{"m/a", "TestAll/set+2", "skip", noAssets},
		[4]string{"m/a", "TestAll/x", "pass"},
		[4]string{"m/a", "TestAll/x/y", "skip", noAssets},
		[4]string{"m/a", "TestHere", "pass"},
		[4]string{"m/a", "TestB", "skip", noAssets},
		[4]string{"m/a", "TestC", "skip", noAssets},
		[4]string{"m/b", "TestC", "skip", noGPU},
		[4]string{"m/b", "TestHalf", "pass", noAssets},
	)
	cases, _, err := ReadFiles("", first)
	if err != nil {
		t.Fatal(err)
	}
	asked := NotRun(cases)["assets"]
	want := []Command{
		{"m/a", "^(TestB|TestC)$"},
		{"m/a", `^TestAll$/^(set\+2|set\.1)$`},
		{"m/a", "^TestAll$/^x$/^(y)$"},
		{"m/b", "^(TestHalf)$"},
	}
	if d := cmp.Diff(want, Again(asked)); d != "" {
		t.Error(d)
	}

	second := logOf(
		t,
		[4]string{"m/a", "TestAll", "pass"},
		[4]string{"m/a", "TestAll/set.1", "pass"},
		[4]string{"m/a", "TestAll/set+2", "fail", "one bit"},
		[4]string{"m/a", "TestAll/x", "pass"},
		[4]string{"m/a", "TestAll/x/y", "pass"},
		[4]string{"m/a", "TestB", "pass"},
		[4]string{"m/a", "TestB/parts", "pass"},
		[4]string{"m/a", "TestC", "skip", noGPU},
		[4]string{"m/b", "TestHalf", "pass"},
	)
	ran, _, err := ReadFiles("", second)
	if err != nil {
		t.Fatal(err)
	}
	if err := Missing(asked, ran); err != nil {
		t.Error(err)
	}
	if err := Missing(append(asked, verdict.CheckCase{Class: "m/b", Name: "TestLost"}),
		ran); err == nil ||
		!strings.Contains(err.Error(), "m/b TestLost was to run") {
		t.Errorf("a test that did not run: %v", err)
	}
	all, _, err := ReadFiles("", first, second)
	if err != nil {
		t.Fatal(err)
	}
	outcomes := map[string]string{}
	for _, c := range all {
		if _, twice := outcomes[c.Class+" "+c.Name]; twice {
			t.Errorf("%s %s is told twice", c.Class, c.Name)
		}
		outcomes[c.Class+" "+c.Name] = strings.TrimSpace(c.Outcome + " " + c.Lacks)
	}
	if d := cmp.Diff(map[string]string{
		"m/a TestAll/own": "passed", "m/a TestAll/set.1": "passed", "m/a TestAll/set+2": "failed",
		"m/a TestAll/x/y": "passed",
		"m/a TestHere":    "passed", "m/a TestB/parts": "passed", "m/a TestC": "not run gpu",
		"m/b TestC": "not run gpu", "m/b TestHalf": "passed",
	}, outcomes); d != "" {
		t.Error(d)
	}
}

// TestCases: of tests that hold others the innermost tell what failed, if they do; else they tell
// it themselves, as packages do.
func TestCases(t *testing.T) {
	const crashed = "it did not end; the test program crashed:"
	for _, c := range [][2]string{
		{"run A, pass A, pass", "m A passed "},
		{"run A, pass A, fail", "m package failed |m A passed "},
		{"run A, fail A, fail", "m A failed "},
		{"run A, say A no, fail A, fail", "m A failed no"},
		{"run A, run A/x, pass A/x, fail A, fail", "m A failed |m A/x passed "},
		{"run A, run A/x, fail A/x, run A/y, pass A/y, fail A, fail",
			"m A/x failed |m A/y passed "},
		{"run A, run A/x, pass A/x, run A/y, fail A/y, fail A, fail",
			"m A/x passed |m A/y failed "},
		{"run A, run A/x, fail A/x, run A/y, fail A/y, fail A, fail",
			"m A/x failed |m A/y failed "},
		{"run A, run A/x, run A/x/z, fail A/x/z, fail A/x, fail A, fail", "m A/x/z failed "},
		{"run A, fail A, run A/x, fail A/x, fail", "m A failed |m A/x failed "},
		{"run A, run A/x", "m A/x failed " + crashed},
		{"run A, run A/x, fail", "m A/x failed " + crashed},
		{"run A, say A oh, fail", "m A failed " + crashed + "\noh"},
		{"start", ""}, {"skip", ""},
		{"run A, skip A, skip", "m A not run skipped, without a word why"},
		{"run A, say A LACKS, skip A, pass", "m A not run LACKS (assets)"},
		{"run A, say A LACKS, pass A, pass", "m A not run LACKS (assets)"},
		{"run A, say A LACKS, fail A, fail", "m A failed LACKS"},
		{"run A, say A LACKS, run A/x, pass A/x, pass A",
			"m A not run LACKS (assets)|m A/x passed "},
	} {
		events, want := c[0], c[1]
		var l Log
		for event := range strings.SplitSeq("start, "+events, ", ") {
			words := append(strings.Fields(event), "", "")
			action := strings.Replace(words[0], "say", "output", 1)
			line, err := json.Marshal(testEvent{
				Action: action, Package: "m", Test: words[1],
				Output: strings.Replace(words[2], "LACKS", "not run for want of assets: none", 1),
			})
			if err != nil {
				t.Fatal(err)
			}
			if err := l.Line(line); err != nil {
				t.Fatal(err)
			}
		}
		var got []string
		for _, c := range l.Cases() {
			text := c.Class + " " + c.Name + " " + c.Outcome + " " + c.Message
			if c.Lacks != "" {
				text += " (" + c.Lacks + ")"
			}
			got = append(got, text)
		}
		want = strings.ReplaceAll(want, "LACKS", "not run for want of assets: none")
		if d := cmp.Diff(want, strings.Join(got, "|")); d != "" {
			t.Errorf("%s: %s", events, d)
		}
		last := events[strings.LastIndexByte(events, ' ')+1:]
		if ended := slices.Contains([]string{"pass", "fail", "skip"}, last); ended !=
			l.Packages()["m"] {
			t.Errorf("%s: the package has ended: %v", events, !ended)
		}
	}
}

// TestMerge: of whatever an earlier log says of a test, a later one takes the place if it was not
// run, is told beside it if it failed now, and counts for nothing else. A test that is new is
// there.
func TestMerge(t *testing.T) {
	skipped, failed := []string{"skip", noAssets}, []string{"fail", "two bits"}
	for _, c := range []struct {
		before, later []string // how it ended, and what it said
		want          string
	}{
		{nil, []string{"pass", ""}, "passed"},
		{nil, failed, "failed two bits"},
		{[]string{"pass", ""}, []string{"pass", ""}, "passed"},
		{[]string{"pass", ""}, skipped, "passed"},
		{[]string{"pass", ""}, failed, "passed, failed two bits"},
		{skipped, []string{"pass", ""}, "passed"},
		{skipped, failed, "failed two bits"},
		{[]string{"fail", "a bit"}, []string{"pass", ""}, "failed a bit"},
		{[]string{"fail", "a bit"}, failed, "failed a bit, failed two bits"},
	} {
		lines := [][4]string{{"m/a", "TestOther", "pass"}}
		if c.before != nil {
			lines = append(lines, [4]string{"m/a", "TestIt", c.before[0], c.before[1]})
		}
		later := logOf(t, [4]string{"m/a", "TestIt", c.later[0], c.later[1]})
		all, _, err := ReadFiles("", logOf(t, lines...), later)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, one := range all {
			if one.Name == "TestIt" {
				got = append(got, strings.TrimSpace(fmt.Sprint(one.Outcome, " ", one.Message)))
			}
		}
		if got := strings.Join(got, ", "); got != c.want || all[0].Name != "TestOther" {
			t.Errorf("%v, and then %v: %q, want %q; %+v", c.before, c.later, got, c.want, all)
		}
	}
}

// TestNotRun: only what lacks something is to be run where that is.
func TestNotRun(t *testing.T) {
	of := func(name, outcome, lacks string) verdict.CheckCase {
		return verdict.CheckCase{Class: "m", Name: name, Outcome: outcome, Lacks: lacks}
	}
	lacks := of("D", verdict.NotRun, "gpu")
	got := NotRun([]verdict.CheckCase{
		of("A", verdict.NotRun, ""), lacks, of("E", verdict.Failed, "gpu"),
		of("B", verdict.Passed, ""),
	})
	if d := cmp.Diff(map[string][]verdict.CheckCase{"gpu": {lacks}}, got); d != "" {
		t.Error(d)
	}
}

// TestReadFiles: what is no log of tests is an error.
func TestReadFiles(t *testing.T) {
	for text, want := range map[string]string{
		"":      "no test in it",
		"panic": `line 1: go test -json printed "panic"`,

		"{}\n{}\npanic\n": `line 3: go test -json printed "panic"`,
	} {
		file := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, _, err := ReadFiles("", file); err == nil ||
			!strings.HasPrefix(err.Error(), file+": ") ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, _, err := ReadFiles("", filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a log that is not there is read")
	}
}

// TestOrigin: a log is taken for a revision if its first line says so, and all of its tests ran.
func TestOrigin(t *testing.T) {
	const pass = `{"Action":"pass","Package":"m/a","Test":"TestA"}` + "\n"
	for _, c := range []struct{ text, want string }{
		{`{"Action":"origin","Revision":"abc"}` + "\n" + pass, ""},
		{`{"Action":"origin","Revision":"abc","Flags":"-count=1 -v -timeout=30m"}` + "\n" + pass,
			""},
		{pass, "does not say of which revision"},
		{`{"Action":"origin"}` + "\n" + pass, "does not say of which revision"},
		{`{"Action":"origin","Revision":"abd"}` + "\n" + pass, "it is of revision abd, and abc " +
			"is checked out"},
		{`{"Action":"origin","Revision":"abc","Only":"g00002/pid"}` + "\n" + pass,
			`LOCKSTEP_ONLY was "g00002/pid"`},
		{
			`{"Action":"origin","Revision":"abc","Flags":"-count=1 -run 'Find|Launch'"}` + "\n" +
				pass,
			"with the flags",
		},
		{`{"Action":"origin","Revision":"abc","Flags":"-v --short -count=1"}` + "\n" + pass,
			"with the flags"},
		{pass + `{"Action":"origin","Revision":"abc"}` + "\n", "in the midst"},
	} {
		file := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(file, []byte(c.text), 0o666); err != nil {
			t.Fatal(err)
		}
		_, _, err := ReadFiles("abc", file)
		if c.want == "" && err != nil ||
			c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.text, err, c.want)
		}
	}

	for flags, all := range map[string]bool{
		"": true, "-v": true, "-count=1 -p=3": true, "-rapid": true, "-runs=2": true,
		"-run=A": false, "-skip B": false, "--short": false, "-list .": false, "-failfast": false,
		"-tags=cuda": false, "-exec qemu": false, "-c": false, "-o x": false, "-n": false,
		"-test.run=A": false, "-v '-run' A": false, "-rapid.checks=1": false,
	} {
		err := (&FirstLine{Revision: "abc", Flags: flags}).Holds("abc")
		if (err == nil) != all {
			t.Errorf("go test %s runs all tests: %v", flags, err)
		}
	}

	// What is written is read again.
	t.Setenv("LOCKSTEP_ONLY", "g00002/pid")
	line, err := Here(t.Context(), t.TempDir(), "-count=1")
	if err != nil {
		t.Fatal(err)
	}
	l, err := Read(
		strings.NewReader(
			string(
				line,
			) + pass + `{"Action":"pass","Package":"m/a"}` + "\n" +
				`{"Action":"start","Package":"m/b"}`,
		),
	)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(&FirstLine{Only: "g00002/pid", Flags: "-count=1"}, l.Origin); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(map[string]bool{"m/a": true}, l.Packages()); d != "" {
		t.Error(d)
	}
}

func TestCapture(t *testing.T) {
	var c Capture
	for range 10 {
		c.Write([]byte(strings.Repeat("a", 10000)))
	}
	c.Write([]byte("the end"))
	if s := c.String(); len(s) > headKept+tailKept+10 || !strings.HasPrefix(s, "aaa") ||
		!strings.HasSuffix(s, "athe end") ||
		!strings.Contains(s, "\n[…]\n") {
		t.Errorf("%d bytes", len(s))
	}
	c = Capture{}
	c.Write(make([]byte, headKept+tailKept))
	if s := c.String(); len(s) != headKept+tailKept {
		t.Errorf("%d bytes of as many as are kept", len(s))
	}
	c = Capture{}
	c.Write([]byte("short\xff"))
	if c.String() != "short\uFFFD" {
		t.Errorf("%q", c.String())
	}
}
