package verdict

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"lockstep/internal/fileio"
)

// Names of what the gate writes into its folder.
const (
	JSONName  = "gate.json"
	JUnitName = "junit.xml"
	HTMLName  = "report.html"
)

// Clear makes the folder and removes what an earlier gate wrote there, so that its
// verdict cannot be taken for this one's.
func Clear(dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	for _, name := range []string{JSONName, JUnitName, HTMLName} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Write writes the result as JSON and JUnit XML. Each file appears whole or not at
// all.
func (r *Result) Write(dir string) error {
	if err := fileio.Write(filepath.Join(dir, JUnitName), r.writeJUnit); err != nil {
		return err
	}
	return fileio.Write(filepath.Join(dir, JSONName), func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", " ")
		return e.Encode(r)
	})
}

// The elements of JUnit's XML, as most programs read it: attributes in the order of
// its schema.
type (
	junitCounts struct {
		Name     string `xml:"name,attr"`
		Tests    int    `xml:"tests,attr"`
		Failures int    `xml:"failures,attr"`
		Errors   int    `xml:"errors,attr"`
		Skipped  int    `xml:"skipped,attr"`
		Time     string `xml:"time,attr"`
	}
	junitSuites struct {
		XMLName xml.Name `xml:"testsuites"`
		junitCounts
		Suites []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		junitCounts
		Timestamp  string          `xml:"timestamp,attr"`
		Hostname   string          `xml:"hostname,attr"`
		Properties []junitProperty `xml:"properties>property"`
		Cases      []junitCase     `xml:"testcase"`
		Output     string          `xml:"system-out,omitempty"`
	}
	junitProperty struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		Time    string        `xml:"time,attr"`
		Skipped *junitMessage `xml:"skipped"`
		Error   *junitMessage `xml:"error"`
		Failure *junitMessage `xml:"failure"`
	}
	junitMessage struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr,omitempty"`
		Text    string `xml:",chardata"`
	}
)

// writeJUnit writes a suite for each check. A check that failed as a whole has a case
// of its own for that, an error.
func (r *Result) writeJUnit(w io.Writer) error {
	seconds := func(s float64) string { return fmt.Sprintf("%.3f", s) }
	all := junitSuites{junitCounts: junitCounts{Name: "lockstep gate", Time: seconds(r.Seconds)}}
	for i := range r.Checks {
		c := &r.Checks[i]
		s := junitSuite{
			junitCounts: junitCounts{Name: c.Name, Time: seconds(c.Seconds)}, Timestamp: r.Start.Format("2006-01-02T15:04:05"), Hostname: "localhost",
			Properties: []junitProperty{{"outcome", c.Outcome}, {"command", c.Command}, {"base", r.Change.Base}, {"commit", r.Change.Head}},
			Output:     c.Output,
		}
		for _, k := range c.Cases {
			one := junitCase{Class: c.Name + "." + k.Class, Name: k.Name, Time: seconds(k.Seconds)}
			first, _, _ := strings.Cut(k.Message, "\n")
			switch k.Outcome {
			case Failed:
				one.Failure = &junitMessage{Message: first, Type: "difference", Text: k.Message}
				s.Failures++
			case NotRun, NotApplicable:
				one.Skipped = &junitMessage{Message: first, Text: k.Message}
				s.Skipped++
			}
			s.Cases = append(s.Cases, one)
		}
		whole := junitCase{Class: c.Name, Name: "check", Time: seconds(0)}
		switch {
		case c.Outcome == Failed && s.Failures == 0:
			whole.Error = &junitMessage{Message: strings.SplitN(c.Why, "\n", 2)[0], Type: "check", Text: c.Why}
			s.Errors++
			s.Cases = append(s.Cases, whole)
		case c.Outcome == NotRun:
			whole.Skipped = &junitMessage{Message: c.Why}
			s.Skipped++
			s.Cases = append(s.Cases, whole)
		}
		s.Tests = len(s.Cases)
		all.Tests += s.Tests
		all.Failures += s.Failures
		all.Errors += s.Errors
		all.Skipped += s.Skipped
		all.Suites = append(all.Suites, s)
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", " ")
	if err := e.Encode(all); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// MaxShown is how many failures of a check the text shows; the files have all.
const MaxShown = 5

// WriteText writes a check that has ended as people read it: a line, and for a failure
// what failed.
func (c *Check) WriteText(w io.Writer) error {
	var b strings.Builder
	word := map[string]string{Passed: "ok", Failed: "FAIL", NotRun: "–"}[c.Outcome]
	fmt.Fprintf(&b, "%-5s %-20s", word, c.Name)
	if c.Outcome == NotRun {
		fmt.Fprintf(&b, " not run: %s\n", c.Why)
	} else {
		fmt.Fprintf(&b, " %6d cases %7.1f s", c.Count(Passed)+c.Count(Failed), c.Seconds)
		if n := c.Count(NotRun); n > 0 {
			fmt.Fprintf(&b, ", %d not run", n)
		}
		if n := c.Count(NotApplicable); n > 0 {
			fmt.Fprintf(&b, ", %d not applicable", n)
		}
		if c.Note != "" {
			b.WriteString("; " + c.Note)
		}
		b.WriteByte('\n')
	}
	indent := func(text string) {
		for line := range strings.Lines(strings.TrimRight(text, "\n")) {
			b.WriteString("      " + strings.TrimRight(line, "\n") + "\n")
		}
	}
	if c.Outcome == Failed {
		indent(c.Why)
		shown := 0
		for i := range c.Cases {
			k := &c.Cases[i]
			if k.Outcome != Failed {
				continue
			}
			if shown++; shown > MaxShown {
				indent(fmt.Sprintf("and %d more", c.Count(Failed)-MaxShown))
				break
			}
			indent(k.Class + " " + k.Name + ": " + k.Message)
		}
		if c.Output != "" && shown == 0 {
			indent(c.Output)
		}
		if c.Command != "" {
			indent("repeat: " + c.Command)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteSkips writes what was not run, with each reason once.
func (r *Result) WriteSkips(w io.Writer) error {
	type reason struct{ check, message string }
	count := map[reason]int{}
	var order []reason
	for i := range r.Checks {
		for _, k := range r.Checks[i].Cases {
			if k.Outcome != NotRun {
				continue
			}
			key := reason{r.Checks[i].Name, k.Message}
			if count[key]++; count[key] == 1 {
				order = append(order, key)
			}
		}
	}
	for _, key := range order {
		if _, err := fmt.Fprintf(w, "not run: %s, %d cases: %s\n", key.check, count[key], strings.ReplaceAll(key.message, "\n", " ")); err != nil {
			return err
		}
	}
	return nil
}
