package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"lockstep"
	"lockstep/golden"
	"lockstep/internal/assets"
	"lockstep/reference"
)

// simulatorFlags choose what is simulated, and by which engine.
type simulatorFlags struct {
	ModelPath  string `name:"model_path" placeholder:"FILE" help:"The network, an ONNX file. Default: tinyphysics.onnx from the assets."`
	DataPath   string `name:"data_path" placeholder:"FILE|DIR" help:"A route, or a folder of routes (CSV). Default: the routes of the assets."`
	NumSegs    int    `name:"num_segs" default:"100" help:"At most this many routes of a folder, in the order of their names."`
	Controller string `name:"controller" default:"pid" enum:"zero,pid" help:"The controller: ${enum}."`
	PID        string `name:"pid" placeholder:"P,I,D" help:"Gains of the pid controller. Default: 0.195,0.1,-0.053."`
	Engine     string `name:"engine" default:"auto" enum:"auto,reference" help:"The implementation: ${enum}."`
	Profile    string `name:"profile" default:"host" help:"Arithmetic to compute with, such as ort1.30-avx512-expU-sinfma-csv2; host is that of Python on this machine."`
	SeedPrefix string `name:"seed_prefix" default:"data" help:"Folder in the path that seeds the random draws: <seed_prefix>/<file name>."`
}

// simulation is what the flags describe, loaded.
type simulation struct {
	simulator lockstep.Simulator
	policy    lockstep.Policy
	routes    []*lockstep.Route
	failed    []error // routes that could not be loaded
}

func (f *simulatorFlags) load() (*simulation, error) {
	s := &simulation{}
	var err error
	profile := reference.HostProfile()
	if f.Profile != "host" {
		if profile, err = lockstep.ParseProfile(f.Profile); err != nil {
			return nil, err
		}
	}
	if s.policy, err = f.policy(); err != nil {
		return nil, err
	}
	if f.NumSegs < 1 {
		return nil, fmt.Errorf("--num_segs %d: want 1 or more", f.NumSegs)
	}
	modelPath, err := orAsset(f.ModelPath, assets.Model)
	if err != nil {
		return nil, err
	}
	dataPath, err := orAsset(f.DataPath, assets.Routes)
	if err != nil {
		return nil, err
	}
	if s.simulator, err = reference.New(modelPath, profile); err != nil {
		return nil, err
	}
	files, err := lockstep.RouteFiles(dataPath, f.NumSegs)
	if err != nil {
		return nil, err
	}
	loader := lockstep.Loader{Profile: profile, SeedPrefix: f.SeedPrefix}
	for _, file := range files {
		route, err := loader.Load(file)
		if err != nil {
			s.failed = append(s.failed, err)
			continue
		}
		s.routes = append(s.routes, route)
	}
	return s, nil
}

func orAsset(path, asset string) (string, error) {
	if path != "" {
		return path, nil
	}
	return assets.Find(asset)
}

func (f *simulatorFlags) policy() (lockstep.Policy, error) {
	if f.Controller == "zero" {
		if f.PID != "" {
			return nil, errors.New("--pid goes with --controller pid")
		}
		return lockstep.Zero{}, nil
	}
	if f.PID == "" {
		return lockstep.DefaultPID, nil
	}
	return parsePID(f.PID)
}

func parsePID(text string) (lockstep.PID, error) {
	words := strings.Split(text, ",")
	if len(words) != 3 {
		return lockstep.PID{}, fmt.Errorf("--pid %q: want three gains, such as 0.195,0.1,-0.053", text)
	}
	var gains [3]float64
	for i, word := range words {
		x, err := strconv.ParseFloat(strings.TrimSpace(word), 64)
		if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
			return lockstep.PID{}, fmt.Errorf("--pid %q: %q is not a finite number", text, word)
		}
		gains[i] = x
	}
	return lockstep.PID{P: gains[0], I: gains[1], D: gains[2]}, nil
}

type rolloutCommand struct {
	simulatorFlags
	JSON  bool   `name:"json" help:"Print one JSON object a line: one for each route, then a summary."`
	Trace string `name:"trace" placeholder:"FILE.npz" help:"Write every stage of every step, in the format of the goldens."`
}

// Run is the rollout command.
func (c *rolloutCommand) Run(env *environment) error {
	s, err := c.load()
	if err != nil {
		return err
	}
	for _, err := range s.failed {
		fmt.Fprintf(env.stderr, "lockstep: %v\n", err)
	}

	options := lockstep.Options{Shortcuts: lockstep.CostOnly}
	jobs := make([]lockstep.Job, len(s.routes))
	recordings := make([]*golden.Recording, len(s.routes))
	for i, route := range s.routes {
		jobs[i] = lockstep.Job{Route: route, Policy: s.policy}
		if c.Trace != "" {
			recordings[i] = golden.Record(route)
			jobs[i].Observe = recordings[i].Observe
			options.Shortcuts = lockstep.AllSteps
		}
	}

	start := time.Now()
	results := make([]lockstep.Result, len(jobs))
	ran := make([]bool, len(jobs))
	bar := newProgress(env.stderr, len(jobs))
	for i, result := range s.simulator.Simulate(env.ctx, jobs, options) {
		results[i], ran[i] = result, result.Err == nil
		bar.Add(1)
		if errors.Is(result.Err, context.Canceled) {
			break
		}
	}
	bar.Clear()
	seconds := time.Since(start).Seconds()

	var costs []lockstep.Costs
	var traced []*golden.Recording
	failed := len(s.failed)
	stdout := &stickyWriter{w: env.stdout}
	out := c.printer(stdout, s)
	for i := range jobs {
		switch {
		case ran[i]:
			costs = append(costs, results[i].Costs)
			if c.Trace != "" {
				recordings[i].Costs = results[i].Costs
				traced = append(traced, recordings[i])
			}
			out.route(s.routes[i].Name, results[i].Costs)
		case results[i].Err != nil && !errors.Is(results[i].Err, context.Canceled):
			failed++
			fmt.Fprintf(env.stderr, "lockstep: %v\n", results[i].Err)
		}
	}
	if len(costs) > 0 {
		out.summary(len(costs), reference.MeanCosts(costs), seconds)
	}
	if c.Trace != "" && len(traced) > 0 {
		if err := golden.WriteFile(c.Trace, traced...); err != nil {
			return fmt.Errorf("--trace %s: %w", c.Trace, err)
		}
	}
	if stdout.err != nil {
		return stdout.err
	}
	switch {
	case env.ctx.Err() != nil:
		fmt.Fprintf(env.stderr, "lockstep: interrupted after %d of %d routes\n", len(costs), len(jobs))
		return exitStatus(exitInterrupted)
	case failed > 0:
		fmt.Fprintf(env.stderr, "lockstep: %d of %d routes failed\n", failed, len(s.failed)+len(jobs))
		return exitStatus(exitUsage)
	}
	return nil
}

// stickyWriter keeps the first error of its writer, and writes nothing after it.
type stickyWriter struct {
	w   io.Writer
	err error
}

func (w *stickyWriter) Write(p []byte) (n int, err error) {
	if w.err == nil {
		n, w.err = w.w.Write(p)
	}
	return n, w.err
}

// printer prints the outcome of a rollout for people or for programs.
type printer interface {
	route(name string, c lockstep.Costs)
	summary(routes int, mean lockstep.Costs, seconds float64)
}

func (c *rolloutCommand) printer(w io.Writer, s *simulation) printer {
	if !c.JSON {
		return textPrinter{w}
	}
	return jsonPrinter{json: json.NewEncoder(w), line: jsonRoute{
		Controller: c.Controller,
		Engine:     s.simulator.Name(),
		Profile:    s.simulator.Profile(),
	}}
}

// textPrinter prints costs as the Python program does.
type textPrinter struct{ w io.Writer }

func (p textPrinter) route(name string, c lockstep.Costs) {
	fmt.Fprintf(p.w, "%s  lataccel_cost: %s, jerk_cost: %s, total_cost: %s\n", name, python64(c.Lataccel), python64(c.Jerk), python64(c.Total))
}

func (p textPrinter) summary(_ int, c lockstep.Costs, _ float64) {
	fmt.Fprintf(p.w, "\nAverage lataccel_cost: %s, average jerk_cost: %s, average total_cost: %s\n", python64(c.Lataccel), python64(c.Jerk), python64(c.Total))
}

type jsonPrinter struct {
	json *json.Encoder
	line jsonRoute
}

type jsonRoute struct {
	Route      string           `json:"route"`
	Controller string           `json:"controller"`
	Engine     string           `json:"engine"`
	Profile    lockstep.Profile `json:"profile"`
	jsonCosts
}

type jsonCosts struct {
	Lataccel jsonFloat `json:"lataccel_cost"`
	Jerk     jsonFloat `json:"jerk_cost"`
	Total    jsonFloat `json:"total_cost"`
}

// jsonFloat is null where JSON has no number: the jerk cost of a route with one
// step that costs is NaN.
type jsonFloat float64

func (x jsonFloat) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(x))
}

func toJSON(c lockstep.Costs) jsonCosts {
	return jsonCosts{jsonFloat(c.Lataccel), jsonFloat(c.Jerk), jsonFloat(c.Total)}
}

func (p jsonPrinter) route(name string, c lockstep.Costs) {
	p.line.Route, p.line.jsonCosts = name, toJSON(c)
	p.json.Encode(p.line)
}

func (p jsonPrinter) summary(routes int, mean lockstep.Costs, seconds float64) {
	p.json.Encode(struct {
		Routes  int       `json:"routes"`
		Mean    jsonCosts `json:"mean"`
		Seconds float64   `json:"seconds"`
	}{routes, toJSON(mean), seconds})
}

// newProgress is a progress bar on a terminal, and nothing elsewhere.
func newProgress(w io.Writer, n int) *progressbar.ProgressBar {
	f, ok := w.(*os.File)
	return progressbar.NewOptions(n,
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetVisibility(ok && term.IsTerminal(int(f.Fd()))),
		progressbar.OptionShowCount(),
		progressbar.OptionShowIts(),
		progressbar.OptionSetItsString("routes"),
		progressbar.OptionThrottle(100*time.Millisecond),
	)
}
