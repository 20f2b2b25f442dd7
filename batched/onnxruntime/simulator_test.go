package onnxruntime

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep"
	"lockstep/internal/fileio"
	"lockstep/internal/fingerprint"
	"lockstep/internal/onnx"
	"lockstep/internal/simtest"
)

// TestStagesReference holds every stage of every step of the real routes to the
// reference, bit by bit, with the whole network and with the last position only.
func TestStagesReference(t *testing.T) {
	for _, exp := range []lockstep.Exp{lockstep.ExpU, lockstep.ExpF} {
		s := newSimulator(t, Config{Profile: lockstep.Profile{Exp: exp}})
		if s.Profile().Exp != exp || s.About().Unproven != nil ||
			len(s.About().Notices) > 0 && s.Version() == "1.30.0" {
			t.Fatalf(
				"profile %v, unproven %v, notices %q", s.Profile(), s.About().Unproven,
				s.About().Notices,
			)
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
		want := traces(
			t, newReference(t, s.Profile()), jobs,
			lockstep.Options{Shortcuts: lockstep.AllSteps, Trajectory: true},
		)
		for _, shortcuts := range []lockstep.Shortcuts{lockstep.AllSteps, 0} {
			if shortcuts == 0 { // slower, and its network is the same for all policies
				jobs, want = jobs[:6], want[:6]
			}
			for i, got := range traces(t, s, jobs, lockstep.Options{
				Shortcuts:  shortcuts,
				Trajectory: true,
			}) {
				if want[i].result.Err != nil {
					t.Fatal(want[i].result.Err)
				}
				if d := got.difference(want[i]); d != "" {
					t.Errorf(
						"profile %v, shortcuts %d, route %s, controller %v: %s", s.Profile(),
						shortcuts, jobs[i].Route.Name, jobs[i].Policy, d,
					)
				}
			}
		}
	}
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
		for range s.Simulate(
			context.Background(), jobs, lockstep.Options{Shortcuts: lockstep.CostOnly},
		) {
			if round%2 == 0 {
				break
			}
		}
		results(t, s, context.Background(), bad, lockstep.Options{Shortcuts: lockstep.SkipWarmup})
		func() {
			defer func() { recover() }()
			for range s.Simulate(
				context.Background(), jobs, lockstep.Options{Shortcuts: lockstep.CostOnly},
			) {
				panic("the caller panics")
			}
		}()
	}
	for wait := time.Millisecond; runtime.NumGoroutine() > before; wait *= 2 {
		if wait > 30*time.Second {
			buffer := make([]byte, 1<<20)
			t.Fatalf(
				"%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before,
				buffer[:runtime.Stack(buffer, true)],
			)
		}
		time.Sleep(wait)
	}
	if open, free := s.sessions.open, len(s.sessions.free); open != free || open > 4 {
		t.Errorf(
			"%d sessions are open, %d of them free; want two for either network at most", open,
			free,
		)
	}

	// Memory of simulators that are closed again.
	resident := func() int {
		debug.FreeOSMemory() // what the collector has not given back yet is no leak
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
		s, err := New(Config{Library: library(t), ModelPath: networkPath(t)})
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

// TestLastPosition: what needs only the last position is computed by sessions that compute no
// other, and what does not by those that compute all.
func TestLastPosition(t *testing.T) {
	for shortcuts, want := range map[lockstep.Shortcuts]int{
		lockstep.CostOnly: 1, lockstep.CostOnly &^ lockstep.LastPosition: lockstep.ContextLength,
	} {
		s := newSimulator(t, Config{Workers: 1})
		s.sessions.drain() // the one that New has made to see that it can be
		route := shorten(routes(t, s.Profile())[0], 102)
		r := results(t, s, t.Context(), []lockstep.Job{{Route: route, Policy: lockstep.Zero{}}},
			lockstep.Options{Shortcuts: shortcuts})
		if r[0].Err != nil {
			t.Fatal(r[0].Err)
		}
		if free := s.sessions.free; len(free) != 1 || free[0].positions != want {
			t.Errorf("shortcuts %b: %d sessions, want one of %d positions", shortcuts, len(free),
				want)
		}
	}
}

// TestConfig: what is not asked for is chosen, what is asked for is taken, and the simulator says
// which library and which network it has.
func TestConfig(t *testing.T) {
	const cores = 3
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(cores))
	sum := func(path string) string {
		hash, err := fileio.SHA256(path)
		if err != nil {
			t.Fatal(err)
		}
		return hash
	}
	for _, c := range []struct{ workers, chunk, wantWorkers, wantChunk int }{
		{0, 0, cores, 32}, {-1, -1, cores, 32}, {1, 1, 1, 1}, {cores + 1, 40, cores + 1, 40},
	} {
		s := newSimulator(t, Config{Workers: c.workers, Chunk: c.chunk})
		if g := s.config; g.Workers != c.wantWorkers || g.Chunk != c.wantChunk {
			t.Errorf("%+v: %d workers and chunks of %d", c, g.Workers, g.Chunk)
		}
		about := s.About()
		inside := fmt.Sprintf("ONNX Runtime %s, SHA-256 %s", s.Version(), sum(s.Library())[:12])
		if about.Model != sum(networkPath(t)) || about.Inside != inside {
			t.Errorf("network %s, library %s; want %s and %s", about.Model, about.Inside,
				sum(networkPath(t)), inside)
		}
		if c.workers != 1 {
			continue
		}
		jobs := slices.Repeat([]lockstep.Job{{
			Route: shorten(routes(t, s.Profile())[0], 104), Policy: lockstep.Zero{},
		}}, 8)
		for _, r := range results(t, s, t.Context(), jobs,
			lockstep.Options{Shortcuts: lockstep.CostOnly}) {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
		}
		if s.sessions.open != 1 {
			t.Errorf("one worker has opened %d sessions", s.sessions.open)
		}
	}
	if now := runtime.GOMAXPROCS(0); now != cores {
		t.Errorf("%d cores may be used afterwards, want %d", now, cores)
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
	data, err := os.ReadFile(networkPath(t))
	if err != nil {
		t.Fatal(err)
	}
	asked, err := fingerprint.Probes()
	if err != nil {
		t.Fatal(err)
	}
	narrow := onnx.Patch{
		Outputs: []onnx.Value{{Name: "output", Type: onnx.Float, Dims: []int64{-1, 1, 1024}}},
	}
	narrowed, err := narrow.Apply(data)
	if err != nil {
		t.Fatal(err)
	}
	lone := onnx.Patch{
		Outputs: []onnx.Value{{Name: "output", Type: onnx.Float, Dims: []int64{1, 20, 1024}}},
	}
	single, err := lone.Apply(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		data []byte
		want string
	}{
		{"one sequence", single, "output output: element type 1 and shape [1 20 1024]"},
		{"another output", narrowed, "output output: element type 1 and shape [-1 1 1024]"},
		{"empty", nil, "no graph"},
		{"text", []byte("tinyphysics\n"), "not an ONNX model"},
		{"cut off", data[:len(data)/2], "not an ONNX model, or a damaged one"},
		{"another network", asked[0].Network(), "no input named states: this is not the " +
			"tinyphysics network"},
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
			if !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), path) ||
				strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q, want one line with the path and %q", err, c.want)
			}
		})
	}
	if _, err := New(Config{Library: lib,
		ModelPath: filepath.Join(t.TempDir(), "none.onnx")}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v, want that there is no such file", err)
	}
	_, err = New(Config{Library: lib, ModelPath: networkPath(t), Chunk: MaxChunk + 1})
	simtest.Refused(t, "a large chunk", err, "chunks of 4097 routes: want 4096 at most")
}

// TestForgotten: a simulator that nobody closed is closed when it is garbage, and so are
// its steppers.
func TestForgotten(t *testing.T) {
	sessions := func() *pool {
		s, err := New(Config{ModelPath: networkPath(t), Library: library(t)})
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
