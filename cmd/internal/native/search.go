//go:build cgo

package native

import (
	"time"

	"lockstep"
	"lockstep/internal/fetch"
	"lockstep/internal/figures"
	"lockstep/internal/search"
)

type fetchRequest struct{ What, Revision, Out string }

type fetchAnswer struct {
	Path string `json:"path"`
}

// fetched loads the challenge's network or routes. Its progress is counted in MB.
func fetched(t *task, q fetchRequest) (any, error) {
	path, _, err := fetch.Asset(
		t, q.What, q.Revision, q.Out, func(done, _ int64) { t.done.Store(done >> 20) },
	)
	return fetchAnswer{path}, err
}

type tuneRequest struct {
	Routes      int64
	Positions   []int
	Kind        string
	Population  int
	Generations int
	Budget      float64 // seconds
	Seed        uint64
}

type tuneAnswer struct {
	Name    string       `json:"name"` // of the best
	Gains   []float64    `json:"gains"`
	History [][3]float64 `json:"history"` // of each generation: best, mean, median
}

// tune searches for gains, as the command of that name does.
func tune(t *task, s *simulator, q tuneRequest, _ []byte) (any, error) {
	picked, err := pick(q.Routes, q.Positions)
	if err != nil {
		return nil, err
	}
	kind, ok := lockstep.KindOf(q.Kind)
	if !ok {
		return nil, usagef("kind %.60q is not known", q.Kind)
	}
	gains, err := search.NewGains(kind, q.Population, q.Seed)
	if err != nil {
		return nil, usage(err)
	}
	answer := tuneAnswer{}
	var last time.Duration
	for start := time.Now(); len(answer.History) < q.Generations &&
		(time.Since(start)+last).Seconds() <= q.Budget; {
		began := time.Now()
		if err := gains.Next(func(c []lockstep.Policy) ([]lockstep.Result, error) {
			return s.sweep(t, picked, c)
		}); err != nil {
			return nil, err
		}
		h := gains.History[len(gains.History)-1]
		answer.History = append(answer.History, [3]float64{h.Best, h.Mean, h.Median})
		last = time.Since(began)
	}
	if len(answer.History) == 0 {
		return nil, usagef(
			"generations=%d and a budget of %g s: not even one generation", q.Generations, q.Budget,
		)
	}
	answer.Name, answer.Gains = gains.Best.String(), gains.Best.Gains()
	return answer, nil
}

// sweep rolls policies out: each on all routes, in this order.
func (s *simulator) sweep(
	t *task, of routes, policies []lockstep.Policy,
) ([]lockstep.Result, error) {
	var jobs []lockstep.Job
	for _, policy := range policies {
		for _, route := range of {
			jobs = append(jobs, lockstep.Job{Route: route, Policy: policy})
		}
	}
	results := make([]lockstep.Result, len(jobs))
	counting := figures.Counting{Simulator: s, Counts: &s.counts}
	for i, r := range counting.Simulate(t, jobs, lockstep.Options{Shortcuts: lockstep.CostOnly}) {
		results[i] = r // they come in the order in which they finish
		t.done.Add(1)
	}
	return results, t.Err()
}

// planning is which search for actions is meant.
type planning struct {
	search.PlannerOptions
	Noise string
}

// planner is the search, or the error of a request for none, or with what it does not heed.
func (q planning) planner() (search.Planner, error) {
	noise, err := lockstep.ParseNoise(q.Noise)
	if err != nil {
		return nil, usage(err)
	}
	if name, with := q.Unheeded(noise); name != "" {
		return nil, usagef("%s goes with noise=%q, not with %q", name, with, q.Noise)
	}
	planner := q.Planner(noise)
	return planner, usage(planner.Check())
}

type planActionsRequest struct {
	planning
	Routes    int64
	Positions []int
	From      controllerSpec
}

// planActions searches for the actions of each route, as the command plan does, and writes them:
// (N, TableSteps).
func planActions(t *task, s *simulator, q planActionsRequest, buffer []byte) (any, error) {
	picked, err := pick(q.Routes, q.Positions)
	if err != nil {
		return nil, err
	}
	out, err := floats[float64](buffer, len(picked)*lockstep.TableSteps)
	if err != nil {
		return nil, err
	}
	planner, err := q.planner()
	if err != nil {
		return nil, err
	}
	from, done, err := q.From.policy(t, picked)
	if err != nil {
		return nil, err
	}
	defer done()
	table, err := planner.Run(t, s, picked, from, func(n int) { t.done.Store(int64(n)) })
	if err != nil {
		return nil, err
	}
	for i, route := range picked {
		copy(out[i*lockstep.TableSteps:], table.Actions[route.Name])
	}
	return nothing{}, nil
}

// planSize is how many rollouts a plan of one route is worth.
func planSize(_ *task, q planning) (any, error) {
	planner, err := q.planner()
	if err != nil {
		return nil, err
	}
	return planner.Rollouts(), nil
}
