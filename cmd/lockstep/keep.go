package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"lockstep"
	"lockstep/engines"
	"lockstep/internal/fileio"
	"lockstep/runs"
)

// planFlags choose what a plan is of.
type planFlags struct {
	simulatorFlags
	controllerFlags
}

// plan is what a run of these policies over the routes computes, down to the contents.
// The name of a policy holds what it is made of, but for one that is written in Python:
// that is in the file of this name.
func (s *simulation) plan(policies []lockstep.Policy, python string) (p *runs.Plan, err error) {
	p = s.names(policies)
	p.Version, p.Profile, p.Engine, p.Build = runs.Version, s.simulator.Profile(), s.simulator.Name(), build(s.simulator)
	if p.Model, err = fileio.SHA256(s.modelPath); err != nil {
		return nil, err
	}
	for i, policy := range policies {
		c := &p.Controllers[i]
		if _, custom := policy.(*lockstep.Batch); custom {
			if c.SHA256, err = hashPython(controllerFile(python)); err != nil {
				return nil, err
			}
		}
	}
	for i, route := range s.routes {
		p.Routes[i] = runs.PlanRoute(route)
	}
	return p, nil
}

// names is a plan that has the names of what is computed, and no contents.
func (s *simulation) names(policies []lockstep.Policy) *runs.Plan {
	p := &runs.Plan{}
	for _, policy := range policies {
		p.Controllers = append(p.Controllers, runs.Controller{Name: policy.String()})
	}
	for _, route := range s.routes {
		p.Routes = append(p.Routes, runs.Route{Name: route.Name})
	}
	return p
}

// with loads what the flags of a shard command describe, and its plan.
func (c *planFlags) with(env *environment, f func(*simulation, []lockstep.Policy, *runs.Plan) error) error {
	policies, done, err := c.policies(env)
	if err != nil {
		return err
	}
	defer done()
	s, err := c.load(env)
	if err != nil {
		return err
	}
	defer s.close()
	if len(s.failed) > 0 {
		return fmt.Errorf("%d routes cannot be loaded: a plan holds those that can", len(s.failed))
	}
	p, err := s.plan(policies, c.Controller)
	if err != nil {
		return err
	}
	return f(s, policies, p)
}

// journal opens the folder of a run, and says what was wrong with it.
func (s *simulation) journal(env *environment, dir string, policies []lockstep.Policy, python string) (*runs.Journal, error) {
	plan, err := s.plan(policies, python)
	if err != nil {
		return nil, err
	}
	j, err := runs.OpenJournal(dir, plan)
	if err == nil && j.Dropped != "" {
		fmt.Fprintf(env.stderr, "lockstep: %s\n", j.Dropped)
	}
	return j, err
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

// build says what the engine is made of, and from which sources.
func build(sim lockstep.Simulator) string {
	text := engines.Identity(sim)
	if info, ok := debug.ReadBuildInfo(); ok {
		text += ", " + info.GoVersion
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" || s.Key == "vcs.modified" && s.Value == "true" {
				text += ", " + strings.TrimPrefix(s.Key, "vcs.") + " " + s.Value
			}
		}
	}
	return text
}
