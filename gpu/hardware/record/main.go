// Command record runs the tests and the benchmarks on a GPU and writes what came of
// them to gpu/hardware, after every outcome, beside what is there of the same
// kernels. It is part of the folder that `make gpu-bundle` makes, and needs nothing
// but that folder and a driver.
//
//	record first OUT           all of it in one command of ten minutes: see steps.go
//	record tests OUT           runs the tests
//	record challenge OUT       rolls out what follows from the hash of the kernels
//	record sanitize TOOL OUT   runs TestShort under a tool of compute-sanitizer
//	record ptx OUT             runs TestShort with what the driver compiles of the PTX
//	record bench OUT           times 5,000 and 792 routes, and the peer
//	record profile OUT         has ncu look at one launch
//
// Each verb ends within -deadline, and says of what it did not come to that it was
// not run. With -rehearse it also runs where there is no GPU; what it then writes is no
// evidence, and is refused as such.
package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"lockstep"
	"lockstep/gpu"
	"lockstep/gpu/driver/cuda"
	"lockstep/gpu/hardware"
	"lockstep/gpu/kernels"
	"lockstep/gpu/module"
	"lockstep/internal/defaults"
	"lockstep/internal/group"
	"lockstep/internal/model"
	"lockstep/routefile"
)

const usage = `usage: record [-deadline 9m] [-rehearse] first OUT | tests OUT | challenge OUT | ` +
	`sanitize TOOL OUT | ptx OUT | bench OUT | profile OUT`

func main() {
	deadline := flag.Duration("deadline", 9*time.Minute, "when the verb ends")
	rehearse := flag.Bool("rehearse", false, "also without a GPU")
	flag.Usage = func() { fmt.Fprintln(os.Stderr, usage) }
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(
		ctx, *deadline, fmt.Errorf("the deadline of %v ended it", *deadline),
	)
	defer cancel()
	if err := run(ctx, *rehearse, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		os.Exit(1)
	}
}

// run does what the words say.
func run(ctx context.Context, rehearse bool, words []string) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	r := &recorder{bundle: filepath.Dir(program), say: os.Stdout}
	if len(words) == 2 && words[0] == "launch" { // for profile
		return launch(ctx)
	}
	verb, err := r.verb(words)
	if err != nil {
		return err
	}
	r.out = words[len(words)-1]
	if err := r.identify(); err != nil {
		return err
	}
	if err := r.evidence.CheckDevice(); err != nil && !rehearse {
		return fmt.Errorf("%w; nothing is written", err)
	}
	if err := r.earlier(); err != nil {
		return err
	}
	err = verb(ctx)
	if saved := r.save(); err == nil {
		err = saved
	}
	fmt.Printf("%s: %s\n", r.evidence.Device, r.evidence.Verdict)
	return err
}

// recorder writes one GPU's evidence.
type recorder struct {
	bundle, out string
	say         io.Writer // what the programs that are run say, as they say it
	evidence    *hardware.Evidence
}

// identify says what the GPU and the kernels are.
func (r *recorder) identify() error {
	d, err := gpu.OpenDevice()
	if err != nil {
		return err
	}
	defer d.Close()
	m, err := module.ReadManifest()
	if err != nil {
		return err
	}
	i := d.Info()
	fmt.Printf(
		"%s, compute capability %d.%d, %d multiprocessors, driver %s\n", i.Name, i.Major, i.Minor,
		i.Multiprocessors, i.Driver,
	)
	r.evidence = &hardware.Evidence{
		Device: i.Name, ComputeCapability: fmt.Sprintf("%d.%d", i.Major, i.Minor), Driver: i.Driver,
		Kernels: m.Sources, Compiler: m.Compiler, Date: time.Now().UTC().Format(time.DateOnly),
	}
	return nil
}

// earlier goes on from the evidence that is there, if it is of the same kernels.
func (r *recorder) earlier() error {
	data, err := os.ReadFile(filepath.Join(r.out, hardware.FileName(r.evidence.Device)))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	old := *r.evidence
	if err := json.Unmarshal(data, &old); err != nil {
		return fmt.Errorf("the evidence in %s: %w; move it away", r.out, err)
	}
	if old.Kernels != r.evidence.Kernels {
		fmt.Printf("the evidence in %s is of other kernels, and begins anew\n", r.out)
		return nil
	}
	old.Date, old.Driver = r.evidence.Date, r.evidence.Driver
	r.evidence = &old
	return nil
}

// save writes the evidence as it is.
func (r *recorder) save() error {
	r.evidence.Judge()
	_, err := r.evidence.Write(r.out)
	return err
}

// note puts an outcome into a list of the evidence, and writes it.
func (r *recorder) note(list *[]hardware.TestOutcome, o hardware.TestOutcome) error {
	hardware.Note(list, o)
	fmt.Fprintf(r.say, "== %s: %s %s\n", o.Name, o.Result, o.Note)
	return r.save()
}

// program runs a program in the bundle's folder, shows what it says as it says it,
// and gives each line to see. The error is the context's if that ended it.
func (r *recorder) program(
	ctx context.Context, see func(line string) error, name string, args ...string,
) error {
	fmt.Fprintln(r.say, "==", name, strings.Join(args, " "))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c := exec.CommandContext(ctx, name, args...)
	c.Dir, c.WaitDelay = r.bundle, 10*time.Second
	// A tool's own children end with it: one that went on would take the GPU from the next.
	group.Set(c)
	c.Cancel = func() error { group.Kill(c.Process); return nil }
	c.Env = append(
		os.Environ(), "LOCKSTEP_REQUIRE_GPU=1",
		"LOCKSTEP_GOLDENS="+filepath.Join(r.bundle, "goldens"),
	)
	out, in := io.Pipe()
	c.Stdout, c.Stderr = in, in
	seen := make(chan struct{})
	go func() {
		defer close(seen)
		lines := bufio.NewReader(out)
		for {
			line, err := lines.ReadString('\n')
			if line != "" {
				fmt.Fprintln(r.say, strings.TrimRight(line, "\n"))
				if failed := see(strings.TrimRight(line, "\n")); failed != nil {
					cancel(failed)
				}
			}
			if err != nil {
				return
			}
		}
	}()
	err := c.Run()
	in.Close()
	<-seen
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

var (
	outcomeLine = regexp.MustCompile(`^--- (PASS|FAIL|SKIP): (\w+)`)
	goldenLine  = regexp.MustCompile(`^ +--- PASS: TestGoldens/(\S+/\S+/\S+)`)
	words       = map[string]string{
		"PASS": hardware.Pass,
		"FAIL": hardware.Fail,
		"SKIP": hardware.Skip,
	}
)

// tests runs the test programs.
func (r *recorder) tests(ctx context.Context) error {
	r.evidence.Goldens, r.evidence.Tests = nil, nil
	for _, program := range []string{"cuda", "gpu"} {
		if err := r.testProgram(ctx, program); err != nil {
			return err
		}
	}
	if r.evidence.Judge(); r.evidence.Verdict == hardware.Fail {
		return errors.New("tests failed")
	}
	return nil
}

// challenge answers the challenge of these kernels, which the gate answers, too.
func (r *recorder) challenge(ctx context.Context) error {
	w, err := newWork()
	if err != nil {
		return err
	}
	defer w.close()
	s, err := gpu.New(gpu.Config{ModelPath: w.model})
	if err != nil {
		return r.note(
			&r.evidence.Others,
			hardware.TestOutcome{Name: challengeName, Result: hardware.NotRun, Note: err.Error()},
		)
	}
	defer s.Close()
	if r.evidence.Challenge, err = hardware.Answer(ctx, s, r.evidence.Kernels); err != nil {
		return r.note(
			&r.evidence.Others,
			hardware.TestOutcome{Name: challengeName, Result: hardware.NotRun, Note: err.Error()},
		)
	}
	return r.note(
		&r.evidence.Others, hardware.TestOutcome{Name: challengeName, Result: hardware.Pass},
	)
}

// testProgram notes the outcome of each test of a program, and of those that it did
// not come to.
func (r *recorder) testProgram(ctx context.Context, program string) error {
	var all []string
	list := func(line string) error {
		if strings.HasPrefix(line, "Test") {
			all = append(all, line)
		}
		return nil
	}
	tests := &r.evidence.Tests
	if err := r.program(ctx, list, "./"+program+".test", "-test.list=^Test"); err != nil &&
		ctx.Err() == nil {
		return r.note(
			tests,
			hardware.TestOutcome{
				Name:   program,
				Result: hardware.Fail,
				Note:   "its tests cannot be listed: " + err.Error(),
			},
		)
	}
	done := map[string]bool{}
	see := func(line string) error {
		if m := goldenLine.FindStringSubmatch(line); m != nil {
			r.evidence.Goldens = append(r.evidence.Goldens, m[1])
			return nil
		}
		m := outcomeLine.FindStringSubmatch(line)
		if m == nil {
			return nil
		}
		done[m[2]] = true
		return r.note(tests, hardware.TestOutcome{Name: program + "." + m[2], Result: words[m[1]]})
	}
	ended := r.program(ctx, see, "./"+program+".test", "-test.v", "-test.timeout=0")
	why := "the program ended before it"
	if ended != nil {
		why = ended.Error()
	}
	for _, name := range all {
		if !done[name] {
			if err := r.note(tests, hardware.TestOutcome{Name: program + "." + name,
				Result: hardware.NotRun, Note: why}); err != nil {
				return err
			}
		}
	}
	if len(all) == 0 {
		return r.note(
			tests,
			hardware.TestOutcome{
				Name:   program,
				Result: hardware.NotRun,
				Note:   "no tests were listed: " + why,
			},
		)
	}
	var exit *exec.ExitError
	if errors.As(ended, &exit) && ctx.Err() == nil && len(done) == len(all) &&
		!slices.ContainsFunc(
			*tests, func(o hardware.TestOutcome) bool { return o.Result == hardware.Fail },
		) {
		return r.note(
			tests, hardware.TestOutcome{Name: program, Result: hardware.Fail, Note: ended.Error()},
		)
	}
	return nil
}

// sanitizerFound is the exit status that compute-sanitizer is told to use. It is not told
// to report API errors, which would be findings, too: the driver asks a stream whether it
// has done its work, and "not ready" is an answer.
const sanitizerFound = 9

// finding is what it says of the kernels: not its title and its sums, not what goes on
// from the line before, and not what a call of the API answered.
var finding = regexp.MustCompile(`^========= (\S.*)$`)
var noFinding = regexp.MustCompile(`COMPUTE-SANITIZER|SUMMARY|^Program hit `)

// unable are what compute-sanitizer says where it cannot work.
var unable = regexp.MustCompile(
	`(?i)not supported|unable to|timed? ?out|no attachable process|internal sanitizer ` +
		`error|target application (terminated|returned an error) before`,
)

// sanitize runs TestShort under one of compute-sanitizer's tools. What the tool
// itself could not do is "not run", with its words.
func (r *recorder) sanitize(ctx context.Context, tool string) error {
	o := hardware.TestOutcome{Name: tool, Result: hardware.NotRun}
	sanitizer, err := find("compute-sanitizer", "/usr/local/cuda/bin/compute-sanitizer")
	if err != nil {
		o.Note = err.Error()
		return r.note(&r.evidence.Sanitizer, o)
	}
	return r.note(&r.evidence.Sanitizer, r.sanitized(ctx, tool, sanitizer))
}

func (r *recorder) sanitized(ctx context.Context, tool, sanitizer string) hardware.TestOutcome {
	o := hardware.TestOutcome{Name: tool, Result: hardware.NotRun}
	test, excuse, found := "", "", ""
	err := r.program(ctx, func(line string) error {
		if m := outcomeLine.FindStringSubmatch(strings.TrimSpace(line)); m != nil &&
			m[2] == "TestShort" {
			test = m[1]
		}
		if strings.HasPrefix(line, "=========") {
			if excuse == "" && unable.MatchString(line) {
				excuse = strings.Trim(line, "= ")
			} else if m := finding.FindStringSubmatch(line); m != nil && found == "" &&
				!noFinding.MatchString(m[1]) {
				found = m[1]
			}
		}
		return nil
	}, sanitizer, "--tool", tool, "--report-api-errors", "no",
		"--error-exitcode", fmt.Sprint(sanitizerFound),
		"./gpu.test", "-test.run=^TestShort$", "-test.v", "-test.timeout=0")
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		o.Note = context.Cause(ctx).Error()
	case excuse != "":
		o.Note = excuse
	case errors.As(err, &exit) && exit.ExitCode() == sanitizerFound && found == "":
		o.Note = "it says that it found errors, and none of the kernels"
	case errors.As(err, &exit) && exit.ExitCode() == sanitizerFound:
		o.Result, o.Note = hardware.Fail, found
	case test == "FAIL":
		o.Result, o.Note = hardware.Fail, "the test failed under the tool"
	case err != nil:
		o.Note = err.Error()
	case test == "PASS":
		o.Result = hardware.Pass
	default:
		o.Note = "the test was not run"
	}
	return o
}

// find is the first of the programs that there is.
func find(names ...string) (string, error) {
	names = slices.DeleteFunc(names, func(name string) bool { return name == "" })
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("there is no %s", strings.Join(names, " and no "))
}

// wholeRound is how many routes the largest blocks hold on 132 multiprocessors.
const wholeRound = 6 * 132

// benchRoutes are how many routes are timed: what the challenge has, and a whole round.
// LOCKSTEP_BENCH_ROUTES gives another number, for machines that are slow.
func benchRoutes() ([]int, error) {
	if text := os.Getenv("LOCKSTEP_BENCH_ROUTES"); text != "" {
		n := 0
		if _, err := fmt.Sscan(text, &n); err != nil || n < 1 {
			return nil, fmt.Errorf("LOCKSTEP_BENCH_ROUTES=%s: want a number of routes", text)
		}
		return []int{n}, nil
	}
	return []int{5000, wholeRound}, nil
}

// benchKernels are the kernels that are compared: those of LOCKSTEP_KERNELS, of which
// there may be several with commas between them, or the ones that a GPU gets.
func benchKernels() []string {
	return strings.Split(os.Getenv(cuda.KernelsVariable), ",")
}

// benchCases are what is timed, by names of policies; 0 leaves a number to the engine.
var benchCases = []struct {
	policy          string
	routes, threads int
}{
	{"pid", 0, 0},
	{"pid", 6, 256},
	{"pid", 5, 256},
	{"pid", 4, 256},
	{"pid", 2, 256},
	{"pid", 1, 256},
	{"pid", 6, 128},
	{"pid", 4, 128},
	{"network", 0, 0},
	{"network", 6, 256},
}

// benchPolicies are theirs: the network is of the size that is trained, with weights that are in no
// order.
func benchPolicies() (map[string]lockstep.Policy, error) {
	random := rand.New(rand.NewPCG(1, 2))
	numbers := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = 0.2 * (random.Float32() - 0.5)
		}
		return x
	}
	var layers []lockstep.Layer
	inputs := lockstep.ObservationSize
	for _, outputs := range []int{256, 256, 256, 256, lockstep.ActorSize} {
		layers = append(
			layers,
			lockstep.Layer{
				Inputs:  inputs,
				Outputs: outputs,
				Weights: numbers(inputs * outputs),
				Bias:    numbers(outputs),
			},
		)
		inputs = outputs
	}
	network, err := lockstep.NewNetwork(layers, lockstep.DefaultScale)
	return map[string]lockstep.Policy{"pid": lockstep.DefaultPID(), "network": network}, err
}

// bench times cost-only rollouts, first as they are run where nobody chooses, then for
// every size of block, and then the peer: what a deadline cuts off is the least wanted.
func (r *recorder) bench(ctx context.Context) error {
	sizes, err := benchRoutes()
	if err != nil {
		return err
	}
	err = r.benchCases(ctx, "bench", sizes, len(benchCases))
	return errors.Join(err, r.peers(ctx, sizes))
}

// benchOne times the first case alone, with the most routes.
func (r *recorder) benchOne(ctx context.Context) error {
	sizes, err := benchRoutes()
	if err != nil {
		return err
	}
	return r.benchCases(ctx, benchOneName, sizes[:1], 1)
}

// benchCases times the first of the cases, and sees that all of a policy give the same
// bits. A figure is kept whatever comes after it.
func (r *recorder) benchCases(ctx context.Context, name string, sizes []int, cases int) error {
	policies, err := benchPolicies()
	if err != nil {
		return err
	}
	w, err := newWork()
	if err != nil {
		return err
	}
	defer w.close()
	b := &bencher{
		r:      r,
		result: hardware.TestOutcome{Name: name, Result: hardware.Pass},
		first:  map[string][]lockstep.Costs{},
	}
	defer os.Setenv(cuda.KernelsVariable, os.Getenv(cuda.KernelsVariable))
	for _, c := range benchCases[:cases] {
		for _, n := range sizes {
			jobs, err := w.jobs(n)
			if err != nil {
				return err
			}
			for i := range jobs {
				jobs[i].Policy = policies[c.policy]
			}
			for _, kernels := range benchKernels() {
				config := gpu.Config{
					ModelPath:      w.model,
					RoutesPerBlock: c.routes,
					Threads:        c.threads,
					Timed:          true,
				}
				if err := b.time(ctx, c.policy, kernels, config, jobs); err != nil {
					return err
				}
			}
		}
	}
	return r.note(&r.evidence.Others, b.result)
}

// bencher times cases, one after the other.
type bencher struct {
	r      *recorder
	result hardware.TestOutcome
	first  map[string][]lockstep.Costs // by number of routes and policy
}

// worse makes the outcome worse.
func (b *bencher) worse(how, note string) {
	if b.result.Result != hardware.Fail {
		b.result.Result, b.result.Note = how, note
	}
	fmt.Fprintln(b.r.say, note)
}

// time measures one case, and writes the evidence.
func (b *bencher) time(
	ctx context.Context, policy, kernels string, config gpu.Config, jobs []lockstep.Job,
) error {
	name := fmt.Sprintf(
		"%d routes, %s, %d per block, %d threads, kernels %q", len(jobs), policy,
		config.RoutesPerBlock, config.Threads, kernels,
	)
	if ctx.Err() != nil {
		b.worse(hardware.NotRun, name+": "+context.Cause(ctx).Error())
		return nil
	}
	os.Setenv(cuda.KernelsVariable, kernels)
	f, costs, err := measure(ctx, config, jobs)
	if err != nil {
		b.worse(hardware.NotRun, name+": "+err.Error())
		return nil
	}
	f.Kernels, f.Policy = kernels, policy
	for _, c := range costs {
		f.Cost += c.Total / float64(len(costs))
	}
	b.r.evidence.Measure(f)
	fmt.Fprintf(
		b.r.say, "%s: kernel %.3f s, upload %.4f s, download %.4f s, all %.3f s\n", name, f.Kernel,
		f.Upload, f.Download, f.Wall,
	)
	same := fmt.Sprint(len(jobs), " ", policy)
	if b.first[same] == nil {
		b.first[same] = costs
	}
	if i := differs(costs, b.first[same]); i >= 0 {
		b.worse(
			hardware.Fail,
			fmt.Sprintf(
				"%s: job %d has costs %v, others gave %v", name, i, costs[i], b.first[same][i],
			),
		)
	}
	return b.r.save()
}

// differs is the first place in which costs differ, or -1.
func differs(a, b []lockstep.Costs) int {
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return -1
}

// peers times the peer at the work of each size, given the exact rollouts of it.
func (r *recorder) peers(ctx context.Context, sizes []int) error {
	w, err := newWork()
	if err != nil {
		return err
	}
	defer w.close()
	for _, n := range sizes {
		jobs, err := w.jobs(n)
		if err != nil {
			return err
		}
		data := filepath.Join(w.dir, fmt.Sprint("peer", n))
		exact, err := rollouts(ctx, w.model, jobs)
		if err == nil {
			err = writePeer(data, w.model, jobs, exact)
		}
		if err != nil {
			o := hardware.TestOutcome{Name: peerName(n), Result: hardware.NotRun, Note: err.Error()}
			if err := r.note(&r.evidence.Others, o); err != nil {
				return err
			}
			continue
		}
		if err := r.peer(ctx, n, data); err != nil {
			return err
		}
	}
	return nil
}

func peerName(routes int) string { return fmt.Sprintf("peer of %d routes", routes) }

// rollouts are the exact ones.
func rollouts(
	ctx context.Context, modelPath string, jobs []lockstep.Job,
) ([]lockstep.Result, error) {
	s, err := gpu.New(gpu.Config{ModelPath: modelPath})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	out := make([]lockstep.Result, len(jobs))
	for i, r := range s.Simulate(ctx, jobs, lockstep.Options{
		Shortcuts:  lockstep.CostOnly,
		Trajectory: true,
	}) {
		if r.Err != nil {
			return nil, r.Err
		}
		out[i] = r
	}
	return out, nil
}

// peer times PyTorch at the same work, where there is PyTorch.
func (r *recorder) peer(ctx context.Context, routes int, data string) error {
	o := hardware.TestOutcome{Name: peerName(routes), Result: hardware.NotRun}
	args := []string{"peer.py", "--data", data, "--json"}
	if r.evidence.CheckDevice() != nil {
		args = append(args, "--device", "cpu", "--runs", "1")
	}
	python, err := find(os.Getenv("LOCKSTEP_PYTHON"), "python3", "python")
	if err == nil {
		err = r.program(ctx, func(line string) error {
			var p hardware.Peer
			if json.Unmarshal([]byte(line), &p) == nil && p.Name != "" {
				r.evidence.Peers = slices.DeleteFunc(
					r.evidence.Peers,
					func(o hardware.Peer) bool { return o.Name == p.Name && o.Routes == p.Routes },
				)
				r.evidence.Peers = append(r.evidence.Peers, p)
				o.Result = hardware.Pass
				return r.save()
			}
			return nil
		}, python, args...)
	}
	if err != nil {
		o.Note = err.Error()
	} else if o.Result != hardware.Pass {
		o.Note = "it gave no figure"
	}
	return r.note(&r.evidence.Others, o)
}

// writePeer writes what peer.py reads: the packed weights, the routes' columns (roll
// lataccel, v ego, a ego, target), recorded commands, draws, that of step s at s, and of
// the exact rollouts the lataccels and the total costs.
func writePeer(folder, modelPath string, jobs []lockstep.Job, exact []lockstep.Result) error {
	weights, err := model.Load(modelPath)
	if err != nil {
		return err
	}
	rows := lockstep.CostEndIdx
	var columns, steer, draws, totals, lataccels []float64
	for i, j := range jobs {
		r := j.Route
		if r.Len() < rows {
			return fmt.Errorf("route %s has %d rows, want %d for the peer", r.Name, r.Len(), rows)
		}
		for _, c := range [][]float64{r.RollLataccel, r.VEgo, r.AEgo, r.TargetLataccel} {
			columns = append(columns, c[:rows]...)
		}
		steer = append(steer, r.SteerCommand[:lockstep.ControlStartIdx]...)
		totals, lataccels = append(totals, exact[i].Costs.Total), append(
			lataccels,
			exact[i].Trajectory.Lataccel[:rows]...)
		draws = append(
			append(draws, make([]float64, lockstep.ContextLength)...),
			lockstep.Draws(r.Seed, rows-lockstep.ContextLength)...)
	}
	shape, err := json.Marshal(map[string]int{"routes": len(jobs), "rows": rows})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for name, data := range map[string]any{
		"weights.f32":  kernels.Pack(weights),
		"columns.f64":  columns,
		"steer.f64":    steer,
		"draws.f64":    draws,
		"costs.f64":    totals,
		"lataccel.f64": lataccels,
		"shape.json":   shape,
	} {
		var b bytes.Buffer
		if err := binary.Write(&b, binary.LittleEndian, data); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, name), b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// profile has Nsight Compute look at one launch, and writes its report and two pages
// of it beside the evidence.
func (r *recorder) profile(ctx context.Context) error {
	o := hardware.TestOutcome{Name: profileName, Result: hardware.NotRun}
	ncu, err := find("ncu", "/usr/local/cuda/bin/ncu")
	if err != nil {
		o.Note = err.Error()
		return r.note(&r.evidence.Others, o)
	}
	out, err := filepath.Abs(r.out)
	if err != nil {
		return err
	}
	base := filepath.Join(out, r.base())
	ignore := func(string) error { return nil }
	err = r.program(
		ctx, ignore, ncu, "--set", "full", "--clock-control", "none", "--launch-count", "1",
		"--kill", "yes", "-f", "-o", base, "./record", "launch", out,
	)
	// Killed as it was told, the program ends with an error; the report tells.
	if _, missing := os.Stat(base + ".ncu-rep"); missing != nil {
		o.Note = fmt.Sprintf("ncu wrote no report: %v", err)
		return r.note(&r.evidence.Others, o)
	}
	for page, args := range map[string][]string{
		"details.txt": {"--page", "details"},
		"source.csv":  {"--page", "source", "--csv"},
	} {
		f, err := os.Create(base + "." + page + ".gz")
		if err != nil {
			return err
		}
		c := exec.CommandContext(
			ctx,
			ncu,
			append([]string{"--import", base + ".ncu-rep"}, args...)...)
		w := gzip.NewWriter(f) // a page is a row for each instruction
		c.Stdout = w
		if err := errors.Join(c.Run(), w.Close(), f.Close()); err != nil {
			o.Note = page + ": " + err.Error()
			return r.note(&r.evidence.Others, o)
		}
	}
	o.Result = hardware.Pass
	return r.note(&r.evidence.Others, o)
}

// launch runs a whole round of the largest blocks once.
func launch(ctx context.Context) error {
	w, err := newWork()
	if err != nil {
		return err
	}
	defer w.close()
	jobs, err := w.jobs(wholeRound)
	if err != nil {
		return err
	}
	_, _, err = measure(ctx, gpu.Config{ModelPath: w.model, RoutesPerBlock: 6}, jobs)
	return err
}

// work is the project's own network and routes, in a folder.
type work struct{ dir, model, routes string }

func newWork() (*work, error) {
	dir, err := os.MkdirTemp("", "lockstep-record-")
	if err != nil {
		return nil, err
	}
	w := &work{dir: dir}
	if w.model, w.routes, err = defaults.Write(dir); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

func (w *work) close() { os.RemoveAll(w.dir) }

// jobs are rollouts of n routes of their own memory and draws.
func (w *work) jobs(n int) ([]lockstep.Job, error) {
	files, err := routefile.List(w.routes, -1)
	if err != nil {
		return nil, err
	}
	var routes []*lockstep.Route
	for _, file := range files {
		r, err := routefile.Loader{}.Load(file)
		if err != nil {
			return nil, err
		}
		routes = append(routes, r)
	}
	jobs := make([]lockstep.Job, n)
	for i := range jobs {
		r := *routes[i%len(routes)]
		r.Seed, r.Draws = uint32(i), nil
		jobs[i] = lockstep.Job{Route: &r, Policy: lockstep.DefaultPID()}
	}
	return jobs, nil
}

// runs of which the fastest counts.
const runs = 3

func measure(
	ctx context.Context, config gpu.Config, jobs []lockstep.Job,
) (hardware.Figure, []lockstep.Costs, error) {
	f := hardware.Figure{
		Routes:         len(jobs),
		Shortcuts:      "cost-only",
		RoutesPerBlock: config.RoutesPerBlock,
		Threads:        config.Threads,
		Runs:           runs,
	}
	s, err := gpu.New(config)
	if err != nil {
		return f, nil, err
	}
	defer s.Close()
	costs := make([]lockstep.Costs, len(jobs))
	for run := range runs {
		before := s.Stats()
		for i, r := range s.Simulate(ctx, jobs, lockstep.Options{Shortcuts: lockstep.CostOnly}) {
			if r.Err != nil {
				return f, nil, r.Err
			}
			costs[i] = r.Costs
		}
		t := s.Stats().Sub(before)
		if kernel := t.Kernel.Seconds(); run == 0 || kernel < f.Kernel {
			f.Kernel, f.Upload, f.Download, f.Wall = kernel, t.Upload.Seconds(),
				t.Download.Seconds(), t.Wall.Seconds()
		}
		f.Launches, f.UploadBytes, f.DownloadBytes, f.Sampled, f.Serial = t.Launches, t.UploadBytes,
			t.DownloadBytes, t.Sampled, t.Serial
	}
	return f, costs, nil
}
