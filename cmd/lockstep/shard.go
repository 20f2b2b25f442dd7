package main

import (
	"fmt"
	"time"

	"lockstep"
	"lockstep/cmd/internal/report"
	"lockstep/cmd/internal/runs"
	"lockstep/internal/progress"
	"lockstep/policyfile"
)

// shardCommand computes a run in parts, each anywhere.
type shardCommand struct {
	Plan  shardPlanCommand  `cmd:"" help:"Plan a run in parts: what is to be computed, by which contents, goes to a folder."`
	Run   shardRunCommand   `cmd:"" help:"Compute one part of a plan."`
	Merge shardMergeCommand `cmd:"" help:"Put the parts together and print them as rollout does. Exit status 1 if one is missing or wrong."`
}

type shardPlanCommand struct {
	simulatorFlags
	controllerFlags
	Out    string `name:"out" required:"" placeholder:"DIR" help:"The folder of the plan and its parts, which all machines can write to."`
	Shards int    `name:"shards" required:"" placeholder:"N" help:"How many parts."`
}

// Run is the shard plan command.
func (c *shardPlanCommand) Run(env *environment) error {
	if c.Kernels != "" {
		return fmt.Errorf("--kernels %s: each machine takes the best that it runs, and all give "+
			"the same bits: a plan has none to choose", c.Kernels)
	}
	profile, _, err := c.profile(env)
	if err != nil {
		return err
	}
	model, data, err := c.inputs(env)
	if err != nil {
		return err
	}
	in := runs.Inputs{
		Program: libraryFile, Model: model, Data: []string{data}, Limit: c.NumSegs,
		SeedPrefix: c.SeedPrefix,
		Engine:     c.Engine, Profile: profile.String(), Timeout: c.Timeout, Memory: c.Memory << 20,
		Sandbox: c.Sandbox,
	}
	policies, err := c.policies(env)
	if err != nil {
		return err
	}
	for _, policy := range policies {
		name := policy.String()
		if python, ok := policy.(*lockstep.Batch); ok {
			name = python.File
		} else if policyfile.IsFile(c.Controller) {
			name = c.Controller
		}
		in.Controllers = append(in.Controllers, name)
	}
	o, err := in.Open(env.ctx, c.Workers)
	if err != nil {
		return err
	}
	defer o.Close()
	for _, notice := range o.Notices {
		fmt.Fprintf(env.stderr, "lockstep: %s\n", notice)
	}
	if err := unshared(c.Out); err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	if err := o.WritePlan(c.Out, c.Shards); err != nil {
		return err
	}
	fmt.Fprintf(
		env.stdout, "%d rollouts in %d shards, plan %s\n", o.Plan.Rollouts(), o.Plan.Shards,
		o.Plan.Key(),
	)
	return nil
}

type shardRunCommand struct {
	Out       string   `name:"out" required:"" placeholder:"DIR" help:"The folder of the plan."`
	Index     int      `name:"index" required:"" placeholder:"I" help:"Which part, from 0 on."`
	ModelPath string   `name:"model_path" placeholder:"FILE" help:"Where the network is on this machine, if not where it was planned."`
	DataPath  []string `name:"data_path" sep:"none" placeholder:"FILE|DIR" help:"Where the routes are on this machine, if not where they were planned."`
	Workers   int      `name:"workers" placeholder:"N" help:"Cores to use. Default: all."`
}

// Run is the shard run command.
func (c *shardRunCommand) Run(env *environment) error {
	plan, err := runs.OpenShards(c.Out)
	if err != nil {
		return err
	}
	from, to := plan.Range(c.Index)
	bar := progress.New(env.stderr, to-from, "rollouts")
	file, err := runs.RunShard(
		env.ctx, c.Out, c.Index,
		runs.Here{Program: libraryFile, Model: c.ModelPath, Data: c.DataPath}, c.Workers,
		func() { bar.Add(1) },
	)
	bar.Clear()
	if err := env.ended(err, "nothing of this shard is kept"); err != nil {
		return err
	}
	fmt.Fprintln(env.stdout, file)
	return nil
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
		fmt.Fprintf(
			env.stderr, "lockstep: %d of %d shards are missing: %v\n", len(m.Missing),
			m.Plan.Shards, m.Missing,
		)
	}
	if m.Results == nil {
		return exitStatus(exitParity)
	}
	lines := &report.Lines{
		Out:     env.stdout,
		Errors:  env.stderr,
		JSON:    c.JSON,
		Engine:  m.Plan.Engine,
		Profile: m.Plan.Profile,
		Start:   start,
	}
	lines.Controllers, lines.Routes = m.Plan.Names()
	for _, r := range m.Results {
		lines.Add(r.Rollout, r.Result())
	}
	lines.End()
	if c.JSON {
		env.json(map[string]string{"sha256": m.SHA256})
	} else {
		fmt.Fprintf(env.stdout, "sha256 %s\n", m.SHA256)
	}
	return status(env, lines)
}
