package classic

import (
	"math"

	"lockstep/classic"
	"lockstep/internal/libm"
)

// acrobot is AcrobotEnv. Its state is float32 after a reset, float64 after a step.
type acrobot struct {
	task  *classic.Task
	s     [4]float64 // theta1, theta2, dtheta1, dtheta2
	fresh bool       // the state is float32
}

func (b *acrobot) reset(g *generator, low, high []float64) {
	for i := range b.s {
		b.s[i] = float64(float32(g.uniform(low[i], high[i])))
	}
	b.fresh = true
}

func (b *acrobot) step(a action) (reward float64, terminated bool) {
	b.s = b.rk4(float64(a.discrete - 1))
	b.fresh = false
	b.s[0] = wrap(b.s[0], -math.Pi, math.Pi)
	b.s[1] = wrap(b.s[1], -math.Pi, math.Pi)
	b.s[2] = clip(b.s[2], -4*pi, 4*pi)
	b.s[3] = clip(b.s[3], -9*pi, 9*pi)
	if -libm.Cos(b.s[0])-libm.Cos(b.s[1]+b.s[0]) > 1 {
		return 0, true
	}
	return -1, false
}

// rk4 is one step of the classical Runge-Kutta method over dt.
func (b *acrobot) rk4(torque float64) [4]float64 {
	dt := 0.2
	dt2 := dt / 2
	along := func(h float64, k [4]float64) (y [4]float64) {
		for i := range y {
			y[i] = b.s[i] + float64(h*k[i])
		}
		return y
	}
	k1 := b.dsdt(b.s, torque)
	k2 := b.dsdt(along(dt2, k1), torque)
	k3 := b.dsdt(along(dt2, k2), torque)
	k4 := b.dsdt(along(dt, k3), torque)
	var y [4]float64
	for i := range y {
		y[i] = b.s[i] + float64(dt/6*(((k1[i]+float64(2*k2[i]))+float64(2*k3[i]))+k4[i]))
	}
	return y
}

// dsdt is the derivative. Masses, lengths and moments of inertia are 1, centres of
// mass at 0.5; products with 1 are left out, and m·lc² is 0.25.
func (b *acrobot) dsdt(s [4]float64, a float64) [4]float64 {
	theta1, theta2, dtheta1, dtheta2 := s[0], s[1], s[2], s[3]
	c2, s2 := libm.Cos(theta2), libm.Sin(theta2)

	d1 := ((0.25 + (1.25 + c2)) + 1) + 1
	d2 := (0.25 + float64(0.5*c2)) + 1
	phi2 := float64(float64(0.5*gravity) * libm.Cos((theta1+theta2)-math.Pi/2))
	phi1 := ((float64(float64(-0.5*libm.Pow2(dtheta2))*s2) - float64(float64(dtheta2*dtheta1)*s2)) +
		float64(float64(1.5*gravity)*libm.Cos(theta1-math.Pi/2))) + phi2
	sum := a + float64(d2/d1*phi1)
	if !b.task.Nips {
		sum -= float64(float64(0.5*libm.Pow2(dtheta1)) * s2)
	}
	ddtheta2 := (sum - phi2) / (1.25 - libm.Pow2(d2)/d1)
	ddtheta1 := -(float64(d2*ddtheta2) + phi1) / d1
	return [4]float64{dtheta1, dtheta2, ddtheta1, ddtheta2}
}

// wrap turns x by full turns into [m, M].
func wrap(x, m, M float64) float64 {
	diff := M - m
	for x > M {
		x -= diff
	}
	for x < m {
		x += diff
	}
	return x
}

func (b *acrobot) observe(o []float32) {
	if b.fresh {
		t1, t2 := float32(b.s[0]), float32(b.s[1])
		o[0], o[1], o[2], o[3] = cos32(t1), sin32(t1), cos32(t2), sin32(t2)
		cast(o[4:], b.s[2], b.s[3])
		return
	}
	cast(o, libm.Cos(b.s[0]), libm.Sin(b.s[0]), libm.Cos(b.s[1]), libm.Sin(b.s[1]), b.s[2], b.s[3])
}

func (b *acrobot) state() []*float64 { return []*float64{&b.s[0], &b.s[1], &b.s[2], &b.s[3]} }
