package lockstep

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A Policy says which controller drives a job. Every engine computes the policies
// of the Kinds itself; Custom and *Batch run any Go code.
type Policy interface {
	// String is the policy's name in reports and file names. Policies of equal
	// names are equal.
	String() string
	policy()
}

// A Native policy is of a kind that every engine computes itself.
type Native interface {
	Policy
	Kind() Kind
	Gains() []float64 // in the order of its kind; nil if it has none
}

// Kind is the number of a kind of native policy: its place in Kinds, and what a
// device is told.
type Kind int

const (
	KindZero Kind = iota
	KindPID
	KindPIDFF
	KindNetwork
	KindTable
)

// KindInfo is a kind's row. Command line, files, cases, recordings, devices, searches and
// the Python package know of a kind what stands here; what computes it is in the engines.
type KindInfo struct {
	Name   string
	Gains  []Gain   // in order
	Memory []string // names of the numbers that it remembers from step to step, all 0 at first

	// File is the extension of the file that holds the parameters of a kind
	// without gains; package policyfile reads it.
	File string

	// Default is what the kind's name alone stands for, or nil.
	Default Native

	// New makes a policy of as many gains as there are; nil for a kind that has a File.
	New func(gains []float64) Native
}

// Gain is a number of a policy, and where a search for it begins, how wide, and what
// bounds it.
type Gain struct {
	Name                    string
	Start, Width, Low, High float64
}

// free is a gain that nothing bounds.
func free(name string, start, width float64) Gain {
	return Gain{name, start, width, math.Inf(-1), math.Inf(1)}
}

// kinds are all kinds of native policies: a row for each constant.
var kinds = [...]KindInfo{
	KindZero: {Name: "zero", Default: Zero{}, New: func([]float64) Native { return Zero{} }},
	KindPID: {
		Name:    "pid",
		Gains:   []Gain{free("P", 0.195, 0.1), free("I", 0.1, 0.05), free("D", -0.053, 0.08)},
		Memory:  []string{"integral", "error"},
		Default: DefaultPID(),
		New:     func(g []float64) Native { return PID{g[0], g[1], g[2]} },
	},
	KindPIDFF: {
		Name: "pidff",
		Gains: []Gain{
			free("P", 0.195, 0.1), free("I", 0.1, 0.05), free("D", -0.053, 0.08),
			free("ff0", 0, 0.15), free("ff1", 0, 0.15), free("ff2", 0, 0.15), free("ff3", 0, 0.15),
			free("ffv", 0, 0.2), {"smooth", 0.1, 0.2, 0, 0.95}, {"leak", 0.02, 0.03, 0, 0.5},
		},
		Memory: []string{"integral", "error", "command"},
		New: func(g []float64) Native {
			return PIDFF{g[0], g[1], g[2], [4]float64(g[3:7]), g[7], g[8], g[9]}
		},
	},
	KindNetwork: {Name: "network", File: ".onnx"},
	KindTable:   {Name: "table", File: ".json"},
}

// Kinds are all kinds of native policies, in the order of their numbers. They are the caller's own.
func Kinds() (all []KindInfo) {
	for k := range kinds {
		all = append(all, Kind(k).Info())
	}
	return all
}

// Info is the kind's row, the caller's own.
func (k Kind) Info() KindInfo {
	info := kinds[k]
	info.Gains, info.Memory = slices.Clone(info.Gains), slices.Clone(info.Memory)
	return info
}

// GainNames are the names of the kind's gains, in order.
func (k KindInfo) GainNames() (names []string) {
	for _, g := range k.Gains {
		names = append(names, g.Name)
	}
	return names
}

func (k Kind) String() string {
	if k < 0 || int(k) >= len(kinds) {
		return fmt.Sprintf("kind %d", int(k))
	}
	return kinds[k].Name
}

// KindOf finds a kind by its name.
func KindOf(name string) (Kind, bool) {
	i := slices.IndexFunc(kinds[:], func(k KindInfo) bool { return k.Name == name })
	return Kind(i), i >= 0
}

// New makes a policy of a kind with gains, which may be any numbers.
func (k Kind) New(gains []float64) (Native, error) {
	if k < 0 || int(k) >= len(kinds) {
		return nil, fmt.Errorf("no kind of policy %d", int(k))
	}
	info := &kinds[k]
	if info.New == nil {
		return nil, fmt.Errorf(
			"a policy of kind %s comes from a file (%s), not from gains", info.Name, info.File,
		)
	}
	if len(gains) != len(info.Gains) {
		return nil, fmt.Errorf(
			"%s: %d gains, want %d%s", info.Name, len(gains), len(info.Gains),
			parenthesis(info.GainNames()),
		)
	}
	return info.New(gains), nil
}

func parenthesis(words []string) string {
	if len(words) == 0 {
		return ""
	}
	return " (" + strings.Join(words, ",") + ")"
}

// ParsePolicy is the native policy of a name that its String can have given: zero,
// pid, or a kind and its gains, as in pid_0.3_0.05_-0.1.
func ParsePolicy(name string) (Native, error) {
	words := strings.Split(name, "_")
	k, ok := KindOf(words[0])
	if !ok || kinds[k].New == nil {
		return nil, fmt.Errorf(
			"policy %.60q is not known, want one of %s", name, strings.Join(gainKinds(), ", "),
		)
	}
	if p := kinds[k].Default; len(words) == 1 && p != nil {
		return p, nil
	}
	gains, err := parseGains(k, words[1:])
	if err != nil {
		return nil, fmt.Errorf("policy %.60q: %w", name, err)
	}
	return k.New(gains)
}

// ParseGains makes a policy of a kind with gains that are separated by commas.
func (k Kind) ParseGains(text string) (Native, error) {
	gains, err := parseGains(k, strings.Split(text, ","))
	if err != nil {
		return nil, fmt.Errorf("%.60q: %w", text, err)
	}
	return k.New(gains)
}

func parseGains(k Kind, words []string) ([]float64, error) {
	names := kinds[k].GainNames()
	if len(words) != len(names) {
		return nil, fmt.Errorf(
			"want the %d gains of %s: %s", len(names), k, strings.Join(names, ","),
		)
	}
	gains := make([]float64, len(words))
	for i, word := range words {
		x, err := strconv.ParseFloat(strings.TrimSpace(word), 64)
		if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
			return nil, fmt.Errorf("gain %s is %.30q, want a finite number", names[i], word)
		}
		gains[i] = x
	}
	return gains, nil
}

// gainKinds are the names of the kinds that gains make.
func gainKinds() (names []string) {
	for _, k := range kinds {
		if k.New != nil {
			names = append(names, k.Name)
		}
	}
	return names
}

// Zero is the controller that always answers 0.
type Zero struct{}

// PID is the challenge's PID controller with its three gains.
type PID struct{ P, I, D float64 }

// DefaultPID is the challenge's own PID controller.
func DefaultPID() PID { return PID{P: 0.195, I: 0.100, D: -0.053} }

// PIDFF is a PID controller with feed-forward from the plan. With the target T, the
// lataccel L after the previous step, and state and plan of this step it answers
//
//	e = T - L;  integral = integral·(1-leak) + e;  d = e - e before
//	ff = FF[0]·(T - roll) + Σ FF[k]·(mean of the plan's lataccel in band k - T)
//	ff = ff·(1 + FFV·(20/max(v, 5) - 1))
//	u = P·e + I·integral + D·d + ff
//	u = clip(before + (1-smooth)·(u - before), ±2)
//
// where before is the last u. ARITHMETIC.md has the order of its operations.
type PIDFF struct {
	P, I, D float64
	FF      [4]float64 // of the target, and of the bands PlanBands
	FFV     float64    // of the speed
	Smooth  float64    // 0: answers at once
	Leak    float64    // of the integral, a step
}

// PlanBands are the rows of the plan that FF[1] to FF[3] see: from, to. Where the
// plan is shorter, a band is what is left of it; an empty one adds nothing.
func PlanBands() [3][2]int { return [3][2]int{{0, 3}, {3, 8}, {8, 16}} }

// Table is a policy that holds its actions: for each route that it knows, by name,
// one for each of TableSteps steps from ControlStartIdx on. Before them it answers 0,
// and after them the last one.
type Table struct {
	Name    string
	Actions map[string][]float64

	// Noise is that under which a search found the actions; 0 if nobody says. With
	// RouteNoise they know the draws, and what they cost is no controller's cost.
	Noise NoiseKind
}

// TableSteps is the number of a table's actions for a route: the steps that cost.
const TableSteps = CostEndIdx - ControlStartIdx

// NewTable makes a table, which is named by what names it and its actions.
func NewTable(actions map[string][]float64) (*Table, error) {
	var all []any
	for _, route := range slices.Sorted(maps.Keys(actions)) {
		if n := len(actions[route]); n != TableSteps {
			return nil, fmt.Errorf("route %.60q: %d actions, want %d", route, n, TableSteps)
		}
		for i, a := range actions[route] {
			if math.IsNaN(a) || math.IsInf(a, 0) {
				return nil, fmt.Errorf(
					"route %.60q: the action at step %d is %v, want a finite number", route,
					ControlStartIdx+i, a,
				)
			}
		}
		all = append(all, []byte(route), actions[route])
	}
	return &Table{Name: "table_" + fingerprint(all...), Actions: actions}, nil
}

// Custom is a controller of the caller's own. New makes one for each job, so
// that no state is shared between routes; it may be called from several
// goroutines at once. One that makes nil, or a nil pointer, fails its job before the first step;
// and so does a Batch.
type Custom struct {
	Name string
	New  func() Controller
}

// A BatchController steers several routes at once, for controllers that are
// cheaper that way: a network, or a program in another process.
//
// Which routes share a controller depends on the engine. So that a route's
// result does not, the answer for a route may depend on that route alone.
type BatchController interface {
	// Update computes the steer commands of one step. It is called for every
	// step from ContextLength on, in order, until the last of the routes has
	// ended. An error fails all of them.
	Update(s *BatchStep) error

	// Close ends the controller's work for these routes. Results may be out by then, so that
	// its error is no rollout's: the Close of a Stepper returns it, Simulate does not.
	Close() error
}

// BatchStep is one step of several routes: one element for each. Its slices are
// valid until Update returns.
type BatchStep struct {
	Step int
	// false for a route that has ended or failed; the other elements mean nothing then
	Running []bool

	TargetLataccel  []float64 // m/s²
	CurrentLataccel []float64 // m/s², after the previous step
	State           []State
	Plan            []FuturePlan

	Steer []float64 // to be set: the steer command, before clipping
	Err   []error   // may be set: fails this route alone
}

// NewBatchStep makes a step for n routes.
func NewBatchStep(n int) *BatchStep {
	return &BatchStep{
		Running:         make([]bool, n),
		TargetLataccel:  make([]float64, n),
		CurrentLataccel: make([]float64, n),
		State:           make([]State, n),
		Plan:            make([]FuturePlan, n),
		Steer:           make([]float64, n),
		Err:             make([]error, n),
	}
}

// Batch is a policy of batch controllers. Jobs with the same *Batch may share
// one.
type Batch struct {
	Name string
	File string // of its source, if it comes from a file

	// SHA256 is of the source that New's controllers run, in hexadecimal; empty where
	// that is not known.
	SHA256 string

	// Made is what else these controllers are made of, as far as it is known: each line begins
	// with a name, and ends with a version or the hash of a content.
	Made []string

	// New makes the controller of some routes. It may be called from several
	// goroutines at once.
	New func(routes []*Route) (BatchController, error)
}

func (Zero) policy()     {}
func (PID) policy()      {}
func (PIDFF) policy()    {}
func (*Table) policy()   {}
func (*Network) policy() {}
func (Custom) policy()   {}
func (*Batch) policy()   {}

// Kind is KindZero; and so for the others.
func (Zero) Kind() Kind     { return KindZero }
func (PID) Kind() Kind      { return KindPID }
func (PIDFF) Kind() Kind    { return KindPIDFF }
func (*Table) Kind() Kind   { return KindTable }
func (*Network) Kind() Kind { return KindNetwork }

// Gains are none; and so for the others that come from files.
func (Zero) Gains() []float64     { return nil }
func (*Table) Gains() []float64   { return nil }
func (*Network) Gains() []float64 { return nil }

// Gains are the controller's, in the order of its kind.
func (c PID) Gains() []float64 { return []float64{c.P, c.I, c.D} }

// Gains are the controller's, in the order of its kind.
func (c PIDFF) Gains() []float64 {
	return []float64{c.P, c.I, c.D, c.FF[0], c.FF[1], c.FF[2], c.FF[3], c.FFV, c.Smooth, c.Leak}
}

func (Zero) String() string    { return "zero" }
func (c PIDFF) String() string { return gainName(c) }

// A nil one is named so that an error can say what is wrong.
func (t *Table) String() string {
	if t == nil {
		return "table"
	}
	return t.Name
}

func (n *Network) String() string {
	if n == nil {
		return "network"
	}
	return n.Name
}

func (c Custom) String() string { return c.Name }

func (b *Batch) String() string { return b.Name }

func (c PID) String() string {
	if c == DefaultPID() {
		return "pid"
	}
	return gainName(c)
}

// gainName is a policy's kind and gains.
func gainName(p Native) string {
	words := []string{p.Kind().String()}
	for _, g := range p.Gains() {
		words = append(words, shortest(g))
	}
	return strings.Join(words, "_")
}
