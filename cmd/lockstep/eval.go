package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"time"

	"lockstep"
	"lockstep/cmd/internal/report"
	"lockstep/cmd/internal/runs"
	"lockstep/internal/search"
)

type evalCommand struct {
	simulatorFlags
	pythonFlags
	Test     string `name:"test_controller" io:"in" default:"pid" placeholder:"NAME|FILE.py" help:"The controller to be judged. Default: pid."`
	Baseline string `name:"baseline_controller" io:"in" default:"pid" placeholder:"NAME|FILE.py" help:"The controller that it is compared with. Default: pid."`
	Report   string `name:"report" io:"out" default:"report.html" placeholder:"FILE.html" help:"The report, one file that opens offline. Default: report.html."`
	CSV      string `name:"csv" io:"out" placeholder:"FILE" help:"Write all costs as CSV."`
	Out      string `name:"out" placeholder:"DIR" help:"Keep the run in a folder: the same command goes on where it was ended."`
	Parquet  string `name:"parquet" io:"out" placeholder:"FILE" help:"Write all costs as Parquet."`
}

// sampleRoutes is how many routes are drawn, as in the challenge's report.
const sampleRoutes = 5

// Run is the eval command.
func (c *evalCommand) Run(env *environment) error {
	var policies []lockstep.Policy
	for _, k := range []struct{ flag, name string }{
		{"--test_controller", c.Test}, {"--baseline_controller", c.Baseline},
	} {
		policy, err := c.controller(env, k.flag, k.name)
		if err != nil {
			return err
		}
		policies = append(policies, policy)
	}
	if err := env.heeded(policies...); err != nil {
		return err
	}
	s, err := c.load(env)
	if err != nil {
		return err
	}
	journal, err := s.journal(env, c.Out, runs.Plan{}, policies...)
	if err != nil {
		return err
	}
	start := time.Now()
	runs, err := s.runs(env, policies, sampleRoutes, journal)
	if err != nil {
		return err
	}
	eval := report.Eval{
		Test:     runs[0],
		Baseline: runs[1],
		Origin:   s.origin(env, &c.simulatorFlags, time.Since(start)),
	}
	if err := report.WriteEval(c.Report, eval); err != nil {
		return err
	}
	if c.CSV != "" {
		if err := report.WriteCSV(c.CSV, eval.Costs()); err != nil {
			return err
		}
	}
	if c.Parquet != "" {
		if err := report.WriteParquet(c.Parquet, eval.Costs()); err != nil {
			return err
		}
	}
	eval.WriteText(env.stdout)
	fmt.Fprintf(env.stdout, "report: %s\n", c.Report)
	_, failed := runs[0].Costs()
	_, more := runs[1].Costs()
	return env.failed(failed+more, 2*len(runs[0].Routes))
}

// runs rolls all routes out under each policy. The first n routes come with
// their trajectories; routes that could not be loaded come last. With a journal, what
// it has is not computed again, but for trajectories, which it does not keep.
func (s *simulation) runs(
	env *environment, policies []lockstep.Policy, n int, journal *runs.Journal,
) ([]report.Run, error) {
	if len(s.routes) == 0 {
		return nil, errors.New("no route could be loaded")
	}
	jobs := s.jobs(policies)
	drawn := min(n, len(s.routes))
	// Trajectories run to the end of their routes, which costs do not need.
	var full []lockstep.Job
	var numbers []int
	for i, job := range jobs {
		if i%len(s.routes) < drawn {
			full, numbers = append(full, job), append(numbers, i)
		}
	}
	known := map[int]lockstep.Result{}
	for k, result := range s.simulate(env, full, lockstep.Options{
		Shortcuts:  lockstep.FullTrajectory,
		Trajectory: true,
	}) {
		known[numbers[k]] = result
	}
	if env.ctx.Err() != nil {
		return nil, env.interrupted(noReport)
	}
	results := make([]lockstep.Result, len(jobs))
	work := &runs.Work{
		Jobs:    jobs,
		Options: lockstep.Options{Shortcuts: lockstep.CostOnly},
		Known:   known,
		Journal: journal,
	}
	if err := s.stream(env, work, func(i int, r lockstep.Result) { results[i] = r }); err != nil ||
		env.ctx.Err() != nil {
		return nil, env.ended(err, noReport)
	}
	var runs []report.Run
	for k, policy := range policies {
		run := report.Run{
			Controller: policy.String(),
			Class:      report.ClassOf(policy),
			Engine:     s.simulator.Name(),
			Profile:    s.simulator.Profile(),
		}
		for i, route := range s.routes {
			r := report.RouteResult{
				Name:   route.Name,
				Result: results[k*len(s.routes)+i],
				Floor:  search.Floor(route),
			}
			if i < drawn {
				r.Route = route
			}
			if r.Err != nil {
				fmt.Fprintf(env.stderr, "lockstep: %v\n", r.Err)
			}
			run.Routes = append(run.Routes, r)
		}
		run.Routes = append(run.Routes, s.failed...)
		runs = append(runs, run)
	}
	return runs, nil
}

// origin is what it takes to make a report again.
func (s *simulation) origin(env *environment, f *simulatorFlags, took time.Duration) report.Origin {
	o := report.Origin{
		Command:    env.command(),
		Model:      filepath.Base(s.modelPath),
		Data:       s.dataPath,
		SeedPrefix: f.SeedPrefix,
		Facts: []report.Fact{
			{
				Name:  "Machine",
				Value: fmt.Sprintf("%s, %d cores", cpuModel(), runtime.GOMAXPROCS(0)),
			},
			{Name: "Time", Value: took.Round(10 * time.Millisecond).String()},
			{Name: "Built with", Value: runtime.Version()},
		},
	}
	if env.found != nil {
		o.Facts = append(
			o.Facts, report.Fact{Name: "Python's arithmetic", Value: env.found.String()},
		)
	}
	o.ModelSHA256 = s.simulator.About().Model
	o.Facts = append(o.Facts, report.Fact{Name: "Computed by", Value: s.simulator.About().Inside})
	return o
}
