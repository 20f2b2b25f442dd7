package parity

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"lockstep/parity/trace"
)

// CompareOptions say whether things have to be equal. The zero value is an exact
// comparison.
type CompareOptions struct {
	// Inexact is for sides that do not claim to compute the same bits: another
	// arithmetic profile, another precision, someone's trace. Soft stages may differ, and
	// what is chosen from them if the family explains it; nothing else may.
	Inexact bool

	// Budget bounds what an inexact comparison excuses.
	Budget Budget

	// Replay gives the command that repeats one task's comparison, for reports.
	Replay func(*RolloutTask) string
}

// Budget bounds what an inexact comparison excuses.
type Budget struct {
	Flips int `json:"flips"` // explained flips, all together
	// greatest difference of soft stages, by name; none is no bound
	Apart map[string]Float `json:"apart,omitempty"`
}

// A Finding is a stage whose inputs were equal and whose output differed.
type Finding struct {
	Step  int    `json:"step"` // -1 for the inputs and the outcome
	Stage string `json:"stage"`
}

// Report is the outcome of a comparison.
type Report struct {
	Want SideInfo `json:"want"`
	Got  SideInfo `json:"got"`

	Exact  bool   `json:"exact"`
	Budget Budget `json:"budget"`

	Stages   []string  `json:"stages"`   // of the schema, and the outcome
	Rollouts []Verdict `json:"rollouts"` // in the order of the tasks

	// Steps is how many pairs of steps were compared without forcing, Forced how
	// many with it. Unjudged of them had different histories and could not be
	// repeated with equal ones, since neither side was live or one lacked steps.
	Steps    int `json:"steps"`
	Forced   int `json:"forced_steps"`
	Unjudged int `json:"unjudged_steps"`

	// Past is how many steps were not compared, since they are beyond the schema's end.
	Past int `json:"steps_past_end,omitempty"`

	// Compared is how many values of each stage were held to each other without
	// forcing: what a recording lacks and what shortcuts left out is not among them.
	Compared map[string]int `json:"compared"`

	// Lacking is how many values of each stage a recording has not, of those that its
	// steps must have.
	Lacking map[string]int `json:"lacking,omitempty"`

	// Findings are counted over all steps of all rollouts, by stage.
	Findings []StageFindings `json:"findings"`

	// First is the first divergence, in the order of the tasks; Others are the first of
	// each other stage, not more than 8 with it.
	First  *Divergence   `json:"first,omitempty"`
	Others []*Divergence `json:"others,omitempty"`

	// Flips are choices that came out differently from equal histories and draws.
	Flips FlipCounts `json:"flips"`

	// Tolerated is how far the stages that may differ in an inexact comparison did.
	Tolerated []Tolerance `json:"tolerated,omitempty"`

	// Exercised is what of the specification the rollouts went through; nil where its
	// branches have no names.
	Exercised *Exercised `json:"exercised,omitempty"`

	// Plot is what happened around the first divergence.
	Plot *Plot `json:"plot,omitempty"`

	// Seconds is how long the comparison took, and After how much of it was after
	// the first run of all rollouts: to repeat and describe what differs.
	Seconds float64 `json:"seconds"`
	After   float64 `json:"seconds_after"`
}

// SideInfo names one side of a comparison.
type SideInfo struct {
	Name    string `json:"name"`
	Profile string `json:"profile,omitempty"`
	Live    bool   `json:"live"`

	// Computed names what computed its rollouts, where engines say so.
	Computed []string `json:"computed,omitempty"`
}

// Verdict is the outcome for one rollout.
type Verdict struct {
	Rollout string   `json:"rollout"` // in words
	Key     []string `json:"key"`
	Steps   int      `json:"steps"` // compared without forcing

	// Error is with which it ended on both sides; "" if on one, or on none.
	Error string `json:"error,omitempty"`

	// Equal: not a bit differed, and no step was missing.
	Equal bool `json:"equal"`

	// Hashes of all that was compared, see schema.Roll.
	WantHash trace.Hex `json:"want_hash"`
	GotHash  trace.Hex `json:"got_hash"`

	First    *Finding `json:"first,omitempty"`
	Findings int      `json:"findings"`
	Flips    int      `json:"explained_flips,omitempty"`

	// Forced tells that one side was forced onto the other's trajectory.
	Forced bool `json:"forced,omitempty"`

	// Effects are what the differences did to the rollout, left to itself.
	Effects []Effect `json:"effects,omitempty"`
}

// Name joins the words of the key: "00000/pid".
func (v *Verdict) Name() string { return strings.Join(v.Key, "/") }

// An Effect is how a number of a rollout went on both sides.
type Effect struct {
	Stage string `json:"stage"`           // or the outcome's element
	Step  int    `json:"step"`            // the first at which it differs; -1 of an outcome
	Steps int    `json:"steps,omitempty"` // at which it does
	Apart Float  `json:"apart"`           // at most

	Want *Float `json:"want,omitempty"` // of an outcome
	Got  *Float `json:"got,omitempty"`
}

// add notes a step at which the sides differ.
func (e *Effect) add(step int, want, got float64) {
	if e.Steps == 0 {
		e.Step = step
	}
	e.Steps++
	e.Apart = max(e.Apart, apart(want, got))
}

func (e *Effect) String() string {
	if e.Want != nil && e.Got != nil {
		return fmt.Sprintf("%s %v for %v", e.Stage, float64(*e.Got), float64(*e.Want))
	}
	return fmt.Sprintf(
		"%s from step %d on, at %d steps, by up to %.6g", e.Stage, e.Step, e.Steps,
		float64(e.Apart),
	)
}

// StageFindings counts the findings of one stage.
type StageFindings struct {
	Stage    string   `json:"stage"`
	Findings int      `json:"findings"`
	Rollouts int      `json:"rollouts"` // that have some
	Rollout  string   `json:"rollout"`  // the first, in words
	Key      []string `json:"key"`
	Step     int      `json:"step"`
}

// FlipCounts counts flips, and keeps some of them.
type FlipCounts struct {
	Stage       string         `json:"stage,omitempty"` // that they are of
	Explained   int            `json:"explained"`
	Unexplained int            `json:"unexplained"`
	Examples    []*Explanation `json:"examples,omitempty"`
}

// Tolerance is how far one stage was off.
type Tolerance struct {
	Stage string `json:"stage"`
	Steps int    `json:"steps"` // at which it differed
	// of them, by how much, since a side does not have the values
	Unknown int `json:"unknown_steps,omitempty"`
	Difference
	Rollout string `json:"rollout"` // of the greatest difference
	Step    int    `json:"step"`
}

// add counts what is known of other steps of the stage.
func (t *Tolerance) add(o *Tolerance) {
	if o.Abs > t.Abs || t.Steps == 0 {
		t.Abs, t.Rollout, t.Step = o.Abs, o.Rollout, o.Step
	}
	t.Steps, t.Unknown, t.ULPs = t.Steps+o.Steps, t.Unknown+o.Unknown, max(t.ULPs, o.ULPs)
}

// Plot is what happened around the first divergence, without forcing.
type Plot struct {
	Rollout string  `json:"rollout"`
	Step    int     `json:"step"` // of the divergence, -1 of no step
	Charts  []Chart `json:"charts"`
}

// A Chart draws lines over steps or, as stairs, over the elements of an array.
type Chart struct {
	Label  string  `json:"label"`
	Unit   string  `json:"unit,omitempty"`
	Span   float64 `json:"span"`  // the least that the axis spans
	First  int     `json:"first"` // step or element of index 0 of the lines
	Stairs string  `json:"stairs,omitempty"`
	Note   string  `json:"note,omitempty"`
	Lines  []Line  `json:"lines"`
}

// A Line is one line of a chart. Where a side has nothing it is empty.
type Line struct {
	Name   string  `json:"name"`
	Values []Float `json:"values"`
}

// OK reports whether the two sides are the same or, in an inexact comparison, differ in
// no way that is not excused.
func (r *Report) OK() bool { return r.Err() == nil }

// Err is nil if OK. It describes the first divergence, counts the others, and ends with
// what they did; the Divergence is found in it by errors.As.
func (r *Report) Err() error {
	var errs []error
	if r.First != nil {
		errs = append(errs, r.First)
	}
	if n := r.Flips.Explained; n > r.Budget.Flips {
		errs = append(errs, fmt.Errorf("%d explained flips, the budget is %d", n, r.Budget.Flips))
	}
	for _, t := range r.Tolerated {
		budget, bounded := r.Budget.Apart[t.Stage]
		if bounded && t.Unknown > 0 {
			errs = append(
				errs,
				fmt.Errorf(
					"at %d steps it is not known how far %s is apart, and there is a budget",
					t.Unknown, t.Stage,
				),
			)
		}
		if bounded && !(t.Abs <= budget) {
			errs = append(
				errs,
				fmt.Errorf(
					"%s, step %d: %s is %g apart, the budget is %g", t.Rollout, t.Step, t.Stage,
					float64(t.Abs), float64(budget),
				),
			)
		}
	}
	if len(errs) == 0 && len(r.Findings) == 0 {
		// A rollout that differs in ways that nothing was found for is a difference all
		// the same, where equality is claimed.
		at := slices.IndexFunc(r.Rollouts, func(v Verdict) bool { return !v.Equal })
		bare := slices.IndexFunc(
			r.Rollouts, func(v Verdict) bool { return v.Steps == 0 && v.Error == "" },
		)
		switch {
		case r.Nothing():
			text := "nothing was compared"
			if i := slices.IndexFunc(r.Rollouts,
				func(v Verdict) bool { return v.Error != "" }); i >= 0 {
				text += ", both sides failed: " + r.Rollouts[i].Error
			}
			return errors.New(text)
		case bare >= 0: // both sides have nothing but what it came to
			return errors.New(r.Rollouts[bare].Rollout + ": nothing was compared")
		case r.Exact && at >= 0:
			errs = append(
				errs,
				fmt.Errorf("%s differs, and no stage was found at fault", r.Rollouts[at].Rollout),
			)
		default:
			return nil
		}
	}
	for _, text := range []string{r.counts(), r.Effects()} {
		if text != "" {
			errs = append(errs, errors.New(text))
		}
	}
	return fmt.Errorf("%s and %s: %w", r.Want.Name, r.Got.Name, errors.Join(errs...))
}

// Nothing reports whether no value was held to another, and nothing was found to differ.
func (r *Report) Nothing() bool {
	return len(r.Findings) == 0 && r.First == nil && (r.Steps == 0 || len(r.Compared) == 0)
}

// counts says how much differs: "12 findings in logits, in 3 of 18 rollouts".
func (r *Report) counts() string {
	var parts []string
	for _, f := range r.Findings {
		noun := "findings"
		if f.Findings == 1 {
			noun = "finding"
		}
		parts = append(
			parts,
			fmt.Sprintf(
				"%d %s in %s, in %d of %d rollouts", f.Findings, noun, f.Stage, f.Rollouts,
				len(r.Rollouts),
			),
		)
	}
	if r.Unjudged > 0 {
		parts = append(
			parts, fmt.Sprintf("%d steps of different histories were not judged", r.Unjudged),
		)
	}
	return strings.Join(parts, "; ")
}

// maxEffects is how many rollouts Effects lists.
const maxEffects = 20

// Effects says what the divergences did: which rollouts went otherwise in what, from
// which step, by how much. It is "" if none did.
func (r *Report) Effects() string {
	var lines []string
	for _, v := range r.Rollouts {
		var parts []string
		for _, e := range v.Effects {
			parts = append(parts, e.String())
		}
		if len(parts) > 0 {
			lines = append(lines, v.Rollout+": "+strings.Join(parts, "; "))
		}
	}
	n := len(lines)
	switch {
	case n == 0 && r.Equal() < len(r.Rollouts):
		return "no rollout went another way for it"
	case n == 0:
		return ""
	case n > maxEffects:
		lines = append(lines[:maxEffects], fmt.Sprintf("and %d more", n-maxEffects))
	}
	return fmt.Sprintf(
		"%d of %d rollouts went another way:\n  %s", n, len(r.Rollouts),
		strings.Join(lines, "\n  "),
	)
}

// Equal is how many rollouts are the same to the bit.
func (r *Report) Equal() (n int) {
	for _, v := range r.Rollouts {
		if v.Equal {
			n++
		}
	}
	return n
}
