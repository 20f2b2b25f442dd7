package verdict

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
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

// RightShare is the share of the faults whose stage must be named rightly.
const RightShare = 0.95

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

// MayBeWrong is how many of n stages may be named wrongly.
func MayBeWrong(n int) int {
	wrong := 0
	for float64(n-wrong-1) >= RightShare*float64(n) {
		wrong++
	}
	return wrong
}

// Err is nil if all faults were caught, enough stages were named rightly, and there
// was no false alarm.
func (s *Score) Err() error { return s.Judge(MayBeWrong(len(s.Mutants))) }

// Judge is Err where that many stages may be named wrongly.
func (s *Score) Judge(wrong int) error {
	caught, right := s.Counts()
	var errs []error
	for _, alarm := range s.Alarms {
		errs = append(errs, errors.New("false alarm: "+alarm))
	}
	for i := range s.Mutants {
		switch m := &s.Mutants[i]; {
		case m.Error != "":
			errs = append(errs, fmt.Errorf("%s could not be tried: %s", m.Name, m.Error))
		case !m.Caught:
			errs = append(errs, fmt.Errorf("%s was not caught", m.Name))
		}
	}
	if n := len(s.Mutants); right < n-wrong {
		errs = append(errs, fmt.Errorf("%d of %d stages are named rightly, %d of them caught: want %d or more", right, n, caught, n-wrong))
	}
	return errors.Join(errs...)
}

// Cases are the faults, and the engines without one.
func (s *Score) Cases() []Case {
	var cases []Case
	for _, engine := range s.Clean {
		cases = append(cases, Case{Class: "mutants", Name: "no fault in " + engine, Outcome: Passed})
	}
	for _, alarm := range s.Alarms {
		cases = append(cases, Case{Class: "mutants", Name: "no fault", Outcome: Failed, Message: "false alarm: " + alarm})
	}
	for i := range s.Mutants {
		m := &s.Mutants[i]
		one := Case{Class: "mutants", Name: m.Name, Outcome: Passed, Seconds: m.Seconds}
		switch {
		case m.Error != "":
			one.Outcome, one.Message = Failed, m.Error
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
	rows := [][]string{{"fault", "what is wrong", "engine", "caught", "stage", "named", "rollouts", "steps"}}
	word := func(yes bool) string {
		if yes {
			return "yes"
		}
		return "NO"
	}
	for i := range s.Mutants {
		m := &s.Mutants[i]
		caught, named := word(m.Caught), m.Named
		if m.Error != "" {
			caught = "not tried"
		}
		if m.Caught && !m.Right {
			named = "✗ " + named
		}
		rows = append(rows, []string{m.Name, m.Title, m.Engine, caught, m.Stage, named, fmt.Sprint(m.Rollouts), fmt.Sprint(m.Steps)})
	}
	var b strings.Builder
	plain := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for i, row := range rows {
		if !markdown {
			row = slices.Delete(row, 1, 2) // too long for a terminal
			fmt.Fprintln(plain, strings.Join(row, "\t"))
			continue
		}
		for _, cell := range row {
			b.WriteString("| " + strings.ReplaceAll(cell, "|", `\|`) + " ")
		}
		b.WriteString("|\n")
		if i == 0 {
			b.WriteString("|---|---|---|---|---|---|--:|--:|\n")
		}
	}
	plain.Flush()
	b.WriteString("\nRun without a fault: " + strings.Join(s.Clean, ", ") + ".\n\n" + s.Origin() + "\n\n" + s.Totals() + "\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// Origin says in a sentence which runs the table's rows are of, at which commit.
func (s *Score) Origin() string {
	text := fmt.Sprintf("All %d rows are of one run", len(s.Mutants))
	if s.Known > 0 {
		text = fmt.Sprintf("%d rows are of the last run, %d of earlier ones of the same sources", len(s.Mutants)-s.Known, s.Known)
	}
	return text + ", at " + cmp.Or(s.Commit, "no known commit") + "."
}

// Totals is the sum of the table in a sentence.
func (s *Score) Totals() string {
	caught, right := s.Counts()
	n := len(s.Mutants)
	share := 0.0
	if n > 0 {
		share = 100 * float64(right) / float64(n)
	}
	text := fmt.Sprintf("%d of %d faults caught; the stage named rightly for %d (%.1f %%); ", caught, n, right, share)
	if len(s.Alarms) == 0 {
		return text + fmt.Sprintf("no alarm in %d runs without a fault.", len(s.Clean))
	}
	return text + fmt.Sprintf("FALSE ALARMS: %d.", len(s.Alarms))
}
