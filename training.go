package lockstep

import (
	"context"
	"fmt"
	"slices"
)

// A Collector is a simulator that also leaves what a trainer of networks needs.
// Engines agree in every bit of it.
type Collector interface {
	Simulator

	// Collect rolls the jobs out, each driven by a Network and with no Teacher, to the
	// end of its costs, and returns what they leave; a job that fails leaves its
	// Result's Err. When ctx ends, unfinished jobs have its error.
	Collect(ctx context.Context, jobs []Job) (*Experience, error)

	// Observe computes observations of collected rollouts: one row of
	// Experience.Inputs numbers in into for each of the places, or for every step of
	// every rollout, in order, if places is nil. The bits are those that the
	// network saw. A place that the rollout did not reach is an error.
	Observe(e *Experience, places []Place, into []float32) error
}

// A DeviceCollector also leaves training data in a device's memory, such as a GPU's, on
// which the caller may work, too.
type DeviceCollector interface {
	Collector

	// CollectOnDevice is Collect, and what the rollouts leave stays where it is.
	CollectOnDevice(ctx context.Context, jobs []Job) (DeviceExperience, error)
}

// DeviceExperience is an Experience in a device's memory. Closing it frees that.
type DeviceExperience interface {
	// Experience has the jobs and the results, and none of the arrays.
	Experience() *Experience

	// Arrays are the addresses of the arrays of an Experience, of the same types and
	// shapes.
	Arrays() DeviceArrays

	// Observe computes observations as Collector's does, float32 at an address in the
	// device's memory. It returns when they are there.
	Observe(places []Place, into uintptr) error

	DeviceOrder
	Close() error
}

// DeviceArrays are addresses in a device's memory: see Experience.
type DeviceArrays struct{ Raw, Softplus, Reward, Lataccel, Action uintptr }

// Place is a step of a rollout: Step counts from ControlStartIdx.
type Place struct{ Rollout, Step int }

// Experience is what rollouts leave for training. Its arrays have shape (rollouts,
// ExperienceSteps), in C order, 0 where a rollout had no such step or failed.
type Experience struct {
	Jobs    []Job
	Results []Result // of each job

	Raw      []float32 // the Beta variate in (0, 1); where it is the mean, float32 of (raw+1)/2
	Softplus []float32 // shape (rollouts, ExperienceSteps, 2): the Beta's parameters less 1
	Reward   []float32 // their sum over a rollout is minus its total cost
	Lataccel []float64 // m/s² after the step
	Action   []float64 // steer command after clipping
}

// ExperienceSteps is the number of steps that a rollout leaves: those that cost.
const ExperienceSteps = TableSteps

// NewExperience makes room for the jobs, each of which must be driven by a Network.
func NewExperience(jobs []Job) (*Experience, error) {
	e, err := EmptyExperience(jobs)
	if err != nil {
		return nil, err
	}
	n := len(jobs) * ExperienceSteps
	e.Raw, e.Softplus, e.Reward = make([]float32, n), make([]float32, 2*n), make([]float32, n)
	e.Lataccel, e.Action = make([]float64, n), make([]float64, n)
	return e, nil
}

// EmptyExperience has no arrays.
func EmptyExperience(jobs []Job) (*Experience, error) {
	for i := range jobs {
		j := &jobs[i]
		if _, ok := j.Policy.(*Network); !ok {
			return nil, fmt.Errorf(
				"job %d: policy %v leaves nothing to train with: want a network", i, j.Policy,
			)
		}
		if j.Teacher != nil {
			return nil, fmt.Errorf(
				"job %d: it has a teacher, whose histories before step %d are not collected: "+
					"want none", i, ControlStartIdx,
			)
		}
		own, all := seenBy(j), seenBy(&jobs[0])
		if !slices.Equal(own, all) || (own == nil) != (all == nil) { // nil is all, none is refused
			return nil, fmt.Errorf(
				"job %d: policy %v does not observe what the first job's does", i, j.Policy,
			)
		}
	}
	return &Experience{Jobs: slices.Clone(jobs), Results: make([]Result, len(jobs))}, nil
}

// Inputs is how many numbers the rollouts' networks see.
func (e *Experience) Inputs() int {
	if len(e.Jobs) == 0 || seenBy(&e.Jobs[0]) == nil {
		return ObservationSize
	}
	return len(seenBy(&e.Jobs[0]))
}

// seenBy is what a job's network declares that it observes.
func seenBy(j *Job) []Seen {
	if n, ok := j.Policy.(*Network); ok && n != nil {
		return n.Sees
	}
	return nil
}

// Steps is how many steps a rollout left: 0 if it failed.
func (e *Experience) Steps(rollout int) int {
	if e.Results[rollout].Err != nil {
		return 0
	}
	return min(e.Jobs[rollout].Route.Len(), CostEndIdx) - ControlStartIdx
}

// Clear empties a rollout that failed.
func (e *Experience) Clear(rollout int) {
	from, to := rollout*ExperienceSteps, (rollout+1)*ExperienceSteps
	clear(e.Raw[from:to])
	clear(e.Softplus[2*from : 2*to])
	clear(e.Reward[from:to])
	clear(e.Lataccel[from:to])
	clear(e.Action[from:to])
}

// Places are all the places that rollouts reached, in order, or those given if they
// are such; into must have a row for each.
func (e *Experience) Places(places []Place, into []float32) ([]Place, error) {
	if places == nil {
		for r := range e.Jobs {
			for step := range e.Steps(r) {
				places = append(places, Place{r, step})
			}
		}
	}
	if len(into) != len(places)*e.Inputs() {
		return nil, fmt.Errorf(
			"room for %d numbers of observations, want %d for each of %d", len(into),
			e.Inputs(), len(places),
		)
	}
	return places, e.Reached(places)
}

// Reached is an error if rollouts did not reach some of the places, or no network drove them.
func (e *Experience) Reached(places []Place) error {
	for i, p := range places {
		if p.Rollout < 0 || p.Rollout >= len(e.Jobs) || p.Step < 0 || p.Step >= e.Steps(p.Rollout) {
			return fmt.Errorf("place %d: rollout %d has no step %d", i, p.Rollout, p.Step)
		}
		if n, ok := e.Jobs[p.Rollout].Policy.(*Network); !ok || n == nil {
			return fmt.Errorf("place %d: rollout %d has policy %v, want a network",
				i, p.Rollout, e.Jobs[p.Rollout].Policy)
		}
	}
	return nil
}
