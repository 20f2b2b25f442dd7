package gymnasium

import (
	"context"
	"maps"
	"slices"

	"lockstep/classic"
	"lockstep/parity"
)

// Freeze is the rollout with the actions that an engine's policy chooses, given.
func (r *Episodes) Freeze(ctx context.Context, e classic.Maker) (*Episodes, error) {
	t, err := r.Task()
	if err != nil {
		return nil, err
	}
	v, err := e.Make(t)
	if err != nil {
		return nil, err
	}
	defer v.Close()
	if err := v.Reset(r.reset(t)); err != nil {
		return nil, err
	}
	frozen, record := *r, []classic.Transition{classic.NewTransition(t)}
	frozen.Uniform, frozen.Network, frozen.Actions = nil, nil, nil
	for k := range r.Steps {
		if err := v.Run(ctx, r.policy(t, k), 1, record); err != nil {
			return nil, err
		}
		for i := range r.Num {
			if t.Actions > 0 {
				frozen.Actions = append(frozen.Actions, parity.Float(record[0].Actions.Discrete[i]))
			} else {
				frozen.Actions = append(frozen.Actions,
					parity.Float(record[0].Actions.Continuous[i]))
			}
		}
	}
	return &frozen, nil
}

// Shrink looks for a smaller rollout on which engines differ in the same stage, see
// parity.Shrink: given actions, the fewest environments, the fewest steps, no options,
// simpler seeds and actions.
func Shrink(
	ctx context.Context, r *Episodes, want, got classic.Maker, limit int,
) (*Episodes, *parity.Divergence, error) {
	run := func(ctx context.Context, r *Episodes) (*parity.Divergence, error) {
		report, err := r.Compare(ctx, want, got, parity.CompareOptions{})
		if err != nil {
			return nil, err
		}
		return report.First, nil
	}
	frozen, err := r.Freeze(ctx, want)
	if err != nil {
		return nil, nil, err
	}
	return parity.Shrink(ctx, r, run, limit,
		func(s *shrinker) { s.Try(frozen) }, fewerEnvironments, fewerSteps, plainer, smallerSeeds,
		func(s *shrinker) {
			parity.Simpler(
				s, (*Episodes).clone, func(r *Episodes) []parity.Float { return r.Actions },
			)
		})
}

type shrinker = parity.Shrinker[*Episodes]

func (r *Episodes) clone() *Episodes {
	c := *r
	c.Options, c.Seeds, c.Actions = maps.Clone(r.Options), slices.Clone(r.Seeds),
		slices.Clone(r.Actions)
	return &c
}

// keep is the rollout with some of its environments, in order.
func (r *Episodes) keep(which []int) *Episodes {
	c := r.clone()
	c.Num, c.Actions = len(which), nil
	if r.generators() == r.Num {
		c.Seeds = nil
		for _, i := range which {
			c.Seeds = append(c.Seeds, r.Seeds[i])
		}
	}
	for k := 0; k < len(r.Actions); k += r.Num {
		for _, i := range which {
			c.Actions = append(c.Actions, r.Actions[k+i])
		}
	}
	return c
}

// fewerEnvironments leaves environments out: all but the one that differs, else ever
// smaller parts.
func fewerEnvironments(s *shrinker) {
	if d := s.Divergence; d.Index >= 0 && d.Element != "" &&
		s.Try(s.Best.keep([]int{d.Index % s.Best.Num})) {
		return
	}
	parity.Fewer(s, func(r *Episodes) (all []int) {
		for i := range r.Num {
			all = append(all, i)
		}
		return all
	}, (*Episodes).keep)
}

// fewerSteps looks for the fewest, first just beyond the step that fails.
func fewerSteps(s *shrinker) {
	cut := func(r *Episodes, n int) *Episodes {
		c := r.clone()
		c.Steps, c.Actions = n, c.Actions[:min(len(c.Actions), n*c.Num)]
		return c
	}
	if d := s.Divergence; d.Step >= 0 && d.Step+1 < s.Best.Steps {
		s.Try(cut(s.Best, d.Step+1))
	}
	parity.Least(s, 1, func(r *Episodes) int { return r.Steps }, cut)
}

// plainer takes options back, and NumPy 1's rules.
func plainer(s *shrinker) {
	for _, key := range slices.Sorted(maps.Keys(s.Best.Options)) {
		c := s.Best.clone()
		delete(c.Options, key)
		s.Try(c)
	}
	if s.Best.NumPy1 {
		c := s.Best.clone()
		c.NumPy1 = false
		s.Try(c)
	}
}

func smallerSeeds(s *shrinker) {
	for i, seed := range s.Best.Seeds {
		if seed != 0 {
			c := s.Best.clone()
			c.Seeds[i] = 0
			s.Try(c)
		}
	}
}
