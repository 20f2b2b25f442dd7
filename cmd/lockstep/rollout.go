package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"lockstep"
	"lockstep/golden"
	"lockstep/gpu"
	"lockstep/internal/fileio"
	"lockstep/parity/schema"
	"lockstep/parity/tinyphysics"
	"lockstep/parity/trace"
	"lockstep/reference"
)

type rolloutCommand struct {
	simulatorFlags
	controllerFlags
	JSON        bool   `name:"json" help:"Print one JSON object a line: one for each route, then a summary; so for each set of gains."`
	Trace       string `name:"trace" placeholder:"FILE" help:"Write every stage of every step: FILE.npz in the format of the goldens, for np.load; any other name as a trace, for lockstep diff."`
	Stats       bool   `name:"stats" help:"Print what passed between host and GPU, and the times that its own clock took."`
	TraceValues bool   `name:"trace-values" help:"Write all arrays of a trace in full, 10 MB a rollout, not only their hashes."`
}

// Run is the rollout command.
func (c *rolloutCommand) Run(env *environment) error {
	policies, done, err := c.policies(env)
	if err != nil {
		return err
	}
	defer done()
	c.timed = c.Stats
	s, err := c.load(env)
	if err != nil {
		return err
	}
	defer s.close()
	ledger, ok := s.simulator.(interface{ Stats() gpu.Stats })
	if c.Stats && !ok {
		return fmt.Errorf("--stats goes with --engine gpu; the %s engine has no device", s.simulator.Name())
	}
	archive := filepath.Ext(c.Trace) == ".npz"
	if archive && len(policies) > 1 {
		return errors.New("--trace FILE.npz goes with one set of gains")
	}
	if c.TraceValues && (archive || c.Trace == "") {
		return errors.New("--trace-values goes with --trace, and not with FILE.npz, which has all values")
	}

	options := lockstep.Options{Shortcuts: lockstep.CostOnly}
	jobs := s.jobs(policies)
	recordings := make([]*golden.Recording, len(jobs))
	if c.Trace != "" {
		options.Shortcuts = lockstep.AllSteps
	}
	if archive {
		for i := range jobs {
			recordings[i] = golden.Record(jobs[i].Route)
			jobs[i].Observe = recordings[i].Observe
		}
	}
	var before gpu.Stats
	if c.Stats {
		before = ledger.Stats()
	}
	start := time.Now()
	var results []lockstep.Result
	var untraced error
	if c.Trace != "" && !archive && len(jobs) > 0 {
		results, untraced = c.traced(env, s, jobs, options)
	} else {
		results = s.simulate(env, jobs, options)
	}
	seconds := time.Since(start).Seconds()

	var traced []*golden.Recording
	finished, failed := 0, len(s.failed)*len(policies)
	stdout := &stickyWriter{w: env.stdout}
	out := c.printer(stdout, s, len(policies) > 1)
	for k, policy := range policies {
		var costs []lockstep.Costs
		for i := k * len(s.routes); i < (k+1)*len(s.routes); i++ {
			switch err := results[i].Err; {
			case err == nil:
				costs = append(costs, results[i].Costs)
				out.route(policy, s.routes[i-k*len(s.routes)].Name, results[i].Costs)
				if archive {
					recordings[i].Costs = results[i].Costs
					traced = append(traced, recordings[i])
				}
			case !errors.Is(err, context.Canceled):
				failed++
				fmt.Fprintf(env.stderr, "lockstep: %v\n", err)
			}
		}
		finished += len(costs)
		if len(costs) > 0 {
			out.summary(policy, len(costs), reference.MeanCosts(costs), seconds)
		}
	}
	if c.Stats {
		out.stats(ledger.Stats().Sub(before))
	}
	if len(traced) > 0 {
		untraced = golden.WriteFile(c.Trace, s.simulator.Profile(), traced...)
	}
	if untraced != nil && env.ctx.Err() == nil {
		return fmt.Errorf("--trace %s: %w", c.Trace, untraced)
	}
	if stdout.err != nil {
		return stdout.err
	}
	switch {
	case env.ctx.Err() != nil:
		fmt.Fprintf(env.stderr, "lockstep: interrupted after %d of %d rollouts\n", finished, len(jobs))
		return exitStatus(exitInterrupted)
	case failed > 0:
		fmt.Fprintf(env.stderr, "lockstep: %d of %d rollouts failed\n", failed, len(s.failed)*len(policies)+len(jobs))
		return exitStatus(exitUsage)
	}
	return nil
}

// traced runs the jobs and writes a trace of them as they run. An interruption leaves
// no trace; the error is of the trace alone.
func (c *rolloutCommand) traced(env *environment, s *simulation, jobs []lockstep.Job, options lockstep.Options) (results []lockstep.Result, err error) {
	sum, err := fileio.SHA256(s.modelPath)
	if err != nil {
		return s.simulate(env, jobs, options), err
	}
	header := trace.Header{
		Producer: "lockstep", Engine: s.simulator.Name(), Profile: s.simulator.Profile().String(),
		ModelSHA256: sum, Schema: *tinyphysics.Schema(options.Shortcuts), Shortcuts: tinyphysics.Words(options.Shortcuts),
	}
	full := schema.Set(0)
	if c.TraceValues {
		full = tinyphysics.Arrays
	}
	err = trace.WriteFile(c.Trace, header, full, func(w *trace.Writer) error {
		writers := make([]*trace.RolloutWriter, len(jobs))
		for i := range jobs {
			step := header.Schema.NewStep()
			writers[i] = w.Begin(tinyphysics.Of(jobs[i]))
			jobs[i].Observe = func(s *lockstep.Step) {
				tinyphysics.Expose(s, step)
				writers[i].Observe(step)
			}
		}
		results = s.simulate(env, jobs, options)
		for i, result := range results {
			writers[i].End(tinyphysics.Outcome(result.Costs), result.Err)
		}
		return env.ctx.Err()
	})
	if results == nil { // the file could not be begun
		results = s.simulate(env, jobs, options)
	}
	return results, err
}

// stickyWriter keeps the first error of its writer, and writes nothing after it.
type stickyWriter struct {
	w   io.Writer
	err error
}

func (w *stickyWriter) Write(p []byte) (n int, err error) {
	if w.err == nil {
		n, w.err = w.w.Write(p)
	}
	return n, w.err
}

// printer prints the outcome of a rollout for people or for programs.
type printer interface {
	route(policy lockstep.Policy, name string, c lockstep.Costs)
	summary(policy lockstep.Policy, routes int, mean lockstep.Costs, seconds float64)
	stats(gpu.Stats)
}

func (c *rolloutCommand) printer(w io.Writer, s *simulation, sweep bool) printer {
	switch {
	case c.JSON:
		return jsonPrinter{json: json.NewEncoder(w), engine: s.simulator.Name(), profile: s.simulator.Profile(), sweep: sweep}
	case sweep:
		return sweepPrinter{statsPrinter{w}}
	default:
		return textPrinter{statsPrinter{w}}
	}
}

// statsPrinter prints the ledger of a device.
type statsPrinter struct{ w io.Writer }

func (p statsPrinter) stats(s gpu.Stats) {
	t := tabwriter.NewWriter(p.w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\n\ttimes\tbytes\tms\t")
	for _, row := range []struct {
		name         string
		times, bytes int64
		took         time.Duration
	}{
		{"upload", s.Uploads, s.UploadBytes, s.Upload},
		{"kernel", s.Launches, 0, s.Kernel},
		{"download", s.Downloads, s.DownloadBytes, s.Download},
	} {
		fmt.Fprintf(t, "%s\t%d\t%d\t%.3f\t\n", row.name, row.times, row.bytes, 1e3*row.took.Seconds())
	}
	fmt.Fprintf(t, "host\t\t\t%.3f\t\n", 1e3*s.Host().Seconds())
	t.Flush()
	fmt.Fprintf(p.w, "%d synchronisations\n", s.Synchronisations)
}

// textPrinter prints costs as the Python program does.
type textPrinter struct{ statsPrinter }

func (p textPrinter) route(_ lockstep.Policy, name string, c lockstep.Costs) {
	fmt.Fprintf(p.w, "%s  lataccel_cost: %s, jerk_cost: %s, total_cost: %s\n", name, python64(c.Lataccel), python64(c.Jerk), python64(c.Total))
}

func (p textPrinter) summary(_ lockstep.Policy, _ int, c lockstep.Costs, _ float64) {
	fmt.Fprintf(p.w, "\nAverage lataccel_cost: %s, average jerk_cost: %s, average total_cost: %s\n", python64(c.Lataccel), python64(c.Jerk), python64(c.Total))
}

// sweepPrinter prints the averages of each set of gains.
type sweepPrinter struct{ statsPrinter }

func (sweepPrinter) route(lockstep.Policy, string, lockstep.Costs) {}

func (p sweepPrinter) summary(policy lockstep.Policy, routes int, c lockstep.Costs, _ float64) {
	fmt.Fprintf(p.w, "%-28s  %d routes, average lataccel_cost: %s, average jerk_cost: %s, average total_cost: %s\n", policy, routes, python64(c.Lataccel), python64(c.Jerk), python64(c.Total))
}

type jsonPrinter struct {
	json    *json.Encoder
	engine  string
	profile lockstep.Profile
	sweep   bool
}

// jsonRoute is the object of one rollout. In a sweep the controller's name has
// its gains.
type jsonRoute struct {
	Route      string           `json:"route"`
	Controller string           `json:"controller"`
	Engine     string           `json:"engine"`
	Profile    lockstep.Profile `json:"profile"`
	jsonCosts
}

type jsonCosts struct {
	Lataccel jsonFloat `json:"lataccel_cost"`
	Jerk     jsonFloat `json:"jerk_cost"`
	Total    jsonFloat `json:"total_cost"`
}

// jsonFloat is null where JSON has no number: the jerk cost of a route with one
// step that costs is NaN.
type jsonFloat float64

func (x jsonFloat) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(x))
}

func toJSON(c lockstep.Costs) jsonCosts {
	return jsonCosts{jsonFloat(c.Lataccel), jsonFloat(c.Jerk), jsonFloat(c.Total)}
}

func (p jsonPrinter) route(policy lockstep.Policy, name string, c lockstep.Costs) {
	p.json.Encode(jsonRoute{name, policy.String(), p.engine, p.profile, toJSON(c)})
}

func (p jsonPrinter) summary(policy lockstep.Policy, routes int, mean lockstep.Costs, seconds float64) {
	controller := ""
	if p.sweep {
		controller = policy.String()
	}
	p.json.Encode(struct {
		Controller string    `json:"controller,omitempty"`
		Routes     int       `json:"routes"`
		Mean       jsonCosts `json:"mean"`
		Seconds    float64   `json:"seconds"`
	}{controller, routes, toJSON(mean), seconds})
}

func (p jsonPrinter) stats(s gpu.Stats) {
	p.json.Encode(struct {
		Stats gpu.Stats     `json:"stats"`
		Host  time.Duration `json:"host_ns"`
	}{s, s.Host()})
}

// newProgress is a progress bar on a terminal, and nothing elsewhere.
func newProgress(w io.Writer, n int) *progressbar.ProgressBar {
	f, ok := w.(*os.File)
	return progressbar.NewOptions(n,
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetVisibility(ok && term.IsTerminal(int(f.Fd()))),
		progressbar.OptionShowCount(),
		progressbar.OptionShowIts(),
		progressbar.OptionSetItsString("routes"),
		progressbar.OptionThrottle(100*time.Millisecond),
	)
}
