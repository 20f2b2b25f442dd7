package search

import (
	"context"
	"errors"
	"iter"
	"slices"
	"testing"

	"lockstep"
)

var errBroken = errors.New("the simulator is broken")

// failing is a simulator of which one call fails. It counts what it computes, and which of its
// steppers are open.
type failing struct {
	lockstep.StepSimulator
	calls []string // so far
	fails int      // the number of the call that does
	jobs  int      // that were simulated
	open  int

	rolled [][]float64 // the commands of each roll
	spoils int         // the roll, from 1 on, after which all costs are worse than any
}

func (f *failing) call(name string) error {
	f.calls = append(f.calls, name)
	if len(f.calls)-1 == f.fails {
		return errBroken
	}
	return nil
}

func (f *failing) Simulate(
	ctx context.Context, jobs []lockstep.Job, opts lockstep.Options,
) iter.Seq2[int, lockstep.Result] {
	f.jobs += len(jobs)
	err := f.call("Simulate")
	return func(yield func(int, lockstep.Result) bool) {
		for i, r := range f.StepSimulator.Simulate(ctx, jobs, opts) {
			if err != nil && i == len(jobs)-1 {
				r = lockstep.Result{Err: err}
			}
			if !yield(i, r) {
				return
			}
		}
	}
}

func (f *failing) Reset(
	ctx context.Context, jobs []lockstep.Job, opts lockstep.Options,
) (lockstep.Stepper, error) {
	if err := f.call("Reset"); err != nil {
		return nil, err
	}
	s, err := f.StepSimulator.Reset(ctx, jobs, opts)
	f.open++
	return &failingStepper{Stepper: s, f: f}, err
}

type failingStepper struct {
	lockstep.Stepper
	f      *failing
	closed bool
}

func (s *failingStepper) Close() error {
	if !s.closed {
		s.f.open--
	}
	s.closed = true
	return s.Stepper.Close()
}

func (s *failingStepper) Err(rollout int) error {
	return errors.Join(s.f.call("Err"), s.Stepper.Err(rollout))
}

func (s *failingStepper) Step(ctx context.Context, commands, lataccels []float64) error {
	return errors.Join(s.f.call("Step"), s.Stepper.Step(ctx, commands, lataccels))
}

func (s *failingStepper) Snapshot(ctx context.Context) (*lockstep.Snapshot, error) {
	if err := s.f.call("Snapshot"); err != nil {
		return nil, err
	}
	return s.Stepper.Snapshot(ctx)
}

func (s *failingStepper) Restore(ctx context.Context, shot *lockstep.Snapshot) error {
	return errors.Join(s.f.call("Restore"), s.Stepper.Restore(ctx, shot))
}

func (s *failingStepper) Roll(ctx context.Context, commands, costs, lataccels []float64) error {
	s.f.rolled = append(s.f.rolled, slices.Clone(commands))
	err := errors.Join(s.f.call("Roll"), s.Stepper.Roll(ctx, commands, costs, lataccels))
	if len(s.f.rolled) == s.f.spoils {
		for i := range costs {
			costs[i] = 1e9
		}
	}
	return err
}

func (s *failingStepper) Fork(
	ctx context.Context, shot *lockstep.Snapshot, index []int, noise lockstep.Noise,
) (lockstep.Stepper, error) {
	if err := s.f.call("Fork"); err != nil {
		return nil, err
	}
	fork, err := s.Stepper.Fork(ctx, shot, index, noise)
	s.f.open++
	return &failingStepper{Stepper: fork, f: s.f}, err
}

// custom is a policy that is no engine's own.
type custom struct{ i int }

func (c *custom) Update(float64, float64, lockstep.State, lockstep.FuturePlan) float64 {
	c.i++
	return 0.01 * float64(c.i%7)
}

// TestFails has each call of a simulator fail, one at a time: the search ends with that error, and
// nothing that it has opened stays open, as after a search to which nothing happens. That one
// computes as many rollouts as it says, and tells so as it goes on.
func TestFails(t *testing.T) {
	sim, routes := shortRoutes(t)
	for i, r := range routes {
		short := *r
		for _, c := range []*[]float64{
			&short.TargetLataccel, &short.RollLataccel, &short.VEgo, &short.AEgo,
			&short.SteerCommand,
		} {
			*c = (*c)[:103+i]
		}
		routes[i] = &short
	}
	own := lockstep.Custom{Name: "own", New: func() lockstep.Controller { return &custom{} }}
	for _, planner := range []Planner{
		&Receding{Rounds: 1, Window: 2, Horizon: 3},
		&Aim{Noise: lockstep.SeededNoise, Seeds: 2, Rounds: 2},
	} {
		whole := &failing{StepSimulator: sim, fails: -1}
		var told []int
		if _, err := planner.Run(t.Context(), whole, routes, own, func(n int) {
			told = append(told, n)
		}); err != nil || whole.open != 0 {
			t.Fatalf("%T: %v, %d steppers are open", planner, err, whole.open)
		}
		if _, ok := planner.(*Aim); ok && whole.jobs != len(routes)*planner.Rollouts() {
			t.Errorf("%T: %d rollouts, and says %d", planner, whole.jobs, planner.Rollouts())
		}
		if !slices.IsSorted(told) || told[0] <= 0 || len(told) < planner.Steps(routes) ||
			told[len(told)-1] != len(routes)*planner.Rollouts() {
			t.Errorf("%T tells of rollouts so far: %v", planner, told)
		}
		warm := 0
		for n, name := range whole.calls {
			if name == "Step" {
				if warm++; warm > 3 && warm < 2*(lockstep.ControlStartIdx-lockstep.ContextLength) {
					continue // another one to where the cost begins
				}
			}
			f := &failing{StepSimulator: sim, fails: n}
			table, err := planner.Run(t.Context(), f, routes, own, quiet)
			if !errors.Is(err, errBroken) || table != nil || f.open != 0 {
				t.Errorf("%T: call %d, %s, fails: %v, %v, and %d steppers are open", planner, n,
					name, table, err, f.open)
			}
		}
	}
}

// TestKeepFails: an error of what keeps the steps ends a search.
func TestKeepFails(t *testing.T) {
	sim, routes := shortRoutes(t)
	for _, planner := range []Planner{
		&Receding{Rounds: 1, Window: 3, Horizon: 3}, &Aim{Seeds: 1, Rounds: 1},
	} {
		planner.KeptBy(func(int, int, int, func() ([][]float64, error)) ([][]float64, error) {
			return nil, errBroken
		})
		if _, err := planner.Run(
			t.Context(), sim, routes, lockstep.Zero{}, quiet,
		); err != errBroken {
			t.Errorf("%T: %v", planner, err)
		}
	}
}
