package gpu

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep"
	"lockstep/gpu/internal/driver"
	"lockstep/gpu/internal/driver/emulated"
)

// TestLayout refuses modules of another interface.
func TestLayout(t *testing.T) {
	const weights = 7
	good := []int64{
		interfaceVersion, 16, 8 * 20, 40, 24, 48 + 160 + 320 + 8192 + 8192 + 4096 + 8 + 8, 38 * 8,
		8 * 69, 8 * 17, weights, 256, 2, 1, 1000, 2, 2000, 0, 0, 3, 2, 10, 3, 0, 0, 0, 0,
	}
	if l, err := readLayout(good, weights); err != nil || l.maxThreads != 256 ||
		!slices.Equal(l.variants, []variant{{1, 1000}, {2, 2000}}) {
		t.Fatalf("%+v, %v", l, err)
	}
	for i, want := range map[int]string{
		0:  "version",
		1:  "Route",
		2:  "Job",
		3:  "Status",
		4:  "Memory",
		5:  "TraceStep",
		6:  "Launch",
		7:  "Actor",
		8:  "Observing",
		9:  "weights",
		11: "too few",
		18: "kinds",
		23: "kinds",
	} {
		bad := slices.Clone(good)
		bad[i] += 8
		if _, err := readLayout(bad, weights); !contains(err, want) ||
			!contains(err, "make kernels") {
			t.Errorf("word %d changed: error %v, want one about %s", i, err, want)
		}
	}
	for n := range len(good) {
		if _, err := readLayout(good[:n], weights); err == nil {
			t.Errorf("%d words are taken", n)
		}
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
