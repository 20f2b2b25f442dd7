package search

import (
	"context"

	"lockstep"
)

// A Planner is a search for a table of actions.
type Planner interface {
	Check() error
	Rollouts() int // how much it computes for a route, as a number of rollouts
	Run(ctx context.Context, sim lockstep.StepSimulator, routes []*lockstep.Route, from lockstep.Policy, progress func(rollouts int)) (*lockstep.Table, error)
}

// Planning is what a planner is made of.
type Planning struct {
	Rounds          *int // nil: 2 with the routes' own noise, else 3
	Window, Horizon int  // with the routes' own noise
	Seeds           int  // of a round with seeded noise
	Seed            uint64
}

// Planner is the planner for a noise: Plan with the routes' own, else Aim.
func (p Planning) Planner(noise lockstep.NoiseKind) Planner {
	rounds, seeds := 3, 1
	switch noise {
	case lockstep.OwnNoise:
		rounds = 2
	case lockstep.SeededNoise:
		seeds = p.Seeds
	}
	if p.Rounds != nil {
		rounds = *p.Rounds
	}
	if noise == lockstep.OwnNoise {
		return &Plan{Rounds: rounds, Window: p.Window, Horizon: p.Horizon}
	}
	return &Aim{Noise: noise, Seeds: seeds, Rounds: rounds, Seed: p.Seed}
}
