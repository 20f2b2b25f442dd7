package parity

import (
	"fmt"

	"lockstep"
	"lockstep/golden"
)

// A Checker holds a rollout to a recording, step by step as it runs, and keeps
// the first difference.
type Checker struct {
	recording  *golden.Recording
	divergence *Divergence
	steps      int
	network    int // steps at which the network ran
}

// NewChecker returns a checker for one rollout of the recorded route.
func NewChecker(recording *golden.Recording) *Checker {
	return &Checker{recording: recording}
}

// Observe compares a step with the recorded one. Stages that the rollout skipped
// are not compared; the recorded hashes stand for values not recorded in full.
func (c *Checker) Observe(s *lockstep.Step) {
	r, i := c.recording, c.steps
	c.steps++
	if s.Logits != nil {
		c.network++
	}
	if c.divergence != nil {
		return
	}
	if next := lockstep.ContextLength + i; s.Index != next {
		c.found(s.Index, Action, &Divergence{Index: -1, Want: fmt.Sprintf("step %d next", next), Got: fmt.Sprintf("step %d", s.Index)})
		return
	}
	if i >= r.Steps() {
		c.found(s.Index, Action, &Divergence{Index: -1, Want: fmt.Sprintf("%d steps", r.Steps()), Got: "one more"})
		return
	}
	c.found(s.Index, Action, diff(r.Action[i:i+1], []float64{s.Action}))
	if s.Logits != nil {
		const n, m = lockstep.ContextLength, 4 * lockstep.ContextLength
		c.found(s.Index, Tokens, diff(r.Tokens[i*n:(i+1)*n], s.Tokens))
		c.found(s.Index, States, diff(r.States[i*m:(i+1)*m], s.States))
		logits, probs, full := r.Full(s.Index)
		if full {
			c.found(s.Index, Logits, diff(logits, s.Logits))
		}
		c.found(s.Index, Logits, diffHash(r.LogitsHash[i], golden.Hash(s.Logits)))
		if full {
			c.found(s.Index, Probs, diff(probs, s.Probs))
		}
		c.found(s.Index, Probs, diffHash(r.ProbsHash[i], golden.Hash(s.Probs)))
		c.found(s.Index, CDF, diffHash(r.CDFHash[i], golden.Hash(s.CDF)))
	}
	c.found(s.Index, Draw, diff(r.Draw[i:i+1], []float64{s.Draw}))
	if s.Logits != nil {
		c.found(s.Index, Sample, diff(r.Sample[i:i+1], []int64{int64(s.Sample)}))
		c.found(s.Index, Prediction, diff(r.Prediction[i:i+1], []float64{s.Prediction}))
	}
	c.found(s.Index, Lataccel, diff(r.Lataccel[i:i+1], []float64{s.Lataccel}))
}

// Costs compares the costs.
func (c *Checker) Costs(got lockstep.Costs) {
	want := c.recording.Costs
	c.found(-1, Cost, diff([]float64{want.Lataccel, want.Jerk, want.Total}, []float64{got.Lataccel, got.Jerk, got.Total}))
}

// Divergence is the first difference, or nil.
func (c *Checker) Divergence() *Divergence { return c.divergence }

// Steps is how many steps were observed, and NetworkSteps at how many of them
// the network ran.
func (c *Checker) Steps() int        { return c.steps }
func (c *Checker) NetworkSteps() int { return c.network }

// found keeps a difference if it is the first.
func (c *Checker) found(step int, stage Stage, d *Divergence) {
	if d == nil || c.divergence != nil {
		return
	}
	d.Route, d.Step, d.Stage = c.recording.Route, step, stage
	c.divergence = d
}

func diffHash(want, got uint64) *Divergence {
	if want == got {
		return nil
	}
	return &Divergence{Index: -1, Want: fmt.Sprintf("values of hash %016x", want), Got: fmt.Sprintf("values of hash %016x", got)}
}
