package conformance

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"

	"lockstep/internal/simtest"
	"lockstep/parity"
	"lockstep/parity/schema"
	"lockstep/parity/trace"
)

// A pace is one step of a toy: where it leads to, and what it is worth.
type pace struct {
	at     []float64
	reward float64
	shown  bool // the reward
}

var paces = schema.NewView(
	schema.Schema{
		Name: "pace", Key: []string{"start"}, First: 5,
		Outcome: schema.Outcome{Name: "result", Elements: []string{"sum"}},
	},
	schema.Array(
		schema.Stage{
			Name: "at", Shape: []int{2}, Teach: true,
			From: []schema.Input{schema.Last(1, "at")},
		},
		func(p *pace) []float64 { return p.at },
	),
	schema.Number(
		schema.Stage{Name: "reward", From: []schema.Input{schema.Same("at")}},
		func(p *pace) (float64, bool) { return p.reward, p.shown },
	),
	schema.Number(
		schema.Stage{Name: "seen", Optional: true, From: []schema.Input{schema.Same("at")}},
		func(*pace) (float64, bool) { return 0, false },
	),
)

// A pacer is an adapter with a fault. Its tasks are numbers; task 2 fails after a step, and task 3
// before the first.
type pacer struct {
	pace    func(tasks []parity.RolloutTask, i, k int, p *pace)
	index   func(i, k int) int // of a step
	rollout func(i int) int    // of a step
	// of a rollout
	ends func(tasks []parity.RolloutTask, i int, end *parity.End) (times, of int)
	late bool // a step is shown after the end
	ctx  func(context.Context) context.Context
}

func (pacer) Info() parity.SideInfo  { return parity.SideInfo{Name: "pacer"} }
func (pacer) Schema() *schema.Schema { return &paces.Schema }

func (w pacer) Run(
	ctx context.Context, tasks []parity.RolloutTask, observe func(int, *schema.Step),
) iter.Seq2[int, parity.End] {
	if w.ctx != nil {
		ctx = w.ctx(ctx)
	}
	return func(yield func(int, parity.End) bool) {
		for i, task := range tasks {
			number, into := task.Job.(int), paces.NewStep()
			end, x := parity.End{Err: ctx.Err()}, float64(number)
			teacher := parity.Taught[float64](task.Teacher, "at")
			show := func(k int) {
				p := pace{at: []float64{x + 1, float64(k)}, reward: x / 8, shown: true}
				if w.pace != nil {
					w.pace(tasks, i, k, &p)
				}
				index, rollout := 5+k, i
				if w.index != nil {
					index = w.index(i, k)
				}
				if w.rollout != nil {
					rollout = w.rollout(i)
				}
				paces.Expose(index, &p, into)
				observe(rollout, into)
				if x = p.at[0]; teacher != nil {
					x = teacher[2*k]
				}
			}
			for k := 0; k < 3 && end.Err == nil; k++ {
				if number == 3 || number == 2 && k == 1 {
					end.Err = errors.New("it fails")
					break
				}
				show(k)
			}
			if end.Err == nil {
				end.Outcome = []float64{x}
			}
			times, of := 1, i
			if w.ends != nil {
				times, of = w.ends(tasks, i, &end)
			}
			for range times {
				if !yield(of, end) {
					return
				}
			}
			if w.late {
				show(3)
			}
		}
	}
}

// other gives another reward where something is so.
func other(is func(tasks []parity.RolloutTask, i int) bool) pacer {
	return pacer{pace: func(tasks []parity.RolloutTask, i, _ int, p *pace) {
		if is(tasks, i) {
			p.reward++
		}
	}}
}

// many gives another reward to the last rollout but one of so many.
func many(n int) pacer {
	return other(func(tasks []parity.RolloutTask, i int) bool {
		return len(tasks) == n && i == n-2
	})
}

// end ends rollouts otherwise.
func end(f func(i int, end *parity.End) (int, int)) pacer {
	return pacer{ends: func(_ []parity.RolloutTask, i int, end *parity.End) (int, int) {
		return f(i, end)
	}}
}

// ending does in a batch of so many.
func ending(n int, f func(i int, end *parity.End)) pacer {
	return pacer{ends: func(tasks []parity.RolloutTask, i int, end *parity.End) (int, int) {
		if len(tasks) == n {
			f(i, end)
		}
		return 1, i
	}}
}

// pacers are engines with one fault each, and what is said of it; two of them have none.
var pacers = map[string]struct {
	engine pacer
	says   string
}{
	"none": {pacer{}, ""},
	"none, and its errors say more": {end(func(i int, e *parity.End) (int, int) {
		if e.Err != nil {
			e.Err = fmt.Errorf("the pacer: %w", e.Err)
		}
		return 1, i
	}), ""},
	"a step of one too many": {
		pacer{rollout: func(i int) int { return i + 2 }}, "a step of rollout 4, there are 4",
	},
	"a step of one before": {
		pacer{rollout: func(i int) int { return i - 1 }}, "a step of rollout -1, there are 4",
	},
	"an end of one too many": {end(func(i int, _ *parity.End) (int, int) {
		return 1, i + 1
	}), "an end of rollout 4, there are 4"},
	"an end of one before": {end(func(i int, _ *parity.End) (int, int) {
		return 1, i - 1
	}), "an end of rollout -1, there are 4"},
	"two ends": {
		end(func(i int, _ *parity.End) (int, int) { return 2, i }), "a: it ends 2 times",
	},
	"no end": {
		end(func(i int, _ *parity.End) (int, int) { return 0, i }), "a: it ends 0 times",
	},
	"no outcome": {end(func(i int, e *parity.End) (int, int) {
		e.Outcome = nil
		return 1, i
	}), "a: an outcome of 0 numbers, want 1\nb: "},
	"two outcomes": {end(func(i int, e *parity.End) (int, int) {
		e.Outcome = []float64{1, 2}
		return 1, i
	}), "a: an outcome of 2 numbers, want 1"},
	"no step": {end(func(i int, e *parity.End) (int, int) {
		if i == 3 {
			*e = parity.End{Outcome: []float64{1}}
		}
		return 1, i
	}), "d: no step is shown"},
	"one before the first": {
		pacer{index: func(_, k int) int { return 4 + k }},
		"a: step 4 is shown, want step 5 next, before the end",
	},
	"a step left out": {
		pacer{index: func(_, k int) int { return 5 + k + k/2 }},
		"a: step 8 is shown, want step 7 next, before the end",
	},
	"a step after the end": {
		pacer{late: true}, "a: step 8 is shown, want step 8 next, before the end",
	},
	"a stage is missing": {pacer{pace: func(_ []parity.RolloutTask, i, k int, p *pace) {
		p.shown = i != 1 || k != 2
	}}, "b, step 7: stage reward is missing"},
	"another step's size": {pacer{pace: func(_ []parity.RolloutTask, i, k int, p *pace) {
		if i == 1 && k == 1 {
			p.at = append(p.at, 0)
		}
	}}, "b, step 6: stage at has 24 bytes, want 16"},
	"alone": {
		other(func(tasks []parity.RolloutTask, i int) bool {
			return len(tasks) == 1 && tasks[i].Job == 1
		}), "b, alone: step 5, stage reward, index 0: want 0.125",
	},
	"twin": {many(8), "c, beside its twin: step 5, stage reward"},
	"order": {other(func(tasks []parity.RolloutTask, i int) bool {
		return len(tasks) == 4 && tasks[0].Teacher == nil && tasks[0].Job == 3 && i == 3
	}), "a, in another order: step 5, stage reward, index 0: want 0 "},
	"a batch of 5": {other(func(tasks []parity.RolloutTask, i int) bool {
		return len(tasks) == 5 && i == 1
	}), "c, in a batch of 5: step 5, stage reward"},
	"a batch of 7": {other(func(tasks []parity.RolloutTask, i int) bool {
		return len(tasks) == 7 && i == 1
	}), "a, in a batch of 7: step 5, stage reward"},
	"an outcome": {ending(1, func(_ int, e *parity.End) {
		if e.Err == nil {
			e.Outcome = []float64{e.Outcome[0] + 1}
		}
	}), "a, alone: "},
	"an error": {ending(7, func(i int, e *parity.End) {
		if i == 1 {
			*e = parity.End{Err: errors.New("it fails here alone")}
		}
	}), "a, in a batch of 7: "},
	"a success": {ending(5, func(_ int, e *parity.End) {
		if e.Err != nil {
			*e = parity.End{Outcome: []float64{3}}
		}
	}), "c, in a batch of 5: "},
	"taught": {other(func(tasks []parity.RolloutTask, i int) bool {
		return tasks[i].Teacher != nil
	}), "b, taught its own trajectory: step 5, stage reward, index 0: want 0.125"},
	"without end": {pacer{ctx: context.WithoutCancel},
		"a: in a context that has ended its error is <nil>\n" +
			"b: in a context that has ended its error is <nil>"},
}

// TestEngine: an engine that keeps what parity.Adapter promises conforms, also where rollouts fail,
// and one with a fault does not, and is told which.
func TestEngine(t *testing.T) {
	t.Parallel()
	var tasks []parity.RolloutTask
	for i := range 4 {
		tasks = append(tasks, parity.RolloutTask{
			Rollout: trace.Rollout{Key: []string{string(rune('a' + i))}}, Job: i,
		})
	}
	for name, c := range pacers {
		err := Engine(t.Context(), c.engine, tasks, 5, 7)
		if c.says == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		simtest.Refused(t, name, err, c.says)
	}
	simtest.Refused(t, "no tasks", Engine(t.Context(), pacer{}, nil), "no tasks")
}
