package parity

import (
	"cmp"
	"slices"

	"lockstep/parity/schema"
)

// inputs are what is known of all that a stage is computed from.
type inputs int

const (
	equalInputs   inputs = iota // equal on both sides
	excusedInputs               // equal, but for what may differ
	unknownInputs               // some differ, in this step or in those before it
)

// values are how the two values of a stage compare.
type values int

const (
	equalValues   values = iota
	noValues             // a side has none, and need not have one
	otherValues          // both have one, and these differ
	missingValues        // a side has none, and must have one
)

// A ruling is what the inputs and the values of a stage say of it.
type ruling int

const (
	holds   ruling = iota // it is equal
	excused               // nothing is known of it; what it is computed from may differ
	follows               // it differs, or may, since what it is computed from does
	stands                // it differs, and what it is computed from does not explain that
)

var rulings = [...][3]ruling{
	//              equal,  excused, unknown inputs
	equalValues:   {holds, holds, holds},
	noValues:      {holds, excused, follows},
	otherValues:   {stands, stands, follows},
	missingValues: {stands, stands, follows},
}

// A stepPair is one step of both sides while its stages are compared.
type stepPair struct {
	*pairing
	s         *schema.Schema
	index     int
	want, got *schema.Step

	unequal schema.StageSet // stages that differ, or that follow from such
	loose   schema.StageSet // stages that differ and may, and what follows from them
	judged  bool            // all histories are equal
}

// step compares one step, which is the same on both sides: its stages in the order of
// computation, each ruled by the table above. A stage that stands by itself is at fault,
// unless this is an inexact comparison and it may differ.
func (p *pairing) step(want, got *schema.Step) {
	w := &stepPair{
		pairing: p, s: p.c.family.Schema, index: want.Index, want: want, got: got, judged: true,
	}
	for i := range w.s.Stages {
		from := w.inputs(i)
		switch rulings[w.values(i)][from] {
		case excused:
			w.loose |= 1 << i
		case follows:
			w.unequal |= 1 << i
		case stands:
			w.standing(i, from)
		}
	}
	for i := range w.s.Stages { // now, since steps before this one are not it
		w.remember(i)
	}
	if !w.judged {
		p.unjudged++
	}
}

// inputs looks at what a stage is computed from. What is given in a warm-up, and what a side
// is forced onto, is equal, whatever was computed.
func (w *stepPair) inputs(stage int) inputs {
	g := &w.s.Stages[stage]
	known := equalInputs
	for _, in := range g.From {
		k := w.s.Index(in.Stage)
		switch {
		case g.Given && w.s.Warm(w.index), w.Forced && w.s.Stages[k].Teach:
		case in.Steps == 0 && w.unequal.Has(k):
			known = unknownInputs
		case in.Steps == 0 && w.loose.Has(k):
			known = max(known, excusedInputs)
		case in.Steps != 0 && w.differed(k, in.Steps):
			known, w.judged = unknownInputs, false
		}
	}
	return known
}

// differed reports whether a stage may have differed in so many steps before this one.
func (w *stepPair) differed(stage, steps int) bool {
	last := w.last[stage]
	return last >= 0 && (steps == schema.All || last >= w.index-steps)
}

// values compares both values of a stage, and counts what was compared.
func (w *stepPair) values(stage int) values {
	g, required := &w.s.Stages[stage], w.s.At(w.index).Has(stage)
	has := [2]bool{wanted: w.want.Has.Has(stage), gotten: w.got.Has.Has(stage)}
	if has[wanted] && has[gotten] {
		w.compared[g.Name]++
		want, got := w.want.Bits[stage], w.got.Bits[stage]
		if want == got {
			return equalValues
		}
		if g.Effect {
			w.Effects[stage].add(w.index, g.Type.Float(want), g.Type.Float(got))
		}
		w.Equal = false
		return otherValues
	}
	if required {
		w.lacking[g.Name]++
	}
	if w.missing(has, required, g.Optional) {
		w.Equal = false
		return missingValues
	}
	return noValues
}

// missing reports whether a live side lacks a value that it should have: one that is
// required or that the other side has, beside another live side or a value.
func (p *pairing) missing(has [2]bool, required, optional bool) bool {
	for side, other := range [2]int{gotten, wanted} {
		if !has[side] && p.c.live[side] &&
			(has[other] && (required || optional) || required && p.c.live[other]) {
			return true
		}
	}
	return false
}

// standing judges a stage that differs by itself. In an inexact comparison a soft stage may,
// and so may what is chosen from soft stages, where their difference explains it.
func (w *stepPair) standing(stage int, from inputs) {
	g := &w.s.Stages[stage]
	if w.inexact && g.Soft && w.want.Has.Has(stage) && w.got.Has.Has(stage) {
		w.loose |= 1 << stage
		w.tolerate(stage)
		return
	}
	w.unequal |= 1 << stage
	if w.inexact && w.chosen(g) && w.flip(g.Name) && from == excusedInputs {
		return
	}
	w.find(w.index, g.Name, diffDigests(g, stage, w.want, w.got))
}

// tolerate notes by how much a soft stage differs.
func (w *stepPair) tolerate(stage int) {
	apart, known := Farthest(w.s.Stages[stage].Type, w.want.Data[stage], w.got.Data[stage])
	t := &w.tolerated[stage]
	t.add(&Tolerance{Steps: 1, Rollout: w.Rollout, Step: w.index, Difference: apart})
	if !known {
		t.Unknown++
	}
}

// chosen reports whether a stage is computed from soft ones of its step, and is not soft.
func (w *stepPair) chosen(g *schema.Stage) bool {
	return !g.Soft && slices.ContainsFunc(g.From, func(in schema.Input) bool {
		return in.Steps == 0 && w.s.Stages[w.s.Index(in.Stage)].Soft
	})
}

// flip notes a stage that came out otherwise after soft ones, and reports whether they
// explain it.
func (w *stepPair) flip(stage string) bool {
	e := cmp.Or(
		w.c.family.Explain(w.want, w.got),
		&Explanation{Why: "what it is chosen from is not known"},
	)
	e.Rollout, e.Step, w.flips.Stage = w.Rollout, w.index, stage
	if e.Explained {
		w.flips.Explained++
	} else {
		w.flips.Unexplained++
	}
	if len(w.flips.Examples) < maxExamples {
		w.flips.Examples = append(w.flips.Examples, e)
	}
	return e.Explained
}

// remember notes a stage that may have differed, for the steps that are computed from it and
// for the outcome.
func (w *stepPair) remember(stage int) {
	if !w.unequal.Has(stage) && !w.loose.Has(stage) {
		return
	}
	w.last[stage] = w.index
	g, o := &w.s.Stages[stage], &w.s.Outcome
	counts := w.index >= o.Begin && (o.End == 0 || w.index < o.End) &&
		slices.Contains(o.From, g.Name)
	w.outcome = w.outcome || counts && !(w.Forced && g.Teach)
}
