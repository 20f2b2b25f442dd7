package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"lockstep"
	"lockstep/runs"
)

// shardCommand computes a run in parts, each anywhere. All three verbs take the same
// inputs; what they find must be what was planned, down to the bytes.
type shardCommand struct {
	Plan  shardPlanCommand  `cmd:"" help:"Plan a run in parts: what is to be computed, by which contents, goes to a folder."`
	Run   shardRunCommand   `cmd:"" help:"Compute one part of a plan."`
	Merge shardMergeCommand `cmd:"" help:"Put the parts together and print them as rollout does. Exit status 1 if one is missing or wrong."`
}

type shardPlanCommand struct {
	planFlags
	Out    string `name:"out" required:"" placeholder:"DIR" help:"The folder of the plan and its parts, which all machines can write to."`
	Shards int    `name:"shards" required:"" placeholder:"N" help:"How many parts."`
}

// Run is the shard plan command.
func (c *shardPlanCommand) Run(env *environment) error {
	return c.with(env, func(s *simulation, policies []lockstep.Policy, p *runs.Plan) error {
		p.Shards = c.Shards
		if err := runs.WritePlan(c.Out, p); err != nil {
			return err
		}
		fmt.Fprintf(env.stdout, "%d rollouts in %d shards, plan %s\n", p.Rollouts(), p.Shards, p.Key())
		return nil
	})
}

type shardRunCommand struct {
	planFlags
	Out   string `name:"out" required:"" placeholder:"DIR" help:"The folder of the plan."`
	Index int    `name:"index" required:"" placeholder:"I" help:"Which part, from 0 on."`
}

// Run is the shard run command.
func (c *shardRunCommand) Run(env *environment) error {
	planned, err := runs.OpenPlan(c.Out)
	if err != nil {
		return err
	}
	if c.Profile == "host" {
		c.Profile = planned.Profile.String()
	}
	return c.with(env, func(s *simulation, policies []lockstep.Policy, p *runs.Plan) error {
		p.Shards = planned.Shards
		if d := planned.Difference(p); d != "" {
			return fmt.Errorf("this machine would compute something else than planned: %s", d)
		}
		bar := newProgress(env.stderr, p.Rollouts()/p.Shards, "rollouts")
		defer bar.Clear()
		file, err := runs.RunShard(env.ctx, c.Out, p, c.Index, s.simulator, s.jobs(policies), lockstep.Options{Shortcuts: lockstep.CostOnly}, func() { bar.Add(1) })
		if env.ctx.Err() != nil {
			fmt.Fprintln(env.stderr, "lockstep: interrupted; nothing of this shard is kept")
			return exitStatus(exitInterrupted)
		}
		if err == nil {
			fmt.Fprintln(env.stdout, file)
		}
		return err
	})
}

type shardMergeCommand struct {
	Out  string `name:"out" required:"" placeholder:"DIR" help:"The folder of the plan."`
	JSON bool   `name:"json" help:"Print one JSON object a line."`
}

// Run is the shard merge command.
func (c *shardMergeCommand) Run(env *environment) error {
	start := time.Now()
	m, err := runs.Merge(c.Out)
	if err != nil {
		return err
	}
	for _, wrong := range m.Wrong {
		fmt.Fprintf(env.stderr, "lockstep: %s\n", wrong)
	}
	if len(m.Missing) > 0 {
		fmt.Fprintf(env.stderr, "lockstep: %d of %d shards are missing: %v\n", len(m.Missing), m.Plan.Shards, m.Missing)
	}
	if m.Results == nil {
		return exitStatus(exitParity)
	}
	stdout := &stickyWriter{w: env.stdout}
	t := newTally(env, m.Plan, nil, newPrinter(stdout, c.JSON, m.Plan.Engine, m.Plan.Profile, len(m.Plan.Controllers) > 1), start)
	for _, r := range m.Results {
		t.add(r.Rollout, r.Result())
	}
	t.end()
	if c.JSON {
		json.NewEncoder(stdout).Encode(struct {
			SHA256 string `json:"sha256"`
		}{m.SHA256})
	} else {
		fmt.Fprintf(stdout, "sha256 %s\n", m.SHA256)
	}
	return errors.Join(stdout.err, t.status())
}
