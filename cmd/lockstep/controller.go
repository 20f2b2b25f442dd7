package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"lockstep"
	"lockstep/internal/fileio"
	"lockstep/policyfile"
	"lockstep/pycontroller"
)

// controllerFlags choose what steers.
type controllerFlags struct {
	Controller string   `name:"controller" default:"pid" placeholder:"NAME|FILE" help:"The controller: zero, pid, a kind with its gains such as pid_0.3_0.05_-0.1, a policy file (.onnx, .json), or one written in Python: its file, or its name if it is in ./controllers. Default: pid."`
	PID        []string `name:"pid" sep:"none" placeholder:"P,I,D" help:"Gains of the pid controller, 0.195,0.1,-0.053 by default. Repeated, a sweep over all of them."`
	PIDGrid    string   `name:"pid-grid" placeholder:"FILE" help:"Sweep over the gains in a file, P,I,D on each line."`
}

// policies are the controllers that the flags describe, and a function that ends
// their use.
func (f *controllerFlags) policies(env *environment) ([]lockstep.Policy, func() error, error) {
	texts := f.PID
	if f.PIDGrid != "" {
		lines, err := readLines(f.PIDGrid)
		if err != nil {
			return nil, nil, err
		}
		texts = append(texts, lines...)
	}
	if len(texts) == 0 {
		policy, done, err := controller(env, "--controller", f.Controller)
		return []lockstep.Policy{policy}, done, err
	}
	if f.Controller != "pid" {
		return nil, nil, fmt.Errorf("--pid and --pid-grid go with --controller pid")
	}
	var policies []lockstep.Policy
	for _, text := range texts {
		pid, err := parsePID(text)
		if err != nil {
			return nil, nil, err
		}
		policies = append(policies, pid)
	}
	return policies, nothing, nil
}

func nothing() error { return nil }

// controller is the policy of a name: zero, pid, a kind with its gains, a policy
// file, a Python file, or the name of one in the folder controllers, as the Python
// program knows them. The function ends its use.
func controller(env *environment, flag, name string) (lockstep.Policy, func() error, error) {
	if policyfile.IsFile(name) {
		p, err := policyfile.Load(name)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", flag, err)
		}
		return p, nothing, nil
	}
	kind, _, _ := strings.Cut(name, "_")
	if _, ok := lockstep.KindOf(kind); ok && !strings.HasSuffix(name, ".py") {
		p, err := lockstep.ParsePolicy(name)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", flag, err)
		}
		return p, nothing, nil
	}
	file := name
	if !strings.HasSuffix(name, ".py") {
		file = filepath.Join("controllers", name+".py")
		if _, err := os.Stat(file); err != nil {
			return nil, nil, fmt.Errorf("%s %q: want zero, pid, a policy file, a Python file, or the name of one in ./controllers", flag, name)
		}
	}
	c, err := pycontroller.New(env.ctx, pycontroller.Options{File: file, Stderr: env.stderr})
	if err != nil {
		return nil, nil, fmt.Errorf("%s %s: %w", flag, name, err)
	}
	return c.Policy(), c.Close, nil
}

// readLines returns the lines of a file that are neither empty nor a comment
// (#).
func readLines(path string) ([]string, error) {
	f, err := fileio.Open(path, fileio.List)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var lines []string
	scanner := bufio.NewScanner(f)
	for scanner.Scan() {
		if line := strings.TrimSpace(scanner.Text()); line != "" && line[0] != '#' {
			lines = append(lines, line)
		}
	}
	if err := scanner.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(lines) == 0 {
		return nil, fmt.Errorf("%s: no gains; want P,I,D on each line", path)
	}
	return lines, nil
}

// parsePID is the policy of the gains that --pid has.
func parsePID(text string) (lockstep.Policy, error) {
	p, err := lockstep.KindPID.ParseGains(text)
	if err != nil {
		return nil, fmt.Errorf("--pid %w", err)
	}
	return p, nil
}
