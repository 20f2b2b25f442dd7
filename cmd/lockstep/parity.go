package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"lockstep"
	"lockstep/defaults"
	"lockstep/engines"
	"lockstep/internal/fileio"
	"lockstep/internal/model"
	"lockstep/parity"
	"lockstep/parity/gate"
	"lockstep/parity/mutants"
	"lockstep/parity/tinyphysics"
	"lockstep/report"
)

type parityCommand struct {
	inputFlags
	controllerFlags
	compareFlags
	Engines     []string     `name:"engines" placeholder:"NAME,..." help:"Implementations: the others are held to the first. Default: all that can run here."`
	Goldens     optionalPath `name:"goldens" placeholder:"[DIR]" help:"Hold each engine to the recordings of the Python program, those of this source or in a folder."`
	Replay      []string     `name:"replay" sep:"none" placeholder:"FILE|DIR" help:"Repeat cases that were kept, on every engine."`
	Mutants     bool         `name:"mutants" help:"Plant faults in the engines, one at a time, and see whether each is found and its stage named."`
	Diff        tracePair    `name:"diff" placeholder:"A B" help:"Compare two traces."`
	Only        string       `name:"only" placeholder:"PATTERN" help:"Only the rollouts (route/controller) or faults whose name matches, such as 00000/pid or reference-*."`
	Markdown    bool         `name:"markdown" help:"Print the table of faults as Markdown."`
	Keep        string       `name:"keep" placeholder:"DIR" help:"Shrink what differs between engines to the smallest case, and keep it in this folder for --replay, such as parity/testdata/regressions."`
	Report      string       `name:"report" placeholder:"FILE.html" help:"Write a report, one file that opens offline."`
	JSON        bool         `name:"json" help:"Print one JSON object a line: one for each comparison, then a summary."`
	AllowAbsent bool         `name:"allow-absent" help:"Engines, networks and routes that are not here are left out, and named, instead of failing."`
}

// compareFlags say what has to be equal.
type compareFlags struct {
	Inexact bool `name:"inexact" help:"For sides that do not claim the same bits: logits, probabilities and CDF may differ, and tokens if that explains it."`
	Budget  int  `name:"budget" placeholder:"N" help:"How many explained tokens an inexact comparison excuses. Default: none."`
}

func (f *compareFlags) options() (parity.CompareOptions, error) {
	if f.Budget < 0 || f.Budget > 0 && !f.Inexact {
		return parity.CompareOptions{}, fmt.Errorf("--budget %d: want 0 or more, and --inexact with it", f.Budget)
	}
	return parity.CompareOptions{Inexact: f.Inexact, Budget: parity.Budget{Flips: f.Budget}}, nil
}

// optionalPath is a flag whose value may be left out.
type optionalPath struct {
	set  bool
	path string
}

// Decode takes the value, if there is one.
func (o *optionalPath) Decode(ctx *kong.DecodeContext) error {
	o.set = true
	next := ctx.Scan.Peek()
	if text, ok := next.Value.(string); ok && !next.IsEOL() && (next.Type == kong.FlagValueToken || !strings.HasPrefix(text, "-")) {
		ctx.Scan.Pop()
		o.path = text
	}
	return nil
}

// tracePair is a flag with two values.
type tracePair []string

// Decode takes them.
func (p *tracePair) Decode(ctx *kong.DecodeContext) error {
	*p = nil
	for range 2 {
		var file string
		if err := ctx.Scan.PopValueInto("trace", &file); err != nil {
			return fmt.Errorf("want two traces: %w", err)
		}
		*p = append(*p, file)
	}
	return nil
}

// Run is the parity command.
func (c *parityCommand) Run(env *environment) error {
	modes := 0
	for _, set := range []bool{c.Goldens.set, len(c.Replay) > 0, c.Mutants, c.Diff != nil} {
		if set {
			modes++
		}
	}
	if c.Keep != "" && (modes > 0 || c.Inexact) {
		return errors.New("--keep goes with --engines, and exact comparisons")
	}
	if modes > 1 {
		return errors.New("--goldens, --replay, --mutants and --diff go one at a time")
	}
	if _, err := path.Match(c.Only, ""); err != nil {
		return fmt.Errorf("--only %q: %w", c.Only, err)
	}
	if c.Mutants {
		return c.mutants(env)
	}
	if c.Markdown {
		return errors.New("--markdown goes with --mutants")
	}
	options, err := c.options()
	if err != nil {
		return err
	}
	options.Replay = func(task *parity.Task) string { return c.repeat(env, task.Name()) }
	p := newComparisons(env, c.JSON)
	switch {
	case c.Goldens.set:
		err = c.goldens(env, p, options)
	case len(c.Replay) > 0:
		err = c.replay(env, p, options)
	case c.Diff != nil:
		err = diffTraces(env, p, c.Diff[0], c.Diff[1], options)
	default:
		err = c.engines(env, p, options)
	}
	if err != nil {
		return err
	}
	return p.end(c.Report, c.AllowAbsent)
}

// selected tells whether --only lets a name through.
func (c *parityCommand) selected(name string) bool {
	ok, _ := path.Match(c.Only, name)
	return c.Only == "" || ok
}

// repeat is the command line that repeats one rollout.
func (c *parityCommand) repeat(env *environment, rollout string) string {
	words := []string{"lockstep"}
	args := env.args
	for i := 0; i < len(args); i++ {
		name, _, valued := strings.Cut(args[i], "=")
		switch name {
		case "--json", "--allow-absent":
		case "--only", "--report":
			if !valued {
				i++
			}
		default:
			words = append(words, args[i])
		}
	}
	return report.CommandLine(append(words, "--only", rollout))
}

// opened is an engine that runs, or the reason why it does not.
type opened struct {
	*engines.Engine
	lockstep.Simulator // nil if the engine did not open

	absent        error
	notApplicable string
}

// chosen are the engines of --engines, or all that are tried here.
func (c *parityCommand) chosen() ([]*engines.Engine, error) {
	if c.Engines == nil {
		return engines.Tried(), nil
	}
	return engines.ByName(c.Engines...)
}

// open opens an engine in a profile.
func open(e *engines.Engine, config engines.Config, inexact bool) opened {
	sim, err := e.Open(config)
	if err != nil {
		return opened{Engine: e, absent: err}
	}
	o := opened{Engine: e, Simulator: sim}
	switch err := engines.ProfileKnown(sim); {
	case err != nil && !inexact:
		o.notApplicable = "it computes in a way that is not known, parity is not claimed; --inexact compares in spite of that"
	case sim.Profile() != config.Profile && !inexact:
		o.notApplicable = fmt.Sprintf("it computes with profile %s on this machine", sim.Profile())
	}
	return o
}

// openAll opens engines in one profile: the one asked for, else that of those engines
// whose arithmetic is their machine's.
func openAll(list []*engines.Engine, config engines.Config, asked, inexact bool) (all []opened) {
	for _, e := range list {
		all = append(all, open(e, config, inexact))
	}
	for _, o := range all {
		if o.Simulator != nil && o.Profile() != config.Profile && !asked {
			closeAll(all)
			config.Profile = o.Profile()
			return openAll(list, config, true, inexact)
		}
	}
	return all
}

func closeAll(all []opened) {
	for _, o := range all {
		if o.Simulator != nil {
			engines.Close(o.Simulator)
		}
	}
}

// unable is the comparison that an engine does not take part in, and false if it does.
func (c *parityCommand) unable(k gate.Comparison, o opened) (gate.Comparison, bool) {
	switch {
	case o.absent != nil && o.Want == nil:
		k.Error = o.Engine.Name + ": " + o.absent.Error()
	case o.absent != nil:
		k.NotRun, k.Lacks = o.Engine.Name+": "+o.absent.Error(), o.Want.Name
	case o.notApplicable != "":
		k.NotApplicable = o.Engine.Name + ": " + o.notApplicable
	default:
		return k, false
	}
	return k, true
}

// unasked makes of an engine that cannot run, and that nobody asked for by its name,
// one that does not apply.
func (c *parityCommand) unasked(k gate.Comparison) gate.Comparison {
	if c.Engines == nil && !c.AllowAbsent {
		k.NotApplicable, k.NotRun = k.NotRun+k.NotApplicable, ""
	}
	return k
}

// leaveOut adds a comparison that is not made, since one of its engines does not take
// part, and tells whether it did.
func (c *parityCommand) leaveOut(p *comparisons, k gate.Comparison, first, o opened) bool {
	if k, ok := c.unable(k, first); ok {
		p.add(k)
		return true
	}
	if k, ok := c.unable(k, o); ok {
		p.add(c.unasked(k))
		return true
	}
	return false
}

// engines holds engines to the first.
func (c *parityCommand) engines(env *environment, p *comparisons, options parity.CompareOptions) error {
	list, err := c.chosen()
	if err != nil {
		return err
	}
	if len(list) < 2 {
		return errors.New("--engines: want two or more, or --goldens")
	}
	policies, done, err := c.policies(env)
	if err != nil {
		return err
	}
	defer done()
	profile, asked, err := c.profile()
	if err != nil {
		return err
	}
	if c.NumSegs < 1 {
		return fmt.Errorf("--num_segs %d: want 1 or more", c.NumSegs)
	}
	s := &simulation{}
	if s.modelPath, s.dataPath, err = c.inputs(env); err != nil {
		return err
	}
	files, err := lockstep.RouteFiles(s.dataPath, c.NumSegs)
	if err != nil {
		return err
	}
	all := openAll(list, engines.Config{Model: s.modelPath, Profile: profile, Workers: c.Workers}, asked, options.Inexact)
	defer closeAll(all)
	first := all[0]
	var jobs []lockstep.Job
	if first.Simulator != nil {
		s.simulator = first.Simulator
		s.loadRoutes(env, &c.inputFlags, files)
		if len(s.failed) > 0 {
			return exitStatus(exitUsage)
		}
		for _, job := range s.jobs(policies) {
			if c.selected(job.Route.Name + "/" + job.Policy.String()) {
				jobs = append(jobs, job)
			}
		}
		if len(jobs) == 0 {
			return fmt.Errorf("--only %q: no rollout has such a name", c.Only)
		}
	}
	for _, o := range all[1:] {
		k := gate.Comparison{Kind: "engines", Want: first.Engine.Name, Got: o.Engine.Name, Detail: filepath.Base(s.modelPath)}
		if c.leaveOut(p, k, first, o) {
			continue
		}
		if err := p.compare(k, tinyphysics.Live(first.Simulator), tinyphysics.Live(o.Simulator), jobs, lockstep.AllSteps, options); err != nil {
			return err
		}
		if made := &p.list[len(p.list)-1]; c.Keep != "" && made.Outcome() == gate.Different {
			if err := c.keep(env, s.modelPath, first, o, jobs); err != nil {
				return err
			}
		}
	}
	return nil
}

// keep shrinks a comparison that differs and keeps the case that is left.
func (c *parityCommand) keep(env *environment, modelPath string, first, o opened, jobs []lockstep.Job) error {
	jobs = slices.Clone(jobs)
	for i := range jobs {
		switch jobs[i].Policy.(type) {
		case lockstep.Zero, lockstep.PID, lockstep.PIDFF:
		default:
			var err error
			if jobs[i], err = tinyphysics.Freeze(env.ctx, first.Simulator, jobs[i]); err != nil {
				return fmt.Errorf("--keep: %w", err)
			}
		}
	}
	whole, err := tinyphysics.NewCase(jobs, lockstep.AllSteps)
	if err != nil {
		return fmt.Errorf("--keep: %w", err)
	}
	whole.Engine, whole.Profile, whole.Workers, whole.Model = o.Engine.Name, first.Profile(), c.Workers, filepath.Base(modelPath)
	if whole.ModelSHA256, err = fileio.SHA256(modelPath); err != nil {
		return err
	}
	switch whole.ModelSHA256 {
	case defaults.ModelSHA256:
		whole.Model = tinyphysics.DefaultModel
	case model.OfficialSHA256:
		whole.Model = tinyphysics.OfficialModel
	}
	small, d, err := tinyphysics.Shrink(env.ctx, whole, func(ctx context.Context, k *tinyphysics.Case) (*parity.Divergence, error) {
		r, err := k.Compare(ctx, tinyphysics.Live(first.Simulator), tinyphysics.Live(o.Simulator))
		if err != nil {
			return nil, err
		}
		return r.First, nil
	}, 0)
	if env.ctx.Err() != nil {
		return interrupted(env)
	}
	if err != nil {
		return fmt.Errorf("--keep: %w", err)
	}
	small.What = strings.Join(d.Key, " ")
	if small.Results, err = small.Run(env.ctx, first.Simulator); err != nil {
		return fmt.Errorf("--keep: %w", err)
	}
	if err := small.Save(c.Keep); err != nil {
		return fmt.Errorf("--keep: %w", err)
	}
	out := env.stdout
	if c.JSON {
		out = env.stderr
	}
	fmt.Fprintf(out, "kept: %d of %d rollouts, %d rows, stage %s; replay: %s\n", len(small.Batch), len(jobs), small.Routes[0].Rows, small.Stage, small.Replay())
	return nil
}

// mutants plants faults and prints what became of them.
func (c *parityCommand) mutants(env *environment) error {
	root, err := mutants.FindRoot(".")
	if err != nil {
		return err
	}
	faults, err := mutants.All()
	if err != nil {
		return err
	}
	faults = slices.DeleteFunc(faults, func(f mutants.Fault) bool {
		return !c.selected(f.Name) || c.Engines != nil && !slices.Contains(c.Engines, f.Engine)
	})
	if len(faults) == 0 {
		return fmt.Errorf("--only %q, --engines %s: no fault has such a name", c.Only, strings.Join(c.Engines, ","))
	}
	bar := newProgress(env.stderr, len(faults), "faults")
	score, err := gate.Mutants(env.ctx, root, faults, func(gate.Mutant) { bar.Add(1) })
	bar.Clear()
	if env.ctx.Err() != nil {
		return interrupted(env)
	}
	if err != nil {
		return err
	}
	if c.JSON {
		err = json.NewEncoder(env.stdout).Encode(score)
	} else {
		err = score.WriteTable(env.stdout, c.Markdown)
	}
	if err != nil {
		return err
	}
	if c.Report != "" {
		origin := report.Origin{Command: append([]string{"lockstep"}, env.args...)}
		if err := report.WriteParity(c.Report, report.Parity{Mutants: score.Mutants, Failure: score.Err(), Origin: origin}); err != nil {
			return err
		}
	}
	if err := score.Err(); err != nil {
		fmt.Fprintf(env.stderr, "lockstep: %v\n", err)
		return exitStatus(exitParity)
	}
	return nil
}
