package main

import (
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"lockstep"
	"lockstep/cmd/internal/report"
	"lockstep/engines"
	"lockstep/internal/assets"
	"lockstep/internal/model"
	"lockstep/parity"
	"lockstep/parity/tinyphysics"
	"lockstep/reference"
	"lockstep/routefile"
)

type demoCommand struct {
	Report string `name:"report" io:"out" default:"lockstep.html" placeholder:"FILE.html" help:"The report. Default: lockstep.html."`
}

// Run is the demo command: the first five minutes. It rolls the same routes out
// on every engine that is here, compares all stages of all steps, and draws what
// happened.
func (c *demoCommand) Run(env *environment) error {
	flags := simulatorFlags{
		inputFlags: inputFlags{
			NumSegs:    10,
			Profile:    "host",
			SeedPrefix: routefile.DefaultSeedPrefix,
		},
		Engine: "reference",
	}
	start := time.Now()
	s, err := flags.load(env)
	if err != nil {
		return err
	}
	network := "the challenge's network"
	if _, foreign := model.Foreign(s.modelPath); foreign {
		network = "the project's own network"
	}
	fmt.Fprintf(env.stdout, "%d routes, %s\n\n", len(s.routes), network)

	all := []lockstep.Implementation{s.simulator}
	var absent []string
	broken := false // an engine that is here does not open
	for _, e := range engines.Tried()[1:] {
		o := open(
			e, engines.Config{Model: s.modelPath, Profile: s.simulator.Profile()}, true, false,
		)
		defer closeAll(o)
		if o.err == nil {
			all = append(all, o.engine)
			continue
		}
		broken = broken || !errors.As(o.err, new(notApplicable))
		absent = append(absent, fmt.Sprintf("not here: %v", o.err))
	}

	runs, different, err := s.race(env, all)
	if err != nil {
		return err
	}
	for _, line := range absent {
		fmt.Fprintln(env.stdout, line)
	}
	if err := report.WriteRollout(c.Report,
		report.Single{Run: runs[0], Origin: s.origin(env, &flags, time.Since(start))}); err != nil {
		return err
	}
	fmt.Fprintf(env.stdout, "\nthe drives, to look at: %s\n", c.Report)
	if _, err := assets.Find(assets.Model); err != nil {
		fmt.Fprintln(env.stdout, "the challenge's own network: lockstep fetch model")
	}
	switch {
	case different > 0:
		return exitStatus(exitParity)
	case broken:
		return exitStatus(exitUsage)
	}
	return nil
}

// race rolls the routes out on each engine and prints how fast they were, what drives
// cost, and how many rollouts differ from the first engine's, whose runs it returns.
func (s *simulation) race(
	env *environment, all []lockstep.Implementation,
) (runs []report.Run, different int, err error) {
	defer func(first lockstep.Implementation) { s.simulator = first }(s.simulator)
	policies := []lockstep.Policy{lockstep.DefaultPID(), lockstep.Zero{}}
	t := tabwriter.NewWriter(env.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "engine\troutes/s\tpid: average total_cost\tzero: average total_cost\tparity\t")
	for i, sim := range all {
		s.simulator = sim
		began := time.Now()
		got, err := s.runs(env, policies, len(s.routes), nil)
		if err != nil {
			return nil, 0, err
		}
		rate := float64(len(policies)*len(s.routes)) / time.Since(began).Seconds()
		verdict := "–"
		if i == 0 {
			runs = got
		} else if n := differences(runs, got); n > 0 {
			verdict = fmt.Sprintf("%d rollouts differ", n)
			different += n
		} else {
			verdict = "every lataccel, action and cost equal"
		}
		var means [2]lockstep.Costs
		for k := range policies {
			costs, _ := got[k].Costs()
			means[k] = reference.MeanCosts(costs)
		}
		fmt.Fprintf(
			t, "%s\t%.1f\t%s\t%s\t%s\t%s\n", sim.Name(), rate, reference.FormatCost(means[0].Total),
			reference.FormatCost(means[1].Total), verdict, sim.About().Inside,
		)
	}
	return runs, different, t.Flush()
}

// differences counts the rollouts of which a cost, a lateral acceleration or an
// action differs in a bit, or of which one failed. A route that could not be loaded is none.
func differences(a, b []report.Run) int {
	n := 0
	for k := range a {
		for i := range a[k].Routes {
			x, y := a[k].Routes[i], b[k].Routes[i]
			if x.Err != nil && y.Err != nil {
				continue
			}
			if x.Err != nil || y.Err != nil || !sameCosts(x.Costs, y.Costs) ||
				!same(x.Trajectory.Lataccel, y.Trajectory.Lataccel) ||
				!same(x.Trajectory.Action, y.Trajectory.Action) {
				n++
			}
		}
	}
	return n
}

func sameCosts(a, b lockstep.Costs) bool {
	return same(tinyphysics.Outcome(a), tinyphysics.Outcome(b))
}

// same reports whether all bits are.
func same(a, b []float64) bool { return parity.Differ(a, b) == nil }
