package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"lockstep"
	"lockstep/internal/fileio"
	"lockstep/internal/pycontroller"
	"lockstep/policyfile"
)

// controllerFlags choose what steers.
type controllerFlags struct {
	pythonFlags
	Controller string   `name:"controller" io:"in" default:"pid" placeholder:"NAME|FILE" help:"The controller: of a kind that engines compute, with its gains, such as pid_0.3_0.05_-0.1 (kinds: ${kinds}); a policy file (.onnx, .json); or one written in Python, its file, or its name if it is in ./controllers. Default: pid."`
	PID        []string `name:"pid" sep:"none" placeholder:"P,I,D" help:"Gains of the pid controller, 0.195,0.1,-0.053 by default. Repeated, a sweep over all of them."`
	PIDGrid    string   `name:"pid-grid" io:"in" placeholder:"FILE" help:"Sweep over the gains in a file, P,I,D on each line."`
}

// pythonFlags bound what a controller that is written in Python may take.
type pythonFlags struct {
	Timeout time.Duration `name:"timeout" default:"60s" help:"How long a Python controller may take to load, or to answer for one step of its routes, before it is ended."`
	Sandbox bool          `name:"sandbox" help:"Deny a Python controller the network and all writing of files, by Linux's Landlock and seccomp; an error where this machine has neither."`
	Memory  int64         `name:"memory" default:"0" placeholder:"MB" help:"Memory that a process of a Python controller may take; 0 for as much as there is."`
}

// kinds are those of policies that engines compute, with the names of their gains or with
// what file they come from.
func kinds() string {
	var list []string
	for _, k := range lockstep.Kinds() {
		text := strings.Join(append([]string{k.Name}, k.GainNames()...), "_")
		if k.File != "" {
			text += " from a " + k.File + " file"
		}
		list = append(list, text)
	}
	return strings.Join(list, ", ")
}

// policies are the controllers that the flags describe.
func (f *controllerFlags) policies(env *environment) ([]lockstep.Policy, error) {
	if len(f.PID) == 0 && f.PIDGrid == "" {
		policy, err := f.pythonFlags.controller(env, "--controller", f.Controller)
		if err != nil {
			return nil, err
		}
		return []lockstep.Policy{policy}, env.heeded(policy)
	}
	if f.Controller != "pid" {
		return nil, fmt.Errorf("--pid and --pid-grid go with --controller pid")
	}
	var policies []lockstep.Policy
	for _, text := range f.PID {
		pid, err := lockstep.KindPID.ParseGains(text)
		if err != nil {
			return nil, fmt.Errorf("--pid %w", err)
		}
		policies = append(policies, pid)
	}
	if f.PIDGrid != "" {
		grid, err := policyfile.Grid(f.PIDGrid)
		if err != nil {
			return nil, fmt.Errorf("--pid-grid %w", err)
		}
		policies = append(policies, grid...)
	}
	return policies, env.heeded(policies...)
}

// The flags that choose controllers, and those of controllers that are written in Python.
var (
	choosingFlags = []string{"controller", "pid", "pid-grid"}
	steeringFlags = []string{"timeout", "sandbox", "memory"}
)

// heeded refuses the flags of Python controllers where none of the policies is one.
func (e *environment) heeded(policies ...lockstep.Policy) error {
	for _, p := range policies {
		if _, python := p.(*lockstep.Batch); python {
			return nil
		}
	}
	if name := e.givenOf(steeringFlags); name != "" {
		return fmt.Errorf(
			"--%s goes with a controller that is written in Python, and here is none", name,
		)
	}
	return nil
}

// controller is the policy of a name: zero, pid, a kind with its gains, a policy
// file, a Python file, or the name of one in the folder controllers, as the Python
// program knows them.
func (f pythonFlags) controller(
	env *environment, flag, name string,
) (p lockstep.Policy, err error) {
	kind, _, _ := strings.Cut(name, "_")
	_, known := lockstep.KindOf(kind)
	switch {
	case policyfile.IsFile(name):
		p, err = policyfile.Load(name)
	case known && !strings.HasSuffix(name, ".py"):
		p, err = lockstep.ParsePolicy(name)
		if _, there := inControllers(name); err != nil && there && name != kind {
			return f.python(env, flag, name) // such as pid_mine
		}
	default:
		return f.python(env, flag, name)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return p, nil
}

// inControllers is the file of a name in ./controllers, and whether it is there.
func inControllers(name string) (file string, there bool) {
	file = filepath.Join("controllers", name+".py")
	_, err := os.Stat(file)
	return file, err == nil
}

// python is the policy of a controller that is written in Python: of its file, or of that
// of this name in ./controllers.
func (f pythonFlags) python(env *environment, flag, name string) (lockstep.Policy, error) {
	file := name
	if !strings.HasSuffix(name, ".py") {
		var there bool
		if file, there = inControllers(name); !there {
			return nil, fmt.Errorf(
				"%s %q: want one of %s, a policy file, a Python file, or the name of one in "+
					"./controllers",
				flag, name, kinds(),
			)
		}
	}
	c, err := f.open(env, flag, file, nil, nil)
	if err != nil {
		return nil, err
	}
	env.atEnd(func() { c.Close() })
	return c.Policy(), nil
}

// open starts a controller's file, or its source if that was read before, watched or not. The
// caller closes it.
func (f pythonFlags) open(
	env *environment, flag, file string, source *pycontroller.Code, watch *pycontroller.Watch,
) (*pycontroller.Controllers, error) {
	if f.Timeout <= 0 {
		return nil, fmt.Errorf("--timeout %v: want more than 0s", f.Timeout)
	}
	if f.Memory < 0 {
		return nil, fmt.Errorf("--memory %d: want 0 or more", f.Memory)
	}
	if _, err := fileio.ReadFile(file, fileio.Controller); err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	c, err := pycontroller.New(env.ctx, pycontroller.Options{
		File: file, Source: source, Stderr: env.stderr, Timeout: f.Timeout, Memory: f.Memory << 20,
		Sandbox: f.Sandbox, Watch: watch,
	})
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", flag, file, err)
	}
	return c, nil
}
