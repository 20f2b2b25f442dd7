package testlog

import (
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

// TestReadFiles: what is no log of tests is an error.
func TestReadFiles(t *testing.T) {
	for text, want := range map[string]string{
		"":      "no test in it",
		"panic": `line 1: go test -json printed "panic"`,
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
	c.Write([]byte("short\xff"))
	if c.String() != "short\uFFFD" {
		t.Errorf("%q", c.String())
	}
}
