package gpu

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"

	"lockstep"
	"lockstep/gpu/internal/driver"
	"lockstep/gpu/internal/driver/emulated"
	"lockstep/gpu/internal/kernels"
	"lockstep/internal/simtest"
)

// TestProfiles holds every stage of every step to the reference, in every profile
// of the network and the softmax.
func TestProfiles(t *testing.T) {
	whole, seen := simtest.Whole(t), map[string]bool{}
	for _, p := range lockstep.Profiles() {
		if p.CSV != lockstep.CSV2 || p.Sin != lockstep.SinFMA {
			continue // of the route's making
		}
		if Lacks(p) != nil {
			continue // TestLacks
		}
		known := len(seen)
		for _, form := range strings.Split(p.String(), "-") {
			seen[form] = true
		}
		if len(seen) == known && !whole {
			continue // each of its forms has been computed, in another profile
		}
		s := newSimulator(t, Config{Profile: p})
		jobs := []lockstep.Job{
			{Route: shorten(routes()[0], 108), Policy: lockstep.DefaultPID()},
			{Route: shorten(routes()[1], 101), Policy: lockstep.Zero{}},
		}
		opts := lockstep.Options{Shortcuts: lockstep.AllSteps, Trajectory: true}
		want := traces(t, newReference(t, p), jobs, opts)
		for i, got := range traces(t, s, jobs, opts) {
			if d := got.difference(want[i]); d != "" {
				t.Errorf(
					"profile %v, route %s, controller %v: %s", p, jobs[i].Route.Name,
					jobs[i].Policy, d,
				)
			}
		}
		s.Close()
	}
}

// TestLacks: a profile whose arithmetic the kernels do not have is refused, by the words
// that are lacking; all others are not.
func TestLacks(t *testing.T) {
	for _, p := range lockstep.Profiles() {
		err := Lacks(p)
		var want []string
		for _, word := range strings.Split(p.String(), "-") {
			if slices.Contains([]string{"ort1.30arm", "neon", "expC"}, word) {
				want = append(want, "no "+word)
			}
		}
		if (err != nil) != (want != nil) ||
			err != nil && !strings.Contains(err.Error(), strings.Join(want, ", ")+": ") {
			t.Errorf("%v: %v, want %q", p, err, want)
		}
	}
	arm := lockstep.Profile{
		LayerNorm: lockstep.LayerNorm130ARM,
		Softmax:   lockstep.SoftmaxNEON,
		Exp:       lockstep.ExpC,
	}
	if s, err := New(Config{Profile: arm}); err == nil || err.Error() != Lacks(arm).Error() {
		t.Errorf("a simulator of the profile %v: %v, %v", arm, s, err)
	}
}

// TestShortcuts holds every combination of shortcuts to the reference.
func TestShortcuts(t *testing.T) {
	s := newSimulator(t, Config{})
	ref := newReference(t, s.Profile())
	all := routes()
	jobs := []lockstep.Job{
		{Route: shorten(all[1], 101), Policy: lockstep.DefaultPID()},
		{Route: shorten(all[2], 115), Policy: lockstep.Zero{}},
		{Route: shorten(all[3], 503), Policy: lockstep.DefaultPID()},
	}
	whole := simtest.Whole(t)
	for shortcuts := range lockstep.CostOnly + 1 {
		opts := lockstep.Options{Shortcuts: shortcuts, Trajectory: shortcuts%2 == 0}
		jobs := jobs
		long := shortcuts == lockstep.CostOnly || shortcuts == lockstep.FullTrajectory && whole
		if !long {
			jobs = jobs[:2] // the long one takes its time
		}
		want := traces(t, ref, jobs, opts)
		for i, got := range traces(t, s, jobs, opts) {
			if d := got.difference(want[i]); d != "" {
				t.Errorf("shortcuts %d, route %s: %s", shortcuts, jobs[i].Route.Name, d)
			}
		}
	}
}

// TestTeacher forces rollouts onto trajectories and draws that they would never
// take, some of the jobs of a batch, and holds all to the reference.
func TestTeacher(t *testing.T) {
	s := newSimulator(t, Config{})
	ref := newReference(t, s.Profile())
	random := rand.New(rand.NewPCG(1, 2))
	var jobs []lockstep.Job
	for i, route := range routes()[:3] {
		route = shorten(route, 115+i)
		taught := &lockstep.Trajectory{}
		for range route.Len() {
			taught.Lataccel = append(taught.Lataccel, 12*random.Float64()-6)
			taught.Action = append(taught.Action, 6*random.Float64()-3)
		}
		for _, policy := range []lockstep.Policy{lockstep.DefaultPID(), weavePolicy} {
			jobs = append(
				jobs, lockstep.Job{Route: route, Policy: policy},
				lockstep.Job{Route: route, Policy: policy, Teacher: taught},
			)
		}
	}
	draws := make([]float64, 115)
	for i := range draws {
		draws[i] = float64(i) / 115
	}
	jobs = append(
		jobs, lockstep.Job{Route: jobs[0].Route, Policy: lockstep.Zero{}, Draws: draws},
		lockstep.Job{
			Route:   jobs[0].Route,
			Policy:  weavePolicy,
			Draws:   draws,
			Teacher: jobs[1].Teacher,
		},
	)
	faulty := map[int]string{
		len(jobs):     "the teacher has 0 lataccels and 0 actions, want 115 of each",
		len(jobs) + 1: "3 draws are given, want 95",
	}
	jobs = append(
		jobs,
		lockstep.Job{
			Route:   jobs[0].Route,
			Policy:  lockstep.Zero{},
			Teacher: &lockstep.Trajectory{},
		},
		lockstep.Job{Route: jobs[0].Route, Policy: lockstep.Zero{}, Draws: draws[:3]},
	)
	for _, shortcuts := range []lockstep.Shortcuts{lockstep.AllSteps, lockstep.CostOnly} {
		opts := lockstep.Options{Shortcuts: shortcuts, Trajectory: true}
		want := traces(t, ref, jobs, opts)
		for i, got := range traces(t, s, jobs, opts) {
			if message, ok := faulty[i]; ok {
				if !contains(got.result.Err, message) {
					t.Errorf("job %d: error %v, want %s", i, got.result.Err, message)
				}
			} else if d := got.difference(want[i]); d != "" {
				t.Errorf("job %d, shortcuts %d: %s", i, shortcuts, d)
			}
		}
	}
}

// weave is a controller whose answers depend on all that it sees.
type weave struct{ memory float64 }

func (w *weave) Update(
	target, current float64, state lockstep.State, plan lockstep.FuturePlan,
) float64 {
	w.memory = float64(0.9*w.memory) + target - current
	sum := float64(0.2*w.memory) - float64(0.01*state.RollLataccel) + float64(1e-4*state.VEgo) +
		float64(1e-3*state.AEgo)
	for i, x := range plan.Lataccel {
		sum += float64(0.01*x) + float64(1e-4*plan.VEgo[i]) + float64(1e-3*plan.RollLataccel[i]) +
			float64(1e-3*plan.AEgo[i])
	}
	return sum
}

// weaves is weave for several routes at once.
type weaves struct{ each []weave }

func (w *weaves) Update(s *lockstep.BatchStep) error {
	for i := range w.each {
		if s.Running[i] {
			s.Steer[i] = w.each[i].Update(
				s.TargetLataccel[i], s.CurrentLataccel[i], s.State[i], s.Plan[i],
			)
		}
	}
	return nil
}

func (w *weaves) Close() error {
	weavesOpen.Add(-1)
	return nil
}

// weavesOpen counts the batch controllers in use.
var weavesOpen atomic.Int64

var (
	weavePolicy = lockstep.Custom{
		Name: "weave",
		New:  func() lockstep.Controller { return &weave{} },
	}
	weavesPolicy = &lockstep.Batch{
		Name: "weaves",
		New: func(routes []*lockstep.Route) (lockstep.BatchController, error) {
			weavesOpen.Add(1)
			return &weaves{make([]weave, len(routes))}, nil
		},
	}
)

// TestBatchInvariance draws batches of short routes, in any order and of any
// size, for any blocks, in memory for all or few of them, and holds each route's
// every bit to what the reference gives for it alone.
func TestBatchInvariance(t *testing.T) {
	type size struct{ routes, threads int }
	simulators := map[size]*Simulator{}
	for _, c := range []size{{0, 0}, {1, 32}, {2, 64}, {4, 128}, {5, 256}, {6, 256}} {
		simulators[c] = newSimulator(t, Config{RoutesPerBlock: c.routes, Threads: c.threads})
	}
	var sizes []size
	for c := range simulators {
		sizes = append(sizes, c)
	}
	slices.SortFunc(sizes, func(a, b size) int { return a.routes - b.routes })
	ref := newReference(t, lockstep.Profile{})

	type key struct {
		route, rows, policy int
		shortcuts           lockstep.Shortcuts
	}
	ways := []lockstep.Policy{
		lockstep.Zero{}, lockstep.DefaultPID(), lockstep.PID{P: 2, I: -0.3, D: 0.7}, weavePolicy,
		weavesPolicy,
	}
	alone := map[key]*trace{}
	want := func(t *rapid.T, k key, job lockstep.Job) *trace {
		if alone[k] == nil {
			alone[k] = traces(t, ref, []lockstep.Job{job},
				lockstep.Options{Shortcuts: k.shortcuts, Trajectory: true})[0]
		}
		return alone[k]
	}
	rapid.Check(t, func(t *rapid.T) {
		c := rapid.SampledFrom(sizes).Draw(t, "routes per block, threads")
		s := simulators[c]
		s.config.MemoryLimit = rapid.SampledFrom([]int64{0, 2 << 20, 300 << 10}).Draw(t, "memory")
		shortcuts := rapid.SampledFrom(
			[]lockstep.Shortcuts{lockstep.CostOnly, lockstep.FullTrajectory, lockstep.SkipWarmup},
		).Draw(t, "shortcuts")
		n := rapid.SampledFrom([]int{1, 2, 3, 7, 13}).Draw(t, "jobs")
		ways := ways
		if rapid.IntRange(0, 3).Draw(t, "controllers on the host, if 0") != 0 {
			ways = ways[:3]
		}
		keys, jobs := make([]key, n), make([]lockstep.Job, n)
		for i := range jobs {
			k := key{
				route:     rapid.IntRange(0, 2).Draw(t, "route"),
				rows:      rapid.IntRange(101, 104).Draw(t, "rows"),
				policy:    rapid.IntRange(0, len(ways)-1).Draw(t, "policy"),
				shortcuts: shortcuts,
			}
			keys[i] = k
			jobs[i] = lockstep.Job{
				Route:  shorten(routes()[k.route], k.rows),
				Policy: ways[k.policy],
			}
		}
		opts := lockstep.Options{Shortcuts: shortcuts, Trajectory: true}
		if rapid.Bool().Draw(t, "traced") {
			for i, got := range traces(t, s, jobs, opts) {
				if d := got.difference(want(t, keys[i], jobs[i])); d != "" {
					t.Fatalf(
						"job %d of %d, route %s, controller %v: %s", i, n, jobs[i].Route.Name,
						jobs[i].Policy, d,
					)
				}
			}
		} else {
			for i, got := range results(t, s, context.Background(), jobs, opts) {
				if d := resultDifference(got, want(t, keys[i], jobs[i]).result); d != "" {
					t.Fatalf("job %d of %d, route %s, controller %v: %s", i, n,
						jobs[i].Route.Name, jobs[i].Policy, d)
				}
			}
		}
		if n := weavesOpen.Load(); n != 0 {
			t.Fatalf("%d batch controllers were not closed", n)
		}
	})
}

// TestLedger counts what passes for N routes: one upload, one launch, one
// download and nothing for a step; with too little memory one of each for a part.
func TestLedger(t *testing.T) {
	s := newSimulator(t, Config{})
	one := lockstep.Options{Shortcuts: lockstep.CostOnly}
	for _, n := range []int{1, 5, 9 * len(policies)} {
		for _, rows := range []int{101, 130} {
			ledgerOfBatch(t, s, someJobs(n, rows), rows, one)
		}
	}
	ledgerOfSweep(t, s, one)
	ledgerOfSteps(t, s, someJobs(5, 130), one)
}

// someJobs are jobs of every policy on each of three routes in turn, whose rows are cut off; each
// job has a route of its own.
func someJobs(n, rows int) (jobs []lockstep.Job) {
	for i := range n {
		jobs = append(jobs, lockstep.Job{
			Route:  shorten(routes()[i/len(policies)%3], rows),
			Policy: policies[i%len(policies)],
		})
	}
	return jobs
}

func ledgerOfBatch(
	t *testing.T, s *Simulator, batch []lockstep.Job, rows int, opts lockstep.Options,
) {
	t.Helper()
	n, before := len(batch), s.Stats()
	for _, r := range results(t, s, context.Background(), batch, opts) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	got := s.Stats().Sub(before)
	if got.Uploads != 1 || got.Launches < 1 || got.Launches > 2 || got.Downloads != 1 ||
		got.Synchronisations != 1 {
		t.Errorf(
			"%d jobs of %d steps: %+v, want one upload, synchronisation and download, "+
				"and two launches at most",
			n, rows-20, got.Counts,
		)
	}
	if limit := int64(2048 + 256*n); got.DownloadBytes > limit {
		t.Errorf(
			"%d jobs of %d steps: %d bytes were downloaded, want %d at most", n, rows-20,
			got.DownloadBytes, limit,
		)
	}
	if got.Upload != 0 || got.Kernel != 0 || got.Download != 0 || got.Wall != 0 {
		t.Errorf("times were taken: %+v", got)
	}
}

// ledgerOfSweep: a sweep uploads a route's columns once.
func ledgerOfSweep(t *testing.T, s *Simulator, opts lockstep.Options) {
	t.Helper()
	route := shorten(routes()[0], 130)
	uploaded := func(n int) int64 {
		var jobs []lockstep.Job
		for i := range n {
			jobs = append(jobs, lockstep.Job{Route: route, Policy: lockstep.PID{P: float64(i)}})
		}
		before := s.Stats()
		results(t, s, context.Background(), jobs, opts)
		return s.Stats().Sub(before).UploadBytes
	}
	if one, many := uploaded(1), uploaded(20); many-one > 20*160 {
		t.Errorf(
			"a sweep of 20 uploads %d bytes, one rollout %d: the route is there more than once",
			many, one,
		)
	}
}

// ledgerOfSteps: of each step a command goes up and a status down, for each job.
func ledgerOfSteps(t *testing.T, s *Simulator, jobs []lockstep.Job, opts lockstep.Options) {
	t.Helper()
	p := reset(t, s, jobs, opts)
	for range 3 {
		before := s.Stats()
		if err := p.Step(context.Background(), make([]float64, 5), make([]float64, 5)); err != nil {
			t.Fatal(err)
		}
		got := s.Stats().Sub(before)
		if got.Uploads != 1 || got.Launches != 1 || got.Downloads != 1 ||
			got.Synchronisations != 1 ||
			got.Copies != 0 ||
			got.UploadBytes > 512 ||
			got.DownloadBytes > 256 {
			t.Errorf(
				"a step of 5 jobs: %+v, want one upload of 512 bytes, a launch and a download "+
					"of 256 bytes at most",
				got.Counts,
			)
		}
	}
}

// TestTimes takes times when they are asked for.
func TestTimes(t *testing.T) {
	s := newSimulator(t, Config{Timed: true})
	before := s.Stats()
	begin := time.Now()
	for range 2 {
		results(
			t, s, context.Background(),
			[]lockstep.Job{{Route: shorten(routes()[0], 110), Policy: lockstep.DefaultPID()}},
			lockstep.Options{Shortcuts: lockstep.CostOnly},
		)
	}
	wall := time.Since(begin)
	got := s.Stats().Sub(before)
	if got.Kernel <= 0 || got.Kernel > got.Wall || got.Wall > wall || got.Upload < 0 ||
		got.Download < 0 ||
		got.Upload+got.Kernel+got.Download > wall {
		t.Errorf("times %+v of a run of %v", got, wall)
	}
	if got.Sampled != 2*10 || got.Serial > 10 { // before step 100 no token is drawn
		t.Errorf("%d tokens were drawn, %d of them one by one, want 20", got.Sampled, got.Serial)
	}
}

// TestWall: of a run in several launches the time of each counts once, and not what observers take
// in between.
func TestWall(t *testing.T) {
	h := newHollow()
	s := onHollow(func() (driver.Device, error) { return h, nil })
	if _, err := s.Info(); err != nil {
		t.Fatal(err)
	}
	s.config.Timed, s.config.MemoryLimit = true, 400<<10 // there is no device that takes times
	begin := time.Now()
	results(t, s, t.Context(), []lockstep.Job{{
		Route: shorten(routes()[0], 101), Policy: lockstep.Zero{},
		Observe: func(*lockstep.Step) { time.Sleep(time.Millisecond) },
	}}, lockstep.Options{})
	took := time.Since(begin)
	if got := s.Stats(); got.Launches < 3 || got.Wall <= 0 || got.Wall > took/4 {
		t.Errorf("%d launches took %v of %v", got.Launches, got.Wall, took)
	}
}

// TestMemory runs jobs with memory for some of them at a time.
func TestMemory(t *testing.T) {
	var jobs []lockstep.Job
	for i := range 6 {
		jobs = append(
			jobs, lockstep.Job{Route: shorten(routes()[i], 104+i%2), Policy: policies[i%3]},
		)
	}
	opts := lockstep.Options{Shortcuts: lockstep.CostOnly, Trajectory: true}
	ref := newReference(t, lockstep.Profile{})
	want := results(t, ref, context.Background(), jobs, opts)

	s := newSimulator(t, Config{MemoryLimit: 24 << 10})
	before := s.Stats()
	for i, got := range results(t, s, context.Background(), jobs, opts) {
		if d := resultDifference(got, want[i]); d != "" {
			t.Errorf("job %d: %s", i, d)
		}
	}
	if n := s.Stats().Sub(before).Launches; n < 2 || n > 6 {
		t.Errorf("%d launches with little memory, want 2 to 6", n)
	}

	// Traces of one rollout that do not fit are fetched in parts.
	s.config.MemoryLimit = 400 << 10
	before = s.Stats()
	wanted := traces(
		t, ref, jobs[:2], lockstep.Options{Shortcuts: lockstep.AllSteps, Trajectory: true},
	)
	for i, got := range traces(t, s, jobs[:2], lockstep.Options{
		Shortcuts:  lockstep.AllSteps,
		Trajectory: true,
	}) {
		if d := got.difference(wanted[i]); d != "" {
			t.Errorf("job %d: %s", i, d)
		}
	}
	if n := s.Stats().Sub(before).Launches; n < 6 {
		t.Errorf("%d launches for the traces of two rollouts, want each in parts", n)
	}

	s.config.MemoryLimit = 4 << 10
	info, err := s.Info()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results(t, s, context.Background(), jobs, opts) {
		if !errors.Is(r.Err, driver.ErrOutOfMemory) || strings.Contains(r.Err.Error(), "\n") ||
			!contains(r.Err, "KiB of device memory, and "+info.Name+" has 4 KiB left") {
			t.Errorf("without memory: %v", r.Err)
		}
	}
	leastMemory(t, s, jobs[:1], opts)
	s.config.MemoryLimit = 0
	for i, got := range results(t, s, context.Background(), jobs, opts) {
		if d := resultDifference(got, want[i]); d != "" {
			t.Errorf("with memory again: job %d: %s", i, d)
		}
	}
}

// leastMemory: as much memory as is said to be needed is enough, and a KiB less is not.
func leastMemory(t *testing.T, s *Simulator, jobs []lockstep.Job, opts lockstep.Options) {
	t.Helper()
	var needs int64
	err := results(t, s, context.Background(), jobs, opts)[0].Err
	_, text, _ := strings.Cut(fmt.Sprint(err), "one rollout takes ")
	if _, err := fmt.Sscan(text, &needs); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	for _, less := range []int64{1, 0} {
		s.config.MemoryLimit = (needs - less) << 10
		err := results(t, s, context.Background(), jobs, opts)[0].Err
		if (err != nil) != (less > 0) || err != nil && !errors.Is(err, driver.ErrOutOfMemory) {
			t.Errorf("with %d KiB of the %d that are needed: %v", needs-less, needs, err)
		}
	}
}

// TestRoom: a run may take what is free but for a 32nd, what the run before has left to it, and no
// more than the limit; what several runs at once have taken is free again but for one of them.
func TestRoom(t *testing.T) {
	s := newSimulator(t, Config{})
	jobs := []lockstep.Job{{Route: shorten(routes()[0], 101)}}
	memory := func() (free, room, spare int64) {
		t.Helper()
		if err := s.use(t.Context(), nil, func(c *connection) (err error) {
			if c.spare != nil {
				spare = c.spare.bytes
			}
			var failed error
			free, failed = c.FreeMemory()
			room, err = s.room(c)
			return errors.Join(failed, err)
		}); err != nil {
			t.Fatal(err)
		}
		return free, room, spare
	}
	before, room, spare := memory()
	if room != before-before/32 || spare != 0 {
		t.Errorf("of %d bytes a run may take %d, and %d are spare", before, room, spare)
	}
	for _, many := range []int{1, 3} {
		var open []lockstep.Stepper
		for range many {
			open = append(open, reset(t, s, jobs, lockstep.Options{}))
		}
		for _, p := range open {
			p.Close()
		}
		free, room, spare := memory()
		if spare < 101*8 || free != before-spare || room != free-free/32+spare {
			t.Errorf("after %d at once: of %d bytes %d are free, %d spare, and a run may take %d",
				many, before, free, spare, room)
		}
	}
	x, err := s.CollectOnDevice(t.Context(), []lockstep.Job{{
		Route: jobs[0].Route, Policy: network(8),
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(x.Observe(make([]lockstep.Place, 1), x.Arrays().Raw),
		x.Close()); err != nil {
		t.Fatal(err)
	}
	if free, _, spare := memory(); free != before-spare {
		t.Errorf("after what stayed there is closed %d bytes are free, %d spare, of %d", free,
			spare, before)
	}
	_, unlimited, _ := memory()
	for _, limit := range []int64{1, 1000, unlimited - 1, unlimited + 1} {
		s.config.MemoryLimit = limit
		if _, got, _ := memory(); got != min(limit, unlimited) {
			t.Errorf("of %d bytes, with a limit of %d, a run may take %d", unlimited, limit, got)
		}
	}
}

// TestDeviceMemory runs on a device that has little memory, in pieces, too.
func TestDeviceMemory(t *testing.T) {
	onCPU(t)
	var jobs []lockstep.Job
	for i := range 6 {
		jobs = append(jobs, lockstep.Job{Route: shorten(routes()[i], 104), Policy: policies[i%3]})
	}
	opts := lockstep.Options{Shortcuts: lockstep.CostOnly, Trajectory: true}
	want := results(t, newReference(t, lockstep.Profile{}), context.Background(), jobs, opts)
	for _, pieces := range []bool{false, true} {
		s := newSimulator(t, Config{Open: func() (driver.Device, error) {
			d, err := emulated.Open(emulated.Options{Memory: 4 << 20})
			if pieces {
				return &fragmented{Device: d}, err
			}
			return d, err
		}})
		for i, got := range results(t, s, context.Background(), jobs, opts) {
			if d := resultDifference(got, want[i]); d != "" {
				t.Errorf("job %d: %s", i, d)
			}
		}
	}
	path, err := modelPath()
	if err != nil {
		t.Fatal(err)
	}
	_, err = New(Config{ModelPath: path, Open: func() (driver.Device, error) {
		return emulated.Open(emulated.Options{Memory: 1 << 20})
	}})
	if !errors.Is(err, driver.ErrOutOfMemory) || !contains(err, "bytes for the network's weights") {
		t.Errorf("without memory for the weights: %v", err)
	}
}

// fragmented is a device that never has much memory in one piece.
type fragmented struct{ driver.Device }

func (f *fragmented) Allocate(bytes int64) (driver.Pointer, error) {
	if bytes < 3<<20 && bytes > 40<<10 {
		return 0, fmt.Errorf("%d bytes in one piece: %w", bytes, driver.ErrOutOfMemory)
	}
	return f.Device.Allocate(bytes)
}

// TestFaults runs jobs that fail among others that must not notice.
func TestFaults(t *testing.T) {
	s := newSimulator(t, Config{})
	good := shorten(routes()[0], 114)
	edit := func(f func(*lockstep.Route)) *lockstep.Route {
		r := *good
		r.Name = "edited"
		for _, c := range r.Columns() {
			*c = slices.Clone(*c)
		}
		f(&r)
		return &r
	}
	at := func(step int, f func() float64) lockstep.Policy {
		return lockstep.Custom{
			Name: "bad",
			New:  func() lockstep.Controller { return &failing{step: step, f: f} },
		}
	}
	batch := func(update func(s *lockstep.BatchStep) error) *lockstep.Batch {
		return &lockstep.Batch{
			Name: "broken",
			New: func([]*lockstep.Route) (lockstep.BatchController, error) {
				return brokenBatch{update}, nil
			},
		}
	}
	at104 := func(f func(s *lockstep.BatchStep) error) func(s *lockstep.BatchStep) error {
		return func(s *lockstep.BatchStep) error {
			if s.Step == 104 {
				return f(s)
			}
			return nil
		}
	}
	opts := lockstep.Options{Shortcuts: lockstep.CostOnly, Trajectory: true}
	onDevice := results(t, s, context.Background(),
		[]lockstep.Job{{Route: good, Policy: lockstep.DefaultPID()}}, opts)[0]
	onHost := results(t, s, context.Background(),
		[]lockstep.Job{{Route: good, Policy: weavePolicy}}, opts)[0]
	if onDevice.Err != nil || onHost.Err != nil {
		t.Fatal(onDevice.Err, onHost.Err)
	}
	seen, last := 0, 0
	for _, c := range []struct {
		name string
		bad  lockstep.Job
		want string // part of the error
	}{
		{"controller panics", lockstep.Job{Route: good, Observe: func(s *lockstep.Step) {
			last = s.Index
		}, Policy: at(107, func() float64 { panic("out of fuel") })}, "controller bad, step " +
			"107: panic: out of fuel"},
		{"controller panics in the warm-up",
			lockstep.Job{Route: good, Policy: at(30, func() float64 { panic("out of fuel") })},
			"step 30: panic: out of fuel"},
		{"controller answers NaN", lockstep.Job{Route: good, Policy: at(111, math.NaN)},
			"step 111: probabilities contain NaN"},
		{"no controller", lockstep.Job{Route: good,
			Policy: lockstep.Custom{Name: "bad",
				New: func() lockstep.Controller { return nil }}},
			"controller bad, step 0: the policy made no controller"},
		{"making the controller panics",
			lockstep.Job{Route: good, Policy: lockstep.Custom{Name: "bad",
				New: func() lockstep.Controller { panic("no licence") }}}, "panic: no licence"},
		{"no function makes the controller",
			lockstep.Job{Route: good, Policy: lockstep.Custom{Name: "bad"}}, "panic"},
		{"no policy", lockstep.Job{Route: good}, "no controller of type <nil>"},
		{"batch controller panics",
			lockstep.Job{
				Route: good,
				Policy: batch(
					at104(func(*lockstep.BatchStep) error { panic("batch out of fuel") }),
				),
			}, "controller broken, step 104: panic: batch out of fuel"},
		{"batch controller fails", lockstep.Job{Route: good,
			Policy: batch(
				at104(func(*lockstep.BatchStep) error { return errors.New("out of fuel") }),
			)}, "controller broken, step 104: out of fuel"},
		{"batch controller fails a route",
			lockstep.Job{Route: good, Policy: batch(at104(func(s *lockstep.BatchStep) error {
				s.Err[0] = errors.New("flat tyre")
				return nil
			}))}, "controller broken, step 104: flat tyre"},
		{"making the batch controller panics",
			lockstep.Job{Route: good, Policy: &lockstep.Batch{Name: "broken",
				New: func([]*lockstep.Route) (lockstep.BatchController, error) {
					panic("no controller today")
				}}}, "panic: no controller today"},
		{"making the batch controller fails",
			lockstep.Job{Route: good, Policy: &lockstep.Batch{Name: "broken",
				New: func([]*lockstep.Route) (lockstep.BatchController, error) {
					return nil, errors.New("no licence")
				}}}, "controller broken, step 0: no licence"},
		{"no batch controller", lockstep.Job{Route: good, Policy: &lockstep.Batch{}}, "panic"},
		{"observer panics", lockstep.Job{Route: good, Policy: lockstep.Zero{},
			Observe: func(s *lockstep.Step) {
				if s.Index == 109 {
					panic("seen enough")
				}
			}}, "step 109: panic: seen enough"},
		{"observer of a custom controller panics",
			lockstep.Job{Route: good, Policy: weavePolicy, Observe: func(s *lockstep.Step) {
				if s.Index == 109 {
					panic("seen enough")
				}
			}}, "step 109: panic: seen enough"},
		{"NaN that a network sees",
			lockstep.Job{
				Route:  edit(func(r *lockstep.Route) { r.TargetLataccel[110] = math.NaN() }),
				Policy: network(8),
			}, "step 100: observation[65] (target plan 9) is NaN"},
		{"NaN that a network sees first",
			lockstep.Job{
				Route:  edit(func(r *lockstep.Route) { r.RollLataccel[100] = math.NaN() }),
				Policy: network(8),
			}, "step 100: observation[3]"},
		{"no route", lockstep.Job{Policy: lockstep.Zero{}}, "no route"},
		{
			"short route",
			lockstep.Job{Route: shorten(good, lockstep.MinRows-1), Policy: lockstep.Zero{}},
			"100 rows, want at least 101",
		},
		{
			"unequal columns",
			lockstep.Job{
				Route:  edit(func(r *lockstep.Route) { r.VEgo = r.VEgo[:50] }),
				Policy: lockstep.Zero{},
			},
			"columns of 114, 50",
		},
		{
			"target without token",
			lockstep.Job{
				Route:  edit(func(r *lockstep.Route) { r.TargetLataccel[95] = math.NaN() }),
				Policy: lockstep.Zero{},
			},
			"step 100: lataccel NaN has no token",
		},
		{"the same, seen step by step",
			lockstep.Job{
				Route:  edit(func(r *lockstep.Route) { r.TargetLataccel[95] = math.NaN() }),
				Policy: weavePolicy,
			}, "step 100: lataccel NaN has no token"},
		{"NaN in all of the context",
			lockstep.Job{
				Route: edit(func(r *lockstep.Route) {
					for i := 80; i < 100; i++ {
						r.TargetLataccel[i] = math.NaN()
					}
				}),
				Policy: weavePolicy,
			}, "step 100: lataccel NaN has no token"},
		{
			"NaN in a state",
			lockstep.Job{
				Route:  edit(func(r *lockstep.Route) { r.VEgo[112] = math.NaN() }),
				Policy: lockstep.Zero{},
			},
			"step 112: probabilities contain NaN",
		},
		{"NaN in a state, observed",
			lockstep.Job{Route: edit(func(r *lockstep.Route) { r.VEgo[112] = math.NaN() }),
				Policy: lockstep.Zero{}, Observe: func(s *lockstep.Step) {
					seen = s.Index
				}}, "step 112: probabilities contain NaN"},
		{
			"infinite state",
			lockstep.Job{
				Route:  edit(func(r *lockstep.Route) { r.VEgo[112] = math.Inf(1) }),
				Policy: lockstep.Zero{},
			},
			"step 112: probabilities contain NaN",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			neighbour, want := lockstep.Job{Route: good, Policy: lockstep.DefaultPID()}, onDevice
			if kindOf(c.bad.Policy) == hostKind {
				neighbour.Policy, want = weavePolicy, onHost
			}
			got := results(
				t, s, context.Background(), []lockstep.Job{neighbour, c.bad, neighbour}, opts,
			)
			for _, i := range []int{0, 2} {
				if d := resultDifference(got[i], want); d != "" {
					t.Errorf("neighbour %d: %s", i, d)
				}
			}
			if err := got[1].Err; !contains(err, c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			} else if c.bad.Route != nil &&
				!strings.HasPrefix(err.Error(), "route "+c.bad.Route.Name+", ") {
				t.Errorf("error %q does not name the route", err)
			}
			if got[1].Trajectory != nil {
				t.Error("a failed job has a trajectory")
			}
		})
	}
	if seen != 111 || last != 106 {
		t.Errorf("the last steps that observers saw before failures at 112 and 107 were %d and %d",
			seen, last)
	}
}

// failing asks f at one step.
type failing struct {
	step, calls int
	f           func() float64
}

func (c *failing) Update(float64, float64, lockstep.State, lockstep.FuturePlan) float64 {
	c.calls++
	if c.calls == c.step-lockstep.ContextLength+1 {
		return c.f()
	}
	return 0
}

type brokenBatch struct {
	update func(s *lockstep.BatchStep) error
}

func (b brokenBatch) Update(s *lockstep.BatchStep) error { return b.update(s) }
func (brokenBatch) Close() error                         { return nil }

// TestNothing is the empty sweep.
func TestNothing(t *testing.T) {
	s := newSimulator(t, Config{})
	before := s.Stats()
	ctx, computing := lockstep.WithComputing(t.Context())
	results(t, s, ctx, nil, lockstep.Options{})
	if got := computing(); !slices.Equal(got, []string{lockstep.Identity(s)}) {
		t.Errorf("%q computed, want the simulator itself", got)
	}
	if got := s.Stats().Sub(before); got != (Stats{}) {
		t.Errorf("nothing cost %+v", got)
	}
}

// TestBreak leaves the loop, and panics out of it, and runs again.
func TestBreak(t *testing.T) {
	s := newSimulator(t, Config{MemoryLimit: 24 << 10})
	var jobs []lockstep.Job
	for i := range 6 {
		jobs = append(jobs, lockstep.Job{Route: shorten(routes()[i], 102), Policy: policies[0]},
			lockstep.Job{Route: shorten(routes()[i], 102), Policy: weavesPolicy})
	}
	opts := lockstep.Options{Shortcuts: lockstep.CostOnly}
	want := results(t, s, context.Background(), jobs, opts)
	before := s.Stats()
	for range s.Simulate(context.Background(), jobs, opts) {
		break
	}
	if n := s.Stats().Sub(before).Launches; n != 1 {
		t.Errorf("%d launches for the first result, want 1", n)
	}
	for after := range 9 {
		func() {
			defer func() { recover() }()
			n := 0
			for range s.Simulate(context.Background(), jobs, opts) {
				if n++; n > after {
					panic("the caller panics")
				}
			}
		}()
	}
	for i, got := range results(t, s, context.Background(), jobs, opts) {
		if d := resultDifference(got, want[i]); d != "" {
			t.Errorf("job %d: %s", i, d)
		}
	}
	if n := weavesOpen.Load(); n != 0 {
		t.Errorf("%d batch controllers were not closed", n)
	}
}

// cancelling is a device whose next launches each end a context as soon as they are
// given, long before the device has done the work: how fast it is does not matter.
type cancelling struct {
	driver.Device
	cancel *context.CancelFunc
}

func (d *cancelling) Launch(kernel string, blocks, threads, shared int, argument []byte) error {
	err := d.Device.Launch(kernel, blocks, threads, shared, argument)
	if *d.cancel != nil {
		(*d.cancel)()
	}
	return err
}

// TestCancel ends runs from outside: every job has a result, the unfinished ones
// the context's error, and the simulator works afterwards.
func TestCancel(t *testing.T) {
	var atLaunch context.CancelFunc
	open := device(t, emulated.Options{})
	s := newSimulator(t, Config{Open: func() (driver.Device, error) {
		d, err := open()
		return &cancelling{d, &atLaunch}, err
	}})
	long := lockstep.Job{Route: routes()[0], Policy: lockstep.DefaultPID()}
	short := lockstep.Job{Route: shorten(routes()[0], 102), Policy: lockstep.DefaultPID()}
	opts := lockstep.Options{Shortcuts: lockstep.AllSteps}
	want := results(t, s, context.Background(), []lockstep.Job{short}, opts)[0]
	for _, policy := range []lockstep.Policy{lockstep.DefaultPID(), weavePolicy} {
		long.Policy = policy
		jobs := []lockstep.Job{long, long, long}
		ctx, cancel := context.WithCancel(context.Background())
		atLaunch = cancel
		got := results(t, s, ctx, jobs, opts)
		atLaunch = nil
		for i, r := range got {
			if !errors.Is(r.Err, context.Canceled) {
				t.Errorf("%v: job %d was cancelled at its launch: error %v", policy, i, r.Err)
			}
		}
		for _, r := range results(t, s, ctx, jobs, opts) {
			if !errors.Is(r.Err, context.Canceled) {
				t.Errorf("in a context that has ended: %v", r.Err)
			}
		}
		after := results(t, s, context.Background(), []lockstep.Job{short}, opts)[0]
		if d := resultDifference(after, want); d != "" {
			t.Errorf("after a cancelled run: %s", d)
		}
	}
}

// TestClosed uses a simulator after its end.
func TestClosed(t *testing.T) {
	s := newSimulator(t, Config{})
	job := lockstep.Job{Route: routes()[0], Policy: lockstep.Zero{}}
	s.Close()
	s.Close()
	if r := results(t, s, context.Background(), []lockstep.Job{job},
		lockstep.Options{})[0]; !contains(r.Err, "closed") {
		t.Errorf("error %v, want that it is closed", r.Err)
	}
	if _, err := s.Reset(context.Background(), []lockstep.Job{job}, lockstep.Options{}); !contains(
		err, "closed",
	) {
		t.Errorf("error %v, want that it is closed", err)
	}
}

// TestConfig gives New what it must refuse.
func TestConfig(t *testing.T) {
	path, err := modelPath()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		config Config
		want   string
	}{
		{Config{ModelPath: "none.onnx"}, "none.onnx"},
		{Config{ModelPath: path, Threads: 33}, "33 threads per block: want a multiple of 32"},
		{Config{ModelPath: path, Threads: 1024}, "1024 threads per block: want a multiple of " +
			"32, 256 at most"},
		{Config{ModelPath: path, Watchdog: -1}, "cannot be negative"},
		{Config{ModelPath: path, Threads: -32}, "cannot be negative"},
		{Config{ModelPath: path, RoutesPerBlock: -1}, "cannot be negative"},
		{Config{ModelPath: path, MemoryLimit: -1}, "cannot be negative"},
		{Config{ModelPath: path, Open: func() (driver.Device, error) {
			return nil, errors.New("no such device")
		}}, "no such device"},
	} {
		if c.config.Open == nil {
			c.config.Open = device(t, emulated.Options{})
		}
		s, err := New(c.config)
		if err == nil {
			s.Close()
		}
		if !contains(err, c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("error %v, want one line with %q", err, c.want)
		}
	}
}

// TestDefaultDevice: who does not say what device is meant is given the GPU, and a simulator has
// the name of what computes.
func TestDefaultDevice(t *testing.T) {
	path, err := modelPath()
	if err != nil {
		t.Fatal(err)
	}
	if Available() != nil {
		_, want := OpenDevice()
		if s, err := New(Config{ModelPath: path}); fmt.Sprint(err) != fmt.Sprint(want) {
			t.Errorf("%v, %v, want %v", s, err, want)
		}
	}
	s := newSimulator(t, Config{})
	info, err := s.Info()
	if want := map[bool]string{false: "gpu", true: info.Name}[info.Emulated]; err != nil ||
		s.Name() != want || want == "" {
		t.Errorf("%+v is called %q; %v", info, s.Name(), err)
	}
}

// TestRoutesPerBlock: a number of routes for which there is no kernel is rounded down
// to one for which there is.
func TestRoutesPerBlock(t *testing.T) {
	for most, want := range map[int]int{1: 1, 2: 2, 3: 2, 4: 4, 1 << 20: 0} {
		s := newSimulator(t, Config{RoutesPerBlock: most})
		err := s.use(t.Context(), nil, func(c *connection) error {
			if want == 0 { // the largest that fits
				for _, v := range c.layout.variants {
					if v.shared <= c.info.SharedPerBlock {
						want = v.routes
					}
				}
			}
			parts, err := s.plan(c, 100)
			if err == nil &&
				(len(parts) != 1 || parts[0].kernel.routes != want || parts[0].jobs != 100) {
				t.Errorf(
					"at most %d routes in a block: %+v, want a kernel for %d", most, parts, want,
				)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// TestSharedMemory: what a device's shared memory leaves of the kernels, and what a large
// batch gets of them, as README.md says.
func TestSharedMemory(t *testing.T) {
	const kib = 1 << 10
	for _, d := range []struct {
		capability                  string
		processors, shared, largest int
	}{
		{"8.0", 108, 163 * kib, 4}, {"8.6", 84, 99 * kib, 2}, {"8.9", 142, 99 * kib, 2},
		{"9.0", 132, 227 * kib, 6},
		{"10.0", 148, 227 * kib, 6}, {"12.0", 188, 99 * kib, 2},
	} {
		s := newSimulator(t, Config{})
		err := s.use(t.Context(), nil, func(c *connection) error {
			c.info.SharedPerBlock, c.info.Multiprocessors = d.shared, d.processors
			parts, err := s.plan(c, 10*d.largest*d.processors)
			if err == nil && (len(parts) != 1 || parts[0].kernel.routes != d.largest) {
				t.Errorf(
					"compute capability %s: %+v, want blocks of %d", d.capability, parts, d.largest,
				)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// TestPlan: whole rounds of large blocks, and what is left over in smaller ones.
func TestPlan(t *testing.T) {
	s := &Simulator{}
	c := &connection{info: driver.Info{Multiprocessors: 132, SharedPerBlock: 1000}}
	for _, routes := range []int{1, 2, 4, 5, 6} {
		c.layout.variants = append(c.layout.variants, variant{routes, 100})
	}
	for jobs, want := range map[int][]part{
		1:    {{variant{1, 100}, 1}},
		132:  {{variant{1, 100}, 132}},
		133:  {{variant{2, 100}, 133}},
		792:  {{variant{6, 100}, 792}},
		800:  {{variant{5, 100}, 660}, {variant{2, 100}, 140}},
		1584: {{variant{6, 100}, 1584}},
		5000: {{variant{6, 100}, 4752}, {variant{2, 100}, 248}},
	} {
		got, err := s.plan(c, jobs)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%d jobs: %v, %v, want %v", jobs, got, err, want)
		}
	}
	c.layout.variants = c.layout.variants[1:]
	for most, want := range map[int]int{1: 2, 2: 2, 3: 2, 4: 4, 5: 5, 6: 6, 7: 6} {
		s.config.RoutesPerBlock = most
		if got, err := s.plan(c, 9); err != nil || len(got) != 1 || got[0].kernel.routes != want {
			t.Errorf("blocks of %d at most, 2 at least: %v, %v, want %d", most, got, err, want)
		}
	}
}

// TestFit: a launch has as many jobs as fit to the byte, with all their steps, and of one whose
// traces do not fit as many steps as do, halved and halved again. The host's memory for traces is
// bounded, too.
func TestFit(t *testing.T) {
	jobs := everyKind(shorten(routes()[0], 130))
	var tasks []*task
	weights, counted := 0, map[lockstep.Policy]bool{}
	for i := range jobs {
		tasks = append(tasks, &task{job: &jobs[i], index: i, end: 130 - i/2})
		n, ok := jobs[i].Policy.(*lockstep.Network)
		if !ok || counted[n] {
			continue
		}
		counted[n] = true
		for l := range n.Layers {
			_, _, numbers := kernels.PackLayer(&n.Layers[l])
			weights += len(numbers)
		}
	}
	sees := len(jobs[2].Policy.(*lockstep.Network).Sees)
	for _, k := range []kind{
		{policies: true}, {policies: true, traced: true}, {policies: true, training: true},
		{policies: true, commands: true}, {policies: true, commands: true, traced: true},
		{policies: true, teacher: true, draws: true, trajectory: true},
	} {
		all := fitted(t, tasks, k)
		if all.tables != 1 || all.networks != 4 || all.weights != weights || all.sees != sees {
			t.Errorf("%+v, want %d weights and %d elements that are seen", all, weights, sees)
		}
	}
	long := &lockstep.Job{Route: shorten(routes()[1], 590)}
	many := slices.Repeat([]*task{{job: long, end: 590}}, 200)
	traced := fit(many, kind{traced: true}, math.MaxInt64)
	more := fit(many[:traced.jobs+1], kind{}, math.MaxInt64)
	more.traced = true
	if most := int64(1) << 30; traced.steps != 570 || traced.host(traced.places()) > most ||
		more.host(more.places()) <= most {
		t.Errorf("of 200 jobs %+v are traced at once, of %d bytes, want at most %d", traced,
			traced.host(traced.places()), most)
	}
	for _, step := range []int{60, 590, 600} {
		forked := kind{commands: true, past: &lockstep.Snapshot{Step: step}}
		if got := fit(many[:1], forked, math.MaxInt64); got.stride != max(step, long.Route.Len()) {
			t.Errorf("jobs that go on from step %d have room for %d steps", step, got.stride)
		}
	}
}

// fitted holds what fits to what each number of the tasks takes, and returns the shape of all.
func fitted(t *testing.T, tasks []*task, k kind) (before shape) {
	t.Helper()
	steps := tasks[0].end - lockstep.ContextLength
	if k.commands {
		steps = 1
	}
	for n := 1; n <= len(tasks); n++ {
		whole := fit(tasks[:n], k, math.MaxInt64)
		want := before
		want.kind, want.jobs, want.routes, want.rows = k, n, 1, tasks[0].rows(k)
		want.tables, want.networks = whole.tables, whole.networks
		want.weights, want.sees = whole.weights, whole.sees
		if want.stride, want.steps = tasks[0].end, steps; whole != want {
			t.Errorf("%d jobs are %+v, want %+v", n, whole, want)
		}
		room := whole.places().total
		if got := fit(tasks, k, room); got != whole {
			t.Errorf("in %d bytes there are %+v, want %+v", room, got, whole)
		}
		less := fit(tasks, k, room-1)
		if n == 1 {
			less, before.kind = halved(t, tasks, less, steps), k
		}
		if less != before {
			t.Errorf("a byte less than %d jobs want holds %+v, want %+v", n, less, before)
		}
		before = whole
	}
	return before
}

// halved holds what is traced of one job, a byte less each time, to half of the steps of the time
// before, from so many on, and returns what there is when not even one step fits.
func halved(t *testing.T, tasks []*task, less shape, steps int) shape {
	t.Helper()
	for less.traced && steps > 1 {
		if steps = (steps + 1) / 2; less.jobs != 1 || less.steps != steps ||
			less.stride != tasks[0].end {
			t.Errorf("of one job %+v, want %d steps", less, steps)
		}
		less = fit(tasks, less.kind, less.places().total-1)
	}
	return less
}

// TestPlaces: arrays lie one behind the other, each from a multiple of 256 bytes on and with room
// for all that it holds; what is not wanted takes none.
func TestPlaces(t *testing.T) {
	const jobs, routes, rows, tables, networks, weights, sees, stride, steps = 32, 32, 501, 4, 2,
		777, 45, 601, 6
	past := &lockstep.Snapshot{Step: 33, Rollouts: make([]lockstep.RolloutState, 5)}
	for _, k := range []kind{
		{}, {commands: true, traced: true, past: past}, {teacher: true, draws: true},
		{training: true}, {commands: true, draws: true, teacher: true, traced: true},
	} {
		p := shape{kind: k, jobs: jobs, routes: routes, rows: rows, tables: tables,
			networks: networks, weights: weights, sees: sees, stride: stride, steps: steps}.places()
		end := int64(0)
		for _, a := range []struct {
			name   string
			wanted bool
			at     int64
			bytes  int64
		}{
			{"commands", k.commands, p.commands, 8 * jobs},
			{"routes", true, p.routes, 16 * routes}, {"jobs", true, p.job, 20 * 8 * jobs},
			{"steer", true, p.steer, 8 * routes * 100}, {"columns", true, p.columns, 4 * 8 * rows},
			{"tables", true, p.tables, 8 * tables * 400},
			{"networks", true, p.actors, 69 * 8 * networks},
			{"weights", true, p.weights, 4 * weights}, {"sees", true, p.sees, 6 * 8 * sees},
			{"past", k.past != nil, p.past, 8 * 2 * 5 * 33},
			{"teacher", k.teacher, p.teacher, 8 * 2 * jobs * stride},
			{"given draws", k.draws, p.draws, 8 * jobs * stride},
			{"the end of what goes up", true, p.upEnd, 0},
			{"traces", k.traced, p.trace, int64(unsafe.Sizeof(traceBlock{})) * jobs * steps},
			{"variates", k.training, p.variate, 4 * jobs * 400},
			{"parameters", k.training, p.softplus, 4 * 2 * jobs * 400},
			{"rewards", k.training, p.reward, 4 * jobs * 400},
			{"statuses", true, p.status, 5 * 8 * jobs}, {"costs", true, p.costs, 3 * 8 * jobs},
			{"lataccels", true, p.lataccel, 8 * jobs * stride},
			{"actions", true, p.action, 8 * jobs * stride},
			{"memory", true, p.memory, 3 * 8 * jobs}, {"the state's end", true, p.stateEnd, 0},
			{"draws", !k.draws, p.draws, 8 * jobs * stride},
			{"now", k.commands, p.now, 8 * jobs}, {"the end", true, p.total, 0},
		} {
			if a.wanted && a.at != end {
				t.Errorf("%+v: %s at %d, want %d", k, a.name, a.at, end)
			}
			if a.wanted {
				end += (a.bytes + 255) / 256 * 256
			}
		}
	}
	for bytes, want := range map[int]int64{0: 0, 1: 256, 255: 256, 256: 256, 257: 512, 512: 512} {
		var all arrays
		if all.place(bytes, 1); all.end != want {
			t.Errorf("an array of %d bytes ends at %d, want %d", bytes, all.end, want)
		}
	}
	excerptPlaces(t)
	excerptWritten(t)
	keptPlaces(t)
}

// excerptWritten: what observations are made from is each rollout's and route's own, in just the
// room that it takes, where one number of each place is wanted, too.
func excerptWritten(t *testing.T) {
	t.Helper()
	const rollouts, steps = 96, lockstep.ExperienceSteps
	all := routes()[:3]
	e := &lockstep.Experience{
		Lataccel: make([]float64, rollouts*steps), Action: make([]float64, rollouts*steps),
	}
	var places []lockstep.Place
	for i := range rollouts {
		e.Jobs = append(e.Jobs, lockstep.Job{Route: all[i%3]})
		places = append(places, lockstep.Place{Rollout: rollouts - 1 - i, Step: 7 * i % steps})
	}
	for i := range e.Lataccel {
		e.Lataccel[i], e.Action[i] = float64(i), -float64(i)
	}
	x := newExcerpt(e, []lockstep.Seen{{Of: lockstep.SourceTarget, At: 5, Unit: 2}})
	x.take(places, math.MaxInt64)
	k, total := x.layout(0)
	host := make([]byte, total)
	x.write(host)
	routesOf := view[routeBlock](host[k.Routes:], len(all))
	for i, p := range places {
		block := view[placeBlock](host[k.Places:], rollouts)[i]
		at, route := block.Rollout*steps, all[p.Rollout%3]
		r := routesOf[view[int64](host[k.Route:], rollouts)[block.Rollout]]
		of := func(p driver.Pointer) []float64 {
			return view[float64](host[p:], x.rows)[r.First:][:r.Rows]
		}
		if err := errors.Join(
			simtest.Same("steps", []int64{block.Step}, []int64{int64(p.Step)}),
			simtest.Same("lataccels", view[float64](host[k.Lataccel:], rollouts*steps)[at:][:steps],
				e.Lataccel[p.Rollout*steps:][:steps]),
			simtest.Same("actions", view[float64](host[k.Action:], rollouts*steps)[at:][:steps],
				e.Action[p.Rollout*steps:][:steps]),
			simtest.Same("target", of(k.Target), route.TargetLataccel),
			simtest.Same("roll", of(k.RollLataccel), route.RollLataccel),
			simtest.Same("v", of(k.VEgo), route.VEgo), simtest.Same("a", of(k.AEgo), route.AEgo),
		); err != nil {
			t.Fatalf("place %d: %v", i, err)
		}
	}
	sameBlocks(t, "what is declared", view[seenBlock](host[k.Sees:], 1), []seenBlock{{
		Of: int64(lockstep.SourceTarget), At: 5, Unit: 2,
	}})
}

// keptPlaces: of rollouts whose training data stay on the device these lie one behind the other
// behind what observations are made from, and nothing behind them; each is rolled out as far as it
// costs, with its parameters, on whichever side they are wanted.
func keptPlaces(t *testing.T) {
	t.Helper()
	const jobs, steps = 64, lockstep.ExperienceSteps // multiples of 256 bytes
	h := newHollow()
	s := onHollow(func() (driver.Device, error) { return h, nil })
	all := slices.Repeat([]lockstep.Job{{Route: routes()[0], Policy: network(8)}}, jobs)
	before := s.Stats()
	kept, err := s.CollectOnDevice(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	x, ok := kept.(*experience)
	if !ok {
		t.Fatalf("%T", kept)
	}
	from := x.routes.Action
	for _, a := range []struct {
		name  string
		at    driver.Pointer
		bytes int
	}{
		{"actions", from, 8 * jobs * steps}, {"raw", x.raw, 4 * jobs * steps},
		{"softplus", x.softplus, 8 * jobs * steps}, {"rewards", x.reward, 4 * jobs * steps},
		{"the end", x.end, 0},
	} {
		if a.at != from {
			t.Errorf("of what stays %s at %d, want %d", a.name, a.at-x.memory, from-x.memory)
		}
		from += driver.Pointer(a.bytes)
	}
	if got := x.memory + driver.Pointer(h.taken[x.memory]); got != x.end {
		t.Errorf("%d bytes are taken, want %d", h.taken[x.memory], x.end-x.memory)
	}
	rolled := func(what string) {
		if l := h.rolled; l.Shortcuts != int64(lockstep.CostOnly) ||
			l.Stride != lockstep.CostEndIdx || l.Softplus-l.Variate != 4*jobs*steps {
			t.Errorf("%s: shortcuts %d, %d steps, parameters %d bytes behind variates", what,
				l.Shortcuts, l.Stride, l.Softplus-l.Variate)
		}
	}
	rolled("CollectOnDevice")
	onDevice := s.Stats().Sub(before).DownloadBytes
	h.rolled, before = launchBlock{}, s.Stats()
	if _, err := s.Collect(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	rolled("Collect")
	if more := s.Stats().Sub(before).DownloadBytes - onDevice; more < 4*jobs*steps*8 {
		t.Errorf("Collect brings %d bytes more than what stays", more)
	}
}

// excerptPlaces: what observations are made from lies one behind the other, too.
func excerptPlaces(t *testing.T) {
	t.Helper()
	const places, rollouts, routes, rows, sees = 48, 64, 16, 96, 16 // multiples of 256 bytes
	for _, declared := range [][]lockstep.Seen{nil, make([]lockstep.Seen, sees)} {
		x := &excerpt{places: make([]lockstep.Place, places), rollouts: make([]int, rollouts),
			routes: make([]*lockstep.Route, routes), rows: rows, sees: declared}
		inputs := lockstep.ObservationSize
		if declared != nil {
			inputs = sees
		}
		const from = 1 << 20
		k, total := x.layout(from)
		end := driver.Pointer(from)
		for _, a := range []struct {
			name  string
			at    driver.Pointer
			bytes int
		}{
			{"places", k.Places, 16 * places}, {"route", k.Route, 8 * rollouts},
			{"routes", k.Routes, 16 * routes}, {"sees", k.Sees, 6 * 8 * len(declared)},
			{"roll", k.RollLataccel, 8 * rows}, {"v", k.VEgo, 8 * rows}, {"a", k.AEgo, 8 * rows},
			{"target", k.Target, 8 * rows}, {"lataccels", k.Lataccel, 8 * rollouts * 400},
			{"actions", k.Action, 8 * rollouts * 400}, {"observations", k.Out, 4 * places * inputs},
		} {
			if a.at != end && a.bytes > 0 {
				t.Errorf("%d declared: %s at %d, want %d", len(declared), a.name, a.at, end)
			}
			end += driver.Pointer(a.bytes)
		}
		if k.Inputs != int64(inputs) || k.Stride != 400 || total != int64(end-from) {
			t.Errorf("%d inputs, stride %d, %d bytes, want %d", k.Inputs, k.Stride, total, end-from)
		}
	}
}

// sameBlocks holds structures that go up to what they are to be.
func sameBlocks[T comparable](t *testing.T, what string, got, want []T) {
	t.Helper()
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%s: %+v in place %d, want %+v", what, got[i], i, want[i])
		}
	}
}

// TestFilled: tables, networks and what these declare go up one behind the other, and each job says
// where its own are.
func TestFilled(t *testing.T) {
	route := shorten(routes()[0], 130)
	jobs := everyKind(route)
	declared, ok := jobs[2].Policy.(*lockstep.Network)
	if !ok {
		t.Fatalf("%v is no network", jobs[2].Policy)
	}
	again := notLooking(t, declared)
	actions := make([]float64, lockstep.TableSteps)
	for i := range actions {
		actions[i] = float64(i%9-4) / 3
	}
	table, err := lockstep.NewTable(map[string][]float64{route.Name: actions})
	if err != nil {
		t.Fatal(err)
	}
	jobs = append(jobs, lockstep.Job{Route: route, Policy: again}, lockstep.Job{
		Route: route, Policy: table,
	})
	var tasks []*task
	for i := range jobs {
		tasks = append(tasks, &task{job: &jobs[i], index: i, end: 130})
	}
	b := loaded(t, onHollow(nil), tasks, kind{policies: true})
	blocks, at := up[jobBlock](b, b.at.job, len(jobs)), b.at
	actors := up[actorBlock](b, at.actors, b.shape.networks)
	lies := func(p, from driver.Pointer, size uintptr) int { // of arrays of such elements
		if p < from || (p-from)%driver.Pointer(size) != 0 {
			t.Fatalf("%x is no element of %d bytes from %x on", p, size, from)
		}
		return int((p - from) / driver.Pointer(size))
	}
	tables, sees := 0, 0
	for j, job := range jobs {
		switch p := job.Policy.(type) {
		case *lockstep.Table:
			k := lies(blocks[j].Table, b.device(at.tables), 8*lockstep.TableSteps)
			row := up[float64](b, at.tables, 2*lockstep.TableSteps)[k*lockstep.TableSteps:]
			if k != tables || !slices.Equal(row[:lockstep.TableSteps], p.Actions[route.Name]) {
				t.Errorf("job %d: the table is number %d: %v", j, k, row)
			}
			tables++
		case *lockstep.Network:
			actor := actors[lies(blocks[j].Actor, b.device(at.actors), unsafe.Sizeof(actors[0]))]
			if p.Sees == nil {
				continue
			}
			if looks := lockstep.LooksAtObservation(p.Sees); (actor.Contract != 0) != looks {
				t.Errorf("job %d: contract %d, and it looks: %v", j, actor.Contract, looks)
			}
			k := lies(actor.Sees, b.device(at.sees), uintptr(seenBytes))
			want := make([]seenBlock, len(p.Sees))
			writeSees(want, p.Sees)
			if k != sees || actor.Declared != int64(len(want)) {
				t.Errorf("job %d: what is declared lies at %d, want %d", j, k, sees)
			}
			sameBlocks(t, fmt.Sprint("what job ", j, " declares"),
				up[seenBlock](b, at.sees, b.shape.sees)[k:][:len(want)], want)
			sees += len(want)
		}
	}
	if tables != 2 || sees != b.shape.sees || sees != 2*len(declared.Sees) {
		t.Errorf("%d tables and %d elements that are seen", tables, sees)
	}
}

// notLooking is another network like one that looks at the observation that is not declared, which
// does not.
func notLooking(t *testing.T, n *lockstep.Network) *lockstep.Network {
	t.Helper()
	again := *n
	again.Scale++
	again.Sees = slices.Clone(n.Sees)
	for i, e := range again.Sees {
		if lockstep.LooksAtObservation([]lockstep.Seen{e}) {
			again.Sees[i] = lockstep.Seen{Of: lockstep.SourceTarget, Unit: 1}
		}
	}
	if !lockstep.LooksAtObservation(n.Sees) {
		t.Fatal("it does not look at the observation that is not declared")
	}
	return &again
}

// loaded puts tasks on a device that computes nothing.
func loaded(t *testing.T, s *Simulator, tasks []*task, k kind) *batch {
	t.Helper()
	h := newHollow()
	b, err := s.load(&connection{
		Ledger: &driver.Ledger{Device: h}, info: h.info,
		layout: layout{variants: []variant{{1, 1000}}},
	}, tasks, k, lockstep.CostOnly)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestLeast: as many KiB as one rollout is said to take are enough for it, of whatever kind, and
// one less is not.
func TestLeast(t *testing.T) {
	left := map[int64]bool{}
	for rows := 101; rows < 600; rows += 31 {
		for _, k := range []kind{{}, {traced: true}, {trajectory: true, draws: true}} {
			h := newHollow()
			s := onHollow(nil)
			c := &connection{Ledger: &driver.Ledger{Device: h}, info: h.info,
				layout: layout{variants: []variant{{1, 1000}}}}
			tasks := []*task{{end: rows, job: &lockstep.Job{
				Route: shorten(routes()[0], rows), Draws: make([]float64, rows),
			}}}
			s.config.MemoryLimit = 1
			_, err := s.load(c, tasks, k, lockstep.CostOnly)
			var needs int64
			_, text, _ := strings.Cut(fmt.Sprint(err), "one rollout takes ")
			if _, err := fmt.Sscan(text, &needs); err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			s.config.MemoryLimit = (needs - 1) << 10
			if _, err := s.load(c, tasks, k, lockstep.CostOnly); !errors.Is(
				err, driver.ErrOutOfMemory,
			) {
				t.Errorf("%+v of %d rows: a KiB less than %d is enough: %v", k, rows, needs, err)
			}
			s.config.MemoryLimit = needs << 10
			b, err := s.load(c, tasks, k, lockstep.CostOnly)
			if err != nil {
				t.Fatalf("%+v of %d rows: %d KiB are not enough: %v", k, rows, needs, err)
			}
			left[b.at.total%1024] = true
		}
	}
	if len(left) != 4 {
		t.Errorf("bytes beside whole KiB are %v, want each multiple of 256", left)
	}
}

// TestPieces: of what there is not in one piece three quarters are asked for next, until there is.
func TestPieces(t *testing.T) {
	h := newHollow()
	h.piece = 100 << 10
	c := &connection{Ledger: &driver.Ledger{Device: h}, info: h.info,
		layout: layout{variants: []variant{{1, 1000}}}}
	job := &lockstep.Job{Route: shorten(routes()[0], 130)}
	tasks := slices.Repeat([]*task{{job: job, end: 130}}, 100)
	b, err := onHollow(nil).load(c, tasks, kind{}, lockstep.CostOnly)
	if err != nil || b.shape.jobs == 0 {
		t.Fatalf("%d jobs; %v", b.shape.jobs, err)
	}
	for want := fit(tasks, kind{}, math.MaxInt64); ; {
		total := want.places().total
		if total <= h.piece {
			if b.shape != want || len(h.asked) > 0 {
				t.Errorf("%+v, want %+v; %d were asked for", b.shape, want, h.asked)
			}
			return
		}
		if len(h.asked) == 0 || h.asked[0] != total {
			t.Fatalf("%d bytes are asked for, want %d", h.asked, total)
		}
		h.asked, want = h.asked[1:], fit(tasks, kind{}, total*3/4)
	}
}

// TestAlike: what goes up is the same whatever went up in that memory before.
func TestAlike(t *testing.T) {
	jobs := everyKind(shorten(routes()[0], 130))
	var tasks []*task
	for i := range jobs {
		jobs[i].Teacher = &lockstep.Trajectory{
			Lataccel: make([]float64, 130), Action: make([]float64, 130),
		}
		jobs[i].Draws = make([]float64, 110)
		tasks = append(tasks, &task{job: &jobs[i], index: i, end: 130 - i})
	}
	h := newHollow()
	c := &connection{Ledger: &driver.Ledger{Device: h}, info: h.info,
		layout: layout{variants: []variant{{1, 1000}}}}
	k := kind{policies: true, teacher: true, draws: true, commands: true}
	var went [2][]byte
	for i := range went {
		b, err := onHollow(nil).load(c, tasks, k, lockstep.CostOnly)
		if err != nil {
			t.Fatal(err)
		}
		went[i] = slices.Clone(b.buffer.host[:b.at.upEnd])
		for j := range b.buffer.host {
			b.buffer.host[j] = 0xa5
		}
		if err := c.give(b.buffer); err != nil {
			t.Fatal(err)
		}
	}
	if err := simtest.Same("what goes up again", went[1], went[0]); err != nil {
		t.Error(err)
	}
}

// TestGiven: of each job what leads it goes up in a row of its own, with no room but what it takes,
// and the launch says where, and by which arithmetic.
func TestGiven(t *testing.T) {
	const rows, stride = 103, 105 // the first job is the shorter one
	var tasks []*task
	for j, n := range []int{rows, stride} {
		numbers := func(from int) (all []float64) {
			for i := range n {
				all = append(all, float64(1000*from+10*i+j))
			}
			return all
		}
		tasks = append(tasks, &task{index: j, end: n, job: &lockstep.Job{
			Route:   shorten(routes()[j], n),
			Teacher: &lockstep.Trajectory{Lataccel: numbers(1), Action: numbers(2)},
			Draws:   numbers(3)[:n-lockstep.ContextLength],
		}})
	}
	s := onHollow(nil)
	s.config.Profile = lockstep.Profile{LayerNorm: 1, Softmax: 2, Exp: 3}
	for _, k := range []kind{{teacher: true}, {draws: true}} {
		b := loaded(t, s, tasks, k)
		if l := b.block; l.LayerNorm != 1 || l.Softmax != 2 || l.Exp != 3 ||
			l.Shortcuts != int64(lockstep.CostOnly) {
			t.Errorf("%+v is computed by %d, %d, %d, with shortcuts %d", k, l.LayerNorm, l.Softmax,
				l.Exp, l.Shortcuts)
		}
		of := func(p driver.Pointer, j, n int) []float64 {
			return view[float64](b.buffer.host[p-b.buffer.device:], 2*stride)[j*stride:][:n]
		}
		for j, task := range tasks {
			n, job := task.end, task.job
			led, l := job.Teacher, b.block
			if k.teacher && (!slices.Equal(of(l.TeacherLataccel, j, n), led.Lataccel) ||
				!slices.Equal(of(l.TeacherAction, j, n), led.Action)) {
				t.Errorf("job %d is taught another trajectory", j)
			}
			if k.draws && !slices.Equal(of(l.Draws, j, n)[lockstep.ContextLength:], job.Draws) {
				t.Errorf("job %d is given other draws", j)
			}
		}
	}
}

// TestGroups: what the device steers comes first, each launch with jobs of one kind, those of the
// most steps first and those of a network side by side; what cannot run is refused beforehand.
func TestGroups(t *testing.T) {
	a, b := network(8), network(8, 8)
	job := func(rows int, policy lockstep.Policy) lockstep.Job {
		return lockstep.Job{Route: shorten(routes()[0], rows), Policy: policy}
	}
	jobs := []lockstep.Job{
		job(103, weavePolicy), job(105, lockstep.DefaultPID()), job(103, a), job(103, b),
		job(103, a), job(110, lockstep.Zero{}), job(101, nil), job(104, b), job(104, weavePolicy),
		job(105, lockstep.Zero{}), job(103, b), {Policy: lockstep.Zero{}},
	}
	refused := map[int]string{}
	r := &run{Simulator: &Simulator{}, yield: func(i int, result lockstep.Result) bool {
		refused[i] = fmt.Sprint(result.Err)
		return true
	}}
	var got [][]int
	for _, g := range r.group(jobs) {
		var indices []int
		for _, t := range g.tasks {
			indices = append(indices, t.index)
		}
		got = append(got, indices)
	}
	if want := [][]int{{5, 1, 9}, {7, 3, 10, 2, 4}, {8, 0}}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("jobs are grouped as %v, want %v", got, want)
	}
	if len(refused) != 2 || !strings.HasSuffix(refused[6], "step 0: no controller of type <nil>") ||
		!strings.HasSuffix(refused[11], "step 0: no route") {
		t.Errorf("%v are refused", refused)
	}
}

// TestUnbuilt is what a program without CUDA says.
func TestUnbuilt(t *testing.T) {
	if err := Available(); err != nil && !contains(err, "make build-cuda") &&
		!contains(err, "another engine") {
		t.Errorf("error %q does not say what to do", err)
	}
}

// TestCuts: a simulator says how many routes its largest blocks have.
func TestCuts(t *testing.T) {
	for given, want := range map[int]int{0: 6, 2: 2} {
		s := newSimulator(t, Config{RoutesPerBlock: given})
		if got := s.Cuts(); !slices.Equal(got, []int{want}) {
			t.Errorf("blocks of %d routes: cut into %v, want %d", given, got, want)
		}
	}
}
