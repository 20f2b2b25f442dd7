package verdict

import (
	"fmt"
	"slices"
	"time"
)

// Check is what came of one check.
type Check struct {
	Name  string `json:"name"`
	Title string `json:"title"` // one sentence

	Outcome string  `json:"outcome"` // Passed, Failed or NotRun
	Why     string  `json:"why,omitempty"`
	Note    string  `json:"note,omitempty"` // on what it covers, whatever its outcome
	Seconds float64 `json:"seconds"`
	Command string  `json:"command,omitempty"` // that repeats it

	Cases       []CheckCase  `json:"cases"`
	Comparisons []Comparison `json:"comparisons,omitempty"`
	Mutants     []Mutant     `json:"mutants,omitempty"`

	// Output is the end of what a check that failed as a whole printed.
	Output string `json:"output,omitempty"`
}

// CheckCase is a part of a check, such as one test or one rollout of a comparison.
type CheckCase struct {
	Class   string  `json:"class"`
	Name    string  `json:"name"`
	Outcome string  `json:"outcome"` // Passed, Failed, NotRun or NotApplicable
	Lacks   string  `json:"lacks,omitempty"`
	Message string  `json:"message,omitempty"`
	Seconds float64 `json:"seconds,omitempty"`
}

// Count is how many cases have that outcome.
func (c *Check) Count(outcome string) (n int) {
	for i := range c.Cases {
		if c.Cases[i].Outcome == outcome {
			n++
		}
	}
	return n
}

// Failures are the cases that failed, in words.
func (c *Check) Failures() (all []string) {
	for _, k := range c.Cases {
		if k.Outcome == Failed {
			all = append(all, k.Class+" "+k.Name+": "+k.Message)
		}
	}
	return all
}

// Mutant is a planted fault and what the harness said to it.
type Mutant struct {
	Name     string  `json:"name"`
	Title    string  `json:"title"`
	Engine   string  `json:"engine"`
	Stage    string  `json:"stage"` // that the fault is in
	Caught   bool    `json:"caught"`
	Named    string  `json:"named,omitempty"` // the stage in which the harness saw it
	Right    bool    `json:"right"`           // Named is Stage
	Rollouts int     `json:"rollouts"`
	Steps    int     `json:"steps"`
	Seconds  float64 `json:"seconds"`
	Error    string  `json:"error,omitempty"` // why it could not be tried
}

// Judge sets the outcome: Passed only if nothing failed, nothing that is required was
// skipped, and something was run.
func (c *Check) Judge(err error, require []string) {
	for i := range c.Cases {
		k := &c.Cases[i]
		if k.Outcome == NotRun && k.Lacks != "" && slices.Contains(require, k.Lacks) {
			k.Outcome = Failed
			k.Message = fmt.Sprintf("skipped, and %s is required: %s", k.Lacks, k.Message)
		}
	}
	failed, passed := c.Count(Failed), c.Count(Passed)
	c.Outcome = Failed
	switch {
	case err != nil:
		c.Why = err.Error()
	case failed > 0:
		c.Why = fmt.Sprintf("%d of %d cases failed", failed, failed+passed)
	case passed == 0 && len(c.Cases) > 0:
		c.Why = "no case was run: " + c.Cases[0].Message
	case passed == 0:
		c.Why = "no case was run"
	default:
		c.Outcome = Passed
	}
}

// Change is what differs from a base revision.
type Change struct {
	Base      string `json:"base,omitempty"`       // as it was asked for
	MergeBase string `json:"merge_base,omitempty"` // commit that the files are compared with
	Head      string `json:"head,omitempty"`       // commit that is checked out
	// that differ, committed or not, from the module's root
	Files []string `json:"files"`

	// Everything says whether every engine is checked, and Why is the reason.
	Everything bool   `json:"everything"`
	Why        string `json:"why"`

	// Documentation says whether nothing but documentation differs.
	Documentation bool `json:"documentation"`

	// Engines are the implementations that the change may concern.
	Engines []string `json:"engines"`

	// Packages are the folders of the packages whose tests it may concern, or "./...".
	Packages []string `json:"packages"`
}

// GateResult is the outcome of the gate.
type GateResult struct {
	Passed          bool      `json:"passed"`
	Verdict         string    `json:"verdict"` // one sentence
	Change          Change    `json:"change"`
	Require         []string  `json:"require"`
	RequireHardware bool      `json:"require_hardware"`
	Engines         []string  `json:"engines"`
	Checks          []Check   `json:"checks"`
	Start           time.Time `json:"start"`
	Seconds         float64   `json:"seconds"`
	Machine         string    `json:"machine"`
	Go              string    `json:"go"`
}

// Judge sets the verdict.
func (r *GateResult) Judge() {
	n := map[string]int{}
	for i := range r.Checks {
		n[r.Checks[i].Outcome]++
	}
	r.Passed = n[Failed] == 0 && n[Passed] > 0
	switch {
	case n[Failed] > 0:
		r.Verdict = fmt.Sprintf("blocked: %d of %d checks failed", n[Failed], n[Failed]+n[Passed])
	case !r.Passed:
		r.Verdict = "blocked: no check was run"
	case r.Change.Documentation:
		r.Verdict = "passed: only documentation differs, nothing was compared"
	default:
		r.Verdict = fmt.Sprintf("passed: %d checks", n[Passed])
	}
}
