package onnxruntime

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"testing"

	"lockstep"
	"lockstep/internal/assets"
	"lockstep/internal/assets/assetstest"
	"lockstep/internal/defaults"
	"lockstep/internal/model"
	"lockstep/internal/want"
	"lockstep/parity/schema"
	"lockstep/reference"
	"lockstep/routefile"
)

// library is the path of ONNX Runtime; where it is absent the test is skipped, or
// fails if it is required.
func library(t testing.TB) string {
	t.Helper()
	want.Skip(t, want.ONNXRuntime.Denied(Available()))
	path, err := FindLibrary()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// networkPath is the official network, or the project's own where that is not here: of the same
// graph.
func networkPath(t testing.TB) string {
	t.Helper()
	if path, err := assets.Find(assets.Model); err == nil {
		return path
	}
	path, _, err := defaults.Keep()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// newSimulator makes a simulator that ends with the test.
func newSimulator(t testing.TB, config Config) *Simulator {
	t.Helper()
	config.Library, config.ModelPath = library(t), networkPath(t)
	s, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		if s.sessions.open != 0 {
			t.Errorf("%d sessions are open after the end", s.sessions.open)
		}
	})
	return s
}

// newReference makes the simulator that has the same arithmetic.
func newReference(t testing.TB, profile lockstep.Profile) *reference.Simulator {
	t.Helper()
	s, err := reference.New(networkPath(t), profile)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var threePolicies = []lockstep.Policy{
	lockstep.DefaultPID(), lockstep.Zero{}, lockstep.PID{P: 0.3, I: 0.05, D: -0.1},
}

// shorten is a route's first rows.
func shorten(r *lockstep.Route, rows int) *lockstep.Route {
	return &lockstep.Route{
		Name: fmt.Sprintf("%s[:%d]", r.Name, rows), Seed: r.Seed,
		RollLataccel: r.RollLataccel[:rows], VEgo: r.VEgo[:rows], AEgo: r.AEgo[:rows],
		TargetLataccel: r.TargetLataccel[:rows], SteerCommand: r.SteerCommand[:rows],
	}
}

// A trace holds a hash of every stage of every step of a rollout, and its
// result.
type trace struct {
	steps  []map[string]uint64
	result lockstep.Result
}

var seed = maphash.MakeSeed()

func hash(values any) uint64 {
	data, err := binary.Append(nil, binary.LittleEndian, values)
	if err != nil {
		panic(err)
	}
	return maphash.Bytes(seed, data)
}

func (tr *trace) observe(s *lockstep.Step) {
	tr.steps = append(tr.steps, map[string]uint64{
		"0 index":      uint64(s.Index),
		"1 action":     hash(s.Action),
		"2 tokens":     hash(s.Tokens),
		"3 states":     hash(s.States),
		"4 logits":     hash(s.Logits),
		"5 probs":      hash(s.Probs),
		"6 cdf":        hash(s.CDF),
		"7 draw":       hash(s.Draw),
		"8 sample":     uint64(s.Sample),
		"9 prediction": hash(s.Prediction),
		"a lataccel":   hash(s.Lataccel),
	})
}

// difference is the first one of two traces, or "".
func (tr *trace) difference(want *trace) string {
	for i := range min(len(tr.steps), len(want.steps)) {
		for _, stage := range slices.Sorted(maps.Keys(want.steps[i])) {
			if tr.steps[i][stage] != want.steps[i][stage] {
				return fmt.Sprintf("step %d, stage %s", want.steps[i]["0 index"], stage[2:])
			}
		}
	}
	if len(tr.steps) != len(want.steps) {
		return fmt.Sprintf("%d steps, want %d", len(tr.steps), len(want.steps))
	}
	return resultDifference(tr.result, want.result)
}

// resultDifference is how two results differ, or "".
func resultDifference(got, want lockstep.Result) string {
	if fmt.Sprint(got.Err) != fmt.Sprint(want.Err) {
		return fmt.Sprintf("error %v, want %v", got.Err, want.Err)
	}
	for _, c := range [][2]float64{
		{got.Costs.Lataccel, want.Costs.Lataccel}, {got.Costs.Jerk, want.Costs.Jerk},
		{got.Costs.Total, want.Costs.Total},
	} {
		if !schema.Equal(c[0], c[1]) {
			return fmt.Sprintf("costs %v, want %v", got.Costs, want.Costs)
		}
	}
	if (got.Trajectory == nil) != (want.Trajectory == nil) {
		return fmt.Sprintf("trajectory %v, want %v", got.Trajectory, want.Trajectory)
	}
	if g, w := got.Trajectory, want.Trajectory; g != nil {
		for _, c := range [][2][]float64{
			{g.Target, w.Target}, {g.Lataccel, w.Lataccel}, {g.Action, w.Action},
		} {
			if !slices.EqualFunc(c[0], c[1], schema.Equal[float64]) {
				return "trajectories differ"
			}
		}
	}
	return ""
}

// traces runs jobs and returns the trace of each.
func traces(
	t interface{ Fatalf(string, ...any) }, s lockstep.Simulator, jobs []lockstep.Job,
	opts lockstep.Options,
) []*trace {
	out := make([]*trace, len(jobs))
	jobs = slices.Clone(jobs)
	for i := range jobs {
		out[i] = &trace{}
		jobs[i].Observe = out[i].observe
	}
	for i, r := range results(t, s, context.Background(), jobs, opts) {
		out[i].result = r
	}
	return out
}

// results runs jobs and returns the result of each.
func results(
	t interface{ Fatalf(string, ...any) }, s lockstep.Simulator, ctx context.Context,
	jobs []lockstep.Job, opts lockstep.Options,
) []lockstep.Result {
	out, seen := make([]lockstep.Result, len(jobs)), make([]int, len(jobs))
	for i, r := range s.Simulate(ctx, jobs, opts) {
		if i < 0 || i >= len(jobs) {
			t.Fatalf("a result of job %d, there are %d", i, len(jobs))
		}
		out[i] = r
		seen[i]++
	}
	for i, n := range seen {
		if n != 1 {
			t.Fatalf("job %d has %d results", i, n)
		}
	}
	return out
}

var routesOnce sync.Map

// routes are the real ones, or as many of the project's own where these are not here.
func routes(t testing.TB, profile lockstep.Profile) []*lockstep.Route {
	t.Helper()
	if r, ok := routesOnce.Load(profile); ok {
		return r.([]*lockstep.Route)
	}
	var all []*lockstep.Route
	if _, err := assets.Find(assets.Routes); err == nil {
		for _, name := range assetstest.RouteNames {
			all = append(all, assetstest.Route(t, name, profile))
		}
	} else {
		_, folder, err := defaults.Keep()
		if err != nil {
			t.Fatal(err)
		}
		files, err := routefile.List(folder, len(assetstest.RouteNames))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			route, err := routefile.Loader{Profile: profile}.Load(file)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, route)
		}
	}
	routesOnce.Store(profile, all)
	return all
}

// windows are the network's inputs at some steps of a real rollout, batches of
// them, and batches of noise.
func windows(t testing.TB, s *Simulator, n int) (states [][]float32, tokens [][]int64) {
	job := lockstep.Job{Route: routes(t, s.Profile())[0], Policy: lockstep.DefaultPID()}
	job.Observe = func(step *lockstep.Step) {
		if step.Logits != nil && len(states) < n/2+1 {
			states = append(states, slices.Clone(step.States))
			tokens = append(tokens, slices.Clone(step.Tokens))
		}
	}
	results(
		t, s, context.Background(), []lockstep.Job{job},
		lockstep.Options{Shortcuts: lockstep.CostOnly},
	)
	state := uint64(n)
	random := func() uint64 {
		state = state*6364136223846793005 + 1442695040888963407
		return state >> 33
	}
	for len(states) < n {
		x, k := make([]float32, model.Context*model.StateSize), make([]int64, model.Context)
		for i := range x {
			x[i] = (float32(random())/(1<<30) - 1) * []float32{2, 3, 40, 5}[i%4]
		}
		for i := range k {
			k[i] = int64(random() % model.Vocabulary)
		}
		states, tokens = append(states, x), append(tokens, k)
	}
	return states[:n], tokens[:n]
}
