package lockstep

import (
	"context"
	"errors"
	"fmt"
)

// A Planner is a Stepper that tries things out: from a Snapshot it begins
// candidates, rolls them on with actions, and says what that cost.
type Planner interface {
	Stepper

	// Fork begins candidates in step: the k-th continues rollout index[k] of a
	// snapshot of this Planner's jobs, under the noise. They share nothing, are
	// steered by commands, and have no observers. An index may come repeatedly.
	Fork(ctx context.Context, s *Snapshot, index []int, noise Noise) (Planner, error)

	// Roll computes as many steps as there are commands for all rollouts:
	// commands[h·M+k] is that of rollout k of M at the h-th of them. It adds to
	// costs[k] what the steps cost, the partial cost: in the order of steps, for
	// each from ControlStartIdx to CostEndIdx-1,
	//
	//	(5000/n)·((T-L)·(T-L)) + (100/(n-1))·(j·j),  j = (L - L before)/0.1,
	//
	// where n is the number of the route's steps that cost, and the first of them
	// has no j. Over all steps that is the total cost but for rounding. If
	// lataccels is not nil, it receives the trajectories, in the form of commands.
	// A rollout that fails has the cost NaN.
	Roll(ctx context.Context, commands, costs, lataccels []float64) error
}

// Noise says which draws candidates see. The zero Noise is none: it must be said.
type Noise struct {
	Kind  NoiseKind
	Seeds []uint32 // of SeededNoise: one for each candidate
}

// NoiseKind is a kind of noise.
type NoiseKind uint8

const (
	// OwnNoise is the route's: what is found with it knows the draws, and every
	// report says so.
	OwnNoise NoiseKind = iota + 1
	// SeededNoise is that of Draws(seed, ·), so that nothing is known of the route's.
	SeededNoise
	// ExpectedNoise is none: each prediction is its distribution's mean.
	ExpectedNoise
)

var noiseNames = []string{OwnNoise: "own", SeededNoise: "seeded", ExpectedNoise: "expected"}

func (k NoiseKind) String() string {
	if k < OwnNoise || k > ExpectedNoise {
		return fmt.Sprintf("noise %d", k)
	}
	return noiseNames[k]
}

// ParseNoise is the kind of a name: own, seeded or expected.
func ParseNoise(name string) (NoiseKind, error) {
	for k := OwnNoise; k <= ExpectedNoise; k++ {
		if noiseNames[k] == name {
			return k, nil
		}
	}
	return 0, fmt.Errorf("noise %.30q: want own, seeded or expected", name)
}

// check refuses noise that is not said, or not for so many candidates.
func (n Noise) check(candidates int) error {
	switch {
	case n.Kind < OwnNoise || n.Kind > ExpectedNoise:
		return errors.New("no noise is chosen: want own, seeded or expected")
	case n.Kind == SeededNoise && len(n.Seeds) != candidates:
		return fmt.Errorf("%d seeds for %d candidates", len(n.Seeds), candidates)
	case n.Kind != SeededNoise && n.Seeds != nil:
		return fmt.Errorf("seeds go with seeded noise, not with %s", n.Kind)
	}
	return nil
}

// Apply gives a job the noise of the k-th candidate, in place of its own.
func (n Noise) Apply(job *Job, k int) {
	switch n.Kind {
	case SeededNoise:
		job.Draws = Draws(n.Seeds[k], job.Route.Len()-ContextLength)
	case ExpectedNoise:
		job.Expected = true
	}
}

// Candidates are the jobs of a fork, to which the noise is yet to be applied, and the
// snapshot from which they start: a copy of the parts of s that index names.
func Candidates(jobs []Job, s *Snapshot, index []int, noise Noise) ([]Job, *Snapshot, error) {
	if err := noise.check(len(index)); err != nil {
		return nil, nil, err
	}
	if len(index) == 0 {
		return nil, nil, errors.New("no candidates")
	}
	if len(s.Rollouts) != len(jobs) {
		return nil, nil, fmt.Errorf("a snapshot of %d rollouts for %d jobs", len(s.Rollouts), len(jobs))
	}
	candidates := make([]Job, len(index))
	part := *s
	part.Rollouts = make([]RolloutState, len(index))
	for k, i := range index {
		if i < 0 || i >= len(jobs) {
			return nil, nil, fmt.Errorf("candidate %d: no rollout %d, want 0 to %d", k, i, len(jobs)-1)
		}
		candidates[k] = Job{Route: jobs[i].Route, Draws: jobs[i].Draws, Expected: jobs[i].Expected}
		part.Rollouts[k] = s.Rollouts[i]
		part.Rollouts[k].Policy = nil
	}
	return candidates, &part, nil
}
