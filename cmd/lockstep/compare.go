package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"lockstep"
	"lockstep/defaults"
	"lockstep/engines"
	"lockstep/internal/fileio"
	"lockstep/internal/model"
	"lockstep/parity"
	"lockstep/parity/tinyphysics"
	"lockstep/parity/verdict"
	"lockstep/report"
)

type compareCommand struct {
	Want string   `arg:"" name:"a" optional:"" default:"reference" help:"The yardstick: an engine, a trace, the word goldens for the recordings of the Python program in this source, or a folder of recordings. Default: reference."`
	Got  []string `arg:"" name:"b" optional:"" help:"What is held to it: engines, or a trace. Default: all that can run here, but emulated, which is slow."`
	inputFlags
	controllerFlags
	classicFlags
	compareFlags
	outputFlags
	Only string `name:"only" placeholder:"PATTERN" help:"Only the rollouts (route/controller) whose name matches, such as 00000/pid."`
	Keep string `name:"keep" classic:"too" placeholder:"DIR" help:"Shrink what differs between engines to the smallest case, and keep it in this folder for lockstep replay, such as parity/testdata/regressions."`
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

// outputFlags say what a command tells of its comparisons.
type outputFlags struct {
	Report      string `name:"report" classic:"too" io:"out" placeholder:"FILE.html" help:"Write a report, one file that opens offline."`
	JSON        bool   `name:"json" classic:"too" help:"Print one JSON object a line: one for each comparison, then a summary."`
	AllowAbsent bool   `name:"allow-absent" classic:"too" help:"Engines, networks and routes that are not here are left out, and named, instead of failing."`
}

// Run is the compare command.
func (c *compareCommand) Run(env *environment) error {
	if _, err := path.Match(c.Only, ""); err != nil {
		return fmt.Errorf("--only %q: %w", c.Only, err)
	}
	options, err := c.options()
	if err != nil {
		return err
	}
	options.Replay = func(task *parity.Task) string { return c.repeat(env, task.Name()) }
	p := newComparisons(env, &c.outputFlags, len(c.Got) > 0)
	if c.Env != "" {
		return c.classic(env, p)
	}
	info, err := os.Stat(c.Want)
	// An engine's name is an engine, also where its folder is.
	recordings := c.Want == "goldens" || err == nil && info.IsDir() && !engines.Known(c.Want)
	traces := !recordings && (!engines.Known(c.Want) || slices.ContainsFunc(c.Got, func(name string) bool { return !engines.Known(name) }))
	if c.Keep != "" && (recordings || traces || c.Inexact) {
		return errors.New("--keep goes with engines, and exact comparisons")
	}
	if traces && c.Only != "" {
		return errors.New("--only goes with engines and goldens")
	}
	switch {
	case recordings:
		err = c.goldens(env, p, options)
	case traces && len(c.Got) != 1:
		err = fmt.Errorf("%s is compared with one engine, or with one trace: want A B", c.Want)
	case traces:
		err = c.traces(env, p, c.Got[0], options)
	default:
		var list []*engines.Engine
		if list, err = c.sides(); err == nil {
			err = c.engines(env, p, list, options)
		}
	}
	if err != nil {
		return err
	}
	return p.end()
}

// sides are the engines that are compared, the yardstick first.
func (c *compareCommand) sides() ([]*engines.Engine, error) {
	list, err := engines.ByName(append([]string{c.Want}, c.Got...)...)
	if err == nil && len(c.Got) == 0 {
		for _, e := range engines.Tried() {
			if e.Name != c.Want {
				list = append(list, e)
			}
		}
	}
	return list, err
}

// selected reports whether --only lets a name through.
func (c *compareCommand) selected(name string) bool {
	ok, _ := path.Match(c.Only, name)
	return c.Only == "" || ok
}

// repeat is the command line that repeats one rollout.
func (c *compareCommand) repeat(env *environment, rollout string) string {
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

// engines holds engines to the first.
func (c *compareCommand) engines(env *environment, p *comparisons, list []*engines.Engine, options parity.CompareOptions) error {
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
		if err := s.loadRoutes(env, &c.inputFlags, files); err != nil {
			return err
		}
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
		k := verdict.Comparison{Kind: "engines", Want: first.Engine.Name, Got: o.Engine.Name, Detail: filepath.Base(s.modelPath)}
		if p.leaveOut(k, first, o) {
			continue
		}
		k.Identities = []string{engines.Identity(first.Simulator), engines.Identity(o.Simulator)}
		if err := p.compare(k, tinyphysics.Live(first.Simulator), tinyphysics.Live(o.Simulator), jobs, lockstep.AllSteps, options); err != nil {
			return err
		}
		if made := &p.list[len(p.list)-1]; c.Keep != "" && made.Outcome() == verdict.Different {
			if err := c.keep(env, s.modelPath, first, o, jobs); err != nil {
				return err
			}
		}
	}
	return nil
}

// keep shrinks a comparison that differs and keeps the case that is left.
func (c *compareCommand) keep(env *environment, modelPath string, first, o opened, jobs []lockstep.Job) error {
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
		return env.interrupted(noReport)
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
	out := io.Writer(env.stdout)
	if c.JSON {
		out = env.stderr
	}
	fmt.Fprintf(out, "kept: %d of %d rollouts, %d rows, stage %s; replay: %s\n", len(small.Batch), len(jobs), small.Routes[0].Rows, small.Stage, small.Replay())
	return nil
}
