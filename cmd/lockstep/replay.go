package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"lockstep"
	"lockstep/engines"
	"lockstep/internal/assets"
	"lockstep/parity"
	"lockstep/parity/tinyphysics"
	"lockstep/parity/verdict"
)

type replayCommand struct {
	Cases   []string `arg:"" name:"case"    help:"Cases that were kept: files, or folders of them."`
	Engines []string `       name:"engines" help:"Implementations: the others are held to the first. Default: all that can run here." placeholder:"NAME,..."`
	// The rest of what is simulated stands in the case.
	ModelPath string `name:"model_path" io:"in" placeholder:"FILE" help:"Where a network is that is neither the project's nor among the assets."`
	outputFlags
}

// Run is the replay command. It repeats cases that were kept: the first engine is held
// to the results that were kept with the case, the others to the first.
func (c *replayCommand) Run(env *environment) error {
	list, err := engines.ByName(c.Engines...)
	if err != nil {
		return err
	}
	p := &comparisons{env: env, output: &c.outputFlags, asked: len(c.Engines) > 0 || c.AllowAbsent}
	library, err := (&pathFlags{ModelPath: c.ModelPath}).library()
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
			replay, err := p.ofCase(file, c.Engines, list, library)
			if err != nil {
				return err
			}
			replays = append(replays, replay)
		}
	}
	for _, replay := range replays {
		if err := replay(); err != nil {
			return err
		}
	}
	return p.end()
}

// ofCase is the repetition of the case in a file, whatever family it is of.
func (p *comparisons) ofCase(file string, names []string, list []*engines.Engine,
	l *assets.Library) (func() error, error) {
	all := newFamilyFlags()
	for _, f := range all.families() {
		if replay, err := f.replay(p, file, names); replay != nil || err != nil {
			return replay, err
		}
	}
	k, err := tinyphysics.LoadCase(file)
	return func() error { return p.replay(k, list, l) }, err
}

// replay repeats a case of tinyphysics.
func (p *comparisons) replay(
	k *tinyphysics.DriveCase,
	list []*engines.Engine,
	l *assets.Library,
) error {
	modelPath, err := l.Model(k.ModelSHA256)
	if err != nil {
		return err
	}
	all := []opened[lockstep.Implementation]{{name: list[0].Name}}
	if modelPath == "" {
		all[0].err = lacking(
			"%s: the network %s of SHA-256 %s is not here: name it with --model_path", k.Path,
			k.Model, k.ModelSHA256,
		)
	} else {
		all = openAll(list, engines.Config{Model: modelPath, Profile: k.Profile,
			Workers: k.Workers, Chunk: k.Chunk}, false, p.asked)
	}
	defer closeAll(all...)
	return replay(p, keptCase{k}, k.Path, k.Results, all)
}

// keptCase is a case of tinyphysics as a kept: its methods take Implementations, where DriveCase's
// take any Simulator.
type keptCase struct{ *tinyphysics.DriveCase }

func (k keptCase) Compare(
	ctx context.Context, want, got lockstep.Implementation,
) (*parity.Report, error) {
	return k.DriveCase.Compare(ctx, want, got)
}

func (k keptCase) Run(ctx context.Context, e lockstep.Implementation) ([]parity.CaseResult, error) {
	return k.DriveCase.Run(ctx, e)
}

// A kept is a case of a family of engines.
type kept[E any] interface {
	Replay() string
	Compare(ctx context.Context, want, got E) (*parity.Report, error)
	Run(ctx context.Context, e E) ([]parity.CaseResult, error)
	Check(results []parity.CaseResult) (*parity.Report, error)
}

// replay holds the first engine to the results that are kept with a case, and the others
// to the first.
func replay[E any](
	p *comparisons, k kept[E], path string, results []parity.CaseResult, all []opened[E],
) error {
	one := verdict.Comparison{
		Kind:   "replay",
		Want:   keptResults,
		Got:    all[0].name,
		Detail: strings.TrimSuffix(filepath.Base(path), filepath.Ext(path)),
	}
	r, err := check(p.env.ctx, k, results, all[0])
	if err := p.made(one, r, err); err != nil {
		return err
	}
	return hold(
		p, verdict.Comparison{Kind: one.Kind, Detail: one.Detail}, all,
		func(want, got E) (*parity.Report, error) {
			return k.Compare(p.env.ctx, want, got)
		},
		nil,
	)
}

// check holds what an engine computes of a case to the results that are kept with it.
func check[E any](
	ctx context.Context, k kept[E], results []parity.CaseResult, o opened[E],
) (*parity.Report, error) {
	switch {
	case o.err != nil:
		return nil, o.err
	case len(results) == 0:
		return nil, notApplicable("no results are kept with the case")
	}
	got, err := k.Run(ctx, o.engine)
	if err != nil {
		return nil, errors.New(err.Error()) // as in hold
	}
	r, err := k.Check(got)
	if err != nil {
		return nil, different(fmt.Sprintf("%v\nreplay: %s", err, k.Replay()))
	}
	r.Want.Name, r.Got = keptResults, parity.SideInfo{Name: o.name, Live: true}
	return r, nil
}

// keptResults is what the first engine is held to.
const keptResults = "kept results"
