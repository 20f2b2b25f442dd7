package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"lockstep/classic/harness"
	"lockstep/engines"
	"lockstep/internal/assets"
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
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w; lockstep compare --keep makes it, where something differs", err)
		}
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
func (p *comparisons) replay(k *tinyphysics.Case, list []*engines.Engine, l *assets.Library) error {
	kept := verdict.Comparison{Kind: "replay", Want: keptResults, Got: list[0].Name, Detail: stem(k.Path)}
	modelPath, err := l.Model(k.ModelSHA256)
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
	if kept, unable := first.unable(kept); unable {
		p.add(kept)
	} else if err := p.kept(kept, k, k.Results, func() ([]parity.CaseResult, error) { return k.Run(p.env.ctx, first.Simulator) }); err != nil {
		return err
	}
	for _, o := range all[1:] {
		one := verdict.Comparison{Kind: "replay", Want: first.Engine.Name, Got: o.Engine.Name, Detail: kept.Detail}
		if p.leaveOut(one, first, o) {
			continue
		}
		one.Identities = []string{engines.Identity(first.Simulator), engines.Identity(o.Simulator)}
		report, err := k.Compare(p.env.ctx, tinyphysics.Live(first.Simulator), tinyphysics.Live(o.Simulator))
		if err := p.made(one, report, err); err != nil {
			return err
		}
	}
	return nil
}

// keptResults is what the first engine is held to.
const keptResults = "kept results"

// stem is a file's name without folder and ending.
func stem(file string) string { return strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)) }

// kept adds the comparison of what an engine computes of a case with the results that
// are kept with it.
func (p *comparisons) kept(one verdict.Comparison, k interface {
	Replay() string
	Check([]parity.CaseResult) (*parity.Report, error)
}, results []parity.CaseResult, run func() ([]parity.CaseResult, error)) error {
	if len(results) == 0 {
		one.NotApplicable = "no results are kept with the case"
		p.add(one)
		return nil
	}
	got, err := run()
	if err != nil {
		return p.made(one, nil, err)
	}
	r, err := k.Check(got)
	if err != nil {
		one.Differs = fmt.Sprintf("%v\nreplay: %s", err, k.Replay())
	} else {
		r.Want.Name, r.Got = one.Want, parity.SideInfo{Name: one.Got, Live: true}
	}
	return p.made(one, r, nil)
}
