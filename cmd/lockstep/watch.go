package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"lockstep/cmd/internal/runs"
	"lockstep/internal/plain"
	"lockstep/internal/progress"
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
		done, err := c.look(env, home)
		if err != nil || done || c.Once {
			return err
		}
		select {
		case <-env.ctx.Done():
			return nil
		case <-time.After(every):
		}
	}
}

// look says how far the run is, of whatever family, and whether it is done.
func (c *watchCommand) look(env *environment, home string) (done bool, err error) {
	var text bytes.Buffer
	err = fs.ErrNotExist
	all := newFamilyFlags()
	for _, f := range all.families() {
		if done, err = f.watch(&text, c.Dir); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		var p *runs.Progress
		if p, err = runs.Watch(c.Dir); err == nil {
			p.WriteText(&text)
			done = p.Done()
		}
	}
	if err != nil {
		return false, err
	}
	fmt.Fprint(plain.Raw(env.stdout.w), home)
	env.stdout.Write(text.Bytes())
	return done, nil
}
