package classic

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"lockstep/classic"
	"lockstep/gpu/internal/driver"
	"lockstep/internal/simtest"
	"lockstep/internal/want"
)

// TestTransfers counts what passes for each launch: at most one upload and one synchronisation,
// whatever its policy and its answers, no byte beyond what is asked for, and nothing for what the
// host knows already.
func TestTransfers(t *testing.T) {
	want.Compiler.Need(t)
	engine, err := OnCPU(1)
	if err != nil {
		t.Fatal(err)
	}
	key := uint64(1)
	for _, c := range []struct {
		name, env string
		mode      classic.Autoreset
		policy    func(n int) classic.Policy
		record    bool
		uploads   int64
		downloads int64
		up        int64 // bytes
		down      int64 // bytes, beside the columns that the host keeps
	}{
		{"uniform", "Pendulum-v1", classic.NextStep,
			func(int) classic.Policy { return classic.Policy{Uniform: &key} }, false, 0, 1, 0, 0},
		{"uniform, recorded", "Acrobot-v1", classic.NextStep,
			func(int) classic.Policy { return classic.Policy{Uniform: &key} }, true, 0, 2, 0,
			whole(12*40, 96*40, 72*40, 24*40, 3*40, 3*40)},
		{"finals", "CartPole-v1", classic.SameStep,
			func(int) classic.Policy { return classic.Policy{Uniform: &key} }, true, 1, 2,
			whole(48 * 40),
			whole(48*40, 12*40, 96*40, 48*40, 24*40, 3*40, 3*40)},
		{"network", "CartPole-v1", classic.NextStep, func(int) classic.Policy {
			return classic.Policy{
				Network: &classic.Perceptron{
					Layers: []classic.Layer{{Weights: make([]float32, 8), Bias: []float32{0, 1}}},
				},
			}
		}, true, 1, 2, whole(40), whole(12*40, 96*40, 48*40, 24*40, 3*40, 3*40)},
		{"table", "Pendulum-v1", classic.NextStep, func(n int) classic.Policy {
			return classic.Policy{
				Recorded: slices.Repeat([]classic.Actions{{Continuous: make([]float32, n)}}, 1),
			}
		}, true, 1, 2, whole(12), whole(48, 36, 24, 3, 3)},
	} {
		t.Run(c.name, func(t *testing.T) {
			task, err := classic.Make(c.env, 3, nil)
			if err != nil {
				t.Fatal(err)
			}
			task.Autoreset = c.mode
			made, err := engine.Make(task)
			if err != nil {
				t.Fatal(err)
			}
			defer made.Close()
			v := made.(*vector)
			passed := func(what string, want driver.Counts, do func() error) {
				t.Helper()
				before := v.device.Counts()
				if err := do(); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				got := v.device.Counts().Sub(before)
				got.CopyBytes, got.Copies = 0, 0
				if got != want {
					t.Errorf("%s: %+v, want %+v", what, got, want)
				}
			}
			none := driver.Counts{}
			// Of the columns, those before the observations are flags and totals.
			kept, o := whole(12, 24), int64(4*3*len(task.Observation))
			reset := func() error { return v.Reset(classic.Reset{Seed: 1}) }
			again := driver.Counts{
				Launches: 1, Synchronisations: 1, Uploads: 1, Downloads: 1,
				UploadBytes: whole(24, 3), DownloadBytes: kept + whole(24) + o,
			}
			once := again
			once.UploadBytes += v.tables.used
			passed("first reset", once, reset)
			passed("reset", again, reset)
			passed(
				"observing",
				none,
				func() error {
					v.Observe(make([]float32, len(task.Observation)*3), nil)
					return nil
				},
			)
			var record []classic.Transition
			policy := c.policy(task.Num)
			steps := max(len(policy.Recorded), 1)
			if policy.Recorded == nil {
				steps = 40
			}
			for range steps {
				if c.record {
					record = append(record, classic.NewTransition(task))
				}
			}
			known := kept + 24
			if policy.Recorded != nil {
				known = 12
			}
			passed(
				"run",
				driver.Counts{
					Launches:         1,
					Synchronisations: 1,
					Uploads:          c.uploads,
					Downloads:        c.downloads,
					UploadBytes:      c.up,
					DownloadBytes:    c.down + known,
				},
				func() error {
					return v.Run(t.Context(), policy, steps, record)
				},
			)
			if policy.Recorded == nil {
				passed("totals", none, func() error { v.Totals(); return nil })
			}
			var s *classic.Snapshot
			all := kept + whole(24, o, int64(8*3*len(task.State)), 12) + 32*3
			passed(
				"snapshot", driver.Counts{
					Synchronisations: 1, Downloads: 1, DownloadBytes: all - whole(known),
				},
				func() (err error) { s, err = v.Snapshot(); return err },
			)
			passed("another", none, func() error { _, err := v.Snapshot(); return err })
			passed(
				"restore", driver.Counts{
					Synchronisations: 1, Uploads: 1, UploadBytes: whole(all),
				},
				func() error { return v.Restore(s) },
			)
		})
	}
}

// whole is how many bytes arrays of so many bytes take: each begins at a multiple of 256.
func whole(sizes ...int64) (bytes int64) {
	for _, size := range sizes {
		bytes += (size + 255) / 256 * 256
	}
	return bytes
}

// grid is a device that notes of how many threads a launch is.
type grid struct {
	driver.Device
	blocks, threads int
}

func (g *grid) Launch(_ string, blocks, threads, _ int, _ []byte) error {
	g.blocks, g.threads = blocks, threads
	return nil
}

// TestGrid: a launch has a thread for each environment, and no block beyond the last.
func TestGrid(t *testing.T) {
	for num, want := range map[int][2]int{
		1: {1, 1}, 127: {1, 127}, 128: {1, 128}, 129: {2, 128}, 256: {2, 128}, 257: {3, 128},
	} {
		g := &grid{}
		v := &vector{task: classic.Task{Num: num}, device: &driver.Ledger{Device: g}}
		for _, one := range []bool{false, true} {
			if one {
				want = [2]int{1, 1}
			}
			if err := v.start("kernel", launch{}, one); err != nil {
				t.Fatal(err)
			}
			if got := [2]int{g.blocks, g.threads}; got != want {
				t.Errorf("%d environments, one thread %v: %d blocks of %d threads, want %d of %d",
					num, one, got[0], got[1], want[0], want[1])
			}
		}
	}
}

// TestRunOnDevice: what stays on the device is what a run records, and nothing else passes.
func TestRunOnDevice(t *testing.T) {
	want.Compiler.Need(t)
	engine, err := OnCPU(1)
	if err != nil {
		t.Fatal(err)
	}
	for _, env := range []string{"CartPole-v1", "Pendulum-v1"} { // discrete actions, and others
		for _, mode := range []classic.Autoreset{classic.NextStep, classic.SameStep} {
			t.Run(fmt.Sprint(env, "/", mode), func(t *testing.T) {
				task, err := classic.Make(env, threads+2, map[string]string{
					"max_episode_steps": "7",
				})
				if err != nil {
					t.Fatal(err)
				}
				task.Autoreset = mode
				runOnDevice(t, engine, task)
			})
		}
	}
}

func runOnDevice(t *testing.T, engine OnDevice, task classic.Task) {
	recorded, onDevice := begun(t, engine, task), begun(t, engine, task)
	const steps = 20
	key, record := uint64(5), make([]classic.Transition, steps)
	for i := range record {
		record[i] = classic.NewTransition(task)
	}
	random := classic.Policy{Uniform: &key}
	if err := recorded.Run(t.Context(), random, steps, record); err != nil {
		t.Fatal(err)
	}
	before := onDevice.device.Counts()
	arrays := leftOnDevice()
	names := slices.Sorted(maps.Keys(arrays))
	where, err := onDevice.RunOnDevice(t.Context(), random, 0, steps, names)
	if err != nil {
		t.Fatal(err)
	}
	passed := onDevice.device.Counts().Sub(before)
	if n := int64(task.Num); passed.Uploads != 0 || passed.Launches != 1 ||
		passed.Synchronisations != 1 || passed.Downloads != 1 ||
		passed.DownloadBytes != whole(4*n, 8*n)+8*n {
		t.Errorf("%+v", passed)
	}
	sameTotals(t, "what a run records", onDevice.Totals(), recorded.Totals())
	if !slices.Equal(onDevice.ended, recorded.ended) {
		t.Errorf("on the device %v have ended, want %v", onDevice.ended, recorded.ended)
	}
	for name, of := range arrays {
		var all []byte
		for i := range record {
			all = append(all, of(&record[i])...)
		}
		got := onDevice.downloaded(t, where[name], len(all))
		if name == "final_observations" {
			got = ofEnded(got, record)
		}
		if err := simtest.Same(name+", as bytes", got, all); err != nil {
			t.Errorf("on the device: %v", err)
		}
	}
	runByTable(t, recorded, record, onDevice.Totals())
	for _, bad := range []error{
		second(recorded.RunOnDevice(t.Context(), classic.Policy{}, 0, steps, nil)),
		second(recorded.RunOnDevice(t.Context(), random, 0, 0, nil)),
		second(recorded.RunOnDevice(t.Context(), random, 0, 1, []string{"looks"})),
		second(recorded.RunOnDevice(t.Context(), random, 0, 1, []string{"rewards", "rewards"})),
		second(recorded.RunOnDevice(t.Context(), random, 0, 1, []string{"states", "rewards",
			"states"})),
	} {
		if bad == nil {
			t.Error("what cannot be is done")
		}
	}
}

// leftOnDevice are the arrays that a run can leave on the device, as a record has them.
func leftOnDevice() map[string]func(*classic.Transition) []byte {
	return map[string]func(*classic.Transition) []byte{
		"states":             func(r *classic.Transition) []byte { return bytesOf(r.States) },
		"observations":       func(r *classic.Transition) []byte { return bytesOf(r.Observations) },
		"final_observations": func(r *classic.Transition) []byte { return bytesOf(r.Final) },
		"rewards":            func(r *classic.Transition) []byte { return bytesOf(r.Rewards) },
		"terminated":         func(r *classic.Transition) []byte { return bytesOf(r.Terminated) },
		"truncated":          func(r *classic.Transition) []byte { return bytesOf(r.Truncated) },
		"actions":            chosen,
	}
}

// ofEnded is final observations with zeros, which a record has, where no episode has ended: those
// places are left alone.
func ofEnded(final []byte, record []classic.Transition) []byte {
	numbers := valuesOf[float32](final)
	for i := range record {
		r := &record[i]
		for k := range r.Final {
			if n := len(r.Rewards); !r.Terminated[k%n] && !r.Truncated[k%n] {
				numbers[i*len(r.Final)+k] = 0
			}
		}
	}
	return final
}

// chosen are a step's actions, of whichever kind.
func chosen(r *classic.Transition) []byte {
	return append(bytesOf(r.Actions.Discrete), bytesOf(r.Actions.Continuous)...)
}

// begun are environments that begin with seed 2.
func begun(t *testing.T, engine OnDevice, task classic.Task) *vector {
	t.Helper()
	v, err := engine.Make(task)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.Close() })
	if err := v.Reset(classic.Reset{Seed: 2}); err != nil {
		t.Fatal(err)
	}
	return v.(*vector)
}

// downloaded are bytes of the device's memory.
func (v *vector) downloaded(t *testing.T, from uintptr, n int) []byte {
	t.Helper()
	got := make([]byte, n)
	if err := v.do(t.Context(), func() error {
		return v.device.Download(got, driver.Pointer(from))
	}); err != nil {
		t.Fatal(err)
	}
	return got
}

// runByTable: with the recorded actions as a table on the device, environments that begin as those
// in which these were chosen come to the same, whether or not the actions are left there, too.
func runByTable(t *testing.T, v *vector, record []classic.Transition, want classic.Totals) {
	t.Helper()
	var actions []byte
	for i := range record {
		actions = append(actions, chosen(&record[i])...)
	}
	table, err := v.device.Allocate(int64(len(actions)))
	if err != nil {
		t.Fatal(err)
	}
	if err := v.do(t.Context(),
		func() error { return v.device.Upload(table, actions) }); err != nil {
		t.Fatal(err)
	}
	for _, names := range [][]string{nil, {"rewards", "actions"}} {
		if err := v.Reset(classic.Reset{Seed: 2}); err != nil {
			t.Fatal(err)
		}
		where, err := v.RunOnDevice(
			t.Context(), classic.Policy{}, uintptr(table), len(record), names,
		)
		if err != nil {
			t.Fatal(err)
		}
		sameTotals(t, fmt.Sprint("the table, leaving ", names), v.Totals(), want)
		if names == nil {
			continue
		}
		left := v.downloaded(t, where["actions"], len(actions))
		if err := simtest.Same("the table's actions, as bytes", left, actions); err != nil {
			t.Error(err)
		}
		if where["actions"] == uintptr(table) {
			t.Error("what is left is the caller's own table")
		}
	}
}

// sameTotals holds totals to others, of environments of which some episodes have ended.
func sameTotals(t *testing.T, what string, got, want classic.Totals) {
	t.Helper()
	if err := errors.Join(simtest.Same("rewards", got.Rewards, want.Rewards),
		simtest.Same("episodes", got.Episodes, want.Episodes)); err != nil ||
		got.Steps != want.Steps || got.Episodes[0] == 0 {
		t.Errorf("against %s: %d steps, want %d: %v", what, got.Steps, want.Steps, err)
	}
}

// TestAnswers: a launch that wants as much memory as the one before takes the same, and one that
// wants more takes other.
func TestAnswers(t *testing.T) {
	want.Compiler.Need(t)
	engine, err := OnCPU(1)
	if err != nil {
		t.Fatal(err)
	}
	task, err := classic.Make("CartPole-v1", 3, nil)
	if err != nil {
		t.Fatal(err)
	}
	v := begun(t, engine, task)
	var before *block
	for i, c := range []struct {
		steps int
		same  bool
	}{{5, false}, {5, true}, {6, false}, {5, true}} {
		if _, err := v.RunOnDevice(t.Context(), classic.Policy{Uniform: new(uint64)}, 0, c.steps,
			[]string{"states"}); err != nil {
			t.Fatal(err)
		}
		if same := v.answers == before; same != c.same {
			t.Errorf("run %d, of %d steps: the block of the run before is taken: %v, want %v",
				i, c.steps, same, c.same)
		}
		before = v.answers
	}
}

// TestReserved: what is reserved is given out to its last byte, whatever is asked for.
func TestReserved(t *testing.T) {
	want.Compiler.Need(t)
	engine, err := OnCPU(1)
	if err != nil {
		t.Fatal(err)
	}
	task, err := classic.Make("CartPole-v1", 300, nil)
	if err != nil {
		t.Fatal(err)
	}
	v := begun(t, engine, task)
	reserved := func(what string, b *block, given int64) {
		t.Helper()
		if got := int64(len(b.host)); got != given {
			t.Errorf("%s: %d bytes are reserved, %d given out", what, got, given)
		}
	}
	reserved("tables, seeds and mask", v.tables, v.tables.used+whole(8*300, 300))
	reserved("columns", v.kept, v.kept.used)
	network := &classic.Perceptron{Layers: []classic.Layer{
		{Weights: make([]float32, 4*60), Bias: make([]float32, 60)},
		{Weights: make([]float32, 2*60), Bias: make([]float32, 2)},
	}, Noise: make([]float32, 1<<10)}
	for i, c := range []struct {
		policy classic.Policy
		names  []string
		least  int64 // without anything there is a block, too
	}{
		{classic.Policy{Uniform: new(uint64)}, nil, 256},
		{classic.Policy{Network: network}, nil, 0},
		{classic.Policy{Network: network}, []string{"states", "truncated"}, 0},
	} {
		if _, err := v.RunOnDevice(t.Context(), c.policy, 0, 3, c.names); err != nil {
			t.Fatal(err)
		}
		reserved(fmt.Sprint("answers of run ", i), v.answers, max(v.answers.used, c.least))
	}
}

// TestOutputs: what is left on the device has its own place and size, and by a table of the host's
// the actions that are uploaded are those of the environment's kind.
func TestOutputs(t *testing.T) {
	for env, c := range map[string]struct {
		states, observation, actions int
	}{"CartPole-v1": {4, 4, 2}, "Pendulum-v1": {2, 3, 0}} {
		task, err := classic.Make(env, 3, nil)
		if err != nil {
			t.Fatal(err)
		}
		v, l := &vector{task: task}, &launch{}
		chosen := &l.Discrete
		if c.actions == 0 {
			chosen = &l.Continuous
		}
		for _, o := range []struct {
			name  string
			at    *driver.Pointer
			bytes int64
		}{
			{"states", &l.States, int64(8 * 3 * c.states)}, {"rewards", &l.Rewards, 24},
			{"observations", &l.Observations, int64(4 * 3 * c.observation)},
			{"final_observations", &l.Final, int64(4 * 3 * c.observation)},
			{"actions", chosen, 12}, {"terminated", &l.Terminated, 3},
			{"truncated", &l.Truncated, 3},
		} {
			got, err := v.named(l, []string{o.name})
			if err != nil || got[0].at != o.at || got[0].bytes != o.bytes {
				t.Errorf("%s, %s: %+v, %v; want %d bytes at %p", env, o.name, got, err, o.bytes,
					o.at)
			}
		}
		given := v.asked(l, nil, true)
		if len(given) != 1 || given[0].at != chosen {
			t.Errorf("%s: by a table %+v are asked for, want the actions alone", env, given)
		}
		if none := v.asked(l, nil, false); len(none) > 0 {
			t.Errorf("%s: without a record %+v are asked for", env, none)
		}
	}
}

// TestChunk: a launch has as many steps as there is room for all of their answers together.
func TestChunk(t *testing.T) {
	task, err := classic.Make("CartPole-v1", 3000, nil)
	if err != nil {
		t.Fatal(err)
	}
	v := &vector{task: task}
	record := []classic.Transition{{Rewards: make([]float64, 3000)}}
	const alone, room = 8 * 3000, 67108864 // bytes
	if got := v.chunk(record); got != room/(alone+1) {
		t.Errorf("of rewards alone a launch has %d steps, want %d", got, room/(alone+1))
	}
	record[0].Truncated = make([]bool, 3000)
	if got := v.chunk(record); got != room/(alone+3000+1) {
		t.Errorf("of two answers a launch has %d steps, want %d", got, room/(alone+3000+1))
	}
	if got := v.chunk(nil); got != 1<<16 {
		t.Errorf("without a record a launch has %d steps, want %d", got, 1<<16)
	}
	// A byte less than five steps take, with the one that a launch has besides; and less than one.
	for num, want := range map[int]int{
		room / 5: 4, room/5 - 1: 5, 1 << 24: 3, room: 1, 2 * room: 1,
	} {
		v.task.Num = num
		if got := v.chunk([]classic.Transition{{Truncated: make([]bool, 1)}}); got != want {
			t.Errorf("of %d environments a launch has %d steps, want %d", num, got, want)
		}
	}
}

// TestChunks: a run that is longer than a launch may be is as many steps as were asked for.
func TestChunks(t *testing.T) {
	want.Compiler.Need(t)
	engine, err := OnCPU(1)
	if err != nil {
		t.Fatal(err)
	}
	task, err := classic.Make("MountainCar-v0", 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	v, key := begun(t, engine, task), uint64(3)
	before := v.device.Counts().Launches
	const steps = 1<<16 + 7
	record, ends := make([]classic.Transition, steps), make([]bool, steps)
	for i := range record {
		record[i].Truncated = ends[i : i+1]
	}
	if err := v.Run(t.Context(), classic.Policy{Uniform: &key}, steps, record); err != nil {
		t.Fatal(err)
	}
	for i, is := range ends {
		if want := i%201 == 199; is != want {
			t.Fatalf("step %d of a recorded run is the last of an episode: %v, want %v", i, is,
				want)
		}
	}
	totals, launches := v.Totals(), v.device.Counts().Launches-before
	// An episode is 200 steps, and one more resets.
	if totals.Steps != steps || totals.Episodes[0] != steps/201 || launches != 2 {
		t.Errorf("%d steps and %d episodes in %d launches, want %d and %d in 2", totals.Steps,
			totals.Episodes[0], launches, steps, steps/201)
	}
}

// full is a device that has no memory for one kind of calls, from when it is told so.
type full struct {
	driver.Device
	lacks *string
}

func (f full) Allocate(bytes int64) (driver.Pointer, error) {
	if *f.lacks == "Allocate" {
		return 0, fmt.Errorf("%d bytes: %w", bytes, driver.ErrOutOfMemory)
	}
	return f.Device.Allocate(bytes)
}

func (f full) Download(to []byte, from driver.Pointer) error {
	if *f.lacks == "Download" {
		return driver.ErrOutOfMemory
	}
	return f.Device.Download(to, from)
}

// TestMemoryOut: a run for whose answers there is no memory changes nothing, and the next one that
// needs less is done. What could not come down is fetched when it is asked for again.
func TestMemoryOut(t *testing.T) {
	want.Compiler.Need(t)
	engine, err := OnCPU(1)
	if err != nil {
		t.Fatal(err)
	}
	lacks := ""
	of := OnDevice{Kind: "full", Open: func() (driver.Device, error) {
		d, err := engine.Open()
		return full{d, &lacks}, err
	}}
	task, err := classic.Make("CartPole-v1", 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	task.MaxSteps = 1 // every other step ends both, and one resets both
	v, key := begun(t, of, task), uint64(3)
	run := func(steps int) error {
		record := make([]classic.Transition, steps)
		for i := range record {
			record[i] = classic.NewTransition(task)
		}
		return v.Run(t.Context(), classic.Policy{Uniform: &key}, steps, record)
	}
	if err := run(2); err != nil {
		t.Fatal(err)
	}
	before := v.Totals()
	lacks = "Allocate"
	if err := run(300); !errors.Is(err, driver.ErrOutOfMemory) {
		t.Errorf("without memory: %v, want %v", err, driver.ErrOutOfMemory)
	}
	lacks = ""
	if got := v.Totals(); fmt.Sprint(got) != fmt.Sprint(before) {
		t.Errorf("a run that was not: %+v, want %+v", got, before)
	}
	if err := run(2); err != nil || v.Totals().Steps != 8 {
		t.Errorf("with memory again: %d steps of both, %v; want 8", v.Totals().Steps, err)
	}
	lacks = "Download"
	err = v.Run(t.Context(), classic.Policy{Uniform: &key}, 1, nil)
	if !errors.Is(err, driver.ErrOutOfMemory) {
		t.Errorf("without memory for what comes down: %v, want %v", err, driver.ErrOutOfMemory)
	}
	lacks = ""
	shot, err := v.Snapshot()
	if err != nil || !slices.Equal(shot.Ended, []bool{true, true}) {
		t.Fatalf("both have ended: %+v, %v", shot, err)
	}
	const many = 1 << 40 // 32 bits do not count them
	shot.Steps = many
	if err := v.Restore(shot); err != nil || v.Totals().Steps != 2*many {
		t.Errorf("restored: %d steps of both, %v; want %d", v.Totals().Steps, err, 2*many)
	}
}

// TestCounted: where there is no limit, steps beyond those that are counted are taken back before
// their number could come to what the kernels hold for a limit, and a snapshot has none of them.
func TestCounted(t *testing.T) {
	want.Compiler.Need(t)
	engine, err := OnCPU(1)
	if err != nil {
		t.Fatal(err)
	}
	task, err := classic.Make("Pendulum-v1", 4, nil)
	if err != nil {
		t.Fatal(err)
	}
	task.MaxSteps = 0
	v, key := begun(t, engine, task), uint64(3)
	const most, last = classic.MostSteps, math.MaxInt32 - 1
	put := []int32{last - 1, most + 1, most - 1, 7}
	column := v.columns()[elapsed]
	if err := v.do(t.Context(), func() error {
		return v.device.Upload(*column.to, bytesOf(put))
	}); err != nil {
		t.Fatal(err)
	}
	counted := func(what string, uncounted int, want ...int32) {
		t.Helper()
		got := make([]int32, len(want))
		copy(bytesOf(got), v.downloaded(t, uintptr(*column.to), 4*len(want)))
		if !slices.Equal(got, want) || v.uncounted != uncounted {
			t.Errorf("%s: %d steps, and %d to go, want %d and %d", what, got, v.uncounted, want,
				uncounted)
		}
		shot, err := v.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		for i := range want {
			if shot.Elapsed[i] != min(want[i], most) {
				t.Errorf("%s: in a snapshot %d steps, want %d at most", what, shot.Elapsed, most)
			}
		}
	}
	v.uncounted = 1
	for steps, c := range []struct {
		uncounted int
		want      []int32
	}{
		{1, put}, // nothing was done
		{0, []int32{last, most + 2, most, 8}},
		{last - most - 2, []int32{most + 2, most + 2, most + 2, 10}},
	} {
		if steps > 0 {
			if steps == 2 {
				v.fresh = 0 // as behind a step, so that the steps that are counted come down
			}
			before := v.device.Counts()
			if err := v.Run(t.Context(), classic.Policy{Uniform: &key}, steps, nil); err != nil {
				t.Fatal(err)
			}
			bytes := whole(4*4) + whole(8*4) + 8*4
			if steps == 2 { // all columns up to these, before
				bytes += whole(4*4, 8*4, 8*4, 4*4*3, 8*4*2) + 4*4
			}
			if got := v.device.Counts().Sub(before).DownloadBytes; got != bytes {
				t.Errorf("%d steps: %d bytes come down, want %d", steps, got, bytes)
			}
		}
		counted(fmt.Sprint("after ", steps, " more"), c.uncounted, c.want...)
	}
	shot, err := v.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	copy(shot.Elapsed, []int32{9, last - 1, 8, 7})
	if err := v.Restore(shot); err != nil {
		t.Fatal(err)
	}
	counted("restored", 1, shot.Elapsed...)
	if err := v.Run(t.Context(), classic.Policy{Uniform: &key}, 2, nil); err != nil {
		t.Fatal(err)
	}
	counted("restored, after 2 more", last-most-2, 11, most+2, 10, 9)
}

// TestOpened: engines open the kernels that they are named for, as many blocks at once as they are
// told, and the shipped ones, read each for what they are, do what the sources do.
func TestOpened(t *testing.T) {
	want.Compiler.Need(t)
	task, err := classic.Make("CartPole-v1", 3, nil)
	if err != nil {
		t.Fatal(err)
	}
	begin := ""
	for _, name := range []string{"emulated", "ptx", "sass"} {
		engine, err := OnCPU(3)
		if name != "emulated" {
			engine, err = Translated(name, 3)
		}
		if err != nil {
			t.Fatal(err)
		}
		v := begun(t, engine, task)
		if info := v.device.Info(); engine.Name() != name || info.Name != name ||
			info.Multiprocessors != 3 {
			t.Errorf("%s: engine %q, %+v", name, engine.Name(), info)
		}
		shot, err := v.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprint(*shot)
		if begin == "" {
			begin = got
		}
		if got != begin {
			t.Errorf("%s: after a reset %s, want %s", name, got, begin)
		}
	}
}

func second[T any](_ T, err error) error { return err }
