// Command record runs the tests and the benchmark on a GPU and writes what came of
// them to gpu/hardware. It is part of the folder that `make gpu-bundle` makes, and
// needs nothing but that folder and a driver.
//
//	record test OUT    runs the tests, and one of them under compute-sanitizer
//	record bench OUT   times 5,000 routes, and adds the figures to what is there
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"lockstep"
	"lockstep/defaults"
	"lockstep/golden"
	"lockstep/gpu"
	"lockstep/gpu/hardware"
	"lockstep/gpu/module"
)

// Limits of what is started.
const (
	testTime      = 20 * time.Minute
	sanitizerTime = 10 * time.Minute
)

func main() {
	if len(os.Args) != 3 || os.Args[1] != "test" && os.Args[1] != "bench" {
		fmt.Fprintln(os.Stderr, "usage: record test|bench OUT")
		os.Exit(2)
	}
	program, err := os.Executable()
	if err == nil {
		err = run(filepath.Dir(program), os.Args[1], os.Args[2])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		os.Exit(1)
	}
}

func run(bundle, what, out string) error {
	e, err := identify()
	if err != nil {
		return err
	}
	if what == "test" {
		if err := test(bundle, e); err != nil {
			return err
		}
	} else if err := bench(bundle, out, e); err != nil {
		return err
	}
	if err := e.CheckDevice(); err != nil {
		return fmt.Errorf("%w; nothing was written", err)
	}
	file, err := e.Write(out)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %s\n", file, e.Verdict)
	if err := e.Check(); err != nil && what == "test" {
		return fmt.Errorf("%s: %w", e.Device, err)
	}
	return nil
}

// identify says what the GPU and the kernels are.
func identify() (*hardware.Evidence, error) {
	d, err := gpu.OpenDevice()
	if err != nil {
		return nil, err
	}
	defer d.Close()
	m, err := module.ReadManifest()
	if err != nil {
		return nil, err
	}
	i := d.Info()
	fmt.Printf("%s, compute capability %d.%d, %d multiprocessors, driver %s\n", i.Name, i.Major, i.Minor, i.Multiprocessors, i.Driver)
	return &hardware.Evidence{
		Device: i.Name, ComputeCapability: fmt.Sprintf("%d.%d", i.Major, i.Minor), Driver: i.Driver,
		Kernels: m.Sources, Compiler: m.Compiler, Date: time.Now().UTC().Format(time.DateOnly),
	}, nil
}

var (
	outcomeLine = regexp.MustCompile(`(?m)^--- (PASS|FAIL|SKIP): (\w+)`)
	words       = map[string]string{"PASS": hardware.Pass, "FAIL": hardware.Fail, "SKIP": hardware.Skip}
)

// test runs the test programs.
func test(bundle string, e *hardware.Evidence) error {
	goldens := filepath.Join(bundle, "goldens")
	sets, err := golden.Sets(goldens)
	if err != nil {
		return err
	}
	if len(sets) != 1 {
		return fmt.Errorf("%s: %d sets of recordings, want 1", goldens, len(sets))
	}
	e.Profile = sets[0].Profile
	e.Verdict = hardware.Pass
	fail := func() { e.Verdict = hardware.Fail }
	environment := append(os.Environ(), "LOCKSTEP_REQUIRE_GPU=1", "LOCKSTEP_GOLDENS="+goldens)

	for _, program := range []string{"cuda.test", "gpu.test"} {
		text, err := start(testTime, bundle, environment, "./"+program, "-test.v", "-test.timeout=15m")
		found := outcomeLine.FindAllStringSubmatch(text, -1)
		for _, m := range found {
			e.Tests = append(e.Tests, hardware.Outcome{Name: strings.TrimSuffix(program, ".test") + "." + m[2], Result: words[m[1]]})
			if m[1] == "PASS" && program == "gpu.test" && m[2] == "TestGoldens" {
				for _, r := range sets[0].Recordings {
					e.Goldens = append(e.Goldens, strings.TrimSuffix(r.File, ".npz"))
				}
			}
		}
		if err != nil || len(found) == 0 {
			fail()
			e.Tests = append(e.Tests, hardware.Outcome{Name: program, Result: hardware.Fail, Note: fmt.Sprint(err)})
		}
	}
	if len(e.Goldens) == 0 {
		fail()
	}

	sanitizer, err := findSanitizer(bundle)
	for _, tool := range hardware.Sanitizers {
		if err != nil {
			fmt.Printf("== %s is not run: %v\n", tool, err)
			e.Sanitizer = append(e.Sanitizer, hardware.Outcome{Name: tool, Result: hardware.NotRun, Note: err.Error()})
			if e.Verdict == hardware.Pass {
				e.Verdict = hardware.Incomplete
			}
			continue
		}
		text, err := start(sanitizerTime, bundle, environment, sanitizer, "--tool", tool, "--error-exitcode", "9", "./gpu.test", "-test.run=^TestShort$", "-test.v")
		o := hardware.Outcome{Name: tool, Result: hardware.Pass}
		if err != nil || !strings.Contains(text, "--- PASS: TestShort") {
			o.Result, o.Note = hardware.Fail, fmt.Sprint(err)
			fail()
		}
		e.Sanitizer = append(e.Sanitizer, o)
	}
	return nil
}

// findSanitizer is compute-sanitizer: that of the bundle, or of a toolkit.
func findSanitizer(bundle string) (string, error) {
	for _, program := range []string{filepath.Join(bundle, "sanitizer", "compute-sanitizer"), "compute-sanitizer", "/usr/local/cuda/bin/compute-sanitizer"} {
		if found, err := exec.LookPath(program); err == nil {
			return found, nil
		}
	}
	return "", errors.New("compute-sanitizer is neither in the bundle nor on this machine")
}

// start runs a program, shows what it says, and returns it.
func start(limit time.Duration, dir string, environment []string, program string, args ...string) (string, error) {
	fmt.Printf("== %s %s\n", program, strings.Join(args, " "))
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	c := exec.CommandContext(ctx, program, args...)
	c.Dir, c.Env = dir, environment
	c.WaitDelay = 10 * time.Second
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	os.Stdout.Write(out.Bytes())
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return out.String(), err
}

// benchJobs is how many routes are timed; LOCKSTEP_BENCH_ROUTES gives another
// number, for machines that are slow.
func benchJobs() (int, error) {
	n := 5000
	if text := os.Getenv("LOCKSTEP_BENCH_ROUTES"); text != "" {
		if _, err := fmt.Sscan(text, &n); err != nil || n < 1 {
			return 0, fmt.Errorf("LOCKSTEP_BENCH_ROUTES=%s: want a number of routes", text)
		}
	}
	return n, nil
}

// bench times cost-only rollouts with the PID controller for every size of block,
// and sees that all give the same bits.
func bench(bundle, out string, e *hardware.Evidence) error {
	if data, err := os.ReadFile(filepath.Join(out, hardware.FileName(e.Device))); err == nil {
		old := *e
		if err := json.Unmarshal(data, &old); err != nil {
			return err
		}
		if old.Kernels != e.Kernels {
			return errors.New("the tests that are recorded were of other kernels: run the tests first")
		}
		*e = old
		e.Figures = nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	n, err := benchJobs()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "lockstep-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	modelPath, routesPath, err := defaults.Write(dir)
	if err != nil {
		return err
	}
	jobs, err := makeJobs(routesPath, n)
	if err != nil {
		return err
	}
	var first []lockstep.Costs
	for _, c := range []struct{ routes, threads int }{{0, 0}, {1, 256}, {2, 256}, {4, 128}, {4, 256}, {5, 256}, {6, 128}, {6, 256}} {
		f, costs, err := measure(gpu.Config{ModelPath: modelPath, RoutesPerBlock: c.routes, Threads: c.threads, Timed: true}, jobs)
		if err != nil {
			fmt.Printf("%d routes per block, %d threads: %v\n", c.routes, c.threads, err)
			continue
		}
		if first == nil {
			first = costs
		}
		for i := range costs {
			if costs[i] != first[i] {
				return fmt.Errorf("%d routes per block, %d threads: job %d has costs %v, others gave %v", c.routes, c.threads, i, costs[i], first[i])
			}
		}
		fmt.Printf("%d routes, %d per block, %d threads: kernel %.3f s, upload %.4f s, download %.4f s, all %.3f s\n",
			n, c.routes, c.threads, f.Kernel, f.Upload, f.Download, f.Wall)
		e.Figures = append(e.Figures, f)
	}
	if len(e.Figures) == 0 {
		return errors.New("nothing could be measured")
	}
	return nil
}

// makeJobs makes n routes of their own memory and draws from those in a folder.
func makeJobs(folder string, n int) ([]lockstep.Job, error) {
	files, err := lockstep.RouteFiles(folder, -1)
	if err != nil {
		return nil, err
	}
	var routes []*lockstep.Route
	for _, file := range files {
		r, err := lockstep.Loader{}.Load(file)
		if err != nil {
			return nil, err
		}
		routes = append(routes, r)
	}
	jobs := make([]lockstep.Job, n)
	for i := range jobs {
		r := *routes[i%len(routes)]
		r.Seed, r.Draws = uint32(i), nil
		jobs[i] = lockstep.Job{Route: &r, Policy: lockstep.DefaultPID}
	}
	return jobs, nil
}

// runs of which the fastest counts.
const runs = 3

func measure(config gpu.Config, jobs []lockstep.Job) (hardware.Figure, []lockstep.Costs, error) {
	f := hardware.Figure{Routes: len(jobs), Shortcuts: "cost-only", RoutesPerBlock: config.RoutesPerBlock, Threads: config.Threads, Runs: runs}
	s, err := gpu.New(config)
	if err != nil {
		return f, nil, err
	}
	defer s.Close()
	costs := make([]lockstep.Costs, len(jobs))
	for run := range runs {
		before := s.Stats()
		for i, r := range s.Simulate(context.Background(), jobs, lockstep.Options{Shortcuts: lockstep.CostOnly}) {
			if r.Err != nil {
				return f, nil, r.Err
			}
			costs[i] = r.Costs
		}
		t := s.Stats().Sub(before)
		if kernel := t.Kernel.Seconds(); run == 0 || kernel < f.Kernel {
			f.Kernel, f.Upload, f.Download, f.Wall = kernel, t.Upload.Seconds(), t.Download.Seconds(), t.Wall.Seconds()
		}
		f.Launches, f.UploadBytes, f.DownloadBytes = t.Launches, t.UploadBytes, t.DownloadBytes
	}
	return f, costs, nil
}
