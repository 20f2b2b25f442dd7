package tinyphysics

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"lockstep"
	"lockstep/parity"
	"lockstep/parity/schema"
)

// scribble makes every number in slices that a value reaches another.
func scribble(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range v.Fields() {
			if field.CanSet() {
				scribble(field)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			if e := v.Index(i); e.Kind() == reflect.Float64 {
				e.SetFloat(-7)
			} else {
				scribble(e)
			}
		}
	}
}

// TestClone: who writes to a copy of a case does not write to the case.
func TestClone(t *testing.T) {
	c := searched()
	for i := range c.Batch {
		c.Batch[i].Draws = []parity.Float{1, 2}
		c.Batch[i].Policy.Gains = []parity.Float{3, 4}
		c.Batch[i].Policy.Steer = []parity.Float{5, 6}
	}
	text := func(c *DriveCase) string {
		data, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	was, copied := text(c), c.clone()
	for _, part := range []any{&copied.Routes, &copied.Batch} {
		scribble(reflect.ValueOf(part).Elem())
	}
	if now := text(c); now != was {
		t.Errorf("the case is %s, and was %s", now, was)
	}
	if text(copied) == was {
		t.Error("the copy is as it was")
	}
}

// busy is a simulator that says that it keeps one core busy, and what computes.
type busy struct {
	toy
	oneCore bool
}

func (b *busy) About() lockstep.About {
	return lockstep.About{Inside: "a core", OneCore: b.oneCore}
}

func (*busy) Profile() lockstep.Profile { return lockstep.Profile{Exp: lockstep.ExpF} }

func (b *busy) Simulate(
	ctx context.Context, jobs []lockstep.Job, opts lockstep.Options,
) iter.Seq2[int, lockstep.Result] {
	return func(yield func(int, lockstep.Result) bool) {
		lockstep.Computes(ctx, b)
		b.toy.Simulate(ctx, jobs, opts)(yield)
	}
}

// TestLive: an engine that keeps one core busy is called from as many as there are, and stays as
// many; an engine says its name and profile, and once it has run, what computed.
func TestLive(t *testing.T) {
	cores := runtime.GOMAXPROCS(0)
	for oneCore, want := range map[bool]int{true: cores, false: 0} {
		b := &busy{toy{name: "busy"}, oneCore}
		l := Live(b)
		if l.Parallel != want || runtime.GOMAXPROCS(0) != cores {
			t.Errorf("one core is %v: %d calls at once on %d of %d cores", oneCore, l.Parallel,
				runtime.GOMAXPROCS(0), cores)
		}
		info := parity.SideInfo{Name: "busy", Profile: b.Profile().String(), Live: true}
		if got := l.Info(); !reflect.DeepEqual(got, info) {
			t.Errorf("it says %+v, want %+v", got, info)
		}
		compare(t, l, Live(&toy{}), toyJobs(2, 105), parity.CompareOptions{})
		info.Computed = []string{lockstep.Identity(b)}
		if got := l.Info(); !reflect.DeepEqual(got, info) {
			t.Errorf("once it has run it says %+v, want %+v", got, info)
		}
	}
}

// TestComputed: who is told what computed may write to the list.
func TestComputed(t *testing.T) {
	e := Engine(&toy{}, 0).(*engine)
	e.learn([]string{"b", "a"})
	for range 2 {
		got := e.Info().Computed
		if !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("what computed are %q", got)
		}
		clear(got)
	}
}

// kept is an engine that answers each job with what it keeps.
type kept struct {
	lockstep.Simulator
	result lockstep.Result
}

func (k kept) Simulate(
	context.Context, []lockstep.Job, lockstep.Options,
) iter.Seq2[int, lockstep.Result] {
	return func(yield func(int, lockstep.Result) bool) { yield(0, k.result) }
}

// TestFreezeOwned: who freezes a job does not write to what its engine answers.
func TestFreezeOwned(t *testing.T) {
	action := slices.Repeat([]float64{0.5}, 110)
	was := slices.Clone(action)
	e := kept{result: lockstep.Result{Trajectory: &lockstep.Trajectory{Action: action}}}
	frozen, err := Freeze(t.Context(), e, toyJobs(1, 110)[0])
	if err != nil || !slices.Equal(action, was) {
		t.Fatalf("the engine's actions are %v, and were %v (%v)", action, was, err)
	}
	script := append(make([]float64, 80), was[100:]...) // nothing depends on those before
	if got := frozen.Policy.(lockstep.Custom).New().(*player).steer; !slices.Equal(got, script) {
		t.Errorf("the script is %v, want %v", got, script)
	}
}

// TestExplain: an explanation has all digits of draw and edges, each side's own, and how far apart
// the CDFs are; the plot beside it says so, too. Of two sides that are wrong the wanted one is
// named.
func TestExplain(t *testing.T) {
	want := &lockstep.Step{Draw: 1 / 3.0, Sample: 1, CDF: []float64{0.1, 1/3.0 + 0x1p-50, 1}}
	got := &lockstep.Step{Draw: 1 / 3.0, Sample: 2, CDF: []float64{0.1, 1/3.0 - 0x1p-49, 1}}
	e := explain(exposed(want), exposed(got))
	if e == nil {
		t.Fatal("nothing is explained")
	}
	facts := []parity.Fact{
		{Name: "draw", Value: "0.33333333333333331"},
		{Name: "nearest edge", Value: "0.3333333333333342 wanted, margin 8.88e-16; " +
			"0.33333333333333154 got, margin 1.78e-15"},
		{Name: "tokens", Value: "1 wanted, 2 got"},
		{Name: "CDFs", Value: "2.66e-15 apart at most"},
	}
	const text = "draw 0.3333333333333333: token 1, 8.88e-16 from the nearest edge of the CDF; " +
		"got token 2, 1.78e-15 from it; greatest difference of the CDFs 2.66e-15"
	if !e.Explained || !slices.Equal(e.Facts, facts) || e.Text != text {
		t.Errorf("%v: %+v, want %+v; %s, want %s", e.Explained, e.Facts, facts, e.Text, text)
	}
	const note = "8.88e-16 from the nearest edge of the wanted CDF, 1.78e-15 from that of the " +
		"other; the CDFs are 2.66e-15 apart at most."
	var sides [2]*schema.Digests
	for i := range sides {
		first := exposed(&lockstep.Step{
			Index: lockstep.ContextLength, Action: float64(3 + i), Lataccel: float64(5 + i),
		})
		first.Sum(schema.XXH64)
		sides[i] = &schema.Digests{}
		sides[i].Append(first)
	}
	charts := plot(&parity.RolloutTask{}, sides, [2]*schema.Step{exposed(want), exposed(got)})
	lines := fmt.Sprint(charts[0].Lines, charts[1].Lines)
	if !strings.HasSuffix(charts[2].Note, note) ||
		lines != "[{target []} {wanted [5]} {got [6]}] [{wanted [3]} {got [4]}]" {
		t.Errorf("it is drawn as %s, and said: %s", lines, charts[2].Note)
	}
	want.Sample, got.Sample = 0, 0
	got.Sample++
	if e := explain(exposed(want), exposed(got)); e.Why != "the wanted CDF gives token 1, not 0" {
		t.Errorf("of two wrong sides it is said: %s", e.Why)
	}
}

// TestExposed: each number of a step is exposed with all bits.
func TestExposed(t *testing.T) {
	got := exposed(&lockstep.Step{
		Action: 1.1, Draw: 1.2, Prediction: 1.3, Lataccel: 1.4, Raw: 1.5 + 0x1p-40,
		Actor: []float32{1, 2}, Probs: []float32{1}, CDF: []float64{1},
	})
	for stage, want := range map[string]float64{
		Action: 1.1, Draw: 1.2, Prediction: 1.3, Lataccel: 1.4, Raw: 1.5 + 0x1p-40,
	} {
		if x := math.Float64frombits(got.Bits[view.Index(stage)]); x != want {
			t.Errorf("%s is %x, want %x", stage, x, want)
		}
	}
}

// TestHardBatched: each route is answered by its own numbers, and one that does not run by none.
func TestHardBatched(t *testing.T) {
	const n = 3
	s := lockstep.NewBatchStep(n)
	want := make([]float64, n)
	for i := range n {
		x := float64(i+1) / 3 // which 32 bits do not hold
		s.Running[i], s.Steer[i], want[i] = i != 1, 9, 9
		s.TargetLataccel[i], s.CurrentLataccel[i] = x, math.Sqrt(x)
		s.State[i] = lockstep.State{RollLataccel: 10 * x, VEgo: 20 * x, AEgo: 40 * x}
		s.Plan[i] = lockstep.FuturePlan{Lataccel: []float64{100 * x}}
		if s.Running[i] {
			want[i] = hardAnswer(x, math.Sqrt(x), s.State[i], s.Plan[i])
		}
	}
	got := (hardController{}).Update(1/3.0, math.Sqrt(1/3.0), s.State[0], s.Plan[0])
	if got != want[0] {
		t.Errorf("one route is answered %v, want %v", got, want[0])
	}
	if err := (hardBatched{}).Update(s); err != nil || !slices.Equal(s.Steer, want) {
		t.Errorf("answers %v, %v, want %v", s.Steer, err, want)
	}
}
