package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Computed as Python does, in float64.
var (
	massPole       = 0.1
	massCart       = 1.0
	totalMass      = massPole + massCart
	length         = 0.5
	poleMassLength = massPole * length
	pi             = math.Pi
	thetaThreshold = 12 * 2 * pi / 360
)

// cartPole emits a step of CartPole with Euler's method.
func (l level) cartPole() {
	l.step("cartPole", []string{
		"computes cartPoleLane for vectors of lanes, and stops at one with an angle",
		"beyond ±0.855469.",
	}, func(p, i, n Register) {
		state := columns(field(p, fieldState), i, n, 4, 8)
		theta := l.load(state[2])
		l.stop(l.compare(l.abs(theta), notLess, l.number(edge1)))

		sin, cos := l.small(theta, field(p, fieldTable))

		Comment("force")
		pushed := l.doubles(l.loadHalf(Mem{Base: field(p, fieldAction), Index: i, Scale: 4}))
		force := l.choose(l.compare(pushed, equal, l.number(1)), l.number(10), l.number(-10))

		Comment("temp, thetaacc, xacc")
		thetaDot := l.load(state[3])
		temp := l.mul(l.mul(l.mul(thetaDot, thetaDot), l.number(poleMassLength)), sin)
		temp = l.div(l.add(force, temp), l.number(totalMass))
		below := l.div(l.mul(l.mul(cos, cos), l.number(massPole)), l.number(totalMass))
		below = l.mul(l.sub(l.number(4.0/3.0), below), l.number(length))
		thetaAcc := l.div(l.sub(l.mul(sin, l.number(9.8)), l.mul(cos, temp)), below)
		xAcc := l.sub(
			temp, l.div(l.mul(l.mul(thetaAcc, l.number(poleMassLength)), cos), l.number(totalMass)),
		)

		Comment("Euler")
		xDot := l.load(state[1])
		x := l.add(l.mul(xDot, l.number(0.02)), state[0])
		xDot = l.add(xDot, l.mul(xAcc, l.number(0.02)))
		theta = l.add(theta, l.mul(thetaDot, l.number(0.02)))
		thetaDot = l.add(thetaDot, l.mul(thetaAcc, l.number(0.02)))
		observation := columns(field(p, fieldObservation), i, n, 4, 4)
		for k, v := range []Register{x, xDot, theta, thetaDot} {
			VMOVUPD(v, state[k])
			l.observe(v, observation[k])
		}

		terminated := l.any(
			l.compare(l.abs(x), greater, l.number(2.4)),
			l.compare(l.abs(theta), greater, l.number(thetaThreshold)),
		)
		reward := l.choose(terminated, l.broadcast(p, fieldEnd), l.broadcast(p, fieldGoing))
		l.finish(p, i, terminated, reward)
	})
}

// mountainCar emits a step of MountainCar.
func (l level) mountainCar() {
	l.step(
		"mountainCar", []string{"computes mountainCarLane for vectors of lanes."},
		func(p, i, n Register) {
			state := columns(field(p, fieldState), i, n, 2, 8)
			position := l.load(state[0])
			_, cos := l.trig(l.mul(position, l.number(3)), field(p, fieldTable), false)

			Comment("velocity")
			pushed := l.doubles(l.loadHalf(Mem{Base: field(p, fieldAction), Index: i, Scale: 4}))
			pushed = l.sub(pushed, l.number(1))
			change := l.add(l.mul(pushed, l.number(0.001)), l.mul(cos, l.number(-0.0025)))
			velocity := l.add(change, state[1])
			velocity = l.clip(velocity, -0.07, 0.07)

			Comment("position")
			position = l.clip(l.add(velocity, state[0]), -1.2, 0.6)
			zero := l.sub(position, position)
			wall := l.both(
				l.compare(position, equal, l.number(-1.2)), l.compare(velocity, less, zero),
			)
			velocity = l.choose(wall, zero, velocity)

			observation := columns(field(p, fieldObservation), i, n, 2, 4)
			for k, v := range []Register{position, velocity} {
				VMOVUPD(v, state[k])
				l.observe(v, observation[k])
			}
			terminated := l.both(l.compare(position, greaterOrEqual, l.number(0.5)),
				l.compare(velocity, greaterOrEqual, l.broadcast(p, fieldGoal)))
			l.finish(p, i, terminated, l.broadcast(p, fieldGoing))
		},
	)
}
