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
		turn: span{0.1, 1.1}, straight: 0.3, length: span{3, 14}, ease: span{0.4, 1.0}, bank: span{0.01, 0.05},
	},
	{ // country road
		share: 18, cruise: span{15, 25}, vary: 0.07, hold: 14,
		turn: span{0.1, 1.4}, straight: 0.3, length: span{2.5, 9}, ease: span{0.35, 0.8}, bank: span{0, 0.03},
	},
	{ // town
		share: 12, cruise: span{7, 15}, vary: 0.22, hold: 8, stop: 0.1,
		turn: span{0.1, 1.3}, straight: 0.5, length: span{2, 6}, ease: span{0.2, 0.5}, bank: span{-0.005, 0.01},
	},
	{ // stop and go
		share: 10, cruise: span{6, 20}, vary: 0.2, hold: 11, stop: 0.5,
		turn: span{0.03, 0.9}, straight: 0.6, length: span{2, 6}, ease: span{0.2, 0.5}, bank: span{-0.005, 0.01},
	},
	{ // hard cornering
		share: 10, cruise: span{9, 24}, vary: 0.07, hold: 10,
		turn: span{1.6, 3.4}, straight: 0.15, length: span{0.8, 3.5}, ease: span{0.1, 0.3}, bank: span{0, 0.04},
	},
}

// A row of a route, with lockstep.Route's signs.
type row struct{ vEgo, aEgo, roll, target, steer float64 }

// drive simulates one route.
func drive(r random) []row {
	k := pick(r)
	cruise := r.span(k.cruise)
	wanted, speed, accel := cruise, cruise, 0.0
	turn := r.span(k.turn)
	banking := r.span(k.bank)
	crown := 0.02 + float64(0.013*r.normal())

	curve, curveLeft := 0.0, 0.0 // 1/m, s
	bend, bank := newSmooth(r.span(k.ease), 0), newSmooth(1.2, crown)
	uneven, unevenness := newDrift(r, 2.5), r.span(span{0.0005, 0.009})
	wander, wandering := newDrift(r, 0.9), r.span(span{0.02, 0.12})
	mood, moody := newDrift(r, 8), r.span(span{0.02, 0.3})
	surge, surging := newDrift(r, 0.17), r.span(span{0.02, 0.15})
	fidget := newDrift(r, 0.5)
	wind := newDrift(r, windTime)
	shake, shaking, shaken := newDrift(r, 0.6), r.span(span{0.2, 0.9}), [3]float64{}
	gust, kick, bump := 0.0, 0.0, 0.0

	c := car{offset: float64(offsetSpread * r.normal())}
	var plan [preview + 1]float64 // m/s² that the road asks for, from this step on
	out := make([]row, 0, rows)
	for i := range settle + rows {
		// Speed.
		hold := k.hold
		if wanted == 0 {
			hold = 7
		}
		if r.Float64() < step/hold {
			wanted = float64(cruise * (1 + float64(k.vary*r.normal())))
			if r.Float64() < k.stop {
				wanted = 0
			}
		}
		pace := wanted + float64(moody*mood.step())
		if wanted == 0 {
			pace = 0
		}
		goal := clip(0.6*(pace-speed), -2.4, 1.6)
		accel += float64((goal - accel) * (step / 0.8))
		speed = max(speed+float64(step*accel), 0)
		logged := accel + float64(surging*surge.step())
		if wanted == 0 && speed < 0.05 {
			speed, accel, logged = 0, 0, 0
		}

		// Road: its curvature asks for a lateral acceleration, up to what the car holds.
		if curveLeft -= step; curveLeft <= 0 {
			curveLeft = r.span(k.length)
			curve = 0
			if r.Float64() >= k.straight {
				v := max(speed, 5)
				curve = float64(turn*r.normal()) / float64(v*v)
			}
		}
		road := bend.step(clip(curve, -0.05, 0.05))
		x := float64(float64(road*speed)*speed) / limit
		copy(plan[:], plan[1:])
		plan[preview] = float64(limit * (x / math.Sqrt(1+float64(x*x))))
		lean := bank.step(crown + clip(float64(banking*plan[0]), -0.08, 0.08))
		rough := uneven.step()
		if speed > 0 {
			lean += float64(unevenness * rough)
		} else if n := len(out); n > 0 {
			lean = out[n-1].roll
		}
		roll := float64(gravity * sine(lean))

		// The driver steers for what comes, and after the error.
		moving := speed / (speed + 3)
		wish := plan[0] + float64(float64(wandering*wander.step())*moving)
		command := c.steer(plan[preview], speed, roll)
		command += float64(0.2*(wish-c.lataccel)) + float64(0.015*fidget.step())
		command = clip(command, -steerLimit, steerLimit)

		// Wind, and a bump now and then.
		kick = float64(0.6 * kick)
		if r.Float64() < 0.01 {
			kick += float64(float64(0.3*r.normal()) * min(1, speed/20))
		}
		bump += float64(0.4 * (kick - bump))
		gust += float64(0.4 * (wind.step() - gust))
		windy := min(1, float64(speed*speed)/625)
		c.drive(command, speed, roll, float64(float64(windSpread*windy)*gust)+bump)

		// The log is smoother than the measurements that the network learns from.
		shaken = [3]float64{shake.step(), shaken[0], shaken[1]}
		noise := float64(float64(shaking*(shaken[0]+shaken[1]+shaken[2])/3) * float64(noiseSpeed*speed))
		target := c.lataccel + noise
		if speed == 0 && math.Abs(target) < 1e-6 {
			target = 0
		}
		if i >= settle {
			out = append(out, row{vEgo: speed, aEgo: logged, roll: lean, target: target, steer: command})
		}
	}
	return out
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
