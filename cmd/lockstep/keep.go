package main

import (
	"fmt"

	"lockstep"
	"lockstep/cmd/internal/runs"
)

// goesOn is what an interruption means for a search.
const goesOn = "with --out the same command goes on where it stopped"

// journal opens the folder of a run, if one is given (--out), and says what was wrong
// with it. Of is the search that it is, if it is one.
func (s *simulation) journal(
	env *environment, dir string, of runs.Plan, policies ...lockstep.Policy,
) (*runs.Journal, error) {
	if dir == "" {
		return nil, nil
	}
	var controllers []runs.PlannedController
	for _, policy := range policies {
		c, err := runs.NewController(policy)
		if err != nil {
			return nil, err
		}
		controllers = append(controllers, c)
	}
	plan, err := runs.NewPlan(libraryFile, s.simulator, controllers, runs.PlanRoutes(s.routes))
	if err != nil {
		return nil, err
	}
	plan.Search, plan.Planning = of.Search, of.Planning
	if err := unshared(dir); err != nil {
		return nil, fmt.Errorf("--out: %w", err)
	}
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
