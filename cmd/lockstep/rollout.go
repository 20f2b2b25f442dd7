package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"text/tabwriter"
	"time"

	"lockstep"
	"lockstep/gpu"
	"lockstep/internal/fileio"
	"lockstep/parity/schema"
	"lockstep/parity/tinyphysics"
	"lockstep/parity/trace"
	"lockstep/runs"
)

type rolloutCommand struct {
	simulatorFlags
	controllerFlags
	classicFlags
	JSON        bool   `name:"json" help:"Print one JSON object a line: one for each route, then a summary; so for each set of gains."`
	Trace       string `name:"trace" placeholder:"FILE" help:"Write every stage of every step as a trace, for lockstep compare, and for NumPy through parity/trace/reader.py."`
	Stats       bool   `name:"stats" help:"Print what passed between host and GPU, and the times that its own clock took."`
	TraceValues bool   `name:"trace-values" help:"Write all arrays of a trace in full, 10 MB a rollout, not only their hashes."`
	Out         string `name:"out" placeholder:"DIR" help:"Keep the run in a folder: the same command goes on where it was ended, whatever ended it. lockstep watch DIR shows how far it is."`
}

// Run is the rollout command.
func (c *rolloutCommand) Run(env *environment) error {
	if c.Env != "" {
		return c.classicFlags.rollout(env, c.Engine, c.Workers, c.Stats, c.JSON)
	}
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
	if c.TraceValues && c.Trace == "" {
		return errors.New("--trace-values goes with --trace")
	}
	if c.Out != "" && c.Trace != "" {
		return errors.New("--out and --trace do not go together: a trace is whole or not there")
	}
	if err := checkOutputs([]string{s.modelPath, s.dataPath}, output{"--trace", c.Trace}); err != nil {
		return err
	}
	names := s.names(policies)
	journal, err := s.journal(env, c.Out, nil, policies, c.Controller)
	if err != nil {
		return err
	}
	defer journal.Close()

	var before gpu.Stats
	if c.Stats {
		before = ledger.Stats()
	}
	t := newTally(env, names, s.failed, newPrinter(env.stdout, c.JSON, s.simulator.Name(), s.simulator.Profile(), len(policies) > 1), time.Now())
	jobs := s.jobs(policies)
	if c.Trace != "" && len(jobs) > 0 {
		err = c.traced(env, s, jobs, t)
	} else {
		err = s.stream(env, &runs.Work{Jobs: jobs, Options: lockstep.Options{Shortcuts: lockstep.CostOnly}, Journal: journal}, t.add)
	}
	t.end()
	if c.Stats {
		t.out.stats(ledger.Stats().Sub(before))
	}
	return cmp.Or(err, t.status())
}

// stream runs the jobs and adds each result as soon as those before it are there. It
// stops where nobody reads what is printed. An interruption is no error: who adds knows
// what is missing.
func (s *simulation) stream(env *environment, work *runs.Work, add func(int, lockstep.Result)) error {
	bar := newProgress(env.stderr, len(work.Jobs), "rollouts")
	defer bar.Clear()
	work.Simulator, work.Done = s.simulator, func() { bar.Add(1) }
	err := work.Stream(env.ctx, func(i int, r lockstep.Result) bool {
		add(i, r)
		return env.stdout.err == nil
	})
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return cmp.Or(err, env.stdout.err)
}

// traced runs the jobs and writes a trace of them as they run. An interruption leaves
// no trace; the error is of the trace alone.
func (c *rolloutCommand) traced(env *environment, s *simulation, jobs []lockstep.Job, t *tally) error {
	sum, err := fileio.SHA256(s.modelPath)
	if err != nil {
		return err
	}
	options := lockstep.Options{Shortcuts: lockstep.AllSteps}
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
		stopped := s.stream(env, &runs.Work{Jobs: jobs, Options: options}, func(i int, result lockstep.Result) {
			t.add(i, result)
			writers[i].End(tinyphysics.Outcome(result.Costs), result.Err)
			writers[i] = nil
		})
		return cmp.Or(stopped, env.ctx.Err())
	})
	if err != nil && env.ctx.Err() == nil {
		return fmt.Errorf("--trace %s: %w", c.Trace, err)
	}
	return nil
}

// printer prints the outcome of a rollout for people or for programs.
type printer interface {
	route(policy string, name string, c lockstep.Costs)
	failed(policy string, name string, err error)
	summary(policy string, s summary)
	stats(gpu.Stats)
}

// summary is what a policy's rollouts came to.
type summary struct {
	routes, failed, interrupted int // that finished, that failed, that were not computed
	mean                        lockstep.Costs
	seconds                     float64
}

func newPrinter(w io.Writer, asJSON bool, engine string, profile lockstep.Profile, sweep bool) printer {
	switch {
	case asJSON:
		return jsonPrinter{json: json.NewEncoder(w), engine: engine, profile: profile, sweep: sweep}
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

func (p textPrinter) route(_ string, name string, c lockstep.Costs) {
	fmt.Fprintf(p.w, "%s  lataccel_cost: %s, jerk_cost: %s, total_cost: %s\n", name, python64(c.Lataccel), python64(c.Jerk), python64(c.Total))
}

// failed prints nothing: people read it on stderr.
func (statsPrinter) failed(string, string, error) {}

func (p textPrinter) summary(_ string, s summary) {
	if c := s.mean; s.routes > 0 {
		fmt.Fprintf(p.w, "\nAverage lataccel_cost: %s, average jerk_cost: %s, average total_cost: %s\n", python64(c.Lataccel), python64(c.Jerk), python64(c.Total))
	}
}

// sweepPrinter prints the averages of each set of gains.
type sweepPrinter struct{ statsPrinter }

func (sweepPrinter) route(string, string, lockstep.Costs) {}

func (p sweepPrinter) summary(policy string, s summary) {
	c := s.mean
	if s.routes == 0 {
		return
	}
	fmt.Fprintf(p.w, "%-28s  %d routes, average lataccel_cost: %s, average jerk_cost: %s, average total_cost: %s\n", policy, s.routes, python64(c.Lataccel), python64(c.Jerk), python64(c.Total))
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

func (p jsonPrinter) route(policy string, name string, c lockstep.Costs) {
	p.json.Encode(jsonRoute{name, policy, p.engine, p.profile, toJSON(c)})
}

func (p jsonPrinter) failed(policy string, name string, err error) {
	p.json.Encode(struct {
		Route      string `json:"route"`
		Controller string `json:"controller"`
		Error      string `json:"error"`
	}{name, policy, err.Error()})
}

func (p jsonPrinter) summary(policy string, s summary) {
	controller := ""
	if p.sweep {
		controller = policy
	}
	p.json.Encode(struct {
		Controller  string    `json:"controller,omitempty"`
		Routes      int       `json:"routes"`
		Failed      int       `json:"failed"`
		Interrupted int       `json:"interrupted"`
		Mean        jsonCosts `json:"mean"`
		Seconds     float64   `json:"seconds"`
	}{controller, s.routes, s.failed, s.interrupted, toJSON(s.mean), s.seconds})
}

func (p jsonPrinter) stats(s gpu.Stats) {
	p.json.Encode(struct {
		Stats gpu.Stats     `json:"stats"`
		Host  time.Duration `json:"host_ns"`
	}{s, s.Host()})
}
