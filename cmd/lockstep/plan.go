package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"lockstep"
	"lockstep/cmd/internal/report"
	"lockstep/cmd/internal/runs"
	"lockstep/internal/progress"
	"lockstep/internal/search"
	"lockstep/policyfile"
)

type planCommand struct {
	simulatorFlags
	pythonFlags
	From    string   `name:"from" io:"in" default:"pid" placeholder:"NAME|FILE" help:"The policy whose actions the plan begins with. Default: ${default}."`
	Noise   []string `name:"noise" default:"route" enum:"route,seeded,expected,own" placeholder:"route,seeded,expected" help:"What is tried under: the route's draws, which makes a table that knows them; those of other seeds; or expected values. Several are planned one after the other. Default: ${default}."`
	Rounds  *int     `name:"rounds" placeholder:"N" help:"Of a window with the route's noise (default: 2), else of the whole route (3)."`
	Window  *int     `name:"window" placeholder:"STEPS" help:"With the route's noise: steps after which is planned again. Default: 5."`
	Horizon *int     `name:"horizon" placeholder:"STEPS" help:"With the route's noise: steps that a candidate is rolled on. Default: 24."`
	Seeds   *int     `name:"seeds" placeholder:"N" help:"With seeded noise: how many a round has. Default: 24."`
	Seed    *uint64  `name:"seed" placeholder:"N" help:"With seeded noise: of what is drawn. Default: 1."`
	Out     string   `name:"out" placeholder:"DIR" help:"Keep the search in a folder: the same command goes on where it was ended. lockstep watch DIR shows how far it is."`
	Table   string   `name:"table" io:"out" default:"plan.json" placeholder:"FILE" help:"The table of actions, for --controller; of several noises, that of the last. Default: ${default}."`
	Report  string   `name:"report" io:"out" placeholder:"FILE" help:"A report."`
}

// Run is the plan command.
func (c *planCommand) Run(env *environment) error {
	var plans []search.Planner
	var noises []lockstep.NoiseKind
	planning := search.PlannerOptions{
		Rounds:  c.Rounds,
		Window:  c.Window,
		Horizon: c.Horizon,
		Seeds:   c.Seeds,
		Seed:    c.Seed,
	}
	for _, noise := range c.Noise {
		kind, _ := lockstep.ParseNoise(noise) // which has such a name
		p := planning.Planner(kind)
		if err := p.Check(); err != nil {
			return err
		}
		plans, noises = append(plans, p), append(noises, kind)
	}
	if name, with := planning.Unheeded(noises...); name != "" {
		return fmt.Errorf("--%s goes with --noise %s, not with %s", name, with,
			strings.Join(c.Noise, ","))
	}
	from, err := c.controller(env, "--from", c.From)
	if err == nil {
		err = env.heeded(from)
	}
	if err != nil {
		return err
	}
	start := time.Now()
	s, err := c.loadWhole(env)
	if err != nil {
		return err
	}
	kept := c.kept(planning.WithDefaults(), plans, s.routes)
	journal, err := s.journal(env, c.Out, runs.Plan{Planning: kept}, from)
	if err != nil {
		return err
	}
	page := report.NewSearch("Plans from "+from.String(), s.routes)
	page.Bounds = append(
		page.Bounds,
		report.Bound{
			Name:   "draws unknown",
			Totals: slices.Repeat([]float64{math.Inf(1)}, len(s.routes)),
		},
	)
	if err := s.score(env, page, from); err != nil {
		return err
	}
	var table *lockstep.Table
	first := 0 // of the steps of the next search
	for k, p := range plans {
		if journal != nil {
			p.KeptBy(keepChoices(journal, first, len(s.routes)))
		}
		first += p.Steps(s.routes)
		bar := progress.New(env.stderr, p.Rollouts()*len(s.routes), "rollouts")
		table, err = p.Run(env.ctx, s.simulator, s.routes, from, bar.Set)
		bar.Clear()
		if err := env.ended(err, goesOn); err != nil {
			return err
		}
		fmt.Fprintf(
			env.stdout, "%s noise: as much as %d rollouts of each route\n", c.Noise[k],
			p.Rollouts(),
		)
		if err := s.score(env, page, table); err != nil {
			return err
		}
	}
	page.Origin = s.origin(env, &c.simulatorFlags, time.Since(start))
	return c.write(env, page, table)
}

// kept are the searches, for the folder that keeps them.
func (c *planCommand) kept(
	o search.PlannerOptions, plans []search.Planner, routes []*lockstep.Route,
) *runs.Planning {
	kept := &runs.Planning{
		Noise:   c.Noise,
		Window:  *o.Window,
		Horizon: *o.Horizon,
		Seeds:   *o.Seeds,
		Seed:    *o.Seed,
	}
	if c.Rounds != nil {
		kept.Rounds = *c.Rounds
	}
	for _, p := range plans {
		kept.Steps += p.Steps(routes)
	}
	return kept
}

// keepChoices keeps what the steps of a search choose, of which the first has a number among
// those of all searches. Each has one record for each of the routes.
func keepChoices(journal *runs.Journal, begin, routes int) search.Keep {
	return func(step, first, some int, choose func() ([][]float64, error)) ([][]float64, error) {
		return journal.Chosen((begin+step)*routes+first, some, choose)
	}
}

// score rolls a policy out on all routes, and adds what it came to. What the draws have
// added to a route's floor, at the least, is the route's second bound.
func (s *simulation) score(env *environment, page *report.SearchReport, p lockstep.Policy) error {
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
	return env.ended(page.Add(p, results), goesOn)
}

func (c *planCommand) write(
	env *environment, page *report.SearchReport, table *lockstep.Table,
) error {
	page.WriteText(env.stdout)
	from, floor, unknown := page.Columns[0], page.Bounds[0], page.Bounds[1]
	way := func(to float64) float64 {
		return 100 * (from.Mean() - to) / (from.Mean() - floor.Mean())
	}
	for k, to := range page.Columns[1:] {
		fmt.Fprintf(
			env.stdout, "%s (%s noise): %.1f %% of the way from %s to the floor\n", to.Short(),
			c.Noise[k], way(to.Mean()), from.Policy,
		)
	}
	fmt.Fprintf(
		env.stdout, "who does not know the draws can expect %.1f %% of it at the most\n",
		way(unknown.Mean()),
	)
	if err := policyfile.Write(c.Table, table); err != nil {
		return err
	}
	fmt.Fprintf(env.stdout, "table: %s (%s noise)\n", c.Table, c.Noise[len(c.Noise)-1])
	return writeSearch(env, c.Report, page)
}
