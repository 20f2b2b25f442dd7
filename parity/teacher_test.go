package parity

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"lockstep/internal/simtest"
	"lockstep/parity/schema"
	"lockstep/parity/trace"
)

// lesson is a schema of what is taught and what is not.
var lesson = &schema.Schema{First: 5, Stages: []schema.Stage{
	{Name: "other", Type: "float64", Shape: []int{1}},
	{Name: "pair", Type: "float64", Shape: []int{2}, Teach: true},
	{Name: "number", Type: "int64", Teach: true},
	{Name: "at times", Type: "float64", Teach: true, Optional: true},
}}

// taughtStep is a step of it, whose values follow from its number.
func taughtStep(index int, has schema.StageSet) *schema.Step {
	s := lesson.NewStep()
	x := float64(index)
	s.Index, s.Has = index, has
	s.Data[0], s.Data[1] = schema.Bytes([]float64{-x}), schema.Bytes([]float64{x, x / 2})
	s.Bits[2] = uint64(1<<40 + 10*index) // of more than 32 bits
	return s
}

// TestTeacher: a trajectory has what is taught of every step, from the first on, and is none if
// a step or a value is lacking.
func TestTeacher(t *testing.T) {
	const all = 1<<0 | 1<<1 | 1<<2
	teacher := NewTeacher(lesson, []*schema.Step{
		taughtStep(5, all), taughtStep(6, all), taughtStep(7, all),
	})
	if teacher == nil || teacher.Steps() != 3 {
		t.Fatalf("%+v, want a trajectory of 3 steps", teacher)
	}
	if err := simtest.Same("pair", Taught[float64](teacher, "pair"),
		[]float64{5, 2.5, 6, 3, 7, 3.5}); err != nil {
		t.Error(err)
	}
	if err := simtest.Same("number", Taught[int64](teacher, "number"),
		[]int64{1<<40 + 50, 1<<40 + 60, 1<<40 + 70}); err != nil {
		t.Error(err)
	}
	if got := Taught[float64](nil, "pair"); got != nil {
		t.Errorf("without a teacher %v is taught", got)
	}
	for k := range 3 {
		s := taughtStep(9, all)
		s.Data[2], s.Data[3] = make([]byte, 8), make([]byte, 8)
		teacher.Overwrite(k, s)
		x := float64(5 + k)
		if err := simtest.Same("the pair put in place", schema.Elements[float64](s.Data[1]),
			[]float64{x, x / 2}); err != nil {
			t.Errorf("step %d: %v", k, err)
		}
		if err := simtest.Same("what is not taught", schema.Elements[float64](s.Data[0]),
			[]float64{-9}); err != nil {
			t.Errorf("step %d: %v", k, err)
		}
	}
	for what, steps := range map[string][]*schema.Step{
		"without the first step": {taughtStep(6, all)},
		"without a step":         {taughtStep(5, all), taughtStep(7, all)},
		"without a pair":         {taughtStep(5, all&^2)},
		"without a number":       {taughtStep(5, all), taughtStep(6, all&^4)},
	} {
		if got := NewTeacher(lesson, steps); got != nil {
			t.Errorf("%s there is a trajectory of %d steps", what, got.Steps())
		}
	}
	short := taughtStep(5, all)
	short.Data[1] = short.Data[1][:8]
	if got := NewTeacher(lesson, []*schema.Step{short}); got != nil {
		t.Errorf("with half a pair there is a trajectory: %v", Taught[float64](got, "pair"))
	}
}

// TestTeaches: a rollout teaches if it was recorded to its end without an error, and as far as the
// other side goes.
func TestTeaches(t *testing.T) {
	made := func(change func(r *rollout)) *rollout {
		r := newRollout(lesson)
		r.add(taughtStep(5, 7), false)
		r.add(taughtStep(6, 7), true)
		r.end.of = &trace.Rollout{}
		change(r)
		return r
	}
	for what, c := range map[string]struct {
		change func(r *rollout)
		seen   int
		is     bool
	}{
		"as far":      {func(*rollout) {}, 2, true},
		"farther":     {func(*rollout) {}, 1, true},
		"not as far":  {func(*rollout) {}, 3, false},
		"an error":    {func(r *rollout) { r.end.Err = errDone }, 2, false},
		"no rollout":  {func(r *rollout) { r.end.of = nil }, 2, false},
		"a gap in it": {func(r *rollout) { r.lacking = true }, 2, false},
	} {
		if got := made(c.change).teacher(c.seen); (got != nil) != c.is {
			t.Errorf("%s: teaches: %v, want %v", what, got != nil, c.is)
		}
	}
	r := made(func(*rollout) {})
	if len(r.full) != 1 || r.full[0].Index != 6 || r.step(0).Index != 6 {
		t.Errorf("of two steps %d are kept in full", len(r.full))
	}
}

// TestArrange: a side's steps come in the order of the schema, and what a side has not is not
// there.
func TestArrange(t *testing.T) {
	stage := func(name string, optional bool) schema.Stage {
		return schema.Stage{Name: name, Type: "float64", Shape: []int{1}, Optional: optional}
	}
	to := &schema.Schema{Name: "s", Stages: []schema.Stage{
		stage("a", true), stage("b", true), stage("c", true),
	}}
	from := &schema.Schema{Name: "s", Stages: []schema.Stage{stage("c", true), stage("b", true)}}
	arranged, err := arrange(ofSchema{from}, to)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		has  schema.StageSet // of from
		want string
	}{{3, "b 2, c 1"}, {1, "c 1"}, {2, "b 2"}, {0, ""}} {
		s := from.NewStep()
		s.Data[0], s.Data[1] = schema.Bytes([]float64{1}), schema.Bytes([]float64{2})
		s.Sum(schema.XXH64)
		s.Index, s.Has = 8, c.has
		got := arranged(s)
		var all []string
		for i, g := range to.Stages {
			if got.Has.Has(i) {
				all = append(all, fmt.Sprint(g.Name, " ", schema.Elements[float64](got.Data[i])[0]))
				if at := from.Index(g.Name); got.Bits[i] != s.Bits[at] {
					t.Errorf("%s has digest %x, want %x", g.Name, got.Bits[i], s.Bits[at])
				}
			}
		}
		if text := strings.Join(all, ", "); text != c.want || got.Index != 8 {
			t.Errorf("step %d has %q, want step 8 and %q", got.Index, text, c.want)
		}
	}
	for what, of := range map[string][]schema.Stage{
		"fewer": {stage("b", true)}, "more": append(slices.Clone(to.Stages), stage("d", true)),
	} {
		other := &schema.Schema{Name: "s", Stages: slices.Clone(of)}
		other.Stages[0].Type = "float32"
		_, err := arrange(ofSchema{other}, to)
		simtest.Refused(t, what+" stages, one of another type", err, "side: stage ")
	}
	same, err := arrange(ofSchema{to}, to)
	if s := to.NewStep(); err != nil || same(s) != s {
		t.Errorf("steps that are as the schema has them are copied, %v", err)
	}
}

// ofSchema is a side of which nothing but the schema is known.
type ofSchema struct{ of *schema.Schema }

func (o ofSchema) Info() SideInfo         { return SideInfo{Name: "side"} }
func (o ofSchema) Schema() *schema.Schema { return o.of }

func (o ofSchema) play(
	ctx context.Context, tasks []RolloutTask, h schema.Hash, full bool,
	visit func(i int, s *schema.Step),
) ([]End, error) {
	return nil, nil
}

// TestFindingsInOrder: findings of both passes come by step, and in a step by stage: the inputs
// first, how far a side went behind the stages, the outcome last; none comes twice.
func TestFindingsInOrder(t *testing.T) {
	s := &schema.Schema{
		Key:     []string{"route"},
		Stages:  []schema.Stage{{Name: "x"}, {Name: "y"}, {Name: "z"}},
		Outcome: schema.Outcome{Name: "costs"},
	}
	at := func(step int, stage string) *Divergence { return &Divergence{Step: step, Stage: stage} }
	c := &comparison{family: &Family{Schema: s}}
	first, second := &pairing{}, &pairing{}
	first.findings = []*Divergence{
		at(-1, "costs"), at(4, schema.Extent), at(4, "z"), at(4, "x"), at(3, "y"),
	}
	second.findings = []*Divergence{at(5, "x"), at(4, "y"), at(3, "y"), at(4, "x")}
	const want = "3 y, 4 x, 4 y, 4 z, 4 " + schema.Extent + ", 5 x, -1 costs"
	var got []string
	for _, d := range c.findings(&result{first: first, second: second}) {
		got = append(got, fmt.Sprint(d.Step, " ", d.Stage))
	}
	if text := strings.Join(got, ", "); text != want {
		t.Errorf("findings %s, want %s", text, want)
	}
	if n := len(first.findings); n != 5 || first.findings[0].Stage != "costs" {
		t.Errorf("the first pass has %d findings afterwards, %v first", n, first.findings[0])
	}
	if alone := c.findings(&result{first: first}); len(alone) != 5 || alone[0].Step != 3 {
		t.Errorf("of one pass there are %d findings, at step %d first; want 5, at 3", len(alone),
			alone[0].Step)
	}
}

// TestOutcomeUnnamed: an outcome of more numbers than have names has no name for the others.
func TestOutcomeUnnamed(t *testing.T) {
	s := &schema.Schema{Outcome: schema.Outcome{Name: "costs", Elements: []string{"a"}}}
	d := DifferOutcome(s, []float64{1, 2}, []float64{1, 3})
	if d == nil || d.Index != 1 || d.Element != "" {
		t.Errorf("%+v, want index 1 without a name", d)
	}
}
