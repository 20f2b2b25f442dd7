package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"lockstep"
	"lockstep/batched"
	"lockstep/defaults"
	"lockstep/internal/assets"
	"lockstep/internal/routecache"
	"lockstep/reference"
)

// simulatorFlags choose what is simulated, and by which engine.
type simulatorFlags struct {
	ModelPath  string `name:"model_path" placeholder:"FILE" help:"The network, an ONNX file. Default: tinyphysics.onnx from the assets."`
	DataPath   string `name:"data_path" placeholder:"FILE|DIR" help:"A route, or a folder of routes (CSV). Default: the routes of the assets."`
	NumSegs    int    `name:"num_segs" default:"100" help:"At most this many routes of a folder, in the order of their names."`
	Engine     string `name:"engine" default:"auto" enum:"auto,reference,batched" help:"The implementation: ${enum}. auto is batched where it can run."`
	Workers    int    `name:"workers" placeholder:"N" help:"Cores that the batched engine uses. Default: all."`
	Profile    string `name:"profile" default:"host" help:"Arithmetic to compute with, such as ort1.30-avx512-expU-sinfma-csv2; host is that of Python on this machine."`
	SeedPrefix string `name:"seed_prefix" default:"data" help:"Folder in the path that seeds the random draws: <seed_prefix>/<file name>."`
	NoCache    bool   `name:"no-cache" help:"Do not keep parsed routes in the user's cache folder."`
}

// simulation is what the flags describe, loaded.
type simulation struct {
	simulator lockstep.Simulator
	modelPath string
	dataPath  string
	routes    []*lockstep.Route
	failed    []failedRoute
	closers   []func() error
}

// failedRoute is a route that could not be loaded.
type failedRoute struct {
	name string
	err  error
}

func (s *simulation) close() {
	for _, c := range s.closers {
		c()
	}
}

// load makes the simulator and loads the routes. What a user should know but is
// no error goes to stderr.
func (f *simulatorFlags) load(env *environment) (*simulation, error) {
	if f.NumSegs < 1 {
		return nil, fmt.Errorf("--num_segs %d: want 1 or more", f.NumSegs)
	}
	s := &simulation{}
	var err error
	if s.modelPath, s.dataPath, err = f.inputs(env); err != nil {
		return nil, err
	}
	files, err := lockstep.RouteFiles(s.dataPath, f.NumSegs)
	if err != nil {
		return nil, err
	}
	var closer func() error
	if s.simulator, closer, err = f.simulator(env, s.modelPath); err != nil {
		return nil, err
	}
	s.closers = append(s.closers, closer)
	cache := routecache.Cache{Loader: lockstep.Loader{Profile: s.simulator.Profile(), SeedPrefix: f.SeedPrefix}}
	if len(files) > 1 && !f.NoCache {
		cache.Dir, _ = routecache.DefaultDir() // without a home there is no cache
	}
	routes, errs, stats := cache.Load(files)
	if stats.Problem != nil {
		fmt.Fprintf(env.stderr, "lockstep: %v\n", stats.Problem)
	}
	for i, file := range files {
		if errs[i] != nil {
			fmt.Fprintf(env.stderr, "lockstep: %v\n", errs[i])
			s.failed = append(s.failed, failedRoute{strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)), errs[i]})
		} else {
			s.routes = append(s.routes, routes[i])
		}
	}
	return s, nil
}

// inputs are the paths of the model and of the routes: those given, else the
// assets, else the project's own.
func (f *simulatorFlags) inputs(env *environment) (modelPath, dataPath string, err error) {
	modelPath, dataPath = f.ModelPath, f.DataPath
	var noModel, noRoutes error
	if modelPath == "" {
		modelPath, noModel = assets.Find(assets.Model)
	}
	if dataPath == "" {
		dataPath, noRoutes = assets.Find(assets.Routes)
	}
	if noModel == nil && noRoutes == nil {
		return modelPath, dataPath, nil
	}
	if os.Getenv("LOCKSTEP_ASSETS") != "" { // these and no others were asked for
		return "", "", cmp.Or(noModel, noRoutes)
	}
	ownModel, ownRoutes, err := writeOwn()
	if err != nil {
		return "", "", err
	}
	if noModel != nil {
		modelPath = ownModel
		fmt.Fprintln(env.stderr, "lockstep: using the project's own network, since the challenge's is not here (make assets): costs are not comparable with the challenge's")
	}
	if noRoutes != nil {
		dataPath = ownRoutes
		fmt.Fprintln(env.stderr, "lockstep: using generated routes, since no others are given (--data_path)")
	}
	return modelPath, dataPath, nil
}

// writeOwn writes the project's own network and routes to the user's cache
// folder and returns their paths.
func writeOwn() (modelPath, routesPath string, err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", "", err
	}
	return defaults.Write(filepath.Join(cache, "lockstep", "defaults"))
}

// simulator makes the engine that the flags ask for.
func (f *simulatorFlags) simulator(env *environment, modelPath string) (lockstep.Simulator, func() error, error) {
	profile := reference.HostProfile()
	if f.Profile != "host" {
		var err error
		if profile, err = lockstep.ParseProfile(f.Profile); err != nil {
			return nil, nil, err
		}
	}
	var notBatched error
	if f.Engine != "reference" {
		var b *batched.Simulator
		if b, notBatched = f.batched(modelPath, profile); notBatched == nil {
			for _, notice := range b.Notices() {
				fmt.Fprintf(env.stderr, "lockstep: %s\n", notice)
			}
			return b, b.Close, nil
		}
		if f.Engine == "batched" {
			return nil, nil, notBatched
		}
	}
	r, err := reference.New(modelPath, profile)
	if err != nil {
		return nil, nil, err
	}
	if notBatched != nil {
		fmt.Fprintf(env.stderr, "lockstep: using the reference engine, since the batched one cannot run: %v\n", notBatched)
	}
	return r, func() error { return nil }, nil
}

// batched makes the batched engine, if its arithmetic is the one asked for.
func (f *simulatorFlags) batched(modelPath string, profile lockstep.Profile) (*batched.Simulator, error) {
	b, err := batched.New(batched.Config{ModelPath: modelPath, Workers: f.Workers, Profile: profile})
	if err != nil {
		return nil, err
	}
	if f.Profile != "host" && b.Profile() != profile {
		b.Close()
		return nil, fmt.Errorf("ONNX Runtime computes with profile %s on this machine, not %s", b.Profile(), profile)
	}
	return b, nil
}

func orAsset(path, asset string) (string, error) {
	if path != "" {
		return path, nil
	}
	return assets.Find(asset)
}

// jobs are all rollouts: for each policy all routes.
func (s *simulation) jobs(policies []lockstep.Policy) []lockstep.Job {
	var jobs []lockstep.Job
	for _, policy := range policies {
		for _, route := range s.routes {
			jobs = append(jobs, lockstep.Job{Route: route, Policy: policy})
		}
	}
	return jobs
}

// simulate runs the jobs under a progress bar. Jobs that an interruption keeps
// from finishing have its error.
func (s *simulation) simulate(env *environment, jobs []lockstep.Job, options lockstep.Options) []lockstep.Result {
	results := make([]lockstep.Result, len(jobs))
	bar := newProgress(env.stderr, len(jobs))
	for i, result := range s.simulator.Simulate(env.ctx, jobs, options) {
		results[i] = result
		bar.Add(1)
	}
	bar.Clear()
	return results
}
