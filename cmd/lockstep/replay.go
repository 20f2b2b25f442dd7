package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"lockstep"
	"lockstep/classic/harness"
	"lockstep/engines"
	"lockstep/internal/want"
	"lockstep/parity"
	"lockstep/parity/tinyphysics"
	"lockstep/parity/verdict"
)

type replayCommand struct {
	Cases   []string `arg:"" name:"case" help:"Cases that were kept: files, or folders of them."`
	Engines []string `name:"engines" placeholder:"NAME,..." help:"Implementations: the others are held to the first. Default: all that can run here."`
	inputFlags
	outputFlags
}

// Run is the replay command. It repeats cases that were kept: the first engine is held
// to the results that were kept with the case, the others to the first.
func (c *replayCommand) Run(env *environment) error {
	list, err := engines.Tried(), error(nil)
	if len(c.Engines) > 0 {
		list, err = engines.ByName(c.Engines...)
	}
	if err != nil {
		return err
	}
	p := newComparisons(env, &c.outputFlags, len(c.Engines) > 0)
	library, err := c.library()
	if err != nil {
		return err
	}
	var replays []func() error
	for _, path := range c.Cases {
		files, err := parity.CaseFiles(path)
		if err != nil {
			return err
		}
		if len(files) == 0 {
			return fmt.Errorf("%s: no case in it", path)
		}
		for _, file := range files {
			if harness.IsCase(file) {
				k, err := harness.LoadCase(file)
				if err != nil {
					return err
				}
				replays = append(replays, func() error { return p.replayClassic(k, c.Engines) })
				continue
			}
			k, err := tinyphysics.LoadCase(file)
			if err != nil {
				return err
			}
			replays = append(replays, func() error { return p.replay(k, list, library) })
		}
	}
	for _, replay := range replays {
		if err := replay(); err != nil {
			return err
		}
	}
	return p.end()
}

// replay repeats a case.
func (p *comparisons) replay(k *tinyphysics.Case, list []*engines.Engine, l *library) error {
	stem := strings.TrimSuffix(filepath.Base(k.Path), filepath.Ext(k.Path))
	kept := verdict.Comparison{Kind: "replay", Want: "kept results", Got: list[0].Name, Detail: stem}
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
	kept, unable := first.unable(kept)
	if !unable {
		if kept, err = p.kept(kept, k, first.Simulator); err != nil {
			return err
		}
	}
	p.add(kept)
	for _, o := range all[1:] {
		one := verdict.Comparison{Kind: "replay", Want: first.Engine.Name, Got: o.Engine.Name, Detail: stem}
		if p.leaveOut(one, first, o) {
			continue
		}
		one.Identities = []string{engines.Identity(first.Simulator), engines.Identity(o.Simulator)}
		report, err := k.Compare(p.env.ctx, tinyphysics.Live(first.Simulator), tinyphysics.Live(o.Simulator))
		if p.env.ctx.Err() != nil {
			return p.env.interrupted(noReport)
		}
		if one.Report = report; err != nil {
			one.Error = err.Error()
		}
		p.add(one)
	}
	return nil
}

// kept holds an engine to what is kept with a case.
func (p *comparisons) kept(one verdict.Comparison, k *tinyphysics.Case, sim lockstep.Simulator) (verdict.Comparison, error) {
	if len(k.Results) == 0 {
		one.NotApplicable = "no results are kept with the case"
		return one, nil
	}
	results, err := k.Run(p.env.ctx, sim)
	if p.env.ctx.Err() != nil {
		return one, p.env.interrupted(noReport)
	}
	if err != nil {
		one.Error = err.Error()
		return one, nil
	}
	r := &parity.Report{
		Want: parity.SideInfo{Name: one.Want, Profile: k.Profile.String()}, Got: parity.SideInfo{Name: one.Got, Profile: sim.Profile().String(), Live: true},
		Exact: true, Compared: map[string]int{},
	}
	same := k.Check(results)
	for i, want := range k.Results {
		r.Rollouts = append(r.Rollouts, parity.Verdict{
			Key: []string{k.Routes[k.Batch[i].Route].Name, k.Batch[i].Policy.Kind}, Steps: results[i].Steps,
			Equal: same == nil, WantHash: want.Hash, GotHash: results[i].Hash,
		})
		r.Steps += results[i].Steps
	}
	if same != nil {
		one.Differs = fmt.Sprintf("%v\nreplay: %s", same, k.Replay())
		return one, nil
	}
	// The hash of a rollout is of all stages.
	r.Stages = tinyphysics.Schema(0).Required()
	for _, stage := range r.Stages {
		r.Compared[stage] = r.Steps
	}
	r.Compared[tinyphysics.Costs] = len(r.Rollouts)
	one.Report = r
	return one, nil
}
