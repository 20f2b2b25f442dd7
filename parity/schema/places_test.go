package schema_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"testing"

	"lockstep/parity"
	"lockstep/parity/schema"
	"lockstep/parity/trace"
)

// A schema is all that comparisons know of a simulator. Here they are held to what they
// must notice by it: one bit that is changed, at any place of many rollouts, and no other.

// values are what a step of the simulator of this test has.
type values struct {
	state  [2]float64
	count  int64
	reward float64
}

var places = schema.NewView(
	schema.Schema{
		Name: "places",
		Key:  []string{"start"},
		Outcome: schema.Outcome{
			Name:     "result",
			Elements: []string{"total", "last"},
			From:     []string{"reward"},
		},
	},
	schema.Array(
		schema.Stage{
			Name:  "state",
			Shape: []int{2},
			Teach: true,
			From:  []schema.Input{schema.Last(1, "state")},
		},
		func(v *values) []float64 { return v.state[:] },
	),
	schema.Number(
		schema.Stage{Name: "count", From: []schema.Input{schema.Same("state")}},
		func(v *values) (int64, bool) { return v.count, true },
	),
	schema.Number(
		schema.Stage{Name: "reward", From: []schema.Input{schema.Same("count")}},
		func(v *values) (float64, bool) { return v.reward, true },
	),
)

// A place is where a rollout goes wrong: a stage of a step; what it comes to, step -1; an
// input, step -2; one step fewer, -3; or an error after so many steps, "error".
type place struct {
	rollout, step int
	what          string
}

func (p place) String() string {
	return fmt.Sprintf("rollout %d, step %d, %s", p.rollout, p.step, p.what)
}

// walks are rollouts with changes at some places, as an Engine or as a Recording.
type walks struct {
	rollouts, steps int
	wrong           []place
}

func (w *walks) is(rollout, step int, what string) bool {
	return slices.Contains(w.wrong, place{rollout, step, what})
}

func (w *walks) Info() parity.SideInfo  { return parity.SideInfo{Name: "walks"} }
func (w *walks) Schema() *schema.Schema { return &places.Schema }
func (w *walks) Digest() schema.Hash    { return schema.XXH64 }

func (w *walks) Rehash(schema.Hash) error { return trace.ErrHashed }

var inputs = []string{"gains", "seed", "steer_command"}

func (w *walks) about(i int) trace.Rollout {
	r := trace.Rollout{Key: []string{fmt.Sprint(i)}, Inputs: map[string]string{}}
	for _, name := range inputs {
		r.Inputs[name] = "as ever"
		if w.is(i, -2, name) {
			r.Inputs[name] = "another"
		}
	}
	return r
}

func (w *walks) Rollouts() (all []trace.Rollout) {
	for i := range w.rollouts {
		all = append(all, w.about(i))
	}
	return all
}

// run computes a rollout, each state from the one before or from the teacher's.
func (w *walks) run(i int, teacher *parity.Teacher, show func(s *schema.Step)) (outcome []float64) {
	to, state, total := places.NewStep(), [2]float64{float64(i), 1}, 0.0
	n := w.steps
	if w.is(i, -3, "steps") {
		n--
	}
	var v values
	for step := range n {
		v.state = [2]float64{state[0] + 1, state[1] * 1.5}
		if w.is(i, step, "state") {
			v.state[1]++
		}
		v.count = int64(v.state[0]) + int64(16*v.state[1])
		if w.is(i, step, "count") {
			v.count ^= 1 << 40
		}
		v.reward = float64(v.count) / 4
		if w.is(i, step, "reward") {
			v.reward = -v.reward
		}
		total += v.reward
		places.Expose(step, &v, to)
		to.Sum(schema.XXH64)
		if w.is(i, step, "no count") {
			to.Has &^= places.Set("count")
		}
		show(to)
		if state = v.state; teacher != nil {
			state = [2]float64(parity.Taught[float64](teacher, "state")[2*step:])
		}
	}
	outcome = []float64{total, v.reward}
	for k, name := range places.Outcome.Elements {
		if w.is(i, -1, name) {
			outcome[k] += 0.5
		}
	}
	return outcome
}

func (w *walks) Read(i int, _ bool, show func(s *schema.Step)) (trace.Rollout, parity.End, error) {
	return w.about(i), parity.End{Outcome: w.run(i, nil, show)}, nil
}

// ended are walks that come to something else.
type ended struct {
	*walks
	outcome []float64
}

func (e ended) Read(
	i int, full bool, show func(s *schema.Step),
) (trace.Rollout, parity.End, error) {
	about, _, err := e.walks.Read(i, full, show)
	return about, parity.End{Outcome: e.outcome}, err
}

func (w *walks) Run(
	_ context.Context, tasks []parity.RolloutTask, observe func(i int, s *schema.Step),
) iter.Seq2[int, parity.End] {
	return func(yield func(int, parity.End) bool) {
		for i, task := range tasks {
			end := parity.End{
				Outcome: w.run(
					task.Job.(int), task.Teacher, func(s *schema.Step) { observe(i, s) },
				),
			}
			if w.is(task.Job.(int), w.steps, "error") {
				end = parity.End{Err: errors.New("it has failed")}
			}
			if !yield(i, end) {
				return
			}
		}
	}
}

// TestOnePlace changes one place of 300 rollouts at a time.
func TestOnePlace(t *testing.T) {
	const rollouts, steps = 300, 4
	want := &walks{rollouts: rollouts, steps: steps}
	compare := func(wrong ...place) *parity.Report {
		t.Helper()
		got := &walks{rollouts: rollouts, steps: steps, wrong: wrong}
		r, err := parity.Compare(
			t.Context(), parity.Family{}, parity.Recorded(want), parity.Recorded(got), nil,
			parity.CompareOptions{},
		)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	clean := compare()
	if err := clean.Err(); err != nil || len(clean.Rollouts) != rollouts ||
		clean.Steps != rollouts*steps {
		t.Fatalf(
			"without a change: %d rollouts, %d steps, %v", len(clean.Rollouts), clean.Steps, err,
		)
	}
	for stage, n := range map[string]int{
		"state":  rollouts * steps,
		"count":  rollouts * steps,
		"reward": rollouts * steps,
		"result": rollouts,
	} {
		if clean.Compared[stage] != n {
			t.Errorf("%d values of stage %s are compared, want %d", clean.Compared[stage], stage, n)
		}
	}
	for _, i := range []int{0, 1, 254, 255, 256, 257, rollouts - 1} {
		var all []place
		for step := range steps {
			for _, stage := range []string{"state", "count", "reward"} {
				all = append(all, place{i, step, stage})
			}
		}
		for _, name := range places.Outcome.Elements {
			all = append(all, place{i, -1, name})
		}
		for _, name := range inputs {
			all = append(all, place{i, -2, name})
		}
		for _, p := range append(all, place{i, -3, "steps"}) {
			holdPlace(t, compare(p), p, steps)
		}
	}
}

// holdPlace: the report names just that place.
func holdPlace(t *testing.T, r *parity.Report, p place, steps int) {
	t.Helper()
	want := parity.Finding{Step: p.step, Stage: p.what}
	switch p.step {
	case -1:
		want.Stage = "result"
	case -2:
		want = parity.Finding{Step: -1, Stage: "start"}
	case -3:
		want.Step = steps - 1
	}
	if r.Err() == nil || r.First == nil {
		t.Errorf("%v: nothing is found", p)
		return
	}
	for k := range r.Rollouts {
		v := &r.Rollouts[k]
		switch {
		case k != p.rollout && (!v.Equal || v.First != nil || v.WantHash != v.GotHash):
			t.Errorf("%v: rollout %d differs, too", p, k)
		case k == p.rollout && (v.Equal || v.First == nil || *v.First != want || v.Findings != 1):
			t.Errorf("%v: %d findings, the first %v, want %v", p, v.Findings, v.First, want)
		}
	}
	if r.First.Rollout != r.Rollouts[p.rollout].Rollout || r.First.Stage != want.Stage {
		t.Errorf("%v: the first divergence is of %s, stage %s", p, r.First.Rollout, r.First.Stage)
	}
}

// TestTwoPlaces changes two places of a rollout that simulates: what the first does to all
// that comes later does not hide the second, nor the later ones.
func TestTwoPlaces(t *testing.T) {
	const steps = 4
	stages := []string{"state", "count", "reward"}
	var tasks []parity.RolloutTask
	for i := range 3 {
		tasks = append(tasks, parity.RolloutTask{Rollout: (&walks{}).about(i), Job: i})
	}
	for first := range steps * len(stages) {
		for second := first + 1; second < steps*len(stages); second++ {
			a := place{1, first / len(stages), stages[first%len(stages)]}
			b := place{1, second / len(stages), stages[second%len(stages)]}
			want, got := &walks{
				rollouts: 3,
				steps:    steps,
			}, &walks{rollouts: 3, steps: steps, wrong: []place{a, b}}
			r, err := parity.Compare(
				t.Context(), parity.Family{}, parity.Live(want), parity.Live(got), tasks,
				parity.CompareOptions{},
			)
			if err != nil {
				t.Fatal(err)
			}
			n := 2
			if a.step == b.step {
				n = 1 // the second is computed from the first, whose value may be anything
			}
			if found := r.Rollouts[1].Findings; found < n || r.Rollouts[1].First == nil ||
				*r.Rollouts[1].First != (parity.Finding{Step: a.step, Stage: a.what}) {
				t.Errorf(
					"%v and %v: %d findings, the first %v; want %d", a, b, found,
					r.Rollouts[1].First, n,
				)
			}
			if !r.Rollouts[0].Equal || !r.Rollouts[2].Equal {
				t.Errorf("%v and %v: their neighbours differ, too", a, b)
			}
		}
	}
}

// TestOneFails: a rollout that fails on one side only, at its end, is found.
func TestOneFails(t *testing.T) {
	const steps = 4
	task := parity.RolloutTask{Rollout: (&walks{}).about(0), Job: 0}
	for _, failing := range []bool{false, true} {
		want, got := &walks{rollouts: 1, steps: steps}, &walks{rollouts: 1, steps: steps}
		if failing {
			got.wrong = []place{{0, steps, "error"}}
		}
		for _, sides := range [][2]*walks{{want, got}, {got, want}} {
			r, err := parity.Compare(
				t.Context(), parity.Family{}, parity.Live(sides[0]), parity.Live(sides[1]),
				[]parity.RolloutTask{task}, parity.CompareOptions{},
			)
			if err != nil {
				t.Fatal(err)
			}
			if first := r.Rollouts[0].First; failing != (first != nil &&
				*first == parity.Finding{Step: steps, Stage: schema.Extent}) ||
				failing != (r.Err() != nil) {
				t.Errorf("failing %v: found is %v, %v", failing, first, r.Err())
			}
		}
	}
}

// stutterer gives one task's result twice.
type stutterer struct {
	*walks
	at int
}

func (s stutterer) Run(
	ctx context.Context, tasks []parity.RolloutTask, observe func(i int, s *schema.Step),
) iter.Seq2[int, parity.End] {
	return func(yield func(int, parity.End) bool) {
		for i, end := range s.walks.Run(ctx, tasks, observe) {
			if !yield(i, end) || tasks[i].Job == s.at && !yield(i, end) {
				return
			}
		}
	}
}

// TestCalls: where several calls of an engine share the work, what is wrong with any of them is.
func TestCalls(t *testing.T) {
	const rollouts, calls = 7, 3
	one := &walks{rollouts: rollouts, steps: 2}
	var tasks []parity.RolloutTask
	for i := range rollouts {
		tasks = append(tasks, parity.RolloutTask{Rollout: one.about(i), Job: i})
	}
	for at := -1; at < rollouts; at++ {
		shared := &parity.LiveSource{Adapter: stutterer{one, at}, Parallel: calls}
		for _, sides := range [][2]parity.Side{
			{shared, parity.Live(one)}, {parity.Live(one), shared},
		} {
			r, err := parity.Compare(
				t.Context(), parity.Family{}, sides[0], sides[1], tasks, parity.CompareOptions{},
			)
			if (err == nil) != (at < 0) || err == nil && (r.Err() != nil || r.Steps != 2*rollouts) {
				t.Errorf("task %d has two results: %v", at, err)
			}
		}
	}
}

// silent shows no step of one task, which ends with err.
type silent struct {
	*walks
	at  int
	err error
}

func (s silent) Run(
	ctx context.Context, tasks []parity.RolloutTask, observe func(i int, s *schema.Step),
) iter.Seq2[int, parity.End] {
	return func(yield func(int, parity.End) bool) {
		for i, task := range tasks {
			end := parity.End{Err: s.err}
			if task.Job != s.at || s.err == nil {
				end = parity.End{
					Outcome: s.run(task.Job.(int), task.Teacher, func(step *schema.Step) {
						if task.Job != s.at {
							observe(i, step)
						}
					}),
				}
			}
			if !yield(i, end) {
				return
			}
		}
	}
}

// TestBare: a rollout of which no step was shown is none that was compared, whatever its
// neighbours are. One that failed on both sides before its first step was: in how it failed.
func TestBare(t *testing.T) {
	const rollouts = 3
	var tasks []parity.RolloutTask
	for i := range rollouts {
		tasks = append(tasks, parity.RolloutTask{Rollout: (&walks{}).about(i), Job: i})
	}
	for at := -1; at < rollouts; at++ {
		for _, fails := range []error{nil, errors.New("no")} {
			side := parity.Live(silent{&walks{rollouts: rollouts, steps: 2}, at, fails})
			r, err := parity.Compare(
				t.Context(), parity.Family{}, side, side, tasks, parity.CompareOptions{},
			)
			if err != nil {
				t.Fatal(err)
			}
			want := ""
			if at >= 0 && fails == nil {
				want = fmt.Sprintf("start %d: nothing was compared", at)
			}
			if err := r.Err(); fmt.Sprint(err) != want && (err != nil || want != "") {
				t.Errorf("no step of task %d, which ends with %v: %v", at, fails, err)
			}
		}
	}
}

// TestMissing: a stage that one of two engines does not show at some step is at fault.
func TestMissing(t *testing.T) {
	task := parity.RolloutTask{Rollout: (&walks{}).about(0), Job: 0}
	for step := range 4 {
		whole, lacking := &walks{
			rollouts: 1,
			steps:    4,
		}, &walks{rollouts: 1, steps: 4, wrong: []place{{0, step, "no count"}}}
		for _, sides := range [][2]*walks{{whole, lacking}, {lacking, whole}} {
			r, err := parity.Compare(
				t.Context(), parity.Family{}, parity.Live(sides[0]), parity.Live(sides[1]),
				[]parity.RolloutTask{task}, parity.CompareOptions{},
			)
			if err != nil {
				t.Fatal(err)
			}
			if first := r.Rollouts[0].First; first == nil ||
				*first != (parity.Finding{Step: step, Stage: "count"}) {
				t.Errorf("step %d: found is %v", step, first)
			}
		}
	}
}

// TestNaN: an outcome that is no number is another than one that is, on either side, and
// the same as itself.
func TestNaN(t *testing.T) {
	side := func(at int, x float64) parity.Side {
		outcome := []float64{1, 1}
		outcome[at] = x
		return parity.Recorded(ended{&walks{rollouts: 1, steps: 1}, outcome})
	}
	nan := math.NaN()
	for _, c := range []struct {
		want, got float64
		same      bool
	}{{1, 1, true}, {nan, nan, true}, {nan, -nan, true}, {nan, 1, false}, {1, nan, false}, {0,
		math.Copysign(0, -1), false}} {
		for at := range places.Outcome.Elements {
			r, err := parity.Compare(
				t.Context(), parity.Family{}, side(at, c.want), side(at, c.got), nil,
				parity.CompareOptions{},
			)
			if err != nil {
				t.Fatal(err)
			}
			if same := r.Err() == nil; same != c.same {
				t.Errorf("%v and %v: %v", c.want, c.got, r.Err())
			}
		}
	}
}
