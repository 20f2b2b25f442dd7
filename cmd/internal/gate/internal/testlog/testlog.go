// Package testlog reads what `go test -json` prints, and keeps what was not run for want
// of something: that list is what a machine which has it runs.
package testlog

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
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

	FirstLine // of the first line of a file
}

// A FirstLine is the first line of a file: what was checked out when the tests began, and what
// made them fewer.
type FirstLine struct {
	Revision string `json:",omitempty"`
	Only     string `json:",omitempty"` // LOCKSTEP_ONLY
	Flags    string `json:",omitempty"` // of go test
}

// originAction is the Action of that line.
const originAction = "origin"

// Here is the line for tests that begin now, in the folder of a checkout.
func Here(ctx context.Context, dir, flags string) (line []byte, err error) {
	command := exec.CommandContext(ctx, "git", "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
	command.Dir = dir
	// none, where this is no checkout: nothing is taken from the log
	revision, _ := command.Output()
	origin := FirstLine{
		Revision: strings.TrimSpace(string(revision)),
		Only:     os.Getenv("LOCKSTEP_ONLY"),
		Flags:    flags,
	}
	line, err = json.Marshal(struct {
		Action string
		FirstLine
	}{originAction, origin})
	return append(line, '\n'), err
}

// fewer are the flags of go test that leave tests out, make them do less, or test another program.
var fewer = regexp.MustCompile(
	`(^|\s)['"]?--?(test\.)?((run|skip|short|list|failfast|tags|exec|c|o|n)([=\s'"]|$)|rapid\.)`,
)

// Holds is why a log says nothing of the revision that is judged, or says less than it could.
func (o *FirstLine) Holds(revision string) error {
	switch {
	case o == nil || o.Revision == "":
		return errors.New(
			"its first line does not say of which revision it is: `make test` writes it",
		)
	case o.Revision != revision:
		return fmt.Errorf(
			"it is of revision %.12s, and %.12s is checked out: run `make test` again", o.Revision,
			revision,
		)
	case o.Only != "":
		return fmt.Errorf(
			"LOCKSTEP_ONLY was %q, so that tests did less: run `make test` without it", o.Only,
		)
	case fewer.MatchString(o.Flags):
		return fmt.Errorf(
			"its tests ran with the flags %q, and did less: run `make test` without them", o.Flags,
		)
	}
	return nil
}

// A Log is what go test -json tells of tests, in the order in which they began.
type Log struct {
	Origin *FirstLine // nil if nothing says it
	tests  []*test
	known  map[testKey]*test
}

// Packages are those whose tests have ended, by their import paths.
func (l *Log) Packages() map[string]bool {
	ended := map[string]bool{}
	for _, t := range l.tests {
		if t.name == "" && t.ended != "" {
			ended[t.pkg] = true
		}
	}
	return ended
}

type testKey struct{ pkg, name string } // no name is the package

// within is what holds a test: another one, or its package.
func (k testKey) within() testKey {
	return testKey{k.pkg, k.name[:max(strings.LastIndexByte(k.name, '/'), 0)]}
}

type test struct {
	testKey
	output  Capture
	lacking string // the line that tells of something lacking
	holds   bool   // others
	ended   string // pass, skip, fail, or "" if it did not end
	seconds float64
}

// Line takes one line.
func (l *Log) Line(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	var e testEvent
	if err := json.Unmarshal(data, &e); err != nil {
		return fmt.Errorf("go test -json printed %.200q: %w", data, err)
	}
	if e.Action == originAction {
		if len(l.tests) > 0 || l.Origin != nil {
			return errors.New("a log begins in the midst of another one")
		}
		l.Origin = &e.FirstLine
		return nil
	}
	built, _, _ := strings.Cut(e.ImportPath, " ")
	key := testKey{cmp.Or(e.Package, built), e.Test}
	t := l.known[key]
	if t == nil {
		if l.known == nil {
			l.known = map[testKey]*test{}
		}
		t = &test{testKey: key}
		l.tests, l.known[key] = append(l.tests, t), t
		if in := l.known[key.within()]; in != nil &&
			in.ended == "" { // and not a neighbour with a slash in its name
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

// Cases are what the tests came to. One that holds others is a case only where it alone
// failed, and a package where it could not be tested.
func (l *Log) Cases() (all []verdict.CheckCase) {
	failed := map[testKey]bool{} // one within it
	for _, t := range slices.Backward(l.tests) {
		c := verdict.CheckCase{Class: t.pkg, Name: cmp.Or(t.name, "package"), Seconds: t.seconds}
		c.Outcome, c.Message = t.outcome(failed[t.testKey])
		if w := want.Read(t.lacking); w != nil && c.Outcome == verdict.NotRun {
			c.Lacks = w.Name
		}
		if t.name != "" {
			failed[t.within()] = failed[t.within()] || failed[t.testKey] ||
				c.Outcome == verdict.Failed
		}
		if c.Message = strings.TrimSpace(c.Message); c.Outcome != "" {
			all = append(all, c)
		}
	}
	slices.Reverse(all)
	return all
}

// outcome is what a test came to, and why; none if what is in it says it. told says that
// one within it failed.
func (t *test) outcome(told bool) (outcome, why string) {
	output, inner := t.output.String(), t.name == "" || t.holds
	told = told && inner
	switch {
	case t.ended == "pass" && t.lacking != "": // one that ran without something says so in its log
		return verdict.NotRun, t.lacking
	case t.ended == "pass" && !inner:
		return verdict.Passed, ""
	case t.ended == "skip" && t.name != "": // and not a package without test files
		return verdict.NotRun, skipReason(output)
	case t.ended == "fail" && !told:
		return verdict.Failed, output
	case t.ended == "" && t.name != "" && !told:
		return verdict.Failed, "it did not end; the test program crashed:\n" + output
	}
	return "", ""
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

// Read takes a whole log.
func Read(r io.Reader) (*Log, error) {
	var l Log
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 64<<20)
	for n := 1; lines.Scan(); n++ {
		if err := l.Line(lines.Bytes()); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(l.tests) == 0 {
		return nil, errors.New("no test in it")
	}
	return &l, nil
}

// ReadFiles takes logs of one revision, each of which ran what those before it had not run:
// what a later one says of a test counts. If the revision is given, all must be of it. The
// packages are those that have ended in one of them.
func ReadFiles(
	revision string, files ...string,
) (all []verdict.CheckCase, packages map[string]bool, err error) {
	packages = map[string]bool{}
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			return nil, nil, err
		}
		l, err := Read(f)
		f.Close()
		if err == nil && revision != "" {
			err = l.Origin.Holds(revision)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", file, err)
		}
		maps.Copy(packages, l.Packages())
		all = merge(all, l.Cases())
	}
	return all, packages, nil
}

// tells are the tests that cases tell of, and those that they lie in.
func tells(cases []verdict.CheckCase) map[testKey]bool {
	told := map[testKey]bool{}
	for _, c := range cases {
		for key := (testKey{c.Class, c.Name}); key.name != ""; key = key.within() {
			told[key] = true
		}
	}
	return told
}

// merge adds what a later log has. What was not run before and is told of now, itself or a
// test within it, goes by that.
func merge(before, later []verdict.CheckCase) []verdict.CheckCase {
	told := tells(later)
	all, known := []verdict.CheckCase{}, map[testKey]bool{}
	for _, c := range before {
		if key := (testKey{c.Class, c.Name}); c.Outcome != verdict.NotRun || !told[key] {
			all, known[key] = append(all, c), true
		}
	}
	for _, c := range later {
		if !known[testKey{c.Class, c.Name}] || c.Outcome == verdict.Failed {
			all = append(all, c)
		}
	}
	return all
}

// NotRun are the cases that were not run for want of something, by its name.
func NotRun(cases []verdict.CheckCase) map[string][]verdict.CheckCase {
	lacking := map[string][]verdict.CheckCase{}
	for _, c := range cases {
		if c.Outcome == verdict.NotRun && c.Lacks != "" {
			lacking[c.Lacks] = append(lacking[c.Lacks], c)
		}
	}
	return lacking
}

// How much of a program's output is kept: a crash is told at its beginning, all else
// at its end.
const (
	headKept = 4 << 10
	tailKept = 12 << 10
)

// Capture keeps the beginning and the end of what is written.
type Capture struct {
	head, tail []byte
	between    string // says that something is gone
}

func (c *Capture) Write(p []byte) (int, error) {
	room := min(headKept-len(c.head), len(p))
	c.head = append(c.head, p[:room]...)
	c.tail = append(c.tail, p[room:]...)
	if surplus := len(c.tail) - tailKept; surplus > 0 {
		c.tail, c.between = slices.Delete(c.tail, 0, surplus), "\n[…]\n"
	}
	return len(p), nil
}

func (c *Capture) String() string {
	return strings.ToValidUTF8(string(c.head)+c.between+string(c.tail), "\uFFFD")
}
