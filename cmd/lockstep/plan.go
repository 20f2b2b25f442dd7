package main

import (
	"context"
	"fmt"
	"math"
	"slices"
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
	Noise   []string `name:"noise" default:"own" enum:"own,seeded,expected" placeholder:"own,seeded,expected" help:"What is tried under: the route's own draws, which makes a table that knows them; those of other seeds; or expected values. Several are planned one after the other. Default: ${default}."`
	Rounds  *int     `name:"rounds" placeholder:"N" help:"Of a window with the route's own noise (default: 2), else of the whole route (3)."`
	Window  int      `name:"window" default:"5" placeholder:"STEPS" help:"With the route's own noise: steps after which is planned again. Default: ${default}."`
	Horizon int      `name:"horizon" default:"24" placeholder:"STEPS" help:"With the route's own noise: steps that a candidate is rolled on. Default: ${default}."`
	Seeds   int      `name:"seeds" default:"24" placeholder:"N" help:"With seeded noise: how many a round has. Default: ${default}."`
	Seed    uint64   `name:"seed" default:"1" placeholder:"N" help:"Of what is drawn. Default: ${default}."`
	Out     string   `name:"out" io:"out" default:"plan.json" placeholder:"FILE" help:"The table of actions, for --controller; of several noises, that of the last. Default: ${default}."`
	Report  string   `name:"report" io:"out" placeholder:"FILE" help:"A report."`
}

// planner is a search for a table of actions: search.Plan or search.Aim.
type planner interface {
	Check() error
	Rollouts() int
	Run(ctx context.Context, sim lockstep.StepSimulator, routes []*lockstep.Route, from lockstep.Policy, progress func(rollouts int)) (*lockstep.Table, error)
}

// planner is the one for a noise.
func (c *planCommand) planner(noise string) planner {
	kind, _ := lockstep.ParseNoise(noise) // which has such a name
	rounds, seeds := 3, 1
	switch kind {
	case lockstep.OwnNoise:
		rounds = 2
	case lockstep.SeededNoise:
		seeds = c.Seeds
	}
	if c.Rounds != nil {
		rounds = *c.Rounds
	}
	if kind == lockstep.OwnNoise {
		return &search.Plan{Rounds: rounds, Window: c.Window, Horizon: c.Horizon}
	}
	return &search.Aim{Noise: kind, Seeds: seeds, Rounds: rounds, Seed: c.Seed}
}

// Run is the plan command.
func (c *planCommand) Run(env *environment) error {
	var plans []planner
	for _, noise := range c.Noise {
		p := c.planner(noise)
		if err := p.Check(); err != nil {
			return err
		}
		plans = append(plans, p)
	}
	from, err := c.controller(env, "--from", c.From)
	if err != nil {
		return err
	}
	start := time.Now()
	s, err := c.loadWhole(env)
	if err != nil {
		return err
	}
	sim, ok := s.simulator.(lockstep.StepSimulator)
	if !ok {
		return fmt.Errorf("--engine %s: it has no step mode to plan with", s.simulator.Name())
	}
	page := report.NewSearch("Plans from "+from.String(), s.routes)
	page.Bounds = append(page.Bounds, report.Bound{Name: "draws unknown", Totals: slices.Repeat([]float64{math.Inf(1)}, len(s.routes))})
	if err := s.score(env, page, from); err != nil {
		return err
	}
	var table *lockstep.Table
	for k, p := range plans {
		bar := progress.New(env.stderr, p.Rollouts()*len(s.routes), "rollouts")
		table, err = p.Run(env.ctx, sim, s.routes, from, bar.Set)
		bar.Clear()
		if err := env.ended(err, "nothing is written"); err != nil {
			return err
		}
		fmt.Fprintf(env.stdout, "%s noise: as much as %d rollouts of each route\n", c.Noise[k], p.Rollouts())
		if err := s.score(env, page, table); err != nil {
			return err
		}
	}
	page.Origin = s.origin(env, &c.simulatorFlags, time.Since(start))
	return c.write(env, page, table)
}

// score rolls a policy out on all routes, and adds what it came to. What the draws have
// added to a route's floor, at the least, is the route's second bound.
func (s *simulation) score(env *environment, page *report.Search, p lockstep.Policy) error {
	jobs := s.jobs([]lockstep.Policy{p})
	observers := make([]*search.Unforeseen, len(jobs))
	for i := range jobs {
		observers[i] = search.NewUnforeseen(jobs[i].Route)
		jobs[i].Observe = observers[i].Observe
	}
	results := s.simulate(env, jobs, lockstep.Options{Shortcuts: lockstep.CostOnly})
	floor, unknown := page.Bounds[0].Totals, page.Bounds[1].Totals
	for i, o := range observers {
		unknown[i] = min(unknown[i], floor[i]+o.Cost)
	}
	return env.ended(page.Add(p, results), "nothing is written")
}

func (c *planCommand) write(env *environment, page *report.Search, table *lockstep.Table) error {
	page.WriteText(env.stdout)
	from, floor, unknown := page.Columns[0], page.Bounds[0], page.Bounds[1]
	way := func(to float64) float64 { return 100 * (from.Mean() - to) / (from.Mean() - floor.Mean()) }
	for k, to := range page.Columns[1:] {
		fmt.Fprintf(env.stdout, "%s (%s noise): %.1f %% of the way from %s to the floor\n", to.Short(), c.Noise[k], way(to.Mean()), from.Policy)
	}
	fmt.Fprintf(env.stdout, "who does not know the draws can expect %.1f %% of it at the most\n", way(unknown.Mean()))
	if err := policyfile.Write(c.Out, table); err != nil {
		return err
	}
	fmt.Fprintf(env.stdout, "table: %s (%s noise)\n", c.Out, c.Noise[len(c.Noise)-1])
	return writeSearch(env, c.Report, page)
}
