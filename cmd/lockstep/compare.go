package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	outputFlags
	Inexact bool   `name:"inexact" help:"For sides that do not claim the same bits: logits, probabilities and CDF may differ, and tokens if that explains it."`
	Budget  int    `name:"budget" placeholder:"N" help:"How many explained tokens an inexact comparison excuses. Default: none."`
	Only    string `name:"only" placeholder:"PATTERN" help:"Only the rollouts (route/controller) whose name matches, such as 00000/pid."`
	Keep    string `name:"keep" classic:"too" placeholder:"DIR" help:"Shrink what differs between engines to the smallest case, and keep it in this folder for lockstep replay, such as parity/testdata/regressions."`
}

// outputFlags say what a command tells of its comparisons.
type outputFlags struct {
	Report      string `name:"report" classic:"too" io:"out" placeholder:"FILE.html" help:"Write a report, one file that opens offline."`
	JSON        bool   `name:"json" classic:"too" help:"Print one JSON object a line: one for each comparison, then a summary."`
	AllowAbsent bool   `name:"allow-absent" classic:"too" help:"Engines, networks and routes that are not here are left out, and named, instead of failing, unless nothing is left to compare."`
}

// Run is the compare command.
func (c *compareCommand) Run(env *environment) error {
	if _, err := path.Match(c.Only, ""); err != nil {
		return fmt.Errorf("--only %q: %w", c.Only, err)
	}
	if c.Budget < 0 || c.Budget > 0 && !c.Inexact {
		return fmt.Errorf("--budget %d: want 0 or more, and --inexact with it", c.Budget)
	}
	options := parity.CompareOptions{Inexact: c.Inexact, Budget: parity.Budget{Flips: c.Budget}}
	options.Replay = func(task *parity.Task) string { return c.repeat(env, task.Name()) }
	p := &comparisons{env: env, output: &c.outputFlags, asked: len(c.Got) > 0 || c.AllowAbsent, keep: c.Keep}
	info, err := os.Stat(c.Want)
	// An engine's name is an engine, also where its folder is.
	recordings := c.Want == "goldens" || err == nil && info.IsDir() && !engines.Known(c.Want)
	traces := !recordings && (!engines.Known(c.Want) || slices.ContainsFunc(c.Got, func(name string) bool { return !engines.Known(name) }))
	switch {
	case c.Env != "":
		err = c.classic(p)
	case c.Keep != "" && (recordings || traces || c.Inexact):
		err = errors.New("--keep goes with engines, and exact comparisons")
	case traces && c.Only != "":
		err = errors.New("--only goes with engines and goldens")
	case recordings:
		err = c.goldens(p, options)
	case traces && len(c.Got) != 1:
		err = fmt.Errorf("%s is compared with one engine, or with one trace: want A B", c.Want)
	case traces:
		err = c.traces(p, options)
	default:
		err = c.engines(p, options)
	}
	if err != nil {
		return err
	}
	return p.end()
}

// selected reports whether --only lets a name through.
func (c *compareCommand) selected(name string) bool {
	ok, _ := path.Match(c.Only, name)
	return c.Only == "" || ok
}

// repeat is the command line that repeats one rollout.
func (c *compareCommand) repeat(env *environment, rollout string) string {
	var words []string
	value := false // of a flag that is left out
	for _, word := range env.command() {
		name, _, valued := strings.Cut(word, "=")
		if !value && !slices.Contains([]string{"--json", "--allow-absent", "--only", "--report"}, name) {
			words = append(words, word)
		}
		value = !valued && (name == "--only" || name == "--report")
	}
	return report.CommandLine(append(words, "--only", rollout))
}

// prepare opens engines in one profile, and loads routes for the first if it runs: the
// files that there are for the path of the data.
func (c *compareCommand) prepare(p *comparisons, list []*engines.Engine, files func(string) ([]string, error)) (s *simulation, all []opened[lockstep.Simulator], err error) {
	s, err = c.load(p.env, files, func(_ *environment, modelPath string) (lockstep.Simulator, error) {
		profile, asked, err := c.profile()
		if err != nil {
			return nil, err
		}
		if !asked {
			profile = engines.Common(list, modelPath)
		}
		all = openAll(list, engines.Config{Model: modelPath, Profile: profile, Workers: c.Workers}, c.Inexact, p.asked)
		p.env.atEnd(func() { closeAll(all...) })
		return all[0].engine, nil
	})
	if err == nil && len(s.failed) > 0 {
		err = exitStatus(exitUsage)
	}
	return s, all, err
}

// engines holds engines to the first.
func (c *compareCommand) engines(p *comparisons, options parity.CompareOptions) error {
	list, err := engines.ByName(append([]string{c.Want}, c.Got...)...)
	if err != nil {
		return err
	}
	if len(c.Got) == 0 {
		list = append(list, slices.DeleteFunc(engines.Tried(), func(e *engines.Engine) bool { return e.Name == c.Want })...)
	}
	policies, err := c.policies(p.env)
	if err != nil {
		return err
	}
	s, all, err := c.prepare(p, list, c.files)
	if err != nil {
		return err
	}
	jobs := slices.DeleteFunc(s.jobs(policies), func(job lockstep.Job) bool { return !c.selected(job.Route.Name + "/" + job.Policy.String()) })
	if len(jobs) == 0 && all[0].err == nil {
		return fmt.Errorf("--only %q: no rollout has such a name", c.Only)
	}
	k := verdict.Comparison{Kind: "engines", Detail: filepath.Base(s.modelPath)}
	return hold(p, k, all, func(want, got lockstep.Simulator) (*parity.Report, error) {
		return tinyphysics.Compare(p.env.ctx, tinyphysics.Live(want), tinyphysics.Live(got), jobs, lockstep.AllSteps, options)
	}, func(want lockstep.Simulator, got opened[lockstep.Simulator]) (smallest, string, error) {
		return c.shrink(p.env.ctx, s.modelPath, jobs, want, got)
	})
}

// shrink makes the smallest case of jobs on which engines differ.
func (c *compareCommand) shrink(ctx context.Context, modelPath string, jobs []lockstep.Job, want lockstep.Simulator, got opened[lockstep.Simulator]) (smallest, string, error) {
	jobs = slices.Clone(jobs)
	for i := range jobs {
		switch jobs[i].Policy.(type) {
		case lockstep.Zero, lockstep.PID, lockstep.PIDFF:
		default:
			var err error
			if jobs[i], err = tinyphysics.Freeze(ctx, want, jobs[i]); err != nil {
				return nil, "", err
			}
		}
	}
	whole, err := tinyphysics.NewCase(jobs, lockstep.AllSteps)
	if err != nil {
		return nil, "", err
	}
	if whole.ModelSHA256, err = fileio.SHA256(modelPath); err != nil {
		return nil, "", err
	}
	names := map[string]string{defaults.ModelSHA256: tinyphysics.DefaultModel, model.OfficialSHA256: tinyphysics.OfficialModel}
	whole.Model = cmp.Or(names[whole.ModelSHA256], filepath.Base(modelPath))
	whole.Engine, whole.Profile, whole.Workers = got.name, want.Profile(), c.Workers
	small, d, err := tinyphysics.Shrink(ctx, whole, func(_ context.Context, k *tinyphysics.Case) (*parity.Divergence, error) {
		r, err := k.Compare(ctx, want, got.engine)
		if err != nil {
			return nil, err
		}
		return r.First, nil
	}, 0)
	if err != nil {
		return nil, "", err
	}
	small.What = strings.Join(d.Key, " ")
	small.Results, err = small.Run(ctx, want)
	return small, fmt.Sprintf("%d of %d rollouts, %d rows, stage %s", len(small.Batch), len(jobs), small.Routes[0].Rows, small.Stage), err
}
