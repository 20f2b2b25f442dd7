package parity_test

import (
	"context"
	"errors"
	"iter"
	"path/filepath"
	"strings"
	"testing"

	"lockstep/parity"
	"lockstep/parity/conformance"
	"lockstep/parity/schema"
	"lockstep/parity/trace"
)

// A start is what a walk is computed from; a place is one step of it: where it is, and
// what it got for it. A walk ends early where it leaves its field.
type start struct {
	Seed  parity.Float
	Steps int
}

type place struct {
	at     []float64
	reward float32
}

var walks = schema.NewView(
	schema.Schema{Name: "walk", Key: []string{"start"}, Outcome: schema.Outcome{Name: "result", Elements: []string{"sum"}, From: []string{"reward"}}},
	schema.Array(schema.Stage{Name: "at", Shape: []int{2}, Teach: true, From: []schema.Input{schema.Last(1, "at")}, Elements: []schema.Element{{Name: "x", Count: 1}, {Name: "y", Count: 1}}}, func(p *place) []float64 { return p.at }),
	schema.Number(schema.Stage{Name: "reward", Effect: true, From: []schema.Input{schema.Same("at")}}, func(p *place) (float32, bool) { return p.reward, true }),
)

// walker walks, with a fault planted into it.
type walker struct{ plant func(step int, p *place) }

func (walker) Info() parity.SideInfo  { return parity.SideInfo{Name: "walker"} }
func (walker) Schema() *schema.Schema { return &walks.Schema }
func (w walker) Run(ctx context.Context, tasks []parity.Task, observe func(int, *schema.Step)) iter.Seq2[int, parity.End] {
	return func(yield func(int, parity.End) bool) {
		for i, task := range tasks {
			from, into := task.Job.(start), walks.NewStep()
			x, y, sum := float64(from.Seed), 0.25, 0.0
			steps := from.Steps
			if task.Teacher != nil {
				steps = task.Teacher.Len()
			}
			for k := 0; k < steps && x < 3 && ctx.Err() == nil; k++ {
				x, y = x+y*y, 0.5-x*y
				p := place{at: []float64{x, y}, reward: float32(x * y)}
				if w.plant != nil {
					w.plant(k, &p)
				}
				walks.Expose(k, &p, into)
				observe(i, into)
				x, y, sum = p.at[0], p.at[1], sum+float64(p.reward)
				if task.Teacher != nil {
					at := parity.Taught[float64](task.Teacher, "at")
					x, y = at[2*k], at[2*k+1]
				}
			}
			if !yield(i, parity.End{Outcome: []float64{sum}, Err: ctx.Err()}) {
				return
			}
		}
	}
}

// field is a case of walks.
type field struct {
	parity.Case
	Starts  []start             `json:"starts"`
	Results []parity.CaseResult `json:"results"`
}

func (f field) tasks() (tasks []parity.Task) {
	for i, s := range f.Starts {
		tasks = append(tasks, parity.Task{Rollout: trace.Rollout{Key: []string{string(rune('a' + i))}}, Job: s})
	}
	return tasks
}

func must(t *testing.T, err error) {
	if t.Helper(); err != nil {
		t.Fatal(err)
	}
}

// TestSecondSimulator has another simulator than tinyphysics compared, judged, shrunk,
// replayed, held to the contract and traced.
func TestSecondSimulator(t *testing.T) {
	family := parity.Family{Schema: &walks.Schema}
	cases := field{Case: parity.Case{What: "a walk", Stage: "reward", Engine: "walker"}, Starts: []start{{0.5, 9}, {2.5, 50}, {-1, 12}}}
	must(t, conformance.Engine(t.Context(), walker{}, cases.tasks()))
	broken := walker{plant: func(step int, p *place) {
		if step == 4 {
			p.reward++
		} else if step == 7 {
			p.at[1] += 0.125
		}
	}}
	calls := float32(0)
	if err := conformance.Engine(t.Context(), walker{plant: func(_ int, p *place) { calls++; p.reward = calls }}, cases.tasks()); err == nil || !strings.Contains(err.Error(), "a, in another order: step 0, stage reward, index 0: want 1 (3f800000)") {
		t.Errorf("%v", err)
	}
	compare := func(f field, want, got parity.Source) *parity.Report {
		r, err := parity.Compare(t.Context(), family, want, got, f.tasks(), parity.CompareOptions{})
		must(t, err)
		return r
	}
	r := compare(cases, parity.Live(walker{}), parity.Live(broken))
	if len(r.Findings) != 2 || r.Findings[0].Stage != "reward" || r.Findings[0].Step != 4 || r.Findings[1].Stage != "at" || r.Findings[1].Findings != 1 || r.First.Place() != "start a, step 4, stage reward, index 0" {
		t.Errorf("%+v, %v", r.Findings, r.First)
	}
	if o := r.Others[0]; o.Element != "y" || o.Index != 1 || len(r.Plot.Charts) != 1 || !strings.Contains(r.Err().Error(), "2 of 3 rollouts went another way:\n  start a: reward from step 4 on, at ") {
		t.Errorf("%v; %v", r.Others, r.Err())
	}
	if r := compare(cases, parity.Live(walker{}), parity.Live(walker{})); r.Err() != nil || r.Equal() != 3 || r.Rollouts[1].Steps >= 50 {
		t.Errorf("%v, %+v", r.Err(), r.Rollouts)
	}

	// A trace of it, whose header is all that is needed to compare it again.
	dir := t.TempDir()
	var sides []parity.Source
	for _, e := range []walker{{}, broken} {
		path := filepath.Join(dir, "walk.trace")
		must(t, parity.Record(t.Context(), e, cases.tasks(), trace.Header{}, walks.Arrays(), path))
		f, err := trace.Open(path)
		must(t, err)
		defer f.Close()
		sides = append(sides, parity.Traced(f))
	}
	if r, err := parity.Compare(t.Context(), parity.Family{}, sides[0], sides[1], nil, parity.CompareOptions{}); err != nil || r.Findings[0].Stage != "reward" || r.Unjudged == 0 {
		t.Errorf("%v, %+v", err, r)
	}
	if r := compare(cases, sides[0], parity.Live(broken)); len(r.Findings) != 2 || r.Unjudged != 0 {
		t.Errorf("forced onto a trace: %+v", r.Findings)
	}

	// The smallest case, kept and replayed.
	small, d, err := parity.Shrink(t.Context(), cases, func(_ context.Context, f field) (*parity.Divergence, error) {
		return compare(f, parity.Live(walker{}), parity.Live(broken)).First, nil
	}, 0, func(s *parity.Shrinker[field]) {
		parity.Fewer(s, func(f field) []start { return f.Starts }, func(f field, list []start) field { f.Starts = list; return f })
		parity.Least(s, 1, func(f field) int { return f.Starts[0].Steps }, func(f field, n int) field { f.Starts = []start{{f.Starts[0].Seed, n}}; return f })
	})
	if err != nil || len(small.Starts) != 1 || small.Starts[0].Steps != 5 || d.Stage != "reward" {
		t.Fatalf("%v, %+v, %v", err, small, d)
	}
	small.Results, err = parity.Results(t.Context(), walker{}, small.tasks())
	must(t, errors.Join(err, small.Save(dir, &small)))
	var kept field
	must(t, kept.Load(filepath.Join(dir, "reward-walker-a-walk.json"), &kept))
	for e, want := range map[*walker]string{{}: "", &broken: "start a: stages of hash "} {
		results, err := parity.Results(t.Context(), e, kept.tasks())
		if err = errors.Join(err, parity.CheckResults(&walks.Schema, kept.tasks(), kept.Results, results)); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
