package gpu

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep"
	"lockstep/gpu/internal/driver"
	"lockstep/gpu/internal/driver/emulated"
)

// goodLayout is what a module says of kernels for blocks of 1 and 2 routes.
func goodLayout(weights int64) []int64 {
	return []int64{
		interfaceVersion, 16, 8 * 20, 40, 24, 48 + 160 + 320 + 8192 + 8192 + 4096 + 8 + 8, 38 * 8,
		8 * 69, 8 * 17, 48, 16, weights, 256, 2, 1, 1000, 2, 2000, 0, 0, 3, 2, 10, 3, 0, 0, 0, 0,
	}
}

// TestLayout refuses modules of another interface.
func TestLayout(t *testing.T) {
	const weights = 7
	good := goodLayout(weights)
	if l, err := readLayout(good, weights); err != nil || l.maxThreads != 256 ||
		!slices.Equal(l.variants, []variant{{1, 1000}, {2, 2000}}) {
		t.Fatalf("%+v, %v", l, err)
	}
	for i, want := range map[int]string{
		0:  "kernels have interface version 15, this program wants 7: ",
		1:  "Route",
		2:  "Job",
		3:  "Status",
		4:  "Memory",
		5:  "TraceStep",
		6:  "Launch",
		7:  "Actor",
		8:  "Observing",
		9:  "Seen",
		10: "Place",
		11: "weights",
		13: "too few",
		20: "kinds",
		25: "kinds",
	} {
		bad := slices.Clone(good)
		bad[i] += 8
		if _, err := readLayout(bad, weights); !contains(err, want) ||
			!contains(err, "make kernels") {
			t.Errorf("word %d changed: error %v, want one about %s", i, err, want)
		}
	}
	for n := range len(good) {
		want := "too few"
		if n == 0 {
			want = "is empty"
		} else if n >= 14+2*2 { // all but the kinds
			want = "kinds"
		}
		if _, err := readLayout(good[:n], weights); !contains(err, want) {
			t.Errorf("of %d words: %v, want one about %s", n, err, want)
		}
	}
	none := slices.Clone(good)
	none[13] = 1
	if l, err := readLayout(slices.Delete(none, 16, 18), weights); err != nil ||
		!slices.Equal(l.variants, []variant{{1, 1000}}) {
		t.Errorf("of one kernel: %+v, %v", l, err)
	}
	none = slices.Clone(good)
	none[13] = 0
	if _, err := readLayout(none, weights); !contains(err, "too few") {
		t.Errorf("without kernels: %v", err)
	}
}

// another is a device whose module says that its launch block is larger.
type another struct {
	driver.Device
	layout []byte
}

func (d *another) Download(to []byte, from driver.Pointer) error {
	d.layout = to
	return d.Device.Download(to, from)
}

func (d *another) Synchronize(ctx context.Context) error {
	err := d.Device.Synchronize(ctx)
	if d.layout != nil {
		view[int64](d.layout, 7)[6] += 8
		d.layout = nil
	}
	return err
}

// TestOtherInterface loads kernels whose launch block has another field.
func TestOtherInterface(t *testing.T) {
	path, err := modelPath()
	if err != nil {
		t.Fatal(err)
	}
	open := device(t, emulated.Options{})
	_, err = New(Config{ModelPath: path, Open: func() (driver.Device, error) {
		d, err := open()
		return &another{Device: d}, err
	}})
	if !contains(err, "the size of Launch is 312 in the module and 304 in this program") {
		t.Errorf("error %v", err)
	}
}

// hollow is a device that computes nothing. Of its calls the one with the number fails does.
type hollow struct {
	driver.Device
	calls, fails int
	next         driver.Pointer
	fault        error         // its error; nil is errPlanted
	left         time.Duration // to the end of the context of the last Synchronize
	longest      time.Duration // of all of them
	waiting      int           // commands since then
	info         driver.Info
	launched     []string       // of each launch: kernel, blocks, threads, shared memory, and jobs
	rolled       launchBlock    // of the last launch of rollouts
	observed     observingBlock // of the last one that observes
	answer       []byte         // what downloads of as many bytes bring
	closed       int
	taken        map[driver.Pointer]int64 // bytes of what was allocated and is not released
	piece        int64                    // the most bytes that there are in one piece, or 0
	asked        []int64                  // of each piece that there was not
	ctx          context.Context          // of the last Synchronize
}

func newHollow() *hollow {
	return &hollow{fails: -1, next: 1 << 20, taken: map[driver.Pointer]int64{}, info: driver.Info{
		Name: "hollow", Multiprocessors: 2, SharedPerBlock: 4000,
	}}
}

func (h *hollow) call() error {
	if h.calls++; h.calls-1 == h.fails {
		return cmp.Or(h.fault, errPlanted)
	}
	return nil
}

// command is a call whose work is waited for.
func (h *hollow) command() error {
	h.waiting++
	return h.call()
}

func (h *hollow) FreeMemory() (int64, error) { return 1 << 30, h.call() }

func (h *hollow) Allocate(bytes int64) (driver.Pointer, error) {
	if h.piece > 0 && bytes > h.piece {
		h.asked = append(h.asked, bytes)
		return 0, fmt.Errorf("%d bytes: %w", bytes, driver.ErrOutOfMemory)
	}
	at := h.next
	h.next += driver.Pointer(bytes)
	err := h.call()
	if err == nil {
		h.taken[at] = bytes
	}
	return at, err
}

func (h *hollow) HostMemory(bytes int64) ([]byte, error) { return make([]byte, bytes), h.call() }

func (h *hollow) Symbol(string) (driver.Pointer, int64, error) {
	return 1, int64(8 * len(goodLayout(7))), h.call()
}

func (h *hollow) Download(to []byte, from driver.Pointer) error {
	if from == 1 {
		copy(to, viewBytes(goodLayout(7)))
	}
	if len(to) == len(h.answer) {
		copy(to, h.answer)
	}
	return h.command()
}

func (h *hollow) Launch(kernel string, blocks, threads, shared int, argument []byte) error {
	jobs := ""
	if len(argument) == len(viewBytes([]launchBlock{{}})) {
		k := view[launchBlock](argument, 1)[0]
		h.rolled = k
		jobs = fmt.Sprintf(", jobs %d to %d", k.FirstJob, k.Jobs)
		if k.PastLataccel != 0 || k.PastAction != 0 {
			jobs += " that go on"
		}
	}
	if kernel == "lockstep_observe" {
		h.observed = view[observingBlock](argument, 1)[0]
	}
	h.launched = append(h.launched, fmt.Sprintf("%s: %d blocks of %d, %d bytes%s", kernel, blocks,
		threads, shared, jobs))
	return h.command()
}

func (h *hollow) Synchronize(ctx context.Context) error {
	h.ctx = ctx
	if end, ok := ctx.Deadline(); ok {
		h.left = time.Until(end)
		h.longest = max(h.longest, h.left)
	}
	h.waiting = 0
	return h.call()
}

func (h *hollow) Release(p driver.Pointer) error {
	delete(h.taken, p)
	return nil
}

func (h *hollow) Upload(driver.Pointer, []byte) error              { return h.command() }
func (h *hollow) Copy(driver.Pointer, driver.Pointer, int64) error { return h.command() }
func (h *hollow) Fill(driver.Pointer, byte, int64) error           { return h.command() }
func (h *hollow) Follow(uintptr) error                             { return h.call() }
func (h *hollow) Precede(uintptr) error                            { return h.call() }
func (h *hollow) ReleaseHost([]byte) error                         { return nil }
func (h *hollow) Info() driver.Info                                { return h.info }
func (h *hollow) Close() error                                     { h.closed++; return nil }

// onHollow is a simulator on such devices.
func onHollow(open func() (driver.Device, error)) *Simulator {
	return &Simulator{
		config:  Config{Threads: 64, Open: open},
		turn:    make(chan struct{}, 1),
		weights: make([]float32, 7),
	}
}

// TestAbout: a simulator says which network and kernels compute, on what; and why it cannot say.
func TestAbout(t *testing.T) {
	lost := false
	s := onHollow(func() (driver.Device, error) {
		if lost {
			return nil, errPlanted
		}
		h := newHollow()
		h.info.Kernels, h.info.Driver = "0123456789abcdef", "12.8"
		return h, nil
	})
	s.model, s.name = "cafe", "gpu"
	for _, want := range []lockstep.About{
		{Model: "cafe", Inside: "kernels 0123456789ab on hollow, driver 12.8"},
		{Model: "cafe", Inside: errPlanted.Error()},
	} {
		if got := s.About(); fmt.Sprint(got) != fmt.Sprint(want) || s.Name() != "gpu" {
			t.Errorf("%s: %+v, want %+v", s.Name(), got, want)
		}
		s.disconnect()
		lost = true
	}
	s.config.Profile.Exp = lockstep.ExpF
	if got := s.Profile(); got != s.config.Profile {
		t.Errorf("the profile is %v, want %v", got, s.config.Profile)
	}
}

// TestEnded: each way in which a kernel ends a job is told in its words, with the number that it
// gives.
func TestEnded(t *testing.T) {
	driven, nan := network(8), math.NaN()
	for _, c := range []struct {
		code   int64
		value  float64
		policy lockstep.Policy
		want   string
	}{
		{0, 7, nil, "<nil>"}, {0, nan, driven, "<nil>"},
		{1, nan, nil, "lataccel NaN has no token"},
		{2, nan, nil, "probabilities contain NaN"}, {2, 0.5, nil, "probabilities do not sum to 1"},
		{3, 5, nil, "the kernel has no policy of kind 5"},
		{4, 65, driven, "observation[65] (target plan 9) is NaN"},
		{4, 0, nil, lockstep.ObservationElement(0) + " is NaN"},
		{5, 1, nil, "the kernel ended with code 5, which this program does not know"},
		{-1, 1, nil, "the kernel ended with code -1, which this program does not know"},
	} {
		s := statusBlock{Code: c.code, Value: c.value, Step: 3}
		if got := fmt.Sprint(s.err(c.policy)); got != c.want {
			t.Errorf("code %d, value %v: %s, want %s", c.code, c.value, got, c.want)
		}
	}
}

// TestGivenBack: a simulator that is closed has closed its device, once, and one that cannot be
// used is closed, too; memory of a run of which there is not all is given back.
func TestGivenBack(t *testing.T) {
	for n := range 8 { // what is asked of a device before it can be used
		h := newHollow()
		h.fails = n
		s := onHollow(func() (driver.Device, error) { return h, nil })
		if _, err := s.Info(); (err != nil) != (h.calls == n+1) || (err != nil) != (h.closed == 1) {
			t.Errorf("call %d of %d fails: %v, closed %d times", n, h.calls, err, h.closed)
		}
	}
	for n := range 3 {
		h := newHollow()
		h.fails = n
		c := &connection{Ledger: &driver.Ledger{Device: h}}
		if b, err := c.take(1000, 500); (err != nil) != (n < 2) || (err != nil) == (b != nil) ||
			err != nil && len(h.taken) != 0 {
			t.Errorf("call %d fails: %v, %v; %v is taken", n, b, err, h.taken)
		}
	}
	h := newHollow()
	s := onHollow(func() (driver.Device, error) { return h, nil })
	if _, err := s.Info(); err != nil || h.closed != 0 {
		t.Fatalf("closed %d times; %v", h.closed, err)
	}
	for range 2 {
		if err := s.Close(); err != nil || h.closed != 1 {
			t.Errorf("closed %d times; %v", h.closed, err)
		}
	}
}

// TestLost has each call of a device fail, one at a time, whatever a simulator is asked for: that
// error is heard, what was on the device is lost, and the device is opened once more.
func TestLost(t *testing.T) {
	failed := 0
	for n := 0; ; n++ {
		opened, first := 0, newHollow()
		first.fails = n
		s := onHollow(func() (driver.Device, error) {
			if opened++; opened == 1 {
				return first, nil
			}
			return newHollow(), nil
		})
		var p lockstep.Stepper
		err := askEverything(t.Context(), s, &p)
		if first.calls <= n {
			if kept := s.connection.spare; err != nil || len(first.taken) != 2 || // and the weights
				first.taken[kept.device] != kept.bytes {
				t.Errorf("no call fails: %v; taken are still %v", err, first.taken)
			}
			break
		}
		if failed++; !errors.Is(err, errPlanted) {
			t.Errorf("call %d fails: %v", n, err)
		}
		if _, err := s.Info(); err != nil || opened != 2 {
			t.Errorf("after call %d has failed: %v, opened %d times", n, err, opened)
		}
		if p != nil {
			if err := errors.Join(p.Step(t.Context(), []float64{0}, []float64{0}),
				p.Err(0)); err == nil {
				t.Errorf("after call %d has failed a Stepper goes on", n)
			}
			p.Close()
		}
	}
	if failed < 80 {
		t.Errorf("%d calls", failed)
	}
}

// TestLostWhere: who rolls out is told the step at which the device was lost, if it was at one.
func TestLostWhere(t *testing.T) {
	calls := 0
	lost := func(policy lockstep.Policy, fails int) (text string) {
		h := newHollow()
		h.fails = fails
		s := onHollow(func() (driver.Device, error) { return h, nil })
		for _, r := range s.Simulate(t.Context(), []lockstep.Job{{
			Route: shorten(routes()[0], 101), Policy: policy,
		}}, lockstep.Options{Shortcuts: lockstep.CostOnly}) {
			text = fmt.Sprint(r.Err)
		}
		calls = h.calls
		return text
	}
	for _, policy := range []lockstep.Policy{lockstep.Zero{}, weavePolicy} {
		if err := lost(policy, -1); err != "<nil>" {
			t.Fatal(err)
		}
		last := calls - 2 // which brings the end down, and is waited for
		name := fmt.Sprintf("route g00000[:101], controller %v", policy)
		want := map[int]string{1: name + ": planted fault", last: name + ": planted fault"}
		if policy != lockstep.Policy(lockstep.Zero{}) { // the last step but one, and the last
			want[last-2], want[last-6] = name+", step 100: planted fault",
				name+", step 99: planted fault"
		}
		for fails, want := range want {
			if got := lost(policy, fails); got != want {
				t.Errorf("call %d of %d fails: %s, want %s", fails, calls, got, want)
			}
		}
	}
}

// TestLeft: who leaves a run of controllers on the host between two steps, by ending its context, a
// break or a panic, has these closed and the memory given back. Jobs are told where it ended.
func TestLeft(t *testing.T) {
	h := newHollow()
	s := onHollow(func() (driver.Device, error) { return h, nil })
	var jobs []lockstep.Job
	for rows := range 3 {
		jobs = append(jobs, lockstep.Job{
			Route: shorten(routes()[0], 101+rows), Policy: weavesPolicy,
		})
	}
	for _, way := range []string{"to the end", "context", "break", "panic"} {
		ctx, end := context.WithCancel(t.Context())
		defer end()
		if way == "context" {
			jobs[0].Observe = func(step *lockstep.Step) {
				if step.Index == 42 {
					end()
				}
			}
		}
		var said []string
		func() {
			defer func() { recover() }()
			for _, r := range s.Simulate(ctx, jobs, lockstep.Options{}) {
				said = append(said, fmt.Sprint(r.Err))
				if way == "panic" {
					panic("the caller panics")
				}
				if way == "break" {
					break
				}
			}
		}()
		jobs[0].Observe = nil
		var want []string
		for _, job := range jobs {
			switch {
			case way == "context" && job.Route == jobs[0].Route: // alone, since it is observed
				want = append(want, fmt.Sprintf("route %s, controller weaves, step 43: context "+
					"canceled", job.Route.Name))
			case way == "context": // of a launch of their own, which is not begun
				want = append(want, fmt.Sprintf("route %s, controller weaves: context canceled",
					job.Route.Name))
			case len(want) == 0 || way == "to the end":
				want = append(want, "<nil>")
			}
		}
		slices.Sort(said)
		slices.Sort(want)
		if !slices.Equal(said, want) {
			t.Errorf("%s: %q, want %q", way, said, want)
		}
		if n := weavesOpen.Load(); n != 0 || len(h.taken) != 2 || s.connection.spare == nil {
			t.Errorf("%s: %d controllers are open, taken are %v", way, n, h.taken)
		}
	}
}

// TestObserveAgain: as many places as before take the room that there is, and where there was none
// for more, they take room again. What stays on the device is there when it is handed out.
func TestObserveAgain(t *testing.T) {
	h := newHollow()
	s := onHollow(func() (driver.Device, error) { return h, nil })
	x, err := s.CollectOnDevice(t.Context(), []lockstep.Job{{
		Route: shorten(routes()[0], 101), Policy: network(8),
	}})
	if err != nil || h.waiting != 0 {
		t.Fatalf("%d commands of it are not waited for; %v", h.waiting, err)
	}
	for i, c := range []struct {
		places, calls int
		full          error
	}{
		{places: 2, calls: 4}, {places: 2, calls: 3}, {places: 1, calls: 3}, {places: 3, calls: 4},
		{places: 4, calls: 1, full: fmt.Errorf("four places: %w", driver.ErrOutOfMemory)},
		{places: 1, calls: 4},
	} {
		before := h.calls
		if c.full != nil {
			h.fails, h.fault = before, c.full
		}
		h.launched = nil
		if err := x.Observe(make([]lockstep.Place, c.places), 1<<20); !errors.Is(err, c.full) ||
			h.calls-before != c.calls || h.waiting != 0 {
			t.Errorf("time %d, %d places: %d calls, want %d, %d not waited for; %v", i, c.places,
				h.calls-before, c.calls, h.waiting, err)
		}
		blocks := []string{observing(c.places)}
		if c.full == nil && !slices.Equal(h.launched, blocks) {
			t.Errorf("time %d: %q, want %q", i, h.launched, blocks)
		}
	}
	if err := x.Close(); err != nil || len(h.taken) != 2 { // weights, and what runs take
		t.Errorf("closed, %v is taken; %v", h.taken, err)
	}
}

// TestNotANumber: wherever in an observation of training data there is no number, it is found, and
// named with its rollout and step; the first of several is.
func TestNotANumber(t *testing.T) {
	const size, places = lockstep.ObservationSize, 3
	h := newHollow()
	s := onHollow(func() (driver.Device, error) { return h, nil })
	var jobs []lockstep.Job
	for i := range 2 {
		jobs = append(jobs, lockstep.Job{Route: shorten(routes()[i], 106), Policy: network(8)})
	}
	e := &lockstep.Experience{
		Jobs: jobs, Results: make([]lockstep.Result, 2),
		Lataccel: make([]float64, 2*lockstep.ExperienceSteps),
		Action:   make([]float64, 2*lockstep.ExperienceSteps),
	}
	at := []lockstep.Place{{Rollout: 1, Step: 2}, {Rollout: 0, Step: 5}, {Rollout: 1, Step: 4}}
	for place, p := range at {
		for _, k := range []int{0, 1, 100, size - 2, size - 1} {
			numbers := make([]float32, places*size)
			for i := place*size + k; i < len(numbers); i += 300 {
				numbers[i] = float32(math.NaN())
			}
			h.answer = viewBytes(numbers)
			err := s.Observe(e, at, make([]float32, places*size))
			if want := fmt.Sprint(jobs[p.Rollout].Failed(lockstep.ControlStartIdx+p.Step,
				notObserved(nil, k))); fmt.Sprint(err) != want {
				t.Errorf("%v, want %s", err, want)
			}
		}
	}
}

// observing is the launch that observes so many places or rollouts: a block does each.
func observing(n int) string {
	return fmt.Sprintf("lockstep_observe: %d blocks of 128, 0 bytes", n)
}

// askEverything asks for all that a simulator does with its device, up to the first error. While
// there is a Stepper on the device, it is p.
func askEverything(ctx context.Context, s *Simulator, p *lockstep.Stepper) error {
	route := shorten(routes()[0], 101)
	plain := []lockstep.Job{{Route: route}}
	cost := lockstep.Options{Shortcuts: lockstep.CostOnly}
	driven := []lockstep.Job{{Route: route, Policy: network(8)}}
	into := make([]float32, lockstep.ObservationSize)
	simulate := func(limit int64, observe func(*lockstep.Step)) func() error {
		return func() (err error) {
			s.config.MemoryLimit = limit
			for _, r := range s.Simulate(ctx, []lockstep.Job{{
				Route: route, Policy: lockstep.Zero{}, Observe: observe,
			}}, cost) {
				err = errors.Join(err, r.Err)
			}
			s.config.MemoryLimit = 0
			return err
		}
	}
	var q lockstep.DeviceStepper
	var shot *lockstep.Snapshot
	one := []float64{0}
	step := func(p lockstep.Stepper) error { return errors.Join(p.Step(ctx, one, one), p.Err(0)) }
	var e *lockstep.Experience
	var x lockstep.DeviceExperience
	places := []lockstep.Place{{}, {}}
	for _, f := range []func() error{
		func() error { _, err := s.Info(); return err },
		simulate(0, nil), simulate(0, func(*lockstep.Step) {}),
		simulate(1<<20, func(*lockstep.Step) {}), // in several launches
		func() (err error) {
			if *p, err = s.Reset(ctx, plain, cost); err == nil {
				q = (*p).(lockstep.DeviceStepper)
			}
			return err
		},
		func() error { return step(q) },
		func() (err error) { shot, err = q.Snapshot(ctx); return err },
		func() error {
			shot.Step = lockstep.ControlStartIdx
			r := &shot.Rollouts[0]
			r.Lataccel, r.Action = make([]float64, shot.Step), make([]float64, shot.Step)
			return q.Restore(ctx, shot)
		},
		func() error { return q.Observe(ctx, into) },
		func() error { _, err := q.ObserveOnDevice(0); return err },
		func() error { return errors.Join(q.Follow(1), q.Precede(1)) },
		func() error {
			f, err := q.Fork(ctx, shot, []int{0}, lockstep.Noise{Kind: lockstep.RouteNoise})
			if err != nil {
				return err
			}
			return errors.Join(
				f.Observe(ctx, into), f.Roll(ctx, one, make([]float64, 1), nil), f.Close(),
			)
		},
		func() error { return q.StepOnDevice(1<<20, 0) },
		func() error { return q.Sync(ctx) },
		func() error {
			if err := q.Restore(ctx, shot); err != nil {
				return err
			}
			return q.Roll(ctx, one, make([]float64, 1), nil)
		},
		func() error { _, err := q.Results(ctx); return err },
		func() error { *p = nil; return q.Close() },
		func() (err error) {
			if e, err = s.Collect(ctx, driven); err == nil {
				err = e.Results[0].Err
			}
			return err
		},
		func() error { return s.Observe(e, nil, into) },
		func() (err error) {
			if x, err = s.CollectOnDevice(ctx, driven); err == nil {
				if failed := x.Experience().Results[0].Err; failed != nil {
					err = fmt.Errorf("what is lost is handed out: %v", failed)
				}
			}
			return err
		},
		func() error { return errors.Join(x.Follow(1), x.Precede(1)) },
		func() error { return x.Observe(places[:1], 1<<20) },
		func() error { return x.Observe(places, 1<<20) },
		func() error { return x.Close() },
	} {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// TestLimit: the time that a device is given grows with its work, is ten times as long where the
// CPU does it, and is what the configuration says if that says any.
func TestLimit(t *testing.T) {
	for _, c := range []struct {
		info  driver.Info
		watch time.Duration
		steps int64
		want  time.Duration
	}{
		{driver.Info{Multiprocessors: 4}, 0, 0, 2 * time.Minute},
		{driver.Info{Multiprocessors: 4}, 0, 8000, 3 * time.Minute},
		{driver.Info{}, 0, 8000, 6 * time.Minute},
		{driver.Info{Multiprocessors: 4, Emulated: true}, 0, 8000, 30 * time.Minute},
		{driver.Info{Multiprocessors: 4, Emulated: true}, time.Hour, 8000, time.Hour},
	} {
		h := newHollow()
		s := onHollow(nil)
		s.config.Watchdog = c.watch
		on := &connection{Ledger: &driver.Ledger{Device: h}, info: c.info}
		if err := s.synchronize(t.Context(), on, c.steps); err != nil || h.left > c.want ||
			h.left < c.want-30*time.Second {
			t.Errorf("%+v, %d steps: %v are left, want %v; %v", c.info, c.steps, h.left, c.want,
				err)
		}
		if h.ctx.Err() == nil {
			t.Error("what ends the wait is left to run")
		}
	}
}

// TestNoWork: where no step is waited for, the time of none is added.
func TestNoWork(t *testing.T) {
	h := newHollow()
	s := onHollow(func() (driver.Device, error) { return h, nil })
	job := lockstep.Job{Route: shorten(routes()[0], 101), Policy: network(8)}
	for _, c := range []struct {
		name string
		do   func() error
		all  bool // that it waits for
	}{
		{"connecting", func() error { _, err := s.Info(); return err }, true},
		{"Reset", func() error {
			reset(t, s, []lockstep.Job{job}, lockstep.Options{})
			return nil
		}, true},
		{"Restore", func() error {
			p := reset(t, s, []lockstep.Job{job}, lockstep.Options{})
			shot, err := p.Snapshot(t.Context())
			return errors.Join(err, p.Restore(t.Context(), shot))
		}, true},
		{"making room for CollectOnDevice", func() error {
			e, err := lockstep.EmptyExperience([]lockstep.Job{job})
			x := &experience{simulator: s, training: e}
			return errors.Join(err, s.use(t.Context(), nil, x.allocate))
		}, true},
		{"the end of CollectOnDevice", func() error {
			_, err := s.CollectOnDevice(t.Context(), []lockstep.Job{job})
			return err
		}, false},
	} {
		h.longest = 0
		err := c.do()
		if !c.all {
			h.longest = h.left
		}
		if err != nil || h.longest > 2*time.Minute || h.longest < time.Minute {
			t.Errorf("%s has %v, want two minutes; %v", c.name, h.longest, err)
		}
	}
}

// TestWorkOfFetch: the time that a launch is given is that of its own steps, of all its jobs,
// though there be more than 32 bits count.
func TestWorkOfFetch(t *testing.T) {
	for _, c := range []struct {
		jobs  int
		steps int64
		want  time.Duration // two minutes, and 15 ms a step: there are two multiprocessors
	}{
		{40, 200, 4 * time.Minute},
		{1 << 20, 1 << 12, 2*time.Minute + (15<<32)*time.Millisecond},
	} {
		h := newHollow()
		b := &batch{
			simulator: onHollow(nil),
			on:        &connection{Ledger: &driver.Ledger{Device: h}, info: h.info},
			buffer:    &buffer{host: make([]byte, 1)},
			shape:     shape{jobs: c.jobs},
		}
		b.block.First, b.block.End = 100, 100+c.steps
		if err := b.fetch(t.Context(), 0, 1); err != nil || h.left > c.want ||
			h.left < c.want-30*time.Second {
			t.Errorf("%d steps of %d jobs: %v are left, want %v; %v", c.steps, c.jobs, h.left,
				c.want, err)
		}
	}
}

// TestSpare: a run takes the memory of the one before if both parts of it suffice.
func TestSpare(t *testing.T) {
	for _, c := range []struct {
		device, host int64
		same         bool
	}{{1000, 500, true}, {999, 499, true}, {1001, 500, false}, {1000, 501, false}} {
		on := &connection{Ledger: &driver.Ledger{Device: newHollow()}}
		before, err := on.take(1000, 500)
		if err != nil {
			t.Fatal(err)
		}
		if err := on.give(before); err != nil || on.spare != before {
			t.Fatalf("it is not kept: %v", err)
		}
		got, err := on.take(c.device, c.host)
		if err != nil || (got == before) != c.same || got.bytes < c.device ||
			int64(len(got.host)) < c.host || on.spare != nil {
			t.Errorf("of 1000 and 500 bytes, asked for %d and %d: %d and %d, the same %v; %v",
				c.device, c.host, got.bytes, len(got.host), got == before, err)
		}
	}
}

// TestGrid: a launch has as many blocks as hold its jobs, of the kernel for them, and each part
// begins where the one before ends. What the jobs go on from is taken once.
func TestGrid(t *testing.T) {
	for _, c := range []struct {
		parts    []part
		policies bool
		want     []string
	}{
		{[]part{{variant{2, 1000}, 4}}, false, []string{
			"lockstep_rollout_r2: 2 blocks of 64, 1000 bytes, jobs 0 to 4"}},
		{[]part{{variant{2, 1000}, 5}}, true, []string{
			"lockstep_policy_r2: 3 blocks of 64, 1000 bytes, jobs 0 to 5"}},
		{[]part{{variant{6, 3000}, 12}, {variant{1, 500}, 3}}, false, []string{
			"lockstep_rollout_r6: 2 blocks of 64, 3000 bytes, jobs 0 to 12",
			"lockstep_rollout_r1: 3 blocks of 64, 500 bytes, jobs 12 to 15"}},
	} {
		h := newHollow()
		b := &batch{
			simulator: onHollow(nil), on: &connection{Ledger: &driver.Ledger{Device: h}},
			parts: c.parts,
		}
		b.block.PastLataccel, b.block.PastAction = 1, 2
		var forked []string
		for _, text := range c.want {
			forked = append(forked, text+" that go on")
		}
		for _, want := range [][]string{forked, c.want} {
			h.launched = nil
			if err := b.launch(c.policies); err != nil || !slices.Equal(h.launched, want) {
				t.Errorf("%+v: %q, %v; want %q", c.parts, h.launched, err, want)
			}
		}
	}
}

// TestPassed: what a Stepper rolls goes up and comes down in as many bytes as it has, and a block
// observes each of its rollouts, or of the places of training data.
func TestPassed(t *testing.T) {
	const jobs, steps = 32, 80 // arrays that end at a multiple of 256
	h := newHollow()
	s := onHollow(func() (driver.Device, error) { return h, nil })
	p := reset(t, s, slices.Repeat([]lockstep.Job{{Route: shorten(routes()[0], 120)}}, jobs),
		lockstep.Options{}).(lockstep.DeviceStepper)
	before := s.Stats()
	if err := p.Roll(t.Context(), make([]float64, jobs*steps), make([]float64, jobs),
		nil); err != nil {
		t.Fatal(err)
	}
	const commands, costs, statuses = 8 * jobs * steps, 8 * jobs, 5 * 8 * jobs
	if c := s.Stats().Sub(before); c.UploadBytes != commands+costs ||
		c.DownloadBytes != costs+commands+statuses {
		t.Errorf("%d steps of %d jobs: %+v", steps, jobs, c.Counts)
	}
	h.launched = nil
	own, err := p.ObserveOnDevice(0)
	if bytes := h.taken[driver.Pointer(own)]; bytes != 4*lockstep.ObservationSize*jobs {
		t.Errorf("observations of %d jobs take %d bytes", jobs, bytes)
	}
	e := &lockstep.Experience{
		Jobs:     []lockstep.Job{{Route: shorten(routes()[0], 120), Policy: network(8)}},
		Results:  make([]lockstep.Result, 1),
		Lataccel: make([]float64, lockstep.ExperienceSteps),
		Action:   make([]float64, lockstep.ExperienceSteps),
	}
	failed := s.Observe(e, make([]lockstep.Place, 3), make([]float32, 3*lockstep.ObservationSize))
	if want := []string{observing(jobs), observing(3)}; err != nil || failed != nil ||
		!slices.Equal(h.launched, want) {
		t.Errorf("%q, want %q; %v, %v", h.launched, want, err, failed)
	}
}

// broken is a device with planted faults. Each fires once.
type broken struct {
	*emulated.Device
	faults *faults
}

// faults are taken by the first device that comes to them.
type faults struct {
	mutex  sync.Mutex
	launch string // "error", "hang"
	opened int
}

func (f *faults) take() string {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	what := f.launch
	f.launch = ""
	return what
}

var errPlanted = errors.New("planted fault")

func (b *broken) Launch(kernel string, blocks, threads, shared int, argument []byte) error {
	switch b.faults.take() {
	case "error":
		return errPlanted
	case "overrun":
		view[launchBlock](argument, 1)[0].Action += 1 << 40

	}
	return b.Device.Launch(kernel, blocks, threads, shared, argument)
}

// TestRecovery breaks launches: the run fails with one clear line or the device's
// own report, nothing hangs, a Stepper on the device is lost, and the next run
// works.
func TestRecovery(t *testing.T) {
	onCPU(t)
	f := &faults{}
	s := newSimulator(t, Config{Open: func() (driver.Device, error) {
		f.opened++
		d, err := emulated.Open(emulated.Options{})
		return &broken{d, f}, err
	}})
	jobs := []lockstep.Job{
		{Route: shorten(routes()[0], 104), Policy: lockstep.DefaultPID()},
		{Route: shorten(routes()[1], 104), Policy: weavePolicy},
	}
	opts := lockstep.Options{Shortcuts: lockstep.CostOnly}
	want := results(t, s, context.Background(), jobs, opts)

	// Somebody looks at the counts meanwhile, which only grow.
	done := make(chan struct{})
	var looking sync.WaitGroup
	looking.Go(func() {
		for last := s.Stats(); ; time.Sleep(time.Millisecond) {
			now := s.Stats()
			if now.Launches < last.Launches || now.UploadBytes < last.UploadBytes {
				t.Errorf("counts %+v after %+v", now, last)
			}
			last = now
			select {
			case <-done:
				return
			default:
			}
		}
	})
	defer looking.Wait()
	defer close(done)

	for _, c := range []struct{ fault, want string }{
		{"error", "planted fault"},
		{"overrun", "device process ended"},
	} {
		p, err := s.Reset(context.Background(), jobs[:1], opts)
		if err != nil {
			t.Fatal(err)
		}
		opened := f.opened
		f.launch = c.fault
		for i, r := range results(t, s, context.Background(), jobs[:1], opts) {
			if !contains(r.Err, c.want) ||
				!strings.HasPrefix(r.Err.Error(), "route "+jobs[i].Route.Name+", ") {
				t.Errorf("%s: job %d: error %v, want one with %q", c.fault, i, r.Err, c.want)
			}
		}
		if err := p.Step(context.Background(), []float64{0}, []float64{0}); err != nil ||
			!contains(p.Err(0), "the device failed in between") {
			t.Errorf("a Stepper on a device that failed: %v, %v", err, p.Err(0))
		}
		p.Close()
		for i, got := range results(t, s, context.Background(), jobs, opts) {
			if d := resultDifference(got, want[i]); d != "" {
				t.Errorf("after %s: job %d: %s", c.fault, i, d)
			}
		}
		if f.opened != opened+1 {
			t.Errorf("%s: the device was opened %d times, want once more", c.fault, f.opened-opened)
		}
	}
}

// TestWatchdog gives a launch less time than it takes.
func TestWatchdog(t *testing.T) {
	onCPU(t)
	s := newSimulator(t, Config{})
	long := []lockstep.Job{{Route: routes()[0], Policy: lockstep.DefaultPID()}}
	short := []lockstep.Job{{Route: shorten(routes()[0], 101), Policy: lockstep.DefaultPID()}}
	s.config.Watchdog = 100 * time.Millisecond
	r := results(t, s, context.Background(), long,
		lockstep.Options{Shortcuts: lockstep.AllSteps})[0]
	if !contains(r.Err, "did not finish within 100ms") {
		t.Errorf("error %v", r.Err)
	}
	s.config.Watchdog = time.Minute
	if r := results(t, s, context.Background(), short,
		lockstep.Options{Shortcuts: lockstep.CostOnly})[0]; r.Err != nil {
		t.Errorf("after a hang: %v", r.Err)
	}
}

// TestTurns runs from several goroutines at once.
func TestTurns(t *testing.T) {
	s := newSimulator(t, Config{})
	opts := lockstep.Options{Shortcuts: lockstep.CostOnly}
	var jobs []lockstep.Job
	for i := range 4 {
		jobs = append(
			jobs, lockstep.Job{Route: shorten(routes()[i], 102+i), Policy: policies[i%3]},
			lockstep.Job{Route: shorten(routes()[i], 102+i), Policy: weavePolicy},
		)
	}
	want := results(t, s, context.Background(), jobs, opts)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i, got := range s.Simulate(context.Background(), jobs, opts) {
				if d := resultDifference(got, want[i]); d != "" {
					t.Errorf("job %d: %s", i, d)
				}
			}
		})
	}
	all.Wait()
}
