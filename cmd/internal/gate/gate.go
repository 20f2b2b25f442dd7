package gate

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"lockstep/cmd/internal/gate/internal/testlog"
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

	// Tested are the logs of the tests of this very revision, if they have run already, as
	// testlog.ReadFiles takes them. A package that the change may concern and that is in none of
	// them is an error, and so is a log that does not say that it is of this revision.
	Tested []string

	// KeepGoing runs the checks that are left when one has failed.
	KeepGoing bool

	// Out is told what has changed, before anything runs, and of each check that has ended.
	Out io.Writer

	steps func(*run) []step // of a test
}

// run is one call of Run.
type run struct {
	Config
	change  verdict.Change
	tested  []verdict.CheckCase // of Config.Tested
	logged  map[string]bool     // import paths of the packages that these logs have
	dir     string              // for files of its own
	env     []string
	program []string // nil until it is built
	broken  error    // why it is not
}

// Run runs the checks. The error is of an interruption; all else that goes wrong is in
// the result.
func Run(ctx context.Context, config Config) (*verdict.GateResult, error) {
	start := time.Now()
	r := &verdict.GateResult{
		Change:          Changed(ctx, config.Root, config.Base),
		Require:         append([]string{}, config.Require...),
		RequireHardware: config.RequireHardware,
		Engines:         engines.CheckedNames(),
		Machine: fmt.Sprintf("%s/%s, %d cores", runtime.GOOS, runtime.GOARCH,
			runtime.GOMAXPROCS(0)),
		Go:    runtime.Version(),
		Start: start.UTC().Truncate(time.Second),
	}
	dir, err := os.MkdirTemp("", "lockstep-gate-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	r.Change.WriteText(config.Out)
	g := &run{Config: config, change: r.Change, dir: dir, env: environment(config.Require)}
	if g.Tested != nil {
		if err := g.readTested(ctx); err != nil {
			return nil, err
		}
	}
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

// readTested reads the logs, which must be of what is judged and have all that it may concern.
func (g *run) readTested(ctx context.Context) (err error) {
	if g.change.Head == "" {
		return errors.New("--tested: this is no git checkout with a commit, so no log can be of it")
	}
	if g.tested, g.logged, err = testlog.ReadFiles(g.change.Head, g.Tested...); err != nil {
		return err
	}
	missing, err := g.unlogged(ctx, g.change.Packages)
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf(
			"%s: the change may concern %s, and no log has it: run `make test` for it, too",
			strings.Join(g.Tested, ", "), missing[0],
		)
	}
	return err
}

// unlogged are the packages of these folders that no log has, by their import paths.
func (g *run) unlogged(ctx context.Context, folders []string) (missing []string, err error) {
	if len(folders) == 0 {
		return nil, nil
	}
	args := []string{"list"}
	for _, folder := range folders {
		args = append(args, "./"+strings.TrimPrefix(folder, "./"))
	}
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir, command.Env = g.Root, g.env
	out, err := command.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("go list: %w: %s", err, bytes.TrimSpace(exit.Stderr))
	}
	for name := range strings.FieldsSeq(string(out)) {
		if !g.logged[name] {
			missing = append(missing, name)
		}
	}
	return missing, err
}

// stopped is the name of a check that has failed, so that no other one goes on.
type stopped string

func (s stopped) Error() string {
	return "the check " + string(s) + " has failed; --keep-going runs what is left"
}

// both runs the steps one after the other, and beside them those that are to run
// beside them: most keep one core busy. The checks are in the order of the steps.
func (g *run) both(ctx context.Context, steps []step) []verdict.Check {
	checks := make([]verdict.Check, len(steps))
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var telling sync.Mutex
	lane := func(beside bool) {
		for i, s := range steps {
			if s.beside != beside {
				continue
			}
			if failed, ok := errors.AsType[stopped](context.Cause(ctx)); ok {
				checks[i] = verdict.Check{
					Name:    s.name,
					Title:   s.title,
					Cases:   []verdict.CheckCase{},
					Outcome: verdict.NotRun,
					Why:     failed.Error(),
				}
				continue
			}
			if ctx.Err() != nil {
				return
			}
			c := s.execute(ctx, g.Limit, g.Require)
			telling.Lock()
			failed, ended := errors.AsType[stopped](context.Cause(ctx))
			switch {
			case ended: // it was ended in its course
				c.Outcome, c.Why, c.Cases = verdict.NotRun, failed.Error(), []verdict.CheckCase{}
			case c.Outcome == verdict.Failed && !g.KeepGoing:
				stop(stopped(s.name))
			}
			checks[i] = c
			c.WriteText(g.Out)
			telling.Unlock()
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
	env := slices.DeleteFunc(
		os.Environ(), func(v string) bool { return strings.HasPrefix(v, "LOCKSTEP_ONLY=") },
	)
	for _, name := range require {
		env = append(env, want.ByName(name).Variable()+"=1")
	}
	return env
}

// Required are the wants that the environment requires: LOCKSTEP_REQUIRE_ASSETS=1 and
// so on.
func Required() []string {
	return slices.DeleteFunc(
		want.Names(), func(name string) bool { return !want.ByName(name).Required() },
	)
}

// plan is the checks of a change: sharp ones first, which take seconds, and of the others
// cheap ones first.
func (g *run) plan() []step {
	tests := step{
		name:  "tests",
		title: "All tests and properties that the change may concern.",
		run:   g.tests,
	}
	if g.change.Documentation {
		steps := []step{
			{name: "documentation", title: "Only documentation differs.", run: g.documentation},
		}
		if len(g.change.Packages) > 0 {
			steps = append(steps, tests)
		}
		return steps
	}
	steps := []step{
		{name: "build", title: "Everything compiles.", run: g.build},
		{
			name: "sharp",
			title: "Compiled kernels belong to their sources; distinguishing vectors; short " +
				"rollouts.",
			run: g.sharp,
		},
	}
	for _, t := range targets {
		steps = append(
			steps,
			step{
				name:   t.name,
				title:  t.title,
				beside: t.beside,
				run: func(ctx context.Context, c *verdict.Check) error {
					if why := g.untouched(ctx, t.name, t.of); why != "" {
						return leaving(why)
					}
					return g.target(ctx, c, t.name, strings.Fields(t.passing))
				},
			},
		)
	}
	for _, engine := range engines.CheckedNames() {
		steps = append(steps, step{
			name: "goldens/" + engine, title: "All stages of all recorded rollouts of the " +
				"Python program, from engine " + engine + ".",
			run: g.comparing(func(ctx context.Context, c *verdict.Check) error {
				return g.compare(ctx, c, "compare", "golden/testdata", engine)
			}, []string{engine}, "lockstep/parity", "TestTrajectory", engine),
		})
	}
	return append(
		steps,
		step{
			name:  "engines",
			title: "All engines against each other, all stages of all steps.",
			run:   g.comparing(g.live, engines.CheckedNames(), "", "", ""),
		},
		step{
			name:  "regressions",
			title: "Every case that once failed, on every engine.",
			run: g.comparing(func(ctx context.Context, c *verdict.Check) error {
				return g.compare(
					ctx, c, "replay", "parity/testdata/regressions", "--engines",
					strings.Join(engines.CheckedNames(), ","),
				)
			}, engines.CheckedNames(), "lockstep/parity", "TestRegressions", ""),
		},
		tests,
		step{
			name:  "hardware",
			title: "Evidence that these very kernels ran on a GPU.",
			run:   g.hardware,
		},
		step{
			name:   "mutation",
			beside: true,
			title:  "Tests see mutants of the lines that were changed.",
			run:    g.mutation,
		},
		step{
			name:   "mutants",
			beside: true,
			title:  "The harness finds planted faults and names their stages.",
			run:    g.mutants,
		},
	)
}

// compared are the tests whose comparisons other checks make.
const compared = "TestTrajectory|TestRegressions"

// comparing is a check of engines. It does not run if none of them has changed, or if the
// logs tell that a test has made the comparisons: one of a package, that has a part for an
// engine.
func (g *run) comparing(
	run func(context.Context, *verdict.Check) error, of []string, pkg, test, part string,
) func(context.Context, *verdict.Check) error {
	return func(ctx context.Context, c *verdict.Check) error {
		if !g.All &&
			!slices.ContainsFunc(
				of, func(name string) bool { return slices.Contains(g.change.Engines, name) },
			) {
			return leaving("no engine of it has changed; --all runs it in spite of that")
		}
		if pkg != "" && slices.ContainsFunc(g.tested, func(k verdict.CheckCase) bool {
			return k.Class == pkg && k.Outcome == verdict.Passed &&
				strings.HasPrefix(k.Name, test+"/") &&
				(part == "" || strings.Contains(k.Name+"/", "/"+part+"/"))
		}) {
			return leaving(test + " has made these comparisons: " + strings.Join(g.Tested, ", "))
		}
		return g.unlessAbsent(c, run(ctx, c))
	}
}

// tests runs the tests of the packages that the change may concern or, where logs of them
// are given, takes what these tell.
func (g *run) tests(ctx context.Context, c *verdict.Check) error {
	if g.Tested != nil {
		c.Command, c.Cases = "make test", slices.Clone(g.tested)
		return nil
	}
	packages := []string{}
	for _, folder := range g.change.Packages {
		packages = append(packages, "./"+strings.TrimPrefix(folder, "./"))
	}
	if len(packages) == 0 {
		return leaving("no package's tests may be concerned")
	}
	skip := "-skip=^(" + compared + "|" + sharp + ")$"
	if g.change.Documentation {
		skip = "-skip=^$"
	}
	return goTest(ctx, c, g.Root, g.env, append([]string{skip}, packages...)...)
}

// sharp are the tests that find most faults of kernels and arithmetic, in seconds.
const sharp = "TestManifest|TestModule|TestVectors|TestShort"

// sharp runs them, wherever they are.
func (g *run) sharp(ctx context.Context, c *verdict.Check) error {
	packages, err := having(g.Root, regexp.MustCompile(`(?m)^func (`+sharp+`)\(`))
	if err != nil {
		return err
	}
	if len(packages) == 0 {
		return leaving("no package has such a test")
	}
	if g.Tested != nil {
		if packages, err = g.unlogged(ctx, packages); err != nil {
			return err
		}
		if len(packages) == 0 {
			return leaving("all of them have run: " + strings.Join(g.Tested, ", "))
		}
	}
	return goTest(ctx, c, g.Root, g.env, append([]string{"-run=^(" + sharp + ")$"}, packages...)...)
}

// having are the packages with a test file that has what is looked for.
func having(root string, pattern *regexp.Regexp) (packages []string, err error) {
	err = testFiles(root, func(file string) error {
		text, err := os.ReadFile(filepath.Join(root, file))
		if folder := "./" + path.Dir(file); err == nil && pattern.Match(text) &&
			!slices.Contains(packages, folder) {
			packages = append(packages, folder)
		}
		return err
	})
	return packages, err
}

// testFiles calls a function with each test file of a module, by its path from the root.
func testFiles(root string, each func(file string) error) error {
	return fs.WalkDir(os.DirFS(root), ".", func(file string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && skippedFolder(name):
			return fs.SkipDir
		case !strings.HasSuffix(name, "_test.go"):
			return nil
		}
		return each(file)
	})
}

// skippedFolder reports whether the go command looks for no packages in a folder of this name,
// or what is built lies there.
func skippedFolder(name string) bool {
	return name == "testdata" || name == "build" || name == "node_modules" ||
		name != "." && name[0] == '.'
}

// everything reports whether all is to be tested.
func (g *run) everything() bool {
	return g.All || slices.Contains(g.change.Packages, everyPackage)
}

// untouched says why a target need not run, or nothing: of are folders, with all below them,
// of packages whose tests it runs or whose program it makes. "." is the root's package alone.
func (g *run) untouched(ctx context.Context, name string, of []string) string {
	if of == nil || g.everything() {
		return ""
	}
	if name == kernelsCheck && slices.ContainsFunc(g.change.Files, compiled) &&
		sameKernels(ctx, g.Root, filepath.Join(g.dir, "base"), g.change.MergeBase) &&
		!slices.ContainsFunc(
			g.change.Files, func(file string) bool { return compiled(file) && !kernelSource(file) },
		) {
		return "of the kernels only what no compiler sees has changed"
	}
	for _, folder := range of {
		within := func(name string) bool {
			return name == folder || strings.HasPrefix(name, folder+"/")
		}
		if slices.ContainsFunc(g.change.Packages, within) ||
			slices.ContainsFunc(g.change.Files, within) {
			return ""
		}
	}
	return "nothing of " + strings.Join(of, ", ") + " has changed"
}

// kernelSource reports whether nvcc reads a file, compiled whether the check of what it
// makes depends on it.
func kernelSource(file string) bool {
	return slices.Contains(kernelFolders, path.Dir(file)) &&
		slices.Contains([]string{".cu", ".cuh", ".h"}, path.Ext(file))
}

func compiled(file string) bool {
	return kernelSource(file) || strings.HasPrefix(file, "gpu/internal/module/")
}

// documentation is the short pass.
func (g *run) documentation(_ context.Context, c *verdict.Check) error {
	for _, file := range g.change.Files {
		c.Cases = append(
			c.Cases, verdict.CheckCase{Class: "documentation", Name: file, Outcome: verdict.Passed},
		)
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
	c.Cases = append(
		c.Cases,
		verdict.CheckCase{Class: "build", Name: "./...", Outcome: verdict.Passed},
	)
	g.program = built
	return nil
}

// compare runs lockstep compare or replay with --json and takes what it prints.
func (g *run) compare(ctx context.Context, c *verdict.Check, args ...string) error {
	if g.program == nil {
		return fmt.Errorf(
			"there is no program to run: %w",
			cmp.Or(g.broken, errors.New("the check build has failed")),
		)
	}
	c.Command = strings.TrimPrefix(c.Command+"; lockstep "+strings.Join(args, " "), "; ")
	words := slices.Concat(g.program, args, []string{"--json", "--allow-absent"})
	n, announced, bad := 0, -1, false
	status, err := program(ctx, c, g.Root, g.env, words, func(line []byte) error {
		var one verdict.JSONLine
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
		return fmt.Errorf(
			"lockstep ended with status %d, and no comparison says why: %s", status, said,
		)
	case status == 0 && bad:
		return errors.New("lockstep ended with status 0, although a comparison failed")
	}
	return nil
}

// unlessAbsent leaves a check out if nothing could be compared in it for want of what
// is not required: an engine that cannot run on this machine.
func (g *run) unlessAbsent(c *verdict.Check, err error) error {
	other := func(k verdict.CheckCase) bool {
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
	all := append([]string{"compare"}, engines.CheckedNames()...)
	own := append(slices.Clone(all), "--own")
	if err := g.compare(ctx, c, append(own, "--num_segs", "4")...); err != nil {
		return err
	}
	if err := g.compare(ctx, c,
		append(own, "--num_segs", "2", "--controller", "zero")...); err != nil {
		return err
	}
	if _, err := want.Assets.Find(); err != nil {
		c.Cases = append(
			c.Cases,
			verdict.CheckCase{
				Class:   "engines",
				Name:    "official network",
				Outcome: verdict.NotRun,
				Lacks:   want.Assets.Name,
				Message: err.Error(),
			},
		)
		return nil
	}
	return g.compare(
		ctx,
		c,
		append(all, "--num_segs", "6", "--pid", "0.3,0.05,-0.1", "--pid", "2,0.3,0.5")...)
}

// targets are what the Makefile checks, besides comparisons and tests. A line adds one, with
// the folders of packages that it tests or makes: a change that no test of theirs may be
// concerned by leaves it out. Those without any always run. passing are the packages of which
// some test must pass each time that go test runs in it, with TESTFLAGS.
var targets = []struct {
	name, title string
	beside      bool
	of          []string
	passing     string
}{
	{"lint", "Formatted, vetted, without what static analysis finds.", false, nil, ""},
	{
		"generate-check", "Assembly and tables are what their generators make.", false,
		[]string{"internal/f32", "batched/classic", "scripts", "internal/tables"}, "",
	},
	{
		"test-noasm", "The plain loops, without assembly.", true,
		[]string{"reference", "internal/f32"}, "reference parity",
	},
	{"test-nocgo", "Without cgo.", false, nil, "parity"},
	{"test-missing", "With one thing of the machine missing at a time.", false, nil, ""},
	{
		"test-fused", "With a compiler that may fuse products into sums.", false,
		[]string{".", "routefile", "internal", "golden", "reference", "batched"},
		"internal/generate reference batched reference/classic batched/classic parity",
	},
	{
		"test-race", "Under the race detector.", true,
		[]string{
			"batched/onnxruntime", "internal/routecache", "parity/trace", "cmd/lockstep", "gpu",
		},
		"batched/onnxruntime internal/routecache parity/trace cmd/lockstep gpu",
	},
	{
		"fuzz-ci", "Every fuzz target, for a fixed number of executions.", false,
		[]string{"fuzz", "routefile", "snapshotfile", "internal"}, "",
	},
	{
		"histories", "Calls that nobody wrote down, in any order, of both families.", true,
		[]string{"fuzz"}, "fuzz",
	},
	{
		"test-python", "The Python package, its linters and tests.", false,
		[]string{"cmd/internal/native", "python", "cmd/lockstep"}, "",
	},
	{
		"classic-ci", "Classic control, live against Gymnasium.", false,
		[]string{"parity/gymnasium", "fuzz"}, "fuzz",
	},
	{
		"test-avx512", "The AVX-512 kernels, emulated where this CPU has none.", true,
		[]string{"internal/f32", "reference", "scripts"}, "",
	},
	{
		"test-arm64-short",
		"The arm64 kernels and recordings, emulated where this machine is another.", true,
		[]string{"internal/f32", "batched", "scripts"}, "",
	},
	{
		"test-platforms",
		"The program and its tests for each platform, vetted and linked; Windows under Wine.",
		false, []string{"cmd/lockstep", "internal/fileio", "scripts"}, "",
	},
	{
		kernelsCheck, "The CUDA kernels are what nvcc makes of their sources.", true,
		[]string{"gpu/internal/module", "gpu/internal/kernels"}, "",
	},
	{
		"test-compiled",
		"The shipped PTX and machine code, executed: recordings and short policies.", true,
		[]string{"gpu"}, "gpu/internal/translate gpu gpu/classic",
	},
	{
		"test-cuda-standin", "The program with CUDA in it, on a stand-in driver.", true,
		[]string{"gpu", "cmd/lockstep"}, "gpu/internal/driver/cuda gpu",
	},
}

// fewer is how a target runs fewer cases: where a change concerns it, but not everything.
var fewer = map[string]string{"histories": "HISTORIES=1000 ROLLOUTS=1000"}

// kernelsCheck takes minutes, and nothing but what the compiler sees can change its outcome.
const kernelsCheck = "kernels-check"

// target makes one of the targets. Where tests of packages must pass, it has go test print
// events, and its cases are those tests.
func (g *run) target(ctx context.Context, c *verdict.Check, name string, passing []string) error {
	c.Command = "make " + name
	var printed testlog.Capture
	var leftOut []verdict.CheckCase
	var tests testRuns
	words := []string{"make", "--no-print-directory", name}
	if less, ok := fewer[name]; ok && !g.everything() {
		words = append(words, strings.Fields(less)...)
		c.Note = less
	}
	if len(passing) > 0 {
		words = append(words, "TESTFLAGS=-json")
	}
	// The targets say themselves what is built in.
	env := slices.DeleteFunc(
		slices.Clone(g.env), func(v string) bool { return strings.HasPrefix(v, "GOFLAGS=") },
	)
	status, err := program(ctx, c, g.Root, env, words, func(line []byte) error {
		if len(passing) > 0 && bytes.HasPrefix(line, []byte(`{"`)) {
			return tests.line(line)
		}
		if m := skipped.FindStringSubmatch(string(line)); m != nil {
			n, _ := strconv.Atoi(m[1]) // digits
			leftOut = append(
				leftOut,
				slices.Repeat(
					[]verdict.CheckCase{
						{
							Class:   "pytest",
							Name:    m[2],
							Outcome: verdict.NotRun,
							Message: m[2] + ": " + m[3],
						},
					},
					n,
				)...)
		}
		printed.Write(append(line, '\n'))
		return nil
	})
	c.Cases = append(c.Cases, tests.cases(passing)...)
	if err == nil && status != 0 {
		err = fmt.Errorf("make %s ended with status %d", name, status)
	}
	if err != nil {
		c.Output = printed.String() + c.Output
		return err
	}
	if why := notRun.FindStringSubmatch(strings.TrimSpace(printed.String())); why != nil {
		return leaving(why[1])
	}
	if len(passing) == 0 {
		c.Cases = append(
			c.Cases,
			verdict.CheckCase{Class: "make", Name: name, Outcome: verdict.Passed},
		)
	}
	c.Cases = append(c.Cases, leftOut...)
	return g.unlessAbsent(c, nil)
}

// notRun is all that a target says of which nothing was run.
var notRun = regexp.MustCompile(`^not run: (.*)$`)

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
	if len(faults) == 0 {
		return leaving("no fault is planted in what has changed")
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
	for _, i := range rand.New(
		rand.NewChaCha8(sha256.Sum256([]byte(change.Head))),
	).Perm(len(faults)) {
		f, kind := faults[i], faults[i].Engine
		if f.Test != "" {
			kind = "tests"
		}
		switch {
		case slices.ContainsFunc(f.Edits,
			func(e mutants.Edit) bool { return slices.Contains(change.Files, e.File) }):
			touched = append(touched, f)
		case kind == "tests" && change.Everything || kind != "tests" &&
			slices.Contains(change.Engines, kind):
			others = append(others, f)
			turns[kind]++
			turn[f.Name] = turns[kind]
		}
	}
	slices.SortStableFunc(
		others, func(a, b mutants.Fault) int { return cmp.Compare(turn[a.Name], turn[b.Name]) },
	)
	drawn := append(touched, others...)
	return drawn[:min(len(drawn), sampleSize)]
}
