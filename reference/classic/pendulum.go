package classic

import (
	"math"

	"lockstep/classic"
	"lockstep/internal/libm"
)

// pendulum is PendulumEnv.
type pendulum struct {
	task         *classic.Task
	th, thdot    float64
	acceleration float64 // 3·g/(2·l)
}

func newPendulum(t *classic.Task) *pendulum {
	return &pendulum{task: t, acceleration: float64(3*t.Gravity) / 2}
}

func (p *pendulum) reset(g *generator, low, high []float64) {
	p.th = g.uniform(low[0], high[0])
	p.thdot = g.uniform(low[1], high[1])
}

func (p *pendulum) step(a action) (reward float64, terminated bool) {
	const (
		maxSpeed  = 8
		maxTorque = 2
		dt        = 0.05
	)
	u := min(max(a.continuous, -maxTorque), maxTorque)
	var effort, torque float64
	if p.task.NumPy1 {
		wide := float64(u)
		effort = 0.001 * float64(wide*wide)
		torque = 3 * wide
	} else {
		effort = float64(float32(0.001) * libm.Powf2(u))
		torque = float64(3 * u)
	}
	costs := (libm.Pow2(angleNormalize(p.th)) + float64(0.1*libm.Pow2(p.thdot))) + effort

	newthdot := p.thdot + float64((float64(p.acceleration*libm.Sin(p.th))+torque)*dt)
	newthdot = clip(newthdot, -maxSpeed, maxSpeed)
	p.th += float64(newthdot * dt)
	p.thdot = newthdot
	return -costs, false
}

func angleNormalize(x float64) float64 { return remainder(x+math.Pi, 2*math.Pi) - math.Pi }

func (p *pendulum) observe(observation []float32) {
	cast(observation, libm.Cos(p.th), libm.Sin(p.th), p.thdot)
}

func (p *pendulum) state() []*float64 { return []*float64{&p.th, &p.thdot} }

// remainder is Python's x % y for y > 0.
func remainder(x, y float64) float64 {
	m := math.Mod(x, y)
	switch {
	case m < 0:
		return m + y
	case m == 0:
		return 0
	}
	return m
}
