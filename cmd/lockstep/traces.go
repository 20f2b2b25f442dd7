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
	"lockstep/internal/plain"
	"lockstep/parity"
	"lockstep/parity/tinyphysics"
	"lockstep/parity/trace"
	"lockstep/parity/verdict"
	"lockstep/routefile"
)

// traces compares a trace with another, of whatever simulator; or with an engine, on the
// routes and controllers of the trace, in its profile.
func (c *compareCommand) traces(p *comparisons, options parity.CompareOptions) error {
	options.Replay = func(*parity.RolloutTask) string { return plain.Command(p.env.command()) }
	k := verdict.Comparison{Kind: "traces"}
	names := []string{c.Want, c.Got[0]}
	var files []*trace.File
	sides, live := make([]opened[parity.Side], 2), -1
	for i, name := range names {
		if engines.Known(name) {
			live = i
			continue
		}
		f, err := openTrace(name)
		if err != nil {
			return err
		}
		defer f.Close()
		files = append(files, f)
		sides[i] = opened[parity.Side]{
			name:    name,
			engine:  parity.Traced(f),
			profile: f.Header.Profile,
		}
	}
	if live < 0 {
		names := append([]string{"workers", "profile", "model_path", "data_path"}, rolloutFlags...)
		if err := p.env.passedOver("traces", names...); err != nil {
			return err
		}
	}
	var jobs []lockstep.Job
	shortcuts := lockstep.AllSteps
	if live >= 0 {
		if own, name := tinyphysics.Schema(shortcuts).Name,
			files[0].Header.Schema.Name; name != own {
			return fmt.Errorf(
				"%s is of the simulator %.60q, and engines compute %s: compare it with another "+
					"trace",
				files[0].Name, name, own,
			)
		}
		var err error
		if shortcuts, err = stopped(files[0].Header.Shortcuts); err != nil {
			return fmt.Errorf("%s: %w", files[0].Name, err)
		}
		if sides[live], k.Detail, jobs, err = c.live(p, names[live], files[0]); err != nil {
			return err
		}
	}
	return hold(p, k, sides, func(want, got parity.Side) (*parity.Report, error) {
		if live < 0 {
			return tinyphysics.CompareTraces(p.env.ctx, files[0], files[1], options)
		}
		return tinyphysics.Compare(p.env.ctx, want, got, jobs, shortcuts, options)
	}, nil)
}

// stopped are the shortcuts that an engine takes beside a trace whose header has these words: one
// that stops where costs end says so, and so does one that leaves out the warm-up, which an engine
// does not.
func stopped(words []string) (lockstep.Shortcuts, error) {
	taken, err := tinyphysics.ParseShortcuts(words)
	return lockstep.AllSteps | taken&lockstep.StopAtCostEnd, err
}

// openTrace opens a trace. An engine's name that is not known would be a file that is
// not there.
func openTrace(path string) (*trace.File, error) {
	f, err := trace.Open(path)
	if err != nil && !strings.ContainsAny(path, "./\\") {
		return nil, fmt.Errorf(
			"%w: want a trace, or an engine: %s", err, strings.Join(engines.Names(), ", "),
		)
	}
	return f, err
}

// live is an engine with the jobs of a trace, and the name of their network.
func (c *compareCommand) live(
	p *comparisons, name string, t *trace.File,
) (o opened[parity.Side], network string, jobs []lockstep.Job, err error) {
	if t.Header.Profile != "" && c.Profile == "host" {
		c.Profile = t.Header.Profile
	}
	policies, err := c.policies(p.env)
	if err != nil {
		return o, "", nil, err
	}
	list, err := engines.ByName(name)
	if err != nil {
		return o, "", nil, err
	}
	s, all, err := c.prepare(
		p, list, func(dataPath string) ([]string, error) { return traceFiles(t, dataPath) },
	)
	if err != nil {
		return o, "", nil, err
	}
	if sum := t.Header.ModelSHA256; sum != "" {
		if got, err := fileio.SHA256(s.modelPath); err != nil {
			return o, "", nil, err
		} else if got != sum {
			return o, "", nil, fmt.Errorf("%s is of the network with SHA-256 %s, and %s has %s: "+
				"name the right one with --model_path", t.Name, sum, s.modelPath, got)
		}
	}
	routes := map[string]*lockstep.Route{}
	for _, route := range s.routes {
		routes[route.Name] = route
	}
	for _, r := range t.Rollouts {
		policy, err := namedPolicy(r.Key[1], policies)
		if err != nil {
			return o, "", nil, fmt.Errorf("%s: %w", t.Name, err)
		}
		jobs = append(jobs, lockstep.Job{Route: routes[r.Key[0]], Policy: policy})
	}
	chosen := p.env.givenOf(choosingFlags) != ""
	for _, policy := range policies {
		if chosen && !slices.ContainsFunc(t.Rollouts, func(r *trace.RecordedRollout) bool {
			return r.Key[1] == policy.String()
		}) {
			return o, "", nil, fmt.Errorf("%s: no rollout of it is of %s, which is given", t.Name,
				policy)
		}
	}
	return sourceOf(all[0]), filepath.Base(s.modelPath), jobs, nil
}

// traceFiles are those of the routes of a trace.
func traceFiles(t *trace.File, dataPath string) (needed []string, err error) {
	if len(t.Rollouts) == 0 {
		return nil, fmt.Errorf("%s: no rollout in it", t.Name)
	}
	files, err := routefile.List(dataPath, -1)
	if err != nil {
		return nil, err
	}
	of := map[string]string{}
	for _, file := range files {
		of[routefile.Name(file)] = file
	}
	for _, r := range t.Rollouts {
		if of[r.Key[0]] == "" {
			return nil, fmt.Errorf(
				"%s: route %q is not under %s: name its folder with --data_path", t.Name, r.Key[0],
				dataPath,
			)
		}
		needed = append(needed, of[r.Key[0]])
	}
	slices.Sort(needed)
	return slices.Compact(needed), nil
}

// namedPolicy is the policy of a name: one of those given, or one of a kind
// that gains make.
func namedPolicy(name string, given []lockstep.Policy) (lockstep.Policy, error) {
	if i := slices.IndexFunc(given,
		func(p lockstep.Policy) bool { return p.String() == name }); i >= 0 {
		return given[i], nil
	}
	if name == "" {
		return nil, errors.New("a rollout without a controller's name")
	}
	if _, err := lockstep.ParsePolicy(name); err != nil {
		return nil, fmt.Errorf("controller %q is not known: give it with --controller", name)
	}
	return tinyphysics.Named(name)
}
