package verdict

import (
	"fmt"
	"slices"
	"strings"

	"lockstep/parity"
)

// JSONLine is a line of `lockstep compare --json`, or of replay: a comparison, or at the end the
// summary.
type JSONLine struct {
	*Comparison
	Summary *Summary `json:"summary,omitempty"`
}

// Summary counts the comparisons by their outcome.
type Summary struct {
	Comparisons   int `json:"comparisons"`
	Equal         int `json:"equal"`
	Different     int `json:"different"`
	Failed        int `json:"failed"`
	NotRun        int `json:"not_run"`
	NotApplicable int `json:"not_applicable"`

	// Arithmetic is that of the Python that was asked for the profile, nil if none was.
	Arithmetic any `json:"arithmetic,omitempty"`
}

// Comparison is one engine, or trace, held to something. Of Report, Differs, Error, NotRun and
// NotApplicable one is set.
type Comparison struct {
	Kind   string `json:"kind"`   // goldens, engines, replay, traces
	Want   string `json:"want"`   // what is held to: a set of goldens, an engine, a file
	Got    string `json:"got"`    // what is judged: an engine, a file
	Detail string `json:"detail"` // the network, the file, whatever tells comparisons apart

	// Identities are what the engines say that they are, see lockstep.Identity; what has
	// computed is in the report.
	Identities []string `json:"identities,omitempty"`

	// Profiles are those that the bits of both sides are of: of Want, and of Got. There
	// are none where a side has none.
	Profiles []string `json:"profiles,omitempty"`

	Report *parity.Report `json:"report,omitempty"`

	// Differs says what differs where there is no report on it.
	Differs string `json:"differs,omitempty"`

	// Error says why the comparison could not be made or finished.
	Error string `json:"error,omitempty"`

	// NotRun says for want of what it was not made: Lacks is the name of a want, and
	// NotRun the reason.
	NotRun string `json:"not_run,omitempty"`
	Lacks  string `json:"lacks,omitempty"`

	// NotApplicable says why there is nothing to compare, on this machine or at all.
	NotApplicable string `json:"not_applicable,omitempty"`
}

// Outcomes of comparisons and cases.
const (
	Equal         = "equal"
	Different     = "different"
	Failed        = "failed"
	Passed        = "passed"
	NotRun        = "not run"
	NotApplicable = "not applicable"
)

// Outcome is Equal, Different, Failed, NotRun or NotApplicable. A report of nothing
// compared, or of an engine held to itself, is a failure.
func (c *Comparison) Outcome() string {
	outcome, _ := c.judge()
	return outcome
}

// Why is the reason for any outcome but Equal.
func (c *Comparison) Why() string {
	_, why := c.judge()
	return why
}

func (c *Comparison) judge() (outcome, why string) {
	switch {
	case c.Error != "":
		return Failed, c.Error
	case len(c.Identities) == 2 && c.Identities[0] == c.Identities[1]:
		return Failed, "both sides are " + c.Identities[0] + ": nothing is proved"
	case c.NotRun != "":
		return NotRun, c.NotRun
	case c.NotApplicable != "":
		return NotApplicable, c.NotApplicable
	case c.Differs != "":
		return Different, c.Differs
	case c.Report == nil || len(c.Report.Rollouts) == 0:
		return Failed, "nothing was compared"
	case c.Report.Nothing():
		return Failed, c.Report.Err().Error()
	}
	if err := c.Report.Err(); err != nil {
		if c.twoProfiles() {
			return Different, c.BothProfiles() + ":\n" + err.Error()
		}
		return Different, err.Error()
	}
	for _, name := range c.Report.Want.Computed {
		if slices.Contains(c.Report.Got.Computed, name) {
			return Failed, fmt.Sprintf(
				"%s computes on both sides, whatever they are called: that they are equal "+
					"proves nothing",
				name,
			)
		}
	}
	return Equal, ""
}

func (c *Comparison) twoProfiles() bool {
	return len(c.Profiles) == 2 && c.Profiles[0] != c.Profiles[1]
}

// BothProfiles says in a line of which profiles the bits of both sides are.
func (c *Comparison) BothProfiles() string {
	switch {
	case len(c.Profiles) != 2:
		return ""
	case c.twoProfiles():
		return fmt.Sprintf(
			"two profiles: %s has %s, %s has %s, and bits differ where these do", c.Want,
			c.Profiles[0], c.Got, c.Profiles[1])
	}
	return "both sides have profile " + c.Profiles[0]
}

// Extent says how much was compared, "" if there is no report.
func (c *Comparison) Extent() string {
	r := c.Report
	if r == nil {
		return ""
	}
	text := fmt.Sprintf("%d of %d rollouts equal, %d steps", r.Equal(), len(r.Rollouts), r.Steps)
	if !r.Exact {
		text += fmt.Sprintf(", %d tokens differ and are explained", r.Flips.Explained)
	}
	for _, t := range r.Tolerated {
		text += fmt.Sprintf(
			", %s differs at %d steps, by up to %.3g where that is known", t.Stage, t.Steps,
			float64(t.Abs))
	}
	var missing []string
	for _, stage := range r.Stages {
		switch n := r.Compared[stage]; {
		case n == 0:
			missing = append(missing, stage)
		case r.Lacking[stage] > 0:
			missing = append(missing, fmt.Sprintf("%d of %s", r.Lacking[stage], stage))
		}
	}
	if len(missing) > 0 {
		text += ", not compared: " + strings.Join(missing, ", ")
	}
	if r.Past > 0 {
		text += fmt.Sprintf(", %d steps past the end not compared", r.Past)
	}
	failed := slices.DeleteFunc(
		slices.Clone(r.Rollouts), func(v parity.Verdict) bool { return v.Error == "" })
	if len(failed) > 0 {
		text += fmt.Sprintf(
			", %d end with an error on both sides: %s", len(failed), failed[0].Error)
	}
	return text
}

// Exercised says what of the specification the drives went through, and how near one came
// to another; "" where nobody knows.
func (c *Comparison) Exercised() string {
	if c.Report == nil || c.Report.Exercised == nil {
		return ""
	}
	text := c.Report.Exercised.String()
	if n := c.Report.Exercised.Nearest; n != nil {
		text += "; " + n.String()
	}
	return text
}

// Title names the comparison.
func (c *Comparison) Title() string {
	return strings.TrimSuffix(fmt.Sprintf("%s against %s, %s", c.Got, c.Want, c.Detail), ", ")
}

// Cases are the rollouts of a comparison, or the comparison itself if it has none.
func (c *Comparison) Cases() []CheckCase {
	class := strings.TrimSuffix(strings.Join([]string{c.Kind, c.Got, c.Want, c.Detail}, "."), ".")
	outcome, why := c.judge()
	whole := CheckCase{
		Class:   class,
		Name:    "comparison",
		Outcome: outcome,
		Message: why,
		Lacks:   c.Lacks,
	}
	if outcome == Different {
		whole.Outcome = Failed
	}
	if c.Report == nil || outcome != Equal && outcome != Different {
		return []CheckCase{whole}
	}
	var cases []CheckCase
	failed := false
	for i := range c.Report.Rollouts {
		v := &c.Report.Rollouts[i]
		one := CheckCase{Class: class, Name: v.Name(), Outcome: Passed}
		if v.Findings > 0 || c.Report.Exact && !v.Equal {
			failed = true
			one.Outcome = Failed
			one.Message = fmt.Sprintf("%d findings", v.Findings)
			if v.First != nil {
				one.Message += fmt.Sprintf(
					", the first at step %d, stage %s", v.First.Step, v.First.Stage)
			}
			if d := c.Report.First; d != nil && slices.Equal(d.Key, v.Key) {
				one.Message = d.Error()
			}
		}
		cases = append(cases, one)
	}
	if outcome == Different && !failed { // a budget
		cases = append(cases, whole)
	}
	return cases
}
