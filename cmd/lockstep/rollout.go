package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"lockstep"
	"lockstep/gpu"
	"lockstep/internal/fileio"
	"lockstep/internal/progress"
	"lockstep/parity/schema"
	"lockstep/parity/tinyphysics"
	"lockstep/parity/trace"
	"lockstep/report"
	"lockstep/runs"
)

type rolloutCommand struct {
	simulatorFlags
	controllerFlags
	classicFlags
	JSON        bool   `name:"json" classic:"too" help:"Print one JSON object a line: one for each route, then a summary; so for each set of gains."`
	Trace       string `name:"trace" io:"out" placeholder:"FILE" help:"Write every stage of every step as a trace, for lockstep compare, and for NumPy through parity/trace/reader.py."`
	Stats       bool   `name:"stats" classic:"too" help:"Print what passed between host and GPU, and the times that its own clock took."`
	TraceValues bool   `name:"trace-values" help:"Write all arrays of a trace in full, 10 MB a rollout, not only their hashes."`
	Out         string `name:"out" placeholder:"DIR" help:"Keep the run in a folder: the same command goes on where it was ended, whatever ended it. lockstep watch DIR shows how far it is."`
}

// Run is the rollout command.
func (c *rolloutCommand) Run(env *environment) error {
	if c.Env != "" {
		return c.classic(env)
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
	ledger, ok := s.simulator.(interface{ Stats() gpu.Stats })
	if c.Stats && !ok {
		return fmt.Errorf("--stats goes with --engine gpu; the %s engine has no device", s.simulator.Name())
	}
	if c.TraceValues && c.Trace == "" {
		return errors.New("--trace-values goes with --trace")
	}
	if c.Out != "" && c.Trace != "" {
		return errors.New("--out and --trace do not go together: a trace is whole or not there")
	}
	journal, err := s.journal(env, c.Out, nil, policies...)
	if err != nil {
		return err
	}

	var before gpu.Stats
	if c.Stats {
		before = ledger.Stats()
	}
	lines := &report.Lines{Out: env.stdout, Errors: env.stderr, JSON: c.JSON, Engine: s.simulator.Name(), Profile: s.simulator.Profile(), Unread: s.failed, Start: time.Now()}
	for _, policy := range policies {
		lines.Controllers = append(lines.Controllers, policy.String())
	}
	for _, route := range s.routes {
		lines.Routes = append(lines.Routes, route.Name)
	}
	jobs := s.jobs(policies)
	if c.Trace != "" && len(jobs) > 0 {
		err = c.traced(env, s, jobs, lines)
	} else {
		err = s.stream(env, &runs.Work{Jobs: jobs, Options: lockstep.Options{Shortcuts: lockstep.CostOnly}, Journal: journal}, lines.Add)
	}
	lines.End()
	if c.Stats {
		stats := ledger.Stats().Sub(before)
		if c.JSON {
			env.json(struct {
				Stats gpu.Stats     `json:"stats"`
				Host  time.Duration `json:"host_ns"`
			}{stats, stats.Host()})
		} else {
			stats.WriteText(env.stdout)
		}
	}
	return cmp.Or(err, status(env, lines))
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
// interruption is no error: who adds knows what is missing.
func (s *simulation) stream(env *environment, work *runs.Work, add func(int, lockstep.Result)) error {
	bar := progress.New(env.stderr, len(work.Jobs), "rollouts")
	defer bar.Clear()
	work.Simulator, work.Done = s.simulator, func() { bar.Add(1) }
	err := work.Stream(env.ctx, add)
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// traced runs the jobs and writes a trace of them as they run. An interruption leaves
// no trace; the error is of the trace alone.
func (c *rolloutCommand) traced(env *environment, s *simulation, jobs []lockstep.Job, lines *report.Lines) error {
	sum, err := fileio.SHA256(s.modelPath)
	if err != nil {
		return err
	}
	options := lockstep.Options{Shortcuts: lockstep.AllSteps}
	header := trace.Header{
		Producer: "lockstep", Engine: s.simulator.Name(), Profile: s.simulator.Profile().String(),
		ModelSHA256: sum, Digest: schema.XXH3, Schema: *tinyphysics.Schema(options.Shortcuts), Shortcuts: tinyphysics.Words(options.Shortcuts),
	}
	full := schema.Set(0)
	if c.TraceValues {
		full = tinyphysics.Arrays
	}
	err = trace.WriteFile(c.Trace, header, full, func(w *trace.Writer) error {
		writers := make([]*trace.RolloutWriter, len(jobs))
		for i := range jobs {
			step := header.Schema.NewStep()
			writers[i] = w.Begin(tinyphysics.Of(jobs[i]))
			jobs[i].Observe = func(s *lockstep.Step) {
				tinyphysics.Expose(s, step)
				writers[i].Observe(step)
			}
		}
		stopped := s.stream(env, &runs.Work{Jobs: jobs, Options: options}, func(i int, result lockstep.Result) {
			lines.Add(i, result)
			writers[i].End(tinyphysics.Outcome(result.Costs), result.Err)
		})
		return cmp.Or(stopped, env.ctx.Err())
	})
	if err != nil && env.ctx.Err() == nil {
		return fmt.Errorf("--trace %s: %w", c.Trace, err)
	}
	return nil
}
