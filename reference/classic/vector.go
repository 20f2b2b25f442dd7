package classic

import (
	"context"
	"fmt"

	"lockstep/classic"
)

// An action is a number of the environment's, or a float32.
type action struct {
	discrete   int
	continuous float32
}

// An environment is what gymnasium.make returns, without its limit of steps.
type environment interface {
	reset(g *generator, low, high []float64)
	step(a action) (reward float64, terminated bool)
	observe(observation []float32)
	state() []*float64 // its values
}

func newEnvironment(t *classic.Task) environment {
	switch t.Dynamics {
	case classic.CartPole:
		return &cartPole{task: t}
	case classic.MountainCar:
		return &mountainCar{task: t}
	case classic.MountainCarContinuous:
		return &mountainCarContinuous{task: t}
	case classic.Pendulum:
		return newPendulum(t)
	}
	return &acrobot{task: t}
}

// Reference makes the environments that the others are held to.
type Reference struct{}

func (Reference) Name() string { return "reference" }

// Make returns the task's environments.
func (Reference) Make(t classic.Task) (classic.Vector, error) {
	if err := t.Check(); err != nil {
		return nil, err
	}
	v := &vector{task: t, slots: make([]slot, t.Num), ended: make([]bool, t.Num)}
	for i := range v.slots {
		v.slots[i] = slot{
			environment: newEnvironment(&v.task),
			observation: make([]float32, len(t.Observation)),
			final:       make([]float32, len(t.Observation)),
		}
	}
	return v, nil
}

// A slot is one environment with its wrappers.
type slot struct {
	environment
	generator             *generator
	elapsed               int // steps of the episode
	reward                float64
	terminated, truncated bool
	observation, final    []float32
	rewards               float64
	episodes              int64
}

// vector is SyncVectorEnv and, for a task whose generator is shared,
// CartPoleVectorEnv.
type vector struct {
	task   classic.Task
	slots  []slot
	ended  []bool // the last step ended an episode that has not been reset
	seeded bool
	shared *generator // of all environments, with its bounds
	low    []float64
	high   []float64
	steps  int64 // since the last reset of all
}

func (v *vector) Task() classic.Task { return v.task }

func (v *vector) Stats() string { return "" }

func (v *vector) Close() error { return nil }

func (v *vector) Reset(r classic.Reset) error {
	if err := v.task.CheckReset(r, v.seeded); err != nil {
		return err
	}
	low, high := v.task.Bounds(r)
	v.seeded = true
	if v.task.Shared {
		v.resetShared(r, low, high)
	}
	for i := range v.slots {
		if v.task.Shared || r.Mask != nil && !r.Mask[i] {
			continue
		}
		s := &v.slots[i]
		switch {
		case r.Seeds != nil:
			s.generator = newGenerator(r.Seeds[i])
		case !r.Continue:
			s.generator = newGenerator(r.Seed + int64(i))
		}
		s.environment.reset(s.generator, low, high)
		s.elapsed, v.ended[i] = 0, false
		s.observe(s.observation)
	}
	if r.Mask == nil {
		v.steps = 0
		for i := range v.slots {
			v.slots[i].rewards, v.slots[i].episodes = 0, 0
		}
	}
	return nil
}

// resetShared is CartPoleVectorEnv.reset: it keeps the bounds.
func (v *vector) resetShared(r classic.Reset, low, high []float64) {
	if !r.Continue {
		v.shared = newGenerator(r.Seed)
	}
	v.low, v.high = low, high
	all := make([]int, len(v.slots))
	for i := range all {
		all[i] = i
		v.ended[i] = false
	}
	v.draw(all)
}

// draw resets environments from the shared generator: it draws all x first, then
// all velocities, angles and angular velocities.
func (v *vector) draw(which []int) {
	for value := range v.task.State {
		for _, i := range which {
			*v.slots[i].state()[value] = v.shared.uniform(v.low[value], v.high[value])
		}
	}
	for _, i := range which {
		v.slots[i].elapsed = 0
		v.slots[i].observe(v.slots[i].observation)
	}
}

func (v *vector) Step(actions classic.Actions, t *classic.Transition) error {
	if err := v.task.CheckTransition(t); err != nil {
		return err
	}
	if err := v.task.CheckStep(actions, v.seeded, v.ended); err != nil {
		return err
	}
	var restart []int
	for i := range v.slots {
		a := action{}
		if actions.Discrete != nil {
			a.discrete = int(actions.Discrete[i])
		} else {
			a.continuous = actions.Continuous[i]
		}
		if v.task.Shared {
			if v.ended[i] {
				restart = append(restart, i)
			}
			v.stepShared(i, a)
		} else {
			v.step(i, a)
		}
	}
	v.draw(restart)
	v.steps++
	for i := range v.slots {
		s := &v.slots[i]
		done := s.terminated || s.truncated
		s.rewards += s.reward
		if done {
			s.episodes++
		}
		switch v.task.Autoreset {
		case classic.SameStep:
		case classic.Off:
			v.ended[i] = v.ended[i] || s.terminated
		default:
			v.ended[i] = done
		}
	}
	v.answer(actions, t)
	return nil
}

// step is SyncVectorEnv.step of one environment.
func (v *vector) step(i int, a action) {
	s := &v.slots[i]
	if v.ended[i] && v.task.Autoreset == classic.NextStep {
		v.restart(s)
		s.reward, s.terminated, s.truncated = 0, false, false
		return
	}
	s.reward, s.terminated = s.environment.step(a)
	s.elapsed++
	s.truncated = v.task.MaxSteps > 0 && s.elapsed >= v.task.MaxSteps
	s.observe(s.observation)
	if v.task.Autoreset == classic.SameStep && (s.terminated || s.truncated) {
		copy(s.final, s.observation)
		v.restart(s)
	}
}

func (v *vector) restart(s *slot) {
	s.environment.reset(s.generator, v.task.Low, v.task.High)
	s.elapsed = 0
	s.observe(s.observation)
}

// stepShared is CartPoleVectorEnv.step of one environment, up to its resets: one
// that had ended is stepped, and what it did is thrown away.
func (v *vector) stepShared(i int, a action) {
	s := &v.slots[i]
	s.terminated = s.environment.(*cartPole).move(a)
	s.elapsed++
	s.truncated = s.elapsed >= v.task.MaxSteps
	s.observe(s.observation)
	s.reward = 1
	if v.task.SuttonBarto {
		s.reward = -bit(s.terminated) // -0 while it goes on
	}
	if v.ended[i] {
		s.reward, s.terminated, s.truncated = 0, false, false
	}
}

func bit(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// answer fills the buffers that are there.
func (v *vector) answer(actions classic.Actions, t *classic.Transition) {
	if t == nil {
		return
	}
	copy(t.Actions.Discrete, actions.Discrete)
	copy(t.Actions.Continuous, actions.Continuous)
	v.Observe(t.Observations, t.States)
	n := len(v.slots)
	for i := range v.slots {
		s := &v.slots[i]
		if t.Rewards != nil {
			t.Rewards[i] = s.reward
		}
		if t.Terminated != nil {
			t.Terminated[i] = s.terminated
		}
		if t.Truncated != nil {
			t.Truncated[i] = s.truncated
		}
		if t.Final != nil && v.task.Autoreset == classic.SameStep && (s.terminated || s.truncated) {
			for d, x := range s.final {
				t.Final[d*n+i] = x
			}
		}
	}
}

func (v *vector) Observe(observations []float32, states []float64) {
	n := len(v.slots)
	for i := range v.slots {
		s := &v.slots[i]
		if observations != nil {
			for d, x := range s.observation {
				observations[d*n+i] = x
			}
		}
		if states != nil {
			for d, x := range s.state() {
				states[d*n+i] = *x
			}
		}
	}
}

func (v *vector) Snapshot() (*classic.Snapshot, error) {
	if err := v.task.CheckReady(v.seeded, nil); err != nil {
		return nil, err
	}
	s := classic.NewSnapshot(v.task)
	s.Steps = v.steps
	v.Observe(s.Observations, s.States)
	copy(s.Ended, v.ended)
	for i := range v.slots {
		s.Elapsed[i] = int32(min(v.slots[i].elapsed, classic.MostSteps))
		s.Rewards[i], s.Episodes[i] = v.slots[i].rewards, v.slots[i].episodes
	}
	all := v.generators()
	for i, g := range all {
		for k, word := range []uint64{g.state.hi, g.state.lo, g.inc.hi, g.inc.lo} {
			s.Generators[k*len(all)+i] = word
		}
	}
	return s, nil
}

// generators are those of the environments, in order, or the one that they share.
func (v *vector) generators() (all []*generator) {
	if v.task.Shared {
		return []*generator{v.shared}
	}
	for i := range v.slots {
		all = append(all, v.slots[i].generator)
	}
	return all
}

func (v *vector) Restore(s *classic.Snapshot) error {
	if err := v.task.CheckSnapshot(s); err != nil {
		return err
	}
	if err := v.task.CheckReady(v.seeded, nil); err != nil {
		return err
	}
	v.steps = s.Steps
	copy(v.ended, s.Ended)
	n := len(v.slots)
	for i := range v.slots {
		slot := &v.slots[i]
		for d, x := range slot.state() {
			*x = s.States[d*n+i]
		}
		for d := range slot.observation {
			slot.observation[d] = s.Observations[d*n+i]
		}
		slot.elapsed = int(s.Elapsed[i])
		slot.rewards, slot.episodes = s.Rewards[i], s.Episodes[i]
		switch e := slot.environment.(type) {
		case *cartPole:
			e.beyond = s.Ended[i]
		case *mountainCarContinuous:
			e.wide = s.Elapsed[i] == 0
		}
	}
	all := v.generators()
	for i, g := range all {
		word := func(k int) uint64 { return s.Generators[k*len(all)+i] }
		*g = generator{state: uint128{word(0), word(1)}, inc: uint128{word(2), word(3)}}
	}
	return nil
}

func (v *vector) Totals() classic.Totals {
	t := classic.Totals{Steps: v.steps * int64(len(v.slots))}
	for i := range v.slots {
		t.Rewards = append(t.Rewards, v.slots[i].rewards)
		t.Episodes = append(t.Episodes, v.slots[i].episodes)
	}
	return t
}

func (v *vector) Run(
	ctx context.Context, policy classic.Policy, steps int, record []classic.Transition,
) error {
	if err := v.task.CheckRun(policy, steps, record); err != nil {
		return err
	}
	if err := v.task.CheckReady(v.seeded, nil); err != nil {
		return err
	}
	for step := range steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		var t *classic.Transition
		if record != nil {
			t = &record[step]
		}
		if err := v.Step(v.act(policy, step), t); err != nil {
			return fmt.Errorf("step %d: %w", step, err)
		}
	}
	return nil
}
