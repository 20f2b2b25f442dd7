package reference

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"

	"lockstep"
	"lockstep/internal/f32"
	"lockstep/internal/guard"
	"lockstep/internal/model"
)

// Simulator is the reference implementation of lockstep.Simulator. It runs jobs
// one after the other, in their order.
type Simulator struct {
	parameters *parameters
	model      string // SHA-256 of its file
	profile    lockstep.Profile
	kernels    *f32.Kernels
	closed     atomic.Bool
}

var _ lockstep.Implementation = (*Simulator)(nil)

// New makes a simulator from the network's ONNX file.
func New(modelPath string, profile lockstep.Profile) (*Simulator, error) {
	weights, err := model.Load(modelPath)
	if err != nil {
		return nil, err
	}
	return Of(weights, profile), nil
}

// Of makes a simulator from weights.
func Of(weights *model.Weights, profile lockstep.Profile) *Simulator {
	return newSimulator(weights, profile, f32.Best())
}

func newSimulator(
	weights *model.Weights, profile lockstep.Profile, kernels *f32.Kernels,
) *Simulator {
	return &Simulator{
		parameters: pack(weights),
		model:      weights.SHA256,
		profile:    profile,
		kernels:    kernels,
	}
}

// Name is "reference".
func (s *Simulator) Name() string { return "reference" }

// Profile is the arithmetic that the simulator was made with.
func (s *Simulator) Profile() lockstep.Profile { return s.profile }

// About says what computes, such as kernels "avx512", "avx2", "neon" or "go".
func (s *Simulator) About() lockstep.About {
	return lockstep.About{
		Inside:  "the specification, kernels " + s.kernels.Name,
		Model:   s.model,
		Kernels: s.kernels.Name,
		OneCore: true,
	}
}

// Close ends its use: a simulator holds memory alone.
func (s *Simulator) Close() error {
	s.closed.Store(true)
	return nil
}

// WithKernels returns a simulator with the same weights that runs the named
// kernels, whose bits are the same.
func (s *Simulator) WithKernels(name string) (*Simulator, error) {
	kernels, err := f32.Named(name)
	if err != nil {
		return nil, err
	}
	return &Simulator{
		parameters: s.parameters,
		model:      s.model,
		profile:    s.profile,
		kernels:    kernels,
	}, nil
}

// Logits runs the network alone, as the Python program's ort_session does: it writes the logits
// of all positions, of shape (20, 1024), for states of shape (20, 4) and 20 tokens.
func (s *Simulator) Logits(logits, states []float32, tokens []int64) error {
	if len(logits) != positions*model.Vocabulary || len(states) != positions*model.StateSize ||
		len(tokens) != positions {
		return fmt.Errorf(
			"%d logits, %d states and %d tokens, want %d, %d and %d", len(logits), len(states),
			len(tokens), positions*model.Vocabulary, positions*model.StateSize, positions,
		)
	}
	for i, token := range tokens {
		if token < 0 || token >= model.Vocabulary {
			return fmt.Errorf("token %d at position %d, want 0 to %d", token, i, model.Vocabulary-1)
		}
	}
	newGPT(s.parameters, s.profile, s.kernels).forward(logits, states, tokens, 0)
	return nil
}

// Simulate runs the jobs in their order.
func (s *Simulator) Simulate(
	ctx context.Context, jobs []lockstep.Job, opts lockstep.Options,
) iter.Seq2[int, lockstep.Result] {
	return func(yield func(int, lockstep.Result) bool) {
		lockstep.Computes(ctx, s)
		m := newTinyPhysicsModel(s.parameters, s.profile, s.kernels, opts.Shortcuts)
		for i := range jobs {
			if !yield(i, s.run(ctx, m, &jobs[i], opts, nil)) {
				return
			}
		}
	}
}

// ended is why nothing more is computed, or nil.
func (s *Simulator) ended(ctx context.Context) error {
	if s.closed.Load() {
		return lockstep.ErrClosed
	}
	return ctx.Err()
}

// run rolls one job out. A controller or observer that ends early fails its own job.
// What is to be recorded of a step, record does at its end.
func (s *Simulator) run(
	ctx context.Context, m *tinyPhysicsModel, job *lockstep.Job, opts lockstep.Options,
	record func(*tinyPhysicsSimulator),
) (result lockstep.Result) {
	if err := s.ended(ctx); err != nil { // which many jobs may share: nothing is made of it
		return lockstep.Result{Err: err}
	}
	if err := job.Check(opts.Shortcuts); err != nil {
		return lockstep.Result{Err: job.Failed(0, err)}
	}
	t := newTinyPhysicsSimulator(m, job, opts.Shortcuts)
	t.record = record
	step := 0
	if err := guard.Do(func() {
		controller, done, err := newController(job, m.gpt.kernels)
		if err != nil {
			guard.Fail(err)
		}
		t.controller = controller
		defer func() {
			guard.Do(func() { done() }) // how a controller ends is no result's, as in other engines
			step = t.stepIdx
			if err != nil {
				guard.Fail(err)
			}
		}()
		err = t.rollout(func() error { return s.ended(ctx) })
	}); err != nil {
		return lockstep.Result{Err: job.Failed(step, err)}
	}
	return t.result(opts)
}

// result is that of a rollout that has ended.
func (t *tinyPhysicsSimulator) result(opts lockstep.Options) lockstep.Result {
	result := lockstep.Result{Costs: t.computeCost()}
	if opts.Trajectory {
		result.Trajectory = &lockstep.Trajectory{
			Target:   slices.Clone(t.targetLataccelHistory),
			Lataccel: slices.Clone(t.currentLataccelHistory),
			Action:   slices.Clone(t.actionHistory),
		}
	}
	return result
}

// tinyPhysicsSimulator is one rollout. Its methods stand in the order of the
// Python class of that name.
type tinyPhysicsSimulator struct {
	simModel   *tinyPhysicsModel
	data       *lockstep.Route
	controller lockstep.Controller
	observe    func(*lockstep.Step)
	record     func(*tinyPhysicsSimulator)
	teacher    *lockstep.Trajectory
	draws      []float64
	expected   bool // predictions are expected values
	shortcuts  lockstep.Shortcuts
	end        int // one past the last step

	stepIdx                int
	stateHistory           []lockstep.State
	actionHistory          []float64
	currentLataccelHistory []float64
	targetLataccelHistory  []float64
	futurePlan             lockstep.FuturePlan
	currentLataccel        float64
	prediction             float64 // the network's, before it is clipped

	computed struct{ action, lataccel float64 } // at this step, whatever a teacher says
}

func newTinyPhysicsSimulator(
	m *tinyPhysicsModel, job *lockstep.Job, shortcuts lockstep.Shortcuts,
) *tinyPhysicsSimulator {
	t := &tinyPhysicsSimulator{
		simModel: m, data: job.Route, observe: job.Observe, teacher: job.Teacher,
		draws: job.Draws, expected: job.Expected,
		shortcuts: shortcuts, end: job.End(shortcuts),
	}
	t.reset()
	return t
}

func (t *tinyPhysicsSimulator) reset() {
	t.stepIdx = lockstep.ContextLength
	n := t.data.Len()
	t.stateHistory = make([]lockstep.State, 0, n)
	t.actionHistory = append(make([]float64, 0, n), t.data.SteerCommand[:t.stepIdx]...)
	t.currentLataccelHistory = append(make([]float64, 0, n), t.data.TargetLataccel[:t.stepIdx]...)
	t.targetLataccelHistory = append(make([]float64, 0, n), t.data.TargetLataccel[:t.stepIdx]...)
	for i := range t.stepIdx {
		t.stateHistory = append(t.stateHistory, t.data.State(i))
	}
	t.currentLataccel = t.currentLataccelHistory[t.stepIdx-1]
	t.simModel.random = NewRandom(t.data.Seed)
	if t.draws != nil {
		t.simModel.random = &Random{given: t.draws}
	}
}

func (t *tinyPhysicsSimulator) simStep(stepIdx int) error {
	if stepIdx < lockstep.ControlStartIdx && t.shortcuts&lockstep.SkipWarmup != 0 {
		t.simModel.draw = t.simModel.random.Random()
		t.currentLataccel = t.data.TargetLataccel[stepIdx]
		t.enterLataccel(stepIdx)
		return nil
	}
	var err error
	t.prediction, err = t.simModel.getCurrentLataccel(
		last(t.stateHistory), last(t.actionHistory), last(t.currentLataccelHistory))
	if err != nil {
		return err
	}
	if t.expected {
		t.prediction = t.simModel.expectation()
	}
	pred := clip(t.prediction,
		t.currentLataccel-lockstep.MaxAccDelta, t.currentLataccel+lockstep.MaxAccDelta)
	if stepIdx >= lockstep.ControlStartIdx {
		t.currentLataccel = pred
	} else {
		t.currentLataccel = t.data.TargetLataccel[stepIdx]
	}
	t.enterLataccel(stepIdx)
	return nil
}

// enterLataccel enters the step's lataccel, or the teacher's, into the history.
func (t *tinyPhysicsSimulator) enterLataccel(stepIdx int) {
	t.computed.lataccel = t.currentLataccel
	if t.teacher != nil {
		t.currentLataccel = t.teacher.Lataccel[stepIdx]
	}
	t.currentLataccelHistory = append(t.currentLataccelHistory, t.currentLataccel)
}

func last[T any](history []T) []T { return history[len(history)-lockstep.ContextLength:] }

// command is the controller's answer. A network and a table see the rollout's
// histories and step, which Update does not tell.
func (t *tinyPhysicsSimulator) command(stepIdx int) (float64, error) {
	switch c := t.controller.(type) {
	case *network:
		return c.act(t.data, stepIdx, t.currentLataccelHistory, t.actionHistory)
	case table:
		return c.at(stepIdx), nil
	}
	return t.controller.Update(
		t.targetLataccelHistory[stepIdx], t.currentLataccel, t.stateHistory[stepIdx], t.futurePlan,
	), nil
}

func (t *tinyPhysicsSimulator) controlStep(stepIdx int) error {
	action, err := t.command(stepIdx)
	if err != nil {
		return err
	}
	if stepIdx < lockstep.ControlStartIdx {
		action = t.data.SteerCommand[stepIdx]
	}
	action = clip(action, lockstep.SteerMin, lockstep.SteerMax)
	t.computed.action = action
	if t.teacher != nil {
		action = t.teacher.Action[stepIdx]
	}
	t.actionHistory = append(t.actionHistory, action)
	return nil
}

func (t *tinyPhysicsSimulator) step() error {
	t.stateHistory = append(t.stateHistory, t.data.State(t.stepIdx))
	t.targetLataccelHistory = append(t.targetLataccelHistory, t.data.TargetLataccel[t.stepIdx])
	t.futurePlan = t.data.FuturePlan(t.stepIdx)
	if err := t.controlStep(t.stepIdx); err != nil {
		return err
	}
	if err := t.simStep(t.stepIdx); err != nil {
		return err
	}
	if t.observe != nil {
		t.report()
	}
	if t.record != nil {
		t.record(t)
	}
	t.stepIdx++
	return nil
}

// report shows the step's stages to the observer.
func (t *tinyPhysicsSimulator) report() {
	m := t.simModel
	s := lockstep.Step{
		Index:    t.stepIdx,
		Action:   t.computed.action,
		Draw:     m.draw,
		Sample:   -1,
		Lataccel: t.computed.lataccel,
	}
	if t.stepIdx >= lockstep.ControlStartIdx || t.shortcuts&lockstep.SkipWarmup == 0 {
		s.Tokens, s.States, s.Logits, s.Probs, s.CDF = m.tokens, m.states, m.logits(), m.probs,
			m.cdf
		s.Sample, s.Prediction = m.sample, t.prediction
		if t.expected {
			s.Sample = -1
		}
	}
	if n, ok := t.controller.(*network); ok && t.stepIdx >= lockstep.ControlStartIdx {
		s.Observation, s.Actor, s.Raw = n.observation, n.actor, n.raw
	}
	t.observe(&s)
}

func (t *tinyPhysicsSimulator) computeCost() lockstep.Costs {
	end := min(lockstep.CostEndIdx, len(t.currentLataccelHistory))
	target := t.targetLataccelHistory[lockstep.ControlStartIdx:end]
	pred := t.currentLataccelHistory[lockstep.ControlStartIdx:end]

	squares := make([]float64, len(target))
	for i := range target {
		d := target[i] - pred[i]
		squares[i] = d * d
	}
	jerks := diff(pred)
	for i := range jerks {
		j := jerks[i] / lockstep.DelT
		jerks[i] = j * j
	}
	latAccelCost := mean(squares) * 100
	jerkCost := float64(mean(jerks) * 100)
	return lockstep.Costs{
		Lataccel: latAccelCost,
		Jerk:     jerkCost,
		Total:    float64(latAccelCost*lockstep.LatAccelCostMultiplier) + jerkCost,
	}
}

// rollout makes all steps, unless something ends them.
func (t *tinyPhysicsSimulator) rollout(ended func() error) error {
	for t.stepIdx < t.end {
		if err := ended(); err != nil {
			return err
		}
		if err := t.step(); err != nil {
			return err
		}
	}
	return nil
}
