package tinyphysics

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"lockstep"
	"lockstep/internal/defaults"
	"lockstep/parity"
	"lockstep/reference"
)

func defaultModel(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), defaults.ModelName)
	if err := os.WriteFile(path, defaults.Model(), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestCaseRoundTrip: jobs come back from a file to the bit.
func TestCaseRoundTrip(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		jobs := toyJobs(3, rapid.IntRange(101, 110).Draw(t, "rows"))
		odd := rapid.Map(rapid.Uint64(), math.Float64frombits)
		jobs[0].Route.SteerCommand[100] = odd.Draw(t, "steer")
		jobs[1].Route.Name = rapid.String().Draw(t, "name")
		jobs[2].Route.Name = jobs[0].Route.Name // of two folders
		for i := range jobs[2].Route.VEgo {
			jobs[2].Route.VEgo[i] = math.Copysign(0, -1)
			jobs[2].Route.AEgo[i] = math.Copysign(0, float64(i-50)) // equal numbers, other bits
		}
		jobs[1].Policy = lockstep.PID{
			P: rapid.Float64().Draw(t, "p"),
			I: math.Copysign(0, -1),
			D: 1,
		}
		jobs[2].Policy = Script("mine", []float64{1, odd.Draw(t, "command"), 3})
		jobs = append(
			jobs,
			lockstep.Job{
				Route:  jobs[0].Route,
				Policy: lockstep.Zero{},
				Draws:  lockstep.Draws(3, 90),
			},
		)
		c, err := NewCase(jobs, lockstep.SkipWarmup|lockstep.LastPosition)
		if err != nil {
			t.Fatal(err)
		}
		c.What, c.Engine, c.Stage, c.Model, c.Chunk = "Bits & pieces", "Batched", CDF, DefaultModel,
			7
		if err := c.Save(dir); err != nil {
			t.Fatal(err)
		}
		if want := filepath.Join(dir, "cdf-batched-bits-pieces.json"); c.Path != want ||
			c.Replay() != "lockstep replay "+want {
			t.Fatalf("path %s, %s; want %s", c.Path, c.Replay(), want)
		}
		got, err := LoadCase(c.Path)
		if err != nil {
			t.Fatal(err)
		}
		if got.Stage != CDF || got.Chunk != 7 ||
			lockstep.Shortcuts(got.Shortcuts) != lockstep.SkipWarmup|lockstep.LastPosition ||
			len(got.Routes) != 3 {
			t.Fatalf("%+v", got)
		}
		again, err := got.Jobs()
		if err != nil {
			t.Fatal(err)
		}
		bitwise := cmp.Comparer(
			func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) },
		)
		for i := range jobs {
			want, have := *jobs[i].Route, *again[i].Route
			if diff := cmp.Diff(want, have, bitwise); diff != "" {
				t.Fatalf("route (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(jobs[i].Draws, again[i].Draws, bitwise); diff != "" {
				t.Fatalf("draws (-want +got):\n%s", diff)
			}
		}
		if diff := cmp.Diff([]lockstep.Policy{jobs[0].Policy, jobs[1].Policy, lockstep.Zero{}},
			[]lockstep.Policy{again[0].Policy, again[1].Policy,
				again[3].Policy}, bitwise); diff != "" {
			t.Fatalf("policies (-want +got):\n%s", diff)
		}
		if again[3].Route != again[0].Route {
			t.Fatal("a shared route came back twice")
		}
		if a, b := fmt.Sprint(jobs[2].Policy), fmt.Sprint(again[2].Policy); a != b {
			t.Fatalf("the script %s came back as %s", a, b)
		}
		a, b := jobs[2].Policy.(lockstep.Custom).New(), again[2].Policy.(lockstep.Custom).New()
		for range 5 {
			x, y := a.Update(0, 0, lockstep.State{}, lockstep.FuturePlan{}),
				b.Update(0, 0, lockstep.State{}, lockstep.FuturePlan{})
			if math.Float64bits(x) != math.Float64bits(y) {
				t.Fatalf("the script answers %v, want %v", y, x)
			}
		}
	})
}

// TestCasePolicies: networks and tables come back from a file as they were, shared where
// they were, and with how they are sampled.
func TestCasePolicies(t *testing.T) {
	layer := lockstep.Layer{
		Inputs:  lockstep.ObservationSize,
		Outputs: lockstep.ActorSize,
		Weights: make([]float32, 512),
		Bias:    []float32{0.25, -1e-30},
	}
	for i := range layer.Weights {
		layer.Weights[i] = float32(i%7-3) / 11
	}
	network, err := lockstep.NewNetwork([]lockstep.Layer{layer}, 0.125)
	if err != nil {
		t.Fatal(err)
	}
	jobs := toyJobs(3, 103)
	actions := make([]float64, lockstep.TableSteps)
	actions[1] = 1.0 / 3
	table, err := lockstep.NewTable(map[string][]float64{
		jobs[2].Route.Name: actions,
		"another":          make([]float64, lockstep.TableSteps),
	})
	if err != nil {
		t.Fatal(err)
	}
	jobs[0].Policy, jobs[0].Sampling = network, &lockstep.Sampling{Seed: 1<<63 + 1, ID: 7}
	jobs[1].Policy, jobs[1].Expected = network, true
	jobs[2].Policy = table
	c, err := NewCase(jobs, lockstep.CostOnly)
	if err != nil {
		t.Fatal(err)
	}
	c.What, c.Engine, c.Stage, c.Model = "policies", "batched", Lataccel, DefaultModel
	if err := c.Save(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	read, err := LoadCase(c.Path)
	if err != nil {
		t.Fatal(err)
	}
	again, err := read.Jobs()
	if err != nil {
		t.Fatal(err)
	}
	for i := range jobs {
		if diff := cmp.Diff(
			jobs[i].Policy, again[i].Policy, cmpopts.IgnoreUnexported(lockstep.Network{}),
		); diff != "" {
			t.Errorf("job %d: policy (-want +got):\n%s", i, diff)
		}
		if diff := cmp.Diff(jobs[i].Sampling, again[i].Sampling); diff != "" ||
			jobs[i].Expected != again[i].Expected {
			t.Errorf("job %d: expected %v, sampling (-want +got):\n%s", i, again[i].Expected, diff)
		}
	}
	if again[0].Policy != again[1].Policy {
		t.Error("a shared network came back twice")
	}
}

// TestCaseErrors: files that are no cases, and what cannot be one.
func TestCaseErrors(t *testing.T) {
	dir := t.TempDir()
	base := `{"format":2,"routes":[{"name":"r","rows":101,"roll_lataccel":0,"v_ego":1,"a_ego":0,` +
		`"target_lataccel":0,"steer_command":0}],"profile":"ort1.30-avx2-expU-sinfma-csv2",`
	for text, want := range map[string]string{
		"":                   "EOF",
		`{"format":1}`:       "format version 1, want 2",
		base + `"batch":[]}`: "no jobs",
		base + `"batch":[{"route":1,"policy":{"kind":"zero"}}]}`: "job 0: no " +
			"route 1",
		base + `"batch":[{"route":-1,"policy":{"kind":"zero"}}]}`: "job 0: no " +
			"route -1",
		base + `"batch":[{"route":0,"policy":{"kind":"mpc"}}]}`: `job 0: policy "mpc" is not known`,
		base + `"batch":[{"route":0,"policy":{"kind":"pid"}}]}`: "pid: 0 gains, " +
			"want 3",
		base + `"batch":[{"route":0,"policy":{"kind":"network"}}]}`: "job 0: the " +
			"file of policy network: ",
		base + `"batch":[{"route":0,"policy":{"kind":"table","file":"e30="}}]}`: `job 0: the ` +
			`file of policy table: no kind of policy ""`,
		strings.Replace(base, "101", "100", 1) + `"batch":[]}`: "route r: 100 " +
			"rows, want 101 to 1048576",
		strings.Replace(base, "101", "1e9", 1) + `"batch":[]}`: "cannot unmarshal number 1e9",
		strings.Replace(base, "101", "99999999", 1) + `"batch":[]}`: "99999999 " +
			"rows, want 101 to 1048576",
		strings.Replace(base, `"v_ego":1`, `"v_ego":[1,2]`, 1) + `"batch":[]}`: "a column of 2 " +
			"values, want 101 or one",
	} {
		path := filepath.Join(dir, "case.json")
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadCase(path); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.HasPrefix(err.Error(), path) {
			t.Errorf("%s:\n%v, want %s", text, err, want)
		}
	}
	if _, err := parity.CaseFiles(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	jobs := toyJobs(1, 101)
	jobs[0].Policy = lockstep.Custom{Name: "mine", New: func() lockstep.Controller { return nil }}
	if _, err := NewCase(jobs, 0); err == nil ||
		!strings.Contains(err.Error(), "route 00000: controller mine is code") {
		t.Errorf("%v", err)
	}
}

// TestFreeze: a controller that is code, as a script, does the same, and so does a network whose
// actions are sampled, which a script's are not.
func TestFreeze(t *testing.T) {
	sim, err := reference.New(defaultModel(t), lockstep.Profile{})
	if err != nil {
		t.Fatal(err)
	}
	job := toyJobs(1, 103)[0]
	job.Policy = lockstep.Custom{Name: "mine", New: func() lockstep.Controller {
		return update(func(target, current float64) float64 { return 3 * (target - current) })
	}}
	frozen, err := Freeze(t.Context(), sim, job)
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewCase([]lockstep.Job{frozen}, lockstep.AllSteps)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(c.Batch[0].Policy.Steer); n != 83 {
		t.Errorf("%d steer commands, want 83", n)
	}
	r := compare(
		t, Live(sim), Live(&swapped{sim, job.Policy}), []lockstep.Job{frozen},
		parity.CompareOptions{},
	)
	if r.Err() != nil {
		t.Error(r.Err())
	}
	if job.Policy, err = hardNetwork(); err != nil {
		t.Fatal(err)
	}
	job.Sampling = &lockstep.Sampling{Seed: 3, ID: 4}
	if frozen, err = Freeze(t.Context(), sim, job); err != nil {
		t.Fatal(err)
	}
	var came []lockstep.Result
	for _, r := range sim.Simulate(
		t.Context(), []lockstep.Job{job, frozen}, lockstep.Options{},
	) {
		came = append(came, r)
	}
	if came[1].Err != nil || came[1].Costs != came[0].Costs {
		t.Errorf("sampled: %+v, want %+v", came[1], came[0])
	}
}

type update func(target, current float64) float64

func (u update) Update(target, current float64, _ lockstep.State, _ lockstep.FuturePlan) float64 {
	return u(target, current)
}

// TestShrink shrinks a case of many routes whose fault needs little of it.
func TestShrink(t *testing.T) {
	jobs := toyJobs(7, 160)
	jobs[0].Policy, jobs[4].Policy = lockstep.Zero{}, lockstep.PID{P: 1, I: 2, D: 3}
	jobs[4].Draws = lockstep.Draws(5, 140)
	c, err := NewCase(jobs, 0)
	if err != nil {
		t.Fatal(err)
	}
	c.Chunk, c.Model, c.Results = 3, "toy", make([]parity.CaseResult, len(jobs))
	c.Path = "the whole.json" // which what is found is not
	before, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	runs := 0
	// The fault shows from step 112 on where the speed is not 0 twelve steps before, on
	// routes whose targets are not constant. Another fault, of another stage, is
	// everywhere.
	run := func(ctx context.Context, c *DriveCase) (*parity.Divergence, error) {
		runs++
		js, err := c.Jobs()
		if err != nil {
			return nil, err
		}
		faulty := map[string]bool{}
		for _, j := range js {
			r := j.Route
			faulty[r.Name] = r.Name == "00004" && r.Len() > 112 && r.VEgo[100] != 0 &&
				r.TargetLataccel[30] != r.TargetLataccel[31]
		}
		b := &toy{name: "b", plant: func(route string, step int, stage string, s *lockstep.Step) {
			switch {
			case stage == Probs && step >= 112 && faulty[route]:
				s.Probs[0]++
			case stage == Action && len(js) > 0 && !faulty["00004"]:
				s.Action++
			}
		}}
		report, err := c.Compare(ctx, &toy{name: "a"}, b)
		if err != nil {
			return nil, err
		}
		return report.First, nil
	}
	small, d, err := Shrink(t.Context(), c, run, 0)
	if err != nil {
		t.Fatal(err)
	}
	checkShrunk(t, small, d)
	if runs > 300 || runs < 20 {
		t.Errorf("%d runs", runs)
	}
	checkShrinkRepeats(t, c, run, small, before)
	checkShrinkEnds(t, c, run, &runs)
}

// checkShrunk: of the case nothing is left that the fault does not need.
func checkShrunk(t *testing.T, small *DriveCase, d *parity.Divergence) {
	t.Helper()
	if d.Stage != Probs || d.Step != 112 || d.Key[0] != "00004" || small.Stage != Probs ||
		small.Results != nil || small.Path != "" {
		t.Errorf("%v", d)
	}
	if len(small.Routes) != 1 || len(small.Batch) != 1 || small.Routes[0].Rows != 113 ||
		small.Routes[0].Seed != 0 ||
		small.Chunk != 0 ||
		small.Model != "toy" {
		t.Errorf(
			"%d routes, %d jobs, %d rows, seed %d, chunk %d", len(small.Routes), len(small.Batch),
			small.Routes[0].Rows, small.Routes[0].Seed, small.Chunk,
		)
	}
	if lockstep.Shortcuts(small.Shortcuts) != lockstep.CostOnly ||
		small.Batch[0].Policy.Kind != "zero" ||
		small.Batch[0].Draws != nil {
		t.Errorf("shortcuts %v, %+v", small.Shortcuts, small.Batch[0])
	}
	checkColumns(t, &small.Routes[0])
}

// checkColumns: of the route's columns only what the fault needs is not 0.
func checkColumns(t *testing.T, r *CaseRoute) {
	t.Helper()
	for i, column := range r.columns() {
		zeros := 0
		for _, x := range *column {
			if x == 0 {
				zeros++
			}
		}
		// Of the targets only an eighth around row 30 stays.
		if want := map[int]int{1: 0, 3: 99}[i]; i != 1 && i != 3 && zeros != len(*column) ||
			i == 3 && zeros < want ||
			i == 1 && (*column)[0] != (*column)[50] {
			t.Errorf("column %d: %d of %d values are 0: %v", i, zeros, len(*column), *column)
		}
	}
}

// checkShrinkRepeats: shrinking leaves the case that it was given as it was, and takes the
// same way again.
func checkShrinkRepeats(t *testing.T, c *DriveCase, run func(context.Context, *DriveCase) (
	*parity.Divergence, error), small *DriveCase, before []byte) {
	t.Helper()
	after, err := json.Marshal(c)
	if err != nil || string(after) != string(before) {
		t.Errorf("the case given was changed (%v)", err)
	}
	// It takes the same way again, and stops when told.
	again, _, err := Shrink(t.Context(), c, run, 0)
	if diff := cmp.Diff(small, again); diff != "" || err != nil {
		t.Errorf("a second time: %v\n%s", err, diff)
	}
}

// checkShrinkEnds: shrinking ends after as many runs as it may take, without a divergence, and
// with an engine's error, where it gives back the best case so far.
func checkShrinkEnds(t *testing.T, c *DriveCase, run func(context.Context, *DriveCase) (
	*parity.Divergence, error), runs *int) {
	t.Helper()
	*runs = 0
	if _, _, err := Shrink(t.Context(), c, run, 5); err != nil || *runs != 5 {
		t.Errorf("%d runs, want 5 (%v)", *runs, err)
	}
	none := func(context.Context, *DriveCase) (*parity.Divergence, error) { return nil, nil }
	if _, _, err := Shrink(t.Context(), c, none, 0); !errors.Is(err, parity.ErrNoDivergence) {
		t.Errorf("%v", err)
	}
	broken := func(context.Context, *DriveCase) (*parity.Divergence, error) {
		if *runs++; *runs > 8 {
			return nil, errors.New("the engine is gone")
		}
		return &parity.Divergence{Stage: Probs}, nil
	}
	if best, _, err := Shrink(t.Context(), c, broken, 0); err == nil ||
		err.Error() != "the engine is gone" ||
		best == nil {
		t.Errorf("%v", err)
	}
}

// TestShrinkNeighbours: a fault that needs two jobs keeps both.
func TestShrinkNeighbours(t *testing.T) {
	c, err := NewCase(toyJobs(9, 110), lockstep.AllSteps)
	if err != nil {
		t.Fatal(err)
	}
	run := func(ctx context.Context, c *DriveCase) (*parity.Divergence, error) {
		names := map[string]bool{}
		for _, r := range c.Routes {
			names[r.Name] = true
		}
		if names["00003"] && names["00007"] {
			return &parity.Divergence{Key: []string{"00007", "pid"}, Step: 105, Stage: Tokens}, nil
		}
		return nil, nil
	}
	small, _, err := Shrink(t.Context(), c, run, 0)
	if err != nil || len(small.Routes) != 2 || small.Routes[0].Name != "00003" ||
		small.Routes[1].Name != "00007" ||
		small.Routes[0].Rows != 101 {
		t.Errorf("%v: %d routes", err, len(small.Routes))
	}
}

// TestShrinkShares: whatever is left out, each case that is tried is whole: every job has a route,
// and as many draws and steer commands as that has, also where several share one.
func TestShrinkShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var routes []*lockstep.Route
		for k := range rapid.IntRange(1, 4).Draw(t, "routes") {
			r := toyJobs(1, rapid.IntRange(101, 112).Draw(t, "rows"))[0].Route
			r.Name = fmt.Sprint(k)
			routes = append(routes, r)
		}
		var jobs []lockstep.Job
		for i := range rapid.IntRange(1, 8).Draw(t, "jobs") {
			r := routes[rapid.IntRange(0, len(routes)-1).Draw(t, "of")]
			draws := lockstep.Draws(uint32(i), r.Len()-lockstep.ContextLength)
			jobs = append(
				jobs, lockstep.Job{Route: r, Draws: draws, Policy: Script("steers", draws)},
			)
		}
		c, err := NewCase(jobs, lockstep.AllSteps)
		if err != nil {
			t.Fatal(err)
		}
		needed := rapid.IntRange(1, len(jobs)).Draw(t, "needed")
		_, _, err = Shrink(
			t.Context(), c, func(_ context.Context, c *DriveCase) (*parity.Divergence, error) {
				tried, err := c.Jobs()
				if err != nil {
					t.Fatalf("%d jobs on %d routes: %v", len(c.Batch), len(c.Routes), err)
				}
				for i := range tried {
					j, steer := &tried[i], c.Batch[i].Policy.Steer
					want := j.Route.Len() - lockstep.ContextLength
					if j.Draws != nil && len(j.Draws) != want ||
						steer != nil && len(steer) != want {
						t.Fatalf(
							"job %d of %d, route %s of %d rows: %d draws and %d commands, want %d",
							i, len(tried), j.Route.Name, j.Route.Len(), len(j.Draws), len(steer),
							want,
						)
					}
				}
				if len(tried) < needed {
					return nil, nil
				}
				return &parity.Divergence{Step: 103, Stage: Probs}, nil
			}, 0,
		)
		if err != nil {
			t.Fatal(err)
		}
	})
}

// TestCaseCheck: any difference from the kept results is said.
func TestCaseCheck(t *testing.T) {
	c, err := NewCase(toyJobs(2, 101), lockstep.AllSteps)
	if err != nil {
		t.Fatal(err)
	}
	run := func(sim lockstep.Simulator) []parity.CaseResult {
		results, err := c.Run(t.Context(), sim)
		if err != nil {
			t.Fatal(err)
		}
		return results
	}
	c.Results = run(&toy{name: "a"})
	if _, err := c.Check(run(&toy{name: "a"})); err != nil {
		t.Error(err)
	}
	for want, b := range map[string]*toy{
		"route 00001, controller pid: stages of hash ": {plant: func(route string, step int,
			stage string, s *lockstep.Step) {
			if route == "00001" && step == 100 && stage == Logits {
				flipBit(s, Logits, 3, 3)
			}
		}},
		"route 00000, controller pid, stage costs, index 0 (lataccel): want ": {plant: func(
			_ string, _ int, stage string, s *lockstep.Step,
		) {
			if stage == Costs {
				flipBit(s, Costs, 0, 0)
			}
		}},
		"route 00000, controller pid: an error: true, want false": {fail: func(string, int) error {
			return errors.New("x")
		}},
	} {
		if _, err := c.Check(run(b)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := c.Check(nil); err == nil ||
		err.Error() != "0 results of 2 rollouts, and 2 are kept" {
		t.Errorf("%v", err)
	}
	c.Results = c.Results[:1]
	if _, err := c.Check(run(&toy{name: "a"})); err == nil ||
		err.Error() != "2 results of 2 rollouts, and 1 are kept" {
		t.Errorf("a case that lacks results: %v", err)
	}
	if got := PolicyName(nil); got != "" {
		t.Errorf("no policy is called %q", got)
	}
}
