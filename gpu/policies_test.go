package gpu

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/fstest"

	"lockstep"
	recorded "lockstep/golden/policies"
	"lockstep/gpu/internal/driver"
	"lockstep/gpu/internal/driver/emulated"
	"lockstep/gpu/internal/kernels"
	"lockstep/gpu/internal/translate"
	"lockstep/internal/simtest"
)

// network is a random one with hidden layers of these widths.
func network(hidden ...int) *lockstep.Network {
	random := rand.New(rand.NewPCG(12, uint64(len(hidden))))
	var layers []lockstep.Layer
	inputs := lockstep.ObservationSize
	for _, outputs := range append(hidden, lockstep.ActorSize) {
		l := lockstep.Layer{
			Inputs:  inputs,
			Outputs: outputs,
			Weights: make([]float32, inputs*outputs),
			Bias:    make([]float32, outputs),
		}
		for i := range l.Weights {
			l.Weights[i] = 0.4 * (random.Float32() - 0.5)
		}
		for i := range l.Bias {
			l.Bias[i] = 0.4 * (random.Float32() - 0.5)
		}
		layers = append(layers, l)
		inputs = outputs
	}
	n, err := lockstep.NewNetwork(layers, lockstep.DefaultScale)
	if err != nil {
		panic(err)
	}
	return n
}

// everyKind is a job of each kind, and four networks, one of them with tanh, of sums of several
// chains, and with an observation of its own; two sample, one expects.
func everyKind(route *lockstep.Route) []lockstep.Job {
	actions := make([]float64, lockstep.TableSteps)
	for i := range actions {
		actions[i] = float64(i%7-3) / 2
	}
	table, err := lockstep.NewTable(map[string][]float64{route.Name: actions})
	if err != nil {
		panic(err)
	}
	wide, narrow, deep := network(256, 40), network(3), network(512, 320, 300)
	deep.Layers[1].Tanh = true
	declared, err := recorded.Wide()
	if err != nil {
		panic(err)
	}
	pidff := lockstep.PIDFF{
		P:      0.2,
		I:      0.1,
		D:      -0.05,
		FF:     [4]float64{0.1, 0.2, -0.1, 0.05},
		FFV:    0.3,
		Smooth: 0.2,
		Leak:   0.05,
	}
	return []lockstep.Job{
		{Route: route, Policy: wide},
		{Route: route, Policy: pidff},
		{Route: route, Policy: declared, Sampling: &lockstep.Sampling{Seed: 3, ID: 1}},
		{Route: route, Policy: narrow, Sampling: &lockstep.Sampling{Seed: 1 << 40, ID: 7}},
		{Route: route, Policy: table},
		{Route: route, Policy: lockstep.DefaultPID(), Expected: true},
		{Route: route, Policy: deep},
		{Route: route, Policy: wide},
	}
}

// TestEveryKind has all kinds in blocks of every size and with few threads, each as it
// is in the reference; they are one upload, one launch and one download.
func TestEveryKind(t *testing.T) {
	route := shorten(routes()[0], 103)
	jobs := everyKind(route)
	opts := lockstep.Options{Shortcuts: lockstep.CostOnly, Trajectory: true}
	var want []*trace
	for _, c := range []struct{ size, threads int }{{1, 256}, {2, 96}, {6, 256}, {6, 32}} {
		t.Run(fmt.Sprintf("blocks of %d, %d threads", c.size, c.threads), func(t *testing.T) {
			s := newSimulatorOn(
				t, Config{RoutesPerBlock: c.size, Threads: c.threads},
				emulated.Options{Order: emulated.Shuffled},
			)
			if want == nil {
				want = traces(t, newReference(t, s.Profile()), jobs, opts)
			}
			for i, got := range traces(t, s, jobs, opts) {
				if d := got.difference(want[i]); d != "" {
					t.Errorf("job %d, %v: %s", i, jobs[i].Policy, d)
				}
			}
			before := s.Stats()
			for i, got := range results(t, s, context.Background(), jobs, opts) {
				if d := resultDifference(got, want[i].result); d != "" {
					t.Errorf("job %d, %v: %s", i, jobs[i].Policy, d)
				}
			}
			if c := s.Stats().Sub(before); c.Uploads != 1 || c.Launches != 1 || c.Downloads != 1 ||
				c.Synchronisations != 1 {
				t.Errorf("%+v, want one upload, launch, synchronisation and download", c.Counts)
			}
		})
	}
}

// TestRaces: between two barriers no thread comes to memory where another was, if one of the two
// writes. Of the threads that the CPU takes in turn few would see it.
func TestRaces(t *testing.T) {
	sources, err := translate.Watched(kernels.Sources)
	if err != nil {
		t.Fatal(err)
	}
	sources["variants.h"] = &fstest.MapFile{Data: []byte("#define LOCKSTEP_VARIANTS(V) V(6)\n")}
	jobs := everyKind(shorten(routes()[0], 102))
	fails := jobs[1]                                          // where no network acts
	jobs = []lockstep.Job{jobs[0], jobs[2], jobs[6], jobs[7]} // networks, of which one comes twice
	s := newSimulatorOn(
		t, Config{RoutesPerBlock: 6}, emulated.Options{Sources: sources, Watched: true},
	)
	opts := lockstep.Options{Shortcuts: lockstep.CostOnly, Trajectory: true}
	want := traces(t, newReference(t, s.Profile()), jobs, opts)
	for i, got := range traces(t, s, jobs, opts) {
		if d := got.difference(want[i]); d != "" {
			t.Errorf("job %d, %v: %s", i, jobs[i].Policy, d)
		}
	}
	fails.Route = shorten(fails.Route, fails.Route.Len())
	fails.Route.TargetLataccel = slices.Clone(fails.Route.TargetLataccel)
	fails.Route.TargetLataccel[95] = math.NaN()
	got := results(t, s, context.Background(), []lockstep.Job{fails}, opts)[0].Err
	simtest.Refused(t, "a context with NaN", got, "step 100: lataccel NaN has no token")
}

// TestSampledSides: variates of distributions that lean to either side, to none, and as far as
// they can, are the reference's. Networks of no weights have their biases as outputs.
func TestSampledSides(t *testing.T) {
	route := shorten(routes()[0], 103)
	route.Seed = 0 // a seed as others
	var jobs []lockstep.Job
	for _, bias := range [][]float32{
		{2, -1}, {-1, 2}, {0.5, 0.4}, {0, 0}, {90, -90}, {-90, 90}, {-90, -90}, {90, 90},
	} {
		n, err := lockstep.NewNetwork(
			[]lockstep.Layer{{
				Inputs:  lockstep.ObservationSize,
				Outputs: lockstep.ActorSize,
				Weights: make([]float32, lockstep.ObservationSize*lockstep.ActorSize),
				Bias:    bias,
			}}, lockstep.DefaultScale,
		)
		if err != nil {
			t.Fatal(err)
		}
		for id := range uint64(3) {
			jobs = append(
				jobs,
				lockstep.Job{
					Route: route, Policy: n,
					Sampling: &lockstep.Sampling{Seed: 5 << 33, ID: id << 31},
				},
			)
		}
	}
	opts := lockstep.Options{Shortcuts: lockstep.CostOnly, Trajectory: true}
	s := newSimulator(t, Config{RoutesPerBlock: 1})
	want := results(t, newReference(t, s.Profile()), context.Background(), jobs, opts)
	for i, got := range results(t, s, context.Background(), jobs, opts) {
		if d := resultDifference(got, want[i]); d != "" {
			t.Errorf("job %d, %v: %s", i, jobs[i].Policy, d)
		}
	}
}

// TestCollectLedger: training data comes down at the end of one launch, whatever its
// steps, and observations go one way in one.
func TestCollectLedger(t *testing.T) {
	s := newSimulator(t, Config{})
	policy := network(16)
	for _, rows := range []int{103, 113} {
		var jobs []lockstep.Job
		for i := range 3 {
			jobs = append(
				jobs,
				lockstep.Job{
					Route:    shorten(routes()[i], rows),
					Policy:   policy,
					Sampling: &lockstep.Sampling{ID: uint64(i)},
				},
			)
		}
		before := s.Stats()
		e, err := s.Collect(context.Background(), jobs)
		if err != nil || e.Results[0].Err != nil {
			t.Fatal(err, e.Results[0].Err)
		}
		if c := s.Stats().Sub(before); c.Uploads != 1 || c.Launches != 1 || c.Downloads != 1 ||
			c.Synchronisations != 1 {
			t.Errorf(
				"%d rows: %+v, want one upload, launch, synchronisation and download", rows,
				c.Counts,
			)
		}
		before = s.Stats()
		into := make([]float32, 3*(rows-100)*lockstep.ObservationSize)
		if err := s.Observe(e, nil, into); err != nil {
			t.Fatal(err)
		}
		if c := s.Stats().Sub(before); c.Uploads != 1 || c.Launches != 1 ||
			c.DownloadBytes != int64(4*len(into)) {
			t.Errorf(
				"%d rows: observing them takes %+v, want one upload, launch and download", rows,
				c.Counts,
			)
		}
		few := make([]float32, len(into))
		s.config.MemoryLimit = 4 << 10
		if err := s.Observe(e, nil, few); !errors.Is(err, driver.ErrOutOfMemory) {
			t.Errorf("an observation fits 4 KiB: %v", err)
		}
		s.config.MemoryLimit = 24 << 10
		if err := errors.Join(s.Observe(e, nil, few),
			simtest.Same("observations", few, into)); err != nil {
			t.Errorf("%s in little memory, %d rows, against itself: %v", s.Name(), rows, err)
		}
		s.config.MemoryLimit = 0
	}
}

// TestCollectOnDevice: what rollouts leave stays on the device, in the bits of Collect,
// and so do observations; of it all the host has statuses and costs.
func TestCollectOnDevice(t *testing.T) {
	s := newSimulator(t, Config{})
	ctx := context.Background()
	policy := network(16)
	broken := shorten(routes()[2], 110)
	broken.VEgo = slices.Clone(broken.VEgo)
	broken.VEgo[104] = math.NaN()
	var jobs []lockstep.Job
	for i, route := range []*lockstep.Route{
		shorten(routes()[0], 103), shorten(routes()[1], 113), broken, shorten(routes()[0], 103),
	} {
		jobs = append(
			jobs,
			lockstep.Job{Route: route, Policy: policy, Sampling: &lockstep.Sampling{ID: uint64(i)}},
		)
	}
	want, err := s.Collect(ctx, jobs)
	if err != nil {
		t.Fatal(err)
	}
	before := s.Stats()
	x, err := s.CollectOnDevice(ctx, jobs)
	if err != nil {
		t.Fatal(err)
	}
	if c := s.Stats().Sub(before); c.Launches != 1 || c.DownloadBytes > 1024 {
		t.Errorf("%+v, want one launch, and statuses and costs alone to come down", c.Counts)
	}
	e := x.Experience()
	for i := range jobs {
		if e.Results[i].Costs != want.Results[i].Costs || (e.Results[i].Err == nil) != (i != 2) ||
			e.Steps(i) != want.Steps(i) {
			t.Errorf("rollout %d: %+v, want %+v", i, e.Results[i], want.Results[i])
		}
	}
	a := x.Arrays()
	same(t, s, "raw", a.Raw, want.Raw)
	same(t, s, "softplus", a.Softplus, want.Softplus)
	same(t, s, "reward", a.Reward, want.Reward)
	same(t, s, "lataccel", a.Lataccel, want.Lataccel)
	same(t, s, "action", a.Action, want.Action)

	places := []lockstep.Place{{Rollout: 1, Step: 12}, {Rollout: 3, Step: 0}, {Rollout: 0, Step: 2}}
	observed := make([]float32, len(places)*lockstep.ObservationSize)
	if err := s.Observe(want, places, observed); err != nil {
		t.Fatal(err)
	}
	var into driver.Pointer
	if err := s.use(ctx, nil, func(c *connection) (err error) {
		into, err = c.Allocate(int64(4 * len(observed)))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	before = s.Stats()
	for _, n := range []int{1, 3, 2} { // room for places is made twice
		blank := func(c *connection) error { return c.Fill(into, 0, int64(4*len(observed))) }
		if err := errors.Join(s.use(ctx, nil, blank),
			x.Observe(places[:n], uintptr(into))); err != nil {
			t.Fatal(err)
		}
		want := make([]float32, len(observed)) // and nothing behind them
		copy(want, observed[:n*lockstep.ObservationSize])
		same(t, s, fmt.Sprintf("observations of %d places", n), uintptr(into), want)
	}
	if c := s.Stats().Sub(before); c.UploadBytes != 6*16 {
		t.Errorf("%+v, want the places alone to go up", c.Counts)
	}
	for _, p := range []lockstep.Place{
		{Rollout: 0, Step: 3}, {Rollout: 2, Step: 0}, {Rollout: 4}, {Rollout: -1},
	} {
		if err := x.Observe([]lockstep.Place{p}, uintptr(into)); err == nil {
			t.Errorf("place %v is observed", p)
		}
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.CollectOnDevice(ctx,
		[]lockstep.Job{{Route: broken, Policy: lockstep.DefaultPID()}}); err == nil {
		t.Error("gains leave training data")
	}
	s.config.Open = func() (driver.Device, error) { return nil, errors.New("no device") }
	s.disconnect()
	if err := x.Observe(places, uintptr(into)); err == nil {
		t.Error("a device that failed observes")
	}
}

// TestRows: of a route a launch has the rows that its steps have, and where plans are looked at
// those of the last step's plan, as far as the route goes.
func TestRows(t *testing.T) {
	const end, last = 500, 500 - 1 + lockstep.FuturePlanSteps // of the plan of step 499
	for _, c := range []struct {
		kind kind
		rows int
		want int
	}{
		{kind{}, 600, end}, {kind{}, end, end}, {kind{policies: true}, end, end},
		{kind{policies: true}, last, last}, {kind{commands: true}, last, last},
		{kind{commands: true}, last - 1, last - 1}, {kind{teacher: true, draws: true}, 600, end},
		{kind{policies: true}, 600, last}, {kind{commands: true}, 600, last},
	} {
		route := &lockstep.Route{TargetLataccel: make([]float64, c.rows)}
		got := (&task{job: &lockstep.Job{Route: route}, end: end}).rows(c.kind)
		if got != c.want {
			t.Errorf("%+v: %d rows of %d, want %d", c.kind, got, c.rows, c.want)
		}
	}
}

// TestTaken: of places as many are observed at once as fit to the byte, each of its rollout, and
// each rollout and route goes up once.
func TestTaken(t *testing.T) {
	all := routes()[:2]
	e := &lockstep.Experience{Jobs: []lockstep.Job{
		{Route: all[0]}, {Route: all[1]}, {Route: all[0]}, {Route: all[1]},
	}}
	places := []lockstep.Place{{Rollout: 2}, {Rollout: 0, Step: 1}, {Rollout: 2, Step: 2},
		{Rollout: 1}, {Rollout: 3}, {Rollout: 1, Step: 4}}
	rollouts := [][]int{{2}, {2, 0}, {2, 0}, {2, 0, 1}, {2, 0, 1, 3}, {2, 0, 1, 3}}
	for i := range places {
		whole := newExcerpt(e, nil)
		whole.take(places[:i+1], math.MaxInt64)
		_, total := whole.layout(0)
		for _, less := range []int{0, 1} {
			x := newExcerpt(e, nil)
			x.take(places, total-int64(less))
			if len(x.places) != i+1-less {
				t.Errorf("%d bytes less than %d places take hold %d", less, i+1, len(x.places))
			}
		}
		if !slices.Equal(whole.rollouts, rollouts[i]) || len(whole.routes) != 1+i/3 ||
			whole.rows != all[0].Len()+i/3*all[1].Len() {
			t.Errorf("of %d places rollouts %d go up, %d routes, %d rows", i+1, whole.rollouts,
				len(whole.routes), whole.rows)
		}
	}
}

// TestDeclaredOnDevice: what a network declares that it sees stays on the device, too.
func TestDeclaredOnDevice(t *testing.T) {
	s := newSimulator(t, Config{})
	ctx := context.Background()
	policy, err := recorded.Wide()
	if err != nil {
		t.Fatal(err)
	}
	jobs := []lockstep.Job{
		{Route: shorten(routes()[0], 103), Policy: policy},
		{Route: shorten(routes()[1], 102), Policy: policy, Sampling: &lockstep.Sampling{ID: 1}},
	}
	want, err := s.Collect(ctx, jobs)
	if err != nil {
		t.Fatal(err)
	}
	places := []lockstep.Place{{Rollout: 1, Step: 1}, {Rollout: 0, Step: 2}, {Rollout: 1}}
	observed := make([]float32, len(places)*policy.Inputs())
	if err := s.Observe(want, places, observed); err != nil {
		t.Fatal(err)
	}
	x, err := s.CollectOnDevice(ctx, jobs)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	var into driver.Pointer
	if err := s.use(ctx, nil, func(c *connection) (err error) {
		into, err = c.Allocate(int64(4 * len(observed)))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := x.Observe(places, uintptr(into)); err != nil {
		t.Fatal(err)
	}
	same(t, s, "observations", uintptr(into), observed)
}

// same holds numbers on the device to others, bit by bit.
func same[T float32 | float64](t *testing.T, s *Simulator, what string, at uintptr, want []T) {
	t.Helper()
	got := make([]T, len(want))
	err := s.use(context.Background(), nil, func(c *connection) error {
		if err := c.Download(viewBytes(got), driver.Pointer(at)); err != nil {
			return err
		}
		return s.synchronize(context.Background(), c, 0)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := simtest.SameBits(what, got, want); err != nil {
		t.Errorf("%s, on the device against what Collect brings: %v", s.Name(), err)
	}
}

// TestRollLedger: candidates are begun and rolled on in one launch, from snapshots that
// go up once.
func TestRollLedger(t *testing.T) {
	s := newSimulator(t, Config{})
	ctx := context.Background()
	p := reset(
		t, s,
		[]lockstep.Job{{Route: shorten(routes()[0], 110)}, {Route: shorten(routes()[1], 520)}},
		lockstep.Options{Shortcuts: lockstep.CostOnly},
	)
	through := make([]float64, 2*80)
	if err := p.Roll(ctx, through, make([]float64, 2), nil); err != nil || p.Index() != 100 {
		t.Fatal(err, p.Index())
	}
	first := broughtAtOnce(t, s, p)
	onHost := reset(t, s, []lockstep.Job{
		{Route: shorten(routes()[0], 110), Observe: func(*lockstep.Step) {}},
		{Route: shorten(routes()[1], 520)}, // it costs up to step 499
	}, lockstep.Options{Shortcuts: lockstep.CostOnly})
	before := s.Stats()
	if err := onHost.Restore(ctx, first); err != nil {
		t.Fatal(err)
	}
	if c := s.Stats().Sub(before); c.DownloadBytes > 1024 {
		t.Errorf("%+v to restore, want no traces to come down", c.Counts)
	}
	rolledAlike(t, p, onHost)
	shot := broughtAtOnce(t, s, p)
	forkObserved(t, s, p, shot)
	uploads := map[int]int64{}
	var costs []float64
	for _, m := range []int{20, 2} {
		index := make([]int, m)
		for k := range index {
			index[k] = k % 2
		}
		before := s.Stats()
		f, err := p.Fork(ctx, shot, index, lockstep.Noise{Kind: lockstep.RouteNoise})
		if err != nil {
			t.Fatal(err)
		}
		costs = make([]float64, m)
		if err := f.Roll(ctx, make([]float64, 2*m), costs, nil); err != nil {
			t.Fatal(err)
		}
		c := s.Stats().Sub(before)
		if c.Launches != 1 || c.Uploads != 2 || c.Downloads != 2 {
			t.Errorf(
				"%d candidates: %+v, want one launch, uploads of snapshots and of commands, "+
					"downloads of costs and of how they stand",
				m, c.Counts,
			)
		}
		uploads[m] = c.UploadBytes
		for k := range costs {
			if !(costs[k] > 0) || costs[k] != costs[k%2] {
				t.Errorf(
					"candidate %d costs %v, the first of its origin %v", k, costs[k], costs[k%2],
				)
			}
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	onward := rolledAlike(t, p, onHost)
	if err := simtest.Same("costs of candidates against those of their origins", costs,
		onward); err != nil {
		t.Error(err)
	}
	if more := uploads[20] - uploads[2]; more > 18*(200+3*8) {
		t.Errorf("18 candidates more upload %d bytes: snapshots or draws go up with each", more)
	}
}

// broughtAtOnce is a snapshot of what was computed, for which one download is enough.
func broughtAtOnce(t *testing.T, s *Simulator, p lockstep.Stepper) *lockstep.Snapshot {
	t.Helper()
	before := s.Stats()
	shot, err := p.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if c := s.Stats().Sub(before); c.Launches != 0 || c.Downloads != 1 {
		t.Errorf("%+v to bring what was computed, want one download", c.Counts)
	}
	return shot
}

// rolledAlike rolls two rollouts on by two steps of no command, at once on the device and step by
// step, and by a step of other commands, and returns what the two cost.
func rolledAlike(t *testing.T, onDevice, onHost lockstep.Stepper) []float64 {
	t.Helper()
	costs, want := make([]float64, 2), make([]float64, 2)
	now, then, commands := make([]float64, 2), make([]float64, 2), []float64{0.5, -0.5}
	path, along := make([]float64, 4), make([]float64, 4)
	if err := errors.Join(
		onDevice.Roll(t.Context(), make([]float64, 4), costs, path),
		onHost.Roll(t.Context(), make([]float64, 4), want, along),
		simtest.Same("costs on the device against those on the host", costs, want),
		simtest.SameBits("lataccels on the device against those on the host", path, along),
		simtest.SameBits("the last of them",
			[]float64{onDevice.Lataccel(0), onDevice.Lataccel(1)}, along[2:]),
		onDevice.Step(t.Context(), commands, now), onHost.Step(t.Context(), commands, then),
		simtest.SameBits("lataccels of a step behind them", now, then),
	); err != nil {
		t.Fatal(err)
	}
	if b := onDevice.(*stepper).engine.batch.block; b.Partial != 0 || b.Path != 0 {
		t.Errorf("a step behind Roll has Roll's memory, which is others' now: %x and %x", b.Partial,
			b.Path)
	}
	return costs
}

// forkObserved: a candidate is observed before it was rolled on, as its origin is, wherever it is
// asked for.
func forkObserved(t *testing.T, s *Simulator, p lockstep.Stepper, shot *lockstep.Snapshot) {
	t.Helper()
	const size = lockstep.ObservationSize
	f, err := p.Fork(t.Context(), shot, []int{1, 0}, lockstep.Noise{Kind: lockstep.RouteNoise})
	if err != nil {
		t.Fatal(err)
	}
	want := make([]float32, 2*size)
	if err := p.Observe(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	want = slices.Concat(want[size:], want[:size])
	at, err := f.(lockstep.DeviceStepper).ObserveOnDevice(0)
	if err != nil {
		t.Fatal(err)
	}
	same(t, s, "candidates observed there", at, want)
	g, err := p.Fork(t.Context(), shot, []int{1, 0}, lockstep.Noise{Kind: lockstep.RouteNoise})
	if err != nil {
		t.Fatal(err)
	}
	got := make([]float32, 2*size)
	if err := errors.Join(
		simtest.SameBits("candidates' lataccels", []float64{g.Lataccel(0), g.Lataccel(1)},
			[]float64{p.Lataccel(1), p.Lataccel(0)}),
		g.Observe(t.Context(), got), simtest.Same("candidates observed", got, want), f.Close(),
		g.Close(),
	); err != nil {
		t.Fatal(err)
	}
}

// TestTables: each table steers its job, by the row of the job's route, whichever others go up.
func TestTables(t *testing.T) {
	all := []*lockstep.Route{shorten(routes()[0], 102), shorten(routes()[1], 103)}
	var jobs []lockstep.Job
	for k := range 3 {
		actions := map[string][]float64{}
		for i, r := range all {
			row := make([]float64, lockstep.TableSteps)
			for j := range row {
				row[j] = float64((j+k+3*i)%7-3) / 2
			}
			actions[r.Name] = row
		}
		table, err := lockstep.NewTable(actions)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range all {
			jobs = append(jobs, lockstep.Job{Route: r, Policy: table})
		}
	}
	opts := lockstep.Options{Shortcuts: lockstep.CostOnly, Trajectory: true}
	s := newSimulator(t, Config{})
	want := results(t, newReference(t, s.Profile()), t.Context(), jobs, opts)
	for i, got := range results(t, s, t.Context(), jobs, opts) {
		if d := resultDifference(got, want[i]); d != "" {
			t.Errorf("job %d: %s", i, d)
		}
	}
}

// TestKinds: of a launch a job needs what it says, and what it was not told of it does not need.
func TestKinds(t *testing.T) {
	declared, taught := network(8), &lockstep.Trajectory{}
	for _, c := range []struct {
		run  run
		job  lockstep.Job
		want kind
	}{
		{run{}, lockstep.Job{Policy: lockstep.Zero{}}, kind{}},
		{run{}, lockstep.Job{Policy: lockstep.DefaultPID()}, kind{}},
		{run{}, lockstep.Job{Policy: lockstep.Zero{}, Expected: true}, kind{policies: true}},
		{run{}, lockstep.Job{Policy: lockstep.PIDFF{}}, kind{policies: true}},
		{run{}, lockstep.Job{Policy: declared}, kind{policies: true}},
		{run{}, lockstep.Job{Policy: weavePolicy}, kind{commands: true}},
		{run{}, lockstep.Job{Policy: weavePolicy, Expected: true},
			kind{commands: true, policies: true}},
		{run{}, lockstep.Job{Policy: lockstep.Zero{}, Teacher: taught}, kind{teacher: true}},
		{run{}, lockstep.Job{Policy: lockstep.Zero{}, Draws: []float64{0}}, kind{draws: true}},
		{run{}, lockstep.Job{Policy: lockstep.Zero{}, Observe: func(*lockstep.Step) {}},
			kind{traced: true}},
		{run{opts: lockstep.Options{Trajectory: true}}, lockstep.Job{Policy: lockstep.Zero{}},
			kind{trajectory: true}},
		{run{training: &lockstep.Experience{}}, lockstep.Job{Policy: declared},
			kind{policies: true, training: true}},
		{run{training: &lockstep.Experience{}, kept: &experience{}}, lockstep.Job{Policy: declared},
			kind{policies: true, training: true, kept: true}},
	} {
		if got := c.run.kind(&c.job); got != c.want {
			t.Errorf("%+v needs %+v, want %+v", c.job, got, c.want)
		}
	}
}
