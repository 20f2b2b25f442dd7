package main

import (
	"fmt"
	"strings"
	"time"

	"lockstep"
	"lockstep/internal/progress"
	"lockstep/policyfile"
	"lockstep/report"
	"lockstep/search"
)

type planCommand struct {
	simulatorFlags
	pythonFlags
	From    string   `name:"from" io:"in" default:"pid" placeholder:"NAME|FILE" help:"The policy whose actions the plan begins with. Default: ${default}."`
	Noise   []string `name:"noise" default:"own" placeholder:"own,seeded,expected" help:"What candidates are rolled on with: the route's own draws, which makes a table that knows them; those of other seeds; or expected values. Several are planned one after the other. Default: ${default}."`
	Rounds  int      `name:"rounds" default:"2" placeholder:"N" help:"For each window. Default: ${default}."`
	Window  int      `name:"window" default:"5" placeholder:"STEPS" help:"Steps after which is planned again. Default: ${default}."`
	Horizon int      `name:"horizon" default:"24" placeholder:"STEPS" help:"Steps that a candidate is rolled on. Default: ${default}."`
	Seeds   int      `name:"seeds" default:"4" placeholder:"N" help:"With seeded noise each candidate is rolled under so many. Default: ${default}."`
	Seed    uint64   `name:"seed" default:"1" placeholder:"N" help:"Of what is drawn. Default: ${default}."`
	Out     string   `name:"out" io:"out" default:"plan.json" placeholder:"FILE" help:"The table of actions, for --controller; of several noises, that of the last. Default: ${default}."`
	Report  string   `name:"report" io:"out" placeholder:"FILE" help:"A report."`
}

// Run is the plan command.
func (c *planCommand) Run(env *environment) error {
	var plans []*search.Plan
	for _, name := range c.Noise {
		kind, err := lockstep.ParseNoise(name)
		if err != nil {
			return fmt.Errorf("--%w", err)
		}
		p := &search.Plan{Noise: kind, Seeds: 1, Rounds: c.Rounds, Window: c.Window, Horizon: c.Horizon, Seed: c.Seed}
		if kind == lockstep.SeededNoise {
			p.Seeds = c.Seeds
		}
		if err := p.Check(); err != nil {
			return err
		}
		plans = append(plans, p)
	}
	from, done, err := c.controller(env, "--from", c.From)
	if err != nil {
		return err
	}
	defer done()
	start := time.Now()
	s, err := c.load(env)
	if err != nil {
		return err
	}
	defer s.close()
	sim, ok := s.simulator.(lockstep.StepSimulator)
	if !ok {
		return fmt.Errorf("--engine %s: it has no step mode to plan with", s.simulator.Name())
	}
	if err := s.whole(); err != nil {
		return err
	}
	page := report.NewSearch("Plans from "+from.String(), s.routes)
	if err := s.score(env, page, report.ClassController, from); err != nil {
		return err
	}
	var table *lockstep.Table
	for _, p := range plans {
		bar := progress.New(env.stderr, lockstep.TableSteps, "steps")
		table, err = p.Run(env.ctx, sim, s.routes, from, func(step int) { bar.Set(step) })
		bar.Clear()
		if env.ctx.Err() != nil {
			return env.interrupted("nothing is written")
		}
		if err != nil {
			return err
		}
		class := report.ClassTable
		if p.Noise == lockstep.OwnNoise {
			class = report.ClassOracle
		}
		if err := s.score(env, page, class, table); err != nil {
			return err
		}
	}
	for k, p := range plans {
		fmt.Fprintf(env.stdout, "%s noise: as much as %d rollouts of each route\n", c.Noise[k], p.Rollouts())
	}
	page.Origin = s.origin(env, &c.simulatorFlags, time.Since(start))
	return c.write(env, page, table)
}

// score rolls a policy out on all routes, and adds what it came to.
func (s *simulation) score(env *environment, page *report.Search, class report.Class, p lockstep.Policy) error {
	results, err := s.sweep(env, nil, 0, []lockstep.Policy{p})
	if err != nil {
		return err
	}
	return page.Add(class, p, results)
}

func (c *planCommand) write(env *environment, page *report.Search, table *lockstep.Table) error {
	if err := page.WriteText(env.stdout); err != nil {
		return err
	}
	from := page.Columns[0]
	for k, to := range page.Columns[1:] {
		way := (from.Mean() - to.Mean()) / (from.Mean() - page.MeanFloor())
		fmt.Fprintf(env.stdout, "%s (%s noise): %.1f %% of the way from %s to the floor\n", to.Short(), c.Noise[k], 100*way, from.Policy)
	}
	if err := policyfile.Write(c.Out, table); err != nil {
		return err
	}
	fmt.Fprintf(env.stdout, "table: %s (%s noise)\n", c.Out, strings.ToLower(c.Noise[len(c.Noise)-1]))
	return writeSearch(env, c.Report, page)
}
