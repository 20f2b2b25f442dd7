package main

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"lockstep/cmd/internal/report"
	"lockstep/internal/progress"
	"lockstep/parity/mutants"
	"lockstep/parity/verdict"
)

type mutantsCommand struct {
	Only     string   `name:"only" placeholder:"PATTERN" help:"Only the faults whose name matches, such as reference-*."`
	Engines  []string `name:"engines" placeholder:"NAME,..." help:"Only the faults in these engines."`
	Out      string   `name:"out" io:"out" placeholder:"FILE" help:"Keep what became of each: the same command goes on where it was ended, while the sources are the same."`
	Markdown bool     `name:"markdown" help:"Print the table as Markdown."`
	Report   string   `name:"report" io:"out" placeholder:"FILE.html" help:"Write a report, one file that opens offline."`
	JSON     bool     `name:"json" help:"Print JSON."`
}

// Run is the mutants command: it plants faults and prints what became of them.
func (c *mutantsCommand) Run(env *environment) error {
	if _, err := path.Match(c.Only, ""); err != nil {
		return fmt.Errorf("--only %q: %w", c.Only, err)
	}
	root, err := mutants.FindRoot(".")
	if err != nil {
		return err
	}
	faults, err := mutants.All()
	if err != nil {
		return err
	}
	faults = slices.DeleteFunc(faults, func(f mutants.Fault) bool {
		match, _ := path.Match(c.Only, f.Name)
		return c.Only != "" && !match || c.Engines != nil && !slices.Contains(c.Engines, f.Engine)
	})
	if len(faults) == 0 {
		return fmt.Errorf(
			"--only %q, --engines %s: no fault has such a name", c.Only,
			strings.Join(c.Engines, ","),
		)
	}
	bar := progress.New(env.stderr, len(faults), "faults")
	score, err := mutants.Plant(env.ctx, root, faults, c.Out, func(verdict.Mutant) { bar.Add(1) })
	bar.Clear()
	if err := env.ended(err, "with --out the same command goes on where it stopped"); err != nil {
		return err
	}
	if c.JSON {
		env.json(score)
	} else {
		score.WriteTable(env.stdout, c.Markdown)
	}
	if c.Report != "" {
		page := report.Parity{
			Mutants: score.Mutants,
			Failure: score.Err(),
			Origin:  report.Origin{Command: env.command()},
		}
		if err := report.WriteParity(c.Report, page); err != nil {
			return err
		}
	}
	if err := score.Err(); err != nil {
		fmt.Fprintf(env.stderr, "lockstep: %v\n", err)
		return exitStatus(exitParity)
	}
	return nil
}
