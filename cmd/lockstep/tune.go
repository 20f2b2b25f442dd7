package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"lockstep"
	"lockstep/export"
	"lockstep/internal/fileio"
	"lockstep/policyfile"
	"lockstep/reference"
	"lockstep/report"
	"lockstep/search"
)

type tuneCommand struct {
	simulatorFlags
	Kind        string        `name:"kind" default:"pidff" help:"What is tuned: the gains of pid or of pidff. Default: ${default}."`
	Population  int           `name:"population" default:"32" placeholder:"N" help:"Sets of gains that are tried together. Default: ${default}."`
	Generations int           `name:"generations" default:"40" placeholder:"N" help:"The most generations. Default: ${default}."`
	Budget      time.Duration `name:"budget" default:"10m" placeholder:"TIME" help:"No generation begins that would not end within it, as long as the last one took. Default: ${default}."`
	Seed        uint64        `name:"seed" default:"1" placeholder:"N" help:"Of what is drawn. Default: ${default}."`
	State       string        `name:"state" placeholder:"FILE" help:"Where the search is written after each generation, and where it goes on from if the file is there."`
	Out         string        `name:"out" default:"gains.json" placeholder:"FILE" help:"The best gains, for --controller. Default: ${default}."`
	Python      string        `name:"python" placeholder:"FILE.py" help:"The same as a controller of the challenge."`
	Report      string        `name:"report" placeholder:"FILE" help:"A report with the curve of the search."`
}

// tuneState is a search over gains, and what it was a search on.
type tuneState struct {
	Model   string           `json:"model_sha256"`
	Profile lockstep.Profile `json:"profile"`
	Routes  []string         `json:"routes"`
	Search  *search.Gains    `json:"search"`
}

// Run is the tune command.
func (c *tuneCommand) Run(env *environment) error {
	kind, ok := lockstep.KindOf(c.Kind)
	if !ok {
		return fmt.Errorf("--kind %q: want pid or pidff", c.Kind)
	}
	gains, err := search.NewGains(kind, c.Population, c.Seed)
	if err != nil {
		return err
	}
	start := time.Now()
	s, err := c.load(env)
	if err != nil {
		return err
	}
	defer s.close()
	if len(s.failed) > 0 || len(s.routes) == 0 {
		return errors.New("every route must load: a search would leave out what does not")
	}
	state, err := c.resume(s, gains)
	if err != nil {
		return err
	}
	if err := c.search(env, s, state, start); err != nil {
		return err
	}
	best := state.Search.Policy()
	r := s.scores("Gains of " + c.Kind)
	if err := r.add(env, s, report.ClassController, lockstep.DefaultPID, best); err != nil {
		return err
	}
	return c.write(env, s, state, best, r, time.Since(start))
}

// resume is the search that the state file holds, or a new one.
func (c *tuneCommand) resume(s *simulation, gains *search.Gains) (*tuneState, error) {
	sum, err := fileio.SHA256(s.modelPath)
	if err != nil {
		return nil, err
	}
	state := &tuneState{Model: sum, Profile: s.simulator.Profile(), Search: gains}
	for _, r := range s.routes {
		state.Routes = append(state.Routes, r.Name)
	}
	if c.State == "" {
		return state, nil
	}
	data, err := fileio.ReadFile(c.State, fileio.Record)
	if errors.Is(err, os.ErrNotExist) {
		return state, nil
	} else if err != nil {
		return nil, err
	}
	var was tuneState
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&was); err != nil || was.Search == nil {
		return nil, fmt.Errorf("%s: not the state of a search: %w", c.State, errors.Join(err))
	}
	if err := was.Search.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", c.State, err)
	}
	for _, differs := range []struct {
		what string
		is   bool
	}{
		{"model", was.Model != state.Model}, {"profile", was.Profile != state.Profile}, {"routes", !slices.Equal(was.Routes, state.Routes)},
		{"kind", was.Search.Kind != gains.Kind}, {"population", was.Search.Population != gains.Population}, {"seed", was.Search.Seed != gains.Seed},
	} {
		if differs.is {
			return nil, fmt.Errorf("%s: a search with another %s: go on with the same, or begin with another --state", c.State, differs.what)
		}
	}
	return &was, nil
}

// search runs generations. Each is one sweep: its candidates times the routes.
func (c *tuneCommand) search(env *environment, s *simulation, state *tuneState, start time.Time) error {
	g := state.Search
	var last time.Duration
	for len(g.History) < c.Generations && time.Since(start)+last <= c.Budget {
		began := time.Now()
		candidates := g.Ask()
		results := s.simulate(env, s.jobs(candidates), lockstep.Options{Shortcuts: lockstep.CostOnly})
		if env.ctx.Err() != nil {
			fmt.Fprintf(env.stderr, "lockstep: interrupted after %d generations; with --state the same command goes on\n", len(g.History))
			return exitStatus(exitInterrupted)
		}
		objectives := make([]float64, len(candidates))
		for k := range candidates {
			var costs []float64
			for _, r := range results[k*len(s.routes) : (k+1)*len(s.routes)] {
				costs = append(costs, totalOf(r))
			}
			objectives[k] = search.GeometricMean(costs)
		}
		g.Tell(candidates, objectives)
		h := g.History[len(g.History)-1]
		fmt.Fprintf(env.stdout, "generation %2d  best %8.3f  mean %8.3f  median %8.3f\n", len(g.History), h.Best, h.Mean, h.Median)
		if c.State != "" {
			if err := writeJSON(c.State, state); err != nil {
				return err
			}
		}
		last = time.Since(began)
	}
	if len(g.History) == 0 {
		return fmt.Errorf("--budget %s: not even one generation", c.Budget)
	}
	return nil
}

func (c *tuneCommand) write(env *environment, s *simulation, state *tuneState, best lockstep.Native, r *scores, took time.Duration) error {
	if err := r.print(env.stdout); err != nil {
		return err
	}
	if err := policyfile.Write(c.Out, best); err != nil {
		return err
	}
	fmt.Fprintf(env.stdout, "gains: %s (%s)\n", c.Out, best)
	if c.Python != "" {
		source, err := export.Controller(best)
		if err == nil {
			err = fileio.Write(c.Python, func(w io.Writer) error { _, err := w.Write(source); return err })
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(env.stdout, "controller: %s\n", c.Python)
	}
	if c.Report == "" {
		return nil
	}
	curve := report.Curve{Label: "geometric mean of the routes' total costs", X: "generation", Names: []string{"best", "mean", "median"}, Values: make([][]float64, 3)}
	for _, h := range state.Search.History {
		for i, x := range []float64{h.Best, h.Mean, h.Median} {
			curve.Values[i] = append(curve.Values[i], x)
		}
	}
	return r.report(env, c.Report, s, &c.simulatorFlags, took, &curve)
}

// totalOf is a rollout's total cost; one that failed has none.
func totalOf(r lockstep.Result) float64 {
	if r.Err != nil {
		return math.NaN()
	}
	return r.Costs.Total
}

func writeJSON(path string, v any) error {
	return fileio.Write(path, func(w io.Writer) error {
		data, err := json.Marshal(v)
		if err == nil {
			_, err = w.Write(append(data, '\n'))
		}
		return err
	})
}

// scores are costs of policies on routes, each with its class and beside the route's
// floor. They never mix the three classes.
type scores struct {
	title    string
	policies []string
	classes  []report.Class
	routes   []string
	floors   []float64
	totals   [][]float64 // of each policy by route
}

// scores has the routes and their floors, and no policy yet.
func (s *simulation) scores(title string) *scores {
	r := &scores{title: title}
	for _, route := range s.routes {
		r.routes = append(r.routes, route.Name)
		r.floors = append(r.floors, search.Floor(route))
	}
	return r
}

// add simulates policies of a class on all routes.
func (r *scores) add(env *environment, s *simulation, class report.Class, policies ...lockstep.Policy) error {
	results := s.simulate(env, s.jobs(policies), lockstep.Options{Shortcuts: lockstep.CostOnly})
	if env.ctx.Err() != nil {
		fmt.Fprintln(env.stderr, "lockstep: interrupted; nothing is written")
		return exitStatus(exitInterrupted)
	}
	n := len(s.routes)
	for k, p := range policies {
		totals := make([]float64, n)
		for i, result := range results[k*n : (k+1)*n] {
			if result.Err != nil {
				return result.Err
			}
			totals[i] = result.Costs.Total
		}
		r.policies, r.classes, r.totals = append(r.policies, p.String()), append(r.classes, class), append(r.totals, totals)
	}
	return nil
}

// print prints a line for each route, and the means.
func (r *scores) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "\nroute\tfloor\t")
	for k := range r.policies {
		fmt.Fprintf(t, "%s\t", r.short(k))
	}
	fmt.Fprintln(t)
	row := func(name, floor string, of func(k int) float64) {
		fmt.Fprintf(t, "%s\t%s\t", name, floor)
		for k := range r.policies {
			fmt.Fprintf(t, "%.3f\t", of(k))
		}
		fmt.Fprintln(t)
	}
	for i, name := range r.routes {
		row(name, fmt.Sprintf("%.3f", r.floors[i]), func(k int) float64 { return r.totals[k][i] })
	}
	row("mean", fmt.Sprintf("%.3f", mean(r.floors)), func(k int) float64 { return mean(r.totals[k]) })
	row("geometric mean", "", func(k int) float64 { return search.GeometricMean(r.totals[k]) })
	if err := t.Flush(); err != nil {
		return err
	}
	for k, name := range r.policies {
		if _, err := fmt.Fprintf(w, "%s: %s; class: %s\n", r.short(k), name, r.classes[k]); err != nil {
			return err
		}
	}
	return nil
}

// short is the head of a policy's column.
func (r *scores) short(k int) string {
	if name := r.policies[k]; len(name) <= 16 {
		return name
	}
	return fmt.Sprintf("%.12s…", r.policies[k])
}

// mean is that of the Python program.
func mean(totals []float64) float64 {
	costs := make([]lockstep.Costs, len(totals))
	for i, x := range totals {
		costs[i].Total = x
	}
	return reference.MeanCosts(costs).Total
}

// report writes the scores as a page.
func (r *scores) report(env *environment, path string, s *simulation, f *simulatorFlags, took time.Duration, curve *report.Curve) error {
	page := report.Search{Title: r.title, Curve: curve, Origin: s.origin(env, f, took)}
	for k, name := range r.policies {
		page.Columns = append(page.Columns, report.SearchColumn{Policy: name, Class: r.classes[k], Totals: r.totals[k], Mean: mean(r.totals[k])})
	}
	page.Routes, page.Floors, page.MeanFloor = r.routes, r.floors, mean(r.floors)
	if err := report.WriteSearch(path, page); err != nil {
		return err
	}
	fmt.Fprintf(env.stdout, "report: %s\n", path)
	return nil
}
