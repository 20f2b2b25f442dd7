package gate

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"lockstep/internal/want"
	"lockstep/parity/verdict"
)

// testEvent is a line of go test -json.
type testEvent struct {
	Action      string
	Package     string
	ImportPath  string // of a package that does not compile
	Test        string
	Elapsed     float64
	Output      string
	FailedBuild string
}

// messageKept bounds what is kept of one test's output.
const messageKept = 8 << 10

// A testLog makes cases of the lines of go test -json.
type testLog struct {
	cases   []verdict.Case
	running map[testKey]*runningTest // what has begun and has not ended
}

type testKey struct{ pkg, test string } // no test is the package

type runningTest struct {
	output  string
	lacking string // the line that tells of something lacking
	parent  bool   // other tests are in it
}

// line takes one line.
func (l *testLog) line(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	var e testEvent
	if err := json.Unmarshal(data, &e); err != nil {
		return fmt.Errorf("go test -json printed %.200q: %w", data, err)
	}
	if e.Package == "" {
		e.Package, _, _ = strings.Cut(e.ImportPath, " ")
	}
	key := testKey{e.Package, e.Test}
	t := l.running[key]
	if t == nil {
		t = &runningTest{}
		l.running[key] = t
	}
	switch e.Action {
	case "run":
		if i := strings.LastIndexByte(e.Test, '/'); i >= 0 {
			if parent := l.running[testKey{e.Package, e.Test[:i]}]; parent != nil {
				parent.parent = true
			}
		}
		return nil
	case "output", "build-output":
		t.output += e.Output
		t.output = t.output[max(len(t.output)-messageKept, 0):]
		if want.Read(e.Output) != nil {
			t.lacking = strings.TrimSpace(e.Output)
		}
		return nil
	case "pass":
		// A test that ran without something says so in its log. A package or a test
		// that only holds others is no case of its own.
		if t.lacking != "" {
			l.add(e, verdict.NotRun, t.lacking, t.lacking)
		} else if e.Test != "" && !t.parent {
			l.add(e, verdict.Passed, "", "")
		}
	case "skip":
		if e.Test != "" { // and not a package without test files
			l.add(e, verdict.NotRun, skipReason(t.output), t.lacking)
		}
	case "fail", "build-fail":
		if e.Test == "" && e.Action == "fail" && e.FailedBuild == "" {
			l.crashed(e.Package)
		}
		if !l.failedWithin(e.Package, e.Test) { // else what is in it says so
			l.add(e, verdict.Failed, t.output, "")
		}
	default:
		return nil
	}
	delete(l.running, key)
	return nil
}

// add makes a case of a test's end; lacking is the line that tells of what it lacked.
func (l *testLog) add(e testEvent, outcome, message, lacking string) {
	c := verdict.Case{
		Class: e.Package, Name: e.Test, Outcome: outcome, Seconds: e.Elapsed,
		Message: strings.ToValidUTF8(strings.TrimSpace(message), "\uFFFD"),
	}
	if c.Name == "" {
		c.Name = "package"
	}
	if w := want.Read(lacking); w != nil {
		c.Lacks = w.Name
	}
	l.cases = append(l.cases, c)
}

// crashed adds the tests of a package that did not end.
func (l *testLog) crashed(pkg string) {
	for key, t := range l.running {
		if key.pkg == pkg && key.test != "" {
			l.add(testEvent{Package: pkg, Test: key.test}, verdict.Failed, "it did not end; the test program crashed:\n"+t.output, "")
			delete(l.running, key)
		}
	}
}

// failedWithin reports whether a test in that test, or any of the package if it is
// empty, has failed.
func (l *testLog) failedWithin(pkg, test string) bool {
	for i := range l.cases {
		k := &l.cases[i]
		if k.Class == pkg && k.Outcome == verdict.Failed && (test == "" || strings.HasPrefix(k.Name, test+"/")) {
			return true
		}
	}
	return false
}

// mute are the lines of a test's output that do not say why it is skipped: those of the
// go command, and the place of a skip without a word.
var mute = regexp.MustCompile(`^($|===|---|\S+\.go:\d+:$)`)

// skipReason is the line of a skipped test's output that says why.
func skipReason(output string) string {
	reason := "skipped, without a word why"
	for line := range strings.Lines(output) {
		if line = strings.TrimSpace(line); !mute.MatchString(line) {
			reason = line
		}
	}
	return reason
}

// goTest runs tests of packages of the module, never from the cache: that does not
// know of libraries and programs which tests load.
func goTest(ctx context.Context, c *verdict.Check, dir string, env []string, args ...string) error {
	words := append([]string{"go", "test", "-json", "-count=1", "-timeout=0"}, args...) // the gate has its own limit
	c.Command = "go test -count=1 " + strings.Join(args, " ")
	log := testLog{running: map[testKey]*runningTest{}}
	status, err := program(ctx, c, dir, env, words, log.line)
	c.Cases = append(c.Cases, log.cases...)
	if err != nil {
		return err
	}
	if status != 0 && c.Count(verdict.Failed) == 0 {
		return fmt.Errorf("go test ended with status %d, and no test has failed", status)
	}
	return nil
}
