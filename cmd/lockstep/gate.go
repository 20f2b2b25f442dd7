package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"lockstep/cmd/internal/gate"
	"lockstep/cmd/internal/report"
	"lockstep/parity/mutants"
	"lockstep/parity/verdict"
)

type gateCommand struct {
	Base            string        `name:"base" placeholder:"REV" help:"Revision that the change is to be merged into: what differs from it decides what runs. Default: none, so that everything runs."`
	Out             string        `name:"out" default:"build/gate" placeholder:"DIR" help:"Folder for gate.json, junit.xml and report.html. Default: build/gate."`
	All             bool          `name:"all" help:"Plant every fault, not a sample, whatever has changed."`
	Require         []string      `name:"require" enum:"${wants}" placeholder:"WANT,..." help:"Fail where these are missing, as LOCKSTEP_REQUIRE_ASSETS=1 and so on do: ${enum}."`
	RequireHardware bool          `name:"require-hardware" help:"Fail without evidence that the kernels, as they are, ran on a GPU."`
	Tested          []string      `name:"tested" io:"in" placeholder:"LOG,..." help:"Logs of go test -json of this very revision: these tests do not run again."`
	KeepGoing       bool          `name:"keep-going" help:"Run the checks that are left when one has failed."`
	Packages        bool          `name:"packages" help:"Only print the packages whose tests the change may concern, and run nothing."`
	Limit           time.Duration `name:"limit" default:"20m" help:"How long one check may take. Default: 20m."`
}

// required are the names of what must be here, by the flags and by the environment, each once.
func (c *gateCommand) required() []string {
	return slices.Compact(slices.Sorted(slices.Values(append(gate.Required(), c.Require...))))
}

// gateProgram takes the place of the lockstep that the gate builds, in tests.
var gateProgram []string

// Run is the gate command.
func (c *gateCommand) Run(env *environment) error {
	root, err := mutants.FindRoot(".")
	if err != nil {
		return err
	}
	if c.Limit <= 0 {
		return fmt.Errorf("--limit %v: want more than 0", c.Limit)
	}
	if c.Packages {
		for _, folder := range gate.Changed(env.ctx, root, c.Base).Packages {
			fmt.Fprintln(env.stdout, "./"+strings.TrimPrefix(folder, "./"))
		}
		return nil
	}
	if err := verdict.Clear(c.Out); err != nil {
		return err
	}
	result, err := gate.Run(env.ctx, gate.Config{
		Root: root, Base: c.Base, All: c.All, Require: c.required(),
		RequireHardware: c.RequireHardware, Tested: c.Tested, KeepGoing: c.KeepGoing,
		Limit: c.Limit, Program: gateProgram, Out: env.stdout,
	})
	if err := env.ended(err, "there is no verdict, and nothing is written"); err != nil {
		return err
	}
	for _, s := range result.Skips(verdict.NotRun) {
		fmt.Fprintf(
			env.stdout, "not run: %s, %d cases: %s\n", s.Check, s.Count,
			strings.ReplaceAll(s.Message, "\n", " "),
		)
	}
	if err := result.Write(c.Out); err != nil {
		return err
	}
	page := filepath.Join(c.Out, verdict.HTMLName)
	if err := report.WriteGate(page, result, report.Origin{Command: env.command()}); err != nil {
		return err
	}
	fmt.Fprintf(env.stdout, "\n%s, in %.0f s\nreport: %s\n", result.Verdict, result.Seconds, page)
	if !result.Passed {
		return exitStatus(exitParity)
	}
	return nil
}
