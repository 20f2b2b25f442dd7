package gpu

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"lockstep"
	"lockstep/golden"
	"lockstep/gpu/internal/driver"
	"lockstep/gpu/internal/driver/emulated"
	"lockstep/internal/defaults"
	"lockstep/internal/simtest"
	"lockstep/internal/want"
	"lockstep/reference"
	"lockstep/routefile"
)

// device opens what the tests run on: a GPU in a build with the tag cuda, the
// kernels on the CPU otherwise. LOCKSTEP_REQUIRE_GPU=1 asks for the GPU.
func device(t testing.TB, options emulated.Options) func() (driver.Device, error) {
	t.Helper()
	var absent *want.Error
	err := want.GPU.Denied(Available())
	if err == nil {
		return OpenDevice
	}
	if !errors.As(err, &absent) {
		t.Fatal(err)
	}
	want.Compiler.Need(t)
	if name := os.Getenv("LOCKSTEP_ENGINE"); name != "" && name != "emulated" &&
		options.Sources == nil &&
		!options.Sanitize {
		return func() (driver.Device, error) { return OpenTranslated(name, options) }
	}
	return func() (driver.Device, error) { return emulated.Open(options) }
}

// onCPU skips a test that is about the CPU's device where there is a GPU.
func onCPU(t testing.TB) {
	t.Helper()
	if Available() == nil {
		t.Skip("about the kernels on the CPU")
	}
	device(t, emulated.Options{}) // fails where a GPU is asked for
}

// modelPath is the project's own network.
var modelPath = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "lockstep-gpu-test-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, defaults.ModelName)
	return path, os.WriteFile(path, defaults.Model(), 0o600)
})

func TestMain(m *testing.M) {
	code := m.Run()
	if path, err := modelPath(); err == nil {
		os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// newSimulator makes a simulator that ends with the test.
func newSimulator(t testing.TB, config Config) *Simulator {
	t.Helper()
	return newSimulatorOn(t, config, emulated.Options{})
}

func newSimulatorOn(t testing.TB, config Config, options emulated.Options) *Simulator {
	t.Helper()
	path, err := modelPath()
	if err != nil {
		t.Fatal(err)
	}
	config.ModelPath = path
	if config.Open == nil {
		config.Open = device(t, options)
	}
	s, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// newReference makes the simulator that has the same arithmetic.
func newReference(t testing.TB, profile lockstep.Profile) *reference.Simulator {
	t.Helper()
	path, err := modelPath()
	if err != nil {
		t.Fatal(err)
	}
	s, err := reference.New(path, profile)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// routes are the project's own.
var routes = sync.OnceValue(func() []*lockstep.Route {
	names, err := fs.Glob(defaults.Routes(), "*.csv")
	if err != nil {
		panic(err)
	}
	var all []*lockstep.Route
	for _, name := range names {
		f, err := defaults.Routes().Open(name)
		if err != nil {
			panic(err)
		}
		route, err := routefile.Loader{}.Read(f, name)
		f.Close()
		if err != nil {
			panic(err)
		}
		all = append(all, route)
	}
	return all
})

// goldens are the recordings of the project's network, those of a profile together.
func goldens(t testing.TB) []*golden.Set {
	t.Helper()
	sets, err := golden.Sets(goldenFolder())
	if err != nil {
		t.Fatal(err)
	}
	sets = slices.DeleteFunc(sets, func(s *golden.Set) bool { return Lacks(s.Profile) != nil })
	if len(sets) == 0 {
		t.Fatalf("no recordings in %s", goldenFolder())
	}
	return sets
}

// goldenFolder is in the sources or, in a bundle, beside the program.
func goldenFolder() string {
	if dir := os.Getenv("LOCKSTEP_GOLDENS"); dir != "" {
		return dir
	}
	return filepath.Join("..", "golden", "testdata", "default")
}

// shorten is a route's first rows.
func shorten(r *lockstep.Route, rows int) *lockstep.Route {
	return &lockstep.Route{
		Name: fmt.Sprintf("%s[:%d]", r.Name, rows), Seed: r.Seed,
		RollLataccel: r.RollLataccel[:rows], VEgo: r.VEgo[:rows], AEgo: r.AEgo[:rows],
		TargetLataccel: r.TargetLataccel[:rows], SteerCommand: r.SteerCommand[:rows],
	}
}

// A trace holds every stage of every step of a rollout, and its result.
type trace struct {
	steps  []lockstep.Step
	result lockstep.Result
}

func (tr *trace) observe(s *lockstep.Step) {
	c := *s
	c.Tokens, c.States, c.Logits, c.Probs, c.CDF = slices.Clone(s.Tokens), slices.Clone(s.States),
		slices.Clone(s.Logits), slices.Clone(s.Probs), slices.Clone(s.CDF)
	c.Observation, c.Actor = slices.Clone(s.Observation), slices.Clone(s.Actor)
	tr.steps = append(tr.steps, c)
}

func same64(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }

// stepDifference names the first stage in which two steps differ, a and what b has, or "".
func stepDifference(a, b *lockstep.Step) string {
	number := func(stage string, a, b float64) error {
		return simtest.SameBits(stage, []float64{a}, []float64{b})
	}
	whole := func(stage string, a, b int) error {
		return simtest.Same(stage, []int64{int64(a)}, []int64{int64(b)})
	}
	if err := cmp.Or(
		whole("index", a.Index, b.Index),
		simtest.SameBits("observation", a.Observation, b.Observation),
		simtest.SameBits("actor", a.Actor, b.Actor),
		number("raw", a.Raw, b.Raw), number("action", a.Action, b.Action),
		simtest.SameBits("tokens", a.Tokens, b.Tokens),
		simtest.SameBits("states", a.States, b.States),
		simtest.SameBits("logits", a.Logits, b.Logits), simtest.SameBits("probs", a.Probs, b.Probs),
		simtest.SameBits("cdf", a.CDF, b.CDF), number("draw", a.Draw, b.Draw),
		whole("sample", a.Sample, b.Sample),
		number("prediction", a.Prediction, b.Prediction),
		number("lataccel", a.Lataccel, b.Lataccel),
	); err != nil {
		return err.Error()
	}
	return ""
}

// difference is the first one of two traces, or "".
func (tr *trace) difference(want *trace) string {
	for i := range min(len(tr.steps), len(want.steps)) {
		if stage := stepDifference(&tr.steps[i], &want.steps[i]); stage != "" {
			return fmt.Sprintf("step %d, stage %s", want.steps[i].Index, stage)
		}
	}
	if len(tr.steps) != len(want.steps) {
		return fmt.Sprintf(
			"%d steps, want %d (error %v)", len(tr.steps), len(want.steps), tr.result.Err,
		)
	}
	return resultDifference(tr.result, want.result)
}

// resultDifference is how two results differ, or "".
func resultDifference(got, want lockstep.Result) string {
	if (got.Err == nil) != (want.Err == nil) {
		return fmt.Sprintf("error %v, want %v", got.Err, want.Err)
	}
	for _, c := range [][2]float64{
		{got.Costs.Lataccel, want.Costs.Lataccel}, {got.Costs.Jerk, want.Costs.Jerk},
		{got.Costs.Total, want.Costs.Total},
	} {
		if !same64(c[0], c[1]) {
			return fmt.Sprintf("costs %v, want %v", got.Costs, want.Costs)
		}
	}
	if (got.Trajectory == nil) != (want.Trajectory == nil) {
		return fmt.Sprintf("trajectory %v, want %v", got.Trajectory, want.Trajectory)
	}
	if g, w := got.Trajectory, want.Trajectory; g != nil {
		if err := cmp.Or(simtest.SameBits("target", g.Target, w.Target),
			simtest.SameBits("lataccel", g.Lataccel, w.Lataccel), simtest.SameBits("action",
				g.Action, w.Action)); err != nil {
			return "trajectories: " + err.Error()
		}
	}
	return ""
}

type fataler interface{ Fatalf(string, ...any) }

var policies = []lockstep.Policy{
	lockstep.DefaultPID(), lockstep.Zero{}, lockstep.PID{P: 0.3, I: 0.05, D: -0.1},
}

// traces runs jobs and returns the trace of each.
func traces(t fataler, s lockstep.Simulator, jobs []lockstep.Job, opts lockstep.Options) []*trace {
	out := make([]*trace, len(jobs))
	jobs = slices.Clone(jobs)
	for i := range jobs {
		out[i] = &trace{}
		jobs[i].Observe = out[i].observe
	}
	for i, r := range results(t, s, context.Background(), jobs, opts) {
		out[i].result = r
	}
	return out
}

// results runs jobs and returns the result of each.
func results(
	t fataler, s lockstep.Simulator, ctx context.Context, jobs []lockstep.Job,
	opts lockstep.Options,
) []lockstep.Result {
	out, seen := make([]lockstep.Result, len(jobs)), make([]int, len(jobs))
	for i, r := range s.Simulate(ctx, jobs, opts) {
		if i < 0 || i >= len(jobs) {
			t.Fatalf("a result of job %d, there are %d", i, len(jobs))
		}
		out[i] = r
		seen[i]++
	}
	for i, n := range seen {
		if n != 1 {
			t.Fatalf("job %d has %d results", i, n)
		}
	}
	return out
}

func contains(err error, text string) bool {
	return err != nil && strings.Contains(err.Error(), text)
}
