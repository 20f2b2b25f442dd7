package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"lockstep/classic"
	"lockstep/engines"
	"lockstep/internal/progress"
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

// classicFlags are those of rollout for a classic control environment.
type classicFlags struct {
	Env       string            `name:"env" placeholder:"NAME" help:"Roll a classic control environment out, with uniform actions: lockstep envs lists them."`
	NumEnvs   int               `name:"num-envs" default:"1" help:"How many of them."`
	Steps     int               `name:"steps" default:"1000" help:"How many steps of each."`
	EnvSeed   int64             `name:"env-seed" default:"0" help:"Seed of the first environment, and of the actions."`
	Option    map[string]string `name:"option" placeholder:"NAME=VALUE" help:"An option of gymnasium.make, such as g=9.81."`
	Autoreset string            `name:"autoreset" default:"next-step" help:"next-step, same-step, disabled or off."`
	NumPy1    bool              `name:"numpy1" help:"Compute as Gymnasium does with NumPy 1."`
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
			return errors.Join(err, exitStatus(exitInterrupted))
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
