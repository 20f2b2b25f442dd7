package policies

import (
	"fmt"
	"math"

	"lockstep"
)

const (
	history = lockstep.ContextLength
	seen    = lockstep.FuturePlanSteps - 1 // rows of a plan; an observation has one more
)

// plan is what of an observation depends on the route alone: four rows, divided and
// clipped, with the last value repeated as often as an observation looks beyond. A whole
// one serves all steps of a route, a preview one step.
type plan struct {
	from int // the step of the first row
	rows [4][]float32
}

func wholePlan(r *lockstep.Route) *plan { return newPlan(r, 0, r.Len()+seen) }

func preview(r *lockstep.Route, t int) *plan {
	from := min(t+1, r.Len()-1)
	return newPlan(r, from, t+1+seen-from)
}

func newPlan(r *lockstep.Route, from, rows int) *plan {
	p := &plan{from: from}
	scales := [4]float32{5, 2, 40, 4}
	for k, column := range [4][]float64{r.TargetLataccel, r.RollLataccel, r.VEgo, r.AEgo} {
		column = column[from:]
		row := make([]float32, rows)
		for i := range row {
			row[i] = limit(float32(column[min(i, len(column)-1)]) / scales[k])
		}
		p.rows[k] = row
	}
	return p
}

// limit clips an element; NaN stays NaN.
func limit(x float32) float32 {
	if x > lockstep.ObservationLimit {
		return lockstep.ObservationLimit
	}
	if x < -lockstep.ObservationLimit {
		return -lockstep.ObservationLimit
	}
	return x
}

// observe writes a rollout's observation at a step. Its histories reach to the step
// before; actions count from ControlStartIdx on.
func (p *plan) observe(o []float32, r *lockstep.Route, t int, lataccel, action []float64) error {
	target, roll, v, a := r.TargetLataccel[t], r.RollLataccel[t], r.VEgo[t], r.AEgo[t]
	next := target
	if t+1 < r.Len() {
		next = r.TargetLataccel[t+1]
	}
	past := lataccel[t-history-1 : t] // 21 of them
	current, previous := past[history], past[history-1]
	var own [history]float64
	for i := max(0, lockstep.ControlStartIdx+history-t); i < history; i++ {
		own[i] = action[t-history+i]
	}
	last := own[history-1]

	speed := max(float64(v*v), 1)
	if v != v {
		speed = 1 // as a comparison with NaN has it: the speed itself is in the observation
	}
	wanted, curvature := (target-roll)/speed, (current-roll)/speed
	grip := math.Sqrt(float64(current*current)+float64(a*a)) / 7
	left := 1 - grip
	if left < 0 {
		left = 0
	}

	// NumPy's sum of 20: the first 16 in eight lanes, then the rest.
	var lanes [8]float64
	for lane := range lanes {
		lanes[lane] = (r.TargetLataccel[t-19+lane] - past[1+lane]) +
			(r.TargetLataccel[t-11+lane] - past[9+lane])
	}
	errors := ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
		((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]))
	for j := 16; j < history; j++ {
		errors += r.TargetLataccel[t-19+j] - past[1+j]
	}
	integral := errors / history
	integral *= 0.1

	head := [16]float64{
		target / 5, current / 5, (target - current) / 5,
		wanted / 0.02, curvature / 0.02, (wanted - curvature) / 0.02,
		v / 40, a / 4, roll / 2,
		last / 2, integral / 5,
		(next - target) / 0.1 / 5, (current - previous) / 0.1 / 5,
		(last - own[history-2]) / 0.1 / 2,
		grip, left,
	}
	for i, x := range head {
		o[i] = limit(float32(x))
	}
	for i := range history {
		o[16+i] = limit(float32(own[i]) / 2)
		o[36+i] = limit(float32(past[i]) / 5)
	}
	at := 56
	t -= p.from
	for _, row := range p.rows {
		copy(o[at:], row[t+1:t+1+seen])
		o[at+seen] = row[t+seen]
		at += seen + 1
	}
	for i, x := range o[:at] {
		if x != x {
			return fmt.Errorf("%s is NaN", lockstep.ObservationElement(i))
		}
	}
	return nil
}
