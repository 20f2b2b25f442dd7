package generate

import (
	"math"
	"strconv"

	"lockstep"
)

const (
	rows    = 600
	settle  = 60  // steps before the first row, so that every lag has settled
	preview = 3   // steps that the driver looks ahead
	limit   = 5.0 // m/s² that no road asks for
)

// header is the first line of a route's file.
const header = "t,vEgo,aEgo,roll,targetLateralAcceleration,steerCommand\n"

// span is a range that a number is drawn from, uniformly.
type span [2]float64

// A kind of drive.
type kind struct {
	share    int     // of routes, in percent
	cruise   span    // m/s, the speed that the drive keeps to
	vary     float64 // relative spread of the wanted speed about it
	hold     float64 // s, mean time until the wanted speed changes
	stop     float64 // probability that it changes to standstill
	turn     span    // m/s², size of turns
	straight float64 // probability that the road goes straight on
	length   span    // s, of turns
	ease     span    // s, time constant of turning in
	bank     span    // rad per m/s², banking of turns
}

var kinds = [...]kind{
	{ // motorway
		share: 50, cruise: span{24, 34.5}, vary: 0.02, hold: 25,
		turn: span{
			0.1, 1.1,
		}, straight: 0.3, length: span{3, 14}, ease: span{0.4, 1.0}, bank: span{0.01, 0.05},
	},
	{ // country road
		share: 18, cruise: span{15, 25}, vary: 0.07, hold: 14,
		turn: span{
			0.1, 1.4,
		}, straight: 0.3, length: span{2.5, 9}, ease: span{0.35, 0.8}, bank: span{0, 0.03},
	},
	{ // town
		share: 12, cruise: span{7, 15}, vary: 0.22, hold: 8, stop: 0.1,
		turn: span{
			0.1, 1.3,
		}, straight: 0.5, length: span{2, 6}, ease: span{0.2, 0.5}, bank: span{-0.005, 0.01},
	},
	{ // stop and go
		share: 10, cruise: span{6, 20}, vary: 0.2, hold: 11, stop: 0.5,
		turn: span{
			0.03, 0.9,
		}, straight: 0.6, length: span{2, 6}, ease: span{0.2, 0.5}, bank: span{-0.005, 0.01},
	},
	{ // hard cornering
		share: 10, cruise: span{9, 24}, vary: 0.07, hold: 10,
		turn: span{
			1.6, 3.4,
		}, straight: 0.15, length: span{0.8, 3.5}, ease: span{0.1, 0.3}, bank: span{0, 0.04},
	},
}

// A row of a route, with lockstep.Route's signs.
type row struct{ vEgo, aEgo, roll, target, steer float64 }

// A trip is one simulated drive, at one step of it.
type trip struct {
	random
	kind
	car

	// Speed, in m/s: the one that the trip keeps to, the one that is wanted now, the car's.
	cruising, wanted, speed float64
	accel                   float64 // m/s²
	mood, surge             *drift
	moody, surging          float64

	// Road: its curvature asks for a lateral acceleration.
	size, banking, crown float64 // of its turns; at rest, rad
	curve, curveLeft     float64 // 1/m, s
	bend, lean           *smooth
	uneven               *drift
	unevenness           float64
	plan                 [preview + 1]float64 // m/s² that it asks for, from this step on

	wander, fidget *drift // of the driver
	wandering      float64

	wind, shake      *drift // outside, and of the measurement
	gust, kick, bump float64
	shaking          float64
	shaken           [3]float64
}

// newTrip draws all that stays as it is on a trip, in an order that must stay: the
// routes of a seed are those of these draws.
func newTrip(r random) *trip {
	t := &trip{random: r, kind: pick(r)}
	t.cruising = r.span(t.cruise)
	t.wanted, t.speed = t.cruising, t.cruising
	t.size, t.banking = r.span(t.turn), r.span(t.bank)
	t.crown = 0.02 + float64(0.013*r.normal())
	t.bend, t.lean = newSmooth(r.span(t.ease), 0), newSmooth(1.2, t.crown)
	t.uneven, t.unevenness = newDrift(r, 2.5), r.span(span{0.0005, 0.009})
	t.wander, t.wandering = newDrift(r, 0.9), r.span(span{0.02, 0.12})
	t.mood, t.moody = newDrift(r, 8), r.span(span{0.02, 0.3})
	t.surge, t.surging = newDrift(r, 0.17), r.span(span{0.02, 0.15})
	t.fidget = newDrift(r, 0.5)
	t.wind = newDrift(r, windTime)
	t.shake, t.shaking = newDrift(r, 0.6), r.span(span{0.2, 0.9})
	t.offset = float64(offsetSpread * r.normal())
	return t
}

// drive simulates one route.
func drive(r random) []row {
	t := newTrip(r)
	out := make([]row, 0, rows)
	for i := range settle + rows {
		logged := t.pace()
		lean := t.road()
		if n := len(out); t.speed == 0 && n > 0 {
			lean = out[n-1].roll
		}
		command := t.travel(float64(gravity * sine(lean)))
		if target := t.measured(); i >= settle {
			out = append(
				out, row{vEgo: t.speed, aEgo: logged, roll: lean, target: target, steer: command})
		}
	}
	return out
}

// pace moves the speed on by one step, and gives the acceleration that is logged.
func (t *trip) pace() (logged float64) {
	hold := t.hold
	if t.wanted == 0 {
		hold = 7
	}
	if t.Float64() < step/hold {
		t.wanted = float64(t.cruising * (1 + float64(t.vary*t.normal())))
		if t.Float64() < t.stop {
			t.wanted = 0
		}
	}
	pace := t.wanted + float64(t.moody*t.mood.step())
	if t.wanted == 0 {
		pace = 0
	}
	goal := clip(0.6*(pace-t.speed), -2.4, 1.6)
	t.accel += float64((goal - t.accel) * (step / 0.8))
	t.speed = max(t.speed+float64(step*t.accel), 0)
	logged = t.accel + float64(t.surging*t.surge.step())
	if t.wanted == 0 && t.speed < 0.05 {
		t.speed, t.accel, logged = 0, 0, 0
	}
	return logged
}

// road moves the road on by one step: what it asks for, up to what the car holds, and its
// banking in rad.
func (t *trip) road() (lean float64) {
	if t.curveLeft -= step; t.curveLeft <= 0 {
		t.curveLeft = t.span(t.length)
		t.curve = 0
		if t.Float64() >= t.straight {
			v := max(t.speed, 5)
			t.curve = float64(t.size*t.normal()) / float64(v*v)
		}
	}
	road := t.bend.step(clip(t.curve, -0.05, 0.05))
	x := float64(float64(road*t.speed)*t.speed) / limit
	copy(t.plan[:], t.plan[1:])
	t.plan[preview] = float64(limit * (x / math.Sqrt(1+float64(x*x))))
	lean = t.lean.step(t.crown + clip(float64(t.banking*t.plan[0]), -0.08, 0.08))
	rough := t.uneven.step()
	if t.speed > 0 {
		lean += float64(t.unevenness * rough)
	}
	return lean
}

// travel lets the driver steer for what comes and after the error, moves the car on by one
// step in the wind, with a bump now and then, and gives the driver's command.
func (t *trip) travel(roll float64) (command float64) {
	moving := t.speed / (t.speed + 3)
	wish := t.plan[0] + float64(float64(t.wandering*t.wander.step())*moving)
	command = t.steer(t.plan[preview], t.speed, roll)
	command += float64(0.2*(wish-t.lataccel)) + float64(0.015*t.fidget.step())
	command = clip(command, -steerLimit, steerLimit)

	t.kick = float64(0.6 * t.kick)
	if t.Float64() < 0.01 {
		t.kick += float64(float64(0.3*t.normal()) * min(1, t.speed/20))
	}
	t.bump += float64(0.4 * (t.kick - t.bump))
	t.gust += float64(0.4 * (t.wind.step() - t.gust))
	windy := min(1, float64(t.speed*t.speed)/625)
	t.drive(command, t.speed, roll, float64(float64(windSpread*windy)*t.gust)+t.bump)
	return command
}

// measured is the lateral acceleration that is logged, in m/s². The log is smoother than
// the measurements that the network learns from.
func (t *trip) measured() float64 {
	t.shaken = [3]float64{t.shake.step(), t.shaken[0], t.shaken[1]}
	noise := float64(
		float64(t.shaking*(t.shaken[0]+t.shaken[1]+t.shaken[2])/3) * float64(noiseSpeed*t.speed),
	)
	target := t.lataccel + noise
	if t.speed == 0 && math.Abs(target) < 1e-6 {
		target = 0
	}
	return target
}

func pick(r random) kind {
	at := r.IntN(100)
	for _, k := range kinds {
		if at -= k.share; at < 0 {
			return k
		}
	}
	panic("generate: the shares of the kinds do not add up to 100")
}

// sine is sin x to 1e-10 for |x| < 0.3, by its series.
func sine(x float64) float64 {
	x2 := x * x
	return float64(x * (1 - float64(x2*(1-float64(x2*(1-x2/42))/20))/6))
}

// Route is the CSV text of route index of a seed.
func Route(seed uint64, index int) []byte {
	text := []byte(header)
	for i, r := range drive(newRandom(seed, uint64(index))) {
		text = number(text, float64(i)/lockstep.FPS)
		for _, x := range [...]float64{r.vEgo, r.aEgo, r.roll, r.target} {
			text = number(append(text, ','), x)
		}
		text = append(text, ',')
		if i < lockstep.ControlStartIdx {
			text = number(text, -r.steer) // logged positive to the left
		}
		text = append(text, '\n')
	}
	return text
}

// number appends a number as Python writes it.
func number(text []byte, x float64) []byte {
	from := len(text)
	text = strconv.AppendFloat(text, x, 'g', -1, 64)
	for _, c := range text[from:] {
		if c == '.' || c == 'e' {
			return text
		}
	}
	return append(text, ".0"...)
}
