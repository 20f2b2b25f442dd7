package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"lockstep/classic"
	"lockstep/cmd/internal/archive"
	"lockstep/cmd/internal/runs"
	"lockstep/engines"
	"lockstep/internal/plain"
	"lockstep/internal/progress"
	"lockstep/parity"
	"lockstep/parity/gymnasium"
	"lockstep/parity/verdict"
)

func init() {
	enterFamily(familyRow{
		flags: func() family { return &classicFlags{} },
		bench: func() measured { return &benchEnvFlags{} },
	})
}

// envsCommand lists the classic control environments.
type envsCommand struct{}

// Run is the envs command.
func (envsCommand) Run(env *environment) error {
	w := tabwriter.NewWriter(env.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "environment\tactions\tobservation\tsteps\toptions")
	for i := range classic.Environments() {
		e := &classic.Environments()[i]
		actions := fmt.Sprintf("0 to %d", e.Actions-1)
		if e.Actions == 0 {
			actions = fmt.Sprintf("float32, ±%g", e.Limit)
		}
		fmt.Fprintf(
			w, "%s\t%s\t%s\t%d\t%s\n", e.Name, actions, strings.Join(e.Observation, ", "),
			e.MaxSteps, strings.Join(e.Options(), ", "),
		)
	}
	return w.Flush()
}

// classicFlags are those of a classic control environment.
type classicFlags struct {
	Env       string            `name:"env"       family:"classic" placeholder:"NAME"       help:"A classic control environment instead of routes: lockstep envs lists them."`
	NumEnvs   int               `name:"num-envs"  family:"classic"                          help:"How many of them."                                                                                                     default:"1"`
	Steps     *int              `name:"steps"     family:"classic" placeholder:"N"          help:"How many steps of each. Default: those of a table, else 1000."`
	Policy    string            `name:"policy"    family:"classic" placeholder:"FILE"       help:"What chooses the actions: random, or an .npz file of a table (actions) or a network (weights0, bias0, weights1, ...)." default:"random"`
	EnvSeed   int64             `name:"env-seed"  family:"classic"                          help:"Seed of the first environment, and of the actions."                                                                    default:"0"`
	Option    map[string]string `name:"option"    family:"classic" placeholder:"NAME=VALUE" help:"An option of gymnasium.make, such as g=9.81."`
	Autoreset string            `name:"autoreset" family:"classic"                          help:"next-step, same-step, disabled or off."                                                                                default:"next-step"`
	NumPy1    bool              `name:"numpy1"    family:"classic"                          help:"Compute as Gymnasium does with NumPy 1."`

	policySum string // the SHA-256 of the policy's file, as it was read
}

func (*classicFlags) tag() (tag, flag string) { return "classic", "env" }

func (f *classicFlags) asked() bool { return f.Env != "" }

// task is what the flags describe.
func (f *classicFlags) task() (classic.Task, error) {
	t, err := classic.Make(f.Env, f.NumEnvs, f.Option)
	if err != nil {
		return t, err
	}
	if f.Steps != nil && *f.Steps < 1 {
		return t, fmt.Errorf("--steps %d: at least 1 is needed", *f.Steps)
	}
	t.NumPy1 = f.NumPy1
	if t.Autoreset, err = classic.ParseAutoreset(f.Autoreset); err != nil {
		return t, err
	}
	return t, t.Check()
}

// random is the policy of uniform actions.
const random = "random"

// policy is what the flags choose actions by: a table has so many steps.
func (f *classicFlags) policy(t classic.Task) (p classic.Policy, steps int, err error) {
	steps = 1000
	if f.Policy == random {
		key := uint64(f.EnvSeed)
		p.Uniform = &key
	} else if p, f.policySum, err = archive.Policy(f.Policy, t); err != nil {
		return p, 0, fmt.Errorf("--policy %w", err)
	}
	if p.Recorded != nil {
		steps = len(p.Recorded)
	}
	if f.Steps != nil && p.Recorded != nil && *f.Steps != steps {
		return p, 0, fmt.Errorf("--steps %d: the table of --policy has %d", *f.Steps, steps)
	}
	if f.Steps != nil {
		steps = *f.Steps
	}
	return p, steps, nil
}

// environments are a rollout of classic control.
type environments struct {
	engine classic.Maker
	classic.Vector
	policy classic.Policy
	steps  int             // of each environment
	run    *archive.Folder // nil keeps nothing

	setUp, computing time.Duration
	computed         int64 // steps of all, in this process
}

// open makes the environments, where their folder says that they are.
func (f *classicFlags) open(env *environment, c *rolloutCommand) (*environments, error) {
	start := time.Now()
	task, err := f.task()
	if err != nil {
		return nil, err
	}
	e := &environments{}
	if e.policy, e.steps, err = f.policy(task); err != nil {
		return nil, err
	}
	if e.engine, err = engines.Classic().Open(c.Engine, c.Workers); err != nil {
		return nil, err
	}
	if e.Vector, err = e.engine.Make(task); err != nil {
		return nil, err
	}
	env.atEnd(func() { e.Vector.Close() })
	if err := e.Reset(classic.Reset{Seed: f.EnvSeed}); err != nil {
		return nil, err
	}
	if c.Out != "" {
		if err := e.keep(f, c.Out); err != nil {
			return nil, fmt.Errorf("--out: %w", err)
		}
		env.atEnd(func() { e.run.Close() })
	}
	e.setUp = time.Since(start)
	return e, nil
}

// keep opens the run's folder, and goes on from there.
func (e *environments) keep(f *classicFlags, dir string) (err error) {
	p := archive.Plan{
		Environment: f.Env, Options: f.Option, Num: f.NumEnvs, Autoreset: f.Autoreset,
		NumPy1: f.NumPy1, Seed: f.EnvSeed, Steps: e.steps,
	}
	if f.Policy != random {
		p.Policy = f.policySum
	}
	if p.Program, err = runs.HashProgram(libraryFile); err != nil {
		return err
	}
	if runs.Kept(dir) {
		return fmt.Errorf("%s is of another run, of routes: give another folder, or remove this "+
			"one, whole", dir)
	}
	if e.run, err = archive.OpenRun(dir, p); err != nil || e.run.Place == nil {
		return err
	}
	if err = e.Restore(e.run.Place); err != nil {
		e.run.Close()
	}
	return err
}

// compute does the steps that are left, a thousand at a time.
func (e *environments) compute(env *environment) error {
	num := int64(e.Task().Num)
	bar := progress.New(env.stderr, e.steps, "steps")
	defer bar.Clear()
	done := int(e.Totals().Steps / num)
	bar.Add(done)
	for done < e.steps {
		n := min(1000, e.steps-done)
		part := e.policy
		if part.Recorded != nil {
			part.Recorded = part.Recorded[done : done+n]
		}
		start := time.Now()
		if err := e.Run(env.ctx, part, n, nil); err != nil {
			return err
		}
		e.computing += time.Since(start)
		e.computed += int64(n) * num
		done += n
		bar.Add(n)
		if e.run == nil || done < e.steps && !e.run.Due() {
			continue
		}
		s, err := e.Snapshot()
		if err == nil {
			err = e.run.Keep(s)
		}
		if err != nil {
			return fmt.Errorf("--out: %w", err)
		}
	}
	return nil
}

// stats says what a run has cost in this process, and what has passed to a device.
func (e *environments) stats() map[string]any {
	s := map[string]any{
		"set_up_seconds": e.setUp.Seconds(), "run_seconds": e.computing.Seconds(),
		"ns_per_step":    float64(e.computing) / float64(max(e.computed, 1)),
		"steps_computed": e.computed,
	}
	if device := e.Stats(); device != "" {
		s["device"] = device
	}
	return s
}

// rollout rolls environments out and prints steps, time and returns.
func (f *classicFlags) rollout(env *environment, c *rolloutCommand) error {
	e, err := f.open(env, c)
	if err != nil {
		return err
	}
	if err := e.compute(env); err != nil {
		if e.run != nil {
			return env.ended(err, goesOn)
		}
		return env.ended(err, "nothing is kept")
	}
	t, seconds := e.Totals(), e.computing.Seconds()
	sum, episodes := 0.0, int64(0)
	for i, r := range t.Rewards {
		sum += r
		episodes += t.Episodes[i]
	}
	rate := float64(e.computed) / max(seconds, 1e-9)
	if c.JSON {
		all := map[string]any{
			"env": f.Env, "engine": e.engine.Name(), "num_envs": f.NumEnvs, "steps": t.Steps,
			"seconds":          seconds,
			"steps_per_second": rate, "episodes": episodes, "reward": sum, "rewards": t.Rewards,
		}
		if c.Stats {
			all["stats"] = e.stats()
		}
		env.json(all)
		return nil
	}
	perEpisode := "no episode ended"
	if episodes > 0 {
		perEpisode = fmt.Sprintf("%.6g a finished episode", sum/float64(episodes))
	}
	fmt.Fprintf(
		env.stdout,
		"%s, %s: %d steps in %.2f s, %.4g steps/s; %d episodes ended, rewards of %.10g, %s\n",
		f.Env, e.engine.Name(), t.Steps, seconds, rate, episodes, sum, perEpisode,
	)
	if c.Stats {
		fmt.Fprintf(env.stdout, "set-up %.4f s; %.4g ns a step in %d steps\n",
			e.setUp.Seconds(), float64(e.computing)/float64(max(e.computed, 1)), e.computed)
		if device := e.Stats(); device != "" {
			fmt.Fprintln(env.stdout, device)
		}
	}
	return nil
}

// watch says how far a run of classic control is, and whether nothing is to come. Of a
// folder of another run it is an error of fs.ErrNotExist.
func (*classicFlags) watch(out io.Writer, dir string) (done bool, err error) {
	p, s, at, err := archive.WatchRun(dir)
	if err != nil {
		return false, err
	}
	steps, text := 0, "not begun"
	if s != nil {
		sum, episodes := 0.0, int64(0)
		for i, r := range s.Rewards {
			sum += r
			episodes += s.Episodes[i]
		}
		steps = int(s.Steps)
		text = fmt.Sprintf(
			"%d episodes ended, rewards of %.10g, last at %s", episodes, sum,
			at.Format(time.TimeOnly),
		)
	}
	fmt.Fprintf(
		out, "%d %s, seed %d\n%d of %d steps of each, %s\n", p.Num, p.Environment, p.Seed, steps,
		p.Steps, text,
	)
	return steps >= p.Steps, nil
}

// compare holds engines of classic control to the first.
func (f *classicFlags) compare(p *comparisons, c *compareCommand) error {
	if f.Autoreset == classic.Disabled.String() {
		return errors.New(
			"--autoreset disabled: nobody resets what has ended: want next-step, same-step or off",
		)
	}
	task, err := f.task()
	if err != nil {
		return err
	}
	policy, steps, err := f.policy(task)
	if err != nil {
		return err
	}
	r := &gymnasium.Episodes{
		Environment: f.Env, Options: f.Option, Num: f.NumEnvs, Autoreset: f.Autoreset,
		NumPy1: f.NumPy1,
		Steps:  steps, Uniform: policy.Uniform, Network: policy.Network, Seeds: []int64{f.EnvSeed},
	}
	for _, a := range policy.Recorded {
		for _, x := range a.Discrete {
			r.Actions = append(r.Actions, parity.Float(x))
		}
		for _, x := range a.Continuous {
			r.Actions = append(r.Actions, parity.Float(x))
		}
	}
	for i := 1; i < f.NumEnvs && !task.Shared; i++ {
		r.Seeds = append(r.Seeds, f.EnvSeed+int64(i))
	}
	all, err := openMembers(engines.Classic(), held(engines.Classic(), c), c.Workers, p.asked)
	if err != nil {
		return err
	}
	options := parity.CompareOptions{
		Replay: func(*parity.RolloutTask) string { return plain.Command(p.env.command()) },
	}
	return hold(
		p, verdict.Comparison{Kind: "engines", Detail: f.Env}, all,
		func(want, got classic.Maker) (*parity.Report, error) {
			return r.Compare(p.env.ctx, want, got, options)
		},
		func(want classic.Maker, got opened[classic.Maker]) (smallest, string, error) {
			small, d, err := gymnasium.Shrink(p.env.ctx, r, want, got.engine, 0)
			if err != nil {
				return nil, "", err
			}
			k := &gymnasium.VectorCase{
				Case:     parity.Case{What: f.Env, Stage: d.Stage, Engine: got.name},
				Episodes: *small,
			}
			k.Results, err = k.Run(p.env.ctx, want)
			return k, fmt.Sprintf(
				"%d of %d environments, %d steps, stage %s", k.Num, r.Num, k.Steps, k.Stage,
			), err
		},
	)
}

// replay repeats a case of classic control.
func (*classicFlags) replay(p *comparisons, file string, names []string) (func() error, error) {
	if !gymnasium.IsCase(file) {
		return nil, nil
	}
	k, err := gymnasium.LoadCase(file)
	return func() error {
		return replayMembers(p, engines.Classic(), k, k.Path, k.Results, names)
	}, err
}
