package main

import (
	"fmt"
	"path/filepath"

	"lockstep"
	"lockstep/defaults"
	"lockstep/engines"
	"lockstep/golden"
	"lockstep/internal/assets"
	"lockstep/internal/fileio"
	"lockstep/internal/want"
	"lockstep/parity"
	"lockstep/parity/mutants"
	"lockstep/parity/tinyphysics"
	"lockstep/parity/verdict"
)

// goldens holds each engine to the recordings of the Python program.
func (c *compareCommand) goldens(env *environment, p *comparisons, options parity.CompareOptions) error {
	list, err := engines.Tried(), error(nil)
	if len(c.Got) > 0 {
		list, err = engines.ByName(c.Got...)
	}
	if err != nil {
		return err
	}
	root := c.Want
	if root == "goldens" {
		module, err := mutants.FindRoot(".")
		if err != nil {
			return fmt.Errorf("goldens: %w: name the folder of the recordings", err)
		}
		root = filepath.Join(module, "golden", "testdata")
	}
	sets, err := golden.All(root)
	if err != nil {
		return err
	}
	library, err := c.library()
	if err != nil {
		return err
	}
	matched := false
	for _, set := range sets {
		selected := *set
		selected.Recordings = nil
		for _, e := range set.Recordings {
			policy, err := e.Policy()
			if err != nil {
				return fmt.Errorf("%s: %w", set.Dir, err)
			}
			if c.selected(e.Route + "/" + policy.String()) {
				selected.Recordings = append(selected.Recordings, e)
			}
		}
		if len(selected.Recordings) == 0 {
			continue
		}
		matched = true
		for _, e := range list {
			if err := c.golden(p, e, &selected, library, options); err != nil {
				return err
			}
		}
	}
	if !matched {
		return fmt.Errorf("--only %q: no recording under %s has such a name", c.Only, root)
	}
	return nil
}

// library is where networks and routes are looked for: what was asked for, the
// project's own, the assets.
func (f *inputFlags) library() (*assets.Library, error) {
	ownModel, ownRoutes, err := defaults.Keep()
	model, _ := assets.Find(assets.Model)
	routes, _ := assets.Find(assets.Routes)
	return &assets.Library{Models: []string{f.ModelPath, ownModel, model}, Routes: []string{f.DataPath, ownRoutes, routes}}, err
}

// golden holds one engine to one set.
func (c *compareCommand) golden(p *comparisons, e *engines.Engine, set *golden.Set, l *assets.Library, options parity.CompareOptions) error {
	k := verdict.Comparison{Kind: "goldens", Want: filepath.Base(set.Dir), Got: e.Name, Detail: "network " + set.ModelSHA256[:min(8, len(set.ModelSHA256))]}
	if set.ModelSHA256 == defaults.ModelSHA256 {
		k.Detail = "own network"
	}
	modelPath, err := l.Model(set.ModelSHA256)
	if err != nil {
		return err
	}
	if modelPath == "" {
		k.NotRun, k.Lacks = fmt.Sprintf("the network of SHA-256 %s is not here: run `make assets`, or name it with --model_path", set.ModelSHA256), want.Assets.Name
		p.add(k)
		return nil
	}
	paths := map[string]string{}
	for _, r := range set.Recordings {
		if paths[r.Route], err = l.Route(r.Route, r.RouteCSV); err != nil {
			return err
		}
		if paths[r.Route] == "" {
			k.NotRun, k.Lacks = fmt.Sprintf("route %s of SHA-256 %s is not here: set LOCKSTEP_ASSETS, or name its folder with --data_path", r.Route, r.RouteCSV), want.Assets.Name
			p.add(k)
			return nil
		}
		if sum, err := fileio.SHA256(filepath.Join(set.Dir, r.File)); err != nil || sum != r.SHA256 {
			k.Error = fmt.Sprintf("%s is not what its provenance says, SHA-256 %s (%v)", filepath.Join(set.Dir, r.File), r.SHA256, err)
			p.add(k)
			return nil
		}
	}
	o := open(e, engines.Config{Model: modelPath, Profile: set.Profile, Workers: c.Workers}, options.Inexact)
	defer closeAll([]opened{o})
	if k, ok := o.unable(k); ok {
		p.add(p.unasked(k))
		return nil
	}
	k.Identities = []string{engines.Identity(o.Simulator)}
	source, err := tinyphysics.Golden(set)
	if err != nil {
		return err
	}
	jobs, err := tinyphysics.GoldenJobs(set, func(name string) (*lockstep.Route, error) {
		return lockstep.Loader{Profile: set.Profile}.Load(paths[name])
	})
	if err != nil {
		k.Error = err.Error()
		p.add(k)
		return nil
	}
	return p.compare(k, source, tinyphysics.Live(o.Simulator), jobs, lockstep.AllSteps, options)
}
