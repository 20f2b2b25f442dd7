package lockstep

import (
	"context"
	"errors"
	"fmt"
	"iter"
)

// A Simulator rolls routes out. Implementations differ in how they compute and
// in nothing else: for the same jobs and the same profile all results are equal
// as bit patterns.
type Simulator interface {
	// Name is the engine's name: "reference", "onnxruntime", "gpu".
	Name() string

	// Profile is the arithmetic that the engine computes with.
	Profile() Profile

	// Simulate runs the jobs and yields each one's index with its result, in
	// the order in which they finish. A job that fails yields a Result whose
	// Err is set and leaves the others alone. When ctx ends, unfinished jobs
	// yield its error. Breaking out of the loop stops the work.
	Simulate(ctx context.Context, jobs []Job, opts Options) iter.Seq2[int, Result]
}

// A Job is one route driven by one controller. What it points to must not be written to before its
// rollout has ended: engines read it when they need it.
type Job struct {
	Route  *Route
	Policy Policy

	// Observe, if not nil, is called after every step with every stage of that
	// step. The Step and its slices are valid during the call only. Calls for
	// one job come in the order of its steps, from one goroutine at a time;
	// calls for different jobs may be concurrent.
	Observe func(*Step)

	// Teacher, if not nil, forces the rollout onto a trajectory: at every step the
	// action and the lataccel that enter the histories are the teacher's, so that
	// each step computes from what the teacher had, whatever it computed before.
	// The Step still holds what was computed; its States hold the teacher's
	// action. Costs and Result.Trajectory are of the histories. The teacher must
	// have every step that is simulated.
	Teacher *Trajectory

	// Draws, if not nil, are the uniform variates of the rollout in place of its
	// seed's: that of step ContextLength+k at index k, one for every step that is
	// simulated, in [0, 1). They can put a draw on the very edge of a distribution.
	Draws []float64

	// Sampling, if not nil, samples the actions of a Network. Without, they are the
	// means of its distributions, as in every evaluation.
	Sampling *Sampling

	// Expected takes the expected value of each prediction's distribution in place
	// of a sample: Prediction is the sum over the bins, in their order, of
	// float64(probability)·bin, rounded after each product and each addition,
	// and Sample is -1. The costs are not those of a rollout that anything scores.
	Expected bool
}

// End is one past the last step that is simulated.
func (j *Job) End(shortcuts Shortcuts) int {
	if shortcuts&StopAtCostEnd != 0 {
		return min(j.Route.Len(), CostEndIdx)
	}
	return j.Route.Len()
}

// Check refuses what no engine can simulate: a missing route or one that no loader
// makes, teachers and draws that are too short, draws that are none, and a policy that cannot
// steer it.
func (j *Job) Check(shortcuts Shortcuts) error {
	r := j.Route
	if r == nil {
		return errors.New("no route")
	}
	n := r.Len()
	if n < MinRows {
		return fmt.Errorf("%d rows, want at least %d", n, MinRows)
	}
	if len(r.RollLataccel) != n || len(r.VEgo) != n || len(r.AEgo) != n ||
		len(r.SteerCommand) < ControlStartIdx {
		return fmt.Errorf(
			"columns of %d, %d, %d, %d and %d rows, want equal numbers", len(r.RollLataccel),
			len(r.VEgo), len(r.AEgo), n, len(r.SteerCommand),
		)
	}
	end := j.End(shortcuts)
	if t := j.Teacher; t != nil && min(len(t.Lataccel), len(t.Action)) < end {
		return fmt.Errorf(
			"the teacher has %d lataccels and %d actions, want %d of each", len(t.Lataccel),
			len(t.Action), end,
		)
	}
	if err := j.checkDraws(end - ContextLength); err != nil {
		return err
	}
	return j.checkPolicy()
}

// checkDraws refuses draws that are given, or kept with the route, but are not what n steps need.
// One beyond the edge of the last token would choose a token that is none.
func (j *Job) checkDraws(n int) error {
	if j.Draws != nil && len(j.Draws) < n {
		return fmt.Errorf("%d draws are given, want %d", len(j.Draws), n)
	}
	draws := j.Draws
	if draws == nil {
		draws = j.Route.Draws
	}
	for k, u := range draws[:min(n, len(draws))] {
		if !(u >= 0 && u < 1) {
			return fmt.Errorf("the draw of step %d is %v, want one in [0, 1)", ContextLength+k, u)
		}
	}
	return nil
}

// checkPolicy refuses a job whose policy cannot run as the job says.
func (j *Job) checkPolicy() error {
	switch p := j.Policy.(type) {
	case *Table:
		if p == nil || len(p.Actions[j.Route.Name]) != TableSteps {
			return fmt.Errorf("the table %v has no actions for route %.60q", j.Policy, j.Route.Name)
		}
	case *Network:
		if p == nil || len(p.Layers) == 0 {
			return errors.New("a network that NewNetwork did not make")
		}
		if err := p.check(); err != nil {
			return fmt.Errorf("a network that NewNetwork would refuse: %w", err)
		}
		return nil
	case nil, Native, Custom, *Batch:
	default:
		return fmt.Errorf("no controller of type %T", p)
	}
	if j.Sampling != nil {
		return fmt.Errorf(
			"policy %v has no distribution to sample from: sampling goes with a network", j.Policy,
		)
	}
	return nil
}

// Uniforms are the job's first n draws, the one way to them: those given, else the
// route's. Those kept with the route serve unless they are too few or, by their first,
// another seed's; then they are made anew.
func (j *Job) Uniforms(n int) []float64 {
	draws, seed := j.Route.Draws, j.Route.Seed
	switch {
	case j.Draws != nil:
		return j.Draws
	case len(draws) >= n && (n == 0 || draws[0] == Draws(seed, 1)[0]):
		return draws[:n:n]
	}
	return Draws(seed, n)
}

// Failed is the error of a job that failed at a step, 0 if before the first.
func (j *Job) Failed(step int, err error) error {
	name := ""
	if j.Route != nil {
		name = j.Route.Name
	}
	if j.Policy == nil {
		return fmt.Errorf("route %s, step %d: %w", name, step, err)
	}
	return fmt.Errorf("route %s, controller %v, step %d: %w", name, j.Policy, step, err)
}

// Options say how much is computed, never how.
type Options struct {
	Shortcuts Shortcuts

	// Trajectory asks for Result.Trajectory.
	Trajectory bool
}

// Shortcuts leave out work that cannot change a bit of what is asked for. Each
// is held to the unshortened way by a test.
type Shortcuts uint

const (
	// SkipWarmup does not run the network at steps before ControlStartIdx,
	// where its prediction is thrown away. The random draw is still consumed
	// and the controller still runs.
	SkipWarmup Shortcuts = 1 << iota
	// StopAtCostEnd ends the rollout at CostEndIdx; later steps cost nothing.
	StopAtCostEnd
	// LastPosition computes only what the last of the network's 20 output
	// positions depends on.
	LastPosition

	// AllSteps runs the network at every step, as Python does.
	AllSteps = LastPosition
	// FullTrajectory runs to the end of the route.
	FullTrajectory = SkipWarmup | LastPosition
	// CostOnly is all that the costs need.
	CostOnly = SkipWarmup | StopAtCostEnd | LastPosition
)

// Step is everything that a rollout computes at one step, stage by stage in the
// order of computation. Where the network was skipped, Tokens, States, Logits,
// Probs and CDF are nil, Sample is -1 and Prediction is 0.
type Step struct {
	Index int // step, from ContextLength on

	// What a Network computed at this step, from ControlStartIdx on; else nil, nil
	// and 0.
	Observation []float32 // shape (Network.Inputs)
	Actor       []float32 // shape (ActorSize), the network's output
	Raw         float64   // the action between -1 and 1, mean or sampled, before Scale

	Action     float64   // steer command after clipping
	Tokens     []int64   // shape (20), the encoded past lataccels
	States     []float32 // shape (20, 4): action, roll lataccel, v ego, a ego
	Logits     []float32 // shape (1024), last position, before the temperature
	Probs      []float32 // shape (1024)
	CDF        []float64 // shape (1024)
	Draw       float64   // the uniform variate, in [0, 1)
	Sample     int       // sampled token
	Prediction float64   // m/s², the sampled token's bin
	Lataccel   float64   // m/s² after this step
}

// Result is the outcome of one job.
type Result struct {
	Costs      Costs
	Trajectory *Trajectory // nil unless asked for
	Err        error
}

// Trajectory holds the histories of a rollout, one value for every step from 0
// to the last one simulated. The first ContextLength values are the route's.
type Trajectory struct {
	Target   []float64 // m/s²
	Lataccel []float64 // m/s²
	Action   []float64 // steer command after clipping
}

// Costs of a rollout over steps ControlStartIdx to CostEndIdx-1.
type Costs struct {
	Lataccel float64 `json:"lataccel_cost"` // 100 · mean squared tracking error
	Jerk     float64 `json:"jerk_cost"`     // 100 · mean squared lateral jerk
	Total    float64 `json:"total_cost"`    // 50 · Lataccel + Jerk
}

// passing marks an error as one of the moment.
type passing struct{ error }

func (p passing) Unwrap() error { return p.error }

// Passing marks an error as one of the moment and the machine, such as that of a process that
// was killed or did not answer in time. It says nothing of what was to be computed: done again,
// the same may succeed, so that nobody keeps it for a result. Its text stays as it is.
func Passing(err error) error {
	if err == nil || IsPassing(err) {
		return err
	}
	return passing{err}
}

// IsPassing reports whether Passing marked the error, or one that it wraps.
func IsPassing(err error) bool {
	var p passing
	return errors.As(err, &p)
}
