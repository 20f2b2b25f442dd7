package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"lockstep"
	"lockstep/internal/fileio"
	"lockstep/policyfile"
)

type exportCommand struct {
	simulatorFlags
	pythonFlags
	Policy    string `arg:"" name:"policy" io:"in" help:"The policy: pid or pidff with its gains, or a policy file (.onnx, .json)."`
	Out       string `name:"out" io:"out" required:"" placeholder:"FILE.py" help:"The controller."`
	Unchecked bool   `name:"unchecked" help:"Write it without running it, where there is no Python with numpy and, for a network, onnxruntime."`
}

// exportChecks is on how many routes a controller is compared with the engine.
const exportChecks = 2

// Run is the export command.
func (c *exportCommand) Run(env *environment) error {
	p, err := c.controller(env, "policy", c.Policy)
	if err != nil {
		return err
	}
	native, ok := p.(lockstep.Native)
	if !ok {
		return fmt.Errorf("policy %s is a Python controller already", c.Policy)
	}
	source, err := policyfile.Export(native)
	if err != nil {
		return err
	}
	if !c.Unchecked {
		if err := c.check(env, native, source); err != nil {
			return fmt.Errorf("%w; nothing is written", err)
		}
	}
	if err := fileio.WriteFile(c.Out, source); err != nil {
		return err
	}
	if c.Unchecked {
		fmt.Fprintf(env.stdout, "%s: %s, not checked\n", c.Out, native)
	}
	return nil
}

// check runs the controller in Python and compares every action and lataccel with the
// engine's own.
func (c *exportCommand) check(env *environment, p lockstep.Native, source []byte) error {
	c.NumSegs = min(c.NumSegs, exportChecks)
	s, err := c.load(env)
	if err != nil {
		return err
	}
	if len(s.routes) == 0 {
		return errors.New("no route could be loaded to check the controller on")
	}
	dir, err := os.MkdirTemp("", "lockstep-export-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "exported.py")
	if err := os.WriteFile(file, source, 0o600); err != nil {
		return err
	}
	exported, err := c.controller(env, "policy", file)
	if err != nil {
		return fmt.Errorf(
			"the controller cannot be checked (--unchecked writes it all the same): %w", err,
		)
	}
	n := len(s.routes)
	results := s.simulate(
		env, s.jobs([]lockstep.Policy{p, exported}),
		lockstep.Options{Shortcuts: lockstep.FullTrajectory, Trajectory: true},
	)
	for i, r := range s.routes {
		if err := errors.Join(results[i].Err, results[n+i].Err); err != nil {
			return env.ended(err, "nothing is written")
		}
		a, b := results[i].Trajectory, results[n+i].Trajectory
		for step := range a.Action {
			if !sameBits(a.Action[step], b.Action[step]) ||
				!sameBits(a.Lataccel[step], b.Lataccel[step]) {
				return fmt.Errorf(
					"route %s, step %d: the exported controller steers %v, the engine %v", r.Name,
					step, b.Action[step], a.Action[step],
				)
			}
		}
	}
	fmt.Fprintf(
		env.stdout, "%s: %s, equal to engine %s in every action of %d routes\n", c.Out, p,
		s.simulator.Name(), n,
	)
	return nil
}

func sameBits(x, y float64) bool { return math.Float64bits(x) == math.Float64bits(y) }
