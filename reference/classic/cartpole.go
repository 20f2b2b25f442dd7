package classic

import (
	"math"

	"lockstep/classic"
	"lockstep/internal/libm"
)

// cartPole is CartPoleEnv.
type cartPole struct {
	task                     *classic.Task
	x, xDot, theta, thetaDot float64
	beyond                   bool // an earlier step has terminated
}

// Variables, so that what follows from them is computed in float64 as Python
// does; Go's constants are exact.
var (
	gravity        = 9.8
	massCart       = 1.0
	massPole       = 0.1
	totalMass      = massPole + massCart
	length         = 0.5
	poleMassLength = massPole * length
	forceMag       = 10.0
	tau            = 0.02
	pi             = math.Pi
	thetaThreshold = 12 * 2 * pi / 360
	xThreshold     = 2.4
)

func (c *cartPole) reset(g *generator, low, high []float64) {
	c.x = g.uniform(low[0], high[0])
	c.xDot = g.uniform(low[1], high[1])
	c.theta = g.uniform(low[2], high[2])
	c.thetaDot = g.uniform(low[3], high[3])
	c.beyond = false
}

func (c *cartPole) step(a action) (reward float64, terminated bool) {
	terminated = c.move(a)
	switch {
	case c.task.SuttonBarto:
		reward = 0
		if terminated {
			reward = -1
		}
	case !terminated || !c.beyond:
		reward = 1
	}
	c.beyond = c.beyond || terminated
	return reward, terminated
}

// move is the dynamics, and reports whether the pole has fallen or the cart left.
func (c *cartPole) move(a action) bool {
	force := -forceMag
	if a.discrete == 1 {
		force = forceMag
	}
	costheta := libm.Cos(c.theta)
	sintheta := libm.Sin(c.theta)

	temp := (force + float64(float64(poleMassLength*float64(c.thetaDot*c.thetaDot))*sintheta)) /
		totalMass
	thetaacc := (float64(gravity*sintheta) - float64(costheta*temp)) /
		(length * (4.0/3.0 - float64(massPole*float64(costheta*costheta))/totalMass))
	xacc := temp - float64(float64(poleMassLength*thetaacc)*costheta)/totalMass

	if c.task.SemiImplicit {
		c.xDot += float64(tau * xacc)
		c.x += float64(tau * c.xDot)
		c.thetaDot += float64(tau * thetaacc)
		c.theta += float64(tau * c.thetaDot)
	} else {
		c.x += float64(tau * c.xDot)
		c.xDot += float64(tau * xacc)
		c.theta += float64(tau * c.thetaDot)
		c.thetaDot += float64(tau * thetaacc)
	}
	return c.x < -xThreshold || c.x > xThreshold || c.theta < -thetaThreshold ||
		c.theta > thetaThreshold
}

func (c *cartPole) observe(observation []float32) {
	cast(observation, c.x, c.xDot, c.theta, c.thetaDot)
}

func (c *cartPole) state() []*float64 { return []*float64{&c.x, &c.xDot, &c.theta, &c.thetaDot} }

// cast is np.array(values, dtype=np.float32).
func cast(to []float32, values ...float64) {
	for i, v := range values {
		to[i] = float32(v)
	}
}
