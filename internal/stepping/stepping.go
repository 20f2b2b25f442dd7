// Package stepping keeps the books of rollouts that are run one step at a time: which
// of them run, what failed, what a snapshot holds. It computes nothing.
package stepping

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"lockstep"
)

// errNaN is why a rollout fails whose command is none.
var errNaN = errors.New("the command is NaN")

// ErrClosed is why a Stepper refuses what needs its rollouts after Close.
var ErrClosed = errors.New(
	"the stepper is closed, and its rollouts are gone: make another with Reset")

// A Computation has the rollouts of a Stepper, which are numbered like its jobs.
type Computation interface {
	// Step computes a step of the rollouts that run, in increasing order. Commands
	// have an element for each rollout. It calls fail for each that fails.
	Step(step int, running []int, commands []float64, fail func(rollout int, err error))

	// Observe computes what a network sees of the rollouts that run at the next step, in the
	// row of each: see lockstep.Stepper. The error is that of a rollout, see lockstep.Job.Failed.
	Observe(ctx context.Context, step int, running []int, into []float32) error

	// Histories are those of a rollout. Beyond the last step that was computed they
	// mean nothing.
	Histories(rollout int) (lataccel, action []float64)

	// Memory is what a rollout's policy remembers: see lockstep.RolloutState.
	Memory(rollout int) ([]float64, error)

	// Restore puts a rollout before a step, with the given histories up to there and
	// what its policy remembered.
	Restore(rollout, step int, lataccel, action, memory []float64) error

	// Result is that of a rollout that has ended.
	Result(rollout int) lockstep.Result

	// Cost is the part of the total cost that the last step of a rollout had, if it
	// costs: see lockstep.Stepper's Roll.
	Cost(rollout, step int) float64

	// Elsewhere is where the rollouts are, or nil if they are in the host's memory.
	Elsewhere() Elsewhere

	// Close frees what the rollouts hold. It calls unclosed for each controller that does not
	// close, with the first rollout that this one steers.
	Close(unclosed func(rollout int, err error)) error
}

// Elsewhere is an engine whose rollouts are not in the host's memory, where steps are
// computed of which the host learns later.
type Elsewhere interface {
	// Fetch brings from there what Histories, Memory and Result give. Without it, Histories
	// has the lataccels alone.
	Fetch(ctx context.Context) error

	// Failure is at which step a rollout failed and why, as of the last Fetch or Roll. Of a command
	// that is NaN it is why what came of that failed.
	Failure(rollout int) (step int, err error)

	// Fork begins candidates there: those of jobs without policies, the k-th of which
	// continues rollout index[k] of a snapshot.
	Fork(ctx context.Context, jobs []lockstep.Job, opts lockstep.Options, s *lockstep.Snapshot,
		index []int, noise lockstep.Noise) (lockstep.Stepper, error)

	// Roll is lockstep.Stepper's, of steps that some rollout has. Of rollouts that do not
	// run or that fail, see Failure, costs and lataccels mean nothing. CanRoll reports
	// whether all of it is done there.
	Roll(step int, commands, costs, lataccels []float64) error
	CanRoll() bool
}

// Fetch brings from the engine what the host does not know.
func (s *Stepper) Fetch(ctx context.Context) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	there := s.engine.Elsewhere()
	if there == nil {
		return nil
	}
	if err := there.Fetch(ctx); err != nil {
		return err
	}
	if s.known == s.step {
		return nil
	}
	for i := range s.jobs {
		if s.errs[i] != nil {
			continue
		}
		step, err := there.Failure(i)
		if err == nil {
			continue
		}
		// With no policy and no teacher the action is the command, once commands count.
		_, action := s.engine.Histories(i)
		if s.jobs[i].Policy == nil && s.jobs[i].Teacher == nil &&
			step >= lockstep.ControlStartIdx && math.IsNaN(action[step]) {
			err = errNaN
		}
		s.errs[i], s.failed[i] = s.jobs[i].Failed(step, err), step
	}
	s.known = s.step
	return nil
}

// StepUnseen has f compute a step, of which no more is known than that it was begun.
func (s *Stepper) StepUnseen(f func(step int) error) error {
	if err := s.Open(); err != nil {
		return err
	}
	if s.Done() {
		return s.ended()
	}
	if err := f(s.step); err != nil {
		return err
	}
	s.step++
	return nil
}

func (s *Stepper) ended() error {
	return fmt.Errorf("step %d: all rollouts have ended or failed", s.step)
}

// Stepper is a lockstep.Stepper of an engine's rollouts.
type Stepper struct {
	engine  Computation
	source  lockstep.StepSimulator
	model   string // SHA-256 of the network's file
	opts    lockstep.Options
	profile lockstep.Profile
	jobs    []lockstep.Job
	ends    []int   // one past the last step
	step    int     // the next one
	known   int     // the first of which the host knows nothing: before step if some were unseen
	errs    []error // with route and step
	failed  []int   // step
	running []int   // of the step that is computed
	closed  bool

	sums map[*lockstep.Route]string // what SHA256 says of the routes that it was asked for
}

var _ lockstep.Stepper = (*Stepper)(nil)

// Check refuses jobs that no Stepper can hold.
func Check(jobs []lockstep.Job, opts lockstep.Options) error {
	if len(jobs) == 0 {
		return errors.New("no jobs")
	}
	for i := range jobs {
		j := &jobs[i]
		err := j.Check(opts.Shortcuts)
		if err == nil && (j.Teacher != nil) != (jobs[0].Teacher != nil) {
			err = errors.New("either all jobs have a teacher or none has")
		}
		if err != nil {
			return fmt.Errorf("job %d: %w", i, j.Failed(0, err))
		}
	}
	return nil
}

// New makes a Stepper of jobs that are checked and of which the engine has rollouts at
// step ContextLength. The source's Reset makes others, and the model is the SHA-256 of its
// network's file.
func New(engine Computation, source lockstep.StepSimulator, model string, jobs []lockstep.Job,
	opts lockstep.Options) *Stepper {
	s := &Stepper{
		engine: engine, source: source, model: model, opts: opts, profile: source.Profile(),
		jobs: slices.Clone(jobs), step: lockstep.ContextLength, known: lockstep.ContextLength,
		ends: make([]int, len(jobs)),
	}
	s.errs, s.failed = make([]error, len(jobs)), make([]int, len(jobs))
	for i := range jobs {
		s.ends[i] = jobs[i].End(opts.Shortcuts)
	}
	return s
}

// Index is the step that Step computes next.
func (s *Stepper) Index() int { return s.step }

// Running reports whether a rollout has neither ended nor failed.
func (s *Stepper) Running(rollout int) bool {
	return s.errs[rollout] == nil && s.step < s.ends[rollout]
}

// Done reports whether no rollout runs.
func (s *Stepper) Done() bool {
	for i := range s.jobs {
		if s.Running(i) {
			return false
		}
	}
	return true
}

// Lataccel is a rollout's after the last step of which the host knows.
func (s *Stepper) Lataccel(rollout int) float64 {
	if s.errs[rollout] != nil {
		return math.NaN()
	}
	lataccel, _ := s.engine.Histories(rollout)
	return lataccel[min(s.known, s.ends[rollout])-1]
}

// Err is why a rollout failed, or nil.
func (s *Stepper) Err(rollout int) error { return s.errs[rollout] }

// Step computes one step. It does not end before all rollouts have done it.
func (s *Stepper) Step(ctx context.Context, commands, lataccels []float64) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	if len(commands) != len(s.jobs) || len(lataccels) != len(s.jobs) {
		return fmt.Errorf(
			"%d commands and %d lataccels for %d rollouts", len(commands), len(lataccels),
			len(s.jobs))
	}
	if s.known < s.step {
		if err := s.Fetch(ctx); err != nil {
			return err
		}
	}
	if s.Done() {
		return s.ended()
	}
	s.running = s.running[:0]
	for i := range s.jobs {
		switch {
		case !s.Running(i):
		case s.jobs[i].Policy == nil && commands[i] != commands[i]:
			s.fail(i, errNaN)
		default:
			s.running = append(s.running, i)
		}
	}
	if len(s.running) > 0 { // else all fail at this step
		s.engine.Step(s.step, s.running, commands, s.fail)
	}
	s.step++
	s.known = s.step
	for i := range lataccels {
		lataccels[i] = s.Lataccel(i)
	}
	return nil
}

func (s *Stepper) fail(rollout int, err error) {
	s.errs[rollout], s.failed[rollout] = s.jobs[rollout].Failed(s.step, err), s.step
}

// Observe computes what a network sees at the next step.
func (s *Stepper) Observe(ctx context.Context, into []float32) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	if s.known < s.step {
		if err := s.Fetch(ctx); err != nil {
			return err
		}
	}
	const from, size = lockstep.ControlStartIdx, lockstep.ObservationSize
	switch {
	case s.step < from:
		return fmt.Errorf("step %d: there are observations from step %d on", s.step, from)
	case len(into) != size*len(s.jobs):
		return fmt.Errorf("room for %d numbers of observations, want %d for each of %d rollouts",
			len(into), size, len(s.jobs))
	}
	s.running = s.running[:0]
	for i := range s.jobs {
		if s.Running(i) {
			s.running = append(s.running, i)
		} else {
			clear(into[size*i:][:size])
		}
	}
	if len(s.running) == 0 {
		return nil
	}
	return s.engine.Observe(ctx, s.step, s.running, into)
}

// Results are those of the rollouts that have ended.
func (s *Stepper) Results(ctx context.Context) ([]lockstep.Result, error) {
	if err := s.Fetch(ctx); err != nil {
		return nil, err
	}
	results := make([]lockstep.Result, len(s.jobs))
	for i := range results {
		switch {
		case s.errs[i] != nil:
			results[i].Err = s.errs[i]
		case s.Running(i):
			results[i].Err = s.jobs[i].Failed(
				s.step, fmt.Errorf("the rollout goes on to step %d", s.ends[i]-1))
		default:
			results[i] = s.engine.Result(i)
		}
	}
	return results, nil
}

// Snapshot copies the rollouts' state.
func (s *Stepper) Snapshot(ctx context.Context) (*lockstep.Snapshot, error) {
	if err := s.Fetch(ctx); err != nil {
		return nil, err
	}
	shot := &lockstep.Snapshot{
		Profile: s.profile, Model: s.model, Step: s.step,
		Rollouts: make([]lockstep.RolloutState, len(s.jobs)),
	}
	for i := range s.jobs {
		r := &shot.Rollouts[i]
		r.Route, r.RouteSHA256 = s.jobs[i].Route.Name, s.sum(s.jobs[i].Route)
		end := min(s.step, s.ends[i])
		if err := s.errs[i]; err != nil {
			r.Err, end = err.Error(), s.failed[i]
		}
		lataccel, action := s.engine.Histories(i)
		r.Lataccel, r.Action = slices.Clone(lataccel[:end]), slices.Clone(action[:end])
		if s.errs[i] != nil {
			continue // nobody asks a policy that may have failed
		}
		var err error
		if r.Policy, err = s.engine.Memory(i); err != nil {
			return nil, s.jobs[i].Failed(s.step, err)
		}
	}
	return shot, nil
}

// Restore goes back to a snapshot. One that does not fit changes nothing.
func (s *Stepper) Restore(ctx context.Context, shot *lockstep.Snapshot) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	if err := s.fits(shot); err != nil {
		return fmt.Errorf("the snapshot does not fit: %w", err)
	}
	for i := range s.jobs {
		r := &shot.Rollouts[i]
		memory := r.Policy
		if r.Err != "" {
			memory, _ = s.engine.Memory(i) // any: the policy is not asked again
		}
		if err := s.engine.Restore(i, len(r.Lataccel), r.Lataccel, r.Action, memory); err != nil {
			return s.jobs[i].Failed(shot.Step, err)
		}
	}
	s.Enter(shot)
	return nil
}

// sum is a route's SHA-256, computed once.
func (s *Stepper) sum(r *lockstep.Route) string {
	sum, known := s.sums[r]
	if !known {
		if s.sums == nil {
			s.sums = map[*lockstep.Route]string{}
		}
		sum = r.SHA256()
		s.sums[r] = sum
	}
	return sum
}

// Enter has the books say what a snapshot of these rollouts does, which the engine has.
func (s *Stepper) Enter(shot *lockstep.Snapshot) {
	for i := range s.jobs {
		r := &shot.Rollouts[i]
		n := len(r.Lataccel)
		s.errs[i], s.failed[i] = nil, 0
		if r.Err != "" {
			s.errs[i], s.failed[i] = errors.New(r.Err), n
		}
	}
	s.step, s.known = shot.Step, shot.Step
}

// fits compares a snapshot with the jobs.
func (s *Stepper) fits(shot *lockstep.Snapshot) error {
	switch {
	case shot == nil:
		return errors.New("there is none")
	case shot.Profile != s.profile:
		return fmt.Errorf("it is of profile %v, want %v", shot.Profile, s.profile)
	case shot.Model != s.model:
		return fmt.Errorf("it is of the model %.12s…, want %.12s…", shot.Model, s.model)
	case len(shot.Rollouts) != len(s.jobs):
		return fmt.Errorf("it has %d rollouts, want %d", len(shot.Rollouts), len(s.jobs))
	case shot.Step < lockstep.ContextLength:
		return fmt.Errorf("it is of step %d, want %d at least", shot.Step, lockstep.ContextLength)
	}
	for i := range s.jobs {
		r, want := &shot.Rollouts[i], min(shot.Step, s.ends[i])
		short := r.Err != "" && len(r.Lataccel) >= lockstep.ContextLength && len(r.Lataccel) <= want
		now, err := s.engine.Memory(i)
		switch {
		case r.Route != s.jobs[i].Route.Name:
			return fmt.Errorf(
				"rollout %d is of route %.60q, want %s", i, r.Route, s.jobs[i].Route.Name)
		case r.RouteSHA256 != "" && r.RouteSHA256 != s.sum(s.jobs[i].Route):
			return fmt.Errorf("rollout %d is of another route that is called %s, too: its "+
				"columns have SHA-256 %.12s…, want %.12s…", i, r.Route, r.RouteSHA256,
				s.sum(s.jobs[i].Route))
		case len(r.Lataccel) != len(r.Action) || len(r.Lataccel) != want && !short:
			return fmt.Errorf(
				"rollout %d has %d lataccels and %d actions, want %d of each", i, len(r.Lataccel),
				len(r.Action), want)
		case r.Err != "":
		case err != nil:
			return fmt.Errorf("rollout %d, controller %v: %w", i, s.jobs[i].Policy, err)
		case len(r.Policy) != len(now):
			return fmt.Errorf(
				"rollout %d, controller %v: the policy remembers %d numbers, want %d", i,
				s.jobs[i].Policy, len(r.Policy), len(now))
		}
	}
	return nil
}

// Fork begins candidates from a snapshot of these rollouts. They have rollouts, and so
// memory, of their own.
func (s *Stepper) Fork(ctx context.Context, shot *lockstep.Snapshot, index []int,
	noise lockstep.Noise) (lockstep.Stepper, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	if err := s.fits(shot); err != nil {
		return nil, fmt.Errorf("the snapshot does not fit: %w", err)
	}
	jobs, part, err := lockstep.Candidates(s.jobs, shot, index, noise)
	if err != nil {
		return nil, err
	}
	if there := s.engine.Elsewhere(); there != nil {
		return there.Fork(ctx, jobs, s.opts, shot, index, noise)
	}
	for k := range jobs {
		noise.Apply(&jobs[k], k)
	}
	p, err := s.source.Reset(ctx, jobs, s.opts)
	if err != nil {
		return nil, err
	}
	if err := p.Restore(ctx, part); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// Roll computes some steps, and what they cost.
func (s *Stepper) Roll(ctx context.Context, commands, costs, lataccels []float64) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	m := len(s.jobs)
	if len(costs) != m || len(commands)%m != 0 || lataccels != nil &&
		len(lataccels) != len(commands) {
		return fmt.Errorf(
			"%d commands, %d costs and %d lataccels for %d rollouts", len(commands), len(costs),
			len(lataccels), m)
	}
	if there := s.engine.Elsewhere(); there != nil && there.CanRoll() {
		return s.rollThere(ctx, there, commands, costs, lataccels)
	}
	after := make([]float64, m)
	for len(commands) > 0 {
		if err := s.Step(ctx, commands[:m], after); err != nil {
			return err
		}
		commands = commands[m:]
		if lataccels != nil {
			lataccels = lataccels[copy(lataccels, after):]
		}
		for i := range costs {
			costs[i] += s.Cost(i)
		}
	}
	return nil
}

// Cost is what the last step of a rollout cost of which the host knows.
func (s *Stepper) Cost(rollout int) float64 {
	step := s.known - 1
	switch {
	case s.errs[rollout] != nil:
		return math.NaN()
	case step < lockstep.ControlStartIdx || step >= min(s.ends[rollout], lockstep.CostEndIdx):
		return 0
	}
	return s.engine.Cost(rollout, step)
}

// rollThere has the engine roll, in one go.
func (s *Stepper) rollThere(ctx context.Context, there Elsewhere, commands, costs,
	lataccels []float64) error {
	if s.known < s.step {
		if err := s.Fetch(ctx); err != nil {
			return err
		}
	}
	m, first := len(s.jobs), s.step
	wanted := first + len(commands)/m
	end := first // some rollout runs up to there
	for i := range s.jobs {
		if s.Running(i) {
			end = max(end, min(wanted, s.ends[i]))
		}
	}
	commands = commands[:(end-first)*m]
	if lataccels != nil {
		lataccels = lataccels[:len(commands)]
	}
	if len(commands) > 0 {
		if err := there.Roll(first, commands, costs, lataccels); err != nil {
			return err
		}
		s.step = s.learn(there, first, end, commands)
		s.known = s.step
		for i := range s.jobs {
			if s.errs[i] != nil {
				costs[i] = math.NaN()
			}
			for k := i; k < len(lataccels); k += m {
				switch step := first + k/m; {
				case s.errs[i] != nil && s.failed[i] <= step:
					lataccels[k] = math.NaN()
				case step >= s.ends[i]:
					lataccels[k] = s.Lataccel(i)
				}
			}
		}
	}
	if s.step < wanted {
		return s.ended()
	}
	return nil
}

// learn enters what rolling from a step to before another came to. It returns the step
// at which that ended, because all have ended or failed.
func (s *Stepper) learn(there Elsewhere, first, end int, commands []float64) int {
	m, over := len(s.jobs), first
	for i := range s.jobs {
		if !s.Running(i) {
			continue
		}
		to := min(end, s.ends[i])
		at, err := there.Failure(i)
		if err == nil {
			at = to
		}
		for step := first; s.jobs[i].Policy == nil && step < min(at+1, to); step++ {
			if math.IsNaN(commands[(step-first)*m+i]) {
				at, err = step, errNaN
			}
		}
		if err != nil {
			s.errs[i], s.failed[i] = s.jobs[i].Failed(at, err), at
			over = max(over, at+1)
			continue
		}
		over = max(over, to)
	}
	return over
}

// Open is nil until Close, and ErrClosed from then on.
func (s *Stepper) Open() error {
	if s.closed {
		return ErrClosed
	}
	return nil
}

// ready is nil where a call may do what it is for, and else why nothing is to change.
func (s *Stepper) ready(ctx context.Context) error { return cmp.Or(s.Open(), ctx.Err()) }

// Close frees what the rollouts hold, once. How many controllers a policy has is the engine's
// choice, so that the error does not tell.
func (s *Stepper) Close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	unclosed := map[int]error{}
	err := s.engine.Close(func(rollout int, err error) { unclosed[rollout] = err })
	said := map[string]bool{}
	for _, i := range slices.Sorted(maps.Keys(unclosed)) {
		if name := s.jobs[i].Policy.String(); !said[name] {
			said[name] = true
			err = errors.Join(
				err, fmt.Errorf("controller %s does not close: %w", name, unclosed[i]),
			)
		}
	}
	return err
}

// Unheard is for a Close after which another error is told.
func Unheard(int, error) {}
