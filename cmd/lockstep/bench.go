package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"lockstep"
	"lockstep/engines"
	"lockstep/internal/assets"
	"lockstep/internal/f32"
	"lockstep/internal/progress"
	"lockstep/internal/upstream"
	"lockstep/reference"
)

type benchCommand struct {
	ModelPath   string `name:"model_path" placeholder:"FILE" help:"The network. Default: tinyphysics.onnx from the assets."`
	DataPath    string `name:"data_path" placeholder:"FILE|DIR" help:"Routes. Default: those of the assets."`
	Jobs        int    `name:"jobs" default:"256" help:"Rollouts of one measurement: the routes in turn, each time with other gains. Slower contestants run fewer."`
	Repetitions int    `name:"repetitions" default:"5" help:"Measurements of each contestant, in turns."`
	Upstream    string `name:"upstream" placeholder:"DIR" help:"A checkout of commaai/controls_challenge, to measure the unmodified Python program too."`
	Python      string `name:"python" default:"python3" placeholder:"FILE" help:"Python with the packages of golden/requirements.txt."`
	Kernels     string `name:"kernels" placeholder:"SET" help:"Kernels of reference and batched, and of the peak: avx512, avx2 or go. Default: the best that this CPU runs."`
	JSON        bool   `name:"json" help:"Print JSON."`
}

// contestant is a way to roll routes out. Each measurement runs its first jobs.
type contestant struct {
	name  string
	cores int
	jobs  int
	run   func(jobs []lockstep.Job, g *gauge) ([]lockstep.Costs, error)
	close func() error // or nil

	network func() time.Duration // spent inside the network so far, if known

	rates  []float64 // routes per second, one for each measurement
	inside []float64 // share of the time inside the network, likewise
	peaks  []float64 // share of the peak of its cores, likewise
	equal  int       // rollouts whose costs were the reference's, bit by bit
	total  int
}

// bench is one run of the command.
type bench struct {
	*benchCommand
	env         *environment
	modelPath   string
	files       []string // of the routes
	jobs        []lockstep.Job
	truth       []lockstep.Costs // of the jobs, by the reference
	machine     machine
	contestants []*contestant
}

// Run is the bench command: all contestants take turns, so that what else the
// machine does hits them alike, and ratios are taken within one turn.
func (c *benchCommand) Run(env *environment) error {
	if c.Jobs < 1 || c.Repetitions < 1 {
		return fmt.Errorf("--jobs %d, --repetitions %d: want 1 or more", c.Jobs, c.Repetitions)
	}
	kernels, err := f32.Named(c.Kernels)
	if err != nil {
		return err
	}
	b := &bench{benchCommand: c, env: env, machine: machine{
		CPU: cpuModel(), Cores: runtime.GOMAXPROCS(0), Go: runtime.Version(), Engines: map[string]string{}}}
	defer b.close()
	for _, prepare := range []func() error{b.loadJobs, b.enterPython, b.enterEngines} {
		if err := prepare(); err != nil {
			return err
		}
	}
	bar := progress.New(env.stderr, c.Repetitions*len(b.contestants), "runs")
	for range c.Repetitions {
		for _, k := range b.contestants {
			if err := k.measure(b.jobs[:k.jobs], b.truth, kernels); err != nil {
				return fmt.Errorf("%s: %w", k.name, err)
			}
			bar.Add(1)
		}
	}
	bar.Clear()

	rows := tabulate(b.contestants)
	if c.JSON {
		err = json.NewEncoder(env.stdout).Encode(struct {
			Machine machine    `json:"machine"`
			Rows    []benchRow `json:"rows"`
		}{b.machine, rows})
	} else {
		err = printBench(env.stdout, b.machine, rows, c)
	}
	if err == nil && slices.ContainsFunc(rows, func(r benchRow) bool { return r.Equal != r.Rollouts }) {
		return exitStatus(exitParity)
	}
	return err
}

// loadJobs makes the jobs: the routes in turn, each time with other gains.
func (b *bench) loadJobs() (err error) {
	if b.modelPath, err = orAsset(b.ModelPath, assets.Model); err != nil {
		return err
	}
	(&inputFlags{ModelPath: b.ModelPath}).checkModel(b.env, b.modelPath)
	dataPath, err := orAsset(b.DataPath, assets.Routes)
	if err != nil {
		return err
	}
	if b.files, err = lockstep.RouteFiles(dataPath, b.Jobs); err != nil {
		return err
	}
	b.machine.Profile = commonProfile(engines.Tried(), b.modelPath)
	for i := range b.Jobs {
		var job lockstep.Job
		if k := i - len(b.files); k >= 0 {
			job.Route = b.jobs[k].Route
		} else if job.Route, err = (lockstep.Loader{Profile: b.machine.Profile}).Load(b.files[i]); err != nil {
			return err
		}
		gains := lockstep.DefaultPID
		gains.P += float64(i/len(b.files)) / 1000
		job.Policy = gains
		b.jobs = append(b.jobs, job)
	}
	return nil
}

func (b *bench) enterPython() error {
	if b.Upstream == "" {
		fmt.Fprintln(b.env.stderr, "lockstep: without --upstream the Python program is not measured")
		return nil
	}
	python, err := upstream.Start(b.env.ctx, b.Python, b.Upstream, b.modelPath)
	if err != nil {
		return err
	}
	b.contestants = append(b.contestants, &contestant{name: "Python program", cores: 1, jobs: min(b.Jobs, 4), close: python.Close,
		run: func(jobs []lockstep.Job, _ *gauge) ([]lockstep.Costs, error) {
			costs := make([]lockstep.Costs, len(jobs))
			for i, job := range jobs {
				if _, costs[i], err = python.Rollout(b.files[i%len(b.files)], job.Policy.(lockstep.PID)); err != nil {
					return nil, err
				}
			}
			return costs, nil
		}})
	return nil
}

// enterEngines enters each engine with one thread and, where it has several, with all.
func (b *bench) enterEngines() error {
	for _, e := range engines.Tried() {
		for _, workers := range slices.Compact([]int{1, b.machine.Cores}) {
			s, err := e.Open(engines.Config{Model: b.modelPath, Profile: b.machine.Profile, Workers: workers, Kernels: b.Kernels})
			if err != nil {
				fmt.Fprintf(b.env.stderr, "lockstep: the engine %s is not measured: %v\n", e.Name, err)
				break
			}
			if err := b.enter(e.Name, workers, s); err != nil {
				return err
			}
			if _, ok := s.(networkTimer); !ok {
				break // it has one thread, or is not made of any
			}
		}
	}
	return nil
}

// networkTimer is a simulator that knows how long it was inside the network.
type networkTimer interface{ NetworkTime() time.Duration }

func (b *bench) enter(name string, workers int, s lockstep.Simulator) (err error) {
	k := &contestant{name: name, cores: workers, jobs: b.Jobs, run: simulatorRun(b.env.ctx, s, lockstep.CostOnly), close: func() error { return engines.Close(s) }}
	b.contestants = append(b.contestants, k)
	b.machine.Engines[name] = engines.Inside(s)
	if s.Profile() != b.machine.Profile {
		fmt.Fprintf(b.env.stderr, "lockstep: the engine %s has profile %s, the others run %s\n", name, s.Profile(), b.machine.Profile)
	}
	if t, ok := s.(networkTimer); ok {
		k.network = t.NetworkTime
	}
	switch {
	case name == engines.Reference().Name:
		b.truth, err = k.run(b.jobs, &gauge{})
		k.jobs = min(b.Jobs, 8)
	case name == "onnxruntime" && workers == 1:
		naive := &contestant{name: "ONNX Runtime, naive batch", cores: 1, jobs: min(b.Jobs, 32), run: simulatorRun(b.env.ctx, s, 0)}
		b.contestants = slices.Insert(b.contestants, len(b.contestants)-1, naive)
	}
	return err
}

func (b *bench) close() {
	for _, k := range b.contestants {
		if k.close != nil {
			k.close()
		}
	}
}

// measure runs the contestant's jobs once.
func (k *contestant) measure(jobs []lockstep.Job, truth []lockstep.Costs, kernels *f32.Kernels) error {
	g, network := &gauge{kernels: kernels}, k.network
	if network == nil {
		network = func() time.Duration { return 0 }
	}
	before := network()
	previous := runtime.GOMAXPROCS(k.cores) // or the runtime's own work has a core more
	start := time.Now()
	costs, err := k.run(jobs, g)
	seconds := time.Since(start).Seconds()*float64(k.cores) - g.spent() // of one core
	runtime.GOMAXPROCS(previous)
	if err != nil {
		return err
	}
	k.rates = append(k.rates, float64(len(jobs)*k.cores)/seconds)
	k.inside = append(k.inside, (network()-before).Seconds()/seconds)
	if share := g.share(calls(jobs), seconds); share > 0 {
		k.peaks = append(k.peaks, share)
	}
	for i := range costs {
		k.total++
		if sameCosts(costs[i], truth[i]) {
			k.equal++
		}
	}
	return nil
}

// commonProfile is the arithmetic of the engine that has no other, which all others then
// compute with; the host's where there is none.
func commonProfile(list []*engines.Engine, modelPath string) lockstep.Profile {
	profile := reference.HostProfile()
	for _, e := range list {
		if !e.Own {
			continue
		}
		if s, err := e.Open(engines.Config{Model: modelPath, Profile: profile, Workers: 1}); err == nil {
			profile = s.Profile()
			engines.Close(s)
		}
	}
	return profile
}

// simulatorRun returns a function that runs jobs on a simulator.
func simulatorRun(ctx context.Context, s lockstep.Simulator, shortcuts lockstep.Shortcuts) func([]lockstep.Job, *gauge) ([]lockstep.Costs, error) {
	return func(jobs []lockstep.Job, g *gauge) ([]lockstep.Costs, error) {
		costs := make([]lockstep.Costs, len(jobs))
		for i, r := range s.Simulate(ctx, g.jobs(jobs), lockstep.Options{Shortcuts: shortcuts}) {
			if r.Err != nil {
				return nil, r.Err
			}
			costs[i] = r.Costs
		}
		return costs, nil
	}
}

type machine struct {
	CPU     string            `json:"cpu"`
	Cores   int               `json:"cores"`
	Go      string            `json:"go"`
	Engines map[string]string `json:"engines"` // what computes in each
	Profile lockstep.Profile  `json:"profile"`
}

// benchRow is one line of the table. Spreads are the least and the greatest of
// the repetitions.
type benchRow struct {
	Name     string            `json:"name"`
	Cores    int               `json:"cores"`
	Rate     spread            `json:"routes_per_second"`
	Ratios   map[string]spread `json:"ratios"` // to other rows, by name and cores
	Inside   float64           `json:"share_inside_network,omitempty"`
	Peak     *spread           `json:"share_of_peak,omitempty"` // of its cores' fused multiply-adds
	Equal    int               `json:"equal_to_reference"`
	Rollouts int               `json:"rollouts"`
}

type spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

func newSpread(x []float64) spread {
	x = slices.Sorted(slices.Values(x))
	return spread{Median: (x[(len(x)-1)/2] + x[len(x)/2]) / 2, Min: x[0], Max: x[len(x)-1]}
}

func (s spread) String() string { return fmt.Sprintf("%.3g (%.3g–%.3g)", s.Median, s.Min, s.Max) }

func (k *contestant) label() string {
	if k.cores == 1 {
		return k.name
	}
	return fmt.Sprintf("%s, %d cores", k.name, k.cores)
}

// tabulate sets each contestant against those before it.
func tabulate(contestants []*contestant) []benchRow {
	var rows []benchRow
	for i, k := range contestants {
		row := benchRow{Name: k.label(), Cores: k.cores, Rate: newSpread(k.rates), Inside: newSpread(k.inside).Median, Equal: k.equal, Rollouts: k.total, Ratios: map[string]spread{}}
		if len(k.peaks) > 0 {
			peak := newSpread(k.peaks)
			row.Peak = &peak
		}
		for _, other := range contestants[:i] {
			ratios := make([]float64, len(k.rates))
			for j := range ratios {
				ratios[j] = k.rates[j] / other.rates[j]
			}
			row.Ratios[other.label()] = newSpread(ratios)
		}
		rows = append(rows, row)
	}
	return rows
}

func printBench(w io.Writer, m machine, rows []benchRow, c *benchCommand) error {
	fmt.Fprintf(w, "%s, %d cores; %s\n", m.CPU, m.Cores, m.Go)
	for _, name := range engines.Names() {
		if inside := m.Engines[name]; inside != "" {
			fmt.Fprintf(w, "%s: %s\n", name, inside)
		}
	}
	fmt.Fprintf(w, "profile %s; %d rollouts, %d repetitions: median (least–greatest)\n\n", m.Profile, c.Jobs, c.Repetitions)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "\troutes/s\tparity with the reference")
	for _, r := range rows[:len(rows)-1] {
		fmt.Fprintf(t, "\t× %s", r.Name)
	}
	fmt.Fprintln(t)
	for _, r := range rows {
		verdict := fmt.Sprintf("equal, %d of %d", r.Equal, r.Rollouts)
		if r.Equal != r.Rollouts {
			verdict = fmt.Sprintf("DIFFERENT, %d of %d", r.Rollouts-r.Equal, r.Rollouts)
		}
		fmt.Fprintf(t, "%s\t%v\t%s", r.Name, r.Rate, verdict)
		for _, other := range rows[:len(rows)-1] {
			if ratio, ok := r.Ratios[other.Name]; ok {
				fmt.Fprintf(t, "\t%v", ratio)
			} else {
				fmt.Fprint(t, "\t")
			}
		}
		fmt.Fprintln(t)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, r := range rows {
		if r.Peak == nil {
			continue
		}
		fmt.Fprintf(w, "\n%s: %.1f %% (%.1f–%.1f) of its cores' peak of fused multiply-adds during the run", r.Name, 100*r.Peak.Median, 100*r.Peak.Min, 100*r.Peak.Max)
		if r.Inside > 0 {
			fmt.Fprintf(w, "; %.1f %% of the time is inside the network", 100*r.Inside)
		}
	}
	_, err := fmt.Fprintln(w, "\nwhere the rest goes: RATIONALE.md, Why a network of our own, and where the time goes")
	return err
}

// cpuModel is the CPU's name as Linux knows it, elsewhere its architecture.
func cpuModel() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if name, ok := strings.CutPrefix(lines.Text(), "model name"); ok {
			return strings.TrimLeft(name, "\t :")
		}
	}
	return runtime.GOARCH
}
