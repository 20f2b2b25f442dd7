package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"lockstep"
	"lockstep/engines"
	"lockstep/internal/want"
	"lockstep/parity"
	"lockstep/parity/gate"
)

// replay repeats cases that were kept: the first engine is held to the results that
// were kept with the case, the others to the first.
func (c *parityCommand) replay(env *environment, p *comparisons, options parity.CompareOptions) error {
	if options.Inexact {
		return errors.New("--inexact: cases are exact")
	}
	list, err := c.chosen()
	if err != nil {
		return err
	}
	library, err := c.library()
	if err != nil {
		return err
	}
	var cases []*parity.Case
	for _, path := range c.Replay {
		some, err := parity.LoadCases(path)
		if err != nil {
			return err
		}
		if len(some) == 0 {
			return fmt.Errorf("--replay %s: no case in it", path)
		}
		cases = append(cases, some...)
	}
	for _, k := range cases {
		if err := c.replayCase(p, k, list, library); err != nil {
			return err
		}
	}
	return nil
}

func (c *parityCommand) replayCase(p *comparisons, k *parity.Case, list []*engines.Engine, l *library) error {
	stem := strings.TrimSuffix(filepath.Base(k.Path), filepath.Ext(k.Path))
	kept := gate.Comparison{Kind: "replay", Want: "kept results", Got: list[0].Name, Detail: stem}
	modelPath, err := l.model(k.ModelSHA256)
	if err != nil {
		return err
	}
	if modelPath == "" {
		kept.NotRun, kept.Lacks = fmt.Sprintf("%s: the network %s of SHA-256 %s is not here: name it with --model_path", k.Path, k.Model, k.ModelSHA256), want.Assets.Name
		p.add(kept)
		return nil
	}
	var all []opened
	for _, e := range list {
		all = append(all, open(e, engines.Config{Model: modelPath, Profile: k.Profile, Workers: k.Workers, Chunk: k.Chunk}, false))
	}
	defer closeAll(all)
	first := all[0]
	kept, unable := c.unable(kept, first)
	if !unable {
		if kept, err = p.kept(kept, k, first.Simulator); err != nil {
			return err
		}
	}
	p.add(kept)
	for _, o := range all[1:] {
		one := gate.Comparison{Kind: "replay", Want: first.Engine.Name, Got: o.Engine.Name, Detail: stem}
		if c.leaveOut(p, one, first, o) {
			continue
		}
		report, err := k.Compare(p.env.ctx, parity.Live(first.Simulator), parity.Live(o.Simulator))
		if p.env.ctx.Err() != nil {
			return interrupted(p.env)
		}
		if one.Report = report; err != nil {
			one.Error = err.Error()
		}
		p.add(one)
	}
	return nil
}

// kept holds an engine to what is kept with a case.
func (p *comparisons) kept(one gate.Comparison, k *parity.Case, sim lockstep.Simulator) (gate.Comparison, error) {
	if len(k.Results) == 0 {
		one.NotApplicable = "no results are kept with the case"
		return one, nil
	}
	counted := &counter{Simulator: sim}
	results, err := k.Run(p.env.ctx, counted)
	if p.env.ctx.Err() != nil {
		return one, interrupted(p.env)
	}
	if err != nil {
		one.Error = err.Error()
		return one, nil
	}
	r := &parity.Report{
		Want: parity.SideInfo{Name: one.Want, Profile: k.Profile.String()}, Got: parity.SideInfo{Name: one.Got, Profile: sim.Profile().String(), Live: true},
		Exact: true, Steps: int(counted.steps.Load()), Compared: map[parity.Stage]int{},
	}
	same := k.Check(results)
	for i, want := range k.Results {
		r.Rollouts = append(r.Rollouts, parity.Verdict{
			Route: k.Routes[k.Batch[i].Route].Name, Policy: k.Batch[i].Policy.Kind,
			Equal: same == nil, WantHash: want.Hash, GotHash: results[i].Hash,
		})
	}
	if same != nil {
		one.Differs = fmt.Sprintf("%v\nreplay: %s", same, k.Replay())
		return one, nil
	}
	// The hash of a rollout is of all stages.
	for s := parity.Action; s <= parity.Lataccel; s++ {
		r.Compared[s] = r.Steps
	}
	r.Compared[parity.Cost] = len(r.Rollouts)
	one.Report = r
	return one, nil
}

// counter counts the steps of a simulator.
type counter struct {
	lockstep.Simulator
	steps atomic.Int64
}

// Simulate counts the steps that are observed.
func (c *counter) Simulate(ctx context.Context, jobs []lockstep.Job, opts lockstep.Options) iter.Seq2[int, lockstep.Result] {
	jobs = slices.Clone(jobs)
	for i := range jobs {
		observe := jobs[i].Observe
		jobs[i].Observe = func(s *lockstep.Step) {
			c.steps.Add(1)
			if observe != nil {
				observe(s)
			}
		}
	}
	return c.Simulator.Simulate(ctx, jobs, opts)
}
