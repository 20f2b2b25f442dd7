//go:build cgo

package native

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"lockstep"
	"lockstep/cmd/internal/report"
	"lockstep/parity"
	"lockstep/parity/schema"
	"lockstep/parity/tinyphysics"
	"lockstep/parity/trace"
	"lockstep/parity/verdict"
)

// schemaOf is what a trace's stages are.
func schemaOf(*task, int64, []byte, []byte) (any, error) {
	return tinyphysics.Schema(lockstep.AllSteps), nil
}

type compareRequest struct {
	Trace       string
	Mine        string // the name of what is judged
	Routes      int64
	Positions   []int
	Controllers []controllerSpec
	Chosen      bool // so that the trace must have a rollout of each controller
	Inexact     bool
	Budget      int
}

type compareAnswer struct {
	Handle  int64  `json:"handle"`
	Outcome string `json:"outcome"`
	Title   string `json:"title"`
	Why     string `json:"why"`
	Extent  string `json:"extent"`
	Effects string `json:"effects"` // that Why does not tell

	Exercised string `json:"exercised"` // "" where that is not known

	JSON json.RawMessage `json:"json"`
}

// compare holds a trace to a simulator, on the trace's rollouts.
func compare(t *task, s *simulator, q compareRequest, _ []byte) (any, error) {
	if err := s.Implementation.About().Unproven; err != nil && !q.Inexact {
		return nil, usage(err)
	}
	picked, err := pick(q.Routes, q.Positions)
	if err != nil {
		return nil, err
	}
	f, err := trace.Open(q.Trace)
	if err != nil {
		return nil, usage(err)
	}
	defer f.Close()
	err = schema.Agree(&f.Header.Schema, tinyphysics.Schema(lockstep.AllSteps))
	if err != nil {
		return nil, usagef("%s: %w: compare_traces holds it to another trace", q.Trace, err)
	}
	if p := f.Header.Profile; p != "" && p != s.Profile().String() {
		return nil, usagef(
			"%s has profile %s, the simulator %s: make one with profile=%[2]q", q.Trace, p,
			s.Profile(),
		)
	}
	shortcuts, err := tinyphysics.ParseShortcuts(f.Header.Shortcuts)
	if err != nil {
		return nil, usagef("%s: %v", q.Trace, err)
	}
	policies := map[string]lockstep.Policy{}
	for _, spec := range q.Controllers {
		policy, done, err := spec.policy(t, picked)
		if err != nil {
			return nil, err
		}
		defer done()
		policies[policy.String()] = policy
	}
	unused := maps.Clone(policies)
	named := map[string][]*lockstep.Route{} // several may have one name: they come in their order
	for _, route := range picked {
		named[route.Name] = append(named[route.Name], route)
	}
	var jobs []lockstep.Job
	seen := map[[2]string]int{}
	for _, r := range f.Rollouts {
		routes, key := named[r.Key[0]], [2]string{r.Key[0], r.Key[1]}
		if len(routes) == 0 {
			return nil, usagef("%s: route %q is not among those given", q.Trace, r.Key[0])
		}
		route := routes[seen[key]%len(routes)]
		seen[key]++
		policy := policies[r.Key[1]]
		if policy == nil {
			if policy, err = tinyphysics.Named(r.Key[1]); err != nil {
				return nil, usagef("%s: %v", q.Trace, err)
			}
		}
		jobs = append(jobs, lockstep.Job{Route: route, Policy: policy})
		delete(unused, r.Key[1])
	}
	for _, name := range slices.Sorted(maps.Keys(unused)) {
		if q.Chosen {
			return nil, usagef("gains: no rollout of %s is of %s", q.Trace, name)
		}
	}
	c := &verdict.Comparison{Kind: "diff", Want: s.Name(), Got: q.Mine}
	options := parity.CompareOptions{Inexact: q.Inexact, Budget: parity.Budget{Flips: q.Budget}}
	shortcuts = lockstep.AllSteps | shortcuts&lockstep.StopAtCostEnd
	c.Report, err = tinyphysics.Compare(
		t, tinyphysics.Live(s.Implementation), parity.Traced(f), jobs, shortcuts, options,
	)
	return judged(c, err)
}

type tracesRequest struct {
	Want, Got string
	Inexact   bool
	Budget    int
}

// compareTraces holds one trace to another, whatever simulator they are of.
func compareTraces(t *task, q tracesRequest) (any, error) {
	want, err := trace.Open(q.Want)
	if err != nil {
		return nil, usage(err)
	}
	defer want.Close()
	got, err := trace.Open(q.Got)
	if err != nil {
		return nil, usage(err)
	}
	defer got.Close()
	c := &verdict.Comparison{Kind: "traces", Want: q.Want, Got: q.Got}
	options := parity.CompareOptions{Inexact: q.Inexact, Budget: parity.Budget{Flips: q.Budget}}
	c.Report, err = tinyphysics.CompareTraces(t, want, got, options)
	return judged(c, err)
}

// judged is what Python is told of a comparison, or of the error of one that was not made.
func judged(c *verdict.Comparison, err error) (any, error) {
	if err != nil {
		c.Error = err.Error()
	}
	line, err := json.Marshal(verdict.JSONLine{Comparison: c})
	if err != nil {
		return nil, err
	}
	a := compareAnswer{
		Outcome: c.Outcome(),
		Title:   c.Title(),
		Why:     c.Why(),
		Extent:  c.Extent(),
		JSON:    line,
	}
	if c.Report != nil && a.Outcome == verdict.Equal {
		a.Effects = c.Report.Effects()
	}
	a.Exercised = c.Exercised()
	a.Handle = put(c)
	return a, nil
}

// page writes a comparison's report, a file that opens offline.
func page(_ *task, c *verdict.Comparison, q struct{ File string }, _ []byte) (any, error) {
	call := fmt.Sprintf("lockstep.compare(%s)", c.Got)
	if c.Kind == "traces" {
		call = fmt.Sprintf("lockstep.compare_traces(%q, %q)", c.Want, c.Got)
	}
	origin := report.Origin{Facts: []report.Fact{{Name: "command", Value: call}}} // no shell's
	return nothing{}, report.WriteParity(
		q.File, report.Parity{Comparisons: []verdict.Comparison{*c}, Origin: origin},
	)
}
