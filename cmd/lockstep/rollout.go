package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"lockstep"
	"lockstep/cmd/internal/report"
	"lockstep/cmd/internal/runs"
	"lockstep/gpu"
	"lockstep/internal/figures"
	"lockstep/internal/progress"
	"lockstep/parity/schema"
	"lockstep/parity/tinyphysics"
	"lockstep/parity/trace"
)

type rolloutCommand struct {
	simulatorFlags
	controllerFlags
	familyFlags
	JSON        bool   `name:"json" family:"every" help:"Print one JSON object a line: one for each route, then a summary; so for each set of gains."`
	Trace       string `name:"trace" io:"out" placeholder:"FILE" help:"Write every stage of every step as a trace, for lockstep compare, and for NumPy through parity/trace/reader.py."`
	Stats       bool   `name:"stats" family:"every" help:"Print what set-up, loading and each step took, and what passed between host and GPU."`
	Debug       bool   `name:"debug" help:"Print lataccel and target of every tenth step of a rollout, as the Python program does for one route; lockstep eval draws drives."`
	TraceValues bool   `name:"trace-values" help:"Write all arrays of a trace in full, 10 MB a rollout, not only their hashes."`
	Out         string `name:"out" family:"every" placeholder:"DIR" help:"Keep the run in a folder: the same command goes on where it was ended, whatever ended it. lockstep watch DIR shows how far it is."`
}

// Run is the rollout command.
func (c *rolloutCommand) Run(env *environment) error {
	if f := c.family(); f != nil {
		return f.rollout(env, c)
	}
	policies, err := c.policies(env)
	if err != nil {
		return err
	}
	c.timed = c.Stats
	s, err := c.load(env)
	if err != nil {
		return err
	}
	if err := c.check(); err != nil {
		return err
	}
	journal, err := s.journal(env, c.Out, runs.Plan{}, policies...)
	if err != nil {
		return err
	}

	tellStats := c.stats(env, s)
	lines := &report.Lines{
		Out:     env.stdout,
		Errors:  env.stderr,
		JSON:    c.JSON,
		Engine:  s.simulator.Name(),
		Profile: s.simulator.Profile(),
		Found:   env.found,
		Unread:  s.failed,
		Start:   time.Now(),
	}
	env.told = c.JSON
	for _, policy := range policies {
		lines.Controllers = append(lines.Controllers, policy.String())
	}
	for _, route := range s.routes {
		lines.Routes = append(lines.Routes, route.Name)
	}
	jobs, options := s.jobs(policies), lockstep.Options{Shortcuts: lockstep.CostOnly}
	if c.Debug && c.debugged(env, jobs) {
		// the program goes on behind the last step that costs
		options.Shortcuts = lockstep.FullTrajectory
	}
	if c.Trace != "" && len(jobs) > 0 {
		err = c.traced(env, s, jobs, lines)
	} else {
		err = s.stream(env, &runs.Work{Jobs: jobs, Options: options, Journal: journal}, lines.Add)
	}
	lines.End()
	tellStats()
	return cmp.Or(err, status(env, lines))
}

// check says which flags do not go together.
func (c *rolloutCommand) check() error {
	switch {
	case c.TraceValues && c.Trace == "":
		return errors.New("--trace-values goes with --trace")
	case c.Debug && (c.Out != "" || c.Trace != ""):
		return errors.New("--debug goes without --out and --trace")
	case c.Out != "" && c.Trace != "":
		return errors.New("--out and --trace do not go together: a trace is whole or not there")
	}
	return nil
}

// stats returns the function that prints, with --stats, what was done, by the device since now.
func (c *rolloutCommand) stats(env *environment, s *simulation) func() {
	if !c.Stats {
		return func() {}
	}
	device, _ := s.simulator.(*gpu.Simulator)
	var before gpu.Stats
	if device != nil {
		before = device.Stats()
	}
	return func() {
		f := s.counts.Of(s.simulator)
		var passed gpu.Stats
		if device != nil {
			passed = device.Stats().Sub(before)
			f.OnDevice(passed, passed.Host())
		}
		if c.JSON {
			env.json(map[string]any{"stats": f})
			return
		}
		if f.WriteText(env.stdout); device != nil {
			passed.WriteText(env.stdout)
		}
	}
}

// debugged has the steps of the one job printed as the Python program prints them with --debug.
// Of a folder that prints nothing, and says so here.
func (c *rolloutCommand) debugged(env *environment, jobs []lockstep.Job) bool {
	if len(jobs) != 1 {
		fmt.Fprintf(
			env.stderr,
			"lockstep: --debug prints the steps of one rollout, and these are %d: name one "+
				"route and one controller\n",
			len(jobs),
		)
		return false
	}
	out := io.Writer(env.stdout)
	if c.JSON {
		out = env.stderr
	}
	targets := jobs[0].Route.TargetLataccel
	jobs[0].Observe = func(s *lockstep.Step) {
		if next := s.Index + 1; next%10 == 0 {
			fmt.Fprintf(
				out, "Step %-5d: Current lataccel: %6.2f, Target lataccel: %6.2f\n", next,
				s.Lataccel, targets[s.Index],
			)
		}
	}
	return true
}

// status is what a command ends with that prints all results.
func status(env *environment, l *report.Lines) error {
	all := len(l.Controllers) * (len(l.Routes) + len(l.Unread))
	if l.Finished+l.Failed < all {
		return env.interrupted(fmt.Sprintf("%d of %d rollouts have finished", l.Finished, all))
	}
	return env.failed(l.Failed, all)
}

// stream runs the jobs and adds each result as soon as those before it are there. An
// interruption is no error: who adds knows what is missing. Which rollouts were lost, and so
// are not in the folder of a run, is said.
func (s *simulation) stream(
	env *environment, work *runs.Work, add func(int, lockstep.Result),
) error {
	bar := progress.New(env.stderr, len(work.Jobs), "rollouts")
	work.Simulator = figures.Counting{Simulator: s.simulator, Counts: &s.counts}
	work.Done = func() { bar.Add(1) }
	var lost []string
	err := work.Stream(env.ctx, func(i int, r lockstep.Result) {
		if lockstep.IsPassing(r.Err) {
			job := work.Jobs[i-work.First]
			lost = append(lost, fmt.Sprintf("%s of %s", job.Route.Name, job.Policy))
		}
		add(i, r)
	})
	bar.Clear()
	if work.Journal != nil && len(lost) > 0 {
		fmt.Fprintf(
			env.stderr, "lockstep: %d of %d rollouts were lost, are not kept, and are computed "+
				"when the same command is run again: %s\n",
			len(lost), len(work.Jobs), strings.Join(lost, ", "),
		)
	}
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// traced runs the jobs and writes a trace of them as they run. An interruption leaves
// no trace; the error is of the trace alone.
func (c *rolloutCommand) traced(
	env *environment, s *simulation, jobs []lockstep.Job, lines *report.Lines,
) error {
	options := lockstep.Options{Shortcuts: lockstep.AllSteps}
	header := trace.Header{
		Producer: "lockstep", Engine: s.simulator.Name(), Profile: s.simulator.Profile().String(),
		ModelSHA256: s.simulator.About().Model, Digest: schema.XXH3,
		Schema:    *tinyphysics.Schema(options.Shortcuts),
		Shortcuts: tinyphysics.Words(options.Shortcuts),
	}
	full := schema.StageSet(0)
	if c.TraceValues {
		full = tinyphysics.Arrays()
	}
	err := trace.WriteFile(c.Trace, header, full, func(w *trace.Writer) error {
		writers := make([]*trace.RolloutWriter, len(jobs))
		for i := range jobs {
			step := header.Schema.NewStep()
			writers[i] = w.Begin(tinyphysics.Of(jobs[i]))
			jobs[i].Observe = func(s *lockstep.Step) {
				tinyphysics.Expose(s, step)
				writers[i].Observe(step)
			}
		}
		stopped := s.stream(
			env, &runs.Work{Jobs: jobs, Options: options},
			func(i int, result lockstep.Result) {
				lines.Add(i, result)
				writers[i].End(tinyphysics.Outcome(result.Costs), result.Err)
			},
		)
		return cmp.Or(stopped, env.ctx.Err())
	})
	if err != nil && env.ctx.Err() == nil {
		return fmt.Errorf("--trace %s: %w", c.Trace, err)
	}
	return nil
}
