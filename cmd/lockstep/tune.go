package main

import (
	"fmt"
	"time"

	"lockstep"
	"lockstep/cmd/internal/report"
	"lockstep/cmd/internal/runs"
	"lockstep/internal/fileio"
	"lockstep/internal/search"
	"lockstep/policyfile"
)

type tuneCommand struct {
	simulatorFlags
	Kind        string        `name:"kind" default:"pidff" enum:"${tuned}" help:"The kind of policy whose gains are tuned: one of ${tuned}. Default: ${default}."`
	Population  int           `name:"population" default:"24" placeholder:"N" help:"Sets of gains that are tried together. Default: ${default}."`
	Generations int           `name:"generations" default:"60" placeholder:"N" help:"The most generations. Default: ${default}."`
	Budget      time.Duration `name:"budget" default:"10m" placeholder:"TIME" help:"No generation begins that would not end within it, as long as the last one took. Default: ${default}."`
	Seed        uint64        `name:"seed" default:"1" placeholder:"N" help:"Of what is drawn. Default: ${default}."`
	Out         string        `name:"out" placeholder:"DIR" help:"Keep the search in a folder: the same command goes on where it was ended. lockstep watch DIR shows its curve."`
	Gains       string        `name:"gains" io:"out" default:"gains.json" placeholder:"FILE" help:"The best gains, for --controller. Default: ${default}."`
	Python      string        `name:"python" io:"out" placeholder:"FILE.py" help:"The same as a controller of the challenge."`
	Report      string        `name:"report" io:"out" placeholder:"FILE" help:"A report with the curve of the search."`
}

// Run is the tune command.
func (c *tuneCommand) Run(env *environment) error {
	kind, _ := lockstep.KindOf(c.Kind)
	if c.Generations < 1 {
		return fmt.Errorf("--generations %d: want 1 or more", c.Generations)
	}
	gains, err := search.NewGains(kind, c.Population, c.Seed)
	if err != nil {
		return err
	}
	start := time.Now()
	s, err := c.loadWhole(env)
	if err != nil {
		return err
	}
	plan := &runs.Search{
		Kind:        c.Kind,
		Seed:        c.Seed,
		Population:  c.Population,
		Generations: c.Generations,
	}
	journal, err := s.journal(env, c.Out, runs.Plan{Search: plan}, lockstep.DefaultPID())
	if err != nil {
		return err
	}
	page := report.NewSearch("Gains of "+c.Kind, s.routes)
	if err := c.search(env, s, gains, journal, page, start); err != nil {
		return err
	}
	page.Origin = s.origin(env, &c.simulatorFlags, time.Since(start))
	return c.write(env, gains.Best, page)
}

// search runs generations. Each is one sweep: its candidates times the routes.
func (c *tuneCommand) search(
	env *environment, s *simulation, gains *search.Gains, journal *runs.Journal,
	page *report.SearchReport, start time.Time,
) error {
	yardstick, err := s.sweep(env, journal, 0, []lockstep.Policy{lockstep.DefaultPID()})
	if err != nil {
		return err
	}
	if err := page.Add(lockstep.DefaultPID(), yardstick); err != nil {
		return err
	}
	curve := &runs.Curve{Names: []string{"generation", "best", "mean", "median"}}
	var last time.Duration
	for n := 1; n <= c.Generations && time.Since(start)+last <= c.Budget; n++ {
		began := time.Now()
		first := (1 + (n-1)*c.Population) * len(s.routes)
		err := gains.Next(func(candidates []lockstep.Policy) ([]lockstep.Result, error) {
			return s.sweep(env, journal, first, candidates)
		})
		if err != nil {
			return err
		}
		h := gains.History[n-1]
		curve.Rows = append(curve.Rows, []float64{float64(n), h.Best, h.Mean, h.Median})
		if err := journal.WriteCurve(curve); err != nil {
			return err
		}
		fmt.Fprintf(
			env.stdout, "generation %2d  best %8.3f  mean %8.3f  median %8.3f\n", n, h.Best, h.Mean,
			h.Median,
		)
		last = time.Since(began)
	}
	if len(gains.History) == 0 {
		return fmt.Errorf("--budget %s: not even one generation", c.Budget)
	}
	page.Curve = &report.Curves{
		Label:  "geometric mean of the routes' total costs",
		X:      curve.Names[0],
		Names:  curve.Names[1:],
		Values: curve.Columns()[1:],
	}
	return page.Add(gains.Best, gains.Results)
}

// sweep rolls policies out on all routes: the rollouts of a plan from first on.
func (s *simulation) sweep(
	env *environment, journal *runs.Journal, first int, policies []lockstep.Policy,
) ([]lockstep.Result, error) {
	work := &runs.Work{
		Jobs:    s.jobs(policies),
		First:   first,
		Options: lockstep.Options{Shortcuts: lockstep.CostOnly},
		Journal: journal,
	}
	results := make([]lockstep.Result, len(work.Jobs))
	err := s.stream(env, work, func(i int, r lockstep.Result) { results[i-first] = r })
	return results, env.ended(err, goesOn)
}

func (c *tuneCommand) write(
	env *environment, best lockstep.Native, page *report.SearchReport,
) error {
	page.WriteText(env.stdout)
	if err := policyfile.Write(c.Gains, best); err != nil {
		return err
	}
	fmt.Fprintf(env.stdout, "gains: %s (%s)\n", c.Gains, best)
	if c.Python != "" {
		source, err := policyfile.Export(best)
		if err == nil {
			err = fileio.WriteFile(c.Python, source)
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(env.stdout, "controller: %s\n", c.Python)
	}
	return writeSearch(env, c.Report, page)
}

// writeSearch writes the report on a search, if one is asked for.
func writeSearch(env *environment, path string, page *report.SearchReport) error {
	if path == "" {
		return nil
	}
	if err := report.WriteSearch(path, page); err != nil {
		return err
	}
	fmt.Fprintf(env.stdout, "report: %s\n", path)
	return nil
}
