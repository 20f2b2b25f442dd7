package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"golang.org/x/term"

	"lockstep"
	"lockstep/reference"
	"lockstep/runs"
)

type watchCommand struct {
	Dir  string `arg:"" help:"The folder of a run: --out of the command that is running."`
	Once bool   `name:"once" help:"Say how far it is, and end."`
}

// Run is the watch command. It reads the folder's files alone.
func (c *watchCommand) Run(env *environment) error {
	f, ok := env.stdout.w.(*os.File)
	terminal := ok && term.IsTerminal(int(f.Fd()))
	every := progressEvery
	if terminal {
		every = time.Second
	}
	for {
		p, err := runs.Watch(c.Dir)
		if err != nil {
			return err
		}
		if terminal && !c.Once {
			fmt.Fprint(env.stdout, "\x1b[H\x1b[J") // from the top of an empty screen
		}
		if err := writeProgress(env.stdout, p); err != nil {
			return err
		}
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

// writeProgress says how far a run is, and what it came to so far.
func writeProgress(w io.Writer, p *runs.Progress) error {
	if p.Plan != nil {
		if err := writePlan(w, p); err != nil {
			return err
		}
	}
	if p.Curve != nil {
		return p.Curve.WriteText(w)
	}
	return nil
}

// writePlan says how far the rollouts are.
func writePlan(w io.Writer, p *runs.Progress) error {
	text := describeProgress(p.Finished, p.Plan.Rollouts(), "rollouts", p.Rate)
	if p.Failed > 0 {
		text += fmt.Sprintf(", %d failed", p.Failed)
	}
	if !p.Last.IsZero() {
		text += ", last at " + p.Last.Format(time.TimeOnly)
	}
	if _, err := fmt.Fprintf(w, "%s, %v\n%s\n", p.Plan.Engine, p.Plan.Profile, text); err != nil {
		return err
	}
	costs := make([][]lockstep.Costs, len(p.Plan.Controllers))
	for k := range costs {
		for i := k * len(p.Plan.Routes); i < (k+1)*len(p.Plan.Routes); i++ {
			r, ok := p.Results[i]
			if !ok || r.Err != "" {
				continue
			}
			costs[k] = append(costs[k], r.Costs)
		}
	}
	order := make([]int, 0, len(costs)) // of the controllers: the best first
	for k := range costs {
		if len(costs[k]) > 0 {
			order = append(order, k)
		}
	}
	mean := func(k int) float64 { return reference.MeanCosts(costs[k]).Total }
	slices.SortStableFunc(order, func(a, b int) int { return compareFloats(mean(a), mean(b)) })
	for n, k := range order {
		if n == maxWatched {
			_, err := fmt.Fprintf(w, "and %d others\n", len(order)-n)
			return err
		}
		if _, err := fmt.Fprintf(w, "%-40s %d of %d routes, average total_cost so far: %s\n", p.Plan.Controllers[k].Name, len(costs[k]), len(p.Plan.Routes), python64(mean(k))); err != nil {
			return err
		}
	}
	return nil
}

// maxWatched is how many controllers are shown.
const maxWatched = 10

// compareFloats orders numbers, and NaN behind them.
func compareFloats(a, b float64) int {
	switch {
	case a < b || a == a && b != b:
		return -1
	case b < a || b == b && a != a:
		return 1
	}
	return 0
}
