package main

import (
	"fmt"

	"lockstep/internal/generate"
	"lockstep/internal/progress"
)

type generateCommand struct {
	NumRoutes int    `name:"num_routes" default:"100" help:"How many routes."`
	Seed      uint64 `name:"seed" default:"1" help:"Equal seeds give equal bytes; route k of a seed does not depend on how many there are."`
	Out       string `name:"out" required:"" placeholder:"DIR" help:"The folder that they are written to."`
}

// Run is the generate command.
func (c *generateCommand) Run(env *environment) error {
	bar := progress.New(env.stderr, c.NumRoutes, "routes")
	err := generate.Write(
		env.ctx, c.Out, generate.Options{NumRoutes: c.NumRoutes, Seed: c.Seed, Progress: bar.Set},
	)
	bar.Clear()
	if err := env.ended(err, "the same command goes on where it stopped"); err != nil {
		return err
	}
	fmt.Fprintf(env.stdout, "%d routes of seed %d in %s\n", c.NumRoutes, c.Seed, c.Out)
	return nil
}
