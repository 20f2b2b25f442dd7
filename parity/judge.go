package parity

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"lockstep/parity/schema"
	"lockstep/parity/trace"
)

// pairing is both sides of one task, which it compares step by step. It finds the stages
// at fault by walking the schema: a stage is at fault if all that it is computed from is
// equal on both sides and it is not. When one side is forced onto the other's trajectory,
// the stages that are taught are equal as inputs, whatever was computed. A stage that a
// side does not have is as equal as its own inputs are.
type pairing struct {
	Verdict // without its findings and flips

	c       *comparison
	task    *RolloutTask
	held    *rollout
	running *rollout
	inexact bool // soft stages may differ

	unjudged  int            // steps with different histories
	compared  map[string]int // by stage and outcome
	lacking   map[string]int // of those that must be there, how many a recording has not
	findings  []*Divergence  // as far as digests tell
	flips     FlipCounts
	tolerated []Tolerance // by stage

	last    []int // by stage, the last step whose value may have differed; -1 is none
	outcome bool  // that of a stage that the outcome is computed from, where it counts
}

// maxExamples bounds the flips that a report describes.
const maxExamples = 20

// newPairing compares both sides of a task.
func newPairing(c *comparison, t *RolloutTask, held, running *rollout, inexact bool) *pairing {
	n := len(c.family.Schema.Stages)
	p := &pairing{
		Verdict: Verdict{
			Rollout: rolloutText(c.family.Schema, t.Key),
			Key:     t.Key,
			Equal:   true,
			Forced:  t.Teacher != nil,
		},
		c: c, task: t, held: held, running: running, inexact: inexact, compared: map[string]int{},
		lacking:   map[string]int{},
		tolerated: make([]Tolerance, n), last: slices.Repeat([]int{-1}, n),
	}
	for _, g := range c.family.Schema.Stages {
		p.Effects = append(p.Effects, Effect{Stage: g.Name})
	}
	p.run()
	held.full, running.full = nil, nil // that many more may be run
	p.changed(sides(p, held.end.Outcome, running.end.Outcome))
	if held.end.Err != nil && running.end.Err != nil {
		p.Error = held.end.Err.Error()
	}
	return p
}

// sides puts what is held and what runs in order.
func sides[T any](p *pairing, held, running T) (want, got T) {
	if p.c.held == wanted {
		return held, running
	}
	return running, held
}

// run compares the steps of both sides, what they were computed from, and how they ended.
func (p *pairing) run() {
	s, held, running := p.c.family.Schema, p.held, p.running
	n, next := min(held.digests.Len(), running.digests.Len()), s.First
	for p.Steps < n {
		want, got := sides(p, held.step(p.Steps), running.step(p.Steps))
		if want.Index != got.Index {
			break
		}
		p.Steps++
		p.step(want, got)
		p.WantHash = trace.Hex(s.Roll(p.c.hash, uint64(p.WantHash), want))
		p.GotHash = trace.Hex(s.Roll(p.c.hash, uint64(p.GotHash), got))
		next = want.Index + 1
	}
	if d := p.inputs(); d != nil {
		// From other inputs all else differs, too.
		p.findings = nil
		p.find(-1, s.Key[0], d)
		return
	}
	if p.Steps < running.digests.Len() {
		next = running.digests.At(p.Steps).Index
	}
	lacks, failed := held.end.of == nil, held.end.Err != nil
	switch {
	case p.Steps < n:
		p.extent(
			next, fmt.Sprintf("step %d next", held.digests.At(p.Steps).Index),
			fmt.Sprintf("step %d", next),
		)
	case n < running.digests.Len() && (lacks || failed):
		p.extent(next, held.end.String(), fmt.Sprintf("step %d", next))
	case n < running.digests.Len():
		p.extent(next, fmt.Sprintf("%d steps", n), "one more")
	case lacks != (running.end.of == nil), failed != (running.end.Err != nil):
		p.extent(next, held.end.String(), running.end.String())
	case n < held.digests.Len():
		p.extent(next, fmt.Sprintf("%d steps", held.digests.Len()), fmt.Sprintf("%d", n))
	case !failed:
		p.end(sides(p, held.end.Outcome, running.end.Outcome))
	}
}

// find notes a divergence. In an inexact comparison stages and outcomes are judged in
// the second pass.
func (p *pairing) find(step int, stage string, d *Divergence) {
	p.Equal = false
	if p.inexact == p.c.opts.Inexact || stage == schema.Extent ||
		stage == p.c.family.Schema.Key[0] {
		d.Rollout, d.Key, d.Step, d.Stage, d.Forced = p.Rollout, p.Key, step, stage, p.Forced
		p.findings = append(p.findings, d)
	}
}

// extent notes that the sides went differently far.
func (p *pairing) extent(step int, held, running string) {
	want, got := sides(p, held, running)
	p.find(step, schema.Extent, &Divergence{Index: -1, Want: want, Got: got})
}

// end compares the outcomes.
func (p *pairing) end(want, got []float64) {
	s := p.c.family.Schema
	if want == nil || got == nil {
		p.lacking[s.Outcome.Name]++
		if p.missing([2]bool{wanted: want != nil, gotten: got != nil}, true, false) {
			p.find(-1, s.Outcome.Name, &Divergence{
				Index: -1, Want: counted(want), Got: counted(got),
			})
		}
		return
	}
	p.compared[s.Outcome.Name]++
	if d := DifferOutcome(s, want, got); d != nil {
		p.Equal = false
		if !p.outcome {
			p.find(-1, d.Stage, d)
		}
	}
}

// counted says how many numbers an outcome has.
func counted(outcome []float64) string {
	if outcome == nil {
		return "no outcome"
	}
	return fmt.Sprintf("%d values", len(outcome))
}

// inputs is where the rollouts were computed from other inputs than the task's or, without
// a job, than each other.
func (p *pairing) inputs() *Divergence {
	want, got := sides(p, p.held.end.of, p.running.end.of)
	if p.task.Job == nil {
		return diffInputs(want, got, false)
	}
	all := len(p.task.Inputs) > 0
	return cmp.Or(diffInputs(&p.task.Rollout, want, all), diffInputs(&p.task.Rollout, got, all))
}

// diffInputs compares what is known of two rollouts' inputs. Where all names are known,
// got may have no other.
func diffInputs(want, got *trace.Rollout, all bool) *Divergence {
	if want == nil || got == nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(got.Inputs)) {
		known, ok := want.Inputs[name]
		if ok && known != got.Inputs[name] {
			return &Divergence{Index: -1, Want: name + " " + known, Got: got.Inputs[name]}
		}
		if all && !ok {
			names := strings.Join(slices.Sorted(maps.Keys(want.Inputs)), ", ")
			return &Divergence{
				Index: -1,
				Want:  "inputs of the names " + names,
				Got:   fmt.Sprintf("one named %.60q", name),
			}
		}
	}
	return nil
}

// changed enters what the differences did to the rollout, which came to want and got.
func (p *pairing) changed(want, got []float64) {
	p.Effects = slices.DeleteFunc(p.Effects, func(e Effect) bool { return e.Steps == 0 })
	o := &p.c.family.Schema.Outcome
	for i, name := range o.Elements[:min(len(o.Elements), len(want), len(got))] {
		if w, g := Float(want[i]), Float(got[i]); !schema.Equal(want[i], got[i]) {
			p.Effects = append(
				p.Effects,
				Effect{
					Stage: o.Name + " " + name,
					Step:  -1,
					Apart: Float(math.Abs(want[i] - got[i])),
					Want:  &w,
					Got:   &g,
				},
			)
		}
	}
}
