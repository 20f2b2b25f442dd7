package parity_test

import (
	"context"
	"errors"
	"iter"
	"path/filepath"
	"strings"
	"testing"

	"lockstep/internal/simtest"
	"lockstep/parity"
	"lockstep/parity/conformance"
	"lockstep/parity/schema"
	"lockstep/parity/trace"
)

// A start is what a walk is computed from.
type start struct {
	Seed  parity.Float
	Steps int // at most: a walk ends where it leaves its field
}

// A place is one step: where it leads to, and what that is worth.
type place struct {
	at     []float64
	reward float32
}

var walks = schema.NewView(
	schema.Schema{
		Name: "walk",
		Key:  []string{"start"},
		Outcome: schema.Outcome{
			Name:     "result",
			Elements: []string{"sum"},
			From:     []string{"reward"},
		},
	},
	schema.Array(
		schema.Stage{
			Name:     "at",
			Shape:    []int{2},
			Teach:    true,
			From:     []schema.Input{schema.Last(1, "at")},
			Elements: []schema.Element{{Name: "x", Count: 1}, {Name: "y", Count: 1}},
		},
		func(p *place) []float64 { return p.at },
	),
	schema.Number(
		schema.Stage{Name: "reward", Effect: true, From: []schema.Input{schema.Same("at")}},
		func(p *place) (float32, bool) { return p.reward, true },
	),
)

// A walker walks. At some steps it adds something to y, and to the reward, wrongly.
type walker map[int][2]float64

func (walker) Info() parity.SideInfo  { return parity.SideInfo{Name: "walker"} }
func (walker) Schema() *schema.Schema { return &walks.Schema }

func (w walker) Run(
	ctx context.Context, tasks []parity.RolloutTask, observe func(int, *schema.Step),
) iter.Seq2[int, parity.End] {
	return func(yield func(int, parity.End) bool) {
		for i, task := range tasks {
			from, into := task.Job.(start), walks.NewStep()
			x, y, sum := float64(from.Seed), 0.25, 0.0
			teacher := parity.Taught[float64](task.Teacher, "at")
			for k := 0; (task.Teacher == nil && k < from.Steps && x < 3 || 2*k < len(teacher)) &&
				ctx.Err() == nil; k++ {
				x, y = x+y*y, 0.5-x*y
				p := place{at: []float64{x, y + w[k][0]}, reward: float32(x*y + w[k][1])}
				walks.Expose(k, &p, into)
				observe(i, into)
				x, y, sum = p.at[0], p.at[1], sum+float64(p.reward)
				if teacher != nil {
					x, y = teacher[2*k], teacher[2*k+1]
				}
			}
			if !yield(i, parity.End{Outcome: []float64{sum}, Err: ctx.Err()}) {
				return
			}
		}
	}
}

// A restless walker is never the same.
type restless struct{ walker }

func (r restless) Run(
	ctx context.Context, tasks []parity.RolloutTask, observe func(int, *schema.Step),
) iter.Seq2[int, parity.End] {
	r.walker[0] = [2]float64{0, r.walker[0][1] + 1}
	return r.walker.Run(ctx, tasks, observe)
}

// A silent walker shows no step.
type silent struct{ walker }

func (s silent) Run(
	ctx context.Context, tasks []parity.RolloutTask, _ func(int, *schema.Step),
) iter.Seq2[int, parity.End] {
	return s.walker.Run(ctx, tasks, func(int, *schema.Step) {})
}

// field is a case of walks.
type field struct {
	parity.Case
	Starts  []start             `json:"starts"`
	Results []parity.CaseResult `json:"results"`
}

func (f field) tasks() (tasks []parity.RolloutTask) {
	for i, s := range f.Starts {
		tasks = append(
			tasks,
			parity.RolloutTask{
				Rollout: trace.Rollout{Key: []string{string(rune('a' + i))}},
				Job:     s,
			},
		)
	}
	return tasks
}

func must(t *testing.T, err error) {
	if t.Helper(); err != nil {
		t.Fatal(err)
	}
}

// TestSecondSimulator compares, judges, traces, shrinks and replays another simulator.
func TestSecondSimulator(t *testing.T) {
	cases := field{
		Case:   parity.Case{What: "a walk", Stage: "reward", Engine: "walker"},
		Starts: []start{{0.5, 9}, {2.5, 50}, {-1, 12}},
	}
	broken := walker{4: {0, 1}, 7: {0.125, 0}}
	walkersConform(t, cases)
	walkersCompared(t, cases, broken)
	walkersTraced(t, cases, broken)
	walkersShrunk(t, cases, broken)
}

// walkersConform: one that is never the same does not, nor one that shows nothing, nor anything
// without a task.
func walkersConform(t *testing.T, cases field) {
	t.Helper()
	must(t, conformance.Engine(t.Context(), walker{}, cases.tasks()))
	simtest.Refused(t, "a restless walker",
		conformance.Engine(t.Context(), restless{walker{}}, cases.tasks()),
		"a, in another order: step 0, stage reward, index 0: want 1.2109375 (3f9b0000)")
	if err := conformance.Engine(t.Context(), silent{walker{}}, cases.tasks()); err == nil ||
		!strings.HasPrefix(err.Error(), "a: no step is shown\nb: ") {
		t.Error(err)
	}
	if err := conformance.Engine(t.Context(), walker{}, nil); err == nil {
		t.Error("no tasks conform")
	}
}

// comparedWalks compares the walks of a field.
func comparedWalks(t *testing.T, f field, want, got parity.Side) *parity.Report {
	t.Helper()
	r, err := parity.Compare(
		t.Context(), parity.Family{}, want, got, f.tasks(), parity.CompareOptions{},
	)
	must(t, err)
	return r
}

func walkersCompared(t *testing.T, cases field, broken walker) {
	t.Helper()
	r := comparedWalks(t, cases, parity.Live(walker{}), parity.Live(broken))
	if len(r.Findings) != 2 ||
		r.Findings[0].Stage != "reward" ||
		r.Findings[0].Step != 4 ||
		r.Findings[1].Stage != "at" ||
		r.Findings[1].Findings != 1 ||
		r.First.Place() != "start a, step 4, stage reward, index 0" ||
		r.Others[0].Element != "y" ||
		r.Others[0].Index != 1 ||
		len(r.Plot.Charts) != 1 {
		t.Errorf("%+v, %v", r.Findings, r.Err())
	}
	simtest.Refused(t, "a broken walker", r.Err(),
		"2 of 3 rollouts went another way:\n  start a: reward from step 4 on, at ")
	r = comparedWalks(t, cases, parity.Live(walker{}), parity.Live(walker{}))
	if r.Err() != nil || r.Equal() != 3 || r.Rollouts[1].Steps >= 50 {
		t.Errorf("%v, %+v", r.Err(), r.Rollouts)
	}
}

// walkersTraced: a trace's header is all that is needed to compare it again.
func walkersTraced(t *testing.T, cases field, broken walker) {
	t.Helper()
	dir := t.TempDir()
	traced := func(e walker) parity.Side {
		path := filepath.Join(dir, "walk.trace")
		must(t, parity.Record(t.Context(), e, cases.tasks(), trace.Header{}, walks.Arrays(), path))
		f, err := trace.Open(path)
		must(t, err)
		t.Cleanup(func() { f.Close() })
		return parity.Traced(f)
	}
	if r, err := parity.Compare(t.Context(), parity.Family{}, traced(walker{}), traced(broken),
		nil, parity.CompareOptions{}); err != nil ||
		r.Findings[0].Stage != "reward" ||
		r.Unjudged == 0 {
		t.Errorf("%v, %+v", err, r)
	}
	r := comparedWalks(t, cases, traced(walker{}), parity.Live(broken))
	if len(r.Findings) != 2 || r.Unjudged != 0 {
		t.Errorf("forced onto a trace: %+v", r.Findings)
	}
}

// walkersShrunk: the smallest case is kept and replayed.
func walkersShrunk(t *testing.T, cases field, broken walker) {
	t.Helper()
	small, d, err := parity.Shrink(
		t.Context(), cases,
		func(_ context.Context, f field) (*parity.Divergence, error) {
			return comparedWalks(t, f, parity.Live(walker{}), parity.Live(broken)).First, nil
		},
		0,
		func(s *parity.Shrinker[field]) {
			parity.Fewer(
				s, func(f field) []start { return f.Starts },
				func(f field, list []start) field { f.Starts = list; return f },
			)
			parity.Least(
				s, 1, func(f field) int { return f.Starts[0].Steps },
				func(f field, n int) field { f.Starts = []start{{f.Starts[0].Seed, n}}; return f },
			)
		},
	)
	if err != nil || len(small.Starts) != 1 || small.Starts[0].Steps != 5 || d.Stage != "reward" {
		t.Fatalf("%v, %+v, %v", err, small, d)
	}
	dir := t.TempDir()
	small.Results, err = parity.Results(t.Context(), walker{}, small.tasks())
	var kept field
	must(
		t,
		errors.Join(
			err, small.Save(dir, &small),
			kept.Load(filepath.Join(dir, "reward-walker-a-walk.json"), &kept),
		),
	)
	good, err := parity.Results(t.Context(), walker{}, kept.tasks())
	must(t, err)
	_, err = parity.CheckResults(&walks.Schema, kept.tasks(), kept.Results, good)
	must(t, err)
	bad, err := parity.Results(t.Context(), broken, kept.tasks())
	must(t, err)
	if _, err := parity.CheckResults(&walks.Schema, kept.tasks(), kept.Results, bad); err == nil ||
		!strings.HasPrefix(err.Error(), "start a: stages of hash ") {
		t.Errorf("%+v", bad)
	}
}
