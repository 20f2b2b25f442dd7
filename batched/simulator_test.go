package batched_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"lockstep"
	"lockstep/batched"
	"lockstep/internal/defaults"
	"lockstep/internal/f32"
	"lockstep/reference"
	"lockstep/routefile"
)

// jobs are of the default routes' first rows.
func jobs(t *testing.T, rows ...int) (all []lockstep.Job) {
	t.Helper()
	names, err := fs.Glob(defaults.Routes(), "*.csv")
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range rows {
		f, err := defaults.Routes().Open(names[i])
		if err != nil {
			t.Fatal(err)
		}
		r, err := routefile.Loader{Profile: reference.HostProfile()}.Read(f, names[i])
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		r.RollLataccel, r.VEgo, r.AEgo, r.TargetLataccel = r.RollLataccel[:n], r.VEgo[:n],
			r.AEgo[:n], r.TargetLataccel[:n]
		all = append(all, lockstep.Job{Route: r, Policy: lockstep.DefaultPID()})
	}
	return all
}

// logits are those of all predictions of all jobs, in their order.
func logits(t *testing.T, s lockstep.Simulator, jobs []lockstep.Job) (all [][]float32) {
	t.Helper()
	jobs, all = slices.Clone(jobs), make([][]float32, len(jobs))
	for i := range jobs {
		jobs[i].Observe = func(step *lockstep.Step) { all[i] = append(all[i], step.Logits...) }
	}
	for i, r := range s.Simulate(
		context.Background(), jobs, lockstep.Options{Shortcuts: lockstep.CostOnly},
	) {
		if r.Err != nil {
			t.Fatalf("job %d: %v", i, r.Err)
		}
	}
	return all
}

// TestPlain holds the network in each set of assembly kernels to the reference, which
// runs the plain Go loops, in profiles that between them have each of its variants.
func TestPlain(t *testing.T) {
	model, _, err := defaults.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	sample := jobs(t, 102, 104, 101)
	for _, profile := range []lockstep.Profile{
		{Softmax: lockstep.SoftmaxAVX512, LayerNorm: lockstep.LayerNorm130},
		{Softmax: lockstep.SoftmaxAVX2, LayerNorm: lockstep.LayerNorm127, Exp: lockstep.ExpF},
		{Softmax: lockstep.SoftmaxAVX2, LayerNorm: lockstep.LayerNorm123},
	} {
		spec, err := reference.New(model, profile)
		if err != nil {
			t.Fatal(err)
		}
		if spec, err = spec.WithKernels("go"); err != nil {
			t.Fatal(err)
		}
		want := logits(t, spec, sample)
		for _, kernels := range f32.Available() {
			t.Run(profile.String()+"/"+kernels.Name, func(t *testing.T) {
				s, err := batched.New(batched.Config{
					ModelPath: model,
					Profile:   profile,
					Kernels:   kernels.Name,
					Workers:   1,
				})
				if err != nil {
					t.Fatal(err)
				}
				for i, got := range logits(t, s, sample) {
					if len(got) != len(want[i]) || len(got) == 0 {
						t.Fatalf("job %d: %d logits, want %d", i, len(got), len(want[i]))
					}
					for k := range got {
						if math.Float32bits(got[k]) != math.Float32bits(want[i][k]) {
							t.Fatalf(
								"job %d, prediction %d, logit %d: %v, want %v", i,
								k/lockstep.VocabSize, k%lockstep.VocabSize, got[k], want[i][k],
							)
						}
					}
				}
			})
		}
	}
}

// TestCancel: after the step during which the context ended no worker computes another,
// and each job has its error.
func TestCancel(t *testing.T) {
	model, _, err := defaults.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s, err := batched.New(batched.Config{ModelPath: model, Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	const step = 105
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	sample, last := jobs(t, 120, 120, 120), 0
	for i := range sample {
		sample[i].Observe = func(now *lockstep.Step) {
			if last = max(last, now.Index); now.Index == step {
				cancel()
			}
		}
	}
	ended := 0
	for i, r := range s.Simulate(ctx, sample, lockstep.Options{}) {
		if ended++; !errors.Is(r.Err, context.Canceled) {
			t.Errorf("job %d: error %v, want context.Canceled", i, r.Err)
		}
	}
	if last != step || ended != len(sample) {
		t.Errorf(
			"step %d is computed after the context ended at %d; %d results of %d", last, step,
			ended, len(sample),
		)
	}
}

// still is a batch controller that answers 0.
type still struct{}

func (still) Update(*lockstep.BatchStep) error { return nil }
func (still) Close() error                     { return nil }

// TestCancelMany: of many jobs few begin before there is a first result, and none after the
// context's end.
func TestCancelMany(t *testing.T) {
	model, _, err := defaults.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var begun atomic.Int64
	alone := lockstep.Custom{Name: "alone", New: func() lockstep.Controller {
		begun.Add(1)
		return constant{}
	}}
	together := &lockstep.Batch{
		Name: "together",
		New: func(routes []*lockstep.Route) (lockstep.BatchController, error) {
			begun.Add(int64(len(routes)))
			return still{}, nil
		},
	}
	for _, policy := range []lockstep.Policy{alone, together} {
		begun.Store(0)
		s, err := batched.New(batched.Config{ModelPath: model, Workers: 2})
		if err != nil {
			t.Fatal(err)
		}
		many := slices.Repeat(jobs(t, 101), 10_000)
		for i := range many {
			many[i].Policy = policy
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		first, results := int64(0), 0
		for _, r := range s.Simulate(ctx, many, lockstep.Options{Shortcuts: lockstep.CostOnly}) {
			if results++; results == 1 {
				if first = begun.Load(); r.Err != nil {
					t.Error(r.Err)
				}
				cancel()
			}
		}
		if results != len(many) || first > 1000 || begun.Load() > 2000 {
			t.Errorf("%v: %d results of %d; %d rollouts had begun at the first, %d at the end",
				policy, results, len(many), first, begun.Load())
		}
	}
}

// constant answers 0.
type constant struct{}

func (constant) Update(float64, float64, lockstep.State, lockstep.FuturePlan) float64 { return 0 }

// TestConfig: what cannot be is refused.
func TestConfig(t *testing.T) {
	most := batched.MaxChunk
	for want, c := range map[string]batched.Config{
		fmt.Sprintf("chunks of %d routes: want %d at most", most+1, most): {Chunk: most + 1},

		`no kernels "mmx"`: {Kernels: "mmx"},
		"none.onnx":        {ModelPath: "none.onnx"},
	} {
		if _, err := batched.New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", c, err, want)
		}
	}
}

// TestCuts: of its work a simulator says the largest groups, and the chunk that it was given.
func TestCuts(t *testing.T) {
	model, _, err := defaults.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for chunk, want := range map[int][]int{0: {3, 20}, 7: {3, 7}} {
		s, err := batched.New(batched.Config{ModelPath: model, Chunk: chunk})
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Cuts(); !slices.Equal(got, want) {
			t.Errorf("a chunk of %d: cut into %v, want %v", chunk, got, want)
		}
	}
}

// TestNetworkTime: what About says of the time inside the network grows as rollouts are computed.
func TestNetworkTime(t *testing.T) {
	model, _, err := defaults.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s, err := batched.New(batched.Config{ModelPath: model})
	if err != nil {
		t.Fatal(err)
	}
	before := s.About().NetworkTime()
	for i, r := range s.Simulate(t.Context(), jobs(t, 102), lockstep.Options{}) {
		if r.Err != nil {
			t.Fatalf("rollout %d: %v", i, r.Err)
		}
	}
	if after := s.About().NetworkTime(); before != 0 || after <= 0 {
		t.Errorf("inside the network: %v before a rollout, %v after it", before, after)
	}
}
