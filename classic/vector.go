package classic

import (
	"context"
	"fmt"
	"math"
	"slices"
)

// A Maker is one of the implementations: it makes the environments of a task.
type Maker interface {
	Name() string
	// Make returns the task's environments, which wait for a Reset.
	Make(Task) (Vector, error)
}

// A Vector is the environments of a task, in step. It is for one goroutine at a
// time. A call that returns an error has changed nothing.
type Vector interface {
	Task() Task

	// Reset starts episodes.
	Reset(Reset) error

	// Step is one step of all environments, answered in those buffers of t that
	// are not nil.
	Step(actions Actions, t *Transition) error

	// Run is so many steps with actions of the policy. Where record is not nil, it
	// has a transition for each step, answered like Step's.
	Run(ctx context.Context, policy Policy, steps int, record []Transition) error

	// Observe copies the environments' last observations, (D, N), and states,
	// (S, N), into what is not nil.
	Observe(observations []float32, states []float64)

	// Snapshot is where the environments are, and Restore has them go on from there.
	Snapshot() (*Snapshot, error)
	Restore(*Snapshot) error

	// Totals are sums since the last Reset of all environments.
	Totals() Totals

	// Stats says what has passed between host and device; nothing where there is no device.
	Stats() string

	Close() error
}

// A RowStepper is a Vector that writes observations as NumPy has them.
type RowStepper interface {
	// StepRows is Step that writes the observations to rows, too, (N, D).
	StepRows(actions Actions, t *Transition, rows []float32) error
}

// A DeviceRunner is a Vector that leaves what a run records in a device's memory, on which the
// caller may work, too.
type DeviceRunner interface {
	// Place is the number of the GPU, and whether its memory is the caller's, too.
	Place() (number int, shared bool)

	// RunOnDevice is Run whose record stays where it is, until the next run: each array is
	// (steps, values, N). Where the policy is empty the actions are at the address table, (steps,
	// N), int32 or float32, and nobody checks them: of one that is none, the step is undefined.
	RunOnDevice(
		ctx context.Context, policy Policy, table uintptr, steps int, record []string,
	) (map[string]uintptr, error)

	// Follow and Precede are lockstep.DeviceOrder's.
	Follow(stream uintptr) error
	Precede(stream uintptr) error
}

// A Reset starts episodes of some environments.
type Reset struct {
	// Seed seeds environment i with Seed+i, and a shared generator with Seed. A
	// negative one is an error; with Continue the generators draw on instead.
	Seed     int64
	Continue bool
	// Seeds, if not nil, has one for each environment in place of Seed+i.
	Seeds []int64
	// Mask, if not nil, says which environments are reset: those of a task whose
	// Autoreset is Disabled or Off.
	Mask []bool
	// Low and High, if not nil, replace the bounds of this reset's draws. There are
	// as many as Environment.Low has.
	Low, High []float64
}

// Actions are one for each environment: Discrete where the environment has a
// number of actions, Continuous where its action is a float32.
type Actions struct {
	Discrete   []int32
	Continuous []float32
}

// A Transition is what a step of N environments answers. Buffers are column by
// column: value d of environment i is at d·N + i. Those that are nil are left out.
type Transition struct {
	Actions      Actions   // what the policy chose
	States       []float64 // (S, N), after the step and its resets
	Observations []float32 // (D, N)
	Rewards      []float64 // (N); CartPoleVectorEnv's are float32
	Terminated   []bool    // (N)
	Truncated    []bool    // (N)
	// (D, N): with SameStep, the last observation of episodes that ended; others are left alone
	Final []float32
}

// NewTransition returns one with all buffers.
func NewTransition(t Task) Transition {
	n := t.Num
	r := Transition{
		States:       make([]float64, len(t.State)*n),
		Observations: make([]float32, len(t.Observation)*n),
		Rewards:      make([]float64, n),
		Terminated:   make([]bool, n),
		Truncated:    make([]bool, n),
	}
	if t.Environment.Actions > 0 {
		r.Actions.Discrete = make([]int32, n)
	} else {
		r.Actions.Continuous = make([]float32, n)
	}
	if t.Autoreset == SameStep {
		r.Final = make([]float32, len(t.Observation)*n)
	}
	return r
}

// Totals are sums over the steps of each environment.
type Totals struct {
	Steps    int64     // of all environments together
	Rewards  []float64 // (N), added in the order of the steps
	Episodes []int64   // (N) that have ended
}

// CheckReset tells what is wrong with a reset, or nil. seeded says whether the
// environments have generators already.
func (t Task) CheckReset(r Reset, seeded bool) error {
	switch {
	case r.Seeds != nil && len(r.Seeds) != t.Num:
		return fmt.Errorf("%s: %d seeds for %d environments", t.Name, len(r.Seeds), t.Num)
	case r.Seeds != nil && t.Shared:
		return fmt.Errorf("%s has one generator: give one seed", t.Name)
	case r.Seeds == nil && r.Continue && !seeded:
		return fmt.Errorf(
			"%s: environment 0 has no generator yet: the first reset needs a seed", t.Name,
		)
	case r.Seeds == nil && !r.Continue && r.Seed < 0:
		return fmt.Errorf("%s: environment 0: seed %d is negative", t.Name, r.Seed)
	case r.Seeds == nil && !r.Continue && !t.Shared && r.Seed > math.MaxInt64-int64(t.Num-1):
		return fmt.Errorf(
			"%s: environment %d: its seed is beyond %d", t.Name, math.MaxInt64-r.Seed+1,
			int64(math.MaxInt64),
		)
	}
	for i, seed := range r.Seeds {
		if seed < 0 {
			return fmt.Errorf("%s: environment %d: seed %d is negative", t.Name, i, seed)
		}
	}
	if err := t.checkMask(r.Mask, seeded); err != nil {
		return err
	}
	return t.checkBounds(r)
}

func (t Task) checkMask(mask []bool, seeded bool) error {
	if mask == nil {
		return nil
	}
	if len(mask) != t.Num {
		return fmt.Errorf("%s: a mask of %d for %d environments", t.Name, len(mask), t.Num)
	}
	any := false
	for i, m := range mask {
		if m && t.Autoreset != Disabled && t.Autoreset != Off {
			return fmt.Errorf(
				"%s: environment %d resets itself (%v): only all of them can be reset", t.Name, i,
				t.Autoreset,
			)
		}
		if !m && !seeded {
			return fmt.Errorf(
				"%s: environment %d has not been reset: the first reset is of all", t.Name, i,
			)
		}
		any = any || m
	}
	if !any {
		return fmt.Errorf("%s: the mask has no environment", t.Name)
	}
	return nil
}

func (t Task) checkBounds(r Reset) error {
	low, high := t.Bounds(r)
	if len(low) != len(t.Low) || len(high) != len(t.High) {
		return fmt.Errorf(
			"%s: %d and %d bounds of a reset: it draws %d values", t.Name, len(low), len(high),
			len(t.Low),
		)
	}
	for i := range low {
		if reach := t.reach(); !(low[i] <= high[i]) || low[i] < -reach || high[i] > reach ||
			math.IsInf(high[i]-low[i], 0) {
			return fmt.Errorf(
				"%s: bounds %g and %g of a reset: they must be ordered, finite and within ±%g",
				t.Name, low[i], high[i], reach,
			)
		}
	}
	return nil
}

// Bounds are those of the reset's draws: a copy, since its arrays are the caller's, those that it
// lacks are the environment's, and the resets of a shared generator draw within them later.
func (t Task) Bounds(r Reset) (low, high []float64) {
	low, high = t.Low, t.High
	if r.Low != nil {
		low = r.Low
	}
	if r.High != nil {
		high = r.High
	}
	return slices.Clone(low), slices.Clone(high)
}

// checkActions tells which environment has an action that it refuses, or nil.
// ignored, if not nil, are the environments whose action is.
func (t Task) checkActions(a Actions, ignored []bool) error {
	given, other, want := len(a.Discrete), len(a.Continuous), "integers"
	if t.Environment.Actions == 0 {
		given, other, want = other, given, "float32"
	}
	if other > 0 || given != t.Num {
		return fmt.Errorf(
			"%s: %d integer and %d float32 actions: it wants %d %s", t.Name, len(a.Discrete),
			len(a.Continuous), t.Num, want,
		)
	}
	for i, x := range a.Discrete {
		if (x < 0 || int(x) >= t.Environment.Actions) && (ignored == nil || !ignored[i]) {
			return fmt.Errorf(
				"%s: environment %d: action %d is not one of 0 to %d", t.Name, i, x,
				t.Environment.Actions-1,
			)
		}
	}
	for i, x := range a.Continuous {
		if x != x && (ignored == nil || !ignored[i]) {
			return fmt.Errorf("%s: environment %d: the action is NaN", t.Name, i)
		}
	}
	return nil
}

// CheckTransition tells which buffer has another length than the task asks for, or nil.
func (t Task) CheckTransition(r *Transition) error {
	if r == nil {
		return nil
	}
	check := func(name string, got, values int) error {
		if got != 0 && got != values*t.Num {
			return fmt.Errorf(
				"%s: %s has %d values: %d environments have %d", t.Name, name, got, t.Num,
				values*t.Num,
			)
		}
		return nil
	}
	for _, b := range []struct {
		name        string
		got, values int
	}{
		{"Actions.Discrete", len(r.Actions.Discrete), 1},
		{"Actions.Continuous", len(r.Actions.Continuous), 1},
		{"States", len(r.States), len(t.State)},
		{"Observations", len(r.Observations), len(t.Observation)},
		{"Rewards", len(r.Rewards), 1}, {"Terminated", len(r.Terminated), 1},
		{"Truncated", len(r.Truncated), 1},
		{"Final", len(r.Final), len(t.Observation)},
	} {
		if err := check(b.name, b.got, b.values); err != nil {
			return err
		}
	}
	return nil
}

// CheckRun tells why so many steps of a policy cannot be run and recorded, or nil. Recorded
// actions are checked at their step.
func (t Task) CheckRun(p Policy, steps int, record []Transition) error {
	if err := p.Check(t, steps); err != nil {
		return err
	}
	if record != nil && len(record) != steps {
		return fmt.Errorf("%s: %d steps are to be recorded in %d", t.Name, steps, len(record))
	}
	for i := range record {
		if err := t.CheckTransition(&record[i]); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	return nil
}
