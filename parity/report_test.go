package parity

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"lockstep/parity/schema"
	"lockstep/parity/trace"
)

// TestExercised: branches are counted by steps and rollouts, the nearest choice is the first of
// those that are as near, and no more than eight names are listed.
func TestExercised(t *testing.T) {
	if e := newExercised(nil); e != nil {
		t.Errorf("without branches: %+v", e)
	}
	var branches []Branch
	for i := range 11 {
		branches = append(branches, Branch{Name: string(rune('a' + i))})
	}
	e := newExercised(branches)
	first, nearer := &Nearest{Distance: 2}, &Nearest{
		Rollout: "route 1", Step: 9, Draw: 1, Edge: 2, Distance: 0.25,
	}
	e.add(Watched{Times: []int{0, 3}, Nearest: first})
	e.add(Watched{Times: []int{0, 1, 0, 2}, Nearest: &Nearest{Distance: 2}})
	if e.Nearest != first {
		t.Errorf("of two as near it is %+v, want the first", e.Nearest)
	}
	e.add(Watched{})
	e.add(Watched{Nearest: nearer})
	if e.Nearest != nearer {
		t.Errorf("the nearest is %+v, want %+v", e.Nearest, nearer)
	}
	const near = "the draw nearest to an edge of the CDF is 0.25 from it, at route 1, step 9"
	if got := nearer.String(); got != near {
		t.Errorf("%q, want %q", got, near)
	}
	for i, want := range [][2]int{{0, 0}, {4, 2}, {0, 0}, {2, 1}} {
		if got := [2]int{e.Branches[i].Times, e.Branches[i].Rollouts}; got != want {
			t.Errorf("branch %d: times and rollouts are %d, want %d", i, got, want)
		}
	}
	for _, c := range []struct {
		taken int
		want  string
	}{
		{11, ""}, {10, "; never: k"}, {3, "; never: d, e, f, g, h, i, j, k"},
		{2, "; never: c, d, e, f, g, h, i, j, and 1 more"},
	} {
		e := newExercised(branches)
		e.add(Watched{Times: slices.Repeat([]int{1}, c.taken)})
		want := fmt.Sprintf("exercised %d of 11 branches of the specification", c.taken) + c.want
		if got := e.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestNear: the nearer edge, and of two as near that at the token.
func TestNear(t *testing.T) {
	for _, c := range []struct{ draw, before, at, want float64 }{
		{0.5, 0.4, 0.7, 0.4}, {0.5, 0.2, 0.6, 0.6}, {0.5, 0.25, 0.75, 0.75}, {0.5, 0.5, 0.5, 0.5},
		{0.5, 0.75, 0.375, 0.375},
		// What 32 bits do not tell apart.
		{0.5, 0.25 + 0x1p-40, 0.75, 0.25 + 0x1p-40}, {0.5, 0.25, 0.75 + 0x1p-40, 0.25},
		{0.5, 0.25, 0.75 - 0x1p-40, 0.75 - 0x1p-40},
	} {
		if got := Near(c.draw, c.before, c.at); got != c.want {
			t.Errorf("of %v and %v the nearer to %v is %v, want %v", c.before, c.at, c.draw, got,
				c.want)
		}
	}
}

// TestChanged: what the differences did to an outcome is told with all bits.
func TestChanged(t *testing.T) {
	s := &schema.Schema{Outcome: schema.Outcome{Name: "costs", Elements: []string{"a", "b"}}}
	want, got := []float64{1.1, 2.3}, []float64{1.1, 2.3 + 0x1p-40}
	for k := range 2 {
		p := &pairing{c: &comparison{family: &Family{Schema: s}}}
		p.changed(want, got)
		if len(p.Effects) != 1 {
			t.Fatalf("%d effects of one number that is another", len(p.Effects))
		}
		if e := p.Effects[0]; e.Stage != "costs b" || e.Step != -1 ||
			float64(*e.Want) != want[1] || float64(*e.Got) != got[1] ||
			float64(e.Apart) != math.Abs(want[1]-got[1]) {
			t.Errorf("%d: %+v, %v for %v", k, e, *e.Got, *e.Want)
		}
		want, got = got, want
	}
}

// TestLines: lines have each number with all bits, as far as no step is lacking.
func TestLines(t *testing.T) {
	s := &schema.Schema{First: 5, Stages: []schema.Stage{
		{Name: "n", Type: "int32"}, {Name: "x", Type: "float64"},
	}}
	var sides [2]*schema.Digests
	for side := range sides {
		sides[side] = &schema.Digests{}
		for k := range 3 {
			step := s.NewStep()
			step.Index, step.Has = 5+k+k/2*side, 3
			step.Bits[0], step.Bits[1] = 7, math.Float64bits(0.1*float64(k+side))
			sides[side].Append(step)
		}
	}
	got := (&Family{Schema: s}).Lines(sides, "x")
	want := []Line{
		{Name: "wanted", Values: []Float{0, 0.1, Float(0.1 * float64(2))}},
		{Name: "got", Values: []Float{0.1, Float(0.1 * float64(2))}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestAdding: effects begin at their first step, and the farthest difference keeps its place.
func TestAdding(t *testing.T) {
	e := Effect{Stage: "x"}
	e.add(4, 1, 3)
	e.add(9, 1, 1.5)
	if e.Step != 4 || e.Steps != 2 || e.Apart != 2 {
		t.Errorf("%+v, want 2 steps from 4 on, 2 apart", e)
	}
	if got, want := e.String(), "x from step 4 on, at 2 steps, by up to 2"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for _, c := range [][2]float64{{1, 1 + 0x1p-40}, {1 + 0x1p-40, 1}} { // 32 bits hold neither
		e := Effect{Stage: "x"}
		if e.add(4, c[0], c[1]); e.Apart != 0x1p-40 {
			t.Errorf("%x and %x are %x apart", c[0], c[1], float64(e.Apart))
		}
	}
	lost := Effect{Stage: "x"}
	lost.add(7, 1, math.NaN())
	one, two := Float(1), Float(2)
	for want, e := range map[string]Effect{
		"x from step 7 on, at 1 steps, by up to +Inf": lost,
		"x 2 for 1": {Stage: "x", Want: &one, Got: &two},
		"x from step 0 on, at 0 steps, by up to 0": {Stage: "x", Want: &one},
	} {
		if got := e.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	var all Tolerance
	for _, o := range []Tolerance{
		{Steps: 1, Rollout: "a", Step: 1, Unknown: 1},
		{Steps: 2, Rollout: "b", Step: 2, Difference: Difference{Abs: 3, ULPs: 5}},
		{Steps: 1, Rollout: "c", Step: 3, Unknown: 1, Difference: Difference{Abs: 3, ULPs: 9}},
	} {
		all.add(&o)
	}
	want := Tolerance{
		Steps: 4, Rollout: "b", Step: 2, Unknown: 2, Difference: Difference{Abs: 3, ULPs: 9},
	}
	if all != want {
		t.Errorf("%+v, want %+v", all, want)
	}
}

// TestReportErr: what a report says is wrong, at its budgets and one beyond.
func TestReportErr(t *testing.T) {
	compared := func(r Report) Report {
		r.Want.Name, r.Got.Name = "a", "b"
		r.Compared, r.Steps = map[string]int{"x": 1}, 3
		if r.Rollouts == nil {
			r.Rollouts = []Verdict{{Rollout: "r", Steps: 3, Equal: true}}
		}
		return r
	}
	budget := Budget{Flips: 2, Apart: map[string]Float{"x": 1}}
	at := func(x Float) []Tolerance {
		return []Tolerance{{Stage: "x", Rollout: "r", Step: 2, Difference: Difference{Abs: x}}}
	}
	nan := Float(math.NaN())
	for name, c := range map[string]struct {
		r    Report
		want string // none: it is as it should be
	}{
		"equal":     {compared(Report{Exact: true}), ""},
		"two flips": {compared(Report{Budget: budget, Flips: FlipCounts{Explained: 2}}), ""},
		"three flips": {compared(Report{Budget: budget, Flips: FlipCounts{Explained: 3}}),
			"a and b: 3 explained flips, the budget is 2"},
		"as far as may be": {compared(Report{Budget: budget, Tolerated: at(1)}), ""},
		"too far": {compared(Report{Budget: budget, Tolerated: at(1.5)}),
			"a and b: r, step 2: x is 1.5 apart, the budget is 1"},
		"no number": {compared(Report{Budget: budget, Tolerated: at(nan)}),
			"a and b: r, step 2: x is NaN apart, the budget is 1"},
		"no budget": {compared(Report{Tolerated: at(99)}), ""},
		"not known": {compared(Report{Budget: budget, Tolerated: []Tolerance{
			{Stage: "x", Unknown: 1},
		}}), "a and b: at 1 steps it is not known how far x is apart, and there is a budget"},
		"one not known, another near": {compared(Report{Budget: budget, Tolerated: []Tolerance{
			{Stage: "x", Unknown: 1, Difference: Difference{Abs: 0.5}},
		}}), "a and b: at 1 steps it is not known how far x is apart, and there is a budget"},
		"not known, no budget": {compared(Report{Tolerated: []Tolerance{
			{Stage: "x", Unknown: 1},
		}}), ""},
		"nothing":   {Report{}, "nothing was compared"},
		"no values": {Report{Steps: 1}, "nothing was compared"},
		"both failed": {Report{Rollouts: []Verdict{{Rollout: "r"}, {Error: "no token"}}},
			"nothing was compared, both sides failed: no token"},
		"one has nothing": {compared(Report{Rollouts: []Verdict{
			{Rollout: "r", Steps: 1, Equal: true}, {Rollout: "s", Equal: true},
		}}), "s: nothing was compared"},
		"the first has nothing": {compared(Report{Rollouts: []Verdict{
			{Rollout: "r", Equal: true}, {Rollout: "s", Steps: 1, Equal: true},
		}}), "r: nothing was compared"},
		"one failed on both": {compared(Report{Rollouts: []Verdict{
			{Rollout: "r", Steps: 1, Equal: true}, {Rollout: "s", Equal: true, Error: "no token"},
		}}), ""},
		"unequal": {compared(Report{Exact: true, Rollouts: []Verdict{
			{Rollout: "r", Steps: 1, Equal: true}, {Rollout: "s", Steps: 1},
		}}), "a and b: s differs, and no stage was found at fault\n" +
			"no rollout went another way for it"},
		"unequal, inexact": {compared(Report{Rollouts: []Verdict{
			{Rollout: "s", Steps: 1},
		}}), ""},
		"one finding": {compared(Report{Findings: []StageFindings{
			{Stage: "x", Findings: 1, Rollouts: 1}, {Stage: "y", Findings: 2, Rollouts: 1},
		}, Unjudged: 1}), "a and b: 1 finding in x, in 1 of 1 rollouts; 2 findings in y, in 1 of " +
			"1 rollouts; 1 steps of different histories were not judged"},
	} {
		err := c.r.Err()
		text := ""
		if err != nil {
			text = err.Error()
		}
		if text != c.want {
			t.Errorf("%s: %q, want %q", name, text, c.want)
		}
		if c.r.OK() != (c.want == "") {
			t.Errorf("%s: OK is %v", name, c.r.OK())
		}
	}
}

// TestEffectsListed: no more than twenty rollouts are listed, and those that went as they should
// are not.
func TestEffectsListed(t *testing.T) {
	report := func(other, same int) *Report {
		r := &Report{}
		for i := range other {
			r.Rollouts = append(r.Rollouts, Verdict{
				Rollout: fmt.Sprint("r", i),
				Effects: []Effect{{Stage: "x", Steps: 1}, {Stage: "y", Steps: 1}},
			})
		}
		for range same {
			r.Rollouts = append(r.Rollouts, Verdict{Equal: true})
		}
		return r
	}
	for _, c := range []struct {
		other, same, lines int
		begin, end         string
	}{
		{0, 3, 1, "", ""},
		{1, 2, 2, "1 of 3 rollouts went another way:\n  r0: x from step 0 on, at 1 steps, by up " +
			"to 0; y from", "by up to 0"},
		{20, 0, 21, "20 of 20 rollouts", "y from step 0 on, at 1 steps, by up to 0"},
		{21, 0, 22, "21 of 21 rollouts", "\n  and 1 more"},
		{22, 3, 22, "22 of 25 rollouts", "\n  and 2 more"},
	} {
		got := report(c.other, c.same).Effects()
		if !strings.HasPrefix(got, c.begin) || !strings.HasSuffix(got, c.end) ||
			c.other > 0 && strings.Count(got, "\n")+1 != c.lines || c.other == 0 && got != "" {
			t.Errorf("%d of %d: %q, want %q … %q in %d lines", c.other, c.same, got, c.begin, c.end,
				c.lines)
		}
	}
	if got := (&Report{Rollouts: []Verdict{{}}}).Effects(); !strings.HasPrefix(got, "no rollout") {
		t.Errorf("one that is not equal: %q", got)
	}
}

// TestWords: what ends, inputs, explanations and places say.
func TestWords(t *testing.T) {
	about := &trace.Rollout{}
	for want, end := range map[string]End{
		"no such rollout":      {Err: errors.New("x")},
		`the error "no token"`: {of: about, Err: errors.New("no token")},
		"no error":             {of: about},
	} {
		if got := end.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for want, e := range map[string]Explanation{
		"a": {Text: "a"}, "a; unexplained: b": {Text: "a", Why: "b"}, "unexplained: b": {Why: "b"},
	} {
		if got := e.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	s := &schema.Schema{Key: []string{"route", "controller"}}
	for want, key := range map[string][]string{
		"": nil, "route 1": {"1", ""}, "controller b": {"", "b"},
		"route 1, controller b": {"1", "b", "c"},
	} {
		if got := rolloutText(s, key); got != want {
			t.Errorf("%q is %q, want %q", key, got, want)
		}
	}
	for want, d := range map[string]Divergence{
		"stage x, index 0":  {Stage: "x", Step: -1},
		"step 0, stage x":   {Stage: "x", Index: -1},
		"r, stage x (name)": {Rollout: "r", Step: -1, Stage: "x", Index: -1, Element: "name"},
	} {
		if got := d.Place(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	const said = "stage x: want a, got b"
	for more, d := range map[string]Divergence{
		"":                                 {Values: 1},
		", 2 values differ":                {Values: 2},
		", 1 ulp apart":                    {ULPs: 1},
		"; it could not be repeated: gone": {Unread: "gone", Unrepeated: true},
		"\nc":                              {Explanation: &Explanation{Text: "c"}},
	} {
		d.Stage, d.Step, d.Index, d.Want, d.Got = "x", -1, -1, "a", "b"
		if got := d.Error(); got != said+more {
			t.Errorf("%q, want %q", got, said+more)
		}
	}
	known := func(inputs ...string) *trace.Rollout {
		r := &trace.Rollout{Inputs: map[string]string{}}
		for i := 0; i < len(inputs); i += 2 {
			r.Inputs[inputs[i]] = inputs[i+1]
		}
		return r
	}
	for _, c := range []struct {
		want, got *trace.Rollout
		all       bool
		text      string
	}{
		{nil, known("a", "1"), true, ""}, {known("a", "1"), nil, true, ""},
		{known("a", "1"), known("a", "1"), true, ""},
		{known("a", "1"), known("b", "2"), false, ""},
		{known("a", "1"), known("a", "2"), false, "stage : want a 1, got 2"},
		{known("a", "1", "c", "3"), known("b", "2"), true,
			`stage : want inputs of the names a, c, got one named "b"`},
		{known("a", "1", "c", "3"), known("a", "1"), true, ""},
	} {
		text := ""
		if d := diffInputs(c.want, c.got, c.all); d != nil {
			d.Step = -1
			text = d.Error()
		}
		if text != c.text {
			t.Errorf("%+v and %+v: %q, want %q", c.want, c.got, text, c.text)
		}
	}
}
