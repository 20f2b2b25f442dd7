package lockstep

import (
	"context"
	"errors"
	"fmt"
)

// A StepSimulator also runs rollouts one step at a time, for controllers that
// live outside: a training loop, a planner, another language. Results equal
// Simulate's, bit for bit.
type StepSimulator interface {
	Simulator

	// Reset puts rollouts of the jobs at step ContextLength. A job without a
	// Policy is steered by the commands that Step is given; the others steer
	// themselves. Either all jobs have a Teacher or none has.
	Reset(ctx context.Context, jobs []Job, opts Options) (Stepper, error)
}

// A Stepper holds rollouts in step. It is for one goroutine at a time. A rollout
// that fails leaves the others alone. A method whose ctx had ended before the call gives
// ctx.Err(), and the rollouts are where they were.
type Stepper interface {
	// Index is the step that Step computes next.
	Index() int

	// Running reports whether a rollout has neither ended nor failed; Done,
	// whether none runs.
	Running(rollout int) bool
	Done() bool

	// Lataccel is a rollout's lataccel in m/s² after the last step: NaN if it
	// failed, the last one if it ended.
	Lataccel(rollout int) float64

	// Cost is what the last step of a rollout cost, the part of the total cost that Roll adds
	// up; 0 where the step does not count, NaN if the rollout failed.
	Cost(rollout int) float64

	// Err is why a rollout failed, with route and step, or nil.
	Err(rollout int) error

	// Step computes one step with a command for each rollout, which is clipped to
	// [SteerMin, SteerMax], and sets lataccels to what Lataccel then returns.
	// Both have an element for each rollout. A command that is NaN fails its own
	// rollout; commands of rollouts that steer themselves or do not run are ignored.
	Step(ctx context.Context, commands, lataccels []float64) error

	// Observe computes what a Network sees of each rollout at the next step, from
	// ControlStartIdx on: a row of ObservationSize numbers for each; 0 for one that does not
	// run. An element that is NaN is an error, which names the rollout.
	Observe(ctx context.Context, into []float32) error

	// Results are those of the rollouts that have ended; the others' have an error.
	Results(ctx context.Context) ([]Result, error)

	// Snapshot copies the rollouts' state; Restore goes back to it, in this Stepper
	// or in one of the same jobs, of any engine with the same profile.
	Snapshot(ctx context.Context) (*Snapshot, error)
	Restore(ctx context.Context, s *Snapshot) error

	// Fork begins candidates in step: the k-th continues rollout index[k] of a snapshot of
	// this Stepper's jobs, under the noise. They share nothing, are steered by commands, and
	// have no observers. An index may come repeatedly.
	Fork(ctx context.Context, s *Snapshot, index []int, noise Noise) (Stepper, error)

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

	// Close frees what the rollouts hold. From then on Step, Results, Snapshot, Restore,
	// Fork and Roll give an error; to close it again does nothing. The error names each policy
	// with batch controllers that do not close, once, with what the first of them says; all else
	// is closed all the same.
	Close() error
}

// A DeviceStepper holds rollouts on a device, such as a GPU, on which the caller may
// work, too. Of steps by StepOnDevice the host knows nothing before it asks: Running,
// Done, Lataccel and Err tell what had failed at the last Sync, Results or Snapshot.
type DeviceStepper interface {
	Stepper

	// StepOnDevice computes one step as Step does, with commands and lataccels, float64,
	// in the device's memory; which may be the same; lataccels of 0 is DeviceLataccels. It returns
	// when the device has been told, before the step is done: the memory must stay as it is until
	// then. A command that is NaN fails its rollout when it counts, from step ControlStartIdx on.
	// All rollouts must be such that the device steers or commands do, and none has an observer.
	StepOnDevice(commands, lataccels uintptr) error

	// DeviceLataccels is the address of an array of the rollouts' own.
	DeviceLataccels() uintptr

	// ObserveOnDevice writes what a network sees of each rollout at the next step, from
	// ControlStartIdx on: (rollouts, ObservationSize) float32, at an address in the device's
	// memory, or in an array of the rollouts' own if that is 0. It returns where, when the
	// device has been told. The row of a rollout that has ended or failed is 0; what is NaN
	// stays NaN.
	ObserveOnDevice(into uintptr) (uintptr, error)

	DeviceOrder

	// Sync waits for the device and learns what failed.
	Sync(ctx context.Context) error
}

// DeviceOrder puts what is done on a device in order with what the caller does there.
// Follow has what is begun from now on wait for what a stream of the device's has been
// given; Precede has the stream wait for what was begun so far.
type DeviceOrder interface {
	Follow(stream uintptr) error
	Precede(stream uintptr) error
}

// A Snapshot is the state of rollouts between two steps. It is data: a simulator's
// state is its histories, and draws are a function of seed and step.
type Snapshot struct {
	Profile  Profile
	Model    string // SHA-256 of the network's file, in hexadecimal
	Step     int    // the next one
	Rollouts []RolloutState
}

// RolloutState is the state of one rollout: its histories up to Snapshot.Step, or
// to its end or failure.
type RolloutState struct {
	Route       string
	RouteSHA256 string    // of the route's columns, see Route.SHA256; empty where nobody knows it
	Lataccel    []float64 // m/s²
	Action      []float64 // steer command after clipping
	Policy      []float64 // what the policy remembers, in the order of its kind; nil without
	Err         string    // why it failed, or empty
}

// Noise says which draws candidates see. The zero Noise is none: it must be said.
type Noise struct {
	Kind  NoiseKind
	Seeds []uint32 // of SeededNoise: one for each candidate
}

// check refuses noise that is not said, or not for so many candidates.
func (n Noise) check(candidates int) error {
	switch {
	case n.Kind < RouteNoise || n.Kind > ExpectedNoise:
		return errors.New("no noise is chosen: want route, seeded or expected")
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
		job.Draws, job.Expected = Draws(n.Seeds[k], job.Route.Len()-ContextLength), false
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
		return nil, nil, fmt.Errorf(
			"a snapshot of %d rollouts for %d jobs", len(s.Rollouts), len(jobs),
		)
	}
	candidates := make([]Job, len(index))
	part := *s
	part.Rollouts = make([]RolloutState, len(index))
	for k, i := range index {
		if i < 0 || i >= len(jobs) {
			return nil, nil, fmt.Errorf(
				"candidate %d: no rollout %d, want 0 to %d", k, i, len(jobs)-1,
			)
		}
		candidates[k] = Job{Route: jobs[i].Route, Draws: jobs[i].Draws, Expected: jobs[i].Expected}
		part.Rollouts[k] = s.Rollouts[i]
		part.Rollouts[k].Policy = nil
	}
	return candidates, &part, nil
}
