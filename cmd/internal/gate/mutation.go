package gate

import (
	"context"
	"fmt"
	"strings"

	"lockstep/parity/verdict"
)

// mutation judges mutants of the lines of Go that a change touches. One that lives fails the
// check where it is of an engine or of arithmetic; elsewhere it is shown.
func (g *run) mutation(ctx context.Context, c *verdict.Check) error {
	if g.change.MergeBase == "" {
		return leaving("no revision to tell which lines were changed")
	}
	c.Command = "make --no-print-directory mutation-diff BASE=" + g.change.MergeBase
	var said []string
	status, err := program(
		ctx, c, g.Root, g.env, strings.Fields(c.Command),
		func(line []byte) error {
			if k, ok := ofMutant(strings.TrimSpace(string(line))); ok {
				c.Cases = append(c.Cases, k)
			} else {
				said = append(said, strings.TrimSpace(string(line)))
			}
			return nil
		},
	)
	c.Note = strings.Join(said, "; ")
	switch {
	case err != nil:
		return err
	case status != 0 && c.Count(verdict.Failed) == 0:
		return fmt.Errorf("it ended with status %d, and no mutant says why", status)
	case status == 0 && c.Count(verdict.Failed) > 0:
		return fmt.Errorf("it ended with status 0, although mutants live")
	case len(c.Cases) == 0 && len(said) == 0:
		return leaving("no line that was changed has a mutant")
	}
	if c.Count(verdict.Failed) == 0 {
		c.Cases = append(
			c.Cases,
			verdict.CheckCase{
				Class:   "mutation",
				Name:    "lines that were changed",
				Outcome: verdict.Passed,
			},
		)
	}
	return nil
}

// ofMutant is the case of a mutant that lives.
func ofMutant(line string) (verdict.CheckCase, bool) {
	cells := strings.SplitN(line, "\t", 5)
	if len(cells) != 5 {
		return verdict.CheckCase{}, false
	}
	k := verdict.CheckCase{
		Class:   "mutation",
		Name:    cells[1] + " " + cells[2],
		Outcome: verdict.NotRun,
		Message: "a mutant of it " + cells[3] + ": " + cells[4],
	}
	if cells[0] == "red" {
		k.Outcome = verdict.Failed
	}
	return k, true
}
