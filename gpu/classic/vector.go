package classic

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"lockstep/classic"
	"lockstep/gpu/internal/driver"
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
	Network, Noise  driver.Pointer
	NoiseShift      int64

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
	room = 64 << 20
)

// kernels are the names of the dynamics in the kernels' names.
var kernels = map[classic.Dynamics]string{
	classic.CartPole: "cart_pole", classic.MountainCar: "mountain_car",
	classic.MountainCarContinuous: "mountain_car_continuous",
	classic.Pendulum:              "pendulum", classic.Acrobot: "acrobot",
}

// OnDevice makes environments on a device, a GPU or one that is emulated.
type OnDevice struct {
	// Open opens the device of one Vector.
	Open func() (driver.Device, error)
	Kind string // Name
}

func (e OnDevice) Name() string { return e.Kind }

// Cuts are how many environments its work is cut into, for tests of its edges.
func (OnDevice) Cuts() []int { return []int{threads} }

// Make returns the task's environments.
func (e OnDevice) Make(t classic.Task) (classic.Vector, error) {
	if err := t.Check(); err != nil {
		return nil, err
	}
	d, err := e.Open()
	if err != nil {
		return nil, err
	}
	v := &vector{task: t, device: &driver.Ledger{Device: d}, uncounted: math.MaxInt32 - 1}
	if err := v.allocate(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return v, nil
}

type vector struct {
	task   classic.Task
	device *driver.Ledger
	launch launch

	tables  *block // what a launch reads: tables, then seeds and mask of a reset
	kept    *block // the environments between launches
	fresh   int64  // how many bytes of kept the host knows
	answers *block // what a launch is given and answers; it grows

	opened    driver.Counts // what opening has cost
	seeded    bool
	low, high []float64 // of CartPoleVectorEnv's resets
	ended     []bool
	steps     int64 // since the last reset of all
	uncounted int   // steps after which a count of an episode's could come to the largest int32
	broken    error // of the device, which then answers nothing
}

// A block is memory of the device and as much of the host, so that what lies there passes at once.
type block struct {
	device driver.Pointer
	host   []byte
	used   int64 // bytes that are given out
}

// newBlock reserves so many bytes on both sides.
func (v *vector) newBlock(bytes int64) (*block, error) {
	p, err := v.device.Allocate(bytes)
	if err != nil {
		return nil, err
	}
	host, err := v.device.HostMemory(bytes)
	if err != nil {
		return nil, errors.Join(err, v.device.Release(p))
	}
	return &block{device: p, host: host}, nil
}

// take gives out the next bytes. Places are aligned as the device likes them.
func (b *block) take(bytes int64) (driver.Pointer, []byte) {
	at := b.used
	b.used += aligned(bytes)
	return b.device + driver.Pointer(at), b.host[at : at+bytes]
}

func aligned(bytes int64) int64 { return (bytes + 255) &^ 255 }

func (v *vector) Task() classic.Task { return v.task }

// Stats says what has passed between host and device since it was opened.
func (v *vector) Stats() string {
	c := v.device.Counts().Sub(v.opened)
	return fmt.Sprintf(
		"%d launches, %d synchronisations, %d uploads of %d bytes, %d downloads of %d bytes",
		c.Launches, c.Synchronisations, c.Uploads, c.UploadBytes, c.Downloads, c.DownloadBytes,
	)
}

func (v *vector) Close() error { return v.device.Close() }

// allocate holds the kernels to this program, and has memory for the environments.
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
		return fmt.Errorf(
			"the kernels' %s is %d, this program's is [%d]: build them again with `make kernels`",
			symbol, layout, want,
		)
	}
	if err := v.reserve(); err != nil {
		return fmt.Errorf("%s: %d environments: %w", v.task.Name, v.task.Num, err)
	}
	n, t, l := int64(v.task.Num), v.task, &v.launch
	l.Num, l.Autoreset, l.Limit = n, int64(t.Autoreset), int64(t.MaxSteps)
	if t.MaxSteps == 0 {
		l.Limit = math.MaxInt32
	}
	l.NumPy1, l.SuttonBarto, l.SemiImplicit, l.Nips, l.Shared = word(t.NumPy1), word(t.SuttonBarto),
		word(t.SemiImplicit), word(t.Nips), word(t.Shared)
	l.GoalVelocity, l.Gravity = t.GoalVelocity, t.Gravity
	l.Actions, l.ActionLimit = int64(t.Actions), float64(t.Limit)
	v.ended, v.opened = make([]bool, n), v.device.Counts()
	return nil
}

// reserve lays tables and environments out. The first reset uploads the tables.
func (v *vector) reserve() (err error) {
	sincos := append(libm.SinCosTable(), make([]float64, 4*128-len(libm.SinCosTable()))...)
	log, exp, log2f, exp2f := libm.PowTables()
	n, l := int64(v.task.Num), &v.launch
	tables := []struct {
		to   *driver.Pointer
		data []byte
	}{
		{&l.SinCos, bytesOf(sincos)},
		{&l.TwoOverPi, bytesOf(libm.TwoOverPi())},
		{&l.PowLog, bytesOf(log)},
		{&l.ExpTable, bytesOf(exp)},
		{&l.PowfLog, bytesOf(log2f)},
		{&l.Exp2f, bytesOf(exp2f)},
	}
	size := aligned(8*n) + aligned(n)
	for _, table := range tables {
		size += aligned(int64(len(table.data)))
	}
	if v.tables, err = v.newBlock(size); err != nil {
		return err
	}
	for _, table := range tables {
		to, host := v.tables.take(int64(len(table.data)))
		*table.to = to
		copy(host, table.data)
	}
	size = 0
	for _, c := range v.columns() {
		size += aligned(c.bytes)
	}
	if v.kept, err = v.newBlock(size); err != nil {
		return err
	}
	for _, c := range v.columns() {
		*c.to, _ = v.kept.take(c.bytes)
	}
	return v.device.Fill(v.kept.device, 0, size)
}

// A column is one of the arrays that stay on the device.
type column struct {
	to    *driver.Pointer
	bytes int64
}

// columns are the arrays between launches, those first that the host asks for most.
func (v *vector) columns() []column {
	n, l := int64(v.task.Num), &v.launch
	return []column{
		{&l.Flags, 4 * n}, {&l.Total, 8 * n}, {&l.Episodes, 8 * n}, {&l.Observation,
			4 * n * int64(len(v.task.Observation))},
		{&l.State, 8 * n * int64(len(v.task.State))}, {&l.Elapsed, 4 * n}, {&l.Generator, 32 * n},
	}
}

// host is what the host has of a column.
func (v *vector) host(c column) []byte {
	at := int64(*c.to - v.kept.device)
	return v.kept.host[at : at+c.bytes]
}

// Places in columns.
const (
	flags = iota
	totals
	episodes
	observation
	state
	elapsed
	generator
)

// download has the host know the columns up to one. The device has done it after Synchronize.
func (v *vector) download(last int) error {
	c := v.columns()[last]
	end := int64(*c.to-v.kept.device) + c.bytes
	if end <= v.fresh {
		return nil
	}
	from := aligned(v.fresh)
	v.fresh = end
	return v.device.Download(v.kept.host[from:end], v.kept.device+driver.Pointer(from))
}

// know has the host know the columns up to one, now.
func (v *vector) know(last int) error {
	c := v.columns()[last]
	if v.broken == nil && int64(*c.to-v.kept.device)+c.bytes <= v.fresh {
		return nil
	}
	return v.do(context.Background(), func() error { return v.download(last) })
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
	return unsafe.Slice(
		(*byte)(unsafe.Pointer(&values[0])), len(values)*int(unsafe.Sizeof(values[0])),
	)
}

// valuesOf is bytes as elements without pointers.
func valuesOf[T any](bytes []byte) []T {
	var x T
	return unsafe.Slice(
		(*T)(unsafe.Pointer(unsafe.SliceData(bytes))), len(bytes)/int(unsafe.Sizeof(x)),
	)
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
	if err != nil {
		v.fresh = 0
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
	from := v.tables.used // the tables are there, once there were environments
	if !v.seeded {
		from = 0
	}
	uploaded := *v.tables
	var seedBytes, mask []byte
	l := v.launch
	l.Seeds, seedBytes = uploaded.take(8 * l.Num)
	l.Mask, mask = uploaded.take(l.Num)
	v.given(r, valuesOf[int64](seedBytes), mask)
	low, high := v.task.Bounds(r)
	bound(&l, low, high)
	err := v.do(context.Background(), func() error {
		if err := v.device.Upload(uploaded.device+driver.Pointer(from),
			uploaded.host[from:uploaded.used]); err != nil {
			return err
		}
		if r.Mask == nil {
			if err := v.device.Fill(l.Total, 0, int64(l.Episodes-l.Total)+8*l.Num); err != nil {
				return err
			}
		}
		v.fresh = 0
		if v.task.Shared {
			if err := v.start("lockstep_reset_shared", l, true); err != nil {
				return err
			}
		} else if err := v.start("lockstep_reset_"+kernels[v.task.Dynamics], l, false); err != nil {
			return err
		}
		return v.download(observation)
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
	}
	return nil
}

// given writes what a reset is told for each environment.
func (v *vector) given(r classic.Reset, seeds []int64, mask []byte) {
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
		mask[i] = byte(word(r.Mask == nil || r.Mask[i]))
	}
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
	return v.advance(
		context.Background(), classic.Policy{Recorded: []classic.Actions{actions}}, 1,
		[]classic.Transition{*t},
	)
}

func (v *vector) Run(
	ctx context.Context, policy classic.Policy, steps int, record []classic.Transition,
) error {
	if err := v.task.CheckRun(policy, steps, record); err != nil {
		return err
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
	host  []byte // of all steps
}

// chosen reports whether the output is the actions.
func (o *output) chosen(l *launch) bool { return o.at == &l.Discrete || o.at == &l.Continuous }

// actions is where a launch has its actions, of the kind that the environment takes.
func (v *vector) actions(l *launch) *driver.Pointer {
	if v.task.Actions > 0 {
		return &l.Discrete
	}
	return &l.Continuous
}

// asked are the outputs that a record asks for, in the order in which they lie: first what is
// uploaded alone, then the final observations, of which a step leaves some alone, then the rest.
func (v *vector) asked(l *launch, record []classic.Transition, recorded bool) (all []output) {
	n, t := int64(v.task.Num), v.task
	outputs := []output{
		{
			&l.Final, 4 * n * int64(len(t.Observation)),
			func(t *classic.Transition) []byte { return bytesOf(t.Final) }, nil,
		},
		{
			&l.Discrete, 4 * n,
			func(t *classic.Transition) []byte { return bytesOf(t.Actions.Discrete) }, nil,
		},
		{
			&l.Continuous, 4 * n,
			func(t *classic.Transition) []byte { return bytesOf(t.Actions.Continuous) }, nil,
		},
		{
			&l.States, 8 * n * int64(len(t.State)),
			func(t *classic.Transition) []byte { return bytesOf(t.States) }, nil,
		},
		{
			&l.Observations, 4 * n * int64(len(t.Observation)),
			func(t *classic.Transition) []byte { return bytesOf(t.Observations) }, nil,
		},
		{&l.Rewards, 8 * n, func(t *classic.Transition) []byte { return bytesOf(t.Rewards) }, nil},
		{
			&l.Terminated, n, func(t *classic.Transition) []byte { return bytesOf(t.Terminated) },
			nil,
		},
		{&l.Truncated, n, func(t *classic.Transition) []byte { return bytesOf(t.Truncated) }, nil},
	}
	if recorded {
		outputs[0], outputs[1], outputs[2] = outputs[1], outputs[2], outputs[0]
	}
	for _, o := range outputs {
		wanted := false
		for i := range record {
			wanted = wanted || len(o.to(&record[i])) > 0
		}
		given := recorded &&
			(o.at == &l.Discrete && t.Actions > 0 || o.at == &l.Continuous && t.Actions == 0)
		if wanted && !(recorded && o.chosen(l)) || given {
			all = append(all, o)
		}
	}
	return all
}

// chunk is how many steps a launch may have.
func (v *vector) chunk(record []classic.Transition) int {
	var l launch
	bytes := int64(1)
	for _, o := range v.asked(&l, record, false) {
		bytes += o.bytes
	}
	return int(max(min(room/bytes, 1<<16), 1))
}

// begin is a launch of so many steps, to be given its policy and outputs.
func (v *vector) begin(ctx context.Context, steps int) (launch, error) {
	if err := v.count(ctx, steps); err != nil {
		return launch{}, err
	}
	l := v.launch
	l.Steps, l.First = int64(steps), v.steps
	low, high := v.task.Low, v.task.High
	if v.task.Shared {
		low, high = v.low, v.high
	}
	bound(&l, low, high)
	return l, nil
}

// advance is one launch, with at most one upload before it and two downloads behind it.
func (v *vector) advance(
	ctx context.Context, policy classic.Policy, steps int, record []classic.Transition,
) error {
	l, err := v.begin(ctx, steps)
	if err != nil {
		return err
	}
	asked := v.asked(&l, record, policy.Recorded != nil)
	err = v.do(ctx, func() error {
		answered, err := v.launched(&l, policy, 0, asked, record)
		if err != nil {
			return err
		}
		if end := v.answers.used; end > answered {
			if err := v.device.Download(v.answers.host[answered:end],
				v.answers.device+driver.Pointer(answered)); err != nil {
				return err
			}
		}
		if policy.Recorded != nil {
			return v.download(flags)
		}
		return v.download(episodes)
	})
	if err == nil {
		v.scatter(&l, policy, asked, record)
		v.took(steps)
	}
	return err
}

// launched gives a launch its memory, uploads what it needs, and starts it, by a table on the
// device unless that is 0. What it answers begins at the number returned.
func (v *vector) launched(
	l *launch, policy classic.Policy, table driver.Pointer, asked []output,
	record []classic.Transition,
) (answered int64, err error) {
	uploaded, answered, err := v.place(l, policy, asked, record, l.Steps)
	if err == nil && table != 0 {
		err = v.tabled(l, table, asked)
	}
	if err != nil {
		return 0, err
	}
	if uploaded > 0 {
		if err := v.device.Upload(v.answers.device, v.answers.host[:uploaded]); err != nil {
			return 0, err
		}
	}
	v.fresh = 0
	if err := v.start("lockstep_steps_"+kernels[v.task.Dynamics], *l, false); err != nil ||
		!v.task.Shared {
		return answered, err
	}
	return answered, v.start("lockstep_reset_shared", *l, true)
}

// tabled has a launch take its actions from a table, or from the copy of it that stays on the
// device, if the actions are asked for.
func (v *vector) tabled(l *launch, table driver.Pointer, asked []output) error {
	for i := range asked {
		if o := &asked[i]; o.chosen(l) {
			return v.device.Copy(*o.at, table, o.bytes*l.Steps)
		}
	}
	*v.actions(l) = table
	return nil
}

// count takes back what is counted beyond classic.MostSteps, if within so many steps a count could
// come to the largest int32: that is the limit where there is none.
func (v *vector) count(ctx context.Context, steps int) error {
	if v.uncounted < steps {
		if err := v.know(elapsed); err != nil {
			return err
		}
		c := v.columns()[elapsed]
		counts := v.host(c)
		for i, n := range valuesOf[int32](counts) {
			valuesOf[int32](counts)[i] = min(n, classic.MostSteps)
		}
		if err := v.do(ctx, func() error { return v.device.Upload(*c.to, counts) }); err != nil {
			return err
		}
		v.uncounted = math.MaxInt32 - 1 - classic.MostSteps
	}
	v.uncounted -= steps
	return nil
}

// took notes that steps were done, once the flags are known.
func (v *vector) took(steps int) {
	for i, f := range valuesOf[int32](v.host(v.columns()[flags])) {
		v.ended[i] = f&flagEnded != 0
	}
	v.steps += int64(steps)
}

// Place is where the device's arrays are.
func (v *vector) Place() (number int, shared bool) {
	info := v.device.Info()
	return info.Number, info.Shared
}

// Follow has what is done from now on wait for a stream.
func (v *vector) Follow(stream uintptr) error { return v.device.Follow(stream) }

// Precede has a stream wait for what was done so far.
func (v *vector) Precede(stream uintptr) error { return v.device.Precede(stream) }

// RunOnDevice is one launch whose answers stay on the device.
func (v *vector) RunOnDevice(
	ctx context.Context, policy classic.Policy, table uintptr, steps int, record []string,
) (map[string]uintptr, error) {
	given := table != 0 && policy.Recorded == nil && policy.Uniform == nil && policy.Network == nil
	if policy.Recorded != nil {
		return nil, fmt.Errorf("%s: a table of the host's in a run on the device", v.task.Name)
	}
	if err := policy.Check(v.task, steps); err != nil && !given {
		return nil, err
	}
	if v.task.Shared || v.task.Autoreset == classic.Disabled {
		return nil, fmt.Errorf(
			"%s, %v: a run on the device resets each environment by itself: take another "+
				"autoreset, or CartPole-v1",
			v.task.Name, v.task.Autoreset,
		)
	}
	if steps < 1 || steps > 1<<16 {
		return nil, fmt.Errorf(
			"%s: %d steps on the device: want 1 to %d", v.task.Name, steps, 1<<16,
		)
	}
	if err := v.task.CheckReady(v.seeded, nil); err != nil {
		return nil, err
	}
	l, err := v.begin(ctx, steps)
	if err != nil {
		return nil, err
	}
	asked, err := v.named(&l, record)
	if err != nil {
		return nil, err
	}
	if err := v.do(ctx, func() error {
		if _, err := v.launched(&l, policy, driver.Pointer(table), asked, nil); err != nil {
			return err
		}
		return v.download(episodes)
	}); err != nil {
		return nil, err
	}
	v.took(steps)
	where := map[string]uintptr{}
	for i, name := range record {
		where[name] = uintptr(*asked[i].at)
	}
	return where, nil
}

// named are the outputs of these names.
func (v *vector) named(l *launch, names []string) (all []output, err error) {
	n, d, s := int64(v.task.Num), int64(len(v.task.Observation)), int64(len(v.task.State))
	known := map[string]output{
		"states":             {at: &l.States, bytes: 8 * n * s},
		"rewards":            {at: &l.Rewards, bytes: 8 * n},
		"observations":       {at: &l.Observations, bytes: 4 * n * d},
		"final_observations": {at: &l.Final, bytes: 4 * n * d},
		"actions":            {at: v.actions(l), bytes: 4 * n},
		"terminated":         {at: &l.Terminated, bytes: n},
		"truncated":          {at: &l.Truncated, bytes: n},
	}
	for i, name := range names {
		o, ok := known[name]
		if !ok || slices.Contains(names[:i], name) {
			return nil, fmt.Errorf(
				"%s: no array %q is left on the device, or it is named twice", v.task.Name, name,
			)
		}
		all = append(all, o)
	}
	return all, nil
}

// scatter writes what a launch has answered where it is asked for.
func (v *vector) scatter(
	l *launch, policy classic.Policy, asked []output, record []classic.Transition,
) {
	for i := range record {
		for _, o := range asked {
			if to := o.to(&record[i]); !(policy.Recorded != nil && o.chosen(l)) {
				copy(to, o.host[int64(i)*o.bytes:])
			}
		}
		if policy.Recorded != nil {
			copy(record[i].Actions.Discrete, policy.Recorded[i].Discrete)
			copy(record[i].Actions.Continuous, policy.Recorded[i].Continuous)
		}
	}
}

// place gives the network and each output their memory, and writes there what is uploaded: so many
// bytes from the beginning. What is answered begins where the second number says.
func (v *vector) place(
	l *launch, policy classic.Policy, asked []output, record []classic.Transition, steps int64,
) (uploaded, answered int64, err error) {
	weights, noise := v.network(l, policy.Network)
	need := aligned(int64(4*len(weights))) + aligned(int64(4*len(noise)))
	for _, o := range asked {
		need += aligned(o.bytes * steps)
	}
	if err := v.grow(need); err != nil {
		return 0, 0, err
	}
	if len(weights) > 0 {
		var host []byte
		l.Network, host = v.answers.take(int64(4 * len(weights)))
		copy(host, bytesOf(weights))
	}
	if len(noise) > 0 {
		var host []byte
		l.Noise, host = v.answers.take(int64(4 * len(noise)))
		copy(host, bytesOf(noise))
	}
	uploaded = v.answers.used
	answered = uploaded
	for i := range asked {
		o := &asked[i]
		begin := v.answers.used
		*o.at, o.host = v.answers.take(o.bytes * steps)
		switch given := policy.Recorded != nil && o.chosen(l); {
		case given:
			a := policy.Recorded[0] // a launch by the host's table is one step
			copy(o.host, bytesOf(a.Discrete))
			copy(o.host, bytesOf(a.Continuous))
			uploaded, answered = v.answers.used, v.answers.used
		case o.at == &l.Final && record != nil:
			for k := range record {
				copy(o.host[int64(k)*o.bytes:], o.to(&record[k]))
			}
			uploaded, answered = v.answers.used, begin
		}
	}
	switch {
	case policy.Uniform != nil:
		l.Policy, l.Key = policyUniform, *policy.Uniform
	case policy.Network != nil:
		l.Policy, l.Key = policyNetwork, policy.Network.Seed
	default:
		l.Policy = policyRecorded
	}
	return uploaded, answered, nil
}

// grow has the answers' block hold so many bytes, all of them to be given out.
func (v *vector) grow(bytes int64) error {
	if v.answers != nil && bytes <= int64(len(v.answers.host)) {
		v.answers.used = 0
		return nil
	}
	if old := v.answers; old != nil {
		v.answers = nil
		if err := errors.Join(v.device.Release(old.device),
			v.device.ReleaseHost(old.host)); err != nil {
			return err
		}
	}
	b, err := v.newBlock(max(bytes, 256))
	if err == nil {
		v.answers = b
	}
	return err
}

// network describes the policy's network, if there is one; its numbers lie layer by layer.
func (v *vector) network(l *launch, n *classic.Perceptron) (weights, noise []float32) {
	if n == nil {
		return nil, nil
	}
	l.Layers = int64(len(n.Layers))
	l.Widths[0] = int64(len(v.task.Observation))
	for i, layer := range n.Layers {
		weights = append(append(weights, layer.Weights...), layer.Bias...)
		l.Widths[i+1] = int64(len(layer.Bias))
	}
	l.NoiseShift = int64(n.NoiseShift())
	return weights, n.Noise
}

// flagOf is the flag that a Snapshot's Ended is.
func (v *vector) flagOf() int32 {
	if v.task.Autoreset == classic.Off {
		return flagFallen
	}
	return flagEnded
}

// places are a snapshot's arrays, each with its column.
func places(s *classic.Snapshot) map[int][]byte {
	return map[int][]byte{
		totals:      bytesOf(s.Rewards),
		episodes:    bytesOf(s.Episodes),
		observation: bytesOf(s.Observations),
		state:       bytesOf(s.States),
		elapsed:     bytesOf(s.Elapsed),
		generator:   bytesOf(s.Generators),
	}
}

func (v *vector) Snapshot() (*classic.Snapshot, error) {
	if err := v.task.CheckReady(v.seeded, nil); err != nil {
		return nil, err
	}
	if err := v.know(generator); err != nil {
		return nil, err
	}
	s := classic.NewSnapshot(v.task)
	s.Steps = v.steps
	for column, to := range places(s) {
		copy(to, v.host(v.columns()[column]))
	}
	for i, f := range valuesOf[int32](v.host(v.columns()[flags])) {
		s.Ended[i] = f&v.flagOf() != 0
		s.Elapsed[i] = min(s.Elapsed[i], classic.MostSteps)
	}
	return s, nil
}

func (v *vector) Restore(s *classic.Snapshot) error {
	if err := v.task.CheckSnapshot(s); err != nil {
		return err
	}
	if err := v.task.CheckReady(v.seeded, nil); err != nil {
		return err
	}
	for column, from := range places(s) {
		copy(v.host(v.columns()[column]), from)
	}
	for i, ended := range s.Ended {
		flag := int32(0)
		if ended {
			flag = v.flagOf()
		}
		if s.Elapsed[i] == 0 && !v.task.Shared {
			flag |= flagWide
		}
		valuesOf[int32](v.host(v.columns()[flags]))[i] = flag
	}
	err := v.do(context.Background(), func() error {
		return v.device.Upload(v.kept.device, v.kept.host[:v.kept.used])
	})
	if err == nil {
		v.steps, v.fresh = s.Steps, v.kept.used
		v.uncounted = math.MaxInt32 - 1 - int(slices.Max(s.Elapsed))
		copy(v.ended, s.Ended)
	}
	return err
}

// Observe leaves the buffers alone if the device has failed.
func (v *vector) Observe(observations []float32, states []float64) {
	last := observation
	if len(states) > 0 {
		last = state
	}
	if v.know(last) != nil {
		return
	}
	copy(bytesOf(observations), v.host(v.columns()[observation]))
	if len(states) > 0 {
		copy(bytesOf(states), v.host(v.columns()[state]))
	}
}

func (v *vector) Totals() classic.Totals {
	n := v.task.Num
	t := classic.Totals{
		Steps:    v.steps * int64(n),
		Rewards:  make([]float64, n),
		Episodes: make([]int64, n),
	}
	if v.know(episodes) == nil {
		copy(bytesOf(t.Rewards), v.host(v.columns()[totals]))
		copy(bytesOf(t.Episodes), v.host(v.columns()[episodes]))
	}
	return t
}
