package parity_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"lockstep/internal/simtest"
	"lockstep/parity"
	"lockstep/parity/schema"
	"lockstep/parity/trace"
)

// A skipping walker does not show one step.
type skipping struct {
	walker
	step int
}

func (s skipping) Run(
	ctx context.Context, tasks []parity.RolloutTask, observe func(int, *schema.Step),
) iter.Seq2[int, parity.End] {
	return s.walker.Run(ctx, tasks, func(i int, step *schema.Step) {
		if step.Index != s.step {
			observe(i, step)
		}
	})
}

// A disk of which only so much can be read.
type disk struct {
	*bytes.Reader
	good int64
}

var errDisk = errors.New("the disk is gone")

func (d *disk) ReadAt(p []byte, at int64) (int, error) {
	if at+int64(len(p)) <= d.good {
		return d.Reader.ReadAt(p, at)
	}
	n, _ := d.Reader.ReadAt(p[:max(0, d.good-at)], at)
	return n, errDisk
}

// recorded are an engine's rollouts in a trace, which lies on a disk.
func recorded(
	t *testing.T, e parity.Adapter, h schema.Hash, tasks []parity.RolloutTask,
) (*trace.File, *disk) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "walk.trace")
	must(t, parity.Record(t.Context(), e, tasks, trace.Header{Digest: h}, walks.Arrays(), path))
	data, err := os.ReadFile(path)
	must(t, err)
	d := &disk{bytes.NewReader(data), 1 << 60}
	f, err := trace.NewFile(d, "walk.trace")
	must(t, err)
	return f, d
}

func compared(t *testing.T, want, got parity.Side, tasks []parity.RolloutTask) *parity.Report {
	t.Helper()
	r, err := parity.Compare(
		t.Context(), parity.Family{}, want, got, tasks, parity.CompareOptions{},
	)
	must(t, err)
	return r
}

var oneWalk = field{Starts: []start{{0.5, 9}}}.tasks()

// TestReadError: a recording that cannot be read again, to hash it as the other one is, is
// an error wherever it breaks off, and no recording without a difference, or with another.
func TestReadError(t *testing.T) {
	for _, kinds := range [][2]schema.Hash{
		{schema.XXH64, schema.SHA256}, {schema.SHA256, schema.XXH64},
	} {
		want, _ := recorded(t, walker{}, kinds[0], oneWalk)
		got, d := recorded(t, walker{}, kinds[1], oneWalk)
		size := d.Size()
		for _, d.good = range []int64{0, 10, 100, size / 2, size - 22, size - 21, size - 1} {
			if r, err := parity.Compare(t.Context(), parity.Family{}, parity.Traced(want),
				parity.Traced(got), nil, parity.CompareOptions{}); !errors.Is(err, errDisk) {
				t.Errorf(
					"%s and %s, %d of %d bytes are read: %+v, %v", kinds[0], kinds[1], d.good, size,
					r, err,
				)
			}
		}
		d.good = 1 << 60
		must(t, compared(t, parity.Traced(want), parity.Traced(got), nil).Err())
	}
}

// TestUnread: what cannot be read where a divergence is described is said beside it.
func TestUnread(t *testing.T) {
	want, _ := recorded(t, walker{}, schema.XXH64, oneWalk)
	got, d := recorded(t, walker{4: {0, 1}}, schema.XXH64, oneWalk)
	d.good = d.Size() / 2
	r := compared(t, parity.Traced(want), parity.Traced(got), nil)
	if r.First == nil || r.First.Stage != "reward" || r.First.Step != 4 ||
		!strings.Contains(r.Err().Error(), "; it could not be repeated: walk.trace: step ") ||
		!strings.Contains(r.Err().Error(), errDisk.Error()) {
		t.Errorf("%v", r.Err())
	}
	d.good = 1 << 60
	ctx, cancel := context.WithCancel(t.Context())
	f := parity.Family{
		Explain: func(_, _ *schema.Step) *parity.Explanation { cancel(); return nil },
	}
	if _, err := parity.Compare(ctx, f, parity.Traced(want), parity.Traced(got), nil,
		parity.CompareOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted while it described: %v", err)
	}
}

// TestRepeatedOtherwise: a difference in whose place a repetition shows another is not
// described as if it were that.
func TestRepeatedOtherwise(t *testing.T) {
	r := compared(t, parity.Live(walker{}), parity.Live(restless{walker{}}), oneWalk)
	if d := r.First; d == nil || d.Stage != "reward" || d.Step != 0 || !d.Unrepeated ||
		!strings.HasPrefix(d.Got, "1.2109375") {
		t.Errorf("%+v", d)
	}
}

// A forgetful walker shows all its steps once, and then the first ones alone.
type forgetful struct {
	skipping
	runs *int
}

func (f forgetful) Run(
	ctx context.Context, tasks []parity.RolloutTask, observe func(int, *schema.Step),
) iter.Seq2[int, parity.End] {
	*f.runs++
	again := *f.runs > 1
	return f.skipping.Run(ctx, tasks, func(i int, step *schema.Step) {
		if !again || step.Index < 3 {
			observe(i, step)
		}
	})
}

// TestRepeatedShorter: a step that a repetition does not come to, on either side, is not
// described.
func TestRepeatedShorter(t *testing.T) {
	f := parity.Family{Explain: func(want, got *schema.Step) *parity.Explanation {
		return &parity.Explanation{Text: fmt.Sprint(want.Index, got.Index)}
	}}
	for _, shorter := range []int{0, 1} {
		// A recording that lacks a step forces nobody, so that only descriptions repeat.
		kept, _ := recorded(t, skipping{walker{}, 2}, schema.XXH64, oneWalk)
		sides := [2]parity.Side{parity.Traced(kept), parity.Traced(kept)}
		sides[shorter] = parity.Live(forgetful{skipping{walker{4: {0, 1}}, 2}, new(int)})
		r, err := parity.Compare(t.Context(), f, sides[0], sides[1], oneWalk,
			parity.CompareOptions{})
		must(t, err)
		if d := r.First; d == nil || d.Stage != "reward" || d.Step != 4 || !d.Unrepeated ||
			d.Explanation != nil {
			t.Errorf("%+v, want step 4, stage reward, which did not show again", d)
		}
	}
}

// TestLackingStep: a recording without one of its steps teaches nothing, and is drawn up
// to there.
func TestLackingStep(t *testing.T) {
	want, _ := recorded(t, skipping{walker{}, 2}, schema.XXH64, oneWalk)
	short := walker{4: {2, 0}} // leaves the field
	if r := compared(t, parity.Traced(want), parity.Live(short), oneWalk); r.Forced != 0 ||
		r.Rollouts[0].Forced ||
		r.First == nil ||
		r.First.Stage != schema.Extent {
		t.Errorf("%d steps are forced: %v", r.Forced, r.Err())
	}
	got, _ := recorded(t, skipping{walker{5: {0, 1}}, 2}, schema.XXH64, oneWalk)
	r := compared(t, parity.Traced(want), parity.Traced(got), nil)
	if r.First == nil || r.First.Step != 5 || len(r.Plot.Charts) != 1 {
		t.Fatalf("%v", r.Err())
	}
	for _, line := range r.Plot.Charts[0].Lines {
		if len(line.Values) != 2 {
			t.Errorf(
				"%s: %v; want two values before the one that is lacking", line.Name, line.Values,
			)
		}
	}
}

// TestComparedOnce: steps that are forced are counted apart.
func TestComparedOnce(t *testing.T) {
	r := compared(t, parity.Live(walker{}), parity.Live(walker{4: {2, 0}}), oneWalk)
	if r.Forced <= r.Steps || r.Compared["reward"] != r.Steps || r.Compared["at"] != r.Steps {
		t.Errorf("%d steps, %d forced, compared %v", r.Steps, r.Forced, r.Compared)
	}
}

// A mute walker does not say what its walks come to.
type mute struct{ walker }

func (m mute) Run(
	ctx context.Context, tasks []parity.RolloutTask, observe func(int, *schema.Step),
) iter.Seq2[int, parity.End] {
	return func(yield func(int, parity.End) bool) {
		for i, end := range m.walker.Run(ctx, tasks, observe) {
			if !yield(i, parity.End{Err: end.Err}) {
				return
			}
		}
	}
}

// TestNoOutcome: an engine says what a rollout came to, as it shows every stage; a recording need
// not have kept it.
func TestNoOutcome(t *testing.T) {
	whole, lacks := parity.Live(walker{}), parity.Live(mute{walker{}})
	kept, _ := recorded(t, walker{}, schema.XXH64, oneWalk)
	lost, _ := recorded(t, mute{walker{}}, schema.XXH64, oneWalk)
	for name, c := range map[string]struct {
		want, got parity.Side
		says      string
	}{
		"got's":               {whole, lacks, "stage result: want 1 values, got no outcome"},
		"want's":              {lacks, whole, "stage result: want no outcome, got 1 values"},
		"both":                {lacks, lacks, "stage result: want no outcome, got no outcome"},
		"got's of a trace":    {parity.Traced(kept), lacks, "want 1 values, got no outcome"},
		"a trace's":           {parity.Traced(lost), whole, ""},
		"a trace's and got's": {parity.Traced(lost), lacks, ""},
		"got, a trace":        {whole, parity.Traced(lost), ""},
	} {
		r := compared(t, c.want, c.got, oneWalk)
		if c.says != "" {
			simtest.Refused(t, name, r.Err(), c.says)
		} else if r.Err() != nil || r.Lacking["result"] != 1 || r.Compared["result"] != 0 {
			t.Errorf("%s: %v; %d are lacking, want 1", name, r.Err(), r.Lacking["result"])
		}
	}
}

// TestFindingsAlone: findings are a difference in a report that describes none.
func TestFindingsAlone(t *testing.T) {
	var r parity.Report
	must(
		t,
		json.Unmarshal(
			[]byte(
				`{"want": {"name": "a"}, "got": {"name": "b"}, "findings": [{"stage": "reward", `+
					`"findings": 3, "rollouts": 2}], "rollouts": [{"steps": 1, "equal": true}]}`,
			),
			&r,
		),
	)
	if r.Nothing() || r.OK() ||
		!strings.Contains(r.Err().Error(), "a and b: 3 findings in reward, in 2 of 1 rollouts") {
		t.Errorf("%v: %v", r.Nothing(), r.Err())
	}
}

// TestTeacherPastEnd: a trajectory goes on where comparisons end.
func TestTeacherPastEnd(t *testing.T) {
	s, steps := walks.Schema, []*schema.Step(nil)
	for range (walker{}).Run(t.Context(), oneWalk, func(_ int, step *schema.Step) {
		step.Sum(schema.XXH64)
		steps = append(steps, step.Clone())
	}) {
	}
	s.End = 4
	if teacher := parity.NewTeacher(&s, steps); teacher == nil || teacher.Steps() != len(steps) ||
		len(steps) <= s.End {
		t.Errorf("%v of %d steps", teacher, len(steps))
	}
}

// wide is a simulator of many numbers, all off by something.
type wide float64

var wides = schema.NewView(
	schema.Schema{
		Name:    "wide",
		Key:     []string{"start"},
		Outcome: schema.Outcome{Name: "result", Elements: []string{"sum"}, From: []string{"sum"}},
	},
	schema.Array(
		schema.Stage{
			Name:  "all",
			Shape: []int{8192},
			Teach: true,
			Soft:  true,
			From:  []schema.Input{schema.Last(1, "all")},
		},
		func(all []float64) []float64 { return all },
	),
	schema.Number(
		schema.Stage{Name: "sum", From: []schema.Input{schema.Same("all")}},
		func(all []float64) (float64, bool) { return all[0], true },
	),
)

func (w wide) Info() parity.SideInfo  { return parity.SideInfo{Name: "wide"} }
func (w wide) Schema() *schema.Schema { return &wides.Schema }

func (w wide) Run(
	_ context.Context, tasks []parity.RolloutTask, observe func(int, *schema.Step),
) iter.Seq2[int, parity.End] {
	return func(yield func(int, parity.End) bool) {
		all, into := make([]float64, 8192), wides.NewStep()
		all[0] = float64(w)
		for i := range tasks {
			for k := range 8 {
				wides.Expose(k, all, into)
				observe(i, into)
			}
			if !yield(i, parity.End{Outcome: all[:1]}) {
				return
			}
		}
	}
}

// A follower is a simulator of three numbers, the last of which follows from both others.
type follower struct {
	hard, soft, both float64
	more             int // steps than one
}

func (f follower) Info() parity.SideInfo  { return parity.SideInfo{Name: "follower"} }
func (f follower) Schema() *schema.Schema { return &followers.Schema }

var followers = schema.NewView(
	schema.Schema{
		Name:    "follower",
		Key:     []string{"start"},
		Outcome: schema.Outcome{Name: "result", Elements: []string{"both"}, From: []string{"both"}},
	},
	schema.Number(
		schema.Stage{Name: "hard"},
		func(f follower) (float64, bool) { return f.hard, true },
	),
	schema.Number(
		schema.Stage{Name: "soft", Soft: true},
		func(f follower) (float64, bool) { return f.soft, true },
	),
	schema.Number(
		schema.Stage{Name: "both", From: []schema.Input{schema.Same("hard"), schema.Same("soft")}},
		func(f follower) (float64, bool) { return f.both, true },
	),
)

func (f follower) Run(
	_ context.Context, tasks []parity.RolloutTask, observe func(int, *schema.Step),
) iter.Seq2[int, parity.End] {
	return func(yield func(int, parity.End) bool) {
		for i := range tasks {
			into := followers.NewStep()
			for k := range 1 + f.more {
				followers.Expose(k, f, into)
				observe(i, into)
			}
			if !yield(i, parity.End{Outcome: []float64{f.both}}) {
				return
			}
		}
	}
}

// TestFollows: what is computed from a stage that differs is no finding, be what may differ among
// the others that it is computed from.
func TestFollows(t *testing.T) {
	tasks := []parity.RolloutTask{{Rollout: trace.Rollout{Key: []string{"1"}}}}
	for want, other := range map[string]follower{
		"[]": {}, "[hard]": {hard: 1, soft: 1e-9, both: 2}, "[both]": {soft: 1e-9, both: 2},
	} {
		r, err := parity.Compare(t.Context(), parity.Family{}, parity.Live(follower{}),
			parity.Live(other), tasks, parity.CompareOptions{Inexact: true})
		must(t, err)
		var stages []string
		for _, f := range r.Findings {
			stages = append(stages, f.Stage)
		}
		if got := fmt.Sprint(stages); got != want {
			t.Errorf("%+v: findings in %s, want %s", other, got, want)
		}
	}
}

// TestExplained: whoever explains a choice is shown what was wanted and what was got, as such,
// whichever of the sides the other is forced onto; what explains it is entered with its place.
func TestExplained(t *testing.T) {
	tasks := []parity.RolloutTask{{Rollout: trace.Rollout{Key: []string{"1"}}}}
	explained := true
	both := func(s *schema.Step) float64 { return math.Float64frombits(s.Bits[2]) }
	f := parity.Family{Explain: func(want, got *schema.Step) *parity.Explanation {
		return &parity.Explanation{
			Text: fmt.Sprint(both(want), both(got)), Explained: explained,
		}
	}}
	want, got := parity.Live(follower{both: 1}), follower{soft: 1e-9, both: 2}
	kept, _ := recorded(t, got, schema.XXH64, tasks)
	for _, side := range []parity.Side{parity.Live(got), parity.Traced(kept)} {
		for _, explained = range []bool{true, false} {
			r, err := parity.Compare(t.Context(), f, want, side, tasks,
				parity.CompareOptions{Inexact: true, Budget: parity.Budget{Flips: 1}})
			must(t, err)
			flips := r.Flips
			if e := flips.Examples; len(e) != 1 || flips.Stage != "both" || e[0].Text != "1 2" ||
				e[0].Rollout != "start 1" || e[0].Step != 0 || r.OK() != explained {
				t.Fatalf("%+v: %v", flips, r.Err())
			}
			if !explained && r.First.Explanation.Text != "1 2" {
				t.Errorf("%+v", r.First)
			}
		}
	}
}

// TestExamples: all flips are counted, and the first twenty are kept, whichever rollouts they are
// of.
func TestExamples(t *testing.T) {
	const rollouts, steps = 3, 8
	var tasks []parity.RolloutTask
	for i := range rollouts {
		key := []string{fmt.Sprint(i)}
		tasks = append(tasks, parity.RolloutTask{Rollout: trace.Rollout{Key: key}})
	}
	f := parity.Family{Explain: func(_, _ *schema.Step) *parity.Explanation {
		return &parity.Explanation{Explained: true}
	}}
	r, err := parity.Compare(t.Context(), f, parity.Live(follower{both: 1, more: steps - 1}),
		parity.Live(follower{soft: 1e-9, both: 2, more: steps - 1}), tasks,
		parity.CompareOptions{Inexact: true, Budget: parity.Budget{Flips: rollouts * steps}})
	must(t, err)
	if n := len(r.Flips.Examples); r.Flips.Explained != rollouts*steps || n != 20 {
		t.Fatalf("%d flips, %d examples: %v", r.Flips.Explained, n, r.Err())
	}
	for i, e := range r.Flips.Examples {
		if want := fmt.Sprint("start ", i/steps); e.Rollout != want || e.Step != i%steps {
			t.Errorf("example %d is of %s, step %d; want %s, step %d", i, e.Rollout, e.Step, want,
				i%steps)
		}
	}
}

// TestKeptMemory: once all is compared, of the steps of both sides no more is kept than
// digests and what one of them can teach.
func TestKeptMemory(t *testing.T) {
	var tasks []parity.RolloutTask
	for i := range 24 {
		tasks = append(
			tasks, parity.RolloutTask{Rollout: trace.Rollout{Key: []string{fmt.Sprint(i)}}, Job: i},
		)
	}
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before, kept := heap(), int64(0)
	f := parity.Family{
		Plot: func(*parity.RolloutTask, [2]*schema.Digests, [2]*schema.Step) []parity.Chart {
			kept = heap() - before
			return nil
		},
	}
	_, err := parity.Compare(
		t.Context(), f, parity.Live(wide(0)), parity.Live(wide(1)), tasks,
		parity.CompareOptions{Inexact: true},
	)
	must(t, err)
	if side := int64(24 * 8 * 8192 * 8); kept < side || kept > 2*side {
		t.Errorf("%d bytes are kept, one side has %d", kept, side)
	}
}
