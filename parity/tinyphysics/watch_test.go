package tinyphysics

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"lockstep"
	"lockstep/parity"
	b "lockstep/parity/branches"
	"lockstep/parity/schema"
	"lockstep/parity/trace"
)

// counted are the names of branches that were seen, with how often: "warm-up 2, token 0 1".
func counted(times []int, of []int) string {
	var all []string
	for _, branch := range of {
		if times[branch] > 0 {
			all = append(all, fmt.Sprint(b.TinyPhysics()[branch].Name, " ", times[branch]))
		}
	}
	return strings.Join(all, ", ")
}

// wantCounted is the same of what is wanted.
func wantCounted(of []int, want map[int]int) string {
	times := make([]int, len(b.TinyPhysics()))
	for branch, n := range want {
		times[branch] = n
	}
	return counted(times, of)
}

// zeros is a route of so many rows, all of whose values are 0.
func zeros(rows int) *lockstep.Route {
	r := &lockstep.Route{Name: "plain"}
	for _, column := range r.Columns() {
		*column = make([]float64, rows)
	}
	return r
}

var nan = math.NaN()

// TestCountedJobs: what a job is is counted once, at each boundary and beyond it.
func TestCountedJobs(t *testing.T) {
	of := []int{
		b.ShortestRoute, b.RouteEndsEarly, b.RouteGoesOn, b.NaNRoll, b.NaNSpeed, b.NaNAcceleration,
		b.NaNTarget, b.NaNCommand, b.BeyondLastBin, b.BeyondFirstBin, b.FirstBin, b.LastBin,
		b.GivenDraws, b.PolicyZero, b.PolicyPID, b.PolicyPIDFF, b.NetworkMean, b.NetworkSampled,
		b.PolicyTable, b.PolicyCode, b.PolicyBatch,
	}
	const context, control, end = lockstep.ContextLength, lockstep.ControlStartIdx,
		lockstep.CostEndIdx
	stop := lockstep.StopAtCostEnd
	made := func(rows int, policy lockstep.Policy) lockstep.Job {
		return lockstep.Job{Route: zeros(rows), Policy: policy}
	}
	with := func(rows, column, at int, x float64) lockstep.Job {
		j := made(rows, nil)
		(*j.Route.Columns()[column])[at] = x
		return j
	}
	drawn, sampled, short := made(end, nil), made(end, &lockstep.Network{}), made(end, nil)
	drawn.Draws = []float64{}
	sampled.Sampling = &lockstep.Sampling{}
	short.Route.SteerCommand = short.Route.SteerCommand[:control-1]
	short.Route.SteerCommand[control-2] = nan
	for name, c := range map[string]struct {
		job       lockstep.Job
		shortcuts lockstep.Shortcuts
		want      map[int]int
	}{
		"shortest": {made(lockstep.MinRows, nil), 0,
			map[int]int{b.ShortestRoute: 1, b.RouteEndsEarly: 1}},
		"a row more":      {made(lockstep.MinRows+1, nil), 0, map[int]int{b.RouteEndsEarly: 1}},
		"499 rows":        {made(end-1, nil), 0, map[int]int{b.RouteEndsEarly: 1}},
		"500 rows":        {made(end, nil), 0, nil},
		"501 rows":        {made(end+1, nil), 0, map[int]int{b.RouteGoesOn: 1}},
		"501, 500 driven": {made(end+1, nil), stop, nil},
		"zero":            {made(end, lockstep.Zero{}), 0, map[int]int{b.PolicyZero: 1}},
		"pid":             {made(end, lockstep.PID{}), 0, map[int]int{b.PolicyPID: 1}},
		"pidff":           {made(end, lockstep.PIDFF{}), 0, map[int]int{b.PolicyPIDFF: 1}},
		"network":         {made(end, &lockstep.Network{}), 0, map[int]int{b.NetworkMean: 1}},
		"sampled":         {sampled, 0, map[int]int{b.NetworkSampled: 1}},
		"table":           {made(end, &lockstep.Table{}), 0, map[int]int{b.PolicyTable: 1}},
		"code":            {made(end, lockstep.Custom{}), 0, map[int]int{b.PolicyCode: 1}},
		"batch":           {made(end, &lockstep.Batch{}), 0, map[int]int{b.PolicyBatch: 1}},
		"draws":           {drawn, 0, map[int]int{b.GivenDraws: 1}},
		"roll":            {with(end, 0, 0, nan), 0, map[int]int{b.NaNRoll: 1}},
		"speed":           {with(end, 1, end-1, nan), 0, map[int]int{b.NaNSpeed: 1}},
		"row that is driven": {with(end+1, 2, end-1, nan), stop,
			map[int]int{b.NaNAcceleration: 1}},
		"row that is not driven": {with(end+1, 2, end, nan), stop, nil},
		"target":                 {with(end, 3, 70, nan), 0, map[int]int{b.NaNTarget: 1}},
		"command":                {with(end, 4, control-1, nan), 0, map[int]int{b.NaNCommand: 1}},
		"later command":          {with(end, 4, control, nan), 0, nil},
		"fewer commands":         {short, 0, map[int]int{b.NaNCommand: 1}},
		"at the last bin": {with(end, 3, context-1, lockstep.LataccelMax), 0,
			map[int]int{b.LastBin: 1}},
		"beyond the last bin": {with(end, 3, 0, math.Nextafter(lockstep.LataccelMax, 9)), 0,
			map[int]int{b.LastBin: 1, b.BeyondLastBin: 1}},
		"at the first bin": {with(end, 3, 0, lockstep.LataccelMin), 0, map[int]int{b.FirstBin: 1}},
		"beyond the first bin": {with(end, 3, 0, math.Nextafter(lockstep.LataccelMin, -9)), 0,
			map[int]int{b.FirstBin: 1, b.BeyondFirstBin: 1}},
		"unseen target": {with(end, 3, context, 9), 0, nil},
	} {
		task := &parity.RolloutTask{Job: job{c.job, c.shortcuts}}
		got := counted(watch(task).End(parity.End{}).Times, of)
		if want := wantCounted(of, c.want); got != want {
			t.Errorf("%s: counted is %q, want %q", name, got, want)
		}
	}
}

// A seen step is what a watcher is shown of one: what is nil is not there.
type seen struct {
	index                        int
	action, lataccel, prediction *float64
	sample                       *int64
	draw                         *float64
	cdf                          []float64
	raw                          *float64
}

func (o seen) step() *schema.Step {
	s := view.NewStep()
	s.Index = o.index
	for stage, x := range map[int]*float64{
		action: o.action, lataccel: o.lataccel, prediction: o.prediction, draw: o.draw, raw: o.raw,
	} {
		if x != nil {
			s.Has, s.Bits[stage] = s.Has|1<<stage, math.Float64bits(*x)
		}
	}
	if o.sample != nil {
		s.Has, s.Bits[sample] = s.Has|1<<sample, uint64(*o.sample)
	}
	if o.cdf != nil {
		s.Has, s.Data[cdf] = s.Has|1<<cdf, schema.Bytes(o.cdf)
	}
	return s
}

// TestCountedSteps: what a step went through is counted, at each boundary and beyond it.
func TestCountedSteps(t *testing.T) {
	var all []int
	for branch := range b.TinyPhysics() {
		if branch != b.RouteEndsEarly && branch != b.PolicyZero {
			all = append(all, branch)
		}
	}
	num := func(x float64) *float64 { return &x }
	tok := func(x int64) *int64 { return &x }
	const control, width = lockstep.ControlStartIdx, 10.0 / 1023
	up, down := math.Nextafter(2, 3), math.Nextafter(-2, -3)
	recorded := zeros(300)
	recorded.SteerCommand[50], recorded.SteerCommand[51] = up, 2
	recorded.SteerCommand[52], recorded.SteerCommand[53] = down, -2
	edges := make([]float64, lockstep.VocabSize)
	for i := range edges {
		edges[i] = float64(i+1) / 1024
	}
	after, before := math.Nextafter(0.5, 1), math.Nextafter(0.5, 0)
	middle := 1.5 / 1024
	for name, c := range map[string]struct {
		route   *lockstep.Route // nil: there is no job
		teacher bool
		step    seen
		want    map[int]int
	}{
		"step 99":   {nil, false, seen{index: control - 1}, map[int]int{b.Warmup: 1}},
		"step 100":  {nil, false, seen{index: control}, map[int]int{b.FirstControlled: 1}},
		"step 101":  {nil, false, seen{index: control + 1}, nil},
		"command 2": {nil, false, seen{index: 101, action: num(2)}, map[int]int{b.CommandHigh: 1}},
		"command just below 2": {nil, false, seen{index: 101, action: num(math.Nextafter(2, 0))},
			map[int]int{b.CommandWithin: 1}},
		"command -2": {nil, false, seen{index: 101, action: num(-2)}, map[int]int{b.CommandLow: 1}},
		"command just above -2": {nil, false, seen{index: 101, action: num(math.Nextafter(-2, 0))},
			map[int]int{b.CommandWithin: 1}},
		"command at step 100": {nil, false, seen{index: 100, action: num(0)},
			map[int]int{b.FirstControlled: 1, b.CommandWithin: 1}},
		"command at step 99, no job": {nil, false, seen{index: 99, action: num(2)},
			map[int]int{b.Warmup: 1}},
		"recorded above 2": {recorded, false, seen{index: 50, action: num(2)},
			map[int]int{b.Warmup: 1, b.RecordedHigh: 1}},
		"recorded 2": {recorded, false, seen{index: 51, action: num(2)}, map[int]int{b.Warmup: 1}},
		"recorded below -2": {recorded, false, seen{index: 52, action: num(-2)},
			map[int]int{b.Warmup: 1, b.RecordedLow: 1}},
		"recorded -2": {recorded, false, seen{index: 53, action: num(-2)},
			map[int]int{b.Warmup: 1}},
		"no recorded command": {&lockstep.Route{TargetLataccel: make([]float64, 300)}, false,
			seen{index: 53, action: num(-2)}, map[int]int{b.Warmup: 1}},
		"first bin": {nil, false, seen{index: 101, lataccel: num(-5)}, map[int]int{b.FirstBin: 1}},
		"last bin":  {nil, false, seen{index: 101, lataccel: num(5)}, map[int]int{b.LastBin: 1}},
		"a bin":     {nil, false, seen{index: 101, lataccel: num(float64(7*width) - 5)}, nil},
		"beside a bin": {nil, false, seen{
			index: 101, lataccel: num(math.Nextafter(float64(7*width)-5, 9)),
		}, map[int]int{b.BetweenBins: 1}},
		"beyond": {nil, false, seen{index: 101, lataccel: num(6)},
			map[int]int{b.LastBin: 1, b.BeyondLastBin: 1, b.BetweenBins: 1}},
		"below": {nil, false, seen{index: 101, lataccel: num(-6)},
			map[int]int{b.FirstBin: 1, b.BeyondFirstBin: 1, b.BetweenBins: 1}},
		"one width below": {nil, false, seen{index: 101, lataccel: num(float64(-1*width) - 5)},
			map[int]int{b.FirstBin: 1, b.BeyondFirstBin: 1, b.BetweenBins: 1}},
		"one width above": {nil, false, seen{index: 101, lataccel: num(float64(1024*width) - 5)},
			map[int]int{b.LastBin: 1, b.BeyondLastBin: 1, b.BetweenBins: 1}},
		"taught": {recorded, true, seen{index: 101, lataccel: num(5)},
			map[int]int{b.TaughtAfter: 1}},
		"taught at 100": {recorded, true, seen{index: 100},
			map[int]int{b.FirstControlled: 1, b.TaughtAfter: 1}},
		"taught before": {recorded, true, seen{index: 99},
			map[int]int{b.Warmup: 1, b.TaughtBefore: 1}},
		"prediction above": {nil, false, seen{
			index: 101, lataccel: num(-5), prediction: num(1), sample: tok(4),
		}, map[int]int{b.FirstBin: 1, b.PredictionHigh: 1}},
		"prediction below": {nil, false, seen{
			index: 101, lataccel: num(5), prediction: num(1), sample: tok(4),
		}, map[int]int{b.LastBin: 1, b.PredictionLow: 1}},
		"prediction within": {nil, false, seen{
			index: 101, lataccel: num(5), prediction: num(5), sample: tok(0),
		}, map[int]int{b.LastBin: 1, b.PredictionWithin: 1, b.OnBin: 1}},
		"expected value": {nil, false, seen{
			index: 101, lataccel: num(5), prediction: num(5), sample: tok(-1),
		}, map[int]int{b.LastBin: 1, b.PredictionWithin: 1}},
		"prediction while warm": {nil, false, seen{
			index: 99, lataccel: num(5), prediction: num(5), sample: tok(0),
		}, map[int]int{b.LastBin: 1, b.Warmup: 1}},
		"the network did not run": {nil, false, seen{
			index: 101, lataccel: num(5), prediction: num(5), draw: num(0), cdf: edges,
		}, map[int]int{b.LastBin: 1}},
		"token 0": {nil, false, seen{
			index: 101, sample: tok(0), draw: num(0.0001), cdf: edges,
		}, map[int]int{b.FirstToken: 1}},
		"token 1": {nil, false, seen{
			index: 101, sample: tok(1), draw: num(middle), cdf: edges,
		}, nil},
		"token 1023": {nil, false, seen{
			index: 101, sample: tok(1023), draw: num(1 - 0.5/1024), cdf: edges,
		}, map[int]int{b.LastToken: 1}},
		"no token": {nil, false, seen{index: 101, sample: tok(-1), draw: num(0.5), cdf: edges},
			map[int]int{b.ExpectedValue: 1}},
		"beyond all tokens": {nil, false, seen{
			index: 101, sample: tok(1024), draw: num(0.5), cdf: edges,
		}, nil},
		"no CDF": {nil, false, seen{index: 101, sample: tok(512), draw: num(0.5)}, nil},
		"on an edge": {nil, false, seen{index: 101, sample: tok(512), draw: num(0.5), cdf: edges},
			map[int]int{b.DrawOnEdge: 1}},
		"0, on an edge of 0": {nil, false, seen{
			index: 101, sample: tok(1), draw: num(0), cdf: append([]float64{0}, edges[1:]...),
		}, map[int]int{b.DrawOnEdge: 1}},
		"above an edge": {nil, false, seen{
			index: 101, sample: tok(512), draw: num(after), cdf: edges,
		}, map[int]int{b.DrawAboveEdge: 1}},
		"below an edge": {nil, false, seen{
			index: 101, sample: tok(511), draw: num(before), cdf: edges,
		}, map[int]int{b.DrawBelowEdge: 1}},
	} {
		task := &parity.RolloutTask{}
		if c.route != nil {
			own := lockstep.Job{Route: c.route, Policy: lockstep.Zero{}}
			if c.teacher {
				own.Teacher = &lockstep.Trajectory{}
			}
			task.Job = job{own, 0}
		}
		w := watch(task)
		for i := range w.(*watcher).times {
			w.(*watcher).times[i] = 0
		}
		w.Step(c.step.step())
		got := counted(w.End(parity.End{}).Times, all)
		if want := wantCounted(all, c.want); got != want {
			t.Errorf("%s: counted is %q, want %q", name, got, want)
		}
	}
}

// TestCountedPolicies: what policies meet: a plan whole, cut or gone, speeds, changes and tables
// that are over.
func TestCountedPolicies(t *testing.T) {
	of := []int{
		b.WholePlan, b.CutPlan, b.NoPlan, b.SlowPIDFF, b.EmptyBand, b.NetworkChange, b.TableOver,
	}
	const rows, plan = 400, lockstep.FuturePlanSteps
	bands := lockstep.PlanBands()
	last := bands[len(bands)-1][0]
	forward := lockstep.PIDFF{FF: [4]float64{0, 0, 0, 1}}
	network := &lockstep.Network{Scale: 2}
	change := func(x float64) *float64 { return &x }
	for name, c := range map[string]struct {
		policy lockstep.Policy
		speed  float64
		index  int
		raw    *float64
		want   map[int]int
	}{
		"whole plan": {forward, 9, rows - plan, nil, map[int]int{b.WholePlan: 1}},
		"one less":   {forward, 9, rows - plan + 1, nil, map[int]int{b.CutPlan: 1}},
		"band begun": {forward, 9, rows - 2 - last, nil, map[int]int{b.CutPlan: 1}},
		"band empty": {forward, 9, rows - 1 - last, nil,
			map[int]int{b.CutPlan: 1, b.EmptyBand: 1}},
		"one row":        {forward, 9, rows - 2, nil, map[int]int{b.CutPlan: 1, b.EmptyBand: 1}},
		"none":           {forward, 9, rows - 1, nil, map[int]int{b.NoPlan: 1, b.EmptyBand: 1}},
		"before it acts": {forward, 4, 99, nil, nil},
		"no look ahead":  {lockstep.PIDFF{}, 4, rows - 1, nil, nil},
		"slow": {lockstep.PIDFF{FFV: 1}, math.Nextafter(5, 0), 200, nil,
			map[int]int{b.SlowPIDFF: 1}},
		"not slow":        {lockstep.PIDFF{FFV: 1}, 5, 200, nil, nil},
		"slow, no matter": {lockstep.PIDFF{}, 4, 200, nil, nil},
		"change": {network, 9, 100, change(math.Nextafter(lockstep.MaxChange/2, 9)),
			map[int]int{b.WholePlan: 1, b.NetworkChange: 1}},
		"change back": {network, 9, 100, change(-math.Nextafter(lockstep.MaxChange/2, 9)),
			map[int]int{b.WholePlan: 1, b.NetworkChange: 1}},
		"as far as may be": {network, 9, 100, change(lockstep.MaxChange / 2),
			map[int]int{b.WholePlan: 1}},
		"no answer": {network, 9, 100, nil, map[int]int{b.WholePlan: 1}},
		"table":     {&lockstep.Table{}, 9, 100 + lockstep.TableSteps - 1, nil, nil},
		"table over": {&lockstep.Table{}, 9, 100 + lockstep.TableSteps, nil,
			map[int]int{b.TableOver: 1}},
		"pid": {lockstep.PID{}, 4, rows - 1, nil, nil},
	} {
		route := zeros(rows)
		if _, ok := c.policy.(*lockstep.Table); ok {
			route = zeros(600)
		}
		route.VEgo = slices.Repeat([]float64{c.speed}, route.Len())
		w := watch(&parity.RolloutTask{Job: job{lockstep.Job{Route: route, Policy: c.policy}, 0}})
		w.Step(seen{index: c.index, raw: c.raw}.step())
		got := counted(w.End(parity.End{}).Times, of)
		if want := wantCounted(of, c.want); got != want {
			t.Errorf("%s: counted is %q, want %q", name, got, want)
		}
	}
}

// TestNearest: of several draws the nearest to an edge is kept, the first of those as near.
func TestNearest(t *testing.T) {
	w := watch(&parity.RolloutTask{})
	edges := make([]float64, lockstep.VocabSize)
	for i := range edges {
		edges[i] = float64(i+1) / 1024
	}
	third := edges[0] / 3
	for i, c := range []struct {
		token    int64
		draw     float64
		step     int // of the nearest so far
		distance float64
	}{
		{512, 0.5 + third, 200, 0.5 + third - 0.5}, // 32 bits do not hold it
		{513, edges[513] - 0.4/1024, 200, 0.5 + third - 0.5},
		{514, edges[514] - 0.125/1024, 202, 0.125 / 1024},
		{0, edges[0] - 0.0625/1024, 203, 0.0625 / 1024},
		{0, 0, 203, 0.0625 / 1024},
	} {
		w.Step(seen{index: 200 + i, sample: &c.token, draw: &c.draw, cdf: edges}.step())
		near := w.End(parity.End{}).Nearest
		if near == nil || near.Step != c.step || float64(near.Distance) != c.distance ||
			math.Abs(float64(near.Edge-near.Draw)) != c.distance {
			t.Errorf("after step %d: %+v, want step %d, %v away", 200+i, near, c.step, c.distance)
		}
	}
	times := w.End(parity.End{Err: errors.New("x")}).Times
	if times[b.Failure] != 1 || w.End(parity.End{}).Times[b.Failure] != 1 {
		t.Errorf("a failure and none are counted %d times, want 1", times[b.Failure])
	}
}

// TestCompareTraces: one file is not held to itself, by whichever name, nor what two networks
// drove, and traces of another simulator are compared by their own schema.
func TestCompareTraces(t *testing.T) {
	sim := &toy{name: "toy"}
	of := func(model string) *trace.File {
		path := t.TempDir() + "/a.trace"
		h := trace.Header{Digest: schema.XXH64, ModelSHA256: model}
		if err := recordTo(t.Context(), sim, toyJobs(1, 110), lockstep.AllSteps, h, 0,
			path); err != nil {
			t.Fatal(err)
		}
		f, err := trace.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	one, same, other, unknown := of("a"), of("a"), of("b"), of("")
	elsewhere := func(link func(file, name string) error) *trace.File {
		name := t.TempDir() + "/link.trace"
		if err := link(one.Name, name); err != nil {
			t.Fatal(err)
		}
		f, err := trace.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	for _, c := range []struct {
		want, got *trace.File
		refused   string
	}{
		{one, same, ""}, {one, unknown, ""}, {unknown, one, ""},
		{one, one, "are one file: nothing would be proved"},
		{one, elsewhere(os.Link), "are one file: nothing would be proved"},
		{one, elsewhere(os.Symlink), "are one file: nothing would be proved"},
		{one, other, "is of the network a, "},
	} {
		r, err := CompareTraces(t.Context(), c.want, c.got, parity.CompareOptions{})
		if c.refused != "" {
			if err == nil || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%v, want an error that says %q", err, c.refused)
			}
			continue
		}
		if err != nil || r.Err() != nil || r.Exercised == nil || r.Equal() != 1 {
			t.Errorf("%s and %s: %v, %+v", c.want.Name, c.got.Name, err, r)
		}
	}
	one.Header.Schema.Name, same.Header.Schema.Name = "another", "another"
	r, err := CompareTraces(t.Context(), one, same, parity.CompareOptions{})
	if err != nil || r.Err() != nil || r.Exercised != nil || r.Equal() != 1 {
		t.Errorf("traces of another simulator: %v, %+v", err, r)
	}
}

// TestShortcutWords: each shortcut has its word, and comes back from it.
func TestShortcutWords(t *testing.T) {
	for s := range lockstep.Shortcuts(8) {
		words := Words(s)
		back, err := ParseShortcuts(words)
		if err != nil || back != s {
			t.Errorf("%b is %q, and that is %b, %v", s, words, back, err)
		}
		var own Shortcuts
		data, err := Shortcuts(s).MarshalJSON()
		if err := errors.Join(err, own.UnmarshalJSON(data)); err != nil || own != Shortcuts(s) {
			t.Errorf("%b is %s, and that is %b, %v", s, data, own, err)
		}
	}
	for word, want := range map[string]lockstep.Shortcuts{
		"skip_warmup": lockstep.SkipWarmup, "stop_at_cost_end": lockstep.StopAtCostEnd,
		"last_position": lockstep.LastPosition,
	} {
		if got, err := ParseShortcuts([]string{word}); err != nil || got != want {
			t.Errorf("%s is %b, %v; want %b", word, got, err, want)
		}
	}
	if got, err := ParseShortcuts([]string{"skip_warmup", "skip_all"}); err == nil || got != 0 {
		t.Errorf("a word that is none is %b, %v", got, err)
	}
	var own Shortcuts
	for _, text := range []string{`"skip_warmup"`, `["x"]`} {
		if err := own.UnmarshalJSON([]byte(text)); err == nil {
			t.Errorf("%s is %b", text, own)
		}
	}
}
