package parity

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"lockstep/parity/schema"
)

// A judge compares one rollout of two sides step by step, and finds the stages at fault
// by walking the schema: a stage is at fault if all that it is computed from is equal on
// both sides and it is not. When one side is forced onto the other's trajectory, the
// stages that are taught are equal as inputs, whatever was computed. A stage that a side
// does not have is as equal as its own inputs are.
type judge struct {
	family  *Family
	live    [2]bool // sides that must show every stage
	forced  bool
	inexact bool

	steps    int // compared
	unjudged int // with different histories
	compared []int
	lacking  []int // of those that must be there, the outcome last, how many a recording has not
	outcomes int   // compared
	differs  bool
	findings []Finding
	evidence map[string][2]*schema.Step // of the first finding of each stage, without arrays
	effects  []Effect                   // by stage

	last    []int // by stage, the last step whose value may have differed; -1 is none
	outcome bool  // that of a stage that the outcome is computed from, where it counts

	flips     FlipCounts
	tolerated []Tolerance // by stage
}

// Sides.
const (
	wanted = iota
	gotten
)

// maxExamples bounds the flips that a report describes.
const maxExamples = 20

func newJudge(f *Family, live [2]bool, forced, inexact bool) *judge {
	n := len(f.Schema.Stages)
	j := &judge{
		family: f, live: live, forced: forced, inexact: inexact, evidence: map[string][2]*schema.Step{},
		compared: make([]int, n), lacking: make([]int, n+1), effects: make([]Effect, n), tolerated: make([]Tolerance, n), last: make([]int, n),
	}
	for i := range j.last {
		j.last[i], j.effects[i].Stage = -1, f.Schema.Stages[i].Name
	}
	return j
}

// step compares one step, which is the same on both sides.
func (j *judge) step(want, got *schema.Step) {
	step, s := want.Index, j.family.Schema
	j.steps++
	var unequal, loose schema.Set // loose are those that differ and may, and what depends on them
	judged := true
	for i := range s.Stages {
		g := &s.Stages[i]
		clean, excused := true, false
		if !(g.Given && s.Warm(step)) {
			for _, in := range g.From {
				k := s.Index(in.Stage)
				switch {
				case j.forced && s.Stages[k].Teach:
				case in.Steps == 0:
					clean = clean && !unequal.Has(k)
					excused = excused || loose.Has(k)
				case j.last[k] >= 0 && (in.Steps == schema.All || j.last[k] >= step-in.Steps):
					clean, judged = false, false
				}
			}
		}
		relation := j.relate(i, want, got)
		switch {
		case relation == equal || relation == different:
			j.compared[i]++
		case s.At(step).Has(i):
			j.lacking[i]++
		}
		if relation == different && g.Effect {
			j.effects[i].add(step, g.Type.Float(want.Bits[i]), g.Type.Float(got.Bits[i]))
		}
		if relation == different || relation == missing {
			j.differs = true
		}
		switch {
		case relation == equal:
		case relation == absent:
			if !clean {
				unequal |= 1 << i
			} else if excused {
				loose |= 1 << i
			}
		case clean && j.inexact && g.Soft && relation == different:
			loose |= 1 << i
			j.tolerate(i, want, got)
		default:
			unequal |= 1 << i
			if clean && !(j.inexact && j.explains(g) && j.flip(g.Name, want, got) && excused) {
				j.find(Finding{step, g.Name}, want, got)
			}
		}
		if unequal.Has(i) || loose.Has(i) {
			j.last[i] = step
			j.outcome = j.outcome || j.counts(g, step) && !(j.forced && g.Teach)
		}
	}
	if !judged {
		j.unjudged++
	}
}

// find notes a finding. want and got are nil if it is of no step.
func (j *judge) find(f Finding, want, got *schema.Step) {
	j.findings = append(j.findings, f)
	if _, ok := j.evidence[f.Stage]; !ok && want != nil {
		bare := func(s *schema.Step) *schema.Step {
			c := &schema.Step{Index: s.Index, Has: s.Has, Bits: s.Bits, Data: make([][]byte, len(s.Data))}
			return c.Clone()
		}
		j.evidence[f.Stage] = [2]*schema.Step{bare(want), bare(got)}
	}
}

// counts reports whether the outcome is computed from a stage at a step.
func (j *judge) counts(g *schema.Stage, step int) bool {
	o := &j.family.Schema.Outcome
	for _, from := range o.From {
		if from == g.Name {
			return step >= o.Begin && (o.End == 0 || step < o.End)
		}
	}
	return false
}

// Relations of a stage's values on both sides.
const (
	equal     = iota
	different // both have one
	missing   // a side lacks one that it should have
	absent    // a side lacks one, as it may
)

func (j *judge) relate(i int, want, got *schema.Step) int {
	has := [2]bool{want.Has.Has(i), got.Has.Has(i)}
	if has[wanted] && has[gotten] {
		if want.Bits[i] == got.Bits[i] {
			return equal
		}
		return different
	}
	s := j.family.Schema
	required := s.At(want.Index).Has(i)
	for side, other := range [2]int{gotten, wanted} {
		if !has[side] && j.live[side] && (has[other] && (required || s.Stages[i].Optional) || required && j.live[other]) {
			return missing
		}
	}
	return absent
}

// explains reports whether a stage is one that differences of soft stages explain: one
// that is computed from them, and is none.
func (j *judge) explains(g *schema.Stage) bool {
	for _, in := range g.From {
		if from := j.family.Schema.Stages[j.family.Schema.Index(in.Stage)]; !g.Soft && in.Steps == 0 && from.Soft {
			return true
		}
	}
	return false
}

// tolerate notes how far a stage is off that may be.
func (j *judge) tolerate(i int, want, got *schema.Step) {
	d, ok := Farthest(j.family.Schema.Stages[i].Type, want.Data[i], got.Data[i])
	one := Tolerance{Steps: 1, Step: want.Index, Difference: d}
	if !ok {
		one.Unknown = 1
	}
	j.tolerated[i].add(&one)
}

// flip notes a stage that came out otherwise after soft ones, and reports whether they
// explain it.
func (j *judge) flip(stage string, want, got *schema.Step) bool {
	j.flips.Stage = stage
	var e *Explanation
	if j.family.Explain != nil {
		e = j.family.Explain(want, got)
	}
	if e == nil {
		e = &Explanation{Why: "what it is chosen from is not known"}
	}
	e.Step = want.Index
	if e.Explained {
		j.flips.Explained++
	} else {
		j.flips.Unexplained++
	}
	if len(j.flips.Examples) < maxExamples {
		j.flips.Examples = append(j.flips.Examples, e)
	}
	return e.Explained
}

// end compares the outcomes.
func (j *judge) end(want, got []float64) *Divergence {
	if want == nil || got == nil {
		j.lacking[len(j.compared)]++
		return nil
	}
	j.outcomes++
	d := DifferOutcome(j.family.Schema, want, got)
	if d == nil {
		return nil
	}
	j.differs = true
	if j.outcome {
		return nil
	}
	j.find(Finding{-1, d.Stage}, nil, nil)
	return d
}

// diffRollouts compares what is known of two rollouts' inputs. Where all names are known,
// got may have no other.
func diffRollouts(want, got map[string]string, all bool) *Divergence {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if other, ok := got[name]; ok && other != want[name] {
			return &Divergence{Index: -1, Want: name + " " + want[name], Got: other}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[name]; all && !ok {
			names := strings.Join(slices.Sorted(maps.Keys(want)), ", ")
			return &Divergence{Index: -1, Want: "inputs of the names " + names, Got: fmt.Sprintf("one named %.60q", name)}
		}
	}
	return nil
}

// diffStage describes the difference of a stage in full where both sides have it so.
func diffStage(g *schema.Stage, i int, want, got *schema.Step) *Divergence {
	w, has := want.Has.Has(i), got.Has.Has(i)
	if w && has && want.Bits[i] == got.Bits[i] {
		return nil
	}
	if want.Data[i] != nil && got.Data[i] != nil {
		d := diff(g.Type, want.Data[i], got.Data[i])
		d.Element = g.Element(d.Index)
		return d
	}
	if w && has && !g.IsArray() {
		return diff(g.Type, g.Type.AppendBits(nil, want.Bits[i]), g.Type.AppendBits(nil, got.Bits[i]))
	}
	text := func(has bool, bits uint64) string {
		switch {
		case !has:
			return "no value"
		case g.IsArray():
			return fmt.Sprintf("values of hash %016x", bits)
		}
		return "a value, " + g.Type.Show(bits)
	}
	return &Divergence{Index: -1, Want: text(w, want.Bits[i]), Got: text(has, got.Bits[i])}
}
