package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"lockstep"
	"lockstep/engines"
	"lockstep/internal/fileio"
	"lockstep/internal/pycontroller"
	"lockstep/internal/routecache"
	"lockstep/policyfile"
	"lockstep/routefile"
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
	Sandbox     bool          `json:"sandbox,omitempty"`

	// Program is the file of the program that computes, if it is not that of the process.
	Program string `json:"-"`
}

// Opened is what inputs describe, ready to run.
type Opened struct {
	Simulator lockstep.Implementation
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
func (in Inputs) openPart(
	ctx context.Context, workers int, plan *Plan, from, to int,
) (*Opened, error) {
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
func (o *Opened) open(
	ctx context.Context, in Inputs, workers int, plan *Plan, needs func(first, end int) bool,
) error {
	profile, err := lockstep.ParseProfile(in.Profile)
	if err != nil {
		return err
	}
	if o.Simulator, o.Notices, err = engines.Choose(in.Engine,
		engines.Config{Model: in.Model, Profile: profile, Workers: workers}, true); err != nil {
		return err
	}
	o.close = append(o.close, o.Simulator.Close)
	routes, entries, err := in.routes(ctx, profile, workers, plan, needs)
	if err != nil {
		return err
	}
	n := len(routes)
	var controllers []PlannedController
	for k, name := range in.Controllers {
		var policy lockstep.Policy
		var c PlannedController
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
	if o.Plan, err = NewPlan(in.Program, o.Simulator, controllers, entries); plan != nil &&
		err == nil {
		o.Plan.Shards = plan.Shards
	}
	return err
}

// routes are the routes that are needed, nil for the others, and the entries of all.
func (in Inputs) routes(
	ctx context.Context, profile lockstep.Profile, workers int, plan *Plan,
	needs func(first, end int) bool,
) (routes []*lockstep.Route, entries []PlannedRoute, err error) {
	var files []string
	for _, path := range in.Data {
		found, err := routefile.List(path, in.Limit)
		if err != nil {
			return nil, nil, err
		}
		files = append(files, found...)
	}
	routes, entries = make([]*lockstep.Route, len(files)), make([]PlannedRoute, len(files))
	var some []string // of the files
	var at []int      // their places
	for i, file := range files {
		if entries[i].Name = routefile.Name(file); plan != nil && i < len(plan.Routes) &&
			plan.Routes[i].Name == entries[i].Name {
			entries[i] = plan.Routes[i]
		}
		for k := range in.Controllers {
			if j := k*len(files) + i; needs(j, j+1) {
				some, at = append(some, file), append(at, i)
				break
			}
		}
	}
	loaded, errs, _ := routecache.Cache{
		Loader:  routefile.Loader{Profile: profile, SeedPrefix: in.SeedPrefix},
		Workers: workers,
	}.Load(ctx, some)
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
		c, err := pycontroller.New(ctx, in.python(name))
		if err != nil {
			return nil, err
		}
		o.close = append(o.close, c.Close)
		return c.Policy(), nil
	}
	return lockstep.ParsePolicy(name)
}

// python is how a controller's file is run.
func (in Inputs) python(file string) pycontroller.Options {
	return pycontroller.Options{
		File: file, Python: in.Python, Timeout: in.Timeout, Memory: in.Memory, Sandbox: in.Sandbox,
	}
}

// absolute makes the paths of files absolute, so that they are found from any folder.
func (in Inputs) absolute() (Inputs, error) {
	absolute := func(path *string) error {
		p, err := filepath.Abs(*path)
		*path = p
		return err
	}
	err := absolute(&in.Model)
	in.Data, in.Controllers = append(
		[]string(nil),
		in.Data...), append([]string(nil), in.Controllers...)
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

// NewPlan is the plan of all routes under each controller, computed by a program; "" is that of
// the process.
func NewPlan(
	program string, sim lockstep.Implementation, controllers []PlannedController,
	routes []PlannedRoute,
) (*Plan, error) {
	network := sim.About().Model // of what it has read: the file may be another by now
	if network == "" {
		return nil, fmt.Errorf(
			"the %s engine does not say which network it has, so that no plan can hold it",
			sim.Name(),
		)
	}
	code, err := HashProgram(program)
	if err != nil {
		return nil, err
	}
	return &Plan{
		Version: Version, Model: network, Profile: sim.Profile(), Engine: sim.Name(),
		Build: fmt.Sprintf(
			"%s, %s, program %s", lockstep.Identity(sim), runtime.Version(), code,
		),
		Controllers: controllers, Routes: routes,
	}, nil
}

// PlanRoutes are loaded routes' entries in a plan.
func PlanRoutes(routes []*lockstep.Route) (entries []PlannedRoute) {
	for _, route := range routes {
		entries = append(entries, PlanRoute(route))
	}
	return entries
}

// NewController is a policy's entry in a plan. The name of a policy holds what it is
// made of, but for one that is written in Python: its processes are given the bytes of which
// it has the hash.
func NewController(p lockstep.Policy) (PlannedController, error) {
	c := PlannedController{Name: p.String()}
	if b, ok := p.(*lockstep.Batch); ok {
		if c.SHA256 = b.SHA256; c.SHA256 == "" {
			return c, fmt.Errorf("controller %s: nobody knows the hash of its source, "+
				"so that no plan can hold it", c.Name)
		}
		c.Made = strings.Join(b.Made, "\n")
	}
	return c, nil
}

// HashProgram is the hash of a program's file. What it computes follows from that; its version
// says less, since all changes that nobody has committed have the same one. "" is the process's.
func HashProgram(file string) (sum string, err error) {
	if file == "" {
		sum, err = ownHash()
	} else {
		sum, err = fileio.SHA256(file)
	}
	if err != nil {
		return "", fmt.Errorf("the program that computes cannot be read, so that no plan can hold "+
			"its hash: %w", err)
	}
	return sum, nil
}

// ownHash reads the program that runs, also where its file has been replaced since it began.
var ownHash = sync.OnceValues(func() (string, error) {
	if runtime.GOOS == "linux" {
		if sum, err := fileio.SHA256("/proc/self/exe"); err == nil {
			return sum, nil
		}
	}
	file, err := os.Executable()
	if err != nil {
		return "", err
	}
	return fileio.SHA256(file)
})
