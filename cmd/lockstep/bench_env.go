package main

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"lockstep/classic"
	"lockstep/engines"
	"lockstep/internal/progress"
)

//go:embed bench_env.py
var benchScript string

// benchEnvFlags are those of a measurement of classic control.
type benchEnvFlags struct {
	Env     string `name:"env" family:"classic" placeholder:"NAME" help:"A classic control environment instead of routes, beside Gymnasium, EnvPool and PufferLib where --python has them."`
	NumEnvs int    `name:"num-envs" family:"classic" default:"8192" help:"How many of them."`
	Steps   int64  `name:"steps" family:"classic" default:"10000000" help:"Steps of one measurement, of all environments together. Slower contestants do fewer."`
}

// An entrant is a way to step environments, and its line of the table.
type entrant struct {
	Name   string             `json:"name"`
	Rate   *spread            `json:"steps_per_second"`
	Ratios map[string]*spread `json:"ratios"` // to those before it, by name
	Equal  *bool              `json:"equal_to_reference,omitempty"`

	most  int64 // steps of a measurement
	run   func(steps int64) (done int64, seconds float64, err error)
	rates []float64
}

// benchEnv is one run of the command with --env.
type benchEnv struct {
	Env     string            `json:"env"`
	NumEnvs int               `json:"num_envs"`
	Steps   int64             `json:"steps"`
	CPU     string            `json:"cpu"`
	Cores   int               `json:"cores"`
	Go      string            `json:"go"`
	Missing map[string]string `json:"missing"` // and why
	Rows    []*entrant        `json:"rows"`
}

// alike is how many steps of each environment all engines do alike before they are measured.
const alike = 64

func (f *benchEnvFlags) asked() bool { return f.Env != "" }

// bench measures classic control: all take turns, as in Run.
func (f *benchEnvFlags) bench(env *environment, c *benchCommand) error {
	b := &benchEnv{
		Env: f.Env, NumEnvs: f.NumEnvs, Steps: f.Steps, CPU: cpuModel(),
		Cores: runtime.GOMAXPROCS(0),
		Go:    runtime.Version(), Missing: map[string]string{},
	}
	if f.Steps < 1 {
		return fmt.Errorf("--steps %d: want 1 or more", f.Steps)
	}
	task, err := classic.Make(f.Env, f.NumEnvs, nil)
	if err != nil {
		return err
	}
	python, err := startPython(env.ctx, c.Python, f.Env, f.NumEnvs, b.Cores)
	if err != nil {
		b.Missing["Gymnasium, EnvPool, PufferLib"] = err.Error()
	} else {
		env.atEnd(func() { python.close() })
		b.enterPython(python)
	}
	if err := b.enterEngines(env, task); err != nil {
		return err
	}
	bar := progress.New(env.stderr, c.Repetitions*len(b.Rows), "runs")
	for range c.Repetitions {
		for _, e := range b.Rows {
			done, seconds, err := e.run(min(f.Steps, e.most))
			if err != nil {
				return env.ended(fmt.Errorf("%s: %w", e.Name, err), "nothing is kept")
			}
			e.rates = append(e.rates, float64(done)/seconds)
			bar.Add(1)
		}
	}
	bar.Clear()
	return b.tell(env, c)
}

// enterEngines enters the engines that run here, by the batch API: uniform actions, nothing
// recorded. What each comes to is held to the reference, which is the first.
func (b *benchEnv) enterEngines(env *environment, task classic.Task) error {
	var want classic.Totals
	for _, m := range engines.Classic().All() {
		if m.Slow {
			continue
		}
		engine, err := m.New(0)
		if err != nil {
			b.Missing["Lockstep, "+m.Name] = err.Error()
			continue
		}
		v, err := engine.Make(task)
		if err != nil {
			return err
		}
		env.atEnd(func() { v.Close() })
		key := uint64(1)
		run := func(steps int) error {
			return v.Run(env.ctx, classic.Policy{Uniform: &key}, steps, nil)
		}
		if err := errors.Join(v.Reset(classic.Reset{Seed: 1}), run(alike)); err != nil {
			return err
		}
		totals, most := v.Totals(), b.Steps
		if want.Rewards == nil {
			want, most = totals, min(b.Steps, 1_000_000)
		}
		equal := slices.Equal(want.Rewards, totals.Rewards) &&
			slices.Equal(want.Episodes, totals.Episodes)
		b.Rows = append(
			b.Rows,
			&entrant{
				Name:  "Lockstep, " + m.Name,
				Equal: &equal,
				most:  most,
				run: func(steps int64) (int64, float64, error) {
					turns := max(1, int(steps/int64(task.Num)))
					start := time.Now()
					err := run(turns)
					return int64(turns) * int64(task.Num), time.Since(start).Seconds(), err
				},
			},
		)
	}
	return nil
}

// enterPython enters what Python has.
func (b *benchEnv) enterPython(p *pythonSteps) {
	maps.Copy(b.Missing, p.Missing)
	for _, name := range p.Contestants {
		most := b.Steps
		if name == "Gymnasium, one environment" || name == "Gymnasium, SyncVectorEnv" ||
			name == "PufferLib" {
			most = min(most, 20_000)
		}
		b.Rows = append(
			b.Rows,
			&entrant{Name: name, most: most, run: func(steps int64) (int64, float64, error) {
				return p.step(name, steps)
			}},
		)
	}
}

// tell prints the table, and ends with the status of a difference if there is one.
func (b *benchEnv) tell(env *environment, c *benchCommand) error {
	differ := false
	for i, e := range b.Rows {
		e.Rate, e.Ratios = newSpread(e.rates), map[string]*spread{}
		for _, other := range b.Rows[:i] {
			e.Ratios[other.Name] = newSpread(ratios(e.rates, other.rates))
		}
		differ = differ || e.Equal != nil && !*e.Equal
	}
	if c.JSON {
		env.json(b)
	} else {
		b.print(env, c)
	}
	if differ {
		return exitStatus(exitParity)
	}
	return nil
}

// ratios are those of measurements of the same turns.
func ratios(a, b []float64) []float64 {
	a = slices.Clone(a)
	for i := range a {
		a[i] /= b[i]
	}
	return a
}

func (b *benchEnv) print(env *environment, c *benchCommand) {
	fmt.Fprintf(
		env.stdout,
		"%s, %d cores; %s\n%d %s, %d steps, %d repetitions: median (least–greatest)\n\n", b.CPU,
		b.Cores, b.Go, b.NumEnvs, b.Env, b.Steps, c.Repetitions,
	)
	t := tabwriter.NewWriter(env.stdout, 0, 0, 2, ' ', 0)
	first := b.Rows[0]
	fmt.Fprintf(t, "\tsteps/s\t× %s\tparity with the reference\n", first.Name)
	for _, e := range b.Rows {
		verdict := map[bool]string{true: "equal", false: "DIFFERENT"}
		equal := ""
		if e.Equal != nil {
			equal = fmt.Sprintf("%s, %d steps of %d", verdict[*e.Equal], alike, b.NumEnvs)
		}
		fmt.Fprintf(t, "%s\t%v\t%v\t%s\n", e.Name, e.Rate, e.Ratios[first.Name], equal)
	}
	t.Flush()
	for _, name := range slices.Sorted(maps.Keys(b.Missing)) {
		fmt.Fprintf(env.stdout, "not measured: %s: %s\n", name, b.Missing[name])
	}
}

// pythonSteps is a Python process that steps what it has.
type pythonSteps struct {
	Contestants []string          `json:"contestants"`
	Missing     map[string]string `json:"missing"`

	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
}

func startPython(ctx context.Context, python, name string, num, workers int) (*pythonSteps, error) {
	p := &pythonSteps{command: exec.CommandContext(
		ctx, python, "-c", benchScript, name, strconv.Itoa(num), strconv.Itoa(workers))}
	p.command.WaitDelay = 5 * time.Second
	var err error
	if p.in, err = p.command.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(out)
	if err := p.command.Start(); err != nil {
		return nil, err
	}
	if err := p.answer(p); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

func (p *pythonSteps) answer(to any) error {
	line, err := p.out.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("the Python process has ended: %w", err)
	}
	return json.Unmarshal(line, to)
}

// step has a contestant do so many steps, or a few more or less.
func (p *pythonSteps) step(name string, steps int64) (done int64, seconds float64, err error) {
	line, err := json.Marshal([]any{name, steps})
	if err != nil {
		return 0, 0, err
	}
	if _, err := p.in.Write(append(line, '\n')); err != nil {
		return 0, 0, err
	}
	var a struct {
		Steps   int64
		Seconds float64
	}
	err = p.answer(&a)
	return a.Steps, a.Seconds, err
}

func (p *pythonSteps) close() error {
	p.in.Close()
	return p.command.Wait()
}
