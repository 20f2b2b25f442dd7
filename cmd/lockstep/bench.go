package main

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"lockstep"
	"lockstep/engines"
	"lockstep/internal/f32"
	"lockstep/internal/installed"
	"lockstep/internal/progress"
	"lockstep/internal/upstream"
	"lockstep/routefile"
)

type benchCommand struct {
	pathFlags
	benchFlags
	Jobs        int    `name:"jobs"        default:"256"     help:"Rollouts of one measurement: the routes in turn, each time with other gains. Slower contestants run fewer."`
	Repetitions int    `name:"repetitions" default:"5"       help:"Measurements of each contestant, in turns."                                                                         family:"every"`
	Upstream    string `name:"upstream"                      help:"A checkout of commaai/controls_challenge, to measure the unmodified Python program too."                                           placeholder:"DIR"`
	Python      string `name:"python"      default:"python3" help:"Python with the packages of golden/requirements.txt."                                                               family:"every" placeholder:"FILE"`
	Kernels     string `name:"kernels"                       help:"Kernels of reference and batched, and of the peak: avx512, avx2, neon or go. Default: the best that this CPU runs."                placeholder:"SET"`
	JSON        bool   `name:"json"                          help:"Print JSON."                                                                                                        family:"every"`
}

// A contestant is a way to roll jobs out, and its line of the table. Each measurement runs
// its first jobs.
type contestant struct {
	Name   string             `json:"name"`
	Cores  int                `json:"cores"`
	Rate   *spread            `json:"routes_per_second"`
	Ratios map[string]*spread `json:"ratios"` // to those before it, by name
	Inside float64            `json:"share_inside_network,omitempty"`
	// of its cores' fused multiply-adds
	Peak *spread `json:"share_of_peak,omitempty"`
	// rollouts whose costs were the reference's, bit by bit
	Equal    int `json:"equal_to_reference"`
	Rollouts int `json:"rollouts"`

	jobs    int
	run     func(jobs []lockstep.Job) ([]lockstep.Costs, error)
	network func() time.Duration // spent inside the network so far, if known

	rates, inside, peaks []float64 // of each measurement: routes per second, and shares
}

// differs reports whether a rollout had not the costs of the reference's.
func (k *contestant) differs() bool { return k.Equal != k.Rollouts }

// bench is one run of the command.
type bench struct {
	Machine machine       `json:"machine"`
	Model   string        `json:"model"` // the network's path
	Data    string        `json:"data"`  // the routes'
	Rows    []*contestant `json:"rows"`

	env   *environment
	files []string // of the routes
	jobs  []lockstep.Job
	truth []lockstep.Costs // of the jobs, by the reference
	peak  func() (fma int) // see f32.Kernels
}

type machine struct {
	CPU     string            `json:"cpu"`
	Cores   int               `json:"cores"`
	Go      string            `json:"go"`
	Engines map[string]string `json:"engines"` // what computes in each
	Profile lockstep.Profile  `json:"profile"` // of the engines

	// Arithmetic is that of the Python that was asked: the Python program's, if that is measured.
	Arithmetic *installed.Found `json:"arithmetic,omitempty"`
}

// Run is the bench command: all contestants take turns, so that what else the
// machine does hits them alike, and ratios are taken within one turn.
func (c *benchCommand) Run(env *environment) error {
	if c.Jobs < 1 || c.Repetitions < 1 {
		return fmt.Errorf("--jobs %d, --repetitions %d: want 1 or more", c.Jobs, c.Repetitions)
	}
	if f := c.family(); f != nil {
		return f.bench(env, c)
	}
	if c.Upstream == "" && slices.Contains(env.given, "python") {
		return fmt.Errorf("--python %s goes with --upstream, or with --env", c.Python)
	}
	kernels, err := f32.Named(c.Kernels)
	if err != nil {
		return err
	}
	model, data, err := c.inputs(env)
	if err != nil {
		return err
	}
	python := ""
	if c.Upstream != "" {
		python = c.Python
	}
	host, err := env.profile(installed.Host, python)
	if err != nil {
		return err
	}
	b := &bench{env: env, peak: kernels.Peak, Model: model, Data: data, Machine: machine{
		CPU: cpuModel(), Cores: runtime.GOMAXPROCS(0), Go: runtime.Version(),
		Engines: map[string]string{}, Profile: engines.Common(engines.Tried(), model, host),
		Arithmetic: env.found,
	}}
	env.computed, env.told = b.Machine.Profile, c.JSON
	if err := b.load(data, c.Jobs); err != nil {
		return err
	}
	if c.Upstream == "" {
		fmt.Fprintln(env.stderr, "lockstep: without --upstream the Python program is not measured")
	} else {
		python, err := upstream.Start(env.ctx, c.Python, c.Upstream, model)
		if err != nil {
			return err
		}
		env.atEnd(func() { python.Close() })
		b.enter("Python program", 1, 4, b.inPython(python.Rollout))
	}
	if err := b.enterEngines(engines.Config{Model: model, Profile: b.Machine.Profile,
		Kernels: c.Kernels}); err != nil {
		return err
	}
	bar := progress.New(env.stderr, c.Repetitions*len(b.Rows), "runs")
	for range c.Repetitions {
		for _, k := range b.Rows {
			if err := b.measure(k); err != nil {
				return fmt.Errorf("%s: %w", k.Name, err)
			}
			bar.Add(1)
		}
	}
	bar.Clear()
	b.tabulate()
	if c.JSON {
		env.json(b)
	} else {
		b.print(c)
	}
	if slices.ContainsFunc(b.Rows, (*contestant).differs) {
		return exitStatus(exitParity)
	}
	return nil
}

// load makes the jobs: the routes in turn, each time with other gains.
func (b *bench) load(data string, jobs int) (err error) {
	if b.files, err = routefile.List(data, jobs); err != nil {
		return err
	}
	routes := make([]*lockstep.Route, len(b.files))
	for i, file := range b.files {
		if routes[i], err = (routefile.Loader{Profile: b.Machine.Profile}).Load(file); err != nil {
			return err
		}
	}
	for i := range jobs {
		gains := lockstep.DefaultPID()
		gains.P += float64(i/len(routes)) / 1000
		b.jobs = append(b.jobs, lockstep.Job{Route: routes[i%len(routes)], Policy: gains})
	}
	return nil
}

// enter adds a contestant of so many jobs at the most.
func (b *bench) enter(
	name string, cores, jobs int, run func([]lockstep.Job) ([]lockstep.Costs, error),
) *contestant {
	if cores > 1 {
		name = fmt.Sprintf("%s, %d cores", name, cores)
	}
	unknown := func() time.Duration { return 0 }
	k := &contestant{
		Name:    name,
		Cores:   cores,
		Ratios:  map[string]*spread{},
		jobs:    min(jobs, len(b.jobs)),
		run:     run,
		network: unknown,
	}
	b.Rows = append(b.Rows, k)
	return k
}

// enterEngines enters each engine with one thread and, where it has several, with all. The
// first of them is the reference.
func (b *bench) enterEngines(config engines.Config) error {
	for _, e := range engines.Tried() {
		for _, config.Workers = range slices.Compact([]int{1, b.Machine.Cores}) {
			s, err := e.Open(config)
			if err != nil && b.truth == nil {
				return err
			} else if err != nil {
				fmt.Fprintf(b.env.stderr, "lockstep: the engine %s is not measured: %v\n", e.Name,
					err)
				break
			}
			b.env.atEnd(func() { s.Close() })
			b.Machine.Engines[e.Name] = s.About().Inside
			jobs, run := len(b.jobs), b.rolledOut(s, lockstep.CostOnly)
			if b.truth == nil {
				jobs = 8
				if b.truth, err = run(b.jobs); err != nil {
					return err
				}
			} else if e.ByLibrary && config.Workers == 1 {
				b.enter("ONNX Runtime, naive batch", 1, 32, b.rolledOut(s, 0))
			}
			k := b.enter(e.Name, config.Workers, jobs, run)
			network := s.About().NetworkTime
			if network == nil {
				break // it has one thread, or is not made of any
			}
			k.network = network
		}
	}
	return nil
}

// rolledOut runs jobs on a simulator.
func (b *bench) rolledOut(
	s lockstep.Implementation, shortcuts lockstep.Shortcuts,
) func([]lockstep.Job) ([]lockstep.Costs, error) {
	return func(jobs []lockstep.Job) ([]lockstep.Costs, error) {
		costs := make([]lockstep.Costs, len(jobs))
		for i, r := range s.Simulate(b.env.ctx, jobs, lockstep.Options{Shortcuts: shortcuts}) {
			if r.Err != nil {
				return nil, r.Err
			}
			costs[i] = r.Costs
		}
		return costs, nil
	}
}

// inPython runs jobs, which are the first of the bench's, in the Python program, as
// upstream.Program does.
func (b *bench) inPython(
	rollout func(string, lockstep.Policy) (time.Duration, lockstep.Costs, error),
) func([]lockstep.Job) ([]lockstep.Costs, error) {
	return func(jobs []lockstep.Job) (costs []lockstep.Costs, err error) {
		costs = make([]lockstep.Costs, len(jobs))
		for i := range jobs {
			if _, costs[i], err = rollout(b.files[i%len(b.files)], b.jobs[i].Policy); err != nil {
				return nil, err
			}
		}
		return costs, nil
	}
}

// measure runs a contestant's jobs once.
func (b *bench) measure(k *contestant) error {
	g := &gauge{peak: b.peak}
	jobs := b.jobs[:k.jobs]
	defer runtime.GOMAXPROCS(
		runtime.GOMAXPROCS(k.Cores),
	) // or the runtime's own work has a core more
	before, start := k.network(), time.Now()
	costs, err := k.run(g.jobs(jobs))
	seconds := time.Since(start).Seconds()*float64(k.Cores) - g.spent() // of one core
	if err != nil {
		return err
	}
	k.rates = append(k.rates, float64(len(jobs)*k.Cores)/seconds)
	k.inside = append(k.inside, (k.network()-before).Seconds()/seconds)
	if g.fma.Load() > 0 {
		k.peaks = append(k.peaks, g.share(jobs, seconds))
	}
	for i, c := range costs {
		k.Rollouts++
		if sameCosts(c, b.truth[i]) {
			k.Equal++
		}
	}
	return nil
}

// tabulate sets each contestant against those before it.
func (b *bench) tabulate() {
	for i, k := range b.Rows {
		k.Rate, k.Inside, k.Peak = newSpread(k.rates), newSpread(k.inside).Median,
			newSpread(k.peaks)
		for _, other := range b.Rows[:i] {
			k.Ratios[other.Name] = newSpread(ratios(k.rates, other.rates))
		}
	}
}

// spread is what repetitions came to.
type spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// newSpread is nil for no numbers.
func newSpread(x []float64) *spread {
	if len(x) == 0 {
		return nil
	}
	x = slices.Sorted(slices.Values(x))
	return &spread{Median: (x[(len(x)-1)/2] + x[len(x)/2]) / 2, Min: x[0], Max: x[len(x)-1]}
}

func (s *spread) String() string {
	if s == nil {
		return ""
	}
	return fmt.Sprintf("%.3g (%.3g–%.3g)", s.Median, s.Min, s.Max)
}

func (b *bench) print(c *benchCommand) {
	w, m := b.env.stdout, b.Machine
	fmt.Fprintf(w, "%s, %d cores; %s\n", m.CPU, m.Cores, m.Go)
	for _, name := range engines.Names() {
		if inside := m.Engines[name]; inside != "" {
			fmt.Fprintf(w, "%s: %s\n", name, inside)
		}
	}
	b.env.tell()
	b.env.told = true
	fmt.Fprintf(
		w, "network %s, routes %s\nprofile %s; %d rollouts, %d repetitions: median "+
			"(least–greatest)\n\n",
		b.Model, b.Data, m.Profile, c.Jobs, c.Repetitions,
	)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "\troutes/s\tparity with the reference")
	others := b.Rows[:len(b.Rows)-1]
	for _, k := range others {
		fmt.Fprintf(t, "\t× %s", k.Name)
	}
	fmt.Fprintln(t)
	for _, k := range b.Rows {
		verdict := fmt.Sprintf("equal, %d of %d", k.Equal, k.Rollouts)
		if k.differs() {
			verdict = fmt.Sprintf("DIFFERENT, %d of %d", k.Rollouts-k.Equal, k.Rollouts)
		}
		fmt.Fprintf(t, "%s\t%v\t%s", k.Name, k.Rate, verdict)
		for _, other := range others {
			fmt.Fprintf(t, "\t%v", k.Ratios[other.Name])
		}
		fmt.Fprintln(t)
	}
	t.Flush()
	for _, k := range b.Rows {
		if k.Peak == nil {
			continue
		}
		fmt.Fprintf(
			w, "\n%s: %.1f %% (%.1f–%.1f) of its cores' peak of fused multiply-adds during the run",
			k.Name, 100*k.Peak.Median, 100*k.Peak.Min, 100*k.Peak.Max,
		)
		if k.Inside > 0 {
			fmt.Fprintf(w, "; %.1f %% of the time is inside the network", 100*k.Inside)
		}
	}
	fmt.Fprintln(
		w, "\nwhere the rest goes: RATIONALE.md, Why a network of our own, and where the time goes",
	)
}

// cpuModel is the CPU's name as Linux knows it, elsewhere its architecture.
func cpuModel() string {
	info, _ := os.ReadFile("/proc/cpuinfo")
	if _, name, ok := strings.Cut(string(info), "model name"); ok {
		name, _, _ = strings.Cut(name, "\n")
		return strings.TrimLeft(name, "\t :")
	}
	return runtime.GOARCH
}
