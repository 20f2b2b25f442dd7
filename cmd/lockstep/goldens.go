package main

import (
	"fmt"
	"path/filepath"
	"slices"

	"lockstep"
	"lockstep/engines"
	"lockstep/golden"
	"lockstep/internal/assets"
	"lockstep/internal/defaults"
	"lockstep/internal/fileio"
	"lockstep/internal/want"
	"lockstep/parity"
	"lockstep/parity/mutants"
	"lockstep/parity/tinyphysics"
	"lockstep/parity/verdict"
	"lockstep/routefile"
)

// goldens holds each engine to the recordings of the Python program.
func (c *compareCommand) goldens(p *comparisons, options parity.CompareOptions) error {
	list, err := engines.ByName(c.Got...)
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
	sets = slices.DeleteFunc(sets, func(set *golden.Set) bool {
		set.Recordings = slices.DeleteFunc(set.Recordings, func(e golden.Entry) bool {
			policy, err := e.Policy() // without one it is refused below
			return err == nil && !c.selected(e.Route+"/"+policy.String())
		})
		return len(set.Recordings) == 0
	})
	if len(sets) == 0 {
		return fmt.Errorf("--only %q: no recording under %s has such a name", c.Only, root)
	}
	for _, set := range sets {
		if err := c.golden(p, list, set, library, options); err != nil {
			return err
		}
	}
	return nil
}

// library is where networks and routes are looked for: what was asked for, the
// project's own, the assets.
func (f *pathFlags) library() (*assets.Library, error) {
	ownModel, ownRoutes, err := defaults.Keep()
	model, _ := assets.Find(assets.Model)
	routes, _ := assets.Find(assets.Routes)
	return &assets.Library{
		Models: []string{f.ModelPath, ownModel, model},
		Routes: []string{f.DataPath, ownRoutes, routes},
	}, err
}

// golden holds engines to one set.
func (c *compareCommand) golden(
	p *comparisons, list []*engines.Engine, set *golden.Set, l *assets.Library,
	options parity.CompareOptions,
) error {
	k := verdict.Comparison{
		Kind:   "goldens",
		Detail: "network " + set.ModelSHA256[:min(8, len(set.ModelSHA256))],
	}
	if set.ModelSHA256 == defaults.ModelSHA256 {
		k.Detail = "project's network"
	}
	source, err := tinyphysics.Golden(set)
	if err != nil {
		return err
	}
	modelPath, jobs, err := recorded(set, l)
	first := opened[parity.Side]{
		name:    filepath.Base(set.Dir),
		engine:  source,
		profile: set.Profile.String(),
		err:     err,
	}
	for _, e := range list {
		o := opened[lockstep.Implementation]{name: e.Name, err: err}
		if err == nil {
			o = open(
				e, engines.Config{Model: modelPath, Profile: set.Profile, Workers: c.Workers},
				c.Inexact, p.asked,
			)
		}
		err := hold(
			p, k, []opened[parity.Side]{first, sourceOf(o)},
			func(want, got parity.Side) (*parity.Report, error) {
				return tinyphysics.Compare(p.env.ctx, want, got, jobs, lockstep.AllSteps, options)
			},
			nil,
		)
		closeAll(o)
		if err != nil {
			return err
		}
	}
	return nil
}

// recorded are the network and the jobs of a set, found by what they hold. Its recordings
// must be those that it says.
func recorded(
	set *golden.Set, l *assets.Library,
) (modelPath string, jobs []lockstep.Job, err error) {
	if modelPath, err = l.Model(set.ModelSHA256); err == nil && modelPath == "" {
		err = lacking(
			"the network of SHA-256 %s is not here: run `lockstep fetch model`, or name it with "+
				"--model_path",
			set.ModelSHA256,
		)
	}
	if err != nil {
		return "", nil, err
	}
	sums := map[string]string{}
	for _, r := range set.Recordings {
		sums[r.Route] = r.RouteCSV
		file := filepath.Join(set.Dir, r.File)
		sum, err := fileio.SHA256(file)
		if err != nil {
			return "", nil, err
		}
		if sum != r.SHA256 {
			return "", nil, fmt.Errorf(
				"%s has SHA-256 %s, not %s as provenance.json says: restore it, or record the set "+
					"again",
				file, sum, r.SHA256,
			)
		}
	}
	all := assets.Library{Routes: append([]string{set.Routes()}, l.Routes...)}
	jobs, err = tinyphysics.GoldenJobs(set, func(name string) (*lockstep.Route, error) {
		path, err := all.Route(name, sums[name])
		if err == nil && path == "" {
			err = lacking(
				"route %s of SHA-256 %s is not here: set LOCKSTEP_ASSETS, or name its folder "+
					"with --data_path",
				name, sums[name],
			)
		}
		if err != nil {
			return nil, err
		}
		return routefile.Loader{Profile: set.Profile}.Load(path)
	})
	return modelPath, jobs, err
}

// lacking is the error of a comparison for want of an asset.
func lacking(format string, args ...any) error {
	return &want.Error{Want: want.Assets, Reason: fmt.Errorf(format, args...)}
}
