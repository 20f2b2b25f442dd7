package onnxruntime

import (
	"fmt"
	"slices"
	"time"

	"lockstep"
	"lockstep/internal/guard"
	"lockstep/internal/model"
	"lockstep/internal/policies"
)

// worker runs one chunk after another, in one session.
type worker struct {
	simulator *Simulator
	session   *session // made for the first chunk
	network   network
	opts      lockstep.Options
	fused     bool // variant of NumPy's exponential
	commanded bool // jobs without a policy are steered from outside
	stopped   func() error
	report    func(index int, r lockstep.Result)
	failed    func(index, step int, err error)
	training  *lockstep.Experience // to be filled, or nil
	sessions  map[*lockstep.Network]*actor

	// One row's, at a time.
	probs []float32
	cdf   []float64 // running sums, until it is made a distribution
}

// close gives the session back.
func (w *worker) close() {
	for _, a := range w.sessions {
		a.close()
	}
	if w.session != nil {
		w.simulator.sessions.put(w.session)
	}
}

// run runs a chunk of jobs and reports the result of each.
func (w *worker) run(jobs []lockstep.Job, from, to int) {
	c := newChunk(w, jobs, from, to)
	groups := newControllers(c)
	defer func() {
		for _, g := range groups {
			g.close()
		}
	}()
	for step := lockstep.ContextLength; ; step++ {
		c.finish(step)
		if len(c.live) == 0 {
			return
		}
		if err := w.stopped(); err != nil {
			c.failAll(step, err)
			return
		}
		c.advance(groups, step)
	}
}

// advance computes a step of the slots that run.
func (c *chunk) advance(groups []controllers, step int) {
	if c.session == nil {
		var err error
		if c.session, err = c.simulator.sessions.get(c.network); err != nil {
			c.failAll(step, err)
			return
		}
	}
	for _, g := range groups {
		g.update(c, step)
	}
	c.steer(step)
	if step >= lockstep.ControlStartIdx || c.opts.Shortcuts&lockstep.SkipWarmup == 0 {
		c.predict(step)
	} else {
		c.skip(step)
	}
	if c.training != nil && step >= lockstep.ControlStartIdx {
		c.keep(step)
	}
}

// keep records the step of the slots that still run.
func (c *chunk) keep(step int) {
	for _, k := range c.live {
		if s := &c.slots[k]; c.running[k] {
			c.actors[k].Record(c.training, s.index, step, s.lataccel, s.action)
		}
	}
}

// chunk is routes in step. Its slices have one element for every slot.
type chunk struct {
	*worker
	slots   []slot
	running []bool
	live    []int // the slots that run, in order

	current []float64 // lataccel after the previous step, m/s²
	command []float64 // the controllers' answers

	actors []*policies.Actor // of the slots that networks steer

	// What the step computed, whatever a teacher says.
	action, lataccel []float64

	step    lockstep.Step // for observers
	scratch []float64
}

// slot is one job. Histories have one element for every step.
type slot struct {
	job   *lockstep.Job
	index int // the job's
	route *lockstep.Route
	end   int // one past the last step

	target   []float64 // m/s²
	lataccel []float64 // m/s²
	action   []float64 // steer command after clipping
	tokens   []int64   // encoded lataccel
	states   []float32 // (end, 4): action, roll lataccel, v ego, a ego
	draws    []float64 // from step ContextLength on
}

func newChunk(w *worker, jobs []lockstep.Job, from, to int) *chunk {
	n := to - from
	c := &chunk{
		worker:  w,
		slots:   make([]slot, n),
		running: make([]bool, n),
		current: make([]float64, n),
		command: make([]float64, n),
		actors:  make([]*policies.Actor, n),
		action:  make([]float64, n),

		lataccel: make([]float64, n),
		scratch:  make([]float64, lockstep.CostEndIdx-lockstep.ControlStartIdx),
	}
	if w.probs == nil {
		w.probs, w.cdf = make([]float32, model.Vocabulary), make([]float64, model.Vocabulary)
	}
	for k := range c.slots {
		s := &c.slots[k]
		s.job, s.index, s.route = &jobs[from+k], from+k, jobs[from+k].Route
		c.running[k] = true
		if err := s.job.Check(w.opts.Shortcuts); err != nil {
			c.fail(k, 0, err)
			continue
		}
		s.reset(w.opts.Shortcuts)
		c.current[k] = s.lataccel[lockstep.ContextLength-1]
	}
	c.live = make([]int, n)
	for k := range c.live {
		c.live[k] = k
	}
	return c
}

// reset makes the histories, with the route's values up to the first simulated
// step and, where they do not depend on the simulation, beyond.
func (s *slot) reset(shortcuts lockstep.Shortcuts) {
	r := s.route
	s.end = r.Len()
	if shortcuts&lockstep.StopAtCostEnd != 0 {
		s.end = min(s.end, lockstep.CostEndIdx)
	}
	floats := make([]float64, 2*s.end)
	s.lataccel, s.action = floats[:s.end:s.end], floats[s.end:]
	s.target = r.TargetLataccel
	s.tokens = make([]int64, s.end)
	s.states = make([]float32, s.end*model.StateSize)
	for i := range s.end {
		row := s.states[i*model.StateSize:][:model.StateSize]
		row[1], row[2], row[3] = float32(r.RollLataccel[i]), float32(r.VEgo[i]), float32(r.AEgo[i])
	}
	for i := range lockstep.ContextLength {
		s.act(i, r.SteerCommand[i])
		s.move(i, s.target[i])
	}
	s.draws = s.job.Uniforms(s.end - lockstep.ContextLength)
}

// act enters a steer command into the histories.
func (s *slot) act(step int, action float64) {
	s.action[step] = action
	s.states[step*model.StateSize] = float32(action)
}

// move enters a lateral acceleration into the histories.
func (s *slot) move(step int, lataccel float64) {
	s.lataccel[step] = lataccel
	s.tokens[step] = encode(lataccel)
}

// fail ends a slot with an error.
func (c *chunk) fail(slot, step int, err error) {
	c.running[slot] = false
	c.failed(c.slots[slot].index, step, err)
}

func (c *chunk) failAll(step int, err error) {
	for _, k := range c.live {
		c.fail(k, step, err)
	}
	c.live = nil
}

// settle takes the slots that do not run any more off the list.
func (c *chunk) settle() {
	c.live = slices.DeleteFunc(c.live, func(k int) bool { return !c.running[k] })
}

// finish ends the slots that have no such step.
func (c *chunk) finish(step int) {
	c.settle()
	for _, k := range c.live {
		s := &c.slots[k]
		if s.end != step {
			continue
		}
		c.running[k] = false
		c.report(s.index, c.result(k))
	}
	c.settle()
}

// result is that of a slot that has ended.
func (c *chunk) result(k int) lockstep.Result {
	s := &c.slots[k]
	const from = lockstep.ControlStartIdx
	to := min(s.end, lockstep.CostEndIdx)
	result := lockstep.Result{Costs: costs(s.target[from:to], s.lataccel[from:to], c.scratch)}
	if c.opts.Trajectory {
		result.Trajectory = &lockstep.Trajectory{
			Target:   slices.Clone(s.target[:s.end]),
			Lataccel: slices.Clone(s.lataccel),
			Action:   slices.Clone(s.action),
		}
	}
	return result
}

// steer turns the controllers' answers into actions.
func (c *chunk) steer(step int) {
	c.settle()
	for _, k := range c.live {
		s := &c.slots[k]
		action := c.command[k]
		if step < lockstep.ControlStartIdx {
			action = s.route.SteerCommand[step]
		}
		c.action[k] = clip(action, lockstep.SteerMin, lockstep.SteerMax)
		if s.job.Teacher != nil {
			s.act(step, s.job.Teacher.Action[step])
		} else {
			s.act(step, c.action[k])
		}
	}
}

// move ends a slot's step with its lataccel, or the teacher's.
func (c *chunk) move(k, step int, lataccel float64) {
	s := &c.slots[k]
	c.lataccel[k], c.current[k] = lataccel, lataccel
	if s.job.Teacher != nil {
		c.current[k] = s.job.Teacher.Lataccel[step]
	}
	s.move(step, c.current[k])
}

// skip ends a step whose prediction would be thrown away.
func (c *chunk) skip(step int) {
	for _, k := range c.live {
		s := &c.slots[k]
		c.move(k, step, s.target[step])
		if s.job.Observe != nil {
			c.observe(k, step, nil, -1, 0)
		}
	}
}

// predict runs the network and ends the step.
func (c *chunk) predict(step int) {
	for _, k := range c.live {
		s := &c.slots[k]
		past := s.tokens[step-lockstep.ContextLength : step]
		if i := slices.Index(past, model.Vocabulary); i >= 0 {
			c.fail(k, step, fmt.Errorf("lataccel %v has no token", s.lataccel[step-lockstep.ContextLength+i]))
		}
	}
	c.settle()
	n := len(c.live)
	if n == 0 {
		return
	}
	for i, k := range c.live {
		c.session.enter(i, n, c.slots[k].tokens[step-lockstep.ContextLength:], c.slots[k].states[(step-lockstep.ContextLength+1)*model.StateSize:])
	}
	start := time.Now()
	err := c.session.run(n)
	c.simulator.networkTime.Add(int64(time.Since(start)))
	if err != nil {
		c.failAll(step, err)
		return
	}
	for i, k := range c.live {
		c.sample(k, step, c.session.logits(i))
	}
}

// sample draws a token from a slot's logits and moves the slot on.
func (c *chunk) sample(k, step int, logits []float32) {
	s := &c.slots[k]
	f := softmax
	if vectorSoftmax != nil {
		f = vectorSoftmax
	}
	if err := checkSum(f(logits, c.probs, c.cdf, c.fused)); err != nil {
		c.fail(k, step, err)
		return
	}
	token := choose(c.cdf, s.draws[step-lockstep.ContextLength])
	prediction := bins[token]
	if s.job.Expected {
		token, prediction = -1, expectation(c.probs)
	}
	if step >= lockstep.ControlStartIdx {
		c.move(k, step, clip(prediction, c.current[k]-lockstep.MaxAccDelta, c.current[k]+lockstep.MaxAccDelta))
	} else {
		c.move(k, step, s.target[step])
	}
	if s.job.Observe != nil {
		divide(c.cdf)
		c.observe(k, step, logits, token, prediction)
	}
}

// observe shows a slot's step to the job's observer.
func (c *chunk) observe(k, step int, logits []float32, token int, prediction float64) {
	s := &c.slots[k]
	c.step = lockstep.Step{
		Index:      step,
		Action:     c.action[k],
		Draw:       s.draws[step-lockstep.ContextLength],
		Sample:     token,
		Prediction: prediction,
		Lataccel:   c.lataccel[k],
	}
	if a := c.actors[k]; a != nil && step >= lockstep.ControlStartIdx {
		a.Show(&c.step)
	}
	if logits != nil {
		const n = lockstep.ContextLength
		c.step.Tokens = s.tokens[step-n : step]
		c.step.States = s.states[(step-n+1)*model.StateSize : (step+1)*model.StateSize]
		c.step.Logits, c.step.Probs, c.step.CDF = logits, c.probs, c.cdf
	}
	if err := guard.Do(func() { s.job.Observe(&c.step) }); err != nil {
		c.fail(k, step, err)
	}
}
