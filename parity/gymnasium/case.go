package gymnasium

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"lockstep/classic"
	"lockstep/internal/fileio"
	"lockstep/parity"
	"lockstep/parity/trace"
)

// Episodes are environments from their seeds on: all that their steps are computed from.
type Episodes struct {
	Environment string            `json:"environment"`
	Options     map[string]string `json:"options,omitempty"`
	Num         int               `json:"num"`
	Autoreset   string            `json:"autoreset"`
	NumPy1      bool              `json:"numpy1,omitempty"`
	// of each, or of the generator that they share
	Seeds []int64 `json:"seeds"`
	// of what the reset draws, in place of the environment's own
	Bound float64 `json:"bound,omitempty"`
	Steps int     `json:"steps"`

	// Uniform or Network choose the actions, or they are these, (Steps, Num).
	Uniform *uint64             `json:"uniform,omitempty"`
	Network *classic.Perceptron `json:"network,omitempty"`
	Actions []parity.Float      `json:"actions,omitempty"`
}

// Task is the rollout's.
func (r *Episodes) Task() (classic.Task, error) {
	t, err := classic.Make(r.Environment, r.Num, r.Options)
	if err != nil {
		return t, err
	}
	t.NumPy1 = r.NumPy1
	if t.Autoreset, err = classic.ParseAutoreset(r.Autoreset); err != nil {
		return t, err
	}
	switch want := r.generators(); {
	case len(r.Seeds) != want:
		return t, fmt.Errorf("%s: %d seeds, want %d", t.Name, len(r.Seeds), want)
	case r.Steps < 1:
		return t, fmt.Errorf("%s: %d steps, want 1 at least", t.Name, r.Steps)
	case r.Actions != nil && len(r.Actions) != r.Steps*r.Num:
		return t, fmt.Errorf(
			"%s: %d actions, want %d steps of %d", t.Name, len(r.Actions), r.Steps, r.Num,
		)
	}
	for i, x := range r.Actions {
		if t.Actions > 0 && x != parity.Float(int32(x)) {
			return t, fmt.Errorf(
				"%s: step %d, environment %d: action %g is no integer", t.Name, i/r.Num, i%r.Num,
				float64(x),
			)
		}
	}
	return t, t.Check()
}

// generators is how many of them are seeded.
func (r *Episodes) generators() int {
	if e, err := classic.Find(r.Environment); err == nil && e.Shared {
		return 1
	}
	return r.Num
}

func (r *Episodes) reset(t classic.Task) (reset classic.Reset) {
	if t.Shared {
		reset.Seed = r.Seeds[0]
	} else {
		reset.Seeds = r.Seeds
	}
	if r.Bound > 0 {
		reset.Low, reset.High = slices.Repeat([]float64{-r.Bound}, len(t.Low)),
			slices.Repeat([]float64{r.Bound}, len(t.Low))
	}
	return reset
}

// policy chooses the actions of step k.
func (r *Episodes) policy(t classic.Task, k int) classic.Policy {
	if r.Actions == nil {
		return classic.Policy{Uniform: r.Uniform, Network: r.Network}
	}
	var a classic.Actions
	for _, x := range r.Actions[k*r.Num : (k+1)*r.Num] {
		if t.Actions > 0 {
			a.Discrete = append(a.Discrete, int32(x))
		} else {
			a.Continuous = append(a.Continuous, float32(x))
		}
	}
	return classic.Policy{Recorded: []classic.Actions{a}}
}

// Tasks are the rollout as the only task of a comparison.
func (r *Episodes) Tasks() []parity.RolloutTask {
	name := fmt.Sprintf("%d %s, %s", r.Num, r.Environment, r.Autoreset)
	for _, key := range slices.Sorted(maps.Keys(r.Options)) {
		name += fmt.Sprintf(", %s=%s", key, r.Options[key])
	}
	return []parity.RolloutTask{{Rollout: trace.Rollout{Key: []string{name}}, Job: r}}
}

// Compare holds got to want on the rollout, exactly.
func (r *Episodes) Compare(
	ctx context.Context, want, got classic.Maker, opts parity.CompareOptions,
) (*parity.Report, error) {
	t, err := r.Task()
	if err != nil {
		return nil, err
	}
	view := NewView(t)
	family := parity.Family{}
	family.Branches, family.Watch = watching(t, view)
	return parity.Compare(
		ctx, family, parity.Live(&Adapted{want, view}), parity.Live(&Adapted{got, view}), r.Tasks(),
		opts,
	)
}

// A VectorCase is a rollout on which engines differed, as a JSON file, with what the reference
// computes.
type VectorCase struct {
	parity.Case
	Episodes
	Results []parity.CaseResult `json:"results,omitempty"`
}

// IsCase reports whether a file is a case of this family.
func IsCase(path string) bool {
	var r Episodes
	data, err := fileio.ReadFile(path, fileio.Record)
	return err == nil && json.Unmarshal(data, &r) == nil && r.Environment != ""
}

// LoadCase reads a case.
func LoadCase(path string) (*VectorCase, error) {
	c := &VectorCase{}
	if err := c.Load(path, c); err != nil {
		return nil, err
	}
	if _, err := c.Task(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// Save writes the case to a file in dir named <stage>-<engine>-<what>.json, and sets
// Path.
func (c *VectorCase) Save(dir string) error { return c.Case.Save(dir, c) }

// Compare holds got to want on the case, exactly.
func (c *VectorCase) Compare(ctx context.Context, want, got classic.Maker) (*parity.Report, error) {
	return c.Episodes.Compare(
		ctx, want, got,
		parity.CompareOptions{Replay: func(*parity.RolloutTask) string { return c.Replay() }},
	)
}

// Run is what an engine computes of the case, to be kept in Results or compared with
// them.
func (c *VectorCase) Run(ctx context.Context, e classic.Maker) ([]parity.CaseResult, error) {
	t, err := c.Task()
	if err != nil {
		return nil, err
	}
	return parity.Results(ctx, &Adapted{e, NewView(t)}, c.Tasks())
}

// Check holds results to those of the case, see parity.CheckResults.
func (c *VectorCase) Check(results []parity.CaseResult) (*parity.Report, error) {
	t, err := c.Task()
	if err != nil {
		return nil, err
	}
	return parity.CheckResults(&NewView(t).Schema, c.Tasks(), c.Results, results)
}
