package parity_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"testing"

	"lockstep/internal/simtest"
	"lockstep/parity"
	"lockstep/parity/schema"
	"lockstep/parity/trace"
)

// A script is a simulator that shows what is written: steps of rollouts, and what they come to.
type script struct {
	name  string
	about *schema.Schema
	shows [][]*schema.Step
	ends  []parity.End
}

func (s *script) Info() parity.SideInfo  { return parity.SideInfo{Name: s.name} }
func (s *script) Schema() *schema.Schema { return s.about }

func (s *script) Run(
	_ context.Context, tasks []parity.RolloutTask, observe func(int, *schema.Step),
) iter.Seq2[int, parity.End] {
	return func(yield func(int, parity.End) bool) {
		for i := range tasks {
			n := tasks[i].Job.(int)
			for _, step := range s.shows[n] {
				observe(i, step.Clone())
			}
			if !yield(i, s.ends[n]) {
				return
			}
		}
	}
}

// tasks are all that are written.
func (s *script) tasks() (all []parity.RolloutTask) {
	for i := range s.shows {
		all = append(all, parity.RolloutTask{
			Rollout: trace.Rollout{Key: []string{fmt.Sprint(i)}}, Job: i,
		})
	}
	return all
}

// blank is a script of zeros: of a schema's stages, in so many rollouts of so many steps.
func blank(about *schema.Schema, rollouts, steps int) *script {
	s := &script{name: "blank", about: about}
	for range rollouts {
		var all []*schema.Step
		for k := range steps {
			step := about.NewStep()
			step.Index = k
			for i := range about.Stages {
				if g := &about.Stages[i]; g.IsArray() {
					step.Data[i] = make([]byte, g.Size())
				} else {
					step.Has |= 1 << i
				}
			}
			all = append(all, step)
		}
		s.shows = append(s.shows, all)
		s.ends = append(s.ends, parity.End{Outcome: make([]float64, len(about.Outcome.Elements))})
	}
	return s
}

// of is where a value of a stage is put, as a pattern; element 0 of a number.
func (s *script) put(rollout, step, stage, element int, bits uint64) {
	g, to := &s.about.Stages[stage], s.shows[rollout][step]
	if !g.IsArray() {
		to.Bits[stage] = bits
		return
	}
	size := g.Type.Size()
	copy(to.Data[stage][element*size:], g.Type.AppendBits(nil, bits))
}

// everyType are stages of each type, as numbers and as arrays, of which none is computed from
// another.
func everyType() *schema.Schema {
	s := &schema.Schema{Name: "all", Key: []string{"n"}, Outcome: schema.Outcome{
		Name: "result", Elements: []string{"first", "last"},
	}}
	for _, kind := range []schema.Type{"float32", "float64", "int32", "int64", "uint8"} {
		s.Stages = append(s.Stages, schema.Stage{Name: string(kind), Type: kind},
			schema.Stage{Name: string(kind) + "s", Type: kind, Shape: []int{2, 3}})
	}
	return s
}

// apartBits are pairs of patterns of a type that differ, and are hardly told apart.
func apartBits(kind schema.Type) [][2]uint64 {
	f32, f64 := func(x float32) uint64 { return uint64(math.Float32bits(x)) }, math.Float64bits
	nan32, nan64 := f32(float32(math.NaN())), f64(math.NaN())
	switch kind {
	case "float32":
		return [][2]uint64{{0, 1 << 31}, {0, 1}, {f32(1), nan32}, {nan32, nan32 | 1<<31}}
	case "float64":
		return [][2]uint64{{0, 1 << 63}, {0, 1}, {f64(1), nan64}, {nan64, nan64 ^ 1}}
	case "int32":
		return [][2]uint64{{0, 1}, {1 << 31, 1<<31 - 1}}
	case "int64":
		return [][2]uint64{{0, 1 << 63}, {1 << 40, 1<<40 + 1}}
	}
	return [][2]uint64{{0, 1}, {127, 255}}
}

// TestOneDifference: of sides that differ in one value, of whatever type, in the first or the last
// element, step or rollout, that one is found, named, and shown with both values; and nothing else.
func TestOneDifference(t *testing.T) {
	const rollouts, steps = 3, 4
	about := everyType()
	for i, g := range about.Stages {
		last := g.Size()/g.Type.Size() - 1
		for k, pair := range apartBits(g.Type) {
			for corner := range 8 {
				rollout, step := corner&1*(rollouts-1), corner>>1&1*(steps-1)
				element := corner >> 2 * last
				want, got := blank(about, rollouts, steps), blank(about, rollouts, steps)
				want.put(rollout, step, i, element, pair[0])
				got.put(rollout, step, i, element, pair[1])
				if k%2 == 1 {
					want, got, pair = got, want, [2]uint64{pair[1], pair[0]}
				}
				r := compared(t, parity.Live(want), parity.Live(got), want.tasks())
				what := fmt.Sprintf("n %d, step %d, stage %s, index %d", rollout, step, g.Name,
					element)
				if d := r.First; d == nil || d.Place() != what ||
					d.Want != g.Type.Show(pair[0]) || d.Got != g.Type.Show(pair[1]) {
					t.Fatalf("%s: %v", what, r.Err())
				}
				onlyOne(t, r, what, rollout, step)
				for _, stage := range about.Stages {
					if n := r.Compared[stage.Name]; n != rollouts*steps {
						t.Fatalf("%s: %d values of %s were compared", what, n, stage.Name)
					}
				}
			}
		}
	}
}

// onlyOne: what a report on three rollouts of four steps found is one value, and it says no more.
func onlyOne(t *testing.T, r *parity.Report, what string, rollout, step int) {
	t.Helper()
	if r.First.Values != 1 || r.First.Unrepeated || len(r.Findings) != 1 ||
		r.Findings[0].Findings != 1 || len(r.Others) > 0 {
		t.Fatalf("%s: %+v, %+v", what, r.First, r.Findings)
	}
	if r.Equal() != 2 || r.Rollouts[rollout].Equal || r.Steps != 12 {
		t.Fatalf("%s: %d equal, %d steps", what, r.Equal(), r.Steps)
	}
	if r.Plot.Rollout != r.First.Rollout || r.Plot.Step != step || len(r.Plot.Charts) > 0 {
		t.Fatalf("%s: it is drawn at %+v", what, r.Plot)
	}
}

// TestOneThing: of sides that differ in one thing that is not a value, that is found where it is.
func TestOneThing(t *testing.T) {
	const rollouts, steps = 3, 4
	about := everyType()
	for _, at := range []int{0, rollouts - 1} {
		cut := func(s *script, from, to int) { s.shows[at] = slices.Delete(s.shows[at], from, to) }
		for _, c := range []struct {
			change    func(s *script)
			want, got string // says the report if got was changed, or want
		}{
			{
				func(s *script) { s.ends[at].Outcome = []float64{0, 1} },
				"stage result, index 1 (last): want 0", "stage result, index 1 (last): want 1",
			},
			{
				func(s *script) { s.ends[at].Outcome = []float64{math.Copysign(0, -1), 0} },
				"stage result, index 0 (first): want 0 (0000000000000000), got -0",
				"stage result, index 0 (first): want -0",
			},
			{
				func(s *script) { s.ends[at].Outcome = []float64{math.NaN(), 0} },
				"index 0 (first): want 0 (0000000000000000), got NaN", "index 0 (first): want NaN",
			},
			{
				func(s *script) { s.ends[at].Outcome = []float64{0} },
				"stage result: want 2 values, got 1 values", "want 1 values, got 2 values",
			},
			{
				func(s *script) { s.ends[at] = parity.End{Err: errors.New("it broke")} },
				`step 4, stage steps: want no error, got the error "it broke"`,
				`step 4, stage steps: want the error "it broke", got no error`,
			},
			{
				func(s *script) { cut(s, steps-1, steps) },
				"step 3, stage steps: want 4 steps, got 3",
				"step 3, stage steps: want 3 steps, got one more",
			},
			{
				func(s *script) { cut(s, 0, 1) },
				"step 1, stage steps: want step 0 next, got step 1",
				"step 0, stage steps: want step 1 next, got step 0",
			},
			{
				func(s *script) { cut(s, 1, 2) },
				"step 2, stage steps: want step 1 next, got step 2",
				"step 1, stage steps: want step 2 next, got step 1",
			},
			{
				func(s *script) { s.shows[at][2].Has &^= 1 },
				"step 2, stage float32: want a value, 0 (00000000), got no value",
				"step 2, stage float32: want no value, got a value, 0 (00000000)",
			},
			{
				func(s *script) { s.shows[at][2].Data[1] = nil },
				"step 2, stage float32s: want values of hash",
				"step 2, stage float32s: want no value, got values of hash",
			},
			{
				func(s *script) { s.shows[at][2].Data[1] = make([]byte, 20) },
				"step 2, stage float32s: want 6 values, got 5 values",
				"step 2, stage float32s: want 5 values, got 6 values",
			},
		} {
			whole, other := blank(about, rollouts, steps), blank(about, rollouts, steps)
			c.change(other)
			for side, says := range []string{c.want, c.got} {
				sides := []parity.Side{parity.Live(whole), parity.Live(other)}
				r := compared(t, sides[side], sides[1-side], whole.tasks())
				if r.First == nil || !strings.Contains(r.First.Error(), says) ||
					r.First.Key[0] != fmt.Sprint(at) || r.Equal() != rollouts-1 ||
					len(r.Findings) != 1 || r.Findings[0].Findings != 1 {
					t.Errorf("%v, %d equal, want %s of rollout %d", r.Err(), r.Equal(), says, at)
				}
			}
		}
	}
}

// TestSwapped: of rollouts that a side gives in each other's place each differs.
func TestSwapped(t *testing.T) {
	about := everyType()
	want, got := blank(about, 4, 2), blank(about, 4, 2)
	for i := range want.shows {
		want.put(i, 1, 2, 0, math.Float64bits(float64(i)))
		got.put(i, 1, 2, 0, math.Float64bits(float64(i)))
	}
	got.shows[0], got.shows[3] = got.shows[3], got.shows[0]
	r := compared(t, parity.Live(want), parity.Live(got), want.tasks())
	if r.Equal() != 2 || r.Rollouts[0].Equal || r.Rollouts[3].Equal ||
		r.First.Place() != "n 0, step 1, stage float64, index 0" {
		t.Errorf("%d equal: %v", r.Equal(), r.Err())
	}
}

// TestWhoseSchema: steps are told in the order of want's schema, or of got's where that alone is an
// engine, and a trace says the profile that it has.
func TestWhoseSchema(t *testing.T) {
	order := func(names ...string) *script {
		s := &schema.Schema{
			Name: "order", Key: []string{"n"}, Outcome: schema.Outcome{Name: "none"},
		}
		for _, name := range names {
			s.Stages = append(s.Stages, schema.Stage{Name: name, Type: "int64"})
		}
		return blank(s, 1, 2)
	}
	one, other := order("x", "y"), order("y", "x")
	kept, _ := recorded(t, one, schema.XXH64, one.tasks())
	theirs, _ := recorded(t, other, schema.XXH64, one.tasks())
	kept.Header.Profile = "theirs"
	if info := parity.Traced(kept).Info(); info.Name != "walk.trace" || info.Profile != "theirs" ||
		info.Live {
		t.Errorf("%+v", info)
	}
	for name, c := range map[string]struct {
		want, got parity.Side
		stages    string
	}{
		"both live":         {parity.Live(one), parity.Live(other), "[x y none]"},
		"want live":         {parity.Live(other), parity.Traced(kept), "[y x none]"},
		"got live":          {parity.Traced(kept), parity.Live(other), "[y x none]"},
		"a trace, and same": {parity.Traced(kept), parity.Live(one), "[x y none]"},
		"traces":            {parity.Traced(kept), parity.Traced(theirs), "[x y none]"},
		"traces, swapped":   {parity.Traced(theirs), parity.Traced(kept), "[y x none]"},
	} {
		r := compared(t, c.want, c.got, one.tasks())
		if got := fmt.Sprint(r.Stages); got != c.stages || r.Err() != nil {
			t.Errorf("%s: %s, want %s (%v)", name, got, c.stages, r.Err())
		}
	}
}

// histories: y is computed from the last two x, and the outcome from x of steps 2 and 3.
var histories = &schema.Schema{
	Name: "histories", Key: []string{"n"},
	Stages: []schema.Stage{
		{Name: "x", Type: "float64"},
		{Name: "y", Type: "float64", From: []schema.Input{schema.Last(2, "x")}},
	},
	Outcome: schema.Outcome{
		Name: "result", Elements: []string{"sum"}, From: []string{"x"}, Begin: 2, End: 4,
	},
}

// TestExcused: a difference excuses what is computed from it, that is the steps and the outcome of
// which the schema says so, and no other.
func TestExcused(t *testing.T) {
	const steps = 6
	one := math.Float64bits(1)
	for x := range steps {
		for y := range steps {
			want, got := blank(histories, 1, steps), blank(histories, 1, steps)
			got.put(0, x, 0, 0, one)
			got.put(0, y, 1, 0, one)
			got.ends[0].Outcome = []float64{1}
			r := compared(t, parity.Live(want), parity.Live(got), want.tasks())
			found := map[string]bool{}
			for _, f := range r.Findings {
				found[f.Stage] = true
			}
			for stage, is := range map[string]bool{
				"x": true, "y": x >= y || x < y-2, "result": x < 2 || x >= 4,
			} {
				if found[stage] != is {
					t.Errorf("x differs at step %d, y at step %d, and the result: a finding "+
						"in %s: %v", x, y, stage, found[stage])
				}
			}
		}
	}
}

// crowded is a script of which a value is another wherever a rollout is not alone.
type crowded struct {
	script
	rollout, step int
}

func (c *crowded) Run(
	ctx context.Context, tasks []parity.RolloutTask, observe func(int, *schema.Step),
) iter.Seq2[int, parity.End] {
	return c.script.Run(ctx, tasks, func(i int, s *schema.Step) {
		if len(tasks) > 1 && tasks[i].Job == c.rollout && s.Index == c.step {
			s.Bits[0] = math.Float64bits(float64(7 + c.rollout))
		}
		observe(i, s)
	})
}

// TestCrowded: what shows beside other rollouts alone is described as it is there, whichever
// rollout and step it is of.
func TestCrowded(t *testing.T) {
	const rollouts, steps = 5, 3
	for rollout := range rollouts {
		for step := range steps {
			want := blank(histories, rollouts, steps)
			got := &crowded{*blank(histories, rollouts, steps), rollout, step}
			r := compared(t, parity.Live(want), parity.Live(got), want.tasks())
			d := r.First
			place := fmt.Sprintf("n %d, step %d, stage x, index 0", rollout, step)
			if d == nil || d.Place() != place || d.Neighbours != rollouts-1 || d.Unrepeated ||
				d.Got != schema.Type("float64").Show(math.Float64bits(float64(7+rollout))) {
				t.Errorf("rollout %d, step %d: %+v", rollout, step, d)
			}
		}
	}
}

// TestDescribed: of as many stages as differ, eight are described, the first of all among them, and
// all are counted.
func TestDescribed(t *testing.T) {
	about := &schema.Schema{Name: "many", Key: []string{"n"}, Outcome: schema.Outcome{Name: "none"}}
	for i := range 11 {
		about.Stages = append(about.Stages, schema.Stage{Name: fmt.Sprint("s", i), Type: "int64"})
	}
	for _, differ := range []int{7, 8, 9, 11} {
		want, got := blank(about, 1, 1), blank(about, 1, 1)
		for i := range differ {
			got.put(0, 0, i, 0, 1)
		}
		r := compared(t, parity.Live(want), parity.Live(got), want.tasks())
		if len(r.Findings) != differ || r.First.Stage != "s0" || len(r.Others) != min(differ, 8)-1 {
			t.Errorf("%d stages differ: %d are counted, and %d described beside %v", differ,
				len(r.Findings), len(r.Others), r.First)
		}
	}
}

// lookout says what it was shown: steps whose x is 1, and whether the end is an error.
type lookout struct{ times []int }

func (l *lookout) Step(s *schema.Step) {
	if s.Bits[0] == math.Float64bits(1) {
		l.times[0]++
	}
}

func (l *lookout) End(end parity.End) parity.Watched {
	if end.Err != nil {
		l.times[1]++
	}
	return parity.Watched{Times: l.times}
}

// TestWatchedSide: what was exercised is what the yardstick went through if it is an engine, and
// else what the other did.
func TestWatchedSide(t *testing.T) {
	f := parity.Family{
		Branches: []parity.Branch{{Name: "one"}, {Name: "error"}},
		Watch:    func(*parity.RolloutTask) parity.Watcher { return &lookout{make([]int, 2)} },
	}
	zeros, ones := blank(histories, 1, 3), blank(histories, 1, 3)
	for k := range 3 {
		ones.put(0, k, 0, 0, math.Float64bits(1))
	}
	ones.ends[0] = parity.End{Err: errors.New("it broke")}
	keep := func(s *script) parity.Side {
		file, _ := recorded(t, s, schema.XXH64, s.tasks())
		return parity.Traced(file)
	}
	for name, c := range map[string]struct {
		want, got parity.Side
		times     int
	}{
		"live ones":                 {parity.Live(ones), parity.Live(zeros), 3},
		"live zeros":                {parity.Live(zeros), parity.Live(ones), 0},
		"ones, a trace":             {parity.Live(ones), keep(zeros), 3},
		"zeros, a trace":            {parity.Live(zeros), keep(ones), 0},
		"a trace, and ones":         {keep(zeros), parity.Live(ones), 3},
		"a trace, and zeros":        {keep(ones), parity.Live(zeros), 0},
		"a trace of ones, a trace":  {keep(ones), keep(zeros), 3},
		"a trace of zeros, a trace": {keep(zeros), keep(ones), 0},
	} {
		r, err := parity.Compare(t.Context(), f, c.want, c.got, zeros.tasks(),
			parity.CompareOptions{})
		must(t, err)
		b := r.Exercised.Branches
		if b[0].Times != c.times || b[1].Times != min(c.times, 1) {
			t.Errorf("%s: %+v, want %d steps", name, b, c.times)
		}
	}
	simtest.Refused(t, "ones and zeros", compared(t, parity.Live(ones), parity.Live(zeros),
		ones.tasks()).Err(), "step 0, stage x")
}
