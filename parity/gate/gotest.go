package gate

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"lockstep/internal/want"
	"lockstep/parity/verdict"
)

// testEvent is a line of go test -json.
type testEvent struct {
	Action     string
	Package    string
	ImportPath string // of a package that does not compile
	Test       string
	Elapsed    float64
	Output     string
}

// A testLog is what go test -json tells of tests, in the order in which they began.
type testLog struct {
	tests []*test
	known map[testKey]*test
}

type testKey struct{ pkg, name string } // no name is the package

// within is what holds a test: another one, or its package.
func (k testKey) within() testKey {
	return testKey{k.pkg, k.name[:max(strings.LastIndexByte(k.name, '/'), 0)]}
}

type test struct {
	testKey
	output  capture
	lacking string // the line that tells of something lacking
	holds   bool   // others
	ended   string // pass, skip, fail, or "" if it did not end
	seconds float64
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
	built, _, _ := strings.Cut(e.ImportPath, " ")
	key := testKey{cmp.Or(e.Package, built), e.Test}
	t := l.known[key]
	if t == nil {
		t = &test{testKey: key}
		l.tests, l.known[key] = append(l.tests, t), t
		if in := l.known[key.within()]; in != nil && in.ended == "" { // and not a neighbour with a slash in its name
			in.holds = true
		}
	}
	switch e.Action {
	case "output", "build-output":
		t.output.Write([]byte(e.Output))
		if want.Read(e.Output) != nil {
			t.lacking = strings.TrimSpace(e.Output)
		}
	case "pass", "skip", "fail", "build-fail":
		t.ended, t.seconds = strings.TrimPrefix(e.Action, "build-"), e.Elapsed
	}
	return nil
}

// cases are what the tests came to. One that holds others is a case only where it alone
// failed, and a package where it could not be tested.
func (l *testLog) cases() (all []verdict.Case) {
	failed := map[testKey]bool{} // one within it
	for _, t := range slices.Backward(l.tests) {
		c := verdict.Case{Class: t.pkg, Name: cmp.Or(t.name, "package"), Seconds: t.seconds}
		output, inner := t.output.String(), t.name == "" || t.holds
		switch {
		case t.ended == "pass" && t.lacking != "": // one that ran without something says so in its log
			c.Outcome, c.Message = verdict.NotRun, t.lacking
		case t.ended == "pass" && !inner:
			c.Outcome = verdict.Passed
		case t.ended == "skip" && t.name != "": // and not a package without test files
			c.Outcome, c.Message = verdict.NotRun, skipReason(output)
		case t.ended == "fail" && !(inner && failed[t.testKey]): // else what is in it says so
			c.Outcome, c.Message = verdict.Failed, output
		case t.ended == "" && t.name != "" && !(inner && failed[t.testKey]):
			c.Outcome, c.Message = verdict.Failed, "it did not end; the test program crashed:\n"+output
		}
		if w := want.Read(t.lacking); w != nil && c.Outcome == verdict.NotRun {
			c.Lacks = w.Name
		}
		if t.name != "" {
			failed[t.within()] = failed[t.within()] || failed[t.testKey] || c.Outcome == verdict.Failed
		}
		if c.Message = strings.TrimSpace(c.Message); c.Outcome != "" {
			all = append(all, c)
		}
	}
	slices.Reverse(all)
	return all
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
	log := testLog{known: map[testKey]*test{}}
	status, err := program(ctx, c, dir, env, words, log.line)
	c.Cases = append(c.Cases, log.cases()...)
	if err != nil {
		return err
	}
	if status != 0 && c.Count(verdict.Failed) == 0 {
		return fmt.Errorf("go test ended with status %d, and no test has failed", status)
	}
	return nil
}
