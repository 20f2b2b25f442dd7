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
	"slices"
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
		if err := os.Remove(filepath.Join(dir, name)); err != nil &&
			!errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Write writes the result as JSON and JUnit XML. Each file appears whole or not at
// all.
func (r *GateResult) Write(dir string) error {
	junit, err := xml.MarshalIndent(r.junit(), "", " ")
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return errors.Join(
		fileio.WriteFile(
			filepath.Join(dir, JUnitName), slices.Concat([]byte(xml.Header), junit, []byte("\n"))),
		fileio.WriteFile(filepath.Join(dir, JSONName), append(text, '\n')),
	)
}

// A node is an element of JUnit's XML.
type node struct {
	XMLName xml.Name
	Attrs   []xml.Attr `xml:",any,attr"`
	Text    string     `xml:",chardata"`
	Nodes   []node
}

// newNode makes an element; its attributes are names, each with its value.
func newNode(name, text string, nodes []node, attributes ...any) node {
	n := node{XMLName: xml.Name{Local: name}, Text: text, Nodes: nodes}
	for pair := range slices.Chunk(attributes, 2) {
		n.Attrs = append(
			n.Attrs, xml.Attr{Name: xml.Name{Local: pair[0].(string)}, Value: fmt.Sprint(pair[1])})
	}
	return n
}

// junit is a result as most programs read JUnit's XML, attributes in the order of its schema:
// a suite for each check. One that failed as a whole has a case of its own for that, an error.
func (r *GateResult) junit() node {
	seconds := func(s float64) string { return fmt.Sprintf("%.3f", s) }
	counted := func(name string, took float64, n map[string]int) []any {
		return []any{
			"name", name, "tests", n["testcase"], "failures", n["failure"], "errors", n["error"],
			"skipped", n["skipped"], "time", seconds(took),
		}
	}
	elements := map[string]string{Failed: "failure", NotRun: "skipped", NotApplicable: "skipped"}
	types := map[string][]any{"failure": {"type", "difference"}, "error": {"type", "check"}}
	var suites []node
	total := map[string]int{}
	for i := range r.Checks {
		c, n := &r.Checks[i], map[string]int{}
		var properties []node
		for _, p := range [][2]string{
			{"outcome", c.Outcome}, {"command", c.Command}, {"base", r.Change.Base},
			{"commit", r.Change.Head},
		} {
			properties = append(
				properties, newNode("property", "", nil, "name", p[0], "value", p[1]))
		}
		nodes := []node{newNode("properties", "", properties)}
		add := func(class, name string, took float64, element, text string) {
			var outcome []node
			if first, _, _ := strings.Cut(text, "\n"); element != "" {
				outcome = append(
					outcome,
					newNode(
						element,
						text,
						nil,
						append([]any{"message", first}, types[element]...)...),
				)
			}
			nodes = append(
				nodes,
				newNode(
					"testcase", "", outcome, "classname", class, "name", name, "time",
					seconds(took),
				),
			)
			for _, count := range []map[string]int{n, total} {
				count["testcase"]++
				count[element]++
			}
		}
		for _, k := range c.Cases {
			add(c.Name+"."+k.Class, k.Name, k.Seconds, elements[k.Outcome], k.Message)
		}
		switch {
		case c.Outcome == Failed && n["failure"] == 0:
			add(c.Name, "check", 0, "error", c.Why)
		case c.Outcome == NotRun:
			add(c.Name, "check", 0, "skipped", c.Why)
		}
		if c.Output != "" {
			nodes = append(nodes, newNode("system-out", c.Output, nil))
		}
		suites = append(
			suites,
			newNode(
				"testsuite",
				"",
				nodes,
				append(
					counted(c.Name, c.Seconds, n), "timestamp",
					r.Start.Format("2006-01-02T15:04:05"), "hostname", "localhost",
				)...),
		)
	}
	return newNode("testsuites", "", suites, counted("lockstep gate", r.Seconds, total)...)
}

// MaxShown is how many failures of a check the text shows; the files have all.
const MaxShown = 5

// some are the first of lines, indented, and how many more there are.
func some(lines []string, n int) string {
	text := strings.Join(lines[:min(len(lines), n)], "\n")
	if more := len(lines) - n; more > 0 {
		text += fmt.Sprintf("\nand %d more", more)
	}
	return indented(text)
}

func indented(text string) (out string) {
	for line := range strings.Lines(strings.TrimRight(text, "\n")) {
		out += "      " + strings.TrimRight(line, "\n") + "\n"
	}
	return out
}

// WriteText writes a check that has ended as people read it: a line, and for a failure
// what failed.
func (c *Check) WriteText(w io.Writer) error {
	word := map[string]string{Passed: "ok", Failed: "FAIL", NotRun: "–"}[c.Outcome]
	text := fmt.Sprintf("%-5s %-20s", word, c.Name)
	if c.Outcome == NotRun {
		text += " not run: " + c.Why
	} else {
		text += fmt.Sprintf(" %6d cases %7.1f s", c.Count(Passed)+c.Count(Failed), c.Seconds)
		for _, outcome := range []string{NotRun, NotApplicable} {
			if n := c.Count(outcome); n > 0 {
				text += fmt.Sprintf(", %d %s", n, outcome)
			}
		}
		if c.Note != "" {
			text += "; " + c.Note
		}
	}
	text += "\n"
	if c.Outcome == Failed {
		failures := c.Failures()
		text += indented(c.Why) + some(failures, MaxShown)
		if len(failures) == 0 {
			text += indented(c.Output)
		}
		if c.Command != "" {
			text += indented("repeat: " + c.Command)
		}
	}
	_, err := io.WriteString(w, text)
	return err
}

// WriteText writes what differs, and what that calls for.
func (c *Change) WriteText(w io.Writer) error {
	_, err := io.WriteString(w, c.Why+"\n"+some(c.Files, 20))
	return err
}

// A Skip is why some cases of a check were not run.
type Skip struct {
	Check, Message string
	Count          int // of the cases
}

// Skips are the reasons for which cases have one of some outcomes, each once.
func (r *GateResult) Skips(outcomes ...string) (all []Skip) {
	for _, c := range r.Checks {
		for _, k := range c.Cases {
			if !slices.Contains(outcomes, k.Outcome) {
				continue
			}
			i := slices.IndexFunc(
				all, func(s Skip) bool { return s.Check == c.Name && s.Message == k.Message })
			if i < 0 {
				i, all = len(all), append(all, Skip{Check: c.Name, Message: k.Message})
			}
			all[i].Count++
		}
	}
	return all
}
