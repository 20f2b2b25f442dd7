package onnxruntime

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"lockstep"
	"lockstep/internal/assets/assetstest"
	"lockstep/internal/onnx"
)

// TestStagesReference holds every stage of every step of the real routes to the
// reference, bit by bit, with the whole network and with the last position only.
func TestStagesReference(t *testing.T) {
	for _, exp := range []lockstep.Exp{lockstep.ExpU, lockstep.ExpF} {
		s := newSimulator(t, Config{Profile: lockstep.Profile{Exp: exp}})
		if s.Profile().Exp != exp || !s.ProfileKnown() || len(s.Notices()) > 0 && s.Version() == "1.30.0" {
			t.Fatalf("profile %v, known %v, notices %q", s.Profile(), s.ProfileKnown(), s.Notices())
		}
		t.Logf("profile %v", s.Profile())
		var jobs []lockstep.Job
		for _, route := range routes(t, s.Profile()) {
			if exp == lockstep.ExpF || testing.Short() {
				route = shorten(route, 130)
			}
			for _, policy := range threePolicies {
				jobs = append(jobs, lockstep.Job{Route: route, Policy: policy})
			}
		}
		want := traces(t, newReference(t, s.Profile()), jobs, lockstep.Options{Shortcuts: lockstep.AllSteps, Trajectory: true})
		for _, shortcuts := range []lockstep.Shortcuts{lockstep.AllSteps, 0} {
			if shortcuts == 0 { // slower, and its network is the same for all policies
				jobs, want = jobs[:6], want[:6]
			}
			for i, got := range traces(t, s, jobs, lockstep.Options{Shortcuts: shortcuts, Trajectory: true}) {
				if want[i].result.Err != nil {
					t.Fatal(want[i].result.Err)
				}
				if d := got.difference(want[i]); d != "" {
					t.Errorf("profile %v, shortcuts %d, route %s, controller %v: %s", s.Profile(), shortcuts, jobs[i].Route.Name, jobs[i].Policy, d)
				}
			}
		}
	}
}

// TestShortcuts holds every combination of shortcuts to the reference.
func TestShortcuts(t *testing.T) {
	s := newSimulator(t, Config{})
	ref := newReference(t, s.Profile())
	all := routes(t, s.Profile())
	jobs := []lockstep.Job{
		{Route: shorten(all[1], 101), Policy: lockstep.DefaultPID},
		{Route: shorten(all[2], 115), Policy: lockstep.Zero{}},
		{Route: shorten(all[3], 503), Policy: lockstep.DefaultPID},
	}
	for shortcuts := range lockstep.CostOnly + 1 {
		opts := lockstep.Options{Shortcuts: shortcuts, Trajectory: shortcuts%2 == 0}
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
	s := newSimulator(t, Config{Workers: 1})
	ref := newReference(t, s.Profile())
	random := rand.New(rand.NewPCG(1, 2))
	var jobs []lockstep.Job
	for i, route := range routes(t, s.Profile())[:3] {
		route = shorten(route, 130+i)
		for _, policy := range []lockstep.Policy{lockstep.DefaultPID, weavePolicy} {
			taught := &lockstep.Trajectory{}
			for range route.Len() {
				taught.Lataccel = append(taught.Lataccel, 12*random.Float64()-6)
				taught.Action = append(taught.Action, 6*random.Float64()-3)
			}
			jobs = append(jobs, lockstep.Job{Route: route, Policy: policy}, lockstep.Job{Route: route, Policy: policy, Teacher: taught})
		}
	}
	draws := make([]float64, 130)
	for i := range draws {
		draws[i] = float64(i) / 130
	}
	jobs = append(jobs, lockstep.Job{Route: jobs[0].Route, Policy: lockstep.Zero{}, Draws: draws})
	faulty := map[int]string{len(jobs): "the teacher has 0 lataccels and 0 actions, want 130 of each", len(jobs) + 1: "3 draws are given, want 110"}
	jobs = append(jobs, lockstep.Job{Route: jobs[0].Route, Policy: lockstep.Zero{}, Teacher: &lockstep.Trajectory{}}, lockstep.Job{Route: jobs[0].Route, Policy: lockstep.Zero{}, Draws: draws[:3]})
	for _, shortcuts := range []lockstep.Shortcuts{lockstep.AllSteps, lockstep.CostOnly} {
		opts := lockstep.Options{Shortcuts: shortcuts, Trajectory: true}
		want := traces(t, ref, jobs, opts)
		for i, got := range traces(t, s, jobs, opts) {
			if message, ok := faulty[i]; ok {
				if got.result.Err == nil || !strings.Contains(got.result.Err.Error(), message) {
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

func (w *weave) Update(target, current float64, state lockstep.State, plan lockstep.FuturePlan) float64 {
	w.memory = float64(0.9*w.memory) + target - current
	sum := float64(0.2*w.memory) - float64(0.01*state.RollLataccel) + float64(1e-4*state.VEgo) + float64(1e-3*state.AEgo)
	for i, x := range plan.Lataccel {
		sum += float64(0.01*x) + float64(1e-4*plan.VEgo[i]) + float64(1e-3*plan.RollLataccel[i]) + float64(1e-3*plan.AEgo[i])
	}
	return sum
}

// weaves is weave for several routes at once.
type weaves struct{ each []weave }

func (w *weaves) Update(s *lockstep.BatchStep) error {
	for i := range w.each {
		if s.Running[i] {
			s.Steer[i] = w.each[i].Update(s.TargetLataccel[i], s.CurrentLataccel[i], s.State[i], s.Plan[i])
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
	weavePolicy  = lockstep.Custom{Name: "weave", New: func() lockstep.Controller { return &weave{} }}
	weavesPolicy = &lockstep.Batch{Name: "weaves", New: func(routes []*lockstep.Route) (lockstep.BatchController, error) {
		weavesOpen.Add(1)
		return &weaves{make([]weave, len(routes))}, nil
	}}
)

// TestBatchInvariance draws batches of short routes, in any order and of any
// size, and holds each route's every bit to what the reference gives for it
// alone.
func TestBatchInvariance(t *testing.T) {
	simulators := map[string]*Simulator{}
	for _, workers := range []int{1, 2} {
		for _, chunk := range []int{1, 7, 64} {
			simulators[fmt.Sprintf("%d workers, chunks of %d", workers, chunk)] = newSimulator(t, Config{Workers: workers, Chunk: chunk})
		}
	}
	var names []string
	for name := range simulators {
		names = append(names, name)
	}
	slices.Sort(names)
	profile := simulators[names[0]].Profile()
	ref := newReference(t, profile)
	all := routes(t, profile)

	type key struct {
		route, rows, policy int
		shortcuts           lockstep.Shortcuts
	}
	ways := []lockstep.Policy{lockstep.Zero{}, lockstep.DefaultPID, lockstep.PID{P: 2, I: -0.3, D: 0.7}, weavePolicy, weavesPolicy}
	alone := map[key]*trace{}
	want := func(t *rapid.T, k key, job lockstep.Job) *trace {
		if alone[k] == nil {
			alone[k] = traces(t, ref, []lockstep.Job{job}, lockstep.Options{Shortcuts: k.shortcuts, Trajectory: true})[0]
		}
		return alone[k]
	}
	rapid.Check(t, func(t *rapid.T) {
		s := simulators[rapid.SampledFrom(names).Draw(t, "simulator")]
		shortcuts := rapid.SampledFrom([]lockstep.Shortcuts{lockstep.CostOnly, lockstep.FullTrajectory, lockstep.SkipWarmup}).Draw(t, "shortcuts")
		n := rapid.SampledFrom([]int{1, 2, 3, 7, 63, 64, 65, 130}).Draw(t, "jobs")
		keys, jobs := make([]key, n), make([]lockstep.Job, n)
		shapes := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) key {
			return key{rapid.IntRange(0, len(all)-1).Draw(t, "route"), rapid.IntRange(101, 106).Draw(t, "rows"), rapid.IntRange(0, len(ways)-1).Draw(t, "policy"), shortcuts}
		}), n, n).Draw(t, "job")
		for i, k := range shapes {
			keys[i] = k
			jobs[i] = lockstep.Job{Route: shorten(all[k.route], k.rows), Policy: ways[k.policy]}
		}
		for i, got := range traces(t, s, jobs, lockstep.Options{Shortcuts: shortcuts, Trajectory: true}) {
			if d := got.difference(want(t, keys[i], jobs[i])); d != "" {
				t.Fatalf("job %d of %d, route %s, controller %v: %s", i, n, jobs[i].Route.Name, jobs[i].Policy, d)
			}
		}
		if n := weavesOpen.Load(); n != 0 {
			t.Fatalf("%d batch controllers were not closed", n)
		}
	})
}

// TestSweep holds a sweep of PID gains over routes to runs one by one.
func TestSweep(t *testing.T) {
	s := newSimulator(t, Config{Workers: 2})
	all := routes(t, s.Profile())
	rapid.Check(t, func(t *rapid.T) {
		gain := rapid.Float64Range(-1, 1)
		gains := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) lockstep.PID {
			return lockstep.PID{P: gain.Draw(t, "p"), I: gain.Draw(t, "i"), D: gain.Draw(t, "d")}
		}), 1, 6).Draw(t, "gains")
		var jobs []lockstep.Job
		for i := range rapid.IntRange(1, 3).Draw(t, "routes") {
			route := shorten(all[i], 104)
			for _, g := range gains {
				jobs = append(jobs, lockstep.Job{Route: route, Policy: g})
			}
		}
		opts := lockstep.Options{Shortcuts: lockstep.CostOnly, Trajectory: true}
		together := results(t, s, context.Background(), jobs, opts)
		for i := range jobs {
			single := results(t, s, context.Background(), jobs[i:i+1], opts)[0]
			if d := resultDifference(together[i], single); d != "" {
				t.Fatalf("job %d, %v: %s", i, jobs[i].Policy, d)
			}
		}
	})
}

// TestFaults runs jobs that fail among others that must not notice.
func TestFaults(t *testing.T) {
	s := newSimulator(t, Config{Workers: 1})
	good := shorten(routes(t, s.Profile())[0], 120)
	edit := func(f func(*lockstep.Route)) *lockstep.Route {
		r := *good
		r.Name = "edited"
		r.TargetLataccel, r.SteerCommand, r.VEgo = slices.Clone(r.TargetLataccel), slices.Clone(r.SteerCommand), slices.Clone(r.VEgo)
		f(&r)
		return &r
	}
	at := func(step int, f func() float64) lockstep.Policy {
		return lockstep.Custom{Name: "bad", New: func() lockstep.Controller { return &failing{step: step, f: f} }}
	}
	batch := func(update func(s *lockstep.BatchStep) error) *lockstep.Batch {
		return &lockstep.Batch{Name: "broken", New: func([]*lockstep.Route) (lockstep.BatchController, error) { return brokenBatch{update}, nil }}
	}
	at104 := func(err error) func(s *lockstep.BatchStep) error {
		return func(s *lockstep.BatchStep) error {
			if s.Step == 104 {
				return err
			}
			return nil
		}
	}
	for _, c := range []struct {
		name string
		bad  lockstep.Job
		want string // part of the error
	}{
		{"controller panics", lockstep.Job{Route: good, Policy: at(107, func() float64 { panic("out of fuel") })}, "controller bad, step 107: panic: out of fuel"},
		{"controller panics in the warm-up", lockstep.Job{Route: good, Policy: at(30, func() float64 { panic("out of fuel") })}, "step 30: panic: out of fuel"},
		{"controller answers NaN", lockstep.Job{Route: good, Policy: at(111, math.NaN)}, "step 111: probabilities contain NaN"},
		{"no controller", lockstep.Job{Route: good, Policy: lockstep.Custom{Name: "bad", New: func() lockstep.Controller { return nil }}}, "controller bad, step 20: panic"},
		{"making the controller panics", lockstep.Job{Route: good, Policy: lockstep.Custom{Name: "bad", New: func() lockstep.Controller { panic("no licence") }}}, "panic: no licence"},
		{"no function makes the controller", lockstep.Job{Route: good, Policy: lockstep.Custom{Name: "bad"}}, "panic"},
		{"no policy", lockstep.Job{Route: good}, "no controller of type <nil>"},
		{"batch controller panics", lockstep.Job{Route: good, Policy: batch(func(s *lockstep.BatchStep) error {
			if s.Step == 104 {
				panic("batch out of fuel")
			}
			return nil
		})}, "controller broken, step 104: panic: batch out of fuel"},
		{"batch controller fails", lockstep.Job{Route: good, Policy: batch(at104(errors.New("out of fuel")))}, "controller broken, step 104: out of fuel"},
		{"batch controller fails a route", lockstep.Job{Route: good, Policy: batch(func(s *lockstep.BatchStep) error {
			if s.Step == 104 {
				s.Err[0] = errors.New("flat tyre")
			}
			return nil
		})}, "controller broken, step 104: flat tyre"},
		{"making the batch controller panics", lockstep.Job{Route: good, Policy: &lockstep.Batch{Name: "broken", New: func([]*lockstep.Route) (lockstep.BatchController, error) {
			panic("no controller today")
		}}}, "panic: no controller today"},
		{"making the batch controller fails", lockstep.Job{Route: good, Policy: &lockstep.Batch{Name: "broken", New: func([]*lockstep.Route) (lockstep.BatchController, error) {
			return nil, errors.New("no licence")
		}}}, "controller broken, step 0: no licence"},
		{"no batch controller", lockstep.Job{Route: good, Policy: &lockstep.Batch{}}, "panic"},
		{"observer panics", lockstep.Job{Route: good, Policy: lockstep.Zero{}, Observe: func(s *lockstep.Step) {
			if s.Index == 109 {
				panic("seen enough")
			}
		}}, "step 109: panic: seen enough"},
		{"no route", lockstep.Job{Policy: lockstep.Zero{}}, "no route"},
		{"short route", lockstep.Job{Route: shorten(good, 99), Policy: lockstep.Zero{}}, "99 rows, want at least 101"},
		{"unequal columns", lockstep.Job{Route: edit(func(r *lockstep.Route) { r.VEgo = r.VEgo[:50] }), Policy: lockstep.Zero{}}, "columns of 120, 50"},
		{"target without token", lockstep.Job{Route: edit(func(r *lockstep.Route) { r.TargetLataccel[95] = math.NaN() }), Policy: lockstep.Zero{}}, "step 100: lataccel NaN has no token"},
		{"NaN in a state", lockstep.Job{Route: edit(func(r *lockstep.Route) { r.VEgo[112] = math.NaN() }), Policy: lockstep.Zero{}}, "step 112: probabilities contain NaN"},
		{"infinite state", lockstep.Job{Route: edit(func(r *lockstep.Route) { r.VEgo[112] = math.Inf(1) }), Policy: lockstep.Zero{}}, "step 112: probabilities contain NaN"},
	} {
		t.Run(c.name, func(t *testing.T) {
			neighbour := lockstep.Job{Route: good, Policy: lockstep.DefaultPID}
			opts := lockstep.Options{Shortcuts: lockstep.CostOnly, Trajectory: true}
			want := results(t, s, context.Background(), []lockstep.Job{neighbour, neighbour}, opts)[0]
			if want.Err != nil {
				t.Fatal(want.Err)
			}
			got := results(t, s, context.Background(), []lockstep.Job{neighbour, c.bad, neighbour}, opts)
			for _, i := range []int{0, 2} {
				if d := resultDifference(got[i], want); d != "" {
					t.Errorf("neighbour %d: %s", i, d)
				}
			}
			if err := got[1].Err; err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			} else if c.bad.Route != nil && !strings.HasPrefix(err.Error(), "route "+c.bad.Route.Name+", ") {
				t.Errorf("error %q does not name the route", err)
			}
			if got[1].Trajectory != nil {
				t.Error("a failed job has a trajectory")
			}
		})
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

// TestCancel ends a run from outside: every job has a result, the unfinished
// ones the context's error, and soon.
func TestCancel(t *testing.T) {
	s := newSimulator(t, Config{Workers: 2, Chunk: 2})
	route := routes(t, s.Profile())[0]
	var jobs []lockstep.Job
	for range 12 {
		jobs = append(jobs, lockstep.Job{Route: shorten(route, 110), Policy: lockstep.Zero{}})
	}
	for range 400 {
		jobs = append(jobs, lockstep.Job{Route: route, Policy: lockstep.Zero{}})
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	seen, finished := make([]int, len(jobs)), 0
	for i, r := range s.Simulate(ctx, jobs, lockstep.Options{Shortcuts: lockstep.CostOnly}) {
		seen[i]++
		switch {
		case r.Err == nil:
			if finished++; finished == 3 {
				cancel(errors.New("enough"))
			}
		case !errors.Is(r.Err, context.Canceled):
			t.Fatal(r.Err)
		}
	}
	if finished < 3 || finished > 20 {
		t.Errorf("%d jobs finished, 3 before the run was cancelled", finished)
	}
	for i, n := range seen {
		if n != 1 {
			t.Fatalf("job %d has %d results", i, n)
		}
	}
	for _, r := range results(t, s, ctx, jobs[:3], lockstep.Options{}) {
		if !errors.Is(r.Err, context.Canceled) {
			t.Errorf("in a context that has ended: %v", r.Err)
		}
	}
}

// TestNothing is the empty sweep.
func TestNothing(t *testing.T) {
	results(t, newSimulator(t, Config{}), context.Background(), nil, lockstep.Options{})
}

// TestLeaks breaks out of runs, fails and repeats them: goroutines end, sessions
// return to the pool and are used again.
func TestLeaks(t *testing.T) {
	s := newSimulator(t, Config{Workers: 2, Chunk: 4})
	route := shorten(routes(t, s.Profile())[0], 104)
	before := runtime.NumGoroutine()
	var jobs []lockstep.Job
	for range 40 {
		jobs = append(jobs, lockstep.Job{Route: route, Policy: lockstep.Zero{}})
	}
	bad := slices.Clone(jobs)
	bad[3].Policy = nil
	for round := range 10 {
		for range s.Simulate(context.Background(), jobs, lockstep.Options{Shortcuts: lockstep.CostOnly}) {
			if round%2 == 0 {
				break
			}
		}
		results(t, s, context.Background(), bad, lockstep.Options{Shortcuts: lockstep.SkipWarmup})
		func() {
			defer func() { recover() }()
			for range s.Simulate(context.Background(), jobs, lockstep.Options{Shortcuts: lockstep.CostOnly}) {
				panic("the caller panics")
			}
		}()
	}
	for wait := time.Millisecond; runtime.NumGoroutine() > before; wait *= 2 {
		if wait > 30*time.Second {
			buffer := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, buffer[:runtime.Stack(buffer, true)])
		}
		time.Sleep(wait)
	}
	if open, free := s.sessions.open, len(s.sessions.free); open != free || open > 4 {
		t.Errorf("%d sessions are open, %d of them free; want two for either network at most", open, free)
	}

	// Memory of simulators that are closed again.
	resident := func() int {
		data, err := os.ReadFile("/proc/self/statm")
		if err != nil {
			t.Skip("memory is not measured here")
		}
		var size, pages int
		fmt.Sscan(string(data), &size, &pages)
		return pages * os.Getpagesize() >> 20
	}
	start := 0
	for i := range 12 {
		s, err := New(Config{Library: library(t), ModelPath: assetstest.Model(t)})
		if err != nil {
			t.Fatal(err)
		}
		results(t, s, context.Background(), jobs, lockstep.Options{Shortcuts: lockstep.CostOnly})
		s.Close()
		if i == 3 {
			start = resident()
		}
	}
	if end := resident(); end > start+40 {
		t.Errorf("8 simulators, each closed, took %d MiB", end-start)
	}
}

// TestClosed uses a simulator after its end.
func TestClosed(t *testing.T) {
	s := newSimulator(t, Config{})
	job := lockstep.Job{Route: routes(t, s.Profile())[0], Policy: lockstep.Zero{}}
	s.Close()
	s.Close()
	r := results(t, s, context.Background(), []lockstep.Job{job}, lockstep.Options{})[0]
	if r.Err == nil || !strings.Contains(r.Err.Error(), "closed") {
		t.Errorf("error %v, want that it is closed", r.Err)
	}
}

// TestModels gives New models that are not the network, or damaged.
func TestModels(t *testing.T) {
	lib := library(t)
	data, err := os.ReadFile(assetstest.Model(t))
	if err != nil {
		t.Fatal(err)
	}
	norm, _ := layerNormProbe()
	narrow := onnx.Patch{Outputs: []onnx.Value{{Name: "output", Type: onnx.Float, Dims: []int64{-1, 1, 1024}}}}
	narrowed, err := narrow.Apply(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		data []byte
		want string
	}{
		{"another output", narrowed, "output output: element type 1 and shape [-1 1 1024]"},
		{"empty", nil, "no graph"},
		{"text", []byte("tinyphysics\n"), "not an ONNX model"},
		{"cut off", data[:len(data)/2], "not an ONNX model, or a damaged one"},
		{"another network", norm, "no input named states: this is not the tinyphysics network"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "model.onnx")
			if err := os.WriteFile(path, c.data, 0o600); err != nil {
				t.Fatal(err)
			}
			s, err := New(Config{Library: lib, ModelPath: path})
			if err == nil {
				s.Close()
				t.Fatal("no error")
			}
			if !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), path) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q, want one line with the path and %q", err, c.want)
			}
		})
	}
	if _, err := New(Config{Library: lib, ModelPath: filepath.Join(t.TempDir(), "none.onnx")}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v, want that there is no such file", err)
	}
	if _, err := New(Config{Library: lib, ModelPath: assetstest.Model(t), Chunk: MaxChunk + 1}); err == nil {
		t.Error("chunks of any size are accepted")
	}
}

func TestChunkSize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, workers, largest := rapid.IntRange(1, 5000).Draw(t, "n"), rapid.IntRange(1, 9).Draw(t, "workers"), rapid.IntRange(1, 100).Draw(t, "largest")
		size := chunkSize(n, workers, largest)
		if size < 1 || size > largest {
			t.Fatalf("chunks of %d", size)
		}
		chunks := (n + size - 1) / size
		if per := (chunks + workers - 1) / workers; per > (n+workers*largest-1)/(workers*largest) {
			t.Fatalf("%d chunks of %d for %d workers: one gets %d", chunks, size, workers, per)
		}
	})
}

// TestForgotten: a simulator that nobody closed is closed when it is garbage, and so are
// its steppers.
func TestForgotten(t *testing.T) {
	sessions := func() *pool {
		s, err := New(Config{ModelPath: assetstest.Model(t), Library: library(t)})
		if err != nil {
			t.Fatal(err)
		}
		jobs := []lockstep.Job{{Route: routes(t, s.Profile())[0]}}
		stepper, err := s.Reset(t.Context(), jobs, lockstep.Options{Shortcuts: lockstep.CostOnly})
		if err == nil {
			err = stepper.Step(t.Context(), make([]float64, 1), make([]float64, 1))
		}
		if err != nil {
			t.Fatal(err)
		}
		return s.sessions
	}()
	closed := func() bool {
		sessions.mutex.Lock()
		defer sessions.mutex.Unlock()
		return sessions.closed && sessions.open == 0
	}
	for wait := time.Millisecond; !closed(); wait *= 2 {
		if wait > 30*time.Second {
			t.Fatalf("%d sessions are still open", sessions.open)
		}
		runtime.GC()
		time.Sleep(wait)
	}
}
