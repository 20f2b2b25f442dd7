package main

import (
	"fmt"
	"time"

	"lockstep/internal/plain"
	"lockstep/internal/progress"
	"lockstep/runs"
)

type watchCommand struct {
	Dir  string `arg:"" help:"The folder of a run: --out of the command that is running."`
	Once bool   `name:"once" help:"Say how far it is, and end."`
}

// Run is the watch command. It reads the folder's files alone.
func (c *watchCommand) Run(env *environment) error {
	every, home := progress.Every, ""
	if progress.Terminal(env.stdout.w) && !c.Once {
		every, home = time.Second, "\x1b[H\x1b[J" // from the top of an empty screen
	}
	for {
		p, err := runs.Watch(c.Dir)
		if err != nil {
			return err
		}
		fmt.Fprint(plain.Raw(env.stdout.w), home)
		p.WriteText(env.stdout)
		if c.Once || p.Done() {
			return nil
		}
		select {
		case <-env.ctx.Done():
			return nil
		case <-time.After(every):
		}
	}
}
