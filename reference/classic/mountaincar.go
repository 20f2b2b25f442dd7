package classic

import (
	"lockstep/classic"
	"lockstep/internal/libm"
)

// Both mountain cars.
const (
	minPosition = -1.2
	maxPosition = 0.6
	maxSpeed    = 0.07
)

// mountainCar is MountainCarEnv.
type mountainCar struct {
	task               *classic.Task
	position, velocity float64
}

func (m *mountainCar) reset(g *generator, low, high []float64) {
	m.position, m.velocity = g.uniform(low[0], high[0]), 0
}

func (m *mountainCar) step(a action) (reward float64, terminated bool) {
	const (
		force        = 0.001
		gravity      = 0.0025
		goalPosition = 0.5
	)
	m.velocity += float64(float64(a.discrete-1)*force) + float64(libm.Cos(3*m.position)*(-gravity))
	m.velocity = clip(m.velocity, -maxSpeed, maxSpeed)
	m.position += m.velocity
	m.position = clip(m.position, minPosition, maxPosition)
	if m.position == minPosition && m.velocity < 0 {
		m.velocity = 0
	}
	return -1, m.position >= goalPosition && m.velocity >= m.task.GoalVelocity
}

func (m *mountainCar) observe(observation []float32) { cast(observation, m.position, m.velocity) }

func (m *mountainCar) state() []*float64 { return []*float64{&m.position, &m.velocity} }

// clip is np.clip for numbers.
func clip(x, low, high float64) float64 {
	switch {
	case x < low:
		return low
	case x > high:
		return high
	}
	return x
}

// mountainCarContinuous is Continuous_MountainCarEnv. Its state is float64 after a
// reset and float32 after every step; with NumPy 2 the arithmetic is, too, but for
// what Python's own floats do.
type mountainCarContinuous struct {
	task               *classic.Task
	position, velocity float64
	wide               bool // the state is float64
}

func (m *mountainCarContinuous) reset(g *generator, low, high []float64) {
	m.position, m.velocity, m.wide = g.uniform(low[0], high[0]), 0, true
}

func (m *mountainCarContinuous) step(a action) (reward float64, terminated bool) {
	if m.wide || m.task.NumPy1 {
		terminated = m.move64(a.continuous)
	} else {
		terminated = m.move32(a.continuous)
	}
	m.wide = false
	if terminated {
		reward = 100
	}
	square := float64(a.continuous) * float64(a.continuous)
	return reward - float64(square*0.1), terminated
}

const (
	power                  = 0.0015
	continuousGravity      = 0.0025
	continuousGoalPosition = 0.45
)

// pull is force·power - 0.0025·cos(angle). The force is a float32 unless min or max
// replaced it by Python's ±1.0.
func (m *mountainCarContinuous) pull(force float32, angle float64) float64 {
	slope := float64(continuousGravity * libm.Cos(angle))
	switch {
	case force > 1:
		return power - slope
	case force < -1:
		return -power - slope
	case m.task.NumPy1:
		return float64(float64(force)*power) - slope
	}
	return float64(float32(force*float32(power)) - float32(slope))
}

// move64 is the step where position or velocity are float64.
func (m *mountainCarContinuous) move64(force float32) bool {
	increment := m.pull(force, 3*m.position)
	m.velocity += increment
	m.velocity = clip(m.velocity, -maxSpeed, maxSpeed)
	m.position += m.velocity
	m.position = clip(m.position, minPosition, maxPosition)
	if m.position == minPosition && m.velocity < 0 {
		m.velocity = 0
	}
	terminated := m.position >= continuousGoalPosition && m.velocity >= m.task.GoalVelocity
	m.position, m.velocity = float64(float32(m.position)), float64(float32(m.velocity))
	return terminated
}

// move32 is the step from a float32 state under NumPy 2. A limit that replaces a
// value is a Python float and is compared as one.
func (m *mountainCarContinuous) move32(force float32) bool {
	position, velocity := float32(m.position), float32(m.velocity)
	increment := m.pull(force, float64(3*position))
	velocity += float32(increment)
	fast := velocity >= float32(m.task.GoalVelocity)
	if velocity > float32(maxSpeed) {
		velocity = maxSpeed
		fast = maxSpeed >= m.task.GoalVelocity
	}
	if velocity < -float32(maxSpeed) {
		velocity = -maxSpeed
		fast = -maxSpeed >= m.task.GoalVelocity
	}
	position += velocity
	position = min(position, float32(maxPosition))
	position = max(position, float32(minPosition))
	if position == float32(minPosition) && velocity < 0 {
		velocity = 0
		fast = 0 >= m.task.GoalVelocity
	}
	m.position, m.velocity = float64(position), float64(velocity)
	return position >= float32(continuousGoalPosition) && fast
}

func (m *mountainCarContinuous) observe(observation []float32) {
	cast(observation, m.position, m.velocity)
}

func (m *mountainCarContinuous) state() []*float64 { return []*float64{&m.position, &m.velocity} }
