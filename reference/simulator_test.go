package reference

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"lockstep"
	"lockstep/internal/assets/assetstest"
	"lockstep/internal/f32"
	"lockstep/internal/model"
	"lockstep/internal/simtest"
	"lockstep/parity/schema"
)

func load(t testing.TB, profile lockstep.Profile) *Simulator {
	t.Helper()
	s, err := New(assetstest.Model(t), profile)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// simulate runs one job and fails the test if it fails.
func simulate(
	t testing.TB, s *Simulator, job lockstep.Job, shortcuts lockstep.Shortcuts,
) lockstep.Result {
	t.Helper()
	for _, r := range s.Simulate(
		context.Background(), []lockstep.Job{job},
		lockstep.Options{Shortcuts: shortcuts, Trajectory: true},
	) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		if r.Trajectory == nil {
			t.Fatal("no trajectory")
		}
		return r
	}
	t.Fatal("no result")
	return lockstep.Result{}
}

// TestShortcuts holds every shortcut, and all together, to the way without any.
func TestShortcuts(t *testing.T) {
	for _, name := range []string{"00000", "04744"} {
		profile := HostProfile()
		s, route := load(t, profile), assetstest.Route(t, name, profile)
		full := map[int]lockstep.Step{}
		job := lockstep.Job{Route: route, Policy: lockstep.DefaultPID()}
		job.Observe = func(step *lockstep.Step) { full[step.Index] = clone(step) }
		want := simulate(t, s, job, 0)
		if len(full) != route.Len()-lockstep.ContextLength {
			t.Fatalf("%d steps, want %d", len(full), route.Len()-lockstep.ContextLength)
		}
		for _, shortcuts := range []lockstep.Shortcuts{
			lockstep.SkipWarmup, lockstep.StopAtCostEnd, lockstep.LastPosition, lockstep.CostOnly,
		} {
			steps := 0
			job.Observe = func(step *lockstep.Step) {
				steps++
				want, got := full[step.Index], clone(step)
				if shortcuts&lockstep.SkipWarmup != 0 && step.Index < lockstep.ControlStartIdx {
					if got.Logits != nil || got.Sample != -1 {
						t.Errorf("shortcuts %b, step %d: the network ran", shortcuts, step.Index)
					}
					want = lockstep.Step{
						Index:    want.Index,
						Action:   want.Action,
						Draw:     want.Draw,
						Sample:   -1,
						Lataccel: want.Lataccel,
					}
				}
				if a, b := fmt.Sprintf("%x", want), fmt.Sprintf("%x", got); a != b {
					t.Errorf(
						"shortcuts %b, step %d differs from the full rollout", shortcuts,
						step.Index,
					)
				}
			}
			got := simulate(t, s, job, shortcuts)
			end := route.Len()
			if shortcuts&lockstep.StopAtCostEnd != 0 {
				end = lockstep.CostEndIdx
			}
			if steps != end-lockstep.ContextLength {
				t.Errorf(
					"shortcuts %b: %d steps, want %d", shortcuts, steps, end-lockstep.ContextLength,
				)
			}
			if got.Costs != want.Costs {
				t.Errorf("shortcuts %b: costs %v, want %v", shortcuts, got.Costs, want.Costs)
			}
			if err := errors.Join(simtest.Same("lataccel", got.Trajectory.Lataccel,
				want.Trajectory.Lataccel[:end]), simtest.Same(
				"action", got.Trajectory.Action, want.Trajectory.Action[:end],
			)); err != nil {
				t.Errorf("reference, shortcuts %b against none: %v", shortcuts, err)
			}
		}
	}
}

func clone(s *lockstep.Step) lockstep.Step {
	c := *s
	c.Tokens, c.States, c.Logits = slices.Clone(s.Tokens), slices.Clone(s.States),
		slices.Clone(s.Logits)
	c.Probs, c.CDF = slices.Clone(s.Probs), slices.Clone(s.CDF)
	return c
}

// TestDrawOffsets: the k-th draw of a route is the k-th of NumPy's stream,
// whatever shortcuts run and whatever ran before it.
func TestDrawOffsets(t *testing.T) {
	profile := HostProfile()
	s, route := load(t, profile), assetstest.Route(t, "00002", profile)
	other := assetstest.Route(t, "00004", profile)
	random := NewRandom(route.Seed)
	var want []float64
	for range route.Len() {
		want = append(want, random.Random())
	}
	rapid.Check(t, func(t *rapid.T) {
		// The network is what costs time: skip it where that is possible.
		shortcuts := lockstep.Shortcuts(rapid.IntRange(0, 7).Draw(t, "shortcuts"))
		n := rapid.IntRange(lockstep.MinRows, lockstep.MinRows+20).Draw(t, "rows")
		job := lockstep.Job{
			Route:  shorten(route, n),
			Policy: lockstep.Zero{},
			Observe: func(step *lockstep.Step) {
				if got := step.Draw; got != want[step.Index-lockstep.ContextLength] {
					t.Fatalf(
						"step %d: draw %v, want %v", step.Index, got,
						want[step.Index-lockstep.ContextLength],
					)
				}
			},
		}
		jobs := []lockstep.Job{
			{Route: shorten(other, lockstep.MinRows), Policy: lockstep.Zero{}},
			job,
		}
		for _, r := range s.Simulate(
			context.Background(), jobs, lockstep.Options{Shortcuts: shortcuts},
		) {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
		}
	})
}

// shorten is a route's first rows.
func shorten(r *lockstep.Route, n int) *lockstep.Route {
	short := *r
	for _, column := range []*[]float64{
		&short.RollLataccel, &short.VEgo, &short.AEgo, &short.TargetLataccel, &short.SteerCommand,
	} {
		*column = (*column)[:n]
	}
	return &short
}

// TestKernels holds the network's logits on every set of kernels to those of
// the plain Go loops, at all positions and at the last one, in every profile.
func TestKernels(t *testing.T) {
	weights, err := model.Load(assetstest.Model(t))
	if err != nil {
		t.Fatal(err)
	}
	parameters := pack(weights)
	rapid.Check(t, func(t *rapid.T) {
		profile := rapid.SampledFrom(networkProfiles()).Draw(t, "profile")
		states := make([]float32, positions*model.StateSize)
		scale := rapid.SampledFrom([]float32{1, 1e-4, 1e4}).Draw(t, "scale")
		for i := range states {
			states[i] = scale * rapid.Float32Range(-40, 40).Draw(t, "state")
		}
		tokens := rapid.SliceOfN(
			rapid.Int64Range(0, lockstep.VocabSize-1), positions, positions,
		).Draw(t, "tokens")
		want := make([]float32, positions*lockstep.VocabSize)
		newGPT(parameters, profile, f32.Go).forward(want, states, tokens, 0)
		for _, kernels := range f32.Available() {
			g := newGPT(parameters, profile, kernels)
			for _, first := range []int{0, positions - 1} {
				got := make([]float32, (positions-first)*lockstep.VocabSize)
				g.forward(got, states, tokens, first)
				for i, v := range got {
					if w := want[first*lockstep.VocabSize+i]; !schema.Equal(v, w) {
						t.Fatalf(
							"profile %s, kernels %s, from position %d: logit %d is %v, want %v",
							profile, kernels.Name, first, i, v, w,
						)
					}
				}
			}
		}
	})
}

// networkProfiles are the profiles that differ inside the network.
func networkProfiles() []lockstep.Profile {
	var profiles []lockstep.Profile
	for _, p := range lockstep.Profiles() {
		if p.CSV == lockstep.CSV2 && p.Exp == lockstep.ExpU {
			profiles = append(profiles, p)
		}
	}
	return profiles
}

// TestProfilesDiffer: a profile that changed nothing would be one too many.
func TestProfilesDiffer(t *testing.T) {
	weights, err := model.Load(assetstest.Model(t))
	if err != nil {
		t.Fatal(err)
	}
	parameters := pack(weights)
	states := make([]float32, positions*model.StateSize)
	for i := range states {
		states[i] = float32(math.Sin(float64(i))) * float32(1+i%4*10)
	}
	tokens := make([]int64, positions)
	seen := map[string]string{}
	for _, profile := range networkProfiles() {
		logits := make([]float32, lockstep.VocabSize)
		newGPT(parameters, profile, f32.Best()).forward(logits, states, tokens, positions-1)
		text := fmt.Sprintf("%x", logits)
		if other, ok := seen[text]; ok {
			t.Errorf("%s and %s give the same logits", profile, other)
		}
		seen[text] = profile.String()
	}
}

func TestUnknownKernels(t *testing.T) {
	s := load(t, lockstep.Profile{})
	if _, err := s.WithKernels("sse"); err == nil ||
		!strings.Contains(err.Error(), `no kernels "sse" here, only `) {
		t.Errorf("got %v", err)
	}
	plain, err := s.WithKernels("go")
	if err != nil || plain.About().Kernels != "go" {
		t.Errorf("got %v, %v", plain, err)
	}
}

// function is a controller made of a function of the step.
type function struct {
	step   int
	update func(step int) float64
}

func (f *function) Update(_, _ float64, _ lockstep.State, _ lockstep.FuturePlan) float64 {
	f.step++
	return f.update(lockstep.ContextLength + f.step - 1)
}

func custom(name string, update func(step int) float64) lockstep.Custom {
	return lockstep.Custom{
		Name: name,
		New:  func() lockstep.Controller { return &function{update: update} },
	}
}

// TestFailures: what fails one job leaves the others alone and says where.
func TestFailures(t *testing.T) {
	profile := HostProfile()
	s, route := load(t, profile), assetstest.Route(t, "00000", profile)
	good := lockstep.Job{Route: route, Policy: lockstep.Zero{}}
	want := simulate(t, s, good, lockstep.CostOnly)
	jobs := []lockstep.Job{
		good,
		{Route: route, Policy: custom("nan", func(step int) float64 {
			if step == 150 {
				return math.NaN()
			}
			return 0
		})},
		{Route: route, Policy: custom("panics", func(step int) float64 {
			if step == 60 {
				panic("out of fuel")
			}
			return 0
		})},
		{Route: route},
		good,
	}
	wantErrors := []string{
		"", "route 00000, controller nan, step 150: probabilities contain NaN",
		"route 00000, controller panics, step 60: panic: out of fuel",
		"no controller of type <nil>", "",
	}
	for i, r := range s.Simulate(
		context.Background(), jobs, lockstep.Options{Shortcuts: lockstep.CostOnly},
	) {
		if wantErrors[i] == "" {
			if r.Err != nil || r.Costs != want.Costs {
				t.Errorf("job %d: %v, %v; want %v", i, r.Costs, r.Err, want.Costs)
			}
		} else if r.Err == nil || !strings.Contains(r.Err.Error(), wantErrors[i]) {
			t.Errorf("job %d: %v, want …%s…", i, r.Err, wantErrors[i])
		}
	}
}

// batch is a batch controller made of a function; closed counts its ends.
type batch struct {
	update func(s *lockstep.BatchStep) error
	closed *int
}

func (b batch) Update(s *lockstep.BatchStep) error { return b.update(s) }
func (b batch) Close() error                       { *b.closed++; return nil }

func TestBatchController(t *testing.T) {
	profile := HostProfile()
	s, route := load(t, profile), assetstest.Route(t, "00000", profile)
	want := simulate(
		t, s, lockstep.Job{Route: route, Policy: lockstep.PID{P: 0.3}}, lockstep.CostOnly,
	)
	made, closed := 0, 0
	policy := func(update func(s *lockstep.BatchStep) error) *lockstep.Batch {
		return &lockstep.Batch{
			Name: "batch",
			New: func(routes []*lockstep.Route) (lockstep.BatchController, error) {
				made++
				if len(routes) != 1 || routes[0] != route {
					t.Errorf("made for %v", routes)
				}
				return batch{update, &closed}, nil
			},
		}
	}
	next := lockstep.ContextLength
	got := simulate(
		t, s,
		lockstep.Job{Route: route, Policy: policy(func(s *lockstep.BatchStep) error {
			if s.Step != next || !s.Running[0] || s.State[0] != route.State(s.Step) {
				t.Errorf("step %d, want %d: %v", s.Step, next, s)
			}
			next++
			s.Steer[0] = 0.3 * (s.TargetLataccel[0] - s.CurrentLataccel[0])
			return nil
		})},
		lockstep.CostOnly,
	)
	if got.Costs != want.Costs {
		t.Errorf("costs %v, want %v", got.Costs, want.Costs)
	}
	broken := errors.New("broken")
	for _, update := range []func(s *lockstep.BatchStep) error{
		func(s *lockstep.BatchStep) error { s.Err[0] = broken; return nil },
		func(s *lockstep.BatchStep) error { return broken },
	} {
		for _, r := range s.Simulate(
			context.Background(), []lockstep.Job{{Route: route, Policy: policy(update)}},
			lockstep.Options{Shortcuts: lockstep.CostOnly},
		) {
			if !errors.Is(r.Err, broken) ||
				r.Err.Error() != "route 00000, controller batch, step 20: broken" {
				t.Errorf("got %v", r.Err)
			}
		}
	}
	if made != 3 || closed != made {
		t.Errorf("%d made, %d closed", made, closed)
	}
}

func TestCancel(t *testing.T) {
	profile := HostProfile()
	s, route := load(t, profile), assetstest.Route(t, "00000", profile)
	ctx, cancel := context.WithCancel(context.Background())
	jobs := []lockstep.Job{
		{Route: route, Policy: custom("cancels", func(step int) float64 {
			if step == 50 {
				cancel()
			}
			return 0
		})},
		{Route: route, Policy: lockstep.Zero{}},
	}
	results := 0
	for _, r := range s.Simulate(ctx, jobs, lockstep.Options{}) {
		results++
		if !errors.Is(r.Err, context.Canceled) {
			t.Errorf("got %v, want context.Canceled", r.Err)
		}
	}
	if results != len(jobs) {
		t.Errorf("%d results, want %d", results, len(jobs))
	}
	for range s.Simulate(
		context.Background(), jobs, lockstep.Options{Shortcuts: lockstep.CostOnly},
	) {
		break // leaving early is allowed
	}
}
