package parity

import (
	"fmt"
	"math"

	"lockstep"
	"lockstep/golden"
	"lockstep/parity/trace"
)

// A judge compares one rollout of two sides step by step, and finds the stages at
// fault by the graph of what is computed from what:
//
//	action     ← all lataccels before
//	tokens     ← the last 20 lataccels
//	states     ← action, the last 19 actions
//	logits     ← tokens, states
//	probs      ← logits
//	cdf        ← probs
//	draw       ← nothing
//	sample     ← cdf, draw
//	prediction ← sample
//	lataccel   ← prediction, the lataccel before
//	costs      ← all lataccels
//
// and the route. Before ControlStartIdx action and lataccel are the route's. When
// one side is forced onto the other's trajectory, histories and the action that enters
// the states are equal, whatever was computed. A stage that a side does not have is as
// equal as its own inputs are.
type judge struct {
	forced  bool
	inexact bool

	// expects tells of which stages the absence is a fault, in a step of a side.
	expects func(side int, s *trace.Step) trace.Stages

	steps    int // compared
	unjudged int // with different histories
	network  int
	compared [trace.NumStages]int
	differs  bool
	faults   []Fault
	evidence [trace.NumStages]*[2]trace.Digest // of the first fault of each stage

	// The last steps whose lataccel and action may have differed.
	lastLataccel, lastAction int
	costs                    bool // lataccels that cost may have

	explained   int
	unexplained int
	examples    []*Choice
	tolerated   [trace.NumStages]tolerance
}

type tolerance struct {
	steps    int
	unknown  int // of them, for want of the values
	greatest Difference
	step     int // of the greatest Abs
}

// Sides.
const (
	wanted = iota
	gotten
)

// maxExamples bounds the flips that a report describes.
const maxExamples = 20

// soft are the stages that may differ in an inexact comparison.
const soft = 1<<Logits | 1<<Probs | 1<<CDF

func newJudge(forced, inexact bool, expects func(side int, s *trace.Step) trace.Stages) *judge {
	return &judge{forced: forced, inexact: inexact, expects: expects, lastLataccel: -1, lastAction: -1}
}

// step compares one step, which is the same on both sides.
func (j *judge) step(want, got *trace.Step) {
	step := int(want.Index)
	j.steps++
	if want.Has.Has(Logits) && got.Has.Has(Logits) {
		j.network++
	}
	window := func(last, length int) bool { return j.forced || last < step-length }
	tokens, states := window(j.lastLataccel, lockstep.ContextLength), window(j.lastAction, lockstep.ContextLength-1)
	if !tokens || !states {
		j.unjudged++
	}
	warm := step < lockstep.ControlStartIdx
	expected := [2]trace.Stages{j.expects(wanted, want), j.expects(gotten, got)}

	var unequal, loose trace.Stages // loose are those that differ and may, and what depends on them
	stage := func(s Stage, clean bool, inputs trace.Stages) {
		clean = clean && unequal&inputs == 0
		relation := relate(s, want, got, expected)
		if relation == equal || relation == different {
			j.compared[s]++
		}
		switch {
		case relation == equal:
		case relation == absent:
			if !clean {
				unequal |= trace.Set(s)
			} else if loose&inputs != 0 {
				loose |= trace.Set(s)
			}
		case !clean:
			unequal |= trace.Set(s)
			j.differs = true
		case j.inexact && trace.Stages(soft).Has(s) && relation == different:
			loose |= trace.Set(s)
			j.differs = true
			j.tolerate(s, want, got)
		default:
			unequal |= trace.Set(s)
			j.differs = true
			if s == Sample && j.inexact && j.flip(want, got) && loose&inputs != 0 {
				break
			}
			j.faults = append(j.faults, Fault{step, s})
			if j.evidence[s] == nil {
				j.evidence[s] = &[2]trace.Digest{want.Digest, got.Digest}
			}
		}
	}
	stage(Action, j.forced || warm || j.lastLataccel < 0, 0)
	stage(Tokens, tokens, 0)
	if j.forced {
		stage(States, true, 0)
	} else {
		stage(States, states, trace.Set(Action))
	}
	stage(Logits, true, trace.Set(Tokens, States))
	stage(Probs, true, trace.Set(Logits))
	stage(CDF, true, trace.Set(Probs))
	stage(Draw, true, 0)
	stage(Sample, true, trace.Set(CDF, Draw))
	stage(Prediction, true, trace.Set(Sample))
	if warm {
		stage(Lataccel, true, 0)
	} else {
		stage(Lataccel, j.forced || j.lastLataccel < step-1, trace.Set(Prediction))
	}
	if unequal.Has(Action) {
		j.lastAction = step
	}
	if unequal.Has(Lataccel) || loose.Has(Lataccel) {
		j.lastLataccel = step
		j.costs = j.costs || !warm && step < lockstep.CostEndIdx
	}
}

// Relations of a stage's values on both sides.
const (
	equal     = iota
	different // both have one
	missing   // a side lacks one that it should have
	absent    // a side lacks one, as it may
)

func relate(s Stage, want, got *trace.Step, expected [2]trace.Stages) int {
	w, g := want.Has.Has(s), got.Has.Has(s)
	switch {
	case w && g && want.Value(s) == got.Value(s):
		return equal
	case w && g:
		return different
	case !w && expected[wanted].Has(s) && (g || expected[gotten].Has(s)), !g && expected[gotten].Has(s) && (w || expected[wanted].Has(s)):
		return missing
	}
	return absent
}

// tolerate notes how far a stage is off that may be.
func (j *judge) tolerate(s Stage, want, got *trace.Step) {
	t := &j.tolerated[s]
	t.steps++
	var d Difference
	ok := false
	switch s {
	case Logits:
		d, ok = farthest(want.Logits, got.Logits)
	case Probs:
		d, ok = farthest(want.Probs, got.Probs)
	case CDF:
		d, ok = farthest(want.CDF, got.CDF)
	}
	if !ok {
		t.unknown++
		return
	}
	if d.Abs > t.greatest.Abs {
		t.greatest.Abs, t.step = d.Abs, int(want.Index)
	}
	t.greatest.ULPs = max(t.greatest.ULPs, d.ULPs)
}

// flip notes a token that differs, and tells whether the CDFs explain it.
func (j *judge) flip(want, got *trace.Step) bool {
	c := newChoice(want, got)
	if c == nil {
		c = &Choice{
			Step: int(want.Index), Draw: Float(want.Draw), CDF: Float(math.NaN()),
			Want: Chosen{Token: want.Sample}, Got: Chosen{Token: got.Sample}, Why: "the draws or the CDFs are not known",
		}
	}
	if c.Explained {
		j.explained++
	} else {
		j.unexplained++
	}
	if len(j.examples) < maxExamples {
		j.examples = append(j.examples, c)
	}
	return c.Explained
}

// end compares the costs.
func (j *judge) end(want, got *lockstep.Costs) *Divergence {
	if want == nil || got == nil {
		return nil
	}
	j.compared[Cost]++
	d := diffCosts(*want, *got)
	if d == nil {
		return nil
	}
	j.differs = true
	if j.costs && !j.forced {
		return nil
	}
	j.faults = append(j.faults, Fault{-1, Cost})
	return d
}

// diffCosts compares costs. All that are no number are one: the jerk cost of a route
// with one step that costs is 0/0, whose sign and payload IEEE 754 leaves open.
func diffCosts(want, got lockstep.Costs) *Divergence {
	w, g := []float64{want.Lataccel, want.Jerk, want.Total}, []float64{got.Lataccel, got.Jerk, got.Total}
	for i := range w {
		if w[i] != w[i] && g[i] != g[i] {
			g[i] = w[i]
		}
	}
	return diff(w, g)
}

// diffRoute compares what is known of the routes.
func diffRoute(want, got *trace.Rollout) *Divergence {
	for i := range min(len(want.Columns), len(got.Columns)) {
		if want.Columns[i] != got.Columns[i] {
			column := golden.RouteColumns[i]
			return &Divergence{Index: -1, Want: fmt.Sprintf("column %s of hash %016x", column, uint64(want.Columns[i])), Got: fmt.Sprintf("of hash %016x", uint64(got.Columns[i]))}
		}
	}
	if want.Rows != 0 && got.Rows != 0 && want.Rows != got.Rows {
		return &Divergence{Index: -1, Want: fmt.Sprintf("%d rows", want.Rows), Got: fmt.Sprint(got.Rows)}
	}
	if want.Seed != nil && got.Seed != nil && *want.Seed != *got.Seed {
		return &Divergence{Index: -1, Want: fmt.Sprintf("seed %d", *want.Seed), Got: fmt.Sprint(*got.Seed)}
	}
	return nil
}

// diffStage describes the difference of a stage in full where both sides have it so.
func diffStage(s Stage, want, got *trace.Step) *Divergence {
	full := func(w, g int) bool { return w > 0 && g > 0 }
	switch {
	case s == Tokens && full(len(want.Tokens), len(got.Tokens)):
		return diff(want.Tokens, got.Tokens)
	case s == States && full(len(want.States), len(got.States)):
		return diff(want.States, got.States)
	case s == Logits && full(len(want.Logits), len(got.Logits)):
		return diff(want.Logits, got.Logits)
	case s == Probs && full(len(want.Probs), len(got.Probs)):
		return diff(want.Probs, got.Probs)
	case s == CDF && full(len(want.CDF), len(got.CDF)):
		return diff(want.CDF, got.CDF)
	}
	w, g := want.Has.Has(s), got.Has.Has(s)
	if w && g && want.Value(s) == got.Value(s) {
		return nil
	}
	float := func(x float64) []float64 { return []float64{x} }
	if w && g {
		switch s {
		case Action:
			return diff(float(want.Action), float(got.Action))
		case Draw:
			return diff(float(want.Draw), float(got.Draw))
		case Sample:
			return diff([]int64{want.Sample}, []int64{got.Sample})
		case Prediction:
			return diff(float(want.Prediction), float(got.Prediction))
		case Lataccel:
			return diff(float(want.Lataccel), float(got.Lataccel))
		}
	}
	text := func(has bool, value uint64) string {
		if !has {
			return "no value"
		}
		if trace.Arrays.Has(s) {
			return showHash(value)
		}
		return fmt.Sprintf("a value (%016x)", value)
	}
	return &Divergence{Index: -1, Want: text(w, want.Value(s)), Got: text(g, got.Value(s))}
}
