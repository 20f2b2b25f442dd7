package main

import (
	"errors"
	"fmt"
	"strings"

	"lockstep"
	"lockstep/parity"
	"lockstep/parity/tinyphysics"
	"lockstep/parity/verdict"
	"lockstep/report"
)

// comparisons are those of one command, printed as they are made.
type comparisons struct {
	env    *environment
	output *outputFlags
	asked  bool // for its engines, by their names
	list   []verdict.Comparison
}

func newComparisons(env *environment, output *outputFlags, asked bool) *comparisons {
	return &comparisons{env: env, output: output, asked: asked}
}

const noReport = "no report is written"

// add prints a comparison and keeps it.
func (p *comparisons) add(c verdict.Comparison) {
	p.list = append(p.list, c)
	if p.output.JSON {
		p.env.json(verdict.Line{Comparison: &c})
		return
	}
	outcome := c.Outcome()
	fmt.Fprintf(p.env.stdout, "%-14s  %s", outcome, c.Title())
	switch outcome {
	case verdict.Equal:
		fmt.Fprintf(p.env.stdout, ": %s\n", c.Extent())
	case verdict.Different:
		if c.Report != nil {
			fmt.Fprintf(p.env.stdout, ": %s", c.Extent())
		}
		fmt.Fprintf(p.env.stdout, "\n%s\n", indented(c.Why()))
	default:
		fmt.Fprintf(p.env.stdout, ": %s\n", c.Why())
	}
}

// unasked makes of an engine that cannot run, and that nobody asked for by its name,
// one that does not apply.
func (p *comparisons) unasked(k verdict.Comparison) verdict.Comparison {
	if !p.asked && !p.output.AllowAbsent {
		k.NotApplicable, k.NotRun = k.NotRun+k.NotApplicable, ""
	}
	return k
}

// leaveOut adds a comparison that is not made, since one of its engines does not take
// part, and reports whether it did.
func (p *comparisons) leaveOut(k verdict.Comparison, first, o opened) bool {
	if k, ok := first.unable(k); ok {
		p.add(k)
		return true
	}
	if k, ok := o.unable(k); ok {
		p.add(p.unasked(k))
		return true
	}
	return false
}

func indented(text string) string {
	return "    " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n    ")
}

// compare makes a comparison of two sources.
func (p *comparisons) compare(c verdict.Comparison, want, got parity.Source, jobs []lockstep.Job, shortcuts lockstep.Shortcuts, options parity.CompareOptions) error {
	r, err := tinyphysics.Compare(p.env.ctx, want, got, jobs, shortcuts, options)
	return p.made(c, r, err)
}

// made adds a comparison that was made, or the error that kept it from being made.
func (p *comparisons) made(c verdict.Comparison, r *parity.Report, err error) error {
	if p.env.ctx.Err() != nil {
		return p.env.interrupted(noReport)
	}
	if c.Report = r; err != nil {
		c.Error = err.Error()
	}
	p.add(c)
	return nil
}

// end writes the report and returns the exit status that the comparisons deserve.
func (p *comparisons) end() error {
	file, allowAbsent := p.output.Report, p.output.AllowAbsent
	s := verdict.Summary{Comparisons: len(p.list)}
	for i := range p.list {
		switch p.list[i].Outcome() {
		case verdict.Equal:
			s.Equal++
		case verdict.Different:
			s.Different++
		case verdict.NotRun:
			s.NotRun++
		case verdict.NotApplicable:
			s.NotApplicable++
		default:
			s.Failed++
		}
	}
	if p.output.JSON {
		p.env.json(verdict.Line{Summary: &s})
	}
	if file != "" {
		origin := report.Origin{Command: append([]string{"lockstep"}, p.env.args...)}
		if err := report.WriteParity(file, report.Parity{Comparisons: p.list, Origin: origin}); err != nil {
			return err
		}
		if !p.output.JSON {
			fmt.Fprintf(p.env.stdout, "report: %s\n", file)
		}
	}
	switch {
	case s.Failed > 0 || s.NotRun > 0 && !allowAbsent:
		return exitStatus(exitUsage)
	case s.Different > 0:
		return exitStatus(exitParity)
	case s.Equal == 0 && !allowAbsent:
		return errors.New("nothing was compared")
	}
	return nil
}
