package main

import (
	"context"
	"fmt"
	"math"
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
	Noise   []string `name:"noise" default:"own" placeholder:"own,seeded,expected" help:"What is tried under: the route's own draws, which makes a table that knows them; those of other seeds; or expected values. Several are planned one after the other. Default: ${default}."`
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
func (c *planCommand) planner(noise string) (planner, error) {
	kind, err := lockstep.ParseNoise(noise)
	if err != nil {
		return nil, fmt.Errorf("--%w", err)
	}
	rounds := func(n int) int {
		if c.Rounds != nil {
			return *c.Rounds
		}
		return n
	}
	var p planner = &search.Plan{Rounds: rounds(2), Window: c.Window, Horizon: c.Horizon}
	switch kind {
	case lockstep.SeededNoise:
		p = &search.Aim{Noise: kind, Seeds: c.Seeds, Rounds: rounds(3), Seed: c.Seed}
	case lockstep.ExpectedNoise:
		p = &search.Aim{Noise: kind, Seeds: 1, Rounds: rounds(3)}
	}
	return p, p.Check()
}

// Run is the plan command.
func (c *planCommand) Run(env *environment) error {
	var plans []planner
	for _, noise := range c.Noise {
		p, err := c.planner(noise)
		if err != nil {
			return err
		}
		plans = append(plans, p)
	}
	from, err := c.controller(env, "--from", c.From)
	if err != nil {
		return err
	}
	start := time.Now()
	s, err := c.load(env)
	if err != nil {
		return err
	}
	sim, ok := s.simulator.(lockstep.StepSimulator)
	if !ok {
		return fmt.Errorf("--engine %s: it has no step mode to plan with", s.simulator.Name())
	}
	if err := s.whole(); err != nil {
		return err
	}
	page := report.NewSearch("Plans from "+from.String(), s.routes)
	draws := make([]float64, len(s.routes))
	for i := range draws {
		draws[i] = math.Inf(1)
	}
	if err := s.score(env, page, from, draws); err != nil {
		return err
	}
	var table *lockstep.Table
	for _, p := range plans {
		bar := progress.New(env.stderr, p.Rollouts()*len(s.routes), "rollouts")
		table, err = p.Run(env.ctx, sim, s.routes, from, func(rollouts int) { bar.Set(rollouts) })
		bar.Clear()
		if env.ctx.Err() != nil {
			return env.interrupted("nothing is written")
		}
		if err != nil {
			return err
		}
		if err := s.score(env, page, table, draws); err != nil {
			return err
		}
	}
	unknown := report.Bound{Name: "draws unknown"}
	for i, floor := range page.Bounds[0].Totals {
		unknown.Totals = append(unknown.Totals, floor+draws[i])
	}
	page.Bounds = append(page.Bounds, unknown)
	for k, p := range plans {
		fmt.Fprintf(env.stdout, "%s noise: as much as %d rollouts of each route\n", c.Noise[k], p.Rollouts())
	}
	page.Origin = s.origin(env, &c.simulatorFlags, time.Since(start))
	return c.write(env, page, table)
}

// score rolls a policy out on all routes, and adds what it came to. Draws are the least
// that these have added to a route's floor.
func (s *simulation) score(env *environment, page *report.Search, p lockstep.Policy, draws []float64) error {
	jobs := s.jobs([]lockstep.Policy{p})
	observers := make([]*search.Unforeseen, len(jobs))
	for i := range jobs {
		observers[i] = search.NewUnforeseen(jobs[i].Route)
		jobs[i].Observe = observers[i].Observe
	}
	results := s.simulate(env, jobs, lockstep.Options{Shortcuts: lockstep.CostOnly})
	if env.ctx.Err() != nil {
		return env.interrupted("nothing is written")
	}
	for i, o := range observers {
		draws[i] = min(draws[i], o.Cost)
	}
	return page.Add(p, results)
}

func (c *planCommand) write(env *environment, page *report.Search, table *lockstep.Table) error {
	if err := page.WriteText(env.stdout); err != nil {
		return err
	}
	from, floor, unknown := page.Columns[0], page.Bounds[0], page.Bounds[1]
	way := func(to float64) float64 { return 100 * (from.Mean() - to) / (from.Mean() - floor.Mean()) }
	for k, to := range page.Columns[1:] {
		fmt.Fprintf(env.stdout, "%s (%s noise): %.1f %% of the way from %s to the floor\n", to.Short(), c.Noise[k], way(to.Mean()), from.Policy)
	}
	fmt.Fprintf(env.stdout, "who does not know the draws can expect %.1f %% of it at the most\n", way(unknown.Mean()))
	if err := policyfile.Write(c.Out, table); err != nil {
		return err
	}
	fmt.Fprintf(env.stdout, "table: %s (%s noise)\n", c.Out, strings.ToLower(c.Noise[len(c.Noise)-1]))
	return writeSearch(env, c.Report, page)
}
