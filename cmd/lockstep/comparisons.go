package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"lockstep/cmd/internal/report"
	"lockstep/internal/want"
	"lockstep/parity"
	"lockstep/parity/verdict"
)

// comparisons are those of one command, printed as they are made.
type comparisons struct {
	env    *environment
	output *outputFlags
	asked  bool   // for its engines, by their names
	keep   string // folder for the smallest cases that differ, if any

	profiles []string // of both sides, as they were printed last
	list     []verdict.Comparison
}

const noReport = "no report is written"

// hold holds engines of a family, or sources, to the first of them, by compare. What differs is
// shrunk if it is to be kept: to a case, of which shrink says a few words.
func hold[E any](
	p *comparisons, k verdict.Comparison, all []opened[E],
	compare func(want, got E) (*parity.Report, error),
	shrink func(want E, got opened[E]) (smallest, string, error),
) error {
	first := all[0]
	for _, o := range all[1:] {
		k.Want, k.Got, k.Identities, k.Profiles = first.name, o.name, nil, nil
		if first.profile != "" && o.profile != "" {
			k.Profiles = []string{first.profile, o.profile}
		}
		var r *parity.Report
		err := cmp.Or(first.err, o.err)
		if err == nil {
			k.Identities = slices.DeleteFunc(
				[]string{first.identity, o.identity}, func(id string) bool { return id == "" },
			)
			if r, err = compare(first.engine, o.engine); err != nil {
				err = errors.New(err.Error()) // whatever it wraps: what has opened is not left out
			}
		}
		if err := p.made(k, r, err); err != nil {
			return err
		}
		if p.keep == "" || p.list[len(p.list)-1].Outcome() != verdict.Different {
			continue
		}
		small, text, err := shrink(first.engine, o)
		if err := p.kept(small, text, err); err != nil {
			return err
		}
	}
	return nil
}

// made prints and keeps a comparison: what was found, or the error that kept it from being
// made. One for want of something is not run, and a notApplicable is none.
func (p *comparisons) made(c verdict.Comparison, r *parity.Report, err error) error {
	if p.env.ctx.Err() != nil {
		return p.env.interrupted(noReport)
	}
	var absent *want.Error
	var pointless notApplicable
	var differs different
	switch c.Report = r; {
	case errors.As(err, &absent):
		c.NotRun, c.Lacks = absent.Reason.Error(), absent.Want.Name
	case errors.As(err, &pointless):
		c.NotApplicable = pointless.Error()
	case errors.As(err, &differs):
		c.Differs = differs.Error()
	case err != nil:
		c.Error = err.Error()
	}
	p.list = append(p.list, c)
	if p.output.JSON {
		p.env.json(verdict.JSONLine{Comparison: &c})
		return nil
	}
	if c.Report != nil && len(c.Profiles) > 0 && !slices.Equal(c.Profiles, p.profiles) {
		p.profiles = c.Profiles
		fmt.Fprintln(p.env.stdout, c.BothProfiles())
	}
	outcome := c.Outcome()
	fmt.Fprintf(p.env.stdout, "%-14s  %s", outcome, c.Title())
	switch outcome {
	case verdict.Equal:
		fmt.Fprintf(p.env.stdout, ": %s\n", c.Extent())
		if text := c.Exercised(); text != "" {
			fmt.Fprintf(p.env.stdout, "%-14s  %s\n", "", text)
		}
	case verdict.Different:
		if c.Report != nil {
			fmt.Fprintf(p.env.stdout, ": %s", c.Extent())
		}
		fmt.Fprintf(p.env.stdout, "\n%s\n", indented(c.Why()))
	default:
		fmt.Fprintf(p.env.stdout, ": %s\n", c.Why())
	}
	return nil
}

// smallest is the case that is left of what differs.
type smallest interface {
	Save(dir string) error
	Replay() string
}

// kept keeps a case, unless shrinking it failed.
func (p *comparisons) kept(small smallest, text string, err error) error {
	if err == nil {
		err = small.Save(p.keep)
	}
	if err != nil {
		return p.env.ended(fmt.Errorf("--keep: %w", err), noReport)
	}
	out := io.Writer(p.env.stdout)
	if p.output.JSON {
		out = p.env.stderr
	}
	fmt.Fprintf(out, "kept: %s; replay: %s\n", text, small.Replay())
	return nil
}

func indented(text string) string {
	return "    " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n    ")
}

// end writes the report and returns the exit status that the comparisons deserve.
func (p *comparisons) end() error {
	s := verdict.Summary{Comparisons: len(p.list)}
	counts := map[string]*int{
		verdict.Equal: &s.Equal, verdict.Different: &s.Different, verdict.Failed: &s.Failed,
		verdict.NotRun: &s.NotRun, verdict.NotApplicable: &s.NotApplicable,
	}
	for i := range p.list {
		*counts[p.list[i].Outcome()]++
	}
	if p.output.JSON {
		if p.env.told = true; p.env.found != nil {
			s.Arithmetic = p.env.found
		}
		p.env.json(verdict.JSONLine{Summary: &s})
	}
	if file := p.output.Report; file != "" {
		if err := report.WriteParity(file,
			report.Parity{Comparisons: p.list,
				Origin: report.Origin{Command: p.env.command()}}); err != nil {
			return err
		}
		if !p.output.JSON {
			fmt.Fprintf(p.env.stdout, "report: %s\n", file)
		}
	}
	switch {
	case s.Failed > 0 || s.NotRun > 0 && !p.output.AllowAbsent:
		return exitStatus(exitUsage)
	case s.Different > 0:
		return exitStatus(exitParity)
	case s.Equal == 0:
		return errors.New("nothing was compared")
	}
	return nil
}
