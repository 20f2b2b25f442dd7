package policies

import (
	"fmt"

	"lockstep"
)

// view is where the numbers that a network declares come from, of one route.
type view struct {
	network  *lockstep.Network
	route    *lockstep.Route
	contract bool         // it sees elements of the observation that is not declared
	columns  [8][]float64 // by source, of those that the route has
	step     int

	observation      []float32
	lataccel, action []float64
}

func newView(n *lockstep.Network, r *lockstep.Route) *view {
	v := &view{network: n, route: r, contract: lockstep.LooksAtObservation(n.Sees)}
	v.columns[lockstep.SourceTarget], v.columns[lockstep.SourceRoll] = r.TargetLataccel,
		r.RollLataccel
	v.columns[lockstep.SourceSpeed], v.columns[lockstep.SourceAcceleration] = r.VEgo, r.AEgo
	if v.contract {
		v.observation = make([]float32, lockstep.ObservationSize)
	}
	return v
}

// observe writes what the network sees at a step. The plan is the route's.
func (v *view) observe(o []float32, p *plan, t int, lataccel, action []float64) error {
	if v.network.Sees == nil {
		return p.observe(o, v.route, t, lataccel, action)
	}
	if v.contract {
		if err := p.observe(v.observation, v.route, t, lataccel, action); err != nil {
			return err
		}
	}
	v.step, v.lataccel, v.action = t, lataccel, action
	for i := range v.network.Sees {
		e := &v.network.Sees[i]
		x := v.at(e.Of, e.At)
		if e.Less != lockstep.SourceNone {
			x -= v.at(e.Less, e.LessAt)
		}
		x -= e.Shift
		if o[i] = limit(float32(x / e.Unit)); o[i] != o[i] {
			return fmt.Errorf("%s is NaN", v.network.Element(i))
		}
	}
	return nil
}

// at is a number of a source.
func (v *view) at(of lockstep.Source, at int) float64 {
	i := v.step + at
	switch of {
	case lockstep.SourceObservation:
		return float64(v.observation[at])
	case lockstep.SourceLataccel:
		return v.lataccel[i]
	case lockstep.SourceAction:
		if i < lockstep.ControlStartIdx {
			return 0
		}
		return v.action[i]
	}
	column := v.columns[of]
	if i >= len(column) {
		i = len(column) - 1
	}
	return column[i]
}
