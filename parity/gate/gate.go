package gate

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"lockstep/engines"
	"lockstep/internal/want"
	"lockstep/parity/mutants"
	"lockstep/parity/verdict"
)

// Config says what is judged, and by what.
type Config struct {
	Root string // of the module, see mutants.FindRoot
	Base string // revision to compare with; everything runs if it is empty or not known
	All  bool   // every fault is planted, not a sample of those in what has changed

	// Require are the names of the wants whose absence is a failure.
	Require []string

	// RequireHardware asks for evidence that the kernels, as they are, ran on a GPU.
	RequireHardware bool

	// Limit is how long a check may take.
	Limit time.Duration

	// Program, if not nil, is the command that takes the place of the lockstep that
	// is built from the folder.
	Program []string

	// Out is told what has changed, before anything runs, and of each check that has ended.
	Out io.Writer

	steps func(*run) []step // of a test
}

// run is one call of Run.
type run struct {
	Config
	change  verdict.Change
	dir     string // for files of its own
	env     []string
	program []string // nil until it is built
	broken  error    // why it is not
}

// Run runs the checks. The error is of an interruption; all else that goes wrong is in
// the result.
func Run(ctx context.Context, config Config) (*verdict.Result, error) {
	start := time.Now()
	r := &verdict.Result{
		Change: Changed(ctx, config.Root, config.Base), Require: append([]string{}, config.Require...), RequireHardware: config.RequireHardware,
		Engines: engines.Names(), Machine: fmt.Sprintf("%s/%s, %d cores", runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0)), Go: runtime.Version(),
		Start: start.UTC().Truncate(time.Second),
	}
	dir, err := os.MkdirTemp("", "lockstep-gate-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	r.Change.WriteText(config.Out)
	g := &run{Config: config, change: r.Change, dir: dir, env: environment(config.Require)}
	steps := (*run).plan
	if config.steps != nil {
		steps = config.steps
	}
	r.Checks = g.both(ctx, steps(g))
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	r.Seconds = time.Since(start).Seconds()
	r.Judge()
	return r, nil
}

// both runs the steps one after the other, and beside them those that are to run
// beside them: most keep one core busy. The checks are in the order of the steps.
func (g *run) both(ctx context.Context, steps []step) []verdict.Check {
	checks := make([]verdict.Check, len(steps))
	var telling sync.Mutex
	lane := func(beside bool) {
		for i, s := range steps {
			if s.beside == beside && ctx.Err() == nil {
				checks[i] = s.execute(ctx, g.Limit, g.Require)
				telling.Lock()
				checks[i].WriteText(g.Out)
				telling.Unlock()
			}
		}
	}
	var other sync.WaitGroup
	other.Go(func() { lane(true) })
	lane(false)
	other.Wait()
	return checks
}

// environment is that of the programs that checks run: ours, without what would make
// them do less, and with what is required.
func environment(require []string) []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "LOCKSTEP_ONLY=") })
	for _, name := range require {
		env = append(env, want.ByName(name).Variable()+"=1")
	}
	return env
}

// Required are the wants that the environment requires: LOCKSTEP_REQUIRE_ASSETS=1 and
// so on.
func Required() []string {
	return slices.DeleteFunc(want.Names(), func(name string) bool { return !want.ByName(name).Required() })
}

// plan is the checks of a change, cheap ones first.
func (g *run) plan() []step {
	if g.change.Documentation {
		return []step{{name: "documentation", title: "Only documentation differs.", run: g.documentation}}
	}
	steps := []step{{name: "build", title: "Everything compiles.", run: g.build}}
	for _, t := range targets {
		steps = append(steps, step{name: t.name, title: t.title, beside: t.beside, run: func(ctx context.Context, c *verdict.Check) error {
			return g.target(ctx, c, t.name)
		}})
	}
	for _, engine := range engines.Names() {
		steps = append(steps, step{
			name: "goldens/" + engine, title: "All stages of all recorded rollouts of the Python program, from engine " + engine + ".",
			run: func(ctx context.Context, c *verdict.Check) error {
				return g.unlessAbsent(c, g.compare(ctx, c, "compare", "golden/testdata", engine))
			},
		})
	}
	return append(steps,
		step{name: "engines", title: "All engines against each other, all stages of all steps.", run: func(ctx context.Context, c *verdict.Check) error {
			return g.unlessAbsent(c, g.live(ctx, c))
		}},
		step{name: "regressions", title: "Every case that once failed, on every engine.", run: func(ctx context.Context, c *verdict.Check) error {
			return g.compare(ctx, c, "replay", "parity/testdata/regressions", "--engines", strings.Join(engines.Names(), ","))
		}},
		step{name: "tests", title: "All tests and properties.", run: func(ctx context.Context, c *verdict.Check) error {
			return goTest(ctx, c, g.Root, g.env, "-skip="+checked, "./...")
		}},
		step{name: "hardware", title: "Evidence that these very kernels ran on a GPU.", run: g.hardware},
		step{name: "mutants", beside: true, title: "The harness finds planted faults and names their stages.", run: g.mutants},
	)
}

// checked are the tests whose comparisons other checks make.
const checked = "^(TestTrajectory|TestRegressions)$"

// documentation is the short pass.
func (g *run) documentation(_ context.Context, c *verdict.Check) error {
	for _, file := range g.change.Files {
		c.Cases = append(c.Cases, verdict.Case{Class: "documentation", Name: file, Outcome: verdict.Passed})
	}
	return nil
}

// build compiles everything, and the program that the other checks run.
func (g *run) build(ctx context.Context, c *verdict.Check) (err error) {
	defer func() { g.broken = err }()
	c.Command = "go build ./..."
	builds, built := [][]string{{"go", "build", "./..."}}, g.Program
	if built == nil {
		built = []string{filepath.Join(g.dir, "lockstep")}
		builds = append(builds, []string{"go", "build", "-o", built[0], "./cmd/lockstep"})
	}
	for _, words := range builds {
		status, err := program(ctx, c, g.Root, g.env, words, func([]byte) error { return nil })
		if err != nil {
			return err
		}
		if status != 0 {
			return fmt.Errorf("%s ended with status %d", strings.Join(words[:2], " "), status)
		}
	}
	c.Cases = append(c.Cases, verdict.Case{Class: "build", Name: "./...", Outcome: verdict.Passed})
	g.program = built
	return nil
}

// compare runs lockstep compare or replay with --json and takes what it prints.
func (g *run) compare(ctx context.Context, c *verdict.Check, args ...string) error {
	if g.program == nil {
		return fmt.Errorf("there is no program to run: %w", cmp.Or(g.broken, errors.New("the check build has failed")))
	}
	c.Command = strings.TrimPrefix(c.Command+"; lockstep "+strings.Join(args, " "), "; ")
	words := slices.Concat(g.program, args, []string{"--json", "--allow-absent"})
	n, announced, bad := 0, -1, false
	status, err := program(ctx, c, g.Root, g.env, words, func(line []byte) error {
		var one verdict.Line
		if err := json.Unmarshal(line, &one); err != nil {
			return fmt.Errorf("lockstep printed %.200q: %w", line, err)
		}
		switch {
		case one.Summary != nil:
			announced = one.Summary.Comparisons
		case one.Comparison == nil:
			return fmt.Errorf("lockstep printed %.200q, which is no comparison", line)
		default:
			n++
			c.Comparisons = append(c.Comparisons, *one.Comparison)
			c.Cases = append(c.Cases, one.Cases()...)
			bad = bad || one.Outcome() == verdict.Different || one.Outcome() == verdict.Failed
		}
		return nil
	})
	said, _, _ := strings.Cut(strings.TrimSpace(c.Output), "\n")
	switch {
	case err != nil:
		return err
	case announced < 0:
		return fmt.Errorf("lockstep ended with status %d before its last line: %s", status, said)
	case announced != n:
		return fmt.Errorf("lockstep printed %d comparisons of %d", n, announced)
	case status != 0 && !bad && c.Count(verdict.Passed) > 0: // else nothing was compared
		return fmt.Errorf("lockstep ended with status %d, and no comparison says why: %s", status, said)
	case status == 0 && bad:
		return errors.New("lockstep ended with status 0, although a comparison failed")
	}
	return nil
}

// unlessAbsent leaves a check out if nothing could be compared in it for want of what
// is not required: an engine that cannot run on this machine.
func (g *run) unlessAbsent(c *verdict.Check, err error) error {
	other := func(k verdict.Case) bool {
		return k.Outcome != verdict.NotRun || k.Lacks == "" || slices.Contains(g.Require, k.Lacks)
	}
	if err != nil || len(c.Cases) == 0 || slices.ContainsFunc(c.Cases, other) {
		return err
	}
	return leaving(c.Cases[0].Message + "; not required")
}

// live compares engines on the project's own network, and on the official one where it
// is.
func (g *run) live(ctx context.Context, c *verdict.Check) error {
	all := append([]string{"compare"}, engines.Names()...)
	own := append(slices.Clone(all), "--own")
	if err := g.compare(ctx, c, append(own, "--num_segs", "4")...); err != nil {
		return err
	}
	if err := g.compare(ctx, c, append(own, "--num_segs", "2", "--controller", "zero")...); err != nil {
		return err
	}
	if _, err := want.Assets.Find(); err != nil {
		c.Cases = append(c.Cases, verdict.Case{Class: "engines", Name: "official network", Outcome: verdict.NotRun, Lacks: want.Assets.Name, Message: err.Error()})
		return nil
	}
	return g.compare(ctx, c, append(all, "--num_segs", "6", "--pid", "0.3,0.05,-0.1", "--pid", "2,0.3,0.5")...)
}

// targets are what the Makefile checks, besides comparisons and tests. A line adds one.
var targets = []struct {
	name, title string
	beside      bool
}{
	{"lint", "Formatted, vetted, without what static analysis finds.", false},
	{"generate-check", "The assembly is what its generator makes.", false},
	{"test-noasm", "The plain loops, without assembly.", true},
	{"test-nocgo", "Without cgo.", false},
	{"test-fused", "With a compiler that may fuse products into sums.", false},
	{"test-race", "Under the race detector.", true},
	{"fuzz-ci", "Every fuzz target, for a fixed number of executions.", false},
	{"test-python", "The Python package, its linters and tests.", true},
	{"classic-ci", "Classic control, live against Gymnasium.", false},
	{"test-avx512", "The AVX-512 kernels, emulated where this CPU has none.", true},
	{"kernels-check", "The CUDA kernels are what nvcc makes of their sources.", true},
	{"test-cuda-standin", "The program with CUDA in it, on a stand-in driver.", true},
}

// target makes one of the targets.
func (g *run) target(ctx context.Context, c *verdict.Check, name string) error {
	c.Command = "make " + name
	var printed capture
	var leftOut []verdict.Case
	// The targets say themselves what is built in.
	env := slices.DeleteFunc(slices.Clone(g.env), func(v string) bool { return strings.HasPrefix(v, "GOFLAGS=") })
	status, err := program(ctx, c, g.Root, env, []string{"make", "--no-print-directory", name}, func(line []byte) error {
		if m := skipped.FindStringSubmatch(string(line)); m != nil {
			n, _ := strconv.Atoi(m[1]) // digits
			leftOut = append(leftOut, slices.Repeat([]verdict.Case{{Class: "pytest", Name: m[2], Outcome: verdict.NotRun, Message: m[2] + ": " + m[3]}}, n)...)
		}
		printed.Write(append(line, '\n'))
		return nil
	})
	if err == nil && status != 0 {
		err = fmt.Errorf("make %s ended with status %d", name, status)
	}
	if err != nil {
		c.Output = printed.String() + c.Output
		return err
	}
	c.Cases = append(append(c.Cases, verdict.Case{Class: "make", Name: name, Outcome: verdict.Passed}), leftOut...)
	return nil
}

// skipped is how pytest -rs prints that tests were left out: how many, where and why.
var skipped = regexp.MustCompile(`^SKIPPED \[(\d+)\] (\S+?:\d+): (.*)$`)

// mutants plants faults in the engines that have changed: all of them, or a sample.
func (g *run) mutants(ctx context.Context, c *verdict.Check) error {
	if !g.All && len(g.change.Engines) == 0 {
		return leaving("no engine has changed; --all plants faults in spite of that")
	}
	faults, err := mutants.All()
	if err != nil {
		return err
	}
	c.Command = "lockstep mutants"
	wrong := verdict.MayBeWrong(len(faults))
	if all := len(faults); !g.All {
		faults = sample(faults, g.change)
		wrong = max(1, verdict.MayBeWrong(len(faults)))
		c.Note = fmt.Sprintf("a sample, %d of %d faults", len(faults), all)
	}
	score, err := mutants.Plant(ctx, g.Root, faults, "", nil)
	c.Mutants = score.Mutants
	c.Cases = append(c.Cases, score.Cases()...)
	if err != nil {
		return err
	}
	return score.Judge(wrong)
}

// sampleSize is how many faults are planted in some two minutes.
const sampleSize = 10

// sample is what is planted of the faults: first those in files that have changed, then
// others of the engines that have changed and, where everything may have, of those that
// ordinary tests must see, as many of each. Which ones they are depends on the commit, so
// that all have their turn.
func sample(faults []mutants.Fault, change verdict.Change) []mutants.Fault {
	var touched, others []mutants.Fault
	turns, turn := map[string]int{}, map[string]int{} // which one of its engine a fault is, by name
	for _, i := range rand.New(rand.NewChaCha8(sha256.Sum256([]byte(change.Head)))).Perm(len(faults)) {
		f, kind := faults[i], faults[i].Engine
		if f.Test != "" {
			kind = "tests"
		}
		switch {
		case slices.ContainsFunc(f.Edits, func(e mutants.Edit) bool { return slices.Contains(change.Files, e.File) }):
			touched = append(touched, f)
		case kind == "tests" && change.Everything || kind != "tests" && slices.Contains(change.Engines, kind):
			others = append(others, f)
			turns[kind]++
			turn[f.Name] = turns[kind]
		}
	}
	slices.SortStableFunc(others, func(a, b mutants.Fault) int { return cmp.Compare(turn[a.Name], turn[b.Name]) })
	drawn := append(touched, others...)
	return drawn[:min(len(drawn), sampleSize)]
}
