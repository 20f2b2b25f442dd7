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

	network func() time.Duration // spent inside the network so far, if known
	inside  float64              // share of the measured time inside the network

	rates []float64 // routes per second, one for each measurement
	peaks []float64 // share of the peak of its cores, likewise
	equal int       // rollouts whose costs were the reference's, bit by bit
	total int
}

// Run is the bench command: all contestants take turns, so that what else the
// machine does hits them alike, and ratios are taken within one turn.
func (c *benchCommand) Run(env *environment) error {
	if c.Jobs < 1 || c.Repetitions < 1 {
		return fmt.Errorf("--jobs %d, --repetitions %d: want 1 or more", c.Jobs, c.Repetitions)
	}
	modelPath, err := orAsset(c.ModelPath, assets.Model)
	if err != nil {
		return err
	}
	(&inputFlags{ModelPath: c.ModelPath}).checkModel(env, modelPath)
	dataPath, err := orAsset(c.DataPath, assets.Routes)
	if err != nil {
		return err
	}
	kernels, err := f32.Named(c.Kernels)
	if err != nil {
		return err
	}
	files, err := lockstep.RouteFiles(dataPath, c.Jobs)
	if err != nil {
		return err
	}
	profile := commonProfile(modelPath)
	var jobs []lockstep.Job
	for i := range c.Jobs {
		k := i % len(files)
		if i < len(files) {
			route, err := lockstep.Loader{Profile: profile}.Load(files[k])
			if err != nil {
				return err
			}
			jobs = append(jobs, lockstep.Job{Route: route})
		} else {
			jobs = append(jobs, lockstep.Job{Route: jobs[k].Route})
		}
		gains := lockstep.DefaultPID
		gains.P += float64(i/len(files)) / 1000
		jobs[i].Policy = gains
	}

	host := machine{CPU: cpuModel(), Cores: runtime.GOMAXPROCS(0), Go: runtime.Version(), Engines: map[string]string{}, Profile: profile}
	var contestants []*contestant
	if c.Upstream != "" {
		python, err := upstream.Start(env.ctx, c.Python, c.Upstream, modelPath)
		if err != nil {
			return err
		}
		defer python.Close()
		contestants = append(contestants, &contestant{name: "Python program", cores: 1, jobs: min(c.Jobs, 4),
			run: func(jobs []lockstep.Job, _ *gauge) ([]lockstep.Costs, error) {
				costs := make([]lockstep.Costs, len(jobs))
				for i, job := range jobs {
					if _, costs[i], err = python.Rollout(files[i%len(files)], job.Policy.(lockstep.PID)); err != nil {
						return nil, err
					}
				}
				return costs, nil
			}})
	} else {
		fmt.Fprintln(env.stderr, "lockstep: without --upstream the Python program is not measured")
	}
	var truth []lockstep.Costs
	for _, e := range engines.Tried() {
		for _, workers := range slices.Compact([]int{1, host.Cores}) {
			s, err := e.Open(engines.Config{Model: modelPath, Profile: profile, Workers: workers, Kernels: c.Kernels})
			if err != nil {
				fmt.Fprintf(env.stderr, "lockstep: the engine %s is not measured: %v\n", e.Name, err)
				break
			}
			defer engines.Close(s)
			host.Engines[e.Name] = engines.Inside(s)
			if s.Profile() != profile {
				fmt.Fprintf(env.stderr, "lockstep: the engine %s has profile %s, the others run %s\n", e.Name, s.Profile(), profile)
			}
			k := &contestant{name: e.Name, cores: workers, jobs: c.Jobs, run: simulatorRun(env.ctx, s, lockstep.CostOnly)}
			if e.Name == engines.Reference().Name {
				if truth, err = k.run(jobs, &gauge{}); err != nil {
					return err
				}
				k.jobs = min(c.Jobs, 8)
			}
			if e.Name == "onnxruntime" && workers == 1 {
				contestants = append(contestants, &contestant{name: "ONNX Runtime, naive batch", cores: 1, jobs: min(c.Jobs, 32), run: simulatorRun(env.ctx, s, 0)})
			}
			contestants = append(contestants, k)
			if t, ok := s.(interface{ NetworkTime() time.Duration }); ok {
				k.network = t.NetworkTime
			} else {
				break // it has one thread, or is not made of any
			}
		}
	}

	bar := progress.New(env.stderr, c.Repetitions*len(contestants), "runs")
	for range c.Repetitions {
		for _, k := range contestants {
			var inside time.Duration
			if k.network != nil {
				inside = k.network()
			}
			g := &gauge{kernels: kernels}
			previous := runtime.GOMAXPROCS(k.cores) // or the runtime's own work has a core more
			start := time.Now()
			costs, err := k.run(jobs[:k.jobs], g)
			seconds := time.Since(start).Seconds()*float64(k.cores) - g.spent() // of one core
			runtime.GOMAXPROCS(previous)
			if err != nil {
				return fmt.Errorf("%s: %w", k.name, err)
			}
			k.rates = append(k.rates, float64(k.jobs*k.cores)/seconds)
			if share := g.share(calls(jobs[:k.jobs]), seconds); share > 0 {
				k.peaks = append(k.peaks, share)
			}
			if k.network != nil {
				k.inside += (k.network() - inside).Seconds() / seconds / float64(c.Repetitions)
			}
			for i := range costs {
				k.total++
				if sameCosts(costs[i], truth[i]) {
					k.equal++
				}
			}
			bar.Add(1)
		}
	}
	bar.Clear()

	rows := tabulate(contestants)
	if c.JSON {
		err = json.NewEncoder(env.stdout).Encode(struct {
			Machine machine    `json:"machine"`
			Rows    []benchRow `json:"rows"`
		}{host, rows})
	} else {
		err = printBench(env.stdout, host, rows, c)
	}
	if err != nil {
		return err
	}
	for _, r := range rows {
		if r.Equal != r.Rollouts {
			return exitStatus(exitParity)
		}
	}
	return nil
}

// commonProfile is the arithmetic of the engine that has no other, which all others then
// compute with; the host's where there is none.
func commonProfile(modelPath string) lockstep.Profile {
	profile := reference.HostProfile()
	for _, e := range engines.Tried() {
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
		row := benchRow{Name: k.label(), Cores: k.cores, Rate: newSpread(k.rates), Inside: k.inside, Equal: k.equal, Rollouts: k.total, Ratios: map[string]spread{}}
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
	_, err := fmt.Fprintln(w, "\nwhere the rest goes: RATIONALE.md, Where the time goes")
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
