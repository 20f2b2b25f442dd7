package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"lockstep"
	"lockstep/cmd/internal/report"
	"lockstep/cmd/internal/runs"
	"lockstep/engines"
	"lockstep/internal/assets"
	"lockstep/internal/defaults"
	"lockstep/internal/f32"
	"lockstep/internal/figures"
	"lockstep/internal/installed"
	"lockstep/internal/model"
	"lockstep/internal/routecache"
	"lockstep/routefile"
)

// pathFlags choose what is simulated.
type pathFlags struct {
	ModelPath string `name:"model_path" io:"in" placeholder:"FILE|own" help:"The network, an ONNX file, or own for the project's. Default: tinyphysics.onnx from the assets, else the project's own."`
	DataPath  string `name:"data_path" io:"in" placeholder:"FILE|DIR|own" help:"A route, a folder of routes (CSV), or own for the project's. Default: the routes of the assets, else the project's own."`
	Own       bool   `name:"own" help:"The project's own network, whatever else is here, and its own routes unless --data_path names others."`
}

// inputFlags choose what is simulated, and with which arithmetic.
type inputFlags struct {
	pathFlags
	NumSegs    int    `name:"num_segs" default:"100" help:"At most this many routes of a folder, in the order of their names."`
	Workers    int    `name:"workers" family:"every" placeholder:"N" help:"Cores that an engine for many routes uses. Default: all."`
	Profile    string `name:"profile" default:"host" help:"Arithmetic to compute with, such as ort1.30-avx512-expU-sinfma-csv2. host is that of Python on this machine, which is asked; pins is that of the challenge's pinned packages on this CPU."`
	SeedPrefix string `name:"seed_prefix" default:"data" help:"Folder in the path that seeds the random draws: <seed_prefix>/<file name>."`
	NoCache    bool   `name:"no-cache" family:"every" help:"Do not keep parsed routes in the user's cache folder."`
}

// simulatorFlags choose what is simulated, and by which engine.
type simulatorFlags struct {
	inputFlags
	Engine string `name:"engine" family:"every" default:"auto" enum:"auto,${engines}" help:"The implementation: ${enum}. auto is the fastest that can run here; emulated is the gpu engine's kernels on the CPU."`

	Kernels string `name:"kernels" placeholder:"SET" help:"Kernels of reference and batched: avx512, avx2, neon, or go, the plain loops that the others are held to. Default: the best that this CPU runs."`

	timed bool // the engine takes times for Stats
}

// simulation is what the flags describe, loaded.
type simulation struct {
	simulator lockstep.Implementation
	modelPath string
	dataPath  string
	routes    []*lockstep.Route
	failed    []report.RouteResult // routes that could not be loaded
	counts    figures.Meter
}

// load makes the simulator and loads the routes. What a user should know but is
// no error goes to stderr.
func (f *simulatorFlags) load(env *environment) (*simulation, error) {
	return f.inputFlags.load(env, f.files, f.simulator)
}

// load makes a simulator, and loads the routes unless there is none.
func (f *inputFlags) load(
	env *environment, files func(string) ([]string, error),
	simulator func(*environment, string) (lockstep.Implementation, error),
) (s *simulation, err error) {
	s = &simulation{}
	if s.modelPath, s.dataPath, err = f.inputs(env); err != nil {
		return nil, err
	}
	paths, err := files(s.dataPath)
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	if s.simulator, err = simulator(env, s.modelPath); err != nil || s.simulator == nil {
		return s, err
	}
	s.counts.Opened(begin)
	return s, s.loadRoutes(env, f, paths)
}

// files are those of the routes that the flags choose.
func (f *inputFlags) files(dataPath string) ([]string, error) {
	if f.NumSegs < 1 {
		return nil, fmt.Errorf("--num_segs %d: want 1 or more", f.NumSegs)
	}
	return routefile.List(dataPath, f.NumSegs)
}

// loadRoutes loads routes for the simulator's profile. Those that cannot be loaded
// are told to the user and kept in failed. The error is of an interruption.
func (s *simulation) loadRoutes(env *environment, f *inputFlags, files []string) error {
	cache := routecache.Cache{
		Loader: routefile.Loader{Profile: s.simulator.Profile(), SeedPrefix: f.SeedPrefix},
	}
	if len(files) > 1 && !f.NoCache {
		cache.UseDefault()
	}
	begin := time.Now()
	routes, errs, stats := cache.Load(env.ctx, files)
	if stats.Problem != nil {
		fmt.Fprintf(env.stderr, "lockstep: %v\n", stats.Problem)
	}
	if env.ctx.Err() != nil {
		return env.interrupted("routes were being loaded")
	}
	for i, file := range files {
		if errs[i] != nil {
			fmt.Fprintf(env.stderr, "lockstep: %v\n", errs[i])
			s.failed = append(
				s.failed,
				report.RouteResult{
					Name:   routefile.Name(file),
					Result: lockstep.Result{Err: errs[i]},
				},
			)
		} else {
			s.routes = append(s.routes, routes[i])
		}
	}
	s.counts.Loaded(begin, len(s.routes))
	return nil
}

// inputs are the paths of the model and of the routes: those given, else the
// assets, else the project's own.
func (f *pathFlags) inputs(env *environment) (modelPath, dataPath string, err error) {
	given := *f
	if f.Own {
		if f.ModelPath != "" {
			return "", "", errors.New(
				"--own is the project's network, and --model_path another: for the project's " +
					"routes with that, --data_path own",
			)
		}
		given.ModelPath, given.DataPath = ownFiles, cmp.Or(f.DataPath, ownFiles)
	}
	if err := given.ownPaths(); err != nil {
		return "", "", err
	}
	modelPath, noModel := orAsset(given.ModelPath, assets.Model)
	dataPath, noRoutes := orAsset(given.DataPath, assets.Routes)
	if lacks := cmp.Or(noModel, noRoutes); lacks != nil {
		if os.Getenv("LOCKSTEP_ASSETS") != "" { // these and no others were asked for
			return "", "", lacks
		}
		ownModel, ownRoutes, err := defaults.Keep()
		if err != nil {
			return "", "", err
		}
		modelPath, dataPath = cmp.Or(modelPath, ownModel), cmp.Or(dataPath, ownRoutes)
	}
	if noModel != nil {
		fmt.Fprintln(
			env.stderr,
			"lockstep: using the project's own network, since the challenge's is not here "+
				"(lockstep fetch model): costs are not comparable with the challenge's",
		)
	} else if given.ModelPath == "" { // that of the assets need not be what its name says
		if notice, foreign := model.Foreign(modelPath); foreign {
			fmt.Fprintln(env.stderr, "lockstep:", notice)
		}
	}
	if noRoutes != nil {
		fmt.Fprintln(
			env.stderr, "lockstep: using generated routes, since no others are given (--data_path)",
		)
	}
	return modelPath, dataPath, nil
}

// ownFiles stands for the project's own network or routes in place of a path.
const ownFiles = "own"

// ownPaths puts the project's own files where they are asked for.
func (f *pathFlags) ownPaths() error {
	if f.ModelPath != ownFiles && f.DataPath != ownFiles {
		return nil
	}
	model, routes, err := defaults.Keep()
	if f.ModelPath == ownFiles {
		f.ModelPath = model
	}
	if f.DataPath == ownFiles {
		f.DataPath = routes
	}
	return err
}

// profile is the profile asked for, and whether one was: else it is that of Python on this
// machine, and the user is told what is not known of that.
func (f *inputFlags) profile(env *environment) (p lockstep.Profile, asked bool, err error) {
	p, err = env.profile(f.Profile, "")
	return p, f.Profile != installed.Host, err
}

// profile is that of a name, as installed.Choose has it.
func (e *environment) profile(name, python string) (p lockstep.Profile, err error) {
	if p, e.found, err = installed.Choose(e.ctx, name, python); err != nil || e.found == nil {
		return p, err
	}
	e.computed = p
	for _, line := range e.found.Warnings() {
		fmt.Fprintf(e.stderr, "lockstep: %s\n", line)
	}
	return p, nil
}

// simulator makes the engine that the flags ask for. Without one it is the last that
// can run, and the user is told why others cannot.
func (f *simulatorFlags) simulator(
	env *environment, modelPath string,
) (lockstep.Implementation, error) {
	profile, asked, err := f.profile(env)
	if err != nil {
		return nil, err
	}
	if _, err := f32.Named(f.Kernels); err != nil { // before auto tries the engines that have none
		return nil, fmt.Errorf("--kernels: %w", err)
	}
	sim, notices, err := engines.Choose(
		f.Engine,
		engines.Config{
			Model:   modelPath,
			Profile: profile,
			Workers: f.Workers,
			Timed:   f.timed,
			Kernels: f.Kernels,
		},
		asked,
	)
	if err != nil {
		return nil, err
	}
	env.atEnd(func() { sim.Close() })
	env.computed = sim.Profile()
	if f.Kernels != "" && sim.About().Kernels == "" {
		return nil, fmt.Errorf(
			"--kernels %s: the %s engine has none to choose: take --engine reference or batched",
			f.Kernels, sim.Name(),
		)
	}
	for _, notice := range notices {
		fmt.Fprintf(env.stderr, "lockstep: %s\n", notice)
	}
	return sim, nil
}

func orAsset(path, asset string) (string, error) {
	if path != "" {
		return path, nil
	}
	return assets.Find(asset)
}

// loadWhole is load for a search, which would leave out routes that could not be loaded.
func (f *simulatorFlags) loadWhole(env *environment) (*simulation, error) {
	s, err := f.load(env)
	if err != nil {
		return nil, err
	}
	if len(s.failed) > 0 {
		return nil, fmt.Errorf(
			"%d routes could not be loaded, and a search would leave them out: mend them, or "+
				"take them out of %s",
			len(s.failed), s.dataPath,
		)
	}
	for _, r := range s.routes {
		if r.Len() == lockstep.MinRows {
			return nil, fmt.Errorf(
				"route %s has %d rows, one step that costs count, and so no jerk: its cost is "+
					"NaN, whatever a search finds; take it out of %s",
				r.Name, r.Len(), s.dataPath,
			)
		}
	}
	return s, nil
}

// jobs are all rollouts: for each policy all routes.
func (s *simulation) jobs(policies []lockstep.Policy) (jobs []lockstep.Job) {
	for _, policy := range policies {
		for _, route := range s.routes {
			jobs = append(jobs, lockstep.Job{Route: route, Policy: policy})
		}
	}
	return jobs
}

// simulate runs the jobs under a progress bar. Those that an interruption keeps from
// finishing have its error, and all have one that ends the whole run.
func (s *simulation) simulate(
	env *environment, jobs []lockstep.Job, options lockstep.Options,
) []lockstep.Result {
	results := slices.Repeat([]lockstep.Result{{Err: context.Canceled}}, len(jobs))
	if err := s.stream(env, &runs.Work{Jobs: jobs, Options: options},
		func(i int, result lockstep.Result) { results[i] = result }); err != nil {
		return slices.Repeat([]lockstep.Result{{Err: err}}, len(jobs))
	}
	return results
}
