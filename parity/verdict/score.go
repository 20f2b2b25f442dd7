package verdict

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Score is what became of planted faults.
type Score struct {
	Mutants []Mutant `json:"mutants"` // in the order of the faults

	// Alarms are what was found in code without any fault, by engine.
	Alarms []string `json:"alarms,omitempty"`
	Clean  []string `json:"clean"` // engines in which nothing was found

	// Known is how many of the faults this run did not try: an earlier one had kept what
	// became of them, of the same sources. Commit is the one that they are of, if it is known.
	Known  int    `json:"known"`
	Commit string `json:"commit,omitempty"`
}

// Counts are how many faults were caught, and how many of their stages were named
// rightly.
func (s *Score) Counts() (caught, right int) {
	for i := range s.Mutants {
		if s.Mutants[i].Caught {
			caught++
		}
		if s.Mutants[i].Right {
			right++
		}
	}
	return caught, right
}

// MayBeWrong is how many of n stages may be named wrongly: 5 of each hundred, none of fewer.
func MayBeWrong(n int) int { return n / 100 * 5 }

// Err is nil if all faults were caught, enough stages were named rightly, and there
// was no false alarm.
func (s *Score) Err() error { return s.Judge(MayBeWrong(len(s.Mutants))) }

// Judge is Err where that many stages may be named wrongly.
func (s *Score) Judge(wrong int) error {
	caught, right := s.Counts()
	var errs []error
	for _, k := range s.Cases() {
		if k.Outcome == Failed {
			errs = append(errs, errors.New(k.Name+": "+k.Message))
		}
	}
	if n := len(s.Mutants); right < n-wrong {
		errs = append(
			errs,
			fmt.Errorf(
				"%d of %d stages are named rightly, %d of them caught: want %d or more", right, n,
				caught, n-wrong,
			),
		)
	}
	return errors.Join(errs...)
}

// Cases are the faults, and the engines without one.
func (s *Score) Cases() []CheckCase {
	var cases []CheckCase
	for _, engine := range s.Clean {
		cases = append(
			cases, CheckCase{Class: "mutants", Name: "no fault in " + engine, Outcome: Passed})
	}
	for _, alarm := range s.Alarms {
		cases = append(
			cases,
			CheckCase{
				Class:   "mutants",
				Name:    "no fault",
				Outcome: Failed,
				Message: "false alarm: " + alarm,
			},
		)
	}
	for _, m := range s.Mutants {
		one := CheckCase{Class: "mutants", Name: m.Name, Outcome: Passed, Seconds: m.Seconds}
		switch {
		case m.Error != "":
			one.Outcome, one.Message = Failed, "could not be tried: "+m.Error
		case !m.Caught:
			one.Outcome, one.Message = Failed, "not caught: "+m.Title
		case !m.Right: // allowed for a few
			one.Message = fmt.Sprintf("stage %s was named, the fault is in %s", m.Named, m.Stage)
		}
		cases = append(cases, one)
	}
	return cases
}

// WriteTable writes the faults as a table: Markdown, or plain text.
func (s *Score) WriteTable(w io.Writer, markdown bool) error {
	titled := func(name, title string) string {
		if markdown { // else it is too long for a terminal
			return name + "\t" + title
		}
		return name
	}
	lines := []string{
		titled("fault", "what is wrong") + "\tengine\tcaught\tstage\tnamed\trollouts\tsteps",
	}
	for _, m := range s.Mutants {
		caught, named := "NO", m.Named
		switch {
		case m.Error != "":
			caught = "not tried"
		case m.Caught && !m.Right:
			caught, named = "yes", "✗ "+named
		case m.Caught:
			caught = "yes"
		}
		lines = append(
			lines,
			fmt.Sprintf(
				"%s\t%s\t%s\t%s\t%s\t%d\t%d", titled(m.Name, m.Title), m.Engine, caught, m.Stage,
				named, m.Rollouts, m.Steps,
			),
		)
	}
	var b strings.Builder
	if markdown {
		cells := strings.NewReplacer("|", `\|`, "\t", " | ")
		for i, line := range lines {
			b.WriteString("| " + cells.Replace(line) + " |\n")
			if i == 0 {
				b.WriteString("|---|---|---|---|---|---|--:|--:|\n")
			}
		}
	} else {
		plain := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		fmt.Fprintln(plain, strings.Join(lines, "\n"))
		plain.Flush()
	}
	fmt.Fprintf(
		&b, "\nRun without a fault: %s.\n\n%s\n\n%s\n", strings.Join(s.Clean, ", "), s.Origin(),
		s.Totals())
	_, err := io.WriteString(w, b.String())
	return err
}

// Origin says in a sentence which runs the table's rows are of, at which commit.
func (s *Score) Origin() string {
	text := fmt.Sprintf("All %d rows are of one run", len(s.Mutants))
	if s.Known > 0 {
		text = fmt.Sprintf(
			"%d rows are of the last run, %d of earlier ones of the same sources",
			len(s.Mutants)-s.Known, s.Known)
	}
	return text + ", at " + cmp.Or(s.Commit, "no known commit") + "."
}

// Totals is the sum of the table in a sentence.
func (s *Score) Totals() string {
	caught, right := s.Counts()
	n := len(s.Mutants)
	text := fmt.Sprintf(
		"%d of %d faults caught; the stage named rightly for %d (%.1f %%); ", caught, n, right,
		100*float64(right)/float64(max(n, 1)))
	if len(s.Alarms) == 0 {
		return text + fmt.Sprintf("no alarm in %d runs without a fault.", len(s.Clean))
	}
	return text + fmt.Sprintf("FALSE ALARMS: %d.", len(s.Alarms))
}
