package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"lockstep"
	"lockstep/engines"
	"lockstep/internal/fileio"
	"lockstep/parity"
	"lockstep/parity/tinyphysics"
	"lockstep/parity/trace"
	"lockstep/parity/verdict"
	"lockstep/report"
)

// traces compares a trace with another, or with an engine.
func (c *compareCommand) traces(env *environment, p *comparisons, got string, options parity.CompareOptions) error {
	options.Replay = func(*parity.Task) string { return report.CommandLine(append([]string{"lockstep"}, env.args...)) }
	switch {
	case engines.Known(c.Want):
		return c.live(env, p, c.Want, got, true, options)
	case engines.Known(got):
		return c.live(env, p, got, c.Want, false, options)
	}
	return diffTraces(env, p, c.Want, got, options)
}

// openTrace opens a trace. An engine's name that is not known would be a file that is
// not there.
func openTrace(path string) (*trace.File, error) {
	f, err := trace.Open(path)
	if err != nil && !strings.ContainsAny(path, "./\\") {
		return nil, fmt.Errorf("%w: want a trace, or an engine: %s", err, strings.Join(engines.Names(), ", "))
	}
	return f, err
}

// diffTraces compares two traces.
func diffTraces(env *environment, p *comparisons, want, got string, options parity.CompareOptions) error {
	if samePath(want, got) {
		return fmt.Errorf("%s and %s are one file: nothing would be proved", want, got)
	}
	var files []*trace.File
	for _, path := range []string{want, got} {
		f, err := openTrace(path)
		if err != nil {
			return err
		}
		defer f.Close()
		files = append(files, f)
	}
	if a, b := files[0].Header.ModelSHA256, files[1].Header.ModelSHA256; a != "" && b != "" && a != b {
		return fmt.Errorf("%s is of the network %s, %s of %s", want, a, got, b)
	}
	return p.compare(verdict.Comparison{Kind: "traces", Want: want, Got: got}, parity.Traced(files[0]), parity.Traced(files[1]), nil, lockstep.AllSteps, options)
}

// live compares an engine and a trace: on the routes and controllers of the trace, in
// its profile.
func (c *compareCommand) live(env *environment, p *comparisons, name, path string, engineFirst bool, options parity.CompareOptions) error {
	f, err := openTrace(path)
	if err != nil {
		return err
	}
	defer f.Close()
	profile, asked, err := c.profile()
	if err != nil {
		return err
	}
	if f.Header.Profile != "" && !asked {
		if profile, err = lockstep.ParseProfile(f.Header.Profile); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	s := &simulation{}
	if s.modelPath, s.dataPath, err = c.inputs(env); err != nil {
		return err
	}
	if sum := f.Header.ModelSHA256; sum != "" {
		if got, err := fileio.SHA256(s.modelPath); err != nil {
			return err
		} else if got != sum {
			return fmt.Errorf("%s is of the network with SHA-256 %s, and %s has %s: name the right one with --model_path", path, sum, s.modelPath, got)
		}
	}
	list, err := engines.ByName(name)
	if err != nil {
		return err
	}
	o := open(list[0], engines.Config{Model: s.modelPath, Profile: profile, Workers: c.Workers}, options.Inexact)
	defer closeAll([]opened{o})
	if o.absent != nil {
		return fmt.Errorf("%s: %w", name, o.absent)
	}
	if o.notApplicable != "" {
		return fmt.Errorf("%s: %s", name, o.notApplicable)
	}
	policies, done, err := c.policies(env)
	if err != nil {
		return err
	}
	defer done()
	s.simulator = o.Simulator
	jobs, err := s.traced(env, &c.inputFlags, f, policies)
	if err != nil {
		return err
	}
	// A recording that stops where costs end, or leaves out the warm-up, says so.
	shortcuts, err := tinyphysics.ParseShortcuts(f.Header.Shortcuts)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	k := verdict.Comparison{Kind: "traces", Want: path, Got: name, Detail: filepath.Base(s.modelPath), Identities: []string{engines.Identity(o.Simulator)}}
	var want, got parity.Source = parity.Traced(f), tinyphysics.Live(o.Simulator)
	if engineFirst {
		k.Want, k.Got = k.Got, k.Want
		want, got = got, want
	}
	return p.compare(k, want, got, jobs, lockstep.AllSteps|shortcuts&lockstep.StopAtCostEnd, options)
}

// traced are the jobs of a trace: its routes, from the data, and its controllers,
// which are those given or known by their names.
func (s *simulation) traced(env *environment, f *inputFlags, t *trace.File, policies []lockstep.Policy) ([]lockstep.Job, error) {
	if len(t.Rollouts) == 0 {
		return nil, fmt.Errorf("%s: no rollout in it", t.Name)
	}
	files, err := lockstep.RouteFiles(s.dataPath, -1)
	if err != nil {
		return nil, err
	}
	needed := map[string]bool{}
	for _, r := range t.Rollouts {
		needed[r.Key[0]] = true
	}
	files = slices.DeleteFunc(files, func(file string) bool { return !needed[stem(file)] })
	for name := range needed {
		if !slices.ContainsFunc(files, func(file string) bool { return stem(file) == name }) {
			return nil, fmt.Errorf("%s: route %q is not under %s: name its folder with --data_path", t.Name, name, s.dataPath)
		}
	}
	if err := s.loadRoutes(env, f, files); err != nil {
		return nil, err
	}
	if len(s.failed) > 0 {
		return nil, exitStatus(exitUsage)
	}
	var jobs []lockstep.Job
	for _, r := range t.Rollouts {
		policy, err := namedPolicy(r.Key[1], policies)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.Name, err)
		}
		i := slices.IndexFunc(s.routes, func(route *lockstep.Route) bool { return route.Name == r.Key[0] })
		if i < 0 {
			return nil, fmt.Errorf("%s: route %q was not loaded", t.Name, r.Key[0])
		}
		jobs = append(jobs, lockstep.Job{Route: s.routes[i], Policy: policy})
	}
	return jobs, nil
}

// namedPolicy is the policy of a name: one of those given, or one of a kind
// that gains make.
func namedPolicy(name string, given []lockstep.Policy) (lockstep.Policy, error) {
	for _, policy := range given {
		if policy.String() == name {
			return policy, nil
		}
	}
	if policy, err := lockstep.ParsePolicy(name); err == nil {
		return policy, nil
	}
	if name == "" {
		return nil, errors.New("a rollout without a controller's name")
	}
	return nil, fmt.Errorf("controller %q is not known: give it with --controller", name)
}
