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
	"lockstep/engines"
	"lockstep/internal/defaults"
	"lockstep/internal/model"
	"lockstep/internal/plain"
	"lockstep/parity"
	"lockstep/parity/tinyphysics"
	"lockstep/parity/verdict"
)

type compareCommand struct {
	Want string   `arg:"" name:"a"       optional:"" default:"reference" help:"The yardstick: an engine, a trace, the word goldens for the recordings of the Python program in this source, or a folder of recordings. Default: reference."`
	Got  []string `arg:"" name:"b"       optional:""                     help:"What is held to it: engines, or a trace. Default: all that can run here, but emulated, which is slow."`
	inputFlags
	controllerFlags
	familyFlags
	outputFlags
	Inexact bool   `       name:"inexact"                                 help:"For sides that do not claim the same bits: logits, probabilities and CDF may differ, and tokens if that explains it."`
	Budget  int    `       name:"budget"                                  help:"How many explained tokens an inexact comparison excuses. Default: none."                                                                                     placeholder:"N"`
	Only    string `       name:"only"                                    help:"Only the rollouts (route/controller) whose name matches, such as 00000/pid."                                                                                 placeholder:"PATTERN"`
	Keep    string `       name:"keep"                                    help:"Shrink what differs between engines to the smallest case, and keep it in this folder for lockstep replay, such as parity/testdata/regressions."              placeholder:"DIR"     family:"every"`
}

// outputFlags say what a command tells of its comparisons.
type outputFlags struct {
	Report      string `name:"report"       family:"every" io:"out" placeholder:"FILE.html" help:"Write a report, one file that opens offline."`
	JSON        bool   `name:"json"         family:"every"                                  help:"Print one JSON object a line: one for each comparison, then a summary."`
	AllowAbsent bool   `name:"allow-absent" family:"every"                                  help:"Engines, networks and routes that are not here are left out, and named, instead of failing, unless nothing is left to compare."`
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
	options.Replay = func(task *parity.RolloutTask) string { return c.repeat(env, task.Name()) }
	p := &comparisons{
		env:    env,
		output: &c.outputFlags,
		asked:  len(c.Got) > 0 || c.AllowAbsent,
		keep:   c.Keep,
	}
	if err := c.sides(p, options); err != nil {
		return err
	}
	return p.end()
}

// sides compares what the two sides are: engines, recordings or traces.
func (c *compareCommand) sides(p *comparisons, options parity.CompareOptions) error {
	if f := c.family(); f != nil {
		return f.compare(p, c)
	}
	unknown := func(name string) bool { return !engines.Known(name) }
	recordings := c.Want == "goldens" || c.folder()
	traces := !recordings && (unknown(c.Want) || slices.ContainsFunc(c.Got, unknown))
	switch {
	case c.Keep != "" && (recordings || traces || c.Inexact):
		return errors.New(
			"--keep keeps what engines do: it does not go with recordings, traces or --inexact",
		)
	case traces && c.Only != "":
		return errors.New("--only goes with engines and goldens, not with traces")
	case recordings:
		names := append([]string{"num_segs", "profile"}, rolloutFlags...)
		if err := p.env.passedOver("recordings", names...); err != nil {
			return err
		}
		return c.goldens(p, options)
	case traces && len(c.Got) != 1:
		return fmt.Errorf("compare %s with one engine, or with one trace", c.Want)
	case traces:
		if err := p.env.passedOver("traces", "num_segs"); err != nil {
			return err
		}
		return c.traces(p, options)
	}
	return c.engines(p, options)
}

// rolloutFlags are the flags of what is simulated, which recordings and traces say themselves.
var rolloutFlags = slices.Concat(
	[]string{"seed_prefix", "no-cache", "own"}, choosingFlags, steeringFlags,
)

// passedOver refuses flags that are given and would be passed over, since what is compared says
// itself what they are of.
func (e *environment) passedOver(with string, names ...string) error {
	if name := e.givenOf(names); name != "" {
		return fmt.Errorf(
			"--%s does not go with %s, which say themselves what they are of", name, with,
		)
	}
	return nil
}

// folder reports whether the yardstick is a folder: an engine's name is an engine, also where
// its folder is.
func (c *compareCommand) folder() bool {
	info, err := os.Stat(c.Want)
	return err == nil && info.IsDir() && !engines.Known(c.Want)
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
		if !value &&
			!slices.Contains([]string{"--json", "--allow-absent", "--only", "--report"}, name) {
			words = append(words, word)
		}
		value = !valued && (name == "--only" || name == "--report")
	}
	return plain.Command(append(words, "--only", literally.Replace(rollout)))
}

// literally makes a name the pattern of --only that nothing else matches.
var literally = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

// prepare opens engines in one profile, and loads routes for the first if it runs: the
// files that there are for the path of the data.
func (c *compareCommand) prepare(
	p *comparisons, list []*engines.Engine, files func(string) ([]string, error),
) (s *simulation, all []opened[lockstep.Implementation], err error) {
	s, err = c.load(
		p.env, files,
		func(_ *environment, modelPath string) (lockstep.Implementation, error) {
			profile, asked, err := c.profile(p.env)
			if err != nil {
				return nil, err
			}
			if !asked {
				profile = engines.Common(list, modelPath, profile)
			}
			p.env.computed = profile
			all = openAll(
				list, engines.Config{Model: modelPath, Profile: profile, Workers: c.Workers},
				c.Inexact, p.asked,
			)
			p.env.atEnd(func() { closeAll(all...) })
			return all[0].engine, nil
		},
	)
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
		list = append(
			list,
			slices.DeleteFunc(
				engines.Tried(), func(e *engines.Engine) bool { return e.Name == c.Want },
			)...)
	}
	policies, err := c.policies(p.env)
	if err != nil {
		return err
	}
	s, all, err := c.prepare(p, list, c.files)
	if err != nil {
		return err
	}
	jobs := s.jobs(policies)
	if c.plain() && all[0].err == nil {
		hard, err := tinyphysics.Hard(p.env.ctx, all[0].engine)
		if err != nil {
			return err
		}
		jobs = append(hard, jobs...)
	}
	jobs = slices.DeleteFunc(
		jobs,
		func(job lockstep.Job) bool {
			return !c.selected(job.Route.Name + "/" + job.Policy.String())
		},
	)
	if len(jobs) == 0 && all[0].err == nil {
		return fmt.Errorf("--only %q: no rollout has such a name", c.Only)
	}
	k := verdict.Comparison{Kind: "engines", Detail: filepath.Base(s.modelPath)}
	return hold(p, k, all, func(want, got lockstep.Implementation) (*parity.Report, error) {
		r, err := tinyphysics.Compare(
			p.env.ctx, tinyphysics.Live(want), tinyphysics.Live(got), jobs, lockstep.AllSteps,
			options,
		)
		if err != nil || !r.OK() {
			return r, err
		}
		for _, side := range []parity.SideInfo{r.Want, r.Got} {
			if len(side.Computed) == 0 {
				return nil, fmt.Errorf(
					"%s does not say what computes its rollouts: an engine's Simulate calls "+
						"lockstep.Computes",
					side.Name,
				)
			}
		}
		return r, nil
	}, func(
		want lockstep.Implementation, got opened[lockstep.Implementation],
	) (smallest, string, error) {
		return c.shrink(p.env.ctx, s.modelPath, jobs, want, got)
	})
}

// plain reports whether neither routes nor controllers are the user's: then what is built
// in goes through every branch of the specification. Draws on the edges of a CDF prove
// nothing where CDFs may differ.
func (c *compareCommand) plain() bool {
	return c.DataPath == "" && c.Controller == "pid" && len(c.PID) == 0 && c.PIDGrid == "" &&
		!c.Inexact
}

// shrink makes the smallest case of jobs on which engines differ.
func (c *compareCommand) shrink(
	ctx context.Context, modelPath string, jobs []lockstep.Job, want lockstep.Implementation,
	got opened[lockstep.Implementation],
) (smallest, string, error) {
	jobs, err := holdable(ctx, jobs, want)
	if err != nil {
		return nil, "", err
	}
	whole, err := tinyphysics.NewCase(jobs, lockstep.AllSteps)
	if err != nil {
		return nil, "", err
	}
	whole.ModelSHA256 = want.About().Model
	names := map[string]string{
		defaults.ModelSHA256: tinyphysics.DefaultModel,
		model.OfficialSHA256: tinyphysics.OfficialModel,
	}
	whole.Model = cmp.Or(names[whole.ModelSHA256], filepath.Base(modelPath))
	whole.Engine, whole.Profile, whole.Workers = got.name, want.Profile(), c.Workers
	small, d, err := tinyphysics.Shrink(
		ctx, whole,
		func(_ context.Context, k *tinyphysics.DriveCase) (*parity.Divergence, error) {
			r, err := k.Compare(ctx, want, got.engine)
			if err != nil {
				return nil, err
			}
			return r.First, nil
		},
		0,
	)
	if err != nil {
		return nil, "", err
	}
	small.What = strings.Join(d.Key, " ")
	small.Results, err = small.Run(ctx, want)
	return small, fmt.Sprintf(
		"%d of %d rollouts, %d rows, stage %s", len(small.Batch), len(jobs), small.Routes[0].Rows,
		small.Stage,
	), err
}

// holdable are jobs as a case can hold them: without those that have a teacher, and with the
// actions of a controller that is not made of gains.
func holdable(
	ctx context.Context, jobs []lockstep.Job, want lockstep.Simulator,
) (held []lockstep.Job, err error) {
	for _, job := range jobs {
		if job.Teacher != nil {
			continue
		}
		p, ok := job.Policy.(lockstep.Native)
		if !ok || p.Kind().Info().New == nil {
			if job, err = tinyphysics.Freeze(ctx, want, job); err != nil {
				return nil, err
			}
		}
		held = append(held, job)
	}
	return held, nil
}
