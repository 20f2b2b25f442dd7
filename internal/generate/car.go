package generate

import "math"

// Constants of the car, as in golden/default_model/simulation.py, which
// explains them.
const (
	step         = 0.1 // s
	substeps     = 10
	gain         = 2.1
	torqueLag    = 0.08
	torqueRate   = 5.0
	centring     = 11.0
	damping      = 16.0
	angleLimit   = 0.6
	angleRate    = 1.5
	wheelbase    = 2.7
	understeer   = 0.0025
	grip         = 9.0
	tyreLag      = 0.03
	relaxation   = 0.4
	offsetSpread = 0.08
	windSpread   = 0.06
	windTime     = 3.0
	noiseStill   = 0.0035
	noiseSpeed   = 0.001
	steerLimit   = 2.0
	gravity      = 9.81
)

// car is the simulated car, positive to the right.
type car struct {
	torque, angle float64
	lataccel      float64 // m/s²
	offset        float64 // of the steering, in units of the steer command
	command       float64 // the last one, which works during the next step
}

// drive moves the car on by one step; the command given works in the next. It does
// the operations of the Python simulation's Car.step in their order.
func (c *car) drive(command, speed, roll, wind float64) {
	var dt = float64(step) / substeps
	v2 := speed * speed
	turn := v2 / (wheelbase + float64(float64(understeer*speed)*speed))
	lag := tyreLag + relaxation/(speed+2)
	for range substeps {
		rate := clip((c.command-c.torque)/torqueLag, -torqueRate, torqueRate)
		c.torque += float64(dt * rate)
		push := float64(gain*(c.torque+c.offset)) - (c.lataccel - roll) - float64(centring*c.angle)
		rate = clip(push/damping, -angleRate, angleRate)
		c.angle = clip(c.angle+float64(dt*rate), -angleLimit, angleLimit)
		x := float64(turn*(c.angle+float64(understeer*roll))) / grip
		steady := float64(grip*(x/math.Sqrt(1+float64(x*x)))) + wind
		c.lataccel += float64(dt*(steady-c.lataccel)) / lag
	}
	c.command = clip(command, -steerLimit, steerLimit)
}

// steer is the command that holds a lateral acceleration in a steady turn.
func (c *car) steer(lataccel, speed, roll float64) float64 {
	bend := wheelbase/max(float64(speed*speed), 9) + understeer
	return (lataccel-roll)/gain + float64(float64(centring/gain*lataccel)*bend) - c.offset
}

func clip(x, low, high float64) float64 { return min(max(x, low), high) }
