package main

import (
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

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

// classicFlags are those of a classic control environment.
type classicFlags struct {
	Env       string            `name:"env" family:"classic" placeholder:"NAME" help:"A classic control environment, with uniform actions, instead of routes: lockstep envs lists them."`
	NumEnvs   int               `name:"num-envs" family:"classic" default:"1" help:"How many of them."`
	Steps     int               `name:"steps" family:"classic" default:"1000" help:"How many steps of each."`
	EnvSeed   int64             `name:"env-seed" family:"classic" default:"0" help:"Seed of the first environment, and of the actions."`
	Option    map[string]string `name:"option" family:"classic" placeholder:"NAME=VALUE" help:"An option of gymnasium.make, such as g=9.81."`
	Autoreset string            `name:"autoreset" family:"classic" default:"next-step" help:"next-step, same-step, disabled or off."`
	NumPy1    bool              `name:"numpy1" family:"classic" help:"Compute as Gymnasium does with NumPy 1."`
}

func (*classicFlags) tag() (tag, flag string) { return "classic", "env" }

func (f *classicFlags) asked() bool { return f.Env != "" }

// task is what the flags describe.
func (f *classicFlags) task() (classic.Task, error) {
	t, err := classic.Make(f.Env, f.NumEnvs, f.Option)
	if err != nil {
		return t, err
	}
	if f.Steps < 1 {
		return t, fmt.Errorf("--steps %d: at least 1 is needed", f.Steps)
	}
	t.NumPy1 = f.NumPy1
	if t.Autoreset, err = classic.ParseAutoreset(f.Autoreset); err != nil {
		return t, err
	}
	return t, t.Check()
}

// rollout rolls environments out and prints steps, time and returns.
func (f *classicFlags) rollout(env *environment, c *rolloutCommand) error {
	task, err := f.task()
	if err != nil {
		return err
	}
	e, err := engines.Classic.Open(c.Engine, c.Workers)
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
	if err := v.Reset(classic.Reset{Seed: f.EnvSeed}); err != nil {
		return err
	}
	key := uint64(f.EnvSeed)
	bar := progress.New(env.stderr, f.Steps, "steps")
	start := time.Now()
	for done := 0; done < f.Steps && err == nil; {
		n := min(1000, f.Steps-done)
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
			"env": f.Env, "engine": e.Name(), "num_envs": f.NumEnvs, "steps": t.Steps, "seconds": seconds,
			"steps_per_second": float64(t.Steps) / seconds, "episodes": episodes, "reward": sum, "rewards": t.Rewards,
		})
		return nil
	}
	perEpisode := "no episode ended"
	if episodes > 0 {
		perEpisode = fmt.Sprintf("%.6g a finished episode", sum/float64(episodes))
	}
	fmt.Fprintf(env.stdout, "%s, %s: %d steps in %.2f s, %.4g steps/s; %d episodes ended, rewards of %.10g, %s\n",
		f.Env, e.Name(), t.Steps, seconds, float64(t.Steps)/seconds, episodes, sum, perEpisode)
	if c.Stats {
		fmt.Fprintln(env.stdout, v.Stats())
	}
	return nil
}

// compare holds engines of classic control to the first.
func (f *classicFlags) compare(p *comparisons, c *compareCommand) error {
	if f.Autoreset == classic.Disabled.String() {
		return errors.New("--autoreset disabled: nobody resets what has ended: want next-step, same-step or off")
	}
	task, err := f.task()
	if err != nil {
		return err
	}
	key := uint64(f.EnvSeed)
	r := &gymnasium.Rollout{
		Environment: f.Env, Options: f.Option, Num: f.NumEnvs, Autoreset: f.Autoreset, NumPy1: f.NumPy1,
		Steps: f.Steps, Uniform: &key, Seeds: []int64{f.EnvSeed},
	}
	for i := 1; i < f.NumEnvs && !task.Shared; i++ {
		r.Seeds = append(r.Seeds, f.EnvSeed+int64(i))
	}
	all, err := openMembers(&engines.Classic, held(&engines.Classic, c), c.Workers, p.asked)
	if err != nil {
		return err
	}
	options := parity.CompareOptions{Replay: func(*parity.Task) string { return report.CommandLine(p.env.command()) }}
	return hold(p, verdict.Comparison{Kind: "engines", Detail: f.Env}, all, func(want, got classic.Engine) (*parity.Report, error) {
		return r.Compare(p.env.ctx, want, got, options)
	}, func(want classic.Engine, got opened[classic.Engine]) (smallest, string, error) {
		small, d, err := gymnasium.Shrink(p.env.ctx, r, want, got.engine, 0)
		if err != nil {
			return nil, "", err
		}
		k := &gymnasium.Case{Case: parity.Case{What: f.Env, Stage: d.Stage, Engine: got.name}, Rollout: *small}
		k.Results, err = k.Run(p.env.ctx, want)
		return k, fmt.Sprintf("%d of %d environments, %d steps, stage %s", k.Num, r.Num, k.Steps, k.Stage), err
	})
}

// replay repeats a case of classic control.
func (*classicFlags) replay(p *comparisons, file string, names []string) (func() error, error) {
	if !gymnasium.IsCase(file) {
		return nil, nil
	}
	k, err := gymnasium.LoadCase(file)
	return func() error {
		return replayMembers(p, &engines.Classic, k, k.Path, k.Results, names)
	}, err
}
