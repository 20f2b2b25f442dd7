package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/alecthomas/kong"

	"lockstep/classic"
	"lockstep/classic/harness"
	"lockstep/engines"
	"lockstep/internal/progress"
	"lockstep/internal/want"
	"lockstep/parity"
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
	asked := false
	for _, p := range command.Path {
		asked = asked || p.Flag != nil && p.Flag.Name == "env"
	}
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

// rollout rolls the environments out and prints what they came to.
func (c *classicFlags) rollout(env *environment, engine string, workers int, stats, asJSON bool) error {
	task, err := classic.Make(c.Env, c.NumEnvs, c.Option)
	if err != nil {
		return err
	}
	task.NumPy1 = c.NumPy1
	if task.Autoreset, err = classic.ParseAutoreset(c.Autoreset); err != nil {
		return err
	}
	if c.Steps < 1 {
		return fmt.Errorf("--steps %d: at least 1 is needed", c.Steps)
	}
	if engine == "auto" {
		engine = ""
	}
	e, err := engines.OpenClassic(engine, workers)
	if err != nil {
		return err
	}
	v, err := e.Make(task)
	if err != nil {
		return err
	}
	defer v.Close()
	ledger, ok := v.(interface{ Stats() string })
	if stats && !ok {
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
		if env.ctx.Err() != nil {
			return env.interrupted("nothing is kept")
		}
		return err
	}
	return c.result(env, e.Name(), v.Totals(), time.Since(start).Seconds(), asJSON, func() {
		if stats {
			fmt.Fprintln(env.stdout, ledger.Stats())
		}
	})
}

// result prints steps, time and returns.
func (c *classicFlags) result(env *environment, engine string, t classic.Totals, seconds float64, asJSON bool, after func()) error {
	sum, episodes := 0.0, int64(0)
	for i, r := range t.Rewards {
		sum += r
		episodes += t.Episodes[i]
	}
	if asJSON {
		return json.NewEncoder(env.stdout).Encode(map[string]any{
			"env": c.Env, "engine": engine, "num_envs": c.NumEnvs, "steps": t.Steps, "seconds": seconds,
			"steps_per_second": float64(t.Steps) / seconds, "episodes": episodes, "reward": sum, "rewards": t.Rewards,
		})
	}
	perEpisode := "no episode ended"
	if episodes > 0 {
		perEpisode = fmt.Sprintf("%.6g a finished episode", sum/float64(episodes))
	}
	fmt.Fprintf(env.stdout, "%s, %s: %d steps in %.2f s, %.4g steps/s; %d episodes ended, rewards of %.10g, %s\n",
		c.Env, engine, t.Steps, seconds, float64(t.Steps)/seconds, episodes, sum, perEpisode)
	after()
	return nil
}

// classic holds engines of classic control to the first.
func (c *compareCommand) classic(env *environment, p *comparisons) error {
	if c.Autoreset == classic.Disabled.String() {
		return errors.New("--autoreset disabled: nobody resets what has ended: want next-step, same-step or off")
	}
	key := uint64(c.EnvSeed)
	r := &harness.Rollout{Environment: c.Env, Options: c.Option, Num: c.NumEnvs, Autoreset: c.Autoreset, NumPy1: c.NumPy1, Steps: c.Steps, Uniform: &key}
	for i := range c.NumEnvs {
		r.Seeds = append(r.Seeds, c.EnvSeed+int64(i))
	}
	if e, err := classic.Find(c.Env); err == nil && e.Shared {
		r.Seeds = []int64{c.EnvSeed}
	}
	if _, err := r.Task(); err != nil {
		return err
	}
	names := c.Got
	for _, e := range engines.Classic {
		if len(c.Got) == 0 && !e.Slow && e.Name != c.Want {
			names = append(names, e.Name)
		}
	}
	all, err := openClassic(append([]string{c.Want}, names...), c.Workers)
	if err != nil {
		return err
	}
	options := parity.CompareOptions{Replay: func(*parity.Task) string { return report.CommandLine(append([]string{"lockstep"}, env.args...)) }}
	for _, o := range all[1:] {
		if err := p.classic(verdict.Comparison{Kind: "engines", Detail: c.Env}, r, all[0], o, options); err != nil {
			return err
		}
		if c.Keep != "" && p.list[len(p.list)-1].Outcome() == verdict.Different {
			if err := c.keepClassic(env, r, all[0], o); err != nil {
				return err
			}
		}
	}
	return p.end()
}

// openedClassic is an engine of classic control that runs, or the reason why not.
type openedClassic struct {
	*engines.ClassicEngine
	classic.Engine
	err error
}

func openClassic(names []string, workers int) (all []openedClassic, err error) {
	for _, name := range names {
		e, err := engines.ClassicNamed(name)
		if err != nil {
			return nil, err
		}
		o := openedClassic{ClassicEngine: e}
		o.Engine, o.err = e.New(workers)
		all = append(all, o)
	}
	return all, nil
}

// classic makes the comparison k of two engines on a rollout, or adds why one cannot take
// part.
func (p *comparisons) classic(k verdict.Comparison, r *harness.Rollout, first, o openedClassic, options parity.CompareOptions) error {
	k.Want, k.Got = first.ClassicEngine.Name, o.ClassicEngine.Name
	for _, side := range []openedClassic{first, o} {
		var absent *want.Error
		if errors.As(side.err, &absent) {
			k.NotRun, k.Lacks = side.ClassicEngine.Name+": "+side.err.Error(), side.Want.Name
			p.add(p.unasked(k))
			return nil
		}
		if side.err != nil {
			return p.made(k, nil, fmt.Errorf("%s: %w", side.ClassicEngine.Name, side.err))
		}
		k.Identities = append(k.Identities, engines.ClassicIdentity(side.Engine))
	}
	report, err := r.Compare(p.env.ctx, first.Engine, o.Engine, options)
	return p.made(k, report, err)
}

// keepClassic shrinks a rollout on which engines differ and keeps the case that is left.
func (c *compareCommand) keepClassic(env *environment, r *harness.Rollout, first, o openedClassic) error {
	small, d, err := harness.Shrink(env.ctx, r, first.Engine, o.Engine, 0)
	if env.ctx.Err() != nil {
		return env.interrupted(noReport)
	}
	if err != nil {
		return fmt.Errorf("--keep: %w", err)
	}
	k := harness.Case{Case: parity.Case{What: c.Env, Stage: d.Stage, Engine: o.ClassicEngine.Name}, Rollout: *small}
	if k.Results, err = k.Run(env.ctx, first.Engine); err == nil {
		err = k.Save(c.Keep)
	}
	if err != nil {
		return fmt.Errorf("--keep: %w", err)
	}
	var out io.Writer = env.stdout
	if c.JSON {
		out = env.stderr
	}
	fmt.Fprintf(out, "kept: %d of %d environments, %d steps, stage %s; replay: %s\n", k.Num, r.Num, k.Steps, k.Stage, k.Replay())
	return nil
}

// replayClassic repeats a case on the engines of these names, or on all that run: the
// first is held to what is kept with the case, the others to it.
func (p *comparisons) replayClassic(c *harness.Case, names []string) error {
	var own []string
	for _, e := range engines.Classic {
		if len(names) == 0 && !e.Slow {
			own = append(own, e.Name)
		}
	}
	for _, name := range names {
		if _, err := engines.ClassicNamed(name); err == nil {
			own = append(own, name)
		}
	}
	kept := verdict.Comparison{Kind: "replay", Want: keptResults, Detail: stem(c.Path)}
	if len(own) == 0 {
		kept.Got, kept.NotApplicable = strings.Join(names, ","), "no engine of these names computes classic control"
		p.add(kept)
		return nil
	}
	all, err := openClassic(own, 0)
	if err != nil {
		return err
	}
	options := parity.CompareOptions{Replay: func(*parity.Task) string { return c.Replay() }}
	for _, o := range all[1:] {
		if err := p.classic(verdict.Comparison{Kind: "replay", Detail: kept.Detail}, &c.Rollout, all[0], o, options); err != nil {
			return err
		}
	}
	kept.Got = all[0].ClassicEngine.Name
	return p.kept(kept, c, c.Results, func() ([]parity.CaseResult, error) { return c.Run(p.env.ctx, all[0].Engine) })
}
