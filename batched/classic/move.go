package classic

import (
	"math"

	"lockstep/classic"
)

// move computes the dynamics of all lanes.
func (b *block) move() {
	switch b.task.Dynamics {
	case classic.CartPole:
		b.cartPoles()
	case classic.MountainCar:
		b.kernels.mountainCar(&b.lanes, 0)
	case classic.MountainCarContinuous:
		b.continuousCars()
	case classic.Pendulum:
		b.pendulums()
	case classic.Acrobot:
		b.acrobots()
	}
}

// cartPoles leaves vectors with an angle beyond the kernel's to the Go function.
func (b *block) cartPoles() {
	if b.task.SemiImplicit {
		for i := range b.n {
			b.cartPoleLane(i, true)
		}
		return
	}
	for i := 0; i < b.n; {
		i = b.kernels.cartPole(&b.lanes, i)
		for end := min(i+b.kernels.width, b.n); i < end; i++ {
			b.cartPoleLane(i, false)
		}
	}
}

// Columns of scratch.
const (
	sine = iota // Pendulum: sin θ, from one step to the next
	angle
	sinAngle
	cosAngle
	normal
	squareNormal
	squareSpeed
	work // Acrobot's
)

// continuousCars is a step of MountainCarContinuous.
func (b *block) continuousCars() {
	position, velocity := b.row(0), b.row(1)
	angles, sin, cos := b.scratch[angle], b.scratch[sinAngle], b.scratch[cosAngle]
	single := !b.task.NumPy1
	for i, p := range position {
		angles[i] = 3 * p
		if single && !b.wide[i] {
			angles[i] = float64(3 * float32(p))
		}
	}
	b.kernels.sincos(angles, sin, cos)
	for i := range position {
		slope := float64(cos[i] * 0.0025)
		force, clipped := 0.0015, b.forces[i] > 1
		if b.forces[i] < -1 {
			force, clipped = -0.0015, true
		}
		var terminated bool
		if single && !b.wide[i] {
			position[i], velocity[i], terminated = b.singleCar(i, force-slope, slope, clipped)
		} else {
			v := force - slope
			switch {
			case !clipped && single:
				v = float64(float32(b.forces[i]*0.0015) - float32(slope))
			case !clipped:
				v = float64(float64(b.forces[i])*0.0015) - slope
			}
			v = max(min(velocity[i]+v, 0.07), -0.07)
			p := max(min(position[i]+v, 0.6), -1.2)
			if p == -1.2 && v < 0 {
				v = 0
			}
			terminated = p >= 0.45 && v >= b.goal
			position[i], velocity[i] = float64(float32(p)), float64(float32(v))
		}
		b.wide[i] = false
		b.observed(0)[i], b.observed(1)[i] = float32(position[i]), float32(velocity[i])
		reward := 0.0
		if terminated {
			reward = 100
		}
		a := float64(b.forces[i])
		b.reward1(i, reward-float64(a*a*0.1), terminated)
	}
}

// singleCar is the step of a car whose state is float32. A limit that replaces its
// velocity is a float64 where it meets the goal.
func (b *block) singleCar(
	i int, pull, slope float64, clipped bool,
) (position, velocity float64, terminated bool) {
	if !clipped {
		pull = float64(float32(b.forces[i]*0.0015) - float32(slope))
	}
	v := float32(b.row(1)[i]) + float32(pull)
	fast := v >= float32(b.goal)
	switch {
	case v > 0.07:
		v, fast = 0.07, 0.07 >= b.goal
	case v < -0.07:
		v, fast = -0.07, -0.07 >= b.goal
	}
	p := max(min(float32(b.row(0)[i])+v, 0.6), -1.2)
	if p == -1.2 && v < 0 {
		v = 0
	}
	return float64(p), float64(v), p >= goalPosition32 && fast
}

// reward1 ends the step of a lane with its own reward.
func (b *block) reward1(i int, reward float64, terminated bool) {
	b.steps[i]++
	b.rewards[i] = reward
	b.totals[i] += reward
	b.terminations[i] = terminated
	b.truncations[i] = int(b.steps[i]) >= b.limit
}

// pendulums is a step of Pendulum. The sine of the angle is that of the last
// observation. NumPy 1's rules, and vectors with an angle beyond the kernel's, are the
// Go function's.
func (b *block) pendulums() {
	norm := b.scratch[normal]
	b.kernels.normal(b.row(0), norm)
	b.kernels.square(norm, b.scratch[squareNormal], b.sure)
	b.kernels.square(b.row(1), b.scratch[squareSpeed], b.sure)
	for i := 0; i < b.n; {
		if !b.task.NumPy1 {
			i = b.kernels.pendulum(&b.lanes, i)
		}
		for end := min(i+b.kernels.width, b.n); i < end; i++ {
			b.pendulumLane(i, b.task.NumPy1)
		}
	}
}

// acrobots is a step of Acrobot by Runge and Kutta.
func (b *block) acrobots() {
	var y, sum [4][]float64
	for k := range 4 {
		y[k], sum[k] = b.scratch[work+k], b.scratch[work+4+k]
		copy(y[k], b.row(k))
	}
	var slope [4][]float64
	weights := [4]float64{1, 2, 2, 1}
	reach := [4]float64{0.1, 0.1, 0.2}
	for stage, w := range weights {
		slope[0], slope[1] = y[2], y[3]
		slope[2], slope[3] = b.accelerations(y)
		for k := range 4 {
			s, d, from, to := sum[k], slope[k], b.row(k), b.scratch[work+8+k]
			for i, x := range d {
				if stage == 0 {
					s[i] = x
				} else {
					s[i] += float64(w * x)
				}
				to[i] = from[i] + float64(reach[stage]*x)
			}
		}
		for k := range 4 {
			copy(y[k], b.scratch[work+8+k])
		}
	}
	dt := 0.2
	for k := range 4 {
		for i, s := range sum[k] {
			b.row(k)[i] += float64(dt / 6 * s)
		}
	}
	b.swung()
}

// accelerations are those of both joints, for angles and speeds y.
func (b *block) accelerations(y [4][]float64) (first, second []float64) {
	s := b.scratch[work+12:]
	first, second = s[0], s[1]
	angles, sin, cos, ignored := s[2], s[3], s[4], s[5]
	up, down, d2s := s[6], s[7], s[8]
	square1, square2, squareD := s[9], s[10], s[11]
	for i := range angles {
		angles[i] = y[0][i] - pi/2
	}
	b.kernels.sincos(angles, ignored, up)
	for i := range angles {
		angles[i] = (y[0][i] + y[1][i]) - pi/2
	}
	b.kernels.sincos(angles, ignored, down)
	b.kernels.sincos(y[1], sin, cos)
	for i, c := range cos {
		d2s[i] = (0.25 + float64(c*0.5)) + 1
	}
	b.kernels.square(y[2], square1, b.sure)
	b.kernels.square(y[3], square2, b.sure)
	b.kernels.square(d2s, squareD, b.sure)
	halfGravity, moreGravity := length*gravity, 1.5*gravity
	for i, sine := range sin {
		d1 := ((0.25 + (1.25 + cos[i])) + 1) + 1
		d2 := d2s[i]
		phi2 := float64(halfGravity * down[i])
		phi1 := float64(float64(square2[i]*-0.5)*sine) - float64(float64(y[3][i]*y[2][i])*sine)
		phi1 = (phi1 + float64(moreGravity*up[i])) + phi2
		a := float64(b.actions[i]-1) + float64(d2/d1*phi1)
		if !b.task.Nips {
			a -= float64(float64(square1[i]*0.5) * sine)
		}
		a = (a - phi2) / (1.25 - squareD[i]/d1)
		second[i] = a
		first[i] = -(float64(d2*a) + phi1) / d1
	}
	return first, second
}

// swung wraps and clips the state, and observes it.
func (b *block) swung() {
	t1, t2, w1, w2 := b.row(0), b.row(1), b.row(2), b.row(3)
	s := b.scratch[work:]
	sin1, cos1, sin2, cos2, sum, cosSum, ignored := s[0], s[1], s[2], s[3], s[4], s[5], s[6]
	for i := range t1 {
		t1[i], t2[i] = wrap(t1[i]), wrap(t2[i])
		w1[i] = max(min(w1[i], 4*pi), -4*pi)
		w2[i] = max(min(w2[i], 9*pi), -9*pi)
		sum[i] = t2[i] + t1[i]
	}
	b.kernels.sincos(t1, sin1, cos1)
	b.kernels.sincos(t2, sin2, cos2)
	b.kernels.sincos(sum, ignored, cosSum)
	for i := range t1 {
		b.observed(0)[i], b.observed(1)[i] = float32(cos1[i]), float32(sin1[i])
		b.observed(2)[i], b.observed(3)[i] = float32(cos2[i]), float32(sin2[i])
		b.observed(4)[i], b.observed(5)[i] = float32(w1[i]), float32(w2[i])
		b.finish(i, -cos1[i]-cosSum[i] > 1)
	}
}

// wrap turns x by full turns into [-π, π].
func wrap(x float64) float64 {
	for x > math.Pi {
		x -= 2 * math.Pi
	}
	for x < -math.Pi {
		x += 2 * math.Pi
	}
	return x
}
