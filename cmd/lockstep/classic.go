package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/alecthomas/kong"

	"lockstep/classic"
	"lockstep/engines"
	"lockstep/internal/progress"
	"lockstep/parity"
	"lockstep/parity/gymnasium"
	"lockstep/parity/verdict"
	"lockstep/report"
)

// envsCommand lists the classic control environments.
type envsCommand struct{}

// Run is the envs command.
func (envsCommand) Run(env *environment) error {
	w := tabwriter.NewWriter(env.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "environment\tactions\tobservation\tsteps\toptions")
	for i := range classic.Environments {
		e := &classic.Environments[i]
		actions := fmt.Sprintf("0 to %d", e.Actions-1)
		if e.Actions == 0 {
			actions = fmt.Sprintf("float32, ±%g", e.Limit)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\n", e.Name, actions, strings.Join(e.Observation, ", "), e.MaxSteps, strings.Join(e.Options(), ", "))
	}
	return w.Flush()
}

// checkClassic refuses what would be passed over: flags of classic control without --env,
// and of the others, with it, those that are not for both.
func checkClassic(command *kong.Context) error {
	asked := slices.ContainsFunc(command.Path, func(p *kong.Path) bool { return p.Flag != nil && p.Flag.Name == "env" })
	for _, p := range command.Path {
		if p.Flag == nil {
			continue
		}
		switch of := p.Flag.Tag.Get("classic"); {
		case of == "only" && !asked:
			return fmt.Errorf("--%s goes with --env", p.Flag.Name)
		case of == "" && asked:
			return fmt.Errorf("--%s does not go with --env", p.Flag.Name)
		}
	}
	return nil
}

// classicFlags are those of a classic control environment. A tag says which flags go
// with --env only, and which do too.
type classicFlags struct {
	Env       string            `name:"env" classic:"only" placeholder:"NAME" help:"A classic control environment, with uniform actions, instead of routes: lockstep envs lists them."`
	NumEnvs   int               `name:"num-envs" classic:"only" default:"1" help:"How many of them."`
	Steps     int               `name:"steps" classic:"only" default:"1000" help:"How many steps of each."`
	EnvSeed   int64             `name:"env-seed" classic:"only" default:"0" help:"Seed of the first environment, and of the actions."`
	Option    map[string]string `name:"option" classic:"only" placeholder:"NAME=VALUE" help:"An option of gymnasium.make, such as g=9.81."`
	Autoreset string            `name:"autoreset" classic:"only" default:"next-step" help:"next-step, same-step, disabled or off."`
	NumPy1    bool              `name:"numpy1" classic:"only" help:"Compute as Gymnasium does with NumPy 1."`
}

// task is what the flags describe.
func (c *classicFlags) task() (classic.Task, error) {
	t, err := classic.Make(c.Env, c.NumEnvs, c.Option)
	if err != nil {
		return t, err
	}
	if c.Steps < 1 {
		return t, fmt.Errorf("--steps %d: at least 1 is needed", c.Steps)
	}
	t.NumPy1 = c.NumPy1
	if t.Autoreset, err = classic.ParseAutoreset(c.Autoreset); err != nil {
		return t, err
	}
	return t, t.Check()
}

// classic rolls environments out and prints steps, time and returns.
func (c *rolloutCommand) classic(env *environment) error {
	task, err := c.task()
	if err != nil {
		return err
	}
	e, err := engines.OpenClassic(c.Engine, c.Workers)
	if err != nil {
		return err
	}
	v, err := e.Make(task)
	if err != nil {
		return err
	}
	defer v.Close()
	if c.Stats && v.Stats() == "" {
		return fmt.Errorf("--stats goes with --engine gpu or emulated; the %s engine has no device", e.Name())
	}
	if err := v.Reset(classic.Reset{Seed: c.EnvSeed}); err != nil {
		return err
	}
	key := uint64(c.EnvSeed)
	bar := progress.New(env.stderr, c.Steps, "steps")
	start := time.Now()
	for done := 0; done < c.Steps && err == nil; {
		n := min(1000, c.Steps-done)
		err = v.Run(env.ctx, classic.Policy{Uniform: &key}, n, nil)
		done += n
		bar.Add(n)
	}
	bar.Clear()
	if err != nil {
		return env.ended(err, "nothing is kept")
	}
	t, seconds := v.Totals(), time.Since(start).Seconds()
	sum, episodes := 0.0, int64(0)
	for i, r := range t.Rewards {
		sum += r
		episodes += t.Episodes[i]
	}
	if c.JSON {
		env.json(map[string]any{
			"env": c.Env, "engine": e.Name(), "num_envs": c.NumEnvs, "steps": t.Steps, "seconds": seconds,
			"steps_per_second": float64(t.Steps) / seconds, "episodes": episodes, "reward": sum, "rewards": t.Rewards,
		})
		return nil
	}
	perEpisode := "no episode ended"
	if episodes > 0 {
		perEpisode = fmt.Sprintf("%.6g a finished episode", sum/float64(episodes))
	}
	fmt.Fprintf(env.stdout, "%s, %s: %d steps in %.2f s, %.4g steps/s; %d episodes ended, rewards of %.10g, %s\n",
		c.Env, e.Name(), t.Steps, seconds, float64(t.Steps)/seconds, episodes, sum, perEpisode)
	if c.Stats {
		fmt.Fprintln(env.stdout, v.Stats())
	}
	return nil
}

// classic holds engines of classic control to the first.
func (c *compareCommand) classic(p *comparisons) error {
	if c.Autoreset == classic.Disabled.String() {
		return errors.New("--autoreset disabled: nobody resets what has ended: want next-step, same-step or off")
	}
	task, err := c.task()
	if err != nil {
		return err
	}
	key := uint64(c.EnvSeed)
	r := &gymnasium.Rollout{
		Environment: c.Env, Options: c.Option, Num: c.NumEnvs, Autoreset: c.Autoreset, NumPy1: c.NumPy1,
		Steps: c.Steps, Uniform: &key, Seeds: []int64{c.EnvSeed},
	}
	for i := 1; i < c.NumEnvs && !task.Shared; i++ {
		r.Seeds = append(r.Seeds, c.EnvSeed+int64(i))
	}
	names := append([]string{c.Want}, c.Got...)
	if len(c.Got) == 0 {
		names = append(names, slices.DeleteFunc(engines.TriedClassic(), func(name string) bool { return name == c.Want })...)
	}
	all, err := openClassic(names, c.Workers, p.asked)
	if err != nil {
		return err
	}
	options := parity.CompareOptions{Replay: func(*parity.Task) string { return report.CommandLine(p.env.command()) }}
	return hold(p, verdict.Comparison{Kind: "engines", Detail: c.Env}, all, func(want, got classic.Engine) (*parity.Report, error) {
		return r.Compare(p.env.ctx, want, got, options)
	}, func(want classic.Engine, got opened[classic.Engine]) (smallest, string, error) {
		small, d, err := gymnasium.Shrink(p.env.ctx, r, want, got.engine, 0)
		if err != nil {
			return nil, "", err
		}
		k := &gymnasium.Case{Case: parity.Case{What: c.Env, Stage: d.Stage, Engine: got.name}, Rollout: *small}
		k.Results, err = k.Run(p.env.ctx, want)
		return k, fmt.Sprintf("%d of %d environments, %d steps, stage %s", k.Num, r.Num, k.Steps, k.Stage), err
	})
}

// openClassic opens engines of classic control, of which the first is asked for by its name.
func openClassic(names []string, workers int, asked bool) (all []opened[classic.Engine], err error) {
	for i, name := range names {
		e, err := engines.ClassicNamed(name)
		if err != nil {
			return nil, err
		}
		engine, err := e.New(workers)
		all = append(all, enter(name, engine, err, asked || i == 0, engines.ClassicIdentity))
	}
	return all, nil
}
