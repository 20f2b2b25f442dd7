package lockstep

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
)

// Route is one drive: columns of equal length, one value for every step, as the
// Python program holds them after loading. It is read-only once loaded.
type Route struct {
	Name  string    // file name without its extension
	Seed  uint32    // of the random draws, see the function Seed
	Draws []float64 // one for every step from ContextLength on, see the function Draws

	RollLataccel   []float64 // m/s², sin(roll)·9.81
	VEgo           []float64 // m/s
	AEgo           []float64 // m/s²
	TargetLataccel []float64 // m/s²
	SteerCommand   []float64 // positive to the right; NaN where not recorded
}

// Len is the number of rows.
func (r *Route) Len() int { return len(r.TargetLataccel) }

// Columns are the route's columns, in the order in which they are declared.
func (r *Route) Columns() [5]*[]float64 {
	return [5]*[]float64{&r.RollLataccel, &r.VEgo, &r.AEgo, &r.TargetLataccel, &r.SteerCommand}
}

// SHA256 is that of the columns' bits, in hexadecimal: it tells routes of one name apart.
func (r *Route) SHA256() string {
	h := sha256.New()
	var data []byte
	for _, column := range r.Columns() {
		data = binary.LittleEndian.AppendUint64(data[:0], uint64(len(*column)))
		for _, x := range *column {
			data = binary.LittleEndian.AppendUint64(data, math.Float64bits(x))
		}
		h.Write(data)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// First is the route's first rows, with the draws of their steps. It shares them with
// the route, and has no room to grow into.
func (r *Route) First(rows int) *Route {
	c := *r
	for _, column := range c.Columns() {
		*column = (*column)[:rows:rows]
	}
	draws := min(len(r.Draws), rows-ContextLength)
	c.Draws = r.Draws[:draws:draws]
	return &c
}

// State is the vehicle's state at a step.
func (r *Route) State(step int) State {
	return State{RollLataccel: r.RollLataccel[step], VEgo: r.VEgo[step], AEgo: r.AEgo[step]}
}

// FuturePlan is the plan as seen at a step.
func (r *Route) FuturePlan(step int) FuturePlan {
	from, to := step+1, min(step+FuturePlanSteps, r.Len())
	return FuturePlan{
		Lataccel:     r.TargetLataccel[from:to:to],
		RollLataccel: r.RollLataccel[from:to:to],
		VEgo:         r.VEgo[from:to:to],
		AEgo:         r.AEgo[from:to:to],
	}
}
