package parity

import (
	"errors"
	"fmt"
	"strings"

	"lockstep"
	"lockstep/parity/trace"
)

// CompareOptions say what is compared, and whether it has to be equal. The zero value
// is an exact comparison of the whole network.
type CompareOptions struct {
	// Shortcuts are those that live engines take. With StopAtCostEnd the later
	// steps of a recording are not compared.
	Shortcuts lockstep.Shortcuts

	// Inexact is for sides that do not claim to compute the same bits: another
	// arithmetic profile, another precision, someone's trace. Logits, Probs and CDF
	// may differ, and tokens if that explains it, see Choice; nothing else may.
	Inexact bool

	// Budget bounds what an inexact comparison excuses.
	Budget Budget

	// Details is how many divergences are described in full, at most one for each
	// stage; 8 if 0.
	Details int

	// Replay gives the command that repeats one job's comparison, for reports.
	Replay func(lockstep.Job) string

	// Progress is called, from one goroutine, when some jobs have been compared.
	Progress func(done, total int)
}

// Budget bounds what an inexact comparison excuses.
type Budget struct {
	Flips int   `json:"flips"`                    // explained flips, all together
	CDF   Float `json:"cdf_difference,omitempty"` // greatest difference of the CDFs; 0 is no bound
}

// A Fault is a stage whose inputs were equal and whose output differed.
type Fault struct {
	Step  int   `json:"step"` // -1 for the route and the costs
	Stage Stage `json:"stage"`
}

// Report is the outcome of a comparison.
type Report struct {
	Want SideInfo `json:"want"`
	Got  SideInfo `json:"got"`

	Exact  bool   `json:"exact"`
	Budget Budget `json:"budget"`

	Rollouts []Verdict `json:"rollouts"` // in the order of the jobs

	// Steps is how many pairs of steps were compared without forcing, Forced how
	// many with it. Unjudged of them had different histories and could not be
	// repeated with equal ones, since neither side was live or one lacked steps.
	Steps    int `json:"steps"`
	Forced   int `json:"forced_steps"`
	Unjudged int `json:"unjudged_steps"`

	// Compared is how many values of each stage were held to each other without
	// forcing: what a recording lacks and what shortcuts left out is not among them.
	Compared map[Stage]int `json:"compared"`

	// Faults are counted over all steps of all rollouts, by stage.
	Faults []StageFaults `json:"faults"`

	// First is the first divergence, in the order of the jobs; Others are the first of
	// each other stage, not more than CompareOptions.Details with it.
	First  *Divergence   `json:"first,omitempty"`
	Others []*Divergence `json:"others,omitempty"`

	// Flips are tokens that came out differently from equal histories and draws.
	Flips FlipCounts `json:"flips"`

	// Tolerated is how far the stages that may differ in an inexact comparison did.
	Tolerated []Tolerance `json:"tolerated,omitempty"`

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
}

// Verdict is the outcome for one rollout.
type Verdict struct {
	Route  string `json:"route"`
	Policy string `json:"policy"`
	Steps  int    `json:"steps"` // compared without forcing

	// Equal: not a bit differed, and no step was missing.
	Equal bool `json:"equal"`

	// Hashes of all that was compared, see trace.Hash.Roll.
	WantHash trace.Hex `json:"want_hash"`
	GotHash  trace.Hex `json:"got_hash"`

	First   *Fault `json:"first,omitempty"`
	Faults  int    `json:"faults"`
	Flips   int    `json:"explained_flips,omitempty"`
	Network int    `json:"network_steps"` // at which both sides' logits were compared

	// Forced tells that one side was forced onto the other's trajectory.
	Forced bool `json:"forced,omitempty"`
}

// Key names the rollout: route and policy.
func (v *Verdict) Key() string { return v.Route + "/" + v.Policy }

// StageFaults counts the faults of one stage.
type StageFaults struct {
	Stage    Stage  `json:"stage"`
	Faults   int    `json:"faults"`
	Rollouts int    `json:"rollouts"` // that have some
	Route    string `json:"route"`    // of the first
	Policy   string `json:"policy"`
	Step     int    `json:"step"`
}

// FlipCounts counts flips, and keeps some of them.
type FlipCounts struct {
	Explained   int       `json:"explained"`
	Unexplained int       `json:"unexplained"`
	Examples    []*Choice `json:"examples,omitempty"`
}

// Tolerance is how far one stage was off.
type Tolerance struct {
	Stage   Stage  `json:"stage"`
	Steps   int    `json:"steps"`                   // at which it differed
	Unknown int    `json:"unknown_steps,omitempty"` // of them, by how much, since a side does not have the values
	Abs     Float  `json:"abs"`                     // greatest difference
	ULPs    uint64 `json:"ulps"`                    // greatest distance
	Route   string `json:"route"`                   // of the greatest difference
	Policy  string `json:"policy"`
	Step    int    `json:"step"`
}

// Plot is the rollout of the first divergence, as it went without forcing, and the
// distributions around the draw. Where a side has nothing its slices are empty.
type Plot struct {
	Route  string `json:"route"`
	Policy string `json:"policy"`
	Step   int    `json:"step"` // of the divergence

	FirstStep    int     `json:"first_step"` // that of index 0 of the slices
	Target       []Float `json:"target,omitempty"`
	WantLataccel []Float `json:"want_lataccel,omitempty"`
	GotLataccel  []Float `json:"got_lataccel,omitempty"`
	WantAction   []Float `json:"want_action,omitempty"`
	GotAction    []Float `json:"got_action,omitempty"`

	Draw       Float   `json:"draw"`
	FirstToken int     `json:"first_token"` // that of index 0 of the slices
	WantCDF    []Float `json:"want_cdf,omitempty"`
	GotCDF     []Float `json:"got_cdf,omitempty"`
}

// OK tells whether the two sides are the same or, in an inexact comparison, differ in
// no way that is not excused.
func (r *Report) OK() bool { return r.Err() == nil }

// Err is nil if OK. It describes the first divergence and counts the others; the
// Divergence is found in it by errors.As.
func (r *Report) Err() error {
	var errs []error
	switch {
	case r.First != nil:
		errs = append(errs, r.First)
	case len(r.Faults) > 0:
		f := r.Faults[0]
		errs = append(errs, &Divergence{Route: f.Route, Policy: f.Policy, Step: f.Step, Stage: f.Stage, Index: -1, Want: "the same", Got: "another value"})
	}
	if n := r.Flips.Explained; n > r.Budget.Flips {
		errs = append(errs, fmt.Errorf("%d explained flips, the budget is %d", n, r.Budget.Flips))
	}
	for _, t := range r.Tolerated {
		if t.Stage == CDF && r.Budget.CDF != 0 && t.Unknown > 0 {
			errs = append(errs, fmt.Errorf("at %d steps it is not known how far the CDFs are apart, and there is a budget", t.Unknown))
		}
		if t.Stage == CDF && r.Budget.CDF != 0 && !(t.Abs <= r.Budget.CDF) {
			errs = append(errs, fmt.Errorf("route %s, controller %s, step %d: the CDFs are %g apart, the budget is %g", t.Route, t.Policy, t.Step, float64(t.Abs), float64(r.Budget.CDF)))
		}
	}
	if len(errs) == 0 {
		if r.Steps == 0 && len(r.Faults) == 0 {
			return errors.New("nothing was compared")
		}
		return nil
	}
	if text := r.counts(); text != "" {
		errs = append(errs, errors.New(text))
	}
	return fmt.Errorf("%s and %s: %w", r.Want.Name, r.Got.Name, errors.Join(errs...))
}

// counts says how much differs: "12 faults of logits in 3 of 18 rollouts".
func (r *Report) counts() string {
	var parts []string
	for _, f := range r.Faults {
		noun := "faults"
		if f.Faults == 1 {
			noun = "fault"
		}
		parts = append(parts, fmt.Sprintf("%d %s of %s in %d of %d rollouts", f.Faults, noun, f.Stage, f.Rollouts, len(r.Rollouts)))
	}
	if r.Unjudged > 0 {
		parts = append(parts, fmt.Sprintf("%d steps of different histories were not judged", r.Unjudged))
	}
	return strings.Join(parts, "; ")
}

// Equal is how many rollouts are the same to the bit.
func (r *Report) Equal() (n int) {
	for i := range r.Rollouts {
		if r.Rollouts[i].Equal {
			n++
		}
	}
	return n
}
