package parity

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"lockstep"
	"lockstep/internal/fileio"
	"lockstep/parity/trace"
)

// caseFormat is the version of the files.
const caseFormat = 1

// maxCaseRows bounds the rows of a route in a file, whose constant columns are one
// number.
const maxCaseRows = 1 << 20

// Models that a case names.
const (
	DefaultModel  = "default"  // the project's own, package defaults
	OfficialModel = "official" // of the challenge
)

// A Case is a comparison as a JSON file that holds all of its input but the network:
// to be shrunk, kept, and replayed on every engine.
type Case struct {
	Format int    `json:"format"`
	What   string `json:"what"`   // what broke, a few words
	Stage  Stage  `json:"stage"`  // that was at fault
	Engine string `json:"engine"` // that was at fault
	Notes  string `json:"notes,omitempty"`

	Model       string `json:"model"` // DefaultModel, OfficialModel, or a file's name
	ModelSHA256 string `json:"model_sha256"`

	Profile   lockstep.Profile `json:"profile"`
	Shortcuts trace.Shortcuts  `json:"shortcuts"`
	Chunk     int              `json:"chunk,omitempty"`   // the most routes in step; 0 is the engine's choice
	Workers   int              `json:"workers,omitempty"` // threads; 0 is the engine's choice

	Routes []CaseRoute `json:"routes"`
	Batch  []CaseJob   `json:"batch"` // in the order of the jobs

	// Results are what the reference computes in Profile, for each job.
	Results []CaseResult `json:"results,omitempty"`

	Path string `json:"-"` // of the file, if there is one
}

// CaseRoute is a route.
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

// columns are those of the route, in the order of golden.RouteColumns.
func (r *CaseRoute) columns() []*CaseColumn {
	return []*CaseColumn{&r.RollLataccel, &r.VEgo, &r.AEgo, &r.TargetLataccel, &r.SteerCommand}
}

// CaseColumn is a column of a route. Its JSON form is an array or, if all values are
// the same, that value.
type CaseColumn []Float

// MarshalJSON writes the array or the value.
func (c CaseColumn) MarshalJSON() ([]byte, error) {
	for _, x := range c {
		if math.Float64bits(float64(x)) != math.Float64bits(float64(c[0])) {
			return json.Marshal([]Float(c))
		}
	}
	if len(c) == 0 {
		return []byte("[]"), nil
	}
	return json.Marshal(c[0])
}

// UnmarshalJSON reads an array, or a value as a column of one row.
func (c *CaseColumn) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '[' {
		return json.Unmarshal(data, (*[]Float)(c))
	}
	*c = make(CaseColumn, 1)
	return json.Unmarshal(data, &(*c)[0])
}

// CaseJob is one job: a route of the case, and what drives it.
type CaseJob struct {
	Route  int        `json:"route"`
	Policy CasePolicy `json:"policy"`
	Draws  []Float    `json:"draws,omitempty"` // see lockstep.Job
}

// CasePolicy is a policy: of a kind that gains make, or "script" with its steer
// commands, see Script.
type CasePolicy struct {
	Kind  string  `json:"kind"`
	Gains []Float `json:"gains,omitempty"` // in the order of the kind
	Name  string  `json:"name,omitempty"`
	Steer []Float `json:"steer,omitempty"`
}

// CaseResult is what a job came to.
type CaseResult struct {
	Hash  trace.Hex `json:"hash"`            // of all stages of all steps, see trace.Hash.Roll (xxh64)
	Costs []Float   `json:"costs,omitempty"` // lataccel, jerk, total
	Error bool      `json:"error,omitempty"`
}

// Script is a policy that answers given steer commands: the first at step
// ContextLength, the next at the next, and 0 when there are no more. A Case can hold
// it, as it cannot hold code; see Freeze.
func Script(name string, steer []float64) lockstep.Policy {
	return lockstep.Custom{Name: name, New: func() lockstep.Controller { return &player{name: name, steer: steer} }}
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
	for _, r := range sim.Simulate(ctx, []lockstep.Job{job}, lockstep.Options{Shortcuts: lockstep.FullTrajectory, Trajectory: true}) {
		if r.Err != nil {
			return job, r.Err
		}
		steer := slices.Clone(r.Trajectory.Action[lockstep.ContextLength:])
		clear(steer[:lockstep.ControlStartIdx-lockstep.ContextLength])
		job.Policy = Script(trace.PolicyName(job.Policy), steer)
	}
	return job, nil
}

// NewCase makes a case of jobs. It is for the caller to say what broke, and to name
// model and profile. A controller that is code cannot be held.
func NewCase(jobs []lockstep.Job, shortcuts lockstep.Shortcuts) (*Case, error) {
	c := &Case{Format: caseFormat, Shortcuts: trace.Shortcuts(shortcuts)}
	at := map[*lockstep.Route]int{}
	for _, job := range jobs {
		i, ok := at[job.Route]
		if !ok {
			i = len(c.Routes)
			at[job.Route] = i
			r := job.Route
			c.Routes = append(c.Routes, CaseRoute{
				Name: r.Name, Seed: r.Seed, Rows: r.Len(),
				RollLataccel: floats(r.RollLataccel), VEgo: floats(r.VEgo), AEgo: floats(r.AEgo),
				TargetLataccel: floats(r.TargetLataccel), SteerCommand: floats(r.SteerCommand),
			})
		}
		policy, err := casePolicy(job.Policy)
		if err != nil {
			return nil, fmt.Errorf("route %s: %w", job.Route.Name, err)
		}
		j := CaseJob{Route: i, Policy: policy}
		if job.Draws != nil {
			j.Draws = floats(job.Draws)
		}
		c.Batch = append(c.Batch, j)
	}
	return c, nil
}

func casePolicy(p lockstep.Policy) (CasePolicy, error) {
	switch p := p.(type) {
	case lockstep.Zero, lockstep.PID, lockstep.PIDFF:
		return CasePolicy{Kind: p.(lockstep.Native).Kind().String(), Gains: floats(lockstep.GainsOf(p))}, nil
	case lockstep.Custom:
		if s, ok := p.New().(*player); ok {
			return CasePolicy{Kind: "script", Name: s.name, Steer: floats(s.steer)}, nil
		}
	}
	return CasePolicy{}, fmt.Errorf("controller %s is code, which a case cannot hold: use what Freeze makes of it", trace.PolicyName(p))
}

func (p *CasePolicy) policy() (lockstep.Policy, error) {
	if p.Kind == "script" {
		return Script(p.Name, unfloats(p.Steer)), nil
	}
	kind, ok := lockstep.KindOf(p.Kind)
	if !ok {
		return nil, fmt.Errorf("policy %.60q is not known, want script or a kind of policy that gains make", p.Kind)
	}
	return kind.New(unfloats(p.Gains))
}

// Jobs are the case's jobs.
func (c *Case) Jobs() ([]lockstep.Job, error) {
	routes := make([]*lockstep.Route, len(c.Routes))
	for i, r := range c.Routes {
		route := &lockstep.Route{Name: r.Name, Seed: r.Seed}
		for k, into := range []*[]float64{&route.RollLataccel, &route.VEgo, &route.AEgo, &route.TargetLataccel, &route.SteerCommand} {
			column := *r.columns()[k]
			switch {
			case r.Rows < lockstep.MinRows || r.Rows > maxCaseRows:
				return nil, fmt.Errorf("route %s: %d rows, want %d to %d", r.Name, r.Rows, lockstep.MinRows, maxCaseRows)
			case len(column) == 1:
				*into = slices.Repeat([]float64{float64(column[0])}, r.Rows)
			case len(column) == r.Rows:
				*into = unfloats(column)
			default:
				return nil, fmt.Errorf("route %s: a column of %d values, want %d or one", r.Name, len(column), r.Rows)
			}
		}
		routes[i] = route
	}
	var jobs []lockstep.Job
	for i, j := range c.Batch {
		if j.Route < 0 || j.Route >= len(routes) {
			return nil, fmt.Errorf("job %d: no route %d", i, j.Route)
		}
		policy, err := j.Policy.policy()
		if err != nil {
			return nil, fmt.Errorf("job %d: %w", i, err)
		}
		job := lockstep.Job{Route: routes[j.Route], Policy: policy}
		if j.Draws != nil {
			job.Draws = unfloats(j.Draws)
		}
		jobs = append(jobs, job)
	}
	if len(jobs) == 0 {
		return nil, errors.New("no jobs")
	}
	return jobs, nil
}

// LoadCase reads a case.
func LoadCase(path string) (*Case, error) {
	data, err := fileio.ReadFile(path, fileio.Record)
	if err != nil {
		return nil, err
	}
	c := &Case{Path: path}
	if err := json.Unmarshal(data, c); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if c.Format != caseFormat {
		return nil, fmt.Errorf("%s: format version %d, want %d", path, c.Format, caseFormat)
	}
	if _, err := c.Jobs(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if n := len(c.Results); n != 0 && n != len(c.Batch) {
		return nil, fmt.Errorf("%s: results of %d jobs, there are %d", path, n, len(c.Batch))
	}
	return c, nil
}

// LoadCases reads a case, or all that are in a folder, in the order of their names.
func LoadCases(path string) ([]*Case, error) {
	files := []string{path}
	if info, err := os.Stat(path); err != nil {
		return nil, err
	} else if info.IsDir() {
		if files, err = filepath.Glob(filepath.Join(path, "*.json")); err != nil {
			return nil, err
		}
	}
	var cases []*Case
	for _, file := range files {
		c, err := LoadCase(file)
		if err != nil {
			return nil, err
		}
		cases = append(cases, c)
	}
	return cases, nil
}

// Save writes the case to a file in dir named <stage>-<engine>-<what>.json, and sets
// Path.
func (c *Case) Save(dir string) error {
	var words []string
	for _, text := range []string{c.Stage.String(), c.Engine, c.What} {
		word := strings.Trim(strings.Map(func(r rune) rune {
			switch {
			case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
				return r
			case 'A' <= r && r <= 'Z':
				return r - 'A' + 'a'
			}
			return '-'
		}, text), "-")
		for strings.Contains(word, "--") {
			word = strings.ReplaceAll(word, "--", "-")
		}
		if word != "" {
			words = append(words, word)
		}
	}
	name := strings.Join(words, "-")
	path := filepath.Join(dir, name[:min(len(name), 120)]+".json")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	if err := fileio.Write(path, c.write); err != nil {
		return err
	}
	c.Path = path
	return nil
}

// write writes JSON, indented but for arrays, which take one line each.
func (c *Case) write(w io.Writer) error {
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	var out strings.Builder
	depth, text := 0, false
	object := []bool{} // of each open bracket
	line := func() { out.WriteString("\n" + strings.Repeat("  ", depth)) }
	for i, b := range data {
		if text {
			out.WriteByte(b)
			text = b != '"' || escaped(data[:i])
			continue
		}
		switch b {
		case '"':
			text = true
			out.WriteByte(b)
		case '{', '[':
			// Arrays of objects take a line for each, others are one line.
			wide := b == '{' || i+1 < len(data) && data[i+1] == '{'
			object = append(object, wide)
			out.WriteByte(b)
			if wide {
				depth++
				line()
			}
		case '}', ']':
			if object[len(object)-1] {
				depth--
				line()
			}
			object = object[:len(object)-1]
			out.WriteByte(b)
		case ',':
			out.WriteByte(b)
			if object[len(object)-1] {
				line()
			} else {
				out.WriteByte(' ')
			}
		case ':':
			out.WriteString(": ")
		default:
			out.WriteByte(b)
		}
	}
	_, err = io.WriteString(w, out.String()+"\n")
	return err
}

// escaped tells whether what follows is escaped by a backslash.
func escaped(before []byte) bool {
	n := 0
	for n < len(before) && before[len(before)-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}

// Replay is the command that replays the case, "" if it has no file.
func (c *Case) Replay() string {
	if c.Path == "" {
		return ""
	}
	return "lockstep parity --replay " + c.Path
}

// Compare holds got to want on the case, exactly.
func (c *Case) Compare(ctx context.Context, want, got Source) (*Report, error) {
	jobs, err := c.Jobs()
	if err != nil {
		return nil, err
	}
	return Compare(ctx, want, got, jobs, CompareOptions{
		Shortcuts: lockstep.Shortcuts(c.Shortcuts),
		Replay:    func(lockstep.Job) string { return c.Replay() },
	})
}

// Run is what a simulator computes of the case, to be kept in Results or compared with
// them.
func (c *Case) Run(ctx context.Context, sim lockstep.Simulator) ([]CaseResult, error) {
	jobs, err := c.Jobs()
	if err != nil {
		return nil, err
	}
	rolling := make([]uint64, len(jobs))
	for i := range jobs {
		var step trace.Step
		jobs[i].Observe = func(s *lockstep.Step) {
			step.Of(s, trace.XXH64)
			rolling[i] = trace.XXH64.Roll(rolling[i], &step.Digest)
		}
	}
	results := make([]CaseResult, len(jobs))
	for i, r := range sim.Simulate(ctx, jobs, lockstep.Options{Shortcuts: lockstep.Shortcuts(c.Shortcuts)}) {
		results[i] = CaseResult{Hash: trace.Hex(rolling[i]), Error: r.Err != nil}
		if r.Err == nil {
			results[i].Costs = floats([]float64{r.Costs.Lataccel, r.Costs.Jerk, r.Costs.Total})
		}
	}
	return results, ctx.Err()
}

// Check compares results with those of the case, and returns the first difference as
// an error.
func (c *Case) Check(results []CaseResult) error {
	for i, want := range c.Results {
		name := func() string { return c.Routes[c.Batch[i].Route].Name }
		switch {
		case i >= len(results):
			return fmt.Errorf("job %d, route %s: no result", i, name())
		case want.Error != results[i].Error:
			return fmt.Errorf("job %d, route %s: an error: %v, want %v", i, name(), results[i].Error, want.Error)
		case want.Hash != results[i].Hash:
			return fmt.Errorf("job %d, route %s: stages of hash %016x, want %016x", i, name(), uint64(results[i].Hash), uint64(want.Hash))
		case len(want.Costs) == 3 && len(results[i].Costs) == 3:
			costs := func(c []Float) lockstep.Costs {
				return lockstep.Costs{Lataccel: float64(c[0]), Jerk: float64(c[1]), Total: float64(c[2])}
			}
			if d := diffCosts(costs(want.Costs), costs(results[i].Costs)); d != nil {
				d.Route, d.Step, d.Stage = name(), -1, Cost
				return d
			}
		}
	}
	return nil
}
