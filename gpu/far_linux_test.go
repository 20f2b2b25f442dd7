package gpu

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"lockstep"
	"lockstep/gpu/internal/driver"
)

// reserve is memory of which only what is written takes any: neither this machine's nor a limit of
// a process's data is asked for it.
func reserve(t *testing.T, bytes int64) []byte {
	t.Helper()
	memory, err := syscall.Mmap(-1, 0, int(bytes), syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_SHARED|syscall.MAP_ANON|syscall.MAP_NORESERVE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Munmap(memory) })
	return memory
}

// vast is a device whose memory is reserved, as is the host's. It computes nothing, and notes what
// it is asked for: of its arrays the addresses as if they lay where a device's memory begins.
type vast struct {
	driver.Device
	t      *testing.T
	memory []byte
	arrays driver.Pointer // where they lie
	log    []string
}

// vastBase is where its memory begins: far from what 32 bits hold, and none of their bits is set.
const vastBase = driver.Pointer(1) << 46

// bytesOf are some of its memory.
func (v *vast) bytesOf(at driver.Pointer, n int) []byte { return v.memory[at-vastBase:][:n] }

// near is an address as if the arrays lay where the memory begins.
func (v *vast) near(at driver.Pointer) driver.Pointer {
	if at >= vastBase {
		return at - v.arrays
	}
	return at
}

// numbers are 8 bytes each, addresses among them as near has them.
func (v *vast) numbers(data []byte) string {
	var b []byte
	for ; len(data) >= 8; data = data[8:] {
		word := driver.Pointer(binary.LittleEndian.Uint64(data))
		if word>>46 == vastBase>>46 {
			word = v.near(word)
		}
		b = append(strconv.AppendUint(b, uint64(word), 16), ' ')
	}
	return fmt.Sprintf("%s%x", b, data)
}

func (v *vast) note(format string, args ...any) {
	v.log = append(v.log, fmt.Sprintf(format, args...))
}

func (v *vast) FreeMemory() (int64, error) { return 1 << 38, nil }

func (v *vast) Allocate(bytes int64) (driver.Pointer, error) {
	v.note("allocate %d", bytes)
	return vastBase + v.arrays, nil
}

func (v *vast) HostMemory(bytes int64) ([]byte, error) {
	v.note("host memory of %d", bytes)
	return reserve(v.t, bytes), nil
}

func (v *vast) Upload(to driver.Pointer, from []byte) error {
	v.note("upload to %x: %s", v.near(to), v.numbers(from))
	return nil
}

// Download brings no more than is worth looking at: ranges may be as large as the memory.
func (v *vast) Download(to []byte, from driver.Pointer) error {
	v.note("download %d bytes from %x", len(to), v.near(from))
	n := min(len(to), 1<<20)
	copy(to[:n], v.bytesOf(from, n))
	return nil
}

func (v *vast) Copy(to, from driver.Pointer, bytes int64) error {
	v.note("copy %d bytes to %x from %x", bytes, v.near(to), v.near(from))
	return nil
}

func (v *vast) Fill(to driver.Pointer, value byte, bytes int64) error {
	v.note("fill %d bytes at %x with %x", bytes, v.near(to), value)
	return nil
}

func (v *vast) Launch(kernel string, blocks, threads, shared int, argument []byte) error {
	v.note("launch %s of %d: %s", kernel, blocks, v.numbers(argument))
	return nil
}

func (v *vast) Release(at driver.Pointer) error   { v.note("release %x", v.near(at)); return nil }
func (v *vast) ReleaseHost([]byte) error          { return nil }
func (v *vast) Synchronize(context.Context) error { return nil }
func (v *vast) Follow(uintptr) error              { return nil }
func (v *vast) Precede(uintptr) error             { return nil }
func (v *vast) Info() driver.Info                 { return driver.Info{Multiprocessors: 4} }
func (v *vast) Mark() (driver.Mark, error)        { return 0, nil }
func (v *vast) Close() error                      { return nil }

// onVast is a simulator on such a device.
func onVast(v *vast) (*Simulator, *connection) {
	c := &connection{
		Ledger: &driver.Ledger{Device: v}, info: v.Info(), weights: 0x1234,
		layout: layout{variants: []variant{{routes: 2}}},
	}
	return &Simulator{
		config: Config{Threads: 64}, turn: make(chan struct{}, 1), connection: c,
	}, c
}

// TestFar: beyond 4 GiB of memory every array is where it is below, for the device as for the
// host.
func TestFar(t *testing.T) {
	past := &lockstep.Snapshot{Step: 110, Rollouts: make([]lockstep.RolloutState, 3)}
	numbers := rand.New(rand.NewPCG(1, 2))
	for i := range past.Rollouts {
		for range past.Step {
			past.Rollouts[i].Lataccel = append(past.Rollouts[i].Lataccel, numbers.NormFloat64())
			past.Rollouts[i].Action = append(past.Rollouts[i].Action, numbers.NormFloat64())
		}
	}
	for name, k := range map[string]kind{
		"whole":     {teacher: true, draws: true, trajectory: true, policies: true},
		"training":  {training: true, policies: true},
		"kept":      {training: true, kept: true, policies: true},
		"traced":    {traced: true, policies: true},
		"stepper":   {commands: true, trajectory: true, policies: true},
		"candidate": {commands: true, traced: true, draws: true, policies: true, past: past},
	} {
		near, far := farLog(t, k, 0), farLog(t, k, 1<<32)
		for i := range min(len(near), len(far)) {
			if near[i] != far[i] {
				t.Fatalf("%s: beyond 4 GiB: %.3000s\nbelow: %.3000s", name, far[i], near[i])
			}
		}
		if len(near) != len(far) || len(near) < 8 {
			t.Errorf("%s: %d calls beyond 4 GiB, %d below", name, len(far), len(near))
		}
	}
}

// farLog is what a device is asked for, and what comes of it, if arrays lie so far behind where its
// memory begins.
func farLog(t *testing.T, k kind, distance int64) []string {
	v := &vast{t: t, memory: reserve(t, distance+64<<20), arrays: driver.Pointer(distance)}
	s, c := onVast(v)
	jobs := everyKind(shorten(routes()[0], 130))
	if k.traced {
		jobs = jobs[2:4] // traces are large
	}
	numbers := rand.New(rand.NewPCG(3, 4))
	var tasks []*task
	for i := range jobs {
		tasks = append(tasks, &task{job: &jobs[i], index: i, end: 130 - i, origin: i % 3})
		all := make([]float64, 390)
		for k := range all {
			all[k] = numbers.NormFloat64()
		}
		if k.teacher {
			jobs[i].Teacher = &lockstep.Trajectory{Lataccel: all[:130], Action: all[130:260]}
		}
		if k.draws {
			jobs[i].Draws = all[260 : 390-lockstep.ContextLength]
		}
		if k.traced {
			jobs[i].Observe = func(s *lockstep.Step) {
				v.note("%d: %d %v %v %d %v %v %v, %x", i, s.Index, s.Action, s.Draw, s.Sample,
					s.Prediction, s.Lataccel, s.Raw, crc32.ChecksumIEEE(slices.Concat(
						viewBytes(s.Tokens), viewBytes(s.States), viewBytes(s.Logits),
						viewBytes(s.Probs), viewBytes(s.CDF), viewBytes(s.Observation),
						viewBytes(s.Actor))))
			}
		}
	}
	b := &batch{simulator: s, on: c, shape: fit(tasks, k, math.MaxInt64), tasks: tasks}
	b.at = b.shape.places()
	offsets := viewBytes([]places{b.at}) // all are int64
	for i, at := range view[int64](offsets, len(offsets)/8) {
		view[int64](offsets, len(offsets)/8)[i] = at + distance
	}
	b.at = view[places](offsets, 1)[0]
	up := b.at.upEnd - distance
	b.buffer = &buffer{
		device: vastBase, bytes: b.at.total, host: reserve(t, b.at.upEnd+b.at.total),
	}
	b.parts = []part{{c.layout.variants[0], len(tasks)}}
	b.at.upEnd = 0 // what is before the arrays need not be cleared
	b.fill(lockstep.CostOnly)
	b.at.upEnd = up + distance
	v.note("up: %s", v.numbers(b.buffer.host[distance:][:up]))
	for i := b.at.trace; i < b.at.total; i += 8 { // what the kernel would have written
		binary.LittleEndian.PutUint64(
			v.bytesOf(vastBase+driver.Pointer(i), 8), math.Float64bits(numbers.NormFloat64()),
		)
	}
	clear(v.bytesOf(b.device(b.at.status), int(b.at.costs-b.at.status)))
	e := &lockstep.Experience{Jobs: jobs, Results: make([]lockstep.Result, len(jobs))}
	n := len(jobs) * lockstep.ExperienceSteps
	e.Raw, e.Softplus, e.Reward = make([]float32, n), make([]float32, 2*n), make([]float32, n)
	e.Lataccel, e.Action = make([]float64, n), make([]float64, n)
	if k.commands {
		v.stepped(&rollouts{batch: b, tasks: tasks})
		return v.log
	}
	kept := &experience{
		on: c, raw: vastBase + v.arrays, softplus: vastBase + v.arrays + 1<<20,
		reward: vastBase + v.arrays + 2<<20,
	}
	kept.routes.Lataccel, kept.routes.Action = kept.raw+3<<20, kept.raw+4<<20
	r := &run{Simulator: s, ctx: t.Context(), training: e, kept: kept}
	outcomes := make([]outcome, len(tasks))
	for j := range outcomes {
		outcomes[j].task = tasks[j]
	}
	for b.block.End < int64(b.shape.stride) {
		b.aim(int(b.block.End))
	}
	if err := b.launch(k.policies); err != nil {
		t.Fatal(err)
	}
	trace, err := r.collect(b, k, outcomes)
	if err != nil {
		t.Fatal(err)
	}
	for j := range outcomes {
		r.replay(b, trace, j, &outcomes[j])
		trajectory := outcomes[j].result.Trajectory
		v.note("%d: %v %v %v", j, outcomes[j].result.Costs, trajectory, outcomes[j].err)
		if trajectory != nil { // it is the caller's
			clear(trajectory.Target)
			if slices.Equal(trajectory.Target, jobs[j].Route.TargetLataccel[:tasks[j].end]) {
				t.Errorf("who writes to the trajectory of job %d writes to its route", j)
			}
		}
	}
	v.note("%x", viewBytes(b.statuses()))
	for _, all := range [][]byte{
		viewBytes(e.Raw), viewBytes(e.Softplus), viewBytes(e.Reward), viewBytes(e.Lataccel),
		viewBytes(e.Action),
	} {
		v.note("left: %s", v.numbers(all))
	}
	return v.log
}

// stepped notes what a Stepper asks for.
func (v *vast) stepped(r *rollouts) {
	b, n := r.batch, len(r.tasks)
	r.lataccel, r.action = make([][]float64, n), make([][]float64, n)
	r.command, r.running, r.memory = make([]float64, n), make([]bool, n), make([]memoryBlock, n)
	for j := range n {
		r.command[j] = math.Sqrt(float64(j))
		r.lataccel[j], r.action[j] = make([]float64, 130), make([]float64, 130)
	}
	var trace []byte
	p := &stepper{engine: r}
	into := driver.Pointer(0)
	for _, err := range []error{
		r.launch(112, 113, &trace), r.Fetch(v.t.Context()),
		r.Restore(n-1, 111, b.tasks[0].job.Route.VEgo[:111], b.tasks[0].job.Route.AEgo[:111],
			[]float64{0.1, 0.2, 0.3}),
		r.launchAt(114, vastBase+v.arrays, vastBase+v.arrays+8), r.launch(115, 116, nil),
		r.observe(b.on, 115, &into),
		r.Roll(116, make([]float64, 2*n), make([]float64, n), make([]float64, 2*n)),
	} {
		if err != nil {
			v.t.Fatal(err)
		}
	}
	v.note("%x %v", trace, viewBytes(b.statuses()))
	v.note("%x", v.near(driver.Pointer(p.DeviceLataccels())))
	v.note("%v %v %v %v %v", r.lataccel, r.action, r.memory, b.last, b.finished)
	for j := range n {
		result := r.Result(j)
		v.note("%v %v", result.Costs, result.Trajectory)
	}
}

// TestVast: a run whose arrays take more than 4 GiB has all of it, of the device and of the host.
func TestVast(t *testing.T) {
	const rows, jobs = 40_000, 8000
	job := &lockstep.Job{Route: &lockstep.Route{Name: "r"}, Policy: lockstep.Zero{}}
	for _, column := range job.Route.Columns() {
		*column = make([]float64, rows)
	}
	tasks := slices.Repeat([]*task{{job: job, end: rows}}, jobs)
	v := &vast{t: t}
	s, c := onVast(v)
	b, err := s.load(c, tasks, kind{trajectory: true}, lockstep.AllSteps)
	if err != nil {
		t.Fatal(err)
	}
	at := b.at
	const least = jobs * rows * 8
	if b.shape.jobs != jobs || at.action-at.lataccel < least || at.draws-at.action < least ||
		at.total-at.draws < least || least < 1<<31 {
		t.Errorf("%d of %d rollouts are loaded, in %+v", b.shape.jobs, jobs, at)
	}
	v.log = slices.DeleteFunc(v.log, func(l string) bool { return strings.HasPrefix(l, "upload") })
	if got, want := strings.Join(v.log, "\n"), fmt.Sprintf("allocate %d\nhost memory of %d\n"+
		"fill %d bytes at %x with ff\nfill %d bytes at %x with 0", at.total,
		at.memory, at.total-at.upEnd, vastBase+driver.Pointer(at.upEnd), at.costs-at.status,
		vastBase+driver.Pointer(at.status)); got != want {
		t.Errorf("the device is asked:\n%s\nwant:\n%s", got, want)
	}
}

// TestVastExperience: what very many rollouts leave on the device has room there, array behind
// array.
func TestVastExperience(t *testing.T) {
	const jobs, steps = 360_000, lockstep.ExperienceSteps
	job := lockstep.Job{Route: shorten(routes()[0], 130)}
	v := &vast{t: t}
	s, c := onVast(v)
	x := &experience{
		simulator: s,
		training:  &lockstep.Experience{Jobs: slices.Repeat([]lockstep.Job{job}, jobs)},
	}
	if err := x.allocate(c); err != nil {
		t.Fatal(err)
	}
	at := x.memory
	for _, a := range []struct {
		name  string
		at    driver.Pointer
		bytes driver.Pointer
	}{
		{"lataccels", x.routes.Lataccel, 8 * jobs * steps},
		{"actions", x.routes.Action, 8 * jobs * steps}, {"variates", x.raw, 4 * jobs * steps},
		{"parameters", x.softplus, 8 * jobs * steps}, {"rewards", x.reward, 4 * jobs * steps},
	} {
		if a.at < at {
			t.Errorf("%s are at %x, before the end of what comes before, %x", a.name, a.at, at)
		}
		at = a.at + a.bytes
	}
	asked := []string{v.log[0], v.log[len(v.log)-1]}
	if want := []string{
		fmt.Sprintf("allocate %d", x.end-x.memory), fmt.Sprintf("fill %d bytes at %x with 0",
			x.end-x.routes.Lataccel, x.routes.Lataccel),
	}; !slices.Equal(asked, want) || x.end < at {
		t.Errorf("up to %x the device is asked %q, want %q", at, asked, want)
	}
}
