package classic

import (
	"math"
	"unsafe"
)

// lanes are columns of n elements, a multiple of 8, which the assembly reads too:
// see fieldN in _generate.
type lanes struct {
	n                     int
	state                 *float64 // (S, n)
	observation           *float32 // (D, n)
	action                *int32
	reward, total         *float64
	terminated, truncated *bool
	elapsed               *int32 // steps of the episode
	table                 *float64
	limit                 int     // of elapsed
	going, end            float64 // rewards
	goal                  float64 // velocity

	// Pendulum's.
	force                     *float32
	sine                      *float64 // of the angle, from one step to the next
	normalSquare, speedSquare *float64 // of the state before the step
	pull                      float64
	logs, exps                *uint64 // tables of power32
}

// at is element i of column k.
func at[T any](base *T, l *lanes, k, i int) *T {
	return (*T)(unsafe.Add(unsafe.Pointer(base), (k*l.n+i)*int(unsafe.Sizeof(*base))))
}

// Computed as Python does: variables, since Go's constants are exact.
var (
	gravity        = 9.8
	massPole       = 0.1
	massCart       = 1.0
	totalMass      = massPole + massCart
	length         = 0.5
	poleMassLength = massPole * length
	pi             = math.Pi
	wholeTurn      = 2 * pi
	perRadian      = 1 / wholeTurn
	thetaThreshold = 12 * 2 * pi / 360
	goalPosition32 = float32(0.45)
)

// cartPoleLane is one step of one CartPole.
func (l *lanes) cartPoleLane(i int, semiImplicit bool) {
	x, xDot, theta, thetaDot := at(l.state, l, 0, i), at(l.state, l, 1, i), at(l.state, l, 2, i),
		at(l.state, l, 3, i)
	force := -10.0
	if *at(l.action, l, 0, i) == 1 {
		force = 10
	}
	sin, cos := sincos(*theta)
	temp := (force + float64(float64(*thetaDot**thetaDot*poleMassLength)*sin)) / totalMass
	under := length * (4.0/3.0 - float64(float64(cos*cos)*massPole)/totalMass)
	thetaAcc := (float64(sin*gravity) - float64(cos*temp)) / under
	xAcc := temp - float64(float64(thetaAcc*poleMassLength)*cos)/totalMass
	if semiImplicit {
		*xDot += float64(xAcc * 0.02)
		*x += float64(*xDot * 0.02)
		*thetaDot += float64(thetaAcc * 0.02)
		*theta += float64(*thetaDot * 0.02)
	} else {
		*x += float64(*xDot * 0.02)
		*xDot += float64(xAcc * 0.02)
		*theta += float64(*thetaDot * 0.02)
		*thetaDot += float64(thetaAcc * 0.02)
	}
	for k, v := range [4]float64{*x, *xDot, *theta, *thetaDot} {
		*at(l.observation, l, k, i) = float32(v)
	}
	l.finish(i, math.Abs(*x) > 2.4 || math.Abs(*theta) > thetaThreshold)
}

// finish ends the step of a lane.
func (l *lanes) finish(i int, terminated bool) {
	reward := l.going
	if terminated {
		reward = l.end
	}
	l.ends(i, terminated, reward)
}

// ends is finish with a reward of the lane's own.
func (l *lanes) ends(i int, terminated bool, reward float64) {
	elapsed := at(l.elapsed, l, 0, i)
	*elapsed++
	*at(l.terminated, l, 0, i) = terminated
	*at(l.truncated, l, 0, i) = int(*elapsed) >= l.limit
	*at(l.reward, l, 0, i) = reward
	*at(l.total, l, 0, i) += reward
}

// pendulumLane is one step of one Pendulum.
func (l *lanes) pendulumLane(i int, numpy1 bool) {
	theta, speed, sin := at(l.state, l, 0, i), at(l.state, l, 1, i), at(l.sine, l, 0, i)
	u := max(min(*at(l.force, l, 0, i), 2), -2)
	effort, torque := float64(power32(u)*0.001), float64(u*3)
	if numpy1 {
		effort, torque = float64(u)*float64(u)*0.001, 3*float64(u)
	}
	cost := (*at(l.normalSquare, l, 0, i) + float64(*at(l.speedSquare, l, 0, i)*0.1)) + effort
	v := *speed + float64((float64(l.pull**sin)+torque)*0.05)
	v = max(min(v, 8), -8)
	*speed = v
	*theta += float64(v * 0.05)
	var cos float64
	*sin, cos = sincos(*theta)
	for k, x := range [3]float64{cos, *sin, v} {
		*at(l.observation, l, k, i) = float32(x)
	}
	l.ends(i, false, -cost)
}

// mountainCarLane is one step of one MountainCar.
func (l *lanes) mountainCarLane(i int) {
	position, velocity := at(l.state, l, 0, i), at(l.state, l, 1, i)
	_, cos := sincos(3 * *position)
	v := *velocity + (float64(float64(*at(l.action, l, 0, i)-1)*0.001) + float64(cos*-0.0025))
	v = max(min(v, 0.07), -0.07)
	p := max(min(*position+v, 0.6), -1.2)
	if p == -1.2 && v < 0 {
		v = 0
	}
	*position, *velocity = p, v
	*at(l.observation, l, 0, i), *at(l.observation, l, 1, i) = float32(p), float32(v)
	l.finish(i, p >= 0.5 && v >= l.goal)
}
