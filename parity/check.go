package parity

import (
	"fmt"

	"lockstep"
	"lockstep/golden"
	"lockstep/parity/trace"
)

// A Checker holds one rollout to a recording, step by step as it runs, and keeps the
// first difference. Compare does so for many, and more.
type Checker struct {
	recording  *golden.Recording
	judge      *judge
	step       trace.Step
	steps      int
	divergence *Divergence
	network    int // steps at which the network ran
}

// NewChecker returns a checker for one rollout of the recorded route.
func NewChecker(recording *golden.Recording) *Checker {
	return &Checker{recording: recording, judge: newJudge(false, false, func(side int, s *trace.Step) trace.Stages {
		switch {
		case side == wanted:
			return 0
		case s.Has&trace.Set(Tokens, States, Logits, Probs, CDF) == 0: // the network was skipped
			return trace.Set(Action, Draw, Lataccel)
		}
		return trace.AllStages
	})}
}

// Observe compares a step with the recorded one. Where the network was skipped its
// stages are not compared; the recorded hashes stand for values not recorded in full.
func (c *Checker) Observe(s *lockstep.Step) {
	i := c.steps
	c.steps++
	if s.Logits != nil {
		c.network++
	}
	if c.divergence != nil {
		return
	}
	found := func(stage Stage, d *Divergence) {
		d.Route, d.Step, d.Stage = c.recording.Route, s.Index, stage
		c.divergence = d
	}
	if next := lockstep.ContextLength + i; s.Index != next {
		found(Steps, &Divergence{Index: -1, Want: fmt.Sprintf("step %d next", next), Got: fmt.Sprintf("step %d", s.Index)})
		return
	}
	if i >= c.recording.Steps() {
		found(Steps, &Divergence{Index: -1, Want: fmt.Sprintf("%d steps", c.recording.Steps()), Got: "one more"})
		return
	}
	want := recorded(c.recording, i)
	c.step.Of(s, trace.SHA256)
	c.judge.step(want, &c.step)
	if faults := c.judge.faults; len(faults) > 0 {
		d := diffStage(faults[0].Stage, want, &c.step)
		d.Choice = newChoice(want, &c.step)
		found(faults[0].Stage, d)
	}
}

// Costs compares the costs.
func (c *Checker) Costs(got lockstep.Costs) {
	if d := c.judge.end(&c.recording.Costs, &got); d != nil && c.divergence == nil {
		d.Route, d.Step, d.Stage = c.recording.Route, -1, Cost
		c.divergence = d
	}
}

// Divergence is the first difference, or nil.
func (c *Checker) Divergence() *Divergence { return c.divergence }

// Steps is how many steps were observed, and NetworkSteps at how many of them
// the network ran.
func (c *Checker) Steps() int        { return c.steps }
func (c *Checker) NetworkSteps() int { return c.network }
