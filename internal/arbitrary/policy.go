package arbitrary

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"pgregory.net/rapid"

	"lockstep"
)

// Gain is a gain of a PID controller.
func Gain() *rapid.Generator[float64] {
	return rapid.OneOf(
		rapid.Float64Range(-1, 1),
		rapid.SampledFrom([]float64{
			0, math.Copysign(0, -1), 0.195, 0.1, -0.053, 5, -5, 1e-3, 1e9, -1e9,
			math.SmallestNonzeroFloat64, math.MaxFloat64, -math.MaxFloat64,
		}),
	)
}

// PID is a PID controller; its gains may be extreme.
func PID() *rapid.Generator[lockstep.PID] {
	return rapid.Custom(func(t *rapid.T) lockstep.PID {
		return lockstep.PID{P: Gain().Draw(t, "p"), I: Gain().Draw(t, "i"), D: Gain().Draw(t, "d")}
	})
}

// Policy is any policy whose controllers answer numbers, infinite ones included.
// Two of the same String are the same policy.
func Policy() *rapid.Generator[lockstep.Policy] {
	return rapid.OneOf(
		rapid.Just[lockstep.Policy](lockstep.Zero{}),
		rapid.Just[lockstep.Policy](lockstep.DefaultPID()),
		rapid.Map(PID(), func(p lockstep.PID) lockstep.Policy { return p }),
		rapid.Custom(func(t *rapid.T) lockstep.Policy {
			s := script{seed: rapid.Uint64Range(0, 1<<16).Draw(t, "seed"), at: -1}
			s.size = rapid.SampledFrom([]float64{0, 1e-9, 0.3, 1, 3, 1e300, math.Inf(1)}).Draw(
				t, "size",
			)
			return s.policy(rapid.Bool().Draw(t, "batch controller"))
		}),
	)
}

// BatchPolicy is a policy of batch controllers.
func BatchPolicy() *rapid.Generator[lockstep.Policy] {
	return rapid.Custom(func(t *rapid.T) lockstep.Policy {
		s := script{seed: rapid.Uint64Range(0, 1<<16).Draw(t, "seed"), at: -1, size: 1}
		return s.policy(true)
	})
}

// FaultyPolicy is a policy whose controller fails its job, or could.
func FaultyPolicy() *rapid.Generator[lockstep.Policy] {
	return rapid.Custom(func(t *rapid.T) lockstep.Policy {
		s := script{size: 1}
		s.at = rapid.OneOf(
			rapid.SampledFrom([]int{20, 99, 100, 101}), rapid.IntRange(20, 130),
		).Draw(t, "step")
		s.panics = rapid.Bool().Draw(t, "panics") // or answers NaN, which counts from step 100 on
		return s.policy(false)
	})
}

// script is a controller whose answers depend on everything that it is told, on the step and
// on a seed.
type script struct {
	seed   uint64
	size   float64 // of its answers
	at     int     // step at which it fails, if at all
	panics bool

	step   int
	memory float64
	random *rand.Rand
}

func (s script) policy(batch bool) lockstep.Policy {
	name := fmt.Sprintf("script %d %g %d %v", s.seed, s.size, s.at, s.panics)
	start := func() *script {
		c := s
		c.step, c.random = lockstep.ContextLength-1, rand.New(rand.NewPCG(s.seed, 0))
		return &c
	}
	if !batch {
		return lockstep.Custom{Name: name, New: func() lockstep.Controller { return start() }}
	}
	return &lockstep.Batch{
		Name: "batch " + name,
		New: func(routes []*lockstep.Route) (lockstep.BatchController, error) {
			each := make(scripts, len(routes))
			for i := range each {
				each[i] = start()
			}
			return each, nil
		},
	}
}

func (s *script) Update(
	target, current float64, state lockstep.State, plan lockstep.FuturePlan,
) float64 {
	s.step++
	if s.step == s.at {
		if s.panics {
			panic("the script says so")
		}
		return math.NaN()
	}
	s.memory = float64(0.9*s.memory) + clamp(target-current)
	x := float64(0.2*s.memory) + float64(0.1*clamp(state.RollLataccel)) +
		float64(1e-3*clamp(state.VEgo)) + float64(1e-2*clamp(state.AEgo))
	for i := range plan.Lataccel {
		x += float64(1e-2*clamp(plan.Lataccel[i])) + float64(1e-3*clamp(plan.RollLataccel[i])) +
			float64(1e-4*clamp(plan.VEgo[i])) + float64(1e-3*clamp(plan.AEgo[i]))
	}
	x += s.random.Float64() - 0.5 + float64(1e-2*float64(s.step%16))
	if x == 0 {
		return 0 // and not 0·∞
	}
	return float64(x * s.size)
}

// clamp keeps what a route may hold from becoming infinite, and so NaN.
func clamp(x float64) float64 { return min(max(x, -1e6), 1e6) }

// scripts are scripts for several routes at once, each at the step that they are told.
type scripts []*script

func (c scripts) Update(s *lockstep.BatchStep) error {
	for i, each := range c {
		if s.Running[i] {
			each.step = s.Step - 1
			s.Steer[i] = each.Update(
				s.TargetLataccel[i], s.CurrentLataccel[i], s.State[i], s.Plan[i],
			)
		}
	}
	return nil
}

// Close fails where the first seed is odd, which is no rollout's.
func (c scripts) Close() error {
	if c[0].seed%2 == 1 {
		return errors.New("a script of an odd seed")
	}
	return nil
}

// Shortcuts is any combination of shortcuts.
func Shortcuts() *rapid.Generator[lockstep.Shortcuts] {
	return rapid.Custom(func(t *rapid.T) lockstep.Shortcuts {
		return lockstep.Shortcuts(rapid.IntRange(0, int(lockstep.CostOnly)).Draw(t, "shortcuts"))
	})
}

// Jobs are 1 to n jobs over a few routes and policies, so that some share a route
// and some are the same job twice.
func Jobs(
	n int, rows *rapid.Generator[int], policy *rapid.Generator[lockstep.Policy],
) *rapid.Generator[[]lockstep.Job] {
	return rapid.Custom(func(t *rapid.T) []lockstep.Job {
		routes := rapid.SliceOfN(Route(rows), 1, 2).Draw(t, "routes")
		policies := rapid.SliceOfN(policy, 1, 3).Draw(t, "policies")
		return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) lockstep.Job {
			return lockstep.Job{
				Route:  rapid.SampledFrom(routes).Draw(t, "route"),
				Policy: rapid.SampledFrom(policies).Draw(t, "policy"),
			}
		}), 1, n).Draw(t, "jobs")
	})
}
