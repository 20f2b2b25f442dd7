package main

import (
	"fmt"

	"lockstep"
	"lockstep/runs"
)

// journal opens the folder of a run, if one is given (--out), and says what was wrong
// with it.
func (s *simulation) journal(env *environment, dir string, search *runs.Search, policies ...lockstep.Policy) (*runs.Journal, error) {
	if dir == "" {
		return nil, nil
	}
	var controllers []runs.Controller
	for _, policy := range policies {
		c, err := runs.NewController(policy)
		if err != nil {
			return nil, err
		}
		controllers = append(controllers, c)
	}
	plan, err := runs.NewPlan(libraryFile, s.simulator, s.modelPath, controllers, runs.PlanRoutes(s.routes))
	if err != nil {
		return nil, err
	}
	plan.Search = search
	j, err := runs.OpenJournal(dir, plan)
	if err != nil {
		return nil, fmt.Errorf("--out: %w", err)
	}
	env.atEnd(func() { j.Close() })
	if j.Dropped != "" {
		fmt.Fprintf(env.stderr, "lockstep: %s\n", j.Dropped)
	}
	return j, nil
}
