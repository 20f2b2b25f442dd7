package statement

import (
	"math"
	"math/rand/v2"

	"lockstep/golden/vectors"
)

// controllers: what a PID controller answers, and what a network that steers sees.
func controllers() []Operation {
	series := func(scale float64) func(r *rand.Rand) map[string]any {
		return func(r *rand.Rand) map[string]any {
			return args(
				"gains", normals64(r, 3, scale), "target", normals64(r, 12, 1), "lataccel",
				normals64(r, 12, 1),
			)
		}
	}
	return []Operation{
		{
			Name: "pid", Line: "`pid`", Tries: 3000, Right: pid,
			Draws: []func(r *rand.Rand) map[string]any{series(1), series(0.1)},
		},
		{
			Name: "pidff", Line: "`pidff`", Tries: 20_000, Right: pidff,
			Draws: []func(r *rand.Rand) map[string]any{driven(0.1), driven(1)},
		},
		{
			Name: "observation", Line: "observation", Tries: 200_000, Right: observation,
			Draws: append(ties(), seen),
		},
	}
}

// pid are the answers to a series of targets and lataccels.
func pid(a *Arithmetic, v vectors.Vector) any {
	gains, target, lataccel := v.Float64s("gains"), v.Float64s("target"), v.Float64s("lataccel")
	p, i, d := gains[0], gains[1], gains[2]
	answers := make([]float64, len(target))
	var integral, before float64
	for k := range target {
		e := target[k] - lataccel[k]
		if a.is(narrow, "error") {
			e = float64(float32(e))
		}
		inSeconds, ofSeconds := a.is("in seconds", "integral"), a.is("by seconds", "difference")
		if integral += e; inSeconds {
			integral += 0.1*e - e
		}
		change := e - before
		if ofSeconds {
			change /= 0.1
		}
		before = e
		if a.is("from the right", "sum of the terms") {
			answers[k] = float64(p*e) + (float64(i*integral) + float64(d*change))
		} else {
			answers[k] = a.mulAdd64("difference's term", d, change,
				a.mulAdd64("integral's term", i, integral, float64(p*e)))
		}
	}
	return answers
}

// driven are gains in the order of lockstep.PIDFF, and a route of which the first steps
// are driven, some of them near its end.
func driven(scale float64) func(r *rand.Rand) map[string]any {
	return func(r *rand.Rand) map[string]any {
		gains := append(normals64(r, 8, scale), r.Float64(), 0.1*r.Float64())
		steps := 4 + r.IntN(9)
		rows := steps + r.IntN(20)
		return args(
			"gains", gains, "target", normals64(r, rows, 1), "roll", normals64(r, rows, 0.3),
			"speed", normals64(r, rows, 20), "lataccel", normals64(r, steps, 1),
		)
	}
}

// pidff are the answers to a series of lataccels, each before a step.
func pidff(a *Arithmetic, v vectors.Vector) any {
	g, target, roll, speed := v.Float64s("gains"), v.Float64s("target"), v.Float64s("roll"),
		v.Float64s("speed")
	p, i, d, ffv, smooth, leak := g[0], g[1], g[2], g[7], g[8], g[9]
	var answers []float64
	var integral, before, command float64
	for k, lataccel := range v.Float64s("lataccel") {
		t := target[k]
		e := t - lataccel
		if a.is("subtracted", "leak") {
			integral = integral - float64(leak*integral) + e
		} else {
			integral = a.mulAdd64("leak", integral, 1-leak, e)
		}
		change := e - before
		before = e

		ff := float64(g[3] * (t - roll[k]))
		plan := target[k+1:]
		if a.is("from this step on", "plan") {
			plan = target[k:]
		}
		for band, ends := range [][2]int{{0, 3}, {3, 8}, {8, 16}} {
			ff = a.mulAdd64("band's term", g[4+band], bandMean(a, plan, ends[0], ends[1], t)-t, ff)
		}
		faster := a.div64(
			"speed", a.c64("speed of the gains", 20), max(speed[k], a.c64("least speed", 5)),
		) - 1
		factor := a.mulAdd64("speed's term", ffv, faster, 1)

		u := a.mulAdd64(
			"difference's term", d, change,
			a.mulAdd64("integral's term", i, integral, float64(p*e)),
		)
		if a.is("first of the terms", "feed-forward") {
			u = ((float64(ff*factor) + float64(p*e)) + float64(i*integral)) + float64(d*change)
		} else {
			u = a.mulAdd64("feed-forward", ff, factor, u)
		}
		if a.is("of both, weighed", "smoothing") {
			u = float64(smooth*command) + float64((1-smooth)*u)
		} else {
			u = a.mulAdd64("smoothing", 1-smooth, u-command, command)
		}
		answer := min(max(u, -2), 2)
		if command = answer; a.is("before it is clipped", "memory of the command") {
			command = u
		}
		answers = append(answers, answer)
	}
	return answers
}

// bandMean is the mean of what a plan has of a band's rows, and t where it has none.
func bandMean(a *Arithmetic, plan []float64, from, to int, t float64) float64 {
	if to = min(to, len(plan)); from >= to {
		return t // which adds nothing
	}
	rows, sum := plan[from:to], 0.0
	for k := range rows {
		if a.is(backwards, "sum of a band") {
			k = len(rows) - 1 - k
		}
		sum += rows[k]
	}
	return a.div64("mean of a band", sum, float64(len(rows)))
}

// seen is a route up to a step from 100 on and a while beyond, at which it may end.
func seen(r *rand.Rand) map[string]any {
	t := 102 + r.IntN(30)
	rows := t + 2 + r.IntN(60)
	return args(
		"target", normals64(r, rows, 1), "roll", normals64(r, rows, 0.3), "speed",
		normals64(r, rows, 20), "acceleration", normals64(r, rows, 0.5), "lataccel",
		normals64(r, t, 1), "action", normals64(r, t, 0.5),
	)
}

// ties are observations of which an element lies, before it is cast, beside the middle
// between two float32: elsewhere the cast hides what is one ulp of float64 off.
func ties() (draws []func(r *rand.Rand) map[string]any) {
	type row struct {
		target, roll, speed, acceleration, lataccel, action []float64
		t                                                   int
		tie                                                 float64
	}
	near := func(r *rand.Rand, x float64) float64 {
		return math.Float64frombits(math.Float64bits(x) + uint64(r.IntN(7)) - 3)
	}
	for _, set := range []func(r *rand.Rand, s *row){
		func(r *rand.Rand, s *row) { s.target[s.t] = near(r, 5*s.tie) },
		func(r *rand.Rand, s *row) { s.lataccel[s.t-1] = near(r, 5*s.tie) },
		func(r *rand.Rand, s *row) {
			s.lataccel[s.t-1], s.target[s.t] = 0.25, near(r, 0.25+5*s.tie)
		},
		func(r *rand.Rand, s *row) { s.speed[s.t] = near(r, 40*s.tie) },
		func(r *rand.Rand, s *row) { s.target[s.t], s.target[s.t+1] = 0, near(r, 0.5*s.tie) },
		func(r *rand.Rand, s *row) { s.lataccel[s.t-1], s.lataccel[s.t-2] = 0, near(r, 0.5*s.tie) },
		func(r *rand.Rand, s *row) { s.action[s.t-1], s.action[s.t-2] = near(r, 0.2*s.tie), 0 },
		func(r *rand.Rand, s *row) {
			s.roll[s.t], s.speed[s.t], s.target[s.t] = 0, 0.5, near(r, 0.02*s.tie)
		},
		func(r *rand.Rand, s *row) {
			s.roll[s.t], s.speed[s.t], s.lataccel[s.t-1] = 0, 0.5, near(r, 0.02*s.tie)
		},
		func(r *rand.Rand, s *row) {
			s.roll[s.t], s.speed[s.t], s.target[s.t], s.lataccel[s.t-1] = 0, 0.5, 0.125, near(r,
				0.125-0.02*s.tie)
		},
		func(r *rand.Rand, s *row) { // beside a square that is no power of two
			s.roll[s.t], s.target[s.t] = 0, near(r, 0.02*s.tie*float64(s.speed[s.t]*s.speed[s.t]))
		},
		func(r *rand.Rand, s *row) { s.acceleration[s.t], s.lataccel[s.t-1] = 0, near(r, 7*s.tie) },
		func(r *rand.Rand, s *row) {
			s.lataccel[s.t-1] = s.tie
			s.acceleration[s.t] = near(r, math.Sqrt(48)*s.tie) // together 7 of it
		},
		func(r *rand.Rand, s *row) { // the last error but one makes the integral a tie
			sum := 0.0
			for i := range 20 {
				if i != 18 {
					sum += s.target[s.t-19+i] - s.lataccel[s.t-20+i]
				}
			}
			s.target[s.t-1] = near(r, 1000*(s.tie/64)-sum) + s.lataccel[s.t-2]
		},
	} {
		draws = append(draws, func(r *rand.Rand) map[string]any {
			m := seen(r)
			s := row{t: len(m["lataccel"].([]float64))}
			for name, column := range map[string]*[]float64{
				"target":       &s.target,
				"roll":         &s.roll,
				"speed":        &s.speed,
				"acceleration": &s.acceleration,
				"lataccel":     &s.lataccel,
				"action":       &s.action,
			} {
				*column = m[name].([]float64)
			}
			low := float32(r.Float64())
			s.tie = (float64(low) + float64(math.Nextafter32(low, 2))) / 2
			set(r, &s)
			return m
		})
	}
	return draws
}

// observation is what a network sees at the step where the histories end: see
// lockstep.ObservationName.
func observation(a *Arithmetic, v vectors.Vector) any {
	target, roll, speed, acceleration := v.Float64s("target"), v.Float64s("roll"),
		v.Float64s("speed"), v.Float64s("acceleration")
	lataccel, action := v.Float64s("lataccel"), v.Float64s("action")
	t, last := len(lataccel), len(target)-1
	recorded := a.is("recorded ones, before the controller acts", "actions")
	own := func(i int) float64 {
		if i < 100 && !recorded {
			return 0
		}
		return action[i]
	}
	current, now := lataccel[t-1], target[t]
	// rate is a change in a second, as a part of a range.
	rate := func(place string, change, span float64) float64 {
		if a.is("divided by the product", place) {
			return change / (0.1 * span)
		}
		return a.div64(place+", of its range", a.div64(place+", in a second", change, 0.1), span)
	}
	square := max(float64(speed[t]*speed[t]), 1)
	wanted, driven := a.div64("curvature", now-roll[t], square),
		a.div64("curvature", current-roll[t], square)
	if a.is(narrow, "curvature") {
		wanted, driven = float64(float32(now-roll[t])/float32(square)),
			float64(float32(current-roll[t])/float32(square))
	}
	grip := a.div64(
		"grip",
		math.Sqrt(a.mulAdd64("grip", current, current, float64(acceleration[t]*acceleration[t]))),
		7,
	)
	integral := a.div64("mean error", sumOfErrors(a, target[t-19:], lataccel[t-20:]), 20) *
		a.c64("seconds", 0.1)
	o := []float32{
		float32(a.div64("target", now, 5)),
		float32(a.div64("lataccel", current, 5)),
		float32(a.div64("error", now-current, 5)),
		float32(a.div64("wanted curvature", wanted, 0.02)),
		float32(a.div64("driven curvature", driven, 0.02)),
		float32(a.div64("error of the curvature", wanted-driven, 0.02)),
		float32(a.div64("speed", speed[t], 40)),
		float32(acceleration[t] / 4),
		float32(roll[t] / 2),
		float32(own(t-1) / 2),
		float32(a.div64("integral", integral, 5)),
		float32(rate("change of the target", target[min(t+1, last)]-now, 5)),
		float32(rate("change of the lataccel", current-lataccel[t-2], 5)),
		float32(a.div64("change of the action", own(t-1)-own(t-2), 0.1) / 2),
		float32(grip),
		float32(max(1-grip, 0)),
	}
	for i := range 20 {
		o = append(o, float32(own(t-20+i))/2)
	}
	early := a.is("that before", "past lataccels")
	for i := range 20 {
		at := t - 21 + i
		if early {
			at--
		}
		o = append(o, part(a, "past lataccels", lataccel[at], 5))
	}
	o = append(o, plans(a, v, t)...)
	limit := float32(5)
	if a.is("none", "limit") {
		limit = float32(math.Inf(1))
	}
	for i, x := range o {
		o[i] = min(max(x, -limit), limit)
	}
	return o
}

// sumOfErrors is NumPy's of twenty.
func sumOfErrors(a *Arithmetic, target, lataccel []float64) float64 {
	errors := make([]float64, 20)
	for i := range errors {
		errors[i] = target[i] - lataccel[i]
	}
	sums := startedSums(
		a, "sums of the errors", 8, 8, errors[:8],
		func(s float64, i int) float64 { return s + errors[8+i] },
	)
	sum := fold(a, "fold of the errors", pairs, sums)
	for _, e := range errors[16:] {
		sum += e
	}
	return sum
}

// part is an element of a history or a plan: cast first, then divided.
func part(a *Arithmetic, place string, x float64, by float32) float32 {
	if a.is(wide, "histories and plans") {
		return float32(x / float64(by))
	}
	return a.div(place, float32(x), by)
}

// plans are what lies ahead of a step.
func plans(a *Arithmetic, v vectors.Vector, t int) (o []float32) {
	last := len(v.Float64s("target")) - 1
	first, rows := t+1, 49 // a plan is one row short
	if a.is("from this step on", "plan") {
		first--
	}
	if a.is("of 50 rows", "plan") {
		rows++
	}
	for _, row := range []struct {
		column string
		by     float32
	}{{"target", 5}, {"roll", 2}, {"speed", 40}, {"acceleration", 4}} {
		for k := range 50 {
			x := v.Float64s(row.column)[min(first+min(k, rows-1), last)]
			if row.by == 5 || row.by == 40 {
				o = append(o, part(a, "plan of "+row.column, x, row.by))
			} else {
				o = append(o, float32(x)/row.by)
			}
		}
	}
	return o
}
