package classic

import (
	"fmt"
	"math"
)

// A Snapshot is all that later steps depend on, column by column as in a Transition.
// Bounds are not in it: those of a shared generator are its vector's last ones.
type Snapshot struct {
	Steps        int64     // since the last Reset of all environments, which Policy.Uniform counts
	States       []float64 // (S, N)
	Observations []float32 // (D, N), the last ones
	Elapsed      []int32   // (N), steps of the episode, to MostSteps; 0 after a reset
	// (N): its end was not reset yet; with Off, it has terminated since its reset
	Ended []bool
	// (4, N), (4, 1) if shared: PCG64's state and increment, high words first
	Generators []uint64
	Rewards    []float64 // (N), as in Totals
	Episodes   []int64   // (N), as in Totals
}

// NewSnapshot returns one with all buffers.
func NewSnapshot(t Task) *Snapshot {
	return &Snapshot{
		States:       make([]float64, len(t.State)*t.Num),
		Observations: make([]float32, len(t.Observation)*t.Num),
		Elapsed:      make([]int32, t.Num),
		Ended:        make([]bool, t.Num),
		Generators:   make([]uint64, 4*t.generators()),
		Rewards:      make([]float64, t.Num),
		Episodes:     make([]int64, t.Num),
	}
}

// reach is how far from 0 a value of the state may be put.
func (t Task) reach() float64 {
	switch t.Dynamics {
	case CartPole:
		return math.Inf(1) // a fallen one that is fast enough gets anywhere, and to NaN
	case Pendulum:
		return 1e15 // its angle's remainder is exact beyond all that an episode adds
	}
	return 100 // an Acrobot's angles are turned back step by step
}

func (t Task) generators() int {
	if t.Shared {
		return 1
	}
	return t.Num
}

// CheckSnapshot tells why the task's environments cannot go on from s, or nil.
func (t Task) CheckSnapshot(s *Snapshot) error {
	n, generators := t.Num, t.generators()
	switch {
	case s == nil:
		return fmt.Errorf("%s: no snapshot", t.Name)
	case len(s.States) != len(t.State)*n,
		len(s.Observations) != len(t.Observation)*n,
		len(s.Elapsed) != n,
		len(s.Ended) != n,
		len(s.Generators) != 4*generators,
		len(s.Rewards) != n,
		len(s.Episodes) != n:
		return fmt.Errorf(
			"%s: a snapshot of %d states, %d observations, %d steps, %d ends, %d words of "+
				"generators and totals of %d and %d is not one of %d environments",
			t.Name, len(s.States), len(s.Observations), len(s.Elapsed), len(s.Ended),
			len(s.Generators), len(s.Rewards), len(s.Episodes), n,
		)
	case s.Steps < 0:
		return fmt.Errorf("%s: a snapshot after %d steps", t.Name, s.Steps)
	}
	for k, x := range s.States {
		if reach := t.reach(); math.Abs(x) > reach || x != x && !math.IsInf(reach, 1) {
			return fmt.Errorf(
				"%s: environment %d: a snapshot with %s %g: it must be within ±%g", t.Name, k%n,
				t.State[k/n], x, reach,
			)
		}
	}
	for k, x := range s.Observations { // from which a network chooses
		if reach := t.reach(); !(math.Abs(float64(x)) <= reach) && !math.IsInf(reach, 1) {
			return fmt.Errorf(
				"%s: environment %d: a snapshot with the observation %s %g: it must be within ±%g",
				t.Name, k%n, t.Observation[k/n], x, reach,
			)
		}
	}
	for i, e := range s.Elapsed {
		switch {
		case e < 0 || e == math.MaxInt32:
			return fmt.Errorf(
				"%s: environment %d: a snapshot after %d steps of an episode", t.Name, i, e,
			)
		case s.Ended[i] && t.Autoreset == SameStep:
			return fmt.Errorf(
				"%s: environment %d: its end is reset in the same step (%v): a snapshot has none",
				t.Name, i, t.Autoreset,
			)
		}
	}
	for i, low := range s.Generators[3*generators:] {
		if low%2 == 0 {
			return fmt.Errorf(
				"%s: environment %d: a generator's increment is odd, this one is not", t.Name, i,
			)
		}
	}
	return nil
}

// CheckStep tells why the environments, those of ended having ended, cannot take a
// step with these actions, or nil. seeded says whether they were reset.
func (t Task) CheckStep(a Actions, seeded bool, ended []bool) error {
	if err := t.CheckReady(seeded, ended); err != nil {
		return err
	}
	if t.Autoreset != NextStep || t.Shared {
		ended = nil // whose action is ignored
	}
	return t.checkActions(a, ended)
}

// CheckReady is CheckStep whatever the actions.
func (t Task) CheckReady(seeded bool, ended []bool) error {
	if !seeded {
		return fmt.Errorf("%s: environment 0 has not been reset", t.Name)
	}
	if t.Autoreset != Disabled {
		return nil
	}
	for i, e := range ended {
		if e {
			return fmt.Errorf(
				"%s: environment %d has ended: reset it before the next step", t.Name, i,
			)
		}
	}
	return nil
}

// Fork is a snapshot of as many environments as there are places: number k goes on where number
// places[k] was. Environments that share a generator have one drawing order, and are refused.
func (s *Snapshot) Fork(t Task, places []int) (*Snapshot, error) {
	if t.Shared {
		return nil, fmt.Errorf(
			"%s: its environments share a generator, so that none can go on alone: take "+
				"CartPole-v1",
			t.Name,
		)
	}
	if err := t.CheckSnapshot(s); err != nil {
		return nil, err
	}
	for _, p := range places {
		if p < 0 || p >= t.Num {
			return nil, fmt.Errorf(
				"%s: environment %d is not in the snapshot: it has 0 to %d", t.Name, p, t.Num-1,
			)
		}
	}
	n := t.Num
	t.Num = len(places)
	if err := t.Check(); err != nil {
		return nil, err
	}
	return &Snapshot{
		Steps:        s.Steps,
		States:       pick(s.States, n, places),
		Observations: pick(s.Observations, n, places),
		Elapsed:      pick(s.Elapsed, n, places),
		Ended:        pick(s.Ended, n, places),
		Generators:   pick(s.Generators, n, places),
		Rewards:      pick(s.Rewards, n, places),
		Episodes:     pick(s.Episodes, n, places),
	}, nil
}

// pick takes places of columns of n.
func pick[T any](columns []T, n int, places []int) []T {
	var out []T
	for first := 0; first < len(columns); first += n {
		for _, p := range places {
			out = append(out, columns[first+p])
		}
	}
	return out
}
