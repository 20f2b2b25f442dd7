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
	Rounds  *int     `name:"rounds" placeholder:"N" help:"For each window. Default: 2 with the route's own noise, else 1."`
	Window  *int     `name:"window" placeholder:"STEPS" help:"Steps after which is planned again. Default: 5 with the route's own noise, else 1, since only a plan made anew answers the noise."`
	Horizon *int     `name:"horizon" placeholder:"STEPS" help:"Steps that a candidate is rolled on. Default: 24 with the route's own noise, else 16."`
	Seeds   *int     `name:"seeds" placeholder:"N" help:"With seeded noise each candidate is rolled under so many. Default: 8."`
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
		p := search.NewPlan(kind, c.Seed)
		asked := map[*int]*int{&p.Rounds: c.Rounds, &p.Window: c.Window, &p.Horizon: c.Horizon}
		if kind == lockstep.SeededNoise {
			asked[&p.Seeds] = c.Seeds
		}
		for of, n := range asked {
			if n != nil {
				*of = *n
			}
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
	if err := s.score(env, page, from); err != nil {
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
		if err := s.score(env, page, table); err != nil {
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
func (s *simulation) score(env *environment, page *report.Search, p lockstep.Policy) error {
	results, err := s.sweep(env, nil, 0, []lockstep.Policy{p})
	if err != nil {
		return err
	}
	return page.Add(p, results)
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
