package runs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"lockstep"
	"lockstep/engines"
	"lockstep/internal/fileio"
	"lockstep/internal/routecache"
	"lockstep/policyfile"
	"lockstep/pycontroller"
)

// inputsName is the file of a plan's inputs.
const inputsName = "inputs.json"

// Inputs say where a plan's contents are, so that a shard needs nothing but the folder
// of its plan and a number. Another machine may have them elsewhere: the plan says
// whether they are the same.
type Inputs struct {
	Model       string        `json:"model"`
	Data        []string      `json:"data"`  // files, and folders of them
	Limit       int           `json:"limit"` // of each folder, -1 for all
	SeedPrefix  string        `json:"seed_prefix"`
	Engine      string        `json:"engine"`
	Profile     string        `json:"profile"`     // of lockstep.Profile, never "host"
	Controllers []string      `json:"controllers"` // names of policies, policy files, Python files
	Python      string        `json:"python,omitempty"`
	Timeout     time.Duration `json:"timeout,omitempty"` // of Python controllers
	Memory      int64         `json:"memory,omitempty"`
}

// Opened is what inputs describe, ready to run.
type Opened struct {
	Simulator lockstep.Simulator
	Jobs      []lockstep.Job // all rollouts, in the plan's order
	Plan      *Plan
	Notices   []string

	inputs Inputs // with absolute paths
	close  []func() error
}

// Close ends engine and controllers.
func (o *Opened) Close() error {
	var err error
	for _, c := range o.close {
		err = errors.Join(err, c())
	}
	return err
}

// Open loads what the inputs describe and makes their plan. A route that cannot be
// loaded is an error.
func (in Inputs) Open(ctx context.Context, workers int) (*Opened, error) {
	return in.openPart(ctx, workers, nil, 0, 0)
}

// openPart loads no more than what the rollouts from ≤ i < to of a plan need, or all
// without a plan. Of the others the jobs have nothing, and the entries in the plan that
// it makes are believed.
func (in Inputs) openPart(ctx context.Context, workers int, plan *Plan, from, to int) (*Opened, error) {
	in, err := in.absolute()
	if err != nil {
		return nil, err
	}
	o := &Opened{inputs: in}
	needs := func(first, end int) bool { return plan == nil || first < to && from < end }
	if err := o.open(ctx, in, workers, plan, needs); err != nil {
		return nil, errors.Join(err, o.Close())
	}
	return o, nil
}

// open opens the parts one after the other; needs reports whether a range of rollouts
// is needed.
func (o *Opened) open(ctx context.Context, in Inputs, workers int, plan *Plan, needs func(first, end int) bool) error {
	profile, err := lockstep.ParseProfile(in.Profile)
	if err != nil {
		return err
	}
	if o.Simulator, o.Notices, err = engines.Choose(in.Engine, engines.Config{Model: in.Model, Profile: profile, Workers: workers}, true); err != nil {
		return err
	}
	o.close = append(o.close, func() error { return engines.Close(o.Simulator) })
	routes, entries, err := in.routes(ctx, profile, workers, plan, needs)
	if err != nil {
		return err
	}
	n := len(routes)
	var controllers []Controller
	for k, name := range in.Controllers {
		var policy lockstep.Policy
		var c Controller
		if needs(k*n, (k+1)*n) {
			if policy, err = o.policy(ctx, in, name); err != nil {
				return err
			}
			if c, err = NewController(policy); err != nil {
				return err
			}
		} else if k < len(plan.Controllers) {
			c = plan.Controllers[k]
		}
		controllers = append(controllers, c)
		for _, route := range routes {
			o.Jobs = append(o.Jobs, lockstep.Job{Route: route, Policy: policy})
		}
	}
	if o.Plan, err = NewPlan(o.Simulator, in.Model, controllers, entries); plan != nil && err == nil {
		o.Plan.Shards = plan.Shards
	}
	return err
}

// routes are the routes that are needed, nil for the others, and the entries of all.
func (in Inputs) routes(ctx context.Context, profile lockstep.Profile, workers int, plan *Plan, needs func(first, end int) bool) (routes []*lockstep.Route, entries []Route, err error) {
	var files []string
	for _, path := range in.Data {
		found, err := lockstep.RouteFiles(path, in.Limit)
		if err != nil {
			return nil, nil, err
		}
		files = append(files, found...)
	}
	routes, entries = make([]*lockstep.Route, len(files)), make([]Route, len(files))
	var some []string // of the files
	var at []int      // their places
	for i, file := range files {
		if entries[i].Name = lockstep.RouteName(file); plan != nil && i < len(plan.Routes) && plan.Routes[i].Name == entries[i].Name {
			entries[i] = plan.Routes[i]
		}
		for k := range in.Controllers {
			if j := k*len(files) + i; needs(j, j+1) {
				some, at = append(some, file), append(at, i)
				break
			}
		}
	}
	loaded, errs, _ := routecache.Cache{Loader: lockstep.Loader{Profile: profile, SeedPrefix: in.SeedPrefix}, Workers: workers}.Load(ctx, some)
	for k, i := range at {
		if errs[k] == nil {
			routes[i], entries[i] = loaded[k], PlanRoute(loaded[k])
		}
	}
	return routes, entries, errors.Join(errs...)
}

func (o *Opened) policy(ctx context.Context, in Inputs, name string) (lockstep.Policy, error) {
	switch {
	case policyfile.IsFile(name):
		return policyfile.Load(name)
	case filepath.Ext(name) == ".py":
		c, err := pycontroller.New(ctx, pycontroller.Options{File: name, Python: in.Python, Timeout: in.Timeout, Memory: in.Memory})
		if err != nil {
			return nil, err
		}
		o.close = append(o.close, c.Close)
		return c.Policy(), nil
	}
	return lockstep.ParsePolicy(name)
}

// absolute makes the paths of files absolute, so that they are found from any folder.
func (in Inputs) absolute() (Inputs, error) {
	absolute := func(path *string) error {
		p, err := filepath.Abs(*path)
		*path = p
		return err
	}
	err := absolute(&in.Model)
	in.Data, in.Controllers = append([]string(nil), in.Data...), append([]string(nil), in.Controllers...)
	for i := range in.Data {
		err = errors.Join(err, absolute(&in.Data[i]))
	}
	for i, name := range in.Controllers {
		if policyfile.IsFile(name) || filepath.Ext(name) == ".py" {
			err = errors.Join(err, absolute(&in.Controllers[i]))
		}
	}
	return in, err
}

func (in Inputs) write(dir string) error {
	text, err := json.MarshalIndent(in, "", " ")
	if err != nil {
		return err
	}
	return fileio.WriteFile(filepath.Join(dir, inputsName), append(text, '\n'))
}

// NewPlan is the plan of all routes under each controller.
func NewPlan(sim lockstep.Simulator, model string, controllers []Controller, routes []Route) (*Plan, error) {
	sum, err := fileio.SHA256(model)
	return &Plan{Version: Version, Model: sum, Profile: sim.Profile(), Engine: sim.Name(), Build: build(sim), Controllers: controllers, Routes: routes}, err
}

// PlanRoutes are loaded routes' entries in a plan.
func PlanRoutes(routes []*lockstep.Route) (entries []Route) {
	for _, route := range routes {
		entries = append(entries, PlanRoute(route))
	}
	return entries
}

// NewController is a policy's entry in a plan. The name of a policy holds what it is
// made of, but for one that is written in Python, which is in a file.
func NewController(p lockstep.Policy) (c Controller, err error) {
	c.Name = p.String()
	if b, ok := p.(*lockstep.Batch); ok {
		c.SHA256, err = hashPython(b.File)
	}
	return c, err
}

// hashPython hashes a controller's file and all Python beside it, since it may import
// that.
func hashPython(file string) (string, error) {
	entries, err := os.ReadDir(filepath.Dir(file)) // in the order of their names
	if err != nil {
		return "", err
	}
	h := sha256.New()
	for _, e := range entries {
		if e.IsDir() || filepath.Ext(e.Name()) != ".py" {
			continue
		}
		sum, err := fileio.SHA256(filepath.Join(filepath.Dir(file), e.Name()))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s %s\n", sum, e.Name())
	}
	fmt.Fprintln(h, filepath.Base(file))
	return hex.EncodeToString(h.Sum(nil)), nil
}

// build says what the engine is made of, and from which sources: a program's version
// has the revision, and whether there were changes.
func build(sim lockstep.Simulator) string {
	text := engines.Identity(sim)
	if info, ok := debug.ReadBuildInfo(); ok {
		text += ", " + info.GoVersion + ", " + info.Main.Path + " " + info.Main.Version
	}
	return text
}
