package fuzz

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"lockstep"
	"lockstep/golden/vectors"
	"lockstep/internal/arbitrary"
)

// networkProfiles are those that differ in what an engine computes; sine and CSV
// are of the route's making.
func networkProfiles() []lockstep.Profile {
	return slices.DeleteFunc(
		lockstep.Profiles(),
		func(p lockstep.Profile) bool { return p.Sin != lockstep.SinFMA || p.CSV != lockstep.CSV2 },
	)
}

// oneStep opens an engine with a network and a profile and returns the logits and
// probabilities of step 100 of a route.
func oneStep(
	t *testing.T, i implementation, model []byte, p lockstep.Profile,
) (profile lockstep.Profile, logits, probs []float32) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "network.onnx")
	if err := os.WriteFile(path, model, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := i.open(path, p)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	job := lockstep.Job{
		Route:  past(waves()),
		Policy: lockstep.Zero{},
		Observe: func(step *lockstep.Step) {
			if step.Logits != nil {
				logits, probs = slices.Clone(step.Logits), slices.Clone(step.Probs)
			}
		},
	}
	for _, r := range s.Simulate(
		context.Background(), []lockstep.Job{job}, lockstep.Options{Shortcuts: lockstep.CostOnly},
	) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	return s.Profile(), logits, probs
}

// waves are 20 lataccels that give the network something to do.
func waves() []float64 {
	x := make([]float64, lockstep.ContextLength)
	for i := range x {
		x[i] = bins[(i*337)%1024] / 2
	}
	return x
}

// TestProfiles holds every engine, in every profile that it can have, to vectors
// that tell the variants of NumPy's exponential apart, on all 37 arguments on
// which they differ. A drive comes by none of those for thousands of steps.
func TestProfiles(t *testing.T) {
	probe()
	operations := map[lockstep.Exp]string{
		lockstep.ExpU: "softmax-numpy-U",
		lockstep.ExpF: "softmax-numpy-F",
	}
	differ := 0
	for k, v := range vectors.All(t, operations[lockstep.ExpU]) {
		other := vectors.All(t, operations[lockstep.ExpF])[k]
		if !slices.Equal(v.Float32s("x"), other.Float32s("x")) {
			break // from here on the two have rows of their own
		}
		apart := vectors.Difference(v.Want, other.Want) != ""
		if !apart {
			continue
		}
		differ++
		model := arbitrary.Fixed(v.Float32s("x"))
		for _, i := range machine.all {
			if i.again || machine.absent[i.name] != nil {
				continue
			}
			for _, p := range networkProfiles() {
				if !i.Computes(p) || p.Exp != lockstep.ExpU && p.Exp != lockstep.ExpF {
					continue // that of the C library is told from these by TestVectors
				}
				profile, logits, probs := oneStep(t, i, model, p)
				if d := vectors.Difference(logits, v.Float32s("x")); d != "" {
					t.Fatalf(
						"%s, %v: the network does not answer its fixed logits: %s", i.name, p, d,
					)
				}
				if profile.Exp != p.Exp {
					t.Errorf("%s has profile %v, want %v's exponential", i.name, profile, p)
				}
				if d := vectors.Difference(probs,
					vectors.All(t, operations[p.Exp])[k].Want); d != "" {
					t.Errorf("%s, %v: %s", i.name, p, d)
				}
			}
		}
	}
	if differ < 2 {
		t.Errorf("%d rows tell the variants apart, want those of all 37 arguments", differ)
	}
}

// TestNegativeLogits: where no logit is positive, or none is negative, all engines have the same
// probabilities: the largest logit of a step decides, and no other number that it begins from.
func TestNegativeLogits(t *testing.T) {
	probe()
	for _, base := range []float32{-1, -90, 60} {
		row := make([]float32, lockstep.VocabSize)
		for k := range row {
			row[k] = base - float32(k*337%7)/3
		}
		model, want := arbitrary.Fixed(row), map[lockstep.Exp][]float32{}
		for _, i := range machine.all {
			if i.again || machine.absent[i.name] != nil {
				continue
			}
			held := map[lockstep.Exp]bool{}
			for _, p := range networkProfiles() {
				if !i.Computes(p) || held[p.Exp] {
					continue
				}
				held[p.Exp] = true
				profile, _, probs := oneStep(t, i, model, p)
				if want[profile.Exp] == nil {
					want[profile.Exp] = probs
				}
				if d := vectors.Difference(probs, want[profile.Exp]); d != "" {
					t.Errorf("logits of %v and less: %s, %v: %s", base, i.name, profile, d)
				}
			}
		}
	}
}

// TestProfilesDiffer: each pair of profiles of the network has other logits on one
// step of the embedded network, and every engine those of its profile. An engine
// that has its machine's is held to that one.
func TestProfilesDiffer(t *testing.T) {
	probe()
	want := map[lockstep.Profile][]float32{}
	var order []lockstep.Profile
	model := arbitrary.Reweighted{Seed: 1, Scale: 0.1}.Model()
	for _, i := range machine.all {
		if i.again || machine.absent[i.name] != nil {
			continue
		}
		for _, p := range networkProfiles() {
			if p.Exp != lockstep.ExpU || !i.Computes(p) {
				continue // TestProfiles
			}
			profile, logits, _ := oneStep(t, i, model, p)
			if want[profile] == nil {
				for _, other := range order {
					if slices.Equal(logits, want[other]) {
						t.Errorf("profiles %v and %v have the same logits", profile, other)
					}
				}
				want[profile], order = logits, append(order, profile)
			}
			if d := vectors.Difference(logits, want[profile]); d != "" {
				t.Errorf("%s, %v: logits: %s", i.name, profile, d)
			}
		}
	}
	if len(order) != 12 {
		t.Errorf("%d profiles of the network, want 12", len(order))
	}
}
