package gate

import (
	"context"
	"encoding/json"
	"fmt"
	"lockstep/internal/want"
	"lockstep/parity/verdict"
	"regexp"
	"strings"
)

// lacks is what a line says that a test lacks, or empty.
func lacks(line string) string {
	if w := want.Read(line); w != nil {
		return w.Name
	}
	return ""
}

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
	outputs map[string]string // of what still runs
	lacking map[string]string // lines that tell of something lacking, of what still runs
	parents map[string]bool   // tests that have others in them
	running map[string]bool   // tests that have begun
}

func newTestLog() *testLog {
	return &testLog{outputs: map[string]string{}, lacking: map[string]string{}, parents: map[string]bool{}, running: map[string]bool{}}
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
	key := e.Package + "\x00" + e.Test
	done := func(outcome, message, lacks string) {
		name := e.Test
		if name == "" {
			name = "package"
		}
		l.cases = append(l.cases, verdict.Case{
			Class: e.Package, Name: name, Outcome: outcome, Lacks: lacks, Seconds: e.Elapsed,
			Message: strings.ToValidUTF8(strings.TrimSpace(message), "\uFFFD"),
		})
	}
	switch e.Action {
	case "run":
		l.running[key] = true
		if i := strings.LastIndexByte(e.Test, '/'); i >= 0 {
			l.parents[e.Package+"\x00"+e.Test[:i]] = true
		}
		return nil
	case "output", "build-output":
		if text := l.outputs[key] + e.Output; len(text) > messageKept {
			l.outputs[key] = text[len(text)-messageKept:]
		} else {
			l.outputs[key] = text
		}
		if lacks(e.Output) != "" {
			l.lacking[key] = strings.TrimSpace(e.Output)
		}
		return nil
	case "pass":
		// A test that ran without something says so in its log. A package or a test
		// that only holds others is no case of its own.
		if text := l.lacking[key]; text != "" {
			done(verdict.NotRun, text, lacks(text))
		} else if e.Test != "" && !l.parents[key] {
			done(verdict.Passed, "", "")
		}
	case "skip":
		text := l.outputs[key]
		if e.Test == "" {
			// A package without test files.
			break
		}
		done(verdict.NotRun, skipReason(text), lacks(text))
	case "fail", "build-fail":
		if e.Test == "" && e.Action == "fail" && e.FailedBuild == "" {
			// Tests that were still running did not end: the program crashed.
			for other := range l.running {
				if pkg, test, _ := strings.Cut(other, "\x00"); pkg == e.Package && test != "" {
					l.cases = append(l.cases, verdict.Case{Class: pkg, Name: test, Outcome: verdict.Failed, Message: "it did not end; the test program crashed:\n" + strings.TrimSpace(l.outputs[other])})
					delete(l.running, other)
				}
			}
		}
		if l.failedWithin(e.Package, e.Test) {
			break // said by what is in it
		}
		done(verdict.Failed, l.outputs[key], "")
	default:
		return nil
	}
	delete(l.outputs, key)
	delete(l.lacking, key)
	delete(l.running, key)
	return nil
}

// failedWithin tells whether a test in that test, or any of the package if it is
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

// bare is the place of a skip without a word.
var bare = regexp.MustCompile(`^\S+\.go:\d+:$`)

// skipReason is the line of a skipped test's output that says why.
func skipReason(output string) string {
	reason := ""
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if line != "" && !bare.MatchString(line) && !strings.HasPrefix(line, "===") && !strings.HasPrefix(line, "---") {
			reason = line
		}
	}
	if reason == "" {
		return "skipped, without a word why"
	}
	return reason
}

// goTest runs tests of packages of the module, never from the cache: that does not
// know of libraries and programs which tests load.
func goTest(ctx context.Context, c *verdict.Check, dir string, env []string, args ...string) error {
	words := append([]string{"go", "test", "-json", "-count=1", "-timeout=0"}, args...) // the gate has its own limit
	c.Command = "go test -count=1 " + strings.Join(args, " ")
	log := newTestLog()
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
