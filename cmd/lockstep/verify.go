package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"lockstep"
	"lockstep/cmd/internal/runs"
	"lockstep/internal/fileio"
	"lockstep/internal/pycontroller"
)

type verifyCommand struct {
	simulatorFlags
	pythonFlags
	Controller string `arg:"" name:"controller" io:"in" optional:"" help:"The controller, a Python file. With --check, the file's own, if it is left out."`
	Out        string `name:"out" io:"out" placeholder:"FILE" help:"Where the score is written. Default: verified.json; with --check, nowhere."`
	Check      string `name:"check" io:"in" placeholder:"FILE" help:"Hold a score that was written to what is computed now: hashes first, then each cost."`

	source *pycontroller.Code // what all runs are given
}

// scoreFormat is raised when what a score is made of changes.
const scoreFormat = "lockstep score 1"

// A score is what a controller costs in the unmodified rules, and what it touched beyond
// its arguments. Costs are the engine's; what was touched is what the controller's own
// process tells.
type score struct {
	Format     string               `json:"format"`
	Controller hashed               `json:"controller"`
	Files      []hashed             `json:"files"` // that it read, modules and others
	Network    string               `json:"network_sha256"`
	Profile    string               `json:"profile"`
	SeedPrefix string               `json:"seed_prefix"`
	Routes     []scoredRoute        `json:"routes"`
	Mean       *[3]number           `json:"mean"` // null unless every route has costs
	Repeated   bool                 `json:"two_runs_equal"`
	Touched    []pycontroller.Touch `json:"touched"`
	Depends    map[string]string    `json:"depends"` // on each factor: no, yes or unknown
	SHA256     string               `json:"sha256"`  // of all that stands above
}

type hashed struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
}

type scoredRoute struct {
	runs.PlannedRoute
	Costs *[3]number `json:"costs"` // lataccel, jerk, total; null where it failed
	Error string     `json:"error,omitempty"`
}

// number is a float that is null where JSON has none.
type number float64

func (x number) MarshalJSON() ([]byte, error) {
	if f := float64(x); math.IsNaN(f) || math.IsInf(f, 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(x))
}

func (x *number) UnmarshalJSON(text []byte) error {
	if string(text) == "null" {
		*x = number(math.NaN())
		return nil
	}
	return json.Unmarshal(text, (*float64)(x))
}

// hash is that of all but itself. It does not depend on how the file is written.
func (s score) hash() (string, error) {
	s.SHA256 = ""
	text, err := json.Marshal(s)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), err
}

// factors are what a controller's answers may depend on beyond its arguments: the kinds of
// touches that tell of it, and the conditions that differ in it alone from those of base.
var factors = []struct {
	name  string
	kinds []string
	other func(*pycontroller.Conditions)
}{
	{"patches", []string{"patch"}, func(c *pycontroller.Conditions) { c.Undo = true }},
	{
		"time", []string{"time"},
		func(c *pycontroller.Conditions) { c.Clock, c.Tick = 1.83e9+0.37, 0.0017 },
	},
	{"random", []string{"random"}, func(c *pycontroller.Conditions) { c.Seed = 2 }},
	{"files", []string{"file"}, func(c *pycontroller.Conditions) { c.Deny = true }},
}

// base are conditions under which time and the global generator are always the same.
var base = pycontroller.Conditions{Clock: 1.7e9, Tick: 0.001, Seed: 1}

// Run is the verify command.
func (c *verifyCommand) Run(env *environment) error {
	if c.Check != "" {
		err := c.check(env)
		var differs different
		if errors.As(err, &differs) {
			fmt.Fprintf(env.stderr, "lockstep: %v\n", err)
			return exitStatus(exitParity)
		}
		return err
	}
	if c.Controller == "" {
		return errors.New("verify wants a controller, a Python file, or --check FILE")
	}
	got, err := c.score(env)
	if err != nil {
		return err
	}
	out := c.Out
	if out == "" {
		out = "verified.json"
	}
	text, err := json.MarshalIndent(got, "", " ")
	if err != nil {
		return err
	}
	if err := fileio.WriteFile(out, append(text, '\n')); err != nil {
		return err
	}
	failed := got.print(env.stdout)
	fmt.Fprintf(env.stdout, "score: %s (%s)\n", out, got.SHA256)
	return env.failed(failed, len(got.Routes))
}

// score loads what the controller is to steer, and runs it as often as it takes.
func (c *verifyCommand) score(env *environment) (*score, error) {
	s, err := c.load(env)
	if err != nil {
		return nil, err
	}
	if len(s.failed) > 0 {
		return nil, fmt.Errorf("%d routes could not be loaded, and a score would leave them out: "+
			"mend them, or take them out of %s", len(s.failed), s.dataPath)
	}
	got := &score{
		Format: scoreFormat, Profile: s.simulator.Profile().String(), SeedPrefix: c.SeedPrefix,
		Network: s.simulator.About().Model,
		Files:   []hashed{}, Touched: []pycontroller.Touch{}, Depends: map[string]string{},
	}
	got.Controller.Path = c.Controller
	if c.source, err = pycontroller.ReadSource(c.Controller); err != nil {
		return nil, err
	}
	if got.Controller.SHA256, err = c.hash(c.Controller); err != nil {
		return nil, err
	}

	first, touched, err := c.trial(env, s, pycontroller.Conditions{})
	if err != nil {
		return nil, err
	}
	second, again, err := c.trial(env, s, pycontroller.Conditions{})
	if err != nil {
		return nil, err
	}
	got.Repeated = equalResults(first, second)
	for _, t := range append(touched, again...) {
		if !slices.Contains(got.Touched, t) {
			got.Touched = append(got.Touched, t)
		}
	}
	got.add(s.routes, first)
	if err := c.depends(env, s, got); err != nil {
		return nil, err
	}
	if err := got.hashFiles(c.hash); err != nil {
		return nil, err
	}
	got.SHA256, err = got.hash()
	return got, err
}

// hash is that of a file: as it was when the controller was read, where that is a part of it.
// What is not there, or is no file, has none.
func (c *verifyCommand) hash(file string) (string, error) {
	path, err := filepath.Abs(file)
	if err != nil {
		return "", err
	}
	if sum, ok := c.source.FileSHA256(path); ok {
		return sum, nil
	}
	if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() {
		return "", nil
	}
	return fileio.SHA256(file)
}

// depends finds out what the results depend on, of what was touched.
func (c *verifyCommand) depends(env *environment, s *simulation, got *score) error {
	has := func(kinds []string) bool {
		return slices.ContainsFunc(got.Touched, func(t pycontroller.Touch) bool {
			return slices.Contains(kinds, t.Kind)
		})
	}
	// The network is closed in every run: no result can depend on it.
	got.Depends["network"] = "no"
	steady := true // equal conditions give equal results
	var held []lockstep.Result
	for _, f := range factors {
		if !has(f.kinds) {
			// What makes two runs differ was not seen: it may be this, by a way that tells nothing.
			got.Depends[f.name] = map[bool]string{true: "no", false: "unknown"}[got.Repeated]
			continue
		}
		var err error
		if held == nil {
			if held, _, err = c.trial(env, s, base); err != nil {
				return err
			}
			if !got.Repeated {
				again, _, err := c.trial(env, s, base)
				if err != nil {
					return err
				}
				steady = equalResults(held, again)
			}
		}
		if !steady {
			got.Depends[f.name] = "unknown"
			continue
		}
		conditions := base
		f.other(&conditions)
		other, _, err := c.trial(env, s, conditions)
		if err != nil {
			return err
		}
		got.Depends[f.name] = map[bool]string{true: "no", false: "yes"}[equalResults(held, other)]
	}
	return nil
}

// trial rolls the routes out with the controller in new processes, under conditions.
func (c *verifyCommand) trial(
	env *environment, s *simulation, conditions pycontroller.Conditions,
) ([]lockstep.Result, []pycontroller.Touch, error) {
	watch := &pycontroller.Watch{Conditions: conditions}
	controllers, err := c.open(env, "controller", c.Controller, c.source, watch)
	var failed *pycontroller.Error
	// It loads in the world as it is: that it does not in this one is its result.
	if errors.As(err, &failed) && conditions != (pycontroller.Conditions{}) {
		return slices.Repeat([]lockstep.Result{{Err: failed}}, len(s.routes)), watch.Touched(), nil
	}
	if err != nil {
		return nil, nil, err
	}
	jobs := s.jobs([]lockstep.Policy{controllers.Policy()})
	results := s.simulate(env, jobs, lockstep.Options{Shortcuts: lockstep.CostOnly})
	controllers.Close()
	if env.ctx.Err() != nil {
		return nil, nil, env.interrupted("nothing is written of a score that is not whole")
	}
	for i, r := range results {
		// Under other conditions that a process ends or hangs is what they come to.
		if lockstep.IsPassing(r.Err) && conditions == (pycontroller.Conditions{}) {
			return nil, nil, fmt.Errorf(
				"route %s was lost, and a score would hold what the machine did "+
					"to it: run verify again: %w",
				s.routes[i].Name, r.Err,
			)
		}
	}
	return results, watch.Touched(), nil
}

// equalResults compares bits, and errors by being there.
func equalResults(a, b []lockstep.Result) bool {
	return slices.EqualFunc(a, b, func(a, b lockstep.Result) bool {
		return (a.Err == nil) == (b.Err == nil) && slices.EqualFunc(costs(a), costs(b), sameBits)
	})
}

func costs(r lockstep.Result) []float64 {
	return []float64{r.Costs.Lataccel, r.Costs.Jerk, r.Costs.Total}
}

// add enters the results of the routes.
func (s *score) add(routes []*lockstep.Route, results []lockstep.Result) {
	mean := &[3]number{}
	for i, result := range results {
		route := scoredRoute{PlannedRoute: runs.PlanRoute(routes[i])}
		if result.Err != nil {
			route.Error, _, _ = strings.Cut(result.Err.Error(), "\n")
			mean = nil
		} else {
			route.Costs = &[3]number{}
			for k, x := range costs(result) {
				route.Costs[k] = number(x)
				if mean != nil {
					mean[k] += number(x)
				}
			}
		}
		s.Routes = append(s.Routes, route)
	}
	for k := 0; mean != nil && k < len(mean); k++ {
		mean[k] /= number(len(results))
	}
	s.Mean = mean
}

// hashFiles adds the hashes of what the controller read, and names it as seen from the
// controller's folder, so that a score does not tell where it was made.
func (s *score) hashFiles(hash func(file string) (string, error)) error {
	root, err := filepath.Abs(filepath.Dir(s.Controller.Path))
	if err != nil {
		return err
	}
	for i, t := range s.Touched {
		path := t.Name
		if rel, err := filepath.Rel(root, t.Name); err == nil && filepath.IsAbs(t.Name) &&
			filepath.IsLocal(rel) {
			s.Touched[i].Name = rel
		}
		if t.Kind != "module" && t.Kind != "file" {
			continue
		}
		sum, err := hash(path)
		if err != nil {
			return err
		}
		if sum != "" {
			s.Files = append(s.Files, hashed{s.Touched[i].Name, sum})
		}
	}
	return nil
}

// print writes the score for people, and counts the routes that failed.
func (s *score) print(out io.Writer) (failed int) {
	for _, r := range s.Routes {
		if r.Costs == nil {
			if failed++; failed <= 3 {
				fmt.Fprintf(out, "failed: route %s: %s\n", r.Name, r.Error)
			}
		}
	}
	if s.Mean != nil {
		fmt.Fprintf(out, "%s: %d routes, average lataccel_cost: %6.4g, average jerk_cost: %6.4g, "+
			"average total_cost: %6.4g\n", s.Controller.Path, len(s.Routes), s.Mean[0], s.Mean[1],
			s.Mean[2])
	} else {
		fmt.Fprintf(out, "%s: %d of %d routes failed: no average\n",
			s.Controller.Path, failed, len(s.Routes))
	}
	if s.Repeated {
		fmt.Fprintln(out, "two runs: equal")
	} else {
		fmt.Fprintln(out, "two runs: DIFFERENT: this score is that of the first")
	}
	for _, t := range s.Touched {
		fmt.Fprintf(out, "touched: %s %s\n", t.Kind, t.Name)
	}
	var on []string
	for _, f := range factors {
		if word := s.Depends[f.name]; word != "no" {
			on = append(on, fmt.Sprintf("%s: %s", f.name, word))
		}
	}
	if len(on) == 0 {
		on = []string{"nothing but its arguments"}
	}
	fmt.Fprintf(out, "the result depends on: %s\n", strings.Join(on, ", "))
	return failed
}

// check holds a score to what is computed now.
func (c *verifyCommand) check(env *environment) error {
	data, err := os.ReadFile(c.Check)
	if err != nil {
		return fmt.Errorf("--check: %w", err)
	}
	var want score
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&want); err != nil || want.Format != scoreFormat || decoder.More() {
		return fmt.Errorf("--check %s: not a %q (%v): write one with lockstep verify CONTROLLER",
			c.Check, scoreFormat, err)
	}
	if sum, err := want.hash(); err != nil || sum != want.SHA256 {
		return differs("%s: its hash is %s, and that of what stands in it %s: it was changed (%v)",
			c.Check, want.SHA256, sum, err)
	}
	if c.Controller == "" {
		c.Controller = want.Controller.Path
	}
	sum, err := fileio.SHA256(c.Controller)
	if err != nil {
		return fmt.Errorf("--check %s: the controller: %w: name it after the flags", c.Check, err)
	}
	if sum != want.Controller.SHA256 {
		return differs(
			"%s has SHA-256 %s, the score is of %s", c.Controller, sum, want.Controller.SHA256,
		)
	}
	c.Profile, c.SeedPrefix, c.NumSegs = want.Profile, want.SeedPrefix, max(1, len(want.Routes))
	got, err := c.score(env)
	if err != nil {
		return err
	}
	if err := want.compare(got); err != nil {
		return err
	}
	if c.Out != "" {
		if err := fileio.WriteFile(c.Out, data); err != nil {
			return err
		}
	}
	fmt.Fprintf(env.stdout, "%s: equal in every bit: %d routes of %s, computed again\n",
		c.Check, len(got.Routes), c.Controller)
	return nil
}

// differs is the error of a score that does not hold.
func differs(format string, args ...any) error { return different(fmt.Sprintf(format, args...)) }

// compare names the first thing in which a score and what is computed now differ.
func (s *score) compare(got *score) error {
	switch {
	case s.Network != got.Network:
		return differs(
			"the network here has SHA-256 %s, the score is of %s: name it with --model_path",
			got.Network, s.Network,
		)
	case s.Profile != got.Profile:
		return differs("the profile here is %s, the score's %s", got.Profile, s.Profile)
	case len(s.Routes) != len(got.Routes):
		return differs("%d routes here, the score has %d: name them with --data_path",
			len(got.Routes), len(s.Routes))
	}
	for i, want := range s.Routes {
		route := got.Routes[i]
		if route.PlannedRoute != want.PlannedRoute {
			return differs(
				"route %d here is %s (seed %d, %.12s), the score's %s (seed %d, %.12s): "+
					"name the routes with --data_path",
				i, route.Name, route.Seed, route.SHA256, want.Name, want.Seed, want.SHA256,
			)
		}
		a, _ := json.Marshal(want.Costs)
		b, _ := json.Marshal(route.Costs)
		if !bytes.Equal(a, b) {
			return differs("route %s costs %s here, and %s in the score", want.Name, b, a)
		}
		if want.Error != route.Error {
			return differs("route %s fails here with %q, and in the score with %q",
				want.Name, route.Error, want.Error)
		}
	}
	a, _ := json.Marshal(s.Mean)
	b, _ := json.Marshal(got.Mean)
	if !bytes.Equal(a, b) {
		return differs("the mean of the costs is %s here, and %s in the score", b, a)
	}
	return s.compareTouched(got)
}

// compareTouched names the first difference in what was touched, and in what it came to.
func (s *score) compareTouched(got *score) error {
	if s.Repeated != got.Repeated {
		return differs("two runs are equal: %v here, %v in the score", got.Repeated, s.Repeated)
	}
	if line, here := other(fileLines(s.Files), fileLines(got.Files)); here {
		return differs("the controller read %s here, which is not in the score", line)
	} else if line != "" {
		return differs("the controller read %s for the score, and does not here", line)
	}
	if line, here := other(touchLines(s.Touched), touchLines(got.Touched)); here {
		return differs("the controller touched %s here, which is not in the score", line)
	} else if line != "" {
		return differs("the controller touched %s for the score, and does not here", line)
	}
	for _, depends := range []map[string]string{got.Depends, s.Depends} {
		for _, name := range slices.Sorted(maps.Keys(depends)) {
			if s.Depends[name] != got.Depends[name] {
				return differs("the result depends on %s: %s here, %s in the score",
					name, cmp.Or(got.Depends[name], "nothing"), cmp.Or(s.Depends[name], "nothing"))
			}
		}
	}
	return nil
}

// other is the first line that one of two lists has more often than the other, and whether
// it is got that has it.
func other(want, got []string) (line string, here bool) {
	more := map[string]int{}
	for _, line := range got {
		more[line]++
	}
	for _, line := range want {
		more[line]--
	}
	for _, line := range slices.Sorted(maps.Keys(more)) {
		if more[line] != 0 {
			return line, more[line] > 0
		}
	}
	return "", false
}

func fileLines(files []hashed) (lines []string) {
	for _, f := range files {
		lines = append(lines, fmt.Sprintf("%s (SHA-256 %.64s)", movable(f.Path), f.SHA256))
	}
	return lines
}

func touchLines(touched []pycontroller.Touch) (lines []string) {
	for _, t := range touched {
		lines = append(lines, t.Kind+" "+movable(t.Name))
	}
	return lines
}

// movable is a path as far as it can be the same on another machine: of one outside the
// controller's folder, which is absolute, that is its last element.
func movable(path string) string {
	if filepath.IsAbs(path) {
		return filepath.Base(path)
	}
	return path
}
