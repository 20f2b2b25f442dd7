package gymnasium_test

import (
	"cmp"
	"flag"
	"maps"
	"slices"
	"testing"

	"lockstep/classic"
	"lockstep/engines"
	golden "lockstep/golden/classic"
	"lockstep/parity"
	"lockstep/parity/gymnasium"
	"lockstep/parity/mutants"
)

var probedEngine = flag.String(
	"engine", "batched", "what is held to the reference, or the reference to batched",
)

// TestProbe holds one engine of classic control to another through the harness, and prints
// the verdict: the stage that is the first at fault in most rollouts. Faults are planted
// under it; by itself it finds nothing.
func TestProbe(t *testing.T) {
	names := []string{"reference", *probedEngine}
	if names[1] == names[0] {
		names[0] = "batched"
	}
	if names[1] == "emulated" {
		t.Setenv("XDG_CACHE_HOME", t.TempDir()) // where kernels are kept that were compiled
	}
	var sides [2]classic.Maker
	for i, name := range names {
		var err error
		if sides[i], err = engines.Classic().Open(name, 1); err != nil {
			t.Fatal(err)
		}
	}
	v := mutants.Sighting{Check: names[1] + " held to " + names[0]}
	stages := map[string]int{}
	for _, e := range classic.Environments() {
		for i := range 12 {
			r := probed(e, i)
			report, err := r.Compare(t.Context(), sides[0], sides[1], parity.CompareOptions{})
			if err != nil {
				t.Fatal(err)
			}
			v.Rollouts += r.Num
			v.Steps += report.Steps * r.Num
			if report.First != nil {
				stages[report.First.Stage]++
				v.Caught, v.Detail = true, cmp.Or(v.Detail, report.Err().Error())
			}
		}
	}
	for _, stage := range slices.Sorted(maps.Keys(stages)) {
		if stages[stage] > stages[v.Stage] {
			v.Stage = stage
		}
	}
	if err := v.Print(); err != nil || v.Caught || v.Steps == 0 {
		t.Fatal(v.Detail, err)
	}
}

// TestFaultStages: the stages of faults that a TestProbe sees are known.
func TestFaultStages(t *testing.T) {
	task, err := classic.Make("CartPole-v1", 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	task.Autoreset = classic.SameStep // all stages are there
	faults, err := mutants.All()
	probed := slices.DeleteFunc(faults, func(f mutants.Fault) bool { return f.Probe == "" })
	if err != nil || len(probed) == 0 {
		t.Fatalf("%d faults, %v", len(probed), err)
	}
	for _, f := range probed {
		if !gymnasium.NewView(task).Known(f.Stage) {
			t.Errorf("fault %s: stage %q is not known", f.Name, f.Stage)
		}
	}
}

// probed is the i-th rollout of an environment, with some options, mode and policy.
func probed(e classic.Environment, i int) *gymnasium.Episodes {
	key := uint64(i)
	r := &gymnasium.Episodes{
		Environment: e.Name, Num: 10, Options: map[string]string{}, NumPy1: i == 4, Uniform: &key,
		Steps: 300,
		Autoreset: []classic.Autoreset{classic.NextStep, classic.SameStep,
			classic.Off}[i%3].String(),
	}
	for option, given := range map[string]struct {
		is    bool
		value string
	}{
		"sutton_barto_reward":   {i%4 == 1, "True"},
		"kinematics_integrator": {i == 6, "semi-implicit"},
		"book_or_nips":          {i%6 == 2, "nips"}, "max_episode_steps": {i%2 == 1, "30"},
	} {
		if given.is && slices.Contains(e.Options(), option) {
			r.Options[option] = given.value
		}
	}
	for k := range r.Num {
		r.Seeds = append(r.Seeds, int64(100*i+7919*k*k%10007))
	}
	if e.Shared {
		r.Autoreset, r.Seeds = classic.NextStep.String(), r.Seeds[:1]
	}
	if e.Dynamics == classic.CartPole && r.Autoreset == classic.Off.String() && i > 2 {
		r.Bound = 5000 // goes through angles of all sizes
	}
	if i%4 == 3 {
		r.Uniform, r.Network = nil, golden.Goal(e.Name)
	}
	return r
}
