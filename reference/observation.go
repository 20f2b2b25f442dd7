package reference

import (
	"fmt"
	"math"

	"lockstep"
)

// observe writes what a network sees at a step, from ControlStartIdx on. It is a
// function of the route and of the histories up to the step before: lataccels, and
// actions, which count from ControlStartIdx on and are 0 before.
//
// Everything is float64 and rounded after each operation, then cast; only the last
// division of histories and plans is a float32 one. All is clipped at the end.
func observe(o []float32, r *lockstep.Route, t int, lataccel, action []float64) error {
	own := func(i int) float64 { // the controller's action
		if i < lockstep.ControlStartIdx {
			return 0
		}
		return action[i]
	}
	last := r.Len() - 1
	target, next := r.TargetLataccel[t], r.TargetLataccel[min(t+1, last)]
	roll, v, a := r.RollLataccel[t], r.VEgo[t], r.AEgo[t]
	cur, prev := lataccel[t-1], lataccel[t-2]
	u1, u2 := own(t-1), own(t-2)

	vv := v * v
	if !(vv > 1) {
		vv = 1
	}
	kt, kc := (target-roll)/vv, (cur-roll)/vv
	g := math.Sqrt(float64(cur*cur)+float64(a*a)) / 7

	put := func(i int, x float64) { o[i] = float32(x) }
	put(0, target/5)
	put(1, cur/5)
	put(2, (target-cur)/5)
	put(3, kt/0.02)
	put(4, kc/0.02)
	put(5, (kt-kc)/0.02)
	put(6, v/40)
	put(7, a/4)
	put(8, roll/2)
	put(9, u1/2)
	put(10, errorIntegral(r, t, lataccel)/5)
	put(11, (next-target)/0.1/5)
	put(12, (cur-prev)/0.1/5)
	put(13, (u1-u2)/0.1/2)
	put(14, g)
	put(15, max(1-g, 0))
	for i := range lockstep.ContextLength {
		o[16+i] = float32(own(t-20+i)) / 2
		o[36+i] = float32(lataccel[t-21+i]) / 5
	}
	for j := range lockstep.FuturePlanSteps {
		k := min(t+1+j, t+lockstep.FuturePlanSteps-1, last) // a plan is one row short
		o[56+j] = float32(r.TargetLataccel[k]) / 5
		o[106+j] = float32(r.RollLataccel[k]) / 2
		o[156+j] = float32(r.VEgo[k]) / 40
		o[206+j] = float32(r.AEgo[k]) / 4
	}
	for i, x := range o[:lockstep.ObservationSize] {
		if x != x {
			return fmt.Errorf("%s is NaN", lockstep.ObservationElement(i))
		}
		o[i] = min(max(x, -lockstep.ObservationLimit), lockstep.ObservationLimit)
	}
	return nil
}

// see writes what a network observes at a step: what it declares, else what observe writes.
func see(
	o []float32, n *lockstep.Network, r *lockstep.Route, t int, lataccel, action []float64,
) error {
	if n.Sees == nil {
		return observe(o, r, t, lataccel, action)
	}
	var all [lockstep.ObservationSize]float32
	if lockstep.LooksAtObservation(n.Sees) {
		if err := observe(all[:], r, t, lataccel, action); err != nil {
			return err
		}
	}
	value := func(of lockstep.Source, at int) float64 {
		row := min(t+at, r.Len()-1)
		switch of {
		case lockstep.SourceObservation:
			return float64(all[at])
		case lockstep.SourceAction:
			if t+at < lockstep.ControlStartIdx {
				return 0
			}
			return action[t+at]
		case lockstep.SourceLataccel:
			return lataccel[t+at]
		case lockstep.SourceTarget:
			return r.TargetLataccel[row]
		case lockstep.SourceRoll:
			return r.RollLataccel[row]
		case lockstep.SourceSpeed:
			return r.VEgo[row]
		}
		return r.AEgo[row]
	}
	for i, e := range n.Sees {
		x := value(e.Of, e.At)
		if e.Less != lockstep.SourceNone {
			x -= value(e.Less, e.LessAt)
		}
		y := float32((x - e.Shift) / e.Unit)
		if y != y {
			return fmt.Errorf("%s is NaN", n.Element(i))
		}
		o[i] = min(max(y, -lockstep.ObservationLimit), lockstep.ObservationLimit)
	}
	return nil
}

// errorIntegral is the mean error of the last 20 steps times 0.1 s. The sum is
// NumPy's: eight chains, and what is left over from left to right.
func errorIntegral(r *lockstep.Route, t int, lataccel []float64) float64 {
	var e [20]float64
	for j := range e {
		e[j] = r.TargetLataccel[t-19+j] - lataccel[t-20+j]
	}
	var c [8]float64
	for j := range c {
		c[j] = e[j] + e[8+j]
	}
	m := ((c[0] + c[1]) + (c[2] + c[3])) + ((c[4] + c[5]) + (c[6] + c[7]))
	for _, x := range e[16:] {
		m += x
	}
	return m / 20 * 0.1
}
