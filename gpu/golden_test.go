package gpu

import (
	"flag"
	"fmt"
	"slices"
	"testing"

	"lockstep"
	"lockstep/golden"
	"lockstep/internal/simtest"
)

// goldenSteps has the recordings compared in blocks of every size, up to so many steps behind
// the first command. A whole one takes blocks of 6 ten minutes and more where the machine code
// is executed on the CPU, and its steps are all alike. Nothing of these policies looks ahead.
var goldenSteps = flag.Int(
	"golden-steps", 0, "compare so many steps of all recordings, in blocks of every size",
)

// fewSteps is goldenSteps for large blocks on the CPU, which computes all of a block for one route.
// Whole recordings are in TestTrajectory of parity and TestGolden of the kernels.
const fewSteps = 80

// TestGoldens holds rollouts to what Python recorded: every stage of every step, in
// blocks of every size. On the CPU, where that takes long, profiles take turns with the
// sizes, and sizes with the recordings; blocks of more than two have fewSteps of them.
func TestGoldens(t *testing.T) {
	sets := goldens(t)
	for p, set := range sets {
		t.Run(set.Profile.String(), func(t *testing.T) {
			holdSet(t, set, func(size int) bool { return size%len(sets) == p })
		})
	}
}

// holdSet holds a profile's recordings; on the CPU in the sizes whose turn it is.
func holdSet(t *testing.T, set *golden.Set, turn func(size int) bool) {
	var jobs []lockstep.Job
	var recordings []*golden.Recording
	for _, e := range set.Recordings {
		recording, err := set.Read(e)
		if err != nil {
			t.Fatal(err)
		}
		policy, err := e.Policy()
		if err != nil {
			t.Fatal(err)
		}
		for _, route := range routes() {
			if route.Name == e.Route {
				if golden.HashRoute(route) != recording.RouteHash {
					t.Fatalf("route %s is not the one that was recorded", route.Name)
				}
				jobs = append(jobs, lockstep.Job{Route: route, Policy: policy})
				recordings = append(recordings, recording)
			}
		}
	}
	if len(jobs) != len(set.Recordings) || len(jobs) == 0 {
		t.Fatalf("%d jobs for %d recordings", len(jobs), len(set.Recordings))
	}
	onCPU, whole := *goldenSteps == 0 && !onHardware(t), simtest.Whole(t)
	for k, size := range blockSizes {
		from, to, steps := 0, len(jobs), *goldenSteps
		if onCPU {
			if !turn(k) {
				continue
			}
			from, to = k*len(jobs)/len(blockSizes), (k+1)*len(jobs)/len(blockSizes)
			if size > 2 && !whole {
				steps = fewSteps
			}
		}
		t.Run(fmt.Sprintf("blocks of %d", size), func(t *testing.T) {
			holdGoldens(
				t, newSimulator(t, Config{Profile: set.Profile, RoutesPerBlock: size}),
				jobs[from:to], recordings[from:to], steps,
			)
		})
	}
}

// onHardware tells whether the tests run on a GPU.
func onHardware(t *testing.T) bool {
	info, err := newSimulator(t, Config{}).Info()
	if err != nil {
		t.Fatal(err)
	}
	return !info.Emulated && info.Name != "stand-in"
}

// holdGoldens has a test for each recording, whose name goes into the evidence of a GPU. It
// compares so many steps behind the first command, or all.
func holdGoldens(
	t *testing.T, s *Simulator, jobs []lockstep.Job, recordings []*golden.Recording, few int,
) {
	steps := int64(0)
	shortcuts := lockstep.AllSteps
	if few > 0 {
		shortcuts = lockstep.CostOnly
		jobs = slices.Clone(jobs)
		for i := range jobs {
			jobs[i].Route = shorten(jobs[i].Route, lockstep.ControlStartIdx+few)
		}
	}
	for i, got := range traces(t, s, jobs, lockstep.Options{Shortcuts: shortcuts}) {
		steps += int64(len(got.steps))
		if few > 0 {
			steps = int64((i + 1) * few)
		}
		t.Run(fmt.Sprintf("%s.%v", jobs[i].Route.Name, jobs[i].Policy), func(t *testing.T) {
			if got.result.Err != nil {
				t.Fatal(got.result.Err)
			}
			d := ""
			if few > 0 {
				d = beginningDifference(got, recordings[i], few)
			} else {
				d = recordingDifference(got, recordings[i])
			}
			if d != "" {
				t.Error(d)
			}
		})
	}
	// One in 10^11 draws or so is near an edge.
	if stats := s.Stats(); stats.Sampled != steps || stats.Serial != 0 {
		t.Errorf(
			"%d tokens were drawn, %d of them from the running sum, want %d and none",
			stats.Sampled, stats.Serial, steps,
		)
	}
}

// recordingDifference is how a rollout differs from a recording, or "".
func recordingDifference(got *trace, want *golden.Recording) string {
	if len(got.steps) != want.Steps() {
		return fmt.Sprintf("%d steps, want %d", len(got.steps), want.Steps())
	}
	for i := range got.steps {
		if d := recordedDifference(&got.steps[i], want, i); d != "" {
			return d
		}
	}
	if d := resultDifference(got.result, lockstep.Result{Costs: want.Costs}); d != "" {
		return d
	}
	return ""
}

// beginningDifference is how the steps that a rollout has of a recording differ from it, or "".
// Where the network was left out there are commands alone.
func beginningDifference(got *trace, want *golden.Recording, steps int) string {
	ran := 0
	for i := range got.steps {
		s := &got.steps[i]
		if s.Logits == nil {
			if !same64(s.Action, want.Action[i]) {
				return fmt.Sprintf("step %d, stage action", s.Index)
			}
			continue
		}
		ran++
		if d := recordedDifference(s, want, i); d != "" {
			return d
		}
	}
	if ran != steps {
		return fmt.Sprintf("the network ran in %d steps, want %d", ran, steps)
	}
	return ""
}

// recordedDifference is how a step differs from that of a recording, or "".
func recordedDifference(s *lockstep.Step, want *golden.Recording, i int) string {
	const n = lockstep.ContextLength
	w := lockstep.Step{
		Index: s.Index, Action: want.Action[i], Tokens: want.Tokens[n*i : n*(i+1)],
		States: want.States[4*n*i : 4*n*(i+1)],
		Logits: s.Logits, Probs: s.Probs, CDF: s.CDF, Draw: want.Draw[i],
		Sample:     int(want.Sample[i]),
		Prediction: want.Prediction[i], Lataccel: want.Lataccel[i],
	}
	stage := stepDifference(s, &w)
	switch {
	case stage != "":
	case golden.Hash(s.Logits) != want.LogitsHash[i]:
		stage = "logits"
	case golden.Hash(s.Probs) != want.ProbsHash[i]:
		stage = "probs"
	case golden.Hash(s.CDF) != want.CDFHash[i]:
		stage = "cdf"
	}
	if stage != "" {
		return fmt.Sprintf("step %d, stage %s", s.Index, stage)
	}
	return ""
}
