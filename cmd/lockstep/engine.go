package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"lockstep"
	"lockstep/defaults"
	"lockstep/gpu"
	"lockstep/gpu/driver"
	"lockstep/gpu/driver/emulated"
	"lockstep/internal/assets"
	"lockstep/internal/routecache"
	"lockstep/onnxruntime"
	"lockstep/parity/gate"
	"lockstep/reference"
)

// inputFlags choose what is simulated, and with which arithmetic.
type inputFlags struct {
	ModelPath  string `name:"model_path" placeholder:"FILE" help:"The network, an ONNX file. Default: tinyphysics.onnx from the assets."`
	DataPath   string `name:"data_path" placeholder:"FILE|DIR" help:"A route, or a folder of routes (CSV). Default: the routes of the assets."`
	Own        bool   `name:"own" help:"The project's own network and routes, whatever else is here."`
	NumSegs    int    `name:"num_segs" default:"100" help:"At most this many routes of a folder, in the order of their names."`
	Workers    int    `name:"workers" placeholder:"N" help:"Cores that an engine for many routes uses. Default: all."`
	Profile    string `name:"profile" default:"host" help:"Arithmetic to compute with, such as ort1.30-avx512-expU-sinfma-csv2; host is that of Python on this machine."`
	SeedPrefix string `name:"seed_prefix" default:"data" help:"Folder in the path that seeds the random draws: <seed_prefix>/<file name>."`
	NoCache    bool   `name:"no-cache" help:"Do not keep parsed routes in the user's cache folder."`
}

// simulatorFlags choose what is simulated, and by which engine.
type simulatorFlags struct {
	inputFlags
	Engine string `name:"engine" default:"auto" enum:"auto,${engines}" help:"The implementation: ${enum}. auto is the fastest that can run here; emulated is the gpu engine's kernels on the CPU."`

	timed bool // the engine takes times for Stats
}

// engine is an implementation of lockstep.Simulator.
type engine struct {
	name string

	// lacks is what is missing where the engine cannot run: one of gate.Wants.
	lacks string

	// tried tells whether the engine is tried where none is asked for by name.
	tried func() bool

	// open makes a simulator and a function that ends its use.
	open func(engineConfig) (lockstep.Simulator, func() error, error)
}

// engineConfig is what an engine is opened with. It may compute with another
// profile than is asked for, if its arithmetic is its machine's.
type engineConfig struct {
	modelPath string
	profile   lockstep.Profile
	workers   int // threads; 0 is the engine's choice
	chunk     int // the most routes in step; 0 is the engine's choice
	timed     bool
}

// engines are all implementations: first the one that others are held to, last the
// one that is tried first where none is asked for.
var engines = []engine{
	{"reference", gate.WantAssets, always, openReference},
	{"emulated", gate.WantCompiler, never, openEmulated},
	{"onnxruntime", gate.WantONNXRuntime, always, openONNXRuntime},
	{"gpu", gate.WantGPU, hasGPU, openGPU},
}

func always() bool { return true }

// never is for an engine that proves something and is of no other use.
func never() bool { return false }

// hasGPU lets who has no GPU hear nothing of one.
func hasGPU() bool { return gpu.Available() == nil }

func openReference(c engineConfig) (lockstep.Simulator, func() error, error) {
	r, err := reference.New(c.modelPath, c.profile)
	return r, nothing, err
}

func openONNXRuntime(c engineConfig) (lockstep.Simulator, func() error, error) {
	b, err := onnxruntime.New(onnxruntime.Config{ModelPath: c.modelPath, Workers: c.workers, Chunk: c.chunk, Profile: c.profile})
	if err != nil {
		return nil, nil, err
	}
	return b, b.Close, nil
}

func openGPU(c engineConfig) (lockstep.Simulator, func() error, error) {
	g, err := gpu.New(c.gpu())
	if err != nil {
		return nil, nil, err
	}
	return g, g.Close, nil
}

// emulatedGPU is the gpu engine with its kernels on the CPU.
type emulatedGPU struct{ *gpu.Simulator }

func (emulatedGPU) Name() string { return "emulated" }

func openEmulated(c engineConfig) (lockstep.Simulator, func() error, error) {
	config := c.gpu()
	config.Open = func() (driver.Device, error) { return emulated.Open(emulated.Options{Processors: c.workers}) }
	g, err := gpu.New(config)
	if err != nil {
		return nil, nil, err
	}
	return emulatedGPU{g}, g.Close, nil
}

func (c engineConfig) gpu() gpu.Config {
	perBlock := min(c.chunk, 6)
	if perBlock == 3 { // there are kernels for 1, 2, 4, 5 and 6 routes
		perBlock = 2
	}
	return gpu.Config{ModelPath: c.modelPath, Profile: c.profile, RoutesPerBlock: perBlock, Timed: c.timed}
}

// engineNames are the names of all engines.
func engineNames() (names []string) {
	for _, e := range engines {
		names = append(names, e.name)
	}
	return names
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
	s.loadRoutes(env, &f.inputFlags, files)
	return s, nil
}

// loadRoutes loads routes for the simulator's profile. Those that cannot be loaded
// are told to the user and kept in failed.
func (s *simulation) loadRoutes(env *environment, f *inputFlags, files []string) {
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
}

// inputs are the paths of the model and of the routes: those given, else the
// assets, else the project's own.
func (f *inputFlags) inputs(env *environment) (modelPath, dataPath string, err error) {
	if f.Own {
		if f.ModelPath != "" || f.DataPath != "" {
			return "", "", errors.New("--own goes without --model_path and --data_path")
		}
		return writeOwn()
	}
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

// profile is the profile asked for, and whether one was.
func (f *inputFlags) profile() (p lockstep.Profile, asked bool, err error) {
	if f.Profile == "host" {
		return reference.HostProfile(), false, nil
	}
	p, err = lockstep.ParseProfile(f.Profile)
	return p, true, err
}

// simulator makes the engine that the flags ask for. Without one it is the last that
// can run, and the user is told why others cannot.
func (f *simulatorFlags) simulator(env *environment, modelPath string) (lockstep.Simulator, func() error, error) {
	profile, asked, err := f.profile()
	if err != nil {
		return nil, nil, err
	}
	var absent []string
	for i := len(engines) - 1; i >= 0; i-- {
		e := engines[i]
		if f.Engine != e.name && (f.Engine != "auto" || !e.tried()) {
			continue
		}
		sim, closer, failed := e.open(engineConfig{modelPath: modelPath, profile: profile, workers: f.Workers, timed: f.timed})
		if failed == nil && asked && sim.Profile() != profile {
			failed = fmt.Errorf("the %s engine computes with profile %s on this machine, not %s", e.name, sim.Profile(), profile)
			closer()
		}
		if failed == nil {
			if n, ok := sim.(interface{ Notices() []string }); ok {
				for _, notice := range n.Notices() {
					fmt.Fprintf(env.stderr, "lockstep: %s\n", notice)
				}
			}
			if len(absent) > 0 {
				fmt.Fprintf(env.stderr, "lockstep: using the %s engine, since %s\n", e.name, strings.Join(absent, ", and "))
			}
			return sim, closer, nil
		}
		if f.Engine == e.name || i == 0 {
			return nil, nil, failed
		}
		absent = append(absent, fmt.Sprintf("the %s one cannot run: %v", e.name, failed))
	}
	return nil, nil, fmt.Errorf("--engine %s: want one of %s", f.Engine, strings.Join(engineNames(), ", "))
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
