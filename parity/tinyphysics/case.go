package tinyphysics

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"lockstep"
	"lockstep/internal/plain"
	"lockstep/parity"
	"lockstep/policyfile"
)

// maxCaseRows bounds the rows of a route in a file, whose constant columns are one
// number.
const maxCaseRows = 1 << 20

// Models that a case names.
const (
	DefaultModel  = "default"  // the project's own, package defaults
	OfficialModel = "official" // of the challenge
)

// A DriveCase is a comparison as a JSON file that holds all of its input but the network:
// to be shrunk, kept, and replayed on every engine.
type DriveCase struct {
	parity.Case

	Model       string `json:"model"` // DefaultModel, OfficialModel, or a file's name
	ModelSHA256 string `json:"model_sha256"`

	Profile   lockstep.Profile `json:"profile"`
	Shortcuts Shortcuts        `json:"shortcuts"`
	// the most routes in step; 0 is the engine's choice
	Chunk   int `json:"chunk,omitempty"`
	Workers int `json:"workers,omitempty"` // threads; 0 is the engine's choice

	Routes []CaseRoute `json:"routes"`
	Batch  []CaseJob   `json:"batch"` // in the order of the jobs

	// Results are what the reference computes in Profile, for each job.
	Results []parity.CaseResult `json:"results,omitempty"`
}

// CaseRoute is a lockstep.Route.
type CaseRoute struct {
	Name           string     `json:"name"`
	Seed           uint32     `json:"seed"`
	Rows           int        `json:"rows"`
	RollLataccel   CaseColumn `json:"roll_lataccel"`
	VEgo           CaseColumn `json:"v_ego"`
	AEgo           CaseColumn `json:"a_ego"`
	TargetLataccel CaseColumn `json:"target_lataccel"`
	SteerCommand   CaseColumn `json:"steer_command"`
}

// columns are those of the route, in the order of lockstep.Route.Columns.
func (r *CaseRoute) columns() []*CaseColumn {
	return []*CaseColumn{&r.RollLataccel, &r.VEgo, &r.AEgo, &r.TargetLataccel, &r.SteerCommand}
}

// CaseColumn is a column of a route. Its JSON form is an array or, if all values are
// the same, that value.
type CaseColumn []parity.Float

// MarshalJSON writes the array or the value.
func (c CaseColumn) MarshalJSON() ([]byte, error) {
	other := func(x parity.Float) bool {
		return math.Float64bits(float64(x)) != math.Float64bits(float64(c[0]))
	}
	if len(c) == 0 || slices.ContainsFunc(c, other) {
		return json.Marshal(append([]parity.Float{}, c...))
	}
	return json.Marshal(c[0])
}

// UnmarshalJSON reads an array, or a value as a column of one row.
func (c *CaseColumn) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '[' {
		return json.Unmarshal(data, (*[]parity.Float)(c))
	}
	*c = make(CaseColumn, 1)
	return json.Unmarshal(data, &(*c)[0])
}

// CaseJob is one job: a route of the case, and what drives it.
type CaseJob struct {
	Route  int        `json:"route"`
	Policy CasePolicy `json:"policy"`

	// See lockstep.Job.
	Draws    []parity.Float     `json:"draws,omitempty"`
	Sampling *lockstep.Sampling `json:"sampling,omitempty"`
	Expected bool               `json:"expected,omitempty"`
}

// CasePolicy is a policy: of a kind that gains make or that comes from a file, or
// "script" with its steer commands, see Script.
type CasePolicy struct {
	Kind  string         `json:"kind"`
	Gains []parity.Float `json:"gains,omitempty"` // in the order of the kind
	File  []byte         `json:"file,omitempty"`  // what the file holds
	Name  string         `json:"name,omitempty"`
	Steer []parity.Float `json:"steer,omitempty"`
}

// Script is a policy that answers given steer commands: the first at step
// ContextLength, the next at the next, and 0 when there are no more. A DriveCase can hold
// it, as it cannot hold code; see Freeze.
func Script(name string, steer []float64) lockstep.Policy {
	return lockstep.Custom{
		Name: name,
		New:  func() lockstep.Controller { return &player{name: name, steer: steer} },
	}
}

type player struct {
	name  string
	steer []float64
	next  int
}

// Update answers the next command.
func (p *player) Update(_, _ float64, _ lockstep.State, _ lockstep.FuturePlan) float64 {
	if p.next >= len(p.steer) {
		return 0
	}
	p.next++
	return p.steer[p.next-1]
}

// Freeze runs a job, and returns it with a Script of the steer commands that its
// controller gave. Those before ControlStartIdx, which nothing depends on, are 0.
func Freeze(ctx context.Context, sim lockstep.Simulator, job lockstep.Job) (lockstep.Job, error) {
	job.Observe, job.Teacher = nil, nil
	for _, r := range sim.Simulate(ctx, []lockstep.Job{job}, lockstep.Options{
		Shortcuts:  lockstep.FullTrajectory,
		Trajectory: true,
	}) {
		if r.Err != nil {
			return job, r.Err
		}
		steer := slices.Clone(r.Trajectory.Action[lockstep.ContextLength:])
		clear(steer[:lockstep.ControlStartIdx-lockstep.ContextLength])
		job.Policy, job.Sampling = Script(PolicyName(job.Policy), steer), nil
	}
	return job, nil
}

// NewCase makes a case of jobs. It is for the caller to say what broke, and to name
// model and profile. A controller that is code cannot be held.
func NewCase(jobs []lockstep.Job, shortcuts lockstep.Shortcuts) (*DriveCase, error) {
	c := &DriveCase{Shortcuts: Shortcuts(shortcuts)}
	at := map[*lockstep.Route]int{}
	for _, job := range jobs {
		i, ok := at[job.Route]
		if !ok {
			if err := plain.Kept("route", job.Route.Name); err != nil {
				return nil, err
			}
			i = len(c.Routes)
			at[job.Route] = i
			r := CaseRoute{Name: job.Route.Name, Seed: job.Route.Seed, Rows: job.Route.Len()}
			for k, column := range job.Route.Columns() {
				*r.columns()[k] = parity.Floats(*column)
			}
			c.Routes = append(c.Routes, r)
		}
		policy, err := casePolicy(job.Policy)
		if err != nil {
			return nil, fmt.Errorf("route %s: %w", job.Route.Name, err)
		}
		c.Batch = append(
			c.Batch,
			CaseJob{
				Route:    i,
				Policy:   policy,
				Draws:    parity.Floats(job.Draws),
				Sampling: job.Sampling,
				Expected: job.Expected,
			},
		)
	}
	return c, nil
}

func casePolicy(p lockstep.Policy) (CasePolicy, error) {
	switch p := p.(type) {
	case lockstep.Native:
		c := CasePolicy{Kind: p.Kind().String(), Gains: parity.Floats(p.Gains())}
		var err error
		if p.Kind().Info().File != "" {
			c.File, err = policyfile.Marshal(p)
		}
		return c, err
	case lockstep.Custom:
		if s, ok := p.New().(*player); ok {
			return CasePolicy{Kind: "script", Name: s.name, Steer: parity.Floats(s.steer)}, nil
		}
	}
	return CasePolicy{}, fmt.Errorf(
		"controller %s is code, which a case cannot hold: use what Freeze makes of it",
		PolicyName(p),
	)
}

func (p *CasePolicy) policy() (lockstep.Policy, error) {
	if p.Kind == "script" {
		return Script(p.Name, parity.Numbers(p.Steer)), nil
	}
	kind, ok := lockstep.KindOf(p.Kind)
	if !ok {
		return nil, fmt.Errorf(
			"policy %.60q is not known, want script or one of the kinds of policies", p.Kind,
		)
	}
	if ext := kind.Info().File; ext != "" {
		policy, err := policyfile.Unmarshal(p.File, ext)
		if err == nil && policy.Kind() != kind {
			err = fmt.Errorf("a policy of kind %s", policy.Kind())
		}
		if err != nil {
			return nil, fmt.Errorf("the file of policy %s: %w", kind, err)
		}
		return policy, nil
	}
	return kind.New(parity.Numbers(p.Gains))
}

// Jobs are the case's jobs.
func (c *DriveCase) Jobs() ([]lockstep.Job, error) {
	routes := make([]*lockstep.Route, len(c.Routes))
	for i, r := range c.Routes {
		route := &lockstep.Route{Name: r.Name, Seed: r.Seed}
		for k, into := range route.Columns() {
			column := *r.columns()[k]
			switch {
			case r.Rows < lockstep.MinRows || r.Rows > maxCaseRows:
				return nil, fmt.Errorf(
					"route %s: %d rows, want %d to %d", r.Name, r.Rows, lockstep.MinRows,
					maxCaseRows,
				)
			case len(column) == 1:
				*into = slices.Repeat([]float64{float64(column[0])}, r.Rows)
			case len(column) == r.Rows:
				*into = parity.Numbers(column)
			default:
				return nil, fmt.Errorf(
					"route %s: a column of %d values, want %d or one", r.Name, len(column), r.Rows,
				)
			}
		}
		routes[i] = route
	}
	var jobs []lockstep.Job
	files := map[string]lockstep.Policy{} // engines steer rollouts of one network together
	for i, j := range c.Batch {
		if j.Route < 0 || j.Route >= len(routes) {
			return nil, fmt.Errorf("job %d: no route %d", i, j.Route)
		}
		policy, err := j.Policy.policy()
		if err != nil {
			return nil, fmt.Errorf("job %d: %w", i, err)
		}
		if file := string(j.Policy.File); file != "" {
			if files[file] == nil {
				files[file] = policy
			}
			policy = files[file]
		}
		jobs = append(
			jobs,
			lockstep.Job{
				Route:    routes[j.Route],
				Policy:   policy,
				Draws:    parity.Numbers(j.Draws),
				Sampling: j.Sampling,
				Expected: j.Expected,
			},
		)
	}
	if len(jobs) == 0 {
		return nil, errors.New("no jobs")
	}
	return jobs, nil
}

// LoadCase reads a case.
func LoadCase(path string) (*DriveCase, error) {
	c := &DriveCase{}
	if err := c.Load(path, c); err != nil {
		return nil, err
	}
	if _, err := c.Jobs(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// Save writes the case to a file in dir named <stage>-<engine>-<what>.json, and sets
// Path.
func (c *DriveCase) Save(dir string) error { return c.Case.Save(dir, c) }

// Compare holds got to want on the case, exactly.
func (c *DriveCase) Compare(
	ctx context.Context,
	want, got lockstep.Simulator,
) (*parity.Report, error) {
	jobs, err := c.Jobs()
	if err != nil {
		return nil, err
	}
	return Compare(
		ctx, Live(want), Live(got), jobs, lockstep.Shortcuts(c.Shortcuts),
		parity.CompareOptions{
			Replay: func(*parity.RolloutTask) string { return c.Replay() },
		},
	)
}

// tasks are the case's.
func (c *DriveCase) tasks() ([]parity.RolloutTask, error) {
	jobs, err := c.Jobs()
	if err != nil {
		return nil, err
	}
	return Tasks(jobs, lockstep.Shortcuts(c.Shortcuts))
}

// Run is what a simulator computes of the case, to be kept in Results or compared with
// them.
func (c *DriveCase) Run(ctx context.Context, sim lockstep.Simulator) ([]parity.CaseResult, error) {
	tasks, err := c.tasks()
	if err != nil {
		return nil, err
	}
	return parity.Results(ctx, Engine(sim, lockstep.Shortcuts(c.Shortcuts)), tasks)
}

// Check holds results to those of the case, see parity.CheckResults.
func (c *DriveCase) Check(results []parity.CaseResult) (*parity.Report, error) {
	tasks, err := c.tasks()
	if err != nil {
		return nil, err
	}
	return parity.CheckResults(&view.Schema, tasks, c.Results, results)
}

// clone copies a case so that its slices can be changed.
func (c *DriveCase) clone() *DriveCase {
	d := *c
	d.Routes = slices.Clone(c.Routes)
	for i := range d.Routes {
		for _, column := range d.Routes[i].columns() {
			*column = slices.Clone(*column)
		}
	}
	d.Batch = slices.Clone(c.Batch)
	for i := range d.Batch {
		b := &d.Batch[i]
		b.Draws = slices.Clone(b.Draws)
		b.Policy.Gains, b.Policy.Steer = slices.Clone(b.Policy.Gains), slices.Clone(b.Policy.Steer)
	}
	return &d
}
