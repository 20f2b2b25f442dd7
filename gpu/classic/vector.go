package classic

import (
	"context"
	"errors"
	"fmt"
	"math"
	"unsafe"

	"lockstep/classic"
	"lockstep/gpu/driver"
	"lockstep/internal/libm"
)

// launch is the struct of kernels/classic/launch.h, whose comments say what the
// fields are.
type launch struct {
	Num, Steps, First                               int64
	Autoreset, Limit                                int64
	NumPy1, SuttonBarto, SemiImplicit, Nips, Shared int64
	GoalVelocity, Gravity                           float64
	Low, Width                                      [4]float64

	Policy, Actions int64
	Key             uint64
	ActionLimit     float64
	Layers          int64
	Widths          [9]int64
	Network         driver.Pointer

	SinCos, TwoOverPi, PowLog, ExpTable, PowfLog, Exp2f driver.Pointer

	State, Generator, Elapsed, Flags, Observation, Total, Episodes driver.Pointer
	Seeds, Mask                                                    driver.Pointer

	Discrete, Continuous, States, Observations, Rewards, Terminated, Truncated, Final driver.Pointer
}

const (
	policyRecorded = 0
	policyUniform  = 1
	policyNetwork  = 2

	flagEnded, flagFallen, flagWide = 1, 2, 4

	threads = 128
	// room is how many bytes of answers a launch may write.
	room = 256 << 20
)

// kernels are the names of the dynamics in the kernels' names.
var kernels = map[classic.Dynamics]string{
	classic.CartPole: "cart_pole", classic.MountainCar: "mountain_car", classic.MountainCarContinuous: "mountain_car_continuous",
	classic.Pendulum: "pendulum", classic.Acrobot: "acrobot",
}

// An Engine makes environments on a device.
type Engine struct {
	// Open opens the device of one Vector.
	Open func() (driver.Device, error)
	Kind string // Name
}

func (e Engine) Name() string { return e.Kind }

// Make returns the task's environments.
func (e Engine) Make(t classic.Task) (classic.Vector, error) {
	if err := t.Check(); err != nil {
		return nil, err
	}
	d, err := e.Open()
	if err != nil {
		return nil, err
	}
	v := &vector{task: t, device: &driver.Ledger{Device: d}}
	if err := v.allocate(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return v, nil
}

type vector struct {
	task   classic.Task
	device *driver.Ledger
	launch launch

	outputs      driver.Pointer // answers and actions of a launch
	outputsBytes int64
	network      driver.Pointer
	networkBytes int64

	seeded    bool
	low, high []float64 // of CartPoleVectorEnv's resets
	ended     []bool
	steps     int64 // since the last reset of all
	broken    error // of the device, which then answers nothing
}

func (v *vector) Task() classic.Task { return v.task }

// Stats says what has passed between host and device.
func (v *vector) Stats() string {
	c := v.device.Counts()
	return fmt.Sprintf("%d launches, %d synchronisations, %d uploads of %d bytes, %d downloads of %d bytes",
		c.Launches, c.Synchronisations, c.Uploads, c.UploadBytes, c.Downloads, c.DownloadBytes)
}

func (v *vector) Close() error { return v.device.Close() }

// allocate puts tables and zeros on the device.
func (v *vector) allocate() error {
	const symbol = "lockstep_classic_layout"
	p, size, err := v.device.Symbol(symbol)
	if err != nil {
		return err
	}
	layout := make([]int64, size/8)
	if err := v.device.Download(bytesOf(layout), p); err != nil {
		return err
	}
	if err := v.device.Synchronize(context.Background()); err != nil {
		return err
	}
	if want := int64(unsafe.Sizeof(launch{})); len(layout) != 1 || layout[0] != want {
		return fmt.Errorf("the kernels' %s is %d, this program's is [%d]: build them again with `make kernels`", symbol, layout, want)
	}
	sincos := append(libm.SinCosTable(), make([]float64, 4*128-len(libm.SinCosTable()))...)
	log, exp, log2f, exp2f := libm.PowTables()
	n, t, l := int64(v.task.Num), v.task, &v.launch
	for _, table := range []struct {
		to   *driver.Pointer
		data []byte
	}{
		{&l.SinCos, bytesOf(sincos)}, {&l.TwoOverPi, bytesOf(libm.TwoOverPi())},
		{&l.PowLog, bytesOf(log)}, {&l.ExpTable, bytesOf(exp)}, {&l.PowfLog, bytesOf(log2f)}, {&l.Exp2f, bytesOf(exp2f)},
	} {
		if *table.to, err = v.device.Allocate(int64(len(table.data))); err != nil {
			return err
		}
		if err := v.device.Upload(*table.to, table.data); err != nil {
			return err
		}
	}
	for _, b := range []struct {
		to    *driver.Pointer
		bytes int64
	}{
		{&l.State, 8 * n * int64(len(t.State))}, {&l.Generator, 32 * n}, {&l.Elapsed, 4 * n}, {&l.Flags, 4 * n},
		{&l.Observation, 4 * n * int64(len(t.Observation))}, {&l.Total, 8 * n}, {&l.Episodes, 8 * n},
		{&l.Seeds, 8 * n}, {&l.Mask, n},
	} {
		if *b.to, err = v.device.Allocate(b.bytes); err != nil {
			return fmt.Errorf("%s: %d environments: %w", t.Name, n, err)
		}
		if err := v.device.Fill(*b.to, 0, b.bytes); err != nil {
			return err
		}
	}
	l.Num, l.Autoreset, l.Limit = n, int64(t.Autoreset), int64(t.MaxSteps)
	if t.MaxSteps == 0 {
		l.Limit = math.MaxInt32
	}
	l.NumPy1, l.SuttonBarto, l.SemiImplicit, l.Nips, l.Shared = word(t.NumPy1), word(t.SuttonBarto), word(t.SemiImplicit), word(t.Nips), word(t.Shared)
	l.GoalVelocity, l.Gravity = t.GoalVelocity, t.Gravity
	l.Actions, l.ActionLimit = int64(t.Actions), float64(t.Limit)
	v.ended = make([]bool, n)
	return v.device.Synchronize(context.Background())
}

func word(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// bytesOf is the bytes of elements without pointers.
func bytesOf[T any](values []T) []byte {
	if len(values) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&values[0])), len(values)*int(unsafe.Sizeof(values[0])))
}

// do keeps the first error of the device.
func (v *vector) do(ctx context.Context, f func() error) error {
	if v.broken != nil {
		return v.broken
	}
	err := f()
	if err == nil {
		err = v.device.Synchronize(ctx)
	}
	if err != nil && !errors.Is(err, driver.ErrOutOfMemory) {
		v.broken = err
	}
	return err
}

// start launches a kernel over the environments, or with one thread.
func (v *vector) start(kernel string, l launch, one bool) error {
	width := min(threads, v.task.Num)
	blocks := (v.task.Num + width - 1) / width
	if one {
		blocks, width = 1, 1
	}
	return v.device.Launch(kernel, blocks, width, 0, bytesOf([]launch{l}))
}

// bound sets the bounds of the draws.
func bound(l *launch, low, high []float64) {
	for k := range low {
		l.Low[k], l.Width[k] = low[k], high[k]-low[k]
	}
}

func (v *vector) Reset(r classic.Reset) error {
	if err := v.task.CheckReset(r, v.seeded); err != nil {
		return err
	}
	n := v.task.Num
	seeds, mask := make([]int64, n), make([]byte, n)
	for i := range seeds {
		switch {
		case r.Seeds != nil:
			seeds[i] = r.Seeds[i]
		case r.Continue:
			seeds[i] = -1
		case v.task.Shared:
			seeds[i] = r.Seed
		default:
			seeds[i] = r.Seed + int64(i)
		}
		if r.Mask == nil || r.Mask[i] {
			mask[i] = 1
		}
	}
	l := v.launch
	low, high := v.task.Bounds(r)
	bound(&l, low, high)
	err := v.do(context.Background(), func() error {
		if err := errors.Join(v.device.Upload(l.Seeds, bytesOf(seeds)), v.device.Upload(l.Mask, mask)); err != nil {
			return err
		}
		if v.task.Shared {
			return v.start("lockstep_reset_shared", l, true)
		}
		return v.start("lockstep_reset_"+kernels[v.task.Dynamics], l, false)
	})
	if err != nil {
		return err
	}
	v.seeded, v.low, v.high = true, low, high
	for i := range mask {
		v.ended[i] = v.ended[i] && mask[i] == 0
	}
	if r.Mask == nil {
		v.steps = 0
		return v.do(context.Background(), func() error {
			return errors.Join(v.device.Fill(l.Total, 0, 8*l.Num), v.device.Fill(l.Episodes, 0, 8*l.Num))
		})
	}
	return nil
}

func (v *vector) Step(actions classic.Actions, t *classic.Transition) error {
	if err := v.task.CheckTransition(t); err != nil {
		return err
	}
	if err := v.task.CheckStep(actions, v.seeded, v.ended); err != nil {
		return err
	}
	if t == nil {
		t = &classic.Transition{}
	}
	return v.advance(context.Background(), classic.Policy{Recorded: []classic.Actions{actions}}, 1, []classic.Transition{*t})
}

func (v *vector) Run(ctx context.Context, policy classic.Policy, steps int, record []classic.Transition) error {
	if err := policy.Check(v.task, steps); err != nil {
		return err
	}
	if record != nil && len(record) != steps {
		return fmt.Errorf("%s: %d steps are to be recorded in %d", v.task.Name, steps, len(record))
	}
	for i := range record {
		if err := v.task.CheckTransition(&record[i]); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	if err := v.task.CheckReady(v.seeded, nil); err != nil {
		return err
	}
	chunk := v.chunk(record)
	if policy.Recorded != nil || v.task.Autoreset == classic.Disabled || v.task.Shared {
		chunk = 1 // a step can be refused, or its resets are a launch of their own
	}
	for done := 0; done < steps; done += chunk {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(chunk, steps-done)
		part := classic.Policy{Uniform: policy.Uniform, Network: policy.Network}
		if policy.Recorded != nil {
			part.Recorded = policy.Recorded[done : done+n]
			if err := v.task.CheckStep(part.Recorded[0], true, v.ended); err != nil {
				return fmt.Errorf("step %d: %w", done, err)
			}
		} else if err := v.task.CheckReady(true, v.ended); err != nil {
			return fmt.Errorf("step %d: %w", done, err)
		}
		var rows []classic.Transition
		if record != nil {
			rows = record[done : done+n]
		}
		if err := v.advance(ctx, part, n, rows); err != nil {
			return err
		}
	}
	return nil
}

// An output is a column of a launch's answers, of so many bytes for each step.
type output struct {
	at    *driver.Pointer
	bytes int64
	to    func(t *classic.Transition) []byte
}

// outputs are those that a record asks for.
func (v *vector) asked(l *launch, record []classic.Transition, policy classic.Policy) (all []output) {
	n, t := int64(v.task.Num), v.task
	for _, o := range []output{
		{&l.Discrete, 4 * n, func(t *classic.Transition) []byte { return bytesOf(t.Actions.Discrete) }},
		{&l.Continuous, 4 * n, func(t *classic.Transition) []byte { return bytesOf(t.Actions.Continuous) }},
		{&l.States, 8 * n * int64(len(t.State)), func(t *classic.Transition) []byte { return bytesOf(t.States) }},
		{&l.Observations, 4 * n * int64(len(t.Observation)), func(t *classic.Transition) []byte { return bytesOf(t.Observations) }},
		{&l.Rewards, 8 * n, func(t *classic.Transition) []byte { return bytesOf(t.Rewards) }},
		{&l.Terminated, n, func(t *classic.Transition) []byte { return bytesOf(t.Terminated) }},
		{&l.Truncated, n, func(t *classic.Transition) []byte { return bytesOf(t.Truncated) }},
		{&l.Final, 4 * n * int64(len(t.Observation)), func(t *classic.Transition) []byte { return bytesOf(t.Final) }},
	} {
		wanted := false
		for i := range record {
			wanted = wanted || len(o.to(&record[i])) > 0
		}
		given := policy.Recorded != nil && (o.at == &l.Discrete && t.Actions > 0 || o.at == &l.Continuous && t.Actions == 0)
		if wanted || given {
			all = append(all, o)
		}
	}
	return all
}

// chunk is how many steps a launch may have.
func (v *vector) chunk(record []classic.Transition) int {
	var l launch
	bytes := int64(1)
	for _, o := range v.asked(&l, record, classic.Policy{}) {
		bytes += o.bytes
	}
	return int(max(min(room/bytes, 1<<16), 1))
}

// advance is one launch.
func (v *vector) advance(ctx context.Context, policy classic.Policy, steps int, record []classic.Transition) error {
	l := v.launch
	l.Steps, l.First = int64(steps), v.steps
	low, high := v.task.Low, v.task.High
	if v.task.Shared {
		low, high = v.low, v.high
	}
	bound(&l, low, high)
	asked := v.asked(&l, record, policy)
	return v.do(ctx, func() error {
		if err := v.place(asked, int64(steps)); err != nil {
			return err
		}
		if err := v.choose(&l, policy, asked, record); err != nil {
			return err
		}
		if err := v.start("lockstep_steps_"+kernels[v.task.Dynamics], l, false); err != nil {
			return err
		}
		if v.task.Shared {
			l.Seeds = 0
			if err := v.start("lockstep_reset_shared", l, true); err != nil {
				return err
			}
		}
		for _, o := range asked {
			for i := range record {
				if to := o.to(&record[i]); len(to) > 0 && !(policy.Recorded != nil && (o.at == &l.Discrete || o.at == &l.Continuous)) {
					if err := v.device.Download(to, *o.at+driver.Pointer(int64(i)*o.bytes)); err != nil {
						return err
					}
				}
			}
		}
		flags := make([]int32, v.task.Num)
		if err := v.device.Download(bytesOf(flags), l.Flags); err != nil {
			return err
		}
		if err := v.device.Synchronize(ctx); err != nil {
			return err
		}
		for i, f := range flags {
			v.ended[i] = f&flagEnded != 0
		}
		v.steps += int64(steps)
		return nil
	})
}

// place gives each output its memory.
func (v *vector) place(asked []output, steps int64) error {
	need := int64(0)
	for _, o := range asked {
		need += (o.bytes*steps + 255) &^ 255
	}
	if need > v.outputsBytes {
		if v.outputs != 0 {
			if err := v.device.Release(v.outputs); err != nil {
				return err
			}
			v.outputs, v.outputsBytes = 0, 0
		}
		p, err := v.device.Allocate(need)
		if err != nil {
			return err
		}
		v.outputs, v.outputsBytes = p, need
	}
	at := v.outputs
	for _, o := range asked {
		*o.at = at
		at += driver.Pointer((o.bytes*steps + 255) &^ 255)
	}
	return nil
}

// choose uploads what actions come from, and what the step leaves alone.
func (v *vector) choose(l *launch, policy classic.Policy, asked []output, record []classic.Transition) error {
	for _, o := range asked {
		if o.at != &l.Final {
			continue
		}
		for i := range record {
			if err := v.device.Upload(*o.at+driver.Pointer(int64(i)*o.bytes), o.to(&record[i])); err != nil {
				return err
			}
		}
	}
	switch {
	case policy.Uniform != nil:
		l.Policy, l.Key = policyUniform, *policy.Uniform
	case policy.Network != nil:
		return v.uploadNetwork(l, policy.Network)
	default:
		l.Policy = policyRecorded
		for i, a := range policy.Recorded {
			to, data := l.Discrete, bytesOf(a.Discrete)
			if v.task.Actions == 0 {
				to, data = l.Continuous, bytesOf(a.Continuous)
			}
			if err := v.device.Upload(to+driver.Pointer(i*len(data)), data); err != nil {
				return err
			}
			if i < len(record) {
				copy(record[i].Actions.Discrete, a.Discrete)
				copy(record[i].Actions.Continuous, a.Continuous)
			}
		}
	}
	return nil
}

func (v *vector) uploadNetwork(l *launch, n *classic.Network) error {
	var weights []float32
	l.Policy, l.Layers = policyNetwork, int64(len(n.Layers))
	l.Widths[0] = int64(len(v.task.Observation))
	for i, layer := range n.Layers {
		weights = append(append(weights, layer.Weights...), layer.Bias...)
		l.Widths[i+1] = int64(len(layer.Bias))
	}
	if need := int64(4 * len(weights)); need > v.networkBytes {
		if v.network != 0 {
			if err := v.device.Release(v.network); err != nil {
				return err
			}
			v.network, v.networkBytes = 0, 0
		}
		p, err := v.device.Allocate(need)
		if err != nil {
			return err
		}
		v.network, v.networkBytes = p, need
	}
	l.Network = v.network
	return v.device.Upload(v.network, bytesOf(weights))
}

// flagOf is the flag that a Snapshot's Ended is.
func (v *vector) flagOf() int32 {
	if v.task.Autoreset == classic.Off {
		return flagFallen
	}
	return flagEnded
}

func (v *vector) Snapshot() (*classic.Snapshot, error) {
	if err := v.task.CheckReady(v.seeded, nil); err != nil {
		return nil, err
	}
	s := classic.NewSnapshot(v.task)
	s.Steps = v.steps
	flags := make([]int32, v.task.Num)
	err := v.do(context.Background(), func() error {
		return errors.Join(
			v.device.Download(bytesOf(s.States), v.launch.State), v.device.Download(bytesOf(s.Observations), v.launch.Observation),
			v.device.Download(bytesOf(s.Elapsed), v.launch.Elapsed), v.device.Download(bytesOf(s.Generators), v.launch.Generator),
			v.device.Download(bytesOf(flags), v.launch.Flags),
		)
	})
	for i, f := range flags {
		s.Ended[i] = f&v.flagOf() != 0
	}
	return s, err
}

func (v *vector) Restore(s *classic.Snapshot) error {
	if err := v.task.CheckSnapshot(s); err != nil {
		return err
	}
	if err := v.task.CheckReady(v.seeded, nil); err != nil {
		return err
	}
	flags := make([]int32, v.task.Num)
	for i, ended := range s.Ended {
		if ended {
			flags[i] = v.flagOf()
		}
		if s.Elapsed[i] == 0 && !v.task.Shared {
			flags[i] |= flagWide
		}
	}
	err := v.do(context.Background(), func() error {
		return errors.Join(
			v.device.Upload(v.launch.State, bytesOf(s.States)), v.device.Upload(v.launch.Observation, bytesOf(s.Observations)),
			v.device.Upload(v.launch.Elapsed, bytesOf(s.Elapsed)), v.device.Upload(v.launch.Generator, bytesOf(s.Generators)),
			v.device.Upload(v.launch.Flags, bytesOf(flags)),
		)
	})
	if err == nil {
		v.steps = s.Steps
		copy(v.ended, s.Ended)
	}
	return err
}

// Observe leaves the buffers alone if the device has failed.
func (v *vector) Observe(observations []float32, states []float64) {
	v.do(context.Background(), func() error {
		if len(observations) > 0 {
			if err := v.device.Download(bytesOf(observations), v.launch.Observation); err != nil {
				return err
			}
		}
		if len(states) > 0 {
			return v.device.Download(bytesOf(states), v.launch.State)
		}
		return nil
	})
}

func (v *vector) Totals() classic.Totals {
	n := v.task.Num
	t := classic.Totals{Steps: v.steps * int64(n), Rewards: make([]float64, n), Episodes: make([]int64, n)}
	v.do(context.Background(), func() error {
		return errors.Join(v.device.Download(bytesOf(t.Rewards), v.launch.Total), v.device.Download(bytesOf(t.Episodes), v.launch.Episodes))
	})
	return t
}
