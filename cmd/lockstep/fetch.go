package main

import (
	"fmt"

	"lockstep/internal/fetch"
	"lockstep/internal/progress"
)

type fetchCommand struct {
	What     string `arg:"" enum:"model,data" help:"model (4 MB) or data (0.6 GB, and 1.2 GB unpacked)."`
	Revision string `name:"revision" help:"Of the data set: a commit of its repository, or main for its newest. By default the one that was loaded into this folder before, which routes.json there says; else main."`
	Out      string `name:"out" placeholder:"DIR" help:"The folder; the user's cache folder by default, where all commands look."`
}

// Run is the fetch command. An interrupted download goes on where it stopped.
func (c *fetchCommand) Run(env *environment) error {
	bar := progress.New(env.stderr, 0, "MB")
	result, revision, err := fetch.Asset(
		env.ctx, c.What, c.Revision, c.Out,
		func(done, total int64) {
			bar.Of(megabytes(total))
			bar.Set(megabytes(done))
		},
	)
	if revision != "" {
		result += " (revision " + revision + ")"
	}
	bar.Clear()
	if err := env.ended(err, "the same command goes on where it stopped"); err != nil {
		return err
	}
	fmt.Fprintln(env.stdout, result)
	return nil
}

// megabytes are the whole ones of so many bytes; of a number that is not known, which is below 0,
// there is none.
func megabytes(n int64) int { return int(max(n, 0) >> 20) }
