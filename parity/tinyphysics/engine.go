package tinyphysics

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"

	"lockstep"
	"lockstep/golden"
	"lockstep/parity"
	"lockstep/parity/branches"
	"lockstep/parity/schema"
	"lockstep/parity/trace"
)

// Compare holds got to want on those jobs, whose Observe it sets itself, and their
// Teacher where it forces a side and they have none, with live engines taking these shortcuts; see
// parity.Compare.
func Compare(
	ctx context.Context, want, got parity.Side, jobs []lockstep.Job, shortcuts lockstep.Shortcuts,
	opts parity.CompareOptions,
) (*parity.Report, error) {
	tasks, err := Tasks(jobs, shortcuts)
	if err != nil {
		return nil, err
	}
	family := parity.Family{
		Schema:   Schema(shortcuts),
		Explain:  explain,
		Element:  element,
		Plot:     plot,
		Branches: branches.TinyPhysics(),
		Watch:    watch,
	}
	if jobs == nil {
		tasks = nil
	}
	return parity.Compare(ctx, family, want, got, tasks, opts)
}

// CompareTraces holds one trace to another, all rollouts of both: as traces of this simulator
// if want is one, and of any other with what its schema says.
func CompareTraces(
	ctx context.Context, want, got *trace.File, opts parity.CompareOptions,
) (*parity.Report, error) {
	a, err := os.Stat(want.Name)
	b, err2 := os.Stat(got.Name)
	if err == nil && err2 == nil && os.SameFile(a, b) {
		return nil, fmt.Errorf(
			"%s and %s are one file: nothing would be proved", want.Name, got.Name,
		)
	}
	if a, b := want.Header.ModelSHA256, got.Header.ModelSHA256; a != "" && b != "" && a != b {
		return nil, fmt.Errorf("%s is of the network %s, %s of %s", want.Name, a, got.Name, b)
	}
	if want.Header.Schema.Name == view.Name {
		return Compare(ctx, parity.Traced(want), parity.Traced(got), nil, lockstep.AllSteps, opts)
	}
	return parity.Compare(ctx, parity.Family{}, parity.Traced(want), parity.Traced(got), nil, opts)
}

// job is the Job of a task.
type job struct {
	lockstep.Job
	shortcuts lockstep.Shortcuts
}

// Tasks are the tasks of some jobs.
func Tasks(jobs []lockstep.Job, shortcuts lockstep.Shortcuts) ([]parity.RolloutTask, error) {
	tasks := []parity.RolloutTask{}
	for _, j := range jobs {
		if j.Route == nil {
			return nil, errors.New("a job without a route")
		}
		if n := len(j.Route.SteerCommand); n < lockstep.ControlStartIdx {
			return nil, fmt.Errorf(
				"route %s: %d steer commands, want %d at least", j.Route.Name, n,
				lockstep.ControlStartIdx,
			)
		}
		j.Observe = nil
		tasks = append(tasks, parity.RolloutTask{Rollout: Of(j), Job: job{j, shortcuts}})
	}
	return tasks, nil
}

// Of describes a job.
func Of(j lockstep.Job) trace.Rollout {
	r := rollout(
		j.Route.Name, PolicyName(j.Policy), j.Route.Len(), j.Route.Seed, golden.HashRoute(j.Route),
	)
	if n, ok := j.Policy.(*lockstep.Network); ok && n.Sees != nil {
		r.Inputs[declared] = fmt.Sprintf("%d numbers", len(n.Sees))
	}
	return r
}

// declared is the input that tells a rollout's observation to be another than most networks'.
const declared = "declared observation"

// element names a value by what the rollout's own network sees, where that is known.
func element(t *parity.RolloutTask, g *schema.Stage, index int) string {
	if g.Name != Observation {
		return g.Element(index)
	}
	if own, ok := t.Job.(job); ok {
		if n, ok := own.Policy.(*lockstep.Network); ok && n.Sees != nil {
			return n.Sees[index].String()
		}
	}
	if t.Inputs[declared] != "" {
		return ""
	}
	return g.Element(index)
}

func rollout(route, policy string, rows int, seed uint32, columns [5]uint64) trace.Rollout {
	r := trace.Rollout{
		Key:    []string{route, policy},
		Inputs: map[string]string{"rows": strconv.Itoa(rows), "seed": strconv.Itoa(int(seed))},
	}
	for i, name := range golden.RouteColumns() {
		r.Inputs[name] = "of hash " + trace.Hex(columns[i]).String()
	}
	return r
}

// PolicyName is the policy's name; no policy has none.
func PolicyName(p lockstep.Policy) string {
	if p == nil {
		return ""
	}
	return p.String()
}

// Named is the policy of which a recorded rollout says the name. By another name than engines give
// it, such as pid_3.0_0_0 for pid_3_0_0, it would be found on one side alone.
func Named(name string) (lockstep.Native, error) {
	p, err := lockstep.ParsePolicy(name)
	if err == nil && p.String() != name {
		err = fmt.Errorf("controller %.60q is recorded by another name than engines have: "+
			"want %s", name, p)
	}
	return p, err
}

// Live makes a source of a simulator. One that says that it keeps one core busy is called
// from all of them.
func Live(sim lockstep.Simulator) *parity.LiveSource {
	l := parity.Live(Engine(sim, 0))
	// Not what is wrapped around such a one: it need not allow it, and says nothing of itself.
	if d, ok := sim.(lockstep.Describer); ok && d.About().OneCore {
		l.Parallel = runtime.GOMAXPROCS(0)
	}
	return l
}

// Engine makes an engine of a simulator, for traces of rollouts with these shortcuts.
func Engine(sim lockstep.Simulator, shortcuts lockstep.Shortcuts) parity.Adapter {
	return &engine{sim: sim, schema: Schema(shortcuts)}
}

type engine struct {
	sim    lockstep.Simulator
	schema *schema.Schema

	mutex    sync.Mutex
	computed []string // names of what has computed rollouts
}

func (e *engine) Info() parity.SideInfo {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	return parity.SideInfo{
		Name:     e.sim.Name(),
		Profile:  e.sim.Profile().String(),
		Computed: slices.Clone(e.computed),
	}
}

// learn keeps the names of what has computed rollouts.
func (e *engine) learn(names []string) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	e.computed = slices.Compact(slices.Sorted(slices.Values(append(e.computed, names...))))
}

func (e *engine) Schema() *schema.Schema { return e.schema }

func (e *engine) Run(
	ctx context.Context, tasks []parity.RolloutTask, observe func(i int, s *schema.Step),
) iter.Seq2[int, parity.End] {
	jobs := make([]lockstep.Job, len(tasks))
	options := lockstep.Options{}
	for i, t := range tasks {
		own, to := t.Job.(job), e.schema.NewStep()
		jobs[i], options.Shortcuts = own.Job, own.shortcuts
		if t.Teacher != nil && own.Teacher == nil {
			jobs[i].Teacher = taught(own.Route, t.Teacher)
		}
		jobs[i].Observe = func(s *lockstep.Step) {
			Expose(s, to)
			observe(i, to)
		}
	}
	return func(yield func(int, parity.End) bool) {
		ctx, computed := lockstep.WithComputing(ctx)
		defer func() { e.learn(computed()) }()
		for i, r := range e.sim.Simulate(ctx, jobs, options) {
			end := parity.End{Err: r.Err}
			if r.Err == nil {
				end.Outcome = Outcome(r.Costs)
			}
			if !yield(i, end) {
				return
			}
		}
	}
}

// Outcome is what a rollout comes to.
func Outcome(c lockstep.Costs) []float64 { return []float64{c.Lataccel, c.Jerk, c.Total} }

// taught is a teacher's trajectory, from step 0 on.
func taught(r *lockstep.Route, t *parity.Teacher) *lockstep.Trajectory {
	return &lockstep.Trajectory{
		Target: r.TargetLataccel,
		Lataccel: slices.Concat(
			r.TargetLataccel[:lockstep.ContextLength], parity.Taught[float64](t, Lataccel),
		),
		Action: slices.Concat(
			r.SteerCommand[:lockstep.ContextLength], parity.Taught[float64](t, Action),
		),
	}
}

// shortcutNames are the words for shortcuts in files, in the order of their bits.
var shortcutNames = []string{"skip_warmup", "stop_at_cost_end", "last_position"}

// Words are the words for shortcuts in files, and ParseShortcuts is the inverse.
func Words(s lockstep.Shortcuts) []string {
	words := []string{}
	for bit, name := range shortcutNames {
		if s>>bit&1 == 1 {
			words = append(words, name)
		}
	}
	return words
}

// ParseShortcuts reads words for shortcuts.
func ParseShortcuts(words []string) (s lockstep.Shortcuts, err error) {
	for _, word := range words {
		bit := slices.Index(shortcutNames, word)
		if bit < 0 {
			return 0, fmt.Errorf("shortcut %.60q is not known", word)
		}
		s |= 1 << bit
	}
	return s, nil
}

// Shortcuts are lockstep.Shortcuts whose JSON form is a list of words.
type Shortcuts lockstep.Shortcuts

// MarshalJSON writes the words.
func (s Shortcuts) MarshalJSON() ([]byte, error) {
	return json.Marshal(Words(lockstep.Shortcuts(s)))
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (s *Shortcuts) UnmarshalJSON(data []byte) error {
	var words []string
	if err := json.Unmarshal(data, &words); err != nil {
		return err
	}
	parsed, err := ParseShortcuts(words)
	*s = Shortcuts(parsed)
	return err
}
