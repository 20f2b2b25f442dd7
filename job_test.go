package lockstep_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"lockstep"
	"lockstep/internal/simtest"
)

// rows is a route of so many rows.
func rows(n int) *lockstep.Route {
	r := &lockstep.Route{Name: "a", Seed: 7}
	for _, column := range r.Columns() {
		*column = make([]float64, n)
	}
	return r
}

// TestJobLimits: what a job may just be, and what it may just not be.
func TestJobLimits(t *testing.T) {
	const n = 600
	short := func(column int) *lockstep.Route {
		r := rows(n)
		c := r.Columns()[column]
		*c = (*c)[:n-1]
		return r
	}
	teacher := func(lataccels, actions int) *lockstep.Trajectory {
		return &lockstep.Trajectory{
			Lataccel: make([]float64, lataccels),
			Action:   make([]float64, actions),
		}
	}
	long := func(column int) *lockstep.Route {
		r := rows(n)
		c := r.Columns()[column]
		*c = append(*c, 0)
		return r
	}
	tabled := func(actions int) *lockstep.Table {
		return &lockstep.Table{Actions: map[string][]float64{"a": make([]float64, actions)}}
	}
	warm := rows(n)
	warm.SteerCommand = warm.SteerCommand[:lockstep.ControlStartIdx]
	cold := rows(n)
	cold.SteerCommand = cold.SteerCommand[:lockstep.ControlStartIdx-1]
	table, err := lockstep.NewTable(map[string][]float64{"a": make([]float64, lockstep.TableSteps)})
	if err != nil {
		t.Fatal(err)
	}
	drawn := func(k int, u float64) lockstep.Job {
		j := lockstep.Job{Route: rows(n), Draws: make([]float64, n-20)}
		j.Draws[k] = u
		return j
	}
	kept := func(k int, u float64) lockstep.Job {
		j := drawn(k, u)
		j.Route.Draws, j.Draws = j.Draws, nil
		return j
	}
	columns := "want equal numbers"
	for _, c := range []struct {
		name      string
		job       lockstep.Job
		shortcuts lockstep.Shortcuts
		want      string
	}{
		{"no route", lockstep.Job{}, 0, "no route"},
		{"the fewest rows", lockstep.Job{Route: rows(lockstep.MinRows)}, 0, ""},
		{"too few rows", lockstep.Job{Route: rows(lockstep.MinRows - 1)}, 0, "100 rows, want at " +
			"least 101"},
		{"short roll", lockstep.Job{Route: short(0)}, 0, columns},
		{"short speed", lockstep.Job{Route: short(1)}, 0, columns},
		{"short acceleration", lockstep.Job{Route: short(2)}, 0, columns},
		{"long roll", lockstep.Job{Route: long(0)}, 0, columns},
		{"long speed", lockstep.Job{Route: long(1)}, 0, columns},
		{"long acceleration", lockstep.Job{Route: long(2)}, 0, columns},
		{"long commands", lockstep.Job{Route: long(4)}, 0, ""},
		{"commands of the warm-up", lockstep.Job{Route: warm}, 0, ""},
		{"commands of less", lockstep.Job{Route: cold}, 0, columns},
		{"a teacher of all", lockstep.Job{Route: rows(n), Teacher: teacher(n, n)}, 0, ""},
		{"a teacher short of lataccels", lockstep.Job{Route: rows(n), Teacher: teacher(n-1, n)},
			0, "the teacher has 599 lataccels"},
		{"a teacher short of actions", lockstep.Job{Route: rows(n), Teacher: teacher(n, n-1)}, 0,
			"599 actions, want 600"},
		{"a teacher of what costs", lockstep.Job{Route: rows(n), Teacher: teacher(500, 500)},
			lockstep.CostOnly, ""},
		{"a teacher of less", lockstep.Job{Route: rows(n), Teacher: teacher(500, 499)},
			lockstep.CostOnly, "want 500 of each"},
		{"other shortcuts end nothing", lockstep.Job{Route: rows(n), Teacher: teacher(500, 500)},
			lockstep.CostOnly &^ lockstep.StopAtCostEnd, "want 600 of each"},
		{"draws of all", lockstep.Job{Route: rows(n), Draws: make([]float64, n-20)}, 0, ""},
		{"draws of less", lockstep.Job{Route: rows(n), Draws: make([]float64, n-21)}, 0,
			"579 draws are given, want 580"},
		{"the least draw and the largest", drawn(579, math.Nextafter(1, 0)), 0, ""},
		{"a draw of 1", drawn(0, 1), 0, "the draw of step 20 is 1, want one in [0, 1)"},
		{"the last draw below 0", drawn(579, -1e-300), 0, "the draw of step 599 is -1e-300"},
		{"a draw that is NaN", drawn(1, math.NaN()), 0, "the draw of step 21 is NaN"},
		{"a draw that no step has", drawn(480, 2), lockstep.CostOnly, ""},
		{"a draw of 1 that the route keeps", kept(579, 1), 0, "the draw of step 599 is 1"},
		{"a kept draw that no step has", kept(480, 2), lockstep.CostOnly, ""},
		{"a table", lockstep.Job{Route: rows(n), Policy: table}, 0, ""},
		{"a table that is nil", lockstep.Job{Route: rows(n), Policy: (*lockstep.Table)(nil)}, 0,
			"has no actions"},
		{"a table short of actions", lockstep.Job{Route: rows(n),
			Policy: tabled(lockstep.TableSteps - 1)}, 0, "has no actions"},
		{"a table of too many", lockstep.Job{Route: rows(n),
			Policy: tabled(lockstep.TableSteps + 1)}, 0, "has no actions"},
		{"a network of nothing", lockstep.Job{Route: rows(n), Policy: &lockstep.Network{}}, 0,
			"NewNetwork did not make"},
	} {
		if err := c.job.Check(c.shortcuts); (err == nil) != (c.want == "") ||
			err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	for _, n := range []int{100, 499, 500, 501} {
		j := lockstep.Job{Route: rows(n)}
		if all, some := j.End(0), j.End(lockstep.StopAtCostEnd); all != n || some != min(n, 500) {
			t.Errorf("%d rows end at %d, and for their costs at %d", n, all, some)
		}
	}
}

// TestFailed: an error names what there is of a job.
func TestFailed(t *testing.T) {
	no := errors.New("no")
	for want, j := range map[string]lockstep.Job{
		"route a, controller pid, step 7: no": {Route: rows(1), Policy: lockstep.DefaultPID()},
		"route a, step 7: no":                 {Route: rows(1)},
		"route , step 7: no":                  {},
	} {
		if err := j.Failed(7, no); err.Error() != want || !errors.Is(err, no) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	once := lockstep.Passing(no)
	if lockstep.Passing(nil) != nil || !lockstep.IsPassing(once) || lockstep.IsPassing(no) ||
		lockstep.Passing(once) != once ||
		!errors.Is(once, no) {
		t.Errorf("an error of the moment is %v", once)
	}
}

// TestFirst: the first rows have the draws of their steps, and no room to grow into.
func TestFirst(t *testing.T) {
	r := rows(200)
	r.Draws = lockstep.Draws(7, 180)
	for _, n := range []int{101, 200} {
		f := r.First(n)
		for _, column := range f.Columns() {
			if len(*column) != n || cap(*column) != n {
				t.Errorf(
					"%d rows have a column of %d with room for %d", n, len(*column), cap(*column),
				)
			}
		}
		if err := simtest.Same("draws", f.Draws, r.Draws[:n-20]); err != nil {
			t.Errorf("of %d rows: %v", n, err)
		}
	}
	j := lockstep.Job{Route: r}
	if got := j.Uniforms(180); &got[0] != &r.Draws[0] {
		t.Error("draws that are kept with the route were made again")
	}
	if j.Route = rows(200); len(j.Uniforms(0)) != 0 || len(j.Uniforms(3)) != 3 {
		t.Error("a route without draws has others than were asked for")
	}
}

// TestExperience: places are those that rollouts reached, and clearing one leaves its neighbours.
func TestExperience(t *testing.T) {
	network, err := lockstep.NewNetwork(layers(0.1, 256, 2), 0.25)
	if err != nil {
		t.Fatal(err)
	}
	var jobs []lockstep.Job
	for _, n := range []int{103, 600, 101} {
		jobs = append(jobs, lockstep.Job{Route: rows(n), Policy: network})
	}
	const n = lockstep.ExperienceSteps
	e, err := lockstep.NewExperience(jobs)
	if err != nil || len(e.Raw) != 3*n || len(e.Softplus) != 6*n || len(e.Reward) != 3*n ||
		len(e.Lataccel) != 3*n ||
		len(e.Action) != 3*n {
		t.Fatalf(
			"room for %d, %d, %d, %d and %d numbers, %v", len(e.Raw), len(e.Softplus),
			len(e.Reward), len(e.Lataccel), len(e.Action), err,
		)
	}
	if e.Steps(0) != 3 || e.Steps(1) != 400 || e.Steps(2) != 1 {
		t.Errorf("%d, %d and %d steps", e.Steps(0), e.Steps(1), e.Steps(2))
	}
	e.Results[1].Err = errors.New("no")
	reachedPlaces(t, e)
	clearsOne(t, e)
	if _, err := lockstep.NewExperience([]lockstep.Job{{Policy: lockstep.Zero{}}}); err == nil {
		t.Error("zero leaves something to train with")
	}
	onlyOne(t, e)
	taught := []lockstep.Job{{Policy: e.Jobs[0].Policy, Teacher: &lockstep.Trajectory{}}}
	if _, err := lockstep.NewExperience(taught); err == nil ||
		!strings.Contains(err.Error(), "job 0: it has a teacher") ||
		!strings.Contains(err.Error(), "before step 100 are") {
		t.Errorf("a rollout under a teacher: %v", err)
	}
}

// onlyOne: all networks of a collection see the same, which may be less than all.
func onlyOne(t *testing.T, e *lockstep.Experience) {
	t.Helper()
	roll, err := lockstep.NewSeeing([]lockstep.Seen{{Of: lockstep.SourceRoll, Unit: 1}},
		layers(0.1, 1, 2), 0.25)
	if err != nil {
		t.Fatal(err)
	}
	other := append(slices.Clone(e.Jobs), lockstep.Job{Route: rows(101), Policy: roll})
	if _, err := lockstep.NewExperience(other[2:]); err == nil ||
		!strings.HasPrefix(err.Error(), "job 1: policy ") {
		t.Errorf("networks that observe other things: %v", err)
	}
	none := lockstep.Job{Route: rows(101), Policy: &lockstep.Network{Sees: []lockstep.Seen{}}}
	for _, jobs := range [][]lockstep.Job{{none, other[0]}, {other[0], none}} {
		_, err := lockstep.NewExperience(jobs)
		simtest.Refused(t, "nothing is observed, and all", err,
			"does not observe what the first job's does")
	}
	one, err := lockstep.NewExperience(other[3:])
	if err != nil || one.Inputs() != 1 || e.Inputs() != 256 ||
		(&lockstep.Experience{}).Inputs() != 256 {
		t.Errorf("one network: %v", err)
	}
}

// reachedPlaces: rollouts of 3 steps, of none since it failed, and of 1.
func reachedPlaces(t *testing.T, e *lockstep.Experience) {
	t.Helper()
	want := []lockstep.Place{{0, 0}, {0, 1}, {0, 2}, {2, 0}}
	if got, err := e.Places(nil, make([]float32, 4*256)); err != nil || !slices.Equal(got, want) {
		t.Errorf("places %v, %v, want %v", got, err, want)
	}
	if _, err := e.Places(nil, make([]float32, 4*256-1)); err == nil {
		t.Error("too little room is taken")
	}
	if got, err := e.Places(want[1:2], make([]float32, 256)); err != nil || len(got) != 1 {
		t.Errorf("one place: %v, %v", got, err)
	}
	for _, p := range []lockstep.Place{{-1, 0}, {3, 0}, {0, -1}, {0, 3}, {1, 0}, {2, 1}} {
		if err := e.Reached([]lockstep.Place{want[0], p}); err == nil ||
			err.Error() != fmt.Sprintf("place 1: rollout %d has no step %d", p.Rollout, p.Step) {
			t.Errorf("%v: %v", p, err)
		}
	}
	driven := *e
	driven.Jobs = slices.Clone(e.Jobs)
	driven.Jobs[2].Policy = lockstep.PID{}
	if err := driven.Reached(want); err == nil ||
		err.Error() != "place 3: rollout 2 has policy pid_0_0_0, want a network" {
		t.Errorf("a rollout that PID drove: %v", err)
	}
}

// clearsOne: what rollout 1 left is emptied, and nothing else.
func clearsOne(t *testing.T, e *lockstep.Experience) {
	t.Helper()
	const n = lockstep.ExperienceSteps
	fill := func(x []float32) {
		for i := range x {
			x[i] = 1
		}
	}
	fill(e.Raw)
	fill(e.Softplus)
	fill(e.Reward)
	for i := range e.Lataccel {
		e.Lataccel[i], e.Action[i] = 1, 1
	}
	e.Clear(1)
	for i := range e.Raw {
		want := float32(1)
		if i >= n && i < 2*n {
			want = 0
		}
		if e.Raw[i] != want || e.Softplus[2*i] != want || e.Softplus[2*i+1] != want ||
			e.Reward[i] != want ||
			e.Lataccel[i] != float64(want) ||
			e.Action[i] != float64(want) {
			t.Fatalf("number %d was not cleared as one of rollout 1 alone", i)
		}
	}
}

// TestNames: of each kind of policy and noise, and of what is none; where a search begins.
func TestNames(t *testing.T) {
	for k, want := range map[fmt.Stringer]string{
		lockstep.RouteNoise: "route", lockstep.SeededNoise: "seeded",
		lockstep.ExpectedNoise:               "expected",
		lockstep.ExpectedNoise + 1:           fmt.Sprint("noise ", int(lockstep.ExpectedNoise)+1),
		lockstep.Kind(-1):                    "kind -1",
		lockstep.Kind(len(lockstep.Kinds())): fmt.Sprint("kind ", len(lockstep.Kinds())),
		(*lockstep.Network)(nil):             "network", (*lockstep.Table)(nil): "table",
	} {
		if k.String() != want {
			t.Errorf("%s, want %s", k, want)
		}
		if noise, ok := k.(lockstep.NoiseKind); ok && !strings.HasPrefix(want, "noise") {
			if got, err := lockstep.ParseNoise(want); err != nil || got != noise {
				t.Errorf("%s is read as %v, %v", want, got, err)
			}
		}
	}
	if k, err := lockstep.ParseNoise("own"); err != nil || k != lockstep.RouteNoise {
		t.Errorf("own, as files of before say, is read as %v, %v", k, err)
	}
	if _, err := lockstep.ParseNoise("loud"); err == nil {
		t.Error("a noise that is none is read")
	}
	for _, k := range []lockstep.Kind{-1, lockstep.Kind(len(lockstep.Kinds()))} {
		if _, err := k.New(nil); err == nil {
			t.Errorf("%v has a policy", k)
		}
	}
	if _, err := lockstep.KindPID.ParseGains("1,x,2"); err == nil ||
		!strings.HasPrefix(err.Error(), `"1,x,2": gain I`) {
		t.Error(err)
	}
	for _, kind := range lockstep.Kinds() {
		var got []string
		for _, g := range kind.Gains {
			got = append(
				got, fmt.Sprintf("%s %v %v %v %v", g.Name, g.Start, g.Width, g.Low, g.High),
			)
		}
		if !slices.Equal(got, gains[kind.Name]) {
			t.Errorf("%s: a search begins with %q, want %q", kind.Name, got, gains[kind.Name])
		}
	}
}

// gains are those of each kind: where a search for one begins, how wide, and its bounds.
var gains = map[string][]string{
	"pid": {"P 0.195 0.1 -Inf +Inf", "I 0.1 0.05 -Inf +Inf", "D -0.053 0.08 -Inf +Inf"},
	"pidff": {
		"P 0.195 0.1 -Inf +Inf", "I 0.1 0.05 -Inf +Inf", "D -0.053 0.08 -Inf +Inf",
		"ff0 0 0.15 -Inf +Inf", "ff1 0 0.15 -Inf +Inf", "ff2 0 0.15 -Inf +Inf",
		"ff3 0 0.15 -Inf +Inf", "ffv 0 0.2 -Inf +Inf", "smooth 0.1 0.2 0 0.95",
		"leak 0.02 0.03 0 0.5",
	},
}

// TestNetworkLimits: what a network may just be, and what it may just not be.
func TestNetworkLimits(t *testing.T) {
	deep := func(n int) []lockstep.Layer {
		return layers(0.01, append([]int{256}, slices.Repeat([]int{2}, n)...)...)
	}
	largest := func(bias float32) []lockstep.Layer {
		l := layers(0, 256, 2)
		l[0].Bias[1] = bias
		return l
	}
	bounded := func(w float32) []lockstep.Layer {
		l := layers(w, 256, 9, 2)
		l[0].Tanh = true
		return l
	}
	const half = math.MaxFloat32 / 2
	// seeing is one whose sum is half of the largest number, where an input has its limit.
	seeing := func(edge float32) []lockstep.Layer {
		l := largest(math.Nextafter32(half-lockstep.ObservationLimit*0x1p123, edge))
		l[0].Weights[256+7] = -0x1p123
		return l
	}
	// exceeding has sums behind the largest by less than a float32 can tell: a layer's bound is not
	// one, and the next has what that bound adds.
	exceeding := func(by float32) []lockstep.Layer {
		l := layers(0, 256, 1, 2)
		l[0].Weights[3], l[0].Bias[0] = by, 1
		l[1].Weights[0], l[1].Bias[0] = 0x1p110, half-0x1p110
		return l
	}
	behind := func(weight float32) []lockstep.Layer {
		l := layers(0, 256, 1, 2)
		l[0].Tanh, l[0].Bias[0], l[1].Weights[1] = true, 9, weight
		return l
	}
	for _, c := range []struct {
		name   string
		layers []lockstep.Layer
		scale  float64
		fits   bool
	}{
		{"the deepest", deep(lockstep.MaxLayers), 1, true},
		{"too deep", deep(lockstep.MaxLayers + 1), 1, false},
		{"the widest", layers(0.01, 256, 256, 2), 1, true},
		{"the narrowest", layers(0.01, 256, 1, 2), 1, true},
		{"nothing wide", layers(0.01, 256, 0, 2), 1, false},
		{"large sums of numbers", layers(1e30, 256, 9, 2), 1, false},
		{"large sums of what tanh bounds", bounded(1e30), 1, true},
		{"a scale of 0", deep(1), 0, false},
		{"the least scale", deep(1), math.SmallestNonzeroFloat64, true},
		{"the largest sum", largest(half), 1, true},
		{"the largest sum of what is seen", seeing(0), 1, true},
		{"too large a sum of what is seen", seeing(math.MaxFloat32), 1, false},
		{"the largest sum behind a layer", exceeding(0), 1, true},
		{"hardly too large a sum behind a layer", exceeding(0x1p-30), 1, false},
		{"the largest sum behind tanh", behind(half), 1, true},
		{"too large a sum behind tanh", behind(math.Nextafter32(half, math.MaxFloat32)), 1, false},
		{"too large a sum", largest(math.Nextafter32(half, math.MaxFloat32)), 1, false},
	} {
		if _, err := lockstep.NewNetwork(c.layers, c.scale); (err == nil) != c.fits {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
