package search

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"lockstep"
)

// A Planner is a search for a table of actions.
type Planner interface {
	Check() error
	Rollouts() int // how much it computes for a route, as a number of rollouts

	// Steps is in how many a search of these routes chooses something for each, and KeptBy
	// has a search keep what each step chooses, so that another goes on behind it.
	Steps(routes []*lockstep.Route) int
	KeptBy(Keep)

	Run(
		ctx context.Context, sim lockstep.StepSimulator, routes []*lockstep.Route,
		from lockstep.Policy, progress func(rollouts int),
	) (*lockstep.Table, error)
}

// Keep keeps what a step of a search chooses for some routes, of which it knows the number of the
// first and how many they are. It returns what was kept of this step before, or else what choose
// returns. All else that a search knows follows from what its steps have chosen.
type Keep func(step, first, routes int, choose func() ([][]float64, error)) ([][]float64, error)

// keeping is a search that may be kept.
type keeping struct{ keep Keep }

// KeptBy has the search keep what it chooses.
func (k *keeping) KeptBy(keep Keep) { k.keep = keep }

// step takes a step: choose puts what it chooses for each route into chosen, or what was kept of
// it is there.
func (k *keeping) step(step, first int, chosen [][]float64, choose func() error) error {
	if k.keep == nil {
		return choose()
	}
	kept, err := k.keep(
		step, first, len(chosen), func() ([][]float64, error) { return chosen, choose() },
	)
	if err != nil {
		return err
	}
	for i, into := range chosen {
		if len(kept) != len(chosen) || len(kept[i]) != len(into) {
			return fmt.Errorf("step %d of the search is not kept as it was chosen: remove what is "+
				"kept, whole", step)
		}
		copy(into, kept[i])
	}
	return nil
}

// PlannerOptions are what a planner is made of; nil is what WithDefaults says.
type PlannerOptions struct {
	Rounds          *int    // 2 with the routes' noise, else 3
	Window, Horizon *int    // with the routes' noise
	Seeds           *int    // of a round with seeded noise
	Seed            *uint64 // of these
}

// WithDefaults has a value for each option but the rounds.
func (p PlannerOptions) WithDefaults() PlannerOptions {
	p.Window, p.Horizon = cmp.Or(p.Window, new(5)), cmp.Or(p.Horizon, new(24))
	p.Seeds, p.Seed = cmp.Or(p.Seeds, new(24)), cmp.Or(p.Seed, new(uint64(1)))
	return p
}

// Unheeded names an option that is given and that searches under none of the noises heed, and the
// noise that it goes with; or it is "".
func (p PlannerOptions) Unheeded(
	noises ...lockstep.NoiseKind,
) (name string, with lockstep.NoiseKind) {
	for _, option := range []struct {
		name  string
		given bool
		with  lockstep.NoiseKind
	}{
		{"window", p.Window != nil, lockstep.RouteNoise},
		{"horizon", p.Horizon != nil, lockstep.RouteNoise},
		{"seeds", p.Seeds != nil, lockstep.SeededNoise},
		{"seed", p.Seed != nil, lockstep.SeededNoise},
	} {
		if option.given && !slices.Contains(noises, option.with) {
			return option.name, option.with
		}
	}
	return "", 0
}

// Planner is the planner for a noise: Receding with the routes', else Aim.
func (p PlannerOptions) Planner(noise lockstep.NoiseKind) Planner {
	p = p.WithDefaults()
	rounds, seeds := 3, 1
	switch noise {
	case lockstep.RouteNoise:
		rounds = 2
	case lockstep.SeededNoise:
		seeds = *p.Seeds
	}
	if p.Rounds != nil {
		rounds = *p.Rounds
	}
	if noise == lockstep.RouteNoise {
		return &Receding{Rounds: rounds, Window: *p.Window, Horizon: *p.Horizon}
	}
	return &Aim{Noise: noise, Seeds: seeds, Rounds: rounds, Seed: *p.Seed}
}
